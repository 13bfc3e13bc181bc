"""Networks as programs of torch.export."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unionsnn.base.errors import ExportError
from unionsnn.config.combinations import plain_model
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.models.fitting import fit_to_training
from unionsnn.nn.batch import GraphBatch
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.export import TOLERANCE, difference, example, export_checkpoint, traced
from unionsnn.runs.networks import networks
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_model, locate

Maker = Callable[..., dict[str, Any]]
PAGE = Path(__file__).parents[2] / "docs" / "predict.md"
MODELS = sorted(path.stem for path in (config_folder() / "model").glob("*.yaml"))


def documented() -> dict[str, str]:
    """Return the page's word for each model that it names: yes, or why not."""
    rows = re.findall(r"^\| `(\w+)` \| (yes|no: .+?) \|$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(rows)


def test_the_page_names_no_other_model() -> None:
    assert set(documented()) <= set(MODELS)


def test_the_page_says_what_the_classes_do() -> None:
    reasons = {each.name: each.reason for each in networks()}
    page = documented()
    words = {name: f"no: {why}" if why else "yes" for name, why in reasons.items()}
    assert page == {name: words[name] for name in page}


def cases() -> list[object]:
    """Every model, and again with edge features where the plain one reads them."""
    made: list[object] = [pytest.param(name, None, id=name) for name in MODELS]
    for name in MODELS:
        target = locate(compose_config([f"model={name}"]).model.target, object, "")
        exported = documented().get(name, "yes") == "yes"
        if target.reads_edges and exported and plain_model(name) == name:
            made.append(pytest.param(name, (3, 2), id=f"{name}-labels"))
    return [*made, pytest.param("gin", 4, id="gin-attributes")]


@pytest.mark.parametrize(("name", "edges"), cases())
def test_a_program_is_the_network_on_graphs_of_other_sizes(
    name: str, edges: int | tuple[int, ...] | None
) -> None:
    layers = 3 if name == "mewispool" else 1
    width = ["model.hidden_channels=8", f"model.num_layers={layers}", "data=mutag"]
    config = compose_config([f"model={name}", *width])
    model = build_model(config, 3, 2, edges).eval()
    inputs = example(config, 3, 9, 14, edges)
    fit_to_training(
        model,
        lambda: inputs["edge_coefficient"],
        lambda: torch.tensor([9]),
        lambda: inputs["edge_index"][1].bincount().bincount(),
    )
    # A model that the page does not name must be exported.
    if documented().get(name, "yes") != "yes":
        with pytest.raises(ExportError, match=f"{name} cannot be exported"):
            traced(model, inputs, name)
        return
    program = traced(model, inputs, name)
    for size in ((5, 6), (16, 40), (7, 21)):
        assert difference(program, model, example(config, 3, *size, edges)) <= TOLERANCE


def test_a_program_runs_in_a_process_without_this_package(tiny: Maker, tmp_path: Path) -> None:
    config = tiny("model=union_gin")
    run_experiment(config)
    out = tmp_path / "x.pt2"
    found = export_checkpoint(RunFolder.of(config).path, out)
    assert found["inputs"]["edge_index"] == "int64 [2, num_edges]"
    assert max(found["errors"]) <= TOLERANCE
    code = (
        "import sys, torch\n"
        "program = torch.export.load(sys.argv[1]).module()\n"
        "edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])\n"
        "rows = torch.rand(4, int(sys.argv[2]))\n"
        "print(program(torch.ones(3, 1), edges, {'edge_coefficient': rows}).shape)\n"
        "assert 'unionsnn' not in sys.modules and 'torch_geometric' not in sys.modules\n"
    )
    columns = found["inputs"]["edge_coefficient"].rpartition(", ")[2].rstrip("]")
    done = subprocess.run(
        [sys.executable, "-c", code, str(out), columns], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "torch.Size([1, 2])"
    # A sound file, but not the one that the run recorded.
    checkpoint = Path(found["checkpoint"])
    content = torch.load(checkpoint, weights_only=True)
    torch.save({**content, "digest": None}, checkpoint)
    for run in (checkpoint, RunFolder.of(config).path):
        notes = export_checkpoint(run, out)["notes"]
        assert f"{checkpoint}: is not what was written when it was trained" in notes


def test_a_network_that_branches_on_values_is_refused_in_one_line() -> None:
    class Branching(torch.nn.Module):
        def forward(self, batch: GraphBatch) -> torch.Tensor:
            return batch.x if batch.x.sum() > 0 else -batch.x

    inputs = {"x": torch.ones(3, 1), "edge_index": torch.zeros(2, 4, dtype=torch.long)}
    with pytest.raises(ExportError) as caught:
        traced(Branching(), inputs, "branching")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("branching cannot be exported")
