"""Checkpoints: the selected weights of a repetition, with everything to rebuild its network."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO
from torch import Tensor, nn

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.files import atomic_write
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.datasets import feature_widths
from unionsnn.training.build import build_model
from unionsnn.training.tasks import Task

_NEEDED = {"state_dict", "config", "num_features", "num_outputs"}


@dataclass(frozen=True)
class Checkpoint:
    """Selected weights, with everything to rebuild their network and name its inputs and outputs.

    Args:
        state_dict: The weights.
        config: Configuration of the experiment.
        num_features: Input channels, or the cardinality of each categorical feature.
        num_outputs: Output channels.
        class_names: Names of the classes, if they have any.
        feature_widths: Columns of each categorical feature; None in files of earlier versions.
        normalize_features: Whether the rows of node features were divided by their sums.
    """

    state_dict: dict[str, Tensor]
    config: Config
    num_features: int | list[int]
    num_outputs: int
    class_names: tuple[str, ...] = ()
    feature_widths: tuple[int, ...] | None = None
    normalize_features: bool = False


def save_checkpoint(path: Path, task: Task, config: Config, data: GraphDataModule) -> None:
    """Write the selected weights with everything needed to rebuild the network.

    The file holds plain types and tensors: `torch.load(path, weights_only=True)` reads it.
    """
    content = {
        "state_dict": task.model.state_dict(),
        "config": config.to_dict(),
        "num_features": data.num_features,
        "num_outputs": data.num_outputs,
        "coefficient_columns": [] if data.spec is None else list(data.spec.columns),
        "feature_widths": feature_widths(data.arrays, data.features),
        "class_names": list(data.arrays.class_names),
        "normalize_features": data.normalize_features,
    }
    save_tensors(path, content)


def save_tensors(path: Path, content: Any) -> None:
    """Write what `torch.load` reads, atomically.

    Raises:
        OSError: The file cannot be written.
    """
    # Into memory first: to a file, torch reports a full disk as an internal error of its own.
    buffer = io.BytesIO()
    torch.save(content, buffer)
    atomic_write(path, lambda file: file.write(buffer.getbuffer()))


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes Lightning's checkpoints like all other files; its own leave a copy when killed."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write a checkpoint."""
        save_tensors(Path(path), checkpoint)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint without running code from it.

    Raises:
        DataError: The file is damaged or not a checkpoint of this package.
    """
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.", code="checkpoint.missing") from None
    except (RuntimeError, OSError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0][:100] or "it is truncated"
        raise DataError(
            f"{path} is not a checkpoint or is damaged ({type(error).__name__}: {reason}); name a "
            "run folder, or a file of its folder checkpoints.",
            code="checkpoint.damaged",
        ) from error
    if not isinstance(content, dict) or not content.keys() >= _NEEDED:
        raise DataError(
            f"{path} is not a checkpoint of this package: it needs {', '.join(sorted(_NEEDED))}.",
            code="checkpoint.foreign",
        )
    try:
        config = Config.from_dict(content["config"])
    except RequestError as error:
        raise DataError(
            f"{path} has a configuration from another version: {' '.join(error.faults)}",
            code="checkpoint.version",
        ) from error
    normalized = (config.data.model_extra or {}).get("normalize_features", False)
    widths = content.get("feature_widths")
    return Checkpoint(
        content["state_dict"],
        config,
        content["num_features"],
        content["num_outputs"],
        tuple(str(name) for name in content.get("class_names") or ()),
        None if widths is None else tuple(widths),
        content.get("normalize_features", normalized),
    )


def network_of(checkpoint: Checkpoint) -> nn.Module:
    """Build the network of a checkpoint, in evaluation mode.

    Raises:
        DataError: The weights do not fit the network, which may differ between versions.
    """
    config = checkpoint.config
    model = build_model(config, checkpoint.num_features, checkpoint.num_outputs)
    if config.trainer.precision == "64-true":
        model.double()
    try:
        model.load_state_dict(checkpoint.state_dict)
    except RuntimeError as error:
        raise DataError(
            f"The checkpoint's weights do not fit the network of its configuration: {error}",
            code="checkpoint.weights",
        ) from error
    return model.eval()


def load_checkpoint(path: str | Path) -> nn.Module:
    """Build the network of a checkpoint file, in evaluation mode."""
    return network_of(read_checkpoint(path))
