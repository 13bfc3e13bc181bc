"""Small graphs that all tests share."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from unionsnn import StructuralCoefficients

# Those of StructuralCoefficients(), written out.
COLUMNS = (
    "a_r1", "a_tree_r1", "nodes_r1", "edges_r1",
    "a_r2", "nodes_r2", "edges_r2",
    "a_r3", "nodes_r3", "edges_r3",
)  # fmt: skip


def graph(edges: list[tuple[int, int]], num_nodes: int, channels: int = 1, y: int = 0) -> Data:
    """Return an undirected graph with constant features and all coefficient columns."""
    both = [pair for v, u in edges for pair in ((v, u), (u, v))]
    edge_index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).t().contiguous()
    data = Data(x=torch.ones(num_nodes, channels), edge_index=edge_index, y=torch.tensor([y]))
    return StructuralCoefficients()(data)


def cycle(n: int) -> list[tuple[int, int]]:
    """Edges of the cycle with n nodes."""
    return [(i, (i + 1) % n) for i in range(n)]


def star(leaves: int) -> list[tuple[int, int]]:
    """Edges of the star whose centre is node 0."""
    return [(0, i + 1) for i in range(leaves)]


def rook() -> list[tuple[int, int]]:
    """Edges of the 4 x 4 Rook's graph."""
    cells = [(i, j) for i in range(4) for j in range(4)]
    return [
        (a, b)
        for a in range(16)
        for b in range(a + 1, 16)
        if (cells[a][0] == cells[b][0]) != (cells[a][1] == cells[b][1])
    ]


def shrikhande() -> list[tuple[int, int]]:
    """Edges of the Shrikhande graph: Cayley graph of Z4 x Z4 with ±(1,0), ±(0,1), ±(1,1)."""
    steps = {(1, 0), (3, 0), (0, 1), (0, 3), (1, 1), (3, 3)}
    cells = [(i, j) for i in range(4) for j in range(4)]
    return [
        (a, b)
        for a in range(16)
        for b in range(a + 1, 16)
        if ((cells[b][0] - cells[a][0]) % 4, (cells[b][1] - cells[a][1]) % 4) in steps
    ]


def random_graphs(count: int, generator: torch.Generator, channels: int = 3) -> list[Data]:
    """Return random graphs of 1 to 12 nodes with random features."""
    graphs = []
    for _ in range(count):
        n = int(torch.randint(1, 13, (1,), generator=generator))
        chosen = torch.rand(n, n, generator=generator) < 0.35
        edges = [(i, j) for i in range(n) for j in range(i) if chosen[i, j]]
        data = graph(edges, n, y=int(torch.randint(2, (1,), generator=generator)))
        data.x = torch.randn(n, channels, generator=generator)
        graphs.append(data)
    return graphs
