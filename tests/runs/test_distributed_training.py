"""Several processes: the network of one, one record, and an end when one of them dies."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unionsnn.base.errors import RankDiedError, RequestError
from unionsnn.cli.app import KEPT
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_data, build_task, fit_gates
from unionsnn.training.checkpoints import load_checkpoint
from unionsnn.training.devices import check_accelerator, uses_all_parameters
from unionsnn.training.protocols import draw_splits
from unionsnn.training.tasks import Task

Maker = Callable[..., dict[str, Any]]

# 50 graphs leave a batch of two; 49 would leave a process without a graph.
EXACT = [
    "model=union_gin", "model.norm=layer", "model.dropout=0.0", "trainer.precision=64-true",
    "data.num_train=49", "trainer.max_epochs=3", "protocol=repeated_seeds", "protocol.seeds=2",
]  # fmt: skip
# Sums in another order, in double precision.
TOLERANCE = 1e-8


def files(config: Config) -> list[str]:
    root = RunFolder.of(config).path
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def curves(config: Config) -> list[Any]:
    finished = RunFolder.of(config).finished()
    return [(finished[i].curves, finished[i].metrics) for i in sorted(finished)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(arguments: list[str], **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from unionsnn.cli import main; main()", *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def overrides(config: Config) -> list[str]:
    """What makes the command line compose a configuration of `tiny`."""
    return [f"run_dir={config.run_dir}", f"paths.data={config.paths.data}"]


def test_two_processes_train_the_network_of_one(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tiny(*EXACT, run_dir="alone")
    run_experiment(alone)
    tested: list[int] = []
    original = Task.test_step

    def counted(self: Task, batch: Any, batch_idx: int) -> Any:
        tested.append(len(batch.y))
        return original(self, batch, batch_idx)

    monkeypatch.setattr(Task, "test_step", counted)
    together = tiny(*EXACT, "trainer=ddp", run_dir="together")
    record = run_experiment(together)
    # Each of the two repetitions tests its 16 graphs once, in this process.
    assert sum(tested) == 32
    assert not multiprocessing.active_children()
    assert not torch.distributed.is_initialized()
    assert record.state == "finished"
    assert [r.device for r in record.repetitions] == ["2 x cpu (1 thread(s))"] * 2
    assert config_hash(together) == config_hash(alone)
    assert files(together) == files(alone)
    for one, other in zip(curves(alone), curves(together), strict=True):
        for left, right in zip([*one[0], one[1]], [*other[0], other[1]], strict=True):
            assert right == pytest.approx(left, rel=TOLERANCE, abs=TOLERANCE)
    for name in ("00", "01"):
        paths = [RunFolder.of(c).path / "checkpoints" / f"{name}.ckpt" for c in (alone, together)]
        states = [load_checkpoint(path).state_dict() for path in paths]
        for key, value in states[0].items():
            assert not value.is_floating_point() or value.dtype == torch.float64
            torch.testing.assert_close(states[1][key], value, rtol=TOLERANCE, atol=TOLERANCE)


def test_torchrun_s_processes_give_the_same_record_every_time(tiny: Maker, tmp_path: Path) -> None:
    settings = [*EXACT, "model.norm=batch", "model.dropout=0.5", "trainer=ddp"]
    here = tiny(*settings, run_dir="here")
    run_experiment(here)
    there = tiny(*settings, run_dir="there")
    given = json.loads((tmp_path / "here" / "config.json").read_text())
    sizes = [f"data.{k}={given['data'][k]}" for k in ("num_validation", "num_test", "batch_size")]
    arguments = [
        "train", "--json", *(e for e in EXACT if not e.startswith(("model.norm", "model.dropout"))),
        "model.norm=batch", "model.dropout=0.5", "trainer=ddp", *sizes,
        "model.hidden_channels=8", "model.num_layers=2", "trainer.accelerator=cpu",
        *overrides(there),
    ]  # fmt: skip
    common = {
        "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "t",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    processes = [start(arguments, RANK=str(i), LOCAL_RANK=str(i), **common) for i in range(2)]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert json.loads(outputs[0][0])["state"] == "finished"
    assert outputs[1] == ("", "")
    assert curves(there) == curves(here)
    assert files(there) == files(here)


def test_a_killed_process_ends_the_others(tiny: Maker) -> None:
    config = tiny("trainer=ddp", "trainer.max_epochs=100000", "protocol.patience=100000")
    log = RunFolder.of(config).path / "logs" / "00" / "metrics.csv"

    def kill() -> None:
        while not (log.exists() and log.read_text().count("\n") > 2):
            time.sleep(0.05)
        (child,) = multiprocessing.active_children()
        os.kill(child.pid or 0, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(RankDiedError, match=r"Process 1 of 2 .*killed by SIGKILL"):
        run_experiment(config)
    assert not multiprocessing.active_children()
    assert not torch.distributed.is_initialized()


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_processes(tiny: Maker, sent: signal.Signals, status: int) -> None:
    config = tiny(run_dir="run")
    arguments = ["train", "trainer=ddp", "trainer.max_epochs=100000", "protocol.patience=100000"]
    log = RunFolder.of(config).path / "logs" / "00" / "metrics.csv"
    process = start([*arguments, "trainer.accelerator=cpu", *overrides(config)])
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 2):
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.send_signal(sent)
    _, error = process.communicate(timeout=60)
    assert process.returncode == status, error
    assert KEPT in error
    time.sleep(1)
    alive = [c for c in children if Path(f"/proc/{c}/cmdline").exists()]
    assert not [c for c in alive if "spawn" in Path(f"/proc/{c}/cmdline").read_text()]


@pytest.mark.slow
def test_a_stopped_training_goes_on_bit_for_bit(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch norm, dropout: the generators of both processes and the buffers are kept."""
    from unionsnn.training import callbacks, repetition

    settings = ["trainer=ddp", "model.dropout=0.5", "trainer.max_epochs=12"]
    expected = tiny(*settings, run_dir="whole")
    run_experiment(expected)
    config = tiny(*settings, run_dir="stopped")
    point = callbacks.ResumePoint
    monkeypatch.setattr(
        repetition, "ResumePoint", functools.partial(point, interval=0.0, costs=0.0)
    )
    original = callbacks.Curves.on_train_epoch_end

    def stop(self: Any, trainer: Any, module: Any) -> None:
        if trainer.current_epoch == 6:
            raise KeyError("stopped")
        original(self, trainer, module)

    with monkeypatch.context() as patch:
        patch.setattr(callbacks.Curves, "on_train_epoch_end", stop)
        with pytest.raises(KeyError):
            run_experiment(config)
    assert (RunFolder.of(config).path / "unfinished" / "00.ckpt").exists()
    run_experiment(config)
    assert curves(config) == curves(expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["protocol.workers=2"],
            r"protocol.workers is 2 and trainer=ddp \(trainer.devices=2\) is given",
        ),
        (["data=cora", "experiment=node"], "which cannot be divided: type trainer=default"),
    ],
)
def test_what_cannot_go_together_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        compose_config([*given, "trainer=ddp"])


def test_a_sync_without_a_second_device_is_refused(tiny: Maker) -> None:
    with pytest.raises(RequestError, match=r"sync_batchnorm is true, but there is one device"):
        tiny("trainer.sync_batchnorm=true")
    with pytest.raises(RequestError, match=r"GPUs only; leave it out, or type model.norm=layer"):
        check_accelerator(tiny("trainer=ddp", "trainer.sync_batchnorm=true"))


def test_more_devices_than_there_are_are_refused(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("trainer.devices=3")
    config = config.replace({"trainer.accelerator": "gpu"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(RequestError, match=r"this machine has 2 .* type trainer.devices=2"):
        check_accelerator(config)


def test_several_machines_need_torchrun(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match=r"torchrun --nnodes=2 --nproc-per-node=1") as refusal:
        run_experiment(tiny("trainer.num_nodes=2"))
    assert refusal.value.codes == ["run.torchrun"]
    for name, value in {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RequestError, match=r"type trainer.devices=2 trainer.num_nodes=2") as other:
        run_experiment(tiny())
    assert other.value.codes == ["run.torchrun"]


@pytest.mark.parametrize("model", ["union_gin", "union_gatedgcn", "gps", "graphormer"])
def test_unused_parameters_are_found(tiny: Maker, model: str) -> None:
    config = tiny(f"model={model}")
    data = build_data(config)
    data.split = draw_splits(config.protocol, data, 0)[0]
    task = build_task(config, data)
    fit_gates(task.model, data)
    used = uses_all_parameters(task, data)
    assert all(p.grad is None for p in task.parameters())
    data.generator = torch.Generator()
    torch.autograd.backward(task.loss(task(batch := next(iter(data.train_dataloader()))), batch.y))
    assert used == all(p.grad is not None for p in task.parameters())
