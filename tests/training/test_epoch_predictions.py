"""Test outputs of every epoch, and histograms of coefficients, in the folder of a run."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from interrupted import run_until
from unionsnn.config.schema import Config
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import repetition
from unionsnn.training.build import build_data
from unionsnn.training.callbacks import EpochPredictions
from unionsnn.training.repetition import HISTOGRAM_BINS

Maker = Callable[..., dict[str, Any]]
PAPER = ["model=gin", "protocol=cross_validation_paper", "protocol.folds=3", "protocol.only=[0]"]


def kept(config: Config) -> tuple[np.ndarray, np.ndarray]:
    with np.load(RunFolder.of(config).path / "predictions" / "00.npz") as content:
        return content["outputs"], content["target"]


def test_outputs_of_each_epoch_give_the_test_curve(tiny: Maker) -> None:
    config = tiny(*PAPER, "trainer.max_epochs=3")
    run_experiment(config)
    outputs, target = kept(config)
    curves = RunFolder.of(config).finished()[0].curves
    assert len(outputs) == len(curves) == 3
    accuracy = (outputs.argmax(axis=2) == target).mean(axis=1)
    np.testing.assert_allclose(accuracy, [epoch["test_accuracy"] for epoch in curves], atol=1e-6)


def test_they_survive_an_interruption(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tiny(*PAPER, "trainer.max_epochs=4", run_dir="whole")
    run_experiment(whole)
    config = tiny(*PAPER, "trainer.max_epochs=4", run_dir="stopped")
    run_until(2, config, monkeypatch)
    run_experiment(config)
    for found, expected in zip(kept(config), kept(whole), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_nothing_is_kept_beyond_the_bound(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    small = functools.partial(EpochPredictions, max_bytes=100)
    monkeypatch.setattr(repetition, "EpochPredictions", small)
    config = tiny(*PAPER)
    run_experiment(config)
    assert not (RunFolder.of(config).path / "predictions").exists()


def test_a_record_holds_the_histogram_of_its_training_coefficients(tiny: Maker) -> None:
    config = tiny("model=unionsnn")
    run_experiment(config)
    record = RunFolder.of(config).finished()[0]
    data = build_data(config)
    data.split = data.default_split(np.random.default_rng(0))
    rows = data.part_coefficient("train").numpy()
    assert [*record.coefficient_histogram] == list(data.spec.columns)
    for values, held in zip(rows.T, record.coefficient_histogram.values(), strict=True):
        counts, ends = np.histogram(values, bins=HISTOGRAM_BINS)
        assert held.counts == counts.tolist()
        assert sum(held.counts) == len(values)
        assert (held.low, held.high) == (ends[0], ends[-1])
    json.dumps(record.to_json()["coefficient_histogram"], allow_nan=False)
    plain = tiny("model=gin", run_dir="plain")
    run_experiment(plain)
    assert RunFolder.of(plain).finished()[0].coefficient_histogram is None
