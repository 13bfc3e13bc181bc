"""The runs behind the results, in their order.

    python benchmarks/runs.py --output DIR [--workers 2] [--dry-run] [--only NAME ...]

Each line is one command of unionsnn; what is finished is not trained again. `--dry-run` prints the
hours that are left (of BREC, those of all pairs). At the end the record of every finished run is
copied to benchmarks/records/; `make results` writes the tables of the pages from them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from unionsnn.base.errors import DamagedFileError, RequestError, UnionsnnError
from unionsnn.base.files import read_json
from unionsnn.config.identity import config_hash
from unionsnn.training.records import Result, sealed

RECORDS = Path(__file__).parent / "records"

_FOUR = 'model=gin model=union_gin "model=unionsnn gate=paper" model=unionsnn'
_FOLDS = "protocol=cross_validation trainer.max_epochs=60"
_FOLDS_OF_30 = "protocol=cross_validation trainer.max_epochs=30"


def _short_zinc(epochs: int = 30) -> str:
    """Overrides of shortened runs on ZINC."""
    return (
        "data=zinc10k data.batch_size=128 model.parameter_budget=100000 protocol=repeated_seeds "
        f"protocol.seeds=4 trainer.max_epochs={epochs}"
    )


_SHORT = "protocol.seeds=1 trainer.max_epochs=25"
_SEEDS = "protocol=repeated_seeds protocol.seeds=4 trainer.max_epochs=60"


def _controlled(model: str, *controls: str, gate: str = "") -> str:
    """A plain model, its union variant, and the variant under each control."""
    union = f"model=union_{model} {gate}".strip()
    variants = [union, *(f"{union} coefficient.control={control}" for control in controls)]
    quoted = (f'"{words}"' if " " in words else words for words in variants)
    return " ".join([f"model={model}", *quoted])


BONDS = "data.edge_features=labels"
WANTED = f"model=union_gin gate=all_columns {BONDS}"
"""What docs/default_gate.md found best."""

CONTROLS = ("coefficient.control=shuffled_within", "coefficient.control=shuffled")
_GINE_AND_WANTED = (f"model=gin {BONDS}", WANTED)
_WITH_CONTROLS = (*_GINE_AND_WANTED, *(f"{WANTED} {control}" for control in CONTROLS))
_BASELINES = "model=ppgn model=nested_gin model=drop_gin model=gatedgcn_lspe model=mewispool"

SHORT = {
    "MUTAG": f"{_FOUR} -- data=mutag {_FOLDS}",
    "PROTEINS": f"{_FOUR} -- data=proteins {_FOLDS}",
    "ENZYMES": f"{_FOUR} -- data=enzymes {_FOLDS}",
    "zinc10k GIN": f"{_controlled('gin', 'shuffled', 'shuffled_within')} -- {_short_zinc()}",
    "zinc10k GCN": f"{_controlled('gcn', 'shuffled')} -- {_short_zinc()}",
    "zinc10k GatedGCN": f"{_controlled('gatedgcn', 'shuffled')} -- {_short_zinc()}",
    "4-cycles": "model=gin model=unionsnn model=union_gin -- data=4cycles trainer.max_epochs=60",
    "6-cycles": "model=gin model=unionsnn model=union_gin -- data=6cycles trainer.max_epochs=60",
    "molbbbp": f"model=gin model=union_gin -- data=molbbbp protocol.select_on=val_rocauc {_SEEDS}",
    "Cora GCN": f"model=gcn model=union_gcn -- data=cora {_SEEDS}",
    "Cora GIN": f"model=gin model=union_gin -- data=cora {_SEEDS}",
    "Photo": f"model=gcn model=union_gcn -- data=photo {_SEEDS}",
    "PROTEINS GCN": f"model=gcn model=union_gcn -- data=proteins {_FOLDS}",
    "PROTEINS SAGE": f"model=sage model=union_sage -- data=proteins {_FOLDS}",
    "ENZYMES SAGE": f"model=sage model=union_sage -- data=enzymes {_FOLDS}",
    "zinc10k bonds": f"{shlex.join(_WITH_CONTROLS)} -- {_short_zinc()} optimizer.lr=0.002 "
    "optimizer.schedule=cosine protocol.patience=1000",
    "MUTAG baselines": f"{_BASELINES} -- data=mutag {_FOLDS_OF_30}",
    "ENZYMES baselines": f"{_BASELINES} -- data=enzymes {_FOLDS_OF_30}",
    "4-cycles PPGN": "model=ppgn -- data=4cycles_small data.num_train=1400 "
    "model.hidden_channels=32 trainer.max_epochs=15",
    "quick start": "model=gin model=unionsnn -- data=4cycles_small",
    "zinc10k GPS": f"experiment=zinc/gps experiment=zinc/union_gps -- {_SHORT}",
    "zinc10k Graphormer": f"experiment=zinc/graphormer experiment=zinc/unionormer -- {_SHORT}",
}
"""Arguments of `unionsnn compare`, by what is compared: short trainings."""


def _zinc(parameters: int, seeds: int, epochs: int = 200) -> str:
    """Overrides of ZINC with one cycle of the learning rate.

    Batch size and depth were chosen by validation: docs/results.md.
    """
    return (
        "data=zinc10k data.batch_size=32 optimizer.lr=0.002 optimizer.schedule=onecycle "
        f"model.parameter_budget={parameters} protocol=repeated_seeds protocol.seeds={seeds} "
        f"protocol.patience=1000 trainer.max_epochs={epochs}"
    )


def _ogb(data: str, seeds: int) -> str:
    """Overrides of an OGB set, by its official split and metric."""
    return (
        f"data={data} protocol=repeated_seeds protocol.seeds={seeds} "
        "protocol.select_on=val_rocauc trainer.max_epochs=60"
    )


HELPS = {
    "a": "gate.features=[raw]",
    "cyclomatic number": "gate.features=[cyclomatic]",
    "sizes": "gate.features=[size]",
    "numbers of cycles": "gate.features=[cycles]",
    "all columns with sizes": "gate.features=[raw,excess,cyclomatic,size,eigenvalues,distances,"
    "marked,cycles]",
    **{f"a at radius {r}": f"gate.features=[raw] coefficient.radius=[{r}]" for r in (1, 2, 3)},
}
"""What an edge may tell, each alone; at radii 1 to 3 unless given."""

CONTROLLED = ("a", "numbers of cycles", "all columns with sizes")
"""Those that are shuffled, too."""

PAIRED = (
    ("a", "cyclomatic number"),
    ("a", "sizes"),
    ("a", "numbers of cycles"),
    ("all columns with sizes", "a"),
    ("all columns with sizes", "numbers of cycles"),
)
"""Those that are compared: does the first tell more than the second?"""


def helps_words(name: str, control: str = "") -> str:
    """Return the overrides of UnionGIN with one of `HELPS` as edge feature."""
    words = f"model=union_gin gate=default gate.inject=edge {HELPS[name]} {control}"
    return words.strip()


def _helps(common: str) -> str:
    """GIN, UnionGIN with each feature alone, and the controls of some."""
    cells = [helps_words(name) for name in HELPS]
    cells += [helps_words(name, control) for control in CONTROLS for name in CONTROLLED]
    return f"compare model=gin {shlex.join(cells)} -- {common}"


_CYCLES = (
    "data=6cycles data.num_train=2000 data.num_validation=400 data.num_test=1000 "
    "protocol=repeated_seeds protocol.seeds=4 trainer.max_epochs=30"
)
_HELPS_ZINC = f"{_short_zinc(epochs=20)} optimizer.lr=0.002 optimizer.schedule=onecycle"

TRIALS = "zinc10k 500,000, trials"
"""Trials of settings for 500,000 parameters, judged by validation."""

_TRIED = (
    *(f"model.num_layers={depth}" for depth in (3, 6, 8)),
    "optimizer.lr=0.001",
    "model.num_layers=8 trainer.max_epochs=200",
    "model.dropout=0.1 trainer.max_epochs=200",
)

# The paper's grid has 108 cells, 1,080 trainings of ten folds; these 4 are what fits.
_NESTED = f"{_FOLDS} 'protocol.grid={{optimizer.lr:[0.005,0.001],model.dropout:[0.0,0.2]}}'"

# Left out of table 3, by their hours on the three sets: 3WL-GNN 56, DropGIN 6, UGformer 5,
# NestedGIN 3.
_UNDER_2_HOURS = (
    "gat,mewispool,curvgn,gatedgcn_lspe,graphsnn,gcn,union_gcn,gatedgcn,union_gatedgcn,sage,"
    "union_sage,gin,union_gin,unionsnn"
)
FULL = {
    "zinc10k 100,000": "compare "
    + shlex.join(
        [*_WITH_CONTROLS, f"model=union_gin {BONDS}", f"model=union_gin gate=paper {BONDS}"]
    )
    + f" -- {_zinc(100_000, 4)}",
    "zinc10k 100,000 without bonds": f"train model=gin {_zinc(100_000, 4)}",
    "zinc10k 500,000": f"compare {shlex.join(_GINE_AND_WANTED)} -- {_zinc(500_000, 2)}",
    TRIALS: "compare "
    + shlex.join([WANTED, *(f"{WANTED} {keys}" for keys in _TRIED)])
    + f" -- {_zinc(500_000, 1, epochs=40)}",
    "what helps: ENZYMES": _helps(f"data=enzymes {_FOLDS}"),
    "what helps: 6-cycles": _helps(_CYCLES),
    "what helps: PROTEINS": _helps(f"data=proteins {_FOLDS_OF_30}"),
    "what helps: zinc10k": _helps(f"{BONDS} {_HELPS_ZINC}"),
    **{
        f"nested: {data}": f"compare model=deep_sets {_FOUR} -- data={data} {_NESTED}"
        for data in ("mutag", "enzymes", "proteins")
    },
    "table 3": "reproduce table3 --datasets MUTAG,ENZYMES,PROTEINS "
    f"--models {_UNDER_2_HOURS} --available-only --",
    **{
        f"plug-in {model}: {data}": f"compare {_controlled(model, *controls, gate='gate=paper')} "
        f"-- experiment=tu data={data}"
        for data, controls in (("mutag", ("constant", "shuffled")), ("enzymes", ()))
        for model in ("gcn", "gatedgcn", "sage", "gin")
    },
    "gates: mutag": 'compare model=gin "model=union_gin gate=paper" "model=union_gin '
    'gate=authors-code" "model=unionsnn gate=paper" "model=unionsnn gate=authors-code" -- '
    "experiment=tu data=mutag",
    # The paper does not say whether its networks read labels or attributes of nodes.
    "table 3, attributes": "reproduce table3 --datasets ENZYMES --models gin,unionsnn "
    "--available-only -- data.features=attributes",
    "table 6": "reproduce table6 --available-only --",
    "table 7": "reproduce table7 --grid --available-only --",
    "table 8": "reproduce table8 --datasets MUTAG,PROTEINS --available-only --",
    "table 9": "reproduce table9 --datasets MUTAG,PROTEINS --available-only --",
    "table 10": "reproduce table10 --datasets MUTAG,PROTEINS --available-only --",
    "molbbbp with bonds": f"compare {shlex.join(_GINE_AND_WANTED)} -- {_ogb('molbbbp', 5)}",
    "molhiv with bonds": f"compare {shlex.join(_GINE_AND_WANTED)} -- {_ogb('molhiv', 2)}",
    "zinc10k GPS with bonds": "compare experiment=zinc/gps experiment=zinc/union_gps -- "
    f"{BONDS} protocol.seeds=2 protocol.patience=1000 trainer.max_epochs=200",
    "nested: nci1": f"compare model=deep_sets {_FOUR} -- data=nci1 {_NESTED}",
}
"""Commands of trainings at full length, with controls."""

GOALS = {"zinc10k 100,000": (0.100, 0.090), "zinc10k 500,000": (0.090, 0.075)}
"""Test error wanted at most of `WANTED`, and the goal."""

COMMANDS = {name: f"compare {arguments}" for name, arguments in SHORT.items()} | FULL
"""All commands, by what they show."""

PAIRS = {
    "BREC: MEWISPool": ("model=mewispool", 0.2),
    "BREC: GatedGCN-LSPE": ("model=gatedgcn_lspe", 0.4),
    "BREC: NestedGIN": ("model=nested_gin", 2.8),
    "BREC: PPGN": ("model=ppgn", 3.7),
    "BREC: DropGIN": ("model=drop_gin", 5.3),
}
"""Networks that train on all of BREC's 400 pairs, and core-hours of that, as estimated."""


def command_of(name: str) -> str:
    """Return what a name of `COMMANDS` or `PAIRS` runs."""
    return COMMANDS.get(name) or f"expressivity brec --trained {PAIRS[name][0]}"


def run(name: str, output: Path) -> int:
    """Run one command, what it prints into a file; return its exit status."""
    program = str(Path(sys.executable).with_name("unionsnn"))
    fixed = [f"paths.output={output / 'runs'}"]
    fixed += ["trainer.progress=none"] if name in COMMANDS else []
    with (output / f"{name}.txt").open("w") as file:
        arguments = [*shlex.split(command_of(name)), *fixed]
        status = subprocess.run([program, *arguments], stdout=file, stderr=file).returncode
    print(f"{name}: exit status {status}", flush=True)
    return status


def hours(name: str, output: Path) -> dict[str, float]:
    """Return how long each run of a command will train at most, as its dry run estimates it."""
    if name in PAIRS:
        return {name: PAIRS[name][1]}
    program = str(Path(sys.executable).with_name("unionsnn"))
    command, *arguments = shlex.split(COMMANDS[name])
    asked = [program, command, "--dry-run", "--json", *arguments, f"paths.output={output / 'runs'}"]
    plans = json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)
    each = plans if isinstance(plans, list) else [plans]
    # Of finished runs there is no estimate.
    return {p["config_hash"]: (p["seconds_at_most"] or 0) / 3600 for p in each}


def read_checked(path: Path) -> dict[str, Any]:
    """Read the file of a run, or of BREC's pairs.

    Raises:
        DamagedFileError: It is altered, or its hash is not that of its configuration; names it.
    """
    try:
        content: dict[str, Any] = read_json(path)
        if "pairs" not in content:
            Result.from_json(content)
        own = config_hash(content["config"])
    except (OSError, LookupError, TypeError, DamagedFileError) as error:
        raise DamagedFileError(
            f"{path}: is no record of this package, or damaged ({error})"
        ) from None
    if content["config_hash"] != own:
        raise DamagedFileError(
            f"{path}: its config_hash is {content['config_hash']}, that of its configuration {own}"
        )
    return content


def keep_records(output: Path) -> float:
    """Copy the records of finished runs; return the hours that they took.

    Left out are runs that ``force=true`` set aside, trials (``debug``) and, with a line that says
    how many, unfinished ones.

    Raises:
        RequestError: The folder has no records.
        DamagedFileError: One is altered; nothing is copied.
    """
    folder = output / "runs"
    paths = [p for p in sorted(folder.rglob("results.json")) if ".old-" not in str(p.parent)]
    trained = {path: read_checked(path) for path in paths}
    trained = {p: record for p, record in trained.items() if not record["config"].get("debug")}
    paired = {path: read_checked(path) for path in sorted((folder / "brec").rglob("pairs.json"))}
    if not trained and not paired:
        raise RequestError(f"{folder} holds no record; name the folder above runs/.")
    if left := sum(r["state"] != "finished" for r in (*trained.values(), *paired.values())):
        print(f"{left} unfinished, not copied")
    seconds = 0.0
    for path, record in trained.items():
        if record["state"] == "finished":
            # Folders of one machine mean nothing on another.
            for section, key in (("paths", "data"), ("paths", "output"), ("data", "mirror")):
                record["config"][section][key] = None
            record = sealed(record)
            kept = RECORDS / path.relative_to(folder)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(record, indent=1) + "\n")
            seconds += record["seconds"]
    for path, record in paired.items():
        if record["state"] == "finished":
            record["config"]["paths"] = {"data": None, "output": "runs"}
            kept = RECORDS / "brec" / record["model"] / f"{path.parent.name}.json"
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(record, separators=(",", ":")) + "\n")
            seconds += sum(pair["seconds"] for pair in record["pairs"])
    return seconds / 3600


def main() -> None:
    """Run the commands, or print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--workers", type=int, default=2)
    names = [*COMMANDS, *PAIRS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--dry-run", action="store_true", help="print the commands and their hours only"
    )
    given = parser.parse_args()
    if given.dry_run:
        # Commands may ask for the same runs.
        total: dict[str, float] = {}
        for name in given.only:
            own = hours(name, given.output)
            total |= own
            told = f"{sum(own.values()):5.1f} h, in all {sum(total.values()):5.1f} h"
            print(f"{told}  {name}: unionsnn {command_of(name)}")
        return
    given.output.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(given.workers) as executor:
        statuses = list(executor.map(lambda name: run(name, given.output), given.only))
    try:
        print(f"{keep_records(given.output):.1f} core-hours")
    except UnionsnnError as error:
        sys.exit(f"no record is copied: {error}")
    # A command that a signal has ended has a negative status.
    sys.exit(max(map(abs, statuses)))


if __name__ == "__main__":
    main()
