"""The commands as functions of Python, and the page on them."""

from __future__ import annotations

import inspect
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna.logging  # noqa: F401, whose import gives its logger a handler
import pytest
import pytorch_lightning as pl
import torch
from test_readme import blocks
from torch_geometric.data import Batch, Data

import unionsnn
from tu_files import write_tu
from unionsnn.base.errors import DataError, RequestError, UnionsnnError
from unionsnn.config.compose import compose_config
from unionsnn.data import CyclesDataModule, TUDataModule
from unionsnn.runs.experiment import run_experiment

PAGE = Path(__file__).parents[2] / "docs" / "python_api.md"
SMALL = [
    "data.num_train=32",
    "data.num_validation=16",
    "data.num_test=16",
    "model.hidden_channels=8",
    "model.num_layers=2",
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))


@pytest.fixture
def result() -> unionsnn.Result:
    return unionsnn.train(["model=union_gin", *SMALL])


def global_state() -> dict[str, Any]:
    """What a library function leaves as it was."""
    loggers = ["", "unionsnn", "pytorch_lightning", "lightning_fabric", "optuna", "hydra"]
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "random": random.getstate(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": torch.get_default_dtype(),
        "warnings": list(warnings.filters),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "loggers": {
            name: (each.level, list(each.handlers), each.disabled, each.propagate)
            for name in loggers
            for each in [logging.getLogger(name)]
        },
    }


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
def test_train_equals_the_command_and_changes_nothing_around_it(tmp_path: Path) -> None:
    overrides = ["trainer.threads=1", *SMALL]
    asked = run_experiment(compose_config([*overrides, "paths.output=asked"]))
    before = global_state()
    made = unionsnn.train(overrides)
    changed = [key for key, value in global_state().items() if value != before[key]]
    assert not changed
    assert asked is not None
    assert made.repetitions[0].metrics == asked.repetitions[0].metrics
    assert made.folder is not None
    assert made.folder.is_relative_to(tmp_path / "runs")
    assert "folder" not in made.to_json()
    # What is finished is read.
    assert unionsnn.train(overrides).repetitions[0].seconds == made.repetitions[0].seconds


def test_a_record_is_a_frame(result: unionsnn.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    (row,) = result.to_frame().to_dict("records")
    assert row["test_accuracy"] == result.repetitions[0].metrics["test_accuracy"]
    assert (row["model"], row["repetition"], row["train_size"]) == ("union_gin", 0, 32)
    assert isinstance(result.to_frame(), pandas.DataFrame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnionsnnError, match="pip install pandas") as refused:
        result.to_frame()
    assert refused.value.codes == ["frame.pandas"]


def test_a_loaded_run_predicts_and_embeds_graphs_of_pyg(result: unionsnn.Result) -> None:
    pytest.importorskip("pandas")
    model = unionsnn.load(result)
    dm = CyclesDataModule(num_train=32, num_validation=16, num_test=16)
    graphs = dm.pyg_dataset("test")
    probabilities = model.predict(graphs)
    found = (probabilities.argmax(dim=1) == graphs.y).double().mean().item()
    assert found == pytest.approx(result.repetitions[0].metrics["test_accuracy"])
    assert model.outputs == ["no cycle", "cycle"]
    embeddings = model.embed(graphs)
    assert embeddings.shape == (16, 8)
    # Whatever holds the graphs, and whatever else is in the batch.
    torch.testing.assert_close(model.embed(Batch.from_data_list(list(graphs))), embeddings)
    torch.testing.assert_close(model.embed(graphs[3]), embeddings[3:4])
    head = torch.softmax(model.network.head(embeddings), dim=1)
    torch.testing.assert_close(head, probabilities)
    with pytest.raises(DataError, match="no edge_index"):
        model.predict([Data(x=torch.ones(2, 1))])


def test_labels_are_given_as_numbers_or_one_hot(tmp_path: Path) -> None:
    write_tu(tmp_path, "BZR", 40)
    run = unionsnn.train(
        ["data=tu", "data.name=BZR", f"data.mirror={tmp_path}", "model=gin", *SMALL[3:]]
    )
    model = unionsnn.load(run)
    dm = TUDataModule("BZR", mirror=str(tmp_path))
    one_hot = dm.pyg_dataset()
    numbers = [
        Data(each.x.argmax(dim=1), each.edge_index, num_nodes=each.num_nodes) for each in one_hot
    ]
    assert torch.equal(model.predict(one_hot), model.predict(numbers))
    with pytest.raises(DataError, match="one-hot columns") as refused:
        model.predict([Data(torch.rand(2, 3), torch.tensor([[0, 1], [1, 0]]))])
    assert refused.value.codes == ["data.features"]


def test_several_repetitions_predict_together_and_embed_alone() -> None:
    run = unionsnn.train(["model=gin", "protocol=repeated_seeds", "protocol.seeds=2", *SMALL])
    assert run.folder is not None
    graphs = CyclesDataModule(num_train=32, num_validation=16, num_test=16).pyg_dataset("test")
    each = [unionsnn.load(run.folder, repetition=i).predict(graphs) for i in range(2)]
    torch.testing.assert_close(unionsnn.load(run).predict(graphs), sum(each) / 2)
    with pytest.raises(RequestError, match="repetition=0") as refused:
        unionsnn.load(run).embed(graphs)
    assert refused.value.codes == ["predict.repetition"]
    with pytest.raises(RequestError, match="00, 01"):
        unionsnn.load(run, repetition=2)


def test_compare_and_sweep_are_those_of_the_command(result: unionsnn.Result) -> None:
    pytest.importorskip("pandas")
    before = global_state()
    both = unionsnn.compare([result, ["model=gin"]], SMALL, progress=False)
    rows = both.to_frame()
    assert list(rows["mean"]) == [run.record.summary.mean for run in both.runs]
    assert rows["mean"][1] - rows["mean"][0] == pytest.approx(rows["difference"][1])
    study = Path("study.yaml")
    study.write_text(
        "overrides: []\nobjective: val_loss\nsampler: {name: grid}\n"
        "space: {optimizer.lr: 'choice(0.01, 0.001)'}\n"
    )
    record = unionsnn.sweep(study, ["model=gin", *SMALL], progress=False)
    assert record.final is not None
    trials = record.to_frame()
    assert sorted(trials["optimizer.lr"]) == [0.001, 0.01]
    assert trials["val_loss"].min() == record.best.values[0]
    changed = [key for key, value in global_state().items() if value != before[key]]
    assert not changed


@pytest.mark.parametrize("name", ["train", "sweep", "compare"])
def test_functions_have_the_options_of_their_commands(name: str) -> None:
    from unionsnn.cli.app import command_line

    parameters = set(inspect.signature(getattr(unionsnn, name)).parameters)
    # What only prints, writes a table or plans is left to the command.
    printed = {"as_json", "dry_run", "trust", "out"}
    options = {each.name for each in command_line.commands[name].params}
    assert options - printed <= parameters
    assert parameters - options == {"progress"}


def test_torchrun_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RequestError, match=r"unionsnn\.train runs as one process") as refused:
        unionsnn.train(SMALL)
    assert refused.value.codes == ["torchrun.one_process"]


def test_a_string_is_what_is_typed() -> None:
    assert unionsnn.train(" ".join(["model=gin", *SMALL])).model == "gin"


def quick(trainer: type[pl.Trainer]) -> Callable[..., pl.Trainer]:
    def make(**given: Any) -> pl.Trainer:
        if "plugins" in given:
            # That of `unionsnn.train`.
            return trainer(**given)
        short = {"max_epochs": min(given["max_epochs"], 2), "accelerator": "cpu"}
        return trainer(**{**given, **short, "enable_progress_bar": False})

    return make


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    write_tu(tmp_path / "mirror", "MUTAG", 60)
    monkeypatch.setenv("UNIONSNN_MIRROR", str(tmp_path / "mirror"))
    # The catalog knows the real set.
    monkeypatch.setattr("unionsnn.data.sources.tu.TU.known", None)
    monkeypatch.setattr(pl, "Trainer", quick(pl.Trainer))
    names: dict[str, Any] = {"__name__": "page"}
    examples = blocks(PAGE, "python")
    with warnings.catch_warnings():
        # Lightning's advice on small sets.
        warnings.filterwarnings("ignore", module="pytorch_lightning")
        for example in examples:
            exec(compile(example, PAGE.name, "exec"), names)
    batch = next(iter(names["dm"].test_dataloader()))
    assert torch.equal(names["restored"].eval()(batch), names["restored"](batch))
    assert names["probabilities"].shape == (32, 2)
    assert len(names["scores"]) == 3
    assert len(names["table"]) == 1
