"""Raw TU files, mutated at random: what is read is right, or one error names the file."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unionsnn.base.errors import DataError
from unionsnn.data.sources.tu import read_tu

Files = dict[str, list[str]]
Mutation = Callable[[Files, st.DataObject], None]
Graph = tuple[int, frozenset[tuple[int, int, int]], str, tuple[int, ...]]

KEYS = ("A", "graph_indicator", "graph_labels", "node_labels", "edge_labels")


class RefusedError(Exception):
    """The second reader finds the files wrong."""


def whole(line: str) -> list[int]:
    """Numbers of a line, read with a regular expression instead of int()."""
    fields = line.strip(" \t\r").split(",")
    if not all(re.fullmatch(r"[ \t]*[+-]?[0-9]+[ \t]*", field) for field in fields):
        raise RefusedError(line)
    numbers = [int(field) for field in fields]
    if any(abs(number) >= 2**63 for number in numbers):
        raise RefusedError(line)
    return numbers


def lines_of(files: Files, key: str) -> list[list[int]]:
    # Line ends of every system, so that two of them in a row make a blank line.
    text = "\n".join([*files[key], ""]).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n \t")
    rows = [whole(line) for line in text.split("\n")] if text else []
    if len({len(row) for row in rows}) > 1:
        raise RefusedError(key)
    return rows


def naive(files: Files) -> list[Graph]:
    """Read the files one graph after another with dictionaries: slow, and written from the rules.

    Returns:
        Of each graph: its nodes, its directed edges with their labels, its label, its node labels.

    Raises:
        RefusedError: The files break a rule.
    """
    if not {"A", "graph_indicator", "graph_labels"} <= set(files):
        raise RefusedError("missing")
    table = {key: lines_of(files, key) for key in files}
    if any(len(row) != 1 for key in table if key != "A" for row in table[key]):
        raise RefusedError("columns")
    if any(len(row) != 2 for row in table["A"]):
        raise RefusedError("columns of A")
    graph_of = [row[0] for row in table["graph_indicator"]]
    count = len(table["graph_labels"])
    if (
        not graph_of
        or sorted(graph_of) != graph_of
        or sorted(set(graph_of)) != list(range(1, count + 1))
    ):
        raise RefusedError("indicator")
    for key, rows in (("node_labels", graph_of), ("edge_labels", table["A"])):
        if key in table and len(table[key]) != len(rows):
            raise RefusedError(key)
    first = [graph_of.index(g) for g in range(1, count + 1)]
    lowest = min((row[0] for row in table.get("edge_labels", [])), default=0)
    edges: dict[tuple[int, int], int] = {}
    for number, (v, u) in enumerate(table["A"]):
        if not (1 <= v <= len(graph_of) and 1 <= u <= len(graph_of)):
            raise RefusedError("node")
        if graph_of[v - 1] != graph_of[u - 1]:
            raise RefusedError("crossing")
        label = table["edge_labels"][number][0] - lowest if "edge_labels" in table else 0
        if v != u and edges.setdefault((v, u), label) != label:
            raise RefusedError("repeat")
    if any((u, v) not in edges for v, u in edges):
        raise RefusedError("direction")
    smallest = min((row[0] for row in table.get("node_labels", [])), default=0)
    graphs: list[Graph] = []
    for g in range(1, count + 1):
        begin = first[g - 1]
        inside = frozenset(
            (v - 1 - begin, u - 1 - begin, label)
            for (v, u), label in edges.items()
            if graph_of[v - 1] == g
        )
        nodes = [i for i, h in enumerate(graph_of) if h == g]
        labels = tuple(table["node_labels"][i][0] - smallest for i in nodes) if (
            "node_labels" in table
        ) else ()  # fmt: skip
        graphs.append((len(nodes), inside, str(table["graph_labels"][g - 1][0]), labels))
    return graphs


def as_graphs(path: Path) -> list[Graph]:
    arrays = read_tu(path, "SET")
    graphs: list[Graph] = []
    for g in range(arrays.num_graphs):
        nodes = slice(arrays.node_slices[g], arrays.node_slices[g + 1])
        rows = slice(arrays.edge_slices[g], arrays.edge_slices[g + 1])
        senders, receivers = arrays.edge_index[:, rows].tolist()
        given_labels = arrays.edge_labels
        edge_labels = [0] * len(senders) if given_labels is None else given_labels[rows, 0].tolist()
        node_labels = arrays.node_labels
        graphs.append(
            (
                nodes.stop - nodes.start,
                frozenset(zip(senders, receivers, edge_labels, strict=True)),
                arrays.class_names[arrays.y[g]],
                () if node_labels is None else tuple(node_labels[nodes, 0].tolist()),
            )
        )
        assert len(set(zip(senders, receivers, strict=True))) == len(senders)
    return graphs


def draw_files(data: st.DataObject) -> Files:
    """Right files of one to four graphs of one to five nodes."""
    generator = np.random.default_rng(data.draw(st.integers(0, 10**6), label="seed"))
    files: Files = {key: [] for key in KEYS}
    offset = 1
    for g in range(int(generator.integers(1, 5))):
        n = int(generator.integers(1, 6))
        for i in range(n):
            for j in range(i):
                if generator.random() < 0.5:
                    label = str(generator.integers(0, 3))
                    files["A"] += [f"{offset + i}, {offset + j}", f"{offset + j}, {offset + i}"]
                    files["edge_labels"] += [label, label]
        files["graph_indicator"] += [str(g + 1)] * n
        files["graph_labels"].append(str(generator.integers(-1, 2)))
        files["node_labels"] += [str(x) for x in generator.integers(0, 4, n)]
        offset += n
    for key in ("node_labels", "edge_labels"):
        if data.draw(st.booleans(), label=f"without {key}"):
            del files[key]
    return files


def pick(data: st.DataObject, files: Files) -> tuple[str, int]:
    key = data.draw(st.sampled_from([key for key in files if files[key]] or sorted(files)))
    return key, data.draw(st.integers(0, max(len(files[key]) - 1, 0)))


def edit_line(edit: Callable[[str], str]) -> Mutation:
    def mutate(files: Files, data: st.DataObject) -> None:
        key, row = pick(data, files)
        if files[key]:
            files[key][row] = edit(files[key][row])

    return mutate


def edit_file(edit: Callable[[list[str]], list[str]]) -> Mutation:
    def mutate(files: Files, data: st.DataObject) -> None:
        key, _ = pick(data, files)
        files[key] = edit(files[key])

    return mutate


def drop_file(files: Files, data: st.DataObject) -> None:
    del files[data.draw(st.sampled_from(sorted(files)))]


def drop_line(files: Files, data: st.DataObject) -> None:
    key, row = pick(data, files)
    del files[key][row : row + 1]


def repeat_line(files: Files, data: st.DataObject) -> None:
    key, row = pick(data, files)
    files[key][row:row] = files[key][row : row + 1]


def repeat_edge(files: Files, data: st.DataObject) -> None:
    if files.get("A"):
        row = data.draw(st.integers(0, len(files["A"]) - 1))
        for key in {"A", "edge_labels"} & set(files):
            files[key] += files[key][row : row + 1]


def blank_line(files: Files, data: st.DataObject) -> None:
    key, row = pick(data, files)
    files[key].insert(row, data.draw(st.sampled_from(["", "  ", "\t"])))


def swap_lines(files: Files, data: st.DataObject) -> None:
    key, row = pick(data, files)
    if files[key]:
        files[key][0], files[key][row] = files[key][row], files[key][0]


def add_loop(files: Files, data: st.DataObject) -> None:
    if "A" in files and files.get("graph_indicator"):
        node = data.draw(st.integers(1, len(files["graph_indicator"])))
        files["A"].append(f"{node}, {node}")
        if "edge_labels" in files:
            files["edge_labels"].append("0")


def one_direction(files: Files, data: st.DataObject) -> None:
    if files.get("A"):
        row = data.draw(st.integers(0, len(files["A"]) - 1))
        for key in {"A", "edge_labels"} & set(files):
            del files[key][row : row + 1]


def zero_based(files: Files, data: st.DataObject) -> None:
    for key in {"A", "graph_indicator"} & set(files):
        if data.draw(st.booleans()):
            files[key] = [
                re.sub(r"\d+", lambda m: str(int(m.group()) - 1), line) for line in files[key]
            ]


def isolated_node(files: Files, data: st.DataObject) -> None:
    if files.get("graph_indicator"):
        files["graph_indicator"].append(files["graph_indicator"][-1])
        if "node_labels" in files:
            files["node_labels"].append("1")


def odd_number(files: Files, data: st.DataObject) -> None:
    key, row = pick(data, files)
    odd = [
        "x",
        "1.0",
        "1e2",
        "0x1",
        "1_0",
        "5-6",
        "+1",
        "--1",
        "",
        ",",
        "9" * 25,
        "nan",
        "1;2",
        "١",
    ]
    if files[key]:
        files[key][row] = data.draw(
            st.sampled_from([*odd, *(f"{o}, 1" for o in odd), *(f"1, {o}" for o in odd)])
        )


MUTATIONS: list[Mutation] = [
    drop_file,
    drop_line,
    repeat_line,
    repeat_edge,
    blank_line,
    swap_lines,
    add_loop,
    one_direction,
    zero_based,
    isolated_node,
    odd_number,
    edit_line(lambda line: f" {line}\t"),
    edit_line(lambda line: line.replace(",", " ,")),
    edit_line(lambda line: line.replace(" ", "")),
    edit_line(lambda line: f"{line},"),
    edit_line(lambda line: f"{line}\r"),
    edit_line(lambda line: re.sub(r"\d+", "77", line, count=1)),
    edit_file(lambda lines: [f"{line}\r" for line in lines]),
    edit_file(lambda lines: [*lines, "", "  ", ""]),
    edit_file(lambda lines: []),
]


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_mutated_files_are_read_right_or_refused_by_file(
    data: st.DataObject, tmp_path: Path
) -> None:
    files = draw_files(data)
    for mutate in data.draw(st.lists(st.sampled_from(MUTATIONS), max_size=4), label="mutations"):
        if files:
            mutate(files, data)
    path = tmp_path / "SET.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for key, lines in files.items():
            text = "".join(f"{line}\n" for line in lines)
            archive.writestr(f"SET/SET_{key}.txt", text)
    try:
        expected = naive(files)
    except RefusedError:
        expected = None
    if expected is None:
        with pytest.raises(DataError, match=r"SET_[a-zA-Z_]+\.txt"):
            as_graphs(path)
    else:
        assert as_graphs(path) == expected
