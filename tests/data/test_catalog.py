from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import numpy as np
import pytest

from unionsnn.base.errors import DataError, RequestError
from unionsnn.config.compose import compose_config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CATALOG, find, size_limit
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources import amazon, planetoid, tu, zinc
from unionsnn.data.sources.cycles import Cycles
from unionsnn.data.sources.ogb import OGB, URL

# The tables of PAPER.md: graphs, classes, average nodes and edges.
PAPER_GRAPHS = {
    "mutag": (188, 2, 17.93, 19.79),
    "proteins": (1113, 2, 39.06, 72.82),
    "enzymes": (600, 6, 32.63, 62.14),
    "dd": (1178, 2, 284.32, 715.66),
    "frankenstein": (4337, 2, 16.90, 17.88),
    "tox21": (8169, 2, 18.09, 18.50),
    "nci1": (4110, 2, 29.87, 32.30),
    "nci109": (4127, 2, 29.68, 32.13),
    "molhiv": (41127, 2, 25.50, 27.50),
    "molbbbp": (2039, 2, 24.06, 25.95),
    "zinc10k": (12000, None, 23.16, 49.83),
    "zinc_full": (249456, None, 23.16, 49.83),
    "4cycles": (20000, 2, 36.00, 61.71),
    "6cycles": (20000, 2, 56.00, 87.84),
}
# Nodes, edges, classes, features, training nodes.
PAPER_NODES = {
    "cora": (2708, 5429, 7, 1433, 140),
    "citeseer": (3327, 4732, 6, 3703, 120),
    "pubmed": (19717, 44338, 3, 500, 60),
    "computers": (13381, 259159, 10, 7667, 1338),
    "photo": (7487, 126530, 8, 745, 749),
}


def arrays(graphs: int, nodes: int, edges: int, classes: int) -> GraphArrays:
    """Make a set with given counts: all nodes and all edges (as repeats) in the first graph."""
    return GraphArrays(
        edge_index=np.tile([[0, 1], [1, 0]], edges),
        node_slices=np.array([0] + [nodes] * graphs),
        edge_slices=np.array([0] + [2 * edges] * graphs),
        y=np.arange(graphs) % classes,
    )


def test_all_sets_of_the_paper_are_known() -> None:
    assert set(PAPER_GRAPHS) | set(PAPER_NODES) <= set(CATALOG)
    for name, entry in CATALOG.items():
        assert entry.name == name
        assert entry.licence
        for citation in entry.citations:
            assert citation.authors
            assert citation.title
            assert 1980 < citation.year < 2030


def test_each_work_has_a_key_and_an_entry_in_bibtex() -> None:
    works = {work for entry in CATALOG.values() for work in entry.citations}
    assert len({work.key for work in works}) == len(works)
    (debnath,) = (work for work in works if work.authors.startswith("Debnath"))
    assert debnath.bibtex() == (
        "@misc{debnath1991structure,\n"
        "  author = {Debnath and {Lopez de Compadre} and Debnath and Shusterman and Hansch},\n"
        "  title = {{Structure-activity relationship of mutagenic aromatic and heteroaromatic "
        "nitro compounds}},\n"
        "  year = {1991},\n"
        "}"
    )


@pytest.mark.parametrize("name", CATALOG)
def test_the_catalog_says_what_the_configuration_says(name: str) -> None:
    entry = CATALOG[name]
    data = compose_config((entry.request or f"data={name}").split()).data
    assert data.name == name
    assert (data.task, data.metric) == (entry.task, entry.metric)
    assert data.features == entry.feature_kind


@pytest.mark.parametrize("name", [name for name, entry in CATALOG.items() if entry.paper])
def test_the_papers_figures_are_the_papers(name: str) -> None:
    paper = CATALOG[name].paper
    if name in PAPER_NODES:
        what = ("nodes", "edges", "classes", "features", "training nodes")
        assert paper == dict(zip(what, PAPER_NODES[name], strict=True))
        return
    edges = "directed edges per graph" if name.startswith("zinc") else "edges per graph"
    what = ("graphs", "classes", "nodes per graph", edges)
    expected = dict(zip(what, PAPER_GRAPHS[name], strict=True))
    assert paper == {key: value for key, value in expected.items() if value is not None}


@pytest.mark.parametrize("name", CATALOG)
def test_every_deviation_from_the_paper_has_a_reason_in_one_line(name: str) -> None:
    entry = CATALOG[name]
    deviations = entry.deviations()
    for deviation in deviations:
        assert deviation.reason, f"{name}: {deviation.what}"
        assert "\n" not in deviation.reason
    assert set(entry.reasons) == {deviation.what for deviation in deviations}


def test_the_molecules_of_ogb_are_those_of_its_list() -> None:
    import ogb.graphproppred

    lines = (Path(ogb.graphproppred.__file__).parent / "master.csv").read_text().splitlines()
    rows = {line.split(",")[0]: line.split(",")[1:] for line in lines}
    for place, name in enumerate(rows[""]):
        if not name.startswith("ogbg-mol"):
            continue
        (entry,) = (each for each in CATALOG.values() if each.source_name == name)
        assert entry.arguments["folder"] == rows["download_name"][place]
        assert (entry.metric, entry.targets) == (
            rows["eval metric"][place],
            int(rows["num tasks"][place]),
        )
        assert (entry.task == "graph_regression") == (rows["task type"][place] == "regression")
        assert URL.partition("://")[2] in rows["url"][place]
        config = compose_config(["data=ogb", f"data.name={name}"]).data
        assert (config.task, config.metric) == (entry.task, entry.metric)


def test_a_set_that_ogb_does_not_have_is_refused() -> None:
    with pytest.raises(RequestError, match="Did you mean 'ogbg-molpcba'") as refused:
        compose_config(["data=ogb", "data.name=ogbg-molpbca"])
    assert refused.value.codes == ["data.unknown"]
    with pytest.raises(RequestError, match="rocauc or ap or accuracy") as refused:
        compose_config(["data=ogb", "data.name=ogbg-molpcba", "data.metric=mae"])
    assert refused.value.codes == ["config.metric"]


def test_a_deviation_without_a_reason_is_seen() -> None:
    entry = dataclasses.replace(CATALOG["mutag"], edges=3700)
    (deviation,) = entry.deviations()
    assert (deviation.what, deviation.reason) == ("edges per graph", "")


def test_addresses_are_those_of_the_reference_loaders() -> None:
    from torch_geometric.datasets import ZINC, Amazon, Planetoid, TUDataset

    assert TUDataset.url == tu.URL
    assert ZINC.url == zinc.URL
    assert ZINC.split_url.format("val") == f"{zinc.INDEX_URL}/val.index"
    assert Planetoid.url == planetoid.URL
    assert Amazon.url.rstrip("/") == amazon.URL


def test_a_set_is_known_by_its_arguments() -> None:
    assert tu.TU(tu_name="MUTAG").known is CATALOG["mutag"]
    assert tu.TU(tu_name="BZR").known is None
    assert tu.TU(tu_name="MUTAG", task="graph_regression").known is None
    assert OGB(folder="hiv").known is CATALOG["molhiv"]
    assert zinc.Zinc(size="full").known is CATALOG["zinc_full"]
    sizes = {"num_train": 9000, "num_validation": 1000, "num_test": 10000}
    assert Cycles(length=6, variant="matched", **sizes).known is CATALOG["6cycles"]
    assert Cycles(length=6, variant="plain", **sizes).known is None
    assert Cycles(length=6, variant="matched", **sizes | {"num_test": 2}).known is None


def test_right_counts_pass() -> None:
    CATALOG["zinc10k"].check(dataclasses.replace(arrays(12000, 277864, 298985, 2), y=np.ones(1)))
    CATALOG["nci109"].check(arrays(4127, 5, 7, 2))


def test_right_counts_with_another_content_are_refused() -> None:
    with pytest.raises(DataError, match="an edge, a label, a feature or a part is") as caught:
        CATALOG["mutag"].check(arrays(188, 3371, 3721, 2))
    assert caught.value.codes == ["data.content"]


@pytest.mark.parametrize("name", CATALOG)
def test_the_content_of_every_published_set_at_hand_is_pinned(name: str) -> None:
    entry = CATALOG[name]
    unknown = {"zinc10k", "zinc_full", "frankenstein", "nci109", "4cycles", "6cycles"}
    # Files that are not at hand.
    unknown |= {k for k, each in CATALOG.items() if not each.paper and each.content is None}
    assert (entry.content is None) == (name in unknown)
    assert (entry.size is None) == (name in unknown)
    for path in (path for files in entry.files for path in files):
        limit = size_limit(path)
        assert (limit is None) == (name in unknown)
        assert limit is None or limit < 100e6


def test_swapped_labels_in_mutag_are_refused(mirror: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(mirror / "TUDataset" / "MUTAG.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in members if name.endswith("graph_labels.txt"))
    lines = members[name].split(b"\n")
    first, other = lines.index(b"1"), lines.index(b"-1")
    lines[first], lines[other] = lines[other], lines[first]
    altered = tmp_path / "mirror" / "TUDataset" / "MUTAG.zip"
    altered.parent.mkdir(parents=True)
    with zipfile.ZipFile(altered, "w") as archive:
        for each, content in (members | {name: b"\n".join(lines)}).items():
            archive.writestr(each, content)

    def data(place: Path) -> GraphDataModule:
        source = tu.TU(tu_name="MUTAG")
        return GraphDataModule(source, name="mutag", root=tmp_path / "root", mirror=str(place))

    with pytest.raises(DataError, match="MUTAG is not the known set: its counts are right") as e:
        _ = data(altered.parents[1]).arrays
    assert e.value.codes == ["data.content"]
    assert data(mirror).arrays.content_hash() == CATALOG["mutag"].content
    # Processed by a version that compared only counts.
    (processed,) = (tmp_path / "root" / "processed").glob("*.npz")
    good = GraphArrays.load(processed)
    dataclasses.replace(good, y=1 - good.y).save(processed)
    assert data(mirror).arrays.content_hash() == CATALOG["mutag"].content


def test_every_wrong_count_is_named_with_the_remedy() -> None:
    with pytest.raises(DataError) as caught:
        CATALOG["mutag"].check(arrays(135, 3371, 3720, 3))
    assert caught.value.codes == ["data.counts"]
    message = str(caught.value)
    assert "MUTAG is not the known set: 135 graphs instead of 188" in message
    assert "3720 undirected edges instead of 3721" in message
    assert "3 classes instead of 2" in message
    assert "nodes" not in message
    assert "data.mirror=..." in message


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert find("cora").name == "cora"
    with pytest.raises(RequestError, match=r"Did you mean 'cora'\?") as caught:
        find("crora")
    assert caught.value.codes == ["data.unknown"]
