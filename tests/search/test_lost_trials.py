"""Failures of disk, memory, storage and workers are no result of a trial."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from small_studies import points
from unionsnn.base.errors import (
    DataUnavailableError,
    MemoryRanOutError,
    RepetitionFailedError,
    RequestError,
    RunFolderError,
    StudyStorageError,
)
from unionsnn.config import targets
from unionsnn.runs import validation
from unionsnn.search import queue, workers
from unionsnn.search.driver import run_study
from unionsnn.search.queue import WORKER_DIED, Trial, open_study, read_trials
from unionsnn.search.storage import plan_again, release_stale
from unionsnn.search.study import Study
from unionsnn.search.workers import work

Make = Callable[..., Study]
Calls = list[tuple[float, float, int]]

TWO = {"optimizer.lr": "choice(0.1, 0.01)"}

pytestmark = pytest.mark.filterwarnings("ignore:Heartbeat of storage")


def hidden_enospc() -> Exception:
    """torch's error for a full disk, as torch.save raises it."""
    try:
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            raise RuntimeError("unexpected pos 64 vs 0")  # noqa: B904
    except RuntimeError as error:
        return error


SURROUNDINGS: dict[str, Callable[[], Exception]] = {
    "full disk": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "input/output": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "folder": lambda: RunFolderError("x cannot be written (No space left on device)."),
    "torch.save, context": hidden_enospc,
    "torch.save, text": lambda: RuntimeError("[enforce fail at inline_container.cc:664] . pos"),
    "no file": lambda: DataUnavailableError("MUTAG.zip could not be obtained."),
}


def test_a_failure_of_the_surroundings_frees_the_trial_and_ends_the_command(
    make: Make, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, study = validation.train_repetition, make(space=TWO)
    # The same, however often the command is repeated.
    for kind, error in SURROUNDINGS.items():

        def full(*arguments: Any, error: Any = error, **options: Any) -> Any:
            if len(calls) == 4:
                raise error()
            return train(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(validation, "train_repetition", full)
            with pytest.raises((OSError, RuntimeError)) as caught:
                run_study(study)
        assert isinstance(caught.value, (RunFolderError, type(error()))), kind
        states = [trial.state for trial in read_trials(open_study(study))]
        assert states == ["finished", "waiting"], kind
    work(study)
    trials = read_trials(open_study(study))
    assert [trial.state for trial in trials] == ["finished"] * 2
    assert len(calls) == len(set(calls)) == 6


def test_a_storage_that_stops_is_one_error_and_nothing_is_lost(
    make: Make, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make(space=TWO)
    open_study(study)

    def full(*_: Any, **__: Any) -> None:
        raise optuna.exceptions.StorageInternalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(workers, "_ERRORS_IN_A_ROW", 1)
        patch.setattr(workers.time, "sleep", lambda _: None)
        patch.setattr(optuna.storages.RDBStorage, "set_trial_user_attr", full)
        with pytest.raises(StudyStorageError, match="disk is full"):
            run_study(study)
    states = {trial.state for trial in read_trials(open_study(study))}
    assert "failed" not in states


def killed(study: Study, times: int) -> list[Trial]:
    """Take the first trial as often as workers that are then killed."""
    stored = open_study(study)
    for _ in range(times):
        trial = stored.ask()
        assert trial.user_attrs["cell"] == 0
        trial.set_user_attr("worker", "elsewhere:1")
        held = stored.get_trials()[trial.number]
        stored.tell(trial, state=TrialState.FAIL)
        plan_again(stored, held, study.file.retries)
        # The requeued one stands behind the others.
        for other in stored.get_trials(states=(TrialState.WAITING,)):
            if other.user_attrs["cell"] != 0:
                stored._storage.set_trial_state_values(other._trial_id, TrialState.RUNNING)
                stored.tell(other.number, state=TrialState.FAIL)
                plan_again(stored, other)
    return read_trials(stored)


def test_a_trial_whose_workers_were_all_killed_is_lost_and_retried_on_demand(
    make: Make, calls: Calls
) -> None:
    study = make(space=TWO)
    assert killed(study, 2)[0].state == "waiting"
    study = make(space=TWO, options={"name": "three"})
    lost = killed(study, 3)[0]
    assert (lost.state, lost.reason) == ("lost", WORKER_DIED)
    record = run_study(study, trials_only=True)
    assert [t.state for t in record.trials] == ["lost", "finished"]
    record = run_study(study, trials_only=True)
    assert record.trials[0].state == "lost"
    record = run_study(study, trials_only=True, retry=True)
    assert [t.state for t in record.trials] == ["finished"] * 2
    assert len(calls) == len(set(calls)) == 6


def test_memory_is_no_verdict(make: Make, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise MemoryRanOutError("a batch of 3")

    study = make(space=TWO)
    with monkeypatch.context() as patch:
        patch.setattr(validation, "train_repetition", full)
        with pytest.raises(RepetitionFailedError, match="--retry"):
            run_study(study, trials_only=True)
    assert {trial.state for trial in read_trials(open_study(study))} == {"lost"}
    record = run_study(study, trials_only=True, retry=True)
    assert {t.state for t in record.trials} == {"finished"}


def test_trials_of_other_code_are_said(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    study = make(space=TWO)
    digests = {"own.Net": "1", "own.layers": "1"}
    for module in (queue, targets):
        monkeypatch.setattr(module, "code_digests", lambda config: digests)
    for _ in range(2):
        open_study(study)
    digests = {"own.Net": "1", "own.layers": "2"}
    with pytest.raises(RequestError, match=r"The file of own\.layers has changed") as caught:
        open_study(study)
    assert caught.value.codes == ["run.other_code"]
    accepted = replace(study, base=study.base.replace({"accept_code": True}))
    with pytest.warns(UserWarning, match=r"The file of own\.layers has changed since the trials"):
        open_study(accepted)


def test_interruptions_do_not_count_as_deaths(make: Make) -> None:
    stored = open_study(make(space=TWO))
    for _ in range(5):
        trial = stored.ask()
        held = stored.get_trials()[trial.number]
        stored.tell(trial, state=TrialState.FAIL)
        plan_again(stored, held)
    assert {trial.state for trial in read_trials(stored)} == {"waiting"}
    for trial in stored.get_trials(states=(TrialState.WAITING,)):
        assert trial.system_attrs.get("retry_history", []) == []


def test_a_journal_on_a_shared_file_system_is_a_storage(
    make: Make, calls: Calls, tmp_path: Path
) -> None:
    options = {"storage": f"journal://{tmp_path / 'shared' / 'study.log'}"}
    study = make(space=TWO, options=options)
    stored = open_study(study)
    # A worker elsewhere that died.
    trial = stored.ask()
    trial.set_user_attr("worker", "elsewhere:1")
    stored._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]
    release_stale(stored, 1)
    assert [t.state for t in read_trials(stored)] == ["running", "waiting"]
    stored._storage.set_trial_system_attr(trial._trial_id, "heartbeat", 0.0)
    release_stale(stored, 1)
    assert [t.state for t in read_trials(stored)] == ["waiting", "waiting"]
    record = run_study(study, trials_only=True)
    assert [t.state for t in record.trials] == ["finished"] * 2
    assert not (study.folder / "study.db").exists()
    assert points(read_trials(open_study(study))) == points(
        read_trials(open_study(make(space=TWO, options=options)))
    )
    assert len(calls) == len(set(calls)) == 6
