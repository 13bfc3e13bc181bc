"""Losses and metrics: over the whole part, whatever the batches."""

from __future__ import annotations

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from graphs import cycle, graph, random_graphs
from unionsnn.models.gin import GIN
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.rescaled import Scale
from unionsnn.training.callbacks import Curves
from unionsnn.training.tasks import (
    GraphBinaryClassification,
    GraphClassification,
    GraphMultilabelClassification,
    GraphRegression,
    NodeClassification,
    Task,
)


def trainer(**options: object) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_epochs": 1, "num_sanity_val_steps": 0, **options},
    )


def make(task: type[Task], outputs: int, **stack: object) -> Task:
    torch.manual_seed(0)
    model = GIN(
        in_channels=3, out_channels=outputs, hidden_channels=8, num_layers=2, norm="layer", **stack
    )
    return task(model, num_outputs=outputs, lr=0.01, weight_decay=0.0)


def seven_graphs(targets: bool) -> list[Data]:
    generator = torch.Generator().manual_seed(1)
    graphs = random_graphs(7, generator)
    for data in graphs:
        if targets:
            data.y = torch.randn(1, generator=generator)
    return graphs


@pytest.mark.parametrize("name", ["val", "test"])
@pytest.mark.parametrize("regression", [False, True])
def test_seven_graphs_in_batches_of_four_give_the_value_of_the_whole(
    name: str, regression: bool
) -> None:
    graphs = seven_graphs(regression)
    task = make(GraphRegression, 1) if regression else make(GraphClassification, 2)
    whole = next(iter(DataLoader(graphs, batch_size=7)))
    task.eval()
    with torch.no_grad():
        output = task(whole)
    if regression:
        expected = {"mae": (output.squeeze(1) - whole.y).abs().mean()}
        expected["loss"] = expected["mae"]
    else:
        expected = {
            "accuracy": (output.argmax(1) == whole.y).double().mean(),
            "loss": nn.functional.cross_entropy(output, whole.y),
        }
    runner = trainer()
    run = runner.validate if name == "val" else runner.test
    (logged,) = run(task, DataLoader(graphs, batch_size=4), verbose=False)
    assert set(logged) == {f"{name}_{key}" for key in expected}
    for key, value in expected.items():
        assert logged[f"{name}_{key}"] == pytest.approx(float(value), abs=1e-6)


def test_validation_and_test_metrics_of_one_loop_are_kept_apart() -> None:
    graphs = seven_graphs(False)
    task, curves = make(GraphClassification, 2), Curves()
    loaders = [DataLoader(graphs[:3], batch_size=2), DataLoader(graphs[3:], batch_size=3)]
    runner = trainer(callbacks=[curves], max_epochs=2)
    runner.fit(task, DataLoader(graphs, batch_size=4), loaders)
    assert len(curves.history) == 2
    assert set(curves.history[0]) == {
        "train_loss", "val_loss", "val_accuracy", "test_loss", "test_accuracy"
    }  # fmt: skip
    (again,) = trainer().test(task, loaders[1], verbose=False)
    assert again["test_loss"] == pytest.approx(curves.history[-1]["test_loss"], abs=1e-6)


class Interrupts(Callback):
    """End the first evaluation after its first batch."""

    done = False

    def on_validation_batch_end(self, *_: object, **__: object) -> None:
        if not self.done:
            self.done = True
            raise ValueError("interrupted")

    on_test_batch_end = on_validation_batch_end


@pytest.mark.parametrize("name", ["validate", "test"])
def test_an_interrupted_evaluation_leaves_nothing_to_the_next(name: str) -> None:
    loader = DataLoader(seven_graphs(True), batch_size=4)
    task = make(GraphRegression, 1)
    expected = getattr(trainer(), name)(task, loader, verbose=False)
    interrupted = trainer(callbacks=[Interrupts()])
    with pytest.raises(ValueError, match="interrupted"):
        getattr(interrupted, name)(task, loader, verbose=False)
    for runner in (interrupted, trainer()):
        assert getattr(runner, name)(task, loader, verbose=False) == expected


def test_node_classification_counts_the_nodes_of_the_part_only() -> None:
    data = graph([*cycle(6), (0, 3)], 6, channels=3)
    data.x = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
    data.y = torch.tensor([0, 1, 0, 1, 1, 0])
    parts = {"train_mask": [0, 1], "val_mask": [2, 3], "test_mask": [4, 5]}
    for name, nodes in parts.items():
        data[name] = torch.zeros(6, dtype=torch.bool).index_fill_(0, torch.tensor(nodes), True)
    task = make(NodeClassification, 2, level="node")
    loader = DataLoader([data], batch_size=1)
    runner = trainer(max_epochs=30)
    runner.fit(task, loader, loader)
    (logged,) = trainer().test(task, loader, verbose=False)
    task.eval()
    with torch.no_grad():
        output = task(next(iter(loader)))
    right = (output[4:].argmax(1) == data.y[4:]).double().mean()
    assert logged["test_accuracy"] == pytest.approx(float(right))
    assert float(nn.functional.cross_entropy(output[:2], data.y[:2])) < 0.3
    batch = next(iter(loader))
    assert torch.equal(task.select(output, batch, "test")[0], output[4:])
    # Positions are found anew in a mask that has been changed.
    batch.test_mask[0] = True
    assert torch.equal(task.select(output, batch, "test")[1], data.y[[0, 4, 5]])


def test_adam_is_fused_and_has_the_given_settings() -> None:
    task = GraphClassification(
        GIN(in_channels=3, out_channels=2), num_outputs=2, lr=0.02, weight_decay=0.3
    )
    optimizer = task.configure_optimizers()
    assert optimizer.defaults["fused"] is True
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.02, 0.3)


def test_rocauc_over_batches_is_that_of_ogbs_evaluator() -> None:
    from ogb.graphproppred import Evaluator

    generator = torch.Generator().manual_seed(3)
    graphs = random_graphs(60, generator)
    for data in graphs:
        data.y = torch.randint(2, (1,), generator=generator)
    task = make(GraphBinaryClassification, 1)
    (logged,) = trainer().test(task, DataLoader(graphs, batch_size=7), verbose=False)
    task.eval()
    with torch.no_grad():
        whole = next(iter(DataLoader(graphs, batch_size=60)))
        score = task(whole)
    official = Evaluator("ogbg-molhiv").eval({"y_true": whole.y[:, None], "y_pred": score})
    assert logged["test_rocauc"] == pytest.approx(official["rocauc"], abs=1e-7)
    loss = nn.functional.binary_cross_entropy_with_logits(score[:, 0], whole.y.float())
    assert logged["test_loss"] == pytest.approx(float(loss), abs=1e-6)


def test_labels_that_are_missing_are_in_no_loss_whatever_the_batches() -> None:
    generator = torch.Generator().manual_seed(5)
    graphs = random_graphs(30, generator)
    for data in graphs:
        data.y = torch.randint(2, (1, 3), generator=generator).float()
        data.y[torch.rand(1, 3, generator=generator) < 0.4] = torch.nan
    # A batch without a label.
    graphs[0].y[:] = torch.nan
    task = make(GraphMultilabelClassification, 3)
    (logged,) = trainer().test(task, DataLoader(graphs, batch_size=7), verbose=False)
    task.eval()
    with torch.no_grad():
        whole = next(iter(DataLoader(graphs, batch_size=30)))
        score = task(whole)
    known = ~whole.y.isnan()
    expected = nn.functional.binary_cross_entropy_with_logits(score[known], whole.y[known])
    assert logged["test_loss"] == pytest.approx(float(expected), abs=1e-6)
    alone = next(iter(DataLoader(graphs[:1], batch_size=1)))
    loss = task.training_step(alone, 0)
    loss.backward()
    assert float(loss.detach()) == 0
    assert all(float(p.grad.abs().sum()) == 0 for p in task.parameters() if p.grad is not None)
    assert float(task.training_step(whole, 0).detach()) > 0


@pytest.mark.parametrize("metric", ["mae", "rmse"])
def test_a_standardized_regression_is_measured_in_the_original_units(metric: str) -> None:
    generator = torch.Generator().manual_seed(6)
    graphs = random_graphs(12, generator)
    for data in graphs:
        data.y = 100 + 7 * torch.randn(1, 2, generator=generator)
    graphs[3].y[0, 1] = torch.nan
    scale = Scale(torch.tensor([100.0, 90.0]), torch.tensor([7.0, 3.0]))
    model = make(GraphRegression, 2).model
    task = GraphRegression(
        model, num_outputs=2, metric=metric, scale=scale, lr=0.01, weight_decay=0.0
    )
    (logged,) = trainer().test(task, DataLoader(graphs, batch_size=5), verbose=False)
    whole = next(iter(DataLoader(graphs, batch_size=12)))
    with torch.no_grad():
        z = task.model.eval()(GraphBatch.of(whole))
    errors = (z * scale.std + scale.mean - whole.y).square()
    standardized = z - (whole.y - scale.mean) / scale.std
    if metric == "mae":
        expected = errors.sqrt().nanmean(dim=0).mean()
        loss = standardized.abs().nanmean()
    else:
        expected = errors.nanmean(dim=0).sqrt().mean()
        loss = standardized.square().nanmean()
    assert logged[f"test_{metric}"] == pytest.approx(float(expected), rel=1e-5)
    assert logged["test_loss"] == pytest.approx(float(loss), rel=1e-4)
