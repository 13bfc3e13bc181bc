"""GPS: parity with PyG's layer, choices, encodings of position."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from networks import apply, build, read_by
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GINConv, GINEConv, GPSConv

from graphs import random_graphs
from unionsnn import StructuralGate
from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.models.gps import EDGE_READING, GPS, LOCAL, GPSLayer
from unionsnn.models.graphormer import Graphormer
from unionsnn.models.parts import two_layer_mlp
from unionsnn.models.ugformer import UGformer
from unionsnn.nn.attention import Attention
from unionsnn.nn.loops import SelfLoops
from unionsnn.nn.padding import Padding

CHANNELS, HEADS = 8, 4


def many() -> Batch:
    data = Batch.from_data_list(random_graphs(12, torch.Generator().manual_seed(0)))
    return data.apply(lambda value: value.double(), "x", "edge_coefficient")


def pyg_conv(local: str) -> nn.Module | None:
    mlp = two_layer_mlp(CHANNELS, "none")
    convs = {"gine": GINEConv(mlp), "gin": GINConv(mlp), "gcn": GCNConv(CHANNELS, CHANNELS)}
    return convs.get(local)


def as_pyg(layer: GPSLayer, local: str, norm: str) -> GPSConv:
    """PyG's layer with the same weights."""
    kind = {"batch": "batch_norm", "layer": "layer_norm", "none": None}[norm]
    options = {"mode": "node"} if norm == "layer" else {}
    theirs = GPSConv(CHANNELS, pyg_conv(local), HEADS, norm=kind, norm_kwargs=options).double()
    pairs = [(layer.attention.combine, theirs.attn.out_proj)]
    if local == "gine":
        pairs.append((layer.conv.conv.nn, theirs.conv.nn))
    elif local != "none":
        pairs.append((layer.conv, theirs.conv))
    norms = [(layer.attention_norm, theirs.norm2), (layer.norm, theirs.norm3)]
    norms += [(layer.conv_norm, theirs.norm1)] if local != "none" else []
    pairs += norms if norm != "none" else []
    pairs += [(layer.feedforward[i], theirs.mlp[i]) for i in (0, 3)]
    for ours, other in pairs:
        other.load_state_dict(ours.state_dict())
    theirs.attn.in_proj_weight.data.copy_(layer.attention.project.weight)
    theirs.attn.in_proj_bias.data.copy_(layer.attention.project.bias)
    return theirs


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
@pytest.mark.parametrize("training", [True, False])
def test_the_layer_is_that_of_pyg(local: str, norm: Any, training: bool) -> None:
    """Outputs and gradients, with plain attention and one vector for all edges."""
    torch.manual_seed(0)
    make = LOCAL[local]
    conv = None if make is None else make(CHANNELS)
    layer = GPSLayer(CHANNELS, conv, Attention(CHANNELS, HEADS), norm=norm).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    theirs = as_pyg(layer, local, norm)
    for one in (layer, theirs):
        one.train(training)
    data = many()
    h = torch.randn(data.num_nodes, CHANNELS, dtype=torch.float64, requires_grad=True)
    padding = Padding(data.batch, data.num_graphs)
    # The network appends the loops of GCN once for all layers.
    loops = SelfLoops(data.edge_index, data.num_nodes)
    edge_index = loops.edge_index if local == "gcn" else data.edge_index
    out = layer(h, edge_index, padding, padding.keys[:, None, None])
    edges = {}
    if local == "gine":
        edges["edge_attr"] = layer.conv.edge.expand(data.num_edges, -1)
    expected = theirs(h, data.edge_index, data.batch, **edges)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    inputs = [h, layer.conv.edge] if local == "gine" else [h]
    gradients = (torch.autograd.grad((weight * one).sum(), inputs) for one in (out, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("attention", ["graphormer", "plain", "none"])
@pytest.mark.parametrize("local", LOCAL)
def test_every_choice_gives_another_function(attention: str, local: str) -> None:
    if attention == local == "none":
        pytest.skip("refused by name, tested below")
    encodings = {"random_walk": 4, "distance": attention == "graphormer"}
    network = build("gps", "none", attention=attention, local=local, encodings=encodings).double()
    parts = {part.partition(".")[0] for part in network.layers[0].state_dict()}
    assert ("attention" in parts) == (attention != "none")
    assert ("conv" in parts) == (local != "none")
    assert (network.bias.spatial is not None) == (attention == "graphormer")
    out = apply(network, many())
    assert bool(torch.isfinite(out).all())
    # A mask alone needs no matrix of all pairs.
    rows = {"x": 300, "edge_index": 600}
    one, ten = Extent(1, 300, 300**2, rows), Extent(10, 30, 9000, rows)
    assert (network.batch_bytes(one) > network.batch_bytes(ten)) == (attention == "graphormer")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"local": "gat"}, "local is 'gat'; allowed are gine, gin, gcn, none"),
        ({"attention": "full"}, "attention is 'full'; allowed are graphormer, plain, none"),
        ({"local": "none", "attention": "none"}, "both 'none'"),
        ({"attention": "plain"}, r"no distances .*type model\.encodings\.distance=false"),
        ({"encodings": {"distance": False}}, r"the distances .*model\.encodings\.distance=true"),
        ({"encodings": None}, r"the distances .*type model\.encodings\.distance=true"),
        ({"encodings": {"distance": True, "walk": 3}}, r"encodings\.walk is 3; allowed are random"),
        ({"encodings": {"distance": 1}}, r"encodings\.distance is 1; it must be true or false"),
        (
            {"encodings": {"distance": True, "random_walk": -1}},
            r"encodings\.random_walk is -1; it must be an integer of at least 0",
        ),
        ({"heads": 3}, "hidden_channels is 8 and heads is 3"),
        ({"norm": "group"}, "norm is 'group'; allowed are batch, layer, none"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=f"model gps: .*{message}"):
        build("gps", "none", **arguments)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize(("edges", "inject"), [(2, "gate"), (None, "edge")])
def test_message_passing_that_reads_no_edges_refuses_their_features(
    local: str, edges: int | None, inject: str
) -> None:
    gate = "none" if inject == "gate" else "default"
    if local in EDGE_READING:
        assert build("gps", gate, local=local, edges=edges, inject=inject).edge_encoder is not None
        return
    message = f"local is '{local}', which does not read .*model.local=gine"
    with pytest.raises(RequestError, match=message) as caught:
        build("gps", gate, local=local, edges=edges, inject=inject)
    assert caught.value.codes == ["model.edges"]


def test_a_gate_without_attention_is_refused() -> None:
    message = "the gate is a bias on attention: type gate=none"
    with pytest.raises(ValueError, match=message):
        GPS(
            in_channels=3,
            out_channels=2,
            attention="none",
            gate=lambda heads: StructuralGate.preset("paper", heads),
        )


def test_graphormer_without_distances_is_refused() -> None:
    with pytest.raises(ValueError, match=r"type model\.encodings\.distance=true"):
        Graphormer(in_channels=3, out_channels=2)
    with pytest.raises(ValueError, match="max_degree is 0; it must be at least 1"):
        Graphormer(in_channels=3, out_channels=2, encodings={"distance": True}, max_degree=0)


def test_a_length_of_paths_without_edge_features_is_refused() -> None:
    with pytest.raises(RequestError, match=r"max_path is 3, but no edge features") as caught:
        build("graphormer", "none", max_path=3)
    assert caught.value.codes == ["model.argument"]
    assert len(build("graphormer", "none", max_path=3, edges=2).paths.weight) == 3
    assert len(build("graphormer", "default", inject="edge").paths.weight) == 5


@pytest.mark.parametrize("name", ["random_walk", "laplacian", "distance"])
def test_an_encoding_that_is_not_given_is_refused(name: Any) -> None:
    network = UGformer(
        in_channels=3,
        out_channels=2,
        encodings={"random_walk": 3, "laplacian": 2, "distance": True},
    ).double()
    data = many()
    given = read_by(network, data)
    for value in (None, torch.zeros(1, 7)):
        message = rf"needs {name} of the shape .*but got.*model\.encodings\.{name}="
        with pytest.raises(ValueError, match=message):
            network(dataclasses.replace(given, **{name: value}))


def laplacian_network() -> nn.Module:
    return build("ugformer", "none", encodings={"laplacian": 3}).double()


def test_signs_of_eigenvectors_are_flipped_in_training_only() -> None:
    data = many()
    network = laplacian_network().train()
    first, second = apply(network, data), apply(network, data)
    assert not torch.allclose(first, second)
    network.eval()
    assert torch.equal(apply(network, data), apply(network, data))


def test_signs_are_those_of_a_graph_and_a_column() -> None:
    data = many()
    encoder = laplacian_network().laplacian
    nn.init.eye_(encoder.weight)
    nn.init.zeros_(encoder.bias)
    vectors = torch.rand(data.num_nodes, 3, dtype=torch.float64) + 1
    drawn: list[Tensor] = []
    for _ in range(20):
        signs = encoder(vectors, data.batch, data.num_graphs)[:, :3] / vectors
        assert torch.equal(signs.abs(), torch.ones_like(signs))
        per_graph = torch.stack([signs[data.batch == g][0] for g in range(data.num_graphs)])
        assert torch.equal(per_graph[data.batch], signs)
        drawn.append(per_graph)
    seen = torch.stack(drawn)
    assert bool(((seen == 1).any(dim=0) & (seen == -1).any(dim=0)).all())
    assert not bool((seen == seen[:, :1]).all())
    assert not bool((seen == seen[:, :, :1]).all())
