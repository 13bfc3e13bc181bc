"""Nested selection: a cell of a grid inside each repetition."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
from test_resume import comparable, killed_when

from unionsnn.base.errors import NonFiniteLossError, RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import cells_of
from unionsnn.config.identity import config_hash
from unionsnn.reports.views.results import print_dry_run, selected_lines, summary_line
from unionsnn.runs import selection
from unionsnn.runs.dry_run import describe
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.runs.selection import best, pareto_front
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training

Maker = Callable[..., dict[str, Any]]
FOLDS = ["protocol=cross_validation", "protocol.folds=3", "protocol.select_on=val_accuracy"]
GRID = "protocol.grid={optimizer.lr:[0.0001,0.05],model.num_layers:[1,2]}"


def test_the_best_on_validation_is_tested_once_and_is_that_cell_trained_alone(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[int] = []
    original = pl.Trainer.test

    def test(self: pl.Trainer, *args: Any, **kwargs: Any) -> Any:
        tested.append(1)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(pl.Trainer, "test", test)
    config = tiny(*FOLDS, GRID, run_dir="nested")
    record = run_experiment(config)
    assert len(tested) == 3
    alone = [
        run_experiment(config.replace({"run_dir": f"{config.run_dir}-{n}"}).with_cell(cell))
        for n, cell in enumerate(cells_of(config.protocol.grid))
    ]
    for fold, row in enumerate(record.repetitions):
        values = [each.repetitions[fold].metrics["val_accuracy"] for each in alone]
        assert [cell["val_accuracy"] for cell in row.grid["cells"]] == values
        best = values.index(max(values))
        assert row.grid["selected"] == cells_of(config.protocol.grid)[best]
        assert row.metrics == alone[best].repetitions[fold].metrics
        assert "test_accuracy" not in json.dumps(row.grid)
    folder = RunFolder.of(config).path
    assert not (folder / "cells").exists()
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == [
        f"0{i}.ckpt" for i in range(3)
    ]
    assert len(list((folder / "predictions").iterdir())) == 3
    assert "nested: grid of 4, selected per fold on val_accuracy" in summary_line(record)
    assert len(selected_lines(record)) == 3
    assert selected_lines(record)[0].startswith("chosen in 1: optimizer.lr=")
    grid = record.repetitions[0].grid
    grid["selected"] = grid["cells"][0]["cell"]
    grid["cells"][1] = {"cell": {"optimizer.lr": 9}, "failed": "NaN"}
    assert selected_lines(record)[1].startswith("FAILED in 1: 1 of ")
    assert selected_lines(record)[1].endswith("cells, the first optimizer.lr=9: NaN")


def test_a_kill_loses_no_finished_cell(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run_experiment(tiny(*FOLDS, GRID, run_dir="whole"))
    config = tiny(*FOLDS, GRID, run_dir="killed")
    folder = RunFolder.of(config).path
    killed_when(config, lambda: len(list(folder.glob("cells/00/*.json"))) >= 2)
    kept = {int(path.stem) for path in folder.glob("cells/00/*.json")}
    assert len(kept) >= 2
    assert not list(folder.glob("repetitions/*"))
    trained: list[tuple[int, int | None]] = []
    original = selection.train_repetition

    def note(training: Training, *args: Any, **kwargs: Any) -> Repetition:
        trained.append((training.index, training.cell))
        return original(training, *args, **kwargs)

    monkeypatch.setattr(selection, "train_repetition", note)
    record = run_experiment(config)
    assert {cell for index, cell in trained if index == 0} == set(range(4)) - kept
    assert comparable(record) == comparable(expected)
    selected = [[row.grid["selected"] for row in r.repetitions] for r in (record, expected)]
    assert selected[0] == selected[1]


def test_a_cell_that_diverges_loses_and_all_that_diverge_fail(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = selection.train_repetition

    def diverge(training: Training, *args: Any, **kwargs: Any) -> Repetition:
        if training.config.optimizer.lr > limit:
            raise NonFiniteLossError("val_loss is nan in epoch 0.")
        return original(training, *args, **kwargs)

    monkeypatch.setattr(selection, "train_repetition", diverge)
    words = ["protocol.grid={optimizer.lr:[0.1,0.001]}"]
    limit = 0.01
    (row,) = run_experiment(tiny(*words, run_dir="one")).repetitions
    assert row.grid["selected"] == {"optimizer.lr": 0.001}
    assert row.grid["cells"][0]["failed"] == "val_loss is nan in epoch 0."
    limit = 0.0
    with pytest.raises(NonFiniteLossError, match="All 2 cells of the grid failed: val_loss is nan"):
        run_experiment(tiny(*words, run_dir="none"))


def test_cells_may_read_other_coefficients_and_workers_give_the_same(tiny: Maker) -> None:
    words = [*FOLDS, "gate=paper", "protocol.grid={coefficient.radius:[[1],[2]]}"]
    one = run_experiment(tiny(*words, run_dir="one"))
    two = run_experiment(tiny(*words, "protocol.workers=2", run_dir="two"))
    assert comparable(one) == comparable(two)


def test_ties_go_to_the_first_and_errors_are_small() -> None:
    values = [None, [0.5], [0.25], [0.25]]
    assert best(values, ["val_mae"]) == 2
    assert best(values, ["val_accuracy"]) == 1
    assert best([None], ["val_mae"]) is None


def test_what_is_best_by_two_objectives_is_on_the_front() -> None:
    values = [[0.5, 3.0], [0.5, 2.0], None, [0.25, 1.0], [0.5, 2.0]]
    assert best(values, ["val_accuracy", "parameters"]) == 1
    assert pareto_front(values, ["val_accuracy", "parameters"]) == [1, 3, 4]


def test_dry_run_counts_the_trainings_and_writes_nothing(
    tiny: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(*FOLDS, GRID)
    plan = describe(config)
    for compiles in (plan["compiles"], True):
        print_dry_run({**plan, "compiles": compiles})
    assert capsys.readouterr().out.count("compiling") == 1
    assert (plan["cells"], plan["trainings"], plan["pending"]) == (4, 12, [0, 1, 2])
    assert plan["seconds_at_most"] > 0
    assert not (tmp_path / "runs").exists()
    assert math.isclose(describe(tiny(*FOLDS))["trainings"], 3)


def test_the_paper_s_grids() -> None:
    tu = compose_config(["grid=tu", "protocol=cross_validation", "data=mutag"])
    node = compose_config(["grid=node", "protocol=repeated_seeds", "data=cora"])
    sizes = [len(cells_of(config.protocol.grid)) for config in (tu, node)]
    assert sizes == [108, 9]


def test_a_grid_is_no_part_of_the_hash_of_runs_without_one() -> None:
    plain = compose_config([])
    assert "grid" not in plain.protocol.to_dict()
    assert config_hash(plain) != config_hash(compose_config([GRID]))
    cells = cells_of(compose_config([GRID]).protocol.grid)
    own = compose_config([GRID]).with_cell(cells[3])
    assert own == compose_config(["optimizer.lr=0.05", "model.num_layers=2"])


REFUSALS = {
    "{optimzer.lr:[1]}": "'optimzer.lr', a key that does not exist. Did you mean 'optimizer.lr'?",
    "{seed:[1,2]}": "'seed', which cannot differ between cells; it may vary optimizer",
    "{protocol.folds:[3,4]}": "which cannot differ",
    "{paths.output:[a]}": "which cannot differ",
    "{data.name:[a]}": "which cannot differ",
    "{coefficient.control:[random]}": "which cannot differ",
    "{model.num_layers:[3,a]}": "model.num_layers is 'a'; it must be a whole number",
    "{model.num_layers:[-1]}": "model.num_layers=-1: model.num_layers is -1",
    "{optimizer.lr:[0.1,0.1]}": "lists a value of optimizer.lr twice",
    "{optimizer.lr:0.1}": "give a list of values",
    "{optimizer.lr:[]}": "give a list of values",
    "3": "protocol.grid is 3; it maps keys to lists",
    "{gate.preset:[paper,default]}": "coefficient.radius would become [1] instead of [1, 2, 3]",
}


@pytest.mark.parametrize("grid", REFUSALS)
def test_a_grid_is_checked_before_the_first_run(grid: str) -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config([f"protocol.grid={grid}"])
    assert REFUSALS[grid] in str(refusal.value)


def test_the_paper_s_selection_refuses_a_grid_with_the_reason() -> None:
    words = ["protocol=cross_validation_paper", "grid=tu"]
    with pytest.raises(RequestError, match=r"selected on the folds .* protocol=cross_validation\."):
        compose_config(words)
