"""Every mean and spread that the pages print is that of a record."""

import math
import re
import statistics
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from made_records import seeds
from unionsnn.reports.collection import collect
from unionsnn.reports.paper import paper_values
from unionsnn.training.records import Result

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/results.md", "docs/what_helps.md", "docs/edge_features.md"]


def spreads(record: Result) -> list[tuple[float, float]]:
    """Mean and standard deviation over repetitions, and over evaluations within one."""
    report = record.protocol.report
    own = [row.metrics[report] for row in record.repetitions]
    if record.summary.epoch is not None:
        # Rows are of the last epoch; the curves that have the epoch chosen are not kept.
        own = record.summary.values
    found = [(statistics.fmean(own), statistics.stdev(own))] if len(own) > 1 else []
    several = [
        [row.metrics[report], *(other[report] for other in row.other_evaluations)]
        for row in record.repetitions
        if row.other_evaluations
    ]
    if several:
        within = math.sqrt(statistics.fmean(map(statistics.variance, several)))
        found.append((statistics.fmean(map(statistics.fmean, several)), within))
    return found


@pytest.fixture(scope="module")
def printed() -> set[str]:
    """All that may be printed: the values of repetitions in records, and the paper's."""
    stored, faults = collect([ROOT / "benchmarks/records"])
    assert not faults
    pairs = [pair for each in stored for pair in spreads(each.record)]
    pairs += [(v.mean, v.std) for v in paper_values() if v.std is not None]
    return {
        f"{scale * mean:.{digits}f} ± {scale * spread:.{digits}f}"
        for mean, spread in pairs
        for digits in (2, 3, 4)
        for scale in (1, 100)
    }


@pytest.mark.parametrize("page", PAGES)
def test_printed_means_are_those_of_records(page: str, printed: set[str]) -> None:
    found = re.findall(r"\d+\.\d+ ± \d+\.\d+", (ROOT / page).read_text())
    assert found or page == "docs/what_helps.md"
    assert set(found) <= printed


@pytest.fixture(scope="module")
def leaderboard() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    return import_module("leaderboard")


def test_rows_say_by_which_keys_they_differ(leaderboard: ModuleType) -> None:
    ((table, commands),) = leaderboard.tables(collect([leaderboard.RECORDS / "csl"])[0])
    rows = [tuple(row[1:3]) for row in table.rows]
    assert len({*rows}) == len(rows) == len(commands)
    assert [row[0] for row in table.rows] == [1, 2, 3]
    for row, command in zip(table.rows, commands, strict=True):
        assert all(key in command.replace("'", "") for key in row[2].split())


def test_pairs_of_brec_are_counted(leaderboard: ModuleType) -> None:
    table = leaderboard.pairs_table(leaderboard.RECORDS)
    told = {(row[0], row[2], row[4]) for row in table.rows}
    assert {("unionsnn", "none", "294 of 400"), ("gin", "none", "0 of 400")} <= told
    assert len({tuple(row[:4]) for row in table.rows}) == len(table.rows)


def test_unreliable_pairs_do_not_count(leaderboard: ModuleType) -> None:
    pairs = [{"told": True, "reliable": flag} for flag in (True, False)]
    assert leaderboard.told({"pairs": [*pairs, {"told": False, "reliable": True}]}) == 1


def test_hours_are_of_the_device_of_the_record(leaderboard: ModuleType) -> None:
    content = seeds("gin", "g" * 8, [0.5, 0.6])
    content["repetitions"][0]["device"] = "NVIDIA H200"
    found = leaderboard.devices([Result.from_json(content)])
    assert found == "NVIDIA H200, cpu"
