"""ZINC: the pickles of benchmarking-gnns, and a compact form without pickles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataUnavailableError, MalformedDataError
from unionsnn.base.union import DisjointUnion
from unionsnn.data.arrays import NPZ_ERRORS, GraphArrays, IntArray
from unionsnn.data.edges import (
    cut_by_graph,
    one_way_edges,
    simple_edges,
    slices,
    unequal_repeat,
    warn_of_loops,
)
from unionsnn.data.sources.download import files_hash, open_zip, read_members
from unionsnn.data.sources.pickles import ZINC_NAMES, read_pickle
from unionsnn.data.sources.source import RawFiles, Source, Task
from unionsnn.data.sources.text_tables import read_table

URL = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"
"""Upstream address of the full set, which contains the subset."""
INDEX_URL = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"
)
"""Upstream address of the rows of ZINC-12k."""
PARTS = ("train", "val", "test")
SUBSET = (10_000, 1_000, 1_000)
"""Number of graphs of each part of ZINC-12k."""
FULL = (220_011, 24_445, 5_000)
"""Number of graphs of each part of the full set."""
ATOM_TYPES = 28
BOND_TYPES = 4
"""Number of bond types: none, which no bond has, single, double and triple."""

# Directed edges that are checked at once.
_EDGES_AT_ONCE = 2**19


class Zinc(Source):
    """Molecules of ZINC with their constrained solubility, split as in benchmarking-gnns.

    "Benchmarking Graph Neural Networks" (Dwivedi et al., JMLR 2023). Bond types are read
    if features of edges are wanted.

    Args:
        size: ``subset``, 12,000 molecules, or ``full``, 249,456. The full set is read from a
            mirror's zinc-full/{train,val,test}.npz if it has them, which takes seconds; otherwise
            from the pickles, which takes minutes and 3 GB of memory.
    """

    task: Task = "graph_regression"
    size: Literal["subset", "full"]

    categories: ClassVar[tuple[int, ...]] = (ATOM_TYPES,)
    edge_categories: ClassVar[tuple[int, ...]] = (BOND_TYPES,)

    def _compact(self, raw: RawFiles) -> dict[str, Path] | None:
        """Return the files of the compact form; None for the subset or if not available."""
        if self.size == "subset":
            return None
        try:
            return {part: raw.fetch(f"zinc-full/{part}.npz", None) for part in PARTS}
        except DataUnavailableError:
            return None

    def _pickles(self, raw: RawFiles) -> tuple[Path, dict[str, Path] | None]:
        """Return the archive of pickles and, for the subset, the rows of each part."""
        if self.size == "full":
            return raw.fetch("zinc-full/molecules.zip", URL, "zinc-full molecules.zip"), None
        archive = raw.fetch("zinc/molecules.zip", URL, "zinc molecules.zip")
        return archive, {
            part: raw.fetch(f"zinc/{part}.index", f"{INDEX_URL}/{part}.index") for part in PARTS
        }

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw files, and whether bond types are read."""
        bonds = " bonds" if self.reads_edges else ""
        if compact := self._compact(raw):
            return f"zinc npz {files_hash([*compact.values()])}{bonds}"
        archive, index = self._pickles(raw)
        return f"zinc {self.size} {files_hash([archive, *(index or {}).values()])}{bonds}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw files."""
        if compact := self._compact(raw):
            return read_zinc_npz(compact, bonds=self.reads_edges)
        sizes = FULL if self.size == "full" else SUBSET
        return read_zinc_pickles(*self._pickles(raw), sizes, bonds=self.reads_edges)


def read_zinc_pickles(
    archive: Path,
    index_files: Mapping[str, Path] | None,
    sizes: tuple[int, int, int],
    *,
    bonds: bool = False,
) -> GraphArrays:
    """Read molecules.zip of benchmarking-gnns, all of it or the rows listed in index files.

    The zip file holds the subset, or the full set, of which the index files select the subset.

    Args:
        archive: Zip file with {train,val,test}.pickle.
        index_files: For each part, a file of comma-separated rows; None for all rows.
        sizes: Required number of graphs of each part.
        bonds: Whether to read bond types.

    Raises:
        DataError: A file is wrong, or a part has another size.
    """
    with open_zip(archive) as opened:
        names = {Path(name).name: name for name in opened.namelist()}
    missing = [f"{part}.pickle" for part in PARTS if f"{part}.pickle" not in names]
    if missing:
        raise MalformedDataError(
            f"{archive} has no {', '.join(missing)}; it holds {', '.join(names)}"
        )
    molecules: list[Mapping[str, Any]] = []
    for part, size, full in zip(PARTS, sizes, FULL, strict=True):
        member = names[f"{part}.pickle"]
        content = read_members(archive, [member])[member]
        where = f"{member} (in {archive})"
        pickled = read_pickle(content, ZINC_NAMES, where)
        given = len(pickled) if isinstance(pickled, list | tuple) else 0
        if given not in (size, full):
            allowed = " or ".join(f"{each:,}" for each in sorted({size, full}))
            raise MalformedDataError(
                f"{where} holds {given} graphs, but {allowed} belong there: download the file "
                "again, or get it from another mirror with data.mirror=..."
            )
        rows = None if index_files is None else read_index(index_files[part], given, size)
        molecules += pickled if rows is None else [pickled[row] for row in rows]
    return _assembled(molecules, archive, sizes, bonds=bonds)


def read_index(path: Path, num_graphs: int, wanted: int) -> list[int]:
    """Read the rows of one part.

    Args:
        path: File with one line of comma-separated numbers.
        num_graphs: Number of graphs to choose from.
        wanted: Required number of rows.

    Raises:
        DataError: There are too few or too many rows, repeated ones, or ones out of range.
    """
    rows = read_table(path).reshape(-1)
    if len(rows) != wanted or len(np.unique(rows)) != wanted:
        raise MalformedDataError(
            f"{path} names {len(np.unique(rows))} different graphs, but {wanted} belong there"
        )
    if rows.min() < 0 or rows.max() >= num_graphs:
        raise MalformedDataError(
            f"{path} names graph {rows.max() if rows.max() >= num_graphs else rows.min()}, but "
            f"the pickle next to it has {num_graphs:,} (0..{num_graphs - 1}): they do not belong "
            "together; a zip file of 12,000 molecules goes with the rows 0..n-1, the full one with "
            "the rows of benchmarking-gnns"
        )
    return [int(row) for row in rows]


def _assembled(
    molecules: list[Mapping[str, Any]], archive: Path, sizes: tuple[int, int, int], *, bonds: bool
) -> GraphArrays:
    edges, labels, kinds, targets = [], [], [], []
    try:
        for molecule in molecules:
            types = np.asarray(molecule["atom_type"], dtype=np.int64)
            matrix = np.asarray(molecule["bond_type"])
            if matrix.shape != (len(types), len(types)):
                raise ValueError(f"{len(types)} atoms, but bonds of shape {matrix.shape}")
            labels.append(types)
            edges.append(np.stack(np.nonzero(matrix)))
            if bonds:
                kinds.append(matrix[tuple(edges[-1])])
            targets.append(np.asarray(molecule["logP_SA_cycle_normalized"], np.float32).reshape(1))
    except (KeyError, ValueError, TypeError) as error:
        raise MalformedDataError(
            f"{archive}: molecule {len(labels)} is invalid ({error!r})"
        ) from error
    counts = [part.shape[1] for part in edges]
    return zinc_graphs(
        np.concatenate(edges, axis=1),
        slices([len(types) for types in labels]),
        slices(counts),
        np.concatenate(labels),
        np.stack(targets),
        sizes,
        str(archive),
        np.concatenate(kinds) if bonds else None,
    )


def read_zinc_npz(paths: Mapping[str, Path], *, bonds: bool = False) -> GraphArrays:
    """Read the full set in its compact form, one file for each part.

    Args:
        paths: The files by part; each holds num_nodes, num_edges, x, edge_index, edge_attr and y.
        bonds: Whether to read bond types, which are edge_attr.

    Shapes:
        In a file: num_nodes, num_edges [G]; x [N]; edge_index [2, E], with local node numbers;
        edge_attr [E]; y [G].

    Raises:
        DataError: A file is wrong; names the fault.
    """
    keys = ("num_nodes", "num_edges", "x", "edge_index", "y", *(("edge_attr",) if bonds else ()))
    parts = [_npz_arrays(paths[part], size, keys) for part, size in zip(PARTS, FULL, strict=True)]
    joined = {key: np.concatenate([part.pop(key) for part in parts], axis=-1) for key in keys}
    return zinc_graphs(
        joined["edge_index"],
        slices(joined["num_nodes"]),
        slices(joined["num_edges"]),
        joined["x"].astype(np.int64),
        joined["y"].astype(np.float32)[:, None],
        FULL,
        str(paths["train"].parent),
        joined["edge_attr"] if bonds else None,
    )


def _npz_arrays(path: Path, size: int, keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    # Refuses archives that unpack to far more than they are.
    open_zip(path).close()
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in keys}
    except NPZ_ERRORS as error:
        raise MalformedDataError(f"{path} is not the compact form of ZINC ({error})") from error
    nodes, edges = (int(arrays[key].sum(dtype=np.int64)) for key in ("num_nodes", "num_edges"))
    shapes = {
        "num_nodes": (size,),
        "num_edges": (size,),
        "x": (nodes,),
        "edge_index": (2, edges),
        "edge_attr": (edges,),
        "y": (size,),
    }
    wrong = [
        f"{key} {arrays[key].shape}, not {shapes[key]}"
        for key in keys
        if arrays[key].shape != shapes[key]
    ]
    limit = np.repeat(arrays["num_nodes"], arrays["num_edges"]) if not wrong else np.empty(0)
    if wrong or (arrays["edge_index"] >= limit).any():
        raise MalformedDataError(f"{path}: {', '.join(wrong) or 'an edge leaves its graph'}")
    return arrays


def zinc_graphs(
    given: NDArray[Any],
    node_slices: IntArray,
    given_slices: IntArray,
    types: IntArray,
    targets: NDArray[np.float32],
    sizes: tuple[int, int, int],
    where: str,
    bonds: NDArray[Any] | None = None,
) -> GraphArrays:
    """Make the set from its arrays, with atom types as labels and concatenated parts.

    Edges are checked some graphs at a time, which takes little memory beside the set's own.

    Shapes:
        given [2, E] (local node numbers, of any type), node_slices, given_slices [G + 1],
        types [N], targets [G, 1], bonds [E].

    Raises:
        DataError: A type is unknown, or a bond has only one direction, or two types.
    """
    if types.max(initial=0) >= ATOM_TYPES:
        raise MalformedDataError(f"{where}: atom type {types.max()} is unknown; types are 0..27")
    if bonds is not None:
        wrong = bonds[(bonds < 1) | (bonds >= BOND_TYPES)]
        if len(wrong):
            raise MalformedDataError(f"{where}: bond type {wrong[0]} is unknown; types are 1..3")
        warn_of_loops(given, where)
    kept = np.empty(given.shape, np.int64)
    kinds = np.empty(0 if bonds is None else len(bonds), np.int64)
    graphs, counts, at = DisjointUnion(given, node_slices, given_slices), [], 0
    for begin, end in graphs.parts(_EDGES_AT_ONCE):
        union, nodes = graphs.edges(begin, end), node_slices[begin : end + 1] - node_slices[begin]
        edges, first = simple_edges(union, nodes[-1])
        if len(one_way_edges(edges, nodes[-1])):
            raise MalformedDataError(f"{where}: a bond has one direction only")
        local, cuts = cut_by_graph(edges, nodes)
        counts.append(np.diff(cuts))
        rows = slice(at, at + cuts[-1])
        kept[:, rows] = local
        if bonds is not None:
            some = bonds[given_slices[begin] : given_slices[end]]
            # Sorted by receiver, each edge is at the place of its reverse.
            back = np.lexsort(edges)
            repeat = unequal_repeat(union, nodes[-1], edges, first, some[:, None])
            if repeat is not None or (some[first] != some[first[back]]).any():
                raise MalformedDataError(f"{where}: a bond has two types")
            kinds[rows] = some[first]
        at = rows.stop
    return GraphArrays(
        edge_index=np.ascontiguousarray(kept[:, :at]),
        node_slices=node_slices,
        edge_slices=slices(np.concatenate([*counts, np.empty(0, np.int64)])),
        y=targets,
        node_labels=types[:, None],
        edge_labels=None if bonds is None else kinds[:at, None],
        part=np.repeat(np.arange(3), sizes),
    )
