"""Networks in checkpoints of Lightning: the class and the arguments that make them again."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import nn

from unionsnn.base.arguments import plain
from unionsnn.base.errors import RequestError
from unionsnn.config.targets import is_network
from unionsnn.models.network import Network


def record_network(model: nn.Module) -> dict[str, Any]:
    """Return class and arguments of a network in plain types.

    A network of this package, or derived from `Network`, keeps its arguments. Of other classes they
    are those that Lightning's ``save_hyperparameters()`` has kept in ``hparams``, or the attributes
    with the names of the constructor's parameters, if all of them are there.

    Returns:
        ``class`` and ``arguments``; or ``class`` and ``reason``, why the arguments are not known.
    """
    kind = type(model)
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        return {"class": name, "arguments": _arguments(model)}
    except RequestError as error:
        return {"class": name, "reason": " ".join(error.faults)}


def _arguments(model: nn.Module) -> dict[str, Any]:
    if isinstance(model, Network):
        return model.arguments
    kept = getattr(model, "hparams", None)
    if isinstance(kept, Mapping) and kept:
        return {name: plain(value, name) for name, value in kept.items()}
    found = {}
    for parameter in inspect.signature(type(model)).parameters.values():
        variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if variadic or not hasattr(model, parameter.name):
            raise RequestError(
                f"its constructor takes {parameter}, which is no attribute of it.",
                code="checkpoint.arguments",
            )
        found[parameter.name] = plain(getattr(model, parameter.name), parameter.name)
    return found


def network_of_record(record: Mapping[str, Any], task: str) -> nn.Module:
    """Make the network again, with new weights.

    Of code that is not of this package nothing is imported: the class must be there already.

    Args:
        record: As `record_network` returns it.
        task: Name of the task's class, for messages.

    Raises:
        RequestError: if its arguments are not known, or its class is not imported.
    """
    name = str(record.get("class"))
    instead = (
        f"build the network and type {task}.load_from_checkpoint(path, model=network), or call "
        "self.save_hyperparameters() of lightning's HyperparametersMixin in its constructor "
        "before training"
    )
    arguments = record.get("arguments")
    if arguments is None:
        raise RequestError(
            f"The checkpoint does not say how its {name} was made: {record.get('reason')} Either "
            f"{instead}.",
            code="checkpoint.arguments",
        )
    module, _, attribute = name.rpartition(".")
    if is_network(name):
        import_module(module)
    found = getattr(sys.modules.get(module), attribute, None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise RequestError(
            f"The network of the checkpoint is {name}, which is not imported, and a checkpoint of "
            f"unknown origin can name any code: import {module or 'its module'} first, or build "
            f"the network and type {task}.load_from_checkpoint(path, model=network).",
            code="checkpoint.target",
        )
    made: nn.Module = found(**arguments)
    return made
