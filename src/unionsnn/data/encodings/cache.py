"""Cache of encodings on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.base.memory import free_bytes
from unionsnn.base.words import format_bytes
from unionsnn.coefficients.entries import ArrayCache, read_array, write_array
from unionsnn.data.arrays import IntArray
from unionsnn.data.encodings.definitions import ENCODINGS, Report, peak_bytes, shape_of

ENCODING_VERSION = 1
"""Part of every key. Raise it when a change makes any value differ by more than rounding."""

FOLDER = "encodings"
"""Folder of the entries in the data root."""


class EncodingCache(ArrayCache):
    """Content-addressed store of encodings, safe to share between processes.

    The key of an entry is a digest of the graphs, of the encoding's name and size and of
    `ENCODING_VERSION`.

    Args:
        root: Folder of the entries; created with the first one.
    """

    what = "encodings"

    def get(
        self,
        name: str,
        size: int,
        edge_index: IntArray,
        node_slices: IntArray,
        *,
        report: Report | None = None,
        label: str | None = None,
    ) -> NDArray[Any]:
        """Read an encoding of a set of graphs, or compute and store it.

        A damaged entry is recomputed with one warning. If the folder cannot be locked or written,
        there is also one warning, and the values are returned anyway.

        Args:
            name: A key of `ENCODINGS`.
            size: Number of values for each node or pair of nodes; hops of a subgraph.
            edge_index: Edges of all graphs, with global node numbers.
            node_slices: Where each graph's nodes begin and end.
            report: Called as graphs are done; not called if nothing is computed.
            label: Name of the entry in listings. An existing entry keeps its label.

        Shapes:
            edge_index [2, E]; node_slices [G + 1] -> [rows, size]; [rows, 3] of
            subgraphs.

        Raises:
            DataError: The values do not fit into the free memory.
        """
        key = _key(name, size, edge_index, node_slices)
        path = self.root / f"{key}.npz"
        needed, free = peak_bytes(name, edge_index, node_slices, size), free_bytes()
        if needed > free:
            largest = int(np.diff(node_slices).max(initial=0))
            other = f"type a model.encodings.{name} below {size}, choose a model without it,"
            if name == "distance":
                other = "disable it (model.encodings.distance=false)"
            raise DataError(
                f"the encoding {name} of these graphs, of up to {largest:,} nodes, needs about "
                f"{format_bytes(needed)} of memory, but {format_bytes(free)} are free: "
                f"{other} or choose a set of smaller graphs.",
                code="memory.too_large",
            )

        def make(locked: bool) -> NDArray[Any]:
            values = ENCODINGS[name](edge_index, node_slices, size, report)
            about = {
                "label": label,
                "spec": {"encoding": name, "size": size},
                "spec_key": key,
                "columns": [str(size)] if name != "distance" else [],
                "engine_version": ENCODING_VERSION,
            }
            self._keep(lambda: write_array(path, values, about))
            return values

        shape = shape_of(name, node_slices, size)
        return self._fetch(path, lambda: read_array(path, key, shape), make)

    def path(self, name: str, size: int, edge_index: IntArray, node_slices: IntArray) -> Path:
        """Return the path of the entry of a set of graphs."""
        return self.root / f"{_key(name, size, edge_index, node_slices)}.npz"


def _key(name: str, size: int, edge_index: IntArray, node_slices: IntArray) -> str:
    content: Mapping[str, Any] = {"encoding": name, "size": size, "version": ENCODING_VERSION}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for array in (node_slices, edge_index):
        # The length separates the two arrays.
        digest.update(f" {array.size} ".encode())
        digest.update(np.ascontiguousarray(array, dtype="<i8").data)
    return digest.hexdigest()
