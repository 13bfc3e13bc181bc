"""Comparison of configurations on the same folds and seeds: checks, runs, differences.

Reading and checking a request does not import torch; training does.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unionsnn.base.display import current_display
from unionsnn.base.errors import ComparisonFailedError, DamagedFileError, Fault, RequestError
from unionsnn.base.files import write_json
from unionsnn.base.frames import frame
from unionsnn.base.imports import loading
from unionsnn.base.processes import ProcessPool
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import flatten
from unionsnn.config.identity import SERVING, config_hash, differing_keys, refuse_debug
from unionsnn.config.overrides import refuse_repeats
from unionsnn.config.schema import Config, metric_mode
from unionsnn.config.targets import changed_since
from unionsnn.data.splits import split_hash
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.failures import failed_now, failure_lines
from unionsnn.runs.run_folder import RunFolder, altered
from unionsnn.training.records import Result, read_record
from unionsnn.training.statistics import (
    PairedDifference,
    compare_folds,
    compare_seeds,
    ratio_test_to_train,
)

if TYPE_CHECKING:
    from unionsnn.data.sources.source import Progress

logger = logging.getLogger(__name__)

_NAMES_A_NETWORK = re.compile(r"(^|\s)\+?(model|gate|coefficient)[.=]")

_NOT_COMPARED = (
    "Nothing was compared: all runs need the same repetitions. Finished work is kept; rerun "
    "the command to train the failed ones again."
)


@dataclass(frozen=True)
class Candidate:
    """One of the compared configurations.

    Args:
        label: What the user typed for it.
        path: Its run folder.
        config: Its checked configuration; None for a run folder.
        record: The merged record of its run folder; None if it has to be run.
    """

    label: str
    path: Path
    config: Config | None = None
    record: Result | None = None

    @property
    def repetitions(self) -> list[int]:
        """Return the repetitions that its record has or will have."""
        if self.record is not None:
            return [row.index for row in self.record.repetitions]
        assert self.config is not None
        finished = RunFolder(self.path, self.config).finished()
        return sorted({*self.config.protocol.wanted, *finished})

    @property
    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain types; a record may have an older version."""
        if self.config is not None:
            return self.config.to_dict()
        assert self.record is not None
        return self.record.config

    def silent(self) -> Candidate:
        """Return this candidate without progress display."""
        if self.config is None:
            return self
        return replace(self, config=self.config.replace({"trainer.progress": "none"}))


def read_candidates(
    words: Sequence[str], common: Sequence[str] = (), config_dir: str | Path | None = None
) -> list[Candidate]:
    """Compose or load the candidates.

    Args:
        words: For each configuration its overrides in one string (none: the default experiment),
            or a run folder on disk.
        common: Overrides for all composed configurations.
        config_dir: A folder of the user's own configuration.

    Raises:
        RequestError: with every fault found, each with what was typed.
    """
    faults: list[Fault] = []
    candidates = []
    for word in words:
        label = " ".join(word.split()) or "(default)"
        try:
            candidates.append(_candidate(label, word, common, config_dir))
        except RequestError as error:
            faults += [Fault(f"{label}: {fault}", fault.code) for fault in error.faults]
    if len(words) < 2:
        faults.append(
            Fault(
                f"compare got {len(words)} configuration(s) and needs two or more: "
                'unionsnn compare model=gin "model=gin gate=default" -- data=mutag',
                "compare.too_few",
            )
        )
    idle = [word for word in common if not word.startswith(("paths.", "accept_code="))]
    if idle and not faults and all(candidate.record for candidate in candidates):
        faults.append(
            Fault(
                f"{' '.join(idle)}: overrides have no effect on runs on disk; leave them out.",
                "compare.unused_overrides",
            )
        )
    if faults:
        raise RequestError(*(_without_dashes(words, common) or faults))
    return candidates


def _candidate(
    label: str, word: str, common: Sequence[str], config_dir: str | Path | None
) -> Candidate:
    path = Path(word).expanduser()
    if not word.strip() or not path.exists():
        if word.strip() and "=" not in word:
            raise RequestError(
                "this is neither a run folder nor an override, such as model=gin",
                code="compare.no_folder",
            )
        try:
            overrides = shlex.split(word)
        except ValueError as error:
            raise RequestError(f"{error}.", code="compare.quotes") from None
        refuse_repeats(overrides)
        refuse_repeats(common)
        config = compose_config([*common, *overrides], config_dir)
        refuse_debug(config, "compare")
        return Candidate(label, RunFolder.of(config).path, config)
    folder = path if path.is_dir() else path.parent
    try:
        record = read_record(Result, folder / "results.json")
    except FileNotFoundError:
        raise RequestError(
            "it has no results.json, so it is not a run folder.", code="compare.no_record"
        ) from None
    except (OSError, DamagedFileError) as error:
        raise RequestError(
            f"results.json cannot be read ({error}).", code="compare.unreadable"
        ) from None
    if faults := altered(folder, record):
        raise RequestError(*faults, code="compare.altered")
    refuse_debug(record.config, "compare")
    if record.result is None:
        raise RequestError("none of its repetitions is finished.", code="compare.unfinished")
    names = changed_since(record.config, (row.code for row in record.repetitions))
    if names and "accept_code=true" not in common:
        raise RequestError(
            f"the file of {', '.join(names)} has changed since it was trained, so it is the result "
            "of other code. Train it again, or type -- accept_code=true to compare it as it is.",
            code="run.other_code",
        )
    return Candidate(label, folder, record=record)


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs of a comparison.

    Args:
        label: What the user typed for it.
        folder: Its run folder.
        record: Its merged record.
    """

    label: str
    folder: Path
    record: Result

    def to_json(self) -> dict[str, Any]:
        """Return plain types, as written to a file."""
        keys = (
            *("model", "gate", "control", "parameters", "hidden_channels"),
            *("result", "seconds", "config_hash", "versions"),
        )
        content = self.record.to_json()
        kept = {key: content[key] for key in keys}
        return {"label": self.label, "run_dir": str(self.folder), **kept}


@dataclass(frozen=True)
class Difference:
    """A run minus the baseline, repetition by repetition.

    Args:
        label: The run.
        baseline: The baseline.
        keys: Keys of the configuration in which they differ.
        paired: The paired difference of the reported metric.
        relative: Its mean relative to that of the baseline; None if this is 0.
        won: Repetitions in which the run is better.
        lost: Repetitions in which it is worse.
        tied: Repetitions in which both are equal.
    """

    label: str
    baseline: str
    keys: list[str]
    paired: PairedDifference
    relative: float | None
    won: int
    lost: int
    tied: int

    def to_json(self) -> dict[str, Any]:
        """Return plain types, as written to a file."""
        content = asdict(self)
        del content["paired"]
        head = {key: content.pop(key) for key in ("label", "baseline", "keys")}
        return {**head, **self.paired.to_dict(), **content}


@dataclass(frozen=True)
class Comparison:
    """Runs on the same data, splits and seeds, each with its difference from the first.

    Args:
        runs: The runs; the first is the baseline.
        differences: The difference of each other run.
        path: The file that holds it.
    """

    runs: list[ComparedRun]
    differences: list[Difference]
    path: Path | None = None

    @property
    def first(self) -> Result:
        """The record of the baseline, which shares data and protocol with the others."""
        return self.runs[0].record

    @property
    def larger_is_better(self) -> bool:
        """Whether a larger value of the reported metric is better."""
        return metric_mode(self.first.protocol.report) == "max"

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each run, and its difference from the first."""
        differences = {each.label: each for each in self.differences}
        rows = []
        for run in self.runs:
            row: dict[str, Any] = {
                "label": run.label,
                "model": run.record.model,
                "gate": run.record.gate,
                "metric": run.record.protocol.report,
                "mean": run.record.summary.mean,
                "std": run.record.summary.std,
                "parameters": run.record.parameters,
                "folder": str(run.folder),
            }
            if (other := differences.get(run.label)) is not None:
                low, high = other.paired.interval or (None, None)
                row |= {
                    "baseline": other.baseline,
                    "difference": other.paired.mean,
                    "difference_low": low,
                    "difference_high": high,
                    "p_value": other.paired.p_value,
                    "won": other.won,
                    "lost": other.lost,
                    "tied": other.tied,
                }
            rows.append(row)
        return frame(rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain types, as written to a file."""
        return {
            "format": 1,
            "data": self.first.data,
            "dataset": self.first.dataset,
            "protocol": asdict(self.first.protocol),
            "repetitions": [row.index for row in self.first.repetitions],
            "larger_is_better": self.larger_is_better,
            "runs": [run.to_json() for run in self.runs],
            "differences": [each.to_json() for each in self.differences],
        }


def _without_dashes(words: Sequence[str], common: Sequence[str]) -> list[Fault]:
    """Say where ``--`` is missing, if configurations without a model or gate come last.

    Asked only of configurations that cannot be compared as they are.
    """
    at = len(words)
    while at and "=" in words[at - 1] and not _NAMES_A_NETWORK.search(words[at - 1]):
        at -= 1
    if at < 2 or at == len(words):
        return []
    typed = shlex.join([*words[:at], "--", *words[at:], *common])
    return [
        Fault(
            f"type -- before {words[at]}, so that it applies to all: unionsnn compare {typed}",
            "compare.dashes",
        )
    ]


def refuse_incomparable(candidates: Sequence[Candidate], common: Sequence[str] = ()) -> None:
    """Check before loading anything that all have the same data, protocol and repetitions.

    Args:
        candidates: The candidates.
        common: The overrides for all composed configurations, for the message.

    Raises:
        RequestError: with every difference that would invalidate the comparison.
    """
    first = candidates[0]
    faults: list[Fault] = []
    for i, other in enumerate(candidates):
        for same in candidates[:i]:
            if other.path.resolve() == same.path.resolve():
                text = f"{other.label} and {same.label} are the same experiment, {other.path}."
                faults.append(Fault(text, "compare.same"))
        one, two = (dict(flatten(each.settings)) for each in (first, other))
        for key in filter(_must_agree, differing_keys(first.settings, other.settings)):
            faults.append(
                Fault(
                    f"{key} is {one.get(key)!r} in {first.label} and {two.get(key)!r} in "
                    f"{other.label}; only runs on the same data, splits and seeds can be compared. "
                    f"Give {key} once, after --.",
                    "compare.differs",
                )
            )
    if not faults:
        faults = [
            Fault(
                f"{first.label} has the repetitions {first.repetitions}, {other.label} has "
                f"{other.repetitions}; finish the shorter one, or leave protocol.only out.",
                "compare.repetitions",
            )
            for other in candidates[1:]
            if other.repetitions != first.repetitions
        ]
    if faults:
        labels = [each.label for each in candidates]
        raise RequestError(*(_without_dashes(labels, common) or faults))
    _refuse_other_records([c for c in candidates if c.record is not None])


def _must_agree(key: str) -> bool:
    if key.startswith("protocol.grid"):
        # Each may have its own grid, which is selected from inside the folds.
        return False
    return key == "seed" or (key.startswith(("data.", "protocol.")) and key not in SERVING)


def _refuse_other_records(candidates: Sequence[Candidate]) -> None:
    """Check what may differ between records whose configurations agree."""
    identities = []
    for record in (each.record for each in candidates):
        assert record is not None
        rows = record.repetitions
        identities.append(
            {
                "the data set": record.dataset,
                # Of all splits together, then of each.
                "the split hash": [
                    str(each)[:12]
                    for each in (record.protocol.split_hash, *(row.split_hash for row in rows))
                ],
                "the report metric": record.protocol.report,
                "the list of repetitions and seeds": [(row.index, row.seed) for row in rows],
            }
        )
    faults = [
        f"{what} is {identities[0][what]} in {candidates[0].label} and {value} in "
        f"{other.label}; only runs on the same data, splits and seeds can be compared."
        for other, identity in zip(candidates, identities, strict=True)
        for what, value in identity.items()
        if value != identities[0][what]
    ]
    if faults:
        raise RequestError(*faults, code="compare.other_records")


def run_comparison(
    candidates: Sequence[Candidate], output: str | Path, progress: Progress | None = None
) -> Comparison:
    """Run unfinished candidates, compare, and write ``comparisons/<hash>/comparison.json``.

    Args:
        candidates: Candidates checked by `refuse_incomparable`; the first is the baseline.
        output: The folder of all runs.
        progress: Called during long work on data.

    Raises:
        RequestError: if runs have different graphs or splits.
        ComparisonFailedError: if repetitions failed, after all others were trained.
    """
    _refuse_other_splits(candidates, progress)
    done, failures = _run(candidates, progress)
    if failures:
        raise ComparisonFailedError("\n".join([*failures, _NOT_COMPARED]))
    _refuse_other_records(done)
    comparison = compare_records(done)
    identity = json.dumps([[config_hash(c.settings), c.path.name] for c in done])
    name = hashlib.sha256(identity.encode()).hexdigest()[:8]
    path = Path(output) / "comparisons" / name / "comparison.json"
    write_json(path, comparison.to_json())
    return replace(comparison, path=path)


def _run(
    candidates: Sequence[Candidate], progress: Progress | None
) -> tuple[list[Candidate], list[str]]:
    """Run the candidates without a record, in the same processes; return all, and what failed."""
    done, failures = [], []
    pending = [c.config for c in candidates if c.record is None and c.config is not None]
    shown, row = current_display(), object()
    with ExitStack() as stack:
        workers = None
        size = max((config.protocol.workers for config in pending), default=1)
        if size > 1 and len(pending) > 1:
            with loading("torch"):
                from unionsnn.runs.workers import Worker
            workers = stack.enter_context(ProcessPool(Worker(), size))
        for number, each in enumerate(candidates):
            if each.config is None or each.record is not None:
                done.append(each)
                continue
            if shown is not None:
                stack.callback(shown.end, row, say=False)
                shown.show(
                    row,
                    "configuration",
                    number,
                    len(candidates),
                    figures={"now": each.label},
                    numbered=True,
                )
            try:
                record = run_experiment(each.config, progress, workers)
            except RequestError:
                raise
            except Exception as error:  # Any error: the others continue.
                logger.debug("%s failed", each.label, exc_info=True)
                failures.append(f"{each.label}: {' '.join(str(error).split())}")
                continue
            # Only torchrun's other processes get none, and it starts no comparison.
            assert record is not None
            failed = failure_lines(failed_now(record, each.config))
            failures += [f"{each.label}: {line}" for line in failed]
            done.append(replace(each, record=record))
    return done, failures


def _refuse_other_splits(candidates: Sequence[Candidate], progress: Progress | None) -> None:
    """Compare records on disk with the current data and splits, before training."""
    finished = [c for c in candidates if c.record is not None]
    pending = [c for c in candidates if c.record is None]
    if not finished or not pending:
        return
    with loading("torch"):
        from unionsnn.training.build import build_data
        from unionsnn.training.protocols import draw_splits

    config = pending[0].config
    assert config is not None
    # No coefficients are needed for this.
    data = build_data(config.replace({"gate.preset": None}), progress)
    splits = draw_splits(config.protocol, data, config.seed)
    now = {"dataset": data.dataset_id, "split hash": split_hash(splits)}
    faults = []
    for each in finished:
        assert each.record is not None
        then = [each.record.dataset, each.record.protocol.split_hash]
        faults += [
            f"The {what} of {each.label} is {before}, that of {pending[0].label} would be "
            f"{after}; train {each.label} again on the present data."
            for (what, after), before in zip(now.items(), then, strict=True)
            if before != after
        ]
    if faults:
        raise RequestError(*faults, code="compare.other_data")


def compare_records(candidates: Sequence[Candidate]) -> Comparison:
    """Compare finished runs with the first one, repetition by repetition.

    Args:
        candidates: Candidates with records, on the same data, splits and seeds.
    """
    runs = [ComparedRun(c.label, c.path, c.record) for c in candidates if c.record is not None]
    return Comparison(runs, [_difference(runs[0], other) for other in runs[1:]])


def _difference(baseline: ComparedRun, other: ComparedRun) -> Difference:
    first = baseline.record
    values = first.summary.values, other.record.summary.values
    # Folds share training data, seeds do not.
    if first.config["protocol"]["folds"] is None:
        paired = compare_seeds(*values)
    else:
        ratio = ratio_test_to_train([row.sizes for row in first.repetitions])
        paired = compare_folds(*values, test_to_train=ratio)
    sign = 1 if metric_mode(first.protocol.report) == "max" else -1
    gains = [sign * value for value in paired.values]
    mean = first.summary.mean
    return Difference(
        other.label,
        baseline.label,
        differing_keys(first.config, other.record.config),
        paired,
        relative=paired.mean / abs(mean) if mean else None,
        won=sum(gain > 0 for gain in gains),
        lost=sum(gain < 0 for gain in gains),
        tied=sum(gain == 0 for gain in gains),
    )
