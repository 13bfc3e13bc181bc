"""One HTML page of a study that opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unionsnn.reports.formats import write_text
from unionsnn.reports.views.study_table import final_lines, trials_sheet


def write_study_page(
    path: Path, record: Mapping[str, Any], figures: Sequence[tuple[str, str]], script: str
) -> None:
    """Write the page, all of it or nothing."""
    write_text(path, study_page(record, figures, script))


def study_page(record: Mapping[str, Any], figures: Sequence[tuple[str, str]], script: str) -> str:
    """Return the page: the result, the figures and the table of all trials.

    Args:
        record: The study's record, study.json.
        figures: Caption and HTML of each figure; a caption alone says what is left out.
        script: What the figures need to run, once.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unionsnn", "reports"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("study.html.j2").render(
        title=f"unionsnn: study {record['name']}",
        lines=[line for line in final_lines(record) if line],
        sheet=trials_sheet(record),
        space=record["space"],
        figures=figures,
        script=script,
    )
