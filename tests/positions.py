"""Encodings of position and structure, written out for one graph after another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor
from torch_geometric.data import Batch


def adjacency(data: Batch, graph: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of a graph in their order, and the adjacency matrix of its simple graph."""
    nodes = torch.nonzero(data.batch == graph).flatten().numpy()
    whole = np.zeros((data.num_nodes, data.num_nodes))
    whole[tuple(data.edge_index.numpy())] = 1
    np.fill_diagonal(whole, 0)
    return nodes, whole[np.ix_(nodes, nodes)]


def landing_probabilities(A: np.ndarray, steps: int) -> np.ndarray:
    """Diagonals of the powers 1, 2, ... of the random walk's matrix, [n, steps]."""
    walk = A / np.maximum(A.sum(axis=1, keepdims=True), 1)
    power, rows = np.eye(len(A)), np.zeros((len(A), steps))
    for step in range(steps):
        power = power @ walk
        rows[:, step] = power.diagonal()
    return rows


def eigenvectors(A: np.ndarray, count: int) -> np.ndarray:
    """Eigenvectors of the normalised Laplacian without the first, [n, count]."""
    scale = np.maximum(A.sum(axis=1), 1) ** -0.5
    laplacian = np.diag((A.sum(axis=1) > 0).astype(float)) - scale[:, None] * A * scale
    rows = np.zeros((len(A), count))
    vectors = np.linalg.eigh(laplacian)[1][:, 1 : count + 1] if len(A) else rows
    rows[:, : vectors.shape[1]] = vectors
    return rows


def distances(A: np.ndarray) -> np.ndarray:
    """Lengths of shortest paths, at most 254; 255 where there is none."""
    if not len(A):
        return np.zeros((0, 0))
    length = shortest_path(A, unweighted=True)
    return np.where(np.isinf(length), 255, np.minimum(length, 254))


def encoded(data: Batch, wanted: Mapping[str, int | bool]) -> dict[str, Tensor]:
    """What a network with these encodings is given beside nodes and edges."""
    graphs = [adjacency(data, graph) for graph in range(data.num_graphs)]
    made = {}
    for name, rows_of in (("random_walk", landing_probabilities), ("laplacian", eigenvectors)):
        if wanted.get(name):
            rows = torch.zeros(data.num_nodes, int(wanted[name]), dtype=torch.float64)
            for nodes, A in graphs:
                rows[nodes] = torch.from_numpy(rows_of(A, int(wanted[name])))
            made[name] = rows.to(data.x.dtype)
    if wanted.get("distance"):
        flat = np.concatenate([distances(A).ravel() for _, A in graphs])
        made["distance"] = torch.from_numpy(flat.astype(np.uint8))
    if wanted.get("subgraph"):
        made |= rooted(data, int(wanted["subgraph"]))
    return made


def rooted(data: Batch, hops: int) -> dict[str, Tensor]:
    """Subgraphs that are rooted at the nodes, root by root, as a batch carries them."""
    pairs = data.edge_index.t().tolist()
    joined: dict[int, set[int]] = {v: set() for v in range(data.num_nodes)}
    for u, v in pairs:
        joined[u].add(v)
        joined[v].add(u)
    copies: list[tuple[int, int, int]] = []
    edges: list[tuple[int, int, int]] = []
    for root in range(data.num_nodes):
        distance = {root: 0}
        for hop in range(1, hops + 1):
            for node in [u for v in distance for u in joined[v] if u not in distance]:
                distance[node] = hop
        number = {node: len(copies) + i for i, node in enumerate(sorted(distance))}
        copies += [(root, node, distance[node]) for node in sorted(distance)]
        inside = [(e, u, v) for e, (u, v) in enumerate(pairs) if u in number and v in number]
        edges += [(number[u], number[v], e) for e, u, v in inside]
    of_copies = torch.tensor(copies, dtype=torch.int32).reshape(-1, 3).t()
    of_edges = torch.tensor(edges, dtype=torch.int32).reshape(-1, 3).t()
    return {
        "subgraph_index": of_copies[:2],
        "subgraph_distance": of_copies[2],
        "subgraph_edge_index": of_edges[:2],
        "subgraph_edge": of_edges[2],
    }
