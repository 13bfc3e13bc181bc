"""UnionPlugin.fit_statistics on every form of data, and the library example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gated_graphs import COLUMNS, several_graphs
from torch import Tensor, nn
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.datasets import TUDataset
from torch_geometric.nn import GINConv

from graphs import cycle, graph, random_graphs, star
from unionsnn import CoefficientSpec, StructuralCoefficients, UnionPlugin
from unionsnn.nn import features


def gin() -> GINConv:
    return GINConv(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4)))


def apply(plugin: Callable[..., Tensor], data: Data) -> Tensor:
    return plugin(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)


class Tiny(InMemoryDataset):
    """Three small graphs, stored as PyG stores them."""

    processed_file_names = "data.pt"

    def __init__(self, root: Path, pre_transform: Any = None) -> None:
        super().__init__(str(root), pre_transform=pre_transform)
        self.load(self.processed_paths[0])

    def process(self) -> None:
        graphs = []
        for edges, n in ((cycle(4), 4), (star(3), 4), (cycle(3), 5)):
            data = graph(edges, n, channels=3)
            del data.edge_coefficient, data.coefficient_columns
            graphs.append(self.pre_transform(data) if self.pre_transform else data)
        self.save(graphs, self.processed_paths[0])


def check_readme_example(dataset: InMemoryDataset, features: int) -> None:
    mlp = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 8))
    conv = UnionPlugin(GINConv(mlp)).fit_statistics(dataset)
    rows = torch.cat([data.edge_coefficient for data in dataset])
    a, tree = rows[:, 0], rows[:, 1]
    a2, nodes, edges = rows[:, [0, 2, 3, 4, 5, 6, 7, 8, 9]].view(len(rows), 3, 3).unbind(dim=2)
    rings = edges - nodes + 1
    columns = [a, tree - a, rings[:, 0], a2[:, 1], rings[:, 1], a2[:, 2], rings[:, 2]]
    expected = torch.stack(columns).mean(dim=1)
    torch.testing.assert_close(conv.gate.feature_mean, expected, rtol=1e-4, atol=1e-5)
    for data in (dataset[0], Batch.from_data_list(list(dataset[:3]))):
        out = conv(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)
        assert out.shape == (data.num_nodes, 8)
        assert torch.isfinite(out).all()
        assert not torch.allclose(out, conv.conv(data.x, data.edge_index))


def test_the_library_example(tmp_path: Path) -> None:
    check_readme_example(Tiny(tmp_path, pre_transform=StructuralCoefficients()), 3)


def test_the_library_example_on_mutag(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (mirror / "TUDataset" / "MUTAG.zip").is_file():
        pytest.skip("the folder of real data has no MUTAG")
    monkeypatch.setattr(TUDataset, "url", f"file://{mirror}/TUDataset")
    dataset = TUDataset(str(tmp_path), "MUTAG", pre_transform=StructuralCoefficients())
    check_readme_example(dataset, 7)


def test_statistics_from_every_form_of_data_are_the_same(tmp_path: Path) -> None:
    dataset = Tiny(tmp_path, pre_transform=StructuralCoefficients())
    whole = Batch.from_data_list(list(dataset))
    forms: list[Any] = [dataset, list(dataset), iter(dataset), whole, whole.edge_coefficient]
    fits = [UnionPlugin(gin()).fit_statistics(form).gate for form in forms]
    for gate in fits[1:]:
        assert torch.equal(gate.feature_mean, fits[0].feature_mean)
        assert torch.equal(gate.feature_std, fits[0].feature_std)
    part = UnionPlugin(gin()).fit_statistics(dataset[1:2]).gate
    single = UnionPlugin(gin()).fit_statistics(dataset[1]).gate
    assert torch.equal(part.feature_mean, single.feature_mean)
    assert not torch.equal(part.feature_mean, fits[0].feature_mean)


def test_the_columns_are_read_from_the_data() -> None:
    graphs = random_graphs(4, torch.Generator().manual_seed(0))
    plugin = UnionPlugin(gin(), gate="paper")
    assert plugin.gate.columns == COLUMNS
    assert torch.isfinite(apply(plugin, graphs[0])).all()
    narrow = StructuralCoefficients(CoefficientSpec())
    others = [narrow(data.clone()) for data in graphs]
    with pytest.raises(ValueError, match=r"this gate reads the columns \['a_r1', .*set_columns"):
        apply(plugin, others[0])
    plugin.fit_statistics(others)
    assert plugin.gate.columns == ("a_r1",)
    assert torch.isfinite(apply(plugin, others[0])).all()
    plugin.fit_statistics(graphs)
    assert torch.isfinite(apply(plugin, Batch.from_data_list(graphs))).all()


def test_data_without_the_columns_are_refused() -> None:
    one = StructuralCoefficients(CoefficientSpec())(graph(cycle(4), 4))
    with pytest.raises(ValueError, match=r"'edges_r3'\] are missing from \['a_r1'\]"):
        UnionPlugin(gin()).fit_statistics([one])
    with pytest.raises(ValueError, match=r"differ in their coefficient columns: \['a_r1', 'a_r1,"):
        UnionPlugin(gin()).fit_statistics([one, graph(cycle(4), 4)])


def test_data_without_coefficients_are_refused(tmp_path: Path) -> None:
    message = r"no edge_coefficient.*pre_transform=StructuralCoefficients\(\)"
    with pytest.raises(ValueError, match=message):
        UnionPlugin(gin()).fit_statistics(Tiny(tmp_path))
    with pytest.raises(ValueError, match="The data set is empty"):
        UnionPlugin(gin()).fit_statistics([])


def test_before_statistics_the_error_names_the_call() -> None:
    batch = several_graphs()
    with pytest.raises(RuntimeError, match=r"UnionPlugin\.fit_statistics take the training data"):
        apply(UnionPlugin(gin()).double(), batch)


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_statistics_in_blocks_are_those_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    coefficient = torch.rand(120, len(COLUMNS), generator=torch.Generator().manual_seed(0)) * 9
    coefficient[::5] = 0
    gates = [UnionPlugin(gin()).gate.double() for _ in range(2)]
    gates[0].fit_statistics(coefficient)
    monkeypatch.setattr(features, "_ROWS", rows)
    gates[1].fit_statistics(coefficient)
    for name in ("feature_mean", "feature_std"):
        one, other = (getattr(gate, name) for gate in gates)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
