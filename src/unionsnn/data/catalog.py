"""What is known beforehand about data sets: counts to check them by, sources, citations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.words import nearest
from unionsnn.data.arrays import GraphArrays

TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
"""Upstream address of the TU collection, the one that PyG uses."""
OGB_URL = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
"""Upstream address of OGB's molecules."""
PLANETOID_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
"""Upstream address of the citation graphs."""
AMAZON_URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
"""Upstream address of the co-purchase graphs."""
ZINC_URL = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"
"""Upstream address of the full ZINC set, which holds the subset."""
ZINC_INDEX_URL = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"
)
"""Upstream address of the rows that make ZINC-12k."""


@dataclass(frozen=True)
class Citation:
    """A work to cite.

    Args:
        authors: Family names, as they are printed.
        title: Its title.
        year: The year of its publication.
    """

    authors: str
    title: str
    year: int

    def __str__(self) -> str:
        return f"{self.authors}: {self.title} ({self.year})"


@dataclass(frozen=True)
class CatalogEntry:
    """A known data set.

    Args:
        name: The name of its configuration: data=NAME.
        source_name: Its name where it comes from.
        task: What is predicted.
        metric: What predictions are judged by.
        graphs: How many graphs.
        nodes: How many nodes in all; None where it is not known to us.
        edges: How many undirected edges in all, loops and repeats left out; None likewise.
        classes: How many classes; 0 for regression.
        features: Width of the node features, or how many categories a node has.
        feature_kind: Which of the choices for ``data.features`` the configuration takes.
        citations: Works to cite.
        licence: Of the source that offers it; most sets state none of their own.
        files: Raw files by their place in a mirror and in the data root; alternatives after one
            another, none where the set is generated.
        split: Sizes of the parts that its own split has; None where the protocol draws it.
        paper: The figures that the UnionSNN paper prints, by what they count.
        reasons: Why a figure of ours differs from the paper's, by what it counts.
    """

    name: str
    source_name: str
    task: str
    metric: str
    graphs: int
    nodes: int | None
    edges: int | None
    classes: int
    features: int
    feature_kind: str
    citations: tuple[Citation, ...]
    licence: str
    files: tuple[tuple[str, ...], ...]
    split: tuple[int, int, int] | None = None
    paper: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def relative_path(self) -> str:
        """Where its first raw file is in a mirror and in the data root."""
        return self.files[0][0]

    def figures(self) -> dict[str, float | None]:
        """What the set counts, by the names that the paper's figures have."""
        per_graph = {
            "nodes per graph": _ratio(self.nodes, self.graphs),
            "edges per graph": _ratio(self.edges, self.graphs),
            "directed edges per graph": _ratio(self.edges and 2 * self.edges, self.graphs),
        }
        return {
            "graphs": self.graphs,
            "nodes": self.nodes,
            "edges": self.edges,
            "classes": self.classes,
            "features": self.features,
            "training nodes": self.split and self.split[0],
            **per_graph,
        }

    def deviations(self) -> list[Deviation]:
        """Figures that differ from the paper's; averages as far as it prints them."""
        ours = self.figures()
        found = []
        for what, printed in self.paper.items():
            value = ours[what]
            if value is not None and round(value, 2) != printed:
                found.append(Deviation(what, value, printed, self.reasons.get(what, "")))
        return found


@dataclass(frozen=True)
class Deviation:
    """A figure that is not the paper's.

    Args:
        what: What is counted.
        ours: The figure of the set as it is loaded.
        paper: The figure that the paper prints.
        reason: Why, in one line.
    """

    what: str
    ours: float
    paper: float
    reason: str


def _ratio(count: int | None, graphs: int) -> float | None:
    return None if count is None else count / graphs


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


def planetoid_paths(name: str) -> dict[str, str]:
    """Tell where the files of a citation graph are in a mirror and in the data root.

    Args:
        name: cora, citeseer or pubmed.
    """
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return {part: f"planetoid/ind.{name}.{part}" for part in parts}


def zinc_paths(folder: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """Tell where ZINC is: the zip file, the rows of each part, the compact form of each part.

    Args:
        folder: zinc or zinc-full.
    """
    parts = ("train", "val", "test")
    index = {part: f"{folder}/{part}.index" for part in parts}
    compact = {part: f"{folder}/{part}.npz" for part in parts}
    return f"{folder}/molecules.zip", index, compact


_BORGWARDT = Citation(
    "Borgwardt, Ong, Schönauer, Vishwanathan, Smola, Kriegel",
    "Protein function prediction via graph kernels",
    2005,
)
_DOBSON = Citation(
    "Dobson, Doig", "Distinguishing enzyme structures from non-enzymes without alignments", 2003
)
_WALE = Citation(
    "Wale, Watson, Karypis",
    "Comparison of descriptor spaces for chemical compound retrieval and classification",
    2008,
)
_TU = Citation(
    "Morris, Kriege, Bause, Kersting, Mutzel, Neumann",
    "TUDataset: a collection of benchmark datasets for learning with graphs",
    2020,
)
_OGB = Citation(
    "Hu, Fey, Zitnik, Dong, Ren, Liu, Catasta, Leskovec",
    "Open Graph Benchmark: datasets for machine learning on graphs",
    2020,
)
_ZINC = (
    Citation(
        "Irwin, Sterling, Mysinger, Bolstad, Coleman",
        "ZINC: a free tool to discover chemistry for biology",
        2012,
    ),
    Citation(
        "Dwivedi, Joshi, Luu, Laurent, Bengio, Bresson", "Benchmarking graph neural networks", 2023
    ),
)
_VIGNAC = Citation(
    "Vignac, Loukas, Frossard",
    "Building powerful and equivariant graph neural networks with structural message-passing",
    2020,
)
_SEN = Citation(
    "Sen, Namata, Bilgic, Getoor, Gallagher, Eliassi-Rad",
    "Collective classification in network data",
    2008,
)
_NAMATA = Citation(
    "Namata, London, Getoor, Huang",
    "Query-driven active surveying for collective classification",
    2012,
)
_YANG = Citation(
    "Yang, Cohen, Salakhutdinov",
    "Revisiting semi-supervised learning with graph embeddings",
    2016,
)
_SHCHUR = Citation(
    "Shchur, Mumme, Bojchevski, Günnemann", "Pitfalls of graph neural network evaluation", 2018
)

_NOT_STATED = "not stated"
_RAW_LISTS = "the paper counts the raw lists, in which loops and repeats stand"
_SELF_LOOPS = "the paper adds one self loop for each node"
_GENERATED = "generated anew: the paper's own graphs are not published"
_ZINC_ROW = "the paper repeats the averages of ZINC10k"
_OGB_ROUNDING = "the paper repeats OGB's averages, rounded to one decimal"


def _tu_entry(
    name: str,
    source_name: str,
    counts: tuple[int, int | None, int | None, int],
    features: int,
    averages: tuple[float, float],
    *citations: Citation,
    feature_kind: str = "labels",
) -> CatalogEntry:
    graphs, nodes, edges, classes = counts
    return CatalogEntry(
        name=name,
        source_name=source_name,
        task="graph_classification",
        metric="accuracy",
        graphs=graphs,
        nodes=nodes,
        edges=edges,
        classes=classes,
        features=features,
        feature_kind=feature_kind,
        citations=(*citations, _TU),
        licence=_NOT_STATED,
        files=((tu_relative_path(source_name),),),
        paper=_per_graph(graphs, classes, *averages),
    )


def _per_graph(graphs: int, classes: int, nodes: float, edges: float) -> dict[str, float]:
    return {
        "graphs": graphs,
        "classes": classes,
        "nodes per graph": nodes,
        "edges per graph": edges,
    }


def _ogb_entry(
    name: str,
    folder: str,
    counts: tuple[int, int, int],
    split: tuple[int, int, int],
    averages: tuple[float, float],
    reasons: Mapping[str, str],
) -> CatalogEntry:
    graphs, nodes, edges = counts
    return CatalogEntry(
        name=name,
        source_name=f"ogbg-{name}",
        task="graph_binary_classification",
        metric="rocauc",
        graphs=graphs,
        nodes=nodes,
        edges=edges,
        classes=2,
        features=9,
        feature_kind="categorical",
        citations=(_OGB,),
        licence="MIT",
        files=((f"ogb/{folder}.zip",),),
        split=split,
        paper=_per_graph(graphs, 2, *averages),
        reasons=reasons,
    )


def _zinc_entry(
    name: str,
    source_name: str,
    counts: tuple[int, int, int],
    split: tuple[int, int, int],
    files: tuple[tuple[str, ...], ...],
    reasons: Mapping[str, str],
) -> CatalogEntry:
    graphs, nodes, edges = counts
    return CatalogEntry(
        name=name,
        source_name=source_name,
        task="graph_regression",
        metric="mae",
        graphs=graphs,
        nodes=nodes,
        edges=edges,
        classes=0,
        features=1,
        feature_kind="categorical",
        citations=_ZINC,
        licence="MIT",
        files=files,
        split=split,
        paper={"graphs": graphs, "nodes per graph": 23.16, "directed edges per graph": 49.83},
        reasons=reasons,
    )


def _cycles_entry(name: str, nodes: int, edges: int, averages: tuple[float, float]) -> CatalogEntry:
    return CatalogEntry(
        name=name,
        source_name=f"{name}, variant matched",
        task="graph_classification",
        metric="accuracy",
        graphs=20_000,
        nodes=nodes,
        edges=edges,
        classes=2,
        features=1,
        feature_kind="constant",
        citations=(_VIGNAC,),
        licence="MIT",
        files=(),
        split=(9_000, 1_000, 10_000),
        paper=_per_graph(20_000, 2, *averages),
        reasons={"edges per graph": _GENERATED},
    )


def _node_entry(
    name: str,
    source_name: str,
    counts: tuple[int, int, int, int],
    split: tuple[int, int, int],
    printed: tuple[int, int, int],
    citations: tuple[Citation, ...],
    files: tuple[str, ...],
    reasons: Mapping[str, str],
) -> CatalogEntry:
    nodes, edges, classes, features = counts
    paper_edges, paper_features, paper_training = printed
    return CatalogEntry(
        name=name,
        source_name=source_name,
        task="node_classification",
        metric="accuracy",
        graphs=1,
        nodes=nodes,
        edges=edges,
        classes=classes,
        features=features,
        feature_kind="attributes",
        citations=citations,
        licence="MIT",
        files=(files,),
        split=split,
        paper={
            "nodes": nodes,
            "edges": paper_edges,
            "classes": classes,
            "features": paper_features,
            "training nodes": paper_training,
        },
        reasons=reasons,
    )


def _planetoid_files(name: str) -> tuple[str, ...]:
    return tuple(planetoid_paths(name).values())


def _zinc_files(folder: str) -> tuple[str, ...]:
    archive, index, _ = zinc_paths(folder)
    return (archive, *index.values())


_ENTRIES = (
    _tu_entry(
        "mutag",
        "MUTAG",
        (188, 3371, 3721, 2),
        7,
        (17.93, 19.79),
        Citation(
            "Debnath, Lopez de Compadre, Debnath, Shusterman, Hansch",
            "Structure-activity relationship of mutagenic aromatic and heteroaromatic nitro "
            "compounds",
            1991,
        ),
    ),
    _tu_entry(
        "proteins", "PROTEINS", (1113, 43471, 81044, 2), 3, (39.06, 72.82), _DOBSON, _BORGWARDT
    ),
    _tu_entry("enzymes", "ENZYMES", (600, 19580, 37282, 6), 3, (32.63, 62.14), _BORGWARDT),
    _tu_entry("dd", "DD", (1178, 334925, 843046, 2), 89, (284.32, 715.66), _DOBSON),
    _tu_entry(
        "frankenstein",
        "FRANKENSTEIN",
        (4337, None, None, 2),
        780,
        (16.90, 17.88),
        Citation("Orsini, Frasconi, De Raedt", "Graph invariant kernels", 2015),
        feature_kind="attributes",
    ),
    _tu_entry(
        "tox21",
        "Tox21_AhR_training",
        (8169, 147779, 151100, 2),
        50,
        (18.09, 18.50),
        Citation(
            "National Center for Advancing Translational Sciences", "Tox21 data challenge", 2014
        ),
    ),
    _tu_entry("nci1", "NCI1", (4110, 122747, 132753, 2), 37, (29.87, 32.30), _WALE),
    _tu_entry("nci109", "NCI109", (4127, None, None, 2), 38, (29.68, 32.13), _WALE),
    _ogb_entry(
        "molhiv",
        "hiv",
        (41127, 1049163, 1129688),
        (32901, 4113, 4113),
        (25.50, 27.50),
        {"nodes per graph": _OGB_ROUNDING, "edges per graph": _OGB_ROUNDING},
    ),
    _ogb_entry("molbbbp", "bbbp", (2039, 49068, 52921), (1631, 204, 204), (24.06, 25.95), {}),
    _zinc_entry(
        "zinc10k",
        "ZINC-12k",
        (12000, 277864, 298985),
        (10_000, 1_000, 1_000),
        (_zinc_files("zinc"),),
        {},
    ),
    _zinc_entry(
        "zinc_full",
        "ZINC",
        (249456, 5775257, 6212023),
        (220_011, 24_445, 5_000),
        (tuple(zinc_paths("zinc-full")[2].values()), (zinc_paths("zinc-full")[0],)),
        {"nodes per graph": _ZINC_ROW, "directed edges per graph": _ZINC_ROW},
    ),
    _cycles_entry("4cycles", 720_000, 1_233_646, (36.00, 61.71)),
    _cycles_entry("6cycles", 1_120_000, 1_755_688, (56.00, 87.84)),
    _node_entry(
        "cora",
        "Cora",
        (2708, 5278, 7, 1433),
        (140, 500, 1000),
        (5429, 1433, 140),
        (_SEN, _YANG),
        _planetoid_files("cora"),
        {"edges": _RAW_LISTS},
    ),
    _node_entry(
        "citeseer",
        "Citeseer",
        (3327, 4552, 6, 3703),
        (120, 500, 1000),
        (4732, 3703, 120),
        (_SEN, _YANG),
        _planetoid_files("citeseer"),
        {"edges": _RAW_LISTS},
    ),
    _node_entry(
        "pubmed",
        "PubMed",
        (19717, 44324, 3, 500),
        (60, 500, 1000),
        (44338, 500, 60),
        (_NAMATA, _YANG),
        _planetoid_files("pubmed"),
        {"edges": _RAW_LISTS},
    ),
    _node_entry(
        "computers",
        "Amazon Computers",
        (13381, 245778, 10, 767),
        (1338, 1338, 10705),
        (259159, 7667, 1338),
        (_SHCHUR,),
        ("amazon/amazon_electronics_computers.npz",),
        {"edges": _SELF_LOOPS, "features": "a slip of the paper's print: one 6 too many"},
    ),
    _node_entry(
        "photo",
        "Amazon Photo",
        (7487, 119043, 8, 745),
        (749, 749, 5989),
        (126530, 745, 749),
        (_SHCHUR,),
        ("amazon/amazon_electronics_photo.npz",),
        {"edges": _SELF_LOOPS},
    ),
)

CATALOG = {entry.name: entry for entry in _ENTRIES}
"""Known sets by the name of their configuration."""

_BY_SOURCE = {entry.source_name: entry for entry in _ENTRIES}


def find(name: str) -> CatalogEntry:
    """Look a set up by the name of its configuration.

    Raises:
        RequestError: There is none; names the nearest.
    """
    if name in CATALOG:
        return CATALOG[name]
    raise RequestError(
        f"{name!r} is not in the catalog; there are {', '.join(CATALOG)}."
        f"{nearest(name.lower(), CATALOG)}",
        code="data.unknown",
    )


def check_statistics(name: str, arrays: GraphArrays) -> None:
    """Check that a loaded set has the known numbers of graphs, nodes, edges and classes.

    Args:
        name: The set's name, here or where it comes from; one that the catalog does not have
            passes unchecked.
        arrays: The set as read.

    Raises:
        DataError: Names every count that is wrong.
    """
    entry = CATALOG.get(name) or _BY_SOURCE.get(name)
    if entry is None:
        return
    counts: dict[str, tuple[Any, Any]] = {
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
        advice = (
            "The file may be a cut or a de-duplicated copy: get it from its source, or from "
            "another mirror with data.mirror=..."
            if entry.files
            else "The generator has changed: this is a defect of the package, please report it"
        )
        raise DataError(f"{name} is not the known set: {', '.join(wrong)}. {advice}")
