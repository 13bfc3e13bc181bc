"""Repetitions trained together: the records are those of one after another, up to rounding."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tu_files import write_tu
from unionsnn.base.errors import NonFiniteLossError, RequestError
from unionsnn.config.schema import Config
from unionsnn.runs import pending, selection
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import together
from unionsnn.training.build import build_data
from unionsnn.training.callbacks import StopOnNonFinite
from unionsnn.training.protocols import draw_splits
from unionsnn.training.repetition import Training
from unionsnn.training.resume import SharedPoint, point_of

Toy = Callable[..., Config]
# Of 3 folds of 49 graphs one trains on 16 and two on 17, in two batches or three.
FOLDS = ["protocol=cross_validation", "protocol.folds=3", "data.batch_size=8"]


@pytest.fixture
def toy(tiny: Any, tmp_path: Path) -> Toy:
    write_tu(tmp_path, "TOY", 49, attributes=3)

    def make(*overrides: str, together: str, folder: str | None = None) -> Config:
        given = ["data=tu", "data.name=TOY", f"data.mirror={tmp_path}", "data.offline=true"]
        given += ["trainer.max_epochs=2", "trainer.precision=64-true", *FOLDS]
        keys = {each.partition("=")[0] for each in overrides}
        keys |= {"protocol.folds"} if "protocol=repeated_seeds" in overrides else set()
        given = [each for each in given if each.partition("=")[0] not in keys]
        where = folder or together
        return tiny(*given, *overrides, f"protocol.together={together}", run_dir=where)

    return make


def content(folder: Path) -> dict[str, Any]:
    """All that a run has written, by file, without times."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            found[name] = json.loads(path.read_text())
        elif path.suffix == ".ckpt":
            found[name] = torch.load(path, weights_only=True)["state_dict"]
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                found[name] = dict(arrays)
        elif path.suffix == ".csv":
            with path.open() as file:
                rows = [*csv.DictReader(file)]
            found[name] = [{key: float(value) for key, value in row.items()} for row in rows]
    found.pop("config.json")
    return found


def assert_alike(one: Any, other: Any, where: str = "") -> None:
    if isinstance(one, dict):
        own = {"seconds", "config", "digest", "digests", "together"}
        ordered = ([key for key in each if key != "together"] for each in (one, other))
        assert next(ordered) == next(ordered), where
        for key in one.keys() - own:
            assert_alike(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_alike(*pair, f"{where}/{number}")
    elif isinstance(one, float | torch.Tensor | np.ndarray):
        kind = np.asarray(one).dtype.kind
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8 if kind == "f" else 0)
    else:
        assert one == other, where


GRID = "{optimizer.lr: [0.01, 0.001], model.dropout: [0.0, 0.5]}"
CASES = {
    "plateau, clipping, dropout": [
        *("model=gin", "model.dropout=0.5", "trainer.gradient_clip_val=0.5"),
        *("optimizer.schedule=plateau", "optimizer.patience=1"),
    ],
    "early stopping": ["model=unionsnn", "trainer.max_epochs=9", "protocol.patience=1"],
    "test curve": ["model=gatedgcn", "gate=default", "protocol=cross_validation_paper"],
    "decay of some weights": [
        *("model=union_gcn", "optimizer._target_=torch.optim.AdamW", "optimizer.weight_decay=0.1"),
        *("optimizer.weight_decay_on=weights", "data.class_weights=balanced"),
    ],
    "rate by step": [
        *("model=sage", "optimizer._target_=torch.optim.SGD", "optimizer.schedule=onecycle"),
        *("protocol=repeated_seeds", "protocol.seeds=2"),
    ],
    "cells of a grid": ["model=unionsnn", f"protocol.grid={GRID}"],
}


@pytest.mark.parametrize("name", CASES)
def test_records_and_files_are_those_of_one_after_another(toy: Toy, name: str) -> None:
    configs = [toy(*CASES[name], together=how) for how in ("true", "false")]
    results = [run_experiment(config) for config in configs]
    assert results[0].config_hash == results[1].config_hash
    assert [{row.together for row in each.repetitions} for each in results] == [{True}, {None}]
    assert_alike(*(content(RunFolder.of(config).path) for config in configs))
    for one, other in zip(*(result.repetitions for result in results), strict=True):
        files = [RunFolder.of(config).finished()[one.index].curves for config in configs]
        rows = [[*row.values()] for row in files[0]], [[*row.values()] for row in files[1]]
        np.testing.assert_allclose(*rows, rtol=1e-9)
        assert (one.best_epoch, one.epochs) == (other.best_epoch, other.epochs)
    if name == "early stopping":
        assert len({row.epochs for row in results[0].repetitions}) > 1


@pytest.mark.parametrize("grid", ["null", "{optimizer.lr: [0.05, 0.001]}"])
def test_a_stopped_training_goes_on_together(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, grid: str
) -> None:
    settings = ["model=gin", "model.dropout=0.5", "trainer.max_epochs=5", "protocol.patience=3"]
    settings += [f"protocol.grid={grid}", "protocol=repeated_seeds", "protocol.seeds=2"]
    whole = toy(*settings, together="true")
    run_experiment(whole)
    stopped = toy(*settings, together="true", folder="stopped")
    original = together._Group._epoch

    def stop(self: Any, failed: Any) -> None:
        self.point.times._next = 0.0
        if self.members[0].current_epoch == 2:
            raise KeyboardInterrupt
        original(self, failed)

    with monkeypatch.context() as patch:
        patch.setattr(together._Group, "_epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(stopped)
    folder = RunFolder.of(stopped).path
    assert point_of(folder).exists()
    run_experiment(stopped)
    assert not point_of(folder).parent.exists()
    one, other = content(RunFolder.of(whole).path), content(folder)
    assert_alike(one, other)


def test_a_repetition_that_fails_leaves_the_others_and_is_trained_alone(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, trainer: Any, module: Any) -> None:
        if (trainer.training.index, trainer.current_epoch) == (1, 1):
            raise NonFiniteLossError("train_loss is inf in epoch 2.")

    with monkeypatch.context() as patch:
        patch.setattr(StopOnNonFinite, "on_train_epoch_end", fail)
        record = run_experiment(toy("model=gin", together="true"))
    assert [row.index for row in record.repetitions] == [0, 2]
    assert [(row.index, row.kind) for row in record.failed] == [(1, "NonFiniteLossError")]
    alone = toy("model=gin", together="false", folder="true")
    record = run_experiment(alone)
    assert [row.together for row in record.repetitions] == [True, None, True]
    files = RunFolder.of(alone).finished()
    assert [files[index].together for index in range(3)] == [True, None, True]
    assert "together" not in record.config["protocol"]


def test_a_cell_that_diverges_together_loses(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, trainer: Any, module: Any) -> None:
        if trainer.training.cell == 0:
            raise NonFiniteLossError("train_loss is inf in epoch 2.")

    monkeypatch.setattr(StopOnNonFinite, "on_train_epoch_end", fail)
    monkeypatch.setattr(selection, "train_repetition", None)
    words = ["model=gin", f"protocol.grid={GRID}", "protocol.only=[1]", "trainer.max_epochs=1"]
    (row,) = run_experiment(toy(*words, together="true")).repetitions
    assert row.grid["cells"][0]["failed"] == "train_loss is inf in epoch 2."
    assert row.together


def test_what_shares_a_shape_goes_together_and_is_told(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    grid = "{optimizer.lr: [0.05, 0.001], model.dropout: [0.0, 0.5], model.num_layers: [1, 2]}"
    config = toy("model=gin", f"protocol.grid={grid}", together="auto")
    data = build_data(config)
    split = draw_splits(config.protocol, data, config.seed)[0]
    repetitions = [Training(config, split, number, Path()) for number in range(3)]
    cells = selection.cell_trainings(repetitions)
    monkeypatch.setattr(together, "pays", lambda config, data: True)
    caplog.set_level("INFO", logger="unionsnn")
    point = SharedPoint(tmp_path / "none.ckpt", config)
    groups = together.groups_of(cells, lambda _: data, point)
    assert [len(group) for group in groups] == [12, 12]
    assert [{each.config.model.num_layers for each in group} for group in groups] == [{1}, {2}]
    said = "protocol.together=auto: 8 cells of 3 folds are trained in one step for each of 2 shapes"
    assert said in caplog.text
    monkeypatch.undo()
    assert together.groups_of(cells, lambda _: data, point) == []


def test_by_auto_what_fails_together_starts_over_alone(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Any, failed: Any) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(together._Group, "_epoch", fail)
    monkeypatch.setattr(together, "pays", lambda config, data: True)
    caplog.set_level("INFO", logger="unionsnn")
    record = run_experiment(toy("model=gin", "trainer.max_epochs=1", together="auto"))
    assert "protocol.together=auto: 3 folds are trained in one step" in caplog.text
    assert [row.together for row in record.repetitions] == [None] * 3
    assert (record.state, record.failed) == ("finished", [])
    assert caplog.text.count("no kernel") == 3


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=gat"],
        ["model=gin", "trainer.precision=bf16-mixed"],
        ["model=gin", "trainer.ema_decay=0.9"],
        ["model=gin", "trainer.accumulate_grad_batches=2"],
        ["model=union_gin", "coefficient.control=random"],
    ],
)
def test_what_cannot_be_trained_together_is_refused(toy: Toy, overrides: list[str]) -> None:
    with pytest.raises(RequestError) as error:
        run_experiment(toy(*overrides, together="true"))
    assert error.value.codes == ["protocol.together"]


@pytest.mark.parametrize("several", ["protocol.workers=2", "trainer=ddp"])
def test_several_processes_and_together_are_refused(toy: Toy, several: str) -> None:
    with pytest.raises(RequestError, match=several.replace("=2", " is 2")) as error:
        toy("model=gin", several, together="true")
    assert error.value.codes == ["protocol.together"]


def test_auto_is_one_after_another_on_a_cpu(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "train_together", None)
    config = toy("model=gin", "trainer.max_epochs=1", together="auto")
    assert "together" not in config.to_dict()["protocol"]
    assert run_experiment(config).state == "finished"
