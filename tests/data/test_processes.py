"""Several processes at once on an empty data root, and processes killed at any moment."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tu_files import write_tu
from unionsnn.coefficients import CoefficientSpec
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.inventory import on_disk
from unionsnn.data.sources import download as sources
from unionsnn.data.sources.tu import TU

FORK = multiprocessing.get_context("fork")
SPEC = CoefficientSpec(quantities=("a", "a_tree", "nodes", "edges"))
NAME = "KILLED"
Result = tuple[str, bytes]


def module(root: Path, mirror: Path) -> GraphDataModule:
    return GraphDataModule(
        TU(tu_name=NAME),
        name="killed",
        root=root,
        mirror=str(mirror),
        offline=True,
        spec=SPEC,
        # A forked child must not start numba's threads a second time.
        threads=1,
    )


def load(root: Path, mirror: Path) -> Result:
    """Fetch, process and compute, as far as it is not done; return what was loaded."""
    data = module(root, mirror)
    rows: torch.Tensor = data.graphs._data.edge_coefficient
    return data.dataset_id, rows.numpy().tobytes()


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    write_tu(folder, NAME, 400)
    return folder


@pytest.fixture(scope="module")
def right(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """What a process that nobody disturbs loads; compiles what the children then inherit."""
    return load(tmp_path_factory.mktemp("right"), mirror)


def _at_once(root: Path, mirror: Path, start: Any, results: Any) -> None:
    log: list[str] = []

    def counted(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            log.append(kind)
            return function(*arguments, **options)

        return call

    # Only this child's own copy of the classes is changed.
    sources._copy = counted("fetch", sources._copy)
    TU.read = counted("process", TU.read)  # type: ignore[method-assign]
    CoefficientSpec.compute = counted("compute", CoefficientSpec.compute)  # type: ignore[method-assign]
    start.wait()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.put((load(root, mirror), log))
    except BaseException as error:
        results.put((repr(error), log))


def test_eight_processes_at_once_fetch_process_and_compute_once(
    tmp_path: Path, mirror: Path, right: Result
) -> None:
    start, results = FORK.Barrier(8), FORK.SimpleQueue()
    processes = [
        FORK.Process(target=_at_once, args=(tmp_path, mirror, start, results)) for _ in range(8)
    ]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert [result for result, _ in found] == [right] * 8
    work = [step for _, log in found for step in log]
    # The mirror is asked for its list of hashes as well.
    assert sorted(set(work)) == ["compute", "fetch", "process"]
    assert (work.count("fetch"), work.count("process"), work.count("compute")) == (2, 1, 1)


def _load_and_report(root: Path, mirror: Path, begun: Any) -> None:
    begun.set()
    load(root, mirror)


def seconds_of_a_load(root: Path, mirror: Path) -> float:
    begun = FORK.Event()
    process = FORK.Process(target=_load_and_report, args=(root, mirror, begun))
    process.start()
    begun.wait()
    started = time.perf_counter()
    process.join()
    assert process.exitcode == 0
    return time.perf_counter() - started


def test_a_normal_start_after_a_kill_at_any_moment_is_always_right(
    tmp_path: Path, mirror: Path, right: Result
) -> None:
    whole = min(seconds_of_a_load(tmp_path / f"timed{i}", mirror) for i in range(2))
    moments = random.Random(0)
    reached = set()
    for number in range(20):
        root = tmp_path / str(number)
        begun = FORK.Event()
        process = FORK.Process(target=_load_and_report, args=(root, mirror, begun))
        process.start()
        begun.wait()
        # One kill in each twentieth of the time that a load takes.
        time.sleep(whole * (number + moments.random()) / 20)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        reached.add(tuple(sorted(p.name for p in root.glob("*"))))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load(root, mirror) == right
        assert leftovers(root) == []
    # The kills came at different stages, not all before or after the work.
    assert len(reached) > 1


def leftovers(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.suffix in (".part", ".tmp")]


STAGES = {
    "fetch": "unionsnn.data.sources.download.os.replace",
    "note of the fetch": "unionsnn.data.sources.download._accept",
    "process": "unionsnn.data.datamodules.GraphArrays.save",
    "compute": "unionsnn.coefficients.cache.write_entry",
}


def _stop_in(stage: str, root: Path, mirror: Path, reached: Any) -> None:
    module_name, _, name = STAGES[stage].rpartition(".")

    def stop(*arguments: Any, **options: Any) -> None:
        reached.set()
        time.sleep(60)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module_name}.{name}", stop)
        load(root, mirror)


@pytest.mark.parametrize("stage", STAGES)
def test_a_kill_in_each_stage_harms_nothing(
    tmp_path: Path, mirror: Path, right: Result, stage: str
) -> None:
    reached = FORK.Event()
    process = FORK.Process(target=_stop_in, args=(stage, tmp_path, mirror, reached))
    process.start()
    assert reached.wait(60)
    process.kill()
    process.join()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path, mirror) == right
    assert leftovers(tmp_path) == []


# -- the keys of the coefficient cache -----------------------------------------------------


def test_the_cache_is_hit_by_the_same_choices_in_another_order_and_missed_by_others(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(self: CoefficientSpec, edges: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
        """Stand for the computation: only the keys matter here."""
        calls.append(self)
        return np.full((edges.shape[1], len(self.columns)), float(len(calls)))

    monkeypatch.setattr(CoefficientSpec, "compute", counted)

    def rows(choices: dict[str, Any]) -> np.ndarray:
        return module(tmp_path, mirror).coefficients(CoefficientSpec.from_dict(choices))

    choices = SPEC.to_dict()
    first = rows(choices)
    assert len(calls) == 1
    again = rows(dict(reversed(choices.items())))
    assert len(calls) == 1
    assert np.array_equal(first, again)
    rows(choices | {"quantities": list(reversed(choices["quantities"]))})
    assert len(calls) == 1
    for other in (
        {"quantities": ["a"]},
        {"substructure": "overlap"},
        {"descriptor": "laplacian"},
        {"encoding": "entry_sum"},
    ):
        before = len(calls)
        changed = choices | {"quantities": ["a", "nodes", "edges"]} | other
        rows(changed)
        assert len(calls) == before + 1
        rows(changed)
        assert len(calls) == before + 1
    entry = type("Entry", (), {"name": "killed", "files": ()})()
    assert len(on_disk(entry, tmp_path).coefficients) == 5
