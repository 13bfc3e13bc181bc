"""Comparisons: what can be compared, what is run, and the numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from made_records import result
from unionsnn.base.errors import RequestError
from unionsnn.base.processes import ProcessPool
from unionsnn.runs import pending
from unionsnn.runs.comparison import (
    Candidate,
    compare_records,
    read_candidates,
    refuse_incomparable,
    run_comparison,
)
from unionsnn.runs.experiment import run_experiment
from unionsnn.training.records import Result, sealed
from unionsnn.training.statistics import summarize_seeds

SMALL = [
    "data.num_train=32",
    "data.num_validation=8",
    "data.num_test=12",
    "model.hidden_channels=8",
    "model.num_layers=1",
    "trainer.max_epochs=3",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
    "optimizer.lr=0.05",
    "logger=none",
]
FOLDS = ["protocol=cross_validation", "protocol.folds=4"]
SEEDS = ["protocol=repeated_seeds", "protocol.seeds=3"]

Reader = Callable[..., list[Candidate]]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Return a reader of requests whose runs lie below the test's folder."""
    paths = [f"paths.output={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]

    def call(*words: str, common: list[str] | None = None) -> list[Candidate]:
        return read_candidates(words, [*SMALL, *paths, *(common or [])])

    return call


def compared(candidates: list[Candidate], tmp_path: Path) -> dict[str, Any]:
    refuse_incomparable(candidates)
    comparison = run_comparison(candidates, tmp_path / "runs")
    return {**comparison.to_json(), "path": str(comparison.path)}


def refused(candidates: list[Candidate]) -> RequestError:
    with pytest.raises(RequestError) as refusal:
        refuse_incomparable(candidates)
    return refusal.value


def test_forgotten_dashes_are_told_in_one_line_with_the_whole_command(tmp_path: Path) -> None:
    words = ["model=gin", "model=gin gate=paper", "data=mutag", "trainer.max_epochs=2"]
    error = refused(read_candidates(words))
    assert error.codes == ["compare.dashes"]
    typed = "model=gin 'model=gin gate=paper' -- data=mutag trainer.max_epochs=2"
    assert f"type -- before data=mutag, so that it applies to all: unionsnn compare {typed}" == str(
        error
    )


def test_folds_are_compared_pair_by_pair(read: Reader, tmp_path: Path) -> None:
    candidates = read("model=gin", "model=union_gin seed=0", common=FOLDS)
    result = compared(candidates, tmp_path)
    one, two = (json.loads((c.path / "results.json").read_text()) for c in candidates)
    a, b = (np.array([r["metrics"]["test_accuracy"] for r in x["repetitions"]]) for x in (one, two))
    (difference,) = result["differences"]
    assert difference["values"] == list(b - a)
    assert difference["mean"] == pytest.approx(b.mean() - a.mean())
    assert difference["relative"] == pytest.approx((b.mean() - a.mean()) / a.mean())
    counts = [int((b > a).sum()), int((b < a).sum()), int((b == a).sum())]
    assert [difference["won"], difference["lost"], difference["tied"]] == counts
    assert "corrected resampled t over folds" in difference["method"]
    if difference["p_value"] is not None:
        sizes = one["repetitions"][0]["sizes"]
        share = 1 / 4 + sizes["test"] / sizes["train"]
        t = (b - a).mean() / np.sqrt(share * (b - a).var(ddof=1))
        # Folds differ in size by a graph at the most.
        assert difference["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), 3), rel=0.05)
    assert difference["keys"] == ["gate.preset", "model.name"]
    assert [run["label"] for run in result["runs"]] == ["model=gin", "model=union_gin seed=0"]
    for run, record in zip(result["runs"], (one, two), strict=True):
        assert run["result"] == record["result"]
        assert run["parameters"] == record["parameters"]
    assert one["protocol"]["split_hash"] == two["protocol"]["split_hash"]


def test_all_configurations_are_trained_by_the_same_processes_with_the_same_numbers(
    read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    spawn = ProcessPool._spawn

    def counted(pool: ProcessPool[Any, Any]) -> Any:
        started.append(pool)
        return spawn(pool)

    monkeypatch.setattr(ProcessPool, "_spawn", counted)
    words = ("model=gin", "model=union_gin", "model=gcn")
    together = compared(read(*words, common=[*SEEDS, "protocol.workers=2"]), tmp_path)
    assert len(started) == 2
    shutil.rmtree(tmp_path / "runs")
    alone = compared(read(*words, common=SEEDS), tmp_path)
    assert len(started) == 2
    assert [run["result"] for run in together["runs"]] == [run["result"] for run in alone["runs"]]
    assert together["differences"] == alone["differences"]


def test_the_result_is_written_and_a_second_call_trains_nothing(
    read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("model=gin", "model=gcn", "model=union_gin coefficient.control=constant")
    first = compared(read(*words, common=SEEDS), tmp_path)
    path = Path(first["path"])
    assert path.parent.parent == tmp_path / "runs" / "comparisons"
    assert {**json.loads(path.read_text()), "path": str(path)} == first
    assert [d["method"].partition(",")[0] for d in first["differences"]] == [
        "paired Student t over seeds"
    ] * 2
    assert first["runs"][2]["control"] == "constant"

    def fail(*args: object) -> None:
        raise AssertionError("a finished repetition was trained again")

    monkeypatch.setattr(pending, "train_repetition", fail)
    assert compared(read(*words, common=SEEDS), tmp_path) == first
    # The same runs, named by their folders, or the first one alone.
    folders = [run["run_dir"] for run in first["runs"]]
    requests = [
        read_candidates(folders),
        read(folders[0], *words[1:], common=SEEDS),
        read(*words[:2], folders[2], common=SEEDS),
    ]
    for request in requests:
        again = compared(request, tmp_path)
        assert [d["values"] for d in again["differences"]] == [
            d["values"] for d in first["differences"]
        ]
        assert again["path"] == first["path"]


def test_another_order_is_another_comparison(read: Reader, tmp_path: Path) -> None:
    there = compared(read("model=gin", "model=gcn", common=SEEDS), tmp_path)
    back = compared(read("model=gcn", "model=gin", common=SEEDS), tmp_path)
    assert back["path"] != there["path"]
    assert back["differences"][0]["values"] == [-v for v in there["differences"][0]["values"]]
    for one, other in (("won", "lost"), ("lost", "won"), ("tied", "tied")):
        assert back["differences"][0][one] == there["differences"][0][other]


def test_one_split_trained_once_has_a_difference_and_no_test(read: Reader, tmp_path: Path) -> None:
    result = compared(read("model=gin", "model=gcn"), tmp_path)
    (difference,) = result["differences"]
    assert (difference["interval"], difference["p_value"]) == (None, None)
    assert difference["method"] == "single pair"
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("model=gcn seed=1", "compare.differs", "seed is 0 in model=gin and 1 in model=gcn seed=1"),
        ("model=gcn data=4cycles", "compare.differs", "data.name is '4cycles_small' in model=gin"),
        ("model=gcn protocol.folds=5", "compare.differs", "protocol.folds is 4"),
        ("model=gcn protocol.report=test_loss", "compare.differs", "protocol.report"),
        ("model=gcn protocol.only=[1]", "compare.repetitions", "repetitions [0, 1, 2, 3]"),
        ("model=gin data.batch_size=32", "compare.same", ""),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(
    read: Reader, words: str, code: str, part: str
) -> None:
    error = refused(read("model=gin", words, common=FOLDS))
    assert code in error.codes
    assert part in str(error)


def test_two_runs_in_one_folder_are_one_experiment(read: Reader) -> None:
    error = refused(read("model=gin run_dir=x", "model=gcn run_dir=x", common=FOLDS))
    assert "compare.same" in error.codes


def test_what_may_differ(read: Reader) -> None:
    words = [
        "model=gin",
        "model=gcn",
        "model=gin data.batch_size=8",
        "model=gin data.features=degree",
        "model=gin data.edge_features=labels",
        "model=gin optimizer.lr=0.1",
        "model=union_gin",
        "model=union_gin coefficient.control=random",
        "model=union_gin coefficient=overlap",
        "model=gin trainer.max_epochs=5",
    ]
    refuse_incomparable(read(*words, common=FOLDS))


def test_what_cannot_be_read_is_refused_under_what_was_typed(read: Reader, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "results.json").write_text("{")
    words = ["modle=gin", "gin", str(tmp_path / "empty"), str(tmp_path / "damaged"), "model='gin"]
    with pytest.raises(RequestError) as refusal:
        read(*words)
    faults = refusal.value.faults
    assert len(faults) == 5
    for word, fault in zip(words, faults, strict=True):
        assert fault.startswith(f"{word}: ")
    assert "Did you mean 'model'?" in faults[0]
    assert refusal.value.codes[1:] == [
        "compare.no_folder",
        "compare.no_record",
        "compare.unreadable",
        "compare.quotes",
    ]
    for few in ([], ["model=gin"]):
        with pytest.raises(RequestError) as refusal:
            read(*few)
        assert refusal.value.codes == ["compare.too_few"]


def test_overrides_for_runs_on_disk_are_refused(read: Reader, tmp_path: Path) -> None:
    folders = [str(c.path) for c in read("model=gin", "model=gcn")]
    for candidate in read("model=gin", "model=gcn"):
        run_experiment(candidate.config)
    with pytest.raises(RequestError, match=r"trainer\.max_epochs=3") as refusal:
        read(*folders)
    assert refusal.value.codes == ["compare.unused_overrides"]
    refuse_incomparable(read_candidates(folders, ["paths.output=elsewhere"]))


def altered(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Copy a run folder with a changed record."""
    copy = folder.with_name(name)
    shutil.copytree(folder, copy)
    record = json.loads((copy / "results.json").read_text())
    change(record)
    (copy / "results.json").write_text(json.dumps(sealed(record)))
    return str(copy)


def test_records_of_other_graphs_or_splits_are_refused_before_training(
    read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, other) = read("model=gin", "model=gcn", common=FOLDS)
    run_experiment(first.config)
    data = altered(first.path, "data", lambda r: r.update(dataset="other-123"))
    split = altered(
        first.path,
        "split",
        lambda r: (
            r["protocol"].update(split_hash="f" * 64),
            [row.update(split_hash="f" * 64, digests={}) for row in r["repetitions"]],
        ),
    )
    for folder, what in ((data, "the data set"), (split, "the split hash")):
        error = refused(read_candidates([str(first.path), folder]))
        assert error.codes == ["compare.other_records"]
        assert error.faults[0].startswith(what)

    def fail(*args: object) -> None:
        raise AssertionError("trained before the check")

    monkeypatch.setattr(pending, "train_repetition", fail)
    for folder, what in ((data, "dataset"), (split, "split hash")):
        candidates = [read_candidates([folder, folder])[0], other]
        refuse_incomparable(candidates)
        with pytest.raises(RequestError, match=f"The {what} of") as refusal:
            run_comparison(candidates, tmp_path / "runs")
        assert refusal.value.codes[0] == "compare.other_data"


def test_an_incomplete_pair_is_compared_on_what_both_have(read: Reader, tmp_path: Path) -> None:
    common = [*FOLDS, "protocol.only=[0,2]"]
    result = compared(read("model=gin", "model=gcn", common=common), tmp_path)
    assert result["repetitions"] == [0, 2]
    assert len(result["differences"][0]["values"]) == 2


def record(values: list[float], report: str, folds: int | None) -> Result:
    """A record with the parts that a comparison reads."""
    made = result("gin", "toy", None)
    row = replace(made.repetitions[0], sizes={"train": 8, "test": 1})
    return replace(
        made,
        protocol=replace(made.protocol, report=report),
        config={"protocol": {"folds": folds}},
        result=summarize_seeds(values),
        repetitions=[
            replace(row, index=i, sizes={"train": 8, "test": 1}) for i in range(len(values))
        ],
    )


def test_smaller_is_better_for_errors() -> None:
    records = [
        record([0.5, 0.4, 0.3], "test_mae", None),
        record([0.4, 0.4, 0.35], "test_mae", None),
    ]
    comparison = compare_records([Candidate("x", Path("x"), record=r) for r in records])
    (difference,) = comparison.differences
    assert not comparison.larger_is_better
    assert (difference.won, difference.lost, difference.tied) == (1, 1, 1)
    assert difference.paired.mean < 0


def test_the_test_to_train_ratio_is_that_of_the_record() -> None:
    a, b = [0.5, 0.4, 0.3, 0.6], [0.4, 0.4, 0.35, 0.7]
    for folds, ratio in ((4, 1 / 8), (None, 0.0)):
        pair = [record(v, "test_accuracy", folds) for v in (a, b)]
        comparison = compare_records([Candidate("x", Path("x"), record=r) for r in pair])
        d = np.subtract(b, a)
        t = d.mean() / np.sqrt((1 / 4 + ratio) * d.var(ddof=1))
        assert comparison.differences[0].paired.p_value == pytest.approx(2 * stats.t.sf(abs(t), 3))
