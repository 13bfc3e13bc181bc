"""What a training step costs: launches and waits on a GPU, counted without one, and CPU time.

Usage: python benchmarks/step_cost.py [--source FOLDER] [--data NAME ...] [PART ...]

PART is any of the below; by default all. With --source, another checkout is measured beside this
one: each in its own process, in turn, and the ratio is the median over the rounds. Seconds are
those of one thread's CPU, so other work on the machine matters little; coefficients are random,
since no time depends on them.

counts       launches and synchronisations of a training step of each model, by tests/pretended.py
time         a step from gathering its batch to the optimiser, over whole epochs
compile      a step of the compiled network as a ratio to the plain one
lightning    an epoch of ours as a ratio to a bare loop and to one of PyG alone, both by hand, by
             benchmarks/lightning_overhead.py
together     10 folds in one step as a ratio to one after another, where protocol.together exists
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
PARTS = ("counts", "time", "compile", "lightning", "together")
NETWORKS = {
    "GIN": ["model=gin"],
    "UnionGIN": ["model=union_gin"],
    "UnionSNN": ["model=unionsnn"],
    "UnionSNN, paper's gate": ["model=unionsnn", "gate=paper"],
    "GatedGCN": ["model=gatedgcn"],
    "UnionGCN": ["model=union_gcn"],
}
COMPILED = ("GIN", "UnionGIN", "UnionSNN")
GENERATED = ["data=4cycles_small", "data.num_train=24", "data.num_validation=8", "data.num_test=8"]
ROUNDS = 5


# -- one checkout, in its own process ------------------------------------------------------


def prepared(overrides: list[str]) -> tuple[Any, Any]:
    """Return a configuration and its data, with split and generator."""
    import torch

    from unionsnn.config.compose import compose_config
    from unionsnn.training.build import build_data
    from unionsnn.training.protocols import draw_splits

    torch.set_num_threads(1)
    config = compose_config([*overrides, "trainer.accelerator=cpu"])
    data = build_data(config)
    data.computes = False
    data.split = draw_splits(config.protocol, data, 0)[0]
    data.generator = torch.Generator().manual_seed(0)
    return config, data


def counts() -> dict[str, dict[str, int]]:
    """Count a training step of each model, as tests/cost does."""
    from pretended import step_cost
    from unionsnn.config.compose import config_folder

    names = sorted(path.stem for path in (Path(config_folder()) / "model").glob("*.yaml"))
    found = {}
    for name in names:
        small = ["data.batch_size=8", "model.hidden_channels=8"]
        found[name] = step_cost(*prepared([f"model={name}", *GENERATED, *small])).row()
    return found


class Steps:
    """Training steps of a network, whole epochs at a time."""

    def __init__(self, overrides: list[str], compiled: bool) -> None:
        import torch

        from unionsnn.training.build import build_task, fit_gates

        config, data = prepared(overrides)
        torch.manual_seed(0)
        self.task = build_task(config, data)
        fit_gates(self.task.model, data)
        if compiled:
            self.task.model.compile(dynamic=True)
        self.optimizer = self.task.train().configure_optimizers()
        self.loader = data.train_dataloader()

    def seconds(self) -> float:
        """Train an epoch; return the CPU seconds of a step."""
        import torch

        begin = time.thread_time()
        for batch in self.loader:
            self.optimizer.zero_grad()
            torch.autograd.backward(self.task.training_step(batch, 0))
            self.optimizer.step()
        return (time.thread_time() - begin) / len(self.loader)


KNOWN: dict[str, Steps] = {}


def seconds(overrides: list[str], compiled: bool = False) -> float:
    """Return the CPU seconds of a step, averaged over an epoch; the first epoch is left out."""
    key = f"{overrides} {compiled}"
    if key not in KNOWN:
        KNOWN[key] = Steps(overrides, compiled)
        KNOWN[key].seconds()
    return KNOWN[key].seconds()


def forget() -> None:
    """Free the networks that were measured."""
    KNOWN.clear()


def together(model: str, value: str) -> float | None:
    """Return the CPU seconds of two epochs of ten folds; None without the key."""
    from unionsnn import train
    from unionsnn.base.errors import RequestError

    with tempfile.TemporaryDirectory() as folder:
        words = [f"model={model}", "data=mutag", "protocol=cross_validation"]
        words += ["trainer.max_epochs=3", f"protocol.together={value}", "trainer.accelerator=cpu"]
        begin = time.process_time()
        try:
            train([*words, f"paths.output={folder}"], progress=False)
        except RequestError:
            return None
        return time.process_time() - begin


SERVED = {each.__name__: each for each in (counts, seconds, forget, together)}


def serve() -> None:
    """Answer requests, one a line."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        with redirect_stdout(io.StringIO()):
            answer = SERVED[name](*arguments)
        print("= " + json.dumps(answer), flush=True)


# -- all of them ---------------------------------------------------------------------------


class Checkout:
    """A checkout whose code runs in its own process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join(map(str, (folder / "src", HERE / "tests")))
        self.environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "--serve"],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def name(self) -> str:
        """The revision."""
        git = ["git", "-C", str(self.folder), "describe", "--always", "--dirty"]
        return subprocess.run(git, capture_output=True, text=True).stdout.strip() or "?"

    def ask(self, *request: Any) -> Any:
        """Run a function there; return what it returns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("= "):
                return json.loads(line[2:])
        raise SystemExit(f"{self.folder}: {request[0]} failed")

    def overhead(self, overrides: list[str]) -> list[str]:
        """Return the ratios of its epochs to those of its bare loop, and of PyG alone."""
        script = HERE / "benchmarks" / "lightning_overhead.py"
        done = subprocess.run(
            [sys.executable, str(script), "--epochs", "12", *overrides],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        row = done.stdout.strip().splitlines()[-1]
        return re.split(r"\s*\|\s*", row.strip("| "))[5:7]


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print a table of Markdown."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    for row in (head, rule, *rows):
        print(f"| {' | '.join(row)} |", flush=True)
    print(flush=True)


def show_counts(checkouts: list[Checkout]) -> None:
    """Print launches and synchronisations of each model."""
    found = [each.ask("counts") for each in checkouts]
    rows = [
        [name]
        + [
            " → ".join(str(each[name][key]) if name in each else "–" for each in found)
            for key in found[-1][name]
        ]
        for name in found[-1]
    ]
    table(["model", *next(iter(found[-1].values()))], rows)


def show_time(checkouts: list[Checkout], data: list[str], networks: list[str]) -> None:
    """Print the CPU time of a step, to that of the first network and of the other checkout."""
    rows = []
    for name in data:
        measured: dict[str, list[list[float]]] = {network: [] for network in networks}
        for _, network in itertools.product(range(ROUNDS), networks):
            words = [f"data={name}", *NETWORKS[network]]
            asked = [each.ask("seconds", words) for each in checkouts]
            measured[network].append(asked)
        for network, rounds in measured.items():
            times = [1e3 * statistics.median(column) for column in zip(*rounds, strict=True)]
            first = measured[networks[0]]
            gin = [now[-1] / one[-1] for now, one in zip(rounds, first, strict=True)]
            ratio = [now[-1] / now[0] for now in rounds]
            cells = [" → ".join(f"{t:.2f} ms" for t in times), f"{statistics.median(gin):.2f}"]
            rows.append([name, network, *cells])
            if len(checkouts) > 1:
                rows[-1].append(f"{statistics.median(ratio):.2f}")
        for each in checkouts:
            each.ask("forget")
    table(
        [
            "data",
            "network",
            "step",
            f"to {networks[0]}",
            *["after to before"] * (len(checkouts) - 1),
        ],
        rows,
    )


def show_compile(checkouts: list[Checkout]) -> None:
    """Print the ratio of compiled steps to plain ones."""
    rows = []
    for network in COMPILED:
        words = ["data=proteins", *NETWORKS[network]]
        found = []
        for each in checkouts:
            ratios = [
                each.ask("seconds", words, True) / each.ask("seconds", words) for _ in range(ROUNDS)
            ]
            found.append(f"{statistics.median(ratios):.2f}")
        rows.append([network, " → ".join(found)])
    table(["network", "compiled to plain"], rows)


def show_lightning(checkouts: list[Checkout], data: list[str]) -> None:
    """Print the ratios of our epochs to those of loops by hand, with quartiles."""
    rows = []
    for name, network in itertools.product(data, ("GIN", "UnionSNN")):
        found = [each.overhead([f"data={name}", *NETWORKS[network]]) for each in checkouts]
        rows.append([name, network, *(" → ".join(ratios) for ratios in zip(*found, strict=True))])
    table(["data", "network", "epoch to a bare loop's", "to PyG's with fused Adam"], rows)


def show_together(checkouts: list[Checkout]) -> None:
    """Print the ratio of ten folds in one step to one after another."""
    rows = []
    for model in ("gin", "unionsnn"):
        ratios = []
        checkouts[-1].ask("together", model, "false")
        for _ in range(3):
            one, apart = (checkouts[-1].ask("together", model, each) for each in ("true", "false"))
            if one is None:
                print("protocol.together does not exist here\n")
                return
            ratios.append(one / apart)
        rows.append([model, f"{statistics.median(ratios):.2f}"])
    table(["model, MUTAG, 3 epochs of 10 folds on a CPU", "together to apart"], rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", default=PARTS)
    parser.add_argument("--source", type=Path, help="another checkout, measured beside this one")
    parser.add_argument("--data", nargs="+", default=["proteins"], help="sets for the time")
    parser.add_argument(
        "--networks", nargs="+", default=[*NETWORKS], choices=NETWORKS, help="those for the time"
    )
    given = parser.parse_args()
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"{', '.join(unknown)}: allowed are {', '.join(PARTS)}")
    if given.source is not None and not (given.source / "src" / "unionsnn").is_dir():
        parser.error(f"{given.source} holds no src/unionsnn")
    folders = [HERE] if given.source is None else [given.source.resolve(), HERE]
    checkouts = [Checkout(folder) for folder in folders]
    print("Revisions: " + " → ".join(each.name for each in checkouts) + "\n", flush=True)
    show = {
        "counts": lambda: show_counts(checkouts),
        "time": lambda: show_time(checkouts, given.data, given.networks),
        "compile": lambda: show_compile(checkouts),
        "lightning": lambda: show_lightning(checkouts, given.data),
        "together": lambda: show_together(checkouts),
    }
    for part in given.parts:
        show[part]()


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        main()
