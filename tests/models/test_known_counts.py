"""What the CPU knows of a batch changes no output, and loops made once a batch are the layers'."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from networks import build, read_by
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import add_self_loops, remove_self_loops

from graphs import random_graphs
from unionsnn.base.rows import note_loops, noted_loops
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.loops import SelfLoops

LOOPED = ("gcn", "gat", "geniepath", "curvgn", "ugformer")


def with_loops_and_repeats(network: nn.Module) -> GraphBatch:
    """Graphs of many sizes; some edges occur twice, and some lead from a node to itself."""
    graphs = Batch.from_data_list(random_graphs(8, torch.Generator().manual_seed(3)))
    batch = read_by(network, graphs)
    more = torch.cat([batch.edge_index[:, :3], torch.tensor([[0, 5, 5], [0, 5, 5]])], dim=1)
    edge_index = torch.cat([batch.edge_index, more], dim=1)

    def extended(rows: Tensor) -> Tensor:
        return torch.cat([rows, rows[:3], torch.zeros(3, rows.size(1))])

    edges = None
    if network.edge_encoder is not None:
        generator = torch.Generator().manual_seed(4)
        edges = torch.randn(edge_index.size(1), 2, generator=generator)
    return dataclasses.replace(
        batch,
        edge_index=edge_index,
        edge_attr=edges,
        edge_coefficient=extended(batch.edge_coefficient),
        layer_coefficient=extended(batch.layer_coefficient),
    )


@pytest.mark.parametrize("edges", [None, 2])
@pytest.mark.parametrize("gate", ["none", "default"])
@pytest.mark.parametrize("name", LOOPED)
def test_loops_of_a_batch_are_those_that_each_layer_would_add(
    name: str, gate: str, edges: int | None
) -> None:
    network = build(name, gate, edges=edges).eval()
    if not network.adds_loops:
        pytest.skip("its layer has another message for loops")
    batch = with_loops_and_repeats(network)
    other = copy.deepcopy(network)
    other.adds_loops = False
    for layer in other.modules():
        if hasattr(layer, "add_self_loops"):
            layer.add_self_loops = True
    torch.testing.assert_close(network(batch), other(batch), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [*LOOPED, "gps", "graphormer", "ppgn", "drop_gin"])
def test_known_sizes_and_loops_change_nothing(name: str) -> None:
    network = build(name, "none").eval()
    batch = with_loops_and_repeats(network)
    known = dataclasses.replace(
        batch,
        sizes=tuple(batch.batch.bincount(minlength=batch.num_graphs).tolist()),
        loops=int((batch.edge_index[0] == batch.edge_index[1]).sum()),
    )
    assert torch.equal(network(batch), network(known))


@pytest.mark.parametrize("count", [None, 3])
def test_loops_are_added_as_by_pyg(count: int | None) -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 3], [1, 1, 0, 2, 1, 1, 3]])
    rows = torch.arange(14.0).view(7, 2)
    loops = SelfLoops(edge_index, 5, count)
    for fill, value in (("zeros", 0.0), ("mean", "mean")):
        expected = add_self_loops(
            *remove_self_loops(edge_index, rows), fill_value=value, num_nodes=5
        )
        assert torch.equal(loops.edge_index, expected[0])
        assert torch.equal(loops.append(rows, fill), expected[1])


def test_edges_without_loops_are_kept_as_they_are() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    loops = SelfLoops(edge_index, 2, 0)
    assert loops.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    assert loops.append(torch.ones(2)).tolist() == [1, 1, 0, 0]


def test_what_is_known_of_a_batch_goes_with_its_tensors() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.ones(n, 1), edge_index=edge_index) for n in (2, 4, 3)]
    data = Batch.from_data_list(graphs)
    data._sizes = (2, 4, 3)
    note_loops(data.edge_index, 0)
    known = GraphBatch.of(data)
    assert (known.sizes, known.loops) == (data._sizes, 0)
    assert GraphBatch.of(copy.copy(data)).sizes == data._sizes
    fewer = copy.copy(data)
    fewer.x, fewer.batch = data.x[1:], data.batch[1:]
    assert GraphBatch.of(fewer).sizes is None
    other = copy.copy(data)
    other.edge_index = data.edge_index.flip(0)
    assert GraphBatch.of(other).loops is None
    data.edge_index[0, 0] = data.edge_index[1, 0]
    assert noted_loops(data.edge_index) is None
    assert GraphBatch.of(data).loops is None
