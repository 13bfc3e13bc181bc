"""Quantities of several columns: CPU seconds of one thread, and the bound on cycles.

Usage: python benchmarks/columns.py MIRROR [DATA ...]

The best of three calls, after one on MUTAG that compiles; other processes may run. Eigenvalues,
distances and the marked spectrum are those of radii 1, 2 and 3.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from engine_data import load
from unionsnn.coefficients import CoefficientSpec, SimpleGraph
from unionsnn.coefficients.kernels.cycles import cycle_costs

SPECS = {
    "cycles": CoefficientSpec(quantities=("cycles",)),
    **{
        name: CoefficientSpec(radius=(1, 2, 3), quantities=(name,))
        for name in ("eigenvalues", "distances", "marked")
    },
    "a, nodes, edges": CoefficientSpec(radius=(1, 2, 3), quantities=("a", "nodes", "edges")),
}


def seconds(spec: CoefficientSpec, data: Any, calls: int) -> float:
    times = []
    for _ in range(calls):
        started = time.thread_time()
        spec.compute(data.edge_index, data.num_nodes, threads=1)
        times.append(time.thread_time() - started)
    return min(times)


def main() -> None:
    mirror, *names = sys.argv[1:]
    mutag = load(Path(mirror), "MUTAG")
    for spec in SPECS.values():
        seconds(spec, mutag, 1)
    table = Table("data", "edges", "bound on cycles", *SPECS)
    for name in names or ["MUTAG", "ENZYMES", "PROTEINS", "ZINC-12k"]:
        data = load(Path(mirror), name)
        graph = SimpleGraph.from_edge_index(data.edge_index, data.num_nodes)
        bound = cycle_costs(graph.csr).sum() / 1e9
        times = [f"{seconds(spec, data, 3):.3f}" for spec in SPECS.values()]
        table.add_row(name, f"{graph.num_undirected_edges:,}", f"{bound:.3f}", *times)
    Console().print(table)


if __name__ == "__main__":
    main()
