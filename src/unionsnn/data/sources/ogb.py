"""OGB's molecules and citation graph, read strictly and without OGB's interactive loader."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator

from unionsnn.base.errors import MalformedDataError
from unionsnn.base.words import format_bytes, nearest
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.catalog import CATALOG
from unionsnn.data.edges import both_ways, cut_by_graph, simple_edges, slices
from unionsnn.data.sources.download import files_hash, open_zip, read_members, unpacked_limit
from unionsnn.data.sources.source import NodeSource, RawFiles, Source, Task, has_numbers
from unionsnn.data.sources.text_tables import ArchiveTables, Values
from unionsnn.data.splits import Split, check_split

URL = "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
"""Upstream address of the molecules."""
NODE_URL = "http://snap.stanford.edu/ogb/data/nodeproppred"
"""Upstream address of the graphs whose nodes are classified."""
ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""Cardinalities of OGB's nine atom features."""
BOND_CATEGORIES = (5, 6, 2)
"""Cardinalities of OGB's three bond features: type, stereo configuration, conjugation."""

_RAW = ("edge", "edge-feat", "node-feat", "num-node-list", "num-edge-list", "graph-label")
_NODE_RAW = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")
_SPLIT = {"train": "train", "valid": "validation", "test": "test"}


def _download(name: str) -> str:
    """Return the name of the download of a set, which may be given by that of the set."""
    entries = [each for each in CATALOG.values() if each.format == "OGB"]
    downloads = {each.source_name: str(each.arguments["folder"]) for each in entries}
    if name.startswith("ogbg-") and name not in downloads:
        raise ValueError(
            f"{name!r} is not a set of OGB's molecules; allowed are {', '.join(downloads)}."
            f"{nearest(name, downloads)}"
        )
    return downloads.get(name, name)


class OGB(Source):
    """Molecules of OGB with binary labels or targets, some missing, and the scaffold split.

    "Open Graph Benchmark: Datasets for Machine Learning on Graphs" (Hu et al., NeurIPS 2020).

    Args:
        folder: Name of the set, such as ogbg-molhiv, or of its download without file extension,
            such as hiv.
    """

    task: Task = "graph_binary_classification"
    folder: Annotated[str, AfterValidator(_download)]

    categories: ClassVar[tuple[int, ...]] = ATOM_CATEGORIES
    edge_categories: ClassVar[tuple[int, ...]] = BOND_CATEGORIES

    def _archive(self, raw: RawFiles) -> Path:
        return raw.fetch(f"ogb/{self.folder}.zip", f"{URL}/{self.folder}.zip")

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw archive, and the kind of targets."""
        kind = f" {self.task}" if has_numbers(self.task) else ""
        return f"ogb {files_hash([self._archive(raw)])}{kind}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw archive."""
        return read_ogb_molecules(self._archive(raw), self.folder, self.task)


class OGBNodes(NodeSource):
    """The one graph of an OGB set whose nodes are classified, with its split; edges are undirected.

    "Open Graph Benchmark: Datasets for Machine Learning on Graphs" (Hu et al., NeurIPS 2020).

    Args:
        folder: Name of the download without file extension, such as arxiv.
        split: Folder of the split, such as time.
    """

    folder: str
    split: str

    def _archive(self, raw: RawFiles) -> Path:
        return raw.fetch(f"ogb/{self.folder}.zip", f"{NODE_URL}/{self.folder}.zip")

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw archive."""
        return f"ogb nodes {self.split} {files_hash([self._archive(raw)])}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw archive."""
        return read_ogb_nodes(self._archive(raw), self.folder, self.split)


def read_ogb_nodes(zip_path: Path, folder: str, split: str) -> GraphArrays:
    """Read one graph with a class per node, real features and its split.

    Source: Hu et al. (2020), "Open Graph Benchmark"; the csv form of its downloads. Each edge
    counts both ways, as in the baselines of ogbn-arxiv; loops and repeats are dropped.

    Args:
        zip_path: Archive with FOLDER/raw/*.csv.gz and FOLDER/split/SPLIT/*.csv.gz.
        folder: The folder in the zip file, such as arxiv.
        split: The folder of the split, such as time.

    Raises:
        DataError: A file is wrong; names the line of the first fault.
    """
    files = _read_files(zip_path, folder, _NODE_RAW, split)
    nodes = _counts(files, "raw/num-node-list", (1, "graph of the set"))
    edges = _counts(files, "raw/num-edge-list", (1, "graph of the set"))
    count = int(nodes[0])
    for_nodes = (count, "nodes in num-node-list")
    pairs = files.table("raw/edge", 2, one_for=(int(edges[0]), "edges in num-edge-list"))
    _check_range(files, "raw/edge", pairs, nodes[:, None])
    x = files.table("raw/node-feat", one_for=for_nodes, dtype=np.float64)
    y = _counts(files, "raw/node-label", for_nodes)
    union, _ = simple_edges(both_ways(pairs.T), count)
    return GraphArrays(
        edge_index=union,
        node_slices=np.array([0, count]),
        edge_slices=np.array([0, union.shape[1]]),
        y=y,
        node_attributes=x.astype(np.float32),
        part=_parts(files, split, count),
        class_names=tuple(str(i) for i in range(int(y.max(initial=-1)) + 1)),
        level="node",
    )


def read_ogb_molecules(
    zip_path: Path, folder: str, task: Task = "graph_binary_classification"
) -> GraphArrays:
    """Read a set with its labels or targets and its scaffold split.

    Source: Hu et al. (2020), "Open Graph Benchmark"; the csv form of its downloads.

    Args:
        zip_path: Archive with FOLDER/raw/*.csv.gz and FOLDER/split/scaffold/*.csv.gz.
        folder: The folder in the zip file, such as hiv.
        task: What its label columns are: a class, several labels, or numbers; those of the last two
            may be empty, which means that they are missing.

    Returns:
        Graphs with nine categories per node, and three per edge.

    Raises:
        DataError: A file is wrong; names the line of the first fault.
    """
    files = _read_files(zip_path, folder, _RAW, "scaffold")
    nodes = _counts(files, "raw/num-node-list", None)
    for_graphs = (len(nodes), "graphs in num-node-list")
    edges = _counts(files, "raw/num-edge-list", for_graphs)
    for_edges = (int(edges.sum()), "edges in num-edge-list")
    features = files.table(
        "raw/node-feat", len(ATOM_CATEGORIES), one_for=(int(nodes.sum()), "nodes in num-node-list")
    )
    pairs = files.table("raw/edge", 2, one_for=for_edges)
    edge_features = files.table("raw/edge-feat", len(BOND_CATEGORIES), one_for=for_edges)
    y, class_names = _targets(files, task, for_graphs)
    _check_range(files, "raw/node-feat", features, np.array(ATOM_CATEGORIES))
    _check_range(files, "raw/edge-feat", edge_features, np.array(BOND_CATEGORIES))
    _check_range(files, "raw/edge", pairs, np.repeat(nodes, edges)[:, None])
    node_slices = slices(nodes)
    union = both_ways((pairs + np.repeat(node_slices[:-1], edges)[:, None]).T)
    simple, first = simple_edges(union, int(node_slices[-1]))
    if simple.shape != union.shape:
        wrong = np.setdiff1d(np.arange(union.shape[1]), first) % max(len(pairs), 1)
        raise files.error("raw/edge", "the edge is a loop or repeated", int(wrong[0]))
    edge_index, edge_slices = cut_by_graph(simple, node_slices)
    return GraphArrays(
        edge_index=edge_index,
        node_slices=node_slices,
        edge_slices=edge_slices,
        y=y,
        node_labels=features,
        edge_labels=edge_features[first % max(len(pairs), 1)],
        part=_parts(files, "scaffold", len(nodes)),
        class_names=class_names,
    )


def _parts(files: ArchiveTables, split: str, count: int) -> IntArray:
    """Return the part of each graph or node."""
    chosen = {
        part: np.sort(files.table(f"split/{split}/{name}", 1)[:, 0])
        for name, part in _SPLIT.items()
    }
    where = f"{files.prefix}split/{split} (in {files.archive})"
    check_split(Split(**chosen), count, where=where)
    parts = np.empty(count, dtype=np.int64)
    for place, rows in enumerate(chosen.values()):
        parts[rows] = place
    return parts


def _targets(
    files: ArchiveTables, task: Task, for_graphs: tuple[int, str]
) -> tuple[Values, tuple[str, ...]]:
    """Return classes with their names, or labels and numbers as [G, T], NaN where missing."""
    name = "raw/graph-label"
    if not has_numbers(task):
        labels = files.table(name, 1, one_for=for_graphs)
        _check_range(files, name, labels, np.array([2]))
        return labels[:, 0], ("0", "1")
    numbers = files.table(name, one_for=for_graphs, dtype=np.float64, missing=True)
    wrong = np.isinf(numbers)
    if task == "graph_multilabel_classification":
        wrong = ~(np.isin(numbers, (0, 1)) | np.isnan(numbers))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        allowed = "finite" if task == "graph_regression" else "0, 1 or empty"
        raise files.error(name, f"{numbers[row, column]:g} is not {allowed}", int(row))
    return numbers.astype(np.float32), ()


def _read_files(zip_path: Path, folder: str, raw: Sequence[str], split: str) -> ArchiveTables:
    wanted = [f"raw/{name}" for name in raw] + [f"split/{split}/{name}" for name in _SPLIT]
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
