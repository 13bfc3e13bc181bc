"""DropGIN: its formula run by run, its rule, its draws and its loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from formulas import (
    EXACT,
    all_sizes,
    edge_matrix,
    gin,
    matrices,
    part,
    shaken,
    with_edge_features,
)
from networks import apply, build, bytes_kept, bytes_stated
from torch import Tensor, nn
from torch_geometric.data import Batch

from graphs import cycle, graph
from unionsnn.base.errors import RequestError
from unionsnn.models.drop_gin import DropGIN
from unionsnn.nn.batch import GraphBatch


def reference(network: DropGIN, data: Batch) -> tuple[Tensor, Tensor]:
    """A GIN on what is left of each graph in each run; output, and that of each run for itself."""
    edges, result, single = edge_matrix(network, data), [], []
    for nodes, A, W in matrices(network, data):
        E = part(edges, nodes)
        features, missing = network.encoder(data.x[nodes]), data.dropped[nodes]
        average = torch.zeros_like(features)
        runs = []
        for run in range(missing.size(1)):
            left = torch.nonzero(~missing[:, run]).flatten()
            h = torch.zeros_like(features)
            own = [weight[left][:, left] for weight in W]
            rows = gin(network, features[left], A[left][:, left], own, part(E, left))
            h = h.index_copy(0, left, rows)
            average = average + h / missing.size(1)
            runs.append(h.sum(0, keepdim=True) if network.level == "graph" else h)
        result.append(average.sum(0, keepdim=True) if network.level == "graph" else average)
        single.append(torch.stack(runs))
    return network.head(torch.cat(result)), network.auxiliary(torch.cat(single, dim=1))


def with_dropped(network: DropGIN, data: Batch) -> Batch:
    data.dropped = network.train().draw(data.batch, data.num_graphs)
    return data


@pytest.mark.parametrize("gate", ["none", "default"])
@pytest.mark.parametrize(("level", "width"), [("graph", None), ("node", None), ("graph", 2)])
def test_the_network_and_its_auxiliary_loss_are_their_formulas(
    gate: str, level: str, width: int | None
) -> None:
    # Without batch norm, so that training passes can be compared too.
    choices = {"num_layers": 2, "norm": "none", "runs": 5, "drop_probability": 0.3}
    network = shaken(build("drop_gin", gate, level=level, edges=width, **choices).double())
    torch.manual_seed(0)
    data = with_dropped(network, with_edge_features(all_sizes(), width))
    assert {0, 1} == set(data.dropped.flatten().int().tolist())
    expected, single = reference(network, data)
    out = apply(network, data)
    torch.testing.assert_close(out, expected, **EXACT)
    target = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)

    def loss(one: Tensor) -> Tensor:
        return (one - target).square().mean()

    auxiliary = network.auxiliary_loss(loss)
    mean = sum(loss(one) for one in single) / 5
    torch.testing.assert_close(auxiliary, network.auxiliary_weight * mean, **EXACT)
    parameters = list(network.parameters())
    for one, other in zip(
        torch.autograd.grad(loss(out) + auxiliary, parameters),
        torch.autograd.grad(loss(expected) + network.auxiliary_weight * mean, parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    # It belongs to one pass, and to training.
    assert network.auxiliary_loss(loss) is None
    apply(network.eval(), data)
    assert network.auxiliary_loss(loss) is None


def test_without_drops_it_is_gin() -> None:
    network = shaken(build("drop_gin", "none", runs=3, drop_probability=0.0).double()).eval()
    plain = build("gin", "none").double().eval()
    state = network.state_dict()
    plain.load_state_dict({key: state[key] for key in plain.state_dict()})
    data = all_sizes()
    torch.testing.assert_close(apply(network, data), apply(plain, data), **EXACT)


def test_a_batch_without_nodes_has_no_output_and_a_loss() -> None:
    network = build("drop_gin", "none", level="node", runs=3, drop_probability=0.3)
    x = torch.zeros(0, network.encoder.in_features)
    out = network(GraphBatch.single(x, torch.zeros(2, 0, dtype=torch.long)))
    assert len(out) == 0
    assert torch.isfinite(network.auxiliary_loss(lambda one: one.sum()))


def test_the_rule_is_that_of_the_mean_size() -> None:
    network = DropGIN(in_channels=3, out_channels=2)
    for sizes, runs, probability in [([17, 18, 19], 18, 2 / 19), ([1, 1], 1, 0.5), ([2], 2, 0.5)]:
        network.fit_sizes(torch.tensor(sizes))
        assert (network.num_runs, network.probability) == (runs, probability)
    other = DropGIN(in_channels=3, out_channels=2)
    other.load_state_dict(network.state_dict())
    assert other.num_runs == 2


def test_the_rule_without_sizes_is_refused() -> None:
    network, data = DropGIN(in_channels=3, out_channels=2), graph(cycle(4), 4, channels=3)
    with pytest.raises(RuntimeError, match=r"mean size .*fit_sizes.*model\.runs"):
        network(GraphBatch.of(data))
    given = DropGIN(in_channels=3, out_channels=2, runs=2, drop_probability=0.1)
    assert given(GraphBatch.of(data)).shape == (1, 2)


def test_draws_of_an_evaluation_are_those_of_its_seed_whatever_the_batch() -> None:
    network = build("drop_gin", "none", runs=7, drop_probability=0.3).eval()
    long = torch.zeros(700, dtype=torch.long)
    state = torch.random.get_rng_state()
    first = network.draw(long, 1)
    assert torch.equal(network.draw(long, 1), first)
    assert torch.equal(network.draw(long[:300], 1), first[:300])
    two = network.draw(torch.cat([long[:4], long + 1, long[:2]]), 2)
    assert torch.equal(two[4:-2], first)
    assert torch.equal(torch.cat([two[:4], two[-2:]]), first[:6])
    assert torch.equal(torch.random.get_rng_state(), state)
    network.evaluation_seed = 1
    assert not torch.equal(network.draw(long, 1), first)


@pytest.mark.parametrize("training", [True, False])
def test_each_node_of_each_run_is_dropped_with_the_same_probability(training: bool) -> None:
    """4,200 draws: within four standard deviations, in all and for each run."""
    network = build("drop_gin", "none", runs=6, drop_probability=0.3).train(training)
    torch.manual_seed(0)
    drawn = network.draw(torch.zeros(700, dtype=torch.long), 1).double()
    for mean, count in [(drawn.mean(), 4200), *((one, 700) for one in drawn.mean(dim=0))]:
        assert abs(float(mean) - 0.3) < 4 * (0.21 / count) ** 0.5


def test_training_draws_anew_from_torch_s_generator() -> None:
    network, batch = build("drop_gin", "none").train(), torch.zeros(50, dtype=torch.long)
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(network.draw(batch, 1))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_it_tells_apart_what_gin_cannot() -> None:
    """A hexagon and two triangles, all nodes alike, with the same draws for both."""
    two = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    pair = Batch.from_data_list([graph(cycle(6), 6, channels=3), graph(two, 6, channels=3)])
    pair = pair.apply(lambda value: value.double(), "x", "edge_coefficient")
    first, second = apply(build("drop_gin", "none", runs=20).double().eval(), pair)
    assert (first - second).abs().max() > 1e-3


@pytest.mark.parametrize("gate", ["none", "default", "paper"])
@pytest.mark.parametrize("shape", ["no edges", "ring", "complete"])
@pytest.mark.parametrize("width", [None, 2])
def test_the_stated_memory_is_what_a_training_step_keeps_and_some_more(
    gate: str, shape: str, width: int | None
) -> None:
    """Between what autograd keeps, measured, and twice that and the messages of one layer."""
    size = {"hidden_channels": 32, "num_layers": 4}
    network = build("drop_gin", gate, edges=width, runs=10, drop_probability=0.0, **size)
    graphs = []
    for nodes in (12, 5, 8):
        pairs = [(v, u) for v in range(nodes) for u in range(v)]
        edges = {"no edges": [], "ring": cycle(nodes), "complete": pairs}[shape]
        graphs += [graph(edges, nodes, 3)] * 10
    data = Batch.from_data_list(graphs)
    if width is not None:
        data.edge_attr = torch.ones(data.num_edges, width)
    kept = bytes_kept(network.train(), data)
    messages = 10 * data.num_edges * 32 * 4
    stated = bytes_stated(network, data)
    assert kept <= stated <= 2 * (kept + messages)
    assert bytes_stated(network.eval(), data) < stated


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"runs": 0}, "runs is 0; it must be at least 1, or null"),
        ({"drop_probability": 1.0}, r"drop_probability is 1.0; it must be in \[0, 1\)"),
        ({"auxiliary_weight": -1.0}, "auxiliary_weight is -1.0; it must be at least 0"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        build("drop_gin", "none", **choices)


def test_no_auxiliary_head_without_its_loss() -> None:
    network: nn.Module = build("drop_gin", "none", auxiliary_weight=0.0).train()
    assert not list(network.auxiliary.parameters())
    apply(network, all_sizes().apply(lambda value: value.float(), "x", "edge_coefficient"))
    assert network.auxiliary_loss(lambda out: out.sum()) is None
