"""Circular skip link graphs: ten classes that no message passing tells apart, with five folds."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import MalformedDataError
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import graphs_of_edges, slices
from unionsnn.data.sources.download import files_hash, open_zip, read_members
from unionsnn.data.sources.pickles import CSL_NAMES, SparseEntries, read_pickle
from unionsnn.data.sources.source import RawFiles, Source
from unionsnn.data.sources.text_tables import read_table
from unionsnn.data.splits import Split, check_split

URL = "https://www.dropbox.com/s/rnbkp5ubgk82ocu/CSL.zip?dl=1"
"""Upstream address of the graphs."""
INDEX_URL = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/CSL"
"""Upstream address of the folds."""
FOLDS = 5
_PARTS = ("train", "val", "test")
_MEMBERS = ("graphs_Kary_Deterministic_Graphs.pkl", "y_Kary_Deterministic_Graphs.pt")


class CSL(Source):
    """150 graphs of 41 nodes on a circle, each node linked to those R steps away; R is the class.

    "Relational Pooling for Graph Representations" (Murphy et al., ICML 2019); the five folds of
    "Benchmarking Graph Neural Networks" (Dwivedi et al., JMLR 2023): ``protocol=cross_validation
    protocol.folds=5``.
    """

    has_folds: ClassVar[bool] = True

    def _files(self, raw: RawFiles) -> tuple[Path, dict[str, Path]]:
        folder = "splits/benchmarking-gnns/CSL"
        return raw.fetch("expressivity/CSL/CSL.zip", URL), {
            part: raw.fetch(f"{folder}/CSL_{part}.index", f"{INDEX_URL}/CSL_{part}.index")
            for part in _PARTS
        }

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw files."""
        archive, index = self._files(raw)
        return f"csl {files_hash([archive, *index.values()])}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw files."""
        return read_csl(*self._files(raw))


def read_csl(archive: Path, index_files: dict[str, Path]) -> GraphArrays:
    """Read CSL.zip of benchmarking-gnns and its folds; self loops are dropped, as in PyG.

    Args:
        archive: Zip file with a pickle of sparse matrices, and a tensor of their classes.
        index_files: For each part, a file with a line of graphs, separated by commas, per fold.

    Returns:
        Graphs with a class and five splits.

    Raises:
        DataError: A file is wrong; names the fault.
    """
    with open_zip(archive) as opened:
        names = {Path(name).name: name for name in opened.namelist()}
    lacking = [name for name in _MEMBERS if name not in names]
    if lacking:
        raise MalformedDataError(f"{archive} has no {' and no '.join(lacking)}")
    contents = read_members(archive, [names[name] for name in _MEMBERS])
    graphs, classes = (contents[names[name]] for name in _MEMBERS)
    matrices = read_pickle(graphs, CSL_NAMES, f"{_MEMBERS[0]} (in {archive})")
    y = _classes(classes, f"{_MEMBERS[1]} (in {archive})")
    if not isinstance(matrices, list) or any(not isinstance(m, SparseEntries) for m in matrices):
        raise MalformedDataError(f"{_MEMBERS[0]} (in {archive}) is no list of sparse matrices")
    try:
        given = [matrix.places() for matrix in matrices]
    except (TypeError, ValueError, KeyError) as error:
        raise MalformedDataError(f"{archive}: a graph is no square matrix ({error})") from error
    if y.shape != (len(given),) or y.dtype.kind not in "iu" or (len(y) and y.min() < 0):
        raise MalformedDataError(
            f"{archive} holds {len(given)} graphs, but classes of {y.dtype} and shape {y.shape}"
        )
    return graphs_of_edges(
        [edges for edges, _ in given],
        slices([size for _, size in given]),
        [f"{archive}: graph {i}" for i in range(len(given))],
        y=y.astype(np.int64),
        class_names=tuple(str(i) for i in range(int(y.max(initial=-1)) + 1)),
        part=_folds(index_files, len(given)),
    )


def _classes(content: bytes, where: str) -> NDArray[Any]:
    """Read a tensor of numbers without running code from its file."""
    # Late: requests are checked without torch.
    import torch

    try:
        loaded = torch.load(io.BytesIO(content), weights_only=True)
        return np.asarray(loaded.numpy() if isinstance(loaded, torch.Tensor) else loaded)
    except Exception as error:  # A damaged pickle can raise anything at all.
        raise MalformedDataError(f"{where} holds no tensor ({error})") from error


def _folds(index_files: dict[str, Path], count: int) -> IntArray:
    """Return the part of each graph in each fold, [G, FOLDS]."""
    tables = {name: read_table(path) for name, path in index_files.items()}
    for name, table in tables.items():
        if len(table) != FOLDS:
            raise MalformedDataError(
                f"{index_files[name]} has {len(table)} lines, not {FOLDS}, one for each fold"
            )
    part = np.empty((count, FOLDS), dtype=np.int64)
    for fold in range(FOLDS):
        rows = [np.sort(tables[name][fold]) for name in _PARTS]
        where = f"{index_files['train'].parent}, fold {fold}"
        check_split(Split(*rows), count, where=where)
        for place, items in enumerate(rows):
            part[items, fold] = place
    return part
