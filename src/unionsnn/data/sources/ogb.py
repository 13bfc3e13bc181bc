"""OGB's molecules, read strictly and without OGB's interactive loader."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import ClassVar

import numpy as np

from unionsnn.base.errors import MalformedDataError
from unionsnn.base.words import format_bytes
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import both_ways, cut_by_graph, simple_edges, slices
from unionsnn.data.sources.download import files_hash, open_zip, read_members, unpacked_limit
from unionsnn.data.sources.source import RawFiles, Source, Task
from unionsnn.data.sources.text_tables import ArchiveTables, Values
from unionsnn.data.splits import Split, check_split

URL = "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
"""Upstream address of the molecules."""
ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""Cardinalities of OGB's nine atom features."""
BOND_CATEGORIES = (5, 6, 2)
"""Cardinalities of OGB's three bond features: type, stereo configuration, conjugation."""

_RAW = ("edge", "edge-feat", "node-feat", "num-node-list", "num-edge-list", "graph-label")
_SPLIT = {"train": "train", "valid": "validation", "test": "test"}


class OGB(Source):
    """Molecules of OGB with one binary label and the scaffold split.

    "Open Graph Benchmark: Datasets for Machine Learning on Graphs" (Hu et al., NeurIPS 2020).

    Args:
        folder: Name of the download without file extension, such as hiv.
    """

    task: Task = "graph_binary_classification"
    folder: str

    categories: ClassVar[tuple[int, ...]] = ATOM_CATEGORIES
    edge_categories: ClassVar[tuple[int, ...]] = BOND_CATEGORIES

    def _archive(self, raw: RawFiles) -> Path:
        return raw.fetch(f"ogb/{self.folder}.zip", f"{URL}/{self.folder}.zip")

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw archive."""
        return f"ogb {files_hash([self._archive(raw)])}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw archive."""
        return read_ogb_molecules(self._archive(raw), self.folder)


def read_ogb_molecules(zip_path: Path, folder: str) -> GraphArrays:
    """Read a set with one binary label per molecule and its scaffold split.

    Source: Hu et al. (2020), "Open Graph Benchmark"; the csv form of its downloads.

    Args:
        zip_path: Archive with FOLDER/raw/*.csv.gz and FOLDER/split/scaffold/*.csv.gz.
        folder: The folder in the zip file, such as hiv.

    Returns:
        Graphs with nine categories per node, and three per edge.

    Raises:
        DataError: A file is wrong; names the line of the first fault.
    """
    files = _read_files(zip_path, folder)
    nodes = _counts(files, "raw/num-node-list", None)
    for_graphs = (len(nodes), "graphs in num-node-list")
    edges = _counts(files, "raw/num-edge-list", for_graphs)
    for_edges = (int(edges.sum()), "edges in num-edge-list")
    features = files.table(
        "raw/node-feat", len(ATOM_CATEGORIES), one_for=(int(nodes.sum()), "nodes in num-node-list")
    )
    pairs = files.table("raw/edge", 2, one_for=for_edges)
    edge_features = files.table("raw/edge-feat", len(BOND_CATEGORIES), one_for=for_edges)
    labels = files.table("raw/graph-label", 1, one_for=for_graphs)
    _check_range(files, "raw/node-feat", features, np.array(ATOM_CATEGORIES))
    _check_range(files, "raw/edge-feat", edge_features, np.array(BOND_CATEGORIES))
    _check_range(files, "raw/edge", pairs, np.repeat(nodes, edges)[:, None])
    _check_range(files, "raw/graph-label", labels, np.array([2]))
    node_slices = slices(nodes)
    union = both_ways((pairs + np.repeat(node_slices[:-1], edges)[:, None]).T)
    simple, first = simple_edges(union, int(node_slices[-1]))
    if simple.shape != union.shape:
        wrong = np.setdiff1d(np.arange(union.shape[1]), first) % max(len(pairs), 1)
        raise files.error("raw/edge", "the edge is a loop or repeated", int(wrong[0]))
    edge_index, edge_slices = cut_by_graph(simple, node_slices)
    chosen = {
        part: np.sort(files.table(f"split/scaffold/{name}", 1)[:, 0])
        for name, part in _SPLIT.items()
    }
    where = f"{folder}/split/scaffold (in {zip_path})"
    check_split(Split(**chosen), len(nodes), where=where)
    part = np.empty(len(nodes), dtype=np.int64)
    for place, rows in enumerate(chosen.values()):
        part[rows] = place
    return GraphArrays(
        edge_index=edge_index,
        node_slices=node_slices,
        edge_slices=edge_slices,
        y=labels[:, 0],
        node_labels=features,
        edge_labels=edge_features[first % max(len(pairs), 1)],
        part=part,
        class_names=("0", "1"),
    )


def _read_files(zip_path: Path, folder: str) -> ArchiveTables:
    wanted = [f"raw/{name}" for name in _RAW] + [f"split/scaffold/{name}" for name in _SPLIT]
    members = {name: f"{folder}/{name}.csv.gz" for name in wanted}
    with open_zip(zip_path) as archive:
        there = set(archive.namelist())
    missing = [member for member in members.values() if member not in there]
    if missing:
        raise MalformedDataError(
            f"{zip_path} has no {', '.join(missing)}: it is not OGB's file; download it "
            "again, or get it from another mirror with data.mirror=..."
        )
    packed = read_members(zip_path, members.values())
    contents: dict[str, bytes] = {}
    files = ArchiveTables(zip_path, f"{folder}/", ".csv.gz", contents)
    for name, member in members.items():
        try:
            limit = unpacked_limit(len(packed[member]))
            with gzip.open(io.BytesIO(packed[member])) as file:
                contents[name] = file.read(limit + 1)
            if len(contents[name]) > limit:
                raise files.error(
                    name, f"unpacks to more than {format_bytes(limit)}: it is refused"
                )
        except (OSError, EOFError, zlib.error) as error:
            raise files.error(name, f"is not a sound gzip file ({error})") from error
    return files


def _counts(files: ArchiveTables, name: str, one_for: tuple[int, str] | None) -> IntArray:
    counts: IntArray = files.table(name, 1, one_for=one_for)[:, 0]
    if (counts < 0).any():
        raise files.error(name, "is negative", int(np.argmax(counts < 0)))
    return counts


def _check_range(files: ArchiveTables, name: str, table: Values, limit: IntArray) -> None:
    limits = np.broadcast_to(limit, table.shape)
    wrong = (table < 0) | (table >= limits)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise files.error(
            name,
            f"{table[row].tolist()} is outside of 0..{limits[row, column] - 1} in value "
            f"{column + 1}",
            int(row),
        )
