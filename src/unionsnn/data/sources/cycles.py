r"""Generated graphs with or without a cycle of a length: the 4-cycles and 6-cycles sets.

Source: the task of Vignac et al. (2020) with the sizes of the UnionSNN paper's table 6. A graph
is positive when it contains a cycle of exactly the given length as a subgraph, induced or not.

There are two variants. In `plain`, a negative graph is made by adding random edges that close no
such cycle, and a positive one is uniformly random with as many edges; their degrees differ, so a
model may answer without seeing a cycle. In `matched`, both graphs of a pair are rewirings of
one cycle-free graph: edges (a, b), (c, d) with \(d_b = d_d\) become (a, d), (c, b), which keeps
every degree and every count of edges between two degrees. The negative never has the cycle and is
rewired until it has as many triangles as the positive; only the last swap of the positive closes
a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import slices
from unionsnn.data.sources.source import RawFiles, Source
from unionsnn.data.splits import Split

NUM_NODES = {4: 36, 6: 56}
"""Number of nodes of every graph, by cycle length."""

MEAN_EDGES = {4: 61.7, 6: 87.8}
"""Mean number of undirected edges, by cycle length."""

Variant = Literal["matched", "plain"]
VARIANTS = get_args(Variant)
"""Values of `variant`."""

SPLIT_SIZES = (9000, 1000, 10000)
"""Numbers of training, validation and test graphs in the paper."""

_PAIRS_PER_CALL = 250
_PairedSize = Annotated[int, Field(ge=2, le=10_000_000)]


class Cycles(Source):
    """Generated graphs with or without a cycle of a length.

    Sizes as in table 6 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024), after Vignac et
    al. (2020).

    Args:
        length: 4 or 6.
        variant: ``matched`` (degrees are uninformative) or ``plain`` (degrees leak the class).
        num_train: Number of training graphs.
        num_validation: Number of validation graphs.
        num_test: Number of test graphs.
        generator_seed: Seed of the generator.
    """

    length: Literal[4, 6]
    variant: Variant
    num_train: _PairedSize
    num_validation: _PairedSize
    num_test: _PairedSize
    generator_seed: Annotated[int, Field(ge=0)] = 0

    @property
    def split(self) -> Split:
        """Return the fixed split: training, validation and test graphs, in this order.

        Odd sizes are rounded down to even ones, so that the two graphs of a pair stay together.
        """
        sizes = (self.num_train, self.num_validation, self.num_test)
        bounds = np.cumsum([size - size % 2 for size in sizes])
        train, validation, test, _ = np.split(np.arange(bounds[-1], dtype=np.int64), bounds)
        return Split(train=train, validation=validation, test=test)

    @property
    def num_graphs(self) -> int:
        """Number of graphs in all parts."""
        return sum(len(part) for part in self.split.parts().values())

    def processed_key(self, raw: RawFiles) -> str:
        """Return all arguments of the generator."""
        return f"cycles {self.length} {self.variant} {self.num_graphs} {self.generator_seed}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Generate the graphs."""
        return generate_cycles(
            self.length,
            variant=self.variant,
            num_graphs=self.num_graphs,
            seed=self.generator_seed,
            progress=raw.report(f"{self.length}-cycles graphs"),
        )

    def default_split(self, arrays: GraphArrays, generator: np.random.Generator) -> Split:
        """Return the fixed split."""
        return self.split


def generate_cycles(
    length: int,
    *,
    variant: str = "matched",
    num_graphs: int = sum(SPLIT_SIZES),
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> GraphArrays:
    """Generate a balanced set of graphs with (y = 1) and without (y = 0) a cycle of a length.

    Graphs 2p and 2p + 1 are a pair of one positive and one negative, in random order. A pair
    depends on (seed, length, variant, p) alone: a smaller set is the beginning of a larger one.

    Source: Vignac et al. (2020); sizes as in table 6 of the UnionSNN paper.

    Args:
        length: 4 (36 nodes, 61.7 undirected edges on average) or 6 (56 nodes, 87.8 edges).
        variant: "matched" (equal degrees, joint degrees and triangles within a pair; a positive
            is one swap away from having no cycle) or "plain" (degrees leak the class).
        num_graphs: An even number, from 2 on.
        seed: A non-negative integer.
        progress: Called with (graphs done, total).

    Returns:
        Graphs with sorted edges in both directions and no features.

    Shapes:
        edge_index [2, E]; y [num_graphs].
    """
    # Imports compiled code, which checking a request does not need.
    from unionsnn.data.sources.cycle_graphs import fill_pairs

    n = NUM_NODES[length]
    y = np.empty(num_graphs, np.int64)
    edges: list[IntArray] = []
    counts: list[IntArray] = []
    for first in range(0, num_graphs // 2, _PAIRS_PER_CALL):
        last = min(first + _PAIRS_PER_CALL, num_graphs // 2)
        rows = np.zeros((2 * (last - first), n), np.uint64)
        states = np.empty((last - first, 3, 4), np.uint64)
        for p in range(first, last):
            source = np.random.SeedSequence([seed, length, VARIANTS.index(variant), p])
            states[p - first] = source.generate_state(12, np.uint64).reshape(3, 4)
        fill_pairs(
            states, length, MEAN_EDGES[length], variant == "matched", rows, y[2 * first : 2 * last]
        )
        graphs = np.unpackbits(
            rows.astype("<u8")[..., None].view(np.uint8), axis=-1, bitorder="little"
        )
        counts.append(graphs.sum(axis=(1, 2), dtype=np.int64))
        edges.append(np.stack(np.nonzero(graphs)[1:]).astype(np.int64))
        if progress is not None:
            progress(2 * last, num_graphs)
    return GraphArrays(
        edge_index=np.ascontiguousarray(np.concatenate(edges, axis=1)),
        node_slices=np.arange(num_graphs + 1, dtype=np.int64) * n,
        edge_slices=slices(np.concatenate(counts)),
        y=y,
        class_names=("no cycle", "cycle"),
    )
