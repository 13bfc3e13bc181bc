"""StructuralEdgeEncoder in networks of PyG's layers, as docs/own_model.md shows it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from gated_graphs import float64, several_graphs, with_loops
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from graphs import COLUMNS, random_graphs
from unionsnn import (
    CoefficientSpec,
    StructuralCoefficients,
    StructuralEdgeEncoder,
    UnionPlugin,
    fit_statistics,
)
from unionsnn.base.errors import DataError, RequestError

PAGE = Path(__file__).parents[2] / "docs" / "own_model.md"
IN, OUT, EDGE = 3, 4, 5

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GINEConv": lambda: pyg.GINEConv(nn.Linear(IN, OUT), edge_dim=EDGE),
    "GATv2Conv": lambda: pyg.GATv2Conv(IN, OUT, edge_dim=EDGE),
    "TransformerConv": lambda: pyg.TransformerConv(IN, OUT, edge_dim=EDGE),
    "PNAConv": lambda: pyg.PNAConv(
        IN, OUT, ["mean", "max"], ["identity"], torch.tensor([1, 2, 3]), edge_dim=EDGE
    ),
    "GENConv": lambda: pyg.GENConv(IN, OUT, edge_dim=EDGE),
    "RGATConv": lambda: pyg.RGATConv(IN, OUT, num_relations=2, edge_dim=EDGE),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


class Network(nn.Module):
    def __init__(self, name: str, **features: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = StructuralEdgeEncoder(EDGE, **features)
        self.conv = LAYERS[name]()

    def forward(self, data: Data) -> Tensor:
        e = self.encoder(data.edge_coefficient, data.edge_index, data.num_nodes)
        relation = torch.zeros(data.num_edges, dtype=torch.long)
        types = {"edge_type": relation} if isinstance(self.conv, pyg.RGATConv) else {}
        out: Tensor = self.conv(data.x, data.edge_index, edge_attr=e, **types)
        return out


def made(name: str) -> tuple[Network, Batch]:
    network = Network(name).double()
    fit_statistics(network, random_graphs(8, torch.Generator().manual_seed(1)))
    return network, several_graphs()


def test_the_page_runs_and_shows_every_layer() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    namespace: dict[str, Any] = {}
    # The training loop downloads a data set; the tests of the README run it.
    for block in (block for block in blocks if "TUDataset(" not in block):
        exec(compile(block, PAGE.name, "exec"), namespace)
    assert {type(layer).__name__ for layer in namespace["layers"]} | {"RGATConv"} == set(LAYERS)


@every_layer
def test_a_step_trains_encoder_and_layer(name: str) -> None:
    network, data = made(name)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(2):
        loss = (network(data) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for parameter in network.encoder.parameters():
        assert parameter.grad.abs().sum() > 0
    assert losses[1] < losses[0]


@every_layer
def test_the_coefficient_of_an_edge_matters(name: str) -> None:
    network, data = made(name)
    out = network.eval()(data)
    data.edge_coefficient = data.edge_coefficient.roll(1, dims=0)
    assert not torch.allclose(network(data), out)


@every_layer
def test_a_loaded_network_is_the_same_function_with_its_statistics(name: str) -> None:
    network, data = made(name)
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    file.seek(0)
    other = Network(name).double()
    with pytest.raises(DataError, match="StructuralEdgeEncoder standardises its features"):
        other(data)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other.eval()(data), network.eval()(data))


def test_a_batch_is_its_graphs() -> None:
    network, _ = made("GINEConv")
    graphs = [float64(data) for data in random_graphs(5, torch.Generator().manual_seed(2))]
    alone = torch.cat([network(data) for data in graphs])
    torch.testing.assert_close(network(Batch.from_data_list(graphs)), alone)


def test_loops_of_the_data_and_of_the_layer_are_zero() -> None:
    """GATv2Conv replaces loops by its own, and is told to fill them with 0."""
    network, data = made("GATv2Conv")
    network.conv.fill_value = 0.0
    looped = with_loops(data, [0, 3])
    e = network.encoder(looped.edge_coefficient, looped.edge_index, looped.num_nodes)
    loops = looped.edge_index[0] == looped.edge_index[1]
    assert not e[loops].any()
    assert e[~loops].any()
    torch.testing.assert_close(network(looped), network(data))
    # The loops of the data, where the layer adds none, are those that it would add.
    everywhere = with_loops(data, list(range(data.num_nodes)))
    expected = network(data)
    network.conv.add_self_loops = False
    torch.testing.assert_close(network(everywhere), expected)


@pytest.mark.parametrize("radius", [1, 2, [1, 3]])
def test_the_columns_are_those_of_the_transform_with_the_same_radius(radius: Any) -> None:
    pair = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    data = StructuralCoefficients(radius=radius)(pair)
    columns = tuple(data.coefficient_columns.split(","))
    assert StructuralEdgeEncoder(EDGE, radius=radius).required_columns == columns
    assert StructuralEdgeEncoder(EDGE).required_columns == COLUMNS


def mistaken() -> dict[str, tuple[list[Data], dict[str, Any]]]:
    graphs = random_graphs(3, torch.Generator().manual_seed(0))
    narrow = [StructuralCoefficients(CoefficientSpec())(data.clone()) for data in graphs]
    at_one = [StructuralCoefficients(radius=1)(data.clone()) for data in graphs]
    bare = [Data(x=data.x, edge_index=data.edge_index) for data in graphs]
    return {
        "a alone": (narrow, {"radius": 1}),
        "another radius": (at_one, {}),
        "two forms": ([graphs[0], narrow[1]], {}),
        "no coefficients": (bare, {}),
        "no graphs": ([], {}),
    }


@pytest.mark.parametrize("mistake", mistaken())
def test_mistakes_are_answered_as_by_the_plug_in(mistake: str) -> None:
    graphs, features = mistaken()[mistake]
    found = []
    plugin = UnionPlugin(pyg.GINConv(nn.Linear(IN, OUT)), **features)
    for network in (Network("GINEConv", **features), plugin):
        with pytest.raises(RequestError) as caught:
            fit_statistics(network, graphs)
        found.append(caught.value)
    assert found[0].codes == found[1].codes
    sentence = str(found[1]).replace("The gate", "The encoder")
    assert str(found[0]) == sentence.replace(
        "UnionPlugin(conv, radius=1)", "StructuralEdgeEncoder(channels, radius=1)"
    )


def test_other_columns_and_other_rows_are_refused() -> None:
    network, data = made("GINEConv")
    for wrong, message in (
        (data.edge_coefficient[:, :4], r"this encoder reads the columns .*encoder\.set_columns"),
        (data.edge_coefficient[:-1], r"rows for \d+ edges"),
    ):
        with pytest.raises(RequestError, match=message) as caught:
            network.encoder(wrong, data.edge_index, data.num_nodes)
        assert caught.value.codes == ["gate.columns"]
    with pytest.raises(RequestError, match="channels is 0"):
        StructuralEdgeEncoder(0)
    with pytest.raises(RequestError, match="reads no structural coefficients"):
        fit_statistics(LAYERS["GENConv"](), [data])
