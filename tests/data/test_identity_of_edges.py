"""Rows are those of the graph's edges: after splits, samples, batches and moves, and in a layer."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.transforms as T  # noqa: N812
from torch import Tensor, nn
from torch_geometric import typing
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import (
    ClusterData,
    ClusterLoader,
    DataLoader,
    NeighborLoader,
    NodeLoader,
    RandomNodeLoader,
)
from torch_geometric.nn import GCN, GCNConv, SAGEConv
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from graphs import random_graphs
from unionsnn import StructuralCoefficients, StructuralEdgeEncoder, UnionPlugin, plug_in
from unionsnn.base.errors import DataError, RequestError

PAGE = Path(__file__).parents[2] / "docs" / "link_prediction.md"
SPLIT = {"num_val": 0.2, "num_test": 0.2, "is_undirected": True}


def plain(nodes: int = 40, edges: int = 90) -> Data:
    """A connected graph whose rows differ, with edges in no order, and isolated nodes."""
    draw = torch.Generator().manual_seed(0)
    path = torch.stack([torch.arange(nodes - 4), torch.arange(1, nodes - 3)])
    more = torch.randint(nodes - 3, (2, edges), generator=draw)
    pairs = torch.cat([path, more[:, more[0] != more[1]]], dim=1).sort(dim=0).values.unique(dim=1)
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    both = both[:, torch.randperm(both.size(1), generator=draw)]
    return Data(x=torch.randn(nodes, 3, generator=draw), edge_index=both)


@pytest.fixture
def data() -> Data:
    return StructuralCoefficients()(plain())


def informed(part: Data, **options: Any) -> int:
    """Number of rows that are not those of the part's own edges."""
    own = StructuralCoefficients(**options)(
        Data(edge_index=part.edge_index, num_nodes=part.num_nodes)
    )
    return int((part.edge_coefficient != own.edge_coefficient).any(dim=1).sum())


# Link prediction.


@pytest.mark.parametrize("disjoint", [0.0, 0.3])
def test_a_split_before_the_transform_leaves_no_row_that_tells_of_held_out_edges(
    disjoint: float,
) -> None:
    torch.manual_seed(0)
    parts = T.RandomLinkSplit(**SPLIT, disjoint_train_ratio=disjoint)(plain())
    for part in parts:
        assert informed(StructuralCoefficients()(part)) == 0


def test_the_page_on_link_prediction_runs() -> None:
    torch.manual_seed(0)
    namespace: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), namespace)
    for part in ("train", "val", "test"):
        assert informed(namespace[part], radius=1) == 0
    assert namespace["predicted"].isfinite().all()


@pytest.mark.parametrize("key", ["edge_label", "pos_edge_label"])
def test_a_split_after_the_transform_is_refused_by_name(data: Data, key: str) -> None:
    torch.manual_seed(0)
    split = T.RandomLinkSplit(**SPLIT, split_labels=key == "pos_edge_label")
    message = r"tells of \d+ edges .*RandomLinkSplit after StructuralCoefficients .*Split first"
    # Also of a part of the graph: its rows cannot be told from those of a sample otherwise.
    for graph in (data, T.LargestConnectedComponents()(data), T.RemoveIsolatedNodes()(data)):
        for part in split(graph)[:2]:
            reads: list[Callable[[], Any]] = [
                lambda part=part: part.edge_coefficient,
                lambda part=part: Batch.from_data_list([part, part]),
                lambda part=part: part.subgraph(torch.arange(5)),
                lambda part=part: next(iter(node_loader(part))),
                lambda part=part: part.to("cpu"),
                lambda part=part: UnionPlugin(GCNConv(3, 4)).fit_statistics(part),
            ]
            for read in reads:
                with pytest.raises(DataError, match=message) as refused:
                    read()
                assert refused.value.codes == ["transform.edges"]


def test_the_check_can_be_left_out() -> None:
    torch.manual_seed(0)
    data = StructuralCoefficients(check_edges=False)(plain())
    train, _, _ = T.RandomLinkSplit(**SPLIT)(data)
    assert informed(train) > train.num_edges / 2
    plugin = UnionPlugin(SAGEConv(3, 4)).fit_statistics(train)
    plugin(train.x, train.edge_index, edge_coefficient=train.edge_coefficient)


def test_a_split_that_holds_nothing_out_is_no_other_graph(data: Data) -> None:
    part, _, _ = T.RandomLinkSplit(num_val=0, num_test=0, is_undirected=True)(data)
    assert informed(part) == 0


def test_loops_that_are_left_out_change_no_row() -> None:
    graph = plain()
    loops = torch.arange(5).expand(2, -1)
    graph.edge_index = torch.cat([loops, graph.edge_index], dim=1)
    graph = StructuralCoefficients()(graph)
    assert informed(graph.edge_subgraph(graph.edge_index[0] != graph.edge_index[1])) == 0


# Samples: rows of the whole graph that follow their edges.


class Sampler(BaseSampler):
    """One hop around the seeds, along half of the edges: what NeighborLoader does, in Python."""

    edge_permutation = None

    def sample_from_edges(self, *_: Any, **__: Any) -> SamplerOutput:
        raise NotImplementedError

    def __init__(self, data: Data) -> None:
        self.edges = data.edge_index

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> SamplerOutput:
        seeds = index.node
        into = torch.isin(self.edges[1], seeds).nonzero().view(-1)[::2]
        row, col = self.edges[:, into]
        others = row[~torch.isin(row, seeds)].unique()
        node = torch.cat([seeds, others])
        place = torch.full((int(self.edges.max()) + 10,), -1)
        place[node] = torch.arange(len(node))
        return SamplerOutput(
            node=node,
            row=place[row],
            col=place[col],
            edge=into,
            batch=None,
            metadata=(index.input_id, None),
        )


def node_loader(data: Data) -> NodeLoader:
    return NodeLoader(data, node_sampler=Sampler(data), batch_size=6)


def cluster_data(data: Data, monkeypatch: pytest.MonkeyPatch) -> ClusterData:
    # METIS is in pyg-lib and torch-sparse; where a node goes does not matter here.
    monkeypatch.setattr(
        ClusterData,
        "_metis",
        lambda self, edges, count: torch.arange(count).mul(7) % self.num_parts,
    )
    return ClusterData(data, num_parts=4, log=False)


LOADERS: dict[str, Callable[[Data, pytest.MonkeyPatch], Any]] = {
    "RandomNodeLoader": lambda data, _: RandomNodeLoader(data, num_parts=3),
    "NodeLoader": lambda data, _: node_loader(data),
    "ClusterData": cluster_data,
    "ClusterLoader": lambda data, patch: ClusterLoader(cluster_data(data, patch), batch_size=2),
    "DataLoader": lambda data, _: DataLoader([data, data.subgraph(torch.arange(9))], batch_size=2),
}


@pytest.mark.parametrize("name", LOADERS)
def test_rows_follow_their_edges_into_a_sample(
    name: str, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.mark = torch.arange(data.num_nodes)
    rows = dict(zip(map(tuple, data.edge_index.t().tolist()), data.edge_coefficient, strict=True))
    plugin = UnionPlugin(SAGEConv(3, 4)).fit_statistics(data)
    count = 0
    for part in LOADERS[name](data, monkeypatch):
        assert part.edge_coefficient.size(0) == part.num_edges
        for edge, row in zip(
            part.mark[part.edge_index].t().tolist(), part.edge_coefficient, strict=True
        ):
            assert torch.equal(row, rows[tuple(edge)])
            count += 1
        plugin(part.x, part.edge_index, edge_coefficient=part.edge_coefficient)
    assert count > 20


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler'")
def test_neighbor_loader_where_its_package_is_installed(data: Data) -> None:
    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        pytest.skip("NeighborLoader needs pyg-lib or torch-sparse")
    for part in NeighborLoader(data, num_neighbors=[2, 2], batch_size=8):
        assert torch.equal(part.edge_coefficient, data.edge_coefficient[part.e_id])


def test_batches_of_graphs_are_checked_as_a_whole() -> None:
    graphs = random_graphs(6, torch.Generator().manual_seed(1))
    batch = Batch.from_data_list(graphs)
    assert batch.edge_coefficient_graph.shape == (6, 4)
    again = Batch.from_data_list(batch.to_data_list())
    assert torch.equal(again.edge_coefficient, batch.edge_coefficient)
    fewer = batch.edge_subgraph(torch.arange(batch.num_edges - 2))
    with pytest.raises(DataError, match=r"a transform after StructuralCoefficients has left them"):
        _ = fewer.edge_coefficient


# Refused by name.


def hetero() -> HeteroData:
    data = HeteroData()
    data["a"].x = torch.ones(3, 1)
    data["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 0]])
    return data


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (T.AddSelfLoops(), r"40 self loops have been added.*Leave out AddSelfLoops"),
        (T.AddRemainingSelfLoops(), r"Leave out AddSelfLoops"),
        (T.ToUndirected(), r"ToUndirected.*Apply it before"),
        (T.ToSparseTensor(layout=torch.sparse_csr), r"no edge_index any more\. ToSparseTensor"),
        (lambda data: data.edge_subgraph(torch.arange(9)), "Split first"),
        (lambda data: data.update({"edge_index": data.edge_index.flip(1)}), "reordered without"),
        (
            lambda data: data.update({"edge_index": data.edge_index[:, :9]}),
            r"edges have been dropped.*rows = data\.edge_coefficient\[mask\]",
        ),
    ],
)
def test_other_edges_are_refused_by_the_name_of_what_made_them(
    data: Data, change: Callable[[Data], Data], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        _ = change(data).edge_coefficient


def test_edges_kept_beside_a_sparse_matrix_keep_their_rows(data: Data) -> None:
    before = dict(zip(map(tuple, data.edge_index.t().tolist()), data.edge_coefficient, strict=True))
    kept = T.ToSparseTensor(layout=torch.sparse_coo, remove_edge_index=False)(data)
    for edge, row in zip(kept.edge_index.t().tolist(), kept.edge_coefficient, strict=True):
        assert torch.equal(row, before[tuple(edge)])
    plugin = UnionPlugin(SAGEConv(3, 4)).fit_statistics(kept)
    with pytest.raises(TypeError, match=r"a tensor of layout torch\.sparse_coo"):
        plugin(kept.x, kept.adj_t, edge_coefficient=kept.edge_coefficient)


def test_one_way_edges_and_loops_before_the_transform_have_their_rows() -> None:
    data = plain()
    one_way = Data(x=data.x, edge_index=data.edge_index[:, data.edge_index[0] < data.edge_index[1]])
    for change in (T.ToUndirected(), T.Compose([T.ToUndirected(), T.AddSelfLoops()])):
        assert informed(StructuralCoefficients()(change(one_way.clone()))) == 0


def test_a_graph_of_several_edge_types_is_refused_with_what_works() -> None:
    data = hetero()
    with pytest.raises(RequestError, match=r"HeteroData.*data\.to_homogeneous") as refused:
        StructuralCoefficients()(data)
    assert refused.value.codes == ["transform.class"]
    assert StructuralCoefficients()(data.to_homogeneous()).edge_coefficient.shape == (2, 10)


# In a layer.


def readers(data: Data) -> dict[str, Callable[..., Tensor]]:
    flipped = SAGEConv(3, 4, flow="target_to_source")
    encoder = StructuralEdgeEncoder(4).fit_statistics(data.edge_coefficient)
    network = plug_in(GCN(3, 4, 2))
    for part in network.modules():
        if isinstance(part, UnionPlugin):
            part.fit_statistics(data)
    return {
        "plug-in": UnionPlugin(SAGEConv(3, 4)).fit_statistics(data),
        "other flow": UnionPlugin(flipped).fit_statistics(data),
        "network": network,
        "encoder": lambda x, edges, edge_coefficient: encoder(edge_coefficient, edges, len(x)),
    }


@pytest.mark.parametrize("name", ["plug-in", "other flow", "network", "encoder"])
def test_a_layer_refuses_the_rows_of_other_edges(data: Data, name: str) -> None:
    read, rows, edges = readers(data)[name], data.edge_coefficient, data.edge_index
    out = read(data.x, edges, edge_coefficient=rows)
    # The same edges in another tensor.
    for same in (edges.clone(), edges.clone(), edges):
        assert torch.equal(read(data.x, same, edge_coefficient=rows), out)
    order = torch.randperm(edges.size(1), generator=torch.Generator().manual_seed(0))
    for other in (edges[:, order], edges.flip(0)):
        with pytest.raises(DataError, match="read from a graph with other edges") as refused:
            read(data.x, other, edge_coefficient=rows)
        assert refused.value.codes == ["batch.edges"]
        read(data.x, other, edge_coefficient=rows.clone())
    again = read(data.x, edges[:, order], edge_coefficient=rows[order])
    torch.testing.assert_close(again.sum(0), out.sum(0))
    edges[:] = edges[:, order]
    with pytest.raises(DataError, match="with other edges"):
        read(data.x, edges, edge_coefficient=rows)
    with pytest.raises(DataError, match="reordered"):
        _ = data.edge_coefficient


class Permuting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(3, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index.flip(1))


def test_a_network_that_permutes_its_edges_is_refused(data: Data) -> None:
    network = plug_in(Permuting())
    network.conv.fit_statistics(data)
    for rows in (data.edge_coefficient, data.edge_coefficient.clone()):
        with pytest.raises(DataError, match="with other edges, or in another order"):
            network(data.x, data.edge_index, edge_coefficient=rows)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_a_copy_is_checked_as_the_original(data: Data, how: Callable[[Data], Data]) -> None:
    rows = data.edge_coefficient
    twin = how(data)
    assert torch.equal(twin.edge_coefficient, rows)
    twin.edge_index = twin.edge_index.flip(1)
    with pytest.raises(DataError, match="reordered"):
        _ = twin.edge_coefficient
    assert data.edge_coefficient is rows


def test_a_graph_is_compared_once(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no step of a training waits for a GPU: a batch is compared before it is moved."""
    from unionsnn.data import transforms

    compared: list[int] = []
    check = transforms._check_rows
    monkeypatch.setattr(
        transforms, "_check_rows", lambda store: (compared.append(1), check(store))[1]
    )
    batch = Batch.from_data_list([data, data])
    compared.clear()
    moved = batch.to("cpu")
    for _ in range(3):
        _ = moved.edge_coefficient
        moved = moved.cpu()
    assert compared == [1]
    on_meta = batch.to("meta")
    assert on_meta.edge_coefficient.device.type == "meta"
    assert compared == [1]
