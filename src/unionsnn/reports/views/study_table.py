"""Tables of a study: its trials, what was chosen, what a study would do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from unionsnn.reports.formats import Sheet, print_lines, print_sheets
from unionsnn.reports.tables import (
    format_seconds,
    format_value,
    interval_text,
    spread,
    summary_line,
)

Record = Mapping[str, Any]


def trials_sheet(record: Record) -> Sheet:
    """All trials of a study, the best finished one marked.

    Args:
        record: The study's record, study.json.
    """
    keys, objectives = list(record["space"]), record["objectives"]
    trials = sorted(record["trials"], key=_order(record))
    rows = []
    for trial in trials:
        values = trial["values"] or [None] * len(objectives)
        rows.append(
            [
                str(trial["index"]),
                trial["state"],
                *(parameter_text(trial["parameters"].get(key)) for key in keys),
                trial["reason"] or "",
                *(value_text(key, value) for key, value in zip(objectives, values, strict=True)),
                str(len(trial["repetitions"])),
                format_seconds(trial["seconds"]),
            ]
        )
    places = {trial["index"]: i for i, trial in enumerate(trials)}
    words = 3 + len(keys)
    return Sheet(
        f"{record['name']}: {len(trials)} trials",
        ["#", "state", *keys, "reason", *objectives, "repetitions", "time"],
        rows,
        words=words,
        notes=notes(record),
        marks={(places[record["best"]], words): "best"},
    )


def _order(record: Record) -> Any:
    """Sort the best first; what did not finish comes last, by its place in the plan."""
    sign = 1.0 if record["directions"][0] == "minimize" else -1.0

    def key(trial: Mapping[str, Any]) -> tuple[Any, ...]:
        values = trial["values"]
        return (values is None, sign * values[0] if values else 0.0, trial["index"])

    return key


def notes(record: Record) -> list[str]:
    """Lines below the table: counts, how the best one is chosen, and by what."""
    trials = record["trials"]
    states = {s: sum(t["state"] == s for t in trials) for s in ("finished", "pruned", "failed")}
    lines = [
        ", ".join(f"{count} {state}" for state, count in states.items() if count),
        f"repetitions trained: {record['repetitions_trained']} of {record['repetitions_at_most']}",
        f"sampler {_method(record['sampler'])}; pruner {_method(record['pruner'])}",
        f"chosen: trial {record['best']}, {record['rule']}; trials never see the test part",
    ]
    if record["front"]:
        lines.append(
            f"no trial is better in both objectives than {', '.join(map(str, record['front']))}"
        )
    return lines


def _method(section: Mapping[str, Any]) -> str:
    options = [f"{k}={v}" for k, v in section.items() if k != "name"]
    if section["name"] == "none":
        return "none"
    return " ".join([section["name"], *options])


def parameter_text(value: Any) -> str:
    """Write the value of a parameter."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def value_text(key: str, value: float | None) -> str:
    """Write the value of an objective."""
    if key == "parameters":
        return "–" if value is None else f"{value:,.0f}"
    return format_value(key, value)


def final_lines(record: Record) -> list[str]:
    """What became of the chosen point."""
    lines = []
    if "final" in record:
        final = record["final"]
        lines = [
            "",
            *summary_line(final).splitlines(),
            f"configuration {final['config_hash']}: "
            + " ".join(f"{k}={v}" for k, v in final["study"]["parameters"].items()),
        ]
    if "nested" in record:
        lines += ["", *nested_lines(record["nested"])]
    if "final_elsewhere" in record:
        lines += [f"final run: {record['final_elsewhere']}"]
    lines += [
        f"the same again: unionsnn train --config-dir {shlex.quote(record['folder'])} "
        "experiment=best",
        f"record: {record['folder']}/study.json",
    ]
    return lines


def nested_lines(nested: Mapping[str, Any]) -> list[str]:
    """The result of a choice in each outer fold."""
    result, report = nested["result"], nested["report"]
    return [
        f"{report}: {spread(report, result['mean'], result['std'])}, 95 % interval "
        f"{interval_text(report, result['interval'])} ({result['method']})",
        f"selection: {nested['selection']}",
        "trials by fold: " + ", ".join(f"{f['fold']}: {f['trial']}" for f in nested["folds"]),
    ]


def print_study(record: Record, console: Console | None = None) -> None:
    """Print the trials, and what the chosen one gave."""
    print_sheets([trials_sheet(record)], console)
    print_lines(final_lines(record), console)


def plan_sheet(plan: Mapping[str, Any]) -> Sheet:
    """What a study would try."""
    return Sheet(
        f"{plan['name']}: {plan['trials']} trials",
        ["key", "values"],
        [[key, text] for key, text in plan["space"].items()],
        words=2,
        notes=[
            f"objective: {', '.join(plan['objectives'])}, of {plan['repetitions']} repetition(s) a "
            "trial",
            f"sampler {plan['sampler']}, pruner {plan['pruner']}",
            f"storage: {plan['storage']}",
            f"at most {format_seconds(plan['seconds_per_trial'])} a trial and "
            f"{format_seconds(plan['seconds_at_most'])} in all with one worker on this machine's "
            "CPU, without pruning or early stopping; measured at the first point of the space",
        ],
    )


def print_plan(plan: Mapping[str, Any]) -> None:
    """Print what a study would do."""
    print_sheets([plan_sheet(plan)])


def trial_rows(record: Record) -> Sequence[dict[str, Any]]:
    """Trials with full numbers, a flat row each."""
    rows = []
    for trial in record["trials"]:
        values = trial["values"] or [None] * len(record["objectives"])
        rows.append(
            {
                "trial": trial["index"],
                "state": trial["state"],
                **{key: trial["parameters"].get(key) for key in record["space"]},
                **dict(zip(record["objectives"], values, strict=True)),
                "repetitions": len(trial["repetitions"]),
                "seconds": trial["seconds"],
                "reason": trial["reason"],
            }
        )
    return rows
