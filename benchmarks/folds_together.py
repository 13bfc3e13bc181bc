"""Folds, and cells of a grid, in one step and one after another: operations and time of an epoch.

Usage: python benchmarks/folds_together.py [--epochs 3] [--rounds 3] [--sets mutag proteins]
       [--models gin unionsnn] [--what folds cells]

Folds are all ten; cells are twelve of the paper's grid (four learning rates, three probabilities of
dropout) in one fold. An epoch is one of all of them, with validation and callbacks: what `unionsnn
train` takes for 1 + n epochs, less what it takes for one, divided by n. Operations are those that
reach torch's dispatcher below autograd, but for views: each is a launch on a GPU. Times are CPU
seconds of the process on one thread, alternately; the ratio is the median of the rounds'.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from unionsnn.config.compose import compose_config
from unionsnn.runs.experiment import run_experiment

MODELS = ["gin", "union_gin", "unionsnn", "gatedgcn"]
GRID = "{optimizer.lr:[0.02,0.01,0.005,0.001],model.dropout:[0.0,0.2,0.4]}"
WHAT = {"folds": [], "cells": [f"protocol.grid={GRID}", "protocol.only=[0]"]}
# Views, which launch nothing.
VIEWS = {
    *("view", "_unsafe_view", "reshape", "expand", "transpose", "t", "select", "slice", "detach"),
    *("unsqueeze", "squeeze", "split", "split_with_sizes", "alias", "permute", "unbind"),
    *("as_strided", "lift_fresh", "empty", "_local_scalar_dense"),
}


class Count(TorchDispatchMode):
    """Counts operations but for views."""

    number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += func.__name__.partition(".")[0] not in VIEWS
        return func(*args, **(kwargs or {}))


def run(folder: Path, words: list[str], together: str, epochs: int) -> float:
    """Train; return the seconds."""
    config = compose_config(
        [
            *(*words, "protocol=cross_validation"),
            *(f"protocol.together={together}", f"trainer.max_epochs={epochs}"),
            *("trainer.progress=none", "trainer.keep_checkpoints=false", "force=true"),
            *("trainer.accelerator=cpu", f"paths.output={folder}"),
        ]
    )
    begin = time.process_time()
    run_experiment(config)
    return time.process_time() - begin


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["mutag", "proteins"])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=[*WHAT])
    given = parser.parse_args()
    columns = ("data", "model", "", "operations, one by one", "in one step", "s", "s", "ratio")
    print("|", " | ".join(columns), "|")
    print("|---|---|---|---|---|---|---|---|")
    for data, model, what in (
        (data, model, what) for data in given.sets for model in given.models for what in given.what
    ):
        words = [f"data={data}", f"model={model}", *WHAT[what]]
        counts: dict[str, int] = {}
        seconds: dict[str, list[float]] = {"false": [], "true": []}
        with tempfile.TemporaryDirectory() as folder:
            for how in seconds:
                found = []
                for epochs in (1, 2):
                    with Count() as counted:
                        run(Path(folder), words, how, epochs)
                    found.append(counted.number)
                counts[how] = found[1] - found[0]
            for _ in range(given.rounds):
                for how, times in seconds.items():
                    short, long = (
                        run(Path(folder), words, how, epochs) for epochs in (1, 1 + given.epochs)
                    )
                    times.append((long - short) / given.epochs)
        ratio = statistics.median(b / a for a, b in zip(*seconds.values(), strict=True))
        one, other = map(statistics.median, seconds.values())
        print(
            f"| {data} | {model} | {what} | {counts['false']:,} | {counts['true']:,} "
            f"({counts['false'] / counts['true']:.1f} x fewer) | {one:.2f} | {other:.2f} "
            f"| {ratio:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
