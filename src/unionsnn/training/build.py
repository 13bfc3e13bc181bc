"""Construction of data, network and task from a configuration."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from unionsnn.base.errors import RequestError, TooLargeError, UnionsnnError
from unionsnn.base.memory import format_gigabytes, free_bytes
from unionsnn.coefficients import CoefficientSpec
from unionsnn.config.pairs import PairConfig
from unionsnn.config.schema import CoefficientChoices, Config
from unionsnn.config.sections import sentences
from unionsnn.data.datamodules import GraphDataModule, Progress
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.nodes import NodeDataModule
from unionsnn.data.sources.download import data_root
from unionsnn.data.sources.source import NodeSource, Source
from unionsnn.models.network import GateFactory, fit_to_training
from unionsnn.nn.gates import StructuralGate, gates
from unionsnn.training.tasks import TASKS, Task

AnyConfig = Config | PairConfig

# Keys of every data set that go to its module; others go to its source.
_MODULE_KEYS = {"name", "features", "batch_size", "max_pairs", "mirror", "offline"}
# Keys that identify a section rather than being arguments of its class.
_MODEL_NOTES = {"target", "name", "parameter_budget", "coefficient"}

# A weight, its gradient and the two moments of Adam; and what Python keeps of a module.
_STATES, _MODULE_BYTES = 4, 4_000
# Deeper networks are measured by their first layers.
_FEW_LAYERS = 20


def locate(target: str, base: type | tuple[type, ...], key: str) -> Any:
    """Import the class that a dotted path names.

    Args:
        target: The path.
        base: The required base class, or several alternatives.
        key: The path's key in the configuration, for messages.

    Raises:
        RequestError: if it cannot be imported, or is not such a class.
    """
    module, _, name = target.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # A user's module may fail in any way.
        raise RequestError(
            f"{key} is {target!r}, which cannot be imported ({type(error).__name__}: {error}). "
            "For a module in this folder, type PYTHONPATH=. before the command."
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        allowed = base if isinstance(base, tuple) else (base,)
        names = " or ".join(f"{kind.__module__}.{kind.__name__}" for kind in allowed)
        raise RequestError(f"{key} is {target!r}; it must be a subclass of {names}.")
    return found


def build_data(config: Config, progress: Progress | None = None) -> GraphDataModule:
    """Make the data module with everything that gate, layers and model read, without loading it.

    Raises:
        RequestError: if the class cannot be imported or refuses its arguments.
    """
    section, encodings = config.data, config.model.encodings
    arguments = section.model_extra or {}
    found = locate(section.target, (Source, GraphDataModule), "data._target_")
    try:
        if issubclass(found, Source):
            source = found(task=section.task, **arguments)
            kind = NodeDataModule if isinstance(source, NodeSource) else GraphDataModule
            make: Callable[..., GraphDataModule] = functools.partial(kind, source)
        else:
            make = functools.partial(found, **arguments)
        data = make(
            **section.model_dump(include=_MODULE_KEYS),
            root=data_root(config.paths.data),
            spec=coefficient_spec(config),
            layer_spec=layer_spec(config),
            encodings=None if encodings is None else Encodings(**encodings.to_dict()),
            progress=progress,
        )
    except ValidationError as error:
        faults = [fault for each in error.errors() for fault in sentences(each, "data")]
        raise RequestError(*faults) from error
    except (TypeError, ValueError) as error:
        raise RequestError(f"data {section.name}: {error}") from error
    data.task = section.task
    return data


def gate_factory(config: AnyConfig) -> GateFactory | None:
    """Return the factory of the configured gate; None for the plain model."""
    section = config.gate
    if section.preset is None:
        return None
    changes = section.model_dump(exclude={"preset"}, exclude_none=True)
    return functools.partial(
        StructuralGate.preset, section.preset, radius=config.coefficient.radius, **changes
    )


def coefficient_spec(config: AnyConfig) -> CoefficientSpec | None:
    """Return the coefficients that the gate reads; None for the plain model."""
    make_gate = gate_factory(config)
    if make_gate is None:
        return None
    return _spec(config.coefficient, make_gate(1).required_columns)


def layer_spec(config: AnyConfig) -> CoefficientSpec | None:
    """Return the coefficient that the model's own layers read; None if they read none."""
    section = config.model.coefficient
    return None if section is None else _spec(section, [f"a_r{r}" for r in section.radius])


def _spec(section: CoefficientChoices, columns: Sequence[str]) -> CoefficientSpec:
    spec = section.spec()
    return CoefficientSpec.from_columns(
        columns,
        substructure=spec.substructure,
        descriptor=spec.descriptor,
        encoding=spec.encoding,
        alpha=spec.alpha,
        exponent=spec.exponent,
    )


def build_model(
    config: AnyConfig, num_features: int | Sequence[int], num_outputs: int
) -> nn.Module:
    """Make the network; with a parameter budget, the widest one within it.

    Raises:
        RequestError: if the class refuses its arguments, or the budget is too small.
    """
    section = config.model
    arguments = section.model_dump(exclude=_MODEL_NOTES)
    node_level = config.data.task.startswith("node")
    make = functools.partial(
        locate(section.target, nn.Module, "model._target_"),
        in_channels=num_features,
        out_channels=num_outputs,
        level="node" if node_level else "graph",
        gate=gate_factory(config),
    )
    budget = section.parameter_budget
    if budget is not None:
        # The heads divide the width.
        arguments["hidden_channels"] = widest(
            lambda width: make(**{**arguments, "hidden_channels": width}),
            budget,
            step=arguments.get("heads", 1),
        )
    try:
        model: nn.Module = make(**arguments)
    except (TypeError, ValueError) as error:
        code = error.codes[0] if isinstance(error, RequestError) else "model.argument"
        raise RequestError(f"model {section.name}: {error}", code=code) from error
    if make.keywords["gate"] is not None:
        spec = coefficient_spec(config)
        for gate in gates(model):
            gate.set_columns(spec.columns if spec else ())
    remove_generated_files()
    return model


def remove_generated_files() -> None:
    """Delete what PyG and torch leave in the temporary directory, and do not read again.

    PyG writes a module for each of its layers' classes and imports it; torch makes a folder for
    compiled networks when it is imported, which stays unless it is empty.
    """
    temporary = Path(tempfile.gettempdir())
    # A copy: other threads may import something.
    for name, module in list(sys.modules.items()):
        if name.endswith(("_propagate", "_edge_updater")):
            path = Path(getattr(module, "__file__", None) or "")
            if path.parent == temporary:
                path.unlink(missing_ok=True)
    compiled = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""))
    if compiled.parent == temporary and compiled.name.startswith("torchinductor_"):
        with suppress(OSError):
            compiled.rmdir()


def check_model(
    config: AnyConfig, num_features: int | Sequence[int] = 1, num_outputs: int = 1
) -> None:
    """Make the network without weights, to refuse wrong arguments and too many weights early.

    Args:
        config: The configuration.
        num_features: As in `build_model`; arbitrary while the data are unknown.
        num_outputs: As in `build_model`.

    Raises:
        RequestError: if the class refuses its arguments.
        TooLargeError: if the weights do not fit into memory.
    """
    config, layers = config.replace({"model.parameter_budget": None}), config.model.num_layers
    measured = [layers] if layers <= _FEW_LAYERS else [_FEW_LAYERS - 1, _FEW_LAYERS]
    found = []
    for number in measured:
        with torch.device("meta"):
            try:
                model = build_model(
                    config.replace({"model.num_layers": number}), num_features, num_outputs
                )
            except RuntimeError as error:
                if isinstance(error, UnionsnnError) or "overflow" not in str(error).lower():
                    raise
                raise TooLargeError(
                    f"model {config.model.name} has more weights than can be counted: type a "
                    f"smaller model.hidden_channels, which is {config.model.hidden_channels:,}."
                ) from None
        weights = sum(each.numel() * each.element_size() for each in model.parameters())
        found.append(_STATES * weights + _MODULE_BYTES * len([*model.modules()]))
    # Each further layer adds as much as the last one measured.
    needed = found[-1] + (layers - measured[-1]) * (found[-1] - found[0])
    if needed > (free := free_bytes()):
        raise TooLargeError(
            f"model {config.model.name} with {layers:,} layers of {config.model.hidden_channels:,} "
            f"channels needs about {format_gigabytes(needed)} of memory for its weights and their "
            f"optimiser, but {format_gigabytes(free)} are free: type a smaller model.num_layers, "
            "model.hidden_channels or model.encodings."
        )


def widest(make: Callable[[int], nn.Module], budget: int, *, step: int = 1) -> int:
    """Return the largest width, a multiple of `step`, with at most `budget` parameters.

    Raises:
        RequestError: if even the smallest width is over the budget.
    """

    def size(steps: int) -> int:
        with torch.device("meta"):
            return count_parameters(make(steps * step))

    if size(1) > budget:
        raise RequestError(
            f"model.parameter_budget is {budget}, but the smallest model has {size(1)} parameters."
        )
    low, high = 1, 2
    while size(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= budget else (low, middle)
    return low * step


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def build_task(config: Config, data: GraphDataModule) -> Task:
    """Make the task with its network, drawing initial weights from the global generator."""
    model = build_model(config, data.num_features, data.num_outputs)
    optimizer = config.optimizer
    return TASKS[data.task](
        model,
        num_outputs=data.num_outputs,
        lr=optimizer.lr,
        weight_decay=optimizer.weight_decay,
    )


def fit_gates(model: nn.Module, data: GraphDataModule) -> None:
    """Fit the network, including the statistics of all gates, to the training part of the split."""
    fit_to_training(model, lambda: data.part_coefficient("train"), lambda: data.part_sizes("train"))
