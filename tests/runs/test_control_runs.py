"""Controls in experiments: where they act, and what the record says of them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from graphs import COLUMNS
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.data.controls import CONTROLS
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.reports.views.results import print_results
from unionsnn.runs.dry_run import describe
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_data

Maker = Callable[..., dict[str, Any]]
SEEDS = ["protocol=repeated_seeds", "protocol.seeds=2"]


def control(name: str) -> str:
    return f"coefficient.control={name}"


def test_each_control_is_an_experiment_of_its_own() -> None:
    hashes = {name: config_hash(compose_config([control(name)])) for name in CONTROLS}
    assert len(set(hashes.values())) == len(CONTROLS)
    assert hashes["none"] == config_hash(compose_config([]))


def test_every_control_trains_to_another_result_and_is_named_in_record_and_table(
    tiny: Maker,
) -> None:
    losses = {}
    for name in CONTROLS:
        record = run_experiment(tiny(control(name)))
        assert record.control == name
        assert record.config["coefficient"]["control"] == name
        losses[name] = record.repetitions[0].metrics["test_loss"]
        console = Console(width=200, file=io.StringIO())
        print_results(record, console)
        text = console.file.getvalue()
        assert (f"control: {name}" in text) == (name != "none")
        assert (f"control {name}" in text) == (name != "none")
    assert len(set(losses.values())) == len(CONTROLS)


def test_statistics_are_fitted_to_the_control_of_the_training_graphs(tiny: Maker) -> None:
    config = tiny(control("constant"))
    run_experiment(config)
    path = RunFolder.of(config).path / "checkpoints" / "00.ckpt"
    state = torch.load(path, weights_only=True)["state_dict"]
    data = build_data(config)
    splits = json.loads((RunFolder.of(config).path / "splits.json").read_text())
    data.split = data.default_split(np.random.default_rng(0))
    assert len(splits["splits"]) == 1
    mean = dict(zip(COLUMNS, data.part_coefficient("train").double().mean(dim=0), strict=True))
    rings = [mean[f"edges_r{r}"] - mean[f"nodes_r{r}"] + 1 for r in (1, 2, 3)]
    excess = mean["a_tree_r1"] - mean["a_r1"]
    features = [mean["a_r1"], excess, rings[0], mean["a_r2"], rings[1], mean["a_r3"], rings[2]]
    for key, value in state.items():
        if key.endswith("feature_mean"):
            expected = torch.stack(features).float()
            torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)
        if key.endswith("feature_std"):
            # One row for all: there is no spread to divide by.
            assert torch.equal(value, torch.ones(7))


def test_each_repetition_draws_its_own_control_whatever_ran_before(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[torch.Tensor] = []
    original = GraphDataModule.apply_control

    def spy(self: GraphDataModule, name: str, generator: np.random.Generator) -> None:
        original(self, name, generator)
        drawn.append(self.graphs._data.edge_coefficient.clone())

    monkeypatch.setattr(GraphDataModule, "apply_control", spy)
    config = tiny(*SEEDS, control("shuffled"), run_dir="both")
    both = run_experiment(config)
    assert len(drawn) == 2
    assert not torch.equal(drawn[0], drawn[1])
    second = tiny(*SEEDS, control("shuffled"), "protocol.only=[1]", run_dir="second")
    alone = run_experiment(second)
    assert torch.equal(drawn[2], drawn[1])
    assert alone.repetitions[0].metrics == both.repetitions[1].metrics
    run_experiment(tiny(*SEEDS, control("shuffled"), "seed=1", run_dir="other"))
    assert not torch.equal(drawn[3], drawn[0])


def test_workers_train_the_same_controls(tiny: Maker) -> None:
    one = run_experiment(tiny(*SEEDS, control("random"), run_dir="one"))
    two = run_experiment(tiny(*SEEDS, control("random"), "protocol.workers=2", run_dir="two"))
    assert [r.metrics for r in one.repetitions] == [r.metrics for r in two.repetitions]


@pytest.mark.parametrize("name", list(CONTROLS))
def test_a_dry_run_knows_controls(tiny: Maker, name: str) -> None:
    plan = describe(tiny(control(name)))
    assert plan["config"]["coefficient"]["control"] == name


def test_a_control_leaves_no_trace_in_the_cache(tiny: Maker) -> None:
    config = tiny()
    real = build_data(config)
    values = real.coefficients(real.spec)
    files = {p: p.read_bytes() for p in real.root.rglob("*.npz")}
    run_experiment(tiny(control("shuffled")))
    assert {p: p.read_bytes() for p in real.root.rglob("*.npz")} == files
    again = build_data(config)
    assert np.array_equal(again.coefficients(again.spec), values)
