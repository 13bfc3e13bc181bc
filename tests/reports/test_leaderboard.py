"""Every mean and spread that the pages print is that of a record."""

import math
import re
import statistics
from pathlib import Path

import pytest

from unionsnn.reports.collection import collect
from unionsnn.training.records import Result

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/results.md", "docs/edge_features.md"]


def spreads(record: Result) -> list[tuple[float, float]]:
    """Mean and standard deviation over repetitions, and over evaluations within one."""
    report = record.protocol.report
    own = [row.metrics[report] for row in record.repetitions]
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
    """All that may be printed of the records, from the values of their repetitions."""
    stored, faults = collect([ROOT / "benchmarks/records"])
    assert not faults
    pairs = [pair for each in stored for pair in spreads(each.record)]
    return {
        f"{scale * mean:.{digits}f} ± {scale * spread:.{digits}f}"
        for mean, spread in pairs
        for digits in (2, 3, 4)
        for scale in (1, 100)
    }


@pytest.mark.parametrize("page", PAGES)
def test_printed_means_are_those_of_records(page: str, printed: set[str]) -> None:
    found = re.findall(r"\d+\.\d+ ± \d+\.\d+", (ROOT / page).read_text())
    assert found
    assert set(found) <= printed
