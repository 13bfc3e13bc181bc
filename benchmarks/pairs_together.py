"""Networks of BREC's pairs in one step and one after another: operations and CPU time.

Usage: python benchmarks/pairs_together.py [--models gin union_gin] [--pairs 16] [--rounds 2]
       [--categories basic ...] [--mirror FOLDER]

Of each category as many pairs, spread over it, as given; whole training and test by the protocol's
defaults. Operations are those that reach torch's dispatcher below autograd, but for views: each is
a launch on a GPU. Times are CPU seconds of the process on one thread, alternately; the ratio is
that of the smallest: of training and test alone, and with the relabelled copies and their
coefficients, which each pair makes by itself.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import torch

from folds_together import Count
from unionsnn.data.sources.download import data_root
from unionsnn.expressivity import pair_test, pairs_together
from unionsnn.expressivity.graph_sets import load_set
from unionsnn.expressivity.trained_pairs import pairs_of, trained_config

CPU = torch.device("cpu")
spent = {"copies": 0.0}


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the CPU time of what is made before training."""

    def call(*args: Any, **more: Any) -> Any:
        begin = time.process_time()
        made = function(*args, **more)
        spent["copies"] += time.process_time() - begin
        return made

    return call


def run(config: Any, graphs: Any, blocks: list[list[int]]) -> dict[int, dict[str, Any]]:
    """Train and test blocks of pairs; return the outcomes by number."""
    outcomes: list[dict[str, Any]] = []
    for block in blocks:
        if len(block) == 1:
            outcomes.append(pair_test.compare_pair(config, graphs[block[0]], block[0], CPU))
        else:
            outcomes += pairs_together.compare_together(config, graphs, block, CPU)
    return {outcome["index"]: outcome for outcome in outcomes}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["gin", "union_gin"])
    parser.add_argument("--categories", nargs="+")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--mirror", default=os.environ.get("UNIONSNN_MIRROR"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    pair_test.PairCopies = _timed(pair_test.PairCopies)  # type: ignore[misc, assignment]
    pairs = pairs_of(load_set("brec", root=data_root(), mirror=given.mirror, offline=False))
    graphs = [pair.graphs for pair in pairs]
    columns = ("model", "category", "pairs in blocks of", "operations, one by one", "in one step")
    print("|", " | ".join((*columns, "s", "s", "ratio", "with copies", "other verdicts")), "|")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model in given.models:
        config = trained_config([f"model={model}"], "brec", pairs)
        for category in given.categories or dict.fromkeys(pair.category for pair in pairs):
            members = [i for i, pair in enumerate(pairs) if pair.category == category]
            chosen = members[:: max(1, len(members) // given.pairs)][: given.pairs]
            size = config.data.batch_size
            ways = {
                "one by one": [[index] for index in chosen],
                "in one step": pairs_together.blocks_of(graphs, chosen, size, CPU, 1),
            }
            counts, seconds, found = {}, {way: [] for way in ways}, {}
            for way, blocks in ways.items():
                with Count() as counted:
                    found[way] = run(config, graphs, blocks)
                counts[way] = counted.number
            for _ in range(given.rounds):
                for way, blocks in ways.items():
                    spent["copies"], begin = 0.0, time.process_time()
                    run(config, graphs, blocks)
                    whole = time.process_time() - begin
                    seconds[way].append((whole - spent["copies"], whole))
            one, other = (
                [min(each) for each in zip(*times, strict=True)] for times in seconds.values()
            )
            changed = sum(
                found["one by one"][index]["told"] != found["in one step"][index]["told"]
                for index in chosen
            )
            sizes = ", ".join(str(len(block)) for block in ways["in one step"])
            few = counts["one by one"] / counts["in one step"]
            print(
                f"| {model} | {category} | {sizes} | {counts['one by one']:,} | "
                f"{counts['in one step']:,} ({few:.1f} x fewer) | {one[0]:.2f} | {other[0]:.2f} "
                f"| {other[0] / one[0]:.2f} | {other[1] / one[1]:.2f} | {changed} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
