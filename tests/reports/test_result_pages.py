"""The tables of the pages follow from the records, and from the commands that ask for them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from made_records import record, seeds, stored_in
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.reports.claims import CLAIMS, from_records
from unionsnn.reports.collection import StoredRecord

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
    # The last of some commands are composed again.
    for name in ("zinc10k 100,000", "nested: mutag", "4-cycles", "molhiv with bonds", "Cora GIN"):
        each = record_book.read_index()[name][-1]
        _, *given = shlex.split(runs.COMMANDS[name])
        common = given[given.index("--") + 1 :]
        config = compose_config([*common, *shlex.split(each.words)])
        assert (each.hash, each.data) == (config_hash(config), config.data.name)
        assert each.text == leaderboard.described(config.to_dict())


@pytest.mark.slow
def test_the_index_is_what_the_commands_compose_to() -> None:
    kept = json.loads(record_book.INDEX.read_text())
    assert json.loads(json.dumps(record_book.index_of({}))) == kept, "make results ARGS=--compose"


def test_rows_of_a_command_have_different_words() -> None:
    for name, entries in record_book.read_index().items():
        if not runs.COMMANDS[name].startswith("reproduce"):
            # Trials are shown by the keys that they change.
            texts = {each.words if name == runs.TRIALS else each.text for each in entries}
            assert len(texts) == len(entries), name
            assert len({each.hash for each in entries}) == len(entries), name


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
    records = [stored_in(key, seeds("gin", key * 2, v)) for key, v in values.items()]
    return name, record_book.RecordBook(records, {name: asked}, Path("none"))


def test_what_helps_pairs_each_row_with_gin_and_says_what_is_not_run() -> None:
    name, book = helps_book(gin=[0.5, 0.6, 0.7], a=[0.6, 0.7, 0.9], within=[0.5, 0.6, 0.7])
    lines = tables.helps(book, name).splitlines()
    rows = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ")}
    assert "60.00 ± 10.00 %" in rows["GIN, nothing of the structure"]
    # Differences of 10, 10 and 20 points, by Student's t over 3 pairs.
    parameters, real, within, across = rows["a"].strip("| ").split(" | ")[1:]
    assert parameters == "12,345"
    assert real == "73.33 ± 15.28 %; +13.33 points (−1.01 to +27.68)"
    assert within == "60.00 ± 10.00 %; +0.00 points"
    assert across == "not run"
    assert rows["sizes"].strip("| ").split(" | ")[1:] == ["–", "not run", "–", "–"]
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
    contents = [
        seeds("gin", "g", [0.5, 0.6, 0.7], "zinc10k", "test_mae"),
        seeds("gin", "u", others, "zinc10k", "test_mae"),
    ]
    asked = [record_book.Asked(word, word, "zinc10k", word) for word in "gu"]
    records = [stored_in(content["config_hash"], content) for content in contents]
    book = record_book.RecordBook(records, {"4-cycles": asked}, Path("none"))
    table = tables.compared(book, "4-cycles")
    assert table.splitlines()[3].split(" | ")[4] == text
    assert ("\n- worse: than g, 0" in table) == ("worse" in text)
    assert ("\n- bold: better than g, 0" in table) == text.startswith("−")


def test_what_helps_pairs_the_features_with_each_other() -> None:
    name, book = helps_book(gin=[0.5, 0.6, 0.7], a=[0.6, 0.7, 0.8], sizes=[0.8, 0.9, 0.9])
    (row,) = (line for line in tables.helps(book, name).splitlines() if "a against sizes" in line)
    assert row == "| a against sizes | −16.67 points (−31.01 to −2.32) | worse |"


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ([0.6, 0.7, 0.8], "+0.00 points | equal in each repetition"),
        ([0.5, 0.6, 0.7], "+10.00 points | no interval"),
    ],
)
def test_differences_without_spread_are_not_said_to_be_none(sizes: list[float], text: str) -> None:
    name, book = helps_book(a=[0.6, 0.7, 0.8], sizes=sizes)
    (row,) = (line for line in tables.helps(book, name).splitlines() if "a against sizes" in line)
    assert row == f"| a against sizes | {text} |"


def replace_in(book: Any, other: StoredRecord) -> Any:
    """The same book with another record of one configuration."""
    key = other.record.config_hash
    left = [each for each in book.records if each.record.config_hash != key]
    return record_book.RecordBook([*left, other], book.commands, book.folder)


def test_a_control_keeps_a_part_of_a_gain_or_nothing_of_it() -> None:
    values = {
        "model=gin": [0.5, 0.6, 0.7],
        "model=union_gin": [0.31, 0.39, 0.5],
        "model=union_gin coefficient.control=shuffled_within": [0.4, 0.5, 0.61],
        "model=union_gin coefficient.control=shuffled": [0.6, 0.7, 0.81],
    }
    contents = {
        words: seeds("gin", words, each, "zinc10k", "test_mae") for words, each in values.items()
    }
    asked = [record_book.Asked(words, words, "zinc10k", words) for words in values]
    book = record_book.RecordBook(
        [stored_in(words, content) for words, content in contents.items()],
        {"4-cycles": asked},
        Path("none"),
    )
    text = tables.compared(book, "4-cycles")
    kept = "gain kept: 48 %, by repetition 45 to 53 %; real against it −0.1033"
    assert f"- model=union_gin, shuffled within each graph: {kept}" in text
    kept = "gain kept: none, worse; real against it −0.3033"
    assert f"- model=union_gin, shuffled over all graphs: {kept}" in text
    # Nothing is kept of a gain that is not shown, nor of a control that is not run, and a share of
    # a control that is not shown to gain says nothing.
    first, real, within, _ = asked
    unsure = stored_in("u", seeds("gin", within.hash, [0.3, 0.5, 0.8], "zinc10k", "test_mae"))
    assert str(replace_in(book, unsure).kept(first, real, within)) == "none shown"
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


def test_trials_show_validation_and_not_the_test() -> None:
    index = record_book.read_index()
    first, deeper, *_ = index[runs.TRIALS]
    taken = next(e for e in index["zinc10k 500,000"] if e.words == runs.WANTED)
    records = []
    for each, values in ((first, [0.25, 0.5]), (taken, [0.125, 0.5])):
        content = seeds("union_gin", each.hash, [0.75, 0.75], "zinc10k", "test_mae")
        for row, value in zip(content["repetitions"], values, strict=True):
            row["metrics"]["val_mae"] = value
        records.append(stored_in(each.hash, content))
    text = tables.trials(record_book.RecordBook(records, index, Path("none")))
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    # Of two seeds, the first, which has the split of the trials.
    assert rows["none"].split(" | ")[1] == "0.2500"
    assert rows["taken: seed 0 of zinc10k 500,000"].split(" | ")[1] == "0.1250"
    assert rows[deeper.words.removeprefix(runs.WANTED).strip()].split(" | ")[1] == "not run"
    assert "0.75" not in text


def test_a_goal_is_reached_missed_or_not_run() -> None:
    commands = {
        name: [record_book.Asked(runs.WANTED, "wanted", "zinc10k", name)] for name in runs.GOALS
    }
    content = seeds("union_gin", "zinc10k 100,000", [0.09, 0.10], "zinc10k", "test_mae")
    lines = tables.goals(
        record_book.RecordBook([stored_in("one", content)], commands, Path("none"))
    ).splitlines()
    error = "0.0950 ± 0.0071 | 0.0950 to 0.0950"
    assert lines[2].endswith(f"| 0.100 | 0.090 | {error} | reached | missed by 0.0050 |")
    assert lines[3].endswith("| 0.090 | 0.075 | not run | – | – | – |")


def test_a_comparison_is_with_the_configuration_that_is_named() -> None:
    commands = {
        f"nested: {data}": [
            record_book.Asked(f"model={model}", text, data, f"{data} {model}")
            for model, text in (("deep_sets", "DeepSets"), ("gin", "GIN"))
        ]
        for data in ("mutag", "enzymes")
    }
    records = [
        stored_in("one", seeds("gin", "mutag gin", [0.7, 0.8, 0.9])),
        stored_in("two", seeds("deep_sets", "mutag deep_sets", [0.4, 0.5, 0.58])),
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
    far, near = (seeds("gin", row, [0.7, 0.8]) for row in ("GIN", "GCN"))
    near["result"]["interval"] = [0.5, 1.0]
    book = record_book.RecordBook(
        [stored_in("one", far), stored_in("two", near)], commands, Path("none")
    )
    text = tables.paper(book)
    rows = [line for line in text.splitlines() if line.startswith("| G")]
    assert ["≠" in row for row in rows] == [True, False, False]
    assert rows[2].endswith("| – | – | – |  | – | – |")
    assert "–: not run" in text
    assert "Not run:" in text
    assert "unionsnn reproduce table6" in text


def test_a_marker_without_a_table_is_an_error() -> None:
    text = "<!-- records: zink -->\n<!-- end of records -->"
    book = record_book.RecordBook([], {}, Path("none"))
    with pytest.raises(RequestError, match="zink is no table"):
        pages.rewritten(text, book)
    once = text.replace("zink", "brec")
    twice = pages.rewritten(pages.rewritten(once, book), book)
    assert twice == pages.rewritten(once, book)
    assert "not run" in twice


BEGIN, END = "<!-- records: brec -->\n", "<!-- end of records -->\n"


@pytest.mark.parametrize(
    "text", [f"{BEGIN}prose\n{BEGIN}{END}", f"{BEGIN}prose", f"prose\n{END}", f"{BEGIN}{END}{END}"]
)
def test_prose_between_markers_that_do_not_match_is_not_lost(text: str) -> None:
    book = record_book.RecordBook([], {}, Path("none"))
    with pytest.raises(RequestError, match="text between would be lost"):
        pages.rewritten(text, book)


def test_what_a_command_trains_and_each_table_is_on_a_page() -> None:
    text = "".join((ROOT / page).read_text() for page in pages.PAGES)
    assert {*re.findall("<!-- records: (.+?) -->", text)} == {*pages.BLOCKS}
    for name, command in runs.COMMANDS.items():
        assert f"\nunionsnn {command.removesuffix(' --')}\n" in text, name


def test_an_incomplete_record_is_not_run() -> None:
    content = record("gin", "mutag", None) | {"config_hash": "gg"}
    book = record_book.RecordBook([stored_in("x", content)], {}, Path("none"))
    assert book.record(record_book.Asked("model=gin", "GIN", "mutag", "gg")) is None


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
        readme.readme_table(record_book.RecordBook(left, book.commands, book.folder))
    with pytest.raises(RequestError, match="BREC, which has no records of gin"):
        readme.readme_table(record_book.RecordBook(book.records, book.commands, Path("none")))


def test_a_row_of_brec_is_of_one_record(book: Any, tmp_path: Path) -> None:
    kept = book.folder / "brec"
    shutil.copytree(kept, tmp_path / "brec")
    whole = [p for p in kept.glob("gin/*.json") if len(json.loads(p.read_text())["pairs"]) == 400]
    (path,) = whole
    shutil.copy(path, tmp_path / "brec/gin/other.json")
    with pytest.raises(RequestError, match=r"BREC, which has 2 records of gin .* name more keys"):
        readme.readme_table(record_book.RecordBook(book.records, book.commands, tmp_path))


def test_the_readme_marks_what_an_interval_shows(book: Any) -> None:
    rows = [line for line in readme.readme_table(book).splitlines() if line.startswith("| ")]
    (cycles,) = (row for row in rows if "4-cycle" in row)
    # One run has no interval, and one wrong graph in 10,000 is not none.
    assert cycles.split(" | ")[2:4] == ["52.88", "99.99"]
    (paper,) = (row for row in rows if "the paper's gate" in row)
    assert ", worse |" in paper
    assert all("**" in row for row in rows if "epochs" in row or "cosine" in row)
    assert "**" not in paper + cycles
    flipped = {"model=gin": "model=union_gin", "model=union_gin": "model=gin"}
    name = "zinc10k GIN"
    turned = [replace(e, words=flipped.get(e.words, e.words)) for e in book.commands[name]]
    worse = readme.readme_table(
        record_book.RecordBook(book.records, {**book.commands, name: turned}, book.folder)
    )
    row = next(line for line in worse.splitlines() if line.startswith("| ZINC"))
    assert "0.464 ± 0.028, worse" in row
    assert "**" not in row
