"""Protocols: which data they touch, what they select, what they report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tu_files import write_tu
from unionsnn.base.errors import DataError, RequestError
from unionsnn.config.compose import compose_config
from unionsnn.data.batching import BatchLoader
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import load_splits, read_index_files
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import repetition
from unionsnn.training.build import build_data
from unionsnn.training.protocols import draw_splits, summarize
from unionsnn.training.records import Repetition

Maker = Callable[..., dict[str, Any]]
FOLDS = ["protocol=cross_validation", "protocol.folds=4"]


def test_folds_are_disjoint_cover_and_are_saved_with_their_hash(tiny: Maker) -> None:
    config = tiny(*FOLDS, "trainer.max_epochs=1")
    record = run_experiment(config)
    splits = load_splits(RunFolder.of(config).path / "splits.json", 80)
    assert len(splits) == 4
    tested = np.concatenate([split.test for split in splits])
    assert sorted(tested.tolist()) == list(range(80))
    targets = build_data(config).targets
    for split in splits:
        together = np.concatenate([split.train, split.validation, split.test])
        assert sorted(together.tolist()) == list(range(80))
        assert targets[split.test].mean() == 0.5
    assert len(record.repetitions) == 4
    values = [row.metrics["test_accuracy"] for row in record.repetitions]
    assert list(record.result.values) == values
    assert record.result.mean == pytest.approx(np.mean(values))
    assert record.result.std == pytest.approx(np.std(values, ddof=1))
    assert record.result.method == "corrected resampled t over folds"


def test_train_size_keeps_a_sample_of_each_training_part(tiny: Maker) -> None:
    whole = tiny(*FOLDS).protocol
    part = tiny(*FOLDS, "protocol.train_size=25").protocol
    data = build_data(tiny())
    pairs = list(zip(draw_splits(whole, data, 3), draw_splits(part, data, 3), strict=True))
    assert len(pairs) == 4
    for before, after in pairs:
        assert len(after.train) == 25
        assert set(after.train) < set(before.train)
        assert np.array_equal(before.test, after.test)
        assert np.array_equal(before.validation, after.validation)
    again, other = draw_splits(part, data, 3)[0], draw_splits(part, data, 4)[0]
    assert np.array_equal(again.train, pairs[0][1].train)
    assert not np.array_equal(other.train, again.train)
    seeds = tiny("protocol=repeated_seeds", "protocol.seeds=2", "protocol.train_size=25").protocol
    first, second = draw_splits(seeds, data, 3)
    assert np.array_equal(first.train, second.train)
    too_many = tiny(*FOLDS, "protocol.train_size=61").protocol
    with pytest.raises(RequestError, match="train_size is 61, but the training part has 40 items"):
        draw_splits(too_many, data, 3)


def test_test_part_is_touched_once_after_selection(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    make, go_through = GraphDataModule._evaluation_loader, BatchLoader.__iter__

    def named(self: GraphDataModule, part: str) -> Any:
        loader = make(self, part)
        loader.part = part
        return loader

    def counted(self: BatchLoader) -> Any:
        calls.append(getattr(self, "part", "train"))
        yield from go_through(self)

    monkeypatch.setattr(GraphDataModule, "_evaluation_loader", named)
    monkeypatch.setattr(BatchLoader, "__iter__", counted)
    fit_done: list[int] = []
    evaluate = repetition.evaluate

    def after_fit(*arguments: Any, **options: Any) -> Any:
        fit_done.append(calls.count("test"))
        return evaluate(*arguments, **options)

    monkeypatch.setattr(repetition, "evaluate", after_fit)
    run_experiment(tiny(*FOLDS[:1], "protocol.folds=3", "trainer.max_epochs=2"))
    assert calls.count("test") == 3
    # Not once before any fold's training was over.
    assert fit_done == [0, 1, 2]


def test_paper_protocol_runs_all_epochs_and_takes_the_best_of_the_mean_curve(tiny: Maker) -> None:
    config = tiny(
        "protocol=cross_validation_paper",
        "protocol.folds=3",
        "trainer.max_epochs=5",
        "optimizer.lr=0.05",
    )
    record = run_experiment(config)
    curves = np.array(
        [
            [epoch["test_accuracy"] for epoch in fold.curves]
            for fold in RunFolder.of(config).finished().values()
        ]
    )
    assert curves.shape == (3, 5)
    best = int(curves.mean(axis=0).argmax())
    assert record.result.epoch == best
    assert list(record.result.values) == curves[:, best].tolist()
    assert "selected on the folds it reports" in record.protocol.selection


def summarized(curves: list[list[float]], **section: Any) -> Any:
    config = compose_config(["protocol=cross_validation_paper", "protocol.folds=3"])
    protocol = config.protocol.replace(section)
    rows = [
        Repetition(
            index=index,
            seed=[0, index],
            split_hash="",
            sizes={"train": 8, "validation": 1, "test": 1},
            metrics={},
            best_epoch=None,
            epochs=len(curve),
            curves=[{"test_accuracy": v, "val_accuracy": 1 - v, "val_loss": v} for v in curve],
            dataset="",
            parameters=1,
            device="cpu",
            seconds=0.0,
            versions={},
        )
        for index, curve in enumerate(curves)
    ]
    return protocol, summarize(protocol, rows)


def test_ties_of_the_mean_curve_go_to_the_first_epoch() -> None:
    _, summary = summarized([[0.5, 0.75, 0.75, 0.25], [0.5, 0.75, 0.75, 0.25]])
    assert summary.epoch == 1


def test_the_curve_is_a_named_choice() -> None:
    curves = [[0.5, 0.9, 0.1], [0.5, 0.9, 0.1]]
    protocol, summary = summarized(curves, curve="val_accuracy")
    assert summary.epoch == 2
    assert summary.values == (0.1, 0.1)
    assert "selected on the folds" not in protocol.selection
    assert summarized(curves, curve="val_loss")[1].epoch == 2


def test_repeated_seeds_share_the_split_and_differ_in_weights(tiny: Maker) -> None:
    record = run_experiment(tiny("protocol=repeated_seeds", "protocol.seeds=3"))
    rows = record.repetitions
    assert len({row.split_hash for row in rows}) == 1
    assert len({row.metrics["val_loss"] for row in rows}) == 3
    assert record.result.method == "Student t over seeds"


def test_the_metric_that_selects_is_an_explicit_key(tiny: Maker) -> None:
    config = tiny(
        "protocol.select_on=val_accuracy",
        "protocol.stop_on=val_accuracy",
        "protocol.report=test_loss",
        "trainer.max_epochs=6",
        "optimizer.lr=0.05",
    )
    record = run_experiment(config)
    curve = [e["val_accuracy"] for e in RunFolder.of(config).finished()[0].curves]
    assert record.repetitions[0].best_epoch == curve.index(max(curve))
    assert record.result.mean == record.repetitions[0].metrics["test_loss"]


def test_a_part_of_the_repetitions_is_marked_incomplete_and_completed_later(tiny: Maker) -> None:
    config = tiny(*FOLDS)
    part = run_experiment(config.replace({"protocol.only": [0, 2]}))
    assert (part.state, part.missing) == ("incomplete", [1, 3])
    assert [row.index for row in part.repetitions] == [0, 2]
    whole = run_experiment(config)
    assert (whole.state, whole.missing) == ("finished", [])
    assert whole.repetitions[0] == part.repetitions[0]


def test_several_workers_give_the_numbers_of_one(tiny: Maker) -> None:
    one = run_experiment(tiny(*FOLDS, "model.dropout=0.5", run_dir="one"))
    two = run_experiment(tiny(*FOLDS, "model.dropout=0.5", "protocol.workers=2", run_dir="two"))
    for key in ("metrics", "best_epoch", "epochs", "split_hash", "seed"):
        assert [getattr(r, key) for r in one.repetitions] == [
            getattr(r, key) for r in two.repetitions
        ]
    assert one.result == two.result
    assert one.config_hash == two.config_hash


def tu(tmp_path: Path, tiny: Maker, *overrides: str) -> dict[str, Any]:
    return tiny(
        "data=tu", "data.name=TOY", f"data.mirror={tmp_path}", "data.offline=true", *overrides
    )


def test_published_index_files_give_their_own_folds(tmp_path: Path, tiny: Maker) -> None:
    write_tu(tmp_path, "TOY", 12)
    folds = [(range(4, 12), [2, 3], [0, 1]), ([*range(4), *range(8, 12)], [6, 7], [4, 5])]
    for position, part in enumerate(("train", "val", "test")):
        lines = [",".join(str(i) for i in fold[position]) for fold in folds]
        (tmp_path / f"TOY_{part}.index").write_text("\n".join(lines) + "\n")
    overrides = ["protocol=cross_validation", f"protocol.split_folder={tmp_path}"]
    with pytest.raises(DataError, match=r"has 2 folds of TOY.*protocol\.folds=2"):
        run_experiment(tu(tmp_path, tiny, *overrides))
    config = tu(tmp_path, tiny, *overrides)
    protocol = config.protocol.replace({"folds": 2})
    splits = draw_splits(protocol, build_data(config), 0)
    assert [split.test.tolist() for split in splits] == [[0, 1], [4, 5]]
    (tmp_path / "TOY_test.index").write_text("0,1,5\n4,5\n")
    with pytest.raises(DataError, match=r"TOY.*fold 0"):
        draw_splits(protocol, build_data(config), 0)


def test_published_folds_of_real_sets(mirror: Path) -> None:
    folder = mirror / "splits" / "benchmarking-gnns" / "TUs"
    for name, count in (("ENZYMES", 600), ("PROTEINS", 1113)):
        splits = read_index_files(folder, name, count)
        assert len(splits) == 10
        tested = np.concatenate([split.test for split in splits])
        assert sorted(tested.tolist()) == list(range(count))


@pytest.mark.parametrize(
    ("classes", "folds", "message"),
    [
        ((0, 1), 13, r"protocol.folds=13.*12 graphs"),
        ((0, 1, 2, 3), 4, r"class .* has only 3 graphs.*protocol.folds=3"),
        ((5,), 3, r"one class|only class"),
    ],
)
def test_folds_that_cannot_be_drawn_say_why(
    tmp_path: Path, tiny: Maker, classes: tuple[int, ...], folds: int, message: str
) -> None:
    write_tu(tmp_path, "TOY", 12, classes=classes)
    config = tu(tmp_path, tiny, "protocol=cross_validation", f"protocol.folds={folds}")
    with pytest.raises(DataError, match=message):
        run_experiment(config)
    # The next, correct call in the same place works.
    write_tu(tmp_path / "fresh", "TOY", 12)
    good = tu(tmp_path / "fresh", tiny, "protocol=cross_validation", "protocol.folds=3")
    elsewhere = good.replace({"paths.data": str(tmp_path / "other")})
    assert run_experiment(elsewhere).state == "finished"


def test_altered_splits_of_a_run_folder_are_refused(tiny: Maker) -> None:
    config = tiny(*FOLDS)
    run_experiment(config.replace({"protocol.only": [0]}))
    path = RunFolder.of(config).path / "splits.json"
    content = json.loads(path.read_text())
    content["splits"][1]["train"][0] = content["splits"][1]["test"][0]
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"splits\.json"):
        run_experiment(config)
