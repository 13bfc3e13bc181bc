"""Networks with a loss of their own, or that draw in evaluation, from training to the table."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch_geometric.data import Batch

from graphs import random_graphs
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.nn.batch import GraphBatch
from unionsnn.reports.views.results import print_results
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_data, build_task, fit_gates
from unionsnn.training.checkpoints import load_checkpoint
from unionsnn.training.evaluation import EVALUATIONS
from unionsnn.training.tasks import GraphClassification, GraphRegression, NodeClassification, Task

Maker = Callable[..., dict[str, Any]]


class Half(nn.Module):
    """Adds half of the loss of the negative output to the loss."""

    def __init__(self, level: str) -> None:
        super().__init__()
        self.linear, self.level = nn.Linear(3, 2), level
        self.output: Tensor | None = None

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits of all nodes, or their sums."""
        out = self.linear(batch.x)
        if self.level == "graph":
            out = out.new_zeros(batch.num_graphs, 2).index_add(0, batch.batch, out)
        self.output = out
        return out

    def auxiliary_loss(self, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Half of another loss."""
        return None if self.output is None else 0.5 * loss(-self.output)


@pytest.mark.parametrize("kind", [GraphClassification, GraphRegression, NodeClassification])
def test_what_a_network_adds_is_minimised_and_not_logged(kind: type[Task]) -> None:
    level = "node" if kind is NodeClassification else "graph"
    data = Batch.from_data_list(random_graphs(5, torch.Generator().manual_seed(0)))
    data.train_mask = torch.arange(data.num_nodes) % 2 == 0
    if level == "node":
        data.y = torch.arange(data.num_nodes) % 2
    if kind is GraphRegression:
        data.y = torch.randn(5, 2)
    task = kind(Half(level), num_outputs=2, lr=0.1, weight_decay=0.0)
    logged: dict[str, Tensor] = {}
    task._note = lambda loss, rows: logged.update({"train_loss": loss})  # type: ignore[method-assign]
    total = task.training_step(data, 0)
    out = task(data)
    own, other = (task.loss(*task.select(one, data, "train")) for one in (out, -out))
    torch.testing.assert_close(logged["train_loss"], own)
    torch.testing.assert_close(total, own + 0.5 * other)
    task.model.auxiliary_loss = lambda loss: None  # type: ignore[method-assign]
    torch.testing.assert_close(task.training_step(data, 0), own)


def test_a_network_that_draws_is_evaluated_several_times(tiny: Maker) -> None:
    choices = ["model=drop_gin", "protocol=repeated_seeds", "protocol.seeds=2"]
    config = tiny(*choices)
    record = run_experiment(config)
    for row in record.repetitions:
        others = row.other_evaluations
        assert len(others) == EVALUATIONS - 1
        assert all(set(one) == {"test_accuracy", "test_loss"} for one in others)
        # Other draws give other outputs.
        losses = {one["test_loss"] for one in (row.metrics, *others)}
        assert len(losses) == EVALUATIONS
    again = run_experiment(tiny(*choices, run_dir="again"))
    for row, other in zip(record.repetitions, again.repetitions, strict=True):
        assert row.metrics == other.metrics
        assert row.other_evaluations == other.other_evaluations
    console = Console(width=200, file=io.StringIO())
    print_results(record, console)
    assert "evaluated 5 times with other seeds" in console.file.getvalue()


def test_checkpoint_and_predictions_are_those_of_the_reported_evaluation(tiny: Maker) -> None:
    config = tiny("model=drop_gin")
    (row,) = run_experiment(config).repetitions
    folder = RunFolder.of(config).path
    with np.load(folder / "predictions" / "00.npz") as kept:
        right = kept["output"].argmax(axis=1) == kept["target"]
        expected = kept["output"]
    assert right.mean() == pytest.approx(row.metrics["test_accuracy"])
    network = load_checkpoint(folder / "checkpoints" / "00.ckpt")
    data = build_data(config)
    data.split = data.default_split(np.random.default_rng(0))
    assert network.mean_nodes == round(float(data.part_sizes("train").double().mean()))
    outputs = [network(GraphBatch.of(one)) for one in data.test_dataloader()]
    np.testing.assert_allclose(torch.cat(outputs).detach().numpy(), expected, atol=1e-5)


def test_other_networks_are_evaluated_once(tiny: Maker) -> None:
    record = run_experiment(tiny("model=gin"))
    assert record.repetitions[0].other_evaluations is None
    console = Console(width=200, file=io.StringIO())
    print_results(record, console)
    assert "other seeds" not in console.file.getvalue()


@pytest.mark.parametrize("model", ["union_nested_gin", "gatedgcn_lspe", "union_drop_gin"])
def test_the_networks_train_from_their_configuration(tiny: Maker, model: str) -> None:
    record = run_experiment(tiny(f"model={model}"))
    assert record.state == "finished"


def test_subgraphs_come_with_the_batches(tiny: Maker) -> None:
    config = tiny("model=nested_gin", "model.encodings.subgraph=2")
    data = build_data(config)
    batch = data.store.batch(torch.arange(3))
    assert int(batch.subgraph_distance.max()) == 2
    data.split = data.default_split(np.random.default_rng(0))
    task = build_task(config, data)
    fit_gates(task.model, data)
    assert task(batch).shape == (3, 2)
    with pytest.raises(RequestError, match=r"reads the encoding subgraph and no other"):
        build_task(tiny("model=nested_gin", "+model.encodings.random_walk=2"), data)


def test_subgraphs_are_part_of_the_hash_where_there_are_some(tiny: Maker) -> None:
    plain = compose_config(["model=gps"])
    assert "subgraph" not in plain.model.to_dict()["encodings"]
    hashes = {
        config_hash(tiny("model=nested_gin", f"model.encodings.subgraph={n}")) for n in (2, 3)
    }
    assert len(hashes) == 2
