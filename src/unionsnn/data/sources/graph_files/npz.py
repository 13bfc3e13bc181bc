"""Arrays of numpy: edge_index, or a sparse matrix saved by scipy."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, GraphFileError, RequestError
from unionsnn.data.sources.graph_files.parsed import ParsedGraph, require_memory


def npz_arrays(path: Path, wanted: Collection[str]) -> tuple[dict[str, NDArray[Any]], set[str]]:
    """Read some arrays of an npz file, after their sizes were compared with the free memory.

    Args:
        path: The file.
        wanted: Names of arrays to read, if they are there.

    Returns:
        The arrays, and the names of all.

    Raises:
        GraphFileError: The file is damaged, too large, or holds pickled objects.
    """
    formats = np.lib.format
    try:
        with path.open("rb") as file:
            if file.read(6) == formats.MAGIC_PREFIX:
                raise ValueError("it holds a single array, not named ones")
            with zipfile.ZipFile(file) as archive:
                members = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
                if len(members) != len(archive.infolist()):
                    raise ValueError("two arrays have the same name")
                chosen = {name: each for name, each in members.items() if name in wanted}
                require_memory(path, sum(each.file_size for each in chosen.values()), "its arrays")
                arrays = {}
                for name, each in chosen.items():
                    with archive.open(each) as member:
                        old = formats.read_magic(member) == (1, 0)
                        header = (
                            formats.read_array_header_1_0
                            if old
                            else (formats.read_array_header_2_0)
                        )
                        shape, _, dtype = header(member)
                        if math.prod(shape) * dtype.itemsize > each.file_size:
                            raise ValueError(f"{name} of shape {shape} is larger than its content")
                    with archive.open(each) as member:
                        arrays[name] = formats.read_array(member, allow_pickle=False)
                return arrays, set(members)
    except (GraphFileError, OSError):
        raise
    except Exception as error:  # Damage can surface anywhere between zip, zlib and npy.
        advice = "; arrays of objects are never unpickled" if "pickle" in str(error) else ""
        raise GraphFileError(
            f"{path} is not an npz file that can be read ({error}{advice})."
        ) from error


def checked_rows(
    path: Path, key: str, array: NDArray[Any], dtype: type[np.generic], count: int, what: str
) -> NDArray[Any]:
    """Return an array as a table of a type; refuse what that would change, and other sizes.

    Args:
        path: Its file, for messages.
        key: Its name.
        array: The array, or one column.
        dtype: int64 for labels, float32 for attributes.
        count: How many rows it must have.
        what: What the rows are for.

    Shapes:
        array [count, k] or [count] -> [count, k].

    Raises:
        DataError: It has another shape or type, or a value that is not finite or too large.
    """
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != count:
        raise DataError(
            f"{path}: {key} has shape {array.shape}, not [{count}, k], a row for each of the "
            f"{what}",
            code="data.table",
        )
    kinds, words = ("iu", "integers") if dtype == np.int64 else ("biuf", "real numbers")
    if array.dtype.kind not in kinds:
        raise DataError(f"{path}: {key} are {array.dtype}, not {words}", code="data.table")
    with np.errstate(over="ignore"):
        table = array.astype(dtype)
    exact = (table == array) if dtype == np.int64 else np.isfinite(table)
    if not exact.all():
        row = int(np.argwhere(~exact)[0][0])
        raise DataError(
            f"{path}: {key} has {array[row].max()} in row {row}, which is not finite or too "
            f"large for {np.dtype(dtype)}",
            code="data.table",
        )
    return table


EDGE_ARRAYS: Mapping[str, type[np.generic]] = {
    "edge_labels": np.int64,
    "edge_attributes": np.float32,
}
"""Features of edges in npz files, by name, and their types."""

_MATRIX = ("format", "shape", "data", "row", "col", "indices", "indptr", "offsets")


def read_npz(path: Path, edge_features: bool = False) -> tuple[bool, list[ParsedGraph]]:
    """Read ``edge_index`` and optionally ``num_nodes``, or a sparse matrix saved by scipy.

    With features of edges, also ``edge_labels`` and ``edge_attributes``, or the matrix's values.
    """
    features = tuple(EDGE_ARRAYS) if edge_features else ()
    arrays, names = npz_arrays(path, ("edge_index", "num_nodes", *features, *_MATRIX))
    if "edge_index" in arrays:
        known = {"edge_index", "num_nodes", "node_labels", "node_attributes", *features}
        others = sorted(names - known)
        graph = from_arrays(path, arrays["edge_index"], arrays.get("num_nodes"), others)
        count = graph.edges.shape[1]
        tables = {
            key: checked_rows(path, key, arrays[key], EDGE_ARRAYS[key], count, "edges")
            for key in features
            if key in arrays
        }
        return True, [replace(graph, edge_features=tables)]
    if {"format", "shape"} <= names:
        return True, [_from_matrix(path, arrays, edge_features)]
    raise GraphFileError(
        f"{path} holds {', '.join(sorted(names)) or 'nothing'}; needed is edge_index [2, E] with "
        "or without num_nodes, or an adjacency matrix written by scipy.sparse.save_npz."
    )


def from_arrays(
    path: Path, edge_index: Any, num_nodes: Any, left_out: Collection[str] = ()
) -> ParsedGraph:
    """Make a graph of its edges, with as many nodes as told or, if that is not doubtful, named.

    Shapes:
        edge_index [2, E].

    Raises:
        GraphFileError: They are no such array, or do not fit into memory.
    """
    from unionsnn.coefficients.graph import as_edge_index, check_num_nodes

    try:
        # A tensor may stand for more numbers than it stores.
        require_memory(path, 8 * math.prod(np.shape(edge_index)), "edge_index")
        edges = as_edge_index(edge_index)
        if num_nodes is not None:
            number = np.asarray(num_nodes)
            given = check_num_nodes(number.item() if number.size == 1 else num_nodes)
            return ParsedGraph(edges, given, None, left_out)
        count = int(edges.max(initial=-1)) + 1
        if count > 10**6 and count > 10 * len(np.unique(edges)):
            raise RequestError(
                f"the largest node id is {count - 1}, but only {len(np.unique(edges))} nodes have "
                "an edge. Give num_nodes if the others are nodes too; otherwise renumber them: "
                "_, edge_index = np.unique(edge_index, return_inverse=True), then reshape(2, -1).",
                code="graph.node_id",
            )
        return ParsedGraph(edges, count, None, left_out)
    except (TypeError, ValueError) as error:
        raise GraphFileError(f"{path}: {error}") from error


def _from_matrix(
    path: Path, arrays: Mapping[str, NDArray[Any]], edge_features: bool
) -> ParsedGraph:
    """Read an adjacency matrix; compiled code of scipy follows its index arrays unchecked."""
    from scipy import sparse

    for name in ("indptr", "indices", "row", "col", "offsets"):
        if name in arrays and (arrays[name].dtype.kind not in "iu" or arrays[name].ndim != 1):
            raise GraphFileError(f"{path}: {name} is not a row of integers.")
    if "indptr" in arrays and arrays["indptr"][-1:].tolist() != [len(arrays.get("indices", ()))]:
        raise GraphFileError(f"{path}: indptr does not end at the number of indices.")
    try:
        with path.open("rb") as file:
            matrix = sparse.load_npz(file)
        if "indptr" in arrays:
            matrix.check_format(full_check=True)
        matrix = matrix.tocoo()
        edges = np.stack([matrix.row, matrix.col]).astype(np.int64)[:, matrix.data != 0]
        values = matrix.data[matrix.data != 0]
        weighted = bool((values != 1).any())
    except Exception as error:  # Damage can surface anywhere in scipy's checks.
        raise GraphFileError(
            f"{path} is not a sparse matrix that scipy reads ({error})."
        ) from error
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphFileError(
            f"{path} holds a matrix of {matrix.shape[0]} x {matrix.shape[1]}; an adjacency matrix "
            "is square."
        )
    if np.isnan(values).any():
        raise GraphFileError(
            f"{path}: {int(np.isnan(values).sum())} values of the matrix are NaN, which says "
            "neither that there is an edge nor that there is none."
        )
    name = "the matrix's values"
    if weighted and edge_features:
        dtype = np.int64 if values.dtype.kind in "iu" else np.float32
        table = checked_rows(path, name, values, dtype, edges.shape[1], "edges")
        return ParsedGraph(edges, int(matrix.shape[0]), edge_features={name: table})
    return ParsedGraph(edges, int(matrix.shape[0]), None, [name] if weighted else [])
