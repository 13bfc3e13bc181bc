"""The cache on disk: one computation, nothing damaged handed out."""

import errno
import fcntl
import json
import multiprocessing
import os
import signal
import time
import warnings
import zipfile

import numpy as np
import pytest

from unionsnn.coefficients import CoefficientCache, CoefficientSpec, cache

EDGES = np.array([[0, 1, 1, 2, 0, 2, 3], [1, 0, 2, 1, 2, 0, 3]])
SPEC = CoefficientSpec(quantities=("a", "nodes"))
RIGHT = SPEC.compute(EDGES, 5)
fork = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path):
    return CoefficientCache(tmp_path / "coefficients")


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """File that gets a byte each time coefficients are computed, in whatever process."""
    path = tmp_path / "calls"
    path.touch()
    compute = CoefficientSpec.compute

    def counted(self, *args, **kwargs):
        with path.open("ab", buffering=0) as file:
            file.write(b".")
        return compute(self, *args, **kwargs)

    monkeypatch.setattr(CoefficientSpec, "compute", counted)
    return path


def test_second_request_reads(store, calls):
    first, second = store.get(EDGES, 5, SPEC), store.get(EDGES, 5, SPEC)
    assert (first == RIGHT).all()
    assert (second == RIGHT).all()
    assert second.dtype == np.float64
    assert second.flags.writeable
    assert calls.read_bytes() == b"."
    assert len(store.entries()) == 1


def test_empty_folder_and_empty_graphs(store, calls):
    assert store.entries() == ()
    for _ in range(2):
        assert store.get(np.empty((2, 0), int), 0, SPEC).shape == (0, 2)
    assert calls.read_bytes() == b"."


def test_what_makes_another_entry(store, calls):
    requests = [
        (EDGES, 5, SPEC, False),
        (EDGES, 6, SPEC, False),
        (EDGES[:, ::-1], 5, SPEC, False),
        (EDGES, 5, CoefficientSpec(), False),
        (EDGES, 5, SPEC, True),
    ]
    for edges, num_nodes, spec, symmetrize in requests:
        store.get(edges, num_nodes, spec, symmetrize=symmetrize)
    assert len(store.entries()) == len(calls.read_bytes()) == len(requests)


def test_what_makes_no_other_entry(store, calls):
    spec = CoefficientSpec(quantities=("nodes", "a"))
    for edges in (EDGES, EDGES.astype(np.int32), np.asfortranarray(EDGES), EDGES.tolist()):
        store.get(edges, np.int32(5), spec)
    store.get(EDGES, 5, SPEC)
    assert calls.read_bytes() == b"."


def test_another_engine_version_is_another_entry(store, calls, monkeypatch):
    store.get(EDGES, 5, SPEC)
    monkeypatch.setattr("unionsnn.coefficients.spec.ENGINE_VERSION", 10**6)
    store.get(EDGES, 5, SPEC)
    assert calls.read_bytes() == b".."


def test_an_entry_explains_itself_without_pickle(store):
    store.get(EDGES, 5, SPEC)
    with np.load(store.entries()[0], allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        assert (archive["values"] == RIGHT).all()
    assert header["shape"] == [7, 2]
    assert header["columns"] == ["a_r1", "nodes_r1"]
    assert CoefficientSpec.from_dict(header["spec"]) == SPEC
    assert {"unionsnn", "numpy", "numba"} <= set(header["versions"])


def test_errors_of_the_graph_reach_the_caller(store):
    with pytest.raises(ValueError, match="node id 3 in column 6"):
        store.get(EDGES, 3, SPEC)
    with pytest.raises(TypeError, match="dtype float64"):
        store.get(EDGES * 1.0, 5, SPEC)
    assert store.entries() == ()


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def empty(path):
    path.write_bytes(b"")


def flip_a_value(path):
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(3).tobytes())] ^= 1
    path.write_bytes(content)


def flip_a_value_behind_the_zip_checksum(path):
    with np.load(path) as archive:
        header, values = archive["header"], archive["values"]
    values[0] += 1
    np.savez(path, header=header, values=values)


def wrong_shape(path):
    cache.write_entry(path, RIGHT[:3], SPEC)


def not_finite(path):
    cache.write_entry(path, np.full_like(RIGHT, np.nan), SPEC)


def pickled(path):
    np.savez(path, header=np.array([{}], dtype=object), values=RIGHT)


def no_header(path):
    np.savez(path, values=RIGHT)


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        empty,
        flip_a_value,
        flip_a_value_behind_the_zip_checksum,
        wrong_shape,
        not_finite,
        pickled,
        no_header,
    ],
)
def test_a_damaged_entry_is_computed_anew_with_one_warning(store, calls, damage):
    store.get(EDGES, 5, SPEC)
    damage(store.entries()[0])
    with pytest.warns(UserWarning, match="damaged") as caught:
        values = store.get(EDGES, 5, SPEC)
    assert len(caught) == 1
    assert (values == RIGHT).all()
    assert calls.read_bytes() == b".."
    assert (store.get(EDGES, 5, SPEC) == RIGHT).all()
    assert calls.read_bytes() == b".."


def test_no_flipped_byte_gets_through(store):
    store.get(EDGES, 5, SPEC)
    path = store.entries()[0]
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        broken = bytearray(content)
        broken[position] ^= 0xFF
        path.write_bytes(broken)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (store.get(EDGES, 5, SPEC) == RIGHT).all()


def test_values_that_are_not_finite_are_never_kept(store, monkeypatch):
    monkeypatch.setattr(CoefficientSpec, "compute", lambda *a, **k: np.full((7, 2), np.nan))
    with pytest.raises(FloatingPointError, match="14 of the 14 coefficients are not finite"):
        store.get(EDGES, 5, SPEC)
    assert store.entries() == ()


@pytest.mark.parametrize(
    "error",
    [OSError(number, "x") for number in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)],
    ids=["ENOSYS", "ENOLCK", "EOPNOTSUPP"],
)
def test_without_locks_there_is_one_warning(store, calls, monkeypatch, error):
    def no_lock(descriptor, operation):
        raise error

    monkeypatch.setattr(fcntl, "flock", no_lock)
    with pytest.warns(UserWarning, match="cannot be locked .* continuing without") as caught:
        values = [store.get(EDGES, num_nodes, SPEC) for num_nodes in (5, 5, 6)]
    assert len(caught) == 1
    assert all((v == RIGHT).all() for v in values)
    assert calls.read_bytes() == b".."


def test_an_error_while_computing_releases_the_lock(store, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("not a fault of the lock")

    with monkeypatch.context() as patch:
        patch.setattr(CoefficientSpec, "compute", fail)
        with pytest.raises(OSError, match="not a fault of the lock"):
            store.get(EDGES, 5, SPEC)
    assert (store.get(EDGES, 5, SPEC) == RIGHT).all()


def test_a_full_disk_costs_a_warning_not_the_values(store, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(UserWarning, match="could not be cached .*No space left"):
        values = store.get(EDGES, 5, SPEC)
    assert (values == RIGHT).all()
    assert [path.suffix for path in store.root.iterdir()] == [".lock"]


def test_leftovers_of_killed_writers_are_removed_by_the_next(store):
    store.get(EDGES, 5, SPEC)
    path = store.entries()[0]
    content = path.read_bytes()
    path.unlink()
    (store.root / f".{path.stem}.npz.abc.part").write_bytes(content[:50])
    other = store.root / f".{'0' * 64}.npz.abc.part"
    other.touch()
    assert store.entries() == ()
    store.get(EDGES, 5, SPEC)
    assert list(store.root.glob(".*.part")) == [other]


def request(store, barrier, correct, warned):
    barrier.wait()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = store.get(EDGES, 5, SPEC, threads=1)
    for _ in caught:
        warned.release()
    if (values == RIGHT).all():
        correct.release()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("damaged", [False, True], ids=["missing", "damaged"])
@pytest.mark.parametrize("number", [2, 8])
def test_processes_at_once_compute_once(store, calls, monkeypatch, damaged, number):
    if damaged:
        store.get(EDGES, 5, SPEC)
        truncate(store.entries()[0])
        calls.write_bytes(b"")
    compute = CoefficientSpec.compute

    def slow(self, *args, **kwargs):
        time.sleep(0.3)
        return compute(self, *args, **kwargs)

    monkeypatch.setattr(CoefficientSpec, "compute", slow)
    barrier, correct, warned = fork.Barrier(number), fork.Semaphore(0), fork.Semaphore(0)
    arguments = (store, barrier, correct, warned)
    processes = [fork.Process(target=request, args=arguments) for _ in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * number
    assert correct.get_value() == number
    assert warned.get_value() == damaged
    assert calls.read_bytes() == b"."


def write_for_ever(root, started):
    path = CoefficientCache(root).path(EDGES, 5, SPEC)
    while True:
        started.set()
        cache.write_entry(path, RIGHT, SPEC)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_killed_writer_leaves_nothing_half_done(store):
    store.root.mkdir()
    rng = np.random.default_rng(0)
    for pause in rng.uniform(0, 0.01, size=20):
        started = fork.Event()
        writer = fork.Process(target=write_for_ever, args=(store.root, started))
        writer.start()
        assert started.wait(60)
        time.sleep(pause)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(60)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (store.get(EDGES, 5, SPEC) == RIGHT).all()
        for path in store.entries():
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None
            if rng.random() < 0.5:
                path.unlink()
    for path in store.entries():
        path.unlink()
    store.get(EDGES, 5, SPEC)
    assert not list(store.root.glob(".*.part"))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_lock_dies_with_its_holder(store):
    holding = fork.Event()

    def hold():
        with store._lock(store.path(EDGES, 5, SPEC)):
            holding.set()
            time.sleep(600)

    holder = fork.Process(target=hold)
    holder.start()
    assert holding.wait(60)
    os.kill(holder.pid, signal.SIGKILL)
    holder.join(60)
    assert (store.get(EDGES, 5, SPEC) == RIGHT).all()
