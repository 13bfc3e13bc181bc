"""Failed repetitions, which are recorded with the reason and do not stop the others."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from unionsnn.base.errors import RequestError
from unionsnn.base.files import UNUSABLE_FOLDER_ERRNOS
from unionsnn.base.secrets import masked
from unionsnn.config.schema import Config
from unionsnn.training.records import RecordedFailure, Repetition, Result

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """How a repetition failed.

    Args:
        kind: Class of the error.
        reason: Its message, in one line.
        error: The error itself, if raised in this process.
    """

    kind: str
    reason: str
    error: Exception | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Make the failure of an error."""
        text = masked(" ".join(str(error).split()))
        return cls(type(error).__name__, text or type(error).__name__, error)

    def without_error(self) -> Failure:
        """Return a copy without the error, which may not be picklable."""
        return replace(self, error=None)


Outcome = Repetition | Failure
"""Outcome of a repetition: its record, or how it failed."""


def attempt(train: Callable[[], Repetition]) -> Outcome:
    """Train a repetition; return its record, or a failure that concerns it alone.

    Raises:
        RequestError: The request is invalid for all repetitions.
        OSError: The disk is full, which concerns all repetitions.
    """
    try:
        return train()
    except RequestError:
        raise
    except Exception as error:  # A user's model may fail in any way.
        if isinstance(error, OSError) and error.errno in UNUSABLE_FOLDER_ERRNOS:
            raise
        logger.debug("a repetition failed", exc_info=True)
        _let_go(error)
        return Failure.of(error)


def _let_go(error: BaseException | None) -> None:
    """Free objects held by the frames of an error, such as a network, but keep the traceback."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class SameAgain:
    """Detects repetitions that all fail with the same error, so that the rest would be futile.

    The rule: nothing is finished, and the first two that ended failed with the same message.

    Args:
        finished: Whether a repetition had finished before.
    """

    def __init__(self, finished: bool) -> None:
        self._ended = int(finished)
        self._first: Outcome | None = None

    def add(self, outcome: Outcome) -> bool:
        """Record an outcome; return whether the rest should not be started."""
        self._ended += 1
        if self._ended == 1:
            self._first = outcome
        return self._ended == 2 and isinstance(self._first, Failure) and self._first == outcome


def failed_now(record: Result, config: Config) -> list[RecordedFailure]:
    """Return the failures in a merged record among the requested repetitions."""
    only = config.protocol.only
    return [row for row in record.failed if only is None or row.index in only]


def failure_lines(failed: Sequence[RecordedFailure]) -> list[str]:
    """Return a line for each reason, with its repetitions, counted from 1."""
    reasons: dict[str, list[str]] = {}
    for row in failed:
        reasons.setdefault(row.reason, []).append(str(row.index + 1))
    return [
        f"repetition{'s' if len(which) > 1 else ''} {', '.join(which)}: {reason}"
        for reason, which in reasons.items()
    ]
