"""Reproduction of a table: names, states, failures, the paper's values beside ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_paper import record

from unionsnn.cli import command_line
from unionsnn.data.sources import DataUnavailableError
from unionsnn.reports.cost_table import Cost, cost_rows
from unionsnn.reports.paper import table_values
from unionsnn.reports.reproduction import Cell, Outcome, plan_table
from unionsnn.reports.reproduction_table import rows, sheets
from unionsnn.training import experiment
from unionsnn.training.config import RequestError

ROWS = ["--datasets", "mutag", "--models", "gin,union_gin,UnionSNN"]


@pytest.fixture
def reproduce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Result:
        return CliRunner().invoke(command_line, ["-q", "reproduce", *words], catch_exceptions=False)

    return call


def fake(config: Mapping[str, Any], progress: Any = None) -> dict[str, Any]:
    made = record(config["model"]["name"], config["data"]["name"], config["gate"]["preset"])
    return {**made, "missing": [], "state": "finished"}


def test_names_are_the_paper_s_or_ours() -> None:
    cells = plan_table("table3", datasets=["FRANK"], models=["union_gin", "GIN"])
    assert [cell.paper.model for cell in cells] == ["GIN", "UnionGIN"]
    assert {cell.config["data"]["name"] for cell in cells if cell.config} == {"frankenstein"}
    (cell,) = plan_table("table8", datasets=["mutag"], models=["union_minus"])
    assert cell.paper.model == "minus"
    with pytest.raises(RequestError, match=r"--models names 'gim'.*Did you mean 'gin'"):
        plan_table("table3", models=["gim"])
    with pytest.raises(RequestError, match="TABLE is 'table2'; allowed are table3"):
        plan_table("table2")


def test_overrides_of_the_gate_reach_gated_models_only() -> None:
    words = ["gate=default", "trainer.max_epochs=3"]
    cells = plan_table("table3", datasets=["mutag"], models=["gin", "union_gin"], common=words)
    presets = [cell.config["gate"]["preset"] for cell in cells if cell.config]
    assert presets == [None, "default"]
    assert {cell.config["trainer"]["max_epochs"] for cell in cells if cell.config} == {3}


def test_a_wrong_override_is_said_once() -> None:
    with pytest.raises(RequestError) as error:
        plan_table("table3", datasets=["mutag"], models=["gin", "gcn"], common=["seeed=1"])
    assert len(error.value.faults) == 1


def test_a_failing_cell_stops_no_other(reproduce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(config: Mapping[str, Any], progress: Any = None) -> dict[str, Any]:
        if config["model"]["name"] == "gin":
            raise ZeroDivisionError("broken")
        return fake(config)

    monkeypatch.setattr(experiment, "run_experiment", run)
    done = reproduce("table3", *ROWS, "--json")
    assert done.exit_code == 1
    states = {row["model"]: row["state"] for row in json.loads(done.stdout)}
    assert states == {"GIN": "failed", "UnionGIN": "finished", "UnionSNN": "finished"}


@pytest.mark.parametrize("words", [(), ("--available-only",)])
def test_what_cannot_be_had_is_said(
    reproduce: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def run(config: Mapping[str, Any], progress: Any = None) -> dict[str, Any]:
        raise DataUnavailableError("no place has it")

    monkeypatch.setattr(experiment, "run_experiment", run)
    done = reproduce("table3", "--datasets", "mutag", "--models", "3WL-GNN,gin", *words)
    assert done.exit_code == (0 if words else 1)
    assert "NOT AVAILABLE 3WL-GNN: the network of Maron" in done.stdout
    assert "NOT AVAILABLE GIN: no place has it" in done.stdout


@pytest.mark.parametrize("ending", ["md", "csv", "tex"])
def test_the_table_is_written(reproduce: Any, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr(experiment, "run_experiment", fake)
    done = reproduce("table3", *ROWS, "--out", f"table.{ending}")
    assert done.exit_code == 0, done.stderr
    text = Path(f"table.{ending}").read_text()
    assert "UnionSNN" in text
    assert "0.8731" in text if ending == "csv" else "87.31" in text


@pytest.mark.parametrize("words", [("table1",), ("table3", "--datasets", "x"), ("table3", "a=b")])
def test_wrong_requests_exit_with_2(reproduce: Any, words: tuple[str, ...]) -> None:
    assert reproduce(*words).exit_code == 2


def test_difference_and_marker() -> None:
    (paper,) = (v for v in table_values("table3") if (v.model, v.dataset) == ("UnionSNN", "MUTAG"))
    ours = {**record("unionsnn", "mutag", "paper"), "state": "incomplete"}
    outcome = Outcome(Cell(paper, {}), ours)
    (row,) = rows([outcome])
    assert row["difference"] == pytest.approx(0.75 - 0.8731)
    assert row["paper_outside_interval"] is True
    (sheet,) = sheets([outcome])
    assert list(sheet.rows[0][:6]) == [
        "UnionSNN",
        "87.31 ± 5.29 %",
        "75.00 ± 5.00 %",
        "-12.31 points",
        "70.00 to 80.00 %",
        "≠",
    ]
    assert "INCOMPLETE UnionSNN: 2 of 3 repetitions" in sheet.notes


def test_ratios_of_costs() -> None:
    costs = [Cost(v, 10.0 if v.model == "GIN" else 25.0) for v in table_values("table12")]
    found = {(r["model"], r["dataset"]): r for r in cost_rows(costs)}
    assert found["UnionSNN", "DD"]["ratio"] == 2.5
    assert found["UnionSNN", "DD"]["paper_ratio"] == pytest.approx(3.61 / 1.81)
