"""Reproduction away from the stated setting: warnings, and the paper's grids."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_reproduction import fake

from unionsnn.base.errors import RequestError
from unionsnn.cli.app import command_line
from unionsnn.reports.reproduction import estimates, plan_table
from unionsnn.reports.views.reproduction import plan_report
from unionsnn.runs import experiment
from unionsnn.training.records import RecordedFailure, Result

MATCHED = ["reproduce", "table6", "--datasets", "4cycles", "--models", "gin,unionsnn"]
WARNING = "WARNING: ours differs from the table's setting: data.variant=matched instead of plain"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "run_experiment", fake)


def call(*words: str) -> Any:
    return CliRunner().invoke(command_line, list(words), catch_exceptions=False)


def test_other_data_than_the_paper_s_are_named_under_the_table_and_in_the_files() -> None:
    for name in ("t.md", "t.tex", "t.csv"):
        done = call("-q", *MATCHED, "--out", name, "--", "data.variant=matched")
        assert done.exit_code == 0, done.stderr
        assert WARNING in " ".join(done.stdout.split())
    assert WARNING in Path("t.md").read_text()
    assert WARNING in Path("t.tex").read_text().replace("\\_", "_")
    rows = list(csv.DictReader(Path("t.csv").read_text().splitlines()))
    assert {row["differs"] for row in rows} == {"data.variant=matched instead of plain"}
    plan = json.loads(call("-q", *MATCHED, "--json").stdout)
    assert {row["differs"] for row in plan} == {None}
    assert "WARNING" not in call("-q", *MATCHED).stdout


def test_what_only_some_rows_have_is_named_with_them_and_what_changes_nothing_is_not() -> None:
    done = call("-q", *MATCHED, "--", "gate=default", "paths.output=elsewhere", "logger=none")
    (line,) = [row for row in done.stdout.splitlines() if row.startswith("WARNING")]
    text = " ".join(done.stdout.split())
    assert "table's setting (UnionSNN): " in text
    assert "gate.preset=default instead of paper" in text
    assert "paths" not in line


def test_the_grid_of_a_table_is_nested_in_folds_or_seeds() -> None:
    (cell,) = plan_table("table3", datasets=["mutag"], models=["gin"], grid=True)
    assert cell.config is not None
    assert cell.config.protocol.name == "cross_validation"
    assert set(cell.config.protocol.grid) == {
        "optimizer.lr",
        "optimizer.weight_decay",
        "model.hidden_channels",
        "model.dropout",
    }
    assert any(text.startswith("protocol.name=cross_validation") for text in cell.differs)
    (cell,) = plan_table("table7", datasets=["cora"], models=["gin"], grid=True)
    assert cell.config is not None
    assert cell.config.protocol.name == "repeated_seeds"
    for table in ("table4", "table12"):
        with pytest.raises(RequestError, match=table) as error:
            plan_table(table, grid=True)
        assert error.value.codes == ["reproduce.no_grid"]
    with pytest.raises(RequestError, match="selected on the folds that it reports"):
        plan_table("table3", common=["protocol=cross_validation_paper"], grid=True)


def test_the_estimate_is_printed_before_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        f"{estimates.__module__}.estimates", lambda cells, *_, **__: {c.key: 7200.0 for c in cells}
    )
    done = call("reproduce", "table3", "--datasets", "mutag", "--models", "gin", "--grid")
    assert done.exit_code == 0, done.stderr
    before, _, after = done.stdout.partition("at most about 2 h 0 min of training")
    assert "grid: 108 trainings in each repetition" in after
    assert "difference" in after
    assert "difference" not in before


def test_what_cannot_be_estimated_is_not_counted_as_no_time() -> None:
    cells = plan_table("table3", datasets=["mutag"], models=["gin", "gcn"])
    left = "2 of 2 experiments are left"
    assert plan_report(cells, {}).tables[0].notes[0] == left
    assert plan_report(cells, {cells[0].key: 60.0}).tables[0].notes[0] == (
        f"{left}, at most about 1 min 0 s of training on one process, plus 1 of unknown duration"
    )


def test_a_failed_repetition_makes_the_status_1_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(config: Any, progress: Any = None) -> Result:
        made = fake(config)
        if config.model.name == "gin":
            failed = [RecordedFailure(2, "ValueError", "broken")]
            return replace(made, state="incomplete", missing=[2], failed=failed)
        return made

    monkeypatch.setattr(experiment, "run_experiment", run)
    done = call("-q", "reproduce", "table3", "--datasets", "mutag", "--models", "gin,unionsnn")
    assert done.exit_code == 1
    assert "FAILED GIN: repetition 3: broken" in done.stdout
    assert "75.00" in done.stdout
