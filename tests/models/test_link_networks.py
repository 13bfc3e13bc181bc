"""Networks that score pairs of nodes: every one that has a row for each node."""

from __future__ import annotations

import pytest
import torch
from networks import (
    apply,
    auxiliary_of,
    build,
    composed,
    every_name,
    own_gate,
    read_by,
    train_statistics,
)
from torch import nn
from torch_geometric.data import Batch, Data

from graphs import random_graphs
from model_names import GRAPHS_ONLY
from unionsnn.base.errors import RequestError
from unionsnn.models.gin import GIN
from unionsnn.training.build import build_model


def linked(count: int = 12) -> Batch:
    """Random graphs with every pair of nodes of each, both ways."""
    graphs = random_graphs(count, torch.Generator().manual_seed(0))
    for data in graphs:
        nodes = torch.arange(data.num_nodes)
        data.edge_label_index = torch.cartesian_prod(nodes, nodes).t()
    return Batch.from_data_list(graphs).apply(lambda value: value.double(), "x", "edge_coefficient")


def network_of(name: str, data: Data) -> nn.Module:
    network = build(name, own_gate(name), level="link", outputs=1, dropout=0.0)
    return train_statistics(network.double(), data)


@every_name
def test_scores_are_products_that_batches_and_names_of_nodes_do_not_change(name: str) -> None:
    data = linked()
    network = network_of(name, data)
    if hasattr(network, "draw"):
        # Equal in distribution: equal where the same nodes are dropped.
        data.dropped = network.draw(data.batch, data.num_graphs)
    scores = apply(network, data)
    assert scores.shape == (data.edge_label_index.size(1), 1)
    if "dropped" not in data:
        rows = network.head(network.embed(read_by(network, data)))
        u, v = data.edge_label_index
        torch.testing.assert_close(scores[:, 0], torch.einsum("pc,pc->p", rows[u], rows[v]))
        alone = torch.cat([apply(network, one) for one in data.to_data_list()])
        torch.testing.assert_close(alone, scores)
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(1))
    new_name = torch.empty_like(order)
    new_name[order] = torch.arange(len(order))
    other = data.clone()
    other.x, other.batch = data.x[order], data.batch[order]
    other.edge_index = new_name[data.edge_index]
    # Both orders of a pair have the same score.
    other.edge_label_index = new_name[data.edge_label_index].flip(0)
    if "dropped" in data:
        other.dropped = data.dropped[order]
    torch.testing.assert_close(apply(network, other), scores)


@every_name
def test_every_weight_of_a_network_of_links_learns(name: str) -> None:
    data = linked(6)
    network = network_of(name, data).train()
    out = apply(network, data)
    (out.square().sum() + auxiliary_of(network, lambda one: one.square().sum())).backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key


@pytest.mark.parametrize("name", GRAPHS_ONLY)
def test_networks_without_a_row_for_each_node_refuse_links_by_name(name: str) -> None:
    with pytest.raises(RequestError, match="MEWISPool drops nodes") as refused:
        build_model(composed(name, "none").replace({"data.task": "link_prediction"}), 3, 1)
    assert refused.value.codes == ["model.argument"]


def test_a_link_has_one_score_and_needs_pairs() -> None:
    with pytest.raises(RequestError, match="out_channels is 4, but a link has one score"):
        GIN(in_channels=3, out_channels=4, level="link")
    network = GIN(in_channels=3, out_channels=1, level="link")
    with pytest.raises(RequestError, match="but the batch has none: give it edge_label_index"):
        network(Batch.from_data_list(random_graphs(2, torch.Generator().manual_seed(0))))
