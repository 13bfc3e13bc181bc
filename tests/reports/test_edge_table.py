"""Tables of a user's own graphs: read back to the last bit, written whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from rich.console import Console

from unionsnn.base.errors import RequestError
from unionsnn.data.sources.graph_files.formats import read_graph_file
from unionsnn.reports.table import check_output, show
from unionsnn.reports.views import coefficients as tables

VALUES = np.array([[1 / 3, 3.0], [np.pi * 1e10, 4.0], [5e-324, 0.0]])


@pytest.fixture(params=["7 3\n3 7\n7 7\n", 'a,"b ""c"", d"\n"b ""c"", d",a\na,a\n'])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tables.pyarrow.Table:
    path = tmp_path / "g.txt"
    path.write_text(request.param)
    return tables.edge_table(read_graph_file(path), ("a_r1", "nodes_r1"), VALUES)


def test_csv_is_read_back_to_the_last_bit(table: tables.pyarrow.Table) -> None:
    text = tables.as_csv(table)
    assert text.startswith("graph,source,target,a_r1,nodes_r1\n")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [[float(r["a_r1"]), float(r["nodes_r1"])] for r in rows] == VALUES.tolist()
    for name in ("source", "target"):
        assert [r[name] for r in rows] == [str(x) for x in table[name].to_pylist()]


def test_parquet_is_read_back_with_its_types(tmp_path: Path, table: tables.pyarrow.Table) -> None:
    tables.write_table(table, tmp_path / "t.parquet")
    again = parquet.read_table(tmp_path / "t.parquet")
    assert again.equals(table)
    assert str(again["a_r1"].type) == "double"
    assert str(again["source"].type) in ("int64", "string")


def test_a_table_is_written_whole_or_not_at_all(
    tmp_path: Path, table: tables.pyarrow.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old")

    def fail(*arguments: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setitem(tables.WRITERS, ".csv", fail)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space"):
        tables.write_table(table, path)
    assert path.read_text() == "old"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("t.xlsx", "output.extension"),
        ("none/t.csv", "output.no_folder"),
        ("folder.csv", "output.is_a_folder"),
        ("pipe.csv", "output.not_regular"),
        ("link.csv", "output.not_regular"),
        ("read.csv", "output.is_an_input"),
        ("graphs/labels.csv", "output.is_an_input"),
        ("run/logs/00/metrics.csv", "output.is_an_input"),
    ],
)
def test_names_that_will_not_do_are_refused(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "run/logs/00").mkdir(parents=True)
    (tmp_path / "graphs").mkdir()
    for each in ("read.csv", "run/config.json", "run/logs/00/metrics.csv", "graphs/labels.csv"):
        (tmp_path / each).touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "read.csv")
    inputs = [tmp_path / "read.csv", tmp_path / "graphs"]
    with pytest.raises(RequestError) as caught:
        check_output("--out", tmp_path / name, tuple(tables.WRITERS), inputs=inputs)
    assert caught.value.codes == [code]
    # What is there already and is nobody's input is replaced, also in a run folder.
    for other in ("run/mine.csv", "other.csv"):
        (tmp_path / other).touch()
        check_output("--out", tmp_path / other, tuple(tables.WRITERS), inputs=inputs)


def test_names_that_a_spreadsheet_would_run_begin_with_an_apostrophe() -> None:
    names = ["=1+1", "@x", "+a", "-b", "plain, quoted"]
    table = pyarrow.table({"node": names, "probability_=x": [-1.0] * 5})
    rows = list(csv.reader(io.StringIO(tables.as_csv(table))))
    assert [row[0] for row in rows[1:]] == ["'=1+1", "'@x", "'+a", "'-b", "plain, quoted"]
    assert {row[1] for row in rows[1:]} == {"-1"}


def test_a_summary_without_edges_has_no_numbers() -> None:
    from unionsnn.coefficients.summary import column_summary

    summary = column_summary(("a_r1",), np.zeros((0, 1)))
    assert summary == {"a_r1": {"min": None, "mean": None, "max": None}}
    console = Console(record=True, width=80, file=io.StringIO())
    show([tables.summary_table("toy", ["a fact"], summary)], console)
    text = console.export_text()
    assert "–" in text
    assert "a fact" in text
    right = column_summary(("x", "y"), VALUES)["y"]
    assert right == {"min": 0.0, "mean": pytest.approx(7 / 3), "max": 4.0}
