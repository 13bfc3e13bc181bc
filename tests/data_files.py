"""Hand-made raw files in the formats of OGB, ZINC, Planetoid and the Amazon graphs."""

from __future__ import annotations

import collections
import gzip
import io
import itertools
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch

ATOM_LIMITS = (119, 5, 12, 12, 10, 6, 6, 2, 2)


def random_tree_edges(generator: np.random.Generator, n: int) -> list[tuple[int, int]]:
    """Edges of a random tree, and a few more."""
    pairs = {(int(generator.integers(i)), i) for i in range(1, n)}
    pairs |= {(i, j) for j in range(n) for i in range(j) if generator.random() < 0.15}
    return sorted(pairs)


def ogb_tables(num_graphs: int = 40, seed: int = 0, columns: int = 1) -> dict[str, list[list[Any]]]:
    """Rows of the files of an OGB set; the last fifth is for validation and test.

    Several columns of labels are the first with missing ones, more of them from column to column.
    """
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 8, num_graphs).tolist()
    edges = [random_tree_edges(generator, n) for n in sizes]
    total = sum(map(len, edges))
    order = generator.permutation(num_graphs).tolist()
    cut = [0, num_graphs - 2 * (num_graphs // 5), num_graphs - num_graphs // 5, num_graphs]
    parts = [[[i] for i in sorted(order[a:b])] for a, b in itertools.pairwise(cut)]
    rank = {item: place for place, item in enumerate(order)}
    return {
        "raw/num-node-list": [[n] for n in sizes],
        "raw/num-edge-list": [[len(pairs)] for pairs in edges],
        "raw/edge": [list(pair) for pairs in edges for pair in pairs],
        "raw/edge-feat": generator.integers(0, 2, (total, 3)).tolist(),
        "raw/node-feat": generator.integers(0, ATOM_LIMITS, (sum(sizes), 9)).tolist(),
        # Both classes are in every part.
        "raw/graph-label": [
            [rank[i] % 2, *("" if rank[i] % 6 < c else rank[i] % 2 for c in range(1, columns))]
            for i in range(num_graphs)
        ],
        "split/scaffold/train": parts[0],
        "split/scaffold/valid": parts[1],
        "split/scaffold/test": parts[2],
    }


def ogb_node_tables(count: int = 60, seed: int = 0) -> dict[str, list[list[Any]]]:
    """Rows of the files of an OGB graph with three classes of nodes; edges are citations."""
    generator = np.random.default_rng(seed)
    edges = [[j, i] for i, j in random_tree_edges(generator, count)]
    order = generator.permutation(count)
    parts = np.split(order, [count // 2, 3 * count // 4])
    return {
        "raw/num-node-list": [[count]],
        "raw/num-edge-list": [[len(edges)]],
        "raw/edge": edges,
        "raw/node-feat": generator.standard_normal((count, 4)).round(6).tolist(),
        "raw/node-label": [[i % 3] for i in range(count)],
        **{
            f"split/time/{name}": np.sort(part)[:, None].tolist()
            for name, part in zip(("train", "valid", "test"), parts, strict=True)
        },
    }


def write_csl(mirror: Path, count: int = 50) -> None:
    """Write CSL.zip and its folds as benchmarking-gnns has them: circles with links of two lengths.

    The classes take turns; a fold of a fifth is tested.
    """
    graphs, n = [], 11
    for g in range(count):
        steps = (1, 2 + g % 2)
        around = [(i, (i + s) % n) for s in steps for i in range(n)]
        pairs = np.array([(i, i) for i in range(n)] + around + [(j, i) for i, j in around]).T
        graphs.append(scipy.sparse.coo_matrix((np.ones(pairs.shape[1]), pairs), shape=(n, n)))
    classes = io.BytesIO()
    y = torch.arange(count) % 2
    torch.save(y, classes, _use_new_zipfile_serialization=False)
    path = mirror / "expressivity" / "CSL" / "CSL.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("graphs_Kary_Deterministic_Graphs.pkl", pickle.dumps(graphs, protocol=2))
        archive.writestr("y_Kary_Deterministic_Graphs.pt", classes.getvalue())
    folder = mirror / "splits" / "benchmarking-gnns" / "CSL"
    folder.mkdir(parents=True, exist_ok=True)
    fifth = np.arange(count) // 2 % 5
    for part in ("train", "val", "test"):
        rows = []
        for fold in range(5):
            turn = (fifth - fold) % 5
            chosen = {"test": turn == 0, "val": turn == 1, "train": turn > 1}[part]
            rows.append(",".join(map(str, np.flatnonzero(chosen))))
        (folder / f"CSL_{part}.index").write_text("\n".join(rows) + "\n")


def write_ogb(mirror: Path, folder: str, tables: dict[str, list[list[Any]]] | None = None) -> Path:
    """Write ogb/FOLDER.zip as OGB's download is laid out."""
    path = mirror / "ogb" / f"{folder}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in (tables or ogb_tables()).items():
            text = "".join(",".join(map(str, row)) + "\n" for row in rows)
            archive.writestr(f"{folder}/{name}.csv.gz", gzip.compress(text.encode()))
    return path


def molecules(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Molecules as benchmarking-gnns pickles them: a number and three torch tensors each."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        n = int(generator.integers(2, 9))
        bonds = np.zeros((n, n), dtype=np.uint8)
        for i, j in random_tree_edges(generator, n):
            bonds[i, j] = bonds[j, i] = generator.integers(1, 4)
        made.append(
            {
                "num_atom": n,
                "atom_type": torch.from_numpy(generator.integers(0, 28, n, dtype=np.uint8)),
                "bond_type": torch.from_numpy(bonds),
                "logP_SA_cycle_normalized": torch.randn(
                    1, generator=torch.Generator().manual_seed(int(generator.integers(1 << 30)))
                ),
            }
        )
    return made


def write_zinc_pickles(folder: Path, parts: dict[str, list[dict[str, Any]]]) -> Path:
    """Write molecules.zip into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "molecules.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(f"molecules/{part}.pickle", pickle.dumps(content, protocol=4))
    return folder / "molecules.zip"


def write_zinc_index(folder: Path, rows: dict[str, list[int]]) -> dict[str, Path]:
    """Write {train,val,test}.index into a folder."""
    paths = {part: folder / f"{part}.index" for part in rows}
    for part, path in paths.items():
        path.write_text(",".join(map(str, rows[part])) + "\n")
    return paths


def write_zinc_npz(folder: Path, parts: dict[str, list[dict[str, Any]]]) -> dict[str, Path]:
    """Write the compact form of the same molecules into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {part: folder / f"{part}.npz" for part in parts}
    for part, content in parts.items():
        matrices = [m["bond_type"].numpy() for m in content]
        bonds = [np.stack(np.nonzero(matrix)) for matrix in matrices]
        np.savez(
            paths[part],
            num_nodes=np.array([m["num_atom"] for m in content], dtype=np.uint8),
            num_edges=np.array([b.shape[1] for b in bonds], dtype=np.uint8),
            x=np.concatenate([m["atom_type"].numpy() for m in content]),
            edge_index=np.concatenate(bonds, axis=1).astype(np.uint8),
            edge_attr=np.concatenate([matrix[matrix != 0] for matrix in matrices]),
            y=np.concatenate([m["logP_SA_cycle_normalized"].numpy() for m in content]),
        )
    return paths


def planetoid_objects(seed: int = 0, gap: int | None = None) -> dict[str, Any]:
    """Contents of a citation graph's files: 12 training nodes, 500 to validate, 30 to test.

    Args:
        seed: Of all draws.
        gap: A test node to leave out of the files, as Citeseer leaves out isolated nodes.
    """
    generator = np.random.default_rng(seed)
    known, tested, width, classes = 520, 30, 17, 3
    total = known + tested
    x = (generator.random((total, width)) < 0.2).astype(np.float32)
    y = np.eye(classes, dtype=np.int32)[np.arange(total) % classes]
    test = generator.permutation(np.arange(known, total))
    if gap is not None:
        test = test[test != gap]
    graph = collections.defaultdict(list)
    for node in range(total):
        graph[node] = []
    for i, j in generator.integers(0, total, (900, 2)).tolist():
        if gap not in (i, j):
            # Loops and repeats stand in the real lists too.
            graph[i].append(j)
            graph[j].append(i)
    return {
        "x": scipy.sparse.csr_matrix(x[:12]),
        "tx": scipy.sparse.csr_matrix(x[test]),
        "allx": scipy.sparse.csr_matrix(x[:known]),
        "y": y[:12],
        "ty": y[test],
        "ally": y[:known],
        "graph": graph,
        "test.index": test,
    }


def write_planetoid(mirror: Path, name: str, objects: dict[str, Any] | None = None) -> Path:
    """Write planetoid/ind.NAME.*; returns the folder."""
    folder = mirror / "planetoid"
    folder.mkdir(parents=True, exist_ok=True)
    for key, content in (objects or planetoid_objects()).items():
        path = folder / f"ind.{name}.{key}"
        if key == "test.index":
            path.write_text("".join(f"{node}\n" for node in content))
        else:
            path.write_bytes(pickle.dumps(content, protocol=2))
    return folder


def write_amazon(mirror: Path, name: str, seed: int = 0) -> Path:
    """Write amazon/amazon_electronics_NAME.npz: one large component and some nodes beside it."""
    generator = np.random.default_rng(seed)
    n, beside, classes = 200, 15, 4
    edges = np.array([*random_tree_edges(generator, 60), *((i - 1, i) for i in range(60, n))]).T
    total = n + beside
    number = generator.permutation(total)
    ones = np.ones(edges.shape[1], dtype=np.float32)
    adjacency = scipy.sparse.csr_matrix((ones, number[edges]), shape=(total, total))
    features = scipy.sparse.csr_matrix((generator.random((total, 9)) < 0.3).astype(np.float32))
    path = mirror / "amazon" / f"amazon_electronics_{name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        f"{key}_{part}": getattr(matrix, part)
        for key, matrix in (("adj", adjacency), ("attr", features))
        for part in ("data", "indices", "indptr")
    }
    np.savez(
        path,
        **arrays,
        adj_shape=np.array(adjacency.shape),
        attr_shape=np.array(features.shape),
        labels=np.arange(total) % classes,
        class_names=np.array([f"class {i}" for i in range(classes)]),
    )
    return path
