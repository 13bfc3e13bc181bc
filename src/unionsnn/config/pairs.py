"""Configuration of a network that is trained to tell pairs of graphs apart."""

from __future__ import annotations

from typing import ClassVar, Literal

from unionsnn.config.schema import CoefficientConfig, GateConfig, ModelConfig, PathsConfig
from unionsnn.config.sections import PositiveInt, Section, absent_at


class PairSetConfig(Section):
    """A set of pairs, with its name and the hash of its graphs."""

    name: str
    content: str
    task: Literal["graph_pairs"] = "graph_pairs"
    batch_size: PositiveInt
    edge_features: ClassVar[Literal["none"]] = "none"


class PairProtocolConfig(Section):
    """Wang and Zhang's test.

    Args:
        copies: Number of relabelled copies of each graph.
        channels: Width of an embedding.
        alpha: Size of the test.
        margin: Margin of the loss.
        stop_loss: Mean loss of an epoch below which training ends.
        workers: Number of processes.
        together: Whether several pairs are trained in one step.
    """

    name: Literal["paired_comparison"] = "paired_comparison"
    copies: PositiveInt = 32
    channels: PositiveInt = 16
    alpha: float = 0.05
    margin: float = 0.0
    stop_loss: float = 0.2
    workers: PositiveInt = 1
    # Not recorded unless it is set: it changes no result.
    together: bool | Literal["auto"] = absent_at("auto")


class PairTrainerConfig(Section):
    """Epochs and threads of the training on a pair."""

    max_epochs: PositiveInt
    threads: PositiveInt
    progress: Literal["auto", "bar", "plain", "none"]


class AdamConfig(Section):
    """Keys of Adam."""

    lr: float
    weight_decay: float


class PairConfig(Section):
    """Configuration of a trained test of expressivity."""

    data: PairSetConfig
    protocol: PairProtocolConfig
    trainer: PairTrainerConfig
    optimizer: AdamConfig
    model: ModelConfig
    gate: GateConfig
    coefficient: CoefficientConfig
    seed: int
    run_dir: str | None
    force: bool
    paths: PathsConfig
