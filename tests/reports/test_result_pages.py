"""The tables of the pages follow from the records, and from the commands that ask for them."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from made_records import record
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.reports.claims import CLAIMS, from_records, wins
from unionsnn.reports.collection import StoredRecord, collect
from unionsnn.reports.paper import ablation_values
from unionsnn.reports.table import show
from unionsnn.reports.views.records import labels, records_report
from unionsnn.training.records import Result

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
pages: Any = import_module("pages")
record_book: Any = import_module("record_book")
tables: Any = import_module("result_tables")
readme: Any = import_module("readme_table")
leaderboard: Any = import_module("leaderboard")
runs: Any = import_module("runs")


@pytest.fixture(scope="module")
def book() -> Any:
    return record_book.RecordBook.read()


@pytest.mark.parametrize("page", pages.PAGES)
def test_pages_are_up_to_date_with_the_records(book: Any, page: str) -> None:
    # Claims about graphs are measured, which takes seconds: they have a test of their own.
    blocks = {name: make for name, make in pages.BLOCKS.items() if name != "claims"}
    text = (ROOT / page).read_text()
    assert pages.rewritten(text, book, blocks) == text, "type: make results"


def test_the_page_has_the_claims_that_records_decide(book: Any) -> None:
    lines = (ROOT / "docs/results.md").read_text().splitlines()
    ours = from_records(book.records)
    for claim in CLAIMS:
        if claim.judge is not None:
            (row,) = (line for line in lines if line.startswith(f"| {claim.text} |"))
            verdict = claim.judge(ours)
            text = f"{verdict.state}: {verdict.evidence}" if verdict else "not run"
            assert row.strip("| ").split(" | ")[2] == text
    starts = tuple(f"| {claim.text} |".replace("|V| or |E|", r"\|V\| or \|E\|") for claim in CLAIMS)
    ours_ = [line.split(" | ")[2].split(":")[0] for line in lines if line.startswith(starts)]
    assert len(ours_) == len(CLAIMS)
    counts = [ours_.count(state) for state in ("holds", "fails", "not run")]
    (line,) = (line for line in lines if line.startswith("Claims of the paper, by our"))
    assert [int(number) for number in re.findall(r"\d+", line)] == counts


def test_the_index_is_of_the_commands() -> None:
    kept = json.loads(record_book.INDEX.read_text())
    assert {name: each["command"] for name, each in kept.items()} == runs.COMMANDS, "make results"
    index = record_book.read_index()
    # All of one command, and of another its last, are composed again.
    for name, places in (("zinc10k 100,000", (0, 3)), ("nested: mutag", (4,))):
        _, *given = shlex.split(runs.COMMANDS[name])
        common = given[given.index("--") + 1 :]
        for place in places:
            each = index[name][place]
            config = compose_config([*common, *shlex.split(each.words)])
            assert (each.hash, each.data) == (config_hash(config), config.data.name)
            assert each.text == leaderboard.described(config.to_dict())


def test_rows_of_a_command_have_different_words() -> None:
    for name, entries in record_book.read_index().items():
        if not runs.COMMANDS[name].startswith("reproduce"):
            assert len({each.text for each in entries}) == len(entries), name
            assert len({each.hash for each in entries}) == len(entries), name


def made(model: str, hash_: str, values: list[float], data: str = "mutag") -> Any:
    """A finished run of seeds."""
    content = record(model, data, None)
    mean = sum(values) / len(values)
    std = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    content["result"] |= {"mean": mean, "std": std, "values": values, "interval": [mean, mean]}
    content["protocol"] |= {"name": "repeated_seeds", "repetitions": len(values)}
    row = content["repetitions"][0]
    content["repetitions"] = [
        {**row, "index": i, "seed": [0, i], "metrics": {"test_accuracy": v}}
        for i, v in enumerate(values)
    ]
    content["config"]["protocol"] = {"folds": None}
    content["config"]["model"] |= {"name": model}
    content |= {"state": "finished", "missing": [], "config_hash": hash_, "git_revision": "abc"}
    return content


def stored(content: Any, folder: str) -> StoredRecord:
    return StoredRecord(Path(folder), Result.from_json(content))


def helps_book(**values: list[float]) -> Any:
    """Of one "what helps" command, with the records that are given by row."""
    name = "what helps: ENZYMES"
    short = {
        "model=gin": "gin",
        runs.helps_words("a"): "a",
        runs.helps_words("sizes"): "sizes",
        runs.helps_words("a", runs.CONTROLS[0]): "within",
    }
    asked = [
        replace(each, hash=2 * short.get(each.words, each.words))
        for each in record_book.read_index()[name]
    ]
    records = [stored(made("gin", key * 2, v), key) for key, v in values.items()]
    return name, record_book.RecordBook(records, {name: asked}, Path("none"))


def test_what_helps_pairs_each_row_with_gin_and_says_what_is_not_run() -> None:
    name, book = helps_book(gin=[0.5, 0.6, 0.7], a=[0.6, 0.7, 0.9], within=[0.5, 0.6, 0.7])
    lines = tables.helps(book, name).splitlines()
    rows = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ")}
    assert "60.00 ± 10.00 %" in rows["GIN, nothing of the structure"]
    # Differences of 10, 10 and 20 points, by Student's t over 3 pairs.
    real, within, across = rows["a"].strip("| ").split(" | ")[1:]
    assert real == "73.33 ± 15.28 %; +13.33 points (−1.01 to +27.68)"
    assert within == "60.00 ± 10.00 %; +0.00 points"
    assert across == "not run"
    assert rows["sizes"].strip("| ").split(" | ")[1:] == ["not run", "–", "–"]
    contrast = rows["a: real against shuffled within each graph"]
    assert contrast.endswith("| +13.33 points (−1.01 to +27.68) | no difference shown |")
    # A pair of which one is not run is left out.
    assert "a against sizes" not in rows
    assert "3 of 15 runs" in "\n".join(lines)
    assert f"unionsnn {runs.COMMANDS[name]}" in lines
    _, nothing = helps_book()
    assert "±" not in tables.helps(nothing, name)


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([0.3, 0.2, 0.3], "−0.3333 (−0.6202 to −0.0465), −55.6 %"),
        ([0.9, 1.0, 1.0], "+0.3667 (+0.2232 to +0.5101), +61.1 %, worse"),
        ([0.5, 0.6, 0.8], "+0.0333 (−0.1101 to +0.1768), +5.6 %"),
    ],
)
def test_a_difference_and_its_interval_have_one_unit(others: list[float], text: str) -> None:
    contents = [made("gin", "g", [0.5, 0.6, 0.7], "zinc10k"), made("gin", "u", others, "zinc10k")]
    for content in contents:
        content["protocol"]["report"] = "test_mae"
        for row in content["repetitions"]:
            row["metrics"] = {"test_mae": row["metrics"]["test_accuracy"]}
    asked = [record_book.Asked(word, word, "zinc10k", word) for word in "gu"]
    records = [stored(content, content["config_hash"]) for content in contents]
    book = record_book.RecordBook(records, {"4-cycles": asked})
    assert record_book.difference_cell("test_mae", book.difference(*asked)) == text
    table = tables.compared(book, "4-cycles")
    assert ("\n- worse: than the first" in table) == ("worse" in text)
    assert ("\n- bold: better than" in table) == text.startswith("−")


def test_what_helps_pairs_the_features_with_each_other() -> None:
    name, book = helps_book(gin=[0.5, 0.6, 0.7], a=[0.6, 0.7, 0.8], sizes=[0.8, 0.9, 0.9])
    (row,) = (line for line in tables.helps(book, name).splitlines() if "a against sizes" in line)
    assert row == "| a against sizes | −16.67 points (−31.01 to −2.32) | worse |"


def test_a_control_keeps_a_part_of_a_gain_or_nothing_of_it() -> None:
    values = {
        "model=gin": [0.5, 0.6, 0.7],
        "model=union_gin": [0.31, 0.39, 0.5],
        "model=union_gin coefficient.control=shuffled_within": [0.4, 0.5, 0.6],
        "model=union_gin coefficient.control=shuffled": [0.6, 0.7, 0.81],
    }
    contents = {words: made("gin", words, each, "zinc10k") for words, each in values.items()}
    for content in contents.values():
        content["protocol"]["report"] = "test_mae"
        for row in content["repetitions"]:
            row["metrics"] = {"test_mae": row["metrics"]["test_accuracy"]}
    asked = [record_book.Asked(words, words, "zinc10k", words) for words in values]
    book = record_book.RecordBook(
        [stored(content, words) for words, content in contents.items()], {"4-cycles": asked}
    )
    text = tables.compared(book, "4-cycles")
    kept = "gain kept: 50 %, by repetition 48 to 53 %; real against shuffled −0.1000"
    assert f"- model=union_gin, shuffled within each graph: {kept}" in text
    kept = "gain kept: none, worse; real against shuffled −0.3033"
    assert f"- model=union_gin, shuffled over all graphs: {kept}" in text
    # Nothing is kept of a gain that is not shown, nor of a control that is not run.
    first, real, within, _ = asked
    assert book.kept(real, first, within) is None
    assert book.kept(first, real, replace(within, hash="none")) is None
    assert book.kept(first, real, first) is None


def test_configurations_are_told_apart_in_words() -> None:
    asked = record_book.read_index()["zinc10k 100,000"]
    assert [each.text for each in asked] == [
        "GIN, bonds",
        "UnionGIN, all columns as edge feature, bonds",
        "UnionGIN, all columns as edge feature, bonds, shuffled within each graph",
        "UnionGIN, all columns as edge feature, bonds, shuffled over all graphs",
        "UnionGIN, default gate, bonds",
        "UnionGIN, the paper's gate, bonds",
    ]


def test_a_goal_is_reached_missed_or_not_run() -> None:
    commands = {
        name: [record_book.Asked(runs.WANTED, "wanted", "zinc10k", name)] for name in runs.GOALS
    }
    content = made("union_gin", "zinc10k 100,000", [0.09, 0.10], "zinc10k")
    content["protocol"]["report"] = "test_mae"
    for row in content["repetitions"]:
        row["metrics"] = {"test_mae": row["metrics"]["test_accuracy"]}
    lines = tables.goals(
        record_book.RecordBook([stored(content, "one")], commands, Path("none"))
    ).splitlines()
    assert lines[2].endswith("| 0.100 | 0.090 | 0.0950 ± 0.0071 | reached | missed by 0.0050 |")
    assert lines[3].endswith("| 0.090 | 0.075 | not run | – | – |")


def test_a_comparison_is_with_the_configuration_that_is_named() -> None:
    commands = {
        f"nested: {data}": [
            record_book.Asked(f"model={model}", text, data, f"{data} {model}")
            for model, text in (("deep_sets", "DeepSets"), ("gin", "GIN"))
        ]
        for data in ("mutag", "enzymes")
    }
    records = [
        stored(made("gin", "mutag gin", [0.7, 0.8, 0.9]), "one"),
        stored(made("deep_sets", "mutag deep_sets", [0.4, 0.5, 0.58]), "two"),
    ]
    book = record_book.RecordBook(records, commands, Path("none"))
    text = tables.compared(book, *commands, against="model=gin")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert rows[0][5] == "against GIN, paired"
    assert rows[2][:2] == ["nested: mutag", "DeepSets"]
    assert rows[2][5] == "−30.67 points (−33.54 to −27.80), worse"
    assert rows[3][5] == "–"
    assert [row[3] for row in rows[4:]] == ["not run", "not run"]
    assert "- worse: than GIN, 0 outside the interval" in text
    with pytest.raises(RequestError, match=r"'nested: mutag' .* does not train 'model=gcn'"):
        tables.compared(book, *commands, against="model=gcn")


def test_the_paper_s_tables_mark_values_outside_our_interval() -> None:
    asked = [
        record_book.Asked(f"{row} on MUTAG", row, "mutag", row, (row, "MUTAG"))
        for row in ("GIN", "GCN", "GraphSAGE")
    ]
    commands = {name: [] for name in runs.COMMANDS} | {"table 3": asked}
    far, near = (made("gin", row, [0.7, 0.8]) for row in ("GIN", "GCN"))
    near["result"]["interval"] = [0.5, 1.0]
    book = record_book.RecordBook([stored(far, "one"), stored(near, "two")], commands, Path("none"))
    text = tables.paper(book)
    rows = [line for line in text.splitlines() if line.startswith("| G")]
    assert ["≠" in row for row in rows] == [True, False, False]
    assert rows[2].endswith("| – | – | – |  | – | – |")
    assert "–: not run" in text
    assert "Not run:" in text
    assert "unionsnn reproduce table6" in text


def test_a_marker_without_a_table_is_an_error() -> None:
    text = "<!-- records: zink -->\n<!-- end of records -->"
    with pytest.raises(KeyError, match="zink is no table"):
        pages.rewritten(text, record_book.RecordBook([], {}))
    once = text.replace("zink", "brec")
    book = record_book.RecordBook([], {}, Path("none"))
    twice = pages.rewritten(pages.rewritten(once, book), book)
    assert twice == pages.rewritten(once, book)
    assert "not run" in twice


def test_what_a_command_trains_is_on_a_page() -> None:
    text = "".join((ROOT / page).read_text() for page in pages.PAGES)
    for name, command in runs.COMMANDS.items():
        assert f"\nunionsnn {command.removesuffix(' --')}\n" in text, name


def test_an_incomplete_record_is_not_run() -> None:
    content = record("gin", "mutag", None) | {"config_hash": "gg"}
    book = record_book.RecordBook([stored(content, "x")], {})
    assert book.record(record_book.Asked("model=gin", "GIN", "mutag", "gg")) is None


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one record, of which the pages are made."""
    path = tmp_path / "records/mutag/gin/run/results.json"
    path.parent.mkdir(parents=True)
    first = sorted((ROOT / "benchmarks/records/mutag/gin").rglob("results.json"))[0]
    shutil.copy(first, path)
    monkeypatch.setattr(record_book, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(runs, "RECORDS", tmp_path / "copied")
    return path


def changed(path: Path, **keys: Any) -> None:
    content = json.loads(path.read_text())
    for dotted, value in keys.items():
        *sections, key = dotted.split("__")
        section = content
        for each in sections:
            section = section[each]
        section[key] = value
    path.write_text(json.dumps(runs.sealed(content)))


def test_two_records_of_one_configuration_are_refused(kept: Path) -> None:
    other = kept.parents[1] / "run-of-another-day" / kept.name
    other.parent.mkdir()
    shutil.copy(kept, other)
    changed(other, seconds=1.0)
    with pytest.raises(RequestError, match="one configuration; delete one") as caught:
        record_book.RecordBook.read()
    assert all(str(path.parent) in str(caught.value) for path in (kept, other))


@pytest.mark.parametrize("keys", [{"config_hash": "0" * 8}, {"config__optimizer__lr": 0.5}])
def test_a_hash_that_is_not_of_the_configuration_is_refused(
    kept: Path, keys: dict[str, Any]
) -> None:
    changed(kept, **keys)
    with pytest.raises(RequestError, match="config_hash is") as caught:
        record_book.RecordBook.read()
    assert str(kept.parent) in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"pairs": []}', None])
def test_a_damaged_record_ends_the_command_and_is_not_copied(
    kept: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is None:
        # Sealed before the change.
        content = runs.sealed(json.loads(kept.read_text()))
        text = json.dumps(content | {"seconds": 1.0})
    kept.write_text(text)
    with pytest.raises(RequestError) as caught:
        record_book.RecordBook.read()
    assert str(kept) in str(caught.value)
    shutil.copytree(kept.parents[2], kept.parents[3] / "out/runs")
    monkeypatch.setattr(sys, "argv", ["pages.py", "--runs", str(kept.parents[3] / "out")])
    with pytest.raises(SystemExit, match=r"out/runs/gin/run/results\.json: is no record"):
        pages.main()
    assert not runs.RECORDS.exists()


def test_a_folder_without_records_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["pages.py", "--runs", str(tmp_path)])
    with pytest.raises(SystemExit, match="holds no record; name the folder above"):
        pages.main()


def test_records_on_other_splits_are_named() -> None:
    name, book = helps_book(gin=[0.5, 0.6], a=[0.6, 0.7])
    record = book.records[1].record
    rows = [replace(row, split_hash="0" * 64) for row in record.repetitions]
    book.of["aa"] = StoredRecord(Path("a"), replace(record, repetitions=rows))
    with pytest.raises(RequestError, match=r"split hash is .* in gin and .* in a;"):
        tables.helps(book, name)
    protocol = replace(record.protocol, split_hash="0" * 64)
    book.of["aa"] = StoredRecord(Path("a"), replace(record, protocol=protocol))
    with pytest.raises(RequestError, match=r"split hash is .* in gin and \['0+', 'f+'"):
        tables.helps(book, name)


def test_a_row_of_the_readme_does_not_vanish(book: Any) -> None:
    lost = next(e for e in book.commands["zinc10k GIN"] if e.words == "model=union_gin").hash
    left = [each for each in book.records if each.record.config_hash != lost]
    with pytest.raises(RequestError, match="row of 'zinc10k GIN', which has no record"):
        readme.readme_table(record_book.RecordBook(left, book.commands))
    with pytest.raises(RequestError, match="BREC, which has no record of gin"):
        readme.readme_table(record_book.RecordBook(book.records, book.commands, Path("none")))


def test_the_readme_marks_what_an_interval_shows(book: Any) -> None:
    rows = [line for line in readme.readme_table(book).splitlines() if line.startswith("| ")]
    (cycles,) = (row for row in rows if "4-cycle" in row)
    # One run has no interval, and one wrong graph in 10,000 is not none.
    assert cycles.split(" | ")[2:4] == ["52.88", "99.99"]
    assert sum(", worse |" in row for row in rows if "paper's gate" in row) == 1
    # Neither the head, nor the two rows of one run, nor the paper's gate.
    assert sum("**" in row for row in rows) == len(rows) - 4
    flipped = {"model=gin": "model=union_gin", "model=union_gin": "model=gin"}
    name = "zinc10k GIN"
    turned = [replace(e, words=flipped.get(e.words, e.words)) for e in book.commands[name]]
    worse = readme.readme_table(
        record_book.RecordBook(book.records, {**book.commands, name: turned})
    )
    row = next(line for line in worse.splitlines() if line.startswith("| ZINC"))
    assert "0.464 ± 0.028, worse" in row
    assert "**" not in row


def test_unreliable_pairs_do_not_count() -> None:
    pairs = [{"told": True, "reliable": flag} for flag in (True, False)]
    assert leaderboard.told({"pairs": [*pairs, {"told": False, "reliable": True}]}) == 1


def test_hours_are_of_the_device_of_the_record() -> None:
    content = made("gin", "g" * 8, [0.5, 0.6])
    content["repetitions"][0]["device"] = "NVIDIA H200"
    found = leaderboard.devices([Result.from_json(content)])
    assert found == "NVIDIA H200, cpu"


def test_kept_records_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RECORDS", tmp_path / "records")
    kept = sorted((ROOT / "benchmarks/records/mutag/gin").iterdir())[0]
    shutil.copytree(kept, tmp_path / "out/runs/mutag/gin" / kept.name)
    (path,) = (tmp_path / "out").rglob("results.json")
    content = json.loads(path.read_text())
    content["config"]["paths"]["output"] = str(tmp_path)
    path.write_text(json.dumps(runs.sealed(content)))
    runs.keep_records(tmp_path / "out")
    ((found,), faults) = collect([tmp_path / "records"])
    assert not faults
    assert found.record.config["paths"]["output"] is None
    assert found.record.digest is not None


def test_hours_left_count_the_runs_of_several_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [("a", 3600.0), ("a", 3600.0), ("b", 1800.0), ("c", None), (None, None)]
    text = json.dumps([{"config_hash": name, "seconds_at_most": s} for name, s in plans])
    monkeypatch.setattr(runs.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout=text))
    assert runs.hours("table 3", Path("out")) == 1.5


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


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_report_tells_controls_from_the_real_row_at_any_width(width: int) -> None:
    stored_, _ = collect([ROOT / "benchmarks/records/zinc10k/union_gin"])
    console = Console(width=width, file=io.StringIO(), no_color=True)
    show(records_report(stored_).tables, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    for control in ("shuffled", "shuffled_within"):
        wanted = sum(each.record.control == control for each in stored_)
        assert text.count(f"({control})") == wanted > 0


def test_labels_say_whether_edge_features_are_read() -> None:
    contents = [made("gin", name * 8, [0.7, 0.8]) for name in "ab"]
    for content in contents:
        content["config"]["data"]["name"] = "mutag"
    contents[1]["config"]["data"]["edge_features"] = "labels"
    plain, bonds = (stored(content, content["config_hash"]) for content in contents)
    assert labels([plain, bonds]) == ["gin", "gin data.edge_features=labels"]
    report = records_report([plain, bonds])
    (table,) = report.tables
    assert table.title == "mutag (mutag-abc), edge features: labels, no edge features"
    kind = "test_accuracy in %, repeated_seeds"
    assert [each.title for each in report.pivots] == [kind, f"{kind}, edge features: labels"]
