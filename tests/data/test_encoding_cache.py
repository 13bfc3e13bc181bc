"""Encodings on disk: one computation, nothing damaged handed out, nothing that cannot fit."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unionsnn.base.errors import DataError
from unionsnn.coefficients.upkeep import removable, remove, survey
from unionsnn.data.encodings import cache as encoding_cache
from unionsnn.data.encodings.cache import ENCODING_VERSION, EncodingCache
from unionsnn.data.encodings.definitions import ENCODINGS

EDGES = np.array([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
SLICES = np.array([0, 3, 6])
FORK = multiprocessing.get_context("fork")
each_encoding = pytest.mark.parametrize(
    ("name", "size"), [("random_walk", 4), ("laplacian", 2), ("distance", 1)]
)


@pytest.fixture
def store(tmp_path: Path) -> EncodingCache:
    return EncodingCache(tmp_path / "encodings")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """File that gets a byte each time an encoding is computed, in whatever process."""
    path = tmp_path / "calls"
    path.touch()

    def counted(make: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with path.open("ab", buffering=0) as file:
                file.write(b".")
            # Long enough for others to come meanwhile.
            time.sleep(0.2)
            return make(*arguments)

        return call

    replaced = {name: counted(make) for name, make in ENCODINGS.items()}
    monkeypatch.setattr(encoding_cache, "ENCODINGS", replaced)
    return path


def right(name: str, size: int) -> Any:
    return ENCODINGS[name](EDGES, SLICES, size, None)


@each_encoding
def test_the_second_request_reads(store: EncodingCache, calls: Path, name: str, size: int) -> None:
    for _ in range(2):
        values = store.get(name, size, EDGES, SLICES)
        assert values.dtype == right(name, size).dtype
        np.testing.assert_array_equal(values, right(name, size))
    assert calls.read_bytes() == b"."
    assert store.entries() == (store.path(name, size, EDGES, SLICES),)


def test_what_makes_another_entry(
    store: EncodingCache, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.get("random_walk", 4, EDGES, SLICES)
    store.get("random_walk", 5, EDGES, SLICES)
    store.get("laplacian", 4, EDGES, SLICES)
    store.get("random_walk", 4, EDGES[:, ::-1], SLICES)
    store.get("random_walk", 4, EDGES, np.array([0, 3, 7]))
    store.get("random_walk", 4, EDGES, np.array([0, 3, 5, 6]))
    store.get("random_walk", 4, EDGES[:, :4], SLICES)
    monkeypatch.setattr(encoding_cache, "ENCODING_VERSION", ENCODING_VERSION + 1)
    store.get("random_walk", 4, EDGES, SLICES)
    assert len(store.entries()) == len(calls.read_bytes()) == 8


@each_encoding
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_entry_is_made_anew_with_one_warning(
    store: EncodingCache, calls: Path, name: str, size: int, damage: str
) -> None:
    store.get(name, size, EDGES, SLICES)
    (path,) = store.entries()
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-len(content) // 4] ^= 0xFF
        content[len(content) // 2] ^= 0xFF
    path.write_bytes({"cut": content[:-30], "empty": b""}.get(damage, content))
    with pytest.warns(UserWarning, match="cached encodings .* are damaged") as caught:
        values = store.get(name, size, EDGES, SLICES)
    assert len(caught) == 1
    np.testing.assert_array_equal(values, right(name, size))
    np.testing.assert_array_equal(store.get(name, size, EDGES, SLICES), right(name, size))
    assert calls.read_bytes() == b".."


def _request(store: EncodingCache, barrier: Any, correct: Any) -> None:
    barrier.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = store.get("random_walk", 4, EDGES, SLICES)
    if np.array_equal(values, right("random_walk", 4)):
        correct.release()


def test_processes_at_once_compute_once(store: EncodingCache, calls: Path) -> None:
    barrier, correct = FORK.Barrier(4), FORK.Semaphore(0)
    processes = [FORK.Process(target=_request, args=(store, barrier, correct)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert correct.get_value() == 4
    assert calls.read_bytes() == b"."


def test_a_full_disk_costs_a_warning_not_the_values(
    store: EncodingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(UserWarning, match="encodings could not be cached .*No space left"):
        values = store.get("distance", 1, EDGES, SLICES)
    np.testing.assert_array_equal(values, right("distance", 1))


@each_encoding
def test_what_cannot_fit_is_refused_before_it_is_computed(
    store: EncodingCache, calls: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    monkeypatch.setattr(encoding_cache, "free_bytes", lambda: 1000)
    with pytest.raises(DataError, match=rf"of up to 3 nodes.*model\.encodings\.{name}\b"):
        store.get(name, size, EDGES, SLICES)
    assert calls.read_bytes() == b""
    monkeypatch.setattr(encoding_cache, "free_bytes", lambda: 1 << 50)
    store.get(name, size, EDGES, SLICES)


def test_entries_are_listed_checked_and_pruned(
    store: EncodingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.get("distance", 1, EDGES, SLICES, label="toy")
    store.get("random_walk", 4, EDGES, SLICES, label="toy")
    with monkeypatch.context() as patch:
        patch.setattr(encoding_cache, "ENCODING_VERSION", 0)
        store.get("laplacian", 2, EDGES, SLICES)
    found = survey(store.root, checksums=True, version=ENCODING_VERSION)
    assert {(i.label, i.choices, i.columns, i.edges, i.state) for i in found} == {
        ("toy", ("distance",), (), 18, "complete"),
        ("toy", ("random_walk",), ("4",), 6, "complete"),
        (None, ("laplacian",), ("2",), 6, "old engine"),
    }
    assert remove(removable(found)) == []
    assert len(survey(store.root, version=ENCODING_VERSION)) == 2
