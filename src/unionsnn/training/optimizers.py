"""Optimisers of any class, with the arguments that it takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import LBFGS, Optimizer, SparseAdam

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.words import nearest
from unionsnn.config.sections import OptimizerConfig

# Classes whose fused form computes all that the others do.
_FUSED = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
# Arguments that have a key of their own, or are set by the suite.
_SET = ("self", "params", "lr", "weight_decay", "fused")


def parameter_groups(module: nn.Module, section: OptimizerConfig) -> list[Any]:
    """Return the parameters, or two groups of which one is without weight decay.

    Without are parameters of one dimension or none: biases, weights of norms, learned scalars.
    """
    parameters = [*module.parameters()]
    if section.weight_decay_on == "all":
        return parameters
    parts = [p for p in parameters if p.dim() > 1], [p for p in parameters if p.dim() <= 1]
    decays = section.weight_decay, 0.0
    return [
        {"params": part, "weight_decay": decay}
        for part, decay in zip(parts, decays, strict=True)
        if part
    ]


def make_optimizer(
    kind: type[Any], section: OptimizerConfig, module: nn.Module, *, fused: bool = True
) -> Optimizer:
    """Make the optimiser of a module's parameters.

    Args:
        kind: Its class.
        section: Its arguments.
        module: The module, on its device.
        fused: Whether one kernel may update all parameters, where the class has one.
    """
    # What YAML writes as a list, such as Adam's betas, is a tuple to torch.
    arguments: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in section.arguments.items()
    }
    if "weight_decay" in inspect.signature(kind).parameters:
        arguments["weight_decay"] = section.weight_decay
    device = next(module.parameters()).device.type
    if fused and kind in _FUSED and device in ("cpu", "cuda"):
        arguments["fused"] = True
    made: Optimizer = kind(parameter_groups(module, section), lr=section.lr, **arguments)
    return made


def check_optimizer(kind: type[Optimizer], section: OptimizerConfig) -> None:
    """Refuse arguments that a class of optimisers does not take.

    Raises:
        RequestError: with what it takes.
    """
    if faults := [*_faults(kind, section)]:
        raise RequestError(*faults)
    try:
        # A matrix and a vector: some classes take matrices alone.
        make_optimizer(kind, section, nn.Linear(1, 1, device="cpu"))
    except Exception as error:  # A user's class may fail in any way.
        raise RequestError(
            f"optimizer {section.target}: {error}", code="optimizer.argument"
        ) from error


def _faults(kind: type[Optimizer], section: OptimizerConfig) -> Iterator[Fault]:
    parameters = inspect.signature(kind).parameters
    named = [
        name
        for name, each in parameters.items()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    open_ended = any(each.kind == each.VAR_KEYWORD for each in parameters.values())
    own = [name for name in named if name not in _SET]
    known = [*own, *OptimizerConfig.model_fields]
    if issubclass(kind, LBFGS):
        yield Fault(
            f"optimizer._target_ is {section.target!r}, which evaluates the loss several times in "
            "a step; choose a class that does so once, such as optimizer=adam.",
            "optimizer.argument",
        )
    if issubclass(kind, SparseAdam):
        yield Fault(
            f"optimizer._target_ is {section.target!r}, which takes sparse gradients alone; those "
            "of the networks are dense: choose another class, such as optimizer=adam.",
            "optimizer.argument",
        )
    for key in section.arguments:
        if key in _SET or not (key in own or open_ended):
            yield Fault(
                f"optimizer.{key} is not an argument of {section.target}.{nearest(key, known)} It "
                f"takes {', '.join(own) or 'none'}.",
                "optimizer.argument",
            )
    if "lr" not in named and not open_ended:
        yield Fault(
            f"optimizer._target_ is {section.target!r}, which has no argument lr; choose a class "
            "that takes a learning rate.",
            "optimizer.argument",
        )
    if section.weight_decay and "weight_decay" not in named:
        yield Fault(
            f"optimizer.weight_decay is {section.weight_decay}, but {section.target} has none; "
            "type optimizer.weight_decay=0.0.",
            "optimizer.argument",
        )
