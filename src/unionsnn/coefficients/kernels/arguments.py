"""Arguments of kernels: the graph, a subgraph around an edge, and the workspace of a thread."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.spectra import OWN_SOLVER_LIMIT
from unionsnn.coefficients.kernels.substructures import SCRATCH_ROWS, WORD

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

KEY_WORDS = 20
"""Words of a key in the table of quotient matrices: see `any_radius`."""

_MAX_SLOTS = 1 << 16


class Csr(NamedTuple):
    """A simple undirected graph in compressed sparse rows.

    Shapes:
        indptr [N + 1], indices [2 M] (ascending within a row), edges [2, M].
    """

    indptr: IntArray
    indices: NodeArray
    edges: NodeArray


class Subgraph(NamedTuple):
    """The substructure around an edge (v, u); its nodes are positions.

    Attributes:
        starts: Start of each node's list; empty at radius 1 if bit rows are enough.
        neighbors: The concatenated lists, each ascending.
        size: Number of nodes. For up to 64 the bit rows of the adjacency are in the scratch memory.
        ends: Twice the number of edges.
        v: Position of one end.
        u: Position of the other.
        radius: Radius of the neighbourhoods.

    Shapes:
        starts [size + 1] or [0], neighbors [ends] or [0].
    """

    starts: IntArray
    neighbors: NodeArray
    size: int
    ends: int
    v: int
    u: int
    radius: int


class Quotient(NamedTuple):
    """A subgraph with each class of twins merged into one node.

    Shapes:
        rows [>= m, W] (bit rows of the adjacency between classes, W words), sizes [>= m],
        kinds [>= m].
    """

    rows: IntArray
    sizes: IntArray
    kinds: IntArray
    classes: int


class Numbers(NamedTuple):
    """The exponent λ and α; p / q is α if it is a simple fraction, otherwise 0 / 1."""

    exponent: float
    alpha: float
    p: int
    q: int


class Memory(NamedTuple):
    """The part of a thread's memory that kernels of the table may use, to be left as it was.

    Few arrays, because references to all of them are counted at each call.

    Shapes:
        depth [N] (-1), mark [N] (0), scratch [12, 64] (see `substructures`: bit rows of the
        adjacency up to 64 nodes), matrix [>= L + 2, >= L], L the limit of the own solver.
    """

    depth: NodeArray
    mark: npt.NDArray[np.uint8]
    scratch: IntArray
    matrix: FloatArray


class Workspace(NamedTuple):
    """Workspace of one thread.

    ``depth_v``, ``depth_u`` and ``local`` are -1 and ``mark`` is 0 between edges; ``keys`` and
    ``known`` are the table of quotient matrices seen before. The last two rows of ``matrix`` are
    the diagonals that the eigenvalue solver works on.
    """

    depth_v: NodeArray
    depth_u: NodeArray
    local: NodeArray
    queue: NodeArray
    nodes: NodeArray
    chosen: NodeArray
    mark: npt.NDArray[np.uint8]
    scratch: IntArray
    matrix: FloatArray
    keys: IntArray
    known: FloatArray


def new_workspace(num_nodes: int, num_values: int) -> Workspace:
    """Allocate the workspace of one thread for a graph and a number of values."""
    slots = min(_MAX_SLOTS, 1 << max(6, (2 * num_values).bit_length()))
    return Workspace(
        depth_v=np.full(num_nodes, -1, np.int32),
        depth_u=np.full(num_nodes, -1, np.int32),
        local=np.full(num_nodes, -1, np.int32),
        queue=np.empty(num_nodes, np.int32),
        nodes=np.empty(num_nodes, np.int32),
        chosen=np.empty(num_nodes, np.int32),
        mark=np.zeros(num_nodes, np.uint8),
        scratch=np.empty((SCRATCH_ROWS, WORD), np.int64),
        matrix=np.empty((OWN_SOLVER_LIMIT + 2, OWN_SOLVER_LIMIT)),
        keys=np.zeros((slots, KEY_WORDS), np.int64),
        known=np.empty(slots),
    )
