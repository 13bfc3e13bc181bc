"""Which of BREC's 400 pairs trained networks tell apart.

    python benchmarks/expressivity.py --output DIR [--workers 2] [--only WORD] [--sample SHARE]
        [--out TABLE] [--dry-run]

GIN, UnionGIN, UnionSNN, the constant controls of the two, and NestedGIN with subgraphs of one hop
on all pairs; every other model, the constant controls of those with a gate, and controls that draw,
on a fixed sample of 15 % of each category. Every run is `unionsnn expressivity brec --trained`, so
what is finished is not trained again, pair by pair.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from unionsnn.config.compose import config_folder
from unionsnn.reports.table import show
from unionsnn.reports.views.trained_expressivity import trained_report

FULL = (
    "model=gin",
    "model=union_gin",
    "model=unionsnn",
    "model=union_gin coefficient.control=constant",
    "model=unionsnn coefficient.control=constant",
    "model=nested_gin model.encodings.subgraph=1",
)
CONTROLS = (
    "model=unionsnn coefficient.control=random",
    "model=unionsnn coefficient.control=shuffled",
    "model=unionsnn coefficient.control=shuffled_within",
    "model=unionsnn gate=paper",
    "model=union_gin gate=paper",
)
SAMPLE = 0.15


def runs(share: float | None) -> list[tuple[str, float | None]]:
    """Overrides and sample of each run; a share given stands for all of them."""
    models = sorted(path.stem for path in (config_folder() / "model").glob("*.yaml"))
    others = [f"model={model}" for model in models]
    others += [f"model={m} coefficient.control=constant" for m in models if m.startswith("union")]
    return [(words, share) for words in FULL] + [
        (words, share or SAMPLE) for words in (*CONTROLS, *others) if words not in FULL
    ]


def command(words: str, share: float | None, output: Path, workers: int) -> list[str]:
    """The command line of a run."""
    part = [] if share is None else ["--sample", str(share)]
    rest = [*words.split(), f"protocol.workers={workers}", f"paths.output={output}"]
    return ["unionsnn", "expressivity", "brec", "--trained", *part, "--json", *rest]


def run(words: list[str]) -> dict[str, Any]:
    """Carry a run out, or read what it left, and return its record."""
    program = [sys.executable, "-c", "from unionsnn.cli import main; main()", *words[1:]]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument("--workers", type=int, default=2, help="processes of a run")
    parser.add_argument("--only", default="", help="runs whose overrides contain this")
    parser.add_argument("--sample", type=float, help="of every run, in place of all and 0.15")
    parser.add_argument("--out", type=Path, help="table to write, .md, .csv or .tex")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    arguments = parser.parse_args()
    records = []
    for words, share in runs(arguments.sample):
        if arguments.only not in words:
            continue
        line = command(words, share, arguments.output, arguments.workers)
        print(" ".join(line), file=sys.stderr, flush=True)
        if not arguments.dry_run:
            records.append(run(line))
    if records:
        report = trained_report(records)
        show(report.tables)
        if arguments.out is not None:
            report.write(arguments.out)


if __name__ == "__main__":
    main()
