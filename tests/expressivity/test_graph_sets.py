"""The sets of pairs: what is generated, what is fetched and checked, what is refused."""

from __future__ import annotations

from collections import Counter
from math import comb
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.expressivity import graph_sets
from unionsnn.expressivity.bench import measure
from unionsnn.expressivity.edge_colorings import parse_colorings
from unionsnn.expressivity.graph_sets import (
    BREC_FILES,
    CSL_SKIPS,
    SETS,
    circular_skip_links,
    golden_pairs,
    load_set,
    pairs_of_file,
    read_graph6_array,
)


def as_graph(graph: tuple[NDArray[np.int64], int]) -> nx.Graph:
    edge_index, num_nodes = graph
    found = nx.empty_graph(num_nodes)
    found.add_edges_from(edge_index.T.tolist())
    # Both directions of each edge, once each.
    assert edge_index.shape[1] == 2 * found.number_of_edges()
    return found


def test_golden_pairs_are_what_they_are_called() -> None:
    found = {f.name: [as_graph(g) for g in f.graphs] for f in golden_pairs()}
    rook, shrikhande = found["Rook / Shrikhande"]
    for graph in (rook, shrikhande):
        assert nx.is_strongly_regular(graph)
        assert set(dict(graph.degree).values()) == {6}
    assert nx.is_isomorphic(rook, nx.line_graph(nx.complete_bipartite_graph(4, 4)))
    assert not nx.is_isomorphic(rook, shrikhande)
    decalin, bicyclopentyl = found["decalin / bicyclopentyl"]
    assert [nx.girth(g) for g in (decalin, bicyclopentyl)] == [6, 5]
    assert len(list(nx.bridges(bicyclopentyl))) == 1
    cycle, complete = found["C4 / K5"]
    assert nx.is_isomorphic(cycle, nx.cycle_graph(4))
    assert nx.is_isomorphic(complete, nx.complete_graph(5))
    hexagon, triangles = found["C6 / 2 C3"]
    assert nx.is_isomorphic(hexagon, nx.cycle_graph(6))
    assert nx.number_connected_components(triangles) == 2
    assert [len(g) for g in found["K1,2 / K1,3"]] == [3, 4]


def test_csl_is_the_published_set(mirror: Path) -> None:
    """Of each class the published graphs are copies of ours."""
    path = mirror / "expressivity" / "CSL" / "csl.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    (family,) = circular_skip_links()
    ours = [as_graph(g) for g in family.graphs]
    with np.load(path) as data:
        ends = np.cumsum(data["num_edges"], dtype=np.int64)
        for label in range(10):
            last = ends[np.flatnonzero(data["y"] == label)[0]]
            edges = data["edge_index"][:, last - 164 : last].astype(int).T.tolist()
            assert nx.is_isomorphic(ours[label], nx.Graph(edges)), CSL_SKIPS[label]


def test_brec_has_its_pairs(mirror: Path, tmp_path: Path) -> None:
    if not (mirror / "expressivity").is_dir():
        pytest.skip(f"no {mirror / 'expressivity'}")
    families = load_set("brec", root=tmp_path, mirror=mirror, offline=True)
    assert [f.name for f in families] == [str(i) for i in range(400)]
    counts = {c: sum(f.category == c for f in families) for c in BREC_FILES}
    assert list(counts.values()) == [60, 50, 50, 100, 100, 20, 20]
    for family in families:
        first, second = family.graphs
        assert first[1] == second[1]
        assert first[0].shape == second[0].shape


def test_the_strongly_regular_graphs_have_their_parameters(mirror: Path, tmp_path: Path) -> None:
    if not (mirror / "expressivity").is_dir():
        pytest.skip(f"no {mirror / 'expressivity'}")
    (family,) = load_set("sr25", root=tmp_path, mirror=mirror, offline=True)
    assert len(family.graphs) == 15
    for graph in family.graphs:
        A = nx.to_numpy_array(as_graph(graph)).astype(int)
        assert (12 * np.eye(25) + 5 * A + 6 * (1 - A - np.eye(25)) == A @ A).all()


def test_another_file_in_a_mirror_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mirror" / "expressivity" / "sr"
    folder.mkdir(parents=True)
    (folder / "sr251256.g6").write_text("A_\n")
    refused = pytest.raises(DataError, match="fails its checksum")
    with pytest.warns(UserWarning, match="fails its checksum"), refused:
        load_set("sr25", root=tmp_path / "data", mirror=tmp_path / "mirror", offline=True)


def test_a_wrong_number_of_pairs_is_refused_and_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "basic.npy"
    np.save(path, np.array(["A_", "A?", "A_"]))
    with pytest.raises(DataError, match="instead of 120"):
        graph_sets.brec(lambda *_: path)


def test_own_pairs_two_lines_each(tmp_path: Path) -> None:
    path = tmp_path / "own.g6"
    graphs = [nx.path_graph(3), nx.cycle_graph(3), nx.path_graph(4), nx.star_graph(3)]
    path.write_bytes(b"".join(nx.to_graph6_bytes(g, header=False) for g in graphs))
    first, second = load_set(str(path), root=tmp_path)
    assert [first.name, second.name] == ["lines 1, 2", "lines 3, 4"]
    read = [as_graph(g) for f in (first, second) for g in f.graphs]
    assert all(nx.is_isomorphic(a, b) for a, b in zip(read, graphs, strict=True))


def test_an_odd_number_of_graphs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.g6"
    path.write_text("A_\nBw\nBw\n")
    with pytest.raises(DataError) as refused:
        pairs_of_file(path)
    assert refused.value.codes == ["expressivity.count"]


def test_what_is_neither_a_set_nor_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_set("brce", root=tmp_path)
    assert error.value.codes == ["expressivity.set"]
    assert all(name in str(error.value) for name in SETS)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (np.array([["A_"]], dtype=object), "pickle"),
        (np.array([1.5]), "array of strings"),
        (np.array(["A_", "~"]), "string 1"),
        (np.array(["Aé"]), "ascii"),
    ],
)
def test_an_array_that_holds_no_graphs(
    tmp_path: Path, content: NDArray[np.int64], part: str
) -> None:
    path = tmp_path / "bad.npy"
    np.save(path, content, allow_pickle=True)
    with pytest.raises(DataError, match=part) as refused:
        read_graph6_array(path)
    assert refused.value.codes == ["expressivity.graph6"]


def test_a_cut_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.npy"
    np.save(path, np.array(["A_", "A?"]))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError) as refused:
        read_graph6_array(path)
    assert refused.value.codes == ["expressivity.graph6"]


def test_a_file_as_one_family(tmp_path: Path) -> None:
    """All 156 graphs of 6 nodes; networkx names the classes of 1-WL."""
    atlas = [g for g in nx.graph_atlas_g() if len(g) == 6]
    path = tmp_path / "six.g6"
    path.write_bytes(b"".join(nx.to_graph6_bytes(g, header=False) for g in atlas))
    result = measure([str(path)], parse_colorings("1wl,a"), root=tmp_path, family=True)
    (part,) = result["sets"]
    assert part["categories"]["six.g6"] == {"families": 1, "graphs": 156}
    found = [each["categories"]["six.g6"] for each in part["choices"]]
    for graph in atlas:
        nx.set_node_attributes(graph, "1", "color")
    signatures = [
        nx.weisfeiler_lehman_graph_hash(g, node_attr="color", iterations=6) for g in atlas
    ]
    sizes = Counter(signatures).values()
    assert found[0]["classes"] == len(sizes)
    assert found[0]["pairs_told"] == comb(156, 2) - sum(comb(size, 2) for size in sizes)
    assert found[0]["classes"] < found[1]["classes"] == 156
    path.write_bytes(b"A_\n")
    with pytest.raises(DataError) as refused:
        load_set(str(path), root=tmp_path, family=True)
    assert refused.value.codes == ["expressivity.count"]
