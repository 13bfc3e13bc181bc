"""NestedGIN: its formula root by root, what it tells apart, errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from formulas import (
    EXACT,
    all_sizes,
    edge_matrix,
    gin,
    matrices,
    part,
    shaken,
    with_edge_features,
)
from networks import apply, build, bytes_kept, bytes_stated, read_by
from torch import Tensor, nn
from torch_geometric.data import Batch

from graphs import cycle, graph
from positions import distances
from unionsnn.base.errors import RequestError
from unionsnn.data.transforms import RootedSubgraphs

POOL = {"sum": lambda h: h.sum(0), "mean": lambda h: h.mean(0), "max": lambda h: h.amax(0)}


def reference(network: nn.Module, data: Batch) -> Tensor:
    """A GIN on the induced subgraph of each root, pooled."""
    hops, pool = network.encodings["subgraph"], POOL[network.subgraph_readout]
    edges, result = edge_matrix(network, data), []
    for nodes, A, W in matrices(network, data):
        E, features = part(edges, nodes), network.encoder(data.x[nodes])
        length = distances(A.numpy())
        roots = []
        for root in range(len(nodes)):
            inside = torch.tensor([v for v in range(len(nodes)) if length[root, v] <= hops])
            h = features[inside] + network.distance(torch.tensor(length[root])[inside].long())
            own = [weight[inside][:, inside] for weight in W]
            h = gin(network, h, A[inside][:, inside], own, part(E, inside))
            roots.append(pool(h))
        h = torch.stack(roots)
        result.append(h.sum(0, keepdim=True) if network.level == "graph" else h)
    return network.head(torch.cat(result))


@pytest.mark.parametrize("gate", ["none", "default"])
@pytest.mark.parametrize(("hops", "pooling"), [(1, "sum"), (2, "mean"), (3, "max")])
@pytest.mark.parametrize(("level", "width"), [("graph", None), ("node", None), ("graph", 2)])
def test_the_network_is_its_formula(
    gate: str, hops: int, pooling: str, level: str, width: int | None
) -> None:
    choices: dict[str, Any] = {"encodings": {"subgraph": hops}, "subgraph_readout": pooling}
    network = build("nested_gin", gate, level=level, num_layers=2, edges=width, **choices)
    network, data = shaken(network.double()), with_edge_features(all_sizes(), width)
    out, expected = apply(network.eval(), data), reference(network, data)
    torch.testing.assert_close(out, expected, **EXACT)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    parameters = list(network.parameters())
    for one, other in zip(
        torch.autograd.grad((weight * out).sum(), parameters),
        torch.autograd.grad((weight * expected).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_it_tells_apart_what_gin_cannot() -> None:
    """A hexagon and two triangles, all nodes alike: rooted subgraphs see the triangles."""
    two = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    pair = Batch.from_data_list([graph(cycle(6), 6, channels=3), graph(two, 6, channels=3)])
    pair = pair.apply(lambda value: value.double(), "x", "edge_coefficient")
    for name, apart in {"gin": False, "nested_gin": True}.items():
        first, second = apply(build(name, "none").double().eval(), pair)
        assert bool((first - second).abs().max() > 1e-3) == apart


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"subgraph_readout": "last"}, "subgraph_readout is 'last'; allowed are sum, mean, max"),
        ({"encodings": {}}, r"reads the encoding subgraph .*as in model\.encodings\.subgraph=3"),
        ({"encodings": {"subgraph": 0}}, "reads the encoding subgraph and no other"),
        (
            {"encodings": {"subgraph": 2, "laplacian": 3}},
            r"no other, .* Leave model\.encodings\.laplacian out",
        ),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        build("nested_gin", "none", **choices)


def test_a_network_without_subgraphs_is_refused() -> None:
    network, data = build("nested_gin", "none"), all_sizes()
    given = dataclasses.replace(read_by(network, data), subgraph_edge=None)
    with pytest.raises(ValueError, match=r"needs the subgraphs .*model\.encodings\.subgraph=3"):
        network(given)


@pytest.mark.parametrize("gate", ["none", "default", "paper"])
@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("width", [None, 2])
def test_the_stated_memory_is_what_a_training_step_keeps_and_some_more(
    gate: str, hops: int, width: int | None
) -> None:
    """Between what autograd keeps, measured, and twice that, graphs being of different sizes."""
    size = {"hidden_channels": 32, "num_layers": 4, "encodings": {"subgraph": hops}}
    network = build("nested_gin", gate, edges=width, **size)
    complete = [(v, u) for v in range(6) for u in range(v)]
    graphs = [graph(cycle(20), 20, 3), graph(complete, 6, 3), graph([], 2, 3)] * 5
    data = Batch.from_data_list([RootedSubgraphs(hops)(one) for one in graphs])
    if width is not None:
        data.edge_attr = torch.ones(data.num_edges, width)
    kept = bytes_kept(network.train(), data)
    stated = bytes_stated(network, data)
    assert kept <= stated <= 2 * kept
    assert bytes_stated(network.eval(), data) < stated
