"""Storage of a study's trials: SQLite; for several machines PostgreSQL, or a journal file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from unionsnn.base.errors import RequestError, StudyStorageError
from unionsnn.base.secrets import masked
from unionsnn.search.samplers import quiet_optuna

SILENT_BEATS = 6
"""Number of missed heartbeats after which a worker counts as dead."""

_SQLITE = "sqlite:///"
_JOURNAL = "journal://"
_TRIES = 20

# Optuna's key for earlier tries, and that of a journal's heartbeats.
_HISTORY = "retry_history"
_BEAT = "heartbeat"

_URLS = (
    "The URL of a file is sqlite:///FILE, on a shared file system journal://FILE; that of a server "
    "postgresql+psycopg://USER@HOST/DATABASE."
)

_PACKAGES = {
    "psycopg": "'unionsnn[postgresql]'",
    "psycopg2": "'unionsnn[postgresql]' and begin the URL with postgresql+psycopg://",
    "MySQLdb": "mysqlclient",
}
"""What to install for an absent module whose package has another name."""


class JournaledStorage(JournalStorage, BaseHeartbeat):
    """A file that machines append to: Optuna's journal, with heartbeats in it.

    For shared file systems such as NFS, on whose locks SQLite cannot rely.

    Args:
        file: The file.
        heartbeat: Seconds between heartbeats of a running trial.
        retries: Number of retries of a dead worker's trial.
    """

    def __init__(self, file: Path, heartbeat: int, retries: int) -> None:
        with quiet_optuna():
            super().__init__(JournalFileBackend(str(file)))
        self.heartbeat = heartbeat
        self.retries = retries

    def record_heartbeat(self, trial_id: int) -> None:
        """Record a heartbeat; a failure does not stop later ones."""
        with contextlib.suppress(OSError, UpdateFinishedTrialError):
            self.set_trial_system_attr(trial_id, _BEAT, time.time())

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        oldest = time.time() - SILENT_BEATS * self.heartbeat
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        # Without a heartbeat, `release_stale` looks at the age.
        return [t._trial_id for t in running if t.system_attrs.get(_BEAT, oldest) < oldest]

    def get_heartbeat_interval(self) -> int:
        """Return the seconds between heartbeats."""
        return self.heartbeat

    def get_heartbeat_stale_trial_callback(self) -> Callable[[optuna.Study, FrozenTrial], None]:
        """Return what requeues a dead worker's trial."""
        return partial(plan_again, retries=self.retries)


class PatientStorage(RDBStorage):
    """A storage that survives a restart of its server.

    Args:
        url: SQLAlchemy's URL.
        heartbeat: Seconds between heartbeats of a running trial.
        retries: Number of retries of a dead worker's trial.
        patience: Seconds to wait for an unavailable server.
    """

    def __init__(self, url: str, heartbeat: int, retries: int, patience: float = 120.0) -> None:
        # A connection for each transaction: none is cut by a restart while it is idle, or shared by
        # processes.
        arguments: dict[str, Any] = {"poolclass": sqlalchemy.pool.NullPool}
        if url.startswith(_SQLITE):
            # Workers write in turn.
            arguments["connect_args"] = {"timeout": 60}
        with quiet_optuna():
            super().__init__(
                url,
                arguments,
                heartbeat_interval=heartbeat,
                grace_period=SILENT_BEATS * heartbeat,
                heartbeat_stale_trial_callback=partial(plan_again, retries=retries),
            )
        self.patience = patience
        # Only now, so that a server that never existed is reported at once.
        sqlalchemy.event.listen(self.engine, "do_connect", self._connect)
        if url.startswith(_SQLITE):
            # SQLite has no row locks: without this, two workers could take the same trial.
            def leave_transactions_to_us(connection: Any, record: Any) -> None:
                connection.isolation_level = None

            def begin_at_once(connection: sqlalchemy.Connection) -> None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")

            sqlalchemy.event.listen(self.engine, "connect", leave_transactions_to_us)
            sqlalchemy.event.listen(self.engine, "begin", begin_at_once)

    def _connect(self, dialect: Any, record: Any, arguments: Any, options: Any) -> Any:
        limit = time.monotonic() + self.patience
        while True:
            try:
                return dialect.connect(*arguments, **options)
            except dialect.loaded_dbapi.OperationalError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.5)

    def record_heartbeat(self, trial_id: int) -> None:
        """Record a heartbeat; a failure does not stop later ones."""
        with contextlib.suppress(StorageInternalError):
            super().record_heartbeat(trial_id)


def open_storage(url: str, heartbeat: int, retries: int, *, patient: bool = False) -> BaseStorage:
    """Open or create a storage.

    Args:
        url: SQLAlchemy's URL, or ``journal://FILE``.
        heartbeat: Seconds between heartbeats of a running trial.
        retries: Number of retries of a dead worker's trial.
        patient: Whether to wait for an unavailable server, because it existed before.

    Raises:
        RequestError: if that is not possible.
    """
    journal = journal_file(url)
    if journal is None:
        # What cannot be parsed is not repeated, in whole or in part: it may hold a password.
        try:
            parts = sqlalchemy.engine.make_url(url)
        except (sqlalchemy.exc.ArgumentError, ValueError):
            parts = None
        if parts is None or "@" in (parts.host or ""):
            raise RequestError(
                "The storage cannot be opened: what is given is no URL (not repeated here, as it "
                f"may hold a password). {_URLS} Write @, / and : of a password as %40, %2F and "
                "%3A, or leave it to PGPASSWORD or ~/.pgpass.",
                code="study.storage",
            )
    file = journal or sqlite_file(url)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    for left in reversed(range(_TRIES)):
        try:
            if journal is not None:
                return JournaledStorage(journal, heartbeat, retries)
            return PatientStorage(url, heartbeat, retries)
        except ImportError as error:
            missing = getattr(error.__cause__ or error, "name", None) or str(error)
            raise RequestError(
                f"The storage {shown(url)} needs the package {missing}, which is not installed: "
                f"type pip install {_PACKAGES.get(missing, missing)}. {_URLS}",
                code="study.storage",
            ) from error
        except (
            sqlalchemy.exc.SQLAlchemyError,
            StorageInternalError,
            RuntimeError,
            OSError,
            # For invalid options after ? or in braces.
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            words = str(error.__cause__ or error)
            # Another command made the tables at the same moment.
            clash = any(part in words for part in ("already exists", "duplicate key", "UNIQUE"))
            if left and (patient or clash):
                time.sleep(1.0)
                continue
            raise RequestError(
                f"The storage {shown(url)} cannot be opened ({words.splitlines()[0]}). {_URLS}",
                code="study.storage",
            ) from error
    raise AssertionError("the last try returns or raises")


def journal_file(url: str) -> Path | None:
    """Return the file of ``journal://FILE``; None for other URLs."""
    if not url.startswith(_JOURNAL):
        return None
    if name := url.removeprefix(_JOURNAL):
        return Path(name).expanduser()
    raise RequestError(f"The storage {url} names no file. {_URLS}", code="study.storage")


def sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file, with special characters quoted."""
    url = sqlalchemy.engine.URL.create("sqlite", database=str(file))
    return url.render_as_string(hide_password=False)


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite URL; None for other URLs."""
    try:
        parts = sqlalchemy.engine.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return None
    if parts.get_backend_name() != "sqlite" or not parts.database:
        return None
    return Path(parts.database)


def shown(url: str) -> str:
    """Return the URL without its password."""
    if url.startswith(_JOURNAL):
        return url
    try:
        parts = sqlalchemy.engine.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return "that is no URL"
    # The rest of a password that holds @ would be read as the host.
    if "@" in (parts.host or ""):
        return "that is no URL"
    return masked(parts.render_as_string(hide_password=True))


def storage_lost(url: str, error: BaseException) -> StudyStorageError:
    """Return the error for a storage that worked before."""
    return StudyStorageError(
        f"The storage {shown(url)} does not work any more "
        f"({' '.join(str(error.__cause__ or error).split())}). Finished repetitions are on disk: "
        "rerun the command when it does."
    )


def release_stale(study: optuna.Study, heartbeat: int) -> None:
    """Mark the trials of dead workers as failed and requeue them.

    Args:
        study: The study.
        heartbeat: Seconds between heartbeats.
    """
    with quiet_optuna():
        optuna.storages.fail_stale_trials(study)
    # A worker may die between taking a trial and its first heartbeat.
    grace = SILENT_BEATS * heartbeat
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        assert trial.datetime_start is not None
        age = time.time() - trial.datetime_start.timestamp()
        if "worker" not in trial.user_attrs and age > grace:
            study.tell(trial.number, state=TrialState.FAIL)
            plan_again(study, trial)


def plan_again(study: optuna.Study, trial: FrozenTrial, retries: int | None = None) -> None:
    """Requeue a trial with its parameters.

    Args:
        study: The study.
        trial: The trial.
        retries: How often it may be requeued with this number; None requeues it without counting.
    """
    if "cell" not in trial.user_attrs:
        return
    kept = {k: v for k, v in trial.system_attrs.items() if k not in (_HISTORY, _BEAT)}
    if retries is not None:
        history = [*trial.system_attrs.get(_HISTORY, ()), trial.number]
        if len(history) > retries:
            return
        kept[_HISTORY] = history
    study.add_trial(
        optuna.create_trial(
            state=TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            # Nothing of the try itself, such as its worker or why it ended.
            user_attrs={"cell": trial.user_attrs["cell"]},
            system_attrs=kept,
        )
    )
