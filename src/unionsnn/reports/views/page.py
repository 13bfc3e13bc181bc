"""One HTML page of records that opens offline."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from unionsnn.reports.collection import StoredRecord
from unionsnn.reports.figures import records as figures
from unionsnn.reports.formatting import counted
from unionsnn.reports.table import Table, html_page, words
from unionsnn.reports.views.records import by_dataset, labels, records_report

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
    figures: list[Picture] = field(default_factory=list)
    details: list[Picture] = field(default_factory=list)
    details_title: str = "Learning curves"
    left_out: list[str] = field(default_factory=list)


def page(
    records: Sequence[StoredRecord], faults: Sequence[str] = (), claims: Table | None = None
) -> str:
    """Return the page: tables and figures of each data set, self-contained.

    Args:
        records: The records.
        faults: Files that could not be read, one line each.
        claims: The table of claims, if requested.
    """
    groups = by_dataset(records).values()
    tables = records_report(records).tables
    sections = [_section(group, table) for group, table in zip(groups, tables, strict=True)]
    return html_page(
        "page.html.j2",
        title="unionsnn: results",
        summary=f"{counted(len(records), 'experiment')} on {counted(len(sections), 'data set')}",
        sections=sections,
        claims=claims,
        faults=faults,
    )


def _section(group: Sequence[StoredRecord], table: Table) -> Section:
    # Figures have no room for a record's description and refer to its number in the table.
    names = [f"{number} {label}" for number, label in enumerate(labels(group), 1)]
    section = Section(str(group[0].record["data"]), _numbered(table))
    reports = dict.fromkeys(each.record["protocol"]["report"] for each in group)
    for report in reports:
        # Values of one metric share an axis.
        alike = [
            (each, name)
            for each, name in zip(group, names, strict=True)
            if each.record["protocol"]["report"] == report
        ]
        section.figures.append(
            _picture(
                figures.draw_boxes([each for each, _ in alike], [name for _, name in alike]),
                f"Box plot of {report} for {len(alike)} experiments, numbered as in the table",
                f"{report} of each repetition (points), with quartiles",
            )
        )
    shown = 0
    without_curves, without_predictions = [], []
    for each, name in zip(group, names, strict=True):
        curves = each.curves()
        if any(curves):
            section.details.append(
                _picture(
                    figures.draw_curves(curves, name),
                    f"Loss and metric by epoch of {name}",
                    f"{name}: mean over {len(curves)} repetition(s), band of one standard "
                    "deviation",
                )
            )
        else:
            without_curves.append(name)
        predictions = each.predictions()
        if predictions is None:
            without_predictions.append(name)
        elif shown < MAX_PREDICTIONS:
            shown += 1
            section.figures.append(
                _picture(
                    figures.draw_predictions(*predictions, each.record["task"], name),
                    f"Test predictions against targets of {name}",
                    f"{name}: test parts of all repetitions",
                )
            )
    section.details_title = f"Learning curves of {len(section.details)} experiments"
    if without_curves:
        section.left_out.append(f"no curves on disk: {len(without_curves)} experiments")
    if without_predictions:
        section.left_out.append(
            f"no predictions on disk: {len(without_predictions)} of {len(group)} experiments "
            "(cross_validation_paper keeps those of every epoch unless they are too large)"
        )
    section.figures += _histograms(group, names)
    gated = [each for each in group if each.record["gate"] is not None]
    if lacking := sum(each.histogram() is None for each in gated):
        section.left_out.append(f"no histogram of coefficients on disk: {lacking} experiments")
    return section


def _histograms(group: Sequence[StoredRecord], names: Sequence[str]) -> list[Picture]:
    """Draw each distribution of coefficients once, even if several records share it."""
    sharing: dict[str, list[int]] = {}
    for i, each in enumerate(group):
        if (histogram := each.histogram()) is not None:
            sharing.setdefault(json.dumps(histogram), []).append(i)
    pictures = []
    for content, members in list(sharing.items())[:MAX_HISTOGRAMS]:
        also = f" and {len(members) - 1} more" if len(members) > 1 else ""
        title = f"coefficients of {names[members[0]]}{also}"
        pictures.append(
            _picture(
                figures.draw_histogram(json.loads(content), title),
                f"Histograms of the {title}",
                f"{title}: training part of the first repetition, counts on a logarithmic scale",
            )
        )
    return pictures


def _numbered(table: Table) -> Table:
    """Prepend a column with row numbers."""
    return replace(
        table,
        columns=[*words("#"), *table.columns],
        rows=[[str(number), *row] for number, row in enumerate(table.rows, 1)],
        marks={(i, j + 1): mark for (i, j), mark in table.marks.items()},
    )


def _picture(figure: Figure, alt: str, caption: str) -> Picture:
    import matplotlib

    buffer = io.BytesIO()
    # Transparent, so that the page's background shows through, light or dark.
    with matplotlib.rc_context({"svg.hashsalt": "unionsnn"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = base64.b64encode(buffer.getvalue()).decode()
    return Picture(f"data:image/svg+xml;base64,{text}", alt, caption)
