"""Hand-made archives in the format of the TU collection."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np


def write_tu(
    folder: Path,
    name: str,
    num_graphs: int = 40,
    *,
    classes: tuple[int, ...] = (0, 1),
    labels: bool = True,
    attributes: int = 0,
    seed: int = 0,
) -> Path:
    """Write NAME.zip below folder/TUDataset: graphs of 3 to 8 nodes, each a random tree plus edges.

    A graph's class is its number modulo the number of classes.
    """
    generator = np.random.default_rng(seed)
    edges, indicator, graph_labels, node_labels = [], [], [], []
    offset = 1
    for g in range(num_graphs):
        n = int(generator.integers(3, 9))
        pairs = {(i, int(generator.integers(i))) for i in range(1, n)}
        pairs |= {(i, j) for i in range(n) for j in range(i) if generator.random() < 0.2}
        edges += [
            f"{a + offset}, {b + offset}" for i, j in sorted(pairs) for a, b in ((i, j), (j, i))
        ]
        indicator += [str(g + 1)] * n
        node_labels += [str(int(x)) for x in generator.integers(0, 3, n)]
        graph_labels.append(str(classes[g % len(classes)]))
        offset += n
    members = {
        "A": edges,
        "graph_indicator": indicator,
        "graph_labels": graph_labels,
    }
    if labels:
        members["node_labels"] = node_labels
    if attributes:
        values = generator.standard_normal((offset - 1, attributes))
        members["node_attributes"] = [", ".join(f"{x:.6f}" for x in row) for row in values]
    path = folder / "TUDataset" / f"{name}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member, lines in members.items():
            archive.writestr(f"{name}/{name}_{member}.txt", "\n".join(lines) + "\n")
    return path
