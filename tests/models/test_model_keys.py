"""Every key of every model's configuration matters, and the formulas of the models themselves."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
from networks import EVERY_NAME, NAMES, apply, auxiliary_of, build, composed, own_gate, read_by
from torch_geometric.data import Batch

from graphs import random_graphs
from unionsnn.config.combinations import plain_model
from unionsnn.config.compose import compose_config
from unionsnn.models.transformer import GraphTransformer
from unionsnn.training.build import build_model

# Another value for each key; a key that is not here fails the test.
CHANGES: dict[str, Any] = {
    "hidden_channels": 16,
    "num_layers": 2,
    "parameter_budget": 20_000,
    "dropout": 0.5,
    "norm": "layer",
    "residual": False,
    "readout": "mean",
    "train_eps": False,
    "gate_on": "message",
    "input_linear": True,
    "aggregation": "max",
    "normalize": True,
    "heads": 2,
    "towers": 2,
    "divide_input": True,
    "attention_dropout": 0.5,
    "max_distance": 2,
    "max_degree": 1,
    "feedforward_ratio": 3,
    "local": "gin",
    "attention": "plain",
    "mlp_layers": 1,
    "num_pools": 1,
    "pool_weight": 0.5,
    "subgraph_readout": "max",
    "runs": 3,
    "drop_probability": 0.2,
    "auxiliary_weight": 1.0,
    "positional_loss": 0.5,
    "orthogonality": 0.7,
}
# Where that is what a model has.
OTHER: dict[tuple[str, str], Any] = {
    ("deep_sets", "num_layers"): 1,
    ("mewispool", "readout"): "sum",
}
# What must change with a key.
ALONG: dict[str, dict[str, Any]] = {"attention": {"encodings": {"random_walk": 20}}}
# What both must have for a key to have a meaning.
BESIDE: dict[str, dict[str, Any]] = {"orthogonality": {"positional_loss": 0.5}}
# What the model is, not how it is made; and what the data are to carry for it.
IDENTITY = ("_target_", "name", "coefficient", "encodings")


def keys() -> list[Any]:
    return [
        pytest.param(name, key, id=f"{name}-{key}")
        for name in NAMES
        for key in composed(name, own_gate(name)).model.to_dict()
        if key not in IDENTITY
    ]


def fingerprint(name: str, gate: str, **model: Any) -> tuple[dict[str, Any], torch.Tensor]:
    """Names and shapes of the parameters, and output and loss of a seeded training pass."""
    network = build(name, gate, **model).train()
    shapes = {key: tuple(p.shape) for key, p in network.named_parameters()}
    data = Batch.from_data_list(random_graphs(6, torch.Generator().manual_seed(0)))
    torch.manual_seed(1)
    out = apply(network, data)
    auxiliary = torch.as_tensor(auxiliary_of(network, lambda one: one.square().mean()))
    return shapes, torch.cat([out.flatten(), auxiliary.view(1)])


@pytest.mark.parametrize(("name", "key"), keys())
def test_every_key_of_the_configuration_matters(name: str, key: str) -> None:
    assert key in CHANGES, f"model.{key} is new: give it another value in CHANGES"
    gate, value = own_gate(name), OTHER.get((name, key), CHANGES[key])
    assert composed(name, gate).model.to_dict()[key] != value
    beside = BESIDE.get(key, {})
    shapes, out = fingerprint(name, gate, **beside)
    again_shapes, again = fingerprint(name, gate, **beside)
    assert again_shapes == shapes
    assert torch.equal(again, out)
    changes = {key: value, **ALONG.get(key, {}), **beside}
    changed_shapes, changed = fingerprint(name, gate, **changes)
    assert changed_shapes != shapes or not torch.allclose(changed, out)


TRANSFORMERS = [n for n in NAMES if isinstance(build(n, own_gate(n)), GraphTransformer)]


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("encoding", ["random_walk", "laplacian", "distance"])
def test_every_encoding_matters(name: str, encoding: str) -> None:
    """The network has parameters for it, and reads what the batch has."""
    known = composed(name, "default").model.to_dict()["encodings"]
    assert list(known) == ["random_walk", "laplacian", "distance"]
    wanted = True if encoding == "distance" else 3
    network = build(name, "default", encodings={**known, encoding: wanted}).eval()
    data = Batch.from_data_list(random_graphs(6, torch.Generator().manual_seed(0)))
    given = read_by(network, data)
    rolled = getattr(given, encoding).roll(1, dims=0)
    other = dataclasses.replace(given, **{encoding: rolled})
    assert not torch.allclose(network(given), network(other))


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("norm", ["batch", "layer", "none"]),
        ("readout", ["sum", "mean", "max"]),
        ("residual", [True, False]),
        ("dropout", [0.0, 0.2, 0.5]),
    ],
)
def test_every_choice_gives_another_function(key: str, values: list[Any]) -> None:
    outputs = [fingerprint("gin", "none", **{key: value})[1] for value in values]
    for i, one in enumerate(outputs):
        for other in outputs[:i]:
            assert not torch.allclose(one, other)


@pytest.mark.parametrize("name", [name for name in EVERY_NAME if name not in NAMES])
def test_a_union_model_is_the_plain_one_and_a_gate(name: str) -> None:
    """Its configuration is that of the plain model and the default gate, but for the name."""
    plain = plain_model(name)
    gated = compose_config([f"model={plain}", "gate=default"])
    assert compose_config([f"model={name}"]).replace({"model.name": plain}) == gated
    union = build_model(gated, 3, 2).state_dict()
    unwrapped = {
        re.sub(r"(convs\.\d+)\.conv\.", r"\1.", key) for key in union if ".gate." not in key
    }
    assert unwrapped == build_model(composed(plain, "none"), 3, 2).state_dict().keys()
