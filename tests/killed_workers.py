"""Workers of a study in forked processes, and what they must come to."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from small_studies import formula, made_record
from unionsnn.runs import validation
from unionsnn.runs.selection import best
from unionsnn.search.queue import Trial, open_study, read_trials
from unionsnn.search.study import Study
from unionsnn.search.workers import work
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training

GRID = {
    "space": {
        "optimizer.lr": "choice(0.1, 0.01, 0.001, 0.5)",
        "optimizer.weight_decay": "choice(0, 1, 2)",
    }
}


def child(function: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """Begin a process that has all that this one has imported."""
    started = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    started.start()
    return started


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


class Book:
    """What the workers of a test began and ended, a line each, whichever process they are."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, seconds: float = 0.05) -> None:
        self.begun, self.ended = folder / "begun", folder / "ended"

        def train(training: Training, data: Any, *_: Any, **__: Any) -> Repetition:
            config, index = training.config, training.index
            section = config.optimizer
            line = f"{section.lr} {section.weight_decay} {index}"
            self._write(self.begun, f"{line} {os.getpid()}")
            time.sleep(seconds)
            self._write(self.ended, line)
            return made_record(training, {"val_loss": formula(config, index)}, data)

        patch.setattr(validation, "train_repetition", train)

    def _write(self, path: Path, line: str) -> None:
        with path.open("a") as file:
            file.write(f"{line}\n")

    def lines(self, path: Path) -> list[str]:
        return path.read_text().splitlines() if path.exists() else []

    def began_by(self, pid: int | None) -> int:
        return sum(line.endswith(f" {pid}") for line in self.lines(self.begun))


def results(study: Study) -> list[Trial]:
    return read_trials(open_study(study))


def kill_one_of(count: int, study: Study, book: Book, meanwhile: Callable[[], None]) -> None:
    """Let workers begin, kill one in mid-trial, and wait for the others."""
    workers = [child(work, study, None, 0.1) for _ in range(count)]
    victim = workers[0]
    wait_for(lambda: book.began_by(victim.pid) >= 2)
    victim.kill()
    meanwhile()
    for each in workers:
        each.join(180)
    assert [each.exitcode for each in workers[1:]] == [0] * (count - 1)


def check_whole(study: Study, book: Book, sequential: Study) -> None:
    """All cells are there once and finished, nothing finished was trained again, best as alone."""
    cells = results(study)
    assert [cell.parameters for cell in cells] == study.plan
    assert {cell.state for cell in cells} == {"finished"}
    assert set(Counter(book.lines(book.ended)).values()) == {1}
    alone = child(lambda: (open_study(sequential), work(sequential)))
    alone.join()
    objectives = study.file.objectives
    others = results(sequential)
    expected = best([cell.values for cell in others], objectives)
    chosen = best([cell.values for cell in cells], objectives)
    assert chosen is not None
    assert chosen == expected
    assert cells[chosen].values == others[chosen].values
    assert cells[chosen].parameters == others[chosen].parameters
