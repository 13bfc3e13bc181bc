"""Data modules of molecules: OGB's and ZINC."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from unionsnn.base.errors import DataError
from unionsnn.data import catalog
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.download import files_hash, set_aside_if_wrong
from unionsnn.data.sources.ogb import ATOM_CATEGORIES, read_ogb_molecules
from unionsnn.data.sources.zinc import ATOM_TYPES, FULL, SUBSET, read_zinc_npz, read_zinc_pickles


class OGBDataModule(GraphDataModule):
    """Molecules of OGB with one binary label and its scaffold split.

    "Open Graph Benchmark: Datasets for Machine Learning on Graphs" (Hu et al., NeurIPS 2020).

    Args:
        folder: Name of the download without its ending, such as hiv.
        common: Arguments of `GraphDataModule`.
    """

    categories = ATOM_CATEGORIES

    def __init__(self, *, folder: str, **common: Any) -> None:
        super().__init__(**common)
        self.folder = folder

    def _archive(self) -> Path:
        return self.fetch(f"ogb/{self.folder}.zip", f"{catalog.OGB_URL}/{self.folder}.zip")

    def processed_key(self) -> str:
        """Hash of the raw archive."""
        return f"ogb {files_hash([self._archive()])}"

    def read(self) -> GraphArrays:
        """Read the raw archive and check its counts where they are known."""
        archive = self._archive()
        with set_aside_if_wrong([archive]):
            arrays = read_ogb_molecules(archive, self.folder)
            catalog.check_statistics(self.folder, arrays)
        return arrays


class ZincDataModule(GraphDataModule):
    """Molecules of ZINC with their constrained solubility, in the parts of benchmarking-gnns.

    "Benchmarking Graph Neural Networks" (Dwivedi et al., JMLR 2023). Bond types are not read.

    Args:
        size: ``subset``, 12,000 molecules, or ``full``, 249,456. The full set is read from a
            mirror's zinc-full/{train,val,test}.npz where it has them, which takes seconds; else
            from the pickles, which takes minutes and 3 GB of memory.
        common: Arguments of `GraphDataModule`.
    """

    categories = (ATOM_TYPES,)

    def __init__(self, *, size: Literal["subset", "full"], **common: Any) -> None:
        super().__init__(**common)
        self.size = size

    def _compact(self) -> dict[str, Path] | None:
        """Files of the compact form, or None where they are not to be had."""
        _, _, compact = catalog.zinc_paths("zinc-full")
        try:
            return {part: self.fetch(path, None) for part, path in compact.items()}
        except DataError:
            return None

    def _pickles(self) -> tuple[Path, dict[str, Path] | None]:
        """The archive of pickles and, for the subset, the rows of each part."""
        folder = "zinc" if self.size == "subset" else "zinc-full"
        archive, index, _ = catalog.zinc_paths(folder)
        path = self.fetch(archive, catalog.ZINC_URL, f"{folder} molecules.zip")
        if self.size == "full":
            return path, None
        upstream = catalog.ZINC_INDEX_URL
        return path, {
            part: self.fetch(name, f"{upstream}/{part}.index") for part, name in index.items()
        }

    def processed_key(self) -> str:
        """Hash of the raw files."""
        compact = self._compact() if self.size == "full" else None
        if compact is not None:
            return f"zinc npz {files_hash([*compact.values()])}"
        archive, index = self._pickles()
        return f"zinc {self.size} {files_hash([archive, *(index or {}).values()])}"

    def read(self) -> GraphArrays:
        """Read the raw files and check their counts."""
        compact = self._compact() if self.size == "full" else None
        if compact is not None:
            with set_aside_if_wrong([*compact.values()]):
                arrays = read_zinc_npz(compact)
                catalog.check_statistics("zinc_full", arrays)
            return arrays
        archive, index = self._pickles()
        with set_aside_if_wrong([archive, *(index or {}).values()]):
            if self.size == "full":
                arrays = read_zinc_pickles(archive, None, FULL)
                catalog.check_statistics("zinc_full", arrays)
            else:
                arrays = read_zinc_pickles(archive, index, SUBSET)
                catalog.check_statistics("zinc10k", arrays)
        return arrays
