"""MEWISPool against its formulas, written out for one graph after another; its choices."""

from __future__ import annotations

import math

import pytest
import torch
from formulas import all_sizes, graphs_of_all_sizes, shaken
from networks import apply, auxiliary_of, build
from test_transformers import batch_norm, linear, two_linear
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from graphs import cycle, graph, random_graphs, star
from positions import adjacency
from unionsnn.base.errors import RequestError
from unionsnn.models.mewispool import MEWISPoolNet
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.mewis import MEWISPool, independent_set, within_three

State = dict[str, Tensor]


def gin(p: State, at: str, h: Tensor, A: Tensor, maps: int) -> Tensor:
    """GIN with an MLP of several maps and no norm."""
    h = h + A @ h
    for k in range(maps):
        h = linear(p, f"{at}.nn.lins.{k}", h)
        h = torch.relu(h) if k < maps - 1 else h
    return h


def entropies(h: Tensor, A: Tensor) -> Tensor:
    n = len(h)
    squares = [sum(A[v, u] * (h[v] - h[u]) ** 2 for u in range(n)) for v in range(n)]
    variation = torch.linalg.vector_norm(torch.stack(squares), dim=1)
    P = variation.exp() / variation.exp().sum()
    return -P * P.log()


def scores(p: State, at: str, entropy: Tensor, A: Tensor) -> Tensor:
    score = entropy[:, None]
    for k in range(3):
        score = gin(p, f"{at}scores.{k}", score, A, maps=3)
    return 1 / (1 + (-score[:, 0]).exp())


def loss_of(entropy: Tensor, score: Tensor, A: Tensor) -> Tensor:
    return entropy.sum() - entropy @ score + score @ A @ score


def digits(value: Tensor) -> float:
    """A number with the 12 binary digits that an order is decided by."""
    mantissa, exponent = math.frexp(value.item())
    return round(mantissa * 2**12) * 2.0**exponent


def chosen_nodes(entropy: Tensor, score: Tensor, h: Tensor, A: Tensor) -> list[int]:
    """Algorithm 1, with the whole loss computed anew for each node."""
    entropy, score, h = entropy.detach(), score.detach(), h.detach()
    limit, value = loss_of(entropy, score, A), score.clone()
    ties = h @ torch.arange(1, h.size(1) + 1, dtype=h.dtype)
    order = sorted(range(len(h)), key=lambda v: (-digits(score[v]), -digits(ties[v])))
    chosen, rejected = set(), set()
    for v in order:
        near = [u for u in range(len(h)) if A[v, u]]
        trial = value.clone()
        trial[v], trial[near] = 1, 0
        if not near:
            chosen.add(v)
        elif v not in rejected and loss_of(entropy, trial, A) <= limit:
            chosen.add(v)
            rejected |= set(near)
            value = trial
    return sorted(chosen or order[:1])


def coarsened(A: Tensor, chosen: list[int]) -> Tensor:
    walks = (A @ A + A @ A @ A)[chosen][:, chosen]
    return (walks > 0).to(A.dtype).fill_diagonal_(0)


def reference(network: nn.Module, data: Batch) -> Tensor:
    """Output of a whole network in evaluation, graph by graph."""
    p = dict(network.named_parameters()) | dict(network.named_buffers())
    rows = []
    for index in range(data.num_graphs):
        nodes, whole = adjacency(data, index)
        A, h = torch.from_numpy(whole), linear(p, "encoder", data.x[nodes])
        pooled = 0
        for layer in range(len(network.convs)):
            summed = (1 + p[f"convs.{layer}.eps"]) * h + A @ h
            at = f"convs.{layer}.nn"
            inner = torch.relu(batch_norm(p, f"{at}.1", linear(p, f"{at}.0", summed)))
            h = h + torch.relu(batch_norm(p, f"norms.{layer}", linear(p, f"{at}.3", inner)))
            if layer + 1 in network.pooled_after:
                entropy = entropies(h, A)
                score = scores(p, f"pools.{pooled}.", entropy, A)
                chosen = chosen_nodes(entropy, score, h, A)
                A, h, pooled = coarsened(A, chosen), h[chosen], pooled + 1
        rows.append(two_linear(p, "head", h.mean(dim=0, keepdim=True), torch.relu, 3))
    return torch.cat(rows)


@pytest.mark.parametrize(("num_layers", "num_pools"), [(3, 2), (5, 2), (2, 2), (3, 1)])
def test_the_network_is_its_formula(num_layers: int, num_pools: int) -> None:
    network = build("mewispool", "none", num_layers=num_layers, num_pools=num_pools)
    network = shaken(network.double()).eval()
    graphs = [*graphs_of_all_sizes(), *graphs_of_all_sizes()[:6]]
    for one in graphs[-6:]:
        one.x = 0.3 * one.x
    data = Batch.from_data_list(graphs)
    data.x.requires_grad_()
    out, expected = apply(network, data), reference(network, data)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    assert network.auxiliary_loss(torch.sum) is None
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    inputs = [data.x, *(q for n, q in network.named_parameters() if not n.startswith("pools"))]
    found = [torch.autograd.grad((weight * each).sum(), inputs) for each in (out, expected)]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def random_scores(count: int) -> tuple[Batch, Tensor]:
    generator = torch.Generator().manual_seed(2)
    data = Batch.from_data_list(random_graphs(count, generator))
    return data, torch.rand(data.num_nodes, generator=generator, dtype=torch.float64)


def test_a_pooling_is_its_formula() -> None:
    """Kept nodes, edges among them, loss and its gradients."""
    torch.manual_seed(0)
    pool = shaken(MEWISPool(8).double())
    data = all_sizes()
    h = data.x.clone().requires_grad_()
    kept, edges, losses = pool(h, data.edge_index, data.batch, data.num_graphs)
    p = dict(pool.named_parameters())
    places = {int(v): i for i, v in enumerate(kept)}
    expected_kept, expected_edges, expected_losses = [], set(), []
    for index in range(data.num_graphs):
        nodes, whole = adjacency(data, index)
        A = torch.from_numpy(whole)
        entropy = entropies(h[nodes], A)
        score = scores(p, "", entropy, A)
        expected_losses.append(loss_of(entropy, score, A))
        chosen = chosen_nodes(entropy, score, h[nodes], A)
        expected_kept += [int(nodes[v]) for v in chosen]
        for v, u in torch.nonzero(coarsened(A, chosen)).tolist():
            expected_edges.add((places[int(nodes[chosen[v]])], places[int(nodes[chosen[u]])]))
    assert kept.tolist() == expected_kept
    assert sorted(map(tuple, edges.t().tolist())) == sorted(expected_edges)
    torch.testing.assert_close(losses, torch.stack(expected_losses), rtol=1e-10, atol=1e-10)
    inputs = [h, *pool.parameters()]
    both = (losses.sum(), torch.stack(expected_losses).sum())
    for one, other in zip(*(torch.autograd.grad(each, inputs) for each in both), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def assert_algorithm_1(data: Batch, entropy: Tensor, score: Tensor) -> None:
    h = data.x.double()
    found = independent_set(entropy, score, h, data.edge_index, data.batch, data.num_graphs)
    assert not (found[data.edge_index[0]] & found[data.edge_index[1]]).any()
    for index in range(data.num_graphs):
        nodes, whole = adjacency(data, index)
        A = torch.from_numpy(whole)
        chosen = chosen_nodes(entropy[nodes], score[nodes], h[nodes], A)
        assert torch.nonzero(found[nodes]).flatten().tolist() == chosen
        assert chosen


def test_the_choice_is_algorithm_1_for_any_scores() -> None:
    data, score = random_scores(60)
    entropy = torch.rand(data.num_nodes, dtype=torch.float64, generator=torch.Generator())
    assert_algorithm_1(data, entropy, score)


def test_ranks_along_a_path_take_many_rounds_and_costly_nodes_as_many_again() -> None:
    """Each decision depends on the one before; entropies of both signs cause rejections."""
    data = Batch.from_data_list([graph([(i, i + 1) for i in range(69)], 70), graph(cycle(50), 50)])
    score = torch.linspace(0.9, 0.1, 120, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for spread in (0.1, 2.0, 20.0):
        entropy = spread * torch.randn(120, dtype=torch.float64, generator=generator)
        assert_algorithm_1(data, entropy, score)


def test_a_graph_whose_nodes_all_cost_too_much_keeps_its_first() -> None:
    """Scores of almost 0 on a triangle: any node with score 1 raises the loss."""
    data = Batch.from_data_list([graph(cycle(3), 3), graph([], 2)])
    entropy = torch.zeros(5)
    entropy[:3] = -1.0
    score = torch.tensor([0.01, 0.03, 0.02, 0.5, 0.5])
    found = independent_set(entropy, score, data.x, data.edge_index, data.batch, 2)
    assert found.tolist() == [False, True, False, True, True]


def test_equal_scores_are_ordered_by_features_not_by_place() -> None:
    data = Batch.from_data_list([graph([(0, 1)], 2), graph([(0, 1)], 2)])
    h = torch.tensor([[1.0], [2.0], [2.0], [1.0]])
    same = torch.full((4,), 0.3)
    found = independent_set(same, same, h, data.edge_index, data.batch, 2)
    assert found.tolist() == [False, True, True, False]


def test_walks_of_two_and_three_edges_join_and_longer_ones_do_not() -> None:
    data = graph(cycle(12), 12)
    chosen = torch.zeros(12, dtype=torch.bool)
    chosen[[0, 2, 5, 9]] = True
    edges = within_three(chosen, data.edge_index)
    assert sorted(edges.t().tolist()) == [
        [0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [3, 0],
    ]  # fmt: skip
    nothing = within_three(chosen, data.edge_index[:, :0])
    assert nothing.shape == (2, 0)


def test_features_far_apart_keep_everything_finite() -> None:
    """A softmax that is 1 and 0 to the last digit."""
    pool = MEWISPool(4)
    data = graph(star(4), 5)
    h = torch.tensor([[1e4], [0.0], [1.0], [2.0], [3.0]], requires_grad=True)
    _, _, loss = pool(h, data.edge_index, torch.zeros(5, dtype=torch.long), 1)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(h.grad).all()
    assert all(torch.isfinite(q.grad).all() for q in pool.parameters())


def test_scores_learn_from_the_auxiliary_loss_alone() -> None:
    data = Batch.from_data_list(random_graphs(8, torch.Generator().manual_seed(0)))
    network = build("mewispool", "none").train()
    out = apply(network, data)
    pools = list(network.pools.parameters())
    alone = torch.autograd.grad(out.sum(), pools, retain_graph=True, allow_unused=True)
    assert all(each is None for each in alone)
    both = torch.autograd.grad(
        out.sum() + auxiliary_of(network, lambda one: one.square().sum()), pools
    )
    assert all(bool(each.abs().sum() > 0) for each in both[-2:])
    weighted = build("mewispool", "none", pool_weight=0.4).train()
    apply(weighted, data)
    added = (each.auxiliary_loss(torch.sum) for each in (weighted, network))
    torch.testing.assert_close(next(added), 2 * next(added))


def test_evaluation_is_deterministic() -> None:
    data = Batch.from_data_list(random_graphs(8, torch.Generator().manual_seed(0)))
    network = build("mewispool", "none", dropout=0.5).eval()
    before = torch.get_rng_state()
    first = apply(network, data)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(apply(network, data), first)


def test_loops_duplicates_and_one_direction_are_the_simple_graph() -> None:
    data: Data = graph(cycle(5), 5, 3)
    data.x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    network = build("mewispool", "none").eval()
    one_way = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    loop = torch.tensor([[2], [2]])
    other = network(GraphBatch.single(data.x, torch.cat([one_way, one_way[:, :2], loop], dim=1)))
    torch.testing.assert_close(other, apply(network, data))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"num_pools": 0}, "num_pools is 0; allowed are 1 to num_layers, which is 3"),
        ({"num_pools": 4}, "num_pools is 4; allowed are 1 to num_layers, which is 3"),
        ({"pool_weight": -1.0}, "pool_weight is -1.0; it must be at least 0 and finite"),
        ({"pool_weight": float("nan")}, "pool_weight is nan"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(choices: dict[str, float], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        build("mewispool", "none", **choices)


def test_tasks_on_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="MEWISPool drops nodes, so it has no output for each"):
        MEWISPoolNet(in_channels=3, out_channels=2, level="node")
