"""OGB's molecules: read strictly, without OGB's own loader and its questions."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unionsnn.base.errors import DataError, MalformedDataError
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import both_ways, cut_by_graph, simple_edges, slices
from unionsnn.data.sources.download import files_hash, open_zip, read_members
from unionsnn.data.sources.source import RawFiles, Source, Task
from unionsnn.data.sources.text_tables import Values, parse_table
from unionsnn.data.splits import Split, check_split

URL = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
"""Upstream address of the molecules."""
ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""How many values each of OGB's nine atom features can take."""

_RAW = ("edge", "edge-feat", "node-feat", "num-node-list", "num-edge-list", "graph-label")
_SPLIT = {"train": "train", "valid": "validation", "test": "test"}


class OGB(Source):
    """Molecules of OGB with one binary label and its scaffold split.

    "Open Graph Benchmark: Datasets for Machine Learning on Graphs" (Hu et al., NeurIPS 2020).

    Args:
        folder: Name of the download without its file extension, such as hiv.
    """

    task: Task = "graph_binary_classification"
    folder: str

    categories: ClassVar[tuple[int, ...]] = ATOM_CATEGORIES

    def _archive(self, raw: RawFiles) -> Path:
        return raw.fetch(f"ogb/{self.folder}.zip", f"{URL}/{self.folder}.zip")

    def processed_key(self, raw: RawFiles) -> str:
        """Hash of the raw archive."""
        return f"ogb {files_hash([self._archive(raw)])}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw archive."""
        return read_ogb_molecules(self._archive(raw), self.folder)


def read_ogb_molecules(zip_path: Path, folder: str) -> GraphArrays:
    """Read a set with one binary label per molecule and its scaffold split.

    Source: Hu et al. (2020), "Open Graph Benchmark"; the csv form of its downloads.

    Args:
        zip_path: Holds FOLDER/raw/*.csv.gz and FOLDER/split/scaffold/*.csv.gz.
        folder: The folder in the zip file, such as hiv.

    Returns:
        Graphs with nine categories per node, and three per edge.

    Raises:
        DataError: Names the file and the line of the first fault.
    """
    files = _Files(zip_path, folder)
    nodes = files.counts("num-node-list")
    edges = files.counts("num-edge-list")
    if len(nodes) != len(edges):
        raise files.error(
            "raw/num-edge-list", f"has {len(edges)} lines, but num-node-list has {len(nodes)}"
        )
    features = files.integers("raw/node-feat", len(ATOM_CATEGORIES), int(nodes.sum()))
    pairs = files.integers("raw/edge", 2, int(edges.sum()))
    edge_features = files.integers("raw/edge-feat", None, len(pairs))
    labels = files.integers("raw/graph-label", 1, len(nodes))[:, 0]
    files.check_range("raw/node-feat", features, np.array(ATOM_CATEGORIES))
    files.check_range("raw/edge", pairs, np.repeat(nodes, edges)[:, None])
    files.check_range("raw/graph-label", labels[:, None], np.array([2]))
    node_slices = slices(nodes)
    union = both_ways((pairs + np.repeat(node_slices[:-1], edges)[:, None]).T)
    simple, first = simple_edges(union, int(node_slices[-1]))
    if simple.shape != union.shape:
        wrong = np.setdiff1d(np.arange(union.shape[1]), first) % max(len(pairs), 1)
        raise files.error("raw/edge", "the edge is a loop, or given before", int(wrong[0]))
    edge_index, edge_slices = cut_by_graph(simple, node_slices)
    return GraphArrays(
        edge_index=edge_index,
        node_slices=node_slices,
        edge_slices=edge_slices,
        y=labels,
        node_labels=features,
        edge_labels=edge_features[first % max(len(pairs), 1)],
        part=files.parts(len(nodes)),
        class_names=("0", "1"),
    )


class _Files:
    """The text files of one set, and the errors that name them."""

    def __init__(self, zip_path: Path, folder: str) -> None:
        self.zip_path = zip_path
        self.folder = folder
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
        self.contents = {name: self._unpacked(name, packed[m]) for name, m in members.items()}

    def _unpacked(self, name: str, content: bytes) -> bytes:
        try:
            return gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise self.error(name, f"is not a sound gzip file ({error})") from error

    def error(self, name: str, message: str, row: int | None = None) -> DataError:
        line = "" if row is None else f", line {row + 1}"
        return MalformedDataError(
            f"{self.folder}/{name}.csv.gz{line} (in {self.zip_path}): {message}"
        )

    def integers(self, name: str, columns: int | None, rows: int | None = None) -> Values:
        table = parse_table(
            self.contents[name],
            np.dtype(np.int64),
            columns,
            lambda message, row: self.error(name, message, row),
        )
        if rows is not None and len(table) != rows:
            raise self.error(name, f"has {len(table)} lines, but {rows} are expected")
        return table

    def counts(self, name: str) -> IntArray:
        counts = self.integers(f"raw/{name}", 1)[:, 0]
        if (counts < 0).any():
            raise self.error(f"raw/{name}", "is negative", int(np.argmax(counts < 0)))
        return counts

    def check_range(self, name: str, table: Values, limit: Any) -> None:
        limits = np.broadcast_to(limit, table.shape)
        wrong = ((table < 0) | (table >= limits)).any(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            column = int(np.argmax((table[row] < 0) | (table[row] >= limits[row])))
            highest = int(limits[row][column]) - 1
            raise self.error(
                name, f"{table[row].tolist()} is outside of 0..{highest} in value {column + 1}", row
            )

    def parts(self, num_graphs: int) -> IntArray:
        rows = {
            part: np.sort(self.integers(f"split/scaffold/{name}", 1)[:, 0])
            for name, part in _SPLIT.items()
        }
        where = f"{self.folder}/split/scaffold (in {self.zip_path})"
        check_split(Split(**rows), num_graphs, where=where)
        part = np.empty(num_graphs, dtype=np.int64)
        for place, chosen in enumerate(rows.values()):
            part[chosen] = place
        return part
