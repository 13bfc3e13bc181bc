"""Finished blocks on disk: what was whole is read, what was not is cut off."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import time
import warnings

import numpy as np
import pytest

from unionsnn.base.errors import DamagedBlocksError
from unionsnn.coefficients import CoefficientCache, CoefficientSpec
from unionsnn.coefficients.blocks import BlockFile, survey_blocks

ABOUT = {"label": "toy", "spec": {"radius": [1]}, "engine_version": 1}
fork = multiprocessing.get_context("fork")


@pytest.fixture
def file(tmp_path):
    return BlockFile(tmp_path / ".key.blocks", ABOUT, interval=0.0)


def values(begin, end, columns=2):
    return np.arange(begin * columns, end * columns, dtype=float).reshape(-1, columns)


def add(file, *ranges, part=0):
    for begin, end in ranges:
        file.add(begin, end, values(begin, end), part)


def ranges(file, part=0):
    found = file.read(part)
    assert all((rows == values(begin, end)).all() for begin, end, rows in found)
    return [(begin, end) for begin, end, _ in found]


def test_blocks_are_read_in_any_order_by_whoever_comes_next(file):
    add(file, (4, 6), (0, 4))
    again = BlockFile(file.path, ABOUT)
    assert ranges(again) == [(4, 6), (0, 4)]
    add(again, (6, 9))
    again.flush()
    assert ranges(file) == [(4, 6), (0, 4), (6, 9)]
    assert survey_blocks(file.path) == (ABOUT, 9)


def test_parts_of_a_computation_are_kept_apart(file):
    add(file, (0, 2))
    add(file, (0, 3), part=1)
    assert ranges(file) == [(0, 2)]
    assert ranges(file, 1) == [(0, 3)]
    assert ranges(file, 2) == []


def test_short_work_writes_nothing_and_an_interrupt_writes_what_is_pending(tmp_path):
    with BlockFile(tmp_path / "b", ABOUT, interval=60) as file:
        add(file, (0, 2))
    assert not file.path.exists()

    def interrupted():
        with file:
            add(file, (2, 3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ranges(file) == [(0, 2), (2, 3)]


def test_batches_are_written_at_intervals(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    file = BlockFile(tmp_path / "b", ABOUT, interval=1.0)
    sizes = []
    for second in (0.4, 0.8, 1.2, 1.6):
        now[0] = second
        add(file, (0, 1))
        sizes.append(survey_blocks(file.path)[1] if file.path.exists() else 0)
    assert sizes == [0, 0, 3, 3]


def test_a_tail_that_a_killed_writer_left_is_cut_off_before_more_is_added(file):
    add(file, (0, 3), (3, 7))
    whole = file.path.read_bytes()
    for cut in range(1, 120, 7):
        file.path.write_bytes(whole[:-cut])
        again = BlockFile(file.path, ABOUT, interval=0.0)
        add(again, (7, 8))
        found = ranges(again)
        assert found[-1] == (7, 8)
        assert set(found) < {(0, 3), (3, 7), (7, 8)}


def test_no_flipped_byte_gets_through(file):
    add(file, (0, 3), (3, 7))
    whole = file.path.read_bytes()
    for position in range(0, len(whole), 3):
        broken = bytearray(whole)
        broken[position] ^= 0xFF
        file.path.write_bytes(broken)
        assert ranges(BlockFile(file.path, ABOUT)) in ([], [(0, 3)], [(0, 3), (3, 7)])


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"unionsnn-blocks-1\n\xff\xff\xff\x7f{"])
def test_a_file_that_is_something_else_is_replaced(file, content):
    file.path.write_bytes(content)
    with pytest.raises(DamagedBlocksError):
        survey_blocks(file.path)
    assert ranges(file) == []
    add(file, (0, 2))
    assert ranges(file) == [(0, 2)]


def test_values_that_are_not_finite_are_no_result(file):
    file.add(0, 2, np.full((2, 2), np.nan), 0)
    file.add(0, 0, np.empty((0, 2)), 0)
    assert not file.path.exists()


def test_a_full_disk_costs_one_warning(file, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(file.path), "open", full)
    with pytest.warns(UserWarning, match="cannot be kept .*No space left") as caught:
        add(file, (0, 2), (2, 4), (4, 6))
    assert len(caught) == 1


# -- with the engine -----------------------------------------------------------------------

SPEC = CoefficientSpec(radius=(1, 2), quantities=("a", "nodes"))


def grid(side: int) -> np.ndarray:
    """Edges of a grid, both directions."""
    node = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate(
        [
            np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()]),
            np.stack([node[:-1].ravel(), node[1:].ravel()]),
        ],
        axis=1,
    )
    return np.concatenate([pairs, pairs[::-1]], axis=1)


EDGES = grid(40)


class Interrupt:
    """Progress that interrupts after some calls, and counts what is reported."""

    def __init__(self, after):
        self.after = after
        self.seen = []

    def __call__(self, done, total):
        self.seen.append(done)
        if len(self.seen) == self.after:
            raise KeyboardInterrupt


def test_an_interrupted_computation_goes_on_and_gives_the_same_bits(tmp_path, monkeypatch):
    right = SPEC.compute(EDGES, 1600, threads=1)
    store = CoefficientCache(tmp_path)
    computed = []
    original = BlockFile.add

    def counted(self, begin, end, values, part):
        computed.append((part, begin, end))
        original(self, begin, end, values, part)

    monkeypatch.setattr(BlockFile, "add", counted)
    with pytest.raises(KeyboardInterrupt):
        store.get(EDGES, 1600, SPEC, threads=1, progress=Interrupt(1), label="grid")
    first = [
        edge for part, begin, end in computed for edge in [(part, i) for i in range(begin, end)]
    ]
    assert first
    assert len(list(tmp_path.glob(".*.blocks"))) == 1
    computed.clear()
    values = store.get(EDGES, 1600, SPEC, threads=1, label="grid")
    assert (values == right).all()
    second = [
        edge for part, begin, end in computed for edge in [(part, i) for i in range(begin, end)]
    ]
    assert not set(first) & set(second)
    assert len(first) + len(second) == 2 * len(right) // 2
    assert not list(tmp_path.glob(".*.blocks"))
    assert len(store.entries()) == 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_killed_computation_goes_on(tmp_path, monkeypatch):
    right = SPEC.compute(EDGES, 1600, threads=1)
    store = CoefficientCache(tmp_path)
    interval = BlockFile.__init__.__kwdefaults__
    monkeypatch.setitem(interval, "interval", 0.0)

    def die(done, total):
        os.kill(os.getpid(), signal.SIGKILL)

    child = fork.Process(
        target=store.get, args=(EDGES, 1600, SPEC), kwargs={"threads": 1, "progress": die}
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    (kept,) = tmp_path.glob(".*.blocks")
    assert survey_blocks(kept)[1] > 0
    assert store.entries() == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (store.get(EDGES, 1600, SPEC, threads=1) == right).all()
    assert not kept.exists()


def test_without_locks_no_blocks_are_kept(tmp_path, monkeypatch):
    def no_lock(descriptor, operation):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_lock)
    store = CoefficientCache(tmp_path)
    with pytest.warns(UserWarning, match="cannot be locked"), pytest.raises(KeyboardInterrupt):
        store.get(EDGES, 1600, SPEC, threads=1, progress=Interrupt(1))
    assert not list(tmp_path.glob(".*"))
