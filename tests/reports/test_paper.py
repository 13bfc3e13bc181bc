"""The paper's values: complete, found by our names, in our units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from made_records import record, result
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.reports.claims import wins
from unionsnn.reports.formatting import CUT, is_cut, possible
from unionsnn.reports.paper import (
    PaperValue,
    ablation_values,
    paper_names,
    paper_tables,
    paper_value,
    paper_values,
)
from unionsnn.reports.views.results import print_results, summary_line
from unionsnn.training.records import Result
from unionsnn.training.statistics import summarize_seeds


def test_values_are_those_that_the_paper_prints() -> None:
    value = paper_value(result("unionsnn", "mutag", "default"))
    assert value is not None
    assert value.model == "UnionSNN"
    assert (value.mean, value.std) == pytest.approx((0.8731, 0.0529))
    gated = paper_value(result("gin", "mutag", "paper"))
    assert gated is not None
    assert gated.model == "UnionGIN"
    assert gated == paper_value(result("union_gin", "mutag", "default"))
    plain = paper_value(result("gin", "proteins", None))
    assert plain is not None
    assert plain.model == "GIN"


def test_matched_cycles_are_not_compared_with_the_paper_s_graphs() -> None:
    assert paper_value(result("gin", "4cycles", None, variant="matched")) is None
    value = paper_value(result("gin", "4cycles", None, variant="plain"))
    assert value == PaperValue("table6", "GIN", "4-CYCLES", "accuracy", pytest.approx(0.9661), None)


def test_what_the_paper_does_not_have_has_no_value() -> None:
    assert paper_value(result("gin", "BZR", None)) is None
    assert paper_value(result("my_model", "mutag", None)) is None
    control = replace(result("unionsnn", "mutag", "default"), control="shuffled")
    assert paper_value(control) is None
    for section, key, value in (("data", "edge_features", "labels"), ("gate", "inject", "edge")):
        other = result("unionsnn", "mutag", "default")
        other.config[section][key] = value
        assert paper_value(other) is None
    tried = result("unionsnn", "mutag", "default")
    tried.config["debug"] = "fast"
    assert paper_value(tried) is None


def test_another_coefficient_has_no_value_in_the_main_tables() -> None:
    other = result("unionsnn", "mutag", "paper")
    other.config["coefficient"]["substructure"] = "overlap"
    assert paper_value(other) is None


def test_every_row_of_the_paper_is_mapped_or_says_why_not() -> None:
    names = paper_names()
    for value in paper_values():
        assert (value.model in names.models) != (value.model in names.absent), value
        assert value.dataset in names.datasets
    used = {value.model for value in paper_values()}
    assert {*names.models, *names.absent} == used
    assert set(names.datasets) == {value.dataset for value in paper_values()}
    printed = {f"table{number}" for number in range(3, 13)}
    assert sum(value.table in printed for value in paper_values()) == 347


def test_every_name_of_the_mapping_is_ours() -> None:
    names = paper_names()
    assert set(names.datasets.values()) <= options("data")
    assert {table.experiment for table in paper_tables().values()} - {None} <= options("experiment")
    for words in names.models.values():
        for word in words:
            group, _, option = word.partition("=")
            if group in ("gate", "coefficient"):
                assert option in options(group)
            elif group != "model":
                assert group.startswith(("gate.", "coefficient."))


def options(group: str) -> set[str]:
    return {p.stem for p in (config_folder() / group).glob("*.yaml")}


def crossed() -> list[PaperValue]:
    """Of each table the first row on every set, and every row on the first set."""
    found = []
    for table in paper_tables().values():
        values = [v for v in table.values if is_available(v)]
        first = values[0]
        found += [v for v in values if v.model == first.model or v.dataset == first.dataset]
    return found


def is_available(value: PaperValue) -> bool:
    words = paper_names().models.get(value.model, ())
    models = [w.removeprefix("model=") for w in words if w.startswith("model=")]
    return bool(words) and set(models) <= options("model")


@pytest.mark.parametrize("value", crossed(), ids=lambda v: f"{v.table}-{v.model}-{v.dataset}")
def test_every_row_and_set_composes_in_the_setting_of_its_table(value: PaperValue) -> None:
    config = compose_config(paper_names().words(value))
    assert config.data.name == paper_names().datasets[value.dataset]
    if value.table == "table11":
        return
    metric = "accuracy" if value.table == "table12" else value.metric
    assert config.protocol.report == f"test_{metric}"
    assert config.gate.preset == ("paper" if paper_names().gated(value.model) else None)


@pytest.mark.slow
def test_every_cell_composes() -> None:
    for value in filter(is_available, paper_values()):
        compose_config(paper_names().words(value))


def test_the_table_says_number_protocol_paper_and_what_is_missing() -> None:
    line = summary_line(result("unionsnn", "mutag", "default"))
    assert "test_accuracy: 75.00 % ± 5.00 %, 95 % interval [70.00 %, 80.00 %]" in line
    assert "(corrected resampled t over folds)" in line
    assert "protocol: cross_validation (best val_loss of the repetition, test touched once)" in line
    assert "paper: 87.31 % ± 5.29 % (table3, UnionSNN, under the paper's own protocol)" in line
    assert "INCOMPLETE: 2 of 3 repetitions" in line
    console = Console(width=80, record=True, force_terminal=False)
    print_results(result("unionsnn", "mutag", "default"), console)
    text = console.export_text()
    assert "12,345 parameters" in text
    assert "1 h 1 min" in text
    assert line.splitlines()[0] in text.splitlines()
    narrow = Console(width=60, record=True, force_terminal=True)
    print_results(result("unionsnn", "mutag", "default"), narrow)
    assert max(len(row) for row in narrow.export_text().splitlines()) <= 60


def test_an_interval_beyond_100_percent_is_cut_and_says_why() -> None:
    made = result("unionsnn", "mutag", "default")
    high = replace(made, result=replace(made.result, interval=(0.97, 1.02)))
    line = summary_line(high).splitlines()[0]
    assert "[97.00 %, 100.00 %]" in line
    assert line.endswith(f"over folds, {CUT})")
    assert CUT not in summary_line(result("unionsnn", "mutag", "default"))


@pytest.mark.parametrize(
    ("key", "bounds", "difference", "cut"),
    [
        ("test_accuracy", (0.97, 1.02), False, (0.97, 1)),
        ("val_rocauc", (-0.1, 1.1), False, (0, 1)),
        ("test_accuracy", (0.2, 0.4), False, (0.2, 0.4)),
        ("test_accuracy", (-1.5, -0.2), True, (-1, -0.2)),
        ("test_mae", (-0.1, 0.3), False, (0, 0.3)),
        ("test_mae", (-0.1, 0.3), True, (-0.1, 0.3)),
        ("test_r2", (-3, 1.1), False, (-3, 1)),
        ("test_accuracy", None, False, None),
    ],
)
def test_intervals_keep_inside_the_range_of_their_metric(
    key: str, bounds: Any, difference: bool, cut: Any
) -> None:
    assert possible(key, bounds, difference=difference) == cut
    if bounds and not difference:
        assert is_cut(key, bounds) == (bounds != cut)


def test_a_cut_interval_covers_as_often_as_the_uncut_one() -> None:
    """Of folds that nearly all reach 100 %, where most symmetric intervals go beyond it."""
    rng = np.random.default_rng(0)
    mean, covered, cut_covered, beyond = 0.95, 0, 0, 0
    for _ in range(2000):
        whole = summarize_seeds((rng.binomial(20, mean, 5) / 20).tolist()).interval
        cut = possible("test_accuracy", whole)
        assert whole is not None
        assert cut is not None
        covered += whole[0] <= mean <= whole[1]
        cut_covered += cut[0] <= mean <= cut[1]
        beyond += whole[1] > 1
    assert covered == cut_covered
    assert beyond > 500


@pytest.mark.parametrize("width", [40, 30])
def test_a_narrow_terminal_gets_the_reported_metric_first(width: int) -> None:
    narrow = Console(width=width, record=True, force_terminal=True)
    content = record("unionsnn", "mutag", "default")
    for row in content["repetitions"]:
        row["metrics"] |= {"val_accuracy": 0.5, "val_loss": 0.25}
    print_results(Result.from_json(content), narrow)
    text = narrow.export_text()
    assert "70.00 %" in text
    assert "80.00 %" in text
    assert "not shown in" in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert "val_accuracy" in text
    wide = Console(width=100, record=True, force_terminal=True)
    print_results(Result.from_json(content), wide)
    assert "val_accuracy" in wide.export_text()


def test_a_claim_fails_before_all_sets_are_run() -> None:
    wins_of = {("table8", "union", "MUTAG"): (0.8, 0.1), ("table8", "overlap", "MUTAG"): (0.9, 0.1)}
    assert wins({}, ["table8"], "union", 6) is None
    lost = wins(wins_of, ["table8"], "union", 6)
    assert lost is not None
    assert (lost.state, lost.evidence[:12]) == ("fails", "0 of 6 sets ")
    assert wins(wins_of, ["table8"], "union", 5) is None


def test_records_of_other_coefficients_are_rows_of_tables_8_to_10() -> None:
    def rows(gate: str | None = "paper", **keys: Any) -> set[tuple[str, str]]:
        content = record("unionsnn", "mutag", gate)
        content["config"]["coefficient"] |= keys
        found = ablation_values(Result.from_json(content))
        assert {each.dataset for each in found} <= {"MUTAG"}
        return {(each.table, each.model) for each in found}

    own = {("table8", "union"), ("table9", "UnionSNN"), ("table10", "svd sum")}
    assert rows() == own
    assert rows(substructure="overlap") == {("table8", "overlap")}
    assert rows(encoding="entry_sum") == {("table10", "matrix sum")}
    assert rows(descriptor="edge_betweenness", encoding=None) == {("table9", "BetSNN")}
    # The paper's rows of curvature read it as it is.
    assert rows(descriptor="curvature", encoding=None) == set()
    assert rows(gate="default") == set()
