"""The runs behind one of the paper's tables: planning, state, and running the rest.

Planning does not import torch; running does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unionsnn.base.display import current_display
from unionsnn.base.errors import DataUnavailableError, RequestError, TooLargeError
from unionsnn.base.words import nearest
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.grid import flatten
from unionsnn.config.identity import config_hash, differing_keys, refuse_debug
from unionsnn.config.schema import Config
from unionsnn.reports.paper import PaperValue, paper_names, paper_table, paper_tables
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.records import Result

if TYPE_CHECKING:
    from unionsnn.data.sources.source import Progress
    from unionsnn.runs.costs import Cost

logger = logging.getLogger(__name__)

Run = Callable[[Config, "Progress | None"], "Result | Cost | None"]
"""`unionsnn.runs.experiment.run_experiment`, or a function of `unionsnn.runs.costs`."""

# These overrides are for models with a gate; they would add one to plain models.
_FOR_GATES = re.compile(r"[+~]*(gate|coefficient)(?![^.=])")


@dataclass(frozen=True)
class Cell:
    """A value of the paper and the experiment behind it.

    Args:
        paper: The paper's value.
        config: The checked configuration; None if the experiment cannot be run.
        absent: Why it cannot be run, and what to do.
        differs: Where the configuration departs from the table's setting, one text each.
    """

    paper: PaperValue
    config: Config | None
    absent: str = ""
    differs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name of the row and the data set."""
        return f"{self.paper.model} on {self.paper.dataset}"

    @property
    def key(self) -> str:
        """Key shared by cells of the same experiment."""
        return "" if self.config is None else config_hash(self.config)

    def silent(self) -> Cell:
        """Return this cell without progress display."""
        if self.config is None:
            return self
        return replace(self, config=self.config.replace({"trainer.progress": "none"}))

    def state(self) -> tuple[int, int]:
        """Numbers of finished and of wanted repetitions."""
        assert self.config is not None
        wanted = self.config.protocol.wanted
        done = {} if self.config.force else RunFolder.of(self.config).finished()
        return sum(i in done for i in wanted), len(wanted)


def plan_table(
    table: str,
    *,
    datasets: Sequence[str] = (),
    models: Sequence[str] = (),
    common: Sequence[str] = (),
    config_dir: str | None = None,
    grid: bool = False,
) -> list[Cell]:
    """Compose the experiment of each value of a table.

    Args:
        table: Its name, such as table3.
        datasets: Names of the data sets, the paper's or ours; all by default.
        models: Names of the rows, the paper's or ours; all by default.
        common: Overrides for all cells; those of gate and coefficient apply only to models with a
            gate.
        config_dir: A folder of the user's own configuration.
        grid: Whether to select a cell of the paper's grid for the table inside each repetition.

    Raises:
        RequestError: with every fault found.
    """
    if table not in paper_tables():
        raise RequestError(
            f"TABLE is {table!r}; allowed are {', '.join(paper_tables())}, as the paper numbers "
            f"them.{nearest(table, paper_tables())}",
            code="reproduce.unknown_table",
        )
    names = paper_names()
    if grid:
        common = [*grid_words(table, common), *common]
    cells: list[Cell] = []
    faults: list[str] = []
    for value in _chosen(table, datasets, models):
        if absent := _absence(value):
            cells.append(Cell(value, None, absent))
            continue
        gated = names.gated(value.model) or paper_table(table).experiment is None
        kept = [word for word in common if gated or not _FOR_GATES.match(word)]
        try:
            config = compose_config([*names.words(value), *kept], config_dir)
            refuse_debug(config, "reproduce")
            stated = compose_config(names.words(value), config_dir) if kept else config
            cells.append(Cell(value, config, differs=differences(stated, config)))
        except RequestError as error:
            # A fault shared by all cells is reported once.
            faults += [fault for fault in error.faults if fault not in faults]
    if faults:
        raise RequestError(*faults)
    return cells


def grid_words(table: str, common: Sequence[str]) -> list[str]:
    """Return the overrides that select from the paper's grid for a table by validation.

    The paper selects by the test curve of the folds, which cannot select from a grid inside them,
    so cross-validation selects by the inner validation part.

    Raises:
        RequestError: if the paper states no grid for the table.
    """
    grids = {path.stem for path in (config_folder() / "grid").glob("*.yaml")}
    having = [t for t in paper_tables().values() if t.cost is None and t.experiment in grids]
    name = paper_table(table).experiment
    if paper_table(table) not in having:
        raise RequestError(
            f"--grid: the paper has no grid for {table}; it has one for "
            f"{', '.join(t.name for t in having)}.",
            code="reproduce.no_grid",
        )
    chosen = any(word.startswith("protocol=") for word in common)
    nested = [] if name != "tu" or chosen else ["protocol=cross_validation"]
    return [f"grid={name}", *nested]


def differences(stated: Config, config: Config) -> tuple[str, ...]:
    """Return where a configuration departs from its table's setting, data first."""
    old, new = (
        {key: "none" if value is None else str(value).replace(" ", "") for key, value in pairs}
        for pairs in (flatten(stated.to_dict()), flatten(config.to_dict()))
    )
    keys = sorted(differing_keys(stated, config), key=lambda key: not key.startswith("data."))
    return tuple(f"{k}={new.get(k, 'none')} instead of {old.get(k, 'none')}" for k in keys)


def _chosen(table: str, datasets: Sequence[str], models: Sequence[str]) -> list[PaperValue]:
    """The table's values of the data sets and rows that are asked for."""
    values, names = paper_table(table).values, paper_names()
    sets, rows = dict[str, set[str]](), dict[str, set[str]]()
    for value in values:
        sets[value.dataset] = {names.datasets[value.dataset]}
        # Our name of a row: its model, or what an ablation puts in place of the paper's.
        words = dict(w.split("=", 1) for w in names.models.get(value.model, ()))
        ours = words.get("coefficient") or words.get("model", "")
        if paper_table(table).varies == "coefficient":
            ours = words.get("coefficient", "union")
        rows[value.model] = {ours} - {""}
    faults: list[str] = []
    kept_sets = _matching("--datasets", datasets, sets, faults)
    kept_rows = _matching("--models", models, rows, faults)
    if faults:
        raise RequestError(*(f"{fault} (of {table})" for fault in faults), code="reproduce.unknown")
    return [v for v in values if v.dataset in kept_sets and v.model in kept_rows]


def _matching(
    option: str, asked: Sequence[str], names: Mapping[str, set[str]], faults: list[str]
) -> set[str]:
    """Return the paper's names for names given as the paper's or ours, ignoring case."""
    if not asked:
        return set(names)
    known: dict[str, set[str]] = {}
    for paper, ours in names.items():
        for name in {paper, *ours}:
            known.setdefault(name.casefold(), set()).add(paper)
    kept: set[str] = set()
    for name in asked:
        if name.casefold() not in known:
            faults.append(
                f"{option} names {name!r}; allowed are {', '.join(names)}, or our names of them."
                f"{nearest(name.casefold(), known)}"
            )
        kept |= known.get(name.casefold(), set())
    return kept


def _absence(value: PaperValue) -> str:
    """Return why a row cannot be run, and what to do; empty if it can."""
    names = paper_names()
    if value.model in names.absent:
        return f"{names.absent[value.model]}; to add a model, see docs/add_a_model.md"
    for word in names.models[value.model]:
        group, _, option = word.partition("=")
        if group == "model" and not (config_folder() / group / f"{option}.yaml").exists():
            return f"this version has no {word}; to add a model, see docs/add_a_model.md"
    return ""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a cell.

    Args:
        cell: The cell.
        record: The merged record of its runs; None if there is none.
        cost: What was timed, for a table of costs.
        error: Why it failed; empty if it did not.
        absent: Why it cannot be run, and what to do; empty if it can.
    """

    cell: Cell
    record: Result | None = None
    cost: Cost | None = None
    error: str = ""
    absent: str = ""

    @property
    def failed(self) -> bool:
        """Whether the cell, or one of its repetitions, failed."""
        return bool(self.error or (self.record and self.record.failed))


def run_cells(
    cells: Sequence[Cell],
    run: Run,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Run unfinished cells one by one; a failure does not stop the others.

    Args:
        cells: The cells, as planned by `plan_table`.
        run: Trains, or times, a cell.
        progress: Called during long work on data.
    """
    outcomes: dict[str, Outcome] = {}
    shown, row = current_display(), object()
    for number, cell in enumerate(cells):
        if cell.config is None:
            yield Outcome(cell, absent=cell.absent)
            continue
        if cell.key in outcomes:
            yield replace(outcomes[cell.key], cell=cell)
            continue
        if shown is not None:
            now = {"now": cell.label}
            shown.show(row, "cell of the table", number, len(cells), figures=now, numbered=True)
        try:
            made = run(cell.config, progress)
            outcome = Outcome(cell, made) if isinstance(made, Result) else Outcome(cell, cost=made)
        except (DataUnavailableError, TooLargeError) as error:
            outcome = Outcome(cell, absent=_one_line(error))
            logger.error("%s is not available: %s", cell.label, outcome.absent)
        except Exception as error:  # Any error: the others continue.
            logger.debug("%s failed", cell.label, exc_info=True)
            outcome = Outcome(cell, error=_one_line(error) or type(error).__name__)
            logger.error("%s FAILED: %s", cell.label, outcome.error)
        outcomes[cell.key] = outcome
        yield outcome
    if shown is not None:
        shown.end(row, say=False)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def estimates(
    cells: Sequence[Cell], progress: Progress | None = None, *, trust: bool = False
) -> dict[str, float]:
    """Estimate the remaining seconds by cell key, by timing a few steps of each cell.

    A cell that cannot be timed, for instance without data, is left out with a message; `trust` is
    that of `describe`.
    """
    from unionsnn.runs.dry_run import describe

    seconds: dict[str, float] = {}
    for cell in cells:
        if cell.config is None or cell.key in seconds:
            continue
        done, wanted = cell.state()
        if done == wanted:
            continue
        try:
            seconds[cell.key] = float(
                describe(cell.config, progress, trust=trust)["seconds_at_most"]
            )
        except Exception as error:  # Any error: the other estimates are still useful.
            logger.error("%s cannot be estimated: %s", cell.label, error)
    return seconds
