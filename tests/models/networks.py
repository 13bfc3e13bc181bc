"""Networks as the configuration builds them, for every model and gate that there is."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import degree

from graphs import COLUMNS, random_graphs
from model_names import GRAPHS_ONLY, UNGATED
from positions import encoded
from unionsnn.base.memory import Extent
from unionsnn.config.combinations import plain_model
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.schema import Config
from unionsnn.data.nodes import OneBatch
from unionsnn.models.fitting import FitsDegrees, FitsSizes
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.features import structural_modules
from unionsnn.training.build import build_model

EVERY_NAME = sorted(path.stem for path in (Path(config_folder()) / "model").glob("*.yaml"))
# A union variant is the plain model with a gate, which `test_model_keys.py` shows of each.
NAMES = [name for name in EVERY_NAME if plain_model(name) == name]
GATES = ("none", "paper", "authors-code", "default")
GATED = [name for name in NAMES if name not in UNGATED]


def own_gate(name: str) -> str:
    """The default gate, or none where a network takes none."""
    return "none" if name in UNGATED else "default"


# UnionSNN needs a gate.
CASES = [
    pytest.param(name, gate, id=f"{name}-{gate}")
    for name in NAMES
    for gate in GATES
    if (name != "unionsnn" if gate == "none" else name not in UNGATED)
]
every_network = pytest.mark.parametrize(("name", "gate"), CASES)
every_name = pytest.mark.parametrize("name", NAMES)


@functools.cache
def _composed(overrides: tuple[str, ...]) -> Config:
    return compose_config(list(overrides))


def composed(name: str, gate: str, **model: Any) -> Config:
    """Compose a configuration; `model` changes or adds keys of its model section."""
    config = _composed((f"model={name}", f"gate={gate}"))
    return config.replace({"model": config.model.model_copy(update=model)})


def build(
    name: str,
    gate: str,
    *,
    level: str = "graph",
    features: int = 3,
    outputs: int = 4,
    edges: int | tuple[int, ...] | None = None,
    inject: str = "gate",
    **model: Any,
) -> nn.Module:
    """Build a small network with fixed weights, its gates fitted to some training graphs."""
    small = {"hidden_channels": 8, "num_layers": 3}
    config = composed(name, gate, **{**small, **model}).replace({"gate.inject": inject})
    if level != "graph":
        if name in GRAPHS_ONLY:
            pytest.skip("refused by name, tested with the model")
        task = "node_classification" if level == "node" else "link_prediction"
        config = config.replace({"data.task": task})
    torch.manual_seed(0)
    with warnings.catch_warnings():
        # A section of encodings is given as it is, since a configuration refuses what networks do.
        warnings.filterwarnings("ignore", message="Pydantic serializer warnings")
        network = build_model(config, features, outputs, edges)
    return fit(network)


def width_step(name: str) -> int:
    """What divides every width of a network: its heads or towers share the width."""
    section = composed(name, own_gate(name)).model.to_dict()
    step: int = section.get("heads", section.get("towers", 1))
    return step


def fit(network: nn.Module) -> nn.Module:
    """Fit the statistics of gates and encoders to the same training graphs each time."""
    for module in structural_modules(network):
        module.set_columns(COLUMNS)
        module.fit_statistics(training_rows())
    if isinstance(network, FitsSizes):
        network.fit_sizes(torch.tensor([data.num_nodes for data in training_graphs()]))
    if isinstance(network, FitsDegrees):
        degrees = [degree(data.edge_index[1], data.num_nodes) for data in training_graphs()]
        network.fit_degrees(torch.cat(degrees).long().bincount())
    return network


@functools.cache
def training_graphs() -> list[Data]:
    return random_graphs(20, torch.Generator().manual_seed(7))


@functools.cache
def training_rows() -> Tensor:
    return torch.cat([data.edge_coefficient for data in training_graphs()])


def layer_coefficient(data: Data) -> Tensor:
    """Own coefficient of GraphSNN and CurvGN: any positive number for each edge."""
    return data.get("layer_coefficient", data.edge_coefficient[:, :1])


def apply(network: nn.Module, data: Data) -> Tensor:
    """Output for a batch, or for one graph."""
    if not isinstance(data, Batch):
        data = Batch.from_data_list([data])
    if "dropped" not in data:
        return network(read_by(network, data))
    # The test says which nodes the network drops.
    with mock.patch.object(network, "draw", return_value=data.dropped):
        return network(read_by(network, data))


def read_by(network: nn.Module, data: Batch) -> GraphBatch:
    """What a network may read."""
    return GraphBatch(
        data.x,
        data.edge_index,
        data.batch,
        data.num_graphs,
        edge_attr=data.get("edge_attr"),
        edge_coefficient=data.edge_coefficient,
        layer_coefficient=layer_coefficient(data),
        edge_label_index=data.get("edge_label_index"),
        **encoded(data, getattr(network, "encodings", {})),
    )


def auxiliary_of(network: nn.Module, loss: Callable[[Tensor], Tensor]) -> Tensor | float:
    """What the network adds to the loss of the training pass before; 0 for nothing."""
    make = getattr(network, "auxiliary_loss", None)
    value = None if make is None else make(loss)
    return 0.0 if value is None else value


def having(name: str, **model: Any) -> dict[str, Any]:
    """Those of the choices that the model leaves to its configuration."""
    return {
        key: value
        for key, value in model.items()
        if key in composed(name, own_gate(name)).model.to_dict()
    }


def train_statistics(network: nn.Module, data: Data) -> nn.Module:
    """Move the batch norms' running statistics away from 0 and 1, then go to evaluation."""
    network.train()
    with torch.no_grad():
        apply(network, data)
    return network.eval()


def bytes_stated(network: nn.Module, data: Batch) -> int:
    """What the network says that a batch needs."""
    (extent,) = OneBatch(data).extents
    nodes = data.batch.bincount()
    stated: int = network.batch_bytes(
        Extent(data.num_graphs, int(nodes.max()), int(nodes.square().sum()), extent.rows)
    )
    return stated


def bytes_kept(network: nn.Module, data: Data) -> int:
    """What autograd keeps of a training pass for the gradient, parameters left out."""
    own = {parameter.data_ptr() for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = apply(network, data)
    assert out.requires_grad
    return sum(kept.values())
