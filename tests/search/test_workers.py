"""Several workers, one of them killed: every cell is finished once, and the best is the same."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from killed_workers import GRID, Book, check_whole, child, kill_one_of, results
from unionsnn.base.errors import WorkersDiedError
from unionsnn.runs import validation
from unionsnn.search.driver import run_study
from unionsnn.search.queue import Trial, open_study
from unionsnn.search.study import Study
from unionsnn.search.workers import work, work_in_processes

Make = Callable[..., Study]


def test_two_workers_on_sqlite_one_killed(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make(**GRID)
    book = Book(tmp_path, monkeypatch)
    child(open_study, study).join()
    kill_one_of(2, study, book, lambda: None)
    done = book.lines(book.ended)
    check_whole(study, book, make(**GRID, options={"name": "alone"}))
    assert len(done) == 36


def test_a_trial_whose_worker_dies_too_often_is_given_up_with_the_reason(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any, **__: Any) -> Any:
        os._exit(9)

    study = make(retries=1, space={"optimizer.lr": "choice(0.1)"})
    monkeypatch.setattr(validation, "train_repetition", die)
    child(open_study, study).join()
    for _ in range(2):
        worker = child(work, study, None, 0.1)
        worker.join(60)
        assert worker.exitcode == 9
    worker = child(work, study, None, 0.1)
    worker.join(60)
    assert worker.exitcode == 0
    (cell,) = results(study)
    assert (cell.state, cell.reason) == ("lost", "the worker died")


def test_processes_of_one_command_end_with_the_sequential_result(make: Make) -> None:
    """Real trainings, in spawned processes, and the final run."""
    space = {"optimizer.lr": "choice(0.1, 0.01)"}
    seen: list[int] = []
    record = run_study(
        make(space=space),
        lambda cells: seen.append(sum(cell.state == "finished" for cell in cells)),
        workers=2,
    )
    alone = run_study(make(space=space, options={"name": "alone"}))
    assert seen[-1] == 2
    for key in ("values", "repetitions", "parameters", "state"):
        assert [getattr(t, key) for t in record.trials] == [getattr(t, key) for t in alone.trials]
    assert record.best.index == alone.best.index
    assert record.final.result == alone.final.result


def test_workers_that_all_die_are_told(make: Make) -> None:
    study = make(space={"optimizer.lr": "choice(0.1, 0.01)"})
    open_study(study)

    def kill(cells: list[Trial]) -> None:
        for each in multiprocessing.active_children():
            each.kill()

    with pytest.raises(WorkersDiedError, match="killed by SIGKILL"):
        work_in_processes(study, 1, kill)
