"""Every shipped configuration trains a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricated import REQUIRED, fabricate
from model_names import UNGATED
from unionsnn.base.imports import import_named
from unionsnn.config.combinations import plain_model
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.keys import content_of
from unionsnn.runs.experiment import run_experiment

SMALL = [
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
    "model.hidden_channels=8",
    "model.num_layers=2",
]
CYCLES = ["data.num_train=16", "data.num_validation=8", "data.num_test=8"]


def options(group: str) -> list[str]:
    folder = config_folder() / group
    found = (p.relative_to(folder).with_suffix("") for p in folder.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found if path.parts[0] != "base")


def trains(tmp_path: Path, *overrides: str) -> None:
    paths = [f"paths.output={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]
    record = run_experiment(compose_config([*overrides, *SMALL, *paths]))
    assert record.state == "finished"


def takes(model: str, gate: str) -> bool:
    """Whether a model is a network with the gate; that of edge features needs readers of them."""
    if gate == "all_columns":
        network = import_named(content_of("model", model)["_target_"], "model")
        return model != "unionsnn" and model not in UNGATED and network.reads_edges
    return model != "unionsnn" if gate == "none" else model not in UNGATED


# A union variant is the plain model with a gate: `tests/models/test_model_keys.py`.
@pytest.mark.parametrize(
    ("model", "gate"),
    [
        (model, gate)
        for model in options("model")
        for gate in options("gate")
        if plain_model(model) == model
        if takes(model, gate)
    ],
)
def test_every_model_with_every_gate(tmp_path: Path, model: str, gate: str) -> None:
    trains(tmp_path, f"model={model}", f"gate={gate}", *CYCLES)


@pytest.mark.parametrize("data", options("data"))
def test_every_data_set(tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = REQUIRED.get(data, [])
    section = compose_config([f"data={data}", *needed]).data.to_dict()
    found = fabricate(section, tmp_path / "mirror", monkeypatch)
    trains(tmp_path, f"data={data}", *needed, *found)


@pytest.mark.parametrize("data", [name for name in options("data") if "cycles" in name])
def test_every_generated_set_in_its_other_variant(tmp_path: Path, data: str) -> None:
    trains(tmp_path, f"data={data}", "data.variant=plain", *CYCLES)


@pytest.mark.parametrize("protocol", ["holdout", "repeated_seeds"])
@pytest.mark.parametrize("data", ["cora", "photo", "molbbbp", "zinc10k"])
def test_sets_with_their_own_split_or_nodes_under_their_protocols(
    tmp_path: Path, data: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = compose_config([f"data={data}"]).data.to_dict()
    found = fabricate(section, tmp_path / "mirror", monkeypatch)
    few = ["protocol.seeds=2"] if protocol == "repeated_seeds" else []
    trains(tmp_path, f"data={data}", "model=union_gcn", f"protocol={protocol}", *few, *found)


@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment(tmp_path: Path, experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose_config([f"experiment={experiment}"])
    found = fabricate(config.data.to_dict(), tmp_path / "mirror", monkeypatch)
    counts = {"folds": 3, "seeds": 2}
    few = [f"protocol.{key}={n}" for key, n in counts.items() if getattr(config.protocol, key)]
    trains(tmp_path, f"experiment={experiment}", *few, "model.parameter_budget=null", *found)


@pytest.mark.parametrize("option", [f"{g}={o}" for g in ("logger", "trainer", "optimizer",
                                    "coefficient") for o in options(g)])  # fmt: skip
def test_every_other_option(tmp_path: Path, option: str) -> None:
    if option == "logger=mlflow":
        pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    trains(tmp_path, option, *CYCLES)


@pytest.mark.parametrize("protocol", options("protocol"))
def test_every_protocol(tmp_path: Path, protocol: str) -> None:
    few = []
    if protocol.startswith("cross_validation"):
        few = ["protocol.folds=3"]
    elif protocol == "repeated_seeds":
        few = ["protocol.seeds=2"]
    trains(tmp_path, f"protocol={protocol}", *few, *CYCLES)
