"""Speed and memory of the coefficient engine, each data set beside its baseline.

    python benchmarks/engine.py MIRROR [NAME ...]

Each data set runs in processes of its own: one with an empty cache of machine code ("installed":
its first call after an install), then one with that cache ("process": first call of a later
process), which goes on to the warm times. One thread, unless it says two. Times are seconds; those
of one thread are CPU time, the best of the repetitions, so that other work on the machine does not
count.

- engine: `structural_coefficients` on the disjoint union, input validation included.
- timer: the engine's own neighbourhoods and all distances in them, and nothing else.
- plain: what one writes without the engine (`plain_coefficient`), for every directed edge; timed
  on a random sample of edges and multiplied up.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEFAULT = ("MUTAG", "NCI1", "ZINC-12k", "PROTEINS", "ENZYMES", "Tox21_AhR_training", "DD")
DEFAULT += ("Cora", "Citeseer", "PubMed", "ZINC-full")
SAMPLE_SECONDS = 6.0
MIN_SAMPLE, MAX_SAMPLE = 50, 3000


def plain_coefficient(graph, v, u):
    """Sum of the singular values of the path matrix, by networkx and numpy."""
    import networkx as nx
    import numpy as np

    subgraph = graph.subgraph({v, u, *graph[v], *graph[u]})
    lengths = dict(nx.all_pairs_shortest_path_length(subgraph))
    matrix = np.array([[lengths[i][j] for j in subgraph] for i in subgraph], dtype=float)
    return np.linalg.svd(matrix, compute_uv=False).sum()


def plain_seconds(data, values):
    """Estimate the CPU seconds of the plain implementation; also the size of the sample.

    The graphs of the sample are built beforehand, untimed. Compares the values on the way.
    """
    import networkx as nx
    import numpy as np

    rng = np.random.default_rng(0)
    sample = rng.permutation(data.edge_index.shape[1])[:MAX_SAMPLE]
    ends = data.edge_index[:, sample]
    graph_of = np.searchsorted(data.first_nodes, np.arange(data.num_nodes), side="right")
    wanted = np.zeros(len(data.first_nodes) + 1, bool)
    wanted[graph_of[ends[0]]] = True
    graph = nx.Graph()
    graph.add_edges_from(data.edge_index[:, wanted[graph_of[data.edge_index[0]]]].T.tolist())
    begin, done = time.process_time(), 0
    spent = 0.0
    for v, u in ends.T.tolist():
        value = plain_coefficient(graph, v, u)
        done += 1
        spent = time.process_time() - begin
        if not np.isclose(value, values[sample[done - 1]], rtol=1e-9, atol=0):
            raise AssertionError(
                f"edge {v} - {u}: plain {value}, engine {values[sample[done - 1]]}"
            )
        if spent > SAMPLE_SECONDS and done >= MIN_SAMPLE:
            break
    return spent / done * data.edge_index.shape[1], done


def neighborhood_timer():
    """Return a compiled function that builds neighbourhoods and distances of all edges."""
    import numba
    import numpy as np

    from unionsnn.coefficients.kernels.path_matrices import fill_path_quotient
    from unionsnn.coefficients.kernels.substructures import (
        WORD,
        induced_lists,
        induced_rows,
        union_nodes,
    )

    @numba.njit(nogil=True, error_model="numpy")
    def build(indptr, indices, edges):
        degree = 0
        for v in range(indptr.shape[0] - 1):
            degree = max(degree, indptr[v + 1] - indptr[v])
        local = np.full(indptr.shape[0] - 1, -1, np.int32)
        nodes = np.empty(2 * degree, np.int32)
        rows = np.empty((WORD, 1), np.int64)
        ones = np.ones(2 * degree, np.int64)
        kinds = np.zeros(2 * degree, np.int64)
        matrix = np.empty((2 * degree, 2 * degree))
        total = 0.0
        for i in range(edges.shape[1]):
            count = union_nodes(indptr, indices, edges[0, i], edges[1, i], nodes)
            for k in range(count):
                local[nodes[k]] = k
            if count <= WORD:
                induced_rows(indptr, indices, nodes, count, local, rows[:, 0])
                fill_path_quotient(rows, ones, kinds, count, matrix)
            else:
                starts, neighbors = induced_lists(indptr, indices, nodes, count, local)
                wide = np.zeros((count, (count + WORD - 1) // WORD), np.int64)
                for k in range(count):
                    for at in range(starts[k], starts[k + 1]):
                        j = neighbors[at]
                        wide[k, j // WORD] |= np.int64(1) << np.int64(j % WORD)
                fill_path_quotient(wide, ones, kinds, count, matrix)
            for k in range(count):
                local[nodes[k]] = -1
            total += matrix[count - 1, 0]
        return total

    return build


def best(function, clock, repeat, budget=10.0):
    """Least time of some calls, in seconds of the clock."""
    times = []
    while len(times) < repeat and (len(times) < 2 or sum(times) < budget):
        begin = clock()
        function()
        times.append(clock() - begin)
    return min(times)


def measure(mirror, name, cold):
    """Measure one data set in this process; plain types."""
    import numpy as np

    from engine_data import load
    from unionsnn.coefficients import SimpleGraph, structural_coefficients

    data = load(mirror, name)
    arguments = data.edge_index, data.num_nodes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin, cpu = time.perf_counter(), time.process_time()
    values = structural_coefficients(*arguments, threads=1)
    found = {
        "first_wall": time.perf_counter() - begin,
        "first": time.process_time() - cpu,
        "peak_before": before,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "edges": int(np.count_nonzero(data.edge_index[0] < data.edge_index[1])),
    }
    if cold:
        return found
    repeat = 20
    found["engine"] = best(
        lambda: structural_coefficients(*arguments, threads=1), time.process_time, repeat
    )
    found["wall"] = best(
        lambda: structural_coefficients(*arguments, threads=1), time.perf_counter, repeat
    )
    found["two"] = best(
        lambda: structural_coefficients(*arguments, threads=2), time.perf_counter, repeat
    )
    graph = SimpleGraph.from_edge_index(*arguments)
    build = neighborhood_timer()
    build(graph.indptr, graph.indices, graph.edges[:, :1])
    found["timer"] = best(
        lambda: build(graph.indptr, graph.indices, graph.edges), time.process_time, repeat
    )
    found["plain"], found["sample"] = plain_seconds(data, values)
    return found


def child(mirror, name, cold, cache):
    """Run `measure` in a new process with one BLAS thread and the given cache of machine code."""
    environment = dict(os.environ, NUMBA_CACHE_DIR=cache, OPENBLAS_NUM_THREADS="1")
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        environment.pop(variable, None)
    command = [sys.executable, __file__, str(mirror), name, "--child", "cold" if cold else "warm"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def machine():
    """One line on the CPU, the BLAS kernel and the versions."""
    import numba
    import numpy as np
    import scipy
    from threadpoolctl import threadpool_info

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next(
        (line.split(":")[1].strip() for line in lines if "model name" in line), "unknown CPU"
    )
    kernels = sorted({str(pool.get("architecture")) for pool in threadpool_info()})
    return (
        f"{time.strftime('%Y-%m-%d')}, {cpu}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}, BLAS kernel {', '.join(kernels)}, Python "
        f"{sys.version.split()[0]}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"numba {numba.__version__}"
    )


HEADER = (
    "| data | edges | first call installed / process | engine | timer | engine/timer | two threads "
    "(wall) | plain (sample) | plain/engine | peak MB (before) |"
)


def row(name, cold, warm):
    """One row of the table."""
    gain = warm["wall"] / warm["two"]
    return (
        f"| {name} | {warm['edges']:,} | {cold['first']:.1f} / {warm['first']:.2f} "
        f"| {warm['engine']:.4f} | {warm['timer']:.4f} | {warm['engine'] / warm['timer']:.2f} "
        f"| {warm['two']:.4f} ({gain:.2f} x) | {warm['plain']:.1f} ({warm['sample']}) "
        f"| {warm['plain'] / warm['engine']:.0f} | {warm['peak']:.0f} ({warm['peak_before']:.0f}) |"
    )


def main():
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mirror", type=Path, help="folder laid out as the upstream downloads are")
    parser.add_argument("names", nargs="*", default=DEFAULT, metavar="NAME")
    parser.add_argument("--child", choices=("cold", "warm"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.mirror, given.names[0], given.child == "cold")))
        return
    print(machine())
    print(HEADER)
    print("|" + "---|" * HEADER.count(" | ") + "---|")
    for name in given.names:
        with tempfile.TemporaryDirectory() as cache:
            cold = child(given.mirror, name, True, cache)
            warm = child(given.mirror, name, False, cache)
        print(row(name, cold, warm), flush=True)


if __name__ == "__main__":
    main()
