"""The known data sets, read from catalog.yaml: counts to check them, citations, files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.words import nearest
from unionsnn.data.arrays import GraphArrays


@dataclass(frozen=True)
class Citation:
    """A work to cite.

    Args:
        authors: Family names, as printed.
        title: Its title.
        year: Year of publication.
    """

    authors: str
    title: str
    year: int

    def __str__(self) -> str:
        return f"{self.authors}: {self.title} ({self.year})"

    @property
    def key(self) -> str:
        """Its key in BibTeX: first author, year, first word of the title."""
        words = f"{self.authors.partition(',')[0].split()[0]}{self.year}{self.title.split()[0]}"
        plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode().lower()
        return re.sub(r"\W.*", "", plain)

    def bibtex(self) -> str:
        """Return its entry in BibTeX, with what is known here: neither given names nor venue."""
        # BibTeX would take a name of several words to pieces.
        names = [f"{{{n}}}" if " " in n else n for n in self.authors.split(", ")]
        fields = {
            "author": " and ".join(names),
            # Letters keep their case in braces.
            "title": f"{{{self.title}}}",
            "year": self.year,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@misc{{{self.key},", *lines, "}"])


@dataclass(frozen=True)
class Deviation:
    """A count that differs from the paper's.

    Args:
        what: What is counted.
        ours: The count of the set as loaded.
        paper: The count in the paper.
        reason: The reason, in one line.
    """

    what: str
    ours: float
    paper: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class CatalogEntry:
    """A known data set.

    Args:
        name: Its name in the configuration, ``data.name``.
        request: What chooses it on the command line, if that is not data=NAME.
        format: Class name of the source that reads it.
        arguments: Fields of that source that identify the set.
        source_name: Its name at the source.
        task: The task.
        metric: The metric.
        graphs: Number of graphs; None if unknown.
        nodes: Total number of nodes; None if unknown.
        edges: Total number of undirected edges without loops and repeats; None if unknown.
        classes: Number of classes; 0 for several labels and regression.
        targets: Number of labels or regression targets of a graph; None if a request chooses them.
        features: Width of the node features, or number of categories of a node.
        feature_kind: Value of ``data.features`` in the configuration.
        edge_labels: Cardinality of each column of edge labels.
        edge_attributes: Width of the edge attributes.
        citations: Works to cite.
        licence: Licence of the source; most sets state none themselves.
        files: Raw files by path in a mirror and in the data root, with alternatives; none for a
            generated set.
        size: Size of its raw files as published, in bytes; None if unknown. What is downloaded may
            be packed otherwise, but is of this order.
        content: `GraphArrays.content_hash` of the set as read, whatever its files are packed with;
            None if unknown.
        split: Sizes of the parts of its own split; None if unknown, or if the protocol draws it.
        prescribed: Whether its files hold its own split, or several, of sizes that are not known
            beforehand.
        paper: Counts in the UnionSNN paper, by name.
        reasons: Why our counts differ from the paper's, by name.
    """

    name: str
    request: str | None = None
    format: str
    arguments: Mapping[str, Any]
    source_name: str
    task: str
    metric: str
    graphs: int | None = None
    nodes: int | None = None
    edges: int | None = None
    classes: int = 0
    targets: int | None = 1
    features: int
    feature_kind: str
    edge_labels: tuple[int, ...] = ()
    edge_attributes: int = 0
    citations: tuple[Citation, ...]
    licence: str
    files: tuple[tuple[str, ...], ...]
    size: int | None = None
    content: str | None = None
    split: tuple[int, int, int] | None = None
    prescribed: bool = False
    paper: Mapping[str, int | float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    def figures(self) -> dict[str, float | None]:
        """Return the counts of the set, with the names of the paper's."""
        return {
            "graphs": self.graphs,
            "nodes": self.nodes,
            "edges": self.edges,
            "classes": self.classes,
            "features": self.features,
            "training nodes": self.split and self.split[0],
            "nodes per graph": self._per_graph(self.nodes),
            "edges per graph": self._per_graph(self.edges),
            "directed edges per graph": self._per_graph(self.edges and 2 * self.edges),
        }

    def _per_graph(self, count: int | None) -> float | None:
        return count / self.graphs if count and self.graphs else None

    def deviations(self) -> list[Deviation]:
        """Return counts that differ from the paper's, rounded as printed there."""
        ours = self.figures()
        return [
            Deviation(what, value, printed, self.reasons.get(what, ""))
            for what, printed in self.paper.items()
            if (value := ours[what]) is not None and round(value, 2) != printed
        ]

    def check(self, arrays: GraphArrays) -> None:
        """Check that a set as read has the known counts and the known content.

        Raises:
            DataError: Counts are wrong, all of which are named; or the content is another one.
        """
        counts: dict[str, tuple[Any, Any]] = {
            "graphs": (arrays.num_graphs, self.graphs),
            "nodes": (arrays.num_nodes, self.nodes),
            "undirected edges": (arrays.num_edges // 2, self.edges),
            "classes": (arrays.num_classes, self.classes),
            "targets": (1 if arrays.y.ndim == 1 else arrays.y.shape[1], self.targets),
        }
        wrong = [
            f"{actual} {what} instead of {expected}"
            for what, (actual, expected) in counts.items()
            if expected is not None and actual != expected
        ]
        code = "data.counts"
        if not wrong and self.content is not None and arrays.content_hash() != self.content:
            wrong = ["its counts are right, but an edge, a label, a feature or a part is another"]
            code = "data.content"
        if wrong:
            advice = (
                "The file may be a truncated, deduplicated or altered copy: get it from its "
                "source, or from another mirror with data.mirror=..."
                if self.files
                else "The generator has changed: this is a bug in the package, please report it"
            )
            raise DataError(
                f"{self.source_name} is not the known set: {', '.join(wrong)}. {advice}",
                code=code,
            )


def edges_in_words(labels: Sequence[int], attributes: int) -> str:
    """Describe features of edges by cardinalities and width; empty if there are none."""
    words = [f"labels ({', '.join(map(str, labels))} values)"] if labels else []
    words += [f"{attributes} attributes"] if attributes else []
    return " and ".join(words)


def _read_catalog() -> dict[str, CatalogEntry]:
    content = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    named = {name: {"name": name, **fields} for name, fields in content["sets"].items()}
    return TypeAdapter(dict[str, CatalogEntry]).validate_python(named)


CATALOG = _read_catalog()
"""Known sets by the name of their configuration."""


def size_limit(path: str) -> int | None:
    """Return how large a raw file of a known set may be, in bytes; None for other files.

    Args:
        path: Its path in a mirror and in the data root.
    """
    sizes = [
        entry.size
        for entry in CATALOG.values()
        if entry.size is not None and any(path in files for files in entry.files)
    ]
    return 4 * max(sizes) + 1_000_000 if sizes else None


def find(name: str) -> CatalogEntry:
    """Look up a set by the name of its configuration.

    Raises:
        RequestError: There is no such set; suggests the nearest.
    """
    if name not in CATALOG:
        raise RequestError(
            f"{name!r} is not in the catalog; allowed are {', '.join(CATALOG)}."
            f"{nearest(name.lower(), CATALOG)}",
            code="data.unknown",
        )
    return CATALOG[name]
