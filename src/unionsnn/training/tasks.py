"""Tasks as LightningModules: loss, metric and optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torchmetrics import MeanAbsoluteError, Metric
from torchmetrics.classification import BinaryAUROC, MulticlassAccuracy

from unionsnn.nn.batch import GraphBatch


class Task(pl.LightningModule):
    """A network with loss, metric and optimiser.

    Logs ``train_loss``, and ``val_loss``, ``test_loss``, ``val_<metric>``, ``test_<metric>`` over
    the whole part, independent of the batches.

    Args:
        model: Called with a `GraphBatch`.
        num_outputs: Number of classes or targets.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty of Adam.
    """

    metric_name: str

    def __init__(
        self, model: nn.Module, *, num_outputs: int, lr: float, weight_decay: float
    ) -> None:
        super().__init__()
        self.model = model
        self.lr = lr
        # The sum of the losses of an epoch's rows; None outside a trainer's epochs.
        self._total: Tensor | None = None
        self._rows = 0
        self.weight_decay = weight_decay
        # Two instances, since validation and test may run in the same loop.
        self.metrics: Mapping[str, Metric] = nn.ModuleDict(  # type: ignore[assignment]
            {part: self.make_metric(num_outputs) for part in ("val", "test")}
        )

    def make_metric(self, num_outputs: int) -> Metric:
        """Return the metric of the task.

        It must not be synchronised over processes: each evaluates the whole part.
        """
        raise NotImplementedError

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss over the rows."""
        raise NotImplementedError

    def select(self, output: Tensor, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Return the rows of output and target that belong to a part of the split."""
        return output, batch.y

    def on_after_batch_transfer(self, batch: Data, dataloader_idx: int) -> Data:
        """Convert a batch to the precision of the weights, which Lightning does not do for PyG."""
        wanted = next(self.parameters()).dtype
        if wanted == torch.float32:
            return batch
        return batch.apply(lambda t: t.to(wanted) if t.is_floating_point() else t)

    def forward(self, batch: Data) -> Tensor:
        """Return the network's output for a batch, in at least single precision."""
        output: Tensor = self.model(GraphBatch.of(batch))
        return output.to(torch.promote_types(output.dtype, torch.float32))

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        """Return a batch's loss, weighted such that the mean over processes is the batch's loss."""
        output, target = self.select(self(batch), batch, "train")
        loss = self.loss(output, target)
        weight = batch.loss_weight if "loss_weight" in batch else 1.0
        self._note(loss.detach(), len(target) if weight else 0)
        auxiliary = self.auxiliary_loss(batch)
        return weight * (loss if auxiliary is None else loss + auxiliary)

    def on_train_epoch_start(self) -> None:
        """Reset the mean training loss."""
        self._total, self._rows = torch.zeros((), device=self.device), 0

    def _note(self, loss: Tensor, rows: int) -> None:
        # Logged once per epoch: Lightning's mean would take a tenth of a small network's step.
        if self._total is None:
            return
        self._total, self._rows = self._total + rows * loss, self._rows + rows
        if self.trainer.is_last_batch:
            mean = self._total / max(self._rows, 1)
            self.log(
                "train_loss",
                mean,
                on_step=False,
                on_epoch=True,
                batch_size=self._rows,
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
        return make(lambda output: self.loss(*self.select(output, batch, "train")))

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
        output, target = self.select(self(batch), batch, part)
        metric = self.metrics[part]
        metric.update(output, target)
        # Lightning averages the loss, weighted by the batch's rows.
        self.log_dict(
            {f"{part}_{self.metric_name}": metric, f"{part}_loss": self.loss(output, target)},
            on_step=False,
            on_epoch=True,
            batch_size=len(target),
            add_dataloader_idx=False,
            sync_dist=True,
        )
        return output, target

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam, fused if the device supports it."""
        fused = self.device.type in ("cpu", "cuda")
        return torch.optim.Adam(
            self.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=fused
        )


class GraphClassification(Task):
    """Classification of graphs: cross-entropy and accuracy."""

    metric_name = "accuracy"

    def make_metric(self, num_outputs: int) -> Metric:
        """Return the accuracy."""
        return MulticlassAccuracy(num_outputs, average="micro", sync_on_compute=False)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy."""
        return nn.functional.cross_entropy(output, target)


class ExactAUROC(BinaryAUROC):
    """Area under the ROC curve of raw scores, over all batches together.

    torchmetrics applies a sigmoid only to batches with scores outside [0, 1]: the order of scores
    in different batches is lost, and large scores become equal. Here the same strictly increasing
    map into [0, 1] is applied to every score first, so that ranks are preserved.
    """

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch of scores."""
        scores = preds.detach().flatten()
        # Apple's devices have no double precision.
        scores = scores.float() if scores.device.type == "mps" else scores.double()
        super().update(0.5 + 0.5 * scores / (1 + scores.abs()), target.flatten())


class GraphBinaryClassification(Task):
    """Binary classification of graphs: cross-entropy of a score and area under the ROC curve."""

    metric_name = "rocauc"

    def make_metric(self, num_outputs: int) -> Metric:
        """Return the area under the ROC curve over the whole part."""
        return ExactAUROC(sync_on_compute=False)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the binary cross-entropy with logits."""
        return nn.functional.binary_cross_entropy_with_logits(
            output.squeeze(1), target.to(output.dtype)
        )


class NodeClassification(GraphClassification):
    """Classification of the nodes of one graph, as a full batch.

    The batch has boolean `train_mask`, `val_mask` and `test_mask`, [num_nodes] each.
    """

    def select(self, output: Tensor, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Return the rows of the nodes in the part's mask."""
        mask = batch[f"{part}_mask"]
        return output[mask], batch.y[mask]


class GraphRegression(Task):
    """Regression of graphs: L1 loss and mean absolute error."""

    metric_name = "mae"

    def make_metric(self, num_outputs: int) -> Metric:
        """Return the mean absolute error over all targets."""
        return MeanAbsoluteError(sync_on_compute=False)

    def select(self, output: Tensor, batch: Data, part: str) -> tuple[Tensor, Tensor]:
        """Return all rows; a single target may have the shape [num_graphs]."""
        return output, batch.y.view_as(output)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the mean absolute error."""
        return nn.functional.l1_loss(output, target)


TASKS: Mapping[str, type[Task]] = {
    "graph_classification": GraphClassification,
    "graph_binary_classification": GraphBinaryClassification,
    "graph_regression": GraphRegression,
    "node_classification": NodeClassification,
}
"""Tasks by name in a data set's configuration."""
