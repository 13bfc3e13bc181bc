"""Experiments: records, resume, determinism, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fabricated import write_folder
from unionsnn.base.display import display
from unionsnn.base.errors import NonFiniteLossError, RequestError, RunFolderError
from unionsnn.base.files import write_json
from unionsnn.config.schema import Config
from unionsnn.reports.views.results import print_dry_run, provenance
from unionsnn.runs import pending
from unionsnn.runs.dry_run import describe
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_model, count_parameters
from unionsnn.training.checkpoints import load_checkpoint
from unionsnn.training.records import Result
from warned import user_warnings

Maker = Callable[..., dict[str, Any]]


def without_time(record: Result) -> dict[str, Any]:
    """Drop what may differ between two equal runs."""
    plain = record.to_json()
    plain.pop("seconds")
    plain.pop("digest")
    plain["config"].pop("paths")
    plain["config"].pop("run_dir")
    for row in plain["repetitions"]:
        row.pop("seconds")
        row.pop("digests")
    return plain


def test_the_same_request_gives_the_same_record_bit_for_bit(tiny: Maker) -> None:
    first = run_experiment(tiny(run_dir="one"))
    second = run_experiment(tiny(run_dir="two"))
    assert without_time(first) == without_time(second)
    other = run_experiment(tiny("seed=1"))
    assert other.repetitions[0].metrics != first.repetitions[0].metrics


def test_record_says_what_the_number_rests_on(tiny: Maker) -> None:
    config = tiny()
    record = run_experiment(config)
    on_disk = json.loads(RunFolder.of(config).results_path.read_text())
    assert on_disk == record.to_json()
    assert record.state == "finished"
    assert record.protocol.name == "holdout"
    assert "test touched once" in record.protocol.selection
    assert record.protocol.split_hash
    assert record.repetitions[0].seed == [0, 0]
    assert record.repetitions[0].sizes == {"train": 48, "validation": 16, "test": 16}
    assert record.coefficient["quantities"] == ["a", "a_tree", "nodes", "edges"]
    assert record.parameters > 0
    assert {"python", "unionsnn", "torch", "torch-geometric"} <= set(record.versions)
    assert record.repetitions[0].device.startswith("cpu")
    value = record.repetitions[0].metrics["test_accuracy"]
    assert record.result.mean == value


def test_a_finished_folder_is_read_not_trained(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny()
    record = run_experiment(config)

    def fail(*args: object) -> None:
        raise AssertionError("a finished repetition was trained again")

    monkeypatch.setattr(pending, "train_repetition", fail)
    assert run_experiment(config) == record


def test_edge_features_and_where_the_coefficient_enters_are_printed_with_a_result(
    tiny: Maker, mirror: Path
) -> None:
    own = ["data=mutag", f"data.mirror={mirror}", "data.edge_features=labels", "gate.inject=edge"]
    text = provenance(run_experiment(tiny("model=union_gin", *own)))
    assert "gate default as an edge feature, edge labels, config" in text


def test_a_parameter_budget_is_recorded_with_the_width_that_it_led_to(tiny: Maker) -> None:
    config = tiny("model=union_gin", "model.parameter_budget=5000")
    record = run_experiment(config)
    assert record.config["model"]["parameter_budget"] == 5000
    width = record.hidden_channels
    wider = {"model.hidden_channels": width + 1, "model.parameter_budget": None}
    over = count_parameters(build_model(config.replace(wider), 1, 2))
    assert record.parameters <= 5000 < over
    assert f"{record.parameters:,} parameters of a budget of 5,000, hidden {width}" in (
        provenance(record)
    )
    plan = describe(config)
    assert (plan["hidden_channels"], plan["parameters"]) == (width, record.parameters)


def test_a_dry_run_of_what_is_finished_is_told_by_the_records(
    tiny: Maker, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny()
    before = describe(config)
    record = run_experiment(config)
    plan = describe(config)
    assert list(plan) == list(before)
    differing = {key for key in plan if plan[key] != before[key]}
    known = {"num_features", "num_outputs", "to_compute", "largest_batch", "batch"}
    assert differing == known | {"pending", "trainings", "seconds_per_epoch", "seconds_at_most"}
    assert (plan["pending"], plan["seconds_at_most"]) == ([], 0.0)
    (only,) = record.repetitions
    assert plan["seconds_per_epoch"] == only.seconds / only.epochs
    capsys.readouterr()
    print_dry_run(plan)
    assert "all are trained" in capsys.readouterr().out
    assert describe(config.replace({"force": True}))["pending"] == [0]


def test_own_data_that_changed_are_not_answered_with_the_finished_run(
    tiny: Maker, tmp_path: Path
) -> None:
    own = write_folder(tmp_path / "own", 20)
    config = tiny("data=folder", f"data.path={own}", "data.features=degree")
    record = run_experiment(config)
    assert run_experiment(config) == record
    (own / "0.csv").write_text("0,1\n1,0\n")
    for act in (run_experiment, describe):
        with pytest.raises(RequestError, match=r"repetitions of the data .* type force=true"):
            act(config)


def test_a_model_that_cannot_be_made_is_refused_before_the_data_are(
    tiny: Maker, tmp_path: Path
) -> None:
    config = tiny("gate=none")
    for act in (run_experiment, describe):
        with pytest.raises(RequestError, match="UnionSNN"):
            act(config)
    assert list(tmp_path.iterdir()) == []


def test_force_starts_in_a_fresh_folder_keeps_the_old_and_becomes_the_newest(tiny: Maker) -> None:
    config = tiny()
    run_experiment(config)
    path = RunFolder.of(config).path
    before = (path / "results.json").read_bytes()
    for number in (1, 2):
        forced = run_experiment(tiny("force=true"))
        kept = path.with_name(f"{path.name}.old-{number}") / "results.json"
        assert kept.read_bytes() == before
        before = (path / "results.json").read_bytes()
        assert run_experiment(config) == forced
    assert sorted(p.name for p in path.parent.iterdir()) == [
        path.name,
        f"{path.name}.old-1",
        f"{path.name}.old-2",
    ]


def test_force_is_no_leave_to_take_the_folder_of_another_experiment(tiny: Maker) -> None:
    config = tiny()
    whole = run_experiment(config)
    path = RunFolder.of(config).path
    with pytest.raises(RequestError, match="holds another experiment; it differs in seed"):
        run_experiment(tiny("force=true", "seed=7", f"run_dir={path}"))
    assert not path.with_name(f"{path.name}.old-1").exists()
    assert run_experiment(config) == whole


@pytest.mark.parametrize("force", ["true", "false"])
def test_a_folder_of_run_folders_is_refused(tiny: Maker, force: str) -> None:
    config = tiny()
    run_experiment(config)
    path = RunFolder.of(config).path
    before = sorted(path.parents[2].rglob("*"))
    for folder in path.parents[:3]:
        with pytest.raises(RequestError, match="which holds other runs, such as"):
            run_experiment(tiny(f"run_dir={folder}", f"force={force}"))
    assert sorted(path.parents[2].rglob("*")) == before


def test_force_leaves_a_folder_in_use_alone(tiny: Maker) -> None:
    with RunFolder.of(tiny()).locked() as folder:
        with pytest.raises(RunFolderError, match=f"in use by process {os.getpid()}"):
            run_experiment(tiny("force=true"))
        assert [p.name for p in folder.path.parent.iterdir()] == [folder.path.name]


@pytest.mark.parametrize("damage", [b"", b'{"index": 0', b"[]", b"{}", b"\xff\xfe"])
def test_a_damaged_repetition_is_set_aside_with_one_warning_and_trained_again(
    tiny: Maker, damage: bytes
) -> None:
    config = tiny("protocol=repeated_seeds", "protocol.seeds=2")
    expected = run_experiment(config)
    folder = RunFolder.of(config)
    path, other = (folder.repetition_path(i) for i in (1, 0))
    kept = other.stat().st_mtime_ns
    path.write_bytes(damage)
    with pytest.warns(UserWarning, match=r"01\.json") as caught:
        record = run_experiment(config)
    assert len(user_warnings(caught)) == 1
    assert record.result == expected.result
    assert path.with_name("01.json.damaged").read_bytes() == damage
    assert other.stat().st_mtime_ns == kept


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}"])
def test_a_damaged_configuration_names_its_file_and_the_way_on(tiny: Maker, damage: str) -> None:
    config = tiny()
    expected = run_experiment(config)
    folder = RunFolder.of(config)
    path = folder.path / "config.json"
    held = path.read_bytes()
    path.write_text(damage)
    with pytest.warns(UserWarning, match=r"config\.json was damaged; it is written anew"):
        assert run_experiment(config) == expected
    assert path.read_bytes() == held
    # Of what is next to it, nothing says that it is what is asked for.
    path.write_text(damage)
    write_json(folder.results_path, {"config_hash": "another"})
    with pytest.raises(RunFolderError, match=r"force=true") as refusal:
        run_experiment(config)
    assert str(path) in str(refusal.value)
    assert run_experiment(tiny("force=true")).result == expected.result


def test_the_merged_record_says_which_repetitions_it_holds(tiny: Maker) -> None:
    many = ["protocol=repeated_seeds", "protocol.seeds=3"]
    held = [
        run_experiment(tiny(*many, f"protocol.only={only}")).config["protocol"]["only"]
        for only in ("[1]", "[0]", "[2]")
    ]
    assert held == [[1], [0, 1], None]


def test_selected_weights_are_the_best_epoch_s(tiny: Maker) -> None:
    record = run_experiment(tiny("trainer.max_epochs=6", "optimizer.lr=0.05"))
    row = record.repetitions[0]
    config = Config.from_dict(record.config)
    folder = RunFolder(Path(config.paths.output), config)
    path = RunFolder.of(config).repetition_path(0)
    curves = json.loads(path.read_text())["curves"]
    losses = [epoch["val_loss"] for epoch in curves]
    assert row.best_epoch == losses.index(min(losses))
    assert row.metrics["val_loss"] == pytest.approx(min(losses), abs=1e-6)
    assert folder.finished() == {}


def test_early_stopping_waits_for_its_patience(tiny: Maker) -> None:
    record = run_experiment(
        tiny("trainer.max_epochs=40", "protocol.patience=2", "optimizer.lr=0.1")
    )
    row = record.repetitions[0]
    assert row.epochs < 40
    assert row.epochs == row.best_epoch + 1 + 2


def test_a_checkpoint_loads_in_a_new_process_without_a_warning(tiny: Maker) -> None:
    config = tiny()
    run_experiment(config)
    path = RunFolder.of(config).path / "checkpoints" / "00.ckpt"
    model = load_checkpoint(path)
    assert not model.training
    code = (
        "import sys, torch, warnings\n"
        "warnings.simplefilter('error')\n"
        "content = torch.load(sys.argv[1], weights_only=True)\n"
        "print(sum(t.double().sum().item() for t in content['state_dict'].values()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    total = sum(t.double().sum().item() for t in model.state_dict().values())
    assert float(done.stdout) == pytest.approx(total)


def test_nan_in_training_stops_with_epoch_and_key(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unionsnn.training.tasks.GraphClassification.loss",
        lambda self, output, target: output.sum() * float("nan"),
    )
    config = tiny()
    with pytest.raises(NonFiniteLossError, match=r"loss is nan in epoch 1\. Lower optimizer\.lr"):
        run_experiment(config)
    assert RunFolder.of(config).finished() == {}


def test_a_gpu_that_is_not_there_is_refused(tiny: Maker) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(RequestError, match=r"finds none; type trainer\.accelerator=cpu"):
        run_experiment(tiny("trainer.accelerator=gpu"))


def test_a_folder_of_another_experiment_is_refused(tiny: Maker) -> None:
    run_experiment(tiny(run_dir="shared"))
    with pytest.raises(RequestError, match=r"it differs in .*optimizer\.lr"):
        run_experiment(tiny("optimizer.lr=0.5", run_dir="shared"))


def test_a_folder_in_use_names_its_holder(tiny: Maker) -> None:
    config = tiny()
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from unionsnn.config.compose import compose_config\n"
        "from unionsnn.runs.run_folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1]), compose_config([])).locked():\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    path = RunFolder.of(config).path
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunFolderError, match=f"in use by process {holder.pid}"):
            run_experiment(config)
        holder.kill()


def test_repetitions_of_other_data_are_never_mixed(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("protocol=repeated_seeds", "protocol.seeds=2", run_dir="mixed")
    run_experiment(config.replace({"protocol.only": [0]}))
    monkeypatch.setattr("unionsnn.data.datamodules.GraphDataModule.dataset_id", "other-123")
    with pytest.raises(RequestError, match=r"the data is now other-123; type force=true"):
        run_experiment(config)


def test_a_request_that_failed_does_not_keep_the_folder(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            "unionsnn.training.tasks.GraphClassification.loss",
            lambda self, output, target: output.sum() * float("nan"),
        )
        with pytest.raises(NonFiniteLossError):
            run_experiment(tiny(run_dir="taken"))
    record = run_experiment(tiny("optimizer.lr=0.0005", run_dir="taken"))
    assert record.config["optimizer"]["lr"] == 0.0005


def test_ctrl_c_in_an_epoch_is_an_interrupt(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unionsnn.training.tasks.Task.training_step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny())


def test_a_training_shows_its_epochs_from_1_with_loss_metric_and_best(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with display("plain") as shown:
        assert shown is not None
        seen: list[tuple[str, str, list[str]]] = []
        show = shown.show

        def noted(key: object, label: str, *rest: Any, **more: Any) -> None:
            show(key, label, *rest, **more)
            seen.append((label, shown.rows[key].count, list(shown.rows[key].figures)))

        monkeypatch.setattr(shown, "show", noted)
        run_experiment(tiny("trainer.max_epochs=3", "trainer.progress=plain"))
        assert shown.rows == {}
    counts = dict.fromkeys(count for label, count, _ in seen if label == "epoch")
    assert list(counts) == ["1 of 3", "2 of 3", "3 of 3"]
    last = [figures for label, _, figures in seen if label == "epoch"][-1]
    assert last == ["train_loss", "val_accuracy", "val_loss", "best val_loss"]


def test_a_run_says_once_which_features_of_edges_it_leaves_unread(
    tiny: Maker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_folder(tmp_path / "own", 20)
    for path in folder.glob("[0-9]*.csv"):
        edges = path.read_text().split()
        kinds = [str(sum(map(int, edge.split(","))) % 3) for edge in edges]
        path.write_text("\n".join(map(",".join, zip(edges, kinds, strict=True))))
    words = [f"data=folder data.path={folder} data.features=degree model=gin", "model.num_layers=1"]
    words = [*words[0].split(), *words[1:], "trainer.max_epochs=1"]
    with caplog.at_level("INFO", "unionsnn"), pytest.warns(UserWarning, match="left out"):
        plain = run_experiment(tiny(*words))
    assert caplog.text.count("features of edges are not read: column 3 (labels)") == 1
    assert "data.edge_features=labels reads them" in caplog.text
    with caplog.at_level("INFO", "unionsnn"):
        run_experiment(tiny(*words, "model=deep_sets"))
    assert "column 3 (labels). model=deep_sets reads none." in caplog.text
    caplog.clear()
    with caplog.at_level("INFO", "unionsnn"):
        read = run_experiment(tiny(*words, "data.edge_features=labels"))
    assert "not read" not in caplog.text
    assert read.parameters > plain.parameters
    assert read.dataset != plain.dataset
