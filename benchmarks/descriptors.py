"""Edge betweenness and Ollivier-Ricci curvature: ours beside networkx and GraphRicciCurvature.

Usage: python benchmarks/descriptors.py PROTEINS.zip [SAMPLED_GRAPHS]

The baselines are timed on a random sample of graphs (default 40), ours on the whole set; both as
CPU time an edge, one thread, best of three for ours. The values of the sample are compared.
GraphRicciCurvature (extra `benchmark`): OTD, alpha = 0.5, unweighted, on each connected component.
"""

from __future__ import annotations

import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from rich.console import Console
from rich.table import Table

from unionsnn.coefficients import structural_coefficients

Values = dict[tuple[int, int], float]


def read(path: Path) -> tuple[Any, Any]:
    name = path.stem
    with zipfile.ZipFile(path) as archive:
        edges = np.loadtxt(archive.open(f"{name}/{name}_A.txt"), delimiter=",", dtype=np.int64)
        graph = np.loadtxt(archive.open(f"{name}/{name}_graph_indicator.txt"), dtype=np.int64)
    return edges.T - 1, graph - 1


def sample(edges: Any, graph: Any, count: int) -> Iterator[nx.Graph]:
    chosen = np.random.default_rng(0).choice(int(graph.max()) + 1, count, replace=False)
    for number in chosen:
        rows = edges[:, graph[edges[0]] == number].T
        yield nx.Graph(rows[rows[:, 0] < rows[:, 1]].tolist())


def betweenness(graph: nx.Graph) -> Values:
    values = {}
    for v, u in graph.edges:
        union = graph.subgraph({v, u, *graph[v], *graph[u]}).copy()
        scores = nx.edge_betweenness_centrality(union, normalized=False)
        values[v, u] = scores.get((v, u), scores.get((u, v)))
    return values


def curvature(graph: nx.Graph) -> Values:
    from GraphRicciCurvature.OllivierRicci import OllivierRicci

    values = {}
    for nodes in nx.connected_components(graph):
        part = graph.subgraph(nodes).copy()
        ricci = OllivierRicci(part, alpha=0.5, method="OTD", proc=1, verbose="ERROR")
        ricci.compute_ricci_curvature()
        values |= {(v, u): data["ricciCurvature"] for v, u, data in ricci.G.edges(data=True)}
    return values


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def main() -> None:
    edges, graph = read(Path(sys.argv[1]))
    graphs = list(sample(edges, graph, int(sys.argv[2]) if len(sys.argv) > 2 else 40))
    sampled = sum(each.number_of_edges() for each in graphs)
    title = f"PROTEINS, {edges.shape[1] // 2:,} edges; baselines on {sampled:,} of them"
    table = Table("descriptor", "baseline", "ours", "ratio", "largest difference", title=title)
    baselines = {"edge_betweenness": betweenness, "curvature_graph": curvature}
    for name, baseline in baselines.items():

        def ours(name: str = name) -> Any:
            return structural_coefficients(edges, len(graph), descriptor=name, threads=1)

        rows = ours()
        best = min(seconds(ours)[0] for _ in range(3)) / (edges.shape[1] // 2)
        baseline(nx.path_graph(3))
        spent, expected = 0.0, {}
        for each in graphs:
            taken, values = seconds(lambda each=each, run=baseline: run(each))
            spent += taken
            expected |= values
        mine = dict(zip(map(tuple, edges.T.tolist()), rows, strict=True))
        gap = max(abs(mine[edge] - value) for edge, value in expected.items())
        per_edge = spent / sampled
        table.add_row(
            name,
            f"{1e6 * per_edge:.0f} µs an edge",
            f"{1e6 * best:.2f} µs an edge",
            f"{per_edge / best:.0f} x",
            f"{gap:.1e}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
