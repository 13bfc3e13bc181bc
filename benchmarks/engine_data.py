"""Readers of the published files, for the engine's benchmarks only."""

import pickle
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

TU = ("MUTAG", "PROTEINS", "ENZYMES", "NCI1", "Tox21_AhR_training", "DD")
PLANETOID = ("Cora", "Citeseer", "PubMed")
AMAZON = ("Computers", "Photo")
ZINC = ("ZINC-12k", "ZINC-full")


class Data(NamedTuple):
    """A data set as the disjoint union of its graphs, both directions of every edge.

    Shapes:
        edge_index [2, E], first_nodes [G + 1].
    """

    edge_index: np.ndarray
    num_nodes: int
    first_nodes: np.ndarray


def load(mirror: Path, name: str) -> Data:
    """Read a data set from a folder laid out as the upstream downloads are."""
    if name in TU:
        return _tu(mirror / "TUDataset" / f"{name}.zip", name)
    if name in PLANETOID:
        return _planetoid(mirror / "planetoid" / f"ind.{name.lower()}.graph")
    if name in AMAZON:
        return _amazon(mirror / "amazon" / f"amazon_electronics_{name.lower()}.npz")
    return _zinc(mirror, name)


def _tu(path: Path, name: str) -> Data:
    with zipfile.ZipFile(path) as archive:
        members = {member.rsplit("/", 1)[-1]: member for member in archive.namelist()}
        text = archive.read(members[f"{name}_A.txt"]).replace(b",", b" ")
        graph_of = np.array(archive.read(members[f"{name}_graph_indicator.txt"]).split(), int)
    edges = np.array(text.split(), dtype=np.int64).reshape(-1, 2).T - 1
    first_nodes = np.searchsorted(graph_of, np.arange(1, graph_of[-1] + 2))
    return Data(np.ascontiguousarray(edges), len(graph_of), first_nodes)


def _planetoid(path: Path) -> Data:
    # Planetoid's own format is a pickle of a dict of lists.
    with path.open("rb") as file:
        neighbors = pickle.load(file, encoding="latin1")
    pairs = {(v, u) for v, row in neighbors.items() for u in row if v != u}
    edges = np.array(sorted(pairs | {(u, v) for v, u in pairs})).T
    num_nodes = max(neighbors) + 1
    return Data(np.ascontiguousarray(edges), num_nodes, np.array([0, num_nodes]))


def _amazon(path: Path) -> Data:
    with np.load(path) as arrays:
        indptr, indices = arrays["adj_indptr"], arrays["adj_indices"]
    num_nodes = len(indptr) - 1
    row = np.repeat(np.arange(num_nodes), np.diff(indptr))
    keys = np.concatenate([row * num_nodes + indices, indices * np.int64(num_nodes) + row])
    edges = np.stack(np.divmod(np.unique(keys), num_nodes))
    return Data(edges[:, edges[0] != edges[1]], num_nodes, np.array([0, num_nodes]))


def _zinc(mirror: Path, name: str) -> Data:
    """ZINC-full, or the 12,000 of its graphs that are ZINC-12k."""
    edges, first_nodes, num_nodes = [], [], 0
    for part in ("train", "val", "test"):
        with np.load(mirror / "zinc-full" / f"{part}.npz") as arrays:
            sizes = arrays["num_nodes"].astype(np.int64)
            counts = arrays["num_edges"].astype(np.int64)
            local = arrays["edge_index"]
        chosen = np.arange(len(sizes))
        if name == "ZINC-12k":
            index = (mirror / "splits/benchmarking-gnns/molecules" / f"{part}.index").read_text()
            chosen = np.array(index.replace(",", " ").split(), int)
        keep = np.isin(np.arange(len(sizes)), chosen)
        starts = num_nodes + np.cumsum(np.where(keep, sizes, 0)) - np.where(keep, sizes, 0)
        local = local[:, np.repeat(keep, counts)]
        edges.append(local + np.repeat(starts[keep], counts[keep]))
        first_nodes.append(starts[keep])
        num_nodes += int(sizes[keep].sum())
    first = np.concatenate([*first_nodes, [num_nodes]])
    return Data(np.concatenate(edges, axis=1), num_nodes, first)
