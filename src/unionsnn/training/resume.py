"""Resume points: when they are saved, and that of trainings in one step."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unionsnn.base.files import set_aside
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.config.targets import code_digests
from unionsnn.training.checkpoints import load_tensors, save_tensors

if TYPE_CHECKING:
    from unionsnn.training.member import Member


class SaveTimes:
    """Tells when to save a resume point: every few seconds, but in a small part of the time.

    Args:
        path: Its file.
        interval: Minimum number of seconds between two.
        costs: Minimum time until the next one, in multiples of the time of the last.
    """

    def __init__(self, path: Path, interval: float = 2.0, costs: float = 50.0) -> None:
        self.path = path
        self.interval = interval
        self.costs = costs
        self._next = time.monotonic() + interval

    @property
    def due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._next

    def save(self, write: Callable[[], object]) -> None:
        """Save; if that is not possible, training goes on and it is not tried again."""
        begin = time.monotonic()
        try:
            write()
        except OSError as error:
            self._next = math.inf
            warnings.warn(
                f"{self.path} cannot be written ({error}); what is stopped will start over.",
                # The caller may be Lightning, whose warnings are filtered out.
                stacklevel=1,
            )
            return
        end = time.monotonic()
        self._next = end + max(self.interval, self.costs * (end - begin))


class SharedPoint:
    """The resume point of trainings in one step.

    Args:
        path: Its file.
        config: What they are of; it is saved, so that a point of another training is noticed.
    """

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self.about = {"config": config_hash(config), "code": code_digests(config)}
        self.times = SaveTimes(path)

    def save(self, members: Sequence[Member]) -> None:
        """Save if it is time."""
        if self.times.due:
            states = {member.key: member.state_dict() for member in members}
            content = {"about": self.about, "trainings": states}
            self.times.save(lambda: save_tensors(self.path, content))

    def restore(self, members: Sequence[Member]) -> None:
        """Go on from what is kept; what is damaged, or of another training, is set aside."""
        if not self.path.exists():
            return
        try:
            content = load_tensors(self.path)
            states = content["trainings"] if content["about"] == self.about else None
            fault = "of another training or other code" if states is None else ""
        except Exception as error:
            states, fault = None, f"damaged ({type(error).__name__}: {error})"
        if states is None:
            aside = set_aside(self.path)
            warnings.warn(
                f"{self.path} is {fault} and was renamed to {aside.name}; its trainings start "
                "over.",
                stacklevel=2,
            )
            return
        for member in members:
            if (state := states.get(member.key)) is not None:
                member.load_state_dict(state)


def point_of(folder: Path) -> Path:
    """Return the file from which the trainings of a run folder go on together."""
    return folder / "unfinished" / "together.ckpt"
