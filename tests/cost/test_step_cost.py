"""What each model asks of a GPU in a step: nothing on two devices, and no more than it did.

``UNIONSNN_FREEZE=cost pytest tests/cost`` writes the table anew.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from model_names import UNGATED
from pretended import pretended_cuda, step_cost
from unionsnn.config.combinations import plain_model
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.training.build import build_data
from unionsnn.training.protocols import draw_splits

# PyG says so wherever a GPU takes a gradient of a maximum.
pytestmark = pytest.mark.filterwarnings("ignore:The usage of `scatter")

TABLE = Path(__file__).with_name("steps.md")
COMMAND = "UNIONSNN_FREEZE=cost pytest tests/cost"
TITLE = f"""What a step asks of a GPU, counted by `test_step_cost.py` and written by `{COMMAND}`.

"""

NAMES = sorted(path.stem for path in (Path(config_folder()) / "model").glob("*.yaml"))
OWN_GATES = {name: [f"model={name}"] for name in NAMES}
OTHERS = {
    "unionsnn, paper's gate": ["model=unionsnn", "gate=paper"],
    "unionsnn, authors' gate": ["model=unionsnn", "gate=authors-code"],
    "gin, nodes": ["model=gin", "data=pyg_nodes", "data.dataset=own_datasets.Nodes"],
    "unionsnn, nodes": ["model=unionsnn", "data=pyg_nodes", "data.dataset=own_datasets.Nodes"],
    "gin, regression": [
        "model=gin",
        "data=pyg",
        "data.dataset=own_datasets.Regression",
        "data.features=degree",
        "data.task=graph_regression",
        "data.metric=mae",
        "data.batch_size=2",
    ],
}
ROWS = {**OWN_GATES, **OTHERS}
GENERATED = [
    "data=4cycles_small",
    "data.num_train=24",
    "data.num_validation=8",
    "data.num_test=8",
    "data.batch_size=8",
]

Prepare = Callable[[Config], GraphDataModule]


@pytest.fixture(scope="module")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """Return a maker of small data, which the models share."""
    folder = tmp_path_factory.mktemp("cost")
    known: dict[str, GraphDataModule] = {}

    def make(config: Config) -> GraphDataModule:
        data = build_data(config.replace({"paths.data": str(folder)}))
        # Any number stands in for a coefficient.
        data.computes = False
        data = known.setdefault(f"{data.name} {data.spec} {data.layer_spec} {data.encodings}", data)
        data.split = draw_splits(config.protocol, data, 0)[0]
        data.generator = torch.Generator().manual_seed(0)
        return data

    return make


@functools.cache
def composed(*overrides: str) -> Config:
    generated = [] if any(o.startswith("data=") for o in overrides) else GENERATED
    small = ["model.hidden_channels=8", "trainer.accelerator=cpu"]
    return compose_config([*generated, *overrides, *small])


@pytest.mark.parametrize("name", ROWS)
def test_a_step_asks_no_more_of_a_gpu_than_it_did(name: str, prepare: Prepare) -> None:
    config = composed(*ROWS[name])
    cost = step_cost(config, prepare(config))
    found, table = cost.row(), read_table()
    assert not cost.mixed
    if os.environ.get("UNIONSNN_FREEZE") in ("cost", "all"):
        write_table({**table, name: found})
        return
    assert name in table, f"{name} is not in {TABLE.name}: run {COMMAND}"
    changed = [f"{key} {table[name][key]} -> {now}" for key, now in found.items()]
    more = [c for c, key in zip(changed, found, strict=True) if found[key] > table[name][key]]
    fewer = [c for c, key in zip(changed, found, strict=True) if found[key] < table[name][key]]
    waits = "\n".join(f"{n:4} {place}" for place, n in cost.step.synchronisations.items())
    assert not more, f"{name} asks for more: {'; '.join(more)}. A step waits at\n{waits}"
    assert not fewer, f"{name} asks for less, well done: {'; '.join(fewer)}. Keep it: {COMMAND}"


def read_table() -> dict[str, dict[str, int]]:
    """The numbers of each row."""
    text = TABLE.read_text() if TABLE.exists() else ""
    lines = [line.strip("| \n") for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {name: dict(zip(rows[0], map(int, numbers), strict=True)) for name, *numbers in rows[2:]}


def write_table(table: dict[str, dict[str, int]]) -> None:
    head = ["", *next(iter(table.values()))]
    rows = [[name, *map(str, table[name].values())] for name in ROWS if name in table]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    TABLE.write_text(TITLE + "".join(f"| {' | '.join(line)} |\n" for line in lines))


@pytest.mark.parametrize("gate", ["paper", "authors-code"])
@pytest.mark.parametrize("name", [n for n in NAMES if n == plain_model(n) and n not in UNGATED])
def test_a_gated_step_is_on_one_device(name: str, gate: str, prepare: Prepare) -> None:
    section = composed("model=gin", f"gate={gate}").gate
    config = composed(f"model={name}").replace({"gate": section, "model.num_layers": 2})
    assert not step_cost(config, prepare(config)).mixed


def test_waits_and_mixed_devices_are_seen() -> None:
    with pretended_cuda() as counts:
        x = torch.arange(6.0, device="cuda:0")
        launches = counts.launches.total()
        assert (x.device.type, launches) == ("cuda", 1)
        x.view(2, 3).sum(dim=1)
        assert counts.launches.total() == launches + 1
        for wait in (
            lambda: x[0].item(),
            lambda: x.tolist(),
            lambda: x.cpu(),
            lambda: bool(x.any()),
            lambda: x[x > 2],
            lambda: x.nonzero(),
            lambda: torch.tensor([1.0, 2.0], device=x.device),
            lambda: x.new_tensor([1.0]),
            lambda: torch.ones(3).to(x.device),
            lambda: x.repeat_interleave(x.long()),
            lambda: x[torch.tensor([0, 1])],
        ):
            counts.clear()
            wait()
            assert counts.synchronisations.total() == 1
        counts.clear()
        x.to(x.device), x * 2.0, x * torch.tensor(2.0), torch.where(x > 2, x, 0)
        torch.ones(3).to(x.device, non_blocking=True)
        x.repeat_interleave(x.long(), output_size=15)
        assert not counts.synchronisations
        assert not counts.mixed
        x + torch.ones(6)
        assert counts.mixed.total() == 1
    assert not torch.cuda.is_available()


def test_gradients_are_those_of_the_cpu() -> None:
    w = torch.randn(4, 4, requires_grad=True)
    q = torch.randn(2, 2, 5, 4)
    bias = torch.randn(2, 2, 5, 5, requires_grad=True)

    def loss(w: torch.Tensor, q: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        out = torch.nn.functional.scaled_dot_product_attention(q @ w, q, q, attn_mask=bias)
        return out[..., 1:].square().sum()

    torch.autograd.backward(loss(w, q, bias))
    with pretended_cuda():
        moved = [t.detach().to("cuda:0").requires_grad_(t.requires_grad) for t in (w, q, bias)]
        torch.autograd.backward(loss(*moved))
        found = [moved[i].grad.cpu() for i in (0, 2)]
    torch.testing.assert_close(found, [w.grad, bias.grad])
