"""The models on real data: the runs behind the README's table, in their order.

    python benchmarks/family.py --output DIR [--workers 2] [--dry-run] [--only NAME ...]

Each line is one `unionsnn compare`; what is finished is not trained again. At the end the record of
every finished run is copied to benchmarks/records/, and the time of all of them is printed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RECORDS = Path(__file__).parent / "records"

_FOUR = 'model=gin model=union_gin "model=unionsnn gate=paper" model=unionsnn'
_FOLDS = "protocol=cross_validation trainer.max_epochs=60"
_ZINC = (
    "data=zinc10k data.batch_size=128 model.parameter_budget=100000 protocol=repeated_seeds "
    "protocol.seeds=4 trainer.max_epochs=30"
)
_SHORT = "protocol.seeds=1 trainer.max_epochs=25"
_SEEDS = "protocol=repeated_seeds protocol.seeds=4 trainer.max_epochs=60"


def _controlled(model: str, *controls: str) -> str:
    """A plain model, its union variant, and the variant under each control."""
    named = [f'"model=union_{model} coefficient.control={control}"' for control in controls]
    return " ".join([f"model={model}", f"model=union_{model}", *named])


COMMANDS = {
    "MUTAG": f"{_FOUR} -- data=mutag {_FOLDS}",
    "PROTEINS": f"{_FOUR} -- data=proteins {_FOLDS}",
    "ENZYMES": f"{_FOUR} -- data=enzymes {_FOLDS}",
    "zinc10k GIN": f"{_controlled('gin', 'shuffled', 'shuffled_within')} -- {_ZINC}",
    "zinc10k GCN": f"{_controlled('gcn', 'shuffled')} -- {_ZINC}",
    "zinc10k GatedGCN": f"{_controlled('gatedgcn', 'shuffled')} -- {_ZINC}",
    "4-cycles": "model=gin model=unionsnn model=union_gin -- data=4cycles trainer.max_epochs=60",
    "6-cycles": "model=gin model=unionsnn model=union_gin -- data=6cycles trainer.max_epochs=60",
    "molbbbp": f"model=gin model=union_gin -- data=molbbbp protocol.select_on=val_rocauc {_SEEDS}",
    "Cora": f"model=gcn model=union_gcn model=gin model=union_gin -- data=cora {_SEEDS}",
    "Photo": f"model=gcn model=union_gcn -- data=photo {_SEEDS}",
    "PROTEINS GCN": f"model=gcn model=union_gcn -- data=proteins {_FOLDS}",
    "PROTEINS SAGE": f"model=sage model=union_sage -- data=proteins {_FOLDS}",
    "ENZYMES SAGE": f"model=sage model=union_sage -- data=enzymes {_FOLDS}",
    "zinc10k GPS": f"experiment=zinc/gps experiment=zinc/union_gps -- {_SHORT}",
    "zinc10k Graphormer": f"experiment=zinc/graphormer experiment=zinc/unionormer -- {_SHORT}",
}
"""Arguments of `unionsnn compare`, by what is compared."""


def run(name: str, output: Path) -> int:
    """Run one comparison, what it prints into a file; return its exit status."""
    program = str(Path(sys.executable).with_name("unionsnn"))
    fixed = ["trainer.progress=none", f"paths.output={output / 'runs'}"]
    with (output / f"{name}.txt").open("w") as file:
        arguments = ["compare", *shlex.split(COMMANDS[name]), *fixed]
        status = subprocess.run([program, *arguments], stdout=file, stderr=file).returncode
    print(f"{name}: exit status {status}", flush=True)
    return status


def keep_records(output: Path) -> float:
    """Copy the records of finished runs; return the hours that they took."""
    seconds = 0.0
    for path in sorted((output / "runs").glob("*/*/*/results.json")):
        record = json.loads(path.read_text())
        if record["state"] == "finished":
            # Folders of one machine mean nothing on another.
            for section, key in (("paths", "data"), ("paths", "output"), ("data", "mirror")):
                record["config"][section][key] = None
            kept = RECORDS / path.relative_to(output / "runs").parent.with_suffix(".json")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(record, indent=1) + "\n")
            seconds += record["seconds"]
    return seconds / 3600


def main() -> None:
    """Run the comparisons, or print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    given = parser.parse_args()
    if given.dry_run:
        for name in given.only:
            print("unionsnn compare", COMMANDS[name])
        return
    given.output.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(given.workers) as executor:
        statuses = list(executor.map(lambda name: run(name, given.output), given.only))
    print(f"{keep_records(given.output):.1f} core-hours")
    sys.exit(max(statuses))


if __name__ == "__main__":
    main()
