"""`unionsnn datasets` and `unionsnn clean`, as they are typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tu_files import write_tu
from unionsnn.data.catalog import CATALOG

CODE = "import sys; from unionsnn.cli import main; sys.argv[0] = 'unionsnn'; main()"


def run(
    *arguments: str, cwd: Path, answer: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        cwd=cwd,
        input=answer,
        capture_output=True,
        text=True,
        env={**os.environ, "UNIONSNN_DATA": str(cwd / "data"), **environment},
    )


def lines(text: str) -> list[list[str]]:
    """Cells of the rows of a table."""
    return [
        [cell.strip() for cell in line.strip("│┃ ").split("│")]
        for line in text.splitlines()
        if line.startswith("│")
    ]


def test_the_table_has_all_sets_with_their_counts_and_reasons(tmp_path: Path) -> None:
    done = run("datasets", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
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


def test_json_has_the_same_as_plain_types(tmp_path: Path) -> None:
    content = json.loads(run("datasets", "--json", cwd=tmp_path).stdout)
    assert [entry["name"] for entry in content] == list(CATALOG)
    one = json.loads(run("datasets", "photo", "--json", cwd=tmp_path).stdout)
    assert one in content
    assert one["split"] == [749, 749, 5989]
    assert "(2018)" in one["citations"][0]


def test_one_set_is_shown_with_its_citations(tmp_path: Path) -> None:
    done = run("datasets", "citeseer", cwd=tmp_path)
    assert "Collective classification in network data (2008)" in done.stdout
    assert "120 training, 500 validation, 1,000 test" in done.stdout
    assert "raw lists" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["datasets", "crora"], "Did you mean 'cora'?"),
        (["datasets", "cora", "photo"], "one NAME at a time"),
        (["datasets", "--plot", "x.png"], "--plot needs the NAME"),
        (
            ["clean", "everything"],
            "everything is unknown; allowed are raw, processed",
        ),
    ],
)
def test_wrong_requests_exit_with_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plot_loads_the_set_and_draws_its_histograms(tmp_path: Path, mirror: Path) -> None:
    done = run(
        "datasets", "mutag", "--plot", "mutag.svg", cwd=tmp_path, UNIONSNN_MIRROR=str(mirror)
    )
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "mutag.svg").read_text()
    assert drawn.lstrip().startswith("<?xml")
    assert "coefficients cached" in done.stdout
    refused = run("datasets", "mutag", "--plot", "mutag.doc", cwd=tmp_path)
    assert refused.returncode == 1
    assert ".png" in refused.stderr


def test_clean_lists_asks_and_deletes_only_what_is_named(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    small = ["model.hidden_channels=8", "trainer.max_epochs=1", "trainer.progress=none"]
    trained = run(
        "train",
        "data=tu",
        "data.name=TOY",
        f"data.mirror={tmp_path}",
        "data.offline=true",
        *small,
        cwd=tmp_path,
    )
    assert trained.returncode == 0, trained.stderr
    root = tmp_path / "data"
    declined = run("clean", cwd=tmp_path, answer="n\n")
    assert declined.returncode == 0
    assert "Nothing is deleted." in declined.stdout
    assert [row[0] for row in lines(declined.stdout)] == ["raw", "processed", "coefficients"]
    assert re.search(r"Delete these [\d.]+ [kM]B\?", declined.stdout)
    unanswered = run("clean", cwd=tmp_path)
    assert unanswered.returncode == 130
    assert sorted(path.name for path in root.iterdir()) == ["coefficients", "processed", "raw"]
    done = run("clean", "processed", f"paths.data={root}", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in root.iterdir()) == ["coefficients", "raw"]
    assert run("clean", "--yes", cwd=tmp_path).returncode == 0
    assert list(root.iterdir()) == []
    assert "There is nothing to delete" in run("clean", cwd=tmp_path).stdout
    assert (tmp_path / "runs").is_dir()
