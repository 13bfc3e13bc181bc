"""Protocols: drawing of splits, and summaries of repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unionsnn.base.errors import DataError, RequestError
from unionsnn.config.schema import ProtocolConfig, metric_mode
from unionsnn.data.splits import Split, read_index_files
from unionsnn.training.records import Repetition
from unionsnn.training.statistics import (
    Summary,
    ratio_test_to_train,
    summarize_folds,
    summarize_seeds,
)

if TYPE_CHECKING:
    from unionsnn.data.datamodules import GraphDataModule


def draw_splits(protocol: ProtocolConfig, data: GraphDataModule, seed: int) -> list[Split]:
    """Draw one split for each repetition.

    Folds are the set's own, or stratified and drawn from `seed`, or read from index files; without
    folds, it is the data set's own split or a stratified 8:1:1 drawn from `seed`, the same in each
    repetition. A set that prescribes several splits gives one to each repetition.

    Raises:
        DataError: if index files have another number of folds, or the folds cannot be drawn.
        RequestError: if a training part has fewer items than ``protocol.train_size``.
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    if not protocol.is_cross_validation:
        splits = data.default_splits(protocol.num_repetitions, generator)
    elif protocol.split_folder is None:
        splits = data.source.folds(data.arrays, protocol.num_repetitions, generator)
    else:
        stem = data.split_name
        splits = read_index_files(protocol.split_folder, stem, data.num_items)
        if len(splits) != protocol.num_repetitions:
            raise DataError(
                f"{protocol.split_folder} has {len(splits)} folds of {stem}, but protocol.folds is "
                f"{protocol.num_repetitions}; type protocol.folds={len(splits)}.",
                code="protocol.folds",
            )
    if protocol.train_size is None:
        return splits
    return [_cut(split, protocol.train_size, seed) for split in splits]


def _cut(split: Split, size: int, seed: int) -> Split:
    """Keep a sample of the training part, always the same for the same part."""
    if size > len(split.train):
        raise RequestError(
            f"protocol.train_size is {size}, but the training part has {len(split.train)} items.",
            code="protocol.train_size",
        )
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    return replace(split, train=np.sort(generator.choice(split.train, size, replace=False)))


def summarize(protocol: ProtocolConfig, repetitions: Sequence[Repetition]) -> Summary:
    """Return mean, spread and interval of the reported metric.

    Seeds are independent: Student's t; a single run has only its value. Folds share training items:
    the corrected resampled t. ``cross_validation_paper`` reports the epoch that is best in the mean
    curve over the folds; ties go to the first.
    """
    if not protocol.is_cross_validation:
        return summarize_seeds([r.metrics[protocol.report] for r in repetitions])
    ratio = ratio_test_to_train([r.sizes for r in repetitions])
    if not protocol.keeps_test_curve:
        return summarize_folds([r.metrics[protocol.report] for r in repetitions], ratio)
    key = protocol.mean_curve
    mean = np.array([[e[key] for e in r.curves] for r in repetitions]).mean(axis=0)
    best = int(mean.argmax() if metric_mode(key) == "max" else mean.argmin())
    values = [r.curves[best][protocol.report] for r in repetitions]
    return summarize_folds(values, ratio, epoch=best)
