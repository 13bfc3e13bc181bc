"""The command as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from unionsnn import __version__
from unionsnn.data.inventory import KINDS

TINY = [
    "data.num_train=32",
    "data.num_validation=8",
    "data.num_test=8",
    "model.hidden_channels=8",
    "model.num_layers=1",
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
]


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call the console script's function in a process of its own."""
    code = "import sys; from unionsnn.cli import main; sys.argv[0] = 'unionsnn'; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, "UNIONSNN_DATA": str(cwd / "data"), "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_train_prints_a_table_writes_a_record_and_reads_it_the_second_time(tmp_path: Path) -> None:
    first = run("train", *TINY, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
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
    second = run("train", "--json", *TINY, cwd=tmp_path)
    assert json.loads(second.stdout) == record
    third = run("train", *TINY, cwd=tmp_path)
    assert folder in third.stdout
    assert "All was finished before and not trained again; force=true starts anew." in third.stdout


def test_dry_run_trains_nothing(tmp_path: Path) -> None:
    done = run("train", "--dry-run", *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Dry run: nothing was trained" in done.stdout
    assert "train 32, validation 8, test 8" in done.stdout
    assert "parameters" in done.stdout
    assert not (tmp_path / "runs").exists()
    plan = json.loads(run("train", "--dry-run", "--json", *TINY, cwd=tmp_path).stdout)
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
    ],
)
def test_a_wrong_request_exits_with_2_and_one_clear_message(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["--version"], ["train", "modle=gin"]]
)
def test_answers_that_need_no_training_import_neither_torch_nor_lightning(
    tmp_path: Path, arguments: list[str]
) -> None:
    code = (
        "import sys\n"
        "from unionsnn.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    heavy = {'torch', 'pytorch_lightning', 'torch_geometric', 'wandb'}\n"
        "    print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_a_terminal_of_ascii_only_gets_the_table_all_the_same(tmp_path: Path) -> None:
    done = run("info", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "torch-geometric" in done.stdout


def test_version(tmp_path: Path) -> None:
    done = run("--version", cwd=tmp_path)
    assert done.stdout == f"unionsnn, version {__version__}\n"


def test_info_tells_versions_devices_paths_and_cache_size(tmp_path: Path) -> None:
    content = json.loads(run("info", "--json", cwd=tmp_path).stdout)
    assert content["versions"]["unionsnn"] == __version__
    assert content["paths"]["data"] == str(tmp_path / "data")
    assert content["bytes_on_disk"] == dict.fromkeys(KINDS, 0)
    table = run("info", cwd=tmp_path).stdout
    assert "torch-geometric" in table


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_and_words(tmp_path: Path, shell: str) -> None:
    script = run("completion", shell, cwd=tmp_path)
    assert script.returncode == 0, script.stderr
    assert f"_UNIONSNN_COMPLETE={shell}_complete" in script.stdout
    words = run(
        cwd=tmp_path,
        _UNIONSNN_COMPLETE="bash_complete",
        COMP_WORDS="unionsnn train model=g",
        COMP_CWORD="2",
    )
    assert "plain,model=gin" in words.stdout.splitlines()


def test_a_failing_run_exits_with_1_and_says_why(tmp_path: Path) -> None:
    done = run("train", "data=mutag", "data.offline=true", cwd=tmp_path)
    assert done.returncode == 1
    assert "MUTAG" in done.stderr
    assert "UNIONSNN_MIRROR" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_have_their_exit_status(tmp_path: Path, number: str, status: int) -> None:
    code = (
        "import os, signal\n"
        "from unionsnn.cli import app as cli\n"
        f"@cli.command_line.command()\ndef stop():\n    os.kill(os.getpid(), signal.{number})\n"
        # A job in the background is started with SIGINT ignored; a terminal's is not.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys\nsys.argv = ['unionsnn', 'stop']\ncli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == status
    assert "the same command goes on" in done.stderr


@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_in_a_repetition_leaves_a_point_from_which_the_same_command_goes_on(
    tmp_path: Path, number: str, status: int
) -> None:
    code = (
        "import functools, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from unionsnn.cli import app as cli\n"
        "from unionsnn.training import repetition\n"
        "point = functools.partial(repetition.ResumePoint, interval=0.0, costs=0.0)\n"
        "repetition.ResumePoint = point\n"
        "cli.main()\n"
    )
    few = [word for word in TINY if not word.startswith("trainer.max_epochs")]
    overrides = [*few, "trainer.max_epochs=100000", "protocol.patience=100000"]
    with subprocess.Popen(
        [sys.executable, "-c", code, "train", *overrides],
        cwd=tmp_path,
        env={**os.environ, "UNIONSNN_DATA": str(tmp_path / "data")},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not list(tmp_path.rglob("unfinished/00.ckpt")):
            time.sleep(0.01)
        process.send_signal(getattr(signal, number))
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == status
    assert "the same command goes on" in stderr
    assert "Traceback" not in stderr
    (point,) = tmp_path.rglob("unfinished/*")
    assert point.name == "00.ckpt"
    assert zipfile.ZipFile(point).testzip() is None
