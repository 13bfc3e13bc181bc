"""Records of runs: copied when finished, refused when damaged."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unionsnn.base.errors import RequestError
from unionsnn.reports.collection import collect

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
pages: Any = import_module("pages")
record_book: Any = import_module("record_book")
runs: Any = import_module("runs")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one record, of which the pages are made."""
    path = tmp_path / "records/mutag/gin/run/results.json"
    path.parent.mkdir(parents=True)
    first = sorted((ROOT / "benchmarks/records/mutag/gin").rglob("results.json"))[0]
    shutil.copy(first, path)
    monkeypatch.setattr(record_book, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(runs, "RECORDS", tmp_path / "copied")
    return path


def changed(path: Path, **keys: Any) -> None:
    content = json.loads(path.read_text())
    for dotted, value in keys.items():
        *sections, key = dotted.split("__")
        section = content
        for each in sections:
            section = section[each]
        section[key] = value
    path.write_text(json.dumps(runs.sealed(content)))


def test_two_records_of_one_configuration_are_refused(kept: Path) -> None:
    other = kept.parents[1] / "run-of-another-day" / kept.name
    other.parent.mkdir()
    shutil.copy(kept, other)
    changed(other, seconds=1.0)
    with pytest.raises(RequestError, match="one configuration; delete one") as caught:
        record_book.RecordBook.read()
    assert all(str(path.parent) in str(caught.value) for path in (kept, other))


@pytest.mark.parametrize("keys", [{"config_hash": "0" * 8}, {"config__optimizer__lr": 0.5}])
def test_a_hash_that_is_not_of_the_configuration_is_refused(
    kept: Path, keys: dict[str, Any]
) -> None:
    changed(kept, **keys)
    with pytest.raises(RequestError, match="config_hash is") as caught:
        record_book.RecordBook.read()
    assert str(kept.parent) in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"pairs": []}', None])
def test_a_damaged_record_ends_the_command_and_is_not_copied(
    kept: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is None:
        # Sealed before the change.
        content = runs.sealed(json.loads(kept.read_text()))
        text = json.dumps(content | {"seconds": 1.0})
    kept.write_text(text)
    with pytest.raises(RequestError) as caught:
        record_book.RecordBook.read()
    assert str(kept) in str(caught.value)
    shutil.copytree(kept.parents[2], kept.parents[3] / "out/runs")
    monkeypatch.setattr(sys, "argv", ["pages.py", "--runs", str(kept.parents[3] / "out")])
    with pytest.raises(SystemExit, match=r"out/runs/gin/run/results\.json: is no record"):
        pages.main()
    assert not runs.RECORDS.exists()


def test_a_folder_without_records_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["pages.py", "--runs", str(tmp_path)])
    with pytest.raises(SystemExit, match="holds no record; name the folder above"):
        pages.main()


def test_kept_records_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RECORDS", tmp_path / "records")
    kept = sorted((ROOT / "benchmarks/records/mutag/gin").iterdir())[0]
    shutil.copytree(kept, tmp_path / "out/runs/mutag/gin" / kept.name)
    (path,) = (tmp_path / "out").rglob("results.json")
    content = json.loads(path.read_text())
    content["config"]["paths"]["output"] = str(tmp_path)
    path.write_text(json.dumps(runs.sealed(content)))
    runs.keep_records(tmp_path / "out")
    ((found,), faults) = collect([tmp_path / "records"])
    assert not faults
    assert found.record.config["paths"]["output"] is None
    assert found.record.digest is not None


def test_hours_left_count_the_runs_of_several_rows_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = [("a", 3600.0), ("a", 3600.0), ("b", 1800.0), ("c", None), (None, None)]
    text = json.dumps([{"config_hash": name, "seconds_at_most": s} for name, s in plans])
    monkeypatch.setattr(runs.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout=text))
    argv = ["runs.py", "--output", "out", "--dry-run", "--only", "table 8", "table 9"]
    monkeypatch.setattr(sys, "argv", argv)
    runs.main()
    for line, name in zip(capsys.readouterr().out.splitlines(), argv[-2:], strict=True):
        assert line.startswith(f"  1.5 h, in all   1.5 h  {name}: unionsnn reproduce")


def test_what_is_no_result_is_not_copied(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "out/runs/mutag/gin"
    content = json.loads(kept.read_text())
    rows, values = content["repetitions"], content["result"]["values"][:-1]
    mean = statistics.fmean(values)
    own = runs.config_hash(content["config"] | {"debug": "fast"})
    half = {
        "state": "incomplete",
        "missing": [len(values)],
        "repetitions": rows[:-1],
        "result__values": values,
        "result__mean": mean,
        "result__std": statistics.stdev(values),
        "result__interval": [mean - 0.1, mean + 0.1],
    }
    for folder, keys in (
        ("run", {}),
        ("run.old-1", {}),
        ("tried", {"config__debug": "fast", "config_hash": own}),
        ("half", half),
    ):
        (given / folder).mkdir(parents=True)
        shutil.copy(kept, given / folder)
        changed(given / folder / kept.name, **keys)
    runs.keep_records(tmp_path / "out")
    assert [path.parent.name for path in runs.RECORDS.rglob("results.json")] == ["run"]
    assert capsys.readouterr().out == "1 unfinished, not copied\n"
