"""The commands as functions of Python: train, sweep, compare, and load."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unionsnn.base.errors import RequestError
from unionsnn.base.processes import torchrun_process

if TYPE_CHECKING:
    from unionsnn.runs.comparison import Comparison
    from unionsnn.runs.model import Model
    from unionsnn.search.record import StudyRecord
    from unionsnn.training.records import Result


def train(
    overrides: str | Sequence[str] = (),
    *,
    config_dir: str | Path | None = None,
    progress: bool = True,
) -> Result:
    """Train one experiment under its protocol, as ``unionsnn train``; finished work is read.

    Args:
        overrides: What is typed after the command, such as ["data=mutag", "model=gin"], or one
            string of it. Of a key that is given twice the last counts.
        config_dir: A folder of your own configuration.
        progress: Whether to show progress on stderr, as ``trainer.progress`` says.

    Returns:
        The merged record; its `folder` is the run folder, and `to_frame` has its repetitions.

    Raises:
        RequestError: if the request is wrong; says what to type.
        Exception: the first repetition's error, if none is finished; otherwise failures are part of
            the record, under ``failed``.
    """
    _refuse_torchrun("train")
    from unionsnn.base.display import display
    from unionsnn.config.compose import compose_config
    from unionsnn.config.identity import run_folder
    from unionsnn.runs.experiment import run_experiment

    config = compose_config(_words(overrides), config_dir)
    if not progress:
        config = config.replace({"trainer.progress": "none"})
    with display(config.trainer.progress) as report:
        record = run_experiment(config, report)
    # Only torchrun's other processes get none.
    assert record is not None
    return replace(record, folder=run_folder(config).absolute())


def compare(
    configurations: Sequence[str | Path | Sequence[str] | Result],
    common: str | Sequence[str] = (),
    *,
    config_dir: str | Path | None = None,
    progress: bool = True,
) -> Comparison:
    """Compare configurations on the same folds and seeds, as ``unionsnn compare``.

    Args:
        configurations: Two or more, the first is what the others are compared with: the overrides
            of each, a run folder, or a `Result` of `train`.
        common: Overrides for all that are trained.
        config_dir: A folder of your own configuration.
        progress: Whether to show progress on stderr.

    Raises:
        RequestError: if there are fewer than two, or they cannot be compared; says why.
    """
    _refuse_torchrun("compare")
    import torch

    from unionsnn.base.display import display
    from unionsnn.config.compose import compose_config
    from unionsnn.runs.comparison import read_candidates, refuse_incomparable, run_comparison
    from unionsnn.training.records import Result

    words = []
    for each in configurations:
        if isinstance(each, Result):
            each = _folder(each)
        words.append(str(each) if isinstance(each, str | Path) else shlex.join(each))
    given = _words(common)
    candidates = read_candidates(words, given, config_dir)
    refuse_incomparable(candidates)
    paths = [word for word in given if word.startswith("paths.")]
    config = next((c.config for c in candidates if c.config), None) or compose_config(paths)
    kind = config.trainer.progress
    if not progress:
        candidates, kind = [each.silent() for each in candidates], "none"
    with torch.random.fork_rng(devices=[]), display(kind) as report:
        return run_comparison(candidates, config.paths.output, report)


def sweep(
    study: str | Path,
    overrides: str | Sequence[str] = (),
    *,
    workers: int = 1,
    trials: int | None = None,
    name: str | None = None,
    storage: str | None = None,
    extend: bool = False,
    retry: bool = False,
    nested: bool = False,
    trials_only: bool = False,
    config_dir: str | Path | None = None,
    progress: bool = True,
) -> StudyRecord:
    """Search hyper-parameters, then train and test the best point once, as ``unionsnn sweep``.

    Args:
        study: A shipped study, such as tu_tpe, or a YAML file.
        overrides: As for `train`; one of a key of the space replaces its values.
        workers: Number of processes.
        trials: Number of trials, instead of the file's.
        name: Name of the study.
        storage: Address of the storage, sqlite:///FILE or postgresql+psycopg://...
        extend: Whether to continue although the study has changed.
        retry: Whether to try lost trials again.
        nested: Whether to select a point for each outer fold.
        trials_only: Whether to leave the final run to another call.
        config_dir: A folder of your own configuration.
        progress: Whether to show progress on stderr.

    Returns:
        The record; `final` is the `Result` of the chosen point, and `to_frame` has the trials.

    Raises:
        RequestError: if the study or an override is wrong; says what to type.
        RepetitionFailedError: if no trial finished.
    """
    _refuse_torchrun("sweep")
    import torch

    from unionsnn.base.display import display
    from unionsnn.reports.views.study import Trials
    from unionsnn.search.driver import run_study
    from unionsnn.search.study import make_study

    request = make_study(
        str(study),
        _words(overrides),
        name=name,
        trials=trials,
        storage=storage,
        config_dir=None if config_dir is None else str(config_dir),
    )
    kind = request.base.trainer.progress if progress else "none"
    key, direction = request.file.objectives[0], request.directions[0]
    with torch.random.fork_rng(devices=[]), display(kind) as report:
        watch = None if report is None else Trials(report, key, direction)
        return run_study(
            request,
            watch,
            report,
            workers=workers,
            extend=extend,
            trials_only=trials_only,
            nested=nested,
            retry=retry,
        )


def load(
    run: str | Path | Result,
    repetition: int | None = None,
    *,
    trust: bool | Collection[str] = False,
    device: str = "cpu",
) -> Model:
    """Load the trained networks of a run, to predict and embed graphs of PyG.

    Args:
        run: A run folder, one of its checkpoints, or the `Result` of `train`.
        repetition: The number of a repetition; None for all, whose mean is predicted.
        trust: Whether a network may be a class from outside of this package, or the dotted paths of
            the classes that it may be.
        device: Where to compute: auto, cpu, cuda or cuda:N.

    Raises:
        RequestError: if there are no weights, a class is not trusted, or there is no such device.
        DataError: if a checkpoint is damaged.
    """
    from unionsnn.runs.model import Model
    from unionsnn.training.records import Result

    if isinstance(run, Result):
        run = _folder(run)
    return Model.of(run, repetition, trust=trust, device=device)


def _folder(result: Result) -> Path:
    if result.folder is None:
        raise RequestError(
            "A record that was not returned by unionsnn.train has no folder: give the run folder "
            "itself.",
            code="compare.folder",
        )
    return result.folder


def _words(overrides: str | Sequence[str]) -> list[str]:
    return shlex.split(overrides) if isinstance(overrides, str) else list(overrides)


def _refuse_torchrun(name: str) -> None:
    if torchrun_process() is not None:
        raise RequestError(
            f"unionsnn.{name} runs as one process, but torchrun started several: type torchrun ... "
            "unionsnn train, or call it without torchrun.",
            code="torchrun.one_process",
        )
