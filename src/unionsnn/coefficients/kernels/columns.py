"""The kernels for quantities of several columns: of the path matrix, and of the whole graph."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients import space
from unionsnn.coefficients.kernels.any_radius import KEY_CLASSES, lists_at, write_key, write_rows
from unionsnn.coefficients.kernels.arguments import (
    KEY_WORDS,
    Csr,
    Quotient,
    Workspace,
    new_workspace,
)
from unionsnn.coefficients.kernels.jit import dispatcher, kernel
from unionsnn.coefficients.kernels.marked_paths import END
from unionsnn.coefficients.kernels.neighborhoods import gather, release
from unionsnn.coefficients.kernels.quotients import path_lengths, refine_colors
from unionsnn.coefficients.kernels.routes import KNOWN
from unionsnn.coefficients.kernels.substructures import (
    COLORS,
    FALSE_TWINS,
    KEY,
    KINDS,
    MEMBERS,
    REDUCED,
    ROWS,
    SIZES,
    SORTED_KINDS,
    SORTED_ROWS,
    SORTED_SIZES,
    WORD,
    classes_of_lists,
    first_twins,
    reduced_rows,
    sort_classes,
    twin_classes_of_rows,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]


class Wanted(NamedTuple):
    """The quantities wanted.

    Shapes:
        places [Q] (positions among the functions of the table), starts [Q + 1] (their columns).
    """

    places: IntArray
    starts: IntArray


class PathWorkspace(NamedTuple):
    """Workspace of one thread, with the values of quotients seen before.

    Shapes:
        known [slots, C].
    """

    work: Workspace
    known: FloatArray


_write_of_paths = dispatcher(
    space.column_functions("substructure"),
    "quotient, lengths, matrix, values",
    "no kernel computes this quantity of the path matrix",
)
_write_of_edge = dispatcher(
    space.column_functions("graph"),
    "graph, v, u, work, values",
    "no kernel computes this quantity of the whole graph",
)


def new_path_workspace(num_nodes: int, num_values: int, num_columns: int) -> PathWorkspace:
    """Allocate the workspace of one thread for a graph, a number of values and of columns."""
    work = new_workspace(num_nodes, num_values)
    return PathWorkspace(work, np.empty((len(work.known), num_columns)))


@kernel
def compute_whole_graph_columns(
    graph: Csr,
    begin: int,
    end: int,
    routes: NodeArray,
    wanted: Wanted,
    work: Workspace,
    values: FloatArray,
) -> None:
    """Compute quantities of the whole graph for the edges begin..end-1, except known ones.

    Shapes:
        routes [M], values [M, C].

    Raises:
        NotImplementedError: No kernel computes a quantity.
    """
    for i in range(begin, end):
        if routes[i] != KNOWN:
            for q in range(wanted.places.shape[0]):
                row = values[i, wanted.starts[q] : wanted.starts[q + 1]]
                v, u = graph.edges[0, i], graph.edges[1, i]
                _write_of_edge(wanted.places[q], graph, v, u, work, row)


@kernel
def compute_path_columns(
    graph: Csr,
    begin: int,
    end: int,
    routes: NodeArray,
    substructure: int,
    radii: IntArray,
    wanted: Wanted,
    workspace: PathWorkspace,
    values: FloatArray,
) -> None:
    """Compute quantities of the path matrices of the edges begin..end-1, except known ones.

    Shapes:
        routes [M], radii [R] (ascending), values [end - begin, R, C].

    Raises:
        NotImplementedError: No kernel builds the substructure or computes a quantity.
    """
    indptr, indices, work = graph.indptr, graph.indices, workspace.work
    for i in range(begin, end):
        if routes[i] == KNOWN:
            continue
        v, u = graph.edges[0, i], graph.edges[1, i]
        gathered = gather(
            indptr,
            indices,
            v,
            u,
            radii[-1],
            work.depth_v,
            work.depth_u,
            work.queue,
            work.nodes,
        )
        last_size, last_ends = -1, -1
        for r in range(radii.shape[0]):
            starts, neighbors = lists_at(indptr, indices, gathered, radii[r], substructure, work)
            size, ends = starts.shape[0] - 1, neighbors.shape[0]
            row = values[i - begin, r]
            # Substructures only grow with the radius: without growth it is the same.
            if size == last_size and ends == last_ends:
                row[:] = values[i - begin, r - 1]
            else:
                _write_row(starts, neighbors, work.local[v], work.local[u], wanted, workspace, row)
            last_size, last_ends = size, ends
            for k in range(size):
                work.local[work.chosen[k]] = -1
        release(work.nodes, gathered, work.depth_v, work.depth_u)


@kernel
def _write_row(
    starts: IntArray,
    neighbors: NodeArray,
    v: int,
    u: int,
    wanted: Wanted,
    workspace: PathWorkspace,
    row: FloatArray,
) -> None:
    """Write the columns of one substructure; up to 64 nodes they are looked up by its full key."""
    work = workspace.work
    scratch, size = work.scratch, starts.shape[0] - 1
    slot = np.int64(-1)
    if size <= WORD:
        write_rows(starts, neighbors, scratch[ROWS])
        for k, node in enumerate((v, u)):
            scratch[MEMBERS, k], scratch[SIZES, k], scratch[KINDS, k] = node, 1, END
        classes = twin_classes_of_rows(
            scratch[ROWS], size, scratch[MEMBERS], scratch[SIZES], scratch[KINDS], 2
        )
        reduced_rows(scratch[ROWS], scratch[MEMBERS], classes, scratch[REDUCED])
        colors = scratch[COLORS : COLORS + 2]
        now = refine_colors(scratch[REDUCED], scratch[SIZES], scratch[KINDS], classes, colors)
        sort_classes(colors[now], classes, scratch)
        sizes, kinds = scratch[SORTED_SIZES], scratch[SORTED_KINDS]
        rows = scratch[SORTED_ROWS].reshape(WORD, 1)
        if classes <= KEY_CLASSES:
            slot = write_key(classes, scratch) & (work.keys.shape[0] - 1)
            hit = True
            for k in range(KEY_WORDS):
                if work.keys[slot, k] != scratch[KEY, k]:
                    hit = False
                    break
            if hit:
                row[:] = workspace.known[slot]
                return
    else:
        first, kind = first_twins(starts, neighbors)
        _set_apart(first, kind, v)
        _set_apart(first, kind, u)
        members, sizes, kinds, rows = classes_of_lists(starts, neighbors, first, kind)
        classes = members.shape[0]
    quotient = Quotient(rows, sizes, kinds, classes)
    # The matrix is needed again, for eigenvalues.
    lengths = path_lengths(quotient, work.matrix)[:classes, :classes].copy()
    for q in range(wanted.places.shape[0]):
        part = row[wanted.starts[q] : wanted.starts[q + 1]]
        _write_of_paths(wanted.places[q], quotient, lengths, work.matrix, part)
    if slot >= 0:
        workspace.known[slot] = row
        for k in range(KEY_WORDS):
            work.keys[slot, k] = scratch[KEY, k]


@kernel
def _set_apart(first: IntArray, kind: IntArray, node: int) -> None:
    """Take a node out of its class of twins, and give it the kind of an end.

    Shapes:
        first [n], kind [n] (as of `first_twins`).
    """
    old, leader, size = first[node], np.int64(-1), 0
    for i in range(first.shape[0]):
        if i != node and first[i] == old:
            if leader < 0:
                leader = np.int64(i)
            first[i] = leader
            size += 1
    if size > 0:
        kind[leader] = kind[old] if size > 1 else FALSE_TWINS
    first[node] = node
    kind[node] = END
