"""Several configurations on the same folds and seeds: checked, run, and their differences.

Reading and checking a request imports no torch; training does.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unionsnn.base.errors import ComparisonFailedError, RequestError
from unionsnn.base.files import write_json
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash, differing_keys
from unionsnn.config.schema import Config, metric_mode
from unionsnn.data.splits import split_hash
from unionsnn.runs.failures import failed_now, failure_lines
from unionsnn.runs.records import RunFolder
from unionsnn.training.statistics import (
    PairedDifference,
    compare_folds,
    compare_seeds,
    ratio_test_to_train,
)

if TYPE_CHECKING:
    from unionsnn.data.datamodules import Progress

logger = logging.getLogger(__name__)

# How the same graphs are given to a model: this may differ.
_SERVING = ("data.batch_size", "data.features", "data.normalize_features")


_NOT_COMPARED = (
    "Nothing is compared, since only the same repetitions can be; what is finished is kept, and "
    "the same command trains what failed again."
)


@dataclass(frozen=True)
class Candidate:
    """One of the configurations that are compared.

    Args:
        label: What was typed for it.
        path: Its run folder.
        config: Its checked configuration; None for a run folder that was named.
        record: The merged record of its run folder; None for one that is to be run.
    """

    label: str
    path: Path
    config: Config | None = None
    record: dict[str, Any] | None = None

    @property
    def repetitions(self) -> list[int]:
        """Repetitions that its record has, or will have."""
        if self.record is not None:
            return [row["index"] for row in self.record["repetitions"]]
        assert self.config is not None
        finished = RunFolder(self.path, self.config).finished()
        return sorted({*self.config.protocol.wanted, *finished})

    @property
    def settings(self) -> dict[str, Any]:
        """Configuration as plain types; a record may be of an older version."""
        if self.config is not None:
            return self.config.to_dict()
        assert self.record is not None
        settings: dict[str, Any] = self.record["config"]
        return settings

    def silent(self) -> Candidate:
        """Return this candidate with a configuration that shows no progress."""
        if self.config is None:
            return self
        return replace(self, config=self.config.replace({"trainer.progress": "none"}))


def read_candidates(
    words: Sequence[str], common: Sequence[str] = (), config_dir: str | Path | None = None
) -> list[Candidate]:
    """Compose or load what is to be compared.

    Args:
        words: For each configuration its overrides in one string (none: the default experiment),
            or a run folder on disk.
        common: Overrides that hold for all configurations that are composed.
        config_dir: A folder of the user's own configuration.

    Raises:
        RequestError: with every fault that was found, each under what was typed.
    """
    faults, found = [], []
    for word in words:
        try:
            found.append(_candidate(word, common, config_dir))
        except RequestError as error:
            faults += [f"{_label(word)}: {fault}" for fault in error.faults]
    if len(words) < 2:
        faults.append(
            f"compare was given {len(words)} configuration(s) and needs two or more: "
            'unionsnn compare model=gin "model=gin gate=default" -- data=mutag'
        )
    idle = [word for word in common if not word.startswith("paths.")]
    if idle and not faults and all(candidate.record for candidate in found):
        faults.append(f"{' '.join(idle)}: overrides change nothing in runs that are on disk.")
    if faults:
        raise RequestError(*faults)
    return found


def _label(word: str) -> str:
    return " ".join(word.split()) or "(default)"


def _candidate(word: str, common: Sequence[str], config_dir: str | Path | None) -> Candidate:
    path = Path(word).expanduser()
    if word.strip() and path.exists():
        folder = path if path.is_dir() else path.parent
        record = _record(folder)
        return Candidate(_label(word), folder, record=record)
    if word.strip() and "=" not in word:
        raise RequestError(
            "there is no such run folder, and overrides are written key=value: model=gin"
        )
    try:
        overrides = shlex.split(word)
    except ValueError as error:
        raise RequestError(f"{error}.") from None
    config = compose_config([*common, *overrides], config_dir)
    return Candidate(_label(word), RunFolder.of(config).path, config)


def _record(folder: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((folder / "results.json").read_text())
        if record["result"] is not None:
            return record
    except FileNotFoundError:
        raise RequestError("there is no results.json in it, so it is no run folder.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"results.json cannot be read ({error!r}).") from None
    raise RequestError("none of its repetitions is finished.")


def refuse_incomparable(candidates: Sequence[Candidate]) -> None:
    """Check, before anything is loaded, that all have the same data, protocol and repetitions.

    Raises:
        RequestError: with every difference that would make the comparison void.
    """
    first, faults = candidates[0], []
    for i, other in enumerate(candidates):
        for same in candidates[:i]:
            if other.path.resolve() == same.path.resolve():
                faults.append(
                    f"{other.label} and {same.label} are the same experiment, {other.path}."
                )
        for key in differing_keys(first.settings, other.settings):
            if _must_agree(key):
                one, two = (_lookup(c.settings, key) for c in (first, other))
                faults.append(
                    f"{key} is {one!r} in {first.label} and {two!r} in {other.label}; only runs on "
                    f"the same data, splits and seeds can be compared. Give {key} once, after --."
                )
    if not faults:
        faults = [
            f"{first.label} has the repetitions {first.repetitions}, {other.label} has "
            f"{other.repetitions}; finish the shorter one, or leave protocol.only out."
            for other in candidates[1:]
            if other.repetitions != first.repetitions
        ]
    if not faults:
        faults = _record_faults([c for c in candidates if c.record is not None])
    if faults:
        raise RequestError(*faults)


def _must_agree(key: str) -> bool:
    if key.startswith("protocol.grid"):
        # Each may have a grid of its own: it is selected inside the folds.
        return False
    return key == "seed" or (key.startswith(("data.", "protocol.")) and key not in _SERVING)


def _lookup(config: Mapping[str, Any], key: str) -> Any:
    """Value at a dotted key; None where there is none."""
    inner: Any = config
    for part in key.split("."):
        inner = inner.get(part) if isinstance(inner, Mapping) else None
    return inner


def _record_faults(candidates: Sequence[Candidate]) -> list[str]:
    """What differs between records though their configurations agree."""
    faults = []
    for other in candidates[1:]:
        one, two = (_identity(c.record) for c in (candidates[0], other) if c.record is not None)
        faults += [
            f"{what} is {one[what]} in {candidates[0].label} and {two[what]} in {other.label}; "
            "only runs on the same data, splits and seeds can be compared."
            for what in one
            if one[what] != two[what]
        ]
    return faults


def _identity(record: Mapping[str, Any]) -> dict[str, Any]:
    rows = record["repetitions"]
    return {
        "the data set": record["dataset"],
        "the split hash": [row["split_hash"][:12] for row in rows],
        "the report metric": record["protocol"]["report"],
        "the list of repetitions and seeds": [(row["index"], row["seed"]) for row in rows],
    }


def run_comparison(
    candidates: Sequence[Candidate], output: str | Path, progress: Progress | None = None
) -> dict[str, Any]:
    """Run what is not finished, compare, and write ``comparisons/<hash>/comparison.json``.

    Args:
        candidates: Checked by `refuse_incomparable`; the first one is the baseline.
        output: The folder of all runs.
        progress: Called during long work on data.

    Returns:
        The comparison as plain types, the path of its file included.

    Raises:
        RequestError: if runs turn out to have other graphs or splits.
        ComparisonFailedError: if repetitions failed, after all others were trained.
    """
    # Torch comes with it.
    from unionsnn.runs.experiment import run_experiment

    _refuse_other_splits(candidates, progress)
    done, failures = [], []
    for number, each in enumerate(candidates, 1):
        record = each.record
        if record is None:
            assert each.config is not None
            if each.config.trainer.progress != "none":
                logger.info("configuration %d of %d: %s", number, len(candidates), each.label)
            try:
                record = run_experiment(each.config, progress)
            except RequestError:
                raise
            except Exception as error:  # The others go on, whatever it was.
                logger.debug("%s failed", each.label, exc_info=True)
                failures.append(f"{each.label}: {' '.join(str(error).split())}")
                continue
            failed = failure_lines(failed_now(record, each.config))
            failures += [f"{each.label}: {line}" for line in failed]
        done.append(replace(each, record=record))
    if failures:
        raise ComparisonFailedError("\n".join([*failures, _NOT_COMPARED]))
    faults = _record_faults(done)
    if faults:
        raise RequestError(*faults)
    comparison = compare_records(done)
    identity = json.dumps([[config_hash(c.settings), c.path.name] for c in done])
    name = hashlib.sha256(identity.encode()).hexdigest()[:8]
    path = Path(output) / "comparisons" / name / "comparison.json"
    write_json(path, comparison)
    return {**comparison, "path": str(path)}


def _refuse_other_splits(candidates: Sequence[Candidate], progress: Progress | None) -> None:
    """Before training, hold records on disk against the data and splits that training would use."""
    held = [c for c in candidates if c.record is not None]
    pending = [c for c in candidates if c.record is None]
    if not held or not pending:
        return
    from unionsnn.training.build import build_data
    from unionsnn.training.protocols import draw_splits

    config = pending[0].config
    assert config is not None
    # No coefficients are needed for this.
    data = build_data(config.replace({"gate.preset": None}), progress)
    splits = draw_splits(config.protocol, data, config.seed)
    now = {"dataset": data.dataset_id, "split hash": split_hash(splits)}
    faults = []
    for each in held:
        assert each.record is not None
        then = {
            "dataset": each.record["dataset"],
            "split hash": each.record["protocol"]["split_hash"],
        }
        faults += [
            f"The {what} of {each.label} is {then[what]}, that of {pending[0].label} would be "
            f"{now[what]}; train {each.label} anew on the data as they are."
            for what in now
            if then[what] != now[what]
        ]
    if faults:
        raise RequestError(*faults)


def compare_records(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Compare finished runs with the first one, repetition by repetition.

    Args:
        candidates: With their records; on the same data, splits and seeds.

    Returns:
        Plain types: what all share, each run's result, and each difference with its interval,
        p-value and count of repetitions won, lost and tied.
    """
    records = [c.record for c in candidates if c.record is not None]
    first = records[0]
    protocol = first["protocol"]
    return {
        "format": 1,
        "data": first["data"],
        "dataset": first["dataset"],
        "protocol": protocol,
        "repetitions": [row["index"] for row in first["repetitions"]],
        "larger_is_better": metric_mode(protocol["report"]) == "max",
        "runs": [
            {
                "label": candidate.label,
                "run_dir": str(candidate.path),
                **{key: record.get(key) for key in _OF_A_RUN},
            }
            for candidate, record in zip(candidates, records, strict=True)
        ],
        "differences": [
            {
                "label": candidate.label,
                "baseline": candidates[0].label,
                "keys": differing_keys(first["config"], record["config"]),
                **_difference(first, record),
            }
            for candidate, record in zip(candidates[1:], records[1:], strict=True)
        ],
    }


_OF_A_RUN = (
    "model",
    "gate",
    "control",
    "parameters",
    "hidden_channels",
    "result",
    "seconds",
    "config_hash",
    "versions",
)


def _difference(baseline: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    values, mean = baseline["result"]["values"], baseline["result"]["mean"]
    difference = _compare(baseline)(values, other["result"]["values"])
    sign = 1 if metric_mode(baseline["protocol"]["report"]) == "max" else -1
    gains = [sign * value for value in difference.values]
    return {
        **difference.to_dict(),
        "relative": difference.mean / abs(mean) if mean else None,
        "won": sum(gain > 0 for gain in gains),
        "lost": sum(gain < 0 for gain in gains),
        "tied": sum(gain == 0 for gain in gains),
    }


def _compare(record: Mapping[str, Any]) -> functools.partial[PairedDifference]:
    """Return the method that fits the repetitions: folds overlap, seeds do not."""
    if record["config"]["protocol"]["folds"] is None:
        return functools.partial(compare_seeds)
    ratio = ratio_test_to_train(record["repetitions"])
    return functools.partial(compare_folds, test_to_train=ratio)
