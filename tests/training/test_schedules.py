"""Schedules of the learning rate: torch's own values, every key, and a resumed training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import Callback
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from interrupted import run_until
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import repetition
from unionsnn.training.schedules import CosineSchedule, schedule_callbacks

Maker = Callable[..., dict[str, Any]]
LONG = ["trainer.max_epochs=8"]
# At such a rate the validation loss goes up and down.
PLATEAU = ["optimizer.schedule=plateau", "optimizer.patience=1", "optimizer.lr=1.0"]


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rate of each epoch that is trained."""
    seen: list[float] = []

    class Watch(Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
            if number == 0:
                seen.append(trainer.optimizers[0].param_groups[0]["lr"])

    original = repetition.schedule_callbacks
    monkeypatch.setattr(
        repetition, "schedule_callbacks", lambda config: [*original(config), Watch()]
    )
    return seen


def curves(config: Config) -> list[dict[str, float]]:
    """Each epoch's metrics of the one repetition of a finished run."""
    epochs: list[dict[str, float]] = RunFolder.of(config).finished()[0].curves
    return epochs


def optimizer(lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def test_without_a_schedule_the_rate_stays(tiny: Maker, rates: list[float]) -> None:
    assert schedule_callbacks(tiny()) == []
    run_experiment(tiny(*LONG, "optimizer.lr=0.1"))
    assert rates == [0.1] * 8


def test_the_cosine_is_torch_s(tiny: Maker, rates: list[float]) -> None:
    run_experiment(tiny(*LONG, "optimizer.lr=0.1", "optimizer.schedule=cosine"))
    watched = optimizer()
    schedule = CosineAnnealingLR(watched, T_max=8)
    expected = []
    for _ in range(8):
        expected.append(watched.param_groups[0]["lr"])
        watched.step()
        schedule.step()
    assert rates == pytest.approx(expected)


def test_warm_up_grows_linearly_to_the_full_rate(tiny: Maker, rates: list[float]) -> None:
    cosine = ["optimizer.schedule=cosine", "optimizer.warmup=3", "optimizer.lr=0.1"]
    run_experiment(tiny(*LONG, *cosine))
    assert rates[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert CosineSchedule(0.1, 3, 8).rate(8) == pytest.approx(0)


@pytest.mark.parametrize("factor", [0.5, 0.1])
def test_the_plateau_is_torch_s_on_the_validation_loss(
    tiny: Maker, rates: list[float], factor: float
) -> None:
    config = tiny(*LONG, *PLATEAU, f"optimizer.factor={factor}")
    run_experiment(config)
    watched = optimizer(1.0)
    schedule = ReduceLROnPlateau(watched, factor=factor, patience=1)
    expected = []
    for row in curves(config):
        expected.append(watched.param_groups[0]["lr"])
        watched.step()
        schedule.step(row["val_loss"])
    assert rates == pytest.approx(expected)
    assert len(set(rates)) > 1


@pytest.mark.parametrize(
    "schedule", [PLATEAU, ["optimizer.schedule=cosine", "optimizer.warmup=2"]], ids=str
)
@pytest.mark.parametrize("at", [3, 6])
def test_a_resumed_training_has_the_rates_of_one_that_was_never_stopped(
    tiny: Maker, rates: list[float], schedule: list[str], at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tiny(*LONG, *schedule, run_dir="whole")
    run_experiment(whole)
    expected = [*rates]
    rates.clear()
    config = tiny(*LONG, *schedule, run_dir="stopped")
    run_until(at, config, monkeypatch)
    del rates[at:]
    run_experiment(config)
    assert rates == expected
    assert curves(config) == curves(whole)


def test_every_key_matters_and_the_default_changes_no_hash() -> None:
    base = compose_config([])
    assert base.optimizer.to_dict() == {"lr": 0.001, "weight_decay": 0.0}
    one = compose_config(["optimizer.schedule=plateau"])
    assert (one.optimizer.factor, one.optimizer.patience) == (0.5, 10)
    given = ["optimizer.schedule=plateau", "optimizer.factor=0.5", "optimizer.patience=10"]
    assert config_hash(compose_config(given)) == config_hash(one)
    changed = [
        [],
        ["optimizer.schedule=plateau"],
        ["optimizer.schedule=plateau", "optimizer.factor=0.2"],
        ["optimizer.schedule=plateau", "optimizer.patience=3"],
        ["optimizer.schedule=cosine"],
        ["optimizer.schedule=cosine", "optimizer.warmup=3"],
    ]
    assert len({config_hash(compose_config(overrides)) for overrides in changed}) == len(changed)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["optimizer.schedule=cosin"], "optimizer.schedule is 'cosin'; it must be 'none', "),
        (["optimizer.patience=3"], "has no effect on optimizer.schedule=none; type optimizer."),
        (["optimizer.schedule=cosine", "optimizer.factor=0.1"], "optimizer.factor has no effect"),
        (["optimizer.schedule=plateau", "optimizer.warmup=1"], "type optimizer.schedule=cosine"),
        (["optimizer.schedule=plateau", "optimizer.factor=1.5"], "optimizer.factor is 1.5"),
        (["optimizer.schedule=plateau", "optimizer.patience=0"], "optimizer.patience is 0"),
        (["optimizer.schedule=cosine", "optimizer.warmup=-1"], "optimizer.warmup is -1"),
        (["optimizer.schedule=cosine", "optimizer.warmup=100"], "training ends after trainer."),
    ],
)
def test_a_wrong_schedule_says_what_to_do(overrides: list[str], message: str) -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config(overrides)
    assert message in str(refusal.value)
