"""Protocols: which splits, how often, what selects, what is reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unionsnn.base.errors import DataError, RequestError
from unionsnn.config.grid import cells_of
from unionsnn.config.schema import metric_mode
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split, read_index_files, stratified_k_fold
from unionsnn.training.statistics import (
    Summary,
    ratio_test_to_train,
    summarize_folds,
    summarize_seeds,
)


@dataclass(frozen=True)
class Protocol(ABC):
    """How an experiment is split, repeated, selected and summarised.

    Args:
        select_on: Metric that selects the epoch; None if a whole curve is kept.
        stop_on: Metric of early stopping; None for none.
        report: Metric that is reported.
        patience: Epochs without improvement of `stop_on`.
        only: Repetitions that are asked for; None for all.
        train_size: Items of each training part that are kept, drawn from the seed; None for all.
        grid: Keys of the configuration and their values; the best cell is selected in each
            repetition. None for none.
    """

    name: str
    select_on: str | None
    stop_on: str | None
    report: str
    patience: int
    only: tuple[int, ...] | None = None
    train_size: int | None = None
    grid: Mapping[str, list[Any]] | None = None

    @property
    @abstractmethod
    def num_repetitions(self) -> int:
        """Number of repetitions."""

    @abstractmethod
    def draw_splits(self, data: GraphDataModule, seed: int) -> list[Split]:
        """One split for each repetition, with whole training parts."""

    def splits(self, data: GraphDataModule, seed: int) -> list[Split]:
        """One split for each repetition.

        Raises:
            RequestError: if a training part has fewer items than `train_size`.
        """
        splits = self.draw_splits(data, seed)
        if self.train_size is None:
            return splits
        return [_keep(split, self.train_size, seed) for split in splits]

    @abstractmethod
    def summarize(self, repetitions: Sequence[Mapping[str, Any]]) -> Summary:
        """Mean, spread and interval of the reported metric."""

    @property
    def keeps_test_curve(self) -> bool:
        """Whether the test set is evaluated in every epoch."""
        return False

    @property
    def selection(self) -> str:
        """The rule of selection in words, printed with every number."""
        rule = f"best {self.select_on} of the repetition, test touched once"
        if self.grid is None:
            return rule
        each = "fold" if self.name.startswith("cross") else "repetition"
        return f"nested: grid of {self.num_cells}, selected per {each} on {self.select_on}; {rule}"

    @property
    def num_cells(self) -> int:
        """Trainings of a repetition: one for each cell of the grid."""
        return 1 if self.grid is None else len(cells_of(self.grid))

    @property
    def wanted(self) -> tuple[int, ...]:
        """Repetitions that this request asks for."""
        return tuple(range(self.num_repetitions)) if self.only is None else self.only


@dataclass(frozen=True)
class Holdout(Protocol):
    """One split, trained once."""

    @property
    def num_repetitions(self) -> int:
        """One."""
        return 1

    def draw_splits(self, data: GraphDataModule, seed: int) -> list[Split]:
        """The data set's own split, or a stratified 8:1:1 drawn from `seed`."""
        split = data.default_split(np.random.default_rng(np.random.SeedSequence(seed)))
        return [split] * self.num_repetitions

    def summarize(self, repetitions: Sequence[Mapping[str, Any]]) -> Summary:
        """Student t over independent seeds; of one run, its value alone."""
        return summarize_seeds([r["metrics"][self.report] for r in repetitions])


@dataclass(frozen=True)
class RepeatedSeeds(Holdout):
    """One split, trained with several seeds."""

    seeds: int = 10

    @property
    def num_repetitions(self) -> int:
        """Number of seeds."""
        return self.seeds


@dataclass(frozen=True)
class CrossValidation(Protocol):
    """k folds; inner validation selects, test is touched once."""

    folds: int = 10
    split_folder: str | None = None

    @property
    def num_repetitions(self) -> int:
        """Number of folds."""
        return self.folds

    def draw_splits(self, data: GraphDataModule, seed: int) -> list[Split]:
        """Stratified folds drawn from `seed`, or read from index files.

        Raises:
            DataError: if the files do not hold as many folds as asked for, or the folds cannot be
                drawn.
        """
        if self.split_folder is None:
            generator = np.random.default_rng(np.random.SeedSequence(seed))
            return stratified_k_fold(data.targets, self.folds, generator=generator)
        stem = data.split_name
        splits = read_index_files(self.split_folder, stem, data.num_items)
        if len(splits) != self.folds:
            raise DataError(
                f"{self.split_folder} holds {len(splits)} folds of {stem}, protocol.folds is "
                f"{self.folds}; type protocol.folds={len(splits)}."
            )
        return splits

    def summarize(self, repetitions: Sequence[Mapping[str, Any]]) -> Summary:
        """Corrected resampled t over the folds."""
        values = [r["metrics"][self.report] for r in repetitions]
        return summarize_folds(values, ratio_test_to_train(repetitions))


@dataclass(frozen=True)
class CrossValidationPaper(CrossValidation):
    """The single epoch with the best mean curve over the folds; no fold stops early."""

    curve: str = "test_accuracy"

    @property
    def keeps_test_curve(self) -> bool:
        """Always."""
        return True

    @property
    def selection(self) -> str:
        """The rule, and a warning where the test folds themselves select."""
        rule = f"single epoch with the best mean {self.curve} over the folds"
        return f"{rule}: selected on the folds it reports" if "test" in self.curve else rule

    def summarize(self, repetitions: Sequence[Mapping[str, Any]]) -> Summary:
        """Mean and spread at the best epoch of the mean curve; ties go to the first."""
        curves = np.array([[e[self.curve] for e in r["curves"]] for r in repetitions])
        mean = curves.mean(axis=0)
        best = int(mean.argmax() if metric_mode(self.curve) == "max" else mean.argmin())
        values = [r["curves"][best][self.report] for r in repetitions]
        return summarize_folds(values, ratio_test_to_train(repetitions), epoch=best)


def _keep(split: Split, size: int, seed: int) -> Split:
    """Keep a sample of the training part; the same of the same part."""
    if size > len(split.train):
        raise RequestError(
            f"protocol.train_size is {size}; the training part has {len(split.train)} items."
        )
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    return replace(split, train=np.sort(generator.choice(split.train, size, replace=False)))


PROTOCOLS: Mapping[str, type[Protocol]] = {
    "holdout": Holdout,
    "repeated_seeds": RepeatedSeeds,
    "cross_validation": CrossValidation,
    "cross_validation_paper": CrossValidationPaper,
}
"""Protocols by the name that a config gives them."""


def make_protocol(section: Mapping[str, Any]) -> Protocol:
    """Make a protocol from its section of the configuration."""
    given = {k: v for k, v in section.items() if k != "workers" and v is not None}
    for key in ("select_on", "stop_on"):
        given.setdefault(key, None)
    if "only" in given:
        given["only"] = tuple(sorted(set(given["only"])))
    return PROTOCOLS[section["name"]](**given)
