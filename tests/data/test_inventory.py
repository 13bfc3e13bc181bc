"""What is on disk, and what is removed."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tu_files import write_tu
from unionsnn.base.errors import DataError
from unionsnn.coefficients import CoefficientSpec
from unionsnn.data import inventory
from unionsnn.data.catalog import CATALOG, CatalogEntry
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.inventory import KINDS, on_disk, removals, remove
from unionsnn.data.sources.tu import TU

SPEC = CoefficientSpec(quantities=("a", "nodes"))
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data root with everything of a set that stands for MUTAG."""
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    write_tu(tmp_path / "mirror", "MUTAG")
    mutag(tmp_path, SPEC).prepare_data()
    return tmp_path / "root"


def mutag(tmp_path: Path, spec: CoefficientSpec | None = None) -> GraphDataModule:
    place: dict[str, Any] = {"root": tmp_path / "root", "mirror": str(tmp_path / "mirror")}
    encodings = None if spec is None else Encodings(random_walk=2)
    source = TU(tu_name="MUTAG")
    return GraphDataModule(source, name="mutag", spec=spec, encodings=encodings, **place)


def state(root: Path, name: str = "mutag") -> str:
    return on_disk(CATALOG[name], root).state


def test_the_state_follows_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    write_tu(tmp_path / "mirror", "MUTAG")
    root = tmp_path / "root"
    assert state(root) == "absent"
    data = mutag(tmp_path)
    data.source.processed_key(data.raw)
    assert state(root) == "raw"
    _ = mutag(tmp_path).arrays
    assert state(root) == "processed"
    mutag(tmp_path, SPEC).prepare_data()
    assert state(root) == "coefficients cached"
    assert on_disk(CATALOG["mutag"], root).coefficients == (SPEC.to_dict(),)
    for path in (root / "coefficients").glob("*.npz"):
        path.unlink()
    assert state(root) == "processed"
    monkeypatch.setattr(inventory, "PROCESSED_VERSION", 99)
    assert state(root) == "raw"


def test_sets_are_told_apart_by_their_whole_name(filled: Path) -> None:
    assert state(filled, "proteins") == "absent"
    assert [name for name in CATALOG if state(filled, name) != "absent"] == ["mutag"]


def test_a_damaged_note_harms_nothing_and_is_made_anew(filled: Path, tmp_path: Path) -> None:
    (note,) = (filled / "processed").glob("*.json")
    for content in (b"", b"[]", b'{"version": 1}', note.read_bytes()[:-5]):
        note.write_bytes(content)
        assert state(filled) == "processed"
        mutag(tmp_path, SPEC).prepare_data()
        assert state(filled) == "coefficients cached"
    assert len(json.loads(note.read_bytes())["entries"]) == 1


def test_what_would_go_is_listed_with_its_size(filled: Path) -> None:
    found = {each.kind: each for each in removals(filled)}
    assert tuple(found) == KINDS
    (archive,) = (filled / "raw").rglob("*.zip")
    assert archive in found["raw"].files
    assert found["raw"].size == sum(path.stat().st_size for path in found["raw"].files)
    assert [each.kind for each in removals(filled, ["processed"])] == ["processed"]
    assert removals(filled / "nowhere") == []


def test_only_what_is_named_goes_and_the_next_call_makes_it_anew(
    filled: Path, tmp_path: Path
) -> None:
    (filled / "mine.txt").write_text("stays")
    remove(removals(filled, ["processed", "coefficients", "encodings"]))
    assert sorted(path.name for path in filled.iterdir()) == ["mine.txt", "raw"]
    assert state(filled) == "raw"
    mutag(tmp_path, SPEC).prepare_data()
    assert state(filled) == "coefficients cached"
    remove(removals(filled))
    assert [path.name for path in filled.iterdir()] == ["mine.txt"]


def test_links_are_removed_but_not_followed(filled: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("stays")
    (filled / "raw" / "link").symlink_to(outside)
    remove(removals(filled, ["raw"]))
    assert (outside / "precious").exists()
    assert not (filled / "raw").exists()
    (filled / "raw").symlink_to(outside)
    assert removals(filled, ["raw"]) == []


def _hold(lock: Path, held: Any, done: Any) -> None:
    with FileLock(lock):
        held.set()
        done.wait(60)


def test_nothing_goes_while_another_process_is_at_work(filled: Path) -> None:
    (lock,) = (filled / "processed").glob("*.lock")
    held, done = FORK.Event(), FORK.Event()
    process = FORK.Process(target=_hold, args=(lock, held, done))
    process.start()
    try:
        assert held.wait(30)
        before = sorted(filled.rglob("*"))
        with pytest.raises(DataError, match=r"another process is using .*mutag-"):
            remove(removals(filled))
        assert sorted(filled.rglob("*")) == before
    finally:
        done.set()
        process.join()
    remove(removals(filled))
    assert not filled.exists() or list(filled.iterdir()) == []
