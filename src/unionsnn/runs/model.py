"""The trained networks of a run, for graphs of PyG."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unionsnn.base.errors import DataError, NonFiniteOutputError, RequestError
from unionsnn.config.schema import Config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.pyg_graphs import read_pyg_graphs
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.rescaled import Rescaled
from unionsnn.runs.prediction import (
    apply,
    checkpoint_paths,
    module_of,
    output_names,
    probabilities,
    refuse_control,
    refuse_mixed,
    rows_of,
    trained_edges,
    trained_widths,
)
from unionsnn.runs.run_folder import recorded_checkpoints
from unionsnn.training.checkpoints import Checkpoint, network_of, read_checkpoint
from unionsnn.training.devices import named_device


@dataclass(frozen=True, eq=False)
class Model:
    """Trained networks: that of one repetition of a run, or of all.

    Graphs are those of PyG, as a `Data`, a batch, a list or a data set, with x (and edge_attr) as
    the networks were trained with: whole numbers as labels, or their one-hot columns; real numbers
    as attributes. Coefficients and encodings are computed from the edges.

    Attributes:
        path: The run folder, or the checkpoint.
        checkpoints: What was read of each repetition.
        device: Where the networks are.
    """

    path: Path
    checkpoints: Sequence[Checkpoint]
    device: torch.device

    @classmethod
    def of(
        cls,
        run: str | Path,
        repetition: int | None = None,
        *,
        trust: bool | Collection[str] = False,
        device: str = "cpu",
    ) -> Model:
        """Read the networks of a run folder, or one checkpoint.

        Args:
            run: The folder or the file.
            repetition: The number of a repetition; None for all.
            trust: Whether a network may be a class from outside of this package, or the dotted
                paths of the classes that it may be.
            device: auto, cpu, cuda or cuda:N.

        Raises:
            RequestError: if there is none, a class is not trusted, or there is no such device.
            DataError: if a checkpoint is damaged.
        """
        path, place = Path(run), named_device(device)
        paths, _ = recorded_checkpoints(checkpoint_paths(path))
        if repetition is not None:
            names = [each.stem for each in paths]
            wanted = f"{repetition:02d}"
            if wanted not in names:
                raise RequestError(
                    f"{path} has no checkpoint of repetition {repetition}; there are "
                    f"{', '.join(names)}.",
                    code="predict.no_checkpoint",
                )
            paths = [paths[names.index(wanted)]]
        checkpoints = [read_checkpoint(each, trust) for each in paths]
        refuse_mixed(path, checkpoints)
        refuse_control(path, checkpoints[0].config)
        return cls(path, checkpoints, place)

    @property
    def config(self) -> Config:
        """The configuration of the run."""
        return self.checkpoints[0].config

    @property
    def task(self) -> str:
        """The task, such as graph_classification."""
        return self.config.data.task

    @functools.cached_property
    def networks(self) -> list[nn.Module]:
        """The network of each repetition, in evaluation mode; in the original units."""
        return [network_of(each).to(self.device) for each in self.checkpoints]

    @property
    def network(self) -> nn.Module:
        """The network of the only repetition.

        Raises:
            RequestError: if there are several.
        """
        if len(self.networks) > 1:
            raise RequestError(
                f"{self.path} has {len(self.networks)} networks, each with embeddings of its own: "
                "type unionsnn.load(run, repetition=0) for one of them.",
                code="predict.repetition",
            )
        return self.networks[0]

    @functools.cached_property
    def outputs(self) -> list[str]:
        """Names of the columns of `predict`: classes, labels or targets."""
        count = self.checkpoints[0].num_outputs
        return output_names(
            self.checkpoints[0], 2 if self.task == "graph_binary_classification" else count
        )

    def predict(self, graphs: Any, *, logits: bool = False) -> Tensor:
        """Return probabilities of the classes, or values of a regression: the mean of all networks.

        Args:
            graphs: A graph of PyG, a batch, a list or a data set of them.
            logits: Whether to return the mean of the networks' outputs, before any sigmoid or
                softmax; of links these are the scores that are ranked.

        Shapes:
            -> [num_graphs, len(outputs)], for tasks on nodes [num_nodes, len(outputs)], for links
            [num_pairs, 1]: the pairs in the graphs' edge_label_index, or else each pair of
            different nodes of a graph once, in the order (0, 1), (0, 2), ..., (1, 2), ....

        Raises:
            DataError: if the graphs do not fit those that the networks were trained on.
            NonFiniteOutputError: if an output is NaN or infinite.
        """
        data = self._module(graphs)
        each = np.stack([apply(network, data) for network in self.networks])
        self._checked(each.reshape(-1, each.shape[2]))
        if not logits:
            each = np.stack([probabilities(outputs, self.task) for outputs in each])
        return self._checked(each.mean(axis=0))

    def embed(self, graphs: Any) -> Tensor:
        """Return the embeddings of graphs, or nodes, before the head of the only network.

        Args:
            graphs: As for `predict`.

        Shapes:
            -> [num_graphs, hidden_channels], or [num_nodes, hidden_channels] for tasks on nodes
            and links.

        Raises:
            RequestError: if there are several networks, or the network has no method `embed`.
            DataError: As `predict`.
        """
        network = self.network.model if isinstance(self.network, Rescaled) else self.network
        embed: Callable[[GraphBatch], Tensor] | None = getattr(network, "embed", None)
        if embed is None:
            raise RequestError(
                f"{type(network).__name__} has no method embed(batch), as the networks of "
                "unionsnn.models have.",
                code="model.embed",
            )

        def values(batch: GraphBatch) -> NDArray[np.float64]:
            return embed(batch).cpu().numpy().astype(np.float64)

        data = self._module(graphs)
        slices = None if data.task.startswith("graph") else data.arrays.node_slices
        return self._checked(rows_of(values, network, data, slices))

    def _checked(self, rows: NDArray[np.float64]) -> Tensor:
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(wrong):
            raise NonFiniteOutputError(
                f"The network of {self.path} gives NaN or infinite values for {len(wrong)} of "
                f"{len(rows)} items, first for number {wrong[0]}."
            )
        return torch.from_numpy(rows).to(torch.get_default_dtype())

    def _module(self, graphs: Any) -> GraphDataModule:
        first, level = self.checkpoints[0], self.task.partition("_")[0]
        edges = trained_edges(first)
        try:
            arrays = read_pyg_graphs(graphs, level=level, edge_features=edges is not None)
        except DataError as error:
            raise DataError(f"The graphs: {error}.", code=error.codes[0]) from error
        data = first.config.data
        if data.features in ("labels", "categorical", "both"):
            arrays = _with_labels(
                arrays, "node", trained_widths(first) or (), data.features == "both"
            )
        elif data.features == "attributes":
            arrays = _with_attributes(arrays, "node")
        if edges is not None and edges.labels is not None:
            arrays = _with_labels(arrays, "edge", edges.labels, data.edge_features == "both")
        elif edges is not None:
            arrays = _with_attributes(arrays, "edge")
        module = module_of(arrays, Path("the graphs"), first)
        module.device = self.device
        return module


def _with_labels(arrays: GraphArrays, item: str, widths: Sequence[int], both: bool) -> GraphArrays:
    """Return labels for columns that are one-hot, and the rest as attributes if both are read."""
    columns = getattr(arrays, f"{item}_attributes")
    if columns is None or getattr(arrays, f"{item}_labels") is not None:
        return arrays
    total = sum(widths)
    blocks = np.split(columns[:, :total], np.cumsum(widths)[:-1], axis=1)
    enough = columns.shape[1] > total if both else columns.shape[1] == total
    one_hot = all(((b == 0) | (b == 1)).all() and (b.sum(axis=1) == 1).all() for b in blocks)
    if not enough or not one_hot:
        key = "x" if item == "node" else "edge_attr"
        raise DataError(
            f"{key} holds {columns.shape[1]} columns of real numbers, but the network reads labels "
            f"of {', '.join(map(str, widths))} values: give whole numbers "
            f"[num_{item}s, {len(widths)}], or their {total} one-hot columns.",
            code="data.features",
        )
    labels = np.stack([block.argmax(axis=1) for block in blocks], axis=1).astype(np.int64)
    rest = columns[:, total:] if both else None
    changes: dict[str, Any] = {f"{item}_labels": labels, f"{item}_attributes": rest}
    return replace(arrays, **changes)


def _with_attributes(arrays: GraphArrays, item: str) -> GraphArrays:
    """Return whole numbers as attributes, where those are read."""
    labels = getattr(arrays, f"{item}_labels")
    if labels is None:
        return arrays
    changes: dict[str, Any] = {
        f"{item}_labels": None,
        f"{item}_attributes": labels.astype(np.float32),
    }
    return replace(arrays, **changes)
