"""Memory: what cannot fit is refused before the first step, with what to type."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from data_files import write_planetoid
from unionsnn.base import memory as data_memory
from unionsnn.base.errors import MemoryRanOutError, RequestError
from unionsnn.base.memory import Extent, free_bytes
from unionsnn.cli.app import command_line
from unionsnn.config.schema import Config
from unionsnn.data.catalog import CatalogEntry
from unionsnn.runs.dry_run import describe
from unionsnn.runs.experiment import run_experiment
from unionsnn.training import memory
from unionsnn.training.build import build_data, build_model
from unionsnn.training.devices import training_device
from unionsnn.training.memory import batch_memory, memory_errors, require_memory

Maker = Callable[..., dict[str, Any]]
MODEL = [
    "model=gin",
    "model._target_=encoded_model.Encoded",
    "~model.train_eps",
    "+model.encodings={distance: true}",
    "+model.bytes_per_pair=1000",
]
CPU = torch.device("cpu")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Return a setter of the memory that is free."""

    def become(number: int | None) -> None:
        monkeypatch.setattr(memory, "free_memory", lambda device: number)

    return become


def prepared(config: Config) -> tuple[Any, Any]:
    data = build_data(config)
    data.split = data.default_split(None)
    return build_model(config, data.num_features, data.num_outputs), data


def largest_graph(data: Any) -> int:
    return int(max(graph.num_nodes for graph in data.graphs))


def test_the_largest_batch_is_that_of_all_parts(tiny: Maker) -> None:
    model, data = prepared(tiny(*MODEL))
    found = batch_memory(model, data, CPU)
    n = int(max(data.graphs[i].num_nodes for i in data.split.train))
    assert (found.num_graphs, found.largest, found.needed) == (16, n, 16 * n**2 * 1000)
    assert found.free is not None
    assert found.fits
    assert model.training


def test_evaluation_is_asked_for_without_gradients(tiny: Maker) -> None:
    model, data = prepared(tiny(*MODEL))
    # Training is of a few small graphs only; evaluation takes all.
    sizes = [graph.num_nodes for graph in data.graphs]
    data.split.train.sort(kind="stable")
    object.__setattr__(data.split, "train", data.split.train[:1])
    found = batch_memory(model, data, CPU)
    n = max(sizes[i] for part in (data.split.validation, data.split.test) for i in part)
    assert found.needed == 16 * n**2 * 1000 // 2


def test_a_model_that_states_nothing_is_never_refused(
    tiny: Maker, free: Callable[[int | None], None]
) -> None:
    free(1)
    model, data = prepared(tiny("model=gin"))
    found = require_memory(model, data, CPU)
    assert found.needed is None
    assert str(found) == f"16 graphs of up to {largest_graph(data)} nodes"


@pytest.mark.parametrize("share", [0.7, 0.3, 0.1])
def test_the_advised_values_fit(
    tiny: Maker, free: Callable[[int | None], None], share: float
) -> None:
    config = tiny(*MODEL)
    model, data = prepared(config)
    n = largest_graph(data)
    free(int(share * 16 * n**2 * 1000))
    with pytest.raises(RequestError) as refusal:
        require_memory(model, data, CPU)
    assert refusal.value.codes == ["memory.too_large"]
    advised = re.findall(r"data\.\w+=\d+", str(refusal.value))
    assert [a.partition("=")[0] for a in advised] == ["data.max_pairs", "data.batch_size"]
    for override in advised:
        given = [override]
        again = tiny(*MODEL, *given)
        assert require_memory(*prepared(again), CPU).fits


def test_a_graph_that_does_not_fit_alone_needs_another_model(
    tiny: Maker, free: Callable[[int | None], None]
) -> None:
    free(1000)
    with pytest.raises(RequestError, match="one graph") as refusal:
        require_memory(*prepared(tiny(*MODEL)), CPU)
    assert refusal.value.codes == ["memory.too_large"]


def test_a_bound_that_a_single_graph_exceeds_is_a_wrong_request(tiny: Maker) -> None:
    with pytest.raises(RequestError, match=r"data\.max_pairs=\d+") as refusal:
        require_memory(*prepared(tiny(*MODEL, "data.max_pairs=3")), CPU)
    assert refusal.value.codes == ["data.max_pairs"]


def test_where_nobody_can_tell_nothing_is_refused(
    tiny: Maker, free: Callable[[int | None], None]
) -> None:
    free(None)
    assert require_memory(*prepared(tiny(*MODEL)), CPU).fits


def test_one_large_graph_is_refused_without_a_batch_size(
    tiny: Maker,
    free: Callable[[int | None], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    write_planetoid(tmp_path / "mirror", "cora")
    place = [f"data.mirror={tmp_path / 'mirror'}", "data.offline=true", "data.batch_size=1"]
    free(1_000_000)
    with pytest.raises(RequestError, match=r"of one graph of up to 550 nodes.*a smaller model"):
        run_experiment(tiny("data=cora", *place, *MODEL))


def test_training_and_dry_run_refuse_before_the_first_step(
    tiny: Maker, free: Callable[[int | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("a step was taken")

    monkeypatch.setattr("encoded_model.Encoded.forward", never)
    free(5_000_000)
    for run in (run_experiment, functools.partial(describe, trust=True)):
        with pytest.raises(RequestError, match=r"data\.max_pairs="):
            run(tiny(*MODEL))


def test_a_dry_run_shows_the_largest_batch(tiny: Maker) -> None:
    plan = describe(tiny(*MODEL), trust=True)
    batch = plan["largest_batch"]
    assert batch["needed"] == batch["num_graphs"] * batch["largest"] ** 2 * 1000
    assert re.fullmatch(r"16 graphs of up to \d+ nodes, about .* of .* free", plan["batch"])


def command(tiny: Maker, tmp_path: Path, *overrides: str, dry_run: bool = False) -> Result:
    paths = [f"paths.output={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]
    given = ["data.num_train=16", "data.num_validation=8", "data.num_test=8"]
    given += ["trainer.accelerator=cpu", "trainer.max_epochs=1", "logger=none"]
    flags = ["--dry-run", "--trust"] if dry_run else []
    keys = {each.partition("=")[0] for each in overrides}
    model = [each for each in MODEL if each.partition("=")[0] not in keys]
    return CliRunner().invoke(
        command_line, ["-q", "train", *flags, *model, *overrides, *given, *paths]
    )


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_command_ends_with_one_message_and_a_status(
    tiny: Maker, tmp_path: Path, free: Callable[[int | None], None], dry_run: bool
) -> None:
    result = command(tiny, tmp_path, "model._target_=encoded_model.OutOfMemory", dry_run=dry_run)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: Memory ran out in a batch of up to 16 graphs")
    assert "type data.batch_size=8 or data.max_pairs=" in line
    free(5_000_000)
    result = command(tiny, tmp_path, dry_run=dry_run)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: The largest batch has 16 graphs")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
        RuntimeError("MPS backend out of memory"),
    ],
)
def test_what_torch_and_numpy_say_is_understood(tiny: Maker, error: Exception) -> None:
    model, data = prepared(tiny(*MODEL))
    with pytest.raises(MemoryRanOutError, match=r"data\.batch_size=8"), memory_errors(model, data):
        raise error
    model, data = prepared(tiny(*MODEL, "data.batch_size=1"))
    with pytest.raises(MemoryRanOutError, match="choose a smaller"), memory_errors(model, data):
        raise error


def test_no_bound_is_advised_that_a_single_graph_exceeds(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the batch that needs most is one of many small graphs."""
    model, data = prepared(tiny(*MODEL))
    most, small = largest_graph(data), largest_graph(data) * 2 // 3
    extents = [Extent(n, size, 0, {}) for n, size in ((1, most), (4, small))]
    monkeypatch.setattr(memory, "_extents", lambda data: [(True, extents)])
    with pytest.raises(MemoryRanOutError) as refusal, memory_errors(model, data):
        raise MemoryError
    assert re.findall(r"data\.\w+=\d+", str(refusal.value)) == ["data.batch_size=2"]


def test_what_takes_less_memory_is_named_by_the_model(
    tiny: Maker, free: Callable[[int | None], None]
) -> None:
    free(1000)
    for model, key in {"drop_gin": "runs", "nested_gin": r"encodings\.subgraph"}.items():
        with pytest.raises(RequestError, match=rf"num_layers, model\.{key}\)"):
            run_experiment(tiny(f"model={model}"))


def test_other_errors_pass(tiny: Maker) -> None:
    model, data = prepared(tiny(*MODEL))
    with pytest.raises(RuntimeError, match="shapes differ"), memory_errors(model, data):
        raise RuntimeError("shapes differ")


def test_free_memory_of_a_device() -> None:
    assert training_device("cpu") == CPU
    free = memory.free_memory(CPU)
    assert free is not None
    assert 0 < free < 1 << 50
    assert memory.free_memory(torch.device("meta")) is None


@pytest.mark.parametrize("version", [1, 2])
def test_a_bound_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The tightest of the groups around the process; files that can be read again are free."""
    own, base, bound, use = {
        1: ("4:memory:/jobs/7", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        2: ("0::/jobs/7", "", "memory.max", "memory.current"),
    }[version]
    (tmp_path / "cgroup").write_text(f"3:cpuset:/\n{own}\n")
    monkeypatch.setattr(data_memory, "_OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(data_memory, "_GROUPS", tmp_path)

    def group(path: str, limit: str) -> None:
        folder = tmp_path / base / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / bound).write_text(f"{limit}\n")
        (folder / use).write_text("1000\n")
        (folder / "memory.stat").write_text("anon 900\ninactive_file 300\nactive_file 5\n")

    machine = free_bytes()
    assert machine > 10_000
    group("jobs/7", "5000")
    assert free_bytes() == 4300
    group("jobs", "2000")
    assert free_bytes() == 1300
    group("jobs", "500")
    assert free_bytes() == 0
    group("jobs", "max")
    assert free_bytes() == 4300
