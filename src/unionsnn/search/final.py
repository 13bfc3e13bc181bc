"""The final run: the chosen point, or that of each fold, is trained and tested once."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.files import atomic_write, write_json
from unionsnn.config.compose import compose_config, first_groups, group_choices, is_shipped
from unionsnn.config.grid import flatten
from unionsnn.config.identity import config_hash, determining, differing_keys
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import Progress
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.records import RunFolder
from unionsnn.runs.selection import best
from unionsnn.search.study import Study
from unionsnn.search.trial import Trial
from unionsnn.training.protocols import summarize
from unionsnn.training.records import Repetition

SELECTIONS: Mapping[str, str] = {
    "cross_validation": "shared folds",
    "holdout": "shared split",
    "repeated_seeds": "shared split",
}
"""How a point is chosen under each protocol.

`shared folds`: by the mean over the inner validation parts of the same folds that are then tested.
A graph that is tested in one fold validates or trains in the others, so the result is better than
that of a search which never saw it. `shared split`: by the validation part; the test part is
untouched.
"""


FOLDWISE = ("grid", "random")
"""Samplers whose points do not depend on results."""


def selection(study: Study) -> str:
    """Return the name of the selection scheme."""
    return SELECTIONS[study.base.protocol.name]


def rule(study: Study, trials: Sequence[Trial]) -> str:
    """Return the selection rule, as printed with each result."""
    key = study.file.objectives[0]
    better = "smallest" if study.directions[0] == "minimize" else "largest"
    finished = sum(trial.state == "finished" for trial in trials)
    return (
        f"configuration with the {better} mean {key} of {finished} finished trials of the study "
        f"{study.name} (selection: {selection(study)})"
    )


def train_best(
    study: Study,
    chosen: Trial,
    trials: Sequence[Trial],
    workers: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train the best point over the protocol's repetitions, test it, and label the record.

    Raises:
        FolderInUseError: if another command of the same study is doing so.
    """
    config = study.final_config(chosen.parameters).replace({"protocol.workers": workers})
    if progress is None:
        config = config.replace({"trainer.progress": "none"})
    record = run_experiment(config, progress)
    return labelled(record, RunFolder.of(config), study, rule(study, trials), chosen)


def labelled(
    record: dict[str, Any], folder: RunFolder[Config], study: Study, words: str, chosen: Trial
) -> dict[str, Any]:
    """Add to a record how its configuration was chosen."""
    record["protocol"]["selection"] += f"; {words}"
    record["study"] = {
        "name": study.name,
        "selection": selection(study),
        "objective": study.file.objectives,
        "values": list(chosen.values or ()),
        "trial": chosen.index,
        "parameters": chosen.parameters,
    }
    write_json(folder.results_path, record)
    return record


def nested_faults(study: Study) -> Iterator[Fault]:
    """Yield reasons why a point cannot be selected for each outer fold alone."""
    file = study.file
    if study.base.protocol.name != "cross_validation":
        yield Fault(
            "--nested selects for each outer fold; type protocol=cross_validation.", "study.nested"
        )
    if file.sampler.name not in FOLDWISE:
        yield Fault(
            f"--nested: sampler {file.sampler.name} proposes points by the mean over all folds, "
            f"and what is tested in one fold validates in others; choose {' or '.join(FOLDWISE)}.",
            "study.nested",
        )
    if file.pruner.name != "none":
        yield Fault(
            "--nested: a pruned trial lacks folds; type pruner: {name: none}.", "study.nested"
        )
    if len(file.objectives) > 1:
        yield Fault("--nested needs a single objective; name one.", "study.nested")
    if file.trial:
        yield Fault(
            "--nested: trials and the final run must be the same; leave out trial.", "study.nested"
        )


def choose_by_fold(study: Study, trials: Sequence[Trial]) -> dict[int, Trial]:
    """Return the finished trial with the best value on each fold's inner validation part.

    Ties go to the first. A fold's test part does not affect the choice.
    """
    finished = [trial for trial in trials if trial.values is not None]
    chosen: dict[int, Trial] = {}
    for fold in range(study.base.protocol.num_repetitions):
        values = [[trial.repetitions[fold]] for trial in finished]
        trial = best(finished, values, study.file.objectives)
        assert trial is not None
        chosen[fold] = trial
    return chosen


def train_nested(
    study: Study, trials: Sequence[Trial], workers: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Train each outer fold with the point chosen for it, and test it once."""
    chosen = choose_by_fold(study, trials)
    repetitions: dict[int, Repetition] = {}
    for index in dict.fromkeys(trial.index for trial in chosen.values()):
        folds = [fold for fold, trial in chosen.items() if trial.index == index]
        config = study.final_config(chosen[folds[0]].parameters, "nested")
        config = config.replace({"protocol.only": folds, "protocol.workers": workers})
        if progress is None:
            config = config.replace({"trainer.progress": "none"})
        record = run_experiment(config, progress)
        rows = [Repetition.from_json(row) for row in record["repetitions"]]
        repetitions |= {row.index: row for row in rows if row.index in folds}
    protocol = study.base.protocol
    trained = [repetitions[fold] for fold in sorted(repetitions)]
    return {
        "selection": f"nested: best {study.file.objectives[0]} of the inner validation part of "
        "each outer fold",
        "report": protocol.report,
        "result": summarize(protocol, trained).to_dict(),
        "folds": [
            {
                "fold": fold,
                "trial": trial.index,
                "parameters": trial.parameters,
                "metrics": repetitions[fold].metrics,
            }
            for fold, trial in chosen.items()
        ],
    }


def write_best(study: Study, chosen: Trial) -> Path:
    """Write the best point as an experiment: train --config-dir FOLDER experiment=best runs it.

    Raises:
        RequestError: if it does not compose to the configuration that was trained.
    """
    config = study.final_config(chosen.parameters)
    words = [*study.overrides, *study.words(chosen.parameters)]
    choices = group_choices(words, study.config_dir)
    # The folder of the study does not have what only the user's own folder has.
    own = {group for group, option in choices.items() if not is_shipped(group, option)}
    if own:
        # Nor is there a gate to be overridden without the model that brings it.
        own |= choices.keys() - first_groups()
    shipped = {group: option for group, option in choices.items() if group not in own}
    content = config.to_dict()
    wanted = determining(config) | {group: content[group] for group in own & content.keys()}
    try:
        before = {} if own else dict(flatten(determining(compose_config(_words(shipped)))))
    except RequestError:
        # An option that leaves a key to the user, such as data=tu: all keys are written.
        before = {}
    values: dict[str, Any] = {}
    for key, value in flatten(wanted):
        if key not in before or before[key] != value:
            section = values
            *parents, last = key.split(".")
            for part in parents:
                section = section.setdefault(part, {})
            section[last] = value
    # No option: of the default one, keys would be left that the user's own lacks.
    nothing = dict.fromkeys(group for group in choices if group in own & first_groups())
    defaults = [{f"override /{k}": v} for k, v in (shipped | nothing).items()]
    path = study.folder / "experiment" / "best.yaml"
    text = (
        "# @package _global_\n"
        f"# Trial {chosen.index} of the study {study.name}: "
        f"{', '.join(study.file.objectives)} "
        f"{', '.join(f'{v:.6g}' for v in chosen.values or ())}.\n"
        f"# unionsnn train --config-dir {shlex.quote(str(study.folder))} experiment=best\n"
        f"{yaml.safe_dump({'defaults': defaults, **values}, sort_keys=False)}"
    )
    atomic_write(path, lambda file: file.write(text.encode()))
    again = compose_config(["experiment=best"], study.folder)
    if config_hash(again) != config_hash(config):
        raise RequestError(
            f"{path} does not compose to the configuration of the best trial; it differs in "
            f"{', '.join(differing_keys(again, config))}.",
            code="study.best_file",
        )
    return path


def _words(choices: Mapping[str, str]) -> list[str]:
    return [f"{group}={option}" for group, option in choices.items()]
