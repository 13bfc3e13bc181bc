"""The values that the paper prints, beside ours."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

# The paper's names by ours. A gated model has its plain model's name with "Union" before it.
DATASETS = {
    "mutag": "MUTAG",
    "proteins": "PROTEINS",
    "enzymes": "ENZYMES",
    "dd": "DD",
    "frankenstein": "FRANK",
    "tox21": "Tox21",
    "nci1": "NCI1",
    "nci109": "NCI109",
    "4cycles": "4-CYCLES",
    "6cycles": "6-CYCLES",
}
MODELS = {"gin": "GIN", "gcn": "GCN"}

# Main tables; the others repeat rows or vary one choice.
_TABLES = ("table3_tu", "table6_cycles")


@dataclass(frozen=True)
class PaperValue:
    """A value that the paper prints, in our units.

    Args:
        table: Name of the table.
        model: The paper's name of the model.
        metric: Name of the metric; accuracy is a share, not a percentage.
        mean: The value.
        std: Its spread as printed; None where there is none.
    """

    table: str
    model: str
    metric: str
    mean: float
    std: float | None


def paper_value(record: Mapping[str, Any]) -> PaperValue | None:
    """Return the paper's value for what a record trained; None where it has none.

    The generated cycles are compared in their ``plain`` variant only: the paper's graphs leak
    degrees too. A control has no value there.
    """
    config = record["config"]
    if config["data"].get("variant", "plain") != "plain" or record["control"] != "none":
        return None
    row = _rows().get((_paper_model(record), DATASETS.get(record["data"], "")))
    if row is None:
        return None
    percent = row["metric"].endswith("_percent")
    scale = 0.01 if percent else 1.0
    return PaperValue(
        table=row["table"].partition("_")[0],
        model=row["model"],
        metric=row["metric"].removesuffix("_percent"),
        mean=scale * float(row["mean"]),
        std=scale * float(row["std"]) if row["std"] else None,
    )


def _paper_model(record: Mapping[str, Any]) -> str:
    name = record["model"].removeprefix("union_")
    if name == "unionsnn":
        return "UnionSNN"
    plain = MODELS.get(name, "")
    return f"Union{plain}" if record["gate"] and plain else plain


@cache
def _rows() -> dict[tuple[str, str], dict[str, str]]:
    text = (files("unionsnn") / "reports" / "paper.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {(row["model"], row["dataset"]): row for row in rows if row["table"] in _TABLES}
