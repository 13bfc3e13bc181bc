"""Computation of a data set's coefficients and encodings into the cache, without training."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from unionsnn.base.errors import DamagedEntryError
from unionsnn.coefficients import BASIC_QUANTITIES, CoefficientSpec, SimpleGraph
from unionsnn.coefficients.entries import read_intact
from unionsnn.coefficients.summary import column_summary
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.source import Progress
from unionsnn.training.build import build_data


def precompute(config: Config, progress: Progress | None = None) -> dict[str, Any]:
    """Compute the coefficients and encodings of a configuration, or find them in the cache.

    Args:
        config: A checked configuration. Without a gate, the coefficient is that of the model's
            layers or, if they read none, the default columns.
        progress: Called during long work.

    Returns:
        Counts, seconds, minimum, mean and maximum of each column, the cache entry, and the same for
        each encoding that the model reads, as plain types.

    Raises:
        DataError: The data set could not be obtained or is not what it should be.
    """
    data = build_data(config, progress)
    spec = data.spec or data.layer_spec or default_spec(config)
    edges, nodes = data.arrays.edges(), data.arrays.num_nodes
    path = data.coefficient_cache.path(edges, nodes, spec)
    there = _is_intact(path)
    begin = time.perf_counter()
    values = data.coefficients(spec)
    seconds = time.perf_counter() - begin
    encodings = [_encoding(data, name, size) for name, size in data.encodings.wanted().items()]
    return {
        "data": data.name,
        "dataset": data.dataset_id,
        "graphs": data.num_graphs,
        "nodes": nodes,
        "edges": int(edges.shape[1]),
        "spec": spec.to_dict(),
        "columns": column_summary(spec.columns, values),
        "computed": not there,
        "seconds": seconds,
        "entry": str(path),
        "encodings": encodings,
    }


def _encoding(data: GraphDataModule, name: str, size: int) -> dict[str, Any]:
    """Compute an encoding or find it in the cache."""
    arrays = data.arrays
    path = data.encoding_cache.path(name, size, arrays.edges(), arrays.node_slices)
    there = _is_intact(path)
    begin = time.perf_counter()
    rows = len(data.encoding(name, size))
    seconds = time.perf_counter() - begin
    return {
        "encoding": name,
        "size": size,
        "rows": rows,
        "computed": not there,
        "seconds": seconds,
        "entry": str(path),
    }


def simple_graph(config: Config, progress: Progress | None = None) -> SimpleGraph:
    """Return the graphs of a data set as one graph.

    Raises:
        DataError: The data set could not be obtained or is not what it should be.
    """
    arrays = build_data(config, progress).arrays
    return SimpleGraph.from_edge_index(arrays.edges(), arrays.num_nodes)


def default_spec(config: Config) -> CoefficientSpec:
    """Return the spec of the basic columns that the configured choices provide."""
    spec = config.coefficient.spec()
    quantities = tuple(q for q in BASIC_QUANTITIES if spec.has_tree_value or q != "a_tree")
    return replace(spec, quantities=quantities)


def _is_intact(path: Path) -> bool:
    try:
        read_intact(path)
    except (OSError, DamagedEntryError):
        return False
    return True
