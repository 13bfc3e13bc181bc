"""Networks trained on pairs: what they and their controls tell apart; a harness that can fail."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

from pretended import pretended_cuda
from unionsnn.base.errors import NonFiniteLossError, RequestError
from unionsnn.config.compose import config_folder
from unionsnn.config.pairs import PairProtocolConfig
from unionsnn.expressivity import pair_test, pairs_together, trained_pairs
from unionsnn.expressivity.graph_sets import Family, golden_pairs
from unionsnn.expressivity.pairs_together import blocks_of
from unionsnn.expressivity.trained_pairs import (
    RECORD,
    Pair,
    compare_pairs,
    content_hash,
    pairs_of,
    sample_of,
    trained_config,
)
from unionsnn.nn.batch import GraphBatch
from unionsnn.reports.views.trained_expressivity import estimate, label, trained_table
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import memory

SMALL = PairProtocolConfig(copies=12, channels=4)
WIDTH = ("model.hidden_channels=8", "model.num_layers=3", "trainer.max_epochs=2")
HARD = ("C6 / 2 C3", "Rook / Shrikhande", "decalin / bicyclopentyl")
UNION = sorted(path.stem for path in (config_folder() / "model").glob("union*.yaml"))


@pytest.fixture(scope="module")
def golden() -> list[Pair]:
    return pairs_of(golden_pairs())


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def call(
        pairs: Sequence[Pair], *overrides: str, wanted: Sequence[int] | None = None, **more: Any
    ) -> dict[str, Any]:
        words = [*WIDTH, f"paths.output={tmp_path}", *overrides]
        protocol = more.pop("protocol", SMALL)
        config = trained_config(words, "own", pairs, protocol=protocol)
        return compare_pairs(config, pairs, wanted, **more)

    return call


def told(record: dict[str, Any]) -> set[str]:
    return {outcome["name"] for outcome in record["pairs"] if outcome["told"]}


def test_networks_see_what_their_coefficient_shows(golden: list[Pair], run: Any) -> None:
    """The same verdicts as refinement with the raw coefficient, with the networks' own copies."""
    degrees = {"K1,2 / K1,3", "C4 / K5"}
    plain = run(golden, "model=gin")
    assert told(plain) == degrees
    assert plain["summary"]["bar"] == plain["summary"]["told"] == 2
    assert plain["summary"]["unresolved"] < 1e-12
    gated = run(golden, "model=union_gin")
    assert told(gated) == degrees | set(HARD)
    assert gated["summary"]["bar"] is None
    assert gated["summary"]["resolved"] > 1e-6
    normalized = run(golden, "model=union_gin", "gate=paper")
    assert told(normalized) == degrees
    for record in (plain, gated, normalized):
        assert record["state"] == "finished"
        assert record["summary"]["unreliable"] == 0
        assert all(outcome["spread"] < 1e-9 for outcome in record["pairs"])


def test_a_gpu_measures_what_the_cpu_does(golden: list[Pair], run: Any, tmp_path: Path) -> None:
    expected = run(golden, "model=union_gin", wanted=[0])["pairs"][0]
    with pretended_cuda() as counts:
        other = f"run_dir={tmp_path / 'gpu'}"
        found = run(golden, "model=union_gin", other, wanted=[0], device="cuda:0")["pairs"][0]
    assert counts.launches
    assert not counts.mixed
    assert (found["device"], expected["device"][:3]) == ("pretended", "cpu")
    for key in ("told", "statistic", "loss", "distance"):
        assert found[key] == pytest.approx(expected[key], rel=1e-9)


@pytest.mark.parametrize("model", ["ppgn", "mewispool", "graphormer", "gatedgcn_lspe"])
def test_a_network_beyond_1_wl_is_no_control(model: str, golden: list[Pair], run: Any) -> None:
    """Without a gate and the coefficient's controls, what it tells apart is its own."""
    words = ["model.heads=2"] if model == "graphormer" else []
    record = run(golden, f"model={model}", *words, wanted=[0])
    assert record["summary"]["bar"] is None
    assert "FAULT" not in " ".join(trained_table([record]).notes)


def test_structure_beside_the_gate_is_not_laid_to_the_noise(golden: list[Pair], run: Any) -> None:
    words = ("model=union_nested_gin", "coefficient.control=random", "trainer.max_epochs=1")
    record = run(golden, *words, wanted=[0])
    assert record["summary"]["bar"] is None
    assert "the noise tells" not in " ".join(trained_table([record]).notes)


def test_what_does_not_fit_is_refused_before_it_is_tried(
    golden: list[Pair], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: 10_000)
    with pytest.raises(RequestError, match=r"data\.batch_size") as refused:
        run(golden, "model=ppgn", wanted=[0])
    assert refused.value.codes == ["memory.too_large"]


@pytest.mark.parametrize("model", UNION)
def test_a_constant_coefficient_shows_nothing(model: str, golden: list[Pair], run: Any) -> None:
    pairs = [pair for pair in golden if pair.name in HARD]
    words = ["model.heads=2"] if model in ("unionormer", "union_gps", "union_ugformer") else []
    record = run(pairs, f"model={model}", *words, "coefficient.control=constant")
    bar = record["summary"]["bar"]
    # DropGIN draws in each copy anew: chance can fail the check.
    assert record["summary"]["unreliable"] == 0 or model == "union_drop_gin"
    if bar is None:
        # It sees structure beside the gate: distances, walks, subgraphs, or a coefficient.
        others = {"union_nested_gin", "union_drop_gin", "union_gatedgcn_lspe"}
        assert model in {"unionormer", "union_gps", "union_graphsnn", *others}
    else:
        assert record["summary"]["told"] == bar == 0


def random_pairs(number: int) -> list[Pair]:
    graphs = [nx.random_regular_graph(3, 8, seed=seed).to_directed() for seed in range(2 * number)]
    found = [(nx_edges(graph), 8) for graph in graphs]
    families = [Family("regular", str(i), (found[2 * i], found[2 * i + 1])) for i in range(number)]
    return pairs_of(families)


def nx_edges(graph: nx.DiGraph) -> Any:
    return torch.tensor(list(graph.edges)).T.numpy()


def test_noise_of_a_control_stays_below_its_bar(run: Any) -> None:
    pairs = random_pairs(30)
    record = run(pairs, "model=union_gin", "coefficient.control=random", "trainer.max_epochs=1")
    summary = record["summary"]
    assert 0 < summary["bar"] < len(pairs) / 4
    assert summary["unreliable"] <= summary["unreliable_bound"]
    assert min(outcome["spread"] for outcome in record["pairs"]) > 1e-3


class Noise(nn.Module):
    """A network that returns noise, of a mean that drifts from call to call."""

    def __init__(self, channels: int, drift: float) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(channels))
        self.drift = drift
        self.calls = count()

    def forward(self, batch: GraphBatch) -> Tensor:
        rows = torch.randn(batch.num_graphs, len(self.shift), dtype=batch.x.dtype)
        return rows + self.shift + self.drift * next(self.calls)


def test_a_model_that_returns_noise_is_caught(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = random_pairs(40)
    records = {}
    for drift in (0.0, 10.0):
        monkeypatch.setattr(
            pair_test, "build_model", lambda config, _, width, drift=drift: Noise(width, drift)
        )
        records[drift] = run(pairs, "model=gin", f"seed={int(drift)}")
    pure, drifting = records[0.0]["summary"], records[10.0]["summary"]
    assert pure["unreliable"] <= pure["unreliable_bound"]
    assert pure["told"] <= pure["bar"] + pure["unreliable_bound"]
    # It tells every pair apart, and every graph from itself: none of it counts.
    assert all(o["statistic"] > records[10.0]["threshold"] for o in records[10.0]["pairs"])
    assert drifting["told"] == 0
    assert drifting["unreliable"] == len(pairs) > drifting["unreliable_bound"]
    notes = " ".join(trained_table([records[10.0]]).notes)
    assert "FAULT: gin tells copies of the same graph apart in 40 pairs" in notes


def test_a_control_over_its_bar_is_a_fault(golden: list[Pair], run: Any) -> None:
    record = run(golden, "model=gin", wanted=[0])
    record["summary"] |= {"bar": 0}
    assert "FAULT: gin is a control, and tells 1 pairs apart" in " ".join(
        trained_table([record]).notes
    )


# -- together ----------------------------------------------------------------------------


@pytest.fixture
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize(
    "words",
    [
        # Twelve epochs without a lower loss halve the rate of pairs that are never told apart.
        ["model=gin", "trainer.max_epochs=14", "optimizer.lr=0.01"],
        ["model=union_gin", "model.dropout=0.3", "trainer.max_epochs=6", "optimizer.lr=0.01"],
        ["model=unionsnn", "gate.features=[raw,cyclomatic]", "coefficient.control=shuffled"],
        ["model=union_gcn", "data.batch_size=5"],
    ],
)
def test_together_is_what_each_pair_is_alone(
    words: list[str], golden: list[Pair], run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In double precision, with the same epochs, verdicts and, to 1e-9, losses and statistics."""
    monkeypatch.setattr(pairs_together, "_MOST_PAIRS", 4)
    alone, together = (
        run(golden, *words, f"protocol.together={how}", f"run_dir={tmp_path / how}")
        for how in ("false", "true")
    )
    notes = " ".join(trained_table([together]).notes)
    assert "4 of 5 tested pairs were trained together" in notes
    assert "trained together" not in " ".join(trained_table([alone]).notes)
    # The largest is left over, in a block of its own.
    alone_still = [o["name"] for o in together["pairs"] if not o.pop("together", False)]
    assert alone_still == ["Rook / Shrikhande"]
    assert together["config_hash"] == alone["config_hash"]
    for one, other in zip(content(alone), content(together), strict=True):
        assert other.pop("loss") == pytest.approx(one.pop("loss"), rel=1e-9, abs=1e-9)
        # Adam takes whole steps along gradients that are rounding, such as of a bias before a norm.
        for key in ("statistic", "distance", "spread", "reliability"):
            assert other.pop(key) == pytest.approx(one.pop(key), rel=1e-6, abs=1e-6)
        assert one == other
    if "model.dropout=0.3" in words:
        assert len({outcome["epochs"] for outcome in together["pairs"]}) > 1


@pytest.mark.parametrize("fault", ["training", "embedding"])
def test_a_pair_that_fails_leaves_the_others(
    fault: str, golden: list[Pair], run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the error of a pair alone, and the records of the others are what they would be."""
    words = ["model=gin", "trainer.max_epochs=1", "protocol.together=true"]
    expected = content(run(golden, *words, f"run_dir={tmp_path / 'whole'}"))
    if fault == "training":
        made = pair_test.PairNetwork.__init__

        def broken(self: Any, config: Any, pair: Any, index: int, device: Any) -> None:
            made(self, config, pair, index, device)
            if index == 1:
                next(self.model.parameters()).data.fill_(torch.nan)

        monkeypatch.setattr(pair_test.PairNetwork, "__init__", broken)
        error, said = NonFiniteLossError, "The loss of pair 1 is nan in epoch 1; type"
    else:
        # The second pair of a block, and the only one of a block of its own.
        for module, numbers in ((pairs_together, count(-2)), (pair_test, count())):
            monkeypatch.setattr(module, "paired_t2", broken_t2(module.paired_t2, numbers))
        error, said = FloatingPointError, "Pair 1: An embedding is NaN or infinite"
    for index, how in (([1], "alone"), (range(5), "together")):
        with pytest.raises(error, match=said):
            run(golden, *words, f"run_dir={tmp_path / how}", wanted=index)
    kept = json.loads((tmp_path / "together" / RECORD).read_text())
    assert content(kept) == [outcome for outcome in expected if outcome["index"] != 1]


def test_a_worker_hands_over_what_it_has_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcomes(self: Any, block: Any) -> Iterator[dict[str, Any]]:
        yield {"index": 0}
        raise pair_test.diverged(1, float("inf"), 3)

    config = SimpleNamespace(trainer=SimpleNamespace(threads=1))
    monkeypatch.setattr(trained_pairs._Worker, "outcomes", outcomes)
    worker = trained_pairs._Worker(config, [], torch.device("cpu"))  # type: ignore[arg-type]
    done, error = pickle.loads(pickle.dumps(worker([0, 1])))
    assert done == {"index": 0}
    assert str(error) == "The loss of pair 1 is inf in epoch 3; type a smaller optimizer.lr."


def broken_t2(compare: Any, numbers: Iterator[int]) -> Any:
    def compared(first: Any, second: Any) -> Any:
        return compare(first * float("nan") if next(numbers) == 0 else first, second)

    return compared


@pytest.mark.parametrize(
    ("words", "cpu", "cuda"),
    [
        (["model=gin"], False, True),
        (["model=gin", "protocol.together=false"], False, False),
        (["model=gin", "protocol.together=true"], True, True),
        (["model=ppgn"], False, False),
    ],
)
def test_what_goes_together_where(
    words: list[str], cpu: bool, cuda: bool, golden: list[Pair]
) -> None:
    config = trained_config([*WIDTH, *words], "own", golden, protocol=SMALL)
    for device, expected in (("cpu", cpu), ("cuda", cuda)):
        assert trained_pairs._go_together(config, torch.device(device)) is expected


@pytest.mark.parametrize("words", [["model=ppgn"], ["model=union_gin", "gate=paper"]])
def test_what_cannot_be_stacked_goes_one_by_one(
    words: list[str], golden: list[Pair], run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A line says so, if it was asked for."""
    wanted = [*words, "trainer.max_epochs=1", "protocol.together=true"]
    record = run(golden, *wanted, wanted=[0, 1])
    assert not any("together" in outcome for outcome in record["pairs"])
    assert [line.partition(":")[0] for line in caplog.messages] == [
        "Pairs are trained one after another"
    ]


def test_blocks_hold_pairs_of_similar_size(golden: list[Pair]) -> None:
    def blocks(size: int, device: str = "cpu", workers: int = 1) -> list[list[int]]:
        graphs = [pair.graphs for pair in golden]
        return blocks_of(graphs, range(5), size, torch.device(device), workers)

    # Of 6, 12, 96, 22 and 20 edges at most.
    assert blocks(16) == [[0, 1, 4, 3, 2]]
    assert blocks(16, workers=2) == [[0, 1, 4], [3, 2]]
    assert blocks(100) == [[0, 1, 4, 3], [2]]
    assert blocks(100, "cuda") == [[0, 1, 4, 3, 2]]
    assert blocks(100_000) == [[0], [1], [4], [3], [2]]


# -- records -------------------------------------------------------------------------------


def content(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in outcome.items() if k != "seconds"} for outcome in record["pairs"]]


def test_a_stopped_run_goes_on(
    golden: list[Pair], run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = run(golden, "model=union_gin", f"run_dir={tmp_path / 'whole'}")
    compared: list[int] = []
    real = trained_pairs.compare_pair

    def stopping(config: Any, graphs: Any, index: int, *rest: Any) -> dict[str, Any]:
        if len(compared) == 3:
            raise KeyboardInterrupt
        compared.append(index)
        return real(config, graphs, index, *rest)

    monkeypatch.setattr(trained_pairs, "compare_pair", stopping)
    own = f"run_dir={tmp_path / 'own'}"
    with pytest.raises(KeyboardInterrupt):
        run(golden, "model=union_gin", own)
    held = json.loads((tmp_path / "own" / RECORD).read_text())
    assert held["state"] == "incomplete"
    compared.clear()
    resumed = run(golden, "model=union_gin", own)
    assert compared == [3, 4]
    assert content(resumed) == content(whole)
    compared.clear()
    again = run(golden, "model=union_gin", own)
    assert not compared
    assert again["pairs"] == resumed["pairs"]


def test_a_pair_depends_on_nothing_else(golden: list[Pair], run: Any, tmp_path: Path) -> None:
    alone = run(golden, "model=gin", f"run_dir={tmp_path / 'alone'}", wanted=[3])
    assert alone["state"] == "incomplete"
    workers = run(golden, "model=gin", "protocol.workers=2")
    assert content(alone)[0] == content(workers)[3]
    assert [outcome["index"] for outcome in workers["pairs"]] == list(range(5))


def test_damaged_and_foreign_records(golden: list[Pair], run: Any, tmp_path: Path) -> None:
    own = f"run_dir={tmp_path / 'own'}"
    run(golden, "model=gin", own, wanted=[0])
    with pytest.raises(RequestError) as refused:
        run(golden, "model=gin", "seed=1", own, wanted=[0])
    assert refused.value.codes == ["expressivity.other_experiment"]
    path = tmp_path / "own" / RECORD
    path.write_text(path.read_text()[:100])
    with pytest.warns(UserWarning, match="damaged and set aside"):
        record = run(golden, "model=gin", own, wanted=[0])
    assert len(record["pairs"]) == 1
    assert (tmp_path / "own" / f"{RECORD}.damaged").exists()
    whole = json.loads(path.read_text())
    lost = {**whole, "pairs": [{"index": 0}]}
    for content in ({**whole, "pairs": None}, {**whole, "pairs": 3}, lost, [], 3):
        path.write_text(json.dumps(content))
        with pytest.warns(UserWarning, match="damaged and set aside"):
            assert len(run(golden, "model=gin", own, wanted=[0])["pairs"]) == 1


def test_force_starts_anew(golden: list[Pair], run: Any, tmp_path: Path) -> None:
    own = f"run_dir={tmp_path / 'own'}"
    run(golden, "model=gin", own, wanted=[0])
    run(golden, "model=gin", own, "force=true", wanted=[1])
    (record,) = tmp_path.glob(f"own.old-1/{RECORD}")
    assert [o["index"] for o in json.loads(record.read_text())["pairs"]] == [0]


def test_every_choice_is_another_run(golden: list[Pair], tmp_path: Path) -> None:
    choices = [
        ["model=gin"],
        ["model=union_gin"],
        ["model=union_gin", "coefficient.control=constant"],
        ["model=union_gin", "optimizer.lr=0.01"],
        ["model=union_gin", "trainer.max_epochs=3"],
        ["model=union_gin", "data.batch_size=8"],
        ["model=union_gin", "seed=1"],
    ]
    configs = [trained_config(words, "own", golden) for words in choices]
    configs.append(trained_config(choices[0], "own", golden[:2]))
    configs.append(trained_config(choices[0], "own", golden, protocol=SMALL))
    assert len({RunFolder.of(config).path for config in configs}) == len(configs)
    same = trained_config(["model=gin", "protocol.workers=2", "trainer.threads=2"], "own", golden)
    assert RunFolder.of(same).path == RunFolder.of(configs[0]).path


def test_wrong_requests_name_every_fault(golden: list[Pair]) -> None:
    with pytest.raises(RequestError) as refused:
        trained_config(["data=mutag", "optimizer.schedule=cosine", "model=gin"], "own", golden)
    assert [fault.split()[0] for fault in refused.value.faults] == ["data", "optimizer.schedule"]
    assert refused.value.codes == ["expressivity.override"] * 2
    with pytest.raises(RequestError) as refused:
        trained_config(["data.batch_size=1"], "own", golden)
    assert refused.value.codes == ["expressivity.batch_size"]
    with pytest.raises(RequestError, match="model=gni"):
        trained_config(["model=gni"], "own", golden)


def test_divergence_is_an_error(golden: list[Pair], run: Any) -> None:
    with pytest.raises((RuntimeError, FloatingPointError), match=r"optimizer\.lr|NaN"):
        run(golden, "model=gin", "model.norm=none", "optimizer.lr=1e30", wanted=[0])


# -- samples and tables --------------------------------------------------------------------


def test_samples_are_fixed_and_by_category() -> None:
    graph = golden_pairs()[0].graphs[0]
    sizes = {"few": 3, "many": 100, "some": 20}
    pairs = [
        Pair(category, str(i), (graph, graph))
        for category, size in sizes.items()
        for i in range(size)
    ]
    chosen = sample_of(pairs, 0.15)
    assert chosen == sample_of(pairs, 0.15) == sorted(set(chosen))
    counts = {category: sum(pairs[i].category == category for i in chosen) for category in sizes}
    assert counts == {"few": 1, "many": 15, "some": 3}
    assert sample_of(pairs, 1.0) == list(range(len(pairs)))


def test_families_become_pairs() -> None:
    graph = golden_pairs()[0].graphs[0]
    pairs = pairs_of([Family("c", "three", (graph,) * 3), Family("c", "two", (graph,) * 2)])
    assert [pair.name for pair in pairs] == ["three 0, 1", "three 0, 2", "three 1, 2", "two"]
    assert content_hash(pairs) != content_hash(pairs[:3])


def test_table_of_a_part(golden: list[Pair], run: Any) -> None:
    record = run(golden, "model=union_gin", "coefficient.control=constant", wanted=[0, 1])
    made = trained_table([record])
    (row,) = made.cells()
    assert row[:3] == ["union_gin, constant", "1", "0"]
    assert row[6:8] == ["1/2", "1"]
    assert label(record) == "union_gin, constant"
    assert estimate(record) == pytest.approx(sum(o["seconds"] for o in record["pairs"]))
