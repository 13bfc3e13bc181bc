"""GatedGCN-LSPE: its formula graph by graph, its positions and their loss."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from formulas import (
    EXACT,
    all_sizes,
    edge_matrix,
    matrices,
    part,
    plain,
    shaken,
    with_edge_features,
)
from networks import apply, build, read_by
from torch import Tensor, nn
from torch_geometric.data import Batch

from graphs import cycle, graph
from positions import landing_probabilities
from unionsnn.base.errors import RequestError
from unionsnn.models.gated_gcn_lspe import laplacian_loss, unit_columns

STEPS = 4


def unit(p: Tensor) -> Tensor:
    p = p - p.mean(dim=0)
    return p / (p.square().sum(dim=0) + 1e-3).sqrt()


def layer(
    conv: nn.Module, norm: nn.Module, h: Tensor, p: Tensor, E: Tensor, A: Tensor, W: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer with dense edges, rows the receivers."""
    eta = conv.edge_of_receiver(h)[:, None] + conv.edge_of_sender(h)[None] + conv.edge_of_edge(E)
    gate = A[:, :, None] * eta.sigmoid()
    gate = gate / (gate.sum(dim=1, keepdim=True) + 1e-6)
    both, (for_h, for_p) = torch.cat([h, p], dim=1), W.chunk(2, dim=2)
    new_h = conv.own(both) + torch.einsum("vuc,uc->vc", gate * for_h, conv.sent(both))
    new_p = conv.own_position(p) + torch.einsum("vuc,uc->vc", gate * for_p, conv.sent_position(p))
    if conv.edge_norm is not None:
        E = E + conv.edge_norm(eta.flatten(0, 1)).view_as(eta).relu()
    return h + norm(new_h).relu(), p + new_p.tanh(), E


def positions(network: nn.Module, data: Batch) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Output, and positions and adjacency matrix of each graph."""
    rows, found = [], []
    for nodes, A, W in matrices(network, data):
        h = network.encoder(data.x[nodes])
        p = network.first_position(torch.from_numpy(landing_probabilities(A.numpy(), STEPS)))
        E = part(edge_matrix(network, data), nodes)
        if E is None:
            E = network.edge.expand(len(h), len(h), -1)
        for conv, norm, weight in zip(network.convs, network.norms, W, strict=True):
            h, p, E = layer(plain(conv), norm, h, p, E, A, weight)
        p = unit(network.last_position(p))
        found.append((p, A))
        h = network.join(torch.cat([h, p], dim=1))
        rows.append(h.sum(0, keepdim=True) if network.level == "graph" else h)
    return network.head(torch.cat(rows)), found


def loss_of(p: Tensor, A: Tensor, weight: float) -> Tensor:
    """tr(p^T L p) / k + weight |p^T p - I|^2 / k, with matrices."""
    scale = A.sum(dim=0).clamp(min=1) ** -0.5
    L = torch.eye(len(A), dtype=torch.float64) - scale[:, None] * A * scale
    k = p.size(1)
    deviation = p.T @ p - torch.eye(k, dtype=torch.float64)
    return (torch.trace(p.T @ L @ p) + weight * torch.linalg.matrix_norm(deviation) ** 2) / k


@pytest.mark.parametrize(
    ("gate", "level", "edges"),
    [(gate, level, None) for level in ("graph", "node") for gate in ("none", "default", "paper")]
    + [("none", "graph", 2), ("default", "graph", 2)],
)
def test_the_network_and_its_loss_are_their_formulas(
    gate: str, level: str, edges: int | None
) -> None:
    choices = {"encodings": {"random_walk": STEPS}, "positional_loss": 0.5, "orthogonality": 0.7}
    network = build(
        "gatedgcn_lspe", gate, level=level, num_layers=2, norm="none", edges=edges, **choices
    ).double()
    network, data = shaken(network).train(), with_edge_features(all_sizes(), edges)
    out = apply(network, data)
    auxiliary = network.auxiliary_loss(lambda one: one.sum())
    expected, found = positions(network, data)
    torch.testing.assert_close(out, expected, **EXACT)
    mean = sum(loss_of(p, A, 0.7) for p, A in found) / len(found)
    torch.testing.assert_close(auxiliary, 0.5 * mean, **EXACT)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    parameters = list(network.parameters())
    for one, other in zip(
        torch.autograd.grad((weight * out).sum() + auxiliary, parameters),
        torch.autograd.grad((weight * expected).sum() + 0.5 * mean, parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
    assert network.auxiliary_loss(lambda one: one.sum()) is None


@pytest.mark.parametrize("gate", ["none", "default"])
def test_with_batch_norm_too(gate: str) -> None:
    choices = {"encodings": {"random_walk": STEPS}, "num_layers": 2}
    network = shaken(build("gatedgcn_lspe", gate, **choices).double()).eval()
    data = all_sizes()
    torch.testing.assert_close(apply(network, data), positions(network, data)[0], **EXACT)
    assert network.auxiliary_loss(lambda one: one.sum()) is None


def test_positions_of_nodes_that_are_alike_stay_short() -> None:
    """All nodes of a cycle are alike: rounding must not be scaled to length 1."""
    alike = 0.3 + 1e-8 * torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    short = unit_columns(alike, torch.zeros(6, dtype=torch.long), 1)
    assert short.abs().max() < 1e-5
    apart = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    made = unit_columns(apart, torch.zeros(6, dtype=torch.long), 1)
    torch.testing.assert_close(made.square().sum(dim=0), torch.ones(3), rtol=0, atol=1e-3)
    torch.testing.assert_close(made.mean(dim=0), torch.zeros(3), rtol=0, atol=1e-6)


def test_the_loss_of_eigenvectors_is_the_sum_of_their_eigenvalues() -> None:
    data = graph(cycle(5), 5)
    A = torch.zeros(5, 5, dtype=torch.float64)
    A[tuple(data.edge_index)] = 1
    values, vectors = torch.linalg.eigh(torch.eye(5, dtype=torch.float64) - A / 2)
    loss = laplacian_loss(
        vectors[:, 1:4], data.edge_index, torch.zeros(5, dtype=torch.long), 1, orthogonality=3.0
    )
    torch.testing.assert_close(loss, values[1:4].sum() / 3, **EXACT)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"positional_loss": -0.1}, "positional_loss is -0.1; it must be at least 0"),
        ({"orthogonality": -0.1}, "orthogonality is -0.1; it must be at least 0"),
        ({"encodings": {}}, r"reads the encoding random_walk .*model\.encodings\.random_walk=3"),
        ({"encodings": {"random_walk": 3, "distance": True}}, "encodings.distance out"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        build("gatedgcn_lspe", "none", **choices)


def test_positions_of_another_width_are_refused() -> None:
    network, data = build("gatedgcn_lspe", "none"), all_sizes()
    given = read_by(network, data)
    for wrong in (None, given.random_walk[:, 1:]):
        with pytest.raises(ValueError, match=r"needs random_walk of the shape \[\d+, 20\]"):
            network(dataclasses.replace(given, random_walk=wrong))
