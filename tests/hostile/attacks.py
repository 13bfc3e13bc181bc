"""What the command line is given, changed at random, and what it may answer.

An attack changes one input of a command. Where the command ends with 0, a second reader says what
the changed input means: the standard library, networkx, numpy or yaml, none of which is asked by
the package in the same way. Where the second reader refuses it, the printed graph's own
coefficients are still computed by the plain formula.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
import yaml
from scipy import sparse

from hostile import mutations
from hostile.children import Ended, ended
from hostile.mutations import Random
from tu_files import write_tu

Rows = list[tuple[int, str, str]]
"""Graph, source and target of each edge as listed."""

SMALL = [
    "data.num_train=24",
    "data.num_validation=8",
    "data.num_test=8",
    "data.batch_size=8",
    "model.hidden_channels=4",
    "model.num_layers=1",
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
]
RUN = [*SMALL, "protocol=cross_validation", "protocol.folds=3"]
OTHER = [*RUN, "optimizer.lr=0.5"]


@dataclass(frozen=True)
class Attempt:
    """A command on a changed input.

    Attributes:
        words: What stands after ``unionsnn``.
        check: Returns what is wrong about the output of a command that ended with 0.
        changed: The file that was changed, relative to the working folder.
    """

    words: Sequence[str]
    check: Callable[[Ended], Iterable[str]] = lambda done: ()
    changed: str = ""


@dataclass
class Base:
    """Sound inputs, and what commands say about them.

    Args:
        folder: An empty folder.
    """

    folder: Path
    answers: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        write_tu(self.folder, "SET", 8)
        (self.folder / "g.csv").write_text("a,b\nb,a\nb,c\nc,b\nc,a\na,c\n")
        for name, overrides in (("run", RUN), ("other", OTHER)):
            self.answer("train", *overrides, f"run_dir={name}", "--json")

    def answer(self, *words: str) -> Any:
        """Return the JSON that a command prints about the sound inputs."""
        if words not in self.answers:
            done = ended(words, self.folder)
            assert done.status == 0, done
            assert not done.faults, done
            self.answers[words] = json.loads(done.stdout)
        return self.answers[words]


Attack = Callable[[Random, Base, Path], Attempt]


def pick(rng: Random, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


# -- graph files ---------------------------------------------------------------------------


def some_graph(rng: Random) -> nx.Graph:
    n = int(rng.integers(3, 12))
    return nx.gnm_random_graph(n, int(rng.integers(n - 1, 2 * n)), seed=int(rng.integers(2**31)))


def plain_coefficient(graph: nx.Graph, v: Any, u: Any) -> float:
    """Sum of the singular values of the path matrix of the union subgraph."""
    subgraph = graph.subgraph({v, u, *graph[v], *graph[u]})
    lengths = dict(nx.all_pairs_shortest_path_length(subgraph))
    matrix = np.array([[lengths[i][j] for j in subgraph] for i in subgraph], dtype=float)
    return float(np.linalg.svd(matrix, compute_uv=False).sum())


def printed_rows(stdout: str) -> list[tuple[int, str, str, float]]:
    table = csv.DictReader(io.StringIO(stdout, newline=""))
    return [(int(r["graph"]), r["source"], r["target"], float(r["a_r1"])) for r in table]


def coefficients_of(
    path: Path, read: Callable[[Path], Iterable[Rows]], *, directed: bool = True
) -> Attempt:
    """Compute the coefficients of a file that a second reader reads as one of several lists."""

    def check(done: Ended) -> Iterable[str]:
        rows = printed_rows(done.stdout)
        graphs: dict[int, nx.Graph] = {}
        for number, source, target, _ in rows:
            graphs.setdefault(number, nx.Graph()).add_edge(source, target)
        for graph in graphs.values():
            graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        if len(rows) < 300:
            for number, source, target, a in rows:
                right = (
                    0.0 if source == target else plain_coefficient(graphs[number], source, target)
                )
                if not math.isclose(a, right, rel_tol=1e-6, abs_tol=1e-9):
                    yield f"wrong value: {source!r} - {target!r} has {a}, not {right}"
                    break

        def as_meant(rows: Rows) -> Rows:
            # Blanks before a quote are a matter of taste, and which end comes first where each
            # edge is listed once.
            plain = [(n, s.strip(' "\t'), t.strip(' "\t')) for n, s, t in rows]
            return plain if directed else [(n, *sorted(ends)) for n, *ends in plain]

        try:
            meanings = [Counter(as_meant(listed)) for listed in read(path)]
        except Exception:
            return
        listed = Counter(as_meant([(n, s, t) for n, s, t, _ in rows]))
        if meanings and listed not in meanings:
            more, less = listed - meanings[0], meanings[0] - listed
            yield f"read as another graph: {sorted(more)[:3]} for {sorted(less)[:3]}"

    words = ["-q", "coefficients", path.name, "--symmetrize", "--no-cache"]
    return Attempt(words, check, path.name)


def edge_list(rng: Random, base: Base, folder: Path) -> Attempt:
    graph = some_graph(rng)
    names = pick(rng, [str, lambda i: f"n{i}", lambda i: f'"New {i}"', lambda i: f"é{i}"])
    ending, mark = pick(rng, [(".csv", ","), (".tsv", "\t"), (".txt", " ")])
    if ending == ".txt":
        names = str
    more = pick(rng, ["", f"{mark}0.5"])
    lines = [f"{names(v)}{mark}{names(u)}{more}" for v, u in graph.edges]
    path = folder / f"g{ending}"
    path.write_bytes(mutations.text_or_raw(rng, "\n".join(lines) + "\n"))

    def read(path: Path) -> Iterable[Rows]:
        text = path.read_text("utf-8-sig")
        if mark == " ":
            table = [line.split() for line in text.split("\n")]
        else:
            table = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True))
        if mark == " " and "," in text:
            return ()
        rows = [(0, row[0], row[1]) for row in table if any(map(str.strip, row))]
        if mark == " ":
            rows = [row for row in rows if not row[1].startswith(("#", "%", "//"))]
        return rows, rows[1:]

    return coefficients_of(path, read)


def graphml(rng: Random, base: Base, folder: Path) -> Attempt:
    path = folder / "g.graphml"
    content = "\n".join(nx.generate_graphml(nx.relabel_nodes(some_graph(rng), str)))
    path.write_bytes(mutations.text_or_raw(rng, content))

    def read(path: Path) -> Iterable[Rows]:
        graph = nx.read_graphml(path)
        return ([(0, str(v), str(u)) for v, u, *_ in graph.edges],)

    return coefficients_of(path, read, directed=False)


def graph6(rng: Random, base: Base, folder: Path) -> Attempt:
    graphs = [some_graph(rng) for _ in range(int(rng.integers(1, 4)))]
    dump, load, ending = pick(
        rng,
        [
            (nx.to_graph6_bytes, nx.from_graph6_bytes, ".g6"),
            (nx.to_sparse6_bytes, nx.from_sparse6_bytes, ".s6"),
        ],
    )
    path = folder / f"g{ending}"
    path.write_bytes(mutations.raw(rng, b"".join(dump(g, header=False) for g in graphs)))

    def read(path: Path) -> Iterable[Rows]:
        lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
        if max(map(len, lines)) > 200:
            return ()
        return ([(i, str(v), str(u)) for i, line in enumerate(lines) for v, u in load(line).edges],)

    return coefficients_of(path, read)


def npz(rng: Random, base: Base, folder: Path) -> Attempt:
    graph = some_graph(rng)
    path = folder / "g.npz"
    edges = np.array(graph.edges).reshape(-1, 2).T
    written = io.BytesIO()
    if rng.random() < 0.5:
        np.savez(written, edge_index=edges, num_nodes=np.array(len(graph)))
    else:
        matrix = nx.to_scipy_sparse_array(graph, format=pick(rng, ["csr", "csc", "coo"]))
        sparse.save_npz(written, matrix)
    path.write_bytes(mutations.arrays(rng, written.getvalue()))

    def read(path: Path) -> Iterable[Rows]:
        with np.load(path, allow_pickle=False) as held:
            arrays = dict(held)
        if "edge_index" in arrays:
            listed = arrays["edge_index"]
            if listed.dtype.kind not in "iu":
                return ()
        else:
            shape = arrays["shape"].tolist()
            if shape[0] != shape[1] or max(shape) > 1000:
                return ()
            dense = np.zeros(shape)
            if arrays["format"].item() == b"coo":
                rows, columns = arrays["row"], arrays["col"]
            else:
                rows = np.repeat(np.arange(shape[0]), np.diff(arrays["indptr"]))
                columns = arrays["indices"]
                if arrays["format"].item() == b"csc":
                    rows, columns = columns, rows
            np.add.at(dense, (rows, columns), arrays["data"])
            listed = np.stack(np.nonzero(dense))
        return ([(0, str(v), str(u)) for v, u in listed.T.tolist()],)

    return coefficients_of(path, read)


def pt(rng: Random, base: Base, folder: Path) -> Attempt:
    graph = some_graph(rng)
    edges = torch.tensor(list(graph.edges)).reshape(-1, 2).t().contiguous()
    content: Any = {"edge_index": edges, "num_nodes": len(graph)}
    if rng.random() < 0.5:
        content = mutations.tree(rng, {"edge_index": edges, "num_nodes": len(graph), "x": [1]})
        if torch.is_tensor(content.get("edge_index")) and rng.random() < 0.7:
            changed = mutations.array(rng, edges.numpy())
            if changed.dtype.kind in "iufb":
                content["edge_index"] = torch.from_numpy(np.ascontiguousarray(changed))
    path = folder / "g.pt"
    written = io.BytesIO()
    torch.save(content, written)
    path.write_bytes(
        written.getvalue() if rng.random() < 0.5 else mutations.raw(rng, written.getvalue())
    )

    def read(path: Path) -> Iterable[Rows]:
        held = torch.load(path, weights_only=True)["edge_index"]
        return ([(0, str(v), str(u)) for v, u in held.t().tolist()],)

    return coefficients_of(path, read)


def expressivity(rng: Random, base: Base, folder: Path) -> Attempt:
    pairs = [some_graph(rng) for _ in range(4)]
    path = folder / "pairs.g6"
    path.write_bytes(
        mutations.raw(rng, b"".join(nx.to_graph6_bytes(g, header=False) for g in pairs))
    )

    def check(done: Ended) -> Iterable[str]:
        (found,) = json.loads(done.stdout)["sets"]
        try:
            graphs = [nx.from_graph6_bytes(line) for line in path.read_bytes().split()]
        except Exception:
            return
        right = 0
        for one, other in zip(graphs[::2], graphs[1::2], strict=True):
            union = nx.disjoint_union(one, other)
            colors = dict.fromkeys(union, 0)
            for _ in range(len(union)):
                looks = {v: (colors[v], tuple(sorted(colors[u] for u in union[v]))) for v in union}
                places = {look: i for i, look in enumerate(sorted(set(looks.values())))}
                colors = {v: places[looks[v]] for v in union}
            halves = (
                Counter(colors[v] for v in range(len(one))),
                Counter(colors[v] for v in range(len(one), len(union))),
            )
            right += halves[0] != halves[1]
        (choice,) = found["choices"]
        if choice["told"] != right:
            yield f"wrong value: 1-WL tells {choice['told']} pairs, not {right}"

    return Attempt(["expressivity", path.name, "--choices", "1wl", "--json"], check, path.name)


# -- data sets -----------------------------------------------------------------------------


def sums(done: Ended) -> tuple[int, int, int]:
    found = json.loads(done.stdout)
    return found["graphs"], found["nodes"], found["edges"]


def tu(rng: Random, base: Base, folder: Path) -> Attempt:
    path = folder / "TUDataset" / "SET.zip"
    path.parent.mkdir()
    path.write_bytes(mutations.archive(rng, (base.folder / "TUDataset/SET.zip").read_bytes()))

    def check(done: Ended) -> Iterable[str]:
        with zipfile.ZipFile(path) as file:
            texts = {Path(n).stem: file.read(n).decode().split("\n") for n in file.namelist()}
        lines = {k.removeprefix("SET_"): [s for s in v if s.strip()] for k, v in texts.items()}
        edges = {tuple(int(x) for x in line.split(",")) for line in lines["A"]}
        right = (
            len(lines["graph_labels"]),
            len(lines["graph_indicator"]),
            sum(v != u for v, u in edges),
        )
        if sums(done) != right:
            yield f"wrong value: graphs, nodes, edges are {sums(done)}, not {right}"

    words = ["data=tu", "data.name=SET", "data.mirror=.", "data.offline=true"]
    words += ["paths.data=cache", "coefficient.radius=[1]", "--json"]
    return Attempt(["precompute", *words], check, "SET.zip")


def labelled_folder(rng: Random, base: Base, folder: Path) -> Attempt:
    mine = folder / "mine"
    mine.mkdir()
    graphs = [some_graph(rng) for _ in range(6)]
    for i, graph in enumerate(graphs):
        nx.write_edgelist(graph, mine / f"{i}.csv", delimiter=",", data=False)
    table = "file,label\n" + "".join(f"{i}.csv,{'ab'[i % 2]}\n" for i in range(6))
    name = pick(rng, ["labels.csv", "labels.csv", "labels.csv", "0.csv"])
    path = mine / name
    path.write_text(table)
    if name != "labels.csv":
        (mine / "labels.csv").write_text(table)
        nx.write_edgelist(graphs[0], path, delimiter=",", data=False)
    path.write_bytes(mutations.text_or_raw(rng, path.read_text()))

    def check(done: Ended) -> Iterable[str]:
        with (mine / "labels.csv").open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file, strict=True))[1:]
        rows = [row for row in rows if row]
        if sums(done)[0] != len(rows):
            yield f"wrong value: {sums(done)[0]} graphs of {len(rows)} rows"
        if any(row[-1].strip().lower() in ("", "na", "nan", "null") for row in rows):
            yield "wrong value: a missing label is a class"
        files = [row[0].strip() for row in rows]
        if name == "labels.csv" and set(files) <= {f"{i}.csv" for i in range(6)}:
            right = sum(2 * graphs[int(each[0])].number_of_edges() for each in files)
            if sums(done)[2] != right:
                yield f"wrong value: {sums(done)[2]} edges, not {right}"

    words = ["data=folder", "data.path=mine", "data.symmetrize=true", "paths.data=cache"]
    return Attempt(["precompute", *words, "coefficient.radius=[1]", "--json"], check, name)


def pyg(rng: Random, base: Base, folder: Path) -> Attempt:
    graphs = []
    for i in range(6):
        graph = some_graph(rng)
        edges = torch.tensor(list(graph.edges)).reshape(-1, 2).t()
        graphs.append(
            {
                "edge_index": torch.cat([edges, edges.flip(0)], 1),
                "x": torch.ones(len(graph), 2),
                "y": torch.tensor([i % 2]),
                "num_nodes": len(graph),
            }
        )
    counts = (
        len(graphs),
        sum(g["num_nodes"] for g in graphs),
        sum(g["edge_index"].shape[1] for g in graphs),
    )
    chosen = graphs[int(rng.integers(6))]
    key = pick(rng, ["y", "x", "edge_index", "num_nodes"])
    numbers = torch.as_tensor(chosen[key]).numpy()
    chosen[key] = pick(
        rng,
        [
            None,
            5,
            1.5,
            float("nan"),
            "x",
            numbers,
            [1, 2],
            torch.as_tensor(chosen[key]).to(torch.bfloat16),
            torch.as_tensor(chosen[key]).to(torch.complex64),
            torch.as_tensor(chosen[key])[..., :-1] if key != "num_nodes" else 3,
            torch.tensor(float("nan")),
            torch.tensor([-1]),
            *(mutations.array(rng, numbers) for _ in range(6)),
        ],
    )
    if (
        isinstance(chosen[key], np.ndarray)
        and rng.random() < 0.7
        and chosen[key].dtype.kind in "iufb"
    ):
        chosen[key] = torch.from_numpy(np.array(chosen[key]))
    with (folder / "set.pickle").open("wb") as file:
        pickle.dump(graphs, file)

    def check(done: Ended) -> Iterable[str]:
        if key in ("x", "y") and sums(done) != counts:
            yield f"wrong value: graphs, nodes, edges are {sums(done)}, not {counts}"

    words = [
        "data=pyg",
        "data.dataset=hostile.own.Pickled",
        f"data.arguments={{path: {folder}/set.pickle}}",
    ]
    return Attempt(
        ["precompute", *words, "paths.data=cache", "coefficient.radius=[1]", "--json"], check, ""
    )


# -- configurations ------------------------------------------------------------------------

EXPERIMENT = """# @package _global_
defaults:
  - override /model: gin
  - override /optimizer: adam
model:
  hidden_channels: 16
  num_layers: 3
  dropout: 0.1
optimizer:
  lr: 0.005
  weight_decay: 1.0e-4
trainer:
  max_epochs: 7
seed: 3
"""

STUDY = f"""overrides: [{", ".join(SMALL)}]
space:
  optimizer.lr: choice(0.1, 0.01)
  model.dropout: interval(0.0, 0.5)
objective: val_loss
sampler: {{name: tpe, n_startup_trials: 3}}
trials: 6
heartbeat: 2
"""


def at(config: Any, key: str) -> Any:
    for name in key.split("."):
        config = config[name]
    return config


def leaves(content: Any, prefix: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(content, dict):
        for key, held in content.items():
            yield from leaves(held, f"{prefix}{key}.")
    else:
        yield prefix[:-1], content


def same(held: Any, given: Any) -> bool:
    if isinstance(held, bool) or isinstance(given, bool) or held is None or given is None:
        return held is given or str(held).lower() == str(given).lower()
    try:
        return float(held) == float(given)
    except (TypeError, ValueError):
        return str(held) == str(given)


def disagreements(config: Any, given: Iterable[tuple[str, Any]]) -> Iterable[str]:
    for key, wanted in given:
        if isinstance(wanted, list) or "${" in str(wanted):
            continue
        try:
            held = at(config, key)
        except (KeyError, TypeError):
            yield f"dropped: {key}={wanted!r}"
            continue
        # One radius may be given without brackets.
        if not same(held, wanted) and not (isinstance(held, list) and same(held[0], wanted)):
            yield f"read as something else: {key} is {held!r}, not {wanted!r}"


def configuration(rng: Random, base: Base, folder: Path) -> Attempt:
    path = folder / "conf" / "experiment" / "mine.yaml"
    path.parent.mkdir(parents=True)
    content = EXPERIMENT
    if rng.random() < 0.4:
        content = "# @package _global_\n" + yaml.safe_dump(
            mutations.tree(rng, yaml.safe_load(content))
        )
        path.write_text(content)
    else:
        path.write_bytes(mutations.text_or_raw(rng, content))

    def check(done: Ended) -> Iterable[str]:
        text = path.read_text("utf-8-sig")
        content = yaml.safe_load(text) or {}
        first = text.split("\n", 1)[0].split()
        if first != ["#", "@package", "_global_"]:
            return
        content.pop("defaults", None)
        given = [(k, v) for k, v in leaves(content) if v != {}]
        yield from disagreements(json.loads(done.stdout)["config"], given)

    words = ["train", "--config-dir", "conf", "experiment=mine", "data.num_train=24"]
    return Attempt(
        [*words, "data.num_validation=8", "data.num_test=8", "--dry-run", "--json"],
        check,
        "mine.yaml",
    )


def overrides(rng: Random, base: Base, folder: Path) -> Attempt:
    words = [
        *SMALL,
        "optimizer.lr=0.02",
        "seed=4",
        "model=gin",
        "trainer.threads=1",
        "coefficient.radius=[1]",
    ]
    i = int(rng.integers(len(words)))
    key, _, held = words[i].partition("=")
    match pick(rng, ["plausible", "plausible", "value", "value", "text", "key"]):
        case "plausible":
            held = pick(
                rng, ["0.1", "1e-3", "3", "16", "1E2", "007", "+3", "5e-324", "0.1000000000000001"]
            )
            words[i] = f"{key}={held}"
        case "value":
            words[i] = f"{key}={mutations.word(rng)}"
        case "key":
            words[i] = f"{mutations.text(rng, key)}={held}"
        case _:
            words[i] = mutations.text(rng, words[i])
    words[i] = words[i].replace("\0", "")
    changed = words[i]

    def check(done: Ended) -> Iterable[str]:
        key, _, given = changed.partition("=")
        plain = all(c.isalnum() or c in ".+-_" for c in given)
        if given and plain and all(c.isalnum() or c in "._" for c in key) and key != "model":
            yield from disagreements(json.loads(done.stdout)["config"], [(key, given)])

    return Attempt(["train", *words, "--dry-run", "--json"], check)


def study(rng: Random, base: Base, folder: Path) -> Attempt:
    path = folder / "mine.yaml"
    if rng.random() < 0.4:
        path.write_text(yaml.safe_dump(mutations.tree(rng, yaml.safe_load(STUDY))))
    else:
        path.write_bytes(mutations.text_or_raw(rng, STUDY))

    def check(done: Ended) -> Iterable[str]:
        content, found = yaml.safe_load(path.read_text("utf-8-sig")), json.loads(done.stdout)
        if set(found["space"]) != set(map(str, content["space"])):
            yield f"read as something else: space {found['space']}"
        # A space of a few points has no more trials.
        if found["trials"] > int(content.get("trials", found["trials"])):
            yield f"read as something else: {found['trials']} trials of {content['trials']!r}"

    return Attempt(["sweep", "mine.yaml", "--dry-run", "--json"], check, "mine.yaml")


# -- finished runs -------------------------------------------------------------------------

_TIMES = {"seconds", "run_dir", "seconds_total", "computed"}


def timeless(content: Any) -> Any:
    """Leave out what differs between two runs of the same command."""
    if isinstance(content, dict):
        return {k: timeless(v) for k, v in content.items() if k not in _TIMES}
    return [timeless(each) for each in content] if isinstance(content, list) else content


def answers_as_before(
    base: Base, words: Sequence[str], changed: Path
) -> Callable[[Ended], Iterable[str]]:
    right = timeless(base.answer(*words))

    def check(done: Ended) -> Iterable[str]:
        said = done.stderr + done.stdout
        if timeless(json.loads(done.stdout)) != right and changed.name not in said:
            yield "wrong value: another answer than of the sound files, which are not named"

    return check


def record(rng: Random, base: Base, folder: Path) -> Attempt:
    for name in ("run", "other"):
        shutil.copytree(base.folder / name, folder / name)
    shutil.copy(base.folder / "g.csv", folder)
    run = folder / "run"
    files = [p for p in run.rglob("*") if p.suffix in (".json", ".csv", ".npz") and p.is_file()]
    often = [p for p in files if p.suffix == ".json"]
    path = pick(rng, sorted([*files, *often, *often]))
    content = path.read_bytes()
    match path.suffix:
        case ".json":
            path.write_bytes(mutations.json_text(rng, content.decode()))
        case ".csv":
            path.write_bytes(mutations.text_or_raw(rng, content.decode()))
        case _:
            path.write_bytes(mutations.arrays(rng, content))
    words = pick(
        rng,
        [
            ["train", *RUN, "run_dir=run", "--json"],
            ["train", *RUN, "run_dir=run", "--json"],
            ["report", "run", "--json"],
            ["report", "run", "--json"],
            ["compare", "run", "other", "--json"],
            ["predict", "run", "g.csv", "--json"],
        ],
    )
    return Attempt(words, answers_as_before(base, words, path), str(path.relative_to(folder)))


def checkpoint(rng: Random, base: Base, folder: Path) -> Attempt:
    shutil.copytree(base.folder / "run", folder / "run")
    shutil.copy(base.folder / "g.csv", folder)
    path = folder / "run/checkpoints/00.ckpt"
    if rng.random() < 0.6:
        path.write_bytes(mutations.raw(rng, path.read_bytes()))
    else:
        held = torch.load(path, weights_only=False)
        weights = "state_dict" if "state_dict" in held else pick(rng, sorted(held))
        if rng.random() < 0.3 and isinstance(held[weights], dict):
            name = pick(rng, sorted(held[weights]))
            changed = mutations.array(rng, held[weights][name].numpy())
            held[weights][name] = (
                torch.from_numpy(np.array(changed)) if changed.dtype.kind in "iufb" else 1
            )
        else:
            state = held.pop(weights)
            held = mutations.tree(rng, held)
            held[weights] = state
        torch.save(held, path)
    words = ["predict", pick(rng, ["run", "run/checkpoints/00.ckpt"]), "g.csv", "--json"]
    return Attempt(words, answers_as_before(base, words, path), "00.ckpt")


ATTACKS: dict[str, Attack] = {
    "edge list": edge_list,
    "GraphML": graphml,
    "graph6": graph6,
    "npz": npz,
    "pt": pt,
    "expressivity": expressivity,
    "TU archive": tu,
    "folder": labelled_folder,
    "PyG set": pyg,
    "configuration": configuration,
    "overrides": overrides,
    "study": study,
    "record": record,
    "checkpoint": checkpoint,
}


def attack(
    seed: int, number: int, base: Base, folder: Path, kind: str = ""
) -> tuple[str, Attempt, Ended, list[str]]:
    """Make one attack in an empty folder; return its kind, its command, its end, its findings."""
    kind = kind or list(ATTACKS)[number % len(ATTACKS)]
    attempt = ATTACKS[kind](np.random.default_rng([seed, number]), base, folder)
    done = ended(attempt.words, folder)
    found = done.faults
    if done.status == 0:
        try:
            found += attempt.check(done)
        except (
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            OSError,
            csv.Error,
            yaml.YAMLError,
            zipfile.BadZipFile,
        ) as error:
            found.append(f"what it printed is not what was meant ({type(error).__name__}: {error})")
    return kind, attempt, done, found
