"""Keys that steer a training: optimisers, steps, averages, weights of classes, early stopping."""

from __future__ import annotations

import copy
import functools
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
import yaml
from pytorch_lightning.callbacks import Callback
from sklearn.utils.class_weight import compute_class_weight
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from graphs import random_graphs
from interrupted import run_until
from steered import SignDescent
from unionsnn.base.errors import RequestError, UnionsnnError
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import cells_of, may_vary
from unionsnn.config.identity import config_hash, refuse_debug
from unionsnn.config.schema import Config
from unionsnn.config.targets import own_code
from unionsnn.data import batching
from unionsnn.data.batching import BatchLoader
from unionsnn.data.datasets import GraphDataset
from unionsnn.data.store import GraphStore
from unionsnn.models.gin import GIN
from unionsnn.reports.collection import collect
from unionsnn.reports.views.debugging import overfit_lines, print_debug, profile_table
from unionsnn.reports.views.results import results_table
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import repetition
from unionsnn.training.averaging import WeightAverage
from unionsnn.training.build import build_data, build_task, check_request
from unionsnn.training.optimizers import make_optimizer, parameter_groups
from unionsnn.training.protocols import draw_splits
from unionsnn.training.repetition import make_trainer
from unionsnn.training.schedules import OneCycleSchedule
from unionsnn.training.tasks import GraphBinaryClassification, GraphClassification

Maker = Callable[..., Config]
OWN = "optimizer._target_=steered.SignDescent"


@functools.cache
def base(group: str = "") -> Config:
    return compose_config([group] if group else [])


def request_of(words: list[str]) -> Config:
    """Check a request without composing it again and again; a group comes first."""
    group = [word for word in words[:1] if word.partition("=")[0] in ("data", "optimizer")]
    content = copy.deepcopy(base(*group).to_dict())
    for word in words[len(group) :]:
        key, _, value = word.lstrip("+").partition("=")
        *sections, last = key.split(".")
        functools.reduce(dict.__getitem__, sections, content)[last] = yaml.safe_load(value)
    return Config.from_dict(content)


def curves(config: Config) -> list[dict[str, float]]:
    epochs: list[dict[str, float]] = RunFolder.of(config).finished()[0].curves
    return epochs


# -- optimisers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind", "arguments"),
    [
        ([], torch.optim.Adam, {"lr": 0.001, "weight_decay": 0.0, "betas": (0.9, 0.999)}),
        (["optimizer.betas=[0.8,0.9]"], torch.optim.Adam, {"betas": (0.8, 0.9)}),
        (["optimizer=adamw", "+optimizer.amsgrad=true"], torch.optim.AdamW, {"amsgrad": True}),
        (["optimizer=sgd"], torch.optim.SGD, {"momentum": 0.9, "nesterov": False, "lr": 0.01}),
        (["optimizer._target_=torch.optim.RAdam"], torch.optim.RAdam, {"lr": 0.001}),
        ([OWN, "+optimizer.beta=0.5"], SignDescent, {"beta": 0.5, "lr": 0.001}),
    ],
    ids=str,
)
def test_an_optimizer_is_made_with_its_arguments(
    words: list[str], kind: type, arguments: dict[str, Any]
) -> None:
    config = request_of(words)
    check_request(config)
    made = make_optimizer(kind, config.optimizer, nn.Linear(2, 2))
    assert type(made) is kind
    assert {k: made.defaults[k] for k in arguments} == arguments
    assert base().optimizer.to_dict() == {"lr": 0.001, "weight_decay": 0.0}


def test_weight_decay_on_weights_leaves_vectors_alone() -> None:
    words = ["optimizer.weight_decay=0.1", "optimizer.weight_decay_on=weights"]
    section = request_of(words).optimizer
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1, bias=False))
    module.register_parameter("eps", nn.Parameter(torch.zeros(())))
    groups = parameter_groups(module, section)
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    shapes = [sorted(tuple(p.shape) for p in group["params"]) for group in groups]
    assert shapes == [[(1, 3), (3, 2)], [(), (3,), (3,), (3,)]]


# -- steps --------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("processes", [1, 3])
def test_accumulated_batches_have_the_mean_of_one_large_batch(
    monkeypatch: pytest.MonkeyPatch, processes: int, missing: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    terms = torch.randint(0, 4, (21,), generator=generator) if missing else None
    values = torch.randn(21, generator=generator)
    count = torch.ones(21) if terms is None else terms.double()

    graphs = [Data(x=torch.ones(1, 1), number=torch.tensor([i])) for i in range(21)]
    store = GraphStore(GraphDataset(*GraphDataset.collate(graphs)))
    found = []
    for rank in range(processes):
        monkeypatch.setattr(batching, "world_size", lambda: processes)
        monkeypatch.setattr(batching, "rank", lambda rank=rank: rank)
        loader = BatchLoader(
            store, torch.arange(21), batch_size=4, accumulated=4, terms=terms, shuffle=True,
            generator=torch.Generator().manual_seed(1),
        )  # fmt: skip
        losses = []
        for batch in loader:
            n = count[batch.number]
            mean = (n * values[batch.number]).sum() / n.sum().clamp(min=1)
            losses.append(batch.loss_weight * mean / 4)
        # 6 batches: a step of four, and one of two.
        found.append(torch.stack([sum(losses[:4]), sum(losses[4:])]))  # type: ignore[arg-type]
    order = torch.randperm(21, generator=torch.Generator().manual_seed(1))
    expected = [
        (count[part] * values[part]).sum() / count[part].sum() for part in (order[:16], order[16:])
    ]
    torch.testing.assert_close(torch.stack(found).mean(0), torch.stack(expected).to(found[0]))


def test_accumulation_trains_as_one_large_batch_does(tiny: Maker) -> None:
    same = ["data.num_train=44", "model.norm=layer", "trainer.precision=64-true"]
    one = tiny(*same, "data.batch_size=16", "optimizer=sgd", run_dir="one")
    # Batches of 8: the last step of an epoch has 8 and 4 graphs.
    two = ["data.batch_size=8", "optimizer=sgd", "trainer.accumulate_grad_batches=2"]
    many = tiny(*same, *two, run_dir="many")
    for config in (one, many):
        run_experiment(config)
    for left, right in zip(curves(one), curves(many), strict=True):
        assert left == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("total", [4, 10, 37])
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_one_cycle_is_torch_s(total: int, share: float) -> None:
    watched = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    torch_s = OneCycleLR(
        watched, 0.1, total_steps=total, pct_start=share, div_factor=5.0, final_div_factor=100.0,
        cycle_momentum=False,
    )  # fmt: skip
    schedule = OneCycleSchedule(0.1, share, 5.0, 100.0)
    for step in range(total):
        assert schedule.rate(step, total) == pytest.approx(watched.param_groups[0]["lr"])
        watched.step()
        if step + 1 < total:
            torch_s.step()


def test_one_cycle_counts_the_steps_of_the_optimizer(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    original = OneCycleSchedule.rate

    def rate(self: OneCycleSchedule, step: int, steps: int) -> float:
        seen.append((step, steps))
        return original(self, step, steps)

    monkeypatch.setattr(OneCycleSchedule, "rate", rate)
    # Three batches in an epoch: two steps.
    words = ["optimizer.schedule=onecycle", "trainer.accumulate_grad_batches=2"]
    run_experiment(tiny(*words))
    assert seen == [(0, 4), (0, 4), (1, 4), (2, 4), (2, 4), (3, 4)]


def test_clipping_reaches_the_trainer_and_goes_with_mixed_precision(tiny: Maker) -> None:
    words = ["trainer.gradient_clip_val=0.5", "trainer.gradient_clip_algorithm=value"]
    config = tiny(*words, "trainer.precision=bf16-mixed")
    trainer = make_trainer(config, [])
    assert (trainer.gradient_clip_val, trainer.gradient_clip_algorithm) == (0.5, "value")
    data = build_data(config)
    (data.split,) = draw_splits(config.protocol, data, 0)
    assert not build_task(config, data).configure_optimizers().defaults["fused"]


# -- averages -----------------------------------------------------------------------------


class Watch(Callback):
    """Notes the weights after each step, and those that are validated."""

    def __init__(self) -> None:
        self.steps: list[dict[str, torch.Tensor]] = []
        self.validated: list[dict[str, torch.Tensor]] = []
        self.batches = 0

    def on_train_batch_end(self, trainer: Any, module: Any, *rest: Any) -> None:
        self.batches += 1
        if trainer.global_step > len(self.steps):
            self.steps.append({k: v.clone() for k, v in module.model.state_dict().items()})

    def on_validation_batch_end(self, trainer: Any, module: Any, *rest: Any) -> None:
        self.validated.append({k: v.clone() for k, v in module.model.state_dict().items()})


@pytest.mark.parametrize(
    ("average", "accumulated"),
    [(WeightAverage(0.75), 1), (WeightAverage(0.75), 2), (WeightAverage(first=1), 1)],
    ids=["ema", "ema of steps of two batches", "swa"],
)
def test_what_is_validated_and_kept_is_the_average(
    average: WeightAverage, accumulated: int
) -> None:
    torch.manual_seed(0)
    graphs = random_graphs(8, torch.Generator().manual_seed(1))
    task = GraphClassification(
        GIN(in_channels=3, out_channels=2, hidden_channels=4, num_layers=1, norm="batch"),
        num_outputs=2, lr=0.1, weight_decay=0.0,
    )  # fmt: skip
    watch = Watch()
    trainer = pl.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, max_epochs=4, num_sanity_val_steps=0,
        callbacks=[average, watch], accumulate_grad_batches=accumulated,
    )  # fmt: skip
    trainer.fit(task, DataLoader(graphs, batch_size=2), DataLoader(graphs, batch_size=8))
    assert watch.batches == 16
    per_epoch = 4 // accumulated
    assert len(watch.steps) == 4 * per_epoch
    for name, first in watch.steps[0].items():
        if not first.is_floating_point():
            continue
        mean = first.double()
        for number, step in enumerate(watch.steps[1:], 1):
            if average.decay is not None:
                mean = average.decay * mean + (1 - average.decay) * step[name].double()
            epoch, last = divmod(number + 1, per_epoch)
            if last:
                continue
            if average.decay is None:
                ends = [watch.steps[e * per_epoch - 1][name].double() for e in range(2, epoch + 1)]
                mean = torch.stack(ends or [step[name].double()]).mean(0)
            found = watch.validated[epoch - 1][name].double()
            torch.testing.assert_close(found, mean, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(task.model.state_dict()[name].double(), mean)


AVERAGED = ["trainer.max_epochs=6", "model.dropout=0.3"]


@pytest.mark.parametrize("words", [["trainer.ema_decay=0.9"], ["trainer.swa_start=2"]], ids=str)
def test_the_best_averaged_weights_are_tested(tiny: Maker, words: list[str]) -> None:
    config = tiny(*AVERAGED, *words)
    record = run_experiment(config)
    assert record is not None
    (row,) = record.repetitions
    assert row.best_epoch is not None
    assert row.metrics["val_loss"] == pytest.approx(curves(config)[row.best_epoch]["val_loss"])


RESUMED = {
    "ema": [
        "trainer.ema_decay=0.9", "optimizer.schedule=onecycle", "optimizer=adamw",
        "trainer.accumulate_grad_batches=2", "trainer.gradient_clip_val=0.1",
        "optimizer.weight_decay_on=weights",
    ],
    "swa": [
        "trainer.swa_start=0.5", "trainer.swa_lr=0.05", "optimizer=sgd", "optimizer.lr=0.001",
        "optimizer.schedule=cosine", "data.class_weights=balanced", "protocol.stop_on=train_loss",
    ],
    "own": [OWN, "protocol=cross_validation_paper", "protocol.folds=3", "protocol.only=[0]",
            "trainer.ema_decay=0.5"],
}  # fmt: skip
"""Every key that keeps a state of its own, in few trainings."""


@pytest.mark.parametrize("at", [2, 4])
@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_training_has_the_numbers_of_one_that_was_never_stopped(
    tiny: Maker, name: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*AVERAGED, *RESUMED[name]]
    whole, config = tiny(*words, run_dir="whole"), tiny(*words, run_dir="stopped")
    run_experiment(whole)
    run_until(at, config, monkeypatch)
    run_experiment(config)
    assert curves(config) == curves(whole)
    records = [RunFolder.of(each).finished()[0] for each in (config, whole)]
    assert records[0].metrics == records[1].metrics
    states = [
        torch.load(RunFolder.of(each).path / "checkpoints" / "00.ckpt", weights_only=True)
        for each in (config, whole)
    ]
    for key, value in states[0]["state_dict"].items():
        assert torch.equal(value, states[1]["state_dict"][key]), key


# -- classes and early stopping -----------------------------------------------------------


def test_balanced_weights_are_of_the_training_part_alone(tiny: Maker) -> None:
    data = build_data(tiny())
    (split,) = draw_splits(tiny().protocol, data, 0)
    data.split = split
    rare = np.flatnonzero(data.targets == 1)
    common = np.flatnonzero(data.targets == 0)
    data.split = type(split)(np.r_[rare[:4], common[:12]], common[12:14], rare[4:])
    given = data.targets[data.split.train]
    expected = compute_class_weight("balanced", classes=np.array([0, 1]), y=given)
    found = data.class_weights("balanced")
    assert found is not None
    np.testing.assert_allclose(found, expected)
    with pytest.raises(RequestError) as refusal:
        data.class_weights([1.0, 2.0, 3.0])
    assert refusal.value.codes == ["data.class_weights"]
    # Of the whole training part, the loss is torch's.
    weights = data.class_weights([1.0, 5.0])
    output, target = torch.randn(16, 2, generator=torch.Generator().manual_seed(0)), given
    target = torch.from_numpy(target)
    several = GraphClassification(
        nn.Linear(1, 1), num_outputs=2, lr=1.0, weight_decay=0.0, class_weights=weights
    )
    torch_s = nn.functional.cross_entropy(output, target, torch.tensor([1.0, 5.0]))
    torch.testing.assert_close(several.loss(output, target), torch_s)
    binary = GraphBinaryClassification(
        nn.Linear(1, 1), num_outputs=1, lr=1.0, weight_decay=0.0, class_weights=weights
    )
    score = (output[:, 1] - output[:, 0]).unsqueeze(1)
    torch.testing.assert_close(binary.loss(score, target), torch_s)


def test_the_training_loss_stops_and_does_not_select(tiny: Maker) -> None:
    words = ["protocol.stop_on=train_loss", "protocol.patience=1", "optimizer.lr=1.0"]
    stopped = repetition.stop_callbacks(tiny(*words).protocol)
    assert (stopped[0].monitor, stopped[0].mode) == ("train_loss", "min")  # type: ignore[attr-defined]
    for key in ("select_on=train_loss", "stop_on=test_loss"):
        with pytest.raises(RequestError) as refusal:
            request_of([f"protocol.{key}"])
        assert refusal.value.codes == ["config.metric"]


# -- keys ---------------------------------------------------------------------------------

CHANGES = [
    ["optimizer=adamw"],
    ["optimizer=sgd"],
    ["optimizer=sgd", "optimizer.momentum=0.5"],
    ["optimizer._target_=torch.optim.AdamW"],
    ["optimizer.betas=[0.8,0.9]"],
    ["optimizer.eps=0.1"],
    ["+optimizer.amsgrad=true"],
    ["optimizer.weight_decay=0.1"],
    ["optimizer.weight_decay=0.1", "optimizer.weight_decay_on=weights"],
    ["optimizer.schedule=onecycle"],
    ["optimizer.schedule=onecycle", "optimizer.pct_start=0.2"],
    ["optimizer.schedule=onecycle", "optimizer.div_factor=2.0"],
    ["optimizer.schedule=onecycle", "optimizer.final_div_factor=2.0"],
    ["trainer.gradient_clip_val=1.0"],
    ["trainer.gradient_clip_val=1.0", "trainer.gradient_clip_algorithm=value"],
    ["trainer.accumulate_grad_batches=2"],
    ["trainer.ema_decay=0.9"],
    ["trainer.swa_start=2"],
    ["trainer.swa_start=0.5"],
    ["trainer.swa_start=0.5", "trainer.swa_lr=0.1"],
    ["data.class_weights=balanced"],
    ["data.class_weights=[1.0,2.0]"],
    ["protocol.stop_on=train_loss"],
    ["trainer.extra={limit_train_batches: 0.5}"],
    ["trainer.callbacks=[{_target_: steered.Shrink}]"],
    ["trainer.callbacks=[{_target_: steered.Shrink, factor: 0.9}]"],
    ["debug=fast"],
    ["debug=overfit"],
    ["debug=profile"],
]


def test_every_key_matters_and_none_at_its_default() -> None:
    defaults = [
        "optimizer._target_=torch.optim.Adam", "optimizer.weight_decay_on=all",
        "trainer.gradient_clip_algorithm=norm", "trainer.accumulate_grad_batches=1",
        *(f"trainer.{key}=null" for key in ("gradient_clip_val", "ema_decay", "swa_start")),
        *("trainer.extra=null", "trainer.callbacks=null", "debug=null"),
        "data.class_weights=null",
    ]  # fmt: skip
    assert config_hash(request_of(defaults)) == config_hash(base())
    hashes = {config_hash(request_of(words)) for words in [[], *CHANGES]}
    assert len(hashes) == len(CHANGES) + 1


def test_a_grid_varies_them() -> None:
    grid = (
        "protocol.grid={optimizer.betas:[[0.9,0.99],[0.9,0.999]],trainer.ema_decay:[null,0.9],"
        "data.class_weights:[null,balanced],trainer.accumulate_grad_batches:[1,2]}"
    )
    config = compose_config([grid])
    assert config.protocol.num_cells == 16
    cell = config.with_cell({"optimizer.betas": [0.9, 0.99], "trainer.ema_decay": 0.9})
    assert (cell.optimizer.arguments, cell.trainer.ema_decay) == ({"betas": [0.9, 0.99]}, 0.9)
    for words in CHANGES:
        key = words[-1].partition("=")[0].lstrip("+")
        fixed = ("optimizer", "protocol.stop_on", "trainer.extra", "trainer.callbacks", "debug")
        assert may_vary(key) == (key not in fixed)


@pytest.mark.parametrize(
    ("words", "grid"),
    [
        ([], "optimizer.schedule:[none,cosine]"),
        (["optimizer.schedule=cosine"], "optimizer.schedule:[none,plateau]"),
        ([], "optimizer.schedule:[onecycle],optimizer.pct_start:[0.2,0.4]"),
        ([], "optimizer._target_:[torch.optim.SGD,torch.optim.Adam]"),
        (
            [],
            "optimizer._target_:[torch.optim.AdamW,torch.optim.Adam],"
            "optimizer.schedule:[plateau,cosine]",
        ),
        (["optimizer=sgd"], "optimizer.lr:[0.1],optimizer.momentum:[0.0,0.5]"),
    ],
    ids=str,
)
def test_a_cell_is_the_request_of_its_values(words: list[str], grid: str) -> None:
    config = compose_config([*words, f"protocol.grid={{{grid}}}"])
    check_request(config)
    for cell in cells_of(config.protocol.grid):
        own = config.with_cell(cell)
        alone = compose_config([*words, *(f"{key}={value}" for key, value in cell.items())])
        assert own == alone
        assert own.optimizer.target == cell.get("optimizer._target_", own.optimizer.target)
        assert config_hash(own) == config_hash(alone)


def test_the_key_of_a_schedule_goes_to_the_cells_with_that_schedule() -> None:
    words = ["optimizer.schedule=cosine", "optimizer.warmup=5"]
    config = compose_config([*words, "protocol.grid={optimizer.schedule:[none,cosine]}"])
    made = [config.with_cell(cell).optimizer for cell in cells_of(config.protocol.grid)]
    assert [(each.schedule, each.warmup) for each in made] == [("none", None), ("cosine", 5)]
    with pytest.raises(RequestError, match=r"optimizer\.warmup has no effect"):
        compose_config([*words, "protocol.grid={optimizer.schedule:[none,plateau]}"])


def test_an_argument_left_open_keeps_the_class_s_default() -> None:
    config = compose_config(["optimizer=sgd", "protocol.grid={optimizer.momentum:[null,0.5]}"])
    made = [config.with_cell(cell).optimizer for cell in cells_of(config.protocol.grid)]
    assert [each.arguments.get("momentum") for each in made] == [None, 0.5]
    assert "momentum" not in made[0].arguments


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["optimizer.lr=0"], "config.type config.value", ""),
        (["optimizer.weight_decay_on=weights"], "config.no_effect", "weight_decay is 0"),
        (["optimizer.pct_start=0.5"], "config.no_effect", "type optimizer.schedule=onecycle"),
        (["optimizer=sgd", "+optimizer.momentun=0.9"], "optimizer.argument", "'momentum'"),
        (["optimizer=sgd", "+optimizer.fused=true"], "optimizer.argument", "not an argument"),
        (["optimizer=sgd", "protocol.grid={optimizer._target_:[torch.optim.Adam]}"],
         "optimizer.argument", "not an argument of torch.optim.Adam"),
        (["optimizer.betas=[0.9,1.5]"], "config.value", "beta"),
        (["optimizer.betas=0.9"], "config.value", ""),
        (["optimizer=sgd", "optimizer.nesterov=true", "optimizer.momentum=0.0"],
         "optimizer.argument", "Nesterov"),
        (["optimizer._target_=torch.optim.LBFGS"], "optimizer.argument", "optimizer=adam"),
        (["optimizer._target_=torch.optim.Muon"], "optimizer.argument", "2D"),
        (["optimizer._target_=steered.NoDecay", "optimizer.weight_decay=0.1"],
         "optimizer.argument", "weight_decay=0.0"),
        (["trainer.gradient_clip_val=0.0"], "config.value", "gradient_clip_val is 0.0"),
        (["trainer.gradient_clip_algorithm=value"], "config.no_effect", "not clipped"),
        (["trainer.accumulate_grad_batches=0"], "config.value", ""),
        (["trainer.ema_decay=1.0"], "config.value", "ema_decay is 1.0"),
        (["trainer.ema_decay=0.9", "trainer.swa_start=2"], "config.no_effect", "keep one"),
        (["trainer.swa_start=100"], "config.swa_start", "a share of them"),
        (["trainer.swa_start=1.5"], "config.value", "swa_start"),
        (["trainer.swa_lr=0.1"], "config.no_effect", "trainer.swa_start=0.75"),
        (["trainer.swa_start=2", "trainer.swa_lr=0.1", "optimizer.schedule=onecycle"],
         "config.no_effect", "another schedule"),
        (["data=cora", "trainer.accumulate_grad_batches=2"], "config.no_effect", "one batch"),
        (["data=zinc10k", "data.class_weights=balanced"], "config.no_effect", "no classes"),
        (["trainer.extra={max_epochs: 3}"], "trainer.extra", "type trainer.max_epochs="),
        (["trainer.extra={fast_dev_run: true}"], "trainer.extra", "type debug=fast"),
        (["trainer.extra={plugins: []}"], "trainer.extra", "leave it out: resuming"),
        (["trainer.extra={limit_train_batch: 3}"], "trainer.extra", "'limit_train_batches'"),
        (["trainer.extra={limit_train_batches: -3}"], "trainer.extra", "trainer.extra: "),
        (["trainer.extra={limit_train_batches: 0}"], "trainer.extra", "is 0, but every epoch"),
        (["trainer.extra={limit_val_batches: 0.0}"], "trainer.extra", "is 0.0, but every epoch"),
        (["trainer.callbacks=[{_target_: pytorch_lightning.callbacks.EarlyStopping,"
          "monitor: val_los}]"], "trainer.callbacks", "Did you mean 'val_loss'?"),
        (["optimizer._target_=torch.optim.SparseAdam"], "optimizer.argument", "sparse"),
        (["trainer.callbacks=[{_target_: steered.Shrink, by: 2}]"],
         "trainer.callbacks", "It takes factor"),
        (["trainer.callbacks=[{_target_: steered.SignDescent}]"], "target.kind", "callbacks[0]"),
        (["trainer.callbacks=[{_target_: pytorch_lightning.callbacks.ModelCheckpoint}]"],
         "trainer.callbacks", "add dirpath"),
        (["trainer.callbacks=[{factor: 2}]"], "config.missing", "callbacks.0._target_"),
        (["debug=quick"], "config.value", "'fast'"),
        (["debug=overfit", "protocol.grid={optimizer.lr: [0.1, 0.2]}"],
         "config.debug", "protocol.grid=null"),
        (["data.class_weights=equal"], "config.value", "balanced"),
        (["data.class_weights=[-1.0,1.0]"], "config.value", ""),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_key_says_what_to_do(words: list[str], code: str, message: str) -> None:
    with pytest.raises(RequestError) as refusal:
        check_request(request_of(words))
    assert set(refusal.value.codes) <= set(code.split())
    assert message in str(refusal.value)


# -- the Trainer's own arguments, and trials ----------------------------------------------


def test_a_callback_that_needs_a_logger_of_lightning_s_is_refused(tiny: Maker) -> None:
    kind = "pytorch_lightning.callbacks.LearningRateMonitor"
    with pytest.raises(RequestError) as refusal:
        run_experiment(tiny(f"trainer.callbacks=[{{_target_: {kind}}}]"))
    assert refusal.value.codes == ["trainer.callbacks"]
    assert "LearningRateMonitor" in str(refusal.value)


def test_extras_reach_the_trainer_and_callbacks_the_training(tiny: Maker) -> None:
    plain = tiny(run_dir="plain")
    few = tiny("trainer.extra={limit_train_batches: 1}", run_dir="few")
    own = tiny("trainer.callbacks=[{_target_: steered.Shrink, factor: 0.5}]", run_dir="own")
    assert make_trainer(few, []).limit_train_batches == 1
    losses = []
    for config in (plain, few, own):
        run_experiment(config)
        losses.append(curves(config)[-1]["val_loss"])
    assert len(set(losses)) == 3
    code = RunFolder.of(own).finished()[0].code
    assert code is not None
    assert [*code] == ["steered", "steered.Shrink"] or [*code] == ["steered.Shrink"]
    assert own_code(own) == ["trainer.callbacks[0]._target_=steered.Shrink"]
    assert own_code(request_of(["optimizer._target_=steered.SignDescent"])) == [OWN]
    assert own_code(request_of(["optimizer=sgd"])) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "trainer.callbacks=[{_target_: steered.Failing}]",
            "trainer.callbacks[0], Failing, failed",
        ),
        ("optimizer._target_=steered.FailingDescent", "optimizer._target_, FailingDescent, failed"),
    ],
)
def test_what_the_users_own_class_raises_names_its_key(
    words: str, message: str, tiny: Maker
) -> None:
    with pytest.raises(UnionsnnError) as failure:
        run_experiment(tiny(words))
    assert failure.value.codes == ["training.users_part"]
    assert message in str(failure.value)


def test_a_fast_trial_goes_through_everything(tiny: Maker) -> None:
    config = tiny(
        *("debug=fast", "protocol=cross_validation", "protocol.folds=3", "data.batch_size=8"),
        *("trainer.max_epochs=50", "optimizer.schedule=cosine", "optimizer.warmup=3"),
    )
    assert RunFolder.of(config).path.name.startswith("debug-fast-cross_validation-")
    assert make_trainer(config, []).limit_train_batches == 2
    assert Config.from_dict(config.to_dict()) == config
    record = run_experiment(config)
    assert record is not None
    assert (record.state, [row.epochs for row in record.repetitions]) == ("finished", [1, 1, 1])
    assert results_table(record).title.endswith("debug=fast: no result")
    assert collect([RunFolder.of(config).path]) == ([], [])
    for refused in (config, record.config):
        with pytest.raises(RequestError) as refusal:
            refuse_debug(refused, "compare")
        assert refusal.value.codes == ["config.debug"]


def test_an_overfitting_trial_says_whether_the_loss_falls(
    tiny: Maker, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(
        *("debug=overfit", "model.dropout=0.5", "optimizer.weight_decay=0.1", "optimizer.lr=0.02"),
        *("optimizer.weight_decay_on=weights", "trainer.ema_decay=0.9", "trainer.max_epochs=60"),
        *("protocol.patience=2", "model.norm=layer"),
    )
    assert (config.model.dropout, config.optimizer.weight_decay) == (0.0, 0.0)
    assert config.trainer.ema_decay is None
    assert Config.from_dict(config.to_dict()) == config
    record = run_experiment(config)
    assert record is not None
    (row,) = record.repetitions
    assert (row.sizes["train"], row.epochs) == (16, 60)
    print_debug(RunFolder.of(config).path, record)
    assert "the network can learn them" in capsys.readouterr().out
    (first, second) = overfit_lines([0.7, 0.6], {"train": 16})
    assert "does not learn even these" in first
    assert "optimizer.lr" in second


def test_a_profiled_trial_says_where_the_time_goes(
    tiny: Maker, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny("debug=profile", "trainer.max_epochs=50")
    record = run_experiment(config)
    assert record is not None
    assert record.repetitions[0].epochs == 3
    folder = RunFolder.of(config).path
    rows = {row[0]: row for row in profile_table(folder / "profile" / "00.json").rows}
    # Three batches of training and one of validation in each of three epochs.
    assert (rows["backward pass"][1], rows["validation"][1]) == (9, 3)
    assert rows["gathering training batches"][1] >= 9
    assert rows["gathering validation batches"][1] >= 3
    assert all(row[2] >= 0 for row in rows.values())
    assert sum(float(row[4].split()[0]) for row in rows.values()) == pytest.approx(100, abs=6)
    print_debug(folder, record)
    assert "backward pass" in capsys.readouterr().out


# -- the page -----------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_page_names_every_key_and_its_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text()
    keys = {words[-1].partition("=")[0].lstrip("+") for words in CHANGES}
    assert [key for key in keys if f"`{key}" not in text and f"`+{key}" not in text] == []
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for path, body in re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", text, flags=re.DOTALL):
        (tmp_path / path).write_text(body)
    for command in re.findall(r"^unionsnn train (.*)$", text, flags=re.MULTILINE):
        words = [word for word in shlex.split(command, comments=True) if not word.startswith("-")]
        check_request(compose_config(words))
