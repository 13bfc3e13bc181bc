"""Reports of records on disk: tables, the page, claims."""

from __future__ import annotations

import csv
import html
import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from made_records import record, seeds, stored_in
from made_tables import stored, stored_records
from unionsnn.cli.app import command_line
from unionsnn.reports.claims import claims_report, from_paper, from_records, judged, wins
from unionsnn.reports.collection import StoredRecord, collect
from unionsnn.reports.figures.records import draw_boxes
from unionsnn.reports.latex import latex
from unionsnn.reports.latex import text as tex
from unionsnn.reports.table import Table, csv_text, markdown, numbers, show, sort_key, words
from unionsnn.reports.views.page import page
from unionsnn.reports.views.records import TUNED, labels, records_report

HOSTILE = "<script>alert('x')</script>|a_b & 50% $x$ {y} \\z"


def saved(root: Path, model: str, mean: float, **changes: Any) -> Path:
    made = record(model, "mutag", None)
    made |= {"state": "finished", "missing": [], "task": "graph_classification", **changes}
    values = [value + mean - 0.75 for value in made["result"]["values"]]
    bounds = [mean - 0.05, mean + 0.05]
    made["result"] |= {"mean": mean, "values": values, "interval": bounds}
    made["protocol"]["repetitions"] = 2
    for index, (row, value) in enumerate(zip(made["repetitions"], values, strict=True)):
        row |= {"index": index, "seed": [0, index], "epochs": 4}
        row["metrics"]["test_accuracy"] = value
    made["config"]["model"] = {"name": model, "parameter_budget": None}
    folder = root / model.replace("/", "") / str(mean)
    (folder / "repetitions").mkdir(parents=True)
    (folder / "predictions").mkdir()
    (folder / "results.json").write_text(json.dumps(made))
    for row in made["repetitions"]:
        curves = [{"val_loss": 1 / (e + 1), "val_accuracy": 0.5} for e in range(4)]
        path = folder / "repetitions" / f"{row['index']:02d}.json"
        shared = {key: made[key] for key in ("dataset", "parameters", "versions")}
        path.write_text(json.dumps({**row, **shared, "curves": curves}))
        path = folder / "predictions" / f"{row['index']:02d}.npz"
        np.savez(path, output=np.eye(2, dtype=np.float32), target=np.array([0, 1]))
    return folder


def report(*words: str) -> Result:
    return CliRunner().invoke(command_line, ["report", *words], catch_exceptions=False)


def test_best_and_second_best_are_marked(tmp_path: Path) -> None:
    for model, mean in (("gin", 0.7), ("gcn", 0.9), ("sage", 0.8)):
        saved(tmp_path, model, mean)
    saved(tmp_path, "gat", 0.95, control="random")
    (table,) = records_report(collect([tmp_path])[0]).tables
    assert [row[0] for row in table.rows] == ["gat (random)", "gcn", "sage", "gin"]
    assert {row: mark for (row, _), mark in table.marks.items()} == {1: "best", 2: "second"}
    assert r"\textbf{90.00 $\pm$ 5.00 \%}" in latex(table)
    assert r"\underline{80.00" in latex(table)
    assert "**90.00 ± 5.00 %**" in markdown(table)


def test_a_narrow_terminal_keeps_the_results(tmp_path: Path) -> None:
    saved(tmp_path, "gin", 0.7)
    saved(tmp_path, "gcn", 0.9)
    for width in (40, 80, 200):
        console = Console(width=width, file=io.StringIO())
        show(records_report(collect([tmp_path])[0]).tables, console)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert ("┃" in text) == (width > 40)
        assert ("not shown" in text) == (width == 80)
        for figure in ("90.00 ± 5.00 %", "70.00 ± 5.00 %", "65.00 to 75.00 %"):
            assert figure in text
        assert "12,345" in text
    assert "(best)" not in text


def test_damaged_and_foreign_files_are_named_and_skipped(tmp_path: Path) -> None:
    saved(tmp_path, "gin", 0.7)
    for name, text in (("cut", '{"a": 1'), ("foreign", '{"a": 1}'), ("list", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(text)
    (tmp_path / "x.old-1").mkdir()
    (tmp_path / "x.old-1" / "results.json").write_text("kept aside")
    done = report(str(tmp_path), "--json")
    assert done.exit_code == 1
    assert [row["model"] for row in json.loads(done.stdout)] == ["gin"]
    for name in ("cut", "foreign", "list"):
        assert f"{name}/results.json" in done.stderr
    assert "old-1" not in done.stderr


def test_exit_status(tmp_path: Path) -> None:
    assert report().exit_code == 2
    assert report(str(tmp_path / "none")).exit_code == 2
    assert report(str(tmp_path), "--out", "x.docx").exit_code == 2
    saved(tmp_path, "gin", 0.7)
    assert report(str(tmp_path)).exit_code == 0
    assert report("--claims").exit_code == 0


class Checker(HTMLParser):
    """Well-formed tags; what is loaded; texts of figures."""

    VOID = ("meta", "img", "br")
    ADDRESSES = ("src", "href", "action", "srcset", "data")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.alts: list[str] = []
        self.keys: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.sources += [str(given[k]) for k in self.ADDRESSES if k in given]
        self.keys += [str(given["data-key"])] if "data-key" in given else []
        if tag == "img":
            self.alts.append(given["alt"] or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_escaped_and_loads_nothing(tmp_path: Path) -> None:
    saved(tmp_path, HOSTILE, 0.7)
    saved(tmp_path, "gin", 0.8)
    text = page(collect([tmp_path])[0], ["<b>fault</b>"], claims_report().tables[0], tmp_path)
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert checker.tags.count("script") == 1
    assert "<script>alert" not in text
    assert "b" not in checker.tags
    links = [s for s in checker.sources if not s.startswith(("data:image/svg+xml;base64,", "#"))]
    assert sorted((tmp_path / unquote(link)).resolve() for link in links) == sorted(
        each.folder.resolve() for each in collect([tmp_path])[0]
    )
    # Values of the repetitions, and of each record curves and a confusion matrix.
    assert len(checker.alts) == 5
    assert all(checker.alts)
    assert "http" not in text


def test_every_number_of_a_table_is_in_html_and_latex_and_follows_from_the_csv() -> None:
    records = stored_records()
    made = records_report(records)
    shown = page(records)
    written = "".join(map(latex, made.tables)).replace(r"\allowbreak{}", "")
    for table in made.tables:
        for row in table.cells():
            for column, cell in zip(table.columns, row, strict=True):
                assert not column.number or html.escape(cell) in shown
                # What all rows share is told above.
                assert tex(cell) in written or f" {cell}" in written
    for row in csv.DictReader(io.StringIO(csv_text(made.rows))):
        assert f"{100 * float(row['mean']):.2f} ± {100 * float(row['std']):.2f} %" in shown
        bounds = [100 * float(row[f"interval_{end}"]) for end in ("low", "high")]
        assert f"{bounds[0]:.2f} to {bounds[1]:.2f} %" in shown
        assert 0 <= bounds[0] <= bounds[1] <= 100


@pytest.mark.parametrize(
    ("column", "value", "key"),
    [
        (numbers("n"), 12345, 12345),
        (numbers("mean"), "-1,234.50 ± 5.00 %", -1234.5),
        (numbers("interval"), "+1.00 to +2.00 points", 1.0),
        (numbers("p"), "< 0.001", 0.001),
        (numbers("p"), "1.2e-05", 1.2e-05),
        (numbers("p"), None, ""),
        (numbers("p"), "–", ""),
        (words("model"), "GIN", "gin"),
    ],
)
def test_numbers_are_sorted_by_value(column: Any, value: Any, key: Any) -> None:
    assert sort_key(column[0], value) == key


def test_the_page_sorts_numbers_and_keeps_other_splits_apart(tmp_path: Path) -> None:
    saved(tmp_path, "gin", 0.7)
    saved(tmp_path, "gcn", 0.8)
    folder = saved(tmp_path, "sage", 0.9)
    path = folder / "results.json"
    text = path.read_text().replace("f" * 64, "e" * 64)
    path.write_text(text)
    shown = page(collect([tmp_path])[0], folder=tmp_path)
    assert shown.count('<tr class="group">') == 2
    assert f"split {'e' * 12}" in shown
    assert f"split {'f' * 12}" in shown
    checker = Checker()
    checker.feed(shown)
    assert {"0.7", "0.8", "0.9"} & set(checker.keys) == set()  # Percent, as shown.
    assert {"70.0", "80.0", "90.0"} <= set(checker.keys)
    (table,) = records_report(collect([tmp_path])[0]).tables
    assert len(table.groups) == 2


def test_tuned_rows_are_marked_and_a_single_value_is_not_drawn(tmp_path: Path) -> None:
    saved(tmp_path, "gin", 0.7, study={"name": "tu_tpe_mutag_gin"})
    saved(tmp_path, "gcn", 0.8)
    (table,) = records_report(collect([tmp_path])[0]).tables
    assert [row[0] for row in table.rows] == ["gcn", f"gin {TUNED}"]
    assert any("chosen by the study tu_tpe_mutag_gin" in note for note in table.notes)
    one = stored("gin", "mutag", 0.7)
    single = StoredRecord(
        one.folder,
        replace(one.record, result=replace(one.record.summary, values=(0.7,), std=None)),
    )
    assert "no figure of test_accuracy: one repetition each" in page([single])
    figure = draw_boxes([one], ["gin"])
    # Two points, and no box of them.
    assert len(figure.axes[0].lines) == 1


def test_pivots_have_models_by_data_sets_and_other_splits_apart(tmp_path: Path) -> None:
    made = records_report(stored_records()).pivots
    (table,) = made
    assert table.names == [
        "model",
        *("4cycles_small", "enzymes", "frankenstein", "mutag", "nci109", "proteins", "tox21"),
    ] or set(table.names[1:]) == {each.record.data for each in stored_records()}
    assert [row[0] for row in table.rows] == ["gatedgcn_lspe", "gin", "union_gin"]
    assert {mark for (row, _), mark in table.marks.items() if row == 2} == {"best"}
    (moved,) = [each for each in stored_records() if each.folder.parts[-2:] == ("mutag", "gin")]
    protocol = replace(moved.record.protocol, split_hash="e" * 64)
    other = StoredRecord(moved.folder, replace(moved.record, protocol=protocol))
    rest = [each for each in stored_records() if each.folder != moved.folder]
    first, second = records_report([other, *rest]).pivots
    assert "other split eeeeeeeeeeee" in second.title
    assert first.cells()[1][first.names.index("mutag")] == "–"


def test_hostile_names_are_escaped_in_latex_and_markdown(tmp_path: Path) -> None:
    saved(tmp_path, HOSTILE, 0.7)
    (table,) = records_report(collect([tmp_path])[0]).tables
    assert r"a\_b \& 50\% \$x\$ \{y\} \textbackslash{}z" in latex(table).replace(
        r"\allowbreak{}", ""
    )
    assert r"\|a_b" in markdown(table)
    assert "<script" not in markdown(table)


def test_claims_by_the_paper_s_own_tables() -> None:
    verdicts = {claim.text: paper for claim, paper, _ in judged()}
    found = {text: v.evidence for text, v in verdicts.items() if v.state == "holds"}
    assert not [v for v in verdicts.values() if v.state == "fails"]
    for start, evidence in (
        ("UnionSNN wins 7", "7 of 10 sets (not MUTAG, PROTEINS, Tox21)"),
        ("The plug-in gains", "GraphSAGE on ENZYMES +11.09 %"),
        ("UnionSNN wins all 5", "5 of 5 sets"),
        ("The plug-in lowers", "4.41 to 0.42"),
        ("The union subgraph", "6 of 6"),
        ("The path matrix", "5 of 6 sets (not MUTAG)"),
        ("The sum of singular", "5 of 6 sets (not MUTAG)"),
        ("Training is more", "PROTEINS 4.63 ×"),
    ):
        (text,) = (text for text in found if text.startswith(start))
        assert evidence in found[text]


def test_a_claim_can_fail_and_ours_is_not_run_without_records(tmp_path: Path) -> None:
    values = dict(from_paper())
    values["table7", "GIN", "Cora"] = (0.99, 0.0)
    verdict = wins(values, ["table7"], "UnionSNN", 5)
    assert verdict is not None
    assert verdict.state == "fails"
    saved(tmp_path, "gin", 0.7)
    ours = from_records(collect([tmp_path])[0])
    assert ours == {("table3", "GIN", "MUTAG"): (0.7, 0.05)}
    by_tables = [own for claim, _, own in judged(ours) if claim.check is None]
    assert {own.state for own in by_tables} == {"not run"}


def test_claims_compare_rows_on_the_same_features(tmp_path: Path) -> None:
    # Both forms have the same graphs, so the hash of the data does not tell them apart.
    for features, rows in (
        ("attributes", {"gat": 0.99, "gin": 0.95}),
        ("labels", {"gin": 0.7, "gcn": 0.6, "sage": 0.5}),
    ):
        for model, mean in rows.items():
            path = saved(tmp_path, model, mean) / "results.json"
            content = json.loads(path.read_text())
            content["config"]["data"]["features"] = features
            path.write_text(json.dumps(content))
    ours = from_records(collect([tmp_path])[0])
    assert {row: mean for (_, row, _), (mean, _) in ours.items()} == {
        "GIN": 0.7,
        "GCN": 0.6,
        "GraphSAGE": 0.5,
    }


def test_claims_about_graphs_are_measured() -> None:
    found = {claim.text: own for claim, _, own in judged() if claim.check is not None}
    for start, state, evidence in (
        ("Theorem 1", "fails", "none where an isomorphism must carry edge to edge"),
        ("Theorem 2", "holds", "in 30 of 30"),
        ("Theorem 3", "holds", "finds 3 classes, 1-WL 1"),
        (
            "UnionSNN tells",
            "fails",
            "a tells them apart, the normalised a of the paper's layer not",
        ),
        ("The descriptor is aware", "fails", "a is 8.0000 on each edge of C4, 8.0000 of K5"),
        ("Betweenness", "fails", "betweenness 3.500 and 3.000, curvature 0.167 and 0.250"),
        ("Pairs of graphs", "holds", "cycles of length 4: union"),
        ("Deleting an edge", "fails", "a is raised in"),
        ("Deleting a node", "holds", "no counterexample in 2,137 deletions"),
        ("The effect", "fails", "union subgraphs with all four kinds"),
    ):
        (text,) = (text for text in found if text.startswith(start))
        assert found[text].state == state, found[text]
        assert evidence in found[text].evidence
    assert len(found) == 10


def test_the_page_draws_each_distribution_of_coefficients_once(tmp_path: Path) -> None:
    counts = {"a_r1": {"low": 1.0, "high": 3.0, "counts": [0, 5, 7]}}
    for model, mean, histogram in (
        ("union_gin", 0.7, counts),
        ("union_gcn", 0.8, counts),
        ("unionsnn", 0.9, {**counts, "nodes_r1": counts["a_r1"]}),
        ("gin", 0.6, None),
    ):
        folder = saved(tmp_path, model, mean)
        path = folder / "repetitions" / "00.json"
        path.write_text(
            json.dumps({**json.loads(path.read_text()), "coefficient_histogram": histogram})
        )
    checker = Checker()
    text = page(collect([tmp_path])[0])
    checker.feed(text)
    drawn = [alt for alt in checker.alts if alt.startswith("Histograms")]
    assert len(drawn) == 2
    assert sum("and 1 more" in alt for alt in drawn) == 1
    assert "no histogram" not in text


def test_predictions_are_those_of_the_epoch_that_the_protocol_selects(tmp_path: Path) -> None:
    folder = saved(tmp_path, "gin", 0.7)
    path = folder / "results.json"
    made = json.loads(path.read_text())
    made["result"]["epoch"] = 1
    path.write_text(json.dumps(made))
    outputs = np.stack([np.zeros((2, 2)), np.eye(2), np.ones((2, 2))])
    for row in made["repetitions"]:
        target = np.array([0, 1])
        np.savez(folder / "predictions" / f"{row['index']:02d}.npz", outputs=outputs, target=target)
    (found,) = collect([tmp_path])[0]
    predictions = found.predictions()
    assert predictions is not None
    np.testing.assert_array_equal(predictions[0], np.concatenate([np.eye(2)] * 2))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](http://x)", r"\[a\](http://x)"),
        ("*a* _b_ `c`", r"\*a\* \_b\_ \`c\`"),
        ("union_gin", "union_gin"),
        ("a|b\nc", r"a\|b c"),
        ("\\|", r"\\\|"),
        ("<img src=x>&lt;", "&lt;img src=x>&amp;lt;"),
        ("p < 0.001", "p < 0.001"),
        ("\x1b[31m", r"\\x1b\[31m"),
    ],
)
def test_names_mean_nothing_in_markdown(text: str, shown: str) -> None:
    table = Table(text, words(text), [[text]], [text])
    assert markdown(table) == f"### {shown}\n\n| {shown} |\n| --- |\n| {shown} |\n\n- {shown}\n"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_no_name_is_a_formula(text: str) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text([{"name": text, "value": -0.5}]))))
    assert rows == [{"name": f"'{text}", "value": "-0.5"}]


def test_a_row_of_latex_does_not_begin_with_an_option() -> None:
    text = latex(Table("", words("[a]"), [["*"], ["[1cm]"], ["\\input{x}"]], ["a\u2028\\input{x}"]))
    body = [line for line in text.splitlines() if not line.startswith("%")]
    assert not any(line.startswith(("[", "*")) for line in body)
    assert "\\input" not in "".join(body)


def test_control_characters_never_reach_the_terminal() -> None:
    text = "a\x1b]0;title\x07\x9b2J\u202eb\r"
    console = Console(width=200, file=io.StringIO())
    show([Table(text, words(text), [[text]], [text]), text], console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert not set(printed) & set("\x1b\x07\x9b\u202e\r")
    assert printed.count(r"\x1b]0;title\x07") == 5


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_report_tells_controls_from_the_real_row_at_any_width(width: int) -> None:
    stored_, _ = collect([Path(__file__).parents[2] / "benchmarks/records/zinc10k/union_gin"])
    console = Console(width=width, file=io.StringIO(), no_color=True)
    show(records_report(stored_).tables, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    for control in ("shuffled", "shuffled_within"):
        wanted = sum(each.record.control == control for each in stored_)
        assert text.count(f"({control})") == wanted > 0


def test_labels_say_whether_edge_features_are_read() -> None:
    contents = [seeds("gin", name * 8, [0.7, 0.8]) for name in "ab"]
    for content in contents:
        content["config"]["data"]["name"] = "mutag"
    contents[1]["config"]["data"]["edge_features"] = "labels"
    plain, bonds = (stored_in(content["config_hash"], content) for content in contents)
    assert labels([plain, bonds]) == ["gin", "gin data.edge_features=labels"]
    report = records_report([plain, bonds])
    (table,) = report.tables
    assert table.title == "mutag (mutag-abc), edge features: labels, no edge features"
    kind = "test_accuracy in %, repeated_seeds"
    assert [each.title for each in report.pivots] == [kind, f"{kind}, edge features: labels"]
