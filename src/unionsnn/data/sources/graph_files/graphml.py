"""GraphML, with all graphs of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unionsnn.base.errors import GraphFileError
from unionsnn.data.sources.graph_files.parsed import ParsedGraph, as_edges


def read_graphml(path: Path) -> tuple[bool, list[ParsedGraph]]:
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
        for part in (*nodes, *edges):
            data |= {str(keys.get(each.get("key"))) for each in part if _tag(each) == "data"}
        directed.add(default == "directed")
        graphs.append(ParsedGraph(as_edges(pairs), len(position), list(position), sorted(data)))
    if len(directed) > 1:
        raise GraphFileError(f"{path}: some graphs are directed and others are not.")
    return True in directed, graphs


def _tag(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
