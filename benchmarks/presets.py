"""Presets of the gate side by side: which one shall be the default?

    python benchmarks/presets.py gate|edge --output DIR [--workers 2] [--dry-run] [--test]

UnionGIN with each preset, and plain GIN, on several sets: `gate` compares gates without features of
edges, `edge` where the coefficient enters (gate.inject), its columns, and features of edges. Every
run is `unionsnn train`, so what is finished is not trained again. A preset is chosen by validation
figures alone: docs/default_gate.md. `--test` prints the test figures as well, to be looked at once,
after the choice.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETS = {
    "zinc10k": (
        "data=zinc10k protocol=repeated_seeds protocol.seeds=2 protocol.train_size=2000 "
        "trainer.max_epochs=20"
    ),
    "4cycles": "data=4cycles_small trainer.max_epochs=30",
    "6cycles": (
        "data=6cycles data.num_train=2000 data.num_validation=400 data.num_test=1000 "
        "trainer.max_epochs=30"
    ),
    "MUTAG": "data=mutag protocol=cross_validation trainer.max_epochs=60",
    "molbbbp": (
        "data=molbbbp protocol=repeated_seeds protocol.seeds=2 protocol.select_on=val_rocauc "
        "trainer.max_epochs=20"
    ),
    "ENZYMES": "data=enzymes protocol=cross_validation protocol.folds=5 trainer.max_epochs=60",
}
"""Overrides of each set."""

_LINEAR = "gate.layers=1 gate.normalization=none gate.residual=true"


def linear(features: str, radius: str = "[1]") -> str:
    """Overrides of a gate 1 + linear map."""
    return f"model=union_gin coefficient.radius={radius} gate.features={features} {_LINEAR}"


ALL = linear("[raw,excess,cyclomatic]", "[1,2,3]")
PRESETS = {
    "plain GIN": "model=gin",
    "paper": "model=union_gin gate=paper",
    "normalized": linear("[normalized]"),
    "raw": linear("[raw]"),
    "excess": linear("[excess]"),
    "cyclomatic": linear("[cyclomatic]"),
    "raw, excess, cyclomatic": linear("[raw,excess,cyclomatic]"),
    "raw, cyclomatic; 2": linear("[raw,cyclomatic]", "[2]"),
    "raw, cyclomatic; 1, 2": linear("[raw,cyclomatic]", "[1,2]"),
    "raw, cyclomatic; 1, 2, 3": linear("[raw,cyclomatic]", "[1,2,3]"),
    "raw, excess, cyclomatic; 1, 2, 3": ALL,
    "... with softmax": ALL.replace("normalization=none", "normalization=neighborhood"),
    "... without 1 +": ALL.replace("residual=true", "residual=false"),
}
"""Overrides of each preset; radius 1 where none is named, the excess always at radius 1."""

BONDS = ("zinc10k", "MUTAG", "molbbbp")
"""Sets whose edges have labels."""

_DEFAULT = "raw,excess,cyclomatic"
_MORE = f"{_DEFAULT},eigenvalues,distances,marked,cycles"


def edge(inject: str, features: str) -> str:
    """Overrides of UnionGIN that reads the features of an edge at radii 1 to 3."""
    return f"model=union_gin gate=default gate.inject={inject} gate.features=[{features}]"


EDGE_PRESETS = {
    "plain GIN": "model=gin",
    "`paper` as weights": "model=union_gin gate=paper",
    "default as weights": edge("gate", _DEFAULT),
    "default as edge feature": edge("edge", _DEFAULT),
    "default as both": edge("both", _DEFAULT),
    "cycles as edge feature": edge("edge", "cycles"),
    "default, cycles as weights": edge("gate", f"{_DEFAULT},cycles"),
    "default, cycles as edge feature": edge("edge", f"{_DEFAULT},cycles"),
    "all columns as edge feature": edge("edge", _MORE),
}
"""Overrides of each preset; labels of edges are read where there are any."""

METRICS = {"zinc10k": "mae", "molbbbp": "rocauc"}
"""Metric of each set; accuracy elsewhere."""


@dataclass(frozen=True)
class Study:
    """What is compared: overrides of sets and presets by name."""

    sets: Mapping[str, str]
    presets: Mapping[str, str]

    def command(self, name: str, preset: str, output: Path) -> list[str]:
        """The command of one cell of the table."""
        slug = re.sub(r"\W+", "-", f"{name}/{preset}").strip("-")
        fixed = f"trainer.progress=none logger=none run_dir={output}/{slug}"
        return ["train", *self.sets[name].split(), *self.presets[preset].split(), *fixed.split()]


_WITH_LABELS = {f"{name}, labels": f"{SETS[name]} data.edge_features=labels" for name in BONDS}
STUDIES = {
    "gate": Study(SETS, PRESETS),
    "edge": Study(
        {
            **_WITH_LABELS,
            **SETS,
            "PROTEINS": (
                "data=proteins protocol=cross_validation protocol.folds=5 trainer.max_epochs=30"
            ),
        },
        EDGE_PRESETS,
    ),
}


def metric(name: str) -> str:
    """Name of the metric of a set."""
    return METRICS.get(name.partition(",")[0], "accuracy")


def run(command: list[str]) -> dict[str, Any]:
    """Train one cell, unless it is finished, and return its record."""
    unionsnn = str(Path(sys.executable).with_name("unionsnn"))
    subprocess.run([unionsnn, *command], check=True, stdout=subprocess.DEVNULL)
    folder = command[-1].removeprefix("run_dir=")
    print(f"{folder}: done", flush=True)
    return json.loads((Path(folder) / "results.json").read_text())


def figure(record: dict[str, Any], name: str, part: str) -> float:
    """Mean of the set's metric over the repetitions, at the selected epoch."""
    key = f"{part}_{metric(name)}"
    return statistics.fmean(row["metrics"][key] for row in record["repetitions"])


def ranks(figures: dict[str, float], name: str) -> dict[str, float]:
    """Rank of each preset on a set, 1 for the best; equal figures share the mean of their ranks."""
    sign = 1 if metric(name) == "mae" else -1
    keys = {preset: sign * round(value, 4) for preset, value in figures.items()}
    return {
        preset: 0.5 + sum(0.5 * (other == key) + (other < key) for other in keys.values())
        for preset, key in keys.items()
    }


def print_table(study: Study, records: dict[tuple[str, str], dict[str, Any]], part: str) -> None:
    """Print figures and mean ranks on one part, in Markdown."""
    values = {
        name: {preset: figure(records[name, preset], name, part) for preset in study.presets}
        for name in study.sets
    }
    places = {name: ranks(column, name) for name, column in values.items()}
    lines = [
        ["gate of UnionGIN", *study.sets, "mean rank"],
        ["---", *["---:"] * (len(study.sets) + 1)],
    ]
    for preset in study.presets:
        cells = [f"{values[name][preset]:.3f}" for name in study.sets]
        rank = statistics.fmean(places[name][preset] for name in study.sets)
        lines.append([preset, *cells, f"{rank:.1f}"])
    print(f"\n{part} figures\n")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def main() -> None:
    """Train all cells, then print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    parser.add_argument("--test", action="store_true", help="print the test figures as well")
    given = parser.parse_args()
    study = STUDIES[given.study]
    cells = [(name, preset) for name in study.sets for preset in study.presets]
    commands = [study.command(*cell, given.output) for cell in cells]
    if given.dry_run:
        for command in commands:
            print("unionsnn", *command)
        return
    with ThreadPoolExecutor(given.workers) as executor:
        records = dict(zip(cells, executor.map(run, commands), strict=True))
    for part in ("val", "test") if given.test else ("val",):
        print_table(study, records, part)


if __name__ == "__main__":
    main()
