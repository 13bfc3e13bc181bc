"""Memory and time of sets of the size of ogbg-molpcba, PCQM4Mv2 and ogbn-arxiv, synthetic graphs.

    python benchmarks/large_sets.py molecules FOLDER
    python benchmarks/large_sets.py trained FOLDER [GRAPHS]
    python benchmarks/large_sets.py citations [SECONDS]

The first writes 437,929 graphs of 26 nodes and 28 bonds on average, with 128 labels of which nine
of ten are missing, in OGB's published format, and loads them as a run does, twice: from the
archive, then from the cache.

The second makes GRAPHS (4,000,000) molecules of 14 nodes and 29 directed edges on average with a
target each, keeps them, computes the coefficient at radius 1, trains GIN and UnionSNN for 200 steps
of 256 graphs, each twice, and removes the files. It tells the memory beyond that of the imports:
resident, with the pages of mapped files that were touched, which the system takes back when it
needs them; and anonymous, which it cannot.

The third makes one graph of 169,343 nodes and 1.16 million edges, whose degrees have a heavy tail
like those of ogbn-arxiv (largest 13,161), and computes the coefficients of its edges at radius 1 on
2 threads; after some seconds it stops and says how much of the planned work is done. Each step is a
process of its own; the first and the third tell its largest resident memory.
"""

from __future__ import annotations

import gzip
import io
import resource
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOLECULES, LABELS = 437_929, 128
NODES, CITATIONS, HUB = 169_343, 1_166_243, 13_161
LIMITS = (119, 5, 12, 12, 10, 6, 6, 2, 2)


def bonds(
    sizes: NDArray[np.int64], rings: float, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return bonds of molecules, with nodes numbered in each, and their number in each."""
    first = np.cumsum(sizes) - sizes
    local = np.arange(sizes.sum()) - np.repeat(first, sizes)
    # A chain with branches, and rings of six.
    branch = (generator.random(len(local)) < 0.3) & (local >= 2)
    tree = np.stack([local - 1 - branch, local], axis=1)
    kept = local > 0
    ring = (generator.random(len(local)) < rings) & (local >= 5)
    rows = np.concatenate([np.flatnonzero(kept), np.flatnonzero(ring)])
    order = np.argsort(rows, kind="stable")
    pairs = np.concatenate([tree[kept], np.stack([local - 5, local], axis=1)[ring]])[order]
    return pairs, np.add.reduceat(kept.astype(np.int64) + ring, first)


def write_molecules(folder: Path) -> None:
    """Write ogb/pcba.zip."""
    import pyarrow
    from pyarrow import csv

    generator = np.random.default_rng(0)
    sizes = np.clip(generator.normal(26, 6, MOLECULES).round().astype(np.int64), 2, None)
    pairs, counts = bonds(sizes, 0.11, generator)
    labels = (generator.random((MOLECULES, LABELS), dtype=np.float32) < 0.02).astype(np.float32)
    labels[generator.random(labels.shape, dtype=np.float32) < 0.9] = np.nan
    part = generator.permutation(MOLECULES)
    cuts = np.split(part, [int(0.8 * MOLECULES), int(0.9 * MOLECULES)])
    tables = {
        "raw/num-node-list": sizes[:, None],
        "raw/num-edge-list": counts[:, None],
        "raw/edge": pairs,
        "raw/edge-feat": generator.integers(0, (5, 6, 2), (len(pairs), 3)),
        "raw/node-feat": generator.integers(0, LIMITS, (sizes.sum(), 9)),
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
    print(f"{MOLECULES:,} graphs, {sizes.sum():,} nodes, {len(pairs):,} bonds")


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


class Memory:
    """Largest resident and anonymous memory of this process beyond that at the start, in GB."""

    def __init__(self) -> None:
        self.base = self._read()
        self.most = dict.fromkeys(self.base, 0.0)
        threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def _read() -> dict[str, float]:
        lines = Path("/proc/self/status").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        return {name: int(found[name].split()[0]) / 2**20 for name in ("VmRSS", "RssAnon")}

    def _watch(self) -> None:
        while True:
            now = self._read()
            self.most = {n: max(most, now[n] - self.base[n]) for n, most in self.most.items()}
            time.sleep(0.02)

    def tell(self, what: str) -> None:
        """Print the figures of a step, and begin anew."""
        print(
            f"{what}: {self.most['VmRSS']:.2f} GB resident, {self.most['RssAnon']:.2f} GB "
            f"anonymous beyond {self.base['VmRSS']:.2f} GB of imports",
            flush=True,
        )
        self.most = dict.fromkeys(self.base, 0.0)


def train_generated(folder: Path, num_graphs: int, network: str) -> None:
    """Read a set of generated molecules, made if it is not there, and train on it."""
    import pytorch_lightning as pl

    from unionsnn.base.npz import scratch
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.data.arrays import GraphArrays
    from unionsnn.data.datamodules import GraphDataModule
    from unionsnn.data.sources.source import RawFiles, Source
    from unionsnn.data.store import GraphStore
    from unionsnn.models import GIN, UnionSNN
    from unionsnn.training import GraphRegression

    class Generated(Source):
        """Molecules with the sizes of PCQM4Mv2, made in files and not in memory."""

        categories = (LIMITS[0],)

        def processed_key(self, raw: RawFiles) -> str:
            return f"{num_graphs} molecules"

        def read(self, raw: RawFiles) -> GraphArrays:
            generator = np.random.default_rng(0)
            sizes = np.clip(generator.normal(14, 2.5, num_graphs).round().astype(np.int64), 2, None)
            edges: Any = scratch((2, 3 * int(sizes.sum())), np.int64, raw.root)
            labels = scratch((int(sizes.sum()), 1), np.int64, raw.root)
            counts, filled = [], 0
            for some in np.array_split(sizes, max(num_graphs // 100_000, 1)):
                pairs, bonds_each = bonds(some, 0.16, generator)
                both = np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2).T
                edges[:, filled : filled + both.shape[1]] = both
                filled += both.shape[1]
                counts.append(2 * bonds_each)
            for begin in range(0, len(labels), 2**22):
                part = labels[begin : begin + 2**22]
                part[:] = generator.integers(0, LIMITS[0], part.shape)
            return GraphArrays(
                edge_index=edges[:, :filled],
                node_slices=np.cumsum([0, *sizes]),
                edge_slices=np.cumsum([0, *np.concatenate(counts)]),
                y=generator.random((num_graphs, 1), dtype=np.float32),
                node_labels=labels,
            )

    gated = network != "gin"
    data = GraphDataModule(
        Generated(task="graph_regression"), name="generated", root=folder / "root", seed=0,
        features="categorical", batch_size=256,
        spec=CoefficientSpec(radius=1, quantities=("a", "a_tree")) if gated else None,
    )  # fmt: skip
    data.metric = "mae"
    memory, started = Memory(), time.perf_counter()
    arrays = data.arrays
    memory.tell(f"arrays of {arrays.num_edges:,} edges, {time.perf_counter() - started:.0f} s")
    data.prepare_data()
    size = GraphStore(data.graphs).num_bytes / 2**30
    memory.tell(f"store of {size:.2f} GB, {time.perf_counter() - started:.0f} s")
    features = {"features": ["raw", "excess"], "radius": 1}
    model = UnionSNN.for_data(data, gate=features) if gated else GIN.for_data(data)
    trainer = pl.Trainer(
        max_steps=200, limit_val_batches=50, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    trainer.fit(GraphRegression(model), data)
    memory.tell(f"{network}, 200 steps of 256 graphs, {time.perf_counter() - started:.0f} s")


def citations(seconds: float = float("inf")) -> None:
    """Compute the coefficient of all edges of a graph with hubs, for some seconds at most."""
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.data.edges import both_ways, simple_edges

    generator = np.random.default_rng(0)
    # Chung and Lu: an end is drawn in proportion to a node's weight, which falls as a power.
    weight = (np.arange(NODES) + 1.0) ** -0.66
    weight *= 2 * CITATIONS / weight.sum()
    weight = np.minimum(weight, HUB)
    ends = generator.choice(NODES, (2, int(1.01 * CITATIONS)), p=weight / weight.sum())
    union, _ = simple_edges(both_ways(ends[:, ends[0] != ends[1]]), NODES)
    degree = np.bincount(union[0], minlength=NODES)
    print(
        f"{NODES:,} nodes, {union.shape[1] // 2:,} edges, degree up to {degree.max():,}", flush=True
    )
    spec = CoefficientSpec("union", "path", "singular_value_sum", (1,))
    started = time.perf_counter()
    planned = spec.estimated_seconds(union, NODES, threads=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"planned in {time.perf_counter() - started:.0f} s: {planned:,.0f} s on 2 threads")
    print(f"largest resident memory so far {before:.2f} GB", flush=True)
    started = told = time.perf_counter()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.perf_counter() - started > seconds:
            print(f"stopped after {seconds:.0f} s: {done / total:.2%} of the work", flush=True)
            raise KeyboardInterrupt
        if time.perf_counter() - told > 60:
            told = time.perf_counter()
            print(f"{told - started:.0f} s: {done / total:.1%} of the work", flush=True)

    with suppress(KeyboardInterrupt):
        spec.compute(union, NODES, threads=2, progress=progress, max_hours=None)
    print(f"coefficients at radius 1: {time.perf_counter() - started:.0f} s with 2 threads")


def main() -> None:
    """Run the steps, each in a process of its own."""
    what, *rest = sys.argv[1:]
    if what == "molecules":
        gated = ["coefficient.radius=[1]"]
        for choice in ([], ["model=gin"], ["model=gin"], gated, gated):
            step = "load" if choice else "write"
            subprocess.run([sys.executable, __file__, step, *rest, *choice], check=True)
        return
    if what == "trained":
        folder, num_graphs = rest[0], rest[1] if len(rest) > 1 else "4000000"
        try:
            for network in ("gin", "gin", "unionsnn", "unionsnn"):
                command = [sys.executable, __file__, "train", folder, num_graphs, network]
                subprocess.run(command, check=True)
        finally:
            shutil.rmtree(Path(folder) / "root", ignore_errors=True)
        return
    if what == "train":
        train_generated(Path(rest[0]), int(rest[1]), rest[2])
    elif what == "write":
        write_molecules(Path(rest[0]))
    elif what == "load":
        load_molecules(Path(rest[0]), *rest[1:])
    else:
        citations(*map(float, rest))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest resident memory {peak:.2f} GB")


if __name__ == "__main__":
    main()
