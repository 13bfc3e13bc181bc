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
    return made
