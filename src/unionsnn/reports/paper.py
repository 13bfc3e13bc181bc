"""The values that the paper prints, and its names in terms of the configuration."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

# Tables of models; the others repeat rows, vary one choice, or print costs.
MAIN_TABLES = ("table3", "table4", "table5", "table6", "table7")

COST_TABLES = ("table11", "table12")

# The paper's coefficient; another one has no value in the main tables.
_COEFFICIENT = {"substructure": "union", "descriptor": "path", "encoding": "singular_value_sum"}


@dataclass(frozen=True)
class PaperValue:
    """A value that the paper prints, in our units.

    Args:
        table: Name of the table, such as table3.
        model: The paper's name of the row.
        dataset: The paper's name of the data set.
        metric: Name of the metric; accuracy and ROC-AUC are shares, not percentages.
        mean: The value.
        std: Its spread as printed; None where there is none.
    """

    table: str
    model: str
    dataset: str
    metric: str
    mean: float
    std: float | None

    @property
    def larger_is_better(self) -> bool:
        """Whether a larger value is a better one."""
        return self.metric in ("accuracy", "rocauc")


@dataclass(frozen=True)
class PaperNames:
    """The paper's names in terms of the configuration; read from ``paper_names.yaml``.

    Args:
        tables: The experiment of each table.
        datasets: Our data set of each of the paper's.
        models: Overrides of each row of the tables.
        settings: Further overrides of a row, on ``all`` sets and on one of them.
        absent: Why a row cannot be had.
    """

    tables: Mapping[str, str]
    datasets: Mapping[str, str]
    models: Mapping[str, Sequence[str]]
    settings: Mapping[str, Mapping[str, Sequence[str]]]
    absent: Mapping[str, str]

    def words(self, value: PaperValue) -> list[str]:
        """Overrides that compose the experiment behind a value."""
        settings = self.settings.get(value.model, {})
        return [
            *([f"experiment={self.tables[value.table]}"] if value.table != "table11" else []),
            f"data={self.datasets[value.dataset]}",
            *self.models[value.model],
            *settings.get("all", ()),
            *settings.get(value.dataset, ()),
        ]

    def gated(self, model: str) -> bool:
        """Whether a row's model reads the coefficient through a gate."""
        return any(word.startswith("gate=") for word in self.models.get(model, ()))

    def models_of(self, name: str) -> list[str]:
        """The paper's names of a model of ours."""
        plain = ("model=", "gate=")
        return [
            paper
            for paper, words in self.models.items()
            if f"model={name}" in words and all(word.startswith(plain) for word in words)
        ]


@cache
def paper_names() -> PaperNames:
    """Return the mapping of names."""
    return PaperNames(**yaml.safe_load(_read("paper_names.yaml")))


@cache
def paper_values() -> tuple[PaperValue, ...]:
    """Return all values, in the order of the tables."""
    return tuple(_value(row) for row in csv.DictReader(_read("paper.csv").splitlines()))


def table_values(table: str) -> list[PaperValue]:
    """Return the values of a table, such as table3."""
    return [value for value in paper_values() if value.table == table]


def paper_value(record: Mapping[str, Any]) -> PaperValue | None:
    """Return the paper's value for what a record trained; None where it has none.

    The generated cycles are compared in their ``plain`` variant only: the paper's graphs leak
    degrees too. A control, or another coefficient in the gate, has no value in the main tables.
    """
    config = record["config"]
    if config["data"].get("variant", "plain") != "plain" or record["control"] != "none":
        return None
    name = record["model"]
    if record["gate"] is not None:
        section = config["coefficient"]
        if any(section[key] != value for key, value in _COEFFICIENT.items()):
            return None
        if name != "unionsnn" and f"union_{name}" in _union_models():
            name = f"union_{name}"
    models = paper_names().models_of(name)
    for value in paper_values():
        if (
            value.table in MAIN_TABLES
            and value.model in models
            and paper_names().datasets[value.dataset] == record["data"]
        ):
            return value
    return None


@cache
def _union_models() -> frozenset[str]:
    words = (word for words in paper_names().models.values() for word in words)
    return frozenset(w.removeprefix("model=") for w in words if w.startswith("model=union_"))


def _value(row: Mapping[str, str]) -> PaperValue:
    percent = row["metric"].endswith("_percent")
    scale = 0.01 if percent else 1.0
    return PaperValue(
        table=row["table"].partition("_")[0],
        model=row["model"],
        dataset=row["dataset"],
        metric=row["metric"].removesuffix("_percent"),
        mean=scale * float(row["mean"]),
        std=scale * float(row["std"]) if row["std"] else None,
    )


def _read(name: str) -> str:
    return (files("unionsnn") / "reports" / name).read_text(encoding="utf-8")
