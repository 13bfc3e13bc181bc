"""A data set class of a user whose graphs come from a file."""

from __future__ import annotations

import pickle
from pathlib import Path

from torch_geometric.data import Data, Dataset


class Pickled(Dataset):
    """The graphs of a pickled list of mappings."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._graphs = [Data(**each) for each in pickle.loads(Path(path).read_bytes())]

    def len(self) -> int:
        return len(self._graphs)

    def get(self, idx: int) -> Data:
        return self._graphs[idx]
