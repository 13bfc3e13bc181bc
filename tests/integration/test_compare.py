"""`unionsnn compare` as a user types it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from unionsnn.cli.app import command_line

SMALL = [
    "data.num_train=32",
    "data.num_validation=8",
    "data.num_test=12",
    "model.hidden_channels=8",
    "model.num_layers=1",
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "protocol=repeated_seeds",
    "protocol.seeds=2",
]

Command = Callable[..., Result]


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a caller of ``unionsnn compare`` in the test's own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str, quiet: bool = True) -> Result:
        words = ["-q"] if quiet else []
        return CliRunner().invoke(
            command_line, [*words, "compare", *arguments], catch_exceptions=False
        )

    return call


def test_compare_prints_both_tables_and_what_they_rest_on(compare: Command) -> None:
    done = compare("model=gin", "model=gcn", "model=union_gin gate=paper", "--", *SMALL)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].rstrip() == "test_accuracy on 4cycles_small"
    for row in ("A │ model=gin ", "B │ model=gcn ", "C │ model=union_gin "):
        assert row in done.stdout
    for note in (
        "against A",
        "won/lost/tied",
        "larger is better",
        "paired Student t over seeds",
        "2 pair(s), two-sided",
        "all seeds share one split",
        "p is not adjusted for the number of comparisons, 2",
        "B differs from A in model._target_, model.gate_on, model.name",
        "C differs from A in coefficient.radius, gate.preset, model.name",
        "protocol: repeated_seeds (best val_loss of the repetition, test touched once)",
        "seed 0",
    ):
        assert note in done.stdout
    (path,) = Path("runs/comparisons").glob("*/comparison.json")
    assert f"written: {path}" in done.stdout
    assert len(list(Path("runs").rglob("results.json"))) == 3


def test_with_and_dashes_mean_the_same_and_folders_do_too(compare: Command) -> None:
    by_dashes = compare("model=gin", "model=gcn", "--json", "--", *SMALL)
    assert by_dashes.exit_code == 0, by_dashes.stderr
    result = json.loads(by_dashes.stdout)
    options = [word for override in SMALL for word in ("--with", override)]
    assert json.loads(compare("model=gin", "model=gcn", "--json", *options).stdout) == result
    folders = [run["run_dir"] for run in result["runs"]]
    by_folders = json.loads(compare(*folders, "--json").stdout)
    assert by_folders["differences"][0]["values"] == result["differences"][0]["values"]
    assert by_folders["path"] == result["path"]
    reports = json.loads(compare(f"{folders[0]}/results.json", folders[1], "--json").stdout)
    assert reports["path"] == result["path"]


@pytest.mark.parametrize("ending", ["md", "csv", "tex"])
def test_the_table_is_written_in_the_format_of_its_name(compare: Command, ending: str) -> None:
    done = compare("model=gin", "model=union_gin", "--out", f"table.{ending}", "--", *SMALL)
    assert done.exit_code == 0, done.stderr
    text = Path(f"table.{ending}").read_text()
    (path,) = Path("runs/comparisons").glob("*/comparison.json")
    result = json.loads(path.read_text())
    if ending == "csv":
        baseline, other = csv.DictReader(text.splitlines())
        assert (baseline["configuration"], other["configuration"]) == (
            "model=gin",
            "model=union_gin",
        )
        assert float(other["mean"]) == result["runs"][1]["result"]["mean"]
        assert float(other["difference_mean"]) == result["differences"][0]["mean"]
        assert baseline["difference_mean"] == ""
    elif ending == "md":
        head, rule, *rows = [line for line in text.splitlines() if line.startswith("|")]
        assert {line.count("|") for line in (head, rule, *rows)} == {11}
        assert len(rows) == 2
        assert "- protocol: repeated_seeds" in text
    else:
        body = [line for line in text.splitlines() if not line.startswith("%")]
        rows = [line for line in body if line.endswith(r"\\")]
        # Ten columns in two tables, each with the names of the rows.
        assert [row.count(" & ") for row in rows].count(4) == 3
        assert [row.count(" & ") for row in rows].count(5) == 3
        assert len(rows) == 6
        assert sum(r"model=union\_gin" in row or row.startswith("B &") for row in rows) == 2
        assert any(r"\%" in row for row in rows)


def test_dry_run_trains_nothing(compare: Command) -> None:
    words = ("--dry-run", "model=gin", "model=union_gin coefficient.control=random", "--", *SMALL)
    done = compare(*words)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("Dry run: nothing was trained") == 2
    plans = json.loads(compare("--json", *words).stdout)
    assert [plan["pending"] for plan in plans] == [[0, 1], [0, 1]]
    assert not Path("runs").exists()


def test_a_failing_run_exits_with_1(compare: Command) -> None:
    done = compare("model=gin", "model=gcn", "--", "data=mutag", "data.offline=true")
    assert done.exit_code == 1
    assert "MUTAG" in done.stderr


REFUSALS = [
    (["model=gin"], "[compare.too_few]"),
    (["model=gin", "modle=gcn"], "Did you mean 'model'?"),
    (["model=gin", "model=gcn seed=1"], "[compare.differs]"),
    (["model=gin", "runs/absent"], "[compare.no_folder]"),
    (["model=gin", "model=gin"], "[compare.same]"),
    (["model=gin", "model=gin coefficient.control=random"], "gate=default"),
    (["model=gin", "model=gcn", "--out", "table.docx"], "[output.extension]"),
    (["model=gin", "model=gcn", "--", "--json"], "type unionsnn compare --json ..."),
    (["model=gin", "model=gcn", "--", "--out=a.md"], "--out=a.md stands after --"),
]


def test_wrong_requests_exit_with_2_before_torch_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys, json\n"
        "from click.testing import CliRunner\n"
        "from unionsnn.cli.app import command_line\n"
        "answers = []\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    done = CliRunner().invoke(command_line, ['compare', *words])\n"
        "    answers.append([done.exit_code, done.stderr, done.stdout])\n"
        "heavy = {'torch', 'pytorch_lightning', 'torch_geometric', 'wandb'} & set(sys.modules)\n"
        "print(json.dumps([answers, sorted(heavy)]))\n"
    )
    requests = json.dumps([words for words, _ in REFUSALS])
    done = subprocess.run(
        [sys.executable, "-c", code, requests], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answers, heavy = json.loads(done.stdout)
    assert heavy == []
    for (status, errors, output), (words, message) in zip(answers, REFUSALS, strict=True):
        assert (status, output) == (2, ""), words
        assert message in errors
    assert list(tmp_path.iterdir()) == []
