"""Raw files for every data configuration, made by hand: what a mirror or a user would have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from data_files import (
    molecules,
    ogb_node_tables,
    ogb_tables,
    write_amazon,
    write_csl,
    write_ogb,
    write_planetoid,
    write_zinc_index,
    write_zinc_npz,
    write_zinc_pickles,
)
from tu_files import write_tu
from unionsnn.config.targets import current_target
from unionsnn.data.catalog import CatalogEntry
from unionsnn.data.sources import zinc
from unionsnn.data.sources.ogb import OGB

ZINC_SIZES = {"train": 24, "val": 8, "test": 8}

REQUIRED = {
    "tu": ["data.name=BZR"],
    "ogb": ["data.name=ogbg-moltox21"],
    "folder": ["data.path=unused"],
    "pyg": ["data.dataset=unused"],
    "pyg_nodes": ["data.dataset=unused"],
    "pyg_links": ["data.dataset=unused"],
}
"""What a configuration asks for that has no default."""


def fabricate(
    section: Mapping[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Make the raw files of a data configuration below a folder.

    Args:
        section: The section ``data`` of a composed configuration.
        folder: Becomes the mirror; a user's own files come below it too.
        monkeypatch: Lifts the checks of counts, which are not the real set's.

    Returns:
        Overrides that the set needs to find its files.
    """
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    sizes = tuple(ZINC_SIZES.values())
    monkeypatch.setattr(zinc, "FULL", sizes)
    monkeypatch.setattr(zinc, "SUBSET", sizes)
    kind = current_target(section["_target_"]).rpartition(".")[2]
    return [f"data.mirror={folder}", "data.offline=true", *MAKERS[kind](section, folder)]


def _tu(section: Mapping[str, Any], folder: Path) -> list[str]:
    write_tu(
        folder,
        section["tu_name"],
        60,
        classes={"ENZYMES": tuple(range(6)), "FRANKENSTEIN": (0, 2)}.get(
            section["tu_name"], (0, 1)
        ),
        labels=section["features"] == "labels",
        attributes=2,
    )
    return []


def _cycles(section: Mapping[str, Any], folder: Path) -> list[str]:
    return ["data.num_train=16", "data.num_validation=8", "data.num_test=8"]


def _ogb(section: Mapping[str, Any], folder: Path) -> list[str]:
    columns = 3 if section["task"] == "graph_multilabel_classification" else 1
    write_ogb(folder, OGB(folder=section["folder"]).folder, ogb_tables(columns=columns))
    return []


def _zinc(section: Mapping[str, Any], folder: Path) -> list[str]:
    parts = {part: molecules(size, seed=size) for part, size in ZINC_SIZES.items()}
    if section["size"] == "full":
        write_zinc_npz(folder / "zinc-full", parts)
    else:
        write_zinc_pickles(folder / "zinc", parts)
        write_zinc_index(folder / "zinc", {p: list(range(n)) for p, n in ZINC_SIZES.items()})
    return []


def _planetoid(section: Mapping[str, Any], folder: Path) -> list[str]:
    write_planetoid(folder, section["planetoid_name"])
    return []


def _amazon(section: Mapping[str, Any], folder: Path) -> list[str]:
    write_amazon(folder, section["amazon_name"])
    return []


def write_folder(folder: Path, count: int = 40) -> Path:
    """Write edge lists of paths (even) and circles (odd) with a table of labels."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["file,label"]
    for g in range(count):
        n = 4 + g // 2 % 5
        edges = [(i, i + 1) for i in range(n - 1)] + [(n - 1, 0)] * (g % 2)
        lines = [f"{a},{b}\n{b},{a}" for a, b in edges]
        (folder / f"{g}.csv").write_text("\n".join(lines) + "\n")
        rows.append(f"{g}.csv,{'circle' if g % 2 else 'path'}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return folder


def _folder(section: Mapping[str, Any], folder: Path) -> list[str]:
    return [f"data.path={write_folder(folder / 'own')}"]


def _csl(section: Mapping[str, Any], folder: Path) -> list[str]:
    write_csl(folder)
    return ["protocol=cross_validation", "protocol.folds=5"]


def _ogb_nodes(section: Mapping[str, Any], folder: Path) -> list[str]:
    write_ogb(folder, section["folder"], ogb_node_tables())
    return []


def write_lrgb(raw: Path, targets: int, contacts: bool = False) -> None:
    """Write {train,val,test}.pt as the Long Range Graph Benchmark has them."""
    raw.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    for part in ("train", "val", "test"):
        graphs = []
        for i in range(12):
            n = 4 + i % 4
            ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
            edges = torch.cat([ring, ring.flip(0)], dim=1)
            x = torch.randint(0, 2, (n, 9), generator=generator)
            bonds = torch.randint(0, 2, (n, 3), generator=generator).repeat(2, 1)
            y = torch.full((1, targets), float(i % 2))
            graphs.append((x, bonds, edges, y))
            if contacts:
                # Opposite atoms touch; a sampled pair may be of an atom with itself.
                links = torch.tensor([[0, 2, 0, 1], [2, 0, 0, 3]])
                graphs[-1] = (x, bonds, edges, links, torch.tensor([1, 1, 0, 0]).int())
        torch.save(graphs, raw / f"{part}.pt")


def write_qm9(raw: Path) -> None:
    """Write qm9_v3.pt as PyG publishes it: a list of dictionaries."""
    raw.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    molecules = []
    for i in range(30):
        n = 3 + i % 5
        path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        bonds = torch.randint(0, 4, (n - 1,), generator=generator).repeat(2)
        molecules.append(
            {
                "x": torch.randn(n, 11, generator=generator),
                "edge_index": torch.cat([path, path.flip(0)], dim=1),
                "edge_attr": torch.nn.functional.one_hot(bonds, 4).float(),
                "pos": torch.randn(n, 3, generator=generator),
                "y": 10 + torch.randn(1, 19, generator=generator),
                "name": f"gdb_{i + 1}",
                "idx": i,
            }
        )
    torch.save(molecules, raw / "qm9_v3.pt")


def _pyg(section: Mapping[str, Any], folder: Path) -> list[str]:
    # PyG keeps its files in the data root.
    root = folder.parent / "data" / "raw" / "pyg"
    if section["dataset"].endswith("LRGBDataset"):
        name = section["arguments"]["name"].lower()
        targets = 10 if "func" in name else 11
        write_lrgb(root / "LRGBDataset" / name / "raw", targets, contacts="contact" in name)
        return []
    if section["dataset"].endswith("QM9"):
        write_qm9(root / "QM9" / "raw")
        return []
    return ["data.dataset=own_datasets.Graphs", "data.arguments={count: 40}"]


def _pyg_links(section: Mapping[str, Any], folder: Path) -> list[str]:
    if section["dataset"].endswith("LRGBDataset"):
        return _pyg(section, folder)
    return ["data.dataset=own_datasets.Links"]


def _pyg_nodes(section: Mapping[str, Any], folder: Path) -> list[str]:
    return ["data.dataset=own_datasets.Nodes"]


MAKERS = {
    "TU": _tu,
    "Cycles": _cycles,
    "OGB": _ogb,
    "Zinc": _zinc,
    "Planetoid": _planetoid,
    "Amazon": _amazon,
    "Folder": _folder,
    "OGBNodes": _ogb_nodes,
    "CSL": _csl,
    "PyG": _pyg,
    "PyGNodes": _pyg_nodes,
    "PyGLinks": _pyg_links,
}
"""Makers of raw files by the name of the source."""
