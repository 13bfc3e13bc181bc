"""Cache of coefficients on disk, shared between processes and checked for damage."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import DamagedEntryError
from unionsnn.base.npz import scratch
from unionsnn.base.union import DisjointUnion
from unionsnn.coefficients.blocks import BlockFile
from unionsnn.coefficients.engine import Progress, threads_for
from unionsnn.coefficients.entries import ArrayCache, lock_path, read_array, write_array
from unionsnn.coefficients.graph import IntArray, as_edge_index, check_num_nodes
from unionsnn.coefficients.planning import MAX_HOURS, check_hours, check_time
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
            RequestError: The graph or max_hours cannot be used as given.
            TooLongError: It is not in the cache, and would take longer than `max_hours`.
            FloatingPointError: A coefficient is not finite; nothing is kept.
        """
        check_hours(max_hours)
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

        return self._fetch(path, lambda: _read(path, spec, shape), make)

    def get_union(
        self,
        union: DisjointUnion,
        spec: CoefficientSpec,
        *,
        threads: int | None = None,
        progress: Progress | None = None,
        label: str | None = None,
        max_hours: float | None = MAX_HOURS,
    ) -> FloatArray:
        """Read the coefficients of many graphs, or compute and keep them part by part.

        As `get` of the edges of all graphs, whose entry it is; but neither these edges nor the
        coefficients of more than a part need be in memory. Each part is an entry until all are
        done, so that an interrupted computation goes on with the next.

        Args:
            union: The graphs.
            spec: As in `get`.
            threads: As in `get`.
            progress: As in `get`.
            label: As in `get`.
            max_hours: As in `get`.

        Shapes:
            -> [E, C].

        Raises:
            RequestError: as `get`.
            TooLongError: as `get`.
            FloatingPointError: as `get`.
        """
        check_hours(max_hours)
        parts = list(union.parts())
        if len(parts) <= 1:
            return self.get(
                union.edges(), union.num_nodes, spec, threads=threads, progress=progress,
                label=label, max_hours=max_hours,
            )  # fmt: skip
        path = self.union_path(union, spec)
        shape = (union.num_edges, len(spec.columns))

        def make(locked: bool) -> FloatArray:
            def nodes_of(begin: int, end: int) -> int:
                return int(union.node_slices[end] - union.node_slices[begin])

            if max_hours is not None:
                seconds = sum(
                    spec.estimated_seconds(union.edges(*part), nodes_of(*part), threads=threads)
                    for part in parts
                )
                check_time(seconds, threads or threads_for(1e9 * seconds), max_hours, kept=True)
            values, kept = scratch(shape, np.float64, self.root), []
            for begin, end in parts:
                edges, nodes = union.edges(begin, end), nodes_of(begin, end)
                first, last = (int(union.edge_slices[place]) for place in (begin, end))
                share = progress and _share(progress, first, last, union.num_edges)
                values[first:last] = self.get(
                    edges, nodes, spec, threads=threads, progress=share,
                    label=f"{label or 'graphs'}, {begin} to {end - 1}", max_hours=None,
                )  # fmt: skip
                kept.append(self._path(edges, nodes, spec, False))
            if not self._keep(functools.partial(write_entry, path, values, spec, label)):
                return values
            for part in kept:
                # Another process may have removed it.
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
                    lock_path(part).unlink(missing_ok=True)
            # The entry takes its place.
            del values
            return _read(path, spec, shape)

        return self._fetch(path, lambda: _read(path, spec, shape), make)

    def union_path(self, union: DisjointUnion, spec: CoefficientSpec) -> Path:
        """Return the path of the entry of many graphs, that of the edges of all of them."""
        pieces = (
            union.edges(begin, end)[row] + union.node_slices[begin]
            for row in (0, 1)
            for begin, end in union.parts()
        )
        return self._named(pieces, union.num_nodes, spec, False)

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
        return self._named([edges], nodes, spec, symmetrize)

    def _named(
        self, pieces: Iterable[IntArray], nodes: int, spec: CoefficientSpec, symmetrize: bool
    ) -> Path:
        """Return the path of the entry of a graph whose edges come in pieces, row by row."""
        digest = hashlib.sha256()
        content = {"num_nodes": nodes, "spec": spec.key, "symmetrize": bool(symmetrize)}
        digest.update(json.dumps(content, sort_keys=True).encode())
        for piece in pieces:
            digest.update(np.ascontiguousarray(piece, dtype="<i8").data)
        return self.root / f"{digest.hexdigest()}.npz"


def _read(path: Path, spec: CoefficientSpec, shape: tuple[int, int]) -> FloatArray:
    values = read_array(path, spec.key, shape)
    if values.dtype != np.float64:
        raise DamagedEntryError("wrong type")
    return values


def _share(progress: Progress, first: int, last: int, total: int) -> Progress:
    """Report the progress of the directed edges first..last-1 as that of all, undirected."""

    def report(done: int, of: int) -> None:
        progress((first + (last - first) * done // max(of, 1)) // 2, total // 2)

    return report


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
