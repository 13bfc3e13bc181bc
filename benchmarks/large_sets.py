"""Memory and time of sets of the size of ogbg-molpcba and of ogbn-arxiv, on synthetic graphs.

    python benchmarks/large_sets.py molecules FOLDER
    python benchmarks/large_sets.py citations

The first writes 437,929 graphs of 26 nodes and 28 bonds on average, with 128 labels of which nine
of ten are missing, in OGB's published format, and loads them as a run does, twice: from the
archive, then from the cache. The second makes one graph of 169,343 nodes and 1.16 million edges,
whose degrees have a heavy tail like those of ogbn-arxiv (largest 13,161), and computes the
coefficient of all its edges at radius 1. Each step is a process of its own, whose largest resident
memory is told.
"""

from __future__ import annotations

import gzip
import io
import resource
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np

MOLECULES, LABELS = 437_929, 128
NODES, CITATIONS, HUB = 169_343, 1_166_243, 13_161
LIMITS = (119, 5, 12, 12, 10, 6, 6, 2, 2)


def write_molecules(folder: Path) -> None:
    """Write ogb/pcba.zip."""
    import pyarrow
    from pyarrow import csv

    generator = np.random.default_rng(0)
    sizes = np.clip(generator.normal(26, 6, MOLECULES).round().astype(np.int64), 2, None)
    first = np.cumsum(sizes) - sizes
    local = np.arange(sizes.sum()) - np.repeat(first, sizes)
    # A chain with branches, and rings of six.
    branch = (generator.random(len(local)) < 0.3) & (local >= 2)
    tree = np.stack([local - 1 - branch, local], axis=1)
    kept = local > 0
    ring = (generator.random(len(local)) < 0.11) & (local >= 5)
    rows = np.concatenate([np.flatnonzero(kept), np.flatnonzero(ring)])
    order = np.argsort(rows, kind="stable")
    pairs = np.concatenate([tree[kept], np.stack([local - 5, local], axis=1)[ring]])[order]
    counts = np.add.reduceat(kept.astype(np.int64) + ring, first)
    labels = (generator.random((MOLECULES, LABELS), dtype=np.float32) < 0.02).astype(np.float32)
    labels[generator.random(labels.shape, dtype=np.float32) < 0.9] = np.nan
    part = generator.permutation(MOLECULES)
    cuts = np.split(part, [int(0.8 * MOLECULES), int(0.9 * MOLECULES)])
    tables = {
        "raw/num-node-list": sizes[:, None],
        "raw/num-edge-list": counts[:, None],
        "raw/edge": pairs,
        "raw/edge-feat": generator.integers(0, (5, 6, 2), (len(pairs), 3)),
        "raw/node-feat": generator.integers(0, LIMITS, (len(local), 9)),
        "raw/graph-label": labels,
        **{f"split/scaffold/{n}": np.sort(c)[:, None] for n, c in zip(
            ("train", "valid", "test"), cuts, strict=True)},
    }  # fmt: skip
    (folder / "ogb").mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "ogb" / "pcba.zip", "w") as archive:
        for name, table in tables.items():
            columns = [pyarrow.array(column, from_pandas=True) for column in table.T]
            text = io.BytesIO()
            options = csv.WriteOptions(include_header=False)
            named = pyarrow.table(columns, [str(i) for i in range(len(columns))])
            csv.write_csv(named, text, options)
            packed = gzip.compress(text.getvalue(), 1)
            archive.writestr(f"pcba/{name}.csv.gz", packed)
    print(f"{MOLECULES:,} graphs, {len(local):,} nodes, {len(pairs):,} bonds")


def load_molecules(folder: Path, *overrides: str) -> None:
    """Load the set as a run does, and draw 100 batches."""
    from unionsnn.config.compose import compose_config
    from unionsnn.data.catalog import CatalogEntry
    from unionsnn.training.build import build_data

    CatalogEntry.check = lambda self, arrays: None  # type: ignore[method-assign]
    config = compose_config(
        ["data=ogb", "data.name=ogbg-molpcba", f"data.mirror={folder}", "data.offline=true",
         "data.batch_size=128", "model=union_gin", f"paths.data={folder / 'root'}", *overrides]
    )  # fmt: skip
    data = build_data(config)
    started = time.perf_counter()
    data.split = data.default_split(np.random.default_rng(0))
    read = time.perf_counter() - started
    data.prepare_data()
    prepared = time.perf_counter() - started
    batches = iter(data.train_dataloader())
    started = time.perf_counter()
    for _ in range(100):
        next(batches)
    print(
        f"{' '.join(overrides)}: arrays {read:.0f} s, prepared {prepared:.0f} s, a batch "
        f"{10 * (time.perf_counter() - started):.1f} ms"
    )


def citations() -> None:
    """Compute the coefficient of all edges of a graph with hubs."""
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.data.edges import both_ways, simple_edges

    generator = np.random.default_rng(0)
    # Chung and Lu: an end is drawn in proportion to a node's weight, which falls as a power.
    weight = (np.arange(NODES) + 1.0) ** -0.66
    weight *= 2 * CITATIONS / weight.sum()
    weight = np.minimum(weight, HUB)
    ends = generator.choice(NODES, (2, int(1.09 * CITATIONS)), p=weight / weight.sum())
    union, _ = simple_edges(both_ways(ends[:, ends[0] != ends[1]]), NODES)
    degree = np.bincount(union[0], minlength=NODES)
    print(
        f"{NODES:,} nodes, {union.shape[1] // 2:,} edges, degree up to {degree.max():,}", flush=True
    )
    started = told = time.perf_counter()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.perf_counter() - told > 60:
            told = time.perf_counter()
            print(f"{told - started:.0f} s: {done / total:.1%} of the work", flush=True)

    spec = CoefficientSpec("union", "path", "singular_value_sum", (1,))
    spec.compute(union, NODES, threads=1, block_size=10_000, progress=progress)
    print(f"coefficients at radius 1: {time.perf_counter() - started:.0f} s with 1 thread")


def main() -> None:
    """Run the steps, each in a process of its own."""
    what, *rest = sys.argv[1:]
    if what == "molecules":
        gated = ["coefficient.radius=[1]"]
        for choice in ([], ["model=gin"], ["model=gin"], gated, gated):
            step = "load" if choice else "write"
            subprocess.run([sys.executable, __file__, step, *rest, *choice], check=True)
        return
    if what == "write":
        write_molecules(Path(rest[0]))
    elif what == "load":
        load_molecules(Path(rest[0]), *rest[1:])
    else:
        citations()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest resident memory {peak:.2f} GB")


if __name__ == "__main__":
    main()
