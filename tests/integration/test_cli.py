"""The command as a user types it."""

from __future__ import annotations

import functools
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from commands import Command, printed_codes
from unionsnn import __version__
from unionsnn.base.errors import DataError, DataUnavailableError, RequestError
from unionsnn.cli import app
from unionsnn.cli.app import main
from unionsnn.data.inventory import KINDS
from unionsnn.training import repetition

TINY = [
    "data.num_train=32",
    "data.num_validation=8",
    "data.num_test=8",
    "model.hidden_channels=8",
    "model.num_layers=1",
    "trainer.accelerator=cpu",
]
ONE_EPOCH = [*TINY, "trainer.max_epochs=1"]


def test_a_warning_is_a_line_without_its_place_in_the_package() -> None:
    assert app._as_line(UserWarning("g.csv: left out"), UserWarning, app.__file__, 7) == (
        "warning: g.csv: left out\n"
    )
    assert app._as_line("of others", UserWarning, "/elsewhere.py", 7) == (
        "/elsewhere.py:7: UserWarning: of others\n"
    )


def test_train_prints_a_table_writes_a_record_and_reads_it_the_second_time(
    tmp_path: Path, command: Command
) -> None:
    # In a process of its own, as the first command of a new installation is.
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    first = subprocess.run(
        [sys.executable, "-c", "from unionsnn.cli import main; main()", "train", *ONE_EPOCH],
        cwd=tmp_path,
        env={
            **os.environ,
            "UNIONSNN_DATA": str(tmp_path / "data"),
            "COLUMNS": "80",
            "TMPDIR": str(temporary),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert first.returncode == 0, first.stderr
    assert list(temporary.iterdir()) == []
    assert "unionsnn on 4cycles_small" in first.stdout
    assert "protocol: holdout (best val_loss of the repetition, test touched once)" in first.stdout
    (path,) = (tmp_path / "runs").rglob("results.json")
    assert path.parts[-4:-2] == ("4cycles_small", "unionsnn")
    record = json.loads(path.read_text())
    assert record["state"] == "finished"
    assert "Warning" not in first.stderr
    folder = f"run folder: {path.parent.relative_to(tmp_path)}\n"
    assert folder in first.stdout
    assert "finished before" not in first.stdout
    assert json.loads(command("train", "--json", *ONE_EPOCH).stdout) == record
    third = command("train", *ONE_EPOCH)
    assert folder in third.stdout
    assert "All repetitions were finished before and not trained again" in third.stdout


def test_dry_run_trains_nothing(tmp_path: Path, command: Command) -> None:
    done = command("train", "--dry-run", *ONE_EPOCH)
    assert done.status == 0, done.stderr
    assert "Dry run: nothing was trained" in done.stdout
    assert "train 32, validation 8, test 8" in done.stdout
    assert "parameters" in done.stdout
    assert not (tmp_path / "runs").exists()
    # No coefficients either.
    assert "not computed yet" in done.stdout
    assert not (tmp_path / "data" / "coefficients").exists()
    plan = json.loads(command("train", "--dry-run", "--json", *ONE_EPOCH).stdout)
    assert [each["seconds"] > 0 for each in plan["to_compute"]] == [True]
    assert plan["pending"] == [0]
    assert plan["seconds_at_most"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "modle=gin"], "Did you mean 'model'?"),
        (["train", "model=gni"], "Did you mean 'gin'?"),
        (["trian"], "No such command 'trian'"),
        (["train", "--nonsense"], "--nonsense"),
        (["completion", "tcsh"], "tcsh"),
        (["train", "-q"], "type unionsnn -q train ..."),
        (["train", "-m", "trainer=ddp"], "runs one experiment. To compare several, type"),
    ],
)
def test_a_wrong_request_exits_with_2_and_one_clear_message(
    tmp_path: Path, command: Command, arguments: list[str], message: str
) -> None:
    done = command(*arguments)
    assert done.status == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        (["train", "--model", "gin"], "type model=gin."),
        (["train", "--model=gin", "--data", "mutag", "--dry-run"], "type model=gin data=mutag."),
        (["train", "--lr", "0.01", "--batch-size=8"], "type optimizer.lr=0.01 data.batch_size=8."),
        (["sweep", "tu_grid", "--optimizer.lr", "0.1"], "type optimizer.lr=0.1."),
        (["train", "--model", "gin", "--seed", "1", "data=mutag"], "type model=gin seed=1."),
        (["train", "--run_dir", "my runs"], "type 'run_dir=my runs'."),
        (["train", "--force"], "type force=true."),
        (["train", "--json", "--dry-runs"], "--dry-run"),
        (["train", "--modal", "gin"], "No such option '--modal'"),
    ],
)
def test_settings_typed_as_options_are_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    typed: str,
) -> None:
    monkeypatch.setattr("sys.argv", ["unionsnn", *arguments])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert typed in said
    assert ("Did you mean" in said) == (arguments[-1] == "--dry-runs")


@pytest.mark.parametrize(
    ("error", "status", "codes"),
    [
        (RequestError("one", "two", code="area.fault"), 2, ["area.fault", "area.fault"]),
        (DataUnavailableError("no\nmirror has it"), 1, ["data.unavailable"]),
        (RuntimeError("a library's own"), 1, ["unexpected"]),
        (KeyError("a fault of ours"), 1, ["unexpected"]),
        (RequestError("\x1b[2J is a name", code="area.fault"), 2, ["area.fault"]),
        (MemoryError("4 GB"), 1, ["memory.ran_out"]),
        (PermissionError(13, "Permission denied", "/data/raw"), 1, ["file.unusable"]),
        (FloatingPointError("overflow"), 1, ["failed"]),
    ],
)
def test_an_error_becomes_a_line_for_each_fault_with_its_code_and_a_status(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: Exception,
    status: int,
    codes: list[str],
) -> None:
    def fail(as_json: bool) -> None:
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(app.info, "callback", fail)
    done = command("info")
    assert done.status == status
    assert done.stdout == ""
    assert printed_codes(done.stderr) == codes
    assert "\x1b" not in done.stderr
    if codes == ["unexpected"]:
        (path,) = tmp_path.glob("unionsnn-error-*.txt")
        assert f"its traceback is in {path}." in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert "in fail\n" in path.read_text()
    if isinstance(error, RequestError):
        assert command("-v", "info") == done
    else:
        verbose = command("-v", "info")
        assert verbose.status == status
        assert verbose.stderr.startswith("Traceback (most recent call last)")


def test_torchrun_starts_no_command_but_train(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    done = command("info")
    assert done.status == 2
    assert printed_codes(done.stderr) == ["torchrun.one_process"]


THIRD_PARTY = {"torch", "numpy", "scipy", "numba", "optuna", "pandas", "matplotlib", "hydra"}
NOT_FOR_TABLES = {"numba", "matplotlib"}
TABLES = [
    ["--help"],
    ["--version"],
    ["train", "--help"],
    ["train", "modle=gin"],
    ["precompute", "dta=mutag"],
    ["datasets"],
    ["datasets", "cora"],
    ["clean"],
]
WITHOUT_NETWORKS = [
    # Its help is made from the table of choices, which holds the kernels.
    ["coefficients", "--help"],
    ["cache", "list"],
    ["coefficients", "g.txt", "--radius", "0"],
    ["coefficients", "g.txt", "--symmetrize"],
    ["case-study", "--graphs", "5"],
]


def test_commands_that_train_nothing_import_neither_torch_nor_lightning(
    tmp_path: Path, command: Command
) -> None:
    (tmp_path / "g.txt").write_text("a b\nb c\n")
    before = command("train", *ONE_EPOCH)
    # All of it was trained before.
    finished, dry = ["train", *ONE_EPOCH], ["train", "--dry-run", *ONE_EPOCH]
    code = (
        "import contextlib, io, json, sys, unionsnn\n"
        "print(json.dumps([list(sys.modules), '']))\n"
        "from unionsnn.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['unionsnn', *words]\n"
        "    text = io.StringIO()\n"
        "    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):\n"
        "        main()\n"
        "    print(json.dumps([list(sys.modules), text.getvalue()]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps([*TABLES, *WITHOUT_NETWORKS, dry, finished])],
        cwd=tmp_path,
        env={**os.environ, "UNIONSNN_DATA": "data"},
        capture_output=True,
        text=True,
    )
    alone, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert THIRD_PARTY & set(alone[0]) == set()
    torch = {"torch", "pytorch_lightning", "torch_geometric", "wandb", "dask"}
    for words, (modules, _) in zip([*TABLES, *WITHOUT_NETWORKS, dry, finished], lines, strict=True):
        heavy = torch | NOT_FOR_TABLES if words in TABLES else torch
        assert heavy & set(modules) == set(), words
    assert "all are trained" in lines[-2][1]
    (again,) = lines[-1][1:]
    assert before.stdout in again
    assert again.splitlines()[-1].startswith("All repetitions were finished before")


def test_a_terminal_of_ascii_only_gets_the_table_all_the_same(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert command("info").status == 0
    terminal.seek(0)
    assert "torch-geometric" in terminal.read()


def test_version(command: Command) -> None:
    assert command("--version").stdout == f"unionsnn, version {__version__}\n"


def test_info_tells_versions_devices_paths_and_cache_size(tmp_path: Path, command: Command) -> None:
    content = json.loads(command("info", "--json").stdout)
    assert content["versions"]["unionsnn"] == __version__
    assert content["paths"]["data"] == str(tmp_path / "data")
    assert content["bytes_on_disk"] == dict.fromkeys(KINDS, 0)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(command: Command, shell: str) -> None:
    script = command("completion", shell)
    assert script.status == 0, script.stderr
    assert f"_UNIONSNN_COMPLETE={shell}_complete" in script.stdout


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ("train model=g", "model=gin"),
        ("reproduce table1", "table12"),
        ("models union_gi", "union_gin"),
        ("config opt", "optimizer"),
    ],
)
def test_completion(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: str, word: str
) -> None:
    monkeypatch.setenv("_UNIONSNN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"unionsnn {words}")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert f"plain,{word}" in command().stdout.splitlines()


def test_a_failing_run_exits_with_1_and_says_why(command: Command) -> None:
    done = command("train", "data=mutag", "data.offline=true")
    assert done.status == DataError.exit_status == 1
    assert "MUTAG" in done.stderr
    assert "UNIONSNN_MIRROR" in done.stderr


@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_in_a_repetition_leaves_a_point_from_which_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    point = functools.partial(repetition.ResumePoint, interval=0.0, costs=0.0)
    monkeypatch.setattr(repetition, "ResumePoint", point)

    def run() -> None:
        # A job in the background is started with SIGINT ignored; a terminal's is not.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with open("stderr", "w") as sys.stderr:
            endless = ["trainer.max_epochs=100000", "protocol.patience=100000"]
            sys.argv = ["unionsnn", "train", *TINY, *endless]
            app.main()

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    while process.is_alive() and not list(tmp_path.rglob("unfinished/00.ckpt")):
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, getattr(signal, number))
    process.join(60)
    assert process.exitcode == status
    stderr = (tmp_path / "stderr").read_text()
    assert app.KEPT in stderr
    assert "Traceback" not in stderr
    (point,) = tmp_path.rglob("unfinished/*")
    assert point.name == "00.ckpt"
    assert zipfile.ZipFile(point).testzip() is None
