"""Time to assemble all batches of an epoch: ours beside PyG's DataLoader, in the same run.

Usage: python benchmarks/batching.py [DATA ...], with data names of conf/data (default: mutag
proteins). Each epoch loads all graphs in batches of 32 in a new order; best of five.
"""

from __future__ import annotations

import platform
import sys
import time

import torch
from rich.console import Console
from rich.table import Table
from torch_geometric.loader import DataLoader

from unionsnn.config.compose import compose_config
from unionsnn.data.batching import BatchLoader
from unionsnn.data.store import GraphStore
from unionsnn.training.build import build_data


def best_of_five(loader: DataLoader | BatchLoader) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        for _batch in loader:
            pass
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    torch.set_num_threads(1)
    table = Table(title=f"an epoch of batches of 32, one thread, {platform.processor()}")
    for column in ("data", "graphs", "PyG DataLoader", "BatchLoader", "ratio"):
        table.add_column(column, justify="right")
    for name in sys.argv[1:] or ["mutag", "proteins"]:
        data = build_data(compose_config([f"data={name}"]))
        graphs = data.graphs
        order = torch.Generator().manual_seed(0)
        theirs = best_of_five(DataLoader(graphs, batch_size=32, shuffle=True, generator=order))
        loader = BatchLoader(
            GraphStore(graphs), range(len(graphs)), batch_size=32, shuffle=True, generator=order
        )
        ours = best_of_five(loader)
        cells = f"{1e3 * theirs:.1f} ms", f"{1e3 * ours:.1f} ms", f"{theirs / ours:.1f}"
        table.add_row(name, str(len(graphs)), *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
