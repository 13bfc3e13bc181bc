"""Listing, checking and clearing the cache's folder."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from unionsnn.coefficients import CoefficientCache, CoefficientSpec
from unionsnn.coefficients.blocks import BlockFile
from unionsnn.coefficients.cache import blocks_path
from unionsnn.coefficients.entries import lock_path
from unionsnn.coefficients.upkeep import removable, remove, survey

EDGES = np.array([[0, 1, 1, 2, 0, 2, 3], [1, 0, 2, 1, 2, 0, 3]])
SPEC = CoefficientSpec(quantities=("a", "nodes"))
fork = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path):
    return CoefficientCache(tmp_path / "coefficients")


def of_another_engine(store, monkeypatch, num_nodes=6):
    with monkeypatch.context() as patch:
        patch.setattr("unionsnn.coefficients.cache.ENGINE_VERSION", 0)
        patch.setattr("unionsnn.coefficients.spec.ENGINE_VERSION", 0)
        store.get(EDGES, num_nodes, SPEC)


def damaged(store, num_nodes=7):
    store.get(EDGES, num_nodes, SPEC)
    path = store.path(EDGES, num_nodes, SPEC)
    with np.load(path) as archive:
        header, values = archive["header"], archive["values"]
    np.savez(path, header=header, values=values + 1)
    return path


def unfinished(store, num_nodes=8, version=None):
    path = blocks_path(store.path(EDGES, num_nodes, SPEC))
    about = {"label": "toy", "spec": SPEC.to_dict(), "engine_version": version}
    file = BlockFile(path, about)
    file.add(0, 2, np.ones((2, 2)), 0)
    file.flush()
    return path


def leftover(store, num_nodes=9):
    path = store.path(EDGES, num_nodes, SPEC)
    path = path.with_name(f".{path.stem}.npz.abc.part")
    path.write_bytes(b"half")
    return path


def states(items):
    return sorted(item.state for item in items)


def test_an_empty_or_absent_folder(tmp_path):
    assert survey(tmp_path) == survey(tmp_path / "absent") == []


def test_an_entry_is_told_with_label_choices_and_counts(store):
    store.get(EDGES, 5, SPEC, label="toy")
    (item,) = survey(store.root)
    assert (item.state, item.label, item.edges) == ("complete", "toy", 7)
    assert item.choices == ("union", "path", "singular_value_sum")
    assert item.columns == ("a_r1", "nodes_r1")
    assert item.num_bytes == item.path.stat().st_size
    assert 0 <= item.age < 60
    store.get(EDGES, 5, SPEC, label="another name")
    assert survey(store.root)[0].label == "toy"


def test_entries_of_earlier_releases_without_a_label_are_listed(store):
    store.get(EDGES, 5, SPEC)
    assert survey(store.root)[0].label is None


def test_every_state(store, monkeypatch):
    from unionsnn.coefficients import ENGINE_VERSION

    store.get(EDGES, 5, SPEC)
    of_another_engine(store, monkeypatch)
    damaged(store)
    unfinished(store, 8, ENGINE_VERSION)
    unfinished(store, 10, ENGINE_VERSION - 1)
    leftover(store)
    lock_path(store.path(EDGES, 11, SPEC)).touch()
    # Damage that a header does not show is found by reading all.
    wanted = ["complete", "leftover", "leftover", "old engine", "old engine", "unfinished"]
    assert states(survey(store.root)) == sorted([*wanted, "complete"])
    items = survey(store.root, checksums=True)
    assert states(items) == sorted([*wanted, "damaged"])
    details = {item.state: item.detail for item in items if item.detail}
    assert details["damaged"] == "wrong checksum"
    assert details["old engine"] in ("", f"engine 0, now {ENGINE_VERSION}")
    assert next(i.edges for i in items if i.state == "unfinished") == 2


def test_what_may_go_and_what_stays(store, monkeypatch):
    from unionsnn.coefficients import ENGINE_VERSION

    store.get(EDGES, 5, SPEC)
    of_another_engine(store, monkeypatch)
    damaged(store)
    kept = unfinished(store, 8, ENGINE_VERSION)
    leftover(store)
    items = removable(survey(store.root, checksums=True))
    assert states(items) == ["damaged", "leftover", "old engine"]
    assert remove(items) == []
    assert states(survey(store.root, checksums=True)) == ["complete", "unfinished"]
    assert kept.exists()
    assert store.entries() == (store.path(EDGES, 5, SPEC),)
    # No lock stays behind without an entry.
    assert {path.stem for path in store.root.glob("*.lock")} == {store.entries()[0].stem}
    remove(removable(survey(store.root), everything=True))
    assert list(store.root.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"half an entry", b"PK\x03\x04"])
def test_an_entry_that_cannot_be_read_is_damaged(store, content):
    store.get(EDGES, 5, SPEC)
    store.entries()[0].write_bytes(content)
    (item,) = survey(store.root)
    assert item.state == "damaged"
    assert item.detail


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_is_no_file_is_not_waited_for(store):
    entry = store.get(EDGES, 5, SPEC)
    folder, names = store.root, ("a.npz", ".b.blocks", "c.npz", ".d.blocks")
    for name in names[:2]:
        os.mkfifo(folder / name)
    for name in names[2:]:
        (folder / name).symlink_to("/dev/zero")
    for checksums in (False, True):
        items = survey(folder, checksums=checksums)
        assert states(items) == ["complete", *["damaged"] * 2, *["leftover"] * 2]
        odd = [item for item in items if item.path.name in names]
        assert all("it is not a regular file" in item.detail for item in odd)
    assert remove(removable(items)) == []
    assert states(survey(folder)) == ["complete"]
    # Nor where an entry would be.
    path = store.path(EDGES, 6, SPEC)
    os.mkfifo(path)
    with pytest.warns(UserWarning, match="regular file"):
        assert np.array_equal(store.get(EDGES, 6, SPEC)[: len(entry)], entry)


def test_what_a_process_is_at_work_on_stays(store):
    store.root.mkdir()
    holding = fork.Event()
    path = store.path(EDGES, 5, SPEC)

    def hold():
        with store._lock(path):
            (store.root / f".{path.stem}.npz.abc.part").write_bytes(b"half")
            holding.set()
            time.sleep(600)

    holder = fork.Process(target=hold)
    holder.start()
    assert holding.wait(60)
    try:
        items = survey(store.root)
        assert states(items) == ["in work"]
        assert removable(items, everything=True) == []
        assert remove(items) == items
        assert items[0].path.exists()
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.join(60)
    items = survey(store.root)
    assert states(items) == ["leftover"]
    assert remove(items) == []
    assert list(store.root.iterdir()) == []
