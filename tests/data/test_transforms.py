"""The transform: same numbers as the engine, safe under PyG's batching and caching."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from graphs import COLUMNS, cycle, graph, random_graphs, star
from unionsnn import (
    CoefficientSpec,
    StructuralCoefficients,
    StructuralGate,
    structural_coefficients,
)
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
