"""Dry run: what an experiment would do, and how long it would take.

What is left of a request that lacks nothing is told by its records; timing a network imports torch.
"""

from __future__ import annotations

from typing import Any

from unionsnn.base.errors import RequestError
from unionsnn.base.imports import loading
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.config.targets import own_code
from unionsnn.data.sources.source import Progress
from unionsnn.runs.experiment import finished_request
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.records import Repetition


def describe(
    config: Config, progress: Progress | None = None, *, trust: bool = False
) -> dict[str, Any]:
    """Load, build and time a few steps; write only the processed graphs and encodings.

    Coefficients are not computed: of those that are not in the cache, it says how long they would
    take, and random numbers stand in for them. The estimate of the seconds is for max_epochs in
    every repetition; early stopping makes it shorter. Where nothing is left to train, nothing is
    timed: the seconds of an epoch are those of the records, and what they do not hold is None.

    Args:
        config: The request.
        progress: Called during long work on data.
        trust: Whether to run classes and functions that are not of this package.

    Raises:
        RequestError: The request does not fit the data, the model or the machine.
        MemoryRanOutError: A step, which is timed on the CPU, does not fit into its memory.
    """
    if (own := own_code(config)) and not trust:
        raise RequestError(
            "The request is valid, but a dry run runs no code outside of this package, and "
            f"{' and '.join(own)} {'names' if len(own) == 1 else 'name'} some: type --trust to "
            "have it run, and timed.",
            code="dry_run.own_code",
        )
    config.logger.check()
    protocol, folder = config.protocol, RunFolder.of(config)
    if (whole := finished_request(config, progress)) is not None:
        whole.refuse_other_data()
        pending = []
        numbers = _recorded([whole.finished[i] for i in protocol.wanted])
    else:
        finished = {} if config.force else folder.finished()
        pending = [i for i in protocol.wanted if i not in finished]
        with loading("torch"):
            from unionsnn.runs.estimate import estimate
        numbers = estimate(config, len(pending), progress)
    return {
        "config": config.to_dict(),
        "config_hash": config_hash(config),
        "run_dir": str(folder.path),
        "protocol": protocol.name,
        "selection": protocol.selection,
        "report": protocol.report,
        "repetitions": protocol.num_repetitions,
        "pending": pending,
        "cells": protocol.num_cells,
        "trainings": len(pending) * protocol.num_cells,
        **numbers,
        # Not timed: the epochs are those of the plain network.
        "compiles": config.trainer.compile,
    }


def _recorded(finished: list[Repetition]) -> dict[str, Any]:
    """Return the part of a plan that `estimate` otherwise returns, from records."""
    first = finished[0]
    # The seconds of a grid are those of all its cells.
    timed = all(each.grid is None for each in finished)
    epochs, seconds = sum(r.epochs for r in finished), sum(r.seconds for r in finished)
    return {
        "dataset": first.dataset,
        "sizes": [dict(each.sizes) for each in finished],
        "num_features": None,
        "num_outputs": None,
        "parameters": first.parameters,
        "hidden_channels": first.hidden_channels,
        "to_compute": [],
        "largest_batch": None,
        "batch": None,
        "seconds_per_epoch": seconds / epochs if timed else None,
        "seconds_at_most": 0.0,
    }
