"""Records that are not what was written: said, set aside, and never shown as results."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from small_studies import made_record
from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.files import write_json
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.data.splits import Split, load_splits, save_splits
from unionsnn.reports.collection import collect
from unionsnn.reports.views.records import records_report
from unionsnn.reports.views.results import print_results
from unionsnn.runs import experiment, selection
from unionsnn.runs.comparison import read_candidates
from unionsnn.runs.experiment import merge, run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.runs.selection import train_cell
from unionsnn.training.build import build_data
from unionsnn.training.checkpoints import read_content
from unionsnn.training.records import Result, sealed
from unionsnn.training.repetition import Training
from warned import user_warnings

Maker = Callable[..., Config]
FOLDS = 3
FIELDS = {each.name for each in fields(Result)} - {"digest"}
VALUES: list[Any] = [
    *(None, True, -1, 0, 7.0, 1e308, 2**63, math.nan, math.inf, "", "x", "\x1b[31m", "=1+1"),
    *([], [1], {}, {"a": 1}, [[[]]], [None], {"": None}),
]


@pytest.fixture
def finished(tiny: Maker) -> RunFolder[Config]:
    """Return the folder of a finished cross-validation, without a training."""
    config = tiny("protocol=cross_validation", f"protocol.folds={FOLDS}")
    order = np.sort(np.random.default_rng(0).permutation(80).reshape(4, 20))
    splits = [
        Split(np.sort(np.concatenate(np.delete(order[:FOLDS], i, axis=0))), order[3], order[i])
        for i in range(FOLDS)
    ]
    folder = RunFolder.of(config)
    data = build_data(config)
    with folder.locked():
        save_splits(folder.path / "splits.json", splits, 80)
        for index, split in enumerate(splits):
            metrics = {"val_loss": 0.5, "val_accuracy": 0.75, "test_accuracy": 0.8 + index / 100}
            record = made_record(Training(config, split, index, folder.path), metrics, data)
            for kind in (f"checkpoints/{index:02d}.ckpt", f"logs/{index:02d}/metrics.csv"):
                (folder.path / kind).parent.mkdir(parents=True, exist_ok=True)
                (folder.path / kind).write_text(f"{index}")
            folder.save_repetition(index, record)
        write_json(folder.results_path, merge(folder).to_json())
    return folder


def changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def said(folder: RunFolder[Config]) -> list[str]:
    """Lock the folder as a command does; return what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with folder.locked():
            pass
    return user_warnings(caught)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"index": 0}, "seed"),
        ({"index": 0, "seed": [0, 0]}, "the record of repetition 0"),
        ({"seed": [4, 1]}, "the record of seed 4"),
        ({"seed": [0, 2]}, "is not that of repetition 1"),
        # As if another model's record were copied here, whose splits and seeds are the same.
        ({"config_hash": "01234567"}, "the record of the configuration 01234567, not of"),
        ({"split_hash": "0" * 64}, "splits.json"),
        ({"sizes": {"train": 8, "validation": 1, "test": 1}}, "splits.json"),
        ({"sizes": {"train": 8}}, "sizes"),
        ({"metrics": {"val_accuracy": 7.0}}, "val_accuracy is 7.0"),
        ({"metrics": {"test_accuracy": math.nan}}, ""),
        ({"metrics": {"test_accuracy": "0.9"}}, "test_accuracy"),
        ({"metrics": {"test_accuracy": True}}, "test_accuracy"),
        ({"metrics": {"test_accuracy": 0.5, "test_mae": 0.5}}, "it has mae"),
        ({"curves": []}, "epochs"),
        ({"curves": [{"val_accuracy": -0.5}]}, "val_accuracy is -0.5"),
        ({"best_epoch": 1}, "epoch"),
        ({"epochs": -1}, "epochs"),
        ({"seconds": -1.0}, "seconds"),
        ({"versions": None}, "versions"),
        ({"coefficient_histogram": {"a": {"low": 0, "high": 1, "counts": []}}}, "counts"),
        ({"grid": {"on": "val_loss", "selected": {"a": 1}, "cells": []}}, "grid"),
    ],
)
def test_a_record_is_checked_and_the_other_folds_stay(
    finished: RunFolder[Config], changes: dict[str, Any], fault: str
) -> None:
    # As of a version that wrote no digests.
    finished.results_path.unlink()
    path = finished.repetition_path(1)
    changed(path, **changes)
    assert set(finished.finished()) == {0, 2}
    (line,) = said(finished)
    assert str(path) in line
    assert fault in line
    assert path.with_name("01.json.damaged").exists()
    assert merge(finished).missing == [1]


def test_a_copy_of_another_fold_is_no_fold(finished: RunFolder[Config]) -> None:
    finished.results_path.unlink()
    shutil.copy(finished.repetition_path(0), finished.repetition_path(1))
    assert set(finished.finished()) == {0, 2}
    assert "it is the record of repetition 0" in said(finished)[0]


def test_a_record_of_an_earlier_version_names_no_configuration(
    finished: RunFolder[Config],
) -> None:
    finished.results_path.unlink()
    path = finished.repetition_path(1)
    content = json.loads(path.read_text())
    assert content.pop("config_hash") == config_hash(finished.config)
    path.write_text(json.dumps(content))
    assert said(finished) == []
    assert set(finished.finished()) == {0, 1, 2}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 * 2**30)


def _nested(path: Path) -> None:
    path.write_text("[" * 200_000)


ODD = pytest.mark.parametrize("put", [_pipe, _device, _sparse, _nested, Path.mkdir])


@ODD
@pytest.mark.parametrize("name", ["results.json", "repetitions/01.json", "splits.json"])
def test_what_is_no_file_of_a_usual_size_is_neither_waited_for_nor_read(
    finished: RunFolder[Config], tmp_path: Path, put: Callable[[Path], None], name: str
) -> None:
    sound = tmp_path / "sound"
    shutil.copytree(finished.path, sound)
    path = finished.path / name
    path.unlink()
    put(path)
    count, faults = shown(finished.path)
    assert count == (name != "results.json")
    assert any(str(path) in fault for fault in faults) == (name != "splits.json")
    # The others are shown.
    assert len(collect([finished.path, sound])[0]) == 1
    if name == "splits.json":
        assert finished.finished().keys() == {0, 1, 2}
    else:
        assert any(str(path) in line for line in said(finished))
        assert finished.finished().keys() == {0, 1, 2} - ({1} if "01" in name else set())


@pytest.mark.parametrize("put", [_pipe, _device])
def test_a_checkpoint_that_is_no_file_is_named(
    finished: RunFolder[Config], put: Callable[[Path], None]
) -> None:
    path = finished.path / "checkpoints/01.ckpt"
    path.unlink()
    put(path)
    (line,) = said(finished)
    assert str(path) in line
    with pytest.raises(DataError, match="not a regular file"):
        read_content(path)


def test_a_copied_run_is_counted_once(finished: RunFolder[Config], tmp_path: Path) -> None:
    copy = tmp_path / "all" / "copy"
    shutil.copytree(finished.path, copy)
    shutil.copytree(finished.path, tmp_path / "all" / "other")
    records, (fault,) = collect([tmp_path / "all", copy])
    assert [each.folder for each in records] == [copy]
    assert fault.startswith(f"{tmp_path / 'all/other/results.json'}: is a copy of {copy}")


def test_a_record_in_another_encoding_is_damaged(finished: RunFolder[Config]) -> None:
    path = finished.results_path
    path.write_text(path.read_text(), encoding="utf-16")
    assert shown(finished.path)[0] == 0
    with pytest.raises(RequestError) as refusal:
        read_candidates([str(finished.path)] * 2)
    assert set(refusal.value.codes) == {"compare.unreadable"}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("put", [Path.touch, _pipe])
def test_a_run_folder_that_is_a_file_is_refused(
    tiny: Maker, tmp_path: Path, put: Callable[[Path], None], inside: bool
) -> None:
    path = tmp_path / "taken"
    put(path)
    folder = RunFolder.of(tiny(f"run_dir={path / 'run' if inside else path}"))
    assert folder.finished() == {}
    with pytest.raises(RequestError, match="is not a folder"), folder.locked():
        pass


def test_a_request_for_no_repetition_is_refused(tiny: Maker) -> None:
    with pytest.raises(RequestError) as refusal:
        run_experiment(tiny("protocol.only=[]"))
    assert refusal.value.codes == ["config.only"]


def test_the_record_of_another_cell_is_set_aside(
    finished: RunFolder[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(
        finished.config, load_splits(finished.path / "splits.json")[0], 0, tmp_path / "grid", cell=1
    )
    own = finished.finished()[0]
    path = training.checkpoint.with_suffix(".json")
    write_json(path, replace(own, config_hash="01234567").to_json())
    monkeypatch.setattr(selection, "train_repetition", lambda *_, **__: own)
    data = build_data(finished.config)
    with pytest.warns(UserWarning, match="of the configuration 01234567, not of"):
        assert train_cell(training, data) == own
    assert train_cell(training, data) == own


def test_copies_of_a_cloud_drive_are_named_and_ignored(finished: RunFolder[Config]) -> None:
    for name in ("01 (conflicted copy).json", "1.json", "01.json~", "001.json"):
        shutil.copy(finished.repetition_path(1), finished.path / "repetitions" / name)
    assert set(finished.finished()) == {0, 1, 2}
    (line,) = said(finished)
    assert line.count("repetitions/") == 4
    assert said(finished) == [line]


def test_a_value_in_range_that_was_not_written_is_noticed(finished: RunFolder[Config]) -> None:
    path = finished.repetition_path(1)
    changed(path, metrics={"val_loss": 0.5, "val_accuracy": 0.75, "test_accuracy": 0.99})
    assert "it is not what was written" in said(finished)[0]
    # What is trained again has digests of its own.
    aside = json.loads(path.with_name("01.json.damaged").read_text())
    write_json(path, aside | {"seconds": 1.0})
    (finished.path / "logs/01/metrics.csv").write_text("trained again")
    write_json(finished.results_path, merge(finished).to_json())
    assert said(finished) == []


@pytest.mark.parametrize("name", ["checkpoints/02.ckpt", "logs/00/metrics.csv"])
def test_files_beside_a_record_are_compared_with_their_digests(
    finished: RunFolder[Config], name: str
) -> None:
    path = finished.path / name
    path.write_text("other")
    for _ in range(2):
        (line,) = said(finished)
        assert str(path) in line
        # A later merge does not take the change for what was written.
        write_json(finished.results_path, merge(finished).to_json())
    path.unlink()
    assert said(finished) == []


def test_a_finished_run_that_cannot_be_written_is_shown(
    finished: RunFolder[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")}
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != finished.path)
    monkeypatch.setattr(experiment.RunFolder, "locked", lambda *_: pytest.fail("was locked"))
    record = run_experiment(finished.config)
    assert record is not None
    assert record.to_json() == json.loads(finished.results_path.read_text())
    assert {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")} == before


def shown(root: Path) -> tuple[int, list[str]]:
    """Show all that a report shows; return the number of records, and the faults."""
    records, faults = collect([root])
    records_report(records)
    for each in records:
        assert each.histogram() is each.predictions() is None
        each.curves()
        print_results(each.record, Console(file=io.StringIO(), width=120))
    return len(records), faults


def test_reports_name_what_was_changed(finished: RunFolder[Config]) -> None:
    assert shown(finished.path) == (1, [])
    whole = finished.results_path.read_text()
    content = json.loads(whole)
    content["repetitions"][1]["seconds"] += 1
    write_json(finished.results_path, sealed(content))
    assert "repetition 1 is not that of" in shown(finished.path)[1][0]
    with pytest.raises(RequestError) as refusal:
        read_candidates([str(finished.path)] * 2)
    assert set(refusal.value.codes) == {"compare.altered"}
    finished.results_path.write_text(whole)
    changed(finished.repetition_path(1), seconds=1.0)
    assert "is not what was written" in shown(finished.path)[1][0]
    content = json.loads(whole)
    content["result"]["mean"] = 0.99
    write_json(finished.results_path, sealed(content))
    count, (fault,) = shown(finished.path)
    assert count == 0
    assert "its result does not follow" in fault


@pytest.mark.parametrize(("key", "value"), [("gate", "paper"), ("config_hash", "0" * 8)])
def test_a_changed_word_of_a_merged_record_is_named(
    finished: RunFolder[Config], key: str, value: str
) -> None:
    path = finished.results_path
    whole = json.loads(path.read_text())
    write_json(path, whole | {key: value})
    count, (fault,) = shown(finished.path)
    assert count == 0
    assert str(path) in fault
    with pytest.raises(RequestError) as refusal:
        read_candidates([str(finished.path)] * 2)
    assert set(refusal.value.codes) == {"compare.unreadable"}
    (line,) = said(finished)
    assert str(path) in line
    # It is made from the repetitions, which have digests of their own.
    assert merge(finished).to_json() == whole
    # An earlier version wrote no digest.
    del whole["digest"]
    write_json(path, whole)
    assert shown(finished.path) == (1, [])
    assert said(finished) == []


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside a JSON value."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def mutated(text: str, random: np.random.Generator) -> bytes:
    """Change a JSON text once: a value, a key, or its bytes."""
    content = json.loads(text)
    known = list(places(content))
    *parents, last = known[random.integers(len(known))]
    section = content
    for part in parents:
        section = section[part]
    kind = random.integers(5)
    if kind == 0:
        del section[last]
    elif kind == 1 and isinstance(section[last], int | float):
        section[last] *= float(random.choice([-1, 0.1, 10, 1 + 1e-3]))
    elif kind == 2:
        raw = bytearray(text.encode())
        raw[random.integers(len(raw))] ^= 1 << random.integers(8)
        return bytes(raw)
    elif kind == 3:
        return text.encode()[: random.integers(len(text))]
    else:
        section[last] = VALUES[random.integers(len(VALUES))]
    return json.dumps(content).encode()


def undigested(text: str | bytes) -> dict[str, Any]:
    """Return a merged record without its digest, which records of earlier versions lack."""
    return {k: v for k, v in json.loads(text).items() if k in FIELDS}


@pytest.mark.parametrize(
    ("first", "count"), [(0, 60), pytest.param(1000, 1000, marks=pytest.mark.slow)]
)
def test_no_change_of_a_record_ends_in_a_traceback_or_goes_unnoticed(
    finished: RunFolder[Config], first: int, count: int
) -> None:
    merged, path = finished.results_path, finished.repetition_path(1)
    texts = {each: each.read_text() for each in (merged, path)}
    for seed in range(first, first + count):
        for each in (path, merged):
            raw = mutated(texts[each], np.random.default_rng(seed))
            each.write_bytes(raw)
            records, faults = shown(finished.path)
            assert set(finished.finished()) >= {0, 2}
            if each == path and raw != texts[path].encode():
                assert faults, raw
                assert records == 1
                # Without digests, nothing but a traceback would be a fault.
                merged.unlink()
                write_json(merged, merge(finished).to_json())
                shown(finished.path)
            for file, text in texts.items():
                file.write_text(text)
            assert faults or undigested(raw) == undigested(texts[merged])
