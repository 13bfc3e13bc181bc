"""What is wrong with a study, said before its first trial."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from unionsnn.base.errors import RequestError
from unionsnn.config.grid import VARIED, flatten, may_vary
from unionsnn.config.schema import Config
from unionsnn.search.rehearsal import rehearsal_faults
from unionsnn.search.space import bare, grid_points
from unionsnn.search.storage import sqlite_file
from unionsnn.search.study_file import PARAMETERS

if TYPE_CHECKING:
    from unionsnn.search.study import Study

GROUPS = ("model", "gate", "coefficient", "optimizer")
"""Groups whose options a space may try."""

SHORTER = ("protocol.only", "protocol.patience", "trainer.max_epochs")
"""What makes a trial shorter, beside keys of the optimizer and of the model."""

_SECTIONS = (*Config.model_fields, "experiment", "grid", "hydra")


def parsed(word: str) -> Override | None:
    """Read an override; None if it is none, which composing says more about."""
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException:
        return None


def set_keys(override: Override) -> set[str]:
    """Keys that an override sets, without signs: those of a whole section as well."""
    key = bare(override.key_or_group)
    value = None if override.is_sweep_override() else override.value()
    return {key} | (set(dict(flatten(value, f"{key}."))) if isinstance(value, Mapping) else set())


def section_faults(space: Mapping[str, Any], overrides: Sequence[str]) -> Iterator[str]:
    """Refuse overrides that set keys of the space among others: the space would hide them."""
    for word in overrides:
        override = parsed(word)
        if override is None:
            continue
        hidden = [k for k in space if bare(k) in set_keys(override) - {override.key_or_group}]
        for key in hidden:
            yield f"{word} sets {bare(key)}, a key of the space; type {bare(key)}=... by itself."


def key_faults(study: Study) -> Iterator[str]:
    """Refuse keys that trials cannot differ in, or that trials and the final run cannot."""
    for parameter in study.space:
        key = bare(parameter.key)
        if key.partition(".")[0] in _SECTIONS and key not in GROUPS and not may_vary(key):
            yield (
                f"space.{parameter.key}: trials that differ in {key} cannot be compared, or write "
                f"elsewhere; the space may hold {VARIED}, and the groups {', '.join(GROUPS)}."
            )
    searched = {bare(p.key) for p in study.space}
    for word in study.file.trial:
        override = parsed(word)
        if override is None:
            continue
        for key in sorted(set_keys(override) & searched):
            yield f"trial: {word} sets {key}, a key of the space; leave it out of one of them."
        key = bare(override.key_or_group)
        inside = key.startswith(("optimizer.", "model.")) and may_vary(key)
        if key not in SHORTER and not inside:
            yield (
                f"trial: {word} is not what makes a trial shorter; trial may hold "
                f"{', '.join(SHORTER)}, and keys of optimizer and model. What holds for the final "
                "run, too, belongs in overrides."
            )


def request_faults(study: Study) -> Iterator[str]:
    """Say what is wrong with name, objectives and experiment."""
    file, base = study.file, study.base
    if not _names_a_folder(study.name):
        yield (
            f"--name is {study.name!r}; it names a folder and a study of the storage: type "
            "letters, digits, - and _, without /, a dot in front or + and a number at the end."
        )
    yield from _place_faults(study)
    allowed = [f"val_{base.data.metric}", "val_loss"]
    for number, key in enumerate(file.objectives):
        if key in allowed or (number == 1 and key == PARAMETERS):
            continue
        why = ""
        if str(key).startswith("test"):
            why = "what the test part has chosen is no longer tested by it; "
        yield f"objective is {key!r}; {why}allowed are {', '.join(allowed)}."
        return
    directions = [file.direction] if isinstance(file.direction, str) else file.direction
    if directions is not None and list(directions) != study.directions:
        yield (
            f"direction is {file.direction!r}, but of {', '.join(file.objectives)} it is "
            f"{', '.join(study.directions)}; it may be left out."
        )
    if base.run_dir is not None or base.force:
        yield "A study has run folders of its own: leave out run_dir and force."
    yield from protocol_faults(base)
    protocol = base.protocol
    if protocol.workers > 1:
        yield "The workers of a study train trials: type --workers N in place of protocol.workers."
    if protocol.grid is not None:
        yield "protocol.grid searches inside each repetition: put its keys into space instead."
    if base.trainer.several:
        yield "One process trains a trial: type trainer=default, and --workers N for N at a time."


def protocol_faults(config: Config) -> Iterator[str]:
    """Refuse a protocol that evaluates the test part while it trains."""
    if config.protocol.name == "cross_validation_paper":
        yield (
            "protocol=cross_validation_paper tests in every epoch, and a study must not see the "
            "test part; type protocol=cross_validation."
        )


def _names_a_folder(name: str) -> bool:
    return (
        0 < len(name.encode()) <= 200
        and name.isprintable()
        and "/" not in name
        and not name.startswith(".")
        # NAME+1 is the name of an extension.
        and re.search(r"\+\d+$", name) is None
    )


def _place_faults(study: Study) -> Iterator[str]:
    """Refuse folders that a URL or Hydra cannot name."""
    if "${" in str(study.folder):
        yield f"paths.output is {study.base.paths.output!r}; type a folder without ${{."
    given = study.file.storage
    if given is None and sqlite_file(study.storage) != study.folder / "study.db":
        yield (
            f"The file {study.folder / 'study.db'} cannot be named in a URL; type a paths.output "
            "without ? and %, or --storage sqlite:///FILE."
        )
    if given is not None and given.startswith("sqlite:"):
        file, question, options = given.partition("?")
        if question and "=" not in options.partition("/")[0]:
            yield (
                f"storage is {given!r}, where ? begins options of the URL; type it as "
                f"{file}%3F{options}, or another name of the file."
            )


def space_faults(study: Study) -> Iterator[str]:
    """Compose trials with all values to be checked, and let the sampler draw from the space."""
    if study.file.sampler.name == "grid":
        grid_points(study.space)
    faults: dict[str, None] = {}
    config: Config | None = None
    # Each value once, those of all keys side by side.
    examples = [p.examples() for p in study.space]
    for number in range(max(map(len, examples))):
        values = [each[min(number, len(each) - 1)] for each in examples]
        point = {p.key: value for p, value in zip(study.space, values, strict=True)}
        try:
            config = study.trial_config(point)
        except RequestError as error:
            faults |= dict.fromkeys(f"space: {fault}" for fault in error.faults)
        else:
            faults |= dict.fromkeys(f"trial: {fault}" for fault in protocol_faults(config))
    yield from faults
    if config is None:
        return
    count = len(config.protocol.wanted)
    if study.file.pruner.every == "epoch" and count > 1:
        yield (
            f"pruner.every is 'epoch', but a trial trains {count} repetitions: type pruner."
            "every: repetition, protocol=holdout, or trial: [protocol.only=[0]]."
        )
    yield from rehearsal_faults(study)
