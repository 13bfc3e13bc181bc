"""Chunks on a real cluster of processes: the same bits, whatever the chunks and whoever dies."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest

from unionsnn.base.errors import RequestError
from unionsnn.coefficients import CoefficientSpec, SimpleGraph
from unionsnn.coefficients.distributed import (
    balanced_chunks,
    chunk_values,
    structural_coefficients_distributed,
)

SPEC = CoefficientSpec(quantities=("a", "a_tree", "nodes", "edges"))


def random_edges(num_nodes: int, num_edges: int, seed: int, hub: int = 0) -> np.ndarray:
    """Edges of a random graph in one direction, node 0 being next to the first `hub` others."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(num_nodes, size=(2, num_edges))
    spokes = np.stack([np.zeros(hub, np.int64), np.arange(1, hub + 1)])
    return np.concatenate([spokes, edges], axis=1)


@pytest.mark.parametrize("num_chunks", [1, 2, 3, 10, 10_000])
def test_chunks_cover_every_edge_once(num_chunks):
    graph = SimpleGraph.from_edge_index(random_edges(60, 200, 0, hub=40), 60, symmetrize=True)
    chunks = balanced_chunks(graph, SPEC, num_chunks)
    assert 1 <= len(chunks) <= num_chunks
    covered = [i for begin, end in chunks for i in range(begin, end)]
    assert covered == list(range(graph.num_undirected_edges))


def test_chunks_are_balanced_by_cost_not_by_number():
    star = np.stack([np.zeros(300, np.int64), np.arange(1, 301)])
    path = np.stack([np.arange(301, 900), np.arange(302, 901)])
    graph = SimpleGraph.from_edge_index(np.concatenate([star, path], axis=1), 901, symmetrize=True)
    first, *_, last = (end - begin for begin, end in balanced_chunks(graph, SPEC, 6))
    assert last > 5 * first


@pytest.mark.parametrize("num_edges", [0, 1])
def test_graphs_with_hardly_an_edge(num_edges):
    graph = SimpleGraph.from_edge_index(np.zeros((2, 0), int), 3)
    if num_edges:
        graph = SimpleGraph.from_edge_index([[0, 1], [1, 0]], 3)
    chunks = balanced_chunks(graph, SPEC, 4)
    assert sum(end - begin for begin, end in chunks) == num_edges


@pytest.mark.parametrize("hub", [0, 300])
@pytest.mark.parametrize("num_chunks", [2, 7])
def test_values_of_chunks_are_those_of_the_whole_bit_for_bit(hub, num_chunks):
    edges = random_edges(400, 600, 1, hub)
    graph = SimpleGraph.from_edge_index(edges, 400, symmetrize=True)
    whole = SPEC.compute(graph.edges, 400, symmetrize=True)
    chunks = balanced_chunks(graph, SPEC, num_chunks)
    parts = [chunk_values(graph, SPEC, begin, end) for begin, end in chunks]
    assert (np.concatenate(parts) == whole).all()


def test_arrays_that_cannot_be_written_are_copied_not_compiled_for():
    graph = SimpleGraph.from_edge_index(random_edges(20, 40, 2), 20, symmetrize=True)
    right = chunk_values(graph, SPEC, 0, 5)
    for array in (graph.indptr, graph.indices, graph.edges):
        array.flags.writeable = False
    assert (chunk_values(graph, SPEC, 0, 5) == right).all()


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=50,
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


# Dask's own shutdown leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_worker_that_is_killed_on_the_way_changes_no_bit(client):
    edges = random_edges(2000, 8000, 3, hub=300)
    edges[:, 5] = 7
    right = SPEC.compute(edges, 2000, symmetrize=True)
    victims = client.run(os.getpid)
    assert len(set(victims.values())) == 2
    seen: list[tuple[int, int]] = []

    def kill_one(done: int, total: int) -> None:
        if len(seen) == 1:
            os.kill(next(iter(victims.values())), signal.SIGKILL)
        seen.append((done, total))

    values = structural_coefficients_distributed(
        client, edges, 2000, SPEC, symmetrize=True, num_chunks=40, progress=kill_one
    )
    assert (values == right).all()
    assert (values[5] == 0).all()
    done = [d for d, _ in seen]
    assert done == sorted(set(done))
    assert seen[-1][0] == seen[-1][1]
    again = structural_coefficients_distributed(
        client, edges, 2000, SPEC, symmetrize=True, num_chunks=3
    )
    assert (again == right).all()


def test_an_empty_graph_and_bad_input(client):
    empty = np.zeros((2, 0), int)
    assert structural_coefficients_distributed(client, empty, 3).shape == (0, 1)
    with pytest.raises(RequestError, match="not symmetric"):
        structural_coefficients_distributed(client, [[0], [1]], 2)
    with pytest.raises(RequestError, match="num_chunks"):
        structural_coefficients_distributed(client, empty, 2, num_chunks=0)


class Threads(dict):
    def nthreads(self):
        return self


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_lost_chunks_are_computed_again_but_not_for_ever(monkeypatch, losses):
    edges = random_edges(30, 60, 4)
    right = SPEC.compute(edges, 30, symmetrize=True)
    tried: list[int] = []

    def lossy(client, graph, spec, chunks):
        tried.append(len(chunks))
        for number, (begin, end) in enumerate(chunks):
            lost = number == 0 and len(tried) <= losses
            yield begin, end, None if lost else chunk_values(graph, spec, begin, end)

    monkeypatch.setattr("unionsnn.coefficients.distributed._on_workers", lossy)

    def compute():
        return structural_coefficients_distributed(
            Threads(worker=1), edges, 30, SPEC, symmetrize=True, num_chunks=4
        )

    if losses < 3:
        assert (compute() == right).all()
    else:
        with pytest.raises(RuntimeError, match=r"1 chunks of edges were lost .* 3 times"):
            compute()
    assert tried == [4, *[1] * min(losses, 2)]


def test_a_client_without_workers_is_refused():
    with pytest.raises(RuntimeError, match="no worker; start one"):
        structural_coefficients_distributed(Threads(), [[0, 1], [1, 0]], 2)
