"""PPGN against its formula, written out for one graph after another; padding, memory, power."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from formulas import (
    all_sizes,
    assert_padding_changes_nothing,
    assert_same_gradients,
    edge_matrix,
    shaken,
    with_edge_features,
)
from networks import apply, build, bytes_kept, bytes_stated
from test_transformers import linear
from torch import Tensor, nn
from torch_geometric.data import Batch

from graphs import cycle, graph, random_graphs, rook, shrikhande
from positions import adjacency
from unionsnn.base.errors import RequestError
from unionsnn.nn.pairs import PairPadding, pair_features

READOUTS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}
CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}


def pointwise(p: dict[str, Tensor], at: str, X: Tensor) -> Tensor:
    """A linear map of each pair, from the weights of a convolution of one pixel."""
    bias = p.get(f"{at}.bias")
    return X @ p[f"{at}.weight"][:, :, 0, 0].T + (0 if bias is None else bias)


def block(p: dict[str, Tensor], at: str, X: Tensor, layers: int) -> Tensor:
    sides = []
    for side in ("left", "right"):
        Y = X
        for layer in range(layers):
            Y = torch.relu(pointwise(p, f"{at}.{side}.{2 * layer}", Y))
        sides.append(Y)
    left, right = sides
    n = len(X)
    product = torch.stack(
        [
            torch.stack([sum(left[v, w] * right[w, u] for w in range(n)) for u in range(n)])
            for v in range(n)
        ]
    )
    return pointwise(p, f"{at}.pair", X) + pointwise(p, f"{at}.product", product)


def reference(network: nn.Module, data: Batch) -> Tensor:
    """Output of a whole network, graph by graph, without padding."""
    p = dict(network.named_parameters())
    reduce = READOUTS[network.readout]
    E, rows = edge_matrix(network, data), []
    for index in range(data.num_graphs):
        nodes, A = adjacency(data, index)
        n = len(nodes)
        h = linear(p, "encoder", data.x[nodes])
        X = torch.zeros(n, n, 1 + h.size(1), dtype=h.dtype)
        X[:, :, 0] = torch.from_numpy(A.T)
        parts = [X[:, :, :1], torch.eye(n, dtype=h.dtype)[:, :, None] * h]
        X = torch.cat(parts if E is None else [*parts, E[nodes][:, nodes]], dim=2)
        found = 0
        for layer in range(len(network.blocks)):
            X = block(p, f"blocks.{layer}", X, network.mlp_layers)
            own = torch.stack([X[v, v] for v in range(n)])
            others = [[X[v, u] for u in range(n) if u != v] for v in range(n)]
            if network.level == "node":
                zero = torch.zeros_like(own[0])
                rest = [reduce(torch.stack(row), dim=0) if row else zero for row in others]
                seen = torch.cat([own, torch.stack(rest)], dim=1)
            else:
                pairs = [pair for row in others for pair in row] or [torch.zeros_like(own[0])]
                seen = [reduce(own, dim=0), reduce(torch.stack(pairs), dim=0)]
                seen = torch.cat(seen).unsqueeze(0)
            found = found + linear(p, f"readers.{layer}", seen)
        rows.append(linear(p, "head.3", torch.relu(linear(p, "head.0", found))))
    return torch.cat(rows)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize(("mlp_layers", "width"), [(1, None), (2, None), (1, 2)])
def test_the_network_is_its_formula(
    level: str, readout: str, mlp_layers: int, width: int | None
) -> None:
    """Outputs and gradients of graphs of many sizes, padded to the largest: padding is unseen."""
    choices = {"readout": readout, "mlp_layers": mlp_layers, "num_layers": 2}
    network = shaken(build("ppgn", "none", level=level, edges=width, **choices).double())
    data = with_edge_features(all_sizes(), width)
    data.x.requires_grad_()
    out, expected = apply(network, data), reference(network, data)
    torch.testing.assert_close(out, expected, **CLOSE)
    assert_same_gradients(network, data, out, expected)


@pytest.mark.parametrize("readout", READOUTS)
def test_padding_changes_nothing(readout: str) -> None:
    assert_padding_changes_nothing(
        shaken(build("ppgn", "none", readout=readout, num_layers=2).double())
    )


def test_edges_count_once_and_loops_not_at_all() -> None:
    edge_index = torch.tensor([[0, 0, 1, 2, 2], [1, 1, 0, 2, 1]])
    h = torch.tensor([[5.0], [6.0], [7.0]])
    (found,) = pair_features(h, edge_index, PairPadding(torch.zeros(3, dtype=torch.long), 1))
    assert found[0, 0].tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    assert torch.equal(found[0, 1], torch.diag(h[:, 0]))


def test_repeated_edges_have_the_mean_of_their_features() -> None:
    edge_index = torch.tensor([[0, 0, 1, 2, 2], [1, 1, 0, 2, 1]])
    edges = torch.tensor([[1.0], [4.0], [8.0], [16.0], [32.0]])
    padding = PairPadding(torch.zeros(3, dtype=torch.long), 1)
    (found,) = pair_features(torch.ones(3, 1), edge_index, padding, edges)
    assert found[0, 2].tolist() == [[0, 8, 0], [2.5, 0, 32], [0, 0, 0]]


@pytest.mark.parametrize("sizes", [[20] * 16, [80], [40, *[30] * 10]])
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"readout": "sum"},
        {"mlp_layers": 1, "num_layers": 1},
        {"edges": 2},
        {"mlp_layers": 1, "num_layers": 1, "edges": 2},
    ],
)
def test_the_stated_memory_is_what_a_training_step_keeps_and_some_more(
    sizes: list[int], choices: dict[str, Any]
) -> None:
    """Between what autograd keeps, measured, and twice that; less where nothing is kept."""
    network = build("ppgn", "none", **{"hidden_channels": 32, "num_layers": 3, **choices})
    data = Batch.from_data_list([graph(cycle(nodes), nodes, 3) for nodes in sizes])
    data.edge_attr = torch.ones(data.num_edges, 2)
    kept = bytes_kept(network, data)
    stated = bytes_stated(network, data)
    assert kept <= stated <= 2 * kept
    assert bytes_stated(network.eval(), data) < stated


def test_small_graphs_beside_a_large_one_are_not_padded_to_its_size() -> None:
    network = build("ppgn", "none", hidden_channels=32)
    sizes = [60, *[3] * 20]
    kept = [
        bytes_kept(network, Batch.from_data_list([graph(cycle(n), n, 3) for n in part]))
        for part in (sizes, sizes[:1], sizes[1:])
    ]
    assert kept[0] < 1.01 * (kept[1] + kept[2])
    data, alone = (Batch.from_data_list([graph(cycle(n), n, 3) for n in s]) for s in (sizes, [60]))
    assert kept[0] <= bytes_stated(network, data) < len(sizes) * bytes_stated(network, alone)


def two_triangles() -> list[tuple[int, int]]:
    return [*cycle(3), *((v + 3, u + 3) for v, u in cycle(3))]


def test_it_tells_apart_what_1_wl_cannot_but_not_what_3_wl_cannot() -> None:
    for readout in ("sum", "max"):
        network = build("ppgn", "none", features=1, readout=readout).double()
        pair = [graph(edges, 6) for edges in (cycle(6), two_triangles())]
        outs = [apply(network, one.apply(lambda v: v.double(), "x")) for one in pair]
        assert torch.sub(*outs).abs().max() > 1e-3
        alike = [graph(edges, 16) for edges in (rook(), shrikhande())]
        outs = [apply(network, one.apply(lambda v: v.double(), "x")) for one in alike]
        torch.testing.assert_close(*outs)


def test_no_maps_are_refused() -> None:
    with pytest.raises(RequestError, match="mlp_layers is 0; it must be at least 1"):
        build("ppgn", "none", mlp_layers=0)


def test_every_readout_is_another_function() -> None:
    data = Batch.from_data_list(random_graphs(6, torch.Generator().manual_seed(0)))
    outs = [apply(build("ppgn", "none", readout=kind), data) for kind in READOUTS]
    for i, one in enumerate(outs):
        for other in outs[:i]:
            assert not torch.allclose(one, other)
