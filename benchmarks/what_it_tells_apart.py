"""What each choice of coefficient tells apart: prints the table of docs/coefficients.md.

    python benchmarks/what_it_tells_apart.py MIRROR

MIRROR holds expressivity/sr/sr251256.g6 and expressivity/CSL/csl.npz. Two graphs are told apart if
the sorted values of all their edges differ by more than a tolerance anywhere; C4 and K5, whose
edges are not even equally many, if the values of an edge do. A cell shows the number of classes
that the values make of the graphs, by raw a / by ã.
"""

import sys
from pathlib import Path

import networkx as nx
import numpy as np

from unionsnn.structure import CoefficientSpec, space

TOLERANCE = 1e-6
RADII = (1, 2)


def families(mirror: Path) -> dict[str, list[nx.Graph]]:
    cells = [(x, y) for x in range(4) for y in range(4)]
    steps = [(0, 1), (1, 0), (1, 1)]
    shrikhande = nx.Graph(
        (c, ((c[0] + dx) % 4, (c[1] + dy) % 4)) for c in cells for dx, dy in steps
    )
    rook = nx.line_graph(nx.complete_bipartite_graph(4, 4))
    decalin = nx.cycle_graph(10)
    decalin.add_edge(0, 5)
    bicyclopentyl = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    bicyclopentyl.add_edge(0, 5)
    return {
        "Rook, Shrikhande": [rook, shrikhande],
        "srg(25,12,5,6)": nx.read_graph6(mirror / "expressivity/sr/sr251256.g6"),
        "CSL": circulants(mirror / "expressivity/CSL/csl.npz"),
        "decalin, bicyclopentyl": [decalin, bicyclopentyl],
        "C4, K5: an edge": [nx.cycle_graph(4), nx.complete_graph(5)],
    }


def circulants(path: Path) -> list[nx.Graph]:
    """First graph of each of the ten classes."""
    with np.load(path) as data:
        ends = np.cumsum(data["num_edges"], dtype=np.int64)
        firsts = [int(np.flatnonzero(data["y"] == c)[0]) for c in range(10)]
        starts = ends - data["num_edges"]
        pairs = [data["edge_index"][:, starts[i] : ends[i]].astype(np.int64) for i in firsts]
    return [nx.Graph(p.T.tolist()) for p in pairs]


def multiset(graph: nx.Graph, spec: CoefficientSpec, *, normalized: bool) -> np.ndarray:
    """Sorted values of a, or of ã, over the directed edges.

    Where a node's values sum to 0, as curvatures can, ã is taken to be 0.
    """
    graph = nx.convert_node_labels_to_integers(graph)
    half = np.array(graph.edges).T
    edge_index = np.concatenate([half, half[::-1]], axis=1)
    a = spec.compute(edge_index, len(graph), threads=1)[:, 0]
    if normalized:
        total = np.bincount(edge_index[1], a, len(graph))[edge_index[1]]
        a = np.divide(a, total, out=np.zeros_like(a), where=np.abs(total) > TOLERANCE)
    # All edges of C4 are alike, and so are those of K5.
    return np.sort(a)[: 1 if len(graph) <= 5 else None]


def classes(values: list[np.ndarray]) -> int:
    """Number of different multisets, up to the tolerance."""
    found: list[np.ndarray] = []
    for value in values:
        if not any(
            value.shape == other.shape and np.allclose(value, other, rtol=TOLERANCE, atol=TOLERANCE)
            for other in found
        ):
            found.append(value)
    return len(found)


def choices() -> list[CoefficientSpec]:
    matrices = [
        (d, e) for d in space.MATRICES for e in space.ENCODINGS if not space.encoding_faults(d, e)
    ]
    local = matrices + [(d, None) for d in space.LOCAL_SCALARS]
    specs = [
        CoefficientSpec(s, d, e, (r,)) for s in space.SUBSTRUCTURES for d, e in local for r in RADII
    ]
    return specs + [CoefficientSpec(descriptor=d) for d in space.WHOLE_GRAPH_SCALARS]


def main(mirror: Path) -> None:
    groups = families(mirror)
    heads = [f"{name} ({len(graphs)})" for name, graphs in groups.items()]
    print("| substructure | descriptor | encoding | radius | " + " | ".join(heads) + " |")
    print("|---|---|---|---|" + "---|" * len(heads))
    for spec in choices():
        whole = spec.descriptor in space.WHOLE_GRAPH_SCALARS
        cells = []
        for graphs in groups.values():
            raw, normalized = (
                classes([multiset(g, spec, normalized=n) for g in graphs]) for n in (False, True)
            )
            cells.append(f"{raw} / {normalized}")
        where = ("whole graph", "") if whole else (spec.substructure, str(spec.radius[0]))
        encoding = (spec.encoding or "").replace("_", " ")
        row = [where[0].replace("_", " "), spec.descriptor.replace("_", " "), encoding, where[1]]
        print("| " + " | ".join(row + cells) + " |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
