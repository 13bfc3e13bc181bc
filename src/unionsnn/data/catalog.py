"""What is known beforehand about data sets: counts to check them by, addresses, sources."""

from __future__ import annotations

from dataclasses import dataclass

from unionsnn.data.arrays import DataError, GraphArrays

TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
"""Upstream address of the TU collection, the one that PyG uses."""


@dataclass(frozen=True)
class CatalogEntry:
    """A known set of graphs.

    Args:
        name: The name in the TU collection.
        graphs: How many graphs.
        classes: How many classes.
        nodes: How many nodes in all; None where it is not known to us.
        edges: How many undirected edges in all, loops and repeats left out; None likewise.
        citation: Who made the set.
        licence: Under which terms; the collection states none for most sets.
    """

    name: str
    graphs: int
    classes: int
    nodes: int | None
    edges: int | None
    citation: str
    licence: str = "not stated by its source"

    @property
    def relative_path(self) -> str:
        """Where the zip file is in a mirror and in the data root."""
        return tu_relative_path(self.name)

    @property
    def url(self) -> str:
        """The zip file's upstream address."""
        return tu_url(self.name)


def tu_url(name: str) -> str:
    """Give the upstream address of any set of the TU collection.

    Args:
        name: The set's name there.
    """
    return f"{TU_URL}/{name}.zip"


def tu_relative_path(name: str) -> str:
    """Tell where a TU set's zip file is in a mirror and in the data root.

    Args:
        name: The set's name in the TU collection.
    """
    return f"TUDataset/{name}.zip"


_ENTRIES = (
    CatalogEntry("MUTAG", 188, 2, 3371, 3721, "Debnath et al. 1991"),
    CatalogEntry("PROTEINS", 1113, 2, 43471, 81044, "Dobson & Doig 2003; Borgwardt et al. 2005"),
    CatalogEntry("ENZYMES", 600, 6, 19580, 37282, "Schomburg et al. 2004; Borgwardt et al. 2005"),
    CatalogEntry("DD", 1178, 2, 334925, 843046, "Dobson & Doig 2003; Shervashidze et al. 2011"),
    CatalogEntry("NCI1", 4110, 2, 122747, 132753, "Wale et al. 2008"),
    CatalogEntry("NCI109", 4127, 2, None, None, "Wale et al. 2008"),
    CatalogEntry("FRANKENSTEIN", 4337, 2, None, None, "Orsini et al. 2015"),
    CatalogEntry("Tox21_AhR_training", 8169, 2, 147779, 151100, "Tox21 Data Challenge 2014"),
)

CATALOG = {entry.name: entry for entry in _ENTRIES}
"""Known TU sets by name."""


def check_statistics(name: str, arrays: GraphArrays) -> None:
    """Check that a loaded set has the known numbers of graphs, nodes, edges and classes.

    Args:
        name: The set's name; one that the catalog does not have passes unchecked.
        arrays: The set as read.

    Raises:
        DataError: Names every count that is wrong.
    """
    entry = CATALOG.get(name)
    if entry is None:
        return
    counts = {
        "graphs": (arrays.num_graphs, entry.graphs),
        "nodes": (arrays.num_nodes, entry.nodes),
        "undirected edges": (arrays.num_edges // 2, entry.edges),
        "classes": (arrays.num_classes, entry.classes),
    }
    wrong = [
        f"{actual} {what} instead of {expected}"
        for what, (actual, expected) in counts.items()
        if expected is not None and actual != expected
    ]
    if wrong:
        raise DataError(
            f"{name} is not the known set: {', '.join(wrong)}. The file may be a cut or a "
            "de-duplicated copy: get it from "
            f"{entry.url}, or from another mirror with data.mirror=..."
        )
