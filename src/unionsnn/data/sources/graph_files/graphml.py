"""GraphML, with all graphs of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import GraphFileError
from unionsnn.data.sources.graph_files.parsed import ParsedGraph, as_edges, number_column


def read_graphml(path: Path, edge_features: bool = False) -> tuple[bool, list[ParsedGraph]]:
    """Read all graphs of a file; networkx reads the first, and makes up what edges lack."""
    from xml.etree.ElementTree import ParseError, parse

    try:
        root = parse(path).getroot()
    except (ParseError, ValueError, LookupError) as error:
        raise GraphFileError(f"{path} is not GraphML that can be read ({error}).") from error
    if _tag(root) != "graphml":
        raise GraphFileError(f"{path} is not GraphML: its outer element is {_tag(root)[:40]!r}.")
    keys = {key.get("id"): key.get("attr.name") or key.get("id") for key in root}
    directed, graphs = set(), []
    for number, element in enumerate(each for each in root if _tag(each) == "graph"):
        where = f"{path}, graph {number}"
        default = element.get("edgedefault")
        if default not in ("directed", "undirected"):
            raise GraphFileError(
                f"{where}: edgedefault is {default!r}, not directed or undirected."
            )
        word = "true" if default == "directed" else "false"
        position: dict[str, int] = {}
        pairs, data = [], set()
        nodes, edges = ([e for e in element if _tag(e) == kind] for kind in ("node", "edge"))
        others = {_tag(e) for e in element.iter()} - {"graph", "node", "edge", "data", "desc"}
        nested = sum(_tag(e) == "graph" for e in element.iter()) > 1
        if nested or others & {"hyperedge", "port", "endpoint"}:
            raise GraphFileError(
                f"{where} holds graphs within nodes, ports or hyperedges, which are not read."
            )
        for node in nodes:
            name = node.get("id")
            if name is None or name in position:
                raise GraphFileError(f"{where}: a node has no id, or that of another: {name!r}.")
            position[name] = len(position)
        for edge in edges:
            ends = edge.get("source"), edge.get("target")
            if None in ends or not position.keys() >= set(ends):
                raise GraphFileError(
                    f"{where}: an edge is between {ends[0]!r} and {ends[1]!r}, of which one is "
                    "missing or no node of the graph."
                )
            if edge.get("directed", word) != word:
                raise GraphFileError(f"{where}: some edges are directed and others are not.")
            pairs.append((position[str(ends[0])], position[str(ends[1])]))
        features = _edge_features(root, edges, where) if edge_features else {}
        for part in nodes if edge_features else (*nodes, *edges):
            data |= {str(keys.get(each.get("key"))) for each in part if _tag(each) == "data"}
        directed.add(default == "directed")
        graphs.append(
            ParsedGraph(as_edges(pairs), len(position), list(position), sorted(data), features)
        )
    if len(directed) > 1:
        raise GraphFileError(f"{path}: some graphs are directed and others are not.")
    return True in directed, graphs


def _edge_features(root: Any, edges: Sequence[Any], where: str) -> dict[str, NDArray[Any]]:
    """Return the data of edges by name, in the order of the names; a key may have a default."""
    values = [
        {each.get("key"): (each.text or "").strip() for each in edge if _tag(each) == "data"}
        for edge in edges
    ]
    used = {key for given in values for key in given}
    columns = {}
    for key in root:
        number = key.get("id")
        if _tag(key) != "key" or number not in used:
            continue
        name = str(key.get("attr.name") or number)
        default = next((e.text for e in key if _tag(e) == "default"), None)
        lacking = next((i for i, given in enumerate(values) if number not in given), None)
        if lacking is not None and default is None:
            raise GraphFileError(
                f"{where}: edge {lacking} has no {name}, but others have; give it to all, or give "
                "the key a default.",
                code="data.edge_features",
            )
        texts = [given.get(number, (default or "").strip()) for given in values]
        kind = key.get("attr.type")
        if kind == "boolean":
            texts = [_BOOLEANS.get(text, text) for text in texts]
        places = [f"{where}, edge {i}" for i in range(len(edges))]
        column = number_column(texts, places, name)
        columns[name] = column.astype(np.float64) if kind in ("float", "double") else column
    unknown = used - {key.get("id") for key in root}
    if unknown:
        raise GraphFileError(
            f"{where}: an edge has data of the key {min(map(str, unknown))!r}, which is not "
            "declared.",
            code="data.edge_features",
        )
    return {name: columns[name] for name in sorted(columns)}


_BOOLEANS: Mapping[str, str] = {"true": "1", "false": "0"}


def _tag(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
