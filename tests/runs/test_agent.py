"""A run of a W&B sweep: one run with means of validation metrics, started as an agent would."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from unionsnn.base.errors import RequestError
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config
from unionsnn.runs.validation import run_for_agent
from unionsnn.training.tracking import GuardedRun
from wandb_files import wandb_runs

Maker = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("_no_account")
PAGE = Path(__file__).parents[2] / "docs" / "tracking.md"
FOLDS = ["protocol=cross_validation", "protocol.folds=3"]
WANDB = ["logger=wandb", "logger.mode=online"]


def documented() -> dict[str, Any]:
    """The sweep of the page on trackers."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    content: dict[str, Any] = yaml.safe_load(block)
    return content


def command(sweep: dict[str, Any], chosen: dict[str, Any]) -> list[str]:
    """The words that an agent types for chosen parameters."""
    words: list[str] = []
    for word in sweep["command"]:
        words += (
            [f"{key}={value}" for key, value in chosen.items()]
            if word == "${args_no_hyphens}"
            else [word.replace("${program}", str(sweep.get("program")))]
        )
    return words


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Set what an agent sets, for one run."""
    import wandb

    def ask(run: str, chosen: dict[str, Any]) -> None:
        path = tmp_path / f"config-{run}.yaml"
        held = {key: {"value": value} for key, value in chosen.items()}
        path.write_text(yaml.safe_dump({"wandb_version": 1, **held}, sort_keys=False))
        monkeypatch.setenv("WANDB_SWEEP_ID", "abc123")
        monkeypatch.setenv("WANDB_RUN_ID", run)
        monkeypatch.setenv("WANDB_PROJECT", "mine")
        monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(path))
        # System metrics, otherwise each 15 s.
        monkeypatch.setenv("WANDB__STATS_SAMPLING_INTERVAL", "0.2")
        # It reads its variables once in a process, and an agent starts one for each run.
        wandb.teardown()

    yield ask
    monkeypatch.undo()
    wandb.teardown()


# W&B does not close the agent's file of parameters.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_the_documented_sweep_is_one_run_with_the_mean_over_folds(
    agent: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = documented()
    chosen = {key: given.get("values", [0.01])[0] for key, given in sweep["parameters"].items()}
    program, *words = command(sweep, chosen)
    assert program == "unionsnn"
    assert "logger.mode=online" in words
    assert words[0] == "train"
    small = ["data=4cycles_small", "data.num_train=48", "data.num_validation=16", *FOLDS[1:]]
    small += ["data.num_test=16", "trainer.max_epochs=2", "trainer.accelerator=cpu"]
    small += ["logger.mode=offline", f"paths.output={tmp_path}", f"paths.data={tmp_path / 'data'}"]
    for word in small:
        key = word.partition("=")[0]
        words = [each for each in words if each.partition("=")[0] != key] + [word]
    agent("run1", chosen)
    done = CliRunner().invoke(command_line, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert "type logger.mode=online" in caplog.text
    told = json.loads(done.stdout)
    metric = sweep["metric"]["name"]
    assert metric in told["metrics"]
    (read,) = [r for folder in tmp_path.glob("sweeps/abc123/*/*/*") for r in wandb_runs(folder)]
    assert (read.run.run_id, read.run.sweep_id, read.run.project) == ("run1", "abc123", "mine")
    assert read.run.run_group == "sweep-abc123"
    assert read.run.display_name == "lr=0.01, hidden=64"
    assert {key: read.config[key] for key in chosen} == chosen
    assert read.config["optimizer"]["lr"] == chosen["optimizer.lr"]
    rows = [row for row in read.history if metric in row]
    assert [row["repetition"] for row in rows] == [0, 1, 2]
    folds = [row[f"one/{metric}"] for row in rows]
    assert folds == [row[metric] for row in told["repetitions"].values()]
    assert rows[-1][metric] == read.summary[metric] == pytest.approx(sum(folds) / 3)
    assert told["metrics"][metric] == read.summary[metric]
    assert any("proc.memory.rssMB" in each for each in read.statistics)
    logged = json.dumps([*read.history, read.summary, told["metrics"], told["repetitions"]])
    assert not re.search("test_(loss|accuracy)", logged)
    assert not list(tmp_path.rglob("predictions/*"))
    assert not list(tmp_path.rglob("results.json"))


def test_other_runs_do_not_take_the_agents_id(
    agent: Callable[..., None], tiny: Maker, tmp_path: Path
) -> None:
    agent("run2", {"optimizer.lr": 0.1})
    config = tiny("logger=wandb")
    for index in (0, 1):
        GuardedRun(config, tmp_path, "repetition", index).finish(failed=False)
    runs = wandb_runs(tmp_path)
    assert len({read.run.run_id for read in runs} - {"run2"}) == 2
    assert {read.run.sweep_id for read in runs} == {""}


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["logger=csv"], ["agent.logger"]),
        (["logger=[csv,tensorboard]", "run_dir=x"], ["agent.logger", "agent.run_dir"]),
        ([*WANDB, "protocol=cross_validation_paper"], ["agent.protocol"]),
        ([*WANDB, "protocol.workers=2"], ["agent.workers"]),
        ([*WANDB, "+protocol.grid={optimizer.lr:[0.1,0.2]}"], ["agent.grid"]),
    ],
)
def test_what_is_no_run_of_a_sweep_is_refused(words: list[str], codes: list[str]) -> None:
    config = compose_config([*FOLDS, *words])
    with pytest.raises(RequestError) as refusal:
        run_for_agent(config, "abc123")
    assert refusal.value.codes == codes
