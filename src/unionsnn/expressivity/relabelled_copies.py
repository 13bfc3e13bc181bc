"""Relabelled copies of two graphs, as a data set for networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unionsnn.coefficients import CoefficientSpec
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.controls import TRAINING, controlled_rows
from unionsnn.data.datasets import build_dataset
from unionsnn.data.encodings.definitions import ENCODINGS
from unionsnn.expressivity.graph_sets import Graph


class PairCopies:
    """Copies of two graphs, each with its own order of nodes and edges.

    Everything structural is recomputed for each copy, which reveals any dependence on the order of
    nodes. Numbers are in double precision, node features constant.

    The copies come in this order: G, H, G, H, ... for the test, then as many copies of one of the
    two graphs, drawn by the generator, for the check of its reliability.

    Args:
        pair: G and H.
        copies: q, the number of copies of each graph; twice as many of the check's.
        generator: Draws orders, the check's graph, and the rows of a control.
        spec: Coefficient that gates read; None for none.
        layer_spec: Coefficient that layers read; None for none.
        encodings: Size of each encoding by name.
        control: What replaces the rows of `spec`: `unionsnn.data.controls.CONTROLS`. The test's
            copies are its training part.

    Attributes:
        dataset: All copies.
        copies: q.

    Raises:
        ValueError: The control is unknown.
    """

    def __init__(
        self,
        pair: tuple[Graph, Graph],
        copies: int,
        *,
        generator: np.random.Generator,
        spec: CoefficientSpec | None = None,
        layer_spec: CoefficientSpec | None = None,
        encodings: Mapping[str, int] | None = None,
        control: str = "none",
    ) -> None:
        self.copies = copies
        checked = pair[int(generator.integers(2))]
        graphs = [*pair, checked, checked]
        order = [i for half in ((0, 1), (2, 3)) for _ in range(copies) for i in half]
        arrays = _arrays([_relabelled(graphs[i], generator) for i in order])
        coefficients = {
            name: each.compute(arrays.edges(), arrays.num_nodes, threads=1)
            for name, each in {"edge_coefficient": spec, "layer_coefficient": layer_spec}.items()
            if each is not None
        }
        if spec is not None:
            rows = controlled_rows(
                coefficients["edge_coefficient"],
                arrays,
                np.where(np.arange(4 * copies) < 2 * copies, TRAINING, TRAINING + 1),
                control=control,
                generator=generator,
            )
            coefficients["edge_coefficient"] = rows.astype(np.float64)
        self.dataset = build_dataset(
            arrays,
            "constant",
            coefficients,
            {
                name: ENCODINGS[name](arrays.edges(), arrays.node_slices, size, None)
                for name, size in (encodings or {}).items()
            },
        )
        data = self.dataset._data
        data.apply(lambda value: value.double() if value.is_floating_point() else value)
        for name, rows in coefficients.items():
            # Not through single precision, whose rounding could separate equal numbers.
            data[name] = torch.from_numpy(rows)

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Return the indices of the test's copies of G and of their partners, copies of H."""
        return self._numbers(0)

    @property
    def check(self) -> tuple[Tensor, Tensor]:
        """Return the indices of the check's copies and of their partners, of the same graph."""
        return self._numbers(2 * self.copies)

    def _numbers(self, begin: int) -> tuple[Tensor, Tensor]:
        both = torch.arange(begin, begin + 2 * self.copies)
        return both[0::2], both[1::2]

    def test_rows(self) -> Tensor:
        """Return the coefficient rows of all edges of the test's copies, [num_edges, C]."""
        end = int(self.dataset.slices["edge_coefficient"][2 * self.copies])
        rows: Tensor = self.dataset._data.edge_coefficient[:end]
        return rows


def _relabelled(graph: Graph, generator: np.random.Generator) -> Graph:
    edge_index, num_nodes = graph
    shuffled = edge_index[:, generator.permutation(edge_index.shape[1])]
    return generator.permutation(num_nodes)[shuffled], num_nodes


def _arrays(graphs: Sequence[Graph]) -> GraphArrays:
    def slices(counts: list[int]) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    return GraphArrays(
        edge_index=np.concatenate([edge_index for edge_index, _ in graphs], axis=1),
        node_slices=slices([num_nodes for _, num_nodes in graphs]),
        edge_slices=slices([edge_index.shape[1] for edge_index, _ in graphs]),
        y=np.zeros(len(graphs), np.int64),
    )
