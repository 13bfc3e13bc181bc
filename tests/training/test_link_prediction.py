"""Link prediction: ranks by the benchmark's definition, whatever the batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch, Data

from graphs import graph, random_graphs
from own_datasets import Links
from unionsnn.base.errors import RequestError, UndefinedMetricError
from unionsnn.config.compose import compose_config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.pyg_links import read_pyg_links
from unionsnn.data.sources.source import InMemory
from unionsnn.data.splits import Split
from unionsnn.models.gin import GIN
from unionsnn.nn.batch import GraphBatch
from unionsnn.training.evaluation import require_metric
from unionsnn.training.ranking import FILTERS, MeanReciprocalRank, Queries
from unionsnn.training.tasks import LinkPrediction

KINDS = dict(zip(FILTERS, (("links", "self"), ("links",), ()), strict=True))


def slow_ranks(score: NDArray[np.float64], links: list[tuple[int, int]], kind: str) -> float:
    """The benchmark's mean reciprocal rank of one graph: masks, then sorts, one pair at a time."""
    leaves_out = KINDS[kind]
    found = []
    for u, v in links:
        row = score[u].copy()
        own = row[v]
        if "links" in leaves_out:
            row[[w for a, w in links if a == u]] = -np.inf
        if "self" in leaves_out:
            row[u] = -np.inf
        others = np.delete(row, v)
        best, worst = (others > own).sum(), (others >= own).sum()
        found.append(1 / (1 + (best + worst) / 2))
    return float(np.mean(found))


def labelled(count: int, seed: int = 0) -> list[Data]:
    """Random graphs with linked pairs, other pairs and labels; the first has no linked pair."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for number, data in enumerate(random_graphs(count, generator)):
        every = torch.combinations(torch.arange(data.num_nodes)).t()
        pairs = every[:, torch.randperm(every.size(1), generator=generator)[:6]]
        pairs[:, ::2] = pairs[:, ::2].flip(0)
        labels = (torch.arange(pairs.size(1)) + 1) % 2 * (number > 0)
        made.append(
            Data(
                x=data.x,
                edge_index=data.edge_index,
                edge_label_index=pairs,
                y=labels.float().unsqueeze(1),
            )
        )
    return made


def linked(data: Data) -> list[tuple[int, int]]:
    pairs = data.edge_label_index[:, data.y.reshape(-1) == 1]
    return [tuple(pair) for pair in pairs.t().tolist()]


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("kind", FILTERS)
def test_ranks_are_those_of_a_slow_formula(kind: str, ties: bool) -> None:
    graphs = labelled(30)
    generator = torch.Generator().manual_seed(1)
    values = [torch.randn(g.num_nodes, g.num_nodes, generator=generator) for g in graphs]
    values = [v.round() if ties else v for v in values]
    batch = Batch.from_data_list(graphs)
    queries = Queries.of(batch, batch.edge_label_index[:, batch.y[:, 0] == 1])
    u, w = queries.pairs
    of_graph, begin = batch.batch[u], batch.ptr
    assert torch.equal(of_graph, batch.batch[w])
    scores = torch.stack(
        [values[g][a - begin[g], b - begin[g]] for g, a, b in zip(of_graph, u, w, strict=True)]
    )
    metric = MeanReciprocalRank()
    metric.update(queries.reciprocal_ranks(scores, kind))
    expected = [
        slow_ranks(value.double().numpy(), linked(g), kind)
        for value, g in zip(values, graphs, strict=True)
        if linked(g)
    ]
    assert len(expected) < len(graphs)
    assert float(metric.compute()) == pytest.approx(np.mean(expected), abs=1e-6)


def test_what_is_left_out_makes_the_three_ranks() -> None:
    # Node 0 is linked to 1 and 2; 0 itself has the largest score, then 1, 3, 2.
    data = Batch.from_data_list([graph([(0, 3)], 4)])
    queries = Queries.of(data, torch.tensor([[0, 0], [1, 2]]))
    scores = torch.tensor([9.0, 5.0, 1.0, 3.0])
    found = {kind: float(queries.reciprocal_ranks(scores, kind)) for kind in FILTERS}
    assert found == {
        "mrr-raw": pytest.approx((1 / 2 + 1 / 4) / 2),
        "mrr-filtered": pytest.approx((1 / 2 + 1 / 3) / 2),
        "mrr-extended": pytest.approx((1 + 1 / 2) / 2),
    }
    # Equal scores win nothing, and a score that is no number has no rank.
    equal = queries.reciprocal_ranks(torch.ones(4), "mrr-raw")
    assert float(equal) == pytest.approx(1 / 2.5)
    for wrong in (torch.nan, torch.inf):
        scores[3] = wrong
        assert queries.reciprocal_ranks(scores, "mrr-raw").isnan().all()


def make(metric: str = "mrr-extended") -> LinkPrediction:
    torch.manual_seed(0)
    model = GIN(in_channels=3, out_channels=1, level="link", hidden_channels=8, num_layers=2)
    return LinkPrediction(model, metric=metric, lr=0.01)


def measured(task: LinkPrediction, graphs: list[Data], size: int) -> float:
    task.eval()
    with torch.no_grad():
        for i in range(0, len(graphs), size):
            task.measure(Batch.from_data_list(graphs[i : i + size]), "test")
    value = float(task.metrics["test"].compute())
    task.metrics["test"].reset()
    return value


@pytest.mark.parametrize("metric", [*FILTERS, "rocauc", "ap"])
def test_a_metric_depends_on_neither_batches_nor_order(metric: str) -> None:
    graphs, task = labelled(24), make(metric)
    whole = measured(task, graphs, 24)
    assert measured(task, graphs, 1) == pytest.approx(whole, abs=1e-6)
    assert measured(task, graphs[::-1], 5) == pytest.approx(whole, abs=1e-6)
    if metric in FILTERS:
        scores = []
        for data in graphs:
            if linked(data):
                n = data.num_nodes
                every = torch.cartesian_prod(torch.arange(n), torch.arange(n)).t()
                asked = GraphBatch.single(data.x, data.edge_index, edge_label_index=every)
                with torch.no_grad():
                    value = task.model(asked).view(n, n).double().numpy()
                # Nodes that no network tells apart have equal scores but for rounding.
                ends = linked(data)
                ends += [(v, u) for u, v in ends]
                scores.append(slow_ranks(value.round(4), ends, metric))
        assert whole == pytest.approx(np.mean(scores), abs=1e-3)


@pytest.mark.parametrize("metric", FILTERS)
def test_a_rank_depends_on_neither_order_nor_repeats_of_linked_pairs(metric: str) -> None:
    graphs, task = labelled(12), make(metric)
    once = measured(task, graphs, 5)
    for listed in (
        lambda pairs: pairs.flip(0),
        lambda pairs: torch.cat([pairs, pairs.flip(0)], dim=1),
        lambda pairs: torch.cat([pairs, pairs], dim=1),
    ):
        others = [data.clone() for data in graphs]
        for data in others:
            data.edge_label_index = listed(data.edge_label_index)
            times = data.edge_label_index.size(1) // max(len(data.y), 1)
            data.y = data.y.repeat(times, 1)
        assert measured(task, others, 5) == pytest.approx(once, abs=1e-6)


def test_a_metric_of_no_such_name_is_refused_when_the_task_is_made() -> None:
    with pytest.raises(RequestError, match=r"'mrr'; LinkPrediction has mrr-extended.*Did") as wrong:
        make("mrr")
    assert wrong.value.codes == ["config.metric"]


def test_the_loss_is_that_of_the_labelled_pairs_and_its_step_lowers_it() -> None:
    graphs, task = labelled(12), make()
    batch = Batch.from_data_list(graphs)
    output = task(batch)
    assert output.shape == (batch.edge_label_index.size(1), 1)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(output, batch.y)
    loss = task.training_step(batch, 0)
    assert torch.equal(loss, expected)
    optimizer = task.configure_optimizers()
    for _ in range(20):
        optimizer.zero_grad()
        loss = task.training_step(batch, 0)
        loss.backward()
        optimizer.step()
    assert loss.item() < expected.item()
    assert all(p.grad is not None for p in task.parameters())


def module(graphs: list[Data], **options: Any) -> GraphDataModule:
    sets = [Data(**{k: v for k, v in g.to_dict().items() if k != "y"}, edge_label=g.y[:, 0])
            for g in graphs]  # fmt: skip
    arrays: GraphArrays = read_pyg_links([sets], symmetrize=False, edge_features=False)
    arrays.validate()
    source = InMemory(graphs=arrays, task="link_prediction")
    return GraphDataModule(source, name="links", features="attributes", seed=0, **options)


def test_weights_of_processes_and_steps_count_labelled_pairs() -> None:
    graphs = labelled(9)
    data = module(graphs)
    assert data._terms().tolist() == [g.edge_label_index.size(1) for g in graphs]  # type: ignore[union-attr]
    assert data.num_outputs == 1
    assert data.num_items == 9


def test_a_part_without_a_linked_pair_is_refused_before_training() -> None:
    data = module(labelled(9))
    split = Split(train=np.arange(3, 9), validation=np.array([1, 2]), test=np.array([0]))
    with pytest.raises(UndefinedMetricError, match=r"undefined on the test part.*none is 1"):
        require_metric(data, split)
    require_metric(data, Split(train=split.train, validation=np.array([1]), test=np.array([2])))


def test_task_and_metric_are_checked_together() -> None:
    with pytest.raises(RequestError, match=r"data.metric=mrr-extended or mrr-filtered") as refused:
        compose_config(["data=pcqm_contact", "data.metric=mae"])
    assert refused.value.codes == ["config.metric"]
    with pytest.raises(RequestError, match="TU reads no labelled pairs of nodes") as refused:
        compose_config(["data=mutag", "data.task=link_prediction", "data.metric=mrr-raw"])
    assert refused.value.codes == ["data.task"]
    with pytest.raises(RequestError, match=r"type data\.task=link_prediction, or data=pyg"):
        compose_config(["data=pcqm_contact", "data.task=graph_regression", "data.metric=mae"])
    with pytest.raises(RequestError, match="class_weights"):
        compose_config(["data=pcqm_contact", "data.class_weights=balanced"])


class OwnNetwork(torch.nn.Module):
    """Names the pairs in its forward pass, or returns a row for each node."""

    def __init__(self, in_channels: int, pairs: bool = True) -> None:
        super().__init__()
        self.map = torch.nn.Linear(in_channels, 1)
        self.pairs = pairs

    def forward(self, x: Tensor, edge_label_index: Tensor) -> Tensor:
        h = self.map(x)
        if not self.pairs:
            return h
        return (h[edge_label_index[0]] - h[edge_label_index[1]]).abs()


def test_a_network_of_ones_own_scores_the_pairs(tmp_path: Path) -> None:
    graphs = labelled(6)
    task = LinkPrediction(OwnNetwork(3), num_outputs=1)
    assert 0 < measured(task, graphs, 2) <= 1
    task = LinkPrediction(OwnNetwork(3, pairs=False), num_outputs=1)
    with pytest.raises(RequestError, match="Name edge_label_index in its forward pass") as refused:
        task(Batch.from_data_list(graphs))
    assert refused.value.codes == ["model.output"]


def test_links_of_ones_own_data_set_are_no_edges() -> None:
    arrays = read_pyg_links([Links(12)], symmetrize=False, edge_features=False)
    assert arrays.num_edges == sum(2 * data.num_nodes for data in Links(12))
