"""Every set that the mirror holds loads from it, with the statistics that are known."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unionsnn.base.errors import DataError
from unionsnn.config.compose import compose_config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CATALOG, CatalogEntry
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.source import RawFiles, Source
from unionsnn.data.sources.zinc import Zinc
from unionsnn.data.splits import check_split
from unionsnn.training.build import build_data

# The figures marked "loaded" in the mirror's README, or said of the component that is taken:
# graphs, nodes, undirected edges, features, sizes of classes, sizes of the split's parts.
LOADED = {
    "mutag": (188, 3371, 3721, 7, [63, 125], None),
    "proteins": (1113, 43471, 81044, 3, [663, 450], None),
    "enzymes": (600, 19580, 37282, 3, [100] * 6, None),
    "dd": (1178, 334925, 843046, 89, [691, 487], None),
    "tox21": (8169, 147779, 151100, 50, [7219, 950], None),
    "nci1": (4110, 122747, 132753, 37, [2053, 2057], None),
    "molhiv": (41127, 1049163, 1129688, 9, [39684, 1443], [32901, 4113, 4113]),
    "molbbbp": (2039, 49068, 52921, 9, [479, 1560], [1631, 204, 204]),
    "zinc10k": (12000, 277864, 298985, 1, None, [10000, 1000, 1000]),
    "zinc_full": (249456, 5775257, 6212023, 1, None, [220011, 24445, 5000]),
    "cora": (1, 2708, 5278, 1433, 7, [140, 500, 1000]),
    "citeseer": (1, 3327, 4552, 3703, 6, [120, 500, 1000]),
    "pubmed": (1, 19717, 44324, 500, 3, [60, 500, 1000]),
    "computers": (1, 13381, 245778, 767, 10, [1338, 1338, 10705]),
    "photo": (1, 7487, 119043, 745, 8, [749, 749, 5989]),
}
# Over 5 seconds, or much memory.
LONG = ("zinc_full",)

# Averages as the README rounds them.
AVERAGES = {
    "molhiv": (25.51, 27.47),
    "molbbbp": (24.06, 25.95),
    "zinc10k": (23.155, 49.831 / 2),
    "zinc_full": (23.151, 49.805 / 2),
}
# Positives of OGB's parts.
POSITIVES = {"molhiv": [1232, 81, 130], "molbbbp": [1369, 83, 108]}


@pytest.fixture
def loaded(mirror: Path, tmp_path: Path, request: pytest.FixtureRequest) -> GraphDataModule:
    config = compose_config(
        [
            f"data={request.param}",
            f"data.mirror={mirror}",
            f"paths.data={tmp_path}",
            "data.offline=true",
            "gate=none",
            "model=gin",
        ]
    )
    return build_data(config)


@pytest.mark.parametrize(
    "loaded",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in LOADED],
    indirect=True,
)
def test_a_set_of_the_mirror_has_the_known_statistics(loaded: GraphDataModule) -> None:
    arrays, entry = loaded.arrays, CATALOG[loaded.name]
    graphs, nodes, edges, features, classes, parts = LOADED[loaded.name]
    assert (arrays.num_graphs, arrays.num_nodes, arrays.num_edges // 2) == (graphs, nodes, edges)
    # What `unionsnn datasets` prints.
    assert (entry.graphs, entry.nodes, entry.edges) == (graphs, nodes, edges)
    width = loaded.num_features
    assert (len(width) if isinstance(width, tuple) else width) == features == entry.features
    assert loaded.features == entry.feature_kind
    assert loaded.task == entry.task
    assert_edge_features(arrays, entry, loaded.source)
    if isinstance(classes, list):
        assert np.bincount(arrays.y).tolist() == classes
        classes = len(classes)
    assert arrays.num_classes == (classes or 0) == entry.classes
    split = loaded.default_split(np.random.default_rng(0))
    check_split(split, loaded.num_items, cover=loaded.split_covers)
    sizes = [len(part) for part in split.parts().values()]
    if parts is not None:
        assert sizes == parts == list(entry.split or ())
    if loaded.name in AVERAGES:
        means = (nodes / graphs, edges / graphs)
        assert means == pytest.approx(AVERAGES[loaded.name], abs=0.0051)
    if loaded.name in POSITIVES:
        positives = [int(arrays.y[part].sum()) for part in split.parts().values()]
        assert positives == POSITIVES[loaded.name]


def assert_edge_features(arrays: GraphArrays, entry: CatalogEntry, source: Source) -> None:
    """Check what `unionsnn datasets` says of edges against what is read."""
    assert (arrays.edge_attributes is not None) == bool(entry.edge_attributes)
    if arrays.edge_labels is None:
        # ZINC's are only read if they are wanted.
        assert entry.edge_labels == (source.edge_categories or ())
        return
    occurring = [int(column.max()) + 1 for column in arrays.edge_labels.T]
    assert entry.edge_labels == (source.edge_categories or tuple(occurring))
    assert all(np.array(occurring) <= entry.edge_labels)


@pytest.mark.parametrize("size", ["subset", pytest.param("full", marks=pytest.mark.slow)])
def test_bond_types_of_the_real_zinc(mirror: Path, tmp_path: Path, size: Any) -> None:
    source = Zinc(size=size, edge_features="labels")
    arrays = source.read(RawFiles(tmp_path, str(mirror), offline=True))
    arrays.validate()
    assert arrays.edge_labels is not None
    counts = np.bincount(arrays.edge_labels[:, 0], minlength=4)
    assert counts[0] == 0
    assert (counts[1:] > 0).all()
    without = Zinc(size=size).read(RawFiles(tmp_path, str(mirror), offline=True))
    assert without.edge_labels is None
    assert np.array_equal(without.edge_index, arrays.edge_index)


def made_by_hand(tmp_path: Path, name: str, files: dict[str, str]) -> GraphDataModule:
    """Load a set that no mirror has from files of its format, with its catalog's checks."""
    path = tmp_path / "TUDataset" / f"{name}.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, text in files.items():
            archive.writestr(f"{name}/{name}_{key}.txt", text)
    place = [f"data.mirror={tmp_path}", f"paths.data={tmp_path / 'root'}", "data.offline=true"]
    return build_data(compose_config([f"data={name.lower()}", *place, "gate=none", "model=gin"]))


def test_frankenstein_has_labels_0_and_2_and_only_attributes(tmp_path: Path) -> None:
    graphs, width = 4337, 780
    row = ", ".join(["0.5", *["0"] * (width - 1)])
    files = {
        "A": "".join(
            f"{2 * g + 1}, {2 * g + 2}\n{2 * g + 2}, {2 * g + 1}\n" for g in range(graphs)
        ),
        "graph_indicator": "".join(f"{g + 1}\n{g + 1}\n" for g in range(graphs)),
        "graph_labels": "".join(f"{2 * (g % 2)}\n" for g in range(graphs)),
        "node_attributes": f"{row}\n" * 2 * graphs,
    }
    data = made_by_hand(tmp_path, "FRANKENSTEIN", files)
    assert (data.num_graphs, data.num_features, data.num_outputs) == (graphs, width, 2)
    assert data.arrays.class_names == ("0", "2")
    assert data.targets[:4].tolist() == [0, 1, 0, 1]
    assert data.graphs[0].x[:, :2].tolist() == [[0.5, 0.0]] * 2
    short = {**files, "graph_labels": files["graph_labels"][:-2]}
    (tmp_path / "short").mkdir()
    with pytest.raises(DataError, match=r"FRANKENSTEIN_graph_labels.txt .*has 4336 lines"):
        _ = made_by_hand(tmp_path / "short", "FRANKENSTEIN", short).arrays


def test_nci109_has_38_node_labels(tmp_path: Path) -> None:
    graphs = 4127
    files = {
        "A": "".join(
            f"{3 * g + 1}, {3 * g + 2}\n{3 * g + 2}, {3 * g + 1}\n" for g in range(graphs)
        ),
        "graph_indicator": "".join(f"{g + 1}\n" * 3 for g in range(graphs)),
        "graph_labels": "".join(f"{g % 2}\n" for g in range(graphs)),
        "node_labels": "".join(f"{i % 38}\n" for i in range(3 * graphs)),
    }
    data = made_by_hand(tmp_path, "NCI109", files)
    assert (data.num_graphs, data.num_features, data.num_outputs) == (graphs, 38, 2)
    assert data.num_features == CATALOG["nci109"].features


@pytest.mark.parametrize("loaded", ["zinc10k"], indirect=True)
def test_zinc10k_has_the_known_targets(loaded: GraphDataModule) -> None:
    arrays = loaded.arrays
    assert arrays.node_labels is not None
    sizes = np.diff(arrays.node_slices)
    bounds = [0, 10_000, 11_000, 12_000]
    known = [(23.166, 49.856, 21), (23.083, 49.692, 16), (23.117, 49.720, 17)]
    for begin, end, (nodes, edges, types) in zip(bounds[:-1], bounds[1:], known, strict=True):
        rows = slice(arrays.node_slices[begin], arrays.node_slices[end])
        assert sizes[begin:end].mean() == pytest.approx(nodes, abs=0.0006)
        count = arrays.edge_slices[end] - arrays.edge_slices[begin]
        assert count / (end - begin) == pytest.approx(edges, abs=0.0006)
        assert len(np.unique(arrays.node_labels[rows])) == types
    assert (sizes[:10_000].min(), sizes[:10_000].max()) == (9, 37)
    assert arrays.y[:10_000].mean() == pytest.approx(0.0153, abs=0.0001)
    assert arrays.y[:10_000].std() == pytest.approx(2.011, abs=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("length", [4, 6])
def test_the_generated_sets_have_the_catalogs_counts(tmp_path: Path, length: int) -> None:
    config = compose_config(
        [f"data={length}cycles", f"paths.data={tmp_path}", "gate=none", "model=gin"]
    )
    # Loading checks them.
    assert build_data(config).num_graphs == 20_000
