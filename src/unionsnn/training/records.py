"""The record of a repetition: its inputs and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Repetition:
    """Record of one repetition, trained, selected and tested once.

    Args:
        index: Its index.
        seed: Seed of the experiment and the index.
        split_hash: Hash of its split.
        sizes: Items of each part of the split.
        metrics: Metrics of the selected epoch.
        best_epoch: The selected epoch; None if the last one is kept.
        epochs: Epochs trained.
        curves: Metrics of each epoch.
        dataset: Name and hash of the data.
        coefficient: Coefficient that the gates read; None if there is no gate.
        coefficient_histogram: Its distribution in training.
        encodings: Encodings that the network reads.
        layer_coefficient: Coefficient that the network's own layers read.
        parameters: Trainable parameters.
        hidden_channels: Hidden width.
        device: Devices that trained.
        seconds: Wall-clock time.
        versions: Versions of Python and of packages.
        platform: Operating system.
        git_revision: Revision of a source checkout.
        other_evaluations: Test metrics with other seeds, of networks that are random in evaluation.
        grid: Results of the cells of a grid, and the selected one.
        code: SHA-256 of the file of each class of the user's own, by its dotted path.
    """

    index: int
    seed: list[int]
    split_hash: str
    sizes: Mapping[str, int]
    metrics: Mapping[str, float]
    best_epoch: int | None
    epochs: int
    curves: list[dict[str, float]]
    dataset: str
    coefficient: dict[str, Any] | None
    coefficient_histogram: dict[str, Any] | None
    encodings: dict[str, Any]
    layer_coefficient: dict[str, Any] | None
    parameters: int
    hidden_channels: int
    device: str
    seconds: float
    versions: dict[str, str]
    platform: str
    git_revision: str | None
    other_evaluations: list[dict[str, float]] | None = None
    grid: dict[str, Any] | None = None
    code: dict[str, str] | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Repetition:
        """Read a record; fields unknown to the version that wrote it are None."""
        return cls(**{each.name: content.get(each.name) for each in fields(cls)})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """Return plain types, as written to a file."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        optional = {"other_evaluations", "grid", "code"}
        return {k: v for k, v in content.items() if k not in optional or v is not None}
