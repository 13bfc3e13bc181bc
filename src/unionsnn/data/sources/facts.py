"""What is known beforehand about a data set: counts to check it by, citations, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays


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
        files: Raw files by their path in a mirror and in the data root; alternatives after one
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
        return [
            Deviation(what, value, printed, self.reasons.get(what, ""))
            for what, printed in self.paper.items()
            if (value := ours[what]) is not None and round(value, 2) != printed
        ]

    def check(self, arrays: GraphArrays) -> None:
        """Check that a set as read has the known numbers of graphs, nodes, edges and classes.

        Raises:
            DataError: Names every count that is wrong.
        """
        counts: dict[str, tuple[Any, Any]] = {
            "graphs": (arrays.num_graphs, self.graphs),
            "nodes": (arrays.num_nodes, self.nodes),
            "undirected edges": (arrays.num_edges // 2, self.edges),
            "classes": (arrays.num_classes, self.classes),
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
                if self.files
                else "The generator has changed: this is a bug in the package, please report it"
            )
            raise DataError(
                f"{self.source_name} is not the known set: {', '.join(wrong)}. {advice}",
                code="data.counts",
            )


def _ratio(count: int | None, graphs: int) -> float | None:
    return None if count is None else count / graphs


def figures_per_graph(graphs: int, classes: int, nodes: float, edges: float) -> dict[str, float]:
    """What the paper prints of a set of graphs."""
    return {
        "graphs": graphs,
        "classes": classes,
        "nodes per graph": nodes,
        "edges per graph": edges,
    }


def node_set(
    name: str,
    source_name: str,
    counts: tuple[int, int, int, int],
    split: tuple[int, int, int],
    printed: tuple[int, int, int],
    citations: tuple[Citation, ...],
    files: tuple[str, ...],
    reasons: Mapping[str, str],
) -> CatalogEntry:
    """Make the entry of one graph whose nodes are classified.

    Args:
        name: The name of its configuration.
        source_name: Its name where it comes from.
        counts: Nodes, edges, classes and features.
        split: Sizes of its parts.
        printed: Edges, features and training nodes in the paper.
        citations: Works to cite.
        files: Raw files.
        reasons: Why figures differ.
    """
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
