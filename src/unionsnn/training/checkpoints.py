"""Checkpoints: the selected weights of a repetition, with everything to rebuild its network."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.files import atomic_write, open_regular
from unionsnn.config.schema import Config
from unionsnn.config.targets import is_network
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.datasets import feature_widths
from unionsnn.nn.rescaled import Rescaled, Scale
from unionsnn.training.build import build_model, check_model
from unionsnn.training.tasks import Task

_NEEDED = {"state_dict", "config", "num_features", "num_outputs"}

_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class _Content(BaseModel):
    """What a checkpoint file holds beside what this version does not read."""

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True, extra="allow")

    state_dict: dict[str, Tensor]
    config: dict[str, Any]
    num_features: _Count | list[_Count] | tuple[_Count, ...]
    num_outputs: _Count
    class_names: list[str | int | float] | tuple[str | int | float, ...] = ()
    feature_widths: list[_Count] | tuple[_Count, ...] | None = None
    num_edge_features: _Count | list[_Count] | tuple[_Count, ...] | None = None
    edge_feature_widths: list[_Count] | tuple[_Count, ...] | None = None
    normalize_features: bool | None = None
    target_scale: list[list[float]] | None = None
    digest: str | None = None


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
        num_edge_features: As `num_features`, of the edges; None if none are read.
        edge_feature_widths: As `feature_widths`, of the edges.
        has_digest: Whether the file has a digest, which was found to be right; files of earlier
            versions have none.
        target_scale: Mean and standard deviation of each target in training, if the network
            predicts standardized ones.
    """

    state_dict: dict[str, Tensor]
    config: Config
    num_features: int | list[int]
    num_outputs: int
    class_names: tuple[str, ...] = ()
    feature_widths: tuple[int, ...] | None = None
    normalize_features: bool = False
    num_edge_features: int | list[int] | None = None
    edge_feature_widths: tuple[int, ...] | None = None
    has_digest: bool = True
    target_scale: list[list[float]] | None = None


def save_checkpoint(path: Path, task: Task, config: Config, data: GraphDataModule) -> None:
    """Write the selected weights with everything needed to rebuild the network.

    The file holds plain types and tensors: `torch.load(path, weights_only=True)` reads it.
    """
    content: dict[str, Any] = {
        "state_dict": task.model.state_dict(),
        "config": config.to_dict(),
        "num_features": data.num_features,
        "num_outputs": data.num_outputs,
        "coefficient_columns": [] if data.spec is None else list(data.spec.columns),
        "feature_widths": feature_widths(data.arrays, data.features),
        "class_names": list(data.arrays.class_names),
        "normalize_features": data.normalize_features,
    }
    if data.edge_features != "none":
        content["num_edge_features"] = data.num_edge_features
        content["edge_feature_widths"] = data.edge_label_widths
    if task.scale is not None:
        content["target_scale"] = [task.scale.mean.tolist(), task.scale.std.tolist()]
    save_tensors(path, {**content, "digest": content_digest(content)})


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a checkpoint's weights and of everything that comes with them."""
    rest = {k: v for k, v in content.items() if k not in ("state_dict", "digest")}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True, default=repr).encode())
    for name, tensor in sorted(content["state_dict"].items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_tensors(path: Path, content: Any) -> None:
    """Write what `torch.load` reads, atomically.

    Raises:
        OSError: The file cannot be written.
    """
    # Into memory first: to a file, torch reports a full disk as an internal error of its own.
    buffer = io.BytesIO()
    torch.save(content, buffer)
    atomic_write(path, lambda file: file.write(buffer.getbuffer()))


def load_tensors(path: Path) -> Any:
    """Read what `save_tensors` wrote without running code from it; torch ignores the checksums.

    Raises:
        Exception: The file is damaged, which can surface anywhere between zip and pickle.
    """
    with open_regular(path) as file:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {damaged}")
        file.seek(0)
        return torch.load(file, weights_only=True, map_location="cpu")


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes Lightning's checkpoints like all other files; its own leave a copy when killed."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write a checkpoint."""
        save_tensors(Path(path), checkpoint)


def read_content(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote, without running code from it, and check its digest.

    Raises:
        DataError: The file is damaged, or not a checkpoint of this package.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist.", code="checkpoint.missing")
    if not path.is_file():
        # A pipe would be waited for.
        raise DataError(
            f"{path} is not a regular file; name a run folder, or a file of its folder "
            "checkpoints.",
            code="checkpoint.damaged",
        )
    try:
        content = load_tensors(path)
    except Exception as error:
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
        _Content.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise DataError(
            f"{path} is not a checkpoint of this package: {key} is {repr(first['input'])[:100]} "
            f"({first['msg']}).",
            code="checkpoint.foreign",
        ) from error
    if content.get("digest") not in (None, content_digest(content)):
        raise DataError(
            f"{path} does not hold what was written: its digest is of other weights. Restore the "
            "file, or train again (force=true).",
            code="checkpoint.damaged",
        )
    return content


def read_checkpoint(path: str | Path, trust: bool | Collection[str] = False) -> Checkpoint:
    """Read a checkpoint without running code from it, or importing what it names.

    Args:
        path: The file.
        trust: Whether its network may be a class from outside of this package, or the dotted paths
            of the classes that it may be.

    Raises:
        DataError: The file is damaged, or not a checkpoint of this package.
        RequestError: Its network is a class that is not trusted.
    """
    path = Path(path)
    content = read_content(path)
    try:
        config = Config.from_dict(content["config"])
    except RequestError as error:
        raise DataError(
            f"{path} has a configuration from another version: {' '.join(error.faults)}",
            code="checkpoint.version",
        ) from error
    except Exception as error:  # Checks rely on the types of what this package composes.
        raise DataError(
            f"{path} has a configuration that cannot be read ({type(error).__name__}: {error}).",
            code="checkpoint.version",
        ) from error
    target = config.model.target
    allowed = trust if isinstance(trust, bool) else target in trust
    if not (allowed or is_network(target)):
        raise RequestError(
            f"{path} names the network {target}, which is not of this package, so it was not "
            "imported: a checkpoint of unknown origin can name any code. If you know where the "
            "file comes from, type --trust, or --config-dir FOLDER with a file of yours in "
            "FOLDER/model that names the class; in Python, trust=True.",
            code="checkpoint.target",
        )
    normalized = (config.data.model_extra or {}).get("normalize_features", False)
    widths = content.get("feature_widths")
    features, of_edges = content["num_features"], content.get("num_edge_features")
    edge_widths = content.get("edge_feature_widths")
    return Checkpoint(
        content["state_dict"],
        config,
        features if isinstance(features, int) else list(features),
        content["num_outputs"],
        tuple(str(name) for name in content.get("class_names") or ()),
        None if widths is None else tuple(widths),
        content.get("normalize_features", normalized),
        of_edges if of_edges is None or isinstance(of_edges, int) else list(of_edges),
        None if edge_widths is None else tuple(edge_widths),
        content.get("digest") is not None,
        content.get("target_scale"),
    )


def network_of(checkpoint: Checkpoint) -> nn.Module:
    """Build the network of a checkpoint, in evaluation mode, with outputs in the original units.

    Raises:
        DataError: The weights do not fit the network, which may differ between versions.
    """
    config = checkpoint.config
    sizes = checkpoint.num_features, checkpoint.num_outputs, checkpoint.num_edge_features
    check_model(config, *sizes)
    model = build_model(config, *sizes)
    if config.trainer.precision == "64-true":
        model.double()
    try:
        model.load_state_dict(checkpoint.state_dict)
    except RuntimeError as error:
        raise DataError(
            f"The checkpoint's weights do not fit the network of its configuration: {error}",
            code="checkpoint.weights",
        ) from error
    if checkpoint.target_scale is not None:
        mean, std = (torch.tensor(row) for row in checkpoint.target_scale)
        model = Rescaled(model, Scale(mean, std))
    return model.eval()


def load_checkpoint(path: str | Path, trust: bool | Collection[str] = False) -> nn.Module:
    """Build the network of a checkpoint file, in evaluation mode.

    `trust` is that of `read_checkpoint`.
    """
    return network_of(read_checkpoint(path, trust))
