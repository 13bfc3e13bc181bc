"""Arguments of Lightning's Trainer and callbacks that the suite does not know."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.optim import Optimizer

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.words import nearest
from unionsnn.config.sections import TrainerConfig
from unionsnn.training.devices import quiet_lightning

_OF_A_KEY = {
    "callbacks": "trainer.callbacks=[{_target_: package.module.Class}]",
    "logger": "logger=NAME",
    "strategy": "trainer=ddp",
    "fast_dev_run": "debug=fast",
    "overfit_batches": "debug=overfit",
    "profiler": "debug=profile",
    "barebones": "debug=profile",
    "enable_progress_bar": "trainer.progress=none",
    "enable_checkpointing": "trainer.keep_checkpoints=false",
    "enable_model_summary": "--dry-run, which counts the parameters",
    "default_root_dir": "paths.output=FOLDER",
    "max_steps": "trainer.max_epochs=N",
    "min_steps": "trainer.max_epochs=N",
    "min_epochs": "protocol.patience=N",
    "max_time": "trainer.max_epochs=N; a run that is stopped resumes",
    "limit_test_batches": "protocol.train_size=N for less data; the whole test part is tested",
}
"""Arguments whose meaning has another key, and what to type instead."""

_SET = {
    "plugins": "resuming depends on those of the suite",
    "use_distributed_sampler": "the loader shares out the batches",
    "num_sanity_val_steps": "it would draw random numbers before the training does",
    "val_check_interval": "every epoch is validated, and the best is chosen by it",
    "check_val_every_n_epoch": "every epoch is validated, and the best is chosen by it",
    "log_every_n_steps": "metrics are logged once per epoch",
    "enable_autolog_hparams": "the whole configuration is recorded",
    "reload_dataloaders_every_n_epochs": "each epoch draws a new order",
    "limit_predict_batches": "unionsnn predict reads all of its input",
    "model_registry": "trainer.keep_checkpoints=true keeps the weights",
}
"""Arguments that the suite sets, or that have no effect in it, and why."""


def check_extras(section: TrainerConfig) -> None:
    """Refuse arguments that Lightning's Trainer does not have or the suite sets, and callbacks.

    Raises:
        RequestError: with every fault.
    """
    faults = [*_argument_faults(section)]
    if section.extra and not faults:
        try:
            with quiet_lightning():
                pl.Trainer(accelerator="cpu", logger=False, devices=1, **section.extra)
        except Exception as error:  # Lightning checks values in many ways.
            faults.append(Fault(f"trainer.extra: {error}", "trainer.extra"))
    if faults:
        raise RequestError(*faults)


def _argument_faults(section: TrainerConfig) -> Iterator[Fault]:
    known = [*inspect.signature(pl.Trainer).parameters]
    for name, value in (section.extra or {}).items():
        if name in TrainerConfig.model_fields:
            instead = f"type trainer.{name}=..."
        elif name in _OF_A_KEY:
            instead = f"type {_OF_A_KEY[name]}"
        elif name in _SET:
            instead = f"leave it out: {_SET[name]}"
        elif name not in known:
            yield Fault(
                f"trainer.extra names {name!r}, which Lightning's Trainer does not take."
                f"{nearest(name, allowed_extras())} It may name {', '.join(allowed_extras())}.",
                "trainer.extra",
            )
            continue
        elif name in ("limit_train_batches", "limit_val_batches") and value == 0:
            yield Fault(
                f"trainer.extra.{name} is {value}, but every epoch is trained and validated; it "
                "must be a number of batches from 1, or a share of them above 0.",
                "trainer.extra",
            )
            continue
        else:
            continue
        yield Fault(
            f"trainer.extra names {name!r}, which the suite sets itself; {instead}.",
            "trainer.extra",
        )


def allowed_extras() -> list[str]:
    """Return the arguments of Lightning's Trainer that ``trainer.extra`` may name."""
    refused = {*TrainerConfig.model_fields, *_OF_A_KEY, *_SET}
    return sorted(set(inspect.signature(pl.Trainer).parameters) - refused)


def users_part(
    error: Exception, callbacks: Sequence[type[Callback]], optimizer: type[Optimizer]
) -> str | None:
    """Return the key of the callback or optimiser that raised an error in training, if one did.

    Args:
        error: The error.
        callbacks: The classes of ``trainer.callbacks``.
        optimizer: The class of ``optimizer._target_``.
    """
    key = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        # An optimiser calls the network, and Lightning calls both.
        owner = type(frame.f_locals.get("self"))
        if owner in callbacks:
            key = f"trainer.callbacks[{callbacks.index(owner)}], {owner.__name__},"
        elif owner is optimizer:
            key = f"optimizer._target_, {owner.__name__},"
        elif issubclass(owner, nn.Module | Callback):
            key = None
    return key


def make_callback(kind: type[Callback], number: int, arguments: dict[str, Any]) -> Callback:
    """Make a callback that the configuration names.

    Args:
        kind: Its class.
        number: Its place in ``trainer.callbacks``.
        arguments: Arguments of the class.

    Raises:
        RequestError: if the class refuses them.
    """
    named = [name for name in inspect.signature(kind).parameters if name not in ("args", "kwargs")]
    if issubclass(kind, ModelCheckpoint) and arguments.get("dirpath") is None:
        raise RequestError(
            f"trainer.callbacks[{number}], {kind.__name__}, has no folder; add dirpath, or leave "
            "it out: trainer.keep_checkpoints=true keeps the selected weights.",
            code="trainer.callbacks",
        )
    try:
        return kind(**arguments)
    except Exception as error:  # A user's class may fail in any way.
        raise RequestError(
            f"trainer.callbacks[{number}], {kind.__name__}: {error}. It takes "
            f"{', '.join(named) or 'nothing'}.",
            code="trainer.callbacks",
        ) from error
