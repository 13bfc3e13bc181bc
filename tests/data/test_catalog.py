from __future__ import annotations

import numpy as np
import pytest

from unionsnn.data.arrays import DataError, GraphArrays
from unionsnn.data.catalog import CATALOG, check_statistics, tu_relative_path, tu_url


def arrays(graphs: int, nodes: int, edges: int, classes: int) -> GraphArrays:
    """Make a set with given counts: all nodes and all edges (as repeats) in the first graph."""
    return GraphArrays(
        edge_index=np.tile([[0, 1], [1, 0]], edges),
        node_slices=np.array([0] + [nodes] * graphs),
        edge_slices=np.array([0] + [2 * edges] * graphs),
        y=np.arange(graphs) % classes,
    )


def test_the_sets_of_the_paper_are_known() -> None:
    assert set(CATALOG) == {
        "MUTAG",
        "PROTEINS",
        "ENZYMES",
        "DD",
        "NCI1",
        "NCI109",
        "FRANKENSTEIN",
        "Tox21_AhR_training",
    }
    for name, entry in CATALOG.items():
        assert entry.name == name
        assert entry.citation
        assert entry.licence


@pytest.mark.parametrize(
    ("name", "mean_nodes", "mean_edges"),
    [
        ("MUTAG", 17.93, 19.79),
        ("PROTEINS", 39.06, 72.82),
        ("ENZYMES", 32.63, 62.14),
        ("DD", 284.32, 715.66),
        ("NCI1", 29.87, 32.30),
        ("Tox21_AhR_training", 18.09, 18.50),
    ],
)
def test_counts_give_the_averages_that_the_paper_prints(
    name: str, mean_nodes: float, mean_edges: float
) -> None:
    entry = CATALOG[name]
    assert entry.nodes is not None
    assert entry.edges is not None
    assert entry.nodes / entry.graphs == pytest.approx(mean_nodes, abs=0.0051)
    assert entry.edges / entry.graphs == pytest.approx(mean_edges, abs=0.0051)


def test_addresses_are_those_of_the_collection() -> None:
    assert tu_url("BZR") == "https://www.chrsmrrs.com/graphkerneldatasets/BZR.zip"
    assert tu_relative_path("BZR") == "TUDataset/BZR.zip"
    assert CATALOG["MUTAG"].url == tu_url("MUTAG")
    assert CATALOG["MUTAG"].relative_path == "TUDataset/MUTAG.zip"


def test_right_counts_pass_and_unknown_sets_are_not_judged() -> None:
    check_statistics("MUTAG", arrays(188, 3371, 3721, 2))
    check_statistics("NCI109", arrays(4127, 5, 7, 2))
    check_statistics("BZR", arrays(1, 2, 1, 1))


def test_every_wrong_count_is_named_with_the_remedy() -> None:
    with pytest.raises(DataError) as caught:
        check_statistics("MUTAG", arrays(135, 3371, 3720, 3))
    message = str(caught.value)
    assert "MUTAG is not the known set: 135 graphs instead of 188" in message
    assert "3720 undirected edges instead of 3721" in message
    assert "3 classes instead of 2" in message
    assert "nodes" not in message
    assert CATALOG["MUTAG"].url in message
    assert "data.mirror=..." in message
