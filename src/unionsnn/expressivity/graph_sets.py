"""Graphs that are hard to tell apart: golden pairs, CSL, srg(25,12,5,6), BREC, the user's."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.sources.download import fetch, set_aside_if_wrong

IntArray = NDArray[np.int64]

Graph = tuple[IntArray, int]
"""edge_index [2, E], both directions of each edge, and the number of nodes."""

BREC_URL = (
    "https://raw.githubusercontent.com/GraphPKU/BREC/"
    "966b5ed5c27bf6372ea081f90ef8c8b2a3342ebc/customize/Data/raw"
)
"""Upstream address of BREC's seven files."""
SR_URL = "https://users.cecs.anu.edu.au/~bdm/data/sr251256.g6"
"""Upstream address of the strongly regular graphs, Brendan McKay's collection."""

_SR_HASH = "f55f86eb48cd61c3315c62341cc3a8c59289c58504edb3ab859d7ef2068b9aa4"

BREC_FILES: Mapping[str, tuple[str, int, str]] = {
    "basic": (
        "basic.npy",
        60,
        "adef7f761b803026b515d94172399f5db72fe73859b0e489a1edfaa5874aeec2",
    ),
    "simple regular": (
        "regular.npy",
        50,
        "e9e85ff2003f50676e2a2ac7ef70b8ad919598c3042aaf8f5f6f43184bfdc663",
    ),
    "strongly regular": (
        "str.npy",
        50,
        "6de58d99b80b7ace4529d17cf8fe3d000b496b3c2a7ab7f59fe3f28f61746d6f",
    ),
    "extension": (
        "extension.npy",
        100,
        "9b76b59842f997a502a83724daba033d793c5fbc9c2aa758834beb78d2309d4a",
    ),
    "CFI": (
        "cfi.npy",
        100,
        "e8d56d7c0a22768da8dfdcaae800bc8dc815fb10b1bf1b52dc7893ed68c4e92f",
    ),
    "4-vertex condition": (
        "4vtx.npy",
        20,
        "a9e593c485f3fa08d3db967d7c545a4f5cf7f417f016c9a77a5c1cc646786cea",
    ),
    "distance regular": (
        "dr.npy",
        20,
        "11b861e1439ddee4c58fa04b523e874c25fdbb4ba867f3ac9104711cb3739d89",
    ),
}
"""File, number of pairs and sha256 of each category, in the order of BREC's pair numbers."""

CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
"""Skip lengths of the ten classes of circular skip links on 41 nodes."""


@dataclass(frozen=True, eq=False)
class Family:
    """Graphs to tell apart from each other: a pair or more.

    Attributes:
        category: Its category.
        name: Its name.
        graphs: The graphs.
    """

    category: str
    name: str
    graphs: tuple[Graph, ...]


def load_set(
    name: str,
    *,
    root: str | Path,
    mirror: str | Path | None = None,
    offline: bool = False,
    family: bool = False,
) -> list[Family]:
    """Load a set by name, or the graphs of a graph6 file by path.

    Args:
        name: A key of `SETS`, or a file.
        root: The data root.
        mirror: Folder or address to try before upstream; by default UNIONSNN_MIRROR.
        offline: Whether to never access http(s) addresses.
        family: Whether the graphs of a file are one family; otherwise two lines are a pair.

    Raises:
        DataError: It is neither a set nor a file, or its data could not be obtained or read.
    """
    if name in SETS:

        def get(path: str, upstream: str, sha256: str) -> Path:
            return fetch(
                path, upstream=upstream, root=root, mirror=mirror, offline=offline, sha256=sha256
            )

        return SETS[name](get)
    path = Path(name)
    if path.exists():
        return [family_of_file(path)] if family else pairs_of_file(path)
    raise DataError(
        f"{name!r} is neither a set nor a file; sets: {', '.join(SETS)}; a file holds pairs of "
        "graphs in graph6, one graph per line",
        code="expressivity.set",
    )


_Get = Callable[[str, str, str], Path]


def brec(get: _Get) -> list[Family]:
    """Return the 400 pairs of BREC by category.

    Source: Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness" (ICML 2024).
    """
    families: list[Family] = []
    for category, (file, count, sha256) in BREC_FILES.items():
        path = get(f"expressivity/BREC/{file}", f"{BREC_URL}/{file}", sha256)
        with set_aside_if_wrong([path]):
            graphs = read_graph6_array(path)
            if len(graphs) != 2 * count:
                raise DataError(
                    f"{path} has {len(graphs)} graphs instead of {2 * count}",
                    code="expressivity.count",
                )
        first = len(families)
        families += [
            Family(category, str(first + i), (graphs[2 * i], graphs[2 * i + 1]))
            for i in range(count)
        ]
    return families


def strongly_regular(get: _Get) -> list[Family]:
    """Return the 15 strongly regular graphs with parameters (25, 12, 5, 6) as one family."""
    path = get("expressivity/sr/sr251256.g6", SR_URL, _SR_HASH)
    graphs = _graphs_of_file(path)
    return [Family("srg(25,12,5,6)", "srg(25,12,5,6)", tuple(graphs))]


def circular_skip_links() -> list[Family]:
    """Return one graph of each of the ten classes of CSL as one family.

    A cycle of 41 nodes with a link from each node to the one s steps on. Source: Murphy et al.,
    "Relational Pooling for Graph Representations" (ICML 2019), whose data set holds 15 relabelled
    copies of each.
    """
    return [Family("CSL", "CSL", tuple(_circulant(41, (1, skip)) for skip in CSL_SKIPS))]


def golden_pairs() -> list[Family]:
    """Return small pairs that separate the choices.

    K1,2 and K1,3; the cycle C6 and two triangles; the 4 x 4 Rook's and the Shrikhande graph, which
    3-WL cannot tell apart; decalin and bicyclopentyl; C4 and K5, whose edges have the same a.
    """
    steps = ((0, 1), (1, 0), (1, 1))
    shrikhande = [
        (4 * x + y, 4 * ((x + dx) % 4) + (y + dy) % 4)
        for x in range(4)
        for y in range(4)
        for dx, dy in steps
    ]
    rook = [(i, j) for i in range(16) for j in range(i) if (i // 4 == j // 4) != (i % 4 == j % 4)]
    pentagons = [(o + i, o + (i + 1) % 5) for o in (0, 5) for i in range(5)]
    triangles = [(o + i, o + (i + 1) % 3) for o in (0, 3) for i in range(3)]
    pairs = {
        "K1,2 / K1,3": (_graph([(0, 1), (0, 2)], 3), _graph([(0, 1), (0, 2), (0, 3)], 4)),
        "C6 / 2 C3": (_circulant(6, (1,)), _graph(triangles, 6)),
        "Rook / Shrikhande": (_graph(rook, 16), _graph(shrikhande, 16)),
        "decalin / bicyclopentyl": (
            _graph([*((i, (i + 1) % 10) for i in range(10)), (0, 5)], 10),
            _graph([*pentagons, (0, 5)], 10),
        ),
        "C4 / K5": (_circulant(4, (1,)), _circulant(5, (1, 2))),
    }
    return [Family(name, name, pair) for name, pair in pairs.items()]


SETS: Mapping[str, Callable[[_Get], list[Family]]] = {
    "golden": lambda get: golden_pairs(),
    "csl": lambda get: circular_skip_links(),
    "sr25": strongly_regular,
    "brec": brec,
}
"""Makers of the sets by name."""


def pairs_of_file(path: Path) -> list[Family]:
    """Read a graph6 file with two lines per pair.

    Raises:
        DataError: The file is not graph6, or has an odd number of graphs.
    """
    graphs = _graphs_of_file(path)
    if len(graphs) % 2:
        raise DataError(
            f"{path} has {len(graphs)} graphs, but needs an even number: lines 1 and 2 are the "
            "first pair, lines 3 and 4 the second; type --family to compare all with each other",
            code="expressivity.count",
        )
    return [
        Family(path.name, f"lines {i + 1}, {i + 2}", (graphs[i], graphs[i + 1]))
        for i in range(0, len(graphs), 2)
    ]


def family_of_file(path: Path) -> Family:
    """Read all graphs of a graph6 file as one family.

    Raises:
        DataError: The file is not graph6, or has a single graph.
    """
    graphs = _graphs_of_file(path)
    if len(graphs) < 2:
        raise DataError(
            f"{path} has one graph, with nothing to compare it to", code="expressivity.count"
        )
    return Family(path.name, path.name, tuple(graphs))


def read_graph6_array(path: Path) -> list[Graph]:
    """Read a numpy array of graph6 strings row by row, without unpickling.

    Raises:
        DataError: Names the file and its fault.
    """
    import networkx

    try:
        array = np.load(path, allow_pickle=False)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "SU":
            raise ValueError("it is not an array of strings")
        texts = [t if isinstance(t, bytes) else str(t).encode("ascii") for t in array.ravel()]
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path} is not a numpy file of graph6 strings ({error})", code="expressivity.graph6"
        ) from error
    graphs = []
    for number, text in enumerate(texts):
        try:
            graph = networkx.read_graph6(io.BytesIO(text + b"\n"))
            graphs.append(_graph(graph.edges, len(graph)))
        except (networkx.NetworkXException, ValueError, IndexError, TypeError) as error:
            raise DataError(
                f"{path}, string {number} is not graph6 ({error})", code="expressivity.graph6"
            ) from error
    return graphs


def _graphs_of_file(path: Path) -> list[Graph]:
    from unionsnn.data.sources.graph_files.formats import read_graph_file

    return list(read_graph_file(path, "graph6").each())


def _graph(pairs: Iterable[Any], num_nodes: int) -> Graph:
    edges = np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([edges, edges[::-1]], axis=1), num_nodes


def _circulant(num_nodes: int, steps: Sequence[int]) -> Graph:
    return _graph([(i, (i + s) % num_nodes) for s in steps for i in range(num_nodes)], num_nodes)
