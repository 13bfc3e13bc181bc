"""A training step of PPGN with graphs padded to those like them, and to the largest of the batch.

    python benchmarks/ppgn_padding.py [DATASET ...]

Batches of 32 drawn graphs; both ways take turns in one process, and their outputs are compared.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import Tensor
from torch_geometric.data import Batch

from unionsnn.config.compose import compose_config
from unionsnn.models import ppgn
from unionsnn.nn import pairs
from unionsnn.nn.batch import GraphBatch
from unionsnn.training.build import build_data, build_model

DATASETS = ("mutag", "enzymes")
BATCHES, ROUNDS = 4, 3


def step(model: ppgn.PPGN, batches: list[Batch]) -> tuple[float, Tensor]:
    """Seconds of forward and backward passes, and their outputs."""
    started = time.perf_counter()
    found = []
    for batch in batches:
        out = model(GraphBatch.of(batch))
        out.sum().backward()
        found.append(out.detach())
    return time.perf_counter() - started, torch.cat(found)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    similar_sizes = pairs.similar_sizes
    ways = {
        "similar": similar_sizes,
        "largest": lambda sizes: [[*range(len(sizes))]],
    }
    for name in sys.argv[1:] or DATASETS:
        config = compose_config(["model=ppgn", f"data={name}"])
        data = build_data(config)
        model = build_model(config, data.num_features, data.num_outputs)
        drawn = torch.randperm(data.num_graphs)[: 32 * BATCHES].split(32)
        batches = [data.store.batch(numbers) for numbers in drawn]
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        outputs = {}
        for _ in range(ROUNDS):
            for way, grouping in ways.items():
                pairs.similar_sizes = grouping
                taken, outputs[way] = step(model, batches)
                seconds[way].append(taken)
        fast, slow = (min(seconds[way]) / BATCHES for way in ways)
        deviation = float((outputs["similar"] - outputs["largest"]).abs().max())
        print(
            f"{name}: {fast:.3f} s a step, padded to the largest {slow:.3f} s: "
            f"{slow / fast:.1f} x; largest difference of outputs {deviation:.1e}"
        )


if __name__ == "__main__":
    main()
