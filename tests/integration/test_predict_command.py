"""Predict and export as a user types them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from commands import printed_codes
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config
from unionsnn.runs.experiment import run_experiment

TINY = [
    "data.num_train=32",
    "data.num_validation=8",
    "data.num_test=8",
    "model.hidden_channels=8",
    "model.num_layers=1",
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
]


def call(*words: object) -> Result:
    return CliRunner().invoke(command_line, [str(w) for w in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two repetitions, which no test writes to."""
    root = tmp_path_factory.mktemp("trained")
    overrides = ["model=gin", "protocol=repeated_seeds", "protocol.seeds=2", f"run_dir={root}/run"]
    run_experiment(compose_config([*overrides, f"paths.data={root}/data", *TINY]))
    return root / "run"


@pytest.fixture(autouse=True)
def _data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))


def test_predictions_are_printed_and_written_in_each_format(run: Path, tmp_path: Path) -> None:
    graphs = tmp_path / "own"
    graphs.mkdir()
    (graphs / "path.txt").write_text("a b\nb c\n")
    (graphs / "set.g6").write_text("C~\nBw\n")
    done = call("predict", run, graphs, "--symmetrize", "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert [row["graph"] for row in rows] == ["path.txt", "set.g6:0", "set.g6:1"]
    probabilities = [k for k in rows[0] if k.startswith("probability_")]
    assert len(probabilities) == 2 * (2 + 2)
    for row in rows:
        shares = {k: row[k] for k in probabilities[:2]}
        assert sum(shares.values()) == pytest.approx(1)
        assert f"probability_{row['predicted']}" == max(shares, key=shares.__getitem__)
    for ending in (".csv", ".parquet", ".json"):
        out = tmp_path / f"out{ending}"
        done = call("predict", run, graphs, "--symmetrize", "--out", out)
        assert done.exit_code == 0, done.output
        assert "mean probabilities of 2 repetitions" in done.output
        read = {
            ".csv": lambda p: [*csv.DictReader(p.read_text().splitlines())],
            ".parquet": lambda p: pyarrow.parquet.read_table(p).to_pylist(),
            ".json": lambda p: json.loads(p.read_text())["rows"],
        }[ending](out)
        assert [float(row[probabilities[0]]) for row in read] == pytest.approx(
            [row[probabilities[0]] for row in rows]
        )


def test_a_table_of_labels_stands_beside_the_predictions(run: Path, tmp_path: Path) -> None:
    graphs = tmp_path / "own"
    graphs.mkdir()
    (graphs / "b.g6").write_text("C~\n")
    (graphs / "a.g6").write_text("Bw\n")
    (graphs / "labels.csv").write_text("file,label\nb.g6,yes\na.g6,no\n")
    done = call("predict", run, graphs, "--json")
    rows = json.loads(done.stdout)["rows"]
    assert [(row["graph"], row["label"]) for row in rows] == [("b.g6", "yes"), ("a.g6", "no")]


@pytest.mark.parametrize(
    ("make", "status", "codes"),
    [
        (lambda run, own: [run, own / "none.g6"], 2, []),
        (lambda run, own: [own, own / "a.g6"], 2, ["predict.no_checkpoint"]),
        (lambda run, own: [run, own / "x.odd"], 2, ["data.format"]),
        (lambda run, own: [run, own / "a.g6", "--out", own / "x.docx"], 2, ["output.extension"]),
        (lambda run, own: [run, own / "a.g6", "--format", "odd"], 2, ["data.format"]),
        (lambda run, own: [run, own / "one_way.txt"], 1, ["data.one_way"]),
        (lambda run, own: [own / "x.odd", own / "a.g6"], 1, ["checkpoint.damaged"]),
    ],
)
def test_what_is_wrong_is_said_with_its_status(
    run: Path, tmp_path: Path, make: Callable[..., list[Any]], status: int, codes: list[str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.g6").write_text("Bw\n")
    (own / "x.odd").write_text("Bw\n")
    (own / "one_way.txt").write_text("0 1\n")
    done = call("predict", *make(run, own))
    assert done.exit_code == status, done.output
    assert printed_codes(done.stderr) == codes


def test_a_program_is_written_and_its_inputs_are_named(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.pt2"
    done = call("export", run, "--out", out)
    assert done.exit_code == 0, done.output
    assert out.stat().st_size > 0
    assert "x float32 [num_nodes, 1], edge_index int64 [2, num_edges]" in done.output
    assert call("export", run, "--out", tmp_path / "x.onnx").exit_code == 2
