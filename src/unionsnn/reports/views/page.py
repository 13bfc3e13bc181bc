"""One HTML page of records that opens offline."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from unionsnn.reports.collection import StoredRecord
from unionsnn.reports.figures import records as figures
from unionsnn.reports.figures.plots import figure_bytes
from unionsnn.reports.formatting import counted
from unionsnn.reports.table import Table, html_page, numbers
from unionsnn.reports.views.records import by_dataset, labels, records_report
from unionsnn.training.records import Bins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PREDICTIONS = 6
"""Maximum number of confusion matrices or scatter plots of a data set, of the best records."""

MAX_HISTOGRAMS = 4
"""Maximum number of coefficient histograms of a data set."""


@dataclass(frozen=True)
class Picture:
    """A figure inside the page.

    Args:
        source: A data URI.
        alt: Description for readers who cannot see it.
        caption: Line below it.
    """

    source: str
    alt: str
    caption: str


@dataclass
class Section:
    """A data set of the page."""

    name: str
    table: Table
    links: dict[int, str] = field(default_factory=dict)
    figures: list[Picture] = field(default_factory=list)
    details: list[Picture] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def page(
    records: Sequence[StoredRecord],
    faults: Sequence[str] = (),
    claims: Table | None = None,
    folder: Path = Path(),
) -> str:
    """Return the page: tables and figures of each data set, self-contained.

    Args:
        records: The records.
        faults: Files that could not be read, one line each.
        claims: The table of claims, if requested.
        folder: Where the page will be; rows link to their run folders from there.
    """
    groups = list(by_dataset(records).values())
    report = records_report(records)
    sections = [
        _section(group, table, folder) for group, table in zip(groups, report.tables, strict=True)
    ]
    times = Counter(section.name for section in sections)
    for section in sections:
        if times[section.name] > 1:
            section.name = section.table.title
    return html_page(
        "page.html.j2",
        title="unionsnn: results",
        summary=f"{counted(len(records), 'experiment')} on {counted(len(sections), 'data set')}",
        sections=sections,
        pivots=report.pivots if len(sections) > 1 else [],
        claims=claims,
        faults=faults,
    )


def _section(group: Sequence[StoredRecord], table: Table, folder: Path) -> Section:
    # Figures have no room for a record's description and refer to its number in the table.
    numbered = replace(
        table,
        columns=[*numbers("#"), *table.columns],
        rows=[[number, *row] for number, row in enumerate(table.rows, 1)],
        marks={(i, j + 1): mark for (i, j), mark in table.marks.items()},
    )
    named = [
        (each, f"{i} {label}")
        for i, (each, label) in enumerate(zip(group, labels(group), strict=True), 1)
    ]
    links = {
        # A relative address, so that a folder with runs and page can be moved.
        place: quote(f"{Path(os.path.relpath(each.folder, folder)).as_posix()}/")
        for place, each in enumerate(group)
    }
    section = Section(group[0].record.data, numbered, links)
    # Values of one metric share an axis.
    by_metric: dict[str, list[tuple[StoredRecord, str]]] = {}
    for each, name in named:
        by_metric.setdefault(each.record.protocol.report, []).append((each, name))
    for report, alike in by_metric.items():
        # A figure of single values would repeat the table.
        if max(len(each.record.summary.values) for each, _ in alike) < 2:
            section.left_out.append(f"no figure of {report}: one repetition each")
            continue
        section.figures.append(
            _picture(
                figures.draw_boxes([each for each, _ in alike], [name for _, name in alike]),
                f"Values of {report} for {len(alike)} experiments, numbered as in the table",
                f"{report} of each repetition (points), with quartiles from {figures.FEWEST} on",
            )
        )
    with_predictions = 0
    # Each distribution of coefficients is drawn once, whichever records share it.
    sharing: list[tuple[dict[str, Bins], list[str]]] = []
    without_histogram = 0
    for each, name in named:
        curves = each.curves()
        if any(curves):
            section.details.append(
                _picture(
                    figures.draw_curves(curves, name),
                    f"Loss and metric by epoch of {name}",
                    f"{name}: mean over {counted(len(curves), 'repetition')}"
                    f"{', band of one standard deviation' if len(curves) > 1 else ''}",
                )
            )
        predictions = each.predictions()
        if predictions is not None:
            with_predictions += 1
            if with_predictions <= MAX_PREDICTIONS:
                section.figures.append(
                    _picture(
                        figures.draw_predictions(*predictions, each.record.task, name),
                        f"Test predictions against targets of {name}",
                        f"{name}: test parts of all repetitions",
                    )
                )
        histogram = each.histogram()
        if histogram is not None:
            same = next((names for content, names in sharing if content == histogram), None)
            if same is None:
                sharing.append((histogram, [name]))
            else:
                same.append(name)
        elif each.record.gate is not None:
            without_histogram += 1
    for content, (first, *others) in sharing[:MAX_HISTOGRAMS]:
        title = f"coefficients of {first}{f' and {len(others)} more' if others else ''}"
        section.figures.append(
            _picture(
                figures.draw_histogram(content, title),
                f"Histograms of the {title}",
                f"{title}: training part of the first repetition, counts on a logarithmic scale",
            )
        )
    if missing := len(group) - len(section.details):
        section.left_out.append(f"no curves on disk: {missing} experiments")
    if missing := len(group) - with_predictions:
        section.left_out.append(
            f"no predictions on disk: {missing} of {len(group)} experiments "
            "(cross_validation_paper keeps those of every epoch unless they are too large)"
        )
    if without_histogram:
        section.left_out.append(
            f"no histogram of coefficients on disk: {without_histogram} experiments"
        )
    return section


def _picture(figure: Figure, alt: str, caption: str) -> Picture:
    # Transparent, so that the page's background shows through, light or dark.
    text = base64.b64encode(figure_bytes(figure, "svg", transparent=True)).decode()
    return Picture(f"data:image/svg+xml;base64,{text}", alt, caption)
