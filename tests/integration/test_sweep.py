"""`unionsnn sweep`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import yaml
from click.testing import CliRunner, Result

from small_studies import CONTENT
from unionsnn.cli.app import command_line, main
from unionsnn.runs import validation
from unionsnn.search.study_file import shipped

SMOKE = [name for name in shipped() if name.endswith("_smoke")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))

    def invoke(*arguments: str, quiet: bool = True) -> Result:
        words = ["-q"] * quiet + ["sweep", *arguments, "trainer.accelerator=cpu"]
        return CliRunner().invoke(command_line, words, catch_exceptions=False)

    return invoke


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    content = {
        **CONTENT,
        "overrides": [w for w in CONTENT["overrides"] if not w.startswith("trainer.prog")],
        "space": {"optimizer.lr": "choice(0.1, 0.01, 0.001, 0.0001)"},
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.parametrize("name", SMOKE)
def test_each_smoke_study_runs(run: Any, name: str) -> None:
    done = run(name)
    assert done.exit_code == 0, done.stderr
    assert "selection: shared" in done.stdout
    folder = next(Path("runs/studies").iterdir())
    record = json.loads((folder / "study.json").read_text())
    assert record["final"]["state"] == "finished"
    assert {t["state"] for t in record["trials"]} <= {"finished", "pruned"}


def test_a_study_ends_with_its_table_and_a_page_that_loads_nothing(run: Any, small: str) -> None:
    done = run(small, quiet=False)
    assert done.exit_code == 0, done.stderr
    assert "small-4cycles_small-unionsnn: 4 trials" in done.stdout
    assert "4 of 4, best" in done.stderr
    folder = Path("runs/studies/small-4cycles_small-unionsnn")
    page = (folder / "report.html").read_text()
    for part in ("Parallel coordinates", "Slices", "History", "Importance", "optimizer.lr"):
        assert part in page
    assert page.count("<script src") == 0
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"']https?:", page)
    # The library is there once.
    assert 1_000_000 < len(page) < 8_000_000
    again = run(small, quiet=False)
    assert "4 of 4 trials are already done" in again.stderr
    assert [line for line in again.stdout.splitlines() if "test_accuracy" in line] == [
        line for line in done.stdout.splitlines() if "test_accuracy" in line
    ]


def test_the_written_experiment_trains(run: Any, small: str) -> None:
    run(small)
    done = run(small, "--json")
    record = json.loads(done.stdout)
    words = ["-q", "train", "--config-dir", record["folder"], "experiment=best", "--json"]
    trained = CliRunner().invoke(
        command_line, [*words, "trainer.accelerator=cpu"], catch_exceptions=False
    )
    assert trained.exit_code == 0, trained.stderr
    assert json.loads(trained.stdout)["result"] == record["final"]["result"]


def test_a_dry_run_shows_space_count_and_estimate_and_writes_nothing(run: Any, small: str) -> None:
    done = run(small, "--dry-run")
    assert done.exit_code == 0, done.stderr
    for part in ("optimizer.lr", "choice(0.1, 0.01, 0.001, 0.0001)", "4 trials", "at most"):
        assert part in done.stdout
    assert not Path("runs").exists()
    plan = json.loads(run(small, "--dry-run", "--json").stdout)
    assert plan["seconds_at_most"] == pytest.approx(4 * plan["seconds_per_trial"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tu_gird"], "Did you mean 'tu_grid'"),
        (["tu_grid_smoke", "model=ginn"], "Did you mean 'gin'"),
        (["tu_tpe_smoke", "--nested"], "choose grid or random"),
        (["tu_grid_smoke", "--storage", "nonsense"], "cannot be opened"),
        (["tu_grid_smoke", "data=mutag"], "type unionsnn sweep tu_grid data=mutag"),
        (["tu_grid_smoke", "--dry-run", "logger=[csv,wand]"], "Did you mean 'wandb'"),
    ],
)
def test_a_wrong_request_has_status_2(run: Any, words: list[str], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.stderr


def test_keys_given_twice_are_refused(run: Any, small: str) -> None:
    Path(small).write_text(Path(small).read_text() + "seed: 1\nseed: 2\n")
    done = run(small)
    assert done.exit_code == 2
    assert "[yaml.duplicate]" in done.stderr


def test_a_study_that_lost_trials_says_so_with_status_1(
    run: Any, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = validation.train_repetition

    def fail(training: Any, *rest: Any, **options: Any) -> Any:
        if training.config.optimizer.lr == 0.01:
            raise MemoryError("1 GB")
        return train(training, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(validation, "train_repetition", fail)
        for _ in range(2):
            done = run(small, "--trials-only")
            assert done.exit_code == 1
            assert "trial 1 was lost: out of memory: 1 GB" in done.stderr
            assert "type --retry" in done.stderr
    assert run(small, "--trials-only", "--retry").exit_code == 0


def test_hyphens_of_a_wandb_sweep_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["unionsnn", "train", "--optimizer.lr=0.01"])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "type optimizer.lr=0.01" in said
    assert "${args_no_hyphens}" in said


def test_optuna_dashboard_serves_the_study(run: Any, small: str) -> None:
    dashboard = pytest.importorskip("optuna_dashboard")
    run(small, "--trials-only")
    url = "sqlite:///runs/studies/small-4cycles_small-unionsnn/study.db"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    class Silent(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = make_server("127.0.0.1", port, dashboard.wsgi(url), handler_class=Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies", timeout=30) as answer:
            names = [study["study_name"] for study in json.load(answer)["study_summaries"]]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert names == ["small-4cycles_small-unionsnn"]
