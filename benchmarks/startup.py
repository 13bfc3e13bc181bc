"""Start-up: commands that train nothing, imports, and the first coefficients of an installation.

    python benchmarks/startup.py MIRROR

Each row is a process of its own: its CPU seconds and those of the clock, the least of three, with
what it has imported. The first coefficients are timed with an empty cache of machine code, once.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = (
    "--help",
    "models",
    "config",
    "datasets",
    "report runs",
    "train data=mutag trainer.max_epochs=1 protocol=holdout",
    # The first two were finished before, so nothing is left to time.
    "train data=mutag trainer.max_epochs=1 protocol=holdout --dry-run",
    "train data=mutag trainer.max_epochs=1 protocol=holdout seed=1 --dry-run",
    "compare model=gin model=union_gin --dry-run -- data=mutag",
    "reproduce table3 --datasets MUTAG --models GIN --dry-run",
)
IMPORTS = (
    "import unionsnn",
    "from unionsnn import structural_coefficients",
    "from unionsnn.nn import UnionPlugin",
    "from unionsnn.data import TUDataModule",
)
HEAVY = (
    "numba torch torch_geometric pytorch_lightning torchmetrics torch._dynamo scipy.signal pandas"
)
GRAPHS = {
    "radius 1": ("1", "few"),
    "radii 1 to 3": ("1, 2, 3", "few"),
    "radius 1, subgraphs of more than 64 nodes": ("1", "many"),
    "radii 1 to 3, subgraphs of more than 64 nodes": ("1, 2, 3", "many"),
    "radius 1, a hub": ("1", "hub"),
}
FIRST_CALL = """
import time
import numpy as np
from unionsnn import structural_coefficients
rng, radius, kind = np.random.default_rng(0), [{radius}], "{kind}"
nodes, edges = {{"few": (60, 70), "many": (80, 2400), "hub": (401, 3000)}}[kind]
ends = rng.integers(kind == "hub", nodes, (2, edges))
if kind == "hub":
    spokes = np.stack([np.zeros(nodes - 1, int), np.arange(1, nodes)])
    ends = np.concatenate([spokes, ends], axis=1)
began, clock = time.process_time(), time.perf_counter()
structural_coefficients(ends, nodes, radius=radius, symmetrize=True, threads=1)
print(time.process_time() - began, time.perf_counter() - clock)
"""


def cpu_seconds(command, repeat, **options):
    """Return the least CPU seconds of a command, the least of the clock, and what it printed."""
    times, walls = [], []
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(command, check=True, text=True, capture_output=True, **options)
        walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times), min(walls), done.stdout


def main():
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mirror", type=Path, help="folder laid out as the upstream downloads are")
    mirror = parser.parse_args().mirror.resolve()
    command = [sys.executable, str(Path(sys.executable).with_name("unionsnn"))]
    print("| command or import | CPU s | clock s | imports |\n|---|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        options = {"cwd": folder, "env": {**os.environ, "UNIONSNN_MIRROR": str(mirror)}}
        options["env"]["UNIONSNN_DATA"] = folder
        # Compiles, trains and fills the caches.
        subprocess.run([*command, *COMMANDS[5].split()], check=True, capture_output=True, **options)
        for words in COMMANDS:
            seconds, wall, _ = cpu_seconds([*command, *words.split()], 3, **options)
            print(f"| `unionsnn {words}` | {seconds:.1f} | {wall:.1f} | |", flush=True)
        for line in IMPORTS:
            code = f"{line}\nimport sys\nprint(*(m for m in {HEAVY.split()} if m in sys.modules))"
            seconds, wall, names = cpu_seconds([sys.executable, "-c", code], 3, **options)
            print(f"| `{line}` | {seconds:.1f} | {wall:.1f} | {names.strip()} |", flush=True)
    print("\n| first call with an empty cache | CPU s | clock s |\n|---|---:|---:|")
    for name, (radius, kind) in GRAPHS.items():
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            code = FIRST_CALL.format(radius=radius, kind=kind)
            _, _, printed = cpu_seconds([sys.executable, "-c", code], 1, env=environment)
        seconds, clock = (float(word) for word in printed.split())
        print(f"| {name} | {seconds:.1f} | {clock:.1f} |", flush=True)


if __name__ == "__main__":
    main()
