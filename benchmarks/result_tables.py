"""The tables of the result pages, each a function of the records."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from leaderboard import CONTROL_WORDS, devices, pairs_table, revisions
from record_book import (
    NOT_RUN,
    Asked,
    RecordBook,
    commands_text,
    difference_cell,
    hours_text,
    marked_cell,
    parameters_text,
    protocol_text,
    verdict,
)
from runs import (
    COMMANDS,
    CONTROLLED,
    CONTROLS,
    GOALS,
    HELPS,
    PAIRED,
    TRIALS,
    WANTED,
    helps_words,
)
from unionsnn.reports.claims import claims_report, from_records
from unionsnn.reports.formatting import interval_text, spread_text
from unionsnn.reports.paper import paper_table
from unionsnn.reports.reproduction import Cell, Outcome
from unionsnn.reports.table import Mark, Table, markdown, numbers, words
from unionsnn.reports.views.reproduction import reproduction_report
from unionsnn.training.records import Result


def compared(book: RecordBook, *names: str, against: str | None = None, paired: bool = True) -> str:
    """Return the configurations of commands, each with its difference to one of its command.

    Args:
        book: The records.
        names: Names of `COMMANDS`.
        against: What each is compared with, in the command's words; None is the command's first.
        paired: Whether to show differences.
    """
    done = book.finished(*names)
    if not done:
        return f"Not run:\n\n{commands_text(*names)}"
    baselines = [
        book.commands[name][0] if against is None else book.asked(name, against) for name in names
    ]
    texts = {each.text for each in baselines}
    one = texts.pop() if len(texts) == 1 else "the first of its comparison"
    rows: list[list[Any]] = []
    marks: dict[tuple[int, int], Mark] = {}
    shows: set[str] = set()
    for name, baseline in zip(names, baselines, strict=True):
        for each in book.commands[name]:
            row, shown = _row(book, baseline, each, paired=paired)
            shows.add(shown)
            if shown == "better":
                marks[len(rows), 2 if len(names) == 1 else 3] = "best"
            rows.append(row if len(names) == 1 else [name, *row])
    columns = [
        *([] if len(names) == 1 else words("comparison")),
        *words("configuration"),
        *numbers("parameters", "mean ± std", "95 % interval", form=str),
        *(numbers(f"against {one}, paired", form=str) if paired else ()),
        *numbers("n", form=str),
        *numbers("hours", form="{:.2f}".format),
        *words("revision"),
    ]
    notes = [
        *_protocols(done),
        f"n: number of repetitions; hours: of training by the clock, on {devices(done)}",
    ]
    for name, baseline in zip(names, baselines, strict=True):
        notes += _controls(book, name, baseline)
    if marks:
        notes.append(f"bold: better than {one}, 0 outside the interval")
    if "worse" in shows:
        notes.append(f"worse: than {one}, 0 outside the interval")
    return f"{markdown(Table('', columns, rows, notes, marks))}\n{commands_text(*names)}"


def _row(book: RecordBook, baseline: Asked, each: Asked, *, paired: bool) -> tuple[list[Any], str]:
    """Return a row, and whether it shows a configuration better or worse than the baseline."""
    record = book.record(each)
    if record is None:
        return [each.text, None, NOT_RUN, *[None] * (5 if paired else 4)], ""
    report, result = record.protocol.report, record.summary
    difference = book.difference(baseline, each) if paired else None
    shown = "" if difference is None else verdict(report, difference)
    row = [
        each.text,
        parameters_text([record]),
        spread_text(report, result.mean, result.std),
        interval_text(report, result.interval),
        *([difference and marked_cell(report, difference)] if paired else ()),
        len(record.repetitions),
        record.seconds / 3600,
        revisions([record]),
    ]
    return row, shown


def _protocols(records: Sequence[Result]) -> Iterator[str]:
    """Say once what results share: metric, protocol, split, seed."""
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault(protocol_text(record), []).append(record.data)
    for text, data in found.items():
        yield f"{', '.join(dict.fromkeys(data))}: {text}"


def _controls(book: RecordBook, name: str, plain: Asked) -> Iterator[str]:
    """Say what controls keep of a gain, and by how much the real values are ahead of them."""
    for each in book.commands[name]:
        words_, _, control = each.words.partition(" coefficient.control=")
        if not control:
            continue
        real = book.asked(name, words_)
        kept, ahead = book.kept(plain, real, each), book.difference(each, real)
        if kept is None or ahead is None:
            continue
        text = str(kept)
        if kept.shown == "better":
            low, high = (100 * end(kept.by_repetition) for end in (min, max))
            text += f", by repetition {low:.0f} to {high:.0f} %"
        yield (
            f"{real.text}, {CONTROL_WORDS[control]}: gain kept: {text}; real against it "
            f"{difference_cell(book.report(each), ahead)}"
        )


def trials(book: RecordBook) -> str:
    """Return the validation errors of trials, and that of the settings taken at full length."""
    taken = "zinc10k 500,000"
    shown = [(f"taken: seed 0 of {taken}", book.asked(taken, WANTED))]
    shown += [(e.words.removeprefix(WANTED).strip() or "none", e) for e in book.commands[TRIALS]]
    trained, left = [], []
    for keys, each in shown:
        if (record := book.record(each)) is None:
            left.append([keys, NOT_RUN, *[None] * 4])
            continue
        first = record.repetitions[0]
        error = first.metrics[record.protocol.report.replace("test_", "val_")]
        cells = [f"{error:.4f}", parameters_text([record]), first.epochs, first.seconds / 3600]
        trained.append([keys, *cells, revisions([record])])
    rows = [*sorted(trained, key=lambda row: int(row[3])), *left]
    columns = [
        *words("changed keys"),
        *numbers("validation error", "parameters", "epochs", form=str),
        *numbers("hours", form="{:.2f}".format),
        *words("revision"),
    ]
    done = book.finished(TRIALS)
    notes = ["validation error: of the epoch that is tested; test errors are not shown"]
    notes += [f"{each}; the row taken: of its first seed" for each in _protocols(done)]
    notes += [f"hours: by the clock, on {devices(done)}"] if done else []
    return f"{markdown(Table('', columns, rows, notes))}\n{commands_text(TRIALS)}"


def goals(book: RecordBook) -> str:
    """Return whether the errors wanted on ZINC are reached."""
    rows: list[list[Any]] = []
    for name, (wanted, goal) in GOALS.items():
        each = book.asked(name, WANTED)
        record = book.record(each)
        row: list[Any] = [name, each.text, wanted, goal]
        if record is None:
            rows.append([*row, NOT_RUN, None, None, None])
            continue
        result = record.summary
        reached = (
            "reached" if result.mean <= most else f"missed by {result.mean - most:.4f}"
            for most in (wanted, goal)
        )
        report = record.protocol.report
        error = spread_text(report, result.mean, result.std)
        rows.append([*row, error, interval_text(report, result.interval), *reached])
    columns = [
        *words("comparison", "configuration"),
        *numbers("wanted, at most", "goal, at most", form="{:.3f}".format),
        *numbers("test error", "95 % interval", form=str),
        *words("wanted error", "goal"),
    ]
    notes = [
        "judged by the mean over seeds; where a bound lies inside the interval, other seeds could "
        "fall on its other side"
    ]
    return markdown(Table("", columns, rows, notes))


def helps(book: RecordBook, name: str) -> str:
    """Return what each feature of edges gains over none, and what its controls do.

    Args:
        book: The records.
        name: A name of `COMMANDS` made by `helps_words`.

    Raises:
        RequestError: The command lacks a row of the table.
    """
    gin = book.asked(name, "model=gin")
    marks: dict[tuple[int, int], Mark] = {}

    def cell(words_: str, place: tuple[int, int]) -> str:
        each = book.asked(name, words_)
        record = book.record(each)
        if record is None:
            return NOT_RUN
        report, result = record.protocol.report, record.summary
        text = spread_text(report, result.mean, result.std)
        if (difference := book.difference(gin, each)) is None:
            return text
        if verdict(report, difference) == "better":
            marks[place] = "best"
        return f"{text}; {marked_cell(report, difference)}"

    def parameters(words_: str) -> str | None:
        record = book.record(book.asked(name, words_))
        return None if record is None else parameters_text([record])

    plain = "GIN, nothing of the structure"
    rows = [[plain, parameters(gin.words), cell(gin.words, (0, 2)), None, None]]
    for i, feature in enumerate(HELPS, 1):
        controls = CONTROLS if feature in CONTROLLED else ()
        shuffled = [cell(helps_words(feature, c), (i, j)) for j, c in enumerate(controls, 3)]
        own = helps_words(feature)
        rows.append([feature, parameters(own), cell(own, (i, 2)), *(shuffled or (None, None))])
    columns = [
        *words("an edge tells"),
        *numbers("parameters", "real", "shuffled within each graph", "shuffled over all graphs"),
    ]
    done = book.finished(name)
    notes = [*_protocols(done)]
    if done:
        notes.append(
            f"{len(done)} of {len(book.commands[name])} runs; {hours_text(done)}; revision "
            f"{revisions(done)}"
        )
        notes.append(
            "after the semicolon: difference to GIN, paired, with 95 % interval; bold: better, "
            "worse: worse than GIN, 0 is outside it"
        )
    notes.append(f"–: not asked: only {', '.join(CONTROLLED)} are shuffled")
    table = markdown(Table("", columns, rows, notes, marks))
    return f"{table}\n{_contrasts(book, name)}{commands_text(name)}"


def _contrasts(book: RecordBook, name: str) -> str:
    """Return the features against each other, and the real ones against their controls."""
    pairs = [(f"{a} against {b}", helps_words(b), helps_words(a)) for a, b in PAIRED]
    for feature in CONTROLLED:
        for control in CONTROLS:
            against = f"{feature}: real against {CONTROL_WORDS[control.partition('=')[2]]}"
            pairs.append((against, helps_words(feature, control), helps_words(feature)))
    rows = []
    for text, *both in pairs:
        first, other = (book.asked(name, each) for each in both)
        if (difference := book.difference(first, other)) is None:
            continue
        report = book.report(first)
        if difference.paired.interval is not None:
            shown = verdict(report, difference) or "no difference shown"
        else:
            differs = difference.won or difference.lost
            shown = "no interval" if differs else "equal in each repetition"
        rows.append([text, difference_cell(report, difference), shown])
    if not rows:
        return ""
    columns = [*words("paired"), *numbers("difference, 95 % interval"), *words("it is")]
    notes = [
        "no difference shown: 0 is inside the interval, whose ends say what could have been "
        "missed; intervals are not corrected for their number: where nothing differs, one in "
        "twenty excludes 0 by chance"
    ]
    return f"{markdown(Table('', columns, rows, notes))}\n"


def paper(book: RecordBook) -> str:
    """Return the paper's tables next to ours, with ≠ where its value is outside our interval.

    Of tables of which nothing is run, only the command.
    """
    parts, waiting = [], []
    for name, command in COMMANDS.items():
        if not command.startswith("reproduce"):
            continue
        table = paper_table(shlex.split(command)[1])
        values = {(v.model, v.dataset): v for v in table.values}
        by_set: dict[str, dict[str, Asked]] = {}
        for each in book.commands[name]:
            if each.row is not None:
                model, data = each.row
                by_set.setdefault(data, {})[model] = each
        left = [data for data, rows in by_set.items() if not any(map(book.record, rows.values()))]
        if len(left) == len(by_set):
            waiting.append(name)
            continue
        for data, rows in by_set.items():
            if data in left:
                continue
            done = [record for record in map(book.record, rows.values()) if record is not None]
            facts = [f"{hours_text(done)}; revision {revisions(done)}; –: not run"]
            if table.varies == "coefficient":
                # The paper's own coefficient is the last row.
                *others, (own, last) = rows.items()
                facts += [
                    f"{own} against {other}, paired: {difference_cell(book.report(each), found)}"
                    for other, each in others
                    if (found := book.difference(each, last)) is not None
                ]
            outcomes = [
                Outcome(Cell(values[model, data], None, differs=each.differs), book.record(each))
                for model, each in rows.items()
            ]
            (made,) = reproduction_report(outcomes).tables
            differs = dict.fromkeys(text for each in rows.values() for text in each.differs)
            title = "; ".join([made.title, *differs])
            parts.append(markdown(replace(made, title=title, notes=[*made.notes, *facts])))
        if left:
            parts.append(f"Nothing is run on {', '.join(left)}.\n")
        parts.append(commands_text(name))
    if waiting:
        parts.append(f"Not run:\n\n{commands_text(*waiting)}")
    return "\n".join(parts)


def claims(book: RecordBook) -> str:
    """Return each claim of the paper: holds, fails or not run."""
    (table,) = claims_report(from_records(book.records)).tables
    shell = "```sh\nunionsnn report --claims benchmarks/records\n```\n"
    return f"{table.title}.\n\n{markdown(replace(table, title=''))}\n{shell}"


def pairs(book: RecordBook) -> str:
    """Return the pairs of BREC that networks tell apart."""
    table = pairs_table(book.folder)
    return NOT_RUN if table is None else markdown(replace(table, title=""))
