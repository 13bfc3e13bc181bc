"""Layers that read encoded edges, and PNA, against formulas with matrices."""

from __future__ import annotations

from collections.abc import Callable

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
from networks import apply, build, fit, layer_coefficient, training_graphs
from torch import Tensor, nn
from torch_geometric.utils import degree

from unionsnn.base.errors import DataError, RequestError
from unionsnn.models.fitting import FitsDegrees
from unionsnn.nn.conv.edge_gcn import EdgeGCNConv
from unionsnn.nn.conv.edge_sage import EdgeSAGEConv
from unionsnn.nn.conv.pna import FittedPNAConv, StdAggregation

C = 8


class Dense:
    """One graph with matrices, rows the receivers: adjacency, edges, a coefficient, a memory."""

    def __init__(self, A: Tensor, E: Tensor, a: Tensor) -> None:
        self.A, self.E, self.a = A, E, a
        self.memory = torch.zeros(len(A), C, dtype=A.dtype)
        self.d = A.sum(dim=1)
        self.I = torch.eye(len(A), dtype=A.dtype)

    def gine(self, h: Tensor) -> Tensor:
        """ReLU(h_u + e_vu) where there is an edge."""
        return self.A[:, :, None] * torch.relu(h[None] + self.E)

    def attention(self, score: Tensor) -> Tensor:
        """Softmax over N[v], one for each channel."""
        return score.masked_fill((self.A + self.I)[:, :, None] == 0, -torch.inf).softmax(dim=1)


def unionsnn(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    h = h if conv.linear is None else conv.linear(h)
    return conv.mlp((1 + conv.epsilon) * h + (W * g.gine(h)).sum(dim=1))


def gcn(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    h = conv.linear(h) if conv.map_first else h
    d = g.d + 1
    norm = 1 / (d[:, None] * d[None]).sqrt()
    own = torch.relu(h + conv.loop) / d[:, None]
    out = (norm[:, :, None] * W * g.gine(h)).sum(dim=1) + own
    return out if conv.map_first else conv.linear(out)


def sage(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    sent = W * g.gine(h)
    if conv.aggr == "max":
        met = sent.masked_fill(g.A[:, :, None] == 0, -torch.inf).amax(dim=1)
        met = met.masked_fill(g.d[:, None] == 0, 0)
    else:
        met = sent.sum(dim=1) / g.d.clamp(min=1)[:, None]
    return conv.own(h) + conv.sent(met)


def gat(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    n, heads = len(h), conv.heads
    x = conv.lin(h).view(n, heads, -1)
    mean = (g.A[:, :, None] * g.E).sum(dim=1) / g.d.clamp(min=1)[:, None]
    E = conv.lin_edge(g.E + g.I[:, :, None] * mean[:, None]).view(n, n, heads, -1)
    score = (
        (conv.att_src * x).sum(dim=-1)[None]
        + (conv.att_dst * x).sum(dim=-1)[:, None]
        + (conv.att_edge * E).sum(dim=-1)
    )
    alpha = g.attention(nn.functional.leaky_relu(score, 0.2))
    weight = (W + g.I[:, :, None] * (1 - W)).view(n, n, heads, -1)
    return (alpha[..., None] * weight * x[None]).sum(dim=1).view(n, -1) + conv.bias


def graphsnn(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    share = g.a / g.a.sum(dim=1, keepdim=True).clamp(min=1e-30)
    own = conv.gamma * (share.sum(dim=1, keepdim=True) + 1) * h
    return conv.mlp(own + ((share + 1)[:, :, None] * W * g.gine(h)).sum(dim=1))


def curvgn(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    tau = g.attention(conv.mlp(torch.cat([g.a[:, :, None], g.E], dim=2)))
    weight = W + g.I[:, :, None] * (1 - W)
    return (tau * weight * conv.linear(h)[None]).sum(dim=1) + conv.bias


def geniepath(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    hidden = conv.receiver(h)[:, None] + conv.sender(h)[None] + conv.edge(g.E)
    alpha = g.attention(conv.attention(hidden.tanh()))
    weight = W + g.I[:, :, None] * (1 - W)
    met = conv.breadth((alpha * weight * h[None]).sum(dim=1)).tanh()
    forget, take, give, new = conv.depth(met).chunk(4, dim=1)
    g.memory = forget.sigmoid() * g.memory + take.sigmoid() * new.tanh()
    return give.sigmoid() * g.memory.tanh()


def gatedgcn(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    update = conv.edge_of_receiver(h)[:, None] + conv.edge_of_sender(h) + conv.edge_of_edge(g.E)
    g.E = g.E + conv.edge_norm(update).relu()
    gate = g.A[:, :, None] * g.E.sigmoid()
    gate = gate / (gate.sum(dim=1, keepdim=True) + 1e-6)
    return conv.own(h) + (gate * W * conv.sent(h)[None]).sum(dim=1)


def pna(conv: nn.Module, g: Dense, h: Tensor, W: Tensor) -> Tensor:
    """Node by node: every tower's aggregates, scaled."""
    degrees = torch.cat([degree(d.edge_index[1], d.num_nodes) for d in training_graphs()])
    delta = (degrees.double() + 1).log().mean()
    towers, width = conv.towers, conv.F_in
    rows = []
    for v in range(len(h)):
        of_towers = []
        for t in range(towers):
            part = slice(t * width, (t + 1) * width) if conv.divide_input else slice(None)
            gate = slice(t * width, (t + 1) * width)
            sent = []
            for u in g.A[v].nonzero().flatten().tolist():
                read = [h[v, part], h[u, part]]
                if conv.edge_dim is not None:
                    read.append(conv.edge_encoder(g.E[v, u]))
                sent.append(W[v, u, gate] * conv.pre_nns[t](torch.cat(read)))
            zero = torch.zeros(width, dtype=h.dtype)
            four = [zero] * 4
            if sent:
                m = torch.stack(sent)
                std = m.std(dim=0, correction=0)
                std = torch.where(std.square() > 1e-5, std, zero)
                four = [m.mean(dim=0), m.amin(dim=0), m.amax(dim=0), std]
            log = torch.log(torch.tensor(len(sent) + 1.0, dtype=h.dtype))
            scales = (1, log / delta, delta / log if sent else 0)
            scaled = [scale * one for scale in scales for one in four]
            of_towers.append(conv.post_nns[t](torch.cat([h[v, part], *scaled])))
        rows.append(conv.lin(torch.cat(of_towers)))
    return torch.stack(rows)


FORMULAS: dict[str, tuple[Callable[..., Tensor], str, dict[str, object]]] = {
    "unionsnn": (unionsnn, "unionsnn", {}),
    "unionsnn-linear": (unionsnn, "unionsnn", {"input_linear": True}),
    "gcn-input": (gcn, "gcn", {}),
    "gcn-message": (gcn, "gcn", {"gate_on": "message"}),
    "sage-mean": (sage, "sage", {}),
    "sage-max": (sage, "sage", {"aggregation": "max"}),
    "gat": (gat, "gat", {"heads": 2}),
    "graphsnn": (graphsnn, "graphsnn", {}),
    "curvgn": (curvgn, "curvgn", {}),
    "geniepath": (geniepath, "geniepath", {}),
    "gatedgcn": (gatedgcn, "gatedgcn", {}),
    "pna": (pna, "pna", {"towers": 2}),
    "pna-divided": (pna, "pna", {"towers": 2, "divide_input": True}),
}


def cases() -> list[object]:
    return [
        pytest.param(key, gate, edges, id=f"{key}-{gate}-{edges}")
        for key in FORMULAS
        for gate in ("none", "default")
        for edges in ((2, None) if key.startswith("pna") else (2,))
        if not (key.startswith("unionsnn") and gate == "none")
    ]


@pytest.mark.parametrize(("key", "gate", "edges"), cases())
def test_the_layers_are_their_formulas(key: str, gate: str, edges: int | None) -> None:
    formula, name, choices = FORMULAS[key]
    network = build(name, gate, edges=edges, norm="none", num_layers=2, **choices).double()
    # Fitted in double precision too.
    network, data = shaken(fit(network)).eval(), with_edge_features(all_sizes(), edges)
    sender, receiver = data.edge_index
    a = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    a[receiver, sender] = layer_coefficient(data)[:, 0]
    E = edge_matrix(network, data)
    if E is None:
        E = torch.zeros(*a.shape, C, dtype=a.dtype)
    rows = []
    for nodes, A, W in matrices(network, data):
        h, g = network.encoder(data.x[nodes]), Dense(A, part(E, nodes), part(a, nodes))
        for conv, weight in zip(network.convs, W, strict=True):
            h = h + torch.relu(formula(plain(conv), g, h, weight))
        rows.append(h.sum(dim=0))
    expected = network.head(torch.stack(rows))
    torch.testing.assert_close(apply(network, data), expected, **EXACT)


@pytest.mark.parametrize("make", [EdgeGCNConv, EdgeSAGEConv, FittedPNAConv])
def test_new_weights(make: Callable[[int], nn.Module]) -> None:
    conv = make(C)
    before = {key: value.clone() for key, value in conv.named_parameters()}
    conv.reset_parameters()
    for key, value in conv.named_parameters():
        assert not torch.equal(value, before[key]), key


# The degrees that PNA compares with.


def test_degrees_are_part_of_the_state_dict() -> None:
    data = all_sizes()
    network = build("pna", "none").double().eval()
    other = build("pna", "none").double().fit_degrees(torch.tensor([0, 5, 1])).eval()
    out = apply(network, data)
    assert not torch.allclose(apply(other, data), out)
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.degree_histogram, network.degree_histogram)
    assert torch.equal(apply(other, data), out)


@pytest.mark.parametrize("histogram", [[7], [0]])
def test_training_graphs_without_edges_leave_outputs_finite(histogram: list[int]) -> None:
    network = build("pna", "none").double().eval().fit_degrees(torch.tensor(histogram))
    assert torch.isfinite(apply(network, all_sizes())).all()


def test_a_network_without_degrees_is_refused() -> None:
    network = build("pna", "none").double()
    assert isinstance(network, FitsDegrees)
    network.degree_histogram = torch.zeros(0, dtype=torch.long)
    with pytest.raises(DataError, match=r"Call fit_degrees\(histogram\)") as caught:
        apply(network, all_sizes())
    assert caught.value.codes == ["model.degrees"]


@pytest.mark.parametrize("towers", [0, 3])
def test_towers_that_do_not_divide_the_width_are_refused(towers: int) -> None:
    with pytest.raises(RequestError, match=f"towers is {towers}"):
        build("pna", "none", towers=towers)


def test_equal_messages_have_no_deviation_however_large() -> None:
    x = torch.rand(1, 4, generator=torch.Generator().manual_seed(0)).expand(7, 4) * 1000
    assert not StdAggregation()(x, torch.zeros(7, dtype=torch.long), dim_size=1, dim=0).any()
