"""Random graphs with and without cycles of a length: the compiled part of `cycles`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unionsnn.data.arrays import IntArray

Function = TypeVar("Function", bound=Callable[..., Any])

_EDGE_SPREAD = 8.0
_PROPOSALS_PER_EDGE = 30
_PATIENCE = 20_000

# Powers of two have distinct remainders modulo 67, so a small table gives a bit's index.
_BIT_NUMBER = np.zeros(67, np.int64)
_BIT_NUMBER[[pow(2, bit, 67) for bit in range(64)]] = np.arange(64)

State = NDArray[np.uint64]
BitRows = NDArray[np.uint64]


def _kernel(function: Function) -> Function:
    """Compile without the GIL; cache the machine code on disk if a folder is writable."""
    try:
        compiled: Function = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        compiled = njit(nogil=True)(function)
    return compiled


@_kernel
def _next(state: State) -> Any:
    """Advance xoshiro256++ by one step; return 64 random bits."""
    total = state[0] + state[3]
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + state[0]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << np.uint64(45)) | (state[3] >> np.uint64(19))
    return result


@_kernel
def _uniform(state: State) -> float:
    return float(_next(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@_kernel
def _below(state: State, limit: int) -> int:
    # The bias of scaling 53 bits to a limit of a few thousand is below 1e-12.
    return int(_uniform(state) * limit)


@_kernel
def _draw_size(state: State, mean: float) -> int:
    """Draw a number of edges whose expectation is exactly the mean."""
    return int(np.floor(mean + _EDGE_SPREAD * (2.0 * _uniform(state) - 1.0) + _uniform(state)))


@_kernel
def _bit(node: int) -> Any:
    return np.uint64(1) << np.uint64(node)


@_kernel
def _adjacent(rows: BitRows, u: int, v: int) -> bool:
    return (rows[u] >> np.uint64(v)) & np.uint64(1) == np.uint64(1)


@_kernel
def _flip(rows: BitRows, u: int, v: int) -> None:
    """Insert an absent edge, or remove a present one."""
    rows[u] ^= _bit(v)
    rows[v] ^= _bit(u)


@_kernel
def _has_path(rows: BitRows, u: int, v: int, length: int) -> bool:
    """Return whether a simple path of exactly `length` >= 3 edges joins two nodes.

    Depth-first over the first length - 2 steps; one set test covers the last two.
    """
    last = length - 2
    path = np.empty(length, np.int64)
    left = np.empty(length, np.uint64)
    path[0] = u
    visited = _bit(u) | _bit(v)
    left[0] = rows[u] & ~visited
    depth = 0
    while depth >= 0:
        if left[depth] == np.uint64(0):
            visited &= ~_bit(path[depth])
            depth -= 1
            continue
        low = left[depth] & (~left[depth] + np.uint64(1))
        left[depth] ^= low
        node = _BIT_NUMBER[low % np.uint64(67)]
        onward = rows[node] & ~visited & ~low
        if depth + 1 == last:
            if onward & rows[v]:
                return True
            continue
        depth += 1
        path[depth] = node
        visited |= low
        left[depth] = onward
    return False


@_kernel
def _has_cycle(rows: BitRows, length: int) -> bool:
    n = len(rows)
    for u in range(n):
        for v in range(u + 1, n):
            if _adjacent(rows, u, v) and _has_path(rows, u, v, length - 1):
                return True
    return False


@_kernel
def _fill_cycle_free(state: State, rows: BitRows, length: int, num_edges: int) -> bool:
    """Visit all node pairs in random order and add each edge that closes no such cycle."""
    n = len(rows)
    rows[:] = 0
    order = np.empty((n * (n - 1) // 2, 2), np.int64)
    k = 0
    for u in range(n):
        for v in range(u + 1, n):
            order[k, 0] = u
            order[k, 1] = v
            k += 1
    placed = 0
    for i in range(len(order)):
        j = i + _below(state, len(order) - i)
        u, v = order[j, 0], order[j, 1]
        order[j] = order[i]
        if not _has_path(rows, u, v, length - 1):
            _flip(rows, u, v)
            placed += 1
            if placed == num_edges:
                return True
    return False


@_kernel
def _fill_uniform(state: State, rows: BitRows, num_edges: int) -> None:
    n = len(rows)
    rows[:] = 0
    placed = 0
    while placed < num_edges:
        u = _below(state, n)
        v = _below(state, n)
        if u != v and not _adjacent(rows, u, v):
            _flip(rows, u, v)
            placed += 1


@_kernel
def _list_edges(rows: BitRows, num_edges: int) -> IntArray:
    n = len(rows)
    edges = np.empty((num_edges, 2), np.int64)
    count = 0
    for u in range(n):
        for v in range(u + 1, n):
            if _adjacent(rows, u, v):
                edges[count, 0] = u
                edges[count, 1] = v
                count += 1
    return edges


@_kernel
def _degrees(edges: IntArray, n: int) -> IntArray:
    degrees = np.zeros(n, np.int64)
    for i in range(len(edges)):
        degrees[edges[i, 0]] += 1
        degrees[edges[i, 1]] += 1
    return degrees


@_kernel
def _swap(
    state: State, rows: BitRows, edges: IntArray, kinds: IntArray, length: int, closing: bool
) -> bool:
    """Propose a double edge swap and keep it if it is allowed.

    The two nodes that change partners must be of one kind. A closing swap must close a cycle,
    any other must not.
    """
    first = _below(state, len(edges))
    second = _below(state, len(edges))
    turn = _below(state, 4)
    a, b = edges[first, turn & 1], edges[first, 1 - (turn & 1)]
    c, d = edges[second, turn >> 1], edges[second, 1 - (turn >> 1)]
    if kinds[b] != kinds[d] or a in (c, d) or b in (c, d):
        return False
    if _adjacent(rows, a, d) or _adjacent(rows, c, b):
        return False
    _flip(rows, a, b)
    _flip(rows, c, d)
    closes = _has_path(rows, a, d, length - 1)
    _flip(rows, a, d)
    closes = closes or _has_path(rows, c, b, length - 1)
    if closes != closing:
        _flip(rows, a, d)
        _flip(rows, a, b)
        _flip(rows, c, d)
        return False
    _flip(rows, c, b)
    edges[first, 0], edges[first, 1] = a, d
    edges[second, 0], edges[second, 1] = c, b
    return True


@_kernel
def _count_triangles(rows: BitRows, edges: IntArray) -> int:
    corners = 0
    for i in range(len(edges)):
        common = rows[edges[i, 0]] & rows[edges[i, 1]]
        while common:
            common &= common - np.uint64(1)
            corners += 1
    return corners // 3


@_kernel
def _close(state: State, rows: BitRows, edges: IntArray, kinds: IntArray, length: int) -> bool:
    """Close a first cycle with one swap."""
    tries = 0
    while tries < _PATIENCE and not _swap(state, rows, edges, kinds, length, True):
        tries += 1
    return tries < _PATIENCE


@_kernel
def _reach(
    state: State, rows: BitRows, edges: IntArray, kinds: IntArray, length: int, triangles: int
) -> bool:
    """Swap without closing a cycle until there is a given number of triangles."""
    for _ in range(_PATIENCE):
        if _swap(state, rows, edges, kinds, length, False) and (
            _count_triangles(rows, edges) == triangles
        ):
            return True
    return False


@_kernel
def _matched_pair(state: State, length: int, num_edges: int, pair: BitRows) -> None:
    """Fill pair[0] with a negative and pair[1] with its positive rewiring."""
    n = pair.shape[1]
    done = False
    while not done:
        if not _fill_cycle_free(state, pair[0], length, num_edges):
            continue
        edges = _list_edges(pair[0], num_edges)
        degrees = _degrees(edges, n)
        alike = np.zeros(n, np.int64)
        for _ in range(_PROPOSALS_PER_EDGE * num_edges):
            _swap(state, pair[0], edges, alike, length, False)
        pair[1] = pair[0]
        other = edges.copy()
        for _ in range(_PROPOSALS_PER_EDGE * num_edges):
            _swap(state, pair[0], edges, degrees, length, False)
            _swap(state, pair[1], other, degrees, length, False)
        done = _close(state, pair[1], other, degrees, length) and _reach(
            state, pair[0], edges, degrees, length, _count_triangles(pair[1], other)
        )


@_kernel
def _plain_graph(state: State, length: int, num_edges: int, positive: bool, rows: BitRows) -> None:
    done = False
    while not done:
        if positive:
            _fill_uniform(state, rows, num_edges)
            done = _has_cycle(rows, length)
        else:
            done = _fill_cycle_free(state, rows, length, num_edges)


@_kernel
def fill_pairs(
    states: State, length: int, mean: float, matched: bool, graphs: BitRows, y: IntArray
) -> None:
    """Fill graphs 2p and 2p + 1 of each pair p; which one is positive is random."""
    for p in range(len(y) // 2):
        coin = _below(states[p, 0], 2)
        y[2 * p] = coin
        y[2 * p + 1] = 1 - coin
        pair = graphs[2 * p : 2 * p + 2]
        if matched:
            _matched_pair(states[p, 0], length, _draw_size(states[p, 0], mean), pair)
            if coin:
                negative = pair[0].copy()
                pair[0] = pair[1]
                pair[1] = negative
        else:
            for k in range(2):
                state = states[p, 1 + k]
                _plain_graph(state, length, _draw_size(state, mean), y[2 * p + k] == 1, pair[k])
