"""The encoding of edges along shortest paths: what does not change it, and its bounds.

Its formula is that of the network, with networkx's lists of paths: tests/models/test_transformers.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphs import cycle, graph, rook, star
from positions import distances
from unionsnn.base.errors import RequestError
from unionsnn.nn import edge_paths
from unionsnn.nn.edge_paths import PathEncoding
from unionsnn.nn.padding import Padding

HEADS, CHANNELS = 2, 3
SEVERAL = {
    "square with a tail": [*cycle(4), (0, 4), (4, 5)],
    "rook": rook(),
    "star and a node": star(4),
    "ring": cycle(9),
}


def encoded(
    edge_index: Tensor, edges: Tensor, num_nodes: int, *, max_path: int = 2, token: bool = False
) -> Tensor:
    """c as [receiver, sender, heads]."""
    torch.manual_seed(0)
    module = PathEncoding(CHANNELS, HEADS, max_path=max_path).double()
    A = torch.zeros(num_nodes, num_nodes)
    A[tuple(edge_index)] = 1
    distance = torch.from_numpy(distances(A.fill_diagonal_(0).numpy())).to(torch.uint8).flatten()
    padding = Padding(torch.zeros(num_nodes, dtype=torch.long), 1, token=token)
    c: Tensor = module(edges, edge_index, padding, distance)
    return c.view(num_nodes, num_nodes, HEADS)


def edges_of(edge_index: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(edge_index.size(1), CHANNELS, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", SEVERAL)
def test_neither_the_names_of_nodes_nor_the_order_of_edges_matters(name: str) -> None:
    """Where several shortest paths connect two nodes, none of them is preferred."""
    data = graph(SEVERAL[name], 16)
    edges, n = edges_of(data.edge_index), data.num_nodes
    c = encoded(data.edge_index, edges, n)
    generator = torch.Generator().manual_seed(2)
    new_name = torch.randperm(n, generator=generator)
    order = torch.randperm(data.num_edges, generator=generator)
    other = encoded(new_name[data.edge_index[:, order]], edges[order], n, token=True)
    torch.testing.assert_close(other[new_name][:, new_name], c)


def test_neighbours_have_their_own_edge() -> None:
    data = graph(SEVERAL["square with a tail"], 6)
    edges = edges_of(data.edge_index)
    c = encoded(data.edge_index, edges, 6)
    torch.manual_seed(0)
    first = PathEncoding(CHANNELS, HEADS, max_path=2).double().weight[0]
    sender, receiver = data.edge_index
    torch.testing.assert_close(c[receiver, sender], edges @ first)
    assert not c.diagonal().any()


def test_repeated_edges_count_once_and_loops_not_at_all() -> None:
    data = graph(SEVERAL["square with a tail"], 6)
    edges = edges_of(data.edge_index)
    more = torch.cat([data.edge_index, data.edge_index[:, :2], torch.tensor([[3], [3]])], dim=1)
    repeated = torch.cat([edges, 3 * edges[:2], edges[:1]])
    mean = torch.cat([2 * edges[:2], edges[2:]])
    expected = encoded(data.edge_index, mean, 6)
    torch.testing.assert_close(encoded(more, repeated, 6), expected)


def test_paths_are_read_from_their_receiver_and_up_to_the_longest_distance() -> None:
    """A path of 300 nodes: the first edges of each; nothing where the distance is truncated."""
    n, last = 300, 4
    data = graph([(v, v + 1) for v in range(n - 1)], n)
    edges = edges_of(data.edge_index)
    c = encoded(data.edge_index, edges, n, max_path=last)
    torch.manual_seed(0)
    weight = PathEncoding(CHANNELS, HEADS, max_path=last).double().weight
    place = {pair: i for i, pair in enumerate(map(tuple, data.edge_index.t().tolist()))}
    for v, u in [(0, 1), (0, 3), (3, 0), (10, 200), (299, 46), (20, 274)]:
        step = 1 if u > v else -1
        ways = range(min(abs(u - v), last))
        mean = sum(edges[place[v + step * (k + 1), v + step * k]] @ weight[k] for k in ways)
        torch.testing.assert_close(c[v, u], mean / len(ways))
    assert not c[20, 275].any()
    assert not c[299, 0].any()


def test_numbers_of_paths_beyond_all_bounds_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete layers: each path counts the same, however many there are."""
    layers = [(3 * i + a, 3 * i + 3 + b) for i in range(5) for a in range(3) for b in range(3)]
    data = graph(layers, 18)
    edges = edges_of(data.edge_index)
    expected = encoded(data.edge_index, edges, 18)
    monkeypatch.setattr(edge_paths, "_MOST_PATHS", 1.0)
    torch.testing.assert_close(encoded(data.edge_index, edges, 18), expected)


def test_no_path_is_refused() -> None:
    with pytest.raises(RequestError, match="max_path is 0; it must be at least 1"):
        PathEncoding(CHANNELS, HEADS, max_path=0)
