"""``unionsnn expressivity`` as a user types it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from click.testing import CliRunner, Result

from commands import printed_codes
from unionsnn.cli.app import command_line
from unionsnn.expressivity import bench
from unionsnn.expressivity.theorems import (
    APPENDIX_PAIR,
    appendix_verdicts,
    four_cycles,
    graph_of,
)
from unionsnn.reports.table import markdown
from unionsnn.reports.views.expressivity import PUBLISHED, bench_report, bench_table

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "240")

    def call(*arguments: object) -> Result:
        words = ["-q", "expressivity", *map(str, arguments)]
        return CliRunner().invoke(command_line, words, catch_exceptions=False)

    return call


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.g6"
    graphs = [nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))] * 2
    path.write_bytes(b"".join(nx.to_graph6_bytes(g, header=False) for g in graphs))
    return path


def test_golden_pairs_as_json(command: Command) -> None:
    done = command("golden", "--choices", "1wl, a, a~,a@2, rooted@2", "--json")
    assert done.exit_code == 0, done.stderr
    (part,) = json.loads(done.stdout)["sets"]
    told = {
        each["choice"]: [name for name, found in each["categories"].items() if found["told"]]
        for each in part["choices"]
    }
    degrees = ["K1,2 / K1,3", "C4 / K5"]
    assert told["1wl"] == told["a~"] == degrees
    assert set(told["a"]) - set(degrees) == {"C6 / 2 C3", "Rook / Shrikhande"}
    assert set(told["a@2"]) - set(degrees) == {"C6 / 2 C3", "decalin / bicyclopentyl"}
    assert len(told["rooted@2"]) == 5
    assert all(each["at_fault"] == each["unstable"] == 0 for each in part["choices"])


def test_csl_by_radius(command: Command) -> None:
    done = command("csl", "--choices", "a,a@2,a@3", "--json")
    (part,) = json.loads(done.stdout)["sets"]
    assert [each["categories"]["CSL"]["classes"] for each in part["choices"]] == [3, 6, 10]


def test_own_pairs_and_written_tables(command: Command, own: Path, tmp_path: Path) -> None:
    markdown, table = tmp_path / "table.md", tmp_path / "table.csv"
    assert command(own, "--choices", "a,a~", "--out", markdown).exit_code == 0
    done = command(own, "--choices", "a,a~", "--out", table)
    assert "Told apart in" in done.stdout
    assert "│ a~" in done.stdout
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [(row["choice"], row["told"], row["families"]) for row in rows] == [
        ("a", "2", "2"),
        ("a~", "0", "2"),
    ]
    assert "| a~ | 0 |" in markdown.read_text()


def test_a_narrow_terminal_gets_fewer_columns_or_lines(
    command: Command, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = command(own, "--choices", "a,a~,cyclomatic")
    assert "not shown in 40 columns: " in done.stdout
    monkeypatch.setenv("COLUMNS", "20")
    done = command(own, "--choices", "a,a~,cyclomatic")
    assert "a~: own.g6 (2) 0; largest equal" in done.stdout
    assert "cyclomatic: own.g6 (2) 2; largest equal exact; " in done.stdout


def test_a_choice_at_fault_is_an_error(
    command: Command, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = bench.measure

    def measured(*arguments: Any, **options: Any) -> dict[str, Any]:
        result = original(*arguments, **options)
        result["sets"][0]["choices"][0]["at_fault"] = 2
        return result

    monkeypatch.setattr(bench, "measure", measured)
    done = command(own, "--choices", "a,cyclomatic", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["sets"]
    assert printed_codes(done.stderr) == ["expressivity.at_fault"]
    assert f"a tells 2 graph(s) of {own}" in done.stderr


def test_graphs_without_edges_are_not_counted_as_whole(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "edgeless.g6"
    graphs = [nx.empty_graph(3), nx.empty_graph(4), nx.path_graph(2), nx.empty_graph(2)]
    path.write_bytes(b"".join(nx.to_graph6_bytes(g, header=False) for g in graphs))
    done = command(path, "--choices", "a", "--json")
    (choice,) = json.loads(done.stdout)["sets"][0]["choices"]
    (found,) = choice["categories"].values()
    # A single edge is its own union subgraph.
    assert (found["told"], found["whole"]) == (2, 1)


def test_a_place_for_pictures_is_checked_before_the_work(
    command: Command, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "measure", None)
    done = command(own, "--plot", own)
    assert done.exit_code == 2
    assert printed_codes(done.stderr) == ["output.is_a_file"]


def test_seed_relabels_and_verdicts_stay(command: Command, own: Path) -> None:
    results = []
    for seed in (0, 1, 2):
        done = command(own, "--choices", "a,spectrum", "--seed", seed, "--json")
        (part,) = json.loads(done.stdout)["sets"]
        results.append([each["categories"] for each in part["choices"]])
    assert results[0] == results[1] == results[2]


def test_theorems_and_their_pictures(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    done = command("--theorems", "--max-nodes", "6", "--plot", folder)
    assert done.exit_code == 0, done.stderr
    assert "holds without exception" in done.stdout
    assert "fails in 1 classes" in done.stdout
    assert {path.name for path in folder.iterdir()} >= {"appendix_a.svg", "theorem_1.svg"}
    result = json.loads(command("--theorems", "--max-nodes", "4", "--json").stdout)
    assert result["graphs"] == 9
    assert result["smallest_failures"]["a"] == {"classes": 0, "pair": None}


def test_the_pair_of_appendix_a() -> None:
    assert [four_cycles(graph_of(text)) for text in APPENDIX_PAIR] == [2, 0]
    assert appendix_verdicts() == {
        "1-WL": False,
        "overlap": False,
        "union_minus": False,
        "union": True,
    }


def test_golden_pairs_are_drawn(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    assert command("golden", "--choices", "1wl", "--plot", folder).exit_code == 0
    assert len(list(folder.glob("*.svg"))) == 5


def test_brec_is_beside_what_others_printed() -> None:
    part = {"set": "brec", "categories": {"CFI": {"families": 1, "graphs": 2}}, "choices": []}
    text = markdown(bench_table(part))
    assert all(f"{name} {count}" in text for name, count in PUBLISHED.items())
    assert "brec" in text
    assert bench_report({"sets": [part]}).rows == []


@pytest.fixture
def trained(command: Command, tmp_path: Path) -> Command:
    settings = ("model.hidden_channels=8", "model.num_layers=3", "trainer.max_epochs=1")

    def call(*arguments: object) -> Result:
        return command("--trained", f"paths.output={tmp_path / 'runs'}", *settings, *arguments)

    return call


def test_trained_networks_on_own_pairs(trained: Command, own: Path, tmp_path: Path) -> None:
    done = trained(own, "model=union_gin", "--json")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["summary"]["told"] == record["summary"]["tested"] == 2
    assert f"{record['threshold']:.2f}" == "72.34"
    (kept,) = (tmp_path / "runs" / "own" / "union_gin").glob("paired_comparison-*/pairs.json")
    assert json.loads(kept.read_text())["pairs"] == record["pairs"]
    table = tmp_path / "table.csv"
    done = trained(own, "model=gin", "trainer.progress=none", "--out", table)
    assert "own, gin" not in done.stderr
    assert "Told apart in own by trained networks" in done.stdout
    assert "FAULT" not in done.stdout
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [(row["network"], row["told"]) for row in rows] == [("gin", "False")] * 2


def test_a_sample_of_the_pairs(trained: Command, own: Path) -> None:
    record = json.loads(trained(own, "model=gin", "--sample", "0.5", "--json").stdout)
    assert record["state"] == "incomplete"
    assert record["summary"]["tested"] == 1


@pytest.mark.parametrize(
    ("words", "status", "codes", "given"),
    [
        (["golden", "--choices", "spectrm"], 2, ["expressivity.choice"], "'spectrum'"),
        (["golden", "--choices", "a@x,a@101"], 2, ["expressivity.radius"] * 2, "'a@x'"),
        (["golden", "--choices", ","], 2, ["expressivity.choice"], "--choices"),
        (["golden", "--out", "table.html"], 2, ["output.extension"], ".md, .csv, .tex"),
        (["brce"], 1, ["expressivity.set"], "golden, csl, sr25, brec"),
        (["sr25", "--offline", "--choices", "1wl"], 1, ["data.unavailable"], "UNIONSNN_MIRROR"),
        (["golden", "--theorems"], 2, ["expressivity.options"], "--theorems"),
        (["--theorems", "--max-nodes", "9"], 2, [], "--max-nodes"),
        (["golden", "model=gin"], 2, ["expressivity.options"], "model=gin"),
        (["golden", "--sample", "0.5"], 2, ["expressivity.options"], "--sample"),
        (["--trained", "--sample", "nan"], 2, ["expressivity.options"], "nan"),
        (["golden", "--trained", "--device", ""], 2, ["device.name"], "device is ''"),
        (["golden", "--family"], 2, ["expressivity.options"], "--family"),
        (["golden", "--plot", "/dev/null/x"], 2, ["output.no_folder"], "cannot be made"),
        (["golden", "csl", "--trained"], 2, ["expressivity.options"], "golden, csl"),
        (["--trained", "--choices", "a"], 2, ["expressivity.options"], "--choices"),
        (["--trained", "--seed", "1"], 2, ["expressivity.options"], "seed=N"),
        (["golden", "--trained", "data=mutag"], 2, ["expressivity.override"], "data"),
    ],
)
def test_requests_that_cannot_be_met(
    command: Command, words: list[str], status: int, codes: list[str], given: str
) -> None:
    done = command(*words)
    assert done.exit_code == status
    assert done.stdout == ""
    assert printed_codes(done.stderr) == codes
    assert given in done.stderr


@pytest.mark.slow
def test_brec_training_free(command: Command, mirror: Path) -> None:
    """The figures of docs/expressivity.md."""
    expected = {
        "a": 293,
        "a~": 292,
        "spectrum": 298,
        "rooted@2": 299,
        "spectrum@1+2": 299,
        "marked@1+2": 299,
    }
    done = command(
        "brec", "--mirror", mirror, "--offline", "--choices", ",".join(expected), "--json"
    )
    (part,) = json.loads(done.stdout)["sets"]
    assert {each["choice"]: each["told"] for each in part["choices"]} == expected
    assert all(each["at_fault"] == 0 for each in part["choices"])
