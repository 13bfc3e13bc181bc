"""Repetitions that fail: recorded with their reason, while the others go on."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unionsnn.base.errors import RequestError
from unionsnn.base.files import UNUSABLE_FOLDER_ERRNOS
from unionsnn.config.schema import Config
from unionsnn.training.records import Repetition

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """How a repetition ended that has no record.

    Args:
        kind: Class of the error.
        reason: What it said, in one line.
        error: The error itself, where it was raised in this process.
    """

    kind: str
    reason: str
    error: Exception | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return the failure that an error stands for."""
        text = " ".join(str(error).split())
        return cls(type(error).__name__, text or type(error).__name__, error)

    def without_error(self) -> Failure:
        """Plain types only: not every error can be sent to another process."""
        return replace(self, error=None)


Outcome = Repetition | Failure
"""What comes of a repetition: its record, or how it failed."""


def attempt(train: Callable[[], Repetition]) -> Outcome:
    """Train a repetition; return its record, or the failure of this repetition alone.

    Raises:
        RequestError: The request is wrong, for all repetitions alike.
        OSError: No disk space is left, which holds for all of them as well.
    """
    try:
        return train()
    except RequestError:
        raise
    except Exception as error:  # A user's own model may fail in any way.
        if isinstance(error, OSError) and error.errno in UNUSABLE_FOLDER_ERRNOS:
            raise
        logger.debug("a repetition failed", exc_info=True)
        _let_go(error)
        return Failure.of(error)


def _let_go(error: BaseException | None) -> None:
    """Free what the frames of an error hold, such as a network on a device; keep its lines."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class SameAgain:
    """Whether repetitions fail alike from the start, so that training the rest would be in vain.

    The rule: nothing is finished, and the first two that ended failed with the same words.

    Args:
        finished: Whether a repetition was finished before.
    """

    def __init__(self, finished: bool) -> None:
        self._ended = int(finished)
        self._first: Outcome | None = None

    def add(self, outcome: Outcome) -> bool:
        """Note an outcome; return whether the rest should not be begun."""
        self._ended += 1
        if self._ended == 1:
            self._first = outcome
        return self._ended == 2 and isinstance(self._first, Failure) and self._first == outcome


def failed_now(record: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """Failures in a merged record, of the repetitions that a request asks for."""
    only = config.protocol.only
    return [row for row in record.get("failed", ()) if only is None or row["index"] in only]


def failure_lines(failed: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each reason, with the repetitions that it ended."""
    reasons: dict[str, list[str]] = {}
    for row in failed:
        reasons.setdefault(row["reason"], []).append(str(row["index"]))
    return [
        f"repetition{'s' if len(which) > 1 else ''} {', '.join(which)}: {reason}"
        for reason, which in reasons.items()
    ]
