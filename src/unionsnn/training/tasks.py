"""Tasks as LightningModules: loss, metric and optimiser."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected
from torchmetrics import Metric

from unionsnn.base.arguments import plain, require_at_least
from unionsnn.base.errors import RequestError
from unionsnn.base.rows import version_of
from unionsnn.base.words import nearest
from unionsnn.config.schema import TASK_METRICS
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.models.fitting import fit_to_training
from unionsnn.models.network import Network
from unionsnn.models.own import adapt, reads_edges
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.rescaled import Scale
from unionsnn.training.metrics import ColumnMean, class_metric
from unionsnn.training.ranking import FILTERS, MeanReciprocalRank, Queries
from unionsnn.training.recorded import network_of_record, record_network


class Task(pl.LightningModule):
    """A network with loss, metric and optimiser.

    Logs ``train_loss``, and ``val_loss``, ``test_loss``, ``val_<metric>``, ``test_<metric>`` over
    the whole part, independent of the batches. When a fit with a data module starts, what depends
    on the training graphs is fitted to them, once: statistics of gates and encoders, sizes and
    degrees, and the scale of standardized targets.

    ``load_from_checkpoint(path)`` needs nothing else for networks of this package, and for your own
    if `record_network` finds their arguments; otherwise pass ``model=``. Files are read without
    running code from them.

    Args:
        model: Called with a `GraphBatch`; one of your own may take PyG's ``forward(data)`` or
            ``forward(x, edge_index, batch)``. Or how to make it, as in a checkpoint.
        num_outputs: Number of classes or targets; by default the model's ``out_channels``.
        metric: Name of its metric; by default the task's first.
        scale: Mean and spread of the targets in training, if the network predicts standardized
            ones: outputs and metrics are in the original units, the loss is in standardized ones.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty of Adam.
        optimizer: Makes the optimiser of the task's parameters, in place of Adam.
        class_weights: Weight of each class in the loss, which is still divided by the number of
            rows; None for 1.

    Shapes:
        class_weights: [num_classes].

    Raises:
        RequestError: if a number is not allowed, the number of outputs is unknown, or a network
            cannot be made again.
    """

    name: str
    class_weights: Tensor | None

    def __init__(
        self,
        model: nn.Module | Mapping[str, Any],
        *,
        num_outputs: int | None = None,
        metric: str | None = None,
        scale: Scale | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
        class_weights: Tensor | Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        require_at_least("lr", lr, 0)
        require_at_least("weight_decay", weight_decay, 0)
        # Those of a subclass, too.
        self.save_hyperparameters(ignore=["model", "scale"])
        if not isinstance(model, nn.Module):
            model = network_of_record(model, type(self).__name__)
        self.hparams["model"] = record_network(model)
        if num_outputs is None:
            num_outputs = getattr(model, "out_channels", None)
        if not isinstance(num_outputs, int):
            raise RequestError(
                f"{type(model).__name__} has no attribute out_channels: type "
                f"{type(self).__name__}(model, num_outputs=...), the number of classes or targets.",
                code="task.outputs",
            )
        # One that `build_model` made is adapted already; a layer of torch is no network.
        own = not isinstance(model, Network) and not type(model).__module__.startswith("torch.")
        self._own = own
        if own and "forward" not in vars(model):
            adapt(model, level=self.name.partition("_")[0], out_channels=num_outputs)
        self.model = model
        self._fitted_to_training = False
        self.metric_name = metric or TASK_METRICS[self.name][0]
        allowed = TASK_METRICS[self.name]
        # A subclass may make metrics of its own.
        ours = type(self).make_metric.__module__ == __name__
        if ours and self.metric_name not in allowed:
            raise RequestError(
                f"metric is {metric!r}; {type(self).__name__} has {', '.join(allowed)}."
                f"{nearest(self.metric_name, allowed)}",
                code="config.metric",
            )
        self.scale = scale
        self.lr = lr
        # The sum of the losses of an epoch's rows; None outside a trainer's epochs.
        self._total: Tensor | None = None
        self._rows: int | Tensor = 0
        # The same of the parts that are evaluated.
        self._held: dict[str, tuple[Tensor, int]] = {}
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        weights = None if class_weights is None else torch.as_tensor(class_weights)
        self.register_buffer("class_weights", weights, persistent=False)
        # Two instances, since validation and test may run in the same loop.
        self.metrics: Mapping[str, Metric] = nn.ModuleDict(  # type: ignore[assignment]
            {part: self.make_metric(num_outputs) for part in ("val", "test")}
        )

    def on_fit_start(self) -> None:
        """Fit what depends on the training graphs, unless it is fitted or was restored.

        Raises:
            RequestError: if the data are for another task, or the network does not read their edge
                features.
        """
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(data, GraphDataModule):
            return
        if data.task != self.name:
            right = TASKS[data.task].__name__
            raise RequestError(
                f"The task of {data.name} is {data.task}, but {type(self).__name__} is for "
                f"{self.name}: use unionsnn.training.{right}.",
                code="data.task",
            )
        if data.num_edge_features is not None and self._own and not reads_edges(self.model):
            raise RequestError(
                f"{type(self.model).__name__} does not read edge features: make the data module "
                'with edge_features="none", or name edge_attr in its forward pass (PyG\'s own '
                "networks: edge_dim=...).",
                code="model.edges",
            )
        if self._fitted_to_training:
            return
        fit_to_training(
            self.model,
            lambda: data.part_coefficient("train"),
            lambda: data.part_sizes("train"),
            lambda: data.part_degrees("train"),
            again=False,
        )
        if self.scale is None and (scale := data.target_scale()) is not None:
            self.scale = Scale(*scale).to(self.device)
        self._fitted_to_training = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep in plain types what makes the task again; leave out arguments of other types."""
        self.hparams["model"] = record_network(self.model)
        kept, left_out = {}, []
        for name, value in self.hparams.items():
            try:
                kept[name] = plain(value, name)
            except RequestError:
                left_out.append(name)
        checkpoint[self.CHECKPOINT_HYPER_PARAMS_KEY] = kept
        checkpoint["unionsnn"] = {
            "task": self.name,
            "fitted": self._fitted_to_training,
            "left_out": left_out,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the precision of the weights, and whether they are fitted to a training part.

        Raises:
            RequestError: if the checkpoint is of another task.
        """
        about = checkpoint.get("unionsnn", {})
        # Files of earlier versions do not say.
        task = about.get("task", self.name)
        if task != self.name:
            right = TASKS[task].__name__ if task in TASKS else "its own class"
            raise RequestError(
                f"The task of the checkpoint is {task}, but {type(self).__name__} is for "
                f"{self.name}: use unionsnn.training.{right}.",
                code="checkpoint.task",
            )
        weights = checkpoint["state_dict"]
        tensors = [each for each in weights.values() if isinstance(each, Tensor)]
        kinds = {each.dtype for each in tensors if each.is_floating_point()}
        if len(kinds) == 1:
            self.to(kinds.pop())
        if self.scale is None and "scale.mean" in weights:
            self.scale = Scale(weights["scale.mean"].clone(), weights["scale.std"].clone())
        self._fitted_to_training = about.get("fitted", False)
        lost = [name for name in about.get("left_out", ()) if self.hparams.get(name) is None]
        if lost:
            again = ", ".join(f"{name}=..." for name in lost)
            warnings.warn(
                f"The checkpoint was written with {', '.join(lost)} of its own, which no file can "
                f"hold; the default is used instead. Type {type(self).__name__}."
                f"load_from_checkpoint(path, {again}) to train on as before.",
                stacklevel=2,
            )

    def make_metric(self, num_outputs: int) -> Metric:
        """Return the metric of the task, of each column of scores or values.

        It must not be synchronised over processes: each evaluates the whole part.
        """
        return ColumnMean(self.metric_name)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss over the rows, or over the known targets."""
        raise NotImplementedError

    def terms(self, target: Tensor) -> int | Tensor:
        """Return over how many terms the loss of a batch is a mean."""
        return len(target)

    def select(self, output: Tensor, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Return the rows of output and target that belong to a part of the split."""
        return output, batch.y

    def _in_precision(self, batch: Data) -> Data:
        """Convert a batch to the precision of the weights, which Lightning does not do for PyG."""
        # Not in a hook, of which Lightning warns if a data module is given, too.
        wanted = next(self.parameters()).dtype
        if wanted == torch.float32:
            return batch
        return batch.apply(lambda t: t.to(wanted) if t.is_floating_point() else t)

    def forward(self, batch: Data) -> Tensor:
        """Return the network's output for a batch, in at least single precision."""
        return self._in_units(self.model(GraphBatch.of(batch)))

    def _in_units(self, output: Tensor) -> Tensor:
        output = output.to(torch.promote_types(output.dtype, torch.float32))
        return output if self.scale is None else self.scale(output)

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        """Return a batch's loss, weighted such that the mean over processes is the batch's loss."""
        batch = self._in_precision(batch)
        output, target = self.select(self(batch), batch, "train")
        loss = self.loss(output, target)
        weight = batch.loss_weight if "loss_weight" in batch else 1.0
        self._note(loss.detach(), self.terms(target) if weight else 0)
        auxiliary = self.auxiliary_loss(batch)
        loss = loss if auxiliary is None else loss + auxiliary
        return loss if weight == 1 else weight * loss

    def on_train_epoch_start(self) -> None:
        """Reset the mean training loss."""
        self._total, self._rows = torch.zeros((), device=self.device), 0

    def _note(self, loss: Tensor, rows: int | Tensor) -> None:
        # Logged once per epoch: Lightning's mean would take a tenth of a small network's step.
        if self._total is None:
            return
        self._total, self._rows = self._total + rows * loss, self._rows + rows
        if self.trainer.is_last_batch:
            rows = int(self._rows)
            mean = self._total / max(rows, 1)
            self.log(
                "train_loss",
                mean,
                on_step=False,
                on_epoch=True,
                batch_size=rows,
                sync_dist=True,
            )

    def auxiliary_loss(self, batch: Data) -> Tensor | None:
        """Return the network's auxiliary loss in training, or None.

        A network may have a method ``auxiliary_loss``, called after each training pass with a
        function that returns the loss of an output for that batch.
        """
        make: Callable[..., Tensor | None] | None = getattr(self.model, "auxiliary_loss", None)
        if make is None:
            return None
        return make(lambda output: self.loss(*self.select(self._in_units(output), batch, "train")))

    def validation_step(
        self, batch: Data, batch_idx: int, dataloader_idx: int = 0
    ) -> dict[str, Tensor]:
        """Add a batch to the validation metrics, or from a second loader to the test metrics.

        Returns its rows of ``output`` and ``target``.
        """
        output, target = self._evaluate(batch, "val" if dataloader_idx == 0 else "test")
        return {"output": output, "target": target}

    def test_step(self, batch: Data, batch_idx: int) -> dict[str, Tensor]:
        """Add a batch to the test metrics; return its rows of ``output`` and ``target``."""
        output, target = self._evaluate(batch, "test")
        return {"output": output, "target": target}

    def _evaluate(self, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        output, target = self.measure(self._in_precision(batch), part)
        rows = int(self.terms(target))
        total = rows * self.loss(output, target)
        if part in self._held:
            before, count = self._held[part]
            total, rows = before + total, count + rows
        self._held[part] = total, rows
        return output, target

    def on_validation_epoch_start(self) -> None:
        """Reset the metrics and mean losses; an earlier evaluation may have been interrupted."""
        self._held = {}
        for metric in self.metrics.values():
            metric.reset()

    def on_test_epoch_start(self) -> None:
        """Reset the metrics and mean losses; an earlier evaluation may have been interrupted."""
        self.on_validation_epoch_start()

    def on_validation_epoch_end(self) -> None:
        """Log the metrics and mean losses, once for all batches."""
        for part, (total, rows) in self._held.items():
            self.log_dict(
                {
                    f"{part}_{self.metric_name}": self.metrics[part],
                    f"{part}_loss": total / rows,
                },
                # Processes count by their rows; one alone keeps its mean to the last bit.
                batch_size=rows if self.trainer.world_size > 1 else 1,
                sync_dist=True,
            )
        self._held = {}

    def on_test_epoch_end(self) -> None:
        """Log the metric and the mean loss, once for all batches."""
        self.on_validation_epoch_end()

    def measure(self, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Add a batch to the metric of a part; return its rows of output and target."""
        output, target = self.select(self(batch), batch, part)
        self.metrics[part].update(output, target)
        return output, target

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser; by default Adam, fused if the device supports it."""
        if self.optimizer is not None:
            return self.optimizer(self)
        fused = self.device.type in ("cpu", "cuda")
        return torch.optim.Adam(
            self.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=fused
        )


class GraphClassification(Task):
    """Classification of graphs: cross-entropy, accuracy or macro F1."""

    name = "graph_classification"

    def make_metric(self, num_outputs: int) -> Metric:
        """Return the metric of the classes with the largest logits."""
        return class_metric(self.metric_name, num_outputs)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy."""
        if self.class_weights is None:
            return nn.functional.cross_entropy(output, target)
        each = nn.functional.cross_entropy(
            output, target, self.class_weights.to(output.dtype), reduction="sum"
        )
        return each / max(len(target), 1)


class GraphBinaryClassification(Task):
    """Binary classification of graphs: cross-entropy of a score, which the metric ranks."""

    name = "graph_binary_classification"

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the binary cross-entropy with logits."""
        weights = None
        if self.class_weights is not None:
            weights = self.class_weights.to(output.dtype)[target.long()]
        return nn.functional.binary_cross_entropy_with_logits(
            output.squeeze(1), target.to(output.dtype), weights
        )


class NodeClassification(GraphClassification):
    """Classification of the nodes of one graph, as a full batch.

    The batch has boolean `train_mask`, `val_mask` and `test_mask`, [num_nodes] each.
    """

    name = "node_classification"

    def select(self, output: Tensor, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Return the rows of the nodes in the part's mask."""
        nodes = _positions(batch[f"{part}_mask"])
        return output.index_select(0, nodes), batch.y.index_select(0, nodes)


def _positions(mask: Tensor) -> Tensor:
    """Return where a mask is true; found once and noted on it, as a GPU has to be waited for."""
    positions, version = getattr(mask, "_positions", (None, None))
    if positions is None or version != version_of(mask):
        positions = mask.nonzero().squeeze(1)
        mask._positions = positions, version_of(mask)  # type: ignore[attr-defined]
    return positions


class _SeveralTargets(Task):
    """Targets [num_graphs, T], NaN where missing: these are in no loss and no metric."""

    def select(self, output: Tensor, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Return all rows; a single target may have the shape [num_graphs]."""
        return output, batch.y.view_as(output)

    def terms(self, target: Tensor) -> int | Tensor:
        """Return the number of known targets."""
        # A tensor, for which no training step waits.
        return target.isfinite().sum()

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the known targets; 0 without any."""
        known = target.isfinite()
        # Not output[known], whose size a GPU would have to tell.
        each = self.each_loss(output, torch.where(known, target, output.detach()))
        return torch.where(known, each, 0).sum() / known.sum().clamp(min=1)

    def each_loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each target."""
        raise NotImplementedError


class GraphMultilabelClassification(_SeveralTargets):
    """Several binary labels of a graph, some of them missing: binary cross-entropy of scores."""

    name = "graph_multilabel_classification"

    def each_loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the binary cross-entropy with logits."""
        return nn.functional.binary_cross_entropy_with_logits(output, target, reduction="none")


class GraphRegression(_SeveralTargets):
    """Regression of graphs: L1 loss for the mean absolute error, squared error for rmse and r2.

    With a scale the loss is that of standardized targets, ``|z - (y - mean) / std|``.
    """

    name = "graph_regression"

    def each_loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the absolute or squared error."""
        errors = output - target
        if self.scale is not None:
            errors = errors / self.scale.std
        return errors.abs() if self.metric_name == "mae" else errors.square()


class LinkPrediction(GraphMultilabelClassification):
    """Labels 0 and 1 of pairs of nodes: binary cross-entropy of their scores.

    The batch has the pairs in `edge_label_index`, [2, num_pairs], and their labels in `y`,
    [num_pairs, 1]. For a mean reciprocal rank a linked pair has no order: each of its nodes is
    ranked among the pairs of the other, in whichever order and however often it is listed, as in
    the files of PCQM-Contact, which list both. All pairs that `Queries` names are scored in the
    same pass.
    """

    name = "link_prediction"

    def make_metric(self, num_outputs: int) -> Metric:
        """Return the mean reciprocal rank, or another metric of all labelled pairs at once."""
        ranks = self.metric_name in FILTERS
        return MeanReciprocalRank() if ranks else super().make_metric(num_outputs)

    def measure(self, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Add a batch to the metric of a part; return scores and labels of its labelled pairs."""
        if self.metric_name not in FILTERS:
            return super().measure(batch, part)
        labelled = batch.edge_label_index
        linked = to_undirected(labelled[:, batch.y.reshape(-1) == 1], num_nodes=batch.num_nodes)
        queries = Queries.of(batch, linked)
        asked = copy.copy(batch)
        asked.edge_label_index = torch.cat([labelled, queries.pairs], dim=1)
        output, ranked = self(asked).split([labelled.size(1), queries.pairs.size(1)])
        self.metrics[part].update(queries.reciprocal_ranks(ranked.squeeze(1), self.metric_name))
        return output, batch.y.view_as(output)


TASKS: Mapping[str, type[Task]] = {
    kind.name: kind
    for kind in (
        GraphClassification,
        GraphBinaryClassification,
        GraphMultilabelClassification,
        GraphRegression,
        NodeClassification,
        LinkPrediction,
    )
}
"""Tasks by name in a data set's configuration."""
