"""Schema of a configuration: types and ranges of its fixed keys, and what is left open."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SerializeAsAny,
    WithJsonSchema,
    model_validator,
)

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.secrets import masked_content
from unionsnn.config.combinations import faults_of
from unionsnn.config.grid import cells_of
from unionsnn.config.sections import (
    EncodingsConfig,
    OptimizerConfig,
    Positive,
    PositiveInt,
    Section,
    TrainerConfig,
    absent_at,
    absent_if_none,
)
from unionsnn.config.targets import argument_faults, current_target, is_network, recorded_target
from unionsnn.tracking.tracker import Tracker, tracker_of

if TYPE_CHECKING:
    from unionsnn.coefficients import CoefficientSpec

# A name is part of paths.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
Probability = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class MetricKind:
    """What is known of a metric's values.

    Args:
        better: Which of two values is better.
        low: Smallest possible value.
        high: Largest possible value.
    """

    better: Literal["min", "max"]
    low: float = -math.inf
    high: float = math.inf


METRICS: Mapping[str, MetricKind] = {
    "accuracy": MetricKind("max", 0, 1),
    "f1": MetricKind("max", 0, 1),
    "rocauc": MetricKind("max", 0, 1),
    "ap": MetricKind("max", 0, 1),
    "mae": MetricKind("min", 0),
    "rmse": MetricKind("min", 0),
    "r2": MetricKind("max", high=1),
    "mrr-extended": MetricKind("max", 0, 1),
    "mrr-filtered": MetricKind("max", 0, 1),
    "mrr-raw": MetricKind("max", 0, 1),
    "loss": MetricKind("min"),
    "parameters": MetricKind("min"),
}
"""Direction and range of each metric (f1: of the classes' F1 the mean; ap: average precision; mrr:
mean reciprocal rank), of the loss, and of the number of parameters. Names hold no underscore: keys
are PART_METRIC."""

TASK_METRICS: Mapping[str, tuple[str, ...]] = {
    "graph_classification": ("accuracy", "f1"),
    "graph_binary_classification": ("rocauc", "ap", "accuracy", "f1"),
    "graph_multilabel_classification": ("rocauc", "ap", "accuracy"),
    "graph_regression": ("mae", "rmse", "r2"),
    "node_classification": ("accuracy", "f1"),
    "link_prediction": ("mrr-extended", "mrr-filtered", "mrr-raw", "rocauc", "ap"),
}
"""Metrics of each task; `training.metrics` and `training.ranking` compute them."""

_WITH_CLASSES = ("graph_classification", "graph_binary_classification", "node_classification")

OVERFITTED = 16
"""Largest number of training items under ``debug=overfit``."""

PROFILED_EPOCHS = 3
"""Largest number of epochs under ``debug=profile``."""

DEBUG_BATCHES = 2
"""Number of training batches under ``debug=fast``."""

FEATURES = ("labels", "categorical", "attributes", "both", "degree", "constant")
"""Choices of node features."""


def metric_mode(key: str) -> Literal["min", "max"]:
    """Return ``min`` or ``max`` for a key such as val_loss, or for parameters."""
    return METRICS[key.rpartition("_")[2]].better


_TARGET = "class of this package or of your own, by its dotted path"


class _OpenSection(Section):
    """A section whose further keys are arguments of the class `_target_`."""

    model_config = ConfigDict(extra="allow")

    target: str = Field(alias="_target_", description=_TARGET)


# Arguments of data formats that are younger than the first records.
_ABSENT_IF_NONE = ("unlabelled", "symmetrize", "header", "split_argument", "targets")


class DataConfig(_OpenSection):
    """Keys of every data set."""

    target: Annotated[str, AfterValidator(current_target), PlainSerializer(recorded_target)] = (
        Field(alias="_target_", description=_TARGET)
    )
    name: Annotated[Name, Field(description="name of the set, in names of folders and in tables")]
    task: Annotated[
        Literal[
            "graph_classification",
            "graph_binary_classification",
            "graph_multilabel_classification",
            "graph_regression",
            "node_classification",
            "link_prediction",
        ],
        Field(description="what is learned of each graph, node or pair of nodes"),
    ]
    metric: Annotated[str, Field(description="metric of results")]
    batch_size: Annotated[PositiveInt, Field(description="number of graphs in a batch")]
    features: Annotated[str, Field(description=f"features of the nodes: {', '.join(FEATURES)}")]
    mirror: str | None
    offline: bool
    # If not given, these are not part of the hash that names a run folder.
    max_pairs: PositiveInt | None = absent_if_none()
    edge_features: Literal["none", "labels", "attributes", "both"] = Field(
        "none", exclude_if=lambda value: value == "none"
    )
    standardize_targets: bool = Field(False, exclude_if=lambda value: not value)
    class_weights: (
        Literal["balanced"]
        | Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=2)]
        | None
    ) = absent_if_none()

    @model_validator(mode="before")
    @classmethod
    def _absent(cls, given: Any) -> Any:
        """Leave out open keys without effect, so that they are not part of the hash either."""
        if not isinstance(given, Mapping):
            return given
        return {k: v for k, v in given.items() if v is not None or k not in _ABSENT_IF_NONE}

    @model_validator(mode="after")
    def _names(self) -> Self:
        metrics = TASK_METRICS[self.task]
        if self.metric not in metrics:
            # A format that has no such task is the fault to mend first.
            arguments = {"task": self.task, **(self.model_extra or {})}
            if faults := argument_faults(self.target, arguments):
                raise RequestError(*faults)
            raise RequestError(
                f"data.metric is {self.metric!r}; data.task={self.task} has "
                f"data.metric={' or '.join(metrics)}.",
                code="config.metric",
            )
        if self.standardize_targets and self.task != "graph_regression":
            raise RequestError(
                "data.standardize_targets is true, but only data.task=graph_regression has targets "
                f"to standardize, not {self.task}: leave it out.",
                code="config.no_effect",
            )
        if self.class_weights is not None and self.task not in _WITH_CLASSES:
            raise RequestError(
                f"data.class_weights is {self.class_weights!r}, but data.task={self.task} has no "
                "classes of which an item has one: leave it out.",
                code="config.no_effect",
            )
        if self.features not in FEATURES:
            raise RequestError(
                f"data.features is {self.features!r}; allowed are {', '.join(FEATURES)}.",
                code="config.features",
            )
        if self.max_pairs is not None and self.task.startswith("node"):
            raise RequestError(
                f"data.max_pairs is {self.max_pairs}, but the nodes of {self.name} are those of "
                "one graph, which is not divided into batches: leave data.max_pairs out.",
                code="config.max_pairs",
            )
        return self


_RADIUS = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}


class CoefficientChoices(Section):
    """The arguments of `CoefficientSpec`, which checks them."""

    substructure: str
    descriptor: str
    encoding: str | None
    # None until gate and task are known.
    radius: Annotated[Any, WithJsonSchema(_RADIUS)] = None
    alpha: float
    exponent: float | None = None

    section: ClassVar[str] = "coefficient"

    @model_validator(mode="after")
    def _choices(self) -> Self:
        spec = self.spec()
        radius = None if self.radius is None else list(spec.radius)
        return self.model_copy(update={"encoding": spec.encoding, "radius": radius})

    def spec(self) -> CoefficientSpec:
        """Return the choices as a spec; RequestError with every fault, by key."""
        # These import compiled code, so only when there is something to check.
        from unionsnn.coefficients import CoefficientSpec
        from unionsnn.coefficients.space import DEFAULT_EXPONENT

        try:
            return CoefficientSpec(
                self.substructure,
                self.descriptor,
                self.encoding,
                (1,) if self.radius is None else self.radius,
                alpha=self.alpha,
                exponent=DEFAULT_EXPONENT if self.exponent is None else self.exponent,
            )
        except RequestError as error:
            faults = (Fault(f"{self.section}.{each}", each.code) for each in error.faults)
            raise RequestError(*faults) from None

    def with_exponent(self, task: str) -> Self:
        """Resolve an open exponent: 2 for graph tasks, 1 for node tasks (equation 8)."""
        from unionsnn.coefficients.space import DEFAULT_EXPONENT, uses

        node_count = task.startswith("node") and uses(self.descriptor, "exponent")
        return self._settled({"exponent": 1.0 if node_count else DEFAULT_EXPONENT})


class CoefficientConfig(CoefficientChoices):
    """Keys of the structural coefficient."""

    control: Literal["none", "constant", "random", "shuffled", "shuffled_within"] = "none"
    # As `coefficients.planning.MAX_HOURS`, which would import compiled code.
    max_hours: Positive | None = absent_at(1.0)


class LayerCoefficientConfig(CoefficientChoices):
    """Coefficient that a model's own layers read: one number per edge."""

    section: ClassVar[str] = "model.coefficient"

    @model_validator(mode="after")
    def _one_radius(self) -> Self:
        if len(self.radius or ()) > 1:
            raise RequestError(
                f"model.coefficient.radius is {self.radius}; the layers read one number for each "
                "edge, so give one radius.",
                code="coefficient.radius",
            )
        return self._settled({"radius": [1]})


class ModelConfig(_OpenSection):
    """Keys of every model."""

    name: Annotated[
        Name, Field(description="name of the network, in names of folders and in tables")
    ]
    # A class of the user's may have its own, or none.
    hidden_channels: PositiveInt | None = absent_if_none()
    num_layers: Annotated[int, Field(ge=1, le=10_000)] | None = absent_if_none()
    dropout: Probability | None = absent_if_none()
    parameter_budget: PositiveInt | None = None
    # A model that leaves one of these out does not take it.
    norm: Literal["auto", "batch", "layer", "none"] | None = absent_if_none()
    readout: Literal["sum", "mean", "max"] | None = absent_if_none()
    coefficient: LayerCoefficientConfig | None = absent_if_none()
    max_path: PositiveInt | None = absent_if_none()
    encodings: EncodingsConfig | None = absent_if_none()

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        sizes = ("hidden_channels", "num_layers", "dropout")
        missing = [f"model.{key}" for key in sizes if getattr(self, key) is None]
        if missing and is_network(self.target):
            raise RequestError(
                *(f"{k} is missing; type {k}=..., or leave out what deletes it." for k in missing),
                code="config.missing",
            )
        return self


class GateConfig(Section):
    """A preset of `StructuralGate`, choices that override it, and where its features enter.

    Null keeps the preset's choice. `inject` says whether the features are read by gates on messages
    or attention, by an encoder whose output is added to the edge features, or by both.
    """

    preset: Literal["paper", "authors-code", "default"] | None
    features: (
        Annotated[
            list[
                Literal[
                    "raw",
                    "normalized",
                    "excess",
                    "cyclomatic",
                    "size",
                    "eigenvalues",
                    "distances",
                    "marked",
                    "cycles",
                ]
            ],
            Field(min_length=1),
        ]
        | None
    ) = None
    normalization: Literal["neighborhood", "batch", "none"] | None = None
    residual: bool | None = None
    layers: Literal[1, 2] | None = None
    negative_slope: float | None = None
    normalize_over: Literal["receiver", "sender"] | None = None
    offset: float | None = None
    # What has no effect is not part of the hash that names a run folder.
    inject: Literal["gate", "edge", "both"] = Field(
        "gate", exclude_if=lambda value: value == "gate"
    )

    @property
    def of_whole_graph(self) -> bool:
        """Whether the features have neither a substructure nor a radius."""
        from unionsnn.coefficients.space import QUANTITIES

        rows = [QUANTITIES.get(feature) for feature in self.features or ()]
        return bool(rows) and all(row is not None and row.of_whole_graph for row in rows)


class ProtocolConfig(Section):
    """How an experiment is split, repeated and selected, and what it reports."""

    name: Annotated[
        Literal["holdout", "repeated_seeds", "cross_validation", "cross_validation_paper"],
        Field(description="name of the protocol: how repetitions are split and selected"),
    ]
    select_on: str | None
    stop_on: str | None
    report: str
    curve: str | None = None
    patience: PositiveInt
    folds: Annotated[int, Field(ge=3, le=100_000)] | None = None
    seeds: Annotated[int, Field(ge=1, le=100_000)] | None = None
    split_folder: str | None = None
    train_size: PositiveInt | None = None
    only: list[Annotated[int, Field(ge=0)]] | None
    workers: PositiveInt
    # Not recorded unless it is set: it changes no result.
    together: bool | Literal["auto"] = absent_at("auto")
    # Checked as a whole in grid.py.
    grid: dict[str, list[Any]] | None = absent_if_none()

    @model_validator(mode="after")
    def _repeats(self) -> Self:
        """Refuse a count of another protocol, which an experiment may have set."""
        counts = {"folds": self.is_cross_validation, "seeds": self.name == "repeated_seeds"}
        for key, belongs in counts.items():
            if getattr(self, key) is not None and not belongs:
                raise RequestError(
                    f"protocol.{key} is {getattr(self, key)}, but protocol={self.name} has no "
                    f"{key}; type ~protocol.{key} to leave it out.",
                    code="config.no_effect",
                )
        return self

    @property
    def is_cross_validation(self) -> bool:
        """Whether the repetitions are folds, whose training parts overlap."""
        return self.name.startswith("cross")

    @property
    def unit(self) -> str:
        """What a repetition is called."""
        return "fold" if self.is_cross_validation else "repetition"

    @property
    def num_repetitions(self) -> int:
        """Number of folds or seeds; 1 for a holdout."""
        if self.name == "holdout":
            return 1
        return (self.folds if self.is_cross_validation else self.seeds) or 10

    @property
    def wanted(self) -> tuple[int, ...]:
        """Repetitions requested."""
        return tuple(range(self.num_repetitions) if self.only is None else sorted(set(self.only)))

    @property
    def num_cells(self) -> int:
        """Trainings of a repetition: one for each cell of the grid."""
        return 1 if self.grid is None else len(cells_of(self.grid))

    @property
    def keeps_test_curve(self) -> bool:
        """Whether the test set is evaluated in every epoch."""
        return self.name == "cross_validation_paper"

    @property
    def mean_curve(self) -> str:
        """Metric whose mean over the folds selects the epoch of ``cross_validation_paper``."""
        return self.curve or "test_accuracy"

    @property
    def selection(self) -> str:
        """The selection rule in words, printed with every result."""
        if self.keeps_test_curve:
            rule = f"single epoch with the best mean {self.mean_curve} over the folds"
            by_test = "test" in self.mean_curve
            return f"{rule}: selected on the folds it reports" if by_test else rule
        rule = f"best {self.select_on} of the repetition, test touched once"
        if self.grid is None:
            return rule
        on = f"selected per {self.unit} on {self.select_on}"
        return f"nested: grid of {self.num_cells}, {on}; {rule}"


class PathsConfig(Section):
    """Folders."""

    data: str | None
    output: str


class Config(Section):
    """The checked configuration of one experiment, with open keys resolved."""

    data: DataConfig
    model: ModelConfig
    gate: GateConfig
    coefficient: CoefficientConfig
    protocol: ProtocolConfig
    optimizer: OptimizerConfig
    trainer: TrainerConfig
    logger: Annotated[SerializeAsAny[Tracker], BeforeValidator(tracker_of)]
    paths: PathsConfig
    seed: Annotated[int, Field(ge=0)]
    run_dir: str | None
    force: bool
    accept_code: bool = Field(False, exclude_if=lambda value: not value)
    # A trial of the request itself, whose result is none.
    debug: Literal["fast", "overfit", "profile"] | None = absent_if_none()
    # Values that are not recorded wherever they stand.
    _secrets: tuple[str, ...] = PrivateAttr(())

    def hiding(self, secrets: tuple[str, ...]) -> Self:
        """Return a copy that is recorded without these values."""
        made = self.model_copy()
        made._secrets = secrets
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, as written to files, without absent keys and secrets."""
        plain: dict[str, Any] = masked_content(self.model_dump(by_alias=True), self._secrets)
        return plain

    def with_cell(self, cell: Mapping[str, Any]) -> Self:
        """Return the configuration of a cell of the grid, without the grid."""
        made = self.replace({"protocol.grid": None, **cell})
        return made.model_copy(update={"optimizer": made.optimizer.of_its_schedule()})

    @model_validator(mode="after")
    def _as_a_whole(self) -> Self:
        """Settle what one section leaves to another, then refuse what does not go together."""
        task, coefficient, model, gate = self.data.task, self.coefficient, self.model, self.gate
        coefficient = coefficient.with_exponent(task)
        if coefficient.radius is None:
            # In a large graph with hubs, a subgraph of radius 3 is most of the graph.
            several = (
                gate.preset in (None, "default")
                and not task.startswith("node")
                and coefficient.spec().has_tree_value
                and not gate.of_whole_graph
            )
            coefficient = coefficient.replace({"radius": [1, 2, 3] if several else [1]})
        if model.norm == "auto":
            # A full batch is one step per epoch, so running statistics would lag behind for long.
            model = model.replace({"norm": "layer" if task.startswith("node") else "batch"})
        if model.coefficient is not None:
            model = model.replace({"coefficient": model.coefficient.with_exponent(task)})
        without_excess = gate.preset == "default" and not coefficient.spec().has_tree_value
        if without_excess and gate.features is None:
            gate = gate.replace({"features": ["raw", "cyclomatic"]})
        settled = self.model_copy(update={"coefficient": coefficient, "model": model, "gate": gate})
        if faults := list(faults_of(settled)):
            raise RequestError(*faults)
        return settled if settled.debug is None else settled._debugged()

    def _debugged(self) -> Self:
        """Return the request with what `debug` sets."""
        model, protocol = self.model, self.protocol
        one = {"protocol.only": protocol.only or [0]}
        if self.debug == "fast":
            return self.replace({"trainer.max_epochs": 1})
        if self.debug == "profile":
            epochs = min(self.trainer.max_epochs, PROFILED_EPOCHS)
            return self.replace({**one, "trainer.max_epochs": epochs})
        others = {key for key in model.model_extra or {} if key.endswith("dropout")}
        size = min(protocol.train_size or OVERFITTED, OVERFITTED)
        return self.replace(
            {
                **one,
                "protocol.train_size": size,
                # Only the training loss counts.
                "protocol.patience": self.trainer.max_epochs,
                **{f"model.{key}": 0.0 for key in ("dropout", *sorted(others))},
                "optimizer.weight_decay": 0.0,
                "optimizer.weight_decay_on": "all",
                **{f"trainer.{key}": None for key in ("ema_decay", "swa_start", "swa_lr")},
            }
        )
