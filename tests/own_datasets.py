"""PyG data sets such as a user may have, named by their dotted path in tests."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data, InMemoryDataset

from graphs import cycle


def _graph(n: int, **attributes: Any) -> Data:
    edges = torch.tensor([pair for v, u in cycle(n) for pair in ((v, u), (u, v))]).t()
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(n))
    data = Data(x=x, edge_index=edges.contiguous())
    for key, value in attributes.items():
        data[key] = value
    return data


class Made(InMemoryDataset):
    """A data set of the graphs given."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__(root=None)
        self.data, self.slices = self.collate(graphs)


class Graphs(Made):
    """Circles of odd (class 0) and even length (class 1)."""

    def __init__(self, count: int = 10) -> None:
        super().__init__([_graph(4 + g % 6, y=torch.tensor([(g + 1) % 2])) for g in range(count)])


class Nodes(Made):
    """One circle whose nodes have classes, and masks that leave some out."""

    def __init__(self, root: str | None = None, masks: bool = True, size: int = 60) -> None:
        data = _graph(size, y=torch.arange(size) % 3)
        if masks:
            place = torch.arange(size) % 5
            for i, name in enumerate(("train_mask", "val_mask", "test_mask")):
                data[name] = place == i
        super().__init__([data])
        self.given_root = root


class Links(Made):
    """Circles whose opposite nodes are linked."""

    def __init__(self, count: int = 30) -> None:
        graphs = []
        for g in range(count):
            n = 5 + g % 6
            links = torch.tensor([[0, 1, 0, 2], [n // 2, 3, 1, 2]])
            graphs.append(_graph(n, edge_label_index=links, edge_label=torch.tensor([1, 1, 0, 0])))
        super().__init__(graphs)


class Regression(Made):
    """Circles with two real targets and whole numbers as node features."""

    def __init__(self) -> None:
        super().__init__(
            [
                _graph(n, y=torch.tensor([[float(n), 0.5]]), x=torch.arange(n)[:, None] % 3)
                for n in range(3, 13)
            ]
        )


class OneWay(Made):
    """Edges in one direction only."""

    def __init__(self) -> None:
        edges = torch.tensor([[0, 1, 2], [1, 2, 2]])
        super().__init__([Data(edge_index=edges, num_nodes=3, y=torch.tensor([0]))] * 2)


class NoEdges(Made):
    """Graphs without edge_index."""

    def __init__(self) -> None:
        super().__init__([Data(x=torch.ones(2, 1), y=torch.tensor([0]))] * 2)


class Unlabelled(Made):
    """Nothing to predict."""

    def __init__(self) -> None:
        super().__init__([Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)])
