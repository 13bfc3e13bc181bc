"""Graphs and gates for the tests of gates and what they gate."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from graphs import COLUMNS, graph, random_graphs
from unionsnn import CoefficientSpec, StructuralGate

# The tree value exists at radius 1 only.
WITH_TREE = ("a_r1", "a_tree_r1", "nodes_r1", "edges_r1")
PRESETS = ("paper", "authors-code", "default")


def float64(data: Data) -> Data:
    """Return the graph with features and coefficients in double precision."""
    return data.apply(lambda value: value.double(), "x", "edge_coefficient")


def several_graphs(channels: int = 3) -> Batch:
    """Return random graphs and one whose last two nodes are isolated, in double precision."""
    graphs = random_graphs(8, torch.Generator().manual_seed(0), channels)
    last = graph([(0, 1), (1, 2)], 5, channels)
    return float64(Batch.from_data_list([*graphs, last]))


def with_tree_value(data: Data) -> Data:
    """Give the graphs the columns `WITH_TREE`."""
    return with_spec(data, CoefficientSpec.from_columns(WITH_TREE))


def with_spec(data: Data, spec: CoefficientSpec) -> Data:
    """Give the graphs the columns of a spec."""
    copied = copy.copy(data)
    copied.edge_coefficient = torch.from_numpy(spec.compute(data.edge_index, data.num_nodes))
    return copied


def with_loops(data: Data, nodes: list[int]) -> Data:
    """Put a self loop of each node around the other edges, with the row 0 that it has."""
    loops = torch.tensor([nodes, nodes])
    rows = data.edge_coefficient
    zeros = rows.new_zeros(len(nodes), rows.size(1))
    return Data(
        x=data.x,
        edge_index=torch.cat([loops[:, :1], data.edge_index, loops[:, 1:]], dim=1),
        edge_coefficient=torch.cat([zeros[:1], rows, zeros[1:]]),
        num_nodes=data.num_nodes,
    )


def make(preset: str, channels: int = 4, seed: int = 0, **overrides: object) -> StructuralGate:
    torch.manual_seed(seed)
    columns = overrides.pop("columns", COLUMNS)
    return StructuralGate.preset(preset, channels, columns=columns, **overrides).double()


def fitted(preset: str, data: Data, channels: int = 4, **overrides: object) -> StructuralGate:
    return make(preset, channels, **overrides).fit_statistics(data.edge_coefficient)


def apply(gate: StructuralGate, data: Data) -> Tensor:
    return gate(data.edge_coefficient, data.edge_index, data.num_nodes)
