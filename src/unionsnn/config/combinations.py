"""What does not go together in a configuration, section by section allowed by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unionsnn.base.errors import Fault

if TYPE_CHECKING:
    from unionsnn.config.schema import Config


def faults_of(config: Config) -> Iterator[Fault]:
    """Say what does not go together, in a configuration without open keys."""
    yield from _gate_faults(config)
    yield from _metric_faults(config)
    yield from _process_faults(config)
    yield from _count_faults(config)
    yield from _step_faults(config)
    yield from _tracker_faults(config)


def plain_model(name: str) -> str:
    """Return the name of the model without the union plug-in."""
    return "graphormer" if name == "unionormer" else name.removeprefix("union_")


def _gate_faults(config: Config) -> Iterator[Fault]:
    """Say what the gate cannot do with the model, the coefficient and the control.

    Excess is a_tree - a, which exists for the paper's coefficient at radius 1 only.
    """
    from unionsnn.coefficients import CoefficientSpec, space

    plain = plain_model(config.model.name)
    preset, features = config.gate.preset, config.gate.features or ()
    if preset is None:
        if config.gate.inject != "gate":
            yield Fault(
                f"gate.inject is {config.gate.inject!r}, but the plain model {config.model.name} "
                "reads no coefficient: choose a preset, such as gate=default, or leave "
                "gate.inject out.",
                "config.no_effect",
            )
        if config.coefficient.control != "none":
            yield Fault(
                f"coefficient.control is {config.coefficient.control!r}, but the plain model "
                f"{config.model.name} reads no coefficient: choose a gate, such as gate=default, "
                "or leave the control out.",
                "config.control",
            )
        if plain != config.model.name:
            yield Fault(
                f"model.name is {config.model.name!r}, but gate=none leaves out what the name "
                f"promises; type model={plain} for the plain model.",
                "config.gate",
            )
        return
    if config.gate.inject == "edge":
        for key in ("normalization", "residual", "layers", "negative_slope"):
            if getattr(config.gate, key) is not None:
                yield Fault(
                    f"gate.{key} has no effect on gate.inject=edge, which has no weights of "
                    "messages: leave it out, or type gate.inject=both.",
                    "config.no_effect",
                )
    if config.gate.of_whole_graph and config.coefficient.spec() != CoefficientSpec():
        yield Fault(
            f"gate.features={list(features)} are of the whole graph, so the choices of "
            "coefficient have no effect: leave them out, or add a feature, as in "
            f"gate.features=[raw,{','.join(features)}].",
            "config.no_effect",
        )
    if "excess" in features and not config.coefficient.spec().has_tree_value:
        yield Fault(
            f"gate.features names 'excess', which is defined for {space.paper_choices()} "
            "only; type gate.features=[raw,cyclomatic].",
            "config.gate",
        )
    normalizes = config.gate.features is None and preset in ("paper", "authors-code")
    row = space.DESCRIPTORS[config.coefficient.descriptor]
    if row.can_be_negative and (normalizes or "normalized" in features):
        yield Fault(
            f"The gate divides by the sum of a node's coefficients, which can be 0 or negative "
            f"for coefficient.descriptor={config.coefficient.descriptor}; type "
            "gate.features=[raw].",
            "config.gate",
        )


def _metric_faults(config: Config) -> Iterator[Fault]:
    """Say which metrics of the protocol the task does not log, or may not choose by."""
    validation = [f"val_{config.data.metric}", "val_loss"]
    test = [f"test_{config.data.metric}", "test_loss"]
    protocol = config.protocol
    for key in ("select_on", "stop_on"):
        given = getattr(protocol, key)
        if given is None and protocol.name == "cross_validation_paper":
            continue
        # Whatever is logged may stop a training, except what the test set says.
        allowed = [*validation, "train_loss"] if key == "stop_on" else validation
        if given not in allowed:
            why = "the test set must not select; " if given in test else ""
            yield Fault(
                f"protocol.{key} is {given!r}; {why}allowed are {', '.join(allowed)}.",
                "config.metric",
            )
    for key, metrics in (("report", test), ("curve", [*validation, *test])):
        given = getattr(protocol, key)
        if given not in metrics and not (key == "curve" and given is None):
            yield Fault(
                f"protocol.{key} is {given!r}; allowed are {', '.join(metrics)}.",
                "config.metric",
            )


def _process_faults(config: Config) -> Iterator[Fault]:
    """Say what cannot be shared out among processes."""
    workers = config.protocol.workers
    if config.protocol.together is True and (workers > 1 or config.trainer.several):
        several = (
            f"protocol.workers is {workers}: set it to 1"
            if workers > 1
            else f"{config.trainer.processes} is given: type trainer=default"
        )
        yield Fault(
            "protocol.together is true, which trains repetitions in one process, but "
            f"{several}, or leave protocol.together out.",
            "protocol.together",
        )
    if not config.trainer.several:
        return
    if workers > 1:
        yield Fault(
            f"protocol.workers is {workers} and {config.trainer.processes} is given: each worker "
            "would take all devices. Type protocol.workers=1 or trainer=default.",
            "config.workers",
        )
    if config.protocol.grid is not None:
        yield Fault(
            f"protocol.grid and {config.trainer.processes} are given: the cells of a grid are "
            "trained by one process each. Type trainer=default, and protocol.workers=N to "
            "train N repetitions at a time.",
            "config.workers",
        )
    if config.data.task.startswith("node"):
        yield Fault(
            f"{config.trainer.processes} is given, but {config.data.name} is a single graph, which "
            "cannot be divided: type trainer=default.",
            "config.devices",
        )


def _step_faults(config: Config) -> Iterator[Fault]:
    """Say which keys of a training step have no effect."""
    batches = config.trainer.accumulate_grad_batches
    if batches > 1 and config.data.task.startswith("node"):
        yield Fault(
            f"trainer.accumulate_grad_batches is {batches}, but {config.data.name} is a single "
            "graph, and an epoch one batch: leave it out.",
            "config.no_effect",
        )
    if config.trainer.swa_lr is not None and config.optimizer.schedule == "onecycle":
        yield Fault(
            "trainer.swa_lr and optimizer.schedule=onecycle both set the learning rate of the "
            "last epochs: leave trainer.swa_lr out, or choose another schedule.",
            "config.no_effect",
        )


def _count_faults(config: Config) -> Iterator[Fault]:
    """Say which epochs and repetitions there are not."""
    if config.debug is not None and config.protocol.grid is not None:
        yield Fault(
            f"debug is {config.debug!r}, which tries one configuration, but protocol.grid has "
            f"{config.protocol.num_cells}; type protocol.grid=null.",
            "config.debug",
        )
    warmup, epochs = config.optimizer.warmup, config.trainer.max_epochs
    start = config.trainer.first_averaged
    short = config.debug in ("fast", "profile")
    if start is not None and start >= epochs and not short:
        yield Fault(
            f"trainer.swa_start is {start}, but training ends after trainer.max_epochs="
            f"{epochs} epochs; choose a smaller one, or a share of them, such as 0.75.",
            "config.swa_start",
        )
    if warmup and warmup >= epochs and not short:
        yield Fault(
            f"optimizer.warmup is {warmup}, but training ends after trainer.max_epochs="
            f"{epochs} epochs; choose a smaller one.",
            "config.warmup",
        )
    count = config.protocol.num_repetitions
    beyond = [i for i in config.protocol.only or [] if i >= count]
    if beyond:
        yield Fault(
            f"protocol.only names {beyond}; the repetitions are 0 to {count - 1}.",
            "config.only",
        )


def _tracker_faults(config: Config) -> Iterator[Fault]:
    """Say why there is no checkpoint for a tracker to keep."""
    if not any(getattr(tracker, "log_model", False) for tracker in config.logger.parts):
        return
    if not config.trainer.keep_checkpoints:
        yield Fault(
            "logger.log_model is true, but trainer.keep_checkpoints is false: leave one of "
            "them out.",
            "config.no_effect",
        )
    if config.protocol.grid is not None:
        yield Fault(
            "logger.log_model is true, but a tracker has a run for each cell of protocol.grid, "
            "and only the selected one's checkpoint is kept: leave logger.log_model out.",
            "config.no_effect",
        )
