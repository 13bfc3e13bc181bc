"""Changed inputs and killed commands: UNIONSNN_HOSTILE and UNIONSNN_KILLS set their numbers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hostile.attacks import ATTACKS, Base, attack
from hostile.children import ready
from hostile.kills import COMMANDS, copy_run, disturbed, undisturbed

SEED = int(os.environ.get("UNIONSNN_HOSTILE_SEED", 0))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    ready()
    return Base(tmp_path_factory.mktemp("base"))


def check(count: int, kind: str, base: Base, folder: Path) -> None:
    fallen = []
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        _, attempt, done, found = attack(SEED, number, base, place, kind)
        if found:
            fallen.append(f"{kind} {number}: {found}: {attempt.words}: {done.stderr[-300:]}")
    assert not fallen, "\n".join([f"{len(fallen)} of {count} fell:", *fallen])


@pytest.mark.parametrize("kind", ["GraphML", "graph6", "expressivity", "study"])
def test_a_few_changed_inputs(kind: str, base: Base, tmp_path: Path) -> None:
    check(12, kind, base, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ATTACKS)
def test_changed_inputs_bring_no_traceback_hang_bomb_or_wrong_value(
    kind: str, base: Base, tmp_path: Path
) -> None:
    check(int(os.environ.get("UNIONSNN_HOSTILE", 2000)) // len(ATTACKS) + 1, kind, base, tmp_path)


def check_kills(count: int, kind: str, folder: Path) -> None:
    ready()
    whole = folder / "whole"
    whole.mkdir()
    right, seconds = undisturbed(kind, whole)
    kills, trial, fallen = 0, 0, []
    while kills < count and trial < 3 * count:
        place = folder / str(trial)
        place.mkdir()
        if kind in ("predict", "precompute"):
            copy_run(whole, place)
        rng = np.random.default_rng([SEED, trial])
        number, found = disturbed(kind, place, rng, right, seconds)
        kills, trial = kills + number, trial + 1
        if found:
            fallen.append(f"{kind} {trial - 1}: {found}")
    assert not fallen, "\n".join(fallen)


def test_a_killed_training_ends_as_the_undisturbed_one(tmp_path: Path) -> None:
    check_kills(4, "train", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMMANDS)
def test_killed_commands_end_as_undisturbed_ones(kind: str, tmp_path: Path) -> None:
    check_kills(int(os.environ.get("UNIONSNN_KILLS", 300)) // len(COMMANDS), kind, tmp_path)
