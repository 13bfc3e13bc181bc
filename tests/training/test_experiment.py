"""Experiments: records, resume, determinism, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unionsnn.training import experiment
from unionsnn.training.callbacks import NonFiniteLossError
from unionsnn.training.config import RequestError
from unionsnn.training.experiment import run_experiment
from unionsnn.training.records import RunFolder, RunFolderError
from unionsnn.training.repetition import load_checkpoint

Maker = Callable[..., dict[str, Any]]


def without_time(record: dict[str, Any]) -> dict[str, Any]:
    """Drop what may differ between two equal runs."""
    plain = json.loads(json.dumps(record))
    plain.pop("seconds")
    plain["config"].pop("paths")
    plain["config"].pop("run_dir")
    for row in plain["repetitions"]:
        row.pop("seconds")
    return plain


def test_the_same_request_gives_the_same_record_bit_for_bit(tiny: Maker) -> None:
    first = run_experiment(tiny(run_dir="one"))
    second = run_experiment(tiny(run_dir="two"))
    assert without_time(first) == without_time(second)
    other = run_experiment(tiny("seed=1"))
    assert other["repetitions"][0]["metrics"] != first["repetitions"][0]["metrics"]


def test_record_says_what_the_number_rests_on(tiny: Maker) -> None:
    config = tiny()
    record = run_experiment(config)
    on_disk = json.loads(RunFolder.of(config).results_path.read_text())
    assert on_disk == json.loads(json.dumps(record))
    assert record["state"] == "finished"
    assert record["protocol"]["name"] == "holdout"
    assert "test touched once" in record["protocol"]["selection"]
    assert record["protocol"]["split_hash"]
    assert record["repetitions"][0]["seed"] == [0, 0]
    assert record["repetitions"][0]["sizes"] == {"train": 48, "validation": 16, "test": 16}
    assert record["coefficient"]["quantities"] == ["a", "a_tree", "nodes", "edges"]
    assert record["parameters"] > 0
    assert {"python", "unionsnn", "torch", "torch-geometric"} <= set(record["versions"])
    assert record["repetitions"][0]["device"].startswith("cpu")
    value = record["repetitions"][0]["metrics"]["test_accuracy"]
    assert record["result"]["mean"] == value


def test_a_finished_folder_is_read_not_trained(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny()
    record = run_experiment(config)

    def fail(*args: object) -> None:
        raise AssertionError("a finished repetition was trained again")

    monkeypatch.setattr(experiment, "train_repetition", fail)
    assert run_experiment(config) == record


def test_force_starts_in_a_fresh_folder_and_keeps_the_old(tiny: Maker) -> None:
    config = tiny()
    run_experiment(config)
    old = RunFolder.of(config).path
    before = (old / "results.json").read_bytes()
    run_experiment(tiny("force=true"))
    assert (old / "results.json").read_bytes() == before
    assert (old.with_name(f"{old.name}-2") / "results.json").exists()


def test_selected_weights_are_the_best_epoch_s(tiny: Maker) -> None:
    record = run_experiment(tiny("trainer.max_epochs=6", "optimizer.lr=0.05"))
    row = record["repetitions"][0]
    folder = RunFolder(Path(record["config"]["paths"]["output"]), record["config"])
    path = RunFolder.of(record["config"]).repetition_path(0)
    curves = json.loads(path.read_text())["curves"]
    losses = [epoch["val_loss"] for epoch in curves]
    assert row["best_epoch"] == losses.index(min(losses))
    assert row["metrics"]["val_loss"] == pytest.approx(min(losses), abs=1e-6)
    assert folder.finished() == {}


def test_early_stopping_waits_for_its_patience(tiny: Maker) -> None:
    record = run_experiment(
        tiny("trainer.max_epochs=40", "protocol.patience=2", "optimizer.lr=0.1")
    )
    row = record["repetitions"][0]
    assert row["epochs"] < 40
    assert row["epochs"] == row["best_epoch"] + 1 + 2


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
    with pytest.raises(NonFiniteLossError, match=r"loss is nan in epoch 0\. Lower optimizer\.lr"):
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
        "from unionsnn.training.records import RunFolder\n"
        "with RunFolder(Path(sys.argv[1]), {'data': {}, 'protocol': {}, 'trainer': {}}).locked():\n"
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
    run_experiment({**config, "protocol": {**config["protocol"], "only": [0]}})
    monkeypatch.setattr("unionsnn.data.datamodules.GraphDataModule.dataset_id", "other-123")
    with pytest.raises(RequestError, match=r"the data are now other-123; type force=true"):
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
    assert record["config"]["optimizer"]["lr"] == 0.0005


def test_ctrl_c_in_an_epoch_is_an_interrupt(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unionsnn.training.tasks.Task.training_step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny())
