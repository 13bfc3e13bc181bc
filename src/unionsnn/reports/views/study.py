"""A study for the terminal: progress, trials, selection, plan."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unionsnn.base.words import duration_text
from unionsnn.reports.formatting import COMPILING, interval_text, metric_text, spread_text
from unionsnn.reports.table import Mark, Table, html_page, numbers, words
from unionsnn.reports.views.results import summary_line

if TYPE_CHECKING:
    from unionsnn.base.display import Display
    from unionsnn.search.queue import Trial
    from unionsnn.search.record import StudyRecord


_DONE = ("finished", "pruned", "failed", "lost")


def trials_table(record: StudyRecord) -> Table:
    """Return all trials of a study, with the best finished one marked."""
    study = record.study
    keys, objectives = [p.key for p in study.space], study.file.objectives
    sign = 1.0 if study.directions[0] == "minimize" else -1.0

    def order(trial: Trial) -> tuple[Any, ...]:
        """Return a sort key: best first, unfinished trials last in planned order."""
        return (trial.values is None, sign * trial.values[0] if trial.values else 0.0, trial.index)

    rows, marks = [], dict[tuple[int, int], Mark]()
    for i, trial in enumerate(sorted(record.trials, key=order)):
        values = trial.values or [None] * len(objectives)
        if trial.index == record.best.index:
            marks[i, 3 + len(keys)] = "best"
        rows.append(
            [
                str(trial.index),
                trial.state,
                *(parameter_text(trial.parameters.get(key)) for key in keys),
                trial.reason or "",
                *(value_text(key, value) for key, value in zip(objectives, values, strict=True)),
                len(trial.repetitions),
                trial.seconds,
            ]
        )
    columns = [
        *words("#", "state", *keys, "reason"),
        *numbers(*objectives, "repetitions"),
        *numbers("time", form=duration_text),
    ]
    title = f"{study.name}: {len(rows)} trials"
    spare = ["time", "repetitions", *reversed(keys), "reason"]
    return Table(title, columns, rows, notes(record), marks, spare=spare)


def notes(record: StudyRecord) -> list[str]:
    """Return the notes below the table: counts, sampler, pruner and the selection rule."""
    file = record.study.file
    states = {s: sum(t.state == s for t in record.trials) for s in _DONE}
    lines = [
        ", ".join(f"{count} {state}" for state, count in states.items() if count),
        f"repetitions trained: {record.repetitions_trained} of {record.repetitions_at_most}",
        f"sampler {_method(file.sampler.model_dump())}; pruner {_method(file.pruner.model_dump())}",
        f"chosen: trial {record.best.index}, {record.rule}; trials never see the test part",
    ]
    if record.front:
        lines.append(
            f"no trial is better in both objectives than {', '.join(map(str, record.front))}"
        )
    return lines


def _method(section: Mapping[str, Any]) -> str:
    options = [f"{k}={v}" for k, v in section.items() if k != "name"]
    return "none" if section["name"] == "none" else " ".join([section["name"], *options])


def parameter_text(value: Any) -> str:
    """Format the value of a parameter."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def value_text(key: str, value: float | None) -> str:
    """Format the value of an objective."""
    if key == "parameters":
        return "–" if value is None else f"{value:,.0f}"
    return metric_text(key, value)


def final_lines(record: StudyRecord) -> list[str]:
    """Return the result of the chosen point."""
    lines, nested, folder = [], record.nested, str(record.study.folder)
    if record.final is not None:
        lines = [
            "",
            *summary_line(record.final).splitlines(),
            f"configuration {record.final.config_hash}: "
            + " ".join(f"{k}={v}" for k, v in record.best.parameters.items()),
        ]
    if nested is not None:
        result, report = nested.result, nested.report
        lines += [
            "",
            f"{report}: {spread_text(report, result.mean, result.std)}, 95 % interval "
            f"{interval_text(report, result.interval)} ({result.method})",
            f"selection: {nested.selection}",
            "trials by fold: " + ", ".join(f"{f.fold + 1}: {f.trial}" for f in nested.folds),
        ]
    if record.final_elsewhere is not None:
        lines += [f"final run: {record.final_elsewhere}"]
    lines += [
        f"to repeat it: unionsnn train --config-dir {shlex.quote(folder)} experiment=best",
        f"record: {folder}/study.json",
    ]
    return lines


def plan_table(plan: Mapping[str, Any]) -> Table:
    """Return the plan of a study."""
    notes = [
        f"objective: {', '.join(plan['objectives'])}, over {plan['repetitions']} repetition(s) per "
        "trial",
        f"sampler {plan['sampler']}, pruner {plan['pruner']}",
        f"storage: {plan['storage']}",
        f"at most {duration_text(plan['seconds_per_trial'])} per trial and "
        f"{duration_text(plan['seconds_at_most'])} in all with one worker on this machine's CPU, "
        "without pruning or early stopping; measured at the first point of the space",
    ]
    if plan["compiles"]:
        notes.append(f"compiling comes on top: {COMPILING}")
    title = f"{plan['name']}: {plan['trials']} trials"
    return Table(title, words("key", "values"), list(plan["space"].items()), notes)


def study_page(record: StudyRecord, figures: Sequence[tuple[str, str]], script: str) -> str:
    """Return a page that opens offline: the result, the figures, all trials.

    Args:
        record: The study's record.
        figures: Caption and HTML of each figure; a caption without HTML says what is left out.
        script: The script that the figures share.
    """
    return html_page(
        "study.html.j2",
        title=f"unionsnn: study {record.study.name}",
        lines=[line for line in final_lines(record) if line],
        table=trials_table(record),
        space={p.key: p.text for p in record.study.space},
        figures=figures,
        script=script,
    )


class Trials:
    """Shows the state of all trials: a row of a display, and elsewhere a line for each that ends.

    Args:
        shown: The display.
        key: Name of the first objective.
        direction: ``maximize`` or ``minimize``.
    """

    def __init__(self, shown: Display, key: str, direction: str) -> None:
        self.shown = shown
        self.key = key
        self.better: Callable[..., float] = min if direction == "minimize" else max
        self._told: set[int] | None = None

    def best(self, cells: Sequence[Trial]) -> str:
        """Return the best value so far."""
        values = [cell.values[0] for cell in cells if cell.values is not None]
        return value_text(self.key, self.better(values)) if values else "–"

    def __call__(self, cells: Sequence[Trial]) -> None:
        """Show the trials; once all are done, the row makes room for the final training."""
        count = {state: sum(cell.state == state for cell in cells) for state in (*_DONE, "running")}
        done = sum(count[state] for state in _DONE)
        running = [
            f"{cell.index} (repetition {len(cell.repetitions) + 1})"
            for cell in cells
            if cell.state == "running"
        ]
        figures = {f"best {self.key}": self.best(cells)}
        figures |= {state: str(count[state]) for state in _DONE[1:] if count[state]}
        if running:
            figures["running"] = ", ".join(running)
        self.shown.show("trials", "trials done", done, len(cells), figures=figures)
        if done == len(cells):
            self.shown.end("trials")
        if not self.shown.is_live:
            self._print(cells)

    def _print(self, cells: Sequence[Trial]) -> None:
        """Print the trials that ended since the last call."""
        ended = {cell.index: cell for cell in cells if cell.state in _DONE}
        if self._told is None:
            if ended:
                print(f"{len(ended)} of {len(cells)} trials are already done", file=sys.stderr)
            self._told = set(ended)
        for index in ended.keys() - self._told:
            cell = ended[index]
            parts = [f"trial {index} {cell.state}"]
            if cell.values is not None:
                parts.append(f"{self.key} {value_text(self.key, cell.values[0])}")
            elif cell.reason:
                parts.append(f"({cell.reason})")
            parts += [f"{k}={parameter_text(v)}" for k, v in cell.parameters.items()]
            counted = f"{len(ended)} of {len(cells)}, best {self.best(cells)}"
            print(f"{' '.join(parts)}; {counted}", file=sys.stderr, flush=True)
        self._told |= ended.keys()
