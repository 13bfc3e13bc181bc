"""The hub route against a direct solve, and what threads, chunks and interrupts must not change."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unionsnn.coefficients import SimpleGraph, engine, passes
from unionsnn.coefficients.kernels import hubs, routes

ENDS = 0, 1


def compute(graph, quantities, **options):
    return engine.compute_values(passes.RadiusOne(graph, quantities), **options)


def graph_of(adjacency):
    return SimpleGraph.from_edge_index(np.stack(np.nonzero(adjacency)), len(adjacency))


def planted(rng, inside, border, *, density=0.2, shape="random", rest=0):
    """Adjacency of N[0] with ``inside`` more nodes, and of ``border`` more around node 1."""
    n = 1 + inside + border
    adjacency = np.triu(rng.random((n + rest, n + rest)) < density, 1)
    adjacency[:n, n:] = False
    adjacency[0, :] = False
    if shape == "twins":
        # Rows are copied in blocks: false twins, and true twins where a block is filled.
        for begin in range(2, inside - 4, 8):
            adjacency[begin : begin + 4] = False
            adjacency[:begin, begin : begin + 4] = adjacency[:begin, begin : begin + 1]
    elif shape == "stars":
        adjacency[2:inside, :inside] = False
        adjacency[1, : inside // 2] = False
    elif shape == "complete":
        adjacency[2 : inside // 2, 2 : inside // 2] = True
        adjacency = np.triu(adjacency, 1)
    elif shape == "border twins":
        # Leaves of node 1, and a clique.
        adjacency[:, 1 + inside : n] = False
        adjacency[1 + inside : n, n:] = False
        adjacency[1 + inside : 1 + inside + border // 2, 1 + inside : 1 + inside + border // 2] = (
            True
        )
        adjacency = np.triu(adjacency, 1)
    adjacency[0, 1 : 1 + inside] = True
    adjacency[1, 1 + inside : n] = True
    return adjacency | adjacency.T


def direct(adjacency, v, u):
    nodes = np.flatnonzero(adjacency[v] | adjacency[u])
    a = adjacency[np.ix_(nodes, nodes)].astype(float)
    path = np.where(a > 0, 1.0, np.where(a @ a > 0, 2.0, 3.0))
    np.fill_diagonal(path, 0.0)
    return np.abs(np.linalg.eigvalsh(path)).sum()


def at_hub(graph, v, others):
    position = np.full(graph.num_nodes, -1, np.int32)
    hub = hubs.Hub(graph.indptr, graph.indices, v, position)
    values = [hub.coefficient(u) for u in others]
    hub.close()
    assert (position == -1).all()
    return np.array(values)


@pytest.mark.parametrize("shape", ["random", "twins", "stars", "complete", "border twins"])
@pytest.mark.parametrize(
    ("inside", "border"), [(100, 1), (150, 30), (300, 12), (400, 80), (590, 5)]
)
def test_either_end_as_hub_is_the_direct_solve(shape, inside, border):
    rng = np.random.default_rng([inside, border])
    density = rng.choice([0.02, 0.1, 0.5])
    adjacency = planted(rng, inside, border, density=density, shape=shape, rest=20)
    graph = graph_of(adjacency)
    right = direct(adjacency, 0, 1)
    assert at_hub(graph, 0, [1])[0] == pytest.approx(right, rel=1e-9)
    if not adjacency[0, 1:].all() and (adjacency[0] & ~adjacency[1]).sum() <= inside / 5:
        assert at_hub(graph, 1, [0])[0] == pytest.approx(right, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.0]))
def test_all_edges_of_a_small_hub(seed, inside, density):
    rng = np.random.default_rng(seed)
    adjacency = planted(rng, inside, int(rng.integers(1 + inside // 5)), density=density)
    neighbors = np.flatnonzero(adjacency[0])
    values = at_hub(graph_of(adjacency), 0, neighbors)
    # Borders of the size of the hub itself, which the cost model never sends here, included.
    right = [direct(adjacency, 0, u) for u in neighbors]
    np.testing.assert_allclose(values, right, rtol=2e-8)


def test_no_border_at_all():
    adjacency = ~np.eye(150, dtype=bool)
    np.testing.assert_allclose(at_hub(graph_of(adjacency), 0, [1, 2]), 2 * 149, rtol=1e-12)


def test_the_rule_is_the_absolute_value():
    rule = hubs.absolute_value_rule(700.0)
    x = 700.0 * np.concatenate([[0.0], np.logspace(-13, 0, 5000)])
    logarithms = np.log(x[:, None] ** 2 + rule.nodes**2) @ rule.weights
    error = np.abs(rule.constant + rule.square * x**2 + logarithms - x) / 700.0
    assert error.max() < 5e-10


@pytest.fixture(scope="module")
def hub_graph():
    """Two hubs that share a fifth of their neighbours, in a sparse graph; hub and direct edges."""
    rng = np.random.default_rng(11)
    n = 700
    adjacency = np.triu(rng.random((n, n)) < 0.02, 1)
    adjacency[0, 1:360] = True
    adjacency[1, 300:650] = True
    return graph_of(adjacency | adjacency.T)


@pytest.fixture(scope="module")
def values(hub_graph):
    return compute(hub_graph, ("a", "nodes"), threads=1)


def hub_edges(graph):
    """Which edges go to a hub, as the engine finds them."""
    seen = []

    class Watched(hubs.Hub):
        def coefficient(self, u):
            seen.append(u)
            return super().coefficient(u)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "Hub", Watched)
        compute(graph, ("a",), threads=1)
    return seen


def test_routes_agree(hub_graph, values, monkeypatch):
    assert len(hub_edges(hub_graph)) > 100
    monkeypatch.setattr(routes, "_MIN_HUB_DEGREE", 10**6)
    assert not hub_edges(hub_graph)
    without = compute(hub_graph, ("a", "nodes"), threads=1)
    np.testing.assert_allclose(values, without, rtol=1e-9)
    assert (values != without).any()


@pytest.mark.parametrize(("threads", "block_size"), [(1, 1), (2, None), (3, 17), (2, 100_000)])
def test_threads_and_blocks_change_no_bit(hub_graph, values, threads, block_size):
    again = compute(hub_graph, ("a", "nodes"), threads=threads, block_size=block_size)
    assert (again == values).all()


def test_chunks_hold_at_most_a_block(hub_graph):
    kinds = np.full(hub_graph.num_undirected_edges, routes.DIRECT, np.int32)
    edge_costs, _ = passes.RadiusOne(hub_graph, ("a",)).costs(kinds)
    bounds, costs = engine.plan_chunks(edge_costs, 1, 50)
    assert np.diff(bounds).max() == 50
    assert len(costs) == len(bounds) - 1


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_and_finished_edges_cover_all_once(hub_graph, values, threads):
    seen, told = np.zeros(len(values), int), []

    def partial(begin, end, rows):
        seen[begin:end] += 1
        assert (rows == values[begin:end]).all()

    def progress(done, total):
        told.append(done)
        assert total == len(values)

    compute(hub_graph, ("a", "nodes"), threads=threads, progress=progress, partial=partial)
    assert (seen == 1).all()
    assert told == sorted(told)
    assert told[-1] == len(values)
    # Another thread computes long work: what it has done is told ten times a second.
    assert len(told) > 3


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_an_interrupt_keeps_what_is_done_and_a_later_call_goes_on(
    hub_graph, values, threads, share
):
    kept = []

    def stop(done, total):
        if done > share * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(
            hub_graph,
            ("a", "nodes"),
            threads=threads,
            block_size=200,
            progress=stop,
            partial=lambda begin, end, rows: kept.append((begin, end, rows.copy())),
        )
    done = sum(end - begin for begin, end, _ in kept)
    assert 0 < done <= len(values)
    # Threads may finish their last edges while the caller raises.
    assert share > 0.9 or done < len(values)
    fresh = []
    again = compute(
        hub_graph,
        ("a", "nodes"),
        threads=threads,
        known=kept,
        partial=lambda begin, end, rows: fresh.append((begin, end)),
    )
    assert (again == values).all()
    old = {i for begin, end, _ in kept for i in range(begin, end)}
    new = {i for begin, end in fresh for i in range(begin, end)}
    assert not old & new
    assert len(old | new) == len(values)


def test_known_edges_are_taken_as_they_are(hub_graph, values):
    marked = np.full((10, 2), 7.0)
    again = compute(hub_graph, ("a", "nodes"), known=[(5, 15, marked)])
    assert (again[5:15] == 7.0).all()
    assert (np.delete(again, np.s_[5:15], 0) == np.delete(values, np.s_[5:15], 0)).all()


def test_a_failing_hub_raises_and_ends_the_threads(hub_graph, monkeypatch):
    def fail(*args):
        raise MemoryError("no room")

    monkeypatch.setattr(passes, "Hub", fail)
    for threads in (1, 2):
        with pytest.raises(MemoryError, match="no room"):
            compute(hub_graph, ("a",), threads=threads)


def test_hubs_wait_for_memory():
    gate = engine.MemoryGate(100)
    in_use, most = [], []
    sizes = [60, 50, 500, *[30] * 200]
    waiting = [
        engine.Group(np.array([i]), 0, 1.0, size, size // 2, iter) for i, size in enumerate(sizes)
    ]

    def use(_):
        with gate.next_of(waiting) as (group, shrink):
            in_use.append(group.memory)
            most.append(sum(in_use))
            in_use.remove(group.memory)
            shrink()
            shrink()

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, sizes))
    assert not waiting
    assert max(most) <= 500
    assert all(total <= 100 for total in most if total < 500)


def test_a_hub_that_fits_goes_before_one_that_does_not():
    gate = engine.MemoryGate(100)
    waiting = [
        engine.Group(np.array([i]), 0, 1.0, memory, 40, iter)
        for i, memory in enumerate([90, 70, 50])
    ]
    with gate.next_of(waiting) as (first, shrink):
        assert first.memory == 90
        shrink()
        with gate.next_of(waiting) as (second, _):
            assert second.memory == 50
    assert [group.memory for group in waiting] == [70]


def caterpillar(legs):
    spine = [(i, i + 1) for i in range(len(legs) - 1)]
    feet = [i for i, count in enumerate(legs) for _ in range(count)]
    return spine + [(i, len(legs) + k) for k, i in enumerate(feet)]


TWINS = {
    "star": caterpillar([9]),
    "double star": caterpillar([7, 4]),
    "caterpillar": caterpillar([5, 1, 6, 3]),
    "complete bipartite": [(end, leaf) for end in (0, 1) for leaf in range(2, 10)],
    "clique with leaves": [*itertools.combinations(range(5), 2), *((0, k) for k in range(5, 11))],
    "two edges between leaves": [*caterpillar([9]), (1, 2), (2, 3)],
}


@pytest.mark.parametrize("pairs", TWINS.values(), ids=TWINS)
@pytest.mark.parametrize("seed", range(3))
def test_edges_of_twins_cost_one_computation_and_have_the_slow_value(pairs, seed, monkeypatch):
    n = 1 + max(map(max, pairs))
    adjacency = np.zeros((n, n), bool)
    v, u = np.random.default_rng(seed).permutation(n)[np.array(pairs).T]
    adjacency[v, u] = adjacency[u, v] = True
    graph = graph_of(adjacency)
    monkeypatch.setattr(engine, "_MANY_NEIGHBORS", 0)
    assert len(set(engine.twin_edges(graph))) < graph.num_undirected_edges
    right = [direct(adjacency, v, u) for v, u in graph.edges.T]
    np.testing.assert_allclose(compute(graph, ("a",))[:, 0], right, rtol=1e-12)
    for choice in [
        ("union", "path", "entry_sum", (1, 2)),
        ("overlap", "laplacian", "largest_eigenvalue", (1,)),
        ("union_minus", "edge_betweenness", None, (2,)),
        ("union", "curvature_graph", None, (1,)),
        ("union", "cycle_count", None, (1,)),
    ]:
        edge_pass = passes.AnyRadius(graph, *choice, ("a", "nodes", "edges"))
        merged = engine.compute_values(edge_pass)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_MANY_NEIGHBORS", 10**6)
            np.testing.assert_allclose(merged, engine.compute_values(edge_pass), rtol=1e-12)


def test_below_the_bound_each_edge_is_computed_by_itself(hub_graph):
    small = graph_of(planted(np.random.default_rng(0), 40, 3, shape="twins"))
    for graph in (small, hub_graph):
        assert (engine.twin_edges(graph) == np.arange(graph.num_undirected_edges)).all()


def test_a_star_of_a_hundred_thousand_leaves_is_one_computation():
    leaves = 100_000
    star = np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)])
    kept = []
    graph = SimpleGraph.from_edge_index(star, leaves + 1, symmetrize=True)
    values = compute(
        graph, ("a", "nodes"), partial=lambda begin, end, rows: kept.append((begin, end, rows))
    )
    # Q = [[0, √p], [√p, 2 (p - 1)]] has one positive eigenvalue.
    right = 2 * (leaves - 1 + np.sqrt((leaves - 1) ** 2 + leaves))
    np.testing.assert_allclose(values[:, 0], right, rtol=1e-14)
    assert (values[:, 1] == leaves + 1).all()
    assert [(begin, end) for begin, end, _ in kept] == [(0, 1)]
    assert (compute(graph, ("a", "nodes"), known=kept) == values).all()
