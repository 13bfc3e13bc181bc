"""After the trials: the chosen point, trained over all repetitions and tested once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from unionsnn.base.errors import RequestError
from unionsnn.base.files import atomic_write, write_json
from unionsnn.config.compose import compose_config, first_groups, group_choices, is_shipped
from unionsnn.config.grid import flatten
from unionsnn.config.identity import config_hash, determining, differing_keys
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import Progress
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.records import RunFolder
from unionsnn.search.study import Study
from unionsnn.search.trial import Trial

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


def selection(study: Study) -> str:
    """Name of the way in which the point is chosen."""
    return SELECTIONS[study.base.protocol.name]


def rule(study: Study, trials: Sequence[Trial]) -> str:
    """Say what the point was chosen by, as it is printed beside each number."""
    key = study.file.objectives[0]
    better = "smallest" if study.directions[0] == "minimize" else "largest"
    finished = sum(trial.state == "finished" for trial in trials)
    return (
        f"configuration with the {better} mean {key} of {finished} finished trials of the study "
        f"{study.name} (selection: {selection(study)})"
    )


def train_best(
    study: Study,
    best: Trial,
    trials: Sequence[Trial],
    workers: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train the best point over the protocol's repetitions, test it, and label the record.

    Raises:
        FolderInUseError: if another command of the same study is doing so.
    """
    config = study.final_config(best.parameters).replace({"protocol.workers": workers})
    if progress is None:
        config = config.replace({"trainer.progress": "none"})
    record = run_experiment(config, progress)
    return labelled(record, RunFolder.of(config), study, rule(study, trials), best)


def labelled(
    record: dict[str, Any], folder: RunFolder[Config], study: Study, words: str, best: Trial
) -> dict[str, Any]:
    """Write into a record how its configuration was chosen."""
    record["protocol"]["selection"] += f"; {words}"
    record["study"] = {
        "name": study.name,
        "selection": selection(study),
        "objective": study.file.objectives,
        "values": list(best.values or ()),
        "trial": best.index,
        "parameters": best.parameters,
    }
    write_json(folder.results_path, record)
    return record


def write_best(study: Study, best: Trial) -> Path:
    """Write the best point as an experiment: train --config-dir FOLDER experiment=best runs it.

    Raises:
        RequestError: if it does not compose to the configuration that was trained.
    """
    config = study.final_config(best.parameters)
    words = [*study.overrides, *study.words(best.parameters)]
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
        f"# Trial {best.index} of the study {study.name}: "
        f"{', '.join(study.file.objectives)} {', '.join(f'{v:.6g}' for v in best.values or ())}.\n"
        f"# unionsnn train --config-dir {shlex.quote(str(study.folder))} experiment=best\n"
        f"{yaml.safe_dump({'defaults': defaults, **values}, sort_keys=False)}"
    )
    atomic_write(path, lambda file: file.write(text.encode()))
    again = compose_config(["experiment=best"], study.folder)
    if config_hash(again) != config_hash(config):
        raise RequestError(
            f"{path} does not compose to the configuration of the best trial; it differs in "
            f"{', '.join(differing_keys(again, config))}."
        )
    return path


def _words(choices: Mapping[str, str]) -> list[str]:
    return [f"{group}={option}" for group, option in choices.items()]
