"""Chunks on a real cluster of processes: the same bits, whatever the chunks and whoever dies."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest

from unionsnn.base.errors import RequestError
from unionsnn.coefficients import CoefficientSpec, SimpleGraph
from unionsnn.coefficients.distributed import _Sent, structural_coefficients_distributed

SPEC = CoefficientSpec(quantities=("a", "a_tree", "nodes", "edges"))


def random_edges(num_nodes: int, num_edges: int, seed: int, hub: int = 0) -> np.ndarray:
    """Edges of a random graph in one direction, node 0 being next to the first `hub` others."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(num_nodes, size=(2, num_edges))
    spokes = np.stack([np.zeros(hub, np.int64), np.arange(1, hub + 1)])
    return np.concatenate([spokes, edges], axis=1)


class Here:
    """A client whose only worker is this process, to which each task is sent as bytes."""

    def __init__(self, lost: int = 0, threads: int = 2) -> None:
        self.lost, self.threads = lost, threads
        self.status = "running"
        self.calls: list[tuple[str, int]] = []
        self.sent = 0
        self.lock = threading.Lock()

    def nthreads(self) -> dict[str, int]:
        return {"here": self.threads} if self.threads else {}

    def scatter(self, sent, *, broadcast, hash):
        self.sent += 1
        return Done(pickle.loads(pickle.dumps(sent)))

    def submit(self, function, sent, *arguments, pure):
        arguments = pickle.loads(pickle.dumps(arguments))
        with self.lock:
            if self.lost:
                self.lost -= 1
                sent.status = "lost"
                return Done(CancelledError())
            self.calls.append((function.__name__, len(arguments[-1])))
            return Done(function(sent.result(), *arguments))

    def cancel(self, futures):
        self.cancelled = futures


class Done:
    """A finished future."""

    def __init__(self, value) -> None:
        self.value, self.status = value, "finished"

    def result(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    def release(self) -> None:
        """Nothing to do."""


pytest.importorskip("distributed")


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        CoefficientSpec(radius=(1, 2), quantities=("a", "nodes", "cycles", "distances")),
        CoefficientSpec(descriptor="curvature", alpha=0.123456),
    ],
    ids=["radius one", "all passes", "curvature"],
)
@pytest.mark.parametrize(("hub", "num_chunks"), [(0, 1), (300, 7), (300, None)])
def test_values_are_those_of_one_machine_bit_for_bit(spec, hub, num_chunks):
    nodes = 400 if spec is SPEC else 40
    edges = random_edges(nodes, 3 * nodes // 2, 1, min(hub, nodes - 1))
    right = spec.compute(edges, nodes, symmetrize=True)
    client, told = Here(), []
    values = structural_coefficients_distributed(
        client,
        edges,
        nodes,
        spec,
        symmetrize=True,
        num_chunks=num_chunks,
        progress=lambda done, total: told.append((done, total)),
    )
    assert (values == right).all()
    assert client.sent == 1
    assert len(client.cancelled) == 1
    assert told[-1][0] == told[-1][1]
    assert told == sorted(told)
    chunks = [size for name, size in client.calls if name == "chunk_values"]
    if num_chunks:
        assert len(chunks) <= num_chunks * len(spec.passes(TWO_NODES))


TWO_NODES = SimpleGraph.from_edge_index([[0, 1], [1, 0]], 2)


def test_edges_of_a_hub_share_its_decomposition():
    edges = random_edges(400, 600, 1, hub=300)
    client = Here(threads=3)
    structural_coefficients_distributed(client, edges, 400, SPEC, symmetrize=True, num_chunks=20)
    groups = [size for name, size in client.calls if name == "group_values"]
    # One hub, cut into halves of the shares of three threads.
    assert 4 <= len(groups) <= 6
    assert sum(groups) > 200


def test_edges_between_twins_of_a_hub_are_computed_once():
    nodes = 1400
    spokes = np.stack([np.zeros(nodes - 1, np.int64), np.arange(1, nodes)])
    client = Here()
    values = structural_coefficients_distributed(client, spokes, nodes, symmetrize=True)
    assert (values == values[0]).all()
    assert (values == CoefficientSpec().compute(spokes, nodes, symmetrize=True)).all()


def test_arrays_that_cannot_be_written_are_copied_not_compiled_for():
    graph = SimpleGraph.from_edge_index(random_edges(20, 40, 2), 20, symmetrize=True)
    for array in (graph.indptr, graph.indices, graph.edges):
        array.flags.writeable = False
    part = _Sent(graph, SPEC).part(0, slice(0, 5))
    assert all(array.flags.writeable for array in part.graph.csr)


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_lost_parts_are_computed_again_but_not_for_ever(losses):
    edges = random_edges(30, 60, 4)
    client = Here(losses)

    def compute():
        return structural_coefficients_distributed(
            client, edges, 30, SPEC, symmetrize=True, num_chunks=1
        )

    if losses < 3:
        assert (compute() == SPEC.compute(edges, 30, symmetrize=True)).all()
        assert client.sent == 1 + losses
    else:
        with pytest.raises(RuntimeError, match=r"was lost with its worker 3 times"):
            compute()


@pytest.mark.parametrize(
    ("status", "words"),
    [("running", "no worker; start one"), ("closed", "is closed; make another")],
)
def test_a_client_that_cannot_compute_is_refused(status, words):
    client = Here(threads=0)
    client.status = status
    with pytest.raises(RuntimeError, match=words):
        structural_coefficients_distributed(client, [[0, 1], [1, 0]], 2)


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
