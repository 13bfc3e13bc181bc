"""Reproduction of a table: names, states, failures, the paper's values beside ours."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from made_records import result
from unionsnn.base.errors import DataUnavailableError, RequestError, TooLargeError
from unionsnn.cli.app import command_line
from unionsnn.config.schema import Config
from unionsnn.reports import reproduction
from unionsnn.reports.paper import paper_names, paper_table
from unionsnn.reports.reproduction import Cell, Outcome, plan_table
from unionsnn.reports.views.reproduction import reproduction_report
from unionsnn.runs import costs, experiment
from unionsnn.runs.costs import Cost
from unionsnn.training import records

ROWS = ["--datasets", "mutag", "--models", "gin,union_gin,UnionSNN"]


@pytest.fixture
def reproduce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Result:
        return CliRunner().invoke(command_line, ["-q", "reproduce", *words], catch_exceptions=False)

    return call


def fake(config: Config, progress: Any = None) -> records.Result:
    made = result(config.model.name, config.data.name, config.gate.preset)
    return replace(made, missing=[], state="finished")


def test_names_are_the_paper_s_or_ours() -> None:
    cells = plan_table("table3", datasets=["FRANK"], models=["union_gin", "GIN"])
    assert [cell.paper.model for cell in cells] == ["GIN", "UnionGIN"]
    assert {cell.config.data.name for cell in cells if cell.config} == {"frankenstein"}
    (cell,) = plan_table("table8", datasets=["mutag"], models=["union_minus"])
    assert cell.paper.model == "minus"
    with pytest.raises(RequestError, match="Did you mean 'gin'") as error:
        plan_table("table3", models=["gim"])
    assert error.value.codes == ["reproduce.unknown"]
    with pytest.raises(RequestError, match="table2") as error:
        plan_table("table2")
    assert error.value.codes == ["reproduce.unknown_table"]


def test_overrides_of_the_gate_reach_gated_models_only() -> None:
    words = ["gate=default", "trainer.max_epochs=3"]
    cells = plan_table("table3", datasets=["mutag"], models=["gin", "union_gin"], common=words)
    presets = [cell.config.gate.preset for cell in cells if cell.config]
    assert presets == [None, "default"]
    assert {cell.config.trainer.max_epochs for cell in cells if cell.config} == {3}


def test_a_wrong_override_is_said_once() -> None:
    with pytest.raises(RequestError) as error:
        plan_table("table3", datasets=["mutag"], models=["gin", "gcn"], common=["seeed=1"])
    assert len(error.value.faults) == 1


def test_a_failing_cell_stops_no_other(reproduce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(config: Config, progress: Any = None) -> records.Result:
        if config.model.name == "gin":
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
    def run(config: Config, progress: Any = None) -> records.Result:
        raise DataUnavailableError("no place has it")

    names = replace(paper_names(), absent={"GAT": "its heads are not part of this package"})
    monkeypatch.setattr(reproduction, "paper_names", lambda: names)
    monkeypatch.setattr(experiment, "run_experiment", run)
    done = reproduce("table3", "--datasets", "mutag", "--models", "GAT,gin", *words)
    assert done.exit_code == (0 if words else 1)
    assert "NOT AVAILABLE GAT: its heads are not part" in done.stdout
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
    (paper,) = (
        v for v in paper_table("table3").values if (v.model, v.dataset) == ("UnionSNN", "MUTAG")
    )
    outcome = Outcome(Cell(paper, {}), result("unionsnn", "mutag", "paper"))
    report = reproduction_report([outcome])
    (row,) = report.rows
    assert row["difference"] == pytest.approx(0.75 - 0.8731)
    assert row["paper_outside_interval"] is True
    (table,) = report.tables
    assert table.cells()[0][:6] == [
        "UnionSNN",
        "87.31 ± 5.29 %",
        "75.00 ± 5.00 %",
        "-12.31 points",
        "70.00 to 80.00 %",
        "≠",
    ]
    assert "INCOMPLETE UnionSNN: 2 of 3 repetitions" in table.notes


def test_ratios_of_costs() -> None:
    outcomes = [
        Outcome(Cell(value, {}), cost=Cost(10.0 if value.model == "GIN" else 25.0))
        for value in paper_table("table12").values
    ]
    found = {(r["model"], r["dataset"]): r for r in reproduction_report(outcomes).rows}
    assert found["UnionSNN", "DD"]["ratio"] == 2.5
    assert found["UnionSNN", "DD"]["paper_ratio"] == pytest.approx(3.61 / 1.81)


TIMED = ["table12", "--datasets", "proteins,dd", "--models", "gin,3WL-GNN,UnionSNN"]


def test_table_12_times_epochs_and_prints_ratios_beside_the_paper_s(
    reproduce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def timed(config: Config, progress: Any = None) -> Cost:
        name, data = config.model.name, config.data
        seen.append((name, data.name, data.max_pairs, config.protocol.name))
        if (name, data.name) == ("ppgn", "dd"):
            raise TooLargeError("one graph of up to 5,748 nodes, about 200 GB of 60 GB free")
        seconds = {"gin": 2.0, "ppgn": 30.0, "unionsnn": 3.0}[name]
        return Cost(seconds, 1, "cpu (1 thread(s))")

    monkeypatch.setattr(costs, "timed_training", timed)
    done = reproduce(*TIMED, "--json")
    assert done.exit_code == 1
    found = {(r["model"], r["dataset"]): r for r in json.loads(done.stdout)}
    assert found["3WL-GNN", "PROTEINS"]["ratio"] == 15.0
    assert found["UnionSNN", "PROTEINS"]["ratio"] == 1.5
    assert found["UnionSNN", "PROTEINS"]["paper_ratio"] == pytest.approx(1.31 / 0.53)
    assert found["3WL-GNN", "DD"]["ratio"] is None
    assert "NOT AVAILABLE: one graph of up to 5,748" in found["3WL-GNN", "DD"]["why"]
    assert ("ppgn", "proteins", 400_000, "holdout") in seen
    assert ("ppgn", "dd", None, "holdout") in seen
    text = reproduce(*TIMED, "--available-only")
    assert text.exit_code == 0
    assert "2.47 ×" in text.stdout
    assert "15.00 ×" in text.stdout
    assert "NOT AVAILABLE: one graph" in text.stdout


def test_table_12_is_planned_as_one_repetition_of_a_few_epochs(
    reproduce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = []

    def estimated(config: Config, progress: Any = None, *, trust: bool) -> dict[str, Any]:
        trusted.append(trust)
        return {"seconds_at_most": 60.0 * config.trainer.max_epochs}

    monkeypatch.setattr("unionsnn.runs.dry_run.describe", estimated)
    for flags, trust in ((["--trust"], True), ([], False)):
        done = reproduce(*TIMED, "--dry-run", "--json", *flags)
        assert set(trusted) == {trust}
        trusted.clear()
    planned = {(r["repetitions"], r["seconds_at_most"]) for r in json.loads(done.stdout)}
    assert planned == {(1, 240.0)}


def test_table_11_prints_ratios_to_ours(reproduce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(config: Config, progress: Any = None) -> Cost:
        union = config.coefficient.descriptor == "path"
        return Cost(0.5 if union else 2.0)

    monkeypatch.setattr(costs, "timed_preprocessing", timed)
    done = reproduce("table11", "--datasets", "proteins")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("4.00 ×") == 4
    assert "31.32 ×" in done.stdout
