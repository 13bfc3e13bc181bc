"""Networks in one stack: outputs, gradients and statistics are those of each network alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from unionsnn.base.errors import RequestError
from unionsnn.models import GAT, GCN, GIN, PNA, GatedGCN, GraphSAGE, UnionSNN
from unionsnn.models.stacked import Blocks, StackedNetwork, unstackable
from unionsnn.nn.batch import GraphBatch

# Of the second network a single node, so that it has no batch statistics; of the third none at all.
SIZES = [[5, 3, 4], [1], [], [7, 2]]
COLUMNS = [f"{name}_r1" for name in ("a", "a_tree", "nodes", "edges")]
GATE = {"features": ["raw", "excess", "cyclomatic"], "radius": 1, "columns": COLUMNS}

NETWORKS = {
    "gin": (GIN, {}),
    "gin, one-hot edges": (GIN, {"edge_channels": 2}),
    "gin, categories": (GIN, {"in_channels": [4, 3], "edge_channels": [3, 2]}),
    "gin, layer norm": (GIN, {"norm": "layer", "readout": "max", "train_eps": False}),
    "union gin": (GIN, {"gate": GATE}),
    "unionsnn": (UnionSNN, {"gate": {**GATE, "layers": 2}, "input_linear": True}),
    "unionsnn, encoded": (UnionSNN, {"gate": GATE, "structural_encoder": GATE}),
    "sage": (GraphSAGE, {"normalize": True}),
    "sage, edges": (GraphSAGE, {"edge_channels": 2, "aggregation": "max"}),
    "gcn": (GCN, {}),
    "gcn, messages": (GCN, {"gate": GATE, "gate_on": "message"}),
    "gcn, edges": (GCN, {"edge_channels": 2, "norm": "none"}),
    "gatedgcn": (GatedGCN, {"gate": GATE, "readout": "mean"}),
    "gatedgcn, edges": (GatedGCN, {"edge_channels": 2}),
}


def graph(size: int, options: dict[str, Any], generator: torch.Generator) -> Data:
    edges = [(i, (i + 1) % size) for i in range(size)] if size > 2 else [(0, size - 1)][: size - 1]
    edge_index = torch.tensor([*edges, *((j, i) for i, j in edges)], dtype=torch.long)
    edge_index = edge_index.reshape(-1, 2).t().contiguous()

    def rows(channels: Any, count: int) -> Tensor:
        if isinstance(channels, int):
            return torch.randn(count, channels, dtype=torch.float64, generator=generator)
        columns = [torch.randint(n, (count, 1), generator=generator) for n in channels]
        return torch.cat(columns, 1)

    data = Data(x=rows(options.get("in_channels", 3), size), edge_index=edge_index)
    if "edge_channels" in options:
        data.edge_attr = rows(options["edge_channels"], edge_index.size(1))
    data.edge_coefficient = rows(len(COLUMNS), edge_index.size(1)).abs() + 0.1
    return data


def made(kind: type[nn.Module], options: dict[str, Any], number: int) -> list[nn.Module]:
    networks = []
    for seed in range(number):
        torch.manual_seed(seed)
        arguments = {"in_channels": 3, "out_channels": 2, "hidden_channels": 4, "num_layers": 2}
        network = kind(**{**arguments, **options}).double()
        for module in network.modules():
            if hasattr(module, "fit_statistics") and hasattr(module, "feature_mean"):
                rows = torch.rand(20, len(COLUMNS), dtype=torch.float64)
                module.fit_statistics(rows)
            if isinstance(module, nn.BatchNorm1d):
                nn.init.normal_(module.running_mean)
        networks.append(network)
    return networks


@pytest.fixture(autouse=True)
def _random_state() -> Any:
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.mark.parametrize("name", NETWORKS)
def test_a_stack_computes_what_each_network_computes_alone(name: str) -> None:
    kind, options = NETWORKS[name]
    generator = torch.Generator().manual_seed(0)
    graphs = [[graph(size, options, generator) for size in sizes] for sizes in SIZES]
    alone, members = made(kind, options, len(SIZES)), made(kind, options, len(SIZES))
    assert unstackable(members[0]) == ""
    stack = StackedNetwork(members, [torch.Generator() for _ in members])
    blocks = Blocks(
        [sum(sizes) for sizes in SIZES],
        [sum(g.num_edges for g in each) for each in graphs],
        [len(sizes) for sizes in SIZES],
        torch.device("cpu"),
    )
    batch = blocks.fill(Batch.from_data_list([g for each in graphs for g in each]), torch.float64)
    for training in (True, False):
        stack.train(training)
        outputs = stack(batch, blocks).view(len(SIZES), blocks.num_graphs, -1)
        weight = torch.randn(4, 2, dtype=torch.float64, generator=generator)
        value = sum((outputs[k, :n] * weight[:n]).sum() for k, n in enumerate(map(len, SIZES)))
        gradient = torch.autograd.grad(value, stack.flat)[0]
        for place, (network, each) in enumerate(zip(alone, graphs, strict=True)):
            gradients = stack.gradients(gradient, place)
            if not each:
                assert not any(g.any() for g in gradients)
                continue
            network.train(training)
            own = network(GraphBatch.of(Batch.from_data_list(each)))
            torch.testing.assert_close(outputs[place, : len(each)], own, rtol=1e-10, atol=1e-12)
            wanted = torch.autograd.grad(
                (own * weight[: len(each)]).sum(), [*network.parameters()], allow_unused=True
            )
            for found, right in zip(gradients, wanted, strict=True):
                right = torch.zeros_like(found) if right is None else right
                torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-11)
            for key, right in network.state_dict().items():
                found = members[place].state_dict()[key]
                torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12, msg=key)


def test_dropout_masks_are_those_that_each_network_draws_alone() -> None:
    alone, members = (made(GIN, {"dropout": 0.5}, 2) for _ in range(2))
    graphs = [[graph(5, {}, torch.Generator().manual_seed(n))] for n in (3, 4)]
    generators = [torch.Generator().manual_seed(seed) for seed in (7, 8)]
    stack = StackedNetwork(members, generators).train()
    blocks = Blocks([5, 5], [10, 10], [1, 1], torch.device("cpu"))
    batch = blocks.fill(Batch.from_data_list([g for each in graphs for g in each]), torch.float64)
    outputs = stack(batch, blocks).view(2, blocks.num_graphs, -1)
    for place, (network, each) in enumerate(zip(alone, graphs, strict=True)):
        torch.manual_seed((7, 8)[place])
        own = network.train()(GraphBatch.of(Batch.from_data_list(each)))
        torch.testing.assert_close(outputs[place, :1], own, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "options", "part"),
    [
        (GAT, {"heads": 2}, "GAT"),
        (PNA, {}, "PNA"),
        (GIN, {"gate": {**GATE, "normalization": "batch"}}, "a gate with normalization=batch"),
    ],
)
def test_what_cannot_be_stacked_is_named(kind: Any, options: dict[str, Any], part: str) -> None:
    network = made(kind, options, 1)[0]
    assert unstackable(network) == part
    with pytest.raises(RequestError) as error:
        StackedNetwork([network], [torch.Generator()])
    assert error.value.codes == ["protocol.together"]
