"""graph6 and sparse6."""

from __future__ import annotations

from pathlib import Path

from unionsnn.base.errors import GraphFileError
from unionsnn.data.sources.graph_files.parsed import ParsedGraph, as_edges


def read_graph6(path: Path, edge_features: bool = False) -> tuple[bool, list[ParsedGraph]]:
    """Read one graph per line, in graph6 or sparse6, which have no features of edges."""
    import networkx
    from networkx.readwrite.graph6 import data_to_n

    graphs = []
    content = path.read_bytes()
    # networkx allocates 500 bytes for each node that the first bytes of a line announce.
    left = max(10**5, 64 * len(content))
    for number, raw in enumerate(content.splitlines(), 1):
        line = raw.strip()
        for header in (b">>graph6<<", b">>sparse6<<"):
            line = line.removeprefix(header)
        if not line:
            continue
        sparse = line.startswith(b":")
        read = networkx.from_sparse6_bytes if sparse else networkx.from_graph6_bytes
        try:
            if not all(62 < byte < 127 for byte in line[sparse:]):
                raise ValueError("a byte outside 63..126")
            order, _ = data_to_n([byte - 63 for byte in line[sparse:][:8]])
            left -= order
            if left < 0:
                raise ValueError(
                    f"{order:,} nodes in a line of {len(line):,} bytes are nearly all without an "
                    "edge; if that is right, save edge_index and num_nodes in an npz file"
                )
            graph = read(line)
        except (networkx.NetworkXException, ValueError, IndexError) as error:
            raise GraphFileError(
                f"{path}, line {number} is not {'sparse6' if sparse else 'graph6'} ({error})."
            ) from error
        graphs.append(ParsedGraph(as_edges(graph.edges()), graph.number_of_nodes()))
    return False, graphs
