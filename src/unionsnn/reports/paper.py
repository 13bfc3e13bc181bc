"""The paper's tables: their values, and their names in terms of the configuration.

A table is a file of ``reports/paper_tables``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import yaml

if TYPE_CHECKING:
    from unionsnn.training.records import Result

# The paper's coefficient; results with another one are not compared with the tables of models.
_COEFFICIENT = {"substructure": "union", "descriptor": "path", "encoding": "singular_value_sum"}


@dataclass(frozen=True)
class PaperValue:
    """A value printed in the paper, in our units.

    Args:
        table: Name of the table, such as table3.
        model: The paper's name of the row.
        dataset: The paper's name of the data set.
        metric: Name of the metric; accuracy and ROC-AUC are shares, not percentages.
        mean: The value.
        std: Its spread as printed; None if none is.
    """

    table: str
    model: str
    dataset: str
    metric: str
    mean: float
    std: float | None

    @property
    def larger_is_better(self) -> bool:
        """Whether larger values are better."""
        return self.metric in ("accuracy", "rocauc")


@dataclass(frozen=True)
class Cost:
    """What a table of costs times.

    Args:
        measure: What is timed.
        reference: The row that ratios refer to, since seconds depend on the machine.
        meaning: What the seconds measure.
    """

    measure: Literal["preprocessing", "training"]
    reference: str
    meaning: str


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper.

    Args:
        name: Its name, such as table3.
        experiment: Its setting, a file of ``conf/experiment``; None if nothing is trained.
        values: The printed values.
        varies: What its rows vary.
        cost: What it times; None if it prints results.
    """

    name: str
    experiment: str | None
    values: tuple[PaperValue, ...]
    varies: Literal["model", "coefficient"]
    cost: Cost | None


@dataclass(frozen=True)
class PaperNames:
    """The paper's names in terms of the configuration.

    Args:
        datasets: Our data set of each of the paper's.
        models: Overrides of each row of the tables.
        settings: Further overrides of a row, for ``all`` sets and for single ones.
        absent: Why a row cannot be run.
    """

    datasets: Mapping[str, str]
    models: Mapping[str, Sequence[str]]
    settings: Mapping[str, Mapping[str, Sequence[str]]]
    absent: Mapping[str, str]

    def words(self, value: PaperValue) -> list[str]:
        """Return the overrides that compose the experiment behind a value."""
        experiment = paper_table(value.table).experiment
        settings = self.settings.get(value.model, {})
        return [
            *([f"experiment={experiment}"] if experiment is not None else []),
            f"data={self.datasets[value.dataset]}",
            *self.models[value.model],
            *settings.get("all", ()),
            *settings.get(value.dataset, ()),
        ]

    def gated(self, model: str) -> bool:
        """Return whether a row's model reads the coefficient through a gate."""
        return any(word.startswith("gate=") for word in self.models.get(model, ()))


@cache
def _files() -> Mapping[str, Mapping[str, Any]]:
    """Read the files of the tables by name, in the order of their numbers."""
    contents = {
        file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in (files("unionsnn.reports") / "paper_tables").iterdir()
        if file.name.endswith(".yaml")
    }
    # Table 10 comes after table 9.
    return dict(sorted(contents.items(), key=lambda item: (len(item[0]), item[0])))


@cache
def paper_tables() -> Mapping[str, PaperTable]:
    """Return all tables by name, in the order of their numbers."""
    tables = {}
    for name, content in _files().items():
        if name == "names":
            continue
        metric = content["metric"]
        scale = 0.01 if metric.endswith("_percent") else 1.0
        values = []
        for model, row in content["values"].items():
            for dataset, printed in row.items():
                mean, std = (None if x is None else scale * x for x in (*printed, None)[:2])
                assert mean is not None
                metric_name = metric.removesuffix("_percent")
                values.append(PaperValue(name, model, dataset, metric_name, mean, std))
        tables[name] = PaperTable(
            name,
            content.get("experiment"),
            tuple(values),
            content.get("varies", "model"),
            Cost(**content["cost"]) if "cost" in content else None,
        )
    return tables


def paper_table(name: str) -> PaperTable:
    """Return a table, such as table3."""
    return paper_tables()[name]


def paper_values() -> tuple[PaperValue, ...]:
    """Return all values, in the order of the tables."""
    return tuple(value for table in paper_tables().values() for value in table.values)


@cache
def paper_names() -> PaperNames:
    """Return the names that all tables share, and those that a table adds."""
    contents = _files()
    return PaperNames(
        {k: v for each in contents.values() for k, v in each.get("datasets", {}).items()},
        {k: v for each in contents.values() for k, v in each.get("models", {}).items()},
        contents["names"]["settings"],
        contents["names"]["absent"],
    )


def paper_value(record: Result) -> PaperValue | None:
    """Return the paper's value for the experiment of a record; None if it has none.

    The generated cycles are compared in their ``plain`` variant only: the paper's graphs leak
    degrees too. A control, another coefficient in the gate, a trial under ``debug``, or features of
    edges, which the paper does not read, have no value in tables of models.
    """
    config = record.config
    if _is_beyond(record):
        return None
    model, words = record.model, paper_names().models
    if record.gate is not None:
        section = config["coefficient"]
        if any(section[key] != value for key, value in _COEFFICIENT.items()):
            return None
        if model != "unionsnn" and any(f"model=union_{model}" in row for row in words.values()):
            model = f"union_{model}"
    for value in paper_values():
        table, row = paper_table(value.table), words.get(value.model, ())
        # Tables of costs and of other coefficients print nothing to put beside a result.
        if (
            table.varies == "model"
            and table.cost is None
            and paper_names().datasets[value.dataset] == record.data
            and f"model={model}" in row
            and all(word.startswith(("model=", "gate=")) for word in row)
        ):
            return value
    return None


def ablation_values(record: Result) -> list[PaperValue]:
    """Return the paper's values for a record in the tables whose rows vary the coefficient.

    The paper's own coefficient is a row of all of them.
    """
    if record.model != "unionsnn" or record.gate != "paper" or _is_beyond(record):
        return []
    section = {key: record.config["coefficient"][key] for key in _COEFFICIENT}
    names, features = paper_names(), record.config["gate"].get("features")
    found = []
    for value in paper_values():
        table = paper_table(value.table)
        if table.varies != "coefficient" or names.datasets[value.dataset] != record.data:
            continue
        words = dict(word.split("=", 1) for word in names.models[value.model])
        option = words.get("coefficient", "union")
        wanted = {**_COEFFICIENT, **_changed_by(option)}
        read = words.get("gate.features", "[]").strip("[]")
        if section == wanted and ",".join(features or ()) == read:
            found.append(value)
    return found


@cache
def _changed_by(option: str) -> Mapping[str, Any]:
    """Return what an option of the group ``coefficient`` says of what is computed."""
    # Hydra is slow to import, and the names of tables are completed by a shell.
    from unionsnn.config.compose import config_folder

    path = config_folder() / "coefficient" / f"{option}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {key: content[key] for key in _COEFFICIENT if key in content}


def _is_beyond(record: Result) -> bool:
    """Whether a record is of something that the paper does not have, whatever the table."""
    config = record.config
    return (
        "edge_features" in config["data"]
        or "inject" in config["gate"]
        or "debug" in config
        or config["data"].get("variant", "plain") != "plain"
        or record.control != "none"
    )
