"""Union subgraphs of edges: their nodes, their induced edges, their classes of twins.

The union subgraph of an edge (v, u) is induced on N[v] ∪ N[u] (Xu et al., AAAI 2024). Up to 64
nodes its adjacency is stored as one bit row per node, beyond that as sorted lists.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.jit import kernel

IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]
# np.int64 and int differ for a type checker, but are one type for numba.
Word = Any

WORD = 64
"""Bits of a row word, and the maximum number of nodes of a subgraph with single-word rows."""

# Rows of the scratch memory of a thread, [SCRATCH_ROWS, WORD], for subgraphs of at most 64 nodes.
ROWS, MEMBERS, SIZES, KINDS, REDUCED, RANK = range(6)
COLORS = 6  # and 7
SORTED_ROWS, SORTED_SIZES, SORTED_KINDS, KEY = range(8, 12)
SCRATCH_ROWS = 12

FALSE_TWINS = 0
TRUE_TWINS = 1

LOOKUP_RATIO = 16
"""Ratio of a neighbour's degree to the size of the subgraph from which looking up the subgraph's
nodes in the neighbour's row is cheaper than reading the row."""


@kernel
def popcount(word: Word) -> Word:
    """Count the bits of a 64-bit word."""
    x = np.uint64(word)
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def mix(value: Word) -> Word:
    """Hash an integer to 64 bits."""
    x = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(x ^ (x >> np.uint64(31)))


@kernel
def union_nodes(indptr: IntArray, indices: NodeArray, v: int, u: int, nodes: NodeArray) -> int:
    """List N[v] ∪ N[u] in ascending order; v and u are included as each other's neighbours.

    Shapes:
        nodes [>= d_v + d_u], filled from the front.

    Returns:
        Number of nodes.
    """
    i, i_end = indptr[v], indptr[v + 1]
    j, j_end = indptr[u], indptr[u + 1]
    count = 0
    while i < i_end and j < j_end:
        a, b = indices[i], indices[j]
        nodes[count] = min(a, b)
        count += 1
        i += a <= b
        j += b <= a
    for k in range(i, i_end):
        nodes[count] = indices[k]
        count += 1
    for k in range(j, j_end):
        nodes[count] = indices[k]
        count += 1
    return count


@kernel
def contains(indices: NodeArray, begin: int, end: int, node: int) -> bool:
    """Return whether a node is in the ascending entries begin..end-1, by binary search."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low < end and indices[low] == node


@kernel
def induced_rows(
    indptr: IntArray,
    indices: NodeArray,
    nodes: NodeArray,
    count: int,
    local: NodeArray,
    rows: IntArray,
) -> int:
    """Write the adjacency of a subgraph of at most 64 nodes as bit rows.

    Shapes:
        nodes [>= n], local [N] (position of a node in ``nodes`` or -1), rows [>= n].

    Returns:
        Number of edges |E_S|.
    """
    ends = 0
    for i in range(count):
        begin, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        row = np.int64(0)
        if end - begin > LOOKUP_RATIO * count:
            for j in range(count):
                row |= np.int64(contains(indices, begin, end, nodes[j])) << j
        else:
            for k in range(begin, end):
                # Branch-free: nodes outside add a zero bit.
                position = np.int64(local[indices[k]])
                row |= np.int64(position >= 0) << (position & (WORD - 1))
        rows[i] = row
        ends += popcount(row)
    return ends // 2


@kernel
def induced_lists(
    indptr: IntArray, indices: NodeArray, nodes: NodeArray, count: int, local: NodeArray
) -> tuple[IntArray, NodeArray]:
    """List the adjacency of a subgraph of any size.

    Shapes:
        nodes [>= n], local [N] (position of a node in ``nodes`` or -1).

    Returns:
        starts [n + 1] and neighbors [2 |E_S|], positions in ``nodes``, ascending in each list.
    """
    capacity = 0
    for i in range(count):
        capacity += min(indptr[nodes[i] + 1] - indptr[nodes[i]], count - 1)
    starts = np.zeros(count + 1, np.int64)
    neighbors = np.empty(capacity, np.int32)
    filled = 0
    for i in range(count):
        begin, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        if end - begin > LOOKUP_RATIO * count:
            for j in range(count):
                if contains(indices, begin, end, nodes[j]):
                    neighbors[filled] = j
                    filled += 1
        else:
            for k in range(begin, end):
                position = local[indices[k]]
                if position >= 0:
                    neighbors[filled] = position
                    filled += 1
        starts[i + 1] = filled
    return starts, neighbors[:filled]


@kernel
def twin_classes_of_rows(
    rows: IntArray,
    count: int,
    members: IntArray,
    sizes: IntArray,
    kinds: IntArray,
    apart: int = 0,
) -> int:
    """Group the nodes of a subgraph of at most 64 nodes into twins.

    Two nodes are false twins if they have the same neighbours, true twins if they are adjacent
    and have the same other neighbours. A node has at most one of the two kinds of twins.

    The first `apart` classes are there before, of one node each, and no other node joins them.

    Shapes:
        rows [>= n], members [>= n] (out: first node of each class), sizes [>= n], kinds [>= n].

    Returns:
        Number of classes m.
    """
    left_out = np.int64(0)
    for k in range(apart):
        left_out |= np.int64(1) << members[k]
    classes = apart
    for i in range(count):
        if (left_out >> i) & 1:
            continue
        row = rows[i]
        closed = row | (np.int64(1) << i)
        k = apart
        while k < classes:
            j = members[k]
            if rows[j] == row:
                break
            if rows[j] | (np.int64(1) << j) == closed:
                kinds[k] = TRUE_TWINS
                break
            k += 1
        if k < classes:
            sizes[k] += 1
        else:
            members[k] = i
            sizes[k] = 1
            kinds[k] = FALSE_TWINS
            classes += 1
    return classes


@kernel
def reduced_rows(rows: IntArray, members: IntArray, classes: int, reduced: IntArray) -> None:
    """Reduce single-word bit rows to the first node of each class.

    Shapes:
        rows [>= n], members [>= m], reduced [>= m].
    """
    for k in range(classes):
        reduced[k] = 0
    for k in range(classes):
        row = rows[members[k]]
        for j in range(k):
            bit = (row >> members[j]) & 1
            reduced[k] |= bit << j
            reduced[j] |= bit << k


@kernel
def sort_classes(colors: IntArray, classes: int, scratch: IntArray) -> None:
    """Sort the classes in the scratch by colour, stably.

    Shapes:
        colors [>= m], scratch [SCRATCH_ROWS, WORD].
    """
    rows, rank = scratch[REDUCED], scratch[RANK]
    # Counting predecessors is faster than an insertion sort, whose branches are unpredictable.
    for k in range(classes):
        before = np.int64(0)
        for j in range(k):
            before += np.int64(colors[j] <= colors[k])
        for j in range(k + 1, classes):
            before += np.int64(colors[j] < colors[k])
        rank[k] = before
    for k in range(classes):
        row = rows[k]
        moved: Word = np.int64(0)
        while row != 0:
            moved |= np.int64(1) << rank[popcount((row & -row) - 1)]
            row &= row - 1
        scratch[SORTED_ROWS, rank[k]] = moved
        scratch[SORTED_SIZES, rank[k]] = scratch[SIZES, k]
        scratch[SORTED_KINDS, rank[k]] = scratch[KINDS, k]


@kernel
def twin_classes_of_lists(
    starts: IntArray, neighbors: NodeArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Group the nodes of a subgraph of any size into twins, as `twin_classes_of_rows` does.

    Shapes:
        starts [n + 1], neighbors [2 |E_S|] (sorted lists).

    Returns:
        members [m] (first node of each class, ascending), sizes [m], kinds [m], and bit rows
        [m, ceil(m / 64)] of the adjacency between classes.
    """
    first, kind = first_twins(starts, neighbors)
    return classes_of_lists(starts, neighbors, first, kind)


@kernel
def classes_of_lists(
    starts: IntArray, neighbors: NodeArray, first: IntArray, kind: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Group the nodes of a subgraph by the first node of their class.

    Shapes:
        starts [n + 1], neighbors [2 |E_S|] (sorted lists), first [n], kind [n] (of first nodes).

    Returns:
        As `twin_classes_of_lists`.
    """
    count = starts.shape[0] - 1
    rank = np.empty(count, np.int64)
    classes = 0
    for i in range(count):
        rank[i] = -1
        if first[i] == i:
            rank[i] = classes
            classes += 1
    members = np.empty(classes, np.int64)
    sizes = np.zeros(classes, np.int64)
    kinds = np.empty(classes, np.int64)
    rows = np.zeros((classes, (classes + WORD - 1) // WORD), np.int64)
    for i in range(count):
        k = rank[first[i]]
        sizes[k] += 1
        if first[i] != i:
            continue
        members[k] = i
        kinds[k] = kind[i]
        for at in range(starts[i], starts[i + 1]):
            j = rank[neighbors[at]]
            if j >= 0:
                rows[k, j // WORD] |= np.int64(1) << (j % WORD)
    return members, sizes, kinds, rows


@kernel
def first_twins(starts: IntArray, neighbors: NodeArray) -> tuple[IntArray, IntArray]:
    """Return the smallest twin of each node of a subgraph, and their kind of twins.

    Shapes:
        starts [n + 1], neighbors [2 |E_S|] (sorted lists) -> [n], [n].
    """
    count = starts.shape[0] - 1
    first = np.empty(count, np.int64)
    for k in range(count):
        first[k] = k
    kind = np.zeros(count, np.int64)
    for wanted in range(2):
        _merge_twins(starts, neighbors, wanted, first, kind)
    return first, kind


@kernel
def _merge_twins(
    starts: IntArray, neighbors: NodeArray, wanted: int, first: IntArray, kind: IntArray
) -> None:
    """Point ``first`` of each node to the smallest twin of the wanted kind, by a hash table."""
    count = starts.shape[0] - 1
    slots = 4
    while slots < 2 * count:
        slots *= 2
    table = np.empty(slots, np.int64)
    for slot in range(slots):
        table[slot] = -1
    hashes = np.zeros(count, np.int64)
    for i in range(count):
        if wanted == TRUE_TWINS:
            hashes[i] += mix(i)
        for at in range(starts[i], starts[i + 1]):
            hashes[i] += mix(neighbors[at])
        if first[i] != i:
            continue
        slot = hashes[i] & (slots - 1)
        while table[slot] >= 0:
            j = table[slot]
            if hashes[j] == hashes[i] and _are_twins(starts, neighbors, i, j, wanted):
                first[i] = j
                kind[j] = wanted
                break
            slot = (slot + 1) & (slots - 1)
        if first[i] == i:
            table[slot] = i


@kernel
def _are_twins(starts: IntArray, neighbors: NodeArray, i: int, j: int, wanted: int) -> bool:
    """Compare two neighbourhoods exactly, since hashes may collide."""
    if starts[i + 1] - starts[i] != starts[j + 1] - starts[j]:
        return False
    if wanted == FALSE_TWINS:
        for k in range(starts[i + 1] - starts[i]):
            if neighbors[starts[i] + k] != neighbors[starts[j] + k]:
                return False
        return True
    x, y = starts[i], starts[j]
    adjacent = False
    while x < starts[i + 1] or y < starts[j + 1]:
        if x < starts[i + 1] and neighbors[x] == j:
            adjacent = True
            x += 1
        elif y < starts[j + 1] and neighbors[y] == i:
            y += 1
        elif x < starts[i + 1] and y < starts[j + 1] and neighbors[x] == neighbors[y]:
            x += 1
            y += 1
        else:
            return False
    return adjacent
