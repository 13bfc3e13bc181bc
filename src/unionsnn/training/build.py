"""Construction of data, network and task from a configuration."""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from pytorch_lightning.callbacks import Callback
from torch import nn
from torch.optim import Optimizer

from unionsnn.base.errors import RequestError, TooLargeError, UnionsnnError
from unionsnn.base.imports import import_named
from unionsnn.base.memory import free_bytes
from unionsnn.base.words import format_bytes, nearest
from unionsnn.coefficients import CoefficientSpec
from unionsnn.config.grid import cells_of
from unionsnn.config.pairs import PairConfig
from unionsnn.config.schema import CoefficientChoices, Config
from unionsnn.config.sections import sentences
from unionsnn.config.targets import is_network
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.nodes import NodeDataModule
from unionsnn.data.sources.download import data_root
from unionsnn.data.sources.source import NodeSource, Progress, Source
from unionsnn.models.arguments import EdgeEncoderFactory, GateFactory
from unionsnn.models.fitting import fit_to_training
from unionsnn.models.network import Network
from unionsnn.models.own import DEFAULTS, adapt, constructor_arguments, reads_edges
from unionsnn.nn.encoders import StructuralEdgeEncoder
from unionsnn.nn.features import structural_modules
from unionsnn.nn.gates import StructuralGate
from unionsnn.nn.rescaled import Scale
from unionsnn.training.extras import check_extras, make_callback, users_part
from unionsnn.training.optimizers import check_optimizer, make_optimizer
from unionsnn.training.tasks import TASKS, Task

AnyConfig = Config | PairConfig

logger = logging.getLogger(__name__)

# Keys of every data set that go to its module; others go to its source.
_MODULE_KEYS = {"name", "features", "edge_features", "batch_size", "max_pairs", "mirror", "offline"}
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
    found = import_named(target, key)
    if not (isinstance(found, type) and issubclass(found, base)):
        allowed = base if isinstance(base, tuple) else (base,)
        names = " or ".join(f"{kind.__module__}.{kind.__name__}" for kind in allowed)
        raise RequestError(
            f"{key} is {target!r}; it must be a subclass of {names}.", code="target.kind"
        )
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
    data.task, data.metric = section.task, section.metric
    data.standardize_targets = section.standardize_targets
    data.max_hours = config.coefficient.max_hours
    return data


def gate_factory(config: AnyConfig) -> GateFactory | None:
    """Return the factory of the configured gate; None without gates."""
    section = config.gate
    if section.preset is None or section.inject == "edge":
        return None
    return functools.partial(StructuralGate.preset, section.preset, **_of_gate(config))


def structural_encoder_factory(config: AnyConfig) -> EdgeEncoderFactory | None:
    """Return the factory of the encoder of coefficients as edge features; None without one."""
    section = config.gate
    if section.preset is None or section.inject == "gate":
        return None
    return functools.partial(StructuralEdgeEncoder.preset, section.preset, **_of_gate(config))


def _of_gate(config: AnyConfig) -> dict[str, Any]:
    """Return what overrides the gate's preset."""
    changes = config.gate.model_dump(exclude={"preset", "inject"}, exclude_none=True)
    return {"radius": config.coefficient.radius, **changes}


def coefficient_spec(config: AnyConfig) -> CoefficientSpec | None:
    """Return the coefficients that gate and encoder read; None for the plain model."""
    make = gate_factory(config) or structural_encoder_factory(config)
    return None if make is None else _spec(config.coefficient, make(1).required_columns)


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
    config: AnyConfig,
    num_features: int | Sequence[int],
    num_outputs: int,
    num_edge_features: int | Sequence[int] | None = None,
) -> nn.Module:
    """Make the network; with a parameter budget, the widest one within it.

    Args:
        config: The configuration.
        num_features: Width of the node features, or the cardinality of each categorical one.
        num_outputs: Number of classes or targets.
        num_edge_features: As `num_features`, of the edges; None if none are read.

    Raises:
        RequestError: if the class refuses its arguments, or the budget is too small.
    """
    section = config.model
    kind = locate(section.target, nn.Module, "model._target_")
    level = config.data.task.partition("_")[0]
    # Networks of a user need not know of the last two.
    optional = {
        "edge_channels": num_edge_features,
        "structural_encoder": structural_encoder_factory(config),
    }
    offered = {
        "in_channels": num_features,
        "out_channels": num_outputs,
        "level": level,
        "gate": gate_factory(config),
        **{key: value for key, value in optional.items() if value is not None},
    }
    typed = section.model_dump(exclude=_MODEL_NOTES)

    def make(**changes: Any) -> nn.Module:
        arguments = {**offered, **typed, **changes}
        if not is_network(section.target):
            arguments = constructor_arguments(kind, offered, {**typed, **changes})
        made: nn.Module = kind(**arguments)
        if not isinstance(made, Network):
            adapt(made, level=level, out_channels=num_outputs)
        return made

    budget = section.parameter_budget
    if budget is not None:
        # Heads and towers divide the width.
        step = typed.get("heads", typed.get("towers", 1))
        width = widest(lambda width: make(hidden_channels=width), budget, step=step)
    try:
        model = make() if budget is None else make(hidden_channels=width)
    except (TypeError, ValueError) as error:
        code = error.codes[0] if isinstance(error, RequestError) else "model.argument"
        raise RequestError(f"model {section.name}: {error}", code=code) from error
    if not is_network(section.target):
        _check_own(config, model, kind)
        if num_edge_features is not None and not (isinstance(model, Network) or reads_edges(model)):
            raise RequestError(
                f"{section.target} does not read edge features: type data.edge_features=none, or "
                "name edge_attr in its forward pass (PyG's own networks: model.edge_dim).",
                code="model.edges",
            )
    if (spec := coefficient_spec(config)) is not None:
        for module in structural_modules(model):
            module.set_columns(spec.columns)
    remove_generated_files()
    return model


def announce_own(config: Config) -> None:
    """Log what a network of the user's is passed; nothing for those of this package."""
    if is_network(config.model.target):
        return
    taken = signature(locate(config.model.target, nn.Module, "model._target_")).parameters
    required = {k: v for k, v in DEFAULTS.items() if k in taken and taken[k].default is _NOTHING}
    values = {**required, **config.model.model_dump(exclude=_MODEL_NOTES)}
    logger.info(
        "%s is not of this package: it is passed the widths of the data%s; gate=%s%s",
        config.model.target,
        "".join(f", {key}={value}" for key, value in values.items()),
        config.gate.preset or "none",
        "" if config.gate.preset else ", unless you type gate=default",
    )


_NOTHING = Parameter.empty


def _check_own(config: AnyConfig, model: nn.Module, kind: type[nn.Module]) -> None:
    """Refuse a network of the user's that does not read what is computed for it, or lacks it."""
    lazy = [name for name, each in model.named_parameters() if isinstance(each, _LAZY)]
    if lazy:
        raise RequestError(
            f"{config.model.target} has layers of unknown width ({lazy[0]}): give them the width "
            "in_channels, which its constructor is passed by that name.",
            code="model.lazy",
        )
    own, gated = structural_modules(model), config.gate.preset is not None
    if own and not gated:
        raise RequestError(
            f"{config.model.target} has gates, which read coefficients: type gate=default.",
            code="model.gate",
        )
    names = {*signature(kind).parameters, *signature(kind.forward).parameters}
    reads = {"gate", "structural_encoder", "edge_coefficient"} & names
    open_ended = any(p.kind is p.VAR_KEYWORD for p in signature(kind).parameters.values())
    if gated and not (own or reads or open_ended):
        raise RequestError(
            f"{config.model.target} reads no coefficient, so gate={config.gate.preset} has no "
            "effect: type gate=none, or read one (a constructor argument gate, a UnionPlugin, or "
            "edge_coefficient in forward).",
            code="model.gate",
        )


_LAZY = nn.parameter.UninitializedParameter


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
    config: AnyConfig,
    num_features: int | Sequence[int] = 1,
    num_outputs: int = 1,
    num_edge_features: int | Sequence[int] | None = None,
) -> None:
    """Make the network without weights, to refuse wrong arguments and too many weights early.

    Args:
        config: The configuration.
        num_features: As in `build_model`; arbitrary while the data are unknown.
        num_outputs: As in `build_model`.
        num_edge_features: As in `build_model`.

    Raises:
        RequestError: if the class refuses its arguments.
        TooLargeError: if the weights do not fit into memory.
    """
    config, layers = config.replace({"model.parameter_budget": None}), config.model.num_layers
    few = layers is None or layers <= _FEW_LAYERS
    measured = [layers] if few else [_FEW_LAYERS - 1, _FEW_LAYERS]
    if num_edge_features is None and config.data.edge_features != "none":
        num_edge_features = 1
    size = config.model.hidden_channels
    extent = "" if size is None else f" of {size:,} channels"
    found = []
    for number in measured:
        each = config.replace({"model.num_layers": number})
        try:
            with torch.device("meta"):
                model = build_model(each, num_features, num_outputs, num_edge_features)
        except (RuntimeError, RequestError) as error:
            if "overflow" in str(error).lower():
                raise TooLargeError(
                    f"model {config.model.name}{extent} has more weights than can be counted: type "
                    "a smaller model.hidden_channels."
                ) from None
            if is_network(config.model.target):
                raise
            # A constructor of the user's may compute with its tensors, which have no values there.
            with torch.random.fork_rng(devices=[]):
                model = build_model(each, num_features, num_outputs, num_edge_features)
        weights = sum(p.numel() * p.element_size() for p in model.parameters())
        found.append(_STATES * weights + _MODULE_BYTES * len([*model.modules()]))
    # Each further layer adds as much as the last one measured.
    further = 0 if layers is None or few else layers - _FEW_LAYERS
    needed = found[-1] + further * (found[-1] - found[0])
    if needed > (free := free_bytes()):
        deep = "" if layers is None else f" with {layers:,} layers"
        raise TooLargeError(
            f"model {config.model.name}{deep}{extent} needs about {format_bytes(needed)} of memory "
            f"for its weights and their optimiser, but {format_bytes(free)} are free: type a "
            "smaller model.num_layers, model.hidden_channels or model.encodings."
        )


def check_request(config: Config) -> None:
    """Refuse what network, optimiser, trainer and callbacks do not take, before data are loaded.

    Raises:
        RequestError: if a class cannot be imported or refuses its arguments.
        TooLargeError: if the weights do not fit into memory.
    """
    check_model(config)
    for cell in cells_of(config.protocol.grid or {}):
        section = config.with_cell(cell).optimizer
        check_optimizer(locate(section.target, Optimizer, "optimizer._target_"), section)
    check_extras(config.trainer)
    own_callbacks(config)


def own_callbacks(config: Config) -> list[Callback]:
    """Make the callbacks that the configuration names.

    Raises:
        RequestError: if a class cannot be imported or refuses its arguments.
    """
    section = config.trainer.callbacks or []
    made = [
        make_callback(kind, number, each.arguments)
        for number, (kind, each) in enumerate(zip(callback_kinds(config), section, strict=True))
    ]
    # Others may log metrics of their own.
    if all(each.target.startswith("pytorch_lightning.") for each in section):
        logged = [f"val_{config.data.metric}", "val_loss", "train_loss"]
        for number, callback in enumerate(made):
            monitor = getattr(callback, "monitor", None)
            if isinstance(monitor, str) and monitor not in logged:
                raise RequestError(
                    f"trainer.callbacks[{number}].monitor is {monitor!r}; allowed are "
                    f"{', '.join(logged)}.{nearest(monitor, logged)}",
                    code="trainer.callbacks",
                )
    return made


def callback_kinds(config: Config) -> list[type[Callback]]:
    """Return the classes of the callbacks that the configuration names.

    Raises:
        RequestError: if one cannot be imported.
    """
    return [
        locate(each.target, Callback, f"trainer.callbacks[{number}]._target_")
        for number, each in enumerate(config.trainer.callbacks or [])
    ]


def users_failure(error: Exception, config: Config) -> UnionsnnError | None:
    """Return an error of training as one that names the user's callback or optimiser, if it did."""
    optimizer = locate(config.optimizer.target, Optimizer, "optimizer._target_")
    key = users_part(error, callback_kinds(config), optimizer)
    if key is None:
        return None
    reason = " ".join(str(error).split())
    return UnionsnnError(
        f"{key} failed in training: {type(error).__name__}: {reason}", code="training.users_part"
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


def width_of(model: nn.Module, config: Config) -> int | None:
    """Return the hidden width; None if a network of the user's has none that is known."""
    width = getattr(model, "hidden_channels", config.model.hidden_channels)
    return width if isinstance(width, int) else None


def build_task(config: Config, data: GraphDataModule) -> Task:
    """Make the task with its network, drawing initial weights from the global generator."""
    model = build_model(config, data.num_features, data.num_outputs, data.num_edge_features)
    optimizer, scale = config.optimizer, data.target_scale()
    # Gradients in mixed precision are clipped before a fused step, which would unscale them.
    clipped = config.trainer.gradient_clip_val is not None
    fused = not (clipped and config.trainer.precision.endswith("mixed"))
    kind = locate(optimizer.target, Optimizer, "optimizer._target_")
    return TASKS[data.task](
        model,
        num_outputs=data.num_outputs,
        metric=data.metric,
        scale=None if scale is None else Scale(*scale),
        lr=optimizer.lr,
        weight_decay=optimizer.weight_decay,
        optimizer=functools.partial(make_optimizer, kind, optimizer, fused=fused),
        class_weights=data.class_weights(config.data.class_weights),
    )


def fit_gates(model: nn.Module, data: GraphDataModule) -> None:
    """Fit the network, with the statistics of gates and encoders, to the split's training part."""
    fit_to_training(
        model,
        lambda: data.part_coefficient("train"),
        lambda: data.part_sizes("train"),
        lambda: data.part_degrees("train"),
    )
