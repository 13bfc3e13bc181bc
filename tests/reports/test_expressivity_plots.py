"""Pictures of pairs: what an edge's colours say."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import LineCollection, PathCollection

from unionsnn.expressivity.graph_sets import golden_pairs
from unionsnn.reports.figures.expressivity import draw_family


def test_each_end_of_an_edge_shows_what_it_receives() -> None:
    """In K1,3 the centre receives a third of every leaf, a leaf all from the centre."""
    family = next(f for f in golden_pairs() if f.name == "K1,2 / K1,3")
    star = draw_family(family, ["K1,2", "K1,3"], {"a~": "ã"}, "").axes[1]
    (lines,) = (c for c in star.collections if isinstance(c, LineCollection))
    (nodes,) = (c for c in star.collections if isinstance(c, PathCollection))
    place = np.asarray(nodes.get_offsets())
    degree = np.bincount(family.graphs[1][0][0])
    seen = {1: set(), 3: set()}
    for segment, color in zip(lines.get_segments(), lines.get_colors(), strict=True):
        node = int(np.linalg.norm(place - segment[1], axis=1).argmin())
        assert np.allclose(place[node], segment[1])
        seen[degree[node]].add(tuple(color))
    assert len(seen[1]) == len(seen[3]) == 1
    assert seen[1] != seen[3]
