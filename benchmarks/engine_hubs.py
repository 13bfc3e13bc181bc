"""Graphs with large hubs: every edge of Amazon Computers and Photo, and 40 direct solves.

    python benchmarks/engine_hubs.py MIRROR [Computers] [Photo] [--threads 2]

Each graph runs in a process of its own, so that its peak memory is its own. The direct solves are
numpy's `eigvalsh` of the whole path matrix of 5 edges in each of 8 strata: edges between two hubs
(degree 128 or more) and other edges, each in 4 classes of size of the union subgraph.
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HUB_DEGREE = 128
SMALLEST = 64
EDGES_PER_STRATUM = 5


def union_sizes(graph):
    """Nodes of each union subgraph."""
    import scipy.sparse

    degrees = np.diff(graph.indptr)
    ones = np.ones(len(graph.indices), np.int64)
    adjacency = scipy.sparse.csr_array((ones, graph.indices, graph.indptr))
    common = np.empty(graph.num_undirected_edges, np.int64)
    for begin in range(0, len(common), 20_000):
        v, u = graph.edges[:, begin : begin + 20_000]
        common[begin : begin + 20_000] = adjacency[v].multiply(adjacency[u]).sum(axis=1)
    return degrees[graph.edges].sum(axis=0) - common


def direct(graph, v, u):
    """Sum of the singular values of the path matrix, entry by entry from the definition."""
    rows = [graph.indices[graph.indptr[x] : graph.indptr[x + 1]] for x in (v, u)]
    nodes = np.union1d(*rows)
    adjacent = np.zeros((len(nodes), len(nodes)), np.float32)
    for k, x in enumerate(nodes):
        adjacent[k] = np.isin(nodes, graph.indices[graph.indptr[x] : graph.indptr[x + 1]])
    path = np.where(adjacent > 0, 1.0, np.where(adjacent @ adjacent > 0, 2.0, 3.0))
    np.fill_diagonal(path, 0.0)
    return float(np.abs(np.linalg.eigvalsh(path)).sum())


def strata(graph):
    """Yield a name, the number of edges, and the edges of the sample, of each stratum."""
    rng = np.random.default_rng(0)
    sizes = union_sizes(graph)
    between_hubs = (np.diff(graph.indptr)[graph.edges] >= HUB_DEGREE).all(axis=0)
    for name, chosen in (("hub to hub", between_hubs), ("other", ~between_hubs)):
        # The classes of size follow the stratum, so that none is empty.
        low = max(SMALLEST, int(sizes[chosen].min()))
        high = int(sizes[chosen].max()) + 1
        cuts = np.geomspace(low, high, 5).astype(int)
        for begin, end in itertools.pairwise(cuts.tolist()):
            edges = np.flatnonzero(chosen & (sizes >= begin) & (sizes < end))
            sample = rng.choice(edges, min(EDGES_PER_STRATUM, len(edges)), replace=False)
            yield f"{name}, {begin} to {end - 1} nodes", len(edges), sample


def run(mirror, name, threads):
    """Compute all edges of a graph, then compare."""
    from engine_data import load
    from unionsnn.coefficients import SimpleGraph
    from unionsnn.coefficients.engine import Computation
    from unionsnn.coefficients.passes import RadiusOne

    data = load(mirror, name)
    graph = SimpleGraph.from_edge_index(data.edge_index, data.num_nodes)
    begin, cpu, shown = time.perf_counter(), time.process_time(), [0.0]

    def progress(done, total):
        spent = time.perf_counter() - begin
        if done and spent - shown[0] > 20.0:
            shown[0] = spent
            left = spent * (total - done) / done
            print(f"  {done / total:.1%} after {spent:.0f} s, {left:.0f} s left", file=sys.stderr)

    computation = Computation(RadiusOne(graph, ("a",)))
    values = computation.run(threads, None, progress, None)[:, 0]
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{name}: {graph.num_undirected_edges:,} edges, largest degree "
        f"{np.diff(graph.indptr).max():,}, {threads} threads: {wall:.0f} s wall, {cpu:.0f} s CPU "
        f"({1e-9 * computation.expected_cost:.0f} s planned), "
        f"peak {peak:.0f} MB (load {os.getloadavg()[0]:.1f})"
    )
    compare(graph, values)


def compare(graph, values):
    """Print the largest relative error of each stratum beside the time of a direct solve."""
    print("| stratum | edges | solved | largest relative error | direct solve, s each |")
    print("|---|---|---|---|---|")
    for stratum, count, sample in strata(graph):
        begin = time.process_time()
        right = np.array([direct(graph, *graph.edges[:, i]) for i in sample])
        spent = time.process_time() - begin
        error = np.abs(values[sample] / right - 1.0).max()
        print(
            f"| {stratum} | {count:,} | {len(sample)} | {error:.1e} | {spent / len(sample):.2f} |",
            flush=True,
        )


def main():
    """Run each graph in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mirror", type=Path, help="folder laid out as the upstream downloads are")
    parser.add_argument("names", nargs="*", default=["Computers", "Photo"], metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    if len(given.names) == 1:
        run(given.mirror, given.names[0], given.threads)
        return
    from engine import machine

    print(machine(), flush=True)
    for name in given.names:
        command = [sys.executable, __file__, str(given.mirror), name]
        subprocess.run([*command, "--threads", str(given.threads)], check=True)


if __name__ == "__main__":
    main()
