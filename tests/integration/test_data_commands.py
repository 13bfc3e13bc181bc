"""`unionsnn datasets` and `unionsnn clean`, as they are typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from commands import Command
from tu_files import write_tu
from unionsnn.data.catalog import CATALOG


@pytest.fixture(autouse=True)
def _all_columns(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def lines(text: str) -> list[list[str]]:
    """Cells of the rows of a table."""
    return [
        [cell.strip() for cell in line.strip("│┃ ").split("│")]
        for line in text.splitlines()
        if line.startswith("│")
    ]


def test_the_table_has_all_sets_with_their_counts_and_reasons(
    tmp_path: Path, command: Command
) -> None:
    done = command("datasets")
    assert done.status == 0, done.stderr
    rows = lines(done.stdout)
    first = {row[0]: row[1:] for row in rows[: len(CATALOG)]}
    assert list(first) == list(CATALOG)
    assert first["mutag"] == [
        "188", "3,371", "3,721", "17.93 / 19.79", "7 labels", "2", "accuracy", "not stated",
        "absent",
    ]  # fmt: skip
    assert first["cora"][1:3] == ["2,708", "5,278"]
    assert first["zinc_full"][:3] == ["249,456", "5,775,257", "6,212,023"]
    rest = rows[len(CATALOG) :]
    expected = [(e.name, d.what, d.reason) for e in CATALOG.values() for d in e.deviations()]
    assert [(row[0], row[1], row[4]) for row in rest] == expected
    assert ["computers", "features", "767", "7,667"] in [row[:4] for row in rest]


def test_json_has_the_same_as_plain_types(tmp_path: Path, command: Command) -> None:
    content = json.loads(command("datasets", "--json").stdout)
    assert [entry["name"] for entry in content] == list(CATALOG)
    one = json.loads(command("datasets", "photo", "--json").stdout)
    assert one in content
    assert one["split"] == [749, 749, 5989]
    assert [entry["edge_labels"] for entry in content if entry["name"] == "molhiv"] == [[5, 6, 2]]
    assert "(2018)" in one["citations"][0]


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("molhiv", "labels (5, 6, 2 values), read with data.edge_features=labels; by default none"),
        ("zinc10k", "labels (4 values), read with data.edge_features=labels; by default none"),
        ("nci1", "none"),
    ],
)
def test_one_set_tells_what_its_edges_have_and_how_it_is_read(
    command: Command, name: str, edges: str
) -> None:
    rows = dict(row for row in lines(command("datasets", name).stdout) if len(row) == 2)
    assert rows["edge features"] == edges


def test_one_set_is_shown_with_its_citations(tmp_path: Path, command: Command) -> None:
    done = command("datasets", "citeseer")
    assert "Collective classification in network data (2008)" in done.stdout
    assert "120 training, 500 validation, 1,000 test" in done.stdout
    assert "raw lists" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["datasets", "crora"], "Did you mean 'cora'?"),
        (["datasets", "cora", "photo"], "give one NAME"),
        (["datasets", "--plot", "x.png"], "--plot needs the NAME"),
        (
            ["clean", "everything"],
            "everything is unknown; allowed are raw, processed",
        ),
    ],
)
def test_wrong_requests_exit_with_2(
    tmp_path: Path, arguments: list[str], message: str, command: Command
) -> None:
    done = command(*arguments)
    assert done.status == 2
    assert message in done.stderr


def test_a_plot_loads_the_set_and_draws_its_histograms(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("UNIONSNN_MIRROR", str(mirror))
    done = command("datasets", "mutag", "--plot", "mutag.svg")
    assert done.status == 0, done.stderr
    drawn = (tmp_path / "mutag.svg").read_text()
    assert drawn.lstrip().startswith("<?xml")
    assert "coefficients cached" in done.stdout
    refused = command("datasets", "mutag", "--plot", "mutag.doc")
    assert refused.status == 1
    assert ".png" in refused.stderr


def test_clean_lists_asks_and_deletes_only_what_is_named(tmp_path: Path, command: Command) -> None:
    write_tu(tmp_path, "TOY")
    small = ["model.hidden_channels=8", "trainer.max_epochs=1", "trainer.progress=none"]
    trained = command(
        "train",
        "data=tu",
        "data.name=TOY",
        f"data.mirror={tmp_path}",
        "data.offline=true",
        *small,
    )
    assert trained.status == 0, trained.stderr
    root = tmp_path / "data"
    declined = command("clean", answer="n\n")
    assert declined.status == 0
    assert "Nothing was deleted." in declined.stdout
    assert [row[0] for row in lines(declined.stdout)] == ["raw", "processed", "coefficients"]
    assert re.search(r"Delete these [\d.]+ [kM]B\?", declined.stdout)
    unanswered = command("clean")
    assert unanswered.status == 130
    assert sorted(path.name for path in root.iterdir()) == ["coefficients", "processed", "raw"]
    done = command("clean", "processed", f"paths.data={root}", "--yes")
    assert done.status == 0, done.stderr
    assert sorted(path.name for path in root.iterdir()) == ["coefficients", "raw"]
    assert command("clean", "--yes").status == 0
    assert list(root.iterdir()) == []
    assert "Nothing to delete" in command("clean").stdout
    assert (tmp_path / "runs").is_dir()
