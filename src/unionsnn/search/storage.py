"""Storage of a study's trials: SQLite, or PostgreSQL for several machines."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback

from unionsnn.base.errors import RequestError
from unionsnn.search.samplers import quiet_optuna

SILENT_BEATS = 6
"""Number of missed heartbeats after which a worker counts as dead."""

_SQLITE = "sqlite:///"
_TRIES = 20


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
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(retries),
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


def open_storage(
    url: str, heartbeat: int, retries: int, *, patient: bool = False
) -> PatientStorage:
    """Open or create a storage.

    Args:
        url: SQLAlchemy's URL.
        heartbeat: Seconds between heartbeats of a running trial.
        retries: Number of retries of a dead worker's trial.
        patient: Whether to wait for an unavailable server, because it existed before.

    Raises:
        RequestError: if that is not possible.
    """
    if (file := sqlite_file(url)) is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    for left in reversed(range(_TRIES)):
        try:
            return PatientStorage(url, heartbeat, retries)
        except ImportError as error:
            raise RequestError(
                f"The storage {shown(url)} needs a package that is not installed: type "
                f"pip install 'unionsnn[postgresql]' ({error.__cause__ or error}).",
                code="study.storage",
            ) from error
        except (
            sqlalchemy.exc.SQLAlchemyError,
            StorageInternalError,
            RuntimeError,
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
                f"The storage {shown(url)} cannot be opened ({words.splitlines()[0]}). The "
                "URL of a file is sqlite:///FILE, of a server "
                "postgresql+psycopg://USER@HOST/DATABASE.",
                code="study.storage",
            ) from error
    raise AssertionError("the last try returns or raises")


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
    try:
        return sqlalchemy.engine.make_url(url).render_as_string(hide_password=True)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return repr(url)


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
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        assert trial.datetime_start is not None
        age = time.time() - trial.datetime_start.timestamp()
        if "worker" not in trial.user_attrs and age > grace:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            plan_again(study, trial)


def plan_again(
    study: optuna.Study, trial: optuna.trial.FrozenTrial, retries: int | None = None
) -> None:
    """Requeue a trial with its parameters."""
    with quiet_optuna():
        RetryHeartbeatStaleTrialCallback(retries)(study, trial)
