"""precompute, coefficients, case-study and cache, as a user types them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from commands import printed_codes
from graphs import COLUMNS
from tu_files import write_tu
from unionsnn.cli.app import command_line
from unionsnn.coefficients import CoefficientCache, structural_coefficients
from unionsnn.coefficients.engine import Computation
from unionsnn.data.encodings.cache import FOLDER, EncodingCache

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a caller of ``unionsnn -q`` whose data lies below the test's own folder."""
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object, answer: str | None = None) -> Result:
        return CliRunner().invoke(
            command_line, ["-q", *map(str, arguments)], input=answer, catch_exceptions=False
        )

    return call


def refused(result: Result, code: str, *given: str, status: int = 2) -> None:
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert printed_codes(result.stderr) == code.split()
    for part in given:
        assert part in result.stderr


def unfinished(folder: Path) -> list[Path]:
    return [p for p in folder.rglob(".*") if p.is_file()]


# -- coefficients --------------------------------------------------------------------------


@pytest.fixture
def karate(tmp_path: Path) -> Path:
    path = tmp_path / "karate.txt"
    lines = (f"n{v} n{u}\n" for v, u in nx.karate_club_graph().edges)
    path.write_text("# Zachary's karate club\n" + "".join(lines))
    return path


def right(graph: nx.Graph) -> dict[frozenset[str], float]:
    edges = np.array([(v, u) for v, u in graph.edges]).T
    values = structural_coefficients(edges, len(graph), symmetrize=True)
    names = [frozenset((f"n{v}", f"n{u}")) for v, u in edges.T.tolist()]
    return dict(zip(names, values.tolist(), strict=True))


def test_an_edge_list_to_csv_on_stdout_with_the_files_own_names(
    command: Command, karate: Path
) -> None:
    result = command("coefficients", karate, "--symmetrize")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["graph", "source", "target", "a_r1"]
    listed = [line.split() for line in karate.read_text().splitlines()[1:]]
    assert [[r["source"], r["target"]] for r in rows] == listed
    found = {frozenset((r["source"], r["target"])): float(r["a_r1"]) for r in rows}
    # The nodes are numbered otherwise here, which moves the last bit.
    assert found == pytest.approx(right(nx.karate_club_graph()), rel=1e-12)
    assert "1 graph, 34 nodes, 78 edges listed" in result.stderr
    assert "min" in result.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_on_disk_with_several_columns(
    tmp_path: Path, command: Command, karate: Path, ending: str
) -> None:
    out = tmp_path / f"out.{ending}"
    chosen = ["--quantities", "nodes,a", "--radius", "1,2", "--symmetrize"]
    result = command("coefficients", karate, "--out", out, *chosen)
    assert result.exit_code == 0, result.output
    assert f"written: {out}" in result.stdout
    columns = ["graph", "source", "target", "a_r1", "nodes_r1", "a_r2", "nodes_r2"]
    if ending == "csv":
        assert out.read_text().splitlines()[0] == ",".join(columns)
    else:
        table = parquet.read_table(out)
        assert table.column_names == columns
        assert table.num_rows == 78
    assert unfinished(tmp_path) == []


def test_several_graphs_in_a_file(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "g.g6"
    graphs = [nx.complete_graph(5), nx.cycle_graph(4), nx.empty_graph(3)]
    path.write_bytes(b"".join(nx.to_graph6_bytes(g, header=False) for g in graphs))
    rows = list(csv.DictReader(io.StringIO(command("coefficients", path).stdout)))
    assert [r["graph"] for r in rows] == ["0"] * 10 + ["1"] * 4
    # C4 and K5 have the same coefficient: a is not injective.
    assert [float(r["a_r1"]) for r in rows] == pytest.approx([8.0] * 14)
    assert {r["source"] for r in rows if r["graph"] == "1"} == {"0", "1", "2"}


def test_the_figure_of_one_graph(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "g.g6"
    path.write_bytes(
        nx.to_graph6_bytes(nx.path_graph(301)) + nx.to_graph6_bytes(nx.petersen_graph())
    )
    plot = tmp_path / "g.png"
    result = command("coefficients", path, "--plot", plot)
    refused(result, "plot.too_large", "301 nodes", status=1)
    result = command("coefficients", path, "--plot", plot, "--plot-graph", 2)
    refused(result, "coefficients.plot_graph", "0..1")
    assert not plot.exists()
    result = command("coefficients", path, "--plot", plot, "--plot-graph", 1)
    assert result.exit_code == 0, result.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert f"written: {plot}" in result.stdout


def test_values_are_kept_unless_told_otherwise(
    tmp_path: Path, command: Command, karate: Path
) -> None:
    cache = CoefficientCache(tmp_path / "data" / "coefficients")
    first = command("coefficients", karate, "--symmetrize", "--no-cache")
    assert cache.entries() == ()
    second = command("coefficients", karate, "--symmetrize")
    assert len(cache.entries()) == 1
    assert first.stdout == second.stdout == command("coefficients", karate, "--symmetrize").stdout


def test_long_work_is_said_before_it_begins(
    tmp_path: Path, karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(Computation, "expected_cost", 4.2e11)
    words = ["coefficients", str(karate), "--symmetrize", "--radius", "2", "--threads", "1"]
    said = "The structural coefficients take about 7 minutes on one core."
    first, second = (CliRunner().invoke(command_line, words) for _ in range(2))
    assert said in first.stderr
    # The second time it is read.
    assert said not in second.stderr
    assert first.stdout == second.stdout


REFUSALS: dict[str, tuple[list[str], str, str]] = {
    "substructure": (["--substructure", "onion"], "coefficient.unknown", "'onion'"),
    "radius": (["--radius", "0"], "coefficient.radius", "0"),
    "radius that is no number": (["--radius", "x"], "coefficient.radius", "'x'"),
    "one of the radii is no number": (["--radius", "1,x"], "coefficient.radius", "'x'"),
    "radius beyond any graph": (["--radius", "1000000000"], "coefficient.radius", "1..10000"),
    "radius of 5,000 digits": (["--radius", "9" * 5000], "coefficient.radius", "integer"),
    "radius in other digits": (["--radius", "²"], "coefficient.radius", "'²'"),
    "quantity": (["--quantities", "a,node"], "coefficient.unknown", "'nodes'"),
    "combination": (
        ["--descriptor", "laplacian", "--encoding", "entry_sum"],
        "coefficient.encoding",
        "entry_sum",
    ),
    "format": (["--format", "graph5"], "coefficients.format", "'graph6'"),
    "table": (["--out", "t.xlsx"], "output.extension", ".csv or .parquet"),
    "figure": (["--plot", "none/g.png"], "output.no_folder", "none"),
    "several at once": (
        ["--radius", "0", "--out", "t.xlsx", "--plot", "g.gif"],
        "coefficient.radius output.extension output.extension",
        "g.gif",
    ),
}


@pytest.mark.parametrize("fault", REFUSALS)
def test_requests_that_cannot_be_met_are_refused_before_the_work(
    tmp_path: Path, command: Command, karate: Path, fault: str
) -> None:
    options, code, given = REFUSALS[fault]
    refused(command("coefficients", karate, *options), code, given)
    assert not (tmp_path / "data").exists()


def test_a_directed_list_is_refused_with_what_to_type(
    tmp_path: Path, command: Command, karate: Path
) -> None:
    out = tmp_path / "out.csv"
    result = command("coefficients", karate, "--out", out)
    refused(result, "data.one_way", "78 of the 78 edges", "n0 -> n1", "--symmetrize", status=1)
    assert not out.exists()


def test_a_damaged_file_gives_one_message_and_no_table(tmp_path: Path, command: Command) -> None:
    path, out = tmp_path / "g.g6", tmp_path / "out.csv"
    path.write_bytes(b"\x00\xff<nonsense")
    result = command("coefficients", path, "--out", out)
    refused(result, "data.graph_file", str(path), status=1)
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()
    assert unfinished(tmp_path) == []


def test_a_file_that_is_not_there_or_has_an_unknown_ending(
    tmp_path: Path, command: Command
) -> None:
    refused(command("coefficients", tmp_path / "none.txt"), "", "none.txt")
    (tmp_path / "g.gz").touch()
    refused(command("coefficients", tmp_path / "g.gz"), "data.format", "--format")


def test_a_full_disk_keeps_the_old_table(
    tmp_path: Path, command: Command, karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = command("coefficients", karate, "--symmetrize", "--no-cache", "--out", out)
    refused(result, "file.unusable", "No space left on device", status=1)
    assert out.read_text() == "old"
    assert unfinished(tmp_path) == []


# -- precompute ----------------------------------------------------------------------------


@pytest.fixture
def toy(tmp_path: Path) -> list[str]:
    write_tu(tmp_path, "TOY")
    return ["data=tu", "data.name=TOY", f"data.mirror={tmp_path}", "data.offline=true"]


def test_precompute_fills_the_cache_and_says_the_second_time_that_it_was_there(
    tmp_path: Path, command: Command, toy: list[str]
) -> None:
    first = command("precompute", *toy)
    assert first.exit_code == 0, first.output
    assert "computed in" in first.stdout
    assert "40 graphs" in first.stdout
    second = command("precompute", *toy)
    assert "cached before" in second.stdout
    content = json.loads(command("precompute", "--json", *toy).stdout)
    assert content["computed"] is False
    assert Path(content["entry"]).exists()
    for row in content["columns"].values():
        assert row["min"] <= row["mean"] <= row["max"]
    assert not (tmp_path / "runs").exists()


def test_training_finds_what_precompute_computed(
    tmp_path: Path, command: Command, toy: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command("precompute", *toy, "gate=default")

    def compute(*arguments: object, **options: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("unionsnn.coefficients.cache.CoefficientSpec.compute", compute)
    small = ["trainer.max_epochs=1", "trainer.accelerator=cpu", "model.hidden_channels=8"]
    result = command("train", *toy, *small, f"paths.output={tmp_path / 'runs'}", "logger=none")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("overrides", "columns"),
    [
        (["model=gin", "gate=none"], list(COLUMNS)),
        (
            ["model=gin", "gate=none", "coefficient.radius=1"],
            ["a_r1", "a_tree_r1", "nodes_r1", "edges_r1"],
        ),
        (
            ["model=gin", "gate=none", "coefficient.substructure=overlap"],
            ["a_r1", "nodes_r1", "edges_r1"],
        ),
        (["gate=paper"], ["a_r1"]),
    ],
)
def test_columns_follow_the_gate_and_are_all_of_them_without_one(
    command: Command, toy: list[str], overrides: list[str], columns: list[str]
) -> None:
    result = command("precompute", "--json", *toy, *overrides)
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout)["columns"]) == columns


def test_precompute_refuses_as_train_does(command: Command) -> None:
    refused(command("precompute", "dta=mutag"), "config.unknown_key", "Did you mean 'data'?")
    refused(
        command("precompute", "data=mutag", "data.offline=true"),
        "data.unavailable",
        "MUTAG",
        status=1,
    )


# -- case study ----------------------------------------------------------------------------


def test_the_case_study_measures_and_draws(tmp_path: Path, command: Command) -> None:
    plot = tmp_path / "effects.svg"
    result = command("case-study", "--graphs", 60, "--seed", 1, "--plot", plot)
    assert result.exit_code == 0, result.output
    assert "Deletions from 60 random union subgraphs (seed 1, 4 to 24 nodes)" in result.stdout
    assert "Claim: deleting an edge raises a: fails in" in result.stdout
    assert "E1 < E2 < E3 < E4" in result.stdout
    assert b"<svg" in plot.read_bytes()
    options = ["--graphs", 60, "--seed", 1, "--json"]
    content = json.loads(command("case-study", *options).stdout)
    assert content == json.loads(command("case-study", *options).stdout)
    assert content["subgraphs"] == 60
    assert content["edge"]["lowered"] > 0


def test_the_case_study_of_a_data_set(command: Command, toy: list[str]) -> None:
    options = ["--graphs", 50, "--max-nodes", 6]
    content = json.loads(command("case-study", *toy, "--json", *options).stdout)
    assert content["data"] == "TOY"
    assert content["subgraphs"] + content["too_large"] == 50
    at_ends = json.loads(command("case-study", *toy, "--json", "--at-ends", *options).stdout)
    assert at_ends["disconnecting"] > 0
    assert at_ends["edge"]["cases"] > content["edge"]["cases"]


def test_the_case_study_refuses(tmp_path: Path, command: Command) -> None:
    refused(
        command("case-study", "--plot", tmp_path / "e.gif"), "output.extension", "e.gif", status=1
    )
    refused(command("case-study", "--graphs", 0), "", "--graphs")
    refused(command("case-study", "data=mutga"), "config.unknown_option", "Did you mean 'mutag'?")


# -- cache ---------------------------------------------------------------------------------


@pytest.fixture
def entries(command: Command, toy: list[str]) -> list[Path]:
    paths = []
    for gate in ("default", "paper"):
        content = json.loads(command("precompute", "--json", *toy, f"gate={gate}").stdout)
        paths.append(Path(content["entry"]))
    return paths


def test_list_names_data_choices_and_state(command: Command, entries: list[Path]) -> None:
    result = command("cache", "list")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("complete") == 2
    assert "TOY" in result.stdout
    content = json.loads(command("cache", "list", "--json").stdout)
    assert {item["path"] for item in content} == {str(path) for path in entries}
    assert {item["label"] for item in content} == {"TOY"}


def test_an_empty_cache(tmp_path: Path, command: Command) -> None:
    other = f"paths.data={tmp_path / 'other'}"
    assert "is empty" in command("cache", "list", other).stdout
    assert json.loads(command("cache", "list", "--json", other).stdout) == []
    assert command("cache", "verify", other).stdout.startswith("0 intact, 0 damaged")
    assert "Nothing to delete" in command("cache", "prune", other).stdout


def test_encodings_are_part_of_the_cache(tmp_path: Path, command: Command) -> None:
    store = EncodingCache(tmp_path / "data" / FOLDER)
    edges, slices = np.array([[0, 1], [1, 0]]), np.array([0, 2])
    store.get("random_walk", 3, edges, slices, label="toy")
    path = store.path("random_walk", 3, edges, slices)
    assert "random_walk 3" in command("cache", "list").stdout
    assert "1 intact, 0 damaged" in command("cache", "verify").stdout
    damage(path)
    assert command("cache", "verify").exit_code == 1
    assert "Deleted 1 files" in command("cache", "prune", "--yes").stdout
    assert store.entries() == ()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_verify_names_what_is_damaged_and_what_to_do(command: Command, entries: list[Path]) -> None:
    assert command("cache", "verify").exit_code == 0
    damage(entries[0])
    result = command("cache", "verify")
    assert result.exit_code == 1
    assert "1 intact, 1 damaged" in result.stdout
    assert entries[0].name in result.stderr
    assert entries[1].name not in result.stderr
    assert "type unionsnn cache prune" in result.stderr


def test_prune_lists_asks_and_deletes(command: Command, entries: list[Path]) -> None:
    damage(entries[0])
    result = command("cache", "prune", answer="n\n")
    assert entries[0].name in result.stdout
    assert "Nothing was deleted" in result.stdout
    assert entries[0].exists()
    result = command("cache", "prune")
    assert result.exit_code == 2
    assert printed_codes(result.stderr) == ["cache.no_answer"]
    assert entries[0].exists()
    result = command("cache", "prune", answer="y\n")
    assert "Deleted 1 files" in result.stdout
    assert not entries[0].exists()
    assert entries[1].exists()
    assert "Nothing to delete" in command("cache", "prune", "--yes").stdout
    assert "Deleted 1 files" in command("cache", "prune", "--all", "--yes").stdout
    assert list(entries[0].parent.iterdir()) == []
