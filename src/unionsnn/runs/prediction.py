"""Predictions of trained networks for new graphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unionsnn.base.errors import DataError, NonFiniteOutputError, RequestError, WidthError
from unionsnn.coefficients.planning import MAX_HOURS, check_hours
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.batching import BatchLoader
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.new_graphs import EdgeColumns, check_format, read_new_graphs
from unionsnn.data.sources.download import data_root
from unionsnn.data.sources.pyg_graphs import require_pairs
from unionsnn.data.sources.source import InMemory, Progress, Task
from unionsnn.nn.batch import GraphBatch
from unionsnn.runs.run_folder import recorded_checkpoints
from unionsnn.training.build import coefficient_spec, layer_spec
from unionsnn.training.checkpoints import Checkpoint, network_of, read_checkpoint
from unionsnn.training.devices import name_of_device, named_device
from unionsnn.training.memory import require_batches

FloatArray = NDArray[np.float64]

# Tasks whose outputs are labels that apply or not, each by itself.
_SIGMOIDS = ("graph_multilabel_classification", "link_prediction")


@dataclass(frozen=True)
class Prediction:
    """Predictions of a run's networks for graphs, nodes or pairs of nodes.

    Attributes:
        task: Name of the task.
        names: Name of each item's graph.
        nodes: Name of each node, or of both nodes of each pair; None for predictions of graphs.
        outputs: Names of the columns: classes, labels, or targets of a regression.
        repetitions: Numbers of the repetitions.
        each: Probabilities or regression values of each repetition.
        labels: The label of each graph from the folder's table, if there is one.
        notes: Notes needed to interpret the predictions.
        device: Name of the device.
        scores: Scores of the pairs of nodes, of which `each` are the sigmoids; None otherwise. They
            rank pairs whose probabilities round to 1.

    Shapes:
        names, nodes and labels [I]; each and scores [R, I, C].
    """

    task: str
    names: Sequence[str]
    nodes: Sequence[Any] | None
    outputs: Sequence[str]
    repetitions: Sequence[int]
    each: FloatArray
    labels: Sequence[str] | None
    notes: Sequence[str]
    device: str
    scores: FloatArray | None = None

    @property
    def classifies(self) -> bool:
        """Whether the columns are probabilities of classes or labels."""
        return not self.task.endswith("regression")

    @property
    def has_classes(self) -> bool:
        """Whether one of the columns is an item's class; several labels may apply at once."""
        return self.classifies and self.task not in _SIGMOIDS

    @property
    def mean(self) -> FloatArray:
        """Mean over the repetitions, [I, C]."""
        found: FloatArray = self.each.mean(axis=0)
        return found

    @property
    def spread(self) -> FloatArray | None:
        """Unbiased standard deviation over the repetitions, [I, C]; None for a single one."""
        return self.each.std(axis=0, ddof=1) if len(self.each) > 1 else None

    @property
    def predicted(self) -> list[str]:
        """Return the most probable class of each item."""
        return [self.outputs[i] for i in self.mean.argmax(axis=1)]


def predict(
    run: Path,
    file: Path,
    *,
    form: str | None = None,
    header: bool | None = None,
    symmetrize: bool = False,
    trust: bool | Collection[str] = False,
    device: str = "cpu",
    progress: Progress | None = None,
    max_hours: float | None = MAX_HOURS,
) -> Prediction:
    """Apply all repetitions of a run, or one checkpoint, to the user's graphs.

    Args:
        run: A run folder, or one of its checkpoints.
        file: A graph file, or a folder of them.
        form: Format of the file; by default chosen by its extension.
        header: Whether the first line of an edge list names its columns; None if its words tell.
        symmetrize: Whether to add the reverse of one-way edges.
        trust: As in `read_checkpoint`.
        device: Name of the device, as in `named_device`.
        progress: Called during long work.
        max_hours: Hours beyond which the expected time of coefficients is refused; None for no
            limit.

    Raises:
        TooLongError: if the coefficients would take longer.
        RequestError: if the run has no weights, none that apply to new graphs, or a network that is
            not trusted, or there is no such device.
        DataError: if a checkpoint is damaged, or the graphs do not match those that the run was
            trained on.
        NonFiniteOutputError: if an output is NaN or infinite.
    """
    check_hours(max_hours)
    place = named_device(device)
    try:
        check_format(file, form)
    except DataError as error:
        raise RequestError(str(error), code=error.codes[0]) from error
    paths, altered = recorded_checkpoints(checkpoint_paths(run))
    checkpoints = [read_checkpoint(path, trust) for path in paths]
    refuse_mixed(run, checkpoints)
    first, config = checkpoints[0], checkpoints[0].config
    refuse_control(run, config)
    level = config.data.task.partition("_")[0]
    graphs = read_new_graphs(
        file,
        features=config.data.features,
        widths=trained_widths(first),
        edges=trained_edges(first),
        level="node" if level == "node" else "graph",
        form=form,
        header=header,
        symmetrize=symmetrize,
    )
    arrays = graphs.arrays
    if level == "link":
        require_pairs(np.diff(arrays.node_slices))
        arrays = arrays.with_pairs()
    data = module_of(arrays, file, first, progress)
    data.max_hours = max_hours
    data.device = place
    scores = np.stack([apply(network_of(each).to(place), data) for each in checkpoints])
    outputs = np.stack([probabilities(each, config.data.task) for each in scores])
    for path, each in zip(paths, scores, strict=True):
        wrong = np.flatnonzero(~np.isfinite(each).all(axis=1))
        if len(wrong):
            raise NonFiniteOutputError(
                f"The network of {path} gives NaN or infinite outputs for {len(wrong)} of "
                f"{len(each)} items, first for number {wrong[0]}: its weights, or the values of "
                "the nodes, are beyond what it can compute with."
            )
    counts = np.diff(arrays.target_slices)
    nodes = None if level == "graph" else graphs.node_names
    if arrays.link_index is not None and nodes is not None:
        ends = nodes[arrays.link_index + np.repeat(arrays.node_slices[:-1], counts)]
        nodes = ends.T
    names = output_names(first, outputs.shape[2])
    unknown = []
    if graphs.labels is not None and config.data.task == "graph_classification":
        unknown = [each for each in dict.fromkeys(graphs.labels) if each and each not in names]
    return Prediction(
        task=config.data.task,
        names=tuple(np.repeat(graphs.names, counts).tolist()),
        nodes=None if nodes is None else nodes.tolist(),
        outputs=names,
        repetitions=[_number(path, i) for i, path in enumerate(paths)],
        each=outputs,
        labels=graphs.labels,
        notes=[
            *_notes(config, paths),
            *without_digest(paths, checkpoints),
            *altered,
            *graphs.notes,
            *[f"labels that are no class of the run: {', '.join(unknown[:5])}"] * bool(unknown),
        ],
        device=name_of_device(place),
        scores=scores if level == "link" else None,
    )


def checkpoint_paths(run: Path) -> list[Path]:
    """Return the checkpoints of a run folder, or the given one.

    Raises:
        RequestError: if there is none.
    """
    if run.is_file():
        return [run]
    if not run.is_dir():
        raise RequestError(
            f"{run} does not exist; name a run folder or one of its checkpoints.",
            code="predict.no_checkpoint",
        )
    paths = sorted((run / "checkpoints").glob("*.ckpt"))
    if not paths:
        inner = sorted(p.parent.parent for p in run.rglob("checkpoints/*.ckpt"))
        near = f" Did you mean {inner[0]}?" if inner else ""
        raise RequestError(
            f"{run} has no checkpoints/NN.ckpt: it is not a run folder, nothing in it has finished "
            f"yet, or it was trained with trainer.keep_checkpoints=false.{near}",
            code="predict.no_checkpoint",
        )
    return paths


def without_digest(paths: Sequence[Path], checkpoints: Sequence[Checkpoint]) -> list[str]:
    """Say which checkpoints could not be checked against a digest; empty if all could."""
    old = [path.name for path, each in zip(paths, checkpoints, strict=True) if not each.has_digest]
    if not old:
        return []
    return [
        f"{', '.join(old)}: from an earlier version, which wrote no digest of the weights, so only "
        "the checksums of the file were compared"
    ]


def refuse_mixed(run: Path, checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse checkpoints of several experiments in one folder."""
    hashes = {config_hash(each.config) for each in checkpoints}
    if len(hashes) > 1:
        raise RequestError(
            f"{run} holds checkpoints of {len(hashes)} experiments; name one of them.",
            code="predict.mixed",
        )


def refuse_control(run: Path, config: Config) -> None:
    """Refuse networks that were trained with a control."""
    control = config.coefficient.control
    if control != "none":
        raise RequestError(
            f"{run} was trained with coefficient.control={control}: its coefficients were made "
            "from those of its data set, which cannot be done for new graphs. Train with "
            "coefficient.control=none to predict.",
            code="predict.control",
        )


def module_of(
    arrays: GraphArrays,
    file: Path,
    checkpoint: Checkpoint,
    progress: Progress | None = None,
) -> GraphDataModule:
    """Make a data module of new graphs with a checkpoint's features, coefficients and encodings.

    Args:
        arrays: The graphs.
        file: Their file, for messages.
        checkpoint: The checkpoint of the network.
        progress: Called during long work.

    Raises:
        DataError: if their nodes do not match the training data.
    """
    config, columns = checkpoint.config, checkpoint.num_features
    encodings = config.model.encodings
    # Of graphs and nodes the targets are their indices, which are treated as classes.
    task: Task = "graph_classification"
    if arrays.level != "graph":
        task = "node_classification" if arrays.level == "node" else "link_prediction"
    data = GraphDataModule(
        InMemory(graphs=arrays, task=task),
        name=file.name,
        root=data_root(),
        features=config.data.features,
        edge_features=config.data.edge_features,
        batch_size=config.data.batch_size,
        max_pairs=config.data.max_pairs,
        spec=coefficient_spec(config),
        layer_spec=layer_spec(config),
        encodings=None if encodings is None else Encodings(**encodings.to_dict()),
        progress=progress,
    )
    data.widths = trained_widths(checkpoint)
    data.edge_widths = checkpoint.edge_feature_widths
    data.normalize_features = checkpoint.normalize_features
    try:
        given = int(data.graphs.num_features)
    except WidthError as error:
        kind = "degrees of nodes" if data.features == "degree" else "node_labels"
        raise DataError(
            f"{file}: {kind}: {error}, as in the training data (data.features={data.features}).",
            code=error.codes[0],
        ) from error
    if isinstance(columns, int) and given != columns:
        raise DataError(
            f"{file}: {given} columns of node features, but the network was trained on {columns} "
            f"(data.features={data.features}).",
            code="data.widths",
        )
    return data


def trained_edges(checkpoint: Checkpoint) -> EdgeColumns | None:
    """Return the features of edges of the training data; None if the network reads none."""
    labels, columns = checkpoint.edge_feature_widths, checkpoint.num_edge_features
    if columns is None:
        return None
    # With both, labels are one-hot.
    attributes = columns - sum(labels or ()) if isinstance(columns, int) else None
    return EdgeColumns(labels, attributes)


def trained_widths(checkpoint: Checkpoint) -> tuple[int, ...] | None:
    """Return the cardinality of each categorical node feature in training; None without any.

    Raises:
        RequestError: if a checkpoint of an earlier version lacks this information.
    """
    features, given = checkpoint.config.data.features, checkpoint.num_features
    if not isinstance(given, int):
        return tuple(given)
    if features not in ("labels", "degree", "both"):
        return None
    if checkpoint.feature_widths is not None:
        return tuple(checkpoint.feature_widths)
    if features == "both":
        raise RequestError(
            "The checkpoint is from an earlier version, which did not record how many of its "
            "columns are labels; train again (force=true) to predict.",
            code="predict.old_checkpoint",
        )
    return (given,)


def apply(model: nn.Module, data: GraphDataModule) -> FloatArray:
    """Return a network's outputs of all items in order: logits or regression values, [I, C]."""
    return rows_of(lambda batch: model(batch).cpu().numpy().astype(np.float64), model, data)


@torch.no_grad()
def rows_of(
    values: Callable[[GraphBatch], FloatArray],
    model: nn.Module,
    data: GraphDataModule,
    slices: IntArray | None = None,
) -> FloatArray:
    """Return what a network says of all items, in order.

    Args:
        values: Returns the rows of the items of a batch.
        model: The network, on the device of the data.
        data: The graphs.
        slices: Where the items of each graph begin and end; by default those with a target.

    Shapes:
        -> [I, C].
    """
    # The limit of pairs is for training; a larger graph gets its own batch.
    largest = int(data.store.num_nodes.max()) ** 2
    pairs = None if data.max_pairs is None else max(data.max_pairs, largest)
    loader = BatchLoader(
        data.store, range(data.num_graphs), batch_size=data.batch_size, max_pairs=pairs
    )
    advice = "this machine can only predict for smaller graphs"
    require_batches(model, loader.extents, advice, data.device)
    if slices is None:
        slices = data.arrays.target_slices
    found = None
    for graphs, batch in zip(loader.indices(), loader, strict=True):
        # A set too large for the device is streamed to it.
        batch = batch.to(data.device)
        rows = values(GraphBatch.of(batch))
        if found is None:
            found = np.empty((slices[-1], rows.shape[1]))
        places = [np.arange(slices[g], slices[g + 1]) for g in graphs.tolist()]
        found[np.concatenate(places)] = rows
    assert found is not None
    return found


def probabilities(output: FloatArray, task: str) -> FloatArray:
    """Convert outputs of a network to probabilities; regression values are unchanged.

    Shapes:
        output [I, C], of a binary score [I, 1] -> [I, C], of a binary score [I, 2]; of labels, a
        probability for each, [I, T], and of a link, [I, 1].
    """
    if task.endswith("regression"):
        return output
    if task in _SIGMOIDS:
        # Without exponentials of large numbers.
        return 0.5 * (1 + np.tanh(0.5 * output))
    if task == "graph_binary_classification":
        # The softmax of (0, score) is the sigmoid of the score.
        output = np.concatenate([np.zeros_like(output), output], axis=1)
    shifted = np.exp(output - output.max(axis=1, keepdims=True))
    found: FloatArray = shifted / shifted.sum(axis=1, keepdims=True)
    return found


def output_names(checkpoint: Checkpoint, count: int) -> list[str]:
    """Return the names of the classes, labels or targets."""
    names = checkpoint.class_names
    if checkpoint.config.data.task.endswith("regression"):
        return ["value"] if count == 1 else [f"value_{i}" for i in range(count)]
    if checkpoint.config.data.task == "link_prediction":
        return ["link"]
    if checkpoint.config.data.task == "graph_multilabel_classification":
        return [f"label_{i}" for i in range(count)]
    return list(names) if len(names) == count else [str(i) for i in range(count)]


def _number(path: Path, place: int) -> int:
    return int(path.stem) if path.stem.isdigit() else place


def _notes(config: Config, paths: Sequence[Path]) -> list[str]:
    notes = []
    if config.protocol.name == "cross_validation_paper":
        notes.append(
            "the weights are those of each fold's last epoch: cross_validation_paper selects an "
            "epoch but no weights"
        )
    if config.gate.preset == "authors-code" or config.gate.normalization == "batch":
        notes.append("a prediction depends on the other graphs of its batch (softmax over it)")
    wanted = config.protocol.num_repetitions
    if 1 < len(paths) < wanted:
        notes.append(f"{len(paths)} of {wanted} repetitions have weights on disk")
    return notes
