"""The transform: same numbers as the engine, safe under PyG's batching and caching."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T  # noqa: N812
from torch_geometric.data import Batch, Data, InMemoryDataset

from graphs import COLUMNS, cycle, graph, random_graphs, star
from unionsnn import (
    CoefficientSpec,
    StructuralCoefficients,
    StructuralGate,
    structural_coefficients,
)
from unionsnn.base.errors import DataError, RequestError
from unionsnn.data.transforms import CoefficientData, RootedSubgraphs
from unionsnn.nn.gates import PRESETS


def test_rows_are_the_engine_s() -> None:
    for data in random_graphs(20, torch.Generator().manual_seed(0)):
        expected = structural_coefficients(
            data.edge_index.numpy(),
            data.num_nodes,
            radius=(1, 2, 3),
            quantities=("a", "a_tree", "nodes", "edges"),
        )
        np.testing.assert_allclose(data.edge_coefficient.numpy(), expected, rtol=1e-6)
        assert data.coefficient_columns == ",".join(COLUMNS)


def test_default_transform_stores_what_every_preset_reads() -> None:
    columns = StructuralCoefficients().spec.columns
    for name in PRESETS:
        assert set(StructuralGate.preset(name, 4).required_columns) <= set(columns)
    assert StructuralGate.preset("default", 4).required_columns == columns


def test_excess_of_a_tree_is_exactly_zero() -> None:
    tree = graph([*star(5), (1, 6), (6, 7), (2, 8)], 9)
    spec = CoefficientSpec(quantities=("a", "a_tree"))
    a, tree_value = StructuralCoefficients(spec)(tree).edge_coefficient.t()
    excess = tree_value - a
    assert torch.equal(excess, torch.zeros_like(excess))


def test_rows_follow_their_edges_into_a_batch() -> None:
    graphs = [graph(star(3), 4), graph([], 2), graph(cycle(4), 4), graph([], 0), graph(star(2), 3)]
    batch = Batch.from_data_list(graphs)
    assert batch.edge_coefficient.shape == (batch.num_edges, 10)
    for one, other in zip(batch.to_data_list(), graphs, strict=True):
        assert torch.equal(one.edge_coefficient, other.edge_coefficient)


def test_a_graph_with_as_many_edges_as_nodes_or_columns() -> None:
    triangle = graph(cycle(3), 6)
    path = graph([(0, 1), (1, 2)], 4)
    for data in (triangle, path):
        assert data.is_edge_attr("edge_coefficient")
        assert not data.is_node_attr("edge_coefficient")
        assert not data.is_edge_attr("coefficient_columns")
        assert not data.is_node_attr("coefficient_columns")


class Tiny(InMemoryDataset):
    @property
    def processed_file_names(self) -> str:
        return "data.pt"

    def process(self) -> None:
        assert self.pre_transform is not None
        plain = [Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))] * 2
        self.save([self.pre_transform(data) for data in plain], self.processed_paths[0])

    def __init__(self, root: str, **options: object) -> None:
        super().__init__(root, **options)
        self.load(self.processed_paths[0])


@pytest.mark.filterwarnings("error")
def test_as_pre_transform_the_rows_are_cached_with_the_data_set(tmp_path: Path) -> None:
    Tiny(str(tmp_path), pre_transform=StructuralCoefficients())
    again = Tiny(str(tmp_path), pre_transform=StructuralCoefficients())
    assert again[0].edge_coefficient.tolist() == [[2.0, 2.0, 2.0, 1.0, *[2.0, 2.0, 1.0] * 2]] * 2
    assert again[0].coefficient_columns == ",".join(COLUMNS)


def test_one_direction_only_is_an_error_unless_it_is_said() -> None:
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="symmetrize=True"):
        StructuralCoefficients()(data)
    assert StructuralCoefficients(symmetrize=True)(data).edge_coefficient.shape == (1, 10)


def test_own_choice_of_radius() -> None:
    data = StructuralCoefficients(radius=2)(graph(star(3), 4))
    assert data.coefficient_columns == "a_r2,nodes_r2,edges_r2"
    with pytest.raises(ValueError, match="radius was given together with a spec"):
        StructuralCoefficients(CoefficientSpec(), radius=2)


def test_own_choice_of_quantities() -> None:
    data = graph(star(3), 4)
    transform = StructuralCoefficients(CoefficientSpec(quantities=("a",)))
    assert transform(data).edge_coefficient.shape == (6, 1)
    assert "quantities=('a',)" in repr(transform)


# -- transforms of PyG after ours ----------------------------------------------------------


def scrambled() -> Data:
    """A graph with a triangle, a tail, a component beside it and an isolated node, unsorted."""
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (6, 7), (5, 6)]
    both = torch.tensor([*pairs, *((u, v) for v, u in pairs)]).t()
    order = torch.randperm(both.size(1), generator=torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.rand(9, 4, generator=generator),
        pos=torch.rand(9, 2, generator=generator),
        edge_index=both[:, order],
        y=torch.tensor([1]),
    )
    return StructuralCoefficients()(data)


ROW_OF = {
    (v, u): row
    for (v, u), row in zip(
        scrambled().edge_index.t().tolist(), scrambled().edge_coefficient, strict=True
    )
}
KEEPS = {
    "RemoveSelfLoops": T.RemoveSelfLoops(),
    "RemoveIsolatedNodes": T.RemoveIsolatedNodes(),
    "LargestConnectedComponents": T.LargestConnectedComponents(),
    "RandomNodeSplit": T.RandomNodeSplit(num_val=1, num_test=1),
    "NormalizeFeatures": T.NormalizeFeatures(),
    "Constant": T.Constant(),
    "OneHotDegree": T.OneHotDegree(5),
    "LocalDegreeProfile": T.LocalDegreeProfile(),
    "TargetIndegree": T.TargetIndegree(),
    "Distance": T.Distance(),
    "Cartesian": T.Cartesian(),
    "LocalCartesian": T.LocalCartesian(),
    "Polar": T.Polar(),
    "Center": T.Center(),
    "RandomFlip": T.RandomFlip(0),
    "AddRandomWalkPE": T.AddRandomWalkPE(2),
    "AddLaplacianEigenvectorPE": T.AddLaplacianEigenvectorPE(1, is_undirected=True),
    "SIGN": T.SIGN(1),
    "SVDFeatureReduction": T.SVDFeatureReduction(2),
    "ToDevice": T.ToDevice("cpu"),
    "Compose": T.Compose([T.RemoveIsolatedNodes(), T.Constant()]),
    "sort": lambda data: data.sort(),
    "subgraph": lambda data: data.subgraph(torch.tensor([3, 2, 1, 0])),
}
REFUSED = {
    "ToUndirected": T.ToUndirected(),
    "ToUndirected mean": T.ToUndirected("mean"),
    "ToUndirected max": T.ToUndirected("max"),
    "RemoveDuplicatedEdges": T.RemoveDuplicatedEdges(),
    "coalesce": lambda data: data.coalesce(),
    "AddSelfLoops": T.AddSelfLoops(),
    "AddRemainingSelfLoops": T.AddRemainingSelfLoops(),
    "GCNNorm": T.GCNNorm(),
    "TwoHop": T.TwoHop(),
    "LineGraph": T.LineGraph(),
    "VirtualNode": T.VirtualNode(),
    "GDC": T.GDC(exact=True),
    "FaceToEdge": lambda data: T.FaceToEdge()(data.update({"face": torch.tensor([[0], [1], [2]])})),
    "ToSparseTensor": T.ToSparseTensor(layout=torch.sparse_csr),
    "reversed edges": lambda data: data.update({"edge_index": data.edge_index.flip(1)}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*KEEPS, *REFUSED])
def test_rows_follow_their_edges_through_a_transform_or_are_refused(name: str) -> None:
    data = (KEEPS | REFUSED)[name](scrambled())
    if name in REFUSED:
        for read in (lambda: data.edge_coefficient, lambda: Batch.from_data_list([data, data])):
            with pytest.raises(DataError, match=r"after StructuralCoefficients.*") as refused:
                read()
            assert refused.value.codes == ["transform.edges"]
        return
    for each in (data, Batch.from_data_list([data, data, data])[1]):
        # Features tell which node was which.
        moved = ROW_OF
        if "pos" in each and each.num_nodes < 9 and name != "Center":
            was = scrambled().pos
            of = [int((was == row).all(dim=1).nonzero()) for row in each.pos]
            edges = [(of[v], of[u]) for v, u in each.edge_index.t().tolist()]
        else:
            edges = [(v, u) for v, u in each.edge_index.t().tolist()]
        assert len(edges) == len(each.edge_coefficient) > 0
        for edge, row in zip(edges, each.edge_coefficient, strict=True):
            assert torch.equal(row, moved[edge])


def test_rows_are_checked_when_the_graph_comes_from_a_file(tmp_path: Path) -> None:
    data = Tiny(str(tmp_path), pre_transform=StructuralCoefficients(), transform=T.ToUndirected())
    with pytest.raises(DataError, match="Apply it before"):
        _ = data[0].edge_coefficient


class Own(Data):
    """A class of a user's."""


class OwnCoefficients(CoefficientData):
    """One that a user derived as told."""

    def __inc__(self, key: str, *args: Any, **kwargs: Any) -> Any:
        return 100 if key == "mine" else super().__inc__(key, *args, **kwargs)


def test_batches_of_all_classes_are_checked() -> None:
    edges = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])
    with pytest.raises(RequestError, match="Own, whose batches") as refused:
        StructuralCoefficients()(Own(edge_index=edges, num_nodes=3))
    assert refused.value.codes == ["transform.class"]
    own = OwnCoefficients(edge_index=edges, num_nodes=3, mine=torch.zeros(1))
    plain = Data(edge_index=edges, num_nodes=3)
    both = [StructuralCoefficients(), RootedSubgraphs(1)]
    for data, transforms in ((own, both[:1]), (plain, both), (plain, both[::-1])):
        for transform in transforms:
            data = transform(data)
        batch = Batch.from_data_list([data, data])
        assert torch.equal(batch.edge_coefficient[:4], batch.edge_coefficient[4:])
        if data.get("mine") is not None:
            assert type(data) is OwnCoefficients
            assert batch.mine.tolist() == [0, 100]
        with pytest.raises(DataError, match="Leave out AddSelfLoops"):
            _ = T.AddSelfLoops()(batch).edge_coefficient


def test_rows_that_are_set_by_hand_are_taken() -> None:
    data = scrambled()
    rows, order = data.edge_coefficient, torch.arange(14).flip(0)
    data.edge_index = data.edge_index[:, order]
    data.edge_coefficient = rows[order]
    assert torch.equal(Batch.from_data_list([data, data])[1].edge_coefficient, rows.flip(0))
