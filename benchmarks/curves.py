"""Validation curves of several runs in one figure, as docs/ shows them.

Usage: python benchmarks/curves.py METRIC FIGURE.svg RUN_FOLDER ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

from unionsnn.config.combinations import plain_model

LINES = {"plain": "--", "union": "-"}


def main() -> None:
    metric, target, *folders = sys.argv[1:]
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.add_subplot()
    colors: dict[str, str] = {}
    for folder in map(Path, folders):
        name = json.loads((folder / "config.json").read_text())["model"]["name"]
        plain = plain_model(name)
        for path in sorted((folder / "repetitions").glob("*.json")):
            values = [epoch[metric] for epoch in json.loads(path.read_text())["curves"]]
            colors.setdefault(plain, f"C{len(colors)}")
            line = LINES["plain" if name == plain else "union"]
            axes.plot(range(1, len(values) + 1), values, line, color=colors[plain], label=name)
    axes.set(xlabel="epoch", ylabel=metric)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
