"""Checkpoints: the selected weights of a repetition, with all that builds its network again."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unionsnn.base.errors import DataError
from unionsnn.base.files import atomic_write
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.datasets import feature_widths
from unionsnn.training.build import build_model
from unionsnn.training.tasks import Task

_NEEDED = {"state_dict", "config", "num_features", "num_outputs"}


def save_checkpoint(
    path: Path, task: Task, config: Mapping[str, Any], data: GraphDataModule
) -> None:
    """Write the selected weights with all that is needed to build the network again.

    The file holds plain types and tensors: `torch.load(path, weights_only=True)` reads it.
    """
    content = {
        "state_dict": task.model.state_dict(),
        "config": dict(config),
        "num_features": data.num_features,
        "num_outputs": data.num_outputs,
        "coefficient_columns": [] if data.spec is None else list(data.spec.columns),
        "feature_widths": feature_widths(data.arrays, data.features),
        "class_names": list(data.arrays.class_names),
        "normalize_features": data.normalize_features,
    }
    atomic_write(path, lambda file: torch.save(content, file))


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint's content, without any code of its own.

    Raises:
        DataError: The file is damaged or no checkpoint of this package.
    """
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise DataError(f"{path} is not there.") from None
    except (RuntimeError, OSError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0][:100] or "it ends too early"
        raise DataError(
            f"{path} is no checkpoint, or damaged ({type(error).__name__}: {reason}); name a run "
            "folder, or a file of its folder checkpoints."
        ) from error
    if not isinstance(content, dict) or not content.keys() >= _NEEDED:
        raise DataError(
            f"{path} is no checkpoint of this package: it needs {', '.join(sorted(_NEEDED))}."
        )
    return content


def network_of(content: Mapping[str, Any]) -> nn.Module:
    """Build the network that a checkpoint's content describes, in evaluation mode.

    Raises:
        DataError: The weights do not fit the network, which another version may build otherwise.
    """
    model = build_model(content["config"], content["num_features"], content["num_outputs"])
    if content["config"]["trainer"]["precision"] == "64-true":
        model.double()
    try:
        model.load_state_dict(content["state_dict"])
    except RuntimeError as error:
        raise DataError(
            f"The checkpoint's weights do not fit the network of its configuration: {error}"
        ) from error
    return model.eval()


def load_checkpoint(path: str | Path) -> nn.Module:
    """Build the network that a checkpoint holds, in evaluation mode."""
    return network_of(read_checkpoint(path))
