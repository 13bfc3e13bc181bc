"""Parts of networks written out for one graph, with matrices and the networks' own weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from networks import read_by
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from graphs import cycle, graph, random_graphs, star
from positions import adjacency
from unionsnn.nn.conv.union import UnionConv
from unionsnn.nn.plugin import UnionPlugin

EXACT = {"rtol": 0, "atol": 1e-10}


def graphs_of_all_sizes(channels: int = 3) -> list[Data]:
    """Random graphs, one of 1 node, one of 2, a star with a node apart, and one without edges."""
    made = [
        *random_graphs(6, torch.Generator().manual_seed(3), channels),
        graph([], 1, channels),
        graph([(0, 1)], 2, channels),
        graph(star(5), 7, channels),
        graph(cycle(6), 6, channels),
        graph([], 4, channels),
    ]
    generator = torch.Generator().manual_seed(4)
    for data in made:
        data.x = torch.randn(data.num_nodes, channels, generator=generator)
    return [data.apply(lambda value: value.double(), "x", "edge_coefficient") for data in made]


def all_sizes(channels: int = 3) -> Batch:
    """These graphs in a batch."""
    return Batch.from_data_list(graphs_of_all_sizes(channels))


def shaken(network: nn.Module) -> nn.Module:
    """Move parameters and running statistics away from the values that they start with."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator).double()
        for name, buffer in network.named_buffers():
            if "running" in name:
                buffer += 0.2 * torch.rand(buffer.shape, generator=generator).double()
    return network


def gradients(network: nn.Module, data: Batch, out: Tensor) -> list[Tensor]:
    """Those of an output, with different weights of its entries, by node features and weights."""
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    inputs = [data.x, *network.parameters()]
    return list(torch.autograd.grad((weight * out).sum(), inputs, retain_graph=True))


def assert_same_gradients(network: nn.Module, data: Batch, out: Tensor, expected: Tensor) -> None:
    pairs = zip(gradients(network, data, out), gradients(network, data, expected), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def assert_padding_changes_nothing(network: nn.Module) -> None:
    """Beside a far larger graph, outputs and gradients of the others are what they were."""
    small = graphs_of_all_sizes()
    large = graph(cycle(40), 40, 3).apply(lambda value: value.double(), "x", "edge_coefficient")
    results = []
    for graphs in (small, [*small, large]):
        data = Batch.from_data_list(graphs)
        data.x.requires_grad_()
        out = network(read_by(network, data))[: len(small)]
        nodes = sum(one.num_nodes for one in small)
        found = gradients(network, data, out)
        assert torch.equal(found[0][nodes:], torch.zeros_like(found[0][nodes:]))
        results.append([out, found[0][:nodes], *found[1:]])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def plain(conv: nn.Module) -> nn.Module:
    """The layer inside the plug-in, if it is in one."""
    return conv.conv if isinstance(conv, UnionPlugin) else conv


def matrices(network: nn.Module, data: Data) -> Iterator[tuple[Tensor, Tensor, list[Tensor]]]:
    """Nodes, adjacency matrix and each layer's Trans, [receiver, sender, channels], by graph."""
    dense = []
    for conv in network.convs:
        width = getattr(plain(conv), "message_channels", network.hidden_channels)
        W = torch.ones(data.num_nodes, data.num_nodes, width, dtype=torch.float64)
        if isinstance(conv, UnionPlugin | UnionConv):
            sender, receiver = data.edge_index
            W[receiver, sender] = conv.gate(data.edge_coefficient, data.edge_index, data.num_nodes)
        dense.append(W)
    for index in range(data.num_graphs):
        nodes, A = adjacency(data, index)
        nodes = torch.from_numpy(nodes)
        yield nodes, torch.from_numpy(A), [W[nodes][:, nodes] for W in dense]


def with_edge_features(data: Batch, width: int | None = 2) -> Batch:
    """Add features that differ between an edge's directions; None for none."""
    if width is not None:
        generator = torch.Generator().manual_seed(6)
        data.edge_attr = torch.randn(data.num_edges, width, generator=generator).double()
    return data


def edge_matrix(network: nn.Module, data: Batch) -> Tensor | None:
    """Encoded edges, [receiver, sender, channels], 0 where there is none; None if none are read."""
    if network.edge_encoder is None:
        return None
    E = torch.zeros(data.num_nodes, data.num_nodes, network.hidden_channels, dtype=torch.float64)
    sender, receiver = data.edge_index
    E[receiver, sender] = network.edge_encoder(read_by(network, data))
    return E


def part(E: Tensor | None, nodes: Tensor) -> Tensor | None:
    """The edges among some nodes."""
    return None if E is None else E[nodes][:, nodes]


def gin(
    network: nn.Module, h: Tensor, A: Tensor, W: list[Tensor], E: Tensor | None = None
) -> Tensor:
    """All layers of a GIN on one graph: h + ReLU(norm(MLP((1 + eps) h + sum_u W_vu m_vu))).

    The message m_vu is h_u, or ReLU(h_u + E_vu).
    """
    for conv, norm, weight in zip(network.convs, network.norms, W, strict=True):
        layer = plain(conv)

        def message(v: int, u: int, h: Tensor = h) -> Tensor:
            return h[u] if E is None else torch.relu(h[u] + E[v, u])

        rows = [
            (1 + layer.eps) * h[v]
            + sum(A[v, u] * weight[v, u] * message(v, u) for u in range(len(h)))
            for v in range(len(h))
        ]
        if rows:
            h = h + torch.relu(norm(layer.nn(torch.stack(rows))))
    return h
