"""What a coefficient costs before any training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from unionsnn.data.datamodules import Progress
from unionsnn.data.datasets import disjoint_union
from unionsnn.structure import CoefficientSpec
from unionsnn.training.build import build_data

# A triangle with a tail: makes machine code, so that the timed call has it.
_WARM = ([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]], 4)


def timed_preprocessing(
    config: Mapping[str, Any], progress: Progress | None = None
) -> dict[str, Any]:
    """Time the coefficient of a data set: all edges, radius 1, one thread, no cache.

    Args:
        config: A checked configuration; its data and its choice of a coefficient count.
        progress: Called while data are read.

    Returns:
        ``seconds``, and ``missing``, which is empty, as in a record.

    Raises:
        DataError: The data set cannot be had or is not what it should be.
    """
    arrays = build_data(config, progress).arrays
    edges, section = disjoint_union(arrays), config["coefficient"]
    spec = CoefficientSpec(
        section["substructure"],
        section["descriptor"],
        section["encoding"],
        (1,),
        alpha=section["alpha"],
        exponent=section["exponent"],
    )
    spec.compute(*_WARM, threads=1)
    begin = time.perf_counter()
    spec.compute(edges, arrays.num_nodes, threads=1)
    return {"seconds": time.perf_counter() - begin, "missing": []}
