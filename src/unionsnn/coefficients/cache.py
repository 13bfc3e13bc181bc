"""Cache of coefficients on disk, shared between processes and checked for damage."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import DamagedEntryError
from unionsnn.coefficients.blocks import BlockFile
from unionsnn.coefficients.engine import Progress
from unionsnn.coefficients.entries import ArrayCache, read_array, write_array
from unionsnn.coefficients.graph import IntArray, as_edge_index, check_num_nodes
from unionsnn.coefficients.planning import MAX_HOURS
from unionsnn.coefficients.spec import ENGINE_VERSION, CoefficientSpec

FloatArray = npt.NDArray[np.float64]


class CoefficientCache(ArrayCache):
    """Content-addressed store of coefficients, safe to share between processes.

    The key of an entry is a digest of the graph and of the spec's canonical key, so an entry never
    goes stale: another graph, choice or engine version is another entry. Processes that request the
    same entry at once compute it once. The finished part of an interrupted or killed computation is
    kept next to the entries and reused by the next.

    Args:
        root: Folder of the entries; created with the first one.
    """

    what = "coefficients"

    def get(
        self,
        edge_index: Any,
        num_nodes: int,
        spec: CoefficientSpec,
        *,
        symmetrize: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
        label: str | None = None,
        max_hours: float | None = MAX_HOURS,
    ) -> FloatArray:
        """Read the coefficients of a graph, or compute and keep them.

        A damaged entry is recomputed with one warning. If the folder cannot be locked or written,
        there is also one warning, and the values are returned anyway.

        Args:
            edge_index: Directed edges, anything that numpy reads as integers.
            num_nodes: Number of nodes.
            spec: Which coefficients.
            symmetrize: Add the missing reverse of every edge instead of refusing the input.
            threads: As in `CoefficientSpec.compute`.
            progress: As in `CoefficientSpec.compute`; not called if nothing is computed.
            label: Name of the entry in listings, such as the name of the data set. An existing
                entry keeps its label.
            max_hours: As in `CoefficientSpec.compute`.

        Shapes:
            edge_index [2, E] -> [E, C], C = len(spec.columns).

        Raises:
            TypeError: edge_index or num_nodes is not an integer type.
            RequestError: The graph cannot be used as given.
            TooLongError: It is not in the cache, and would take longer than `max_hours`.
            FloatingPointError: A coefficient is not finite; nothing is kept.
        """
        edges = as_edge_index(edge_index)
        nodes = check_num_nodes(num_nodes)
        shape = (edges.shape[1], len(spec.columns))
        path = self._path(edges, nodes, spec, symmetrize)

        def make(locked: bool) -> FloatArray:
            about = {"label": label, "spec": spec.to_dict(), "engine_version": ENGINE_VERSION}
            with BlockFile(blocks_path(path), about) as blocks:
                values = spec.compute(
                    edges,
                    nodes,
                    symmetrize=symmetrize,
                    threads=threads,
                    progress=progress,
                    # Only one process at a time may write to the file.
                    blocks=blocks if locked else None,
                    max_hours=max_hours,
                )
                if not np.isfinite(values).all():
                    raise FloatingPointError(
                        f"{int((~np.isfinite(values)).sum())} of the {values.size} coefficients "
                        "are not finite; nothing was cached."
                    )
                if self._keep(lambda: write_entry(path, values, spec, label)):
                    blocks.remove()
            return values

        def read() -> FloatArray:
            values = read_array(path, spec.key, shape)
            if values.dtype != np.float64:
                raise DamagedEntryError("wrong type")
            return values

        return self._fetch(path, read, make)

    def path(
        self, edge_index: Any, num_nodes: int, spec: CoefficientSpec, *, symmetrize: bool = False
    ) -> Path:
        """Return the path of a graph's entry, whether or not it exists.

        Raises:
            TypeError: edge_index or num_nodes is not an integer type.
            RequestError: edge_index or num_nodes cannot be used as given.
        """
        return self._path(as_edge_index(edge_index), check_num_nodes(num_nodes), spec, symmetrize)

    def _path(self, edges: IntArray, nodes: int, spec: CoefficientSpec, symmetrize: bool) -> Path:
        digest = hashlib.sha256()
        content = {"num_nodes": nodes, "spec": spec.key, "symmetrize": bool(symmetrize)}
        digest.update(json.dumps(content, sort_keys=True).encode())
        digest.update(np.ascontiguousarray(edges, dtype="<i8").data)
        return self.root / f"{digest.hexdigest()}.npz"


def blocks_path(path: Path) -> Path:
    """Return the path of the finished blocks of an incomplete entry."""
    return path.with_name(f".{path.stem}.blocks")


def write_entry(
    path: Path, values: FloatArray, spec: CoefficientSpec, label: str | None = None
) -> None:
    """Write an entry atomically.

    Shapes:
        values [E, C].

    Raises:
        OSError: The folder cannot be written; no temporary file remains.
    """
    about = {
        "label": label,
        "spec": spec.to_dict(),
        "spec_key": spec.key,
        "columns": list(spec.columns),
        "engine_version": ENGINE_VERSION,
    }
    write_array(path, np.asarray(values, dtype=np.float64), about)
