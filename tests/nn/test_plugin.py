"""UnionPlugin: what it leaves alone, what it refuses, copies and compiled code."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from gated_graphs import COLUMNS, several_graphs, with_loops
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GATConv,
    GatedGraphConv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    LGConv,
    MessagePassing,
    SAGEConv,
    SGConv,
    SSGConv,
)

from graphs import cycle, graph, star
from unionsnn import StructuralGate, UnionPlugin, fit_statistics, plug_in
from unionsnn.nn.plugin import message_width


@pytest.fixture
def batch() -> Data:
    return several_graphs()


def gin() -> GINConv:
    return GINConv(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4)))


def plugged(conv: MessagePassing, data: Data, gate: str = "default") -> UnionPlugin:
    plugin = UnionPlugin(conv, gate=StructuralGate.preset(gate, message_width(conv)))
    plugin.gate.set_columns(COLUMNS)
    return plugin.double().fit_statistics(data.edge_coefficient)


def apply(plugin: Callable[..., Tensor], data: Data) -> Tensor:
    return plugin(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)


# The wrapped layer stays what it was.


def test_the_layer_called_directly_stays_plain(batch: Data) -> None:
    conv = GCNConv(3, 4).double()
    plain = conv(batch.x, batch.edge_index)
    plugin = plugged(conv, batch)
    for _ in range(2):
        assert torch.equal(conv(batch.x, batch.edge_index), plain)
        assert not torch.allclose(apply(plugin, batch), plain)


def test_two_plugins_of_one_layer_do_not_meet(batch: Data) -> None:
    conv = GCNConv(3, 4).double()
    first = plugged(conv, batch, "paper")
    alone = apply(first, batch)
    second = plugged(conv, batch, "default")
    apart = UnionPlugin(copy.deepcopy(conv), gate=second.gate)
    assert torch.equal(apply(second, batch), apply(apart, batch))
    assert torch.equal(apply(first, batch), alone)


class Failing(MessagePassing):
    """Sends its messages, then fails if told to."""

    fail = False

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = self.propagate(edge_index, x=x)
        if self.fail:
            raise ArithmeticError("after the messages")
        return out


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failure_inside_leaves_nothing_behind(batch: Data, when: str) -> None:
    conv = Failing()
    plain = conv(batch.x, batch.edge_index)
    plugin = UnionPlugin(conv, channels=3, gate="paper").double()
    plugin.gate.set_columns(COLUMNS)
    gated = apply(plugin, batch)
    if when == "after":
        conv.fail = True
        with pytest.raises(ArithmeticError, match="after the messages"):
            apply(plugin, batch)
        conv.fail = False
    else:
        with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
            plugin(batch.x, batch.edge_index, nonsense=1, edge_coefficient=batch.edge_coefficient)
    assert torch.equal(conv(batch.x, batch.edge_index), plain)
    assert torch.equal(apply(plugin, batch), gated)


def test_finding_the_width_leaves_no_trace() -> None:
    conv = gin()
    conv.train()
    conv.nn[1].eval()
    nn.init.constant_(conv.nn[1].running_mean, 3.0)
    cached = GCNConv(3, 4, cached=True)
    state, random = copy.deepcopy(conv.state_dict()), torch.get_rng_state()
    modes = [module.training for module in conv.modules()]
    assert message_width(conv) == 3
    assert message_width(cached) == 4
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, state[name]) for name, value in conv.state_dict().items())
    assert [module.training for module in conv.modules()] == modes
    assert not {"message", "propagate"} & vars(conv).keys()
    assert cached._cached_edge_index is None


class Noisy(MessagePassing):
    """Draws random numbers even in evaluation."""

    in_channels = 3

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x + torch.rand_like(x))


def test_finding_the_width_of_a_random_layer_draws_no_number() -> None:
    random = torch.get_rng_state()
    assert message_width(Noisy()) == 3
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize(
    ("make", "width"),
    [
        (gin, 3),
        (lambda: GCNConv(3, 4), 4),
        (lambda: SGConv(3, 4), 3),
        (lambda: GATConv(3, 4, heads=2), 8),
        (lambda: SAGEConv(3, 4), 3),
    ],
)
def test_finding_the_width_on_the_meta_device(
    make: Callable[[], MessagePassing], width: int
) -> None:
    with torch.device("meta"):
        plugin = UnionPlugin(make())
    assert plugin.gate.channels == width
    assert {p.device.type for p in plugin.parameters()} == {"meta"}


# Refusals.


@pytest.mark.parametrize(
    "make", [lambda: GINEConv(gin().nn, edge_dim=2), lambda: LGConv(), lambda: GatedGraphConv(4, 2)]
)
def test_a_width_that_cannot_be_found_is_that_of_the_first_message(
    make: Callable[[], MessagePassing],
) -> None:
    conv = make()
    message = rf"width of {type(conv).__name__}'s messages could not be found; pass channels="
    with pytest.raises(ValueError, match=message):
        message_width(conv)
    assert UnionPlugin(make()).gate.channels == -1
    assert UnionPlugin(make(), channels=3).gate.channels == 3


@pytest.mark.parametrize("conv", [nn.Linear(3, 3), None, "GINConv"])
def test_what_passes_no_messages_is_refused(conv: Any) -> None:
    message = f"wraps a PyG MessagePassing layer, but got {type(conv).__name__}"
    with pytest.raises(TypeError, match=message):
        UnionPlugin(conv)


def test_a_plugin_of_a_plugin_is_refused() -> None:
    with pytest.raises(TypeError, match="but got UnionPlugin"):
        UnionPlugin(UnionPlugin(GCNConv(3, 4)))  # type: ignore[arg-type]


def test_a_layer_that_sends_pieces_is_refused() -> None:
    with pytest.raises(TypeError, match=r"SAGEConv has decomposed_layers=2.*set it to 1"):
        UnionPlugin(SAGEConv(4, 4, decomposed_layers=2))


@pytest.mark.parametrize("make", [SGConv, lambda i, o, **k: SSGConv(i, o, 0.1, **k)])
def test_a_layer_that_keeps_what_it_sent_is_refused(make: Callable[..., MessagePassing]) -> None:
    with pytest.raises(TypeError, match=r"cached=True: it sends messages once.*leave cached out"):
        UnionPlugin(make(4, 4, cached=True))
    UnionPlugin(make(4, 4))


@pytest.mark.parametrize("gate", ["paper", "authors-code", "default"])
def test_several_features_of_one_graph_are_sent_together(batch: Data, gate: str) -> None:
    """[B, N, C] gives what B calls give; B larger than N as well."""
    plugin = plugged(GCNConv(3, 4), batch, gate=gate)
    n = batch.num_nodes
    for count in (2, n + 1):
        generator = torch.Generator().manual_seed(count)
        x = torch.randn(count, n, 3, generator=generator, dtype=torch.float64)
        coefficient = batch.edge_coefficient
        out = plugin(x, batch.edge_index, edge_coefficient=coefficient)
        one = [plugin(each, batch.edge_index, edge_coefficient=coefficient) for each in x]
        torch.testing.assert_close(out, torch.stack(one), rtol=0, atol=1e-12)


def test_channels_must_be_those_of_the_gate() -> None:
    gate = StructuralGate.preset("paper", 5)
    with pytest.raises(ValueError, match="channels is 3 but the gate has 5 channels"):
        UnionPlugin(GCNConv(3, 4), channels=3, gate=gate)


def test_a_gate_of_the_wrong_width_is_refused_with_the_right_one(batch: Data) -> None:
    plugin = UnionPlugin(GATConv(3, 4, heads=2), channels=4, gate="paper").double()
    plugin.gate.set_columns(COLUMNS)
    message = "GATConv sends messages of width 8, but the gate has 4 channels; pass channels=8"
    with pytest.raises(ValueError, match=message):
        apply(plugin, batch)


def sparse(data: Data, layout: torch.layout) -> Tensor:
    values = torch.ones(data.num_edges, dtype=torch.float64)
    size = (data.num_nodes, data.num_nodes)
    coo = torch.sparse_coo_tensor(data.edge_index, values, size, check_invariants=True)
    return coo.to_sparse(layout=layout)


# Of torch, where PyG converts a matrix that was checked when it was made.
@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
@pytest.mark.parametrize("kind", ["sparse_coo", "sparse_csr", "sorted", "list"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_edges_that_may_skip_the_messages_are_refused(batch: Data, kind: str) -> None:
    plugin = plugged(gin(), batch)
    edges: Any
    if kind.startswith("sparse"):
        edges, name = sparse(batch, getattr(torch, kind)), f"a tensor of layout torch.{kind}"
    elif kind == "sorted":
        edges, name = EdgeIndex(batch.edge_index).sort_by("col").values, "a sorted EdgeIndex"
    else:
        edges, name = batch.edge_index.tolist(), "list"
    with pytest.raises(TypeError, match=rf"edge_index is {name}; .*Pass a plain tensor"):
        plugin(batch.x, edges, edge_coefficient=batch.edge_coefficient)


def test_an_unsorted_edge_index_is_a_tensor_like_another(batch: Data) -> None:
    for conv in (gin(), GCNConv(3, 4)):
        plugin = plugged(conv, batch).eval()
        edges = EdgeIndex(batch.edge_index, sparse_size=(batch.num_nodes, batch.num_nodes))
        out = plugin(batch.x, edges, edge_coefficient=batch.edge_coefficient)
        torch.testing.assert_close(out, apply(plugin, batch))


@pytest.mark.parametrize("rows", [1, 5])
def test_rows_that_do_not_fit_the_edges_are_refused(batch: Data, rows: int) -> None:
    plugin = plugged(gin(), batch)
    with pytest.raises(ValueError, match=f"{rows} rows for {batch.num_edges} edges"):
        plugin(batch.x, batch.edge_index, edge_coefficient=batch.edge_coefficient[:rows])


def test_features_that_are_none_are_refused(batch: Data) -> None:
    plugin = plugged(gin(), batch)
    with pytest.raises(TypeError, match="x is NoneType; it must be a tensor or a pair"):
        plugin(None, batch.edge_index, edge_coefficient=batch.edge_coefficient)


class Custom(MessagePassing):
    """A layer that does to its edges what `change` says."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.change == "nothing sent":
            return x
        if self.change == "reversed":
            edge_index = edge_index.flip(1)
        if self.change == "dropped":
            edge_index = edge_index[:, 1:]
        if self.change == "other edges last":
            edge_index = torch.cat([edge_index, edge_index[:, :2]], dim=1)
        if self.change == "copied":
            edge_index = edge_index.clone()
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor) -> Tensor:
        return torch.cat([x_j, x_j]) if self.change == "two messages" else x_j


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nothing sent", "Custom sent no message through `message`"),
        ("reversed", "Custom changes the order or number of edges"),
        ("dropped", "Custom changes the order or number of edges"),
        ("other edges last", "Custom changes the order or number of edges"),
        ("two messages", r"Custom sends \d+ messages along \d+ edges"),
    ],
)
def test_a_layer_whose_messages_cannot_be_matched_is_refused(
    batch: Data, change: str, message: str
) -> None:
    plugin = UnionPlugin(Custom(change), channels=3, gate="paper").double()
    plugin.gate.set_columns(COLUMNS)
    with pytest.raises(TypeError, match=f"{message}.*cannot be wrapped"):
        apply(plugin, batch)


def test_a_layer_that_copies_its_edges_is_gated(batch: Data) -> None:
    plugin = UnionPlugin(Custom("copied"), channels=3, gate="paper").double()
    plugin.gate.set_columns(COLUMNS)
    same = UnionPlugin(Custom("none"), gate=plugin.gate)
    for data in (batch, with_loops(batch, [3, 0, 2])):
        assert torch.equal(apply(plugin, data), apply(same, data))


# Copies and states.


@pytest.mark.parametrize("make", [gin, lambda: GCNConv(3, 4), lambda: GATConv(3, 2, heads=2)])
@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save"])
def test_a_copy_is_equal_and_apart(
    batch: Data, make: Callable[[], MessagePassing], how: str
) -> None:
    plugin = plugged(make(), batch).eval()
    before = apply(plugin, batch)
    if how == "deepcopy":
        twin = copy.deepcopy(plugin)
    elif how == "pickle":
        twin = pickle.loads(pickle.dumps(plugin))
    else:
        file = io.BytesIO()
        torch.save(plugin, file)
        file.seek(0)
        twin = torch.load(file, weights_only=False)
    assert torch.equal(apply(twin, batch), before)
    twin.gate.reset_parameters()
    after_gate = apply(twin, batch)
    assert not torch.allclose(after_gate, before)
    twin.conv.reset_parameters()
    assert not torch.allclose(apply(twin, batch), after_gate)
    assert torch.equal(apply(plugin, batch), before)
    assert twin.conv.message.func.__self__ is twin


def test_a_copy_of_the_wrapped_layer_alone_is_plain(batch: Data) -> None:
    conv = GCNConv(3, 4).double()
    plain = conv(batch.x, batch.edge_index)
    plugged(conv, batch)
    assert torch.equal(copy.deepcopy(conv)(batch.x, batch.edge_index), plain)


def test_a_state_dict_makes_another_plugin_equal(batch: Data) -> None:
    torch.manual_seed(0)
    plugin = plugged(gin(), batch).eval()
    other = UnionPlugin(gin()).double().eval()
    other.load_state_dict(plugin.state_dict())
    assert torch.equal(apply(other, batch), apply(plugin, batch))


def test_reset_parameters_draws_all_weights_anew(batch: Data) -> None:
    plugin = plugged(GCNConv(3, 4, bias=False), batch)
    before = copy.deepcopy(plugin.state_dict())
    plugin.reset_parameters()
    same = {k for k, v in plugin.state_dict().items() if torch.equal(v, before[k])}
    assert same == {"gate.feature_mean", "gate.feature_std", "gate._extra_state"}


# Compiled code.


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("_fresh_compiler")
# Of dynamo, where a graph begins with the output of another.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("make", [gin, lambda: GCNConv(3, 4), lambda: GATConv(3, 2, heads=2)])
def test_compiled_code_gives_the_same(
    batch: Data, make: Callable[[], MessagePassing], backend: str
) -> None:
    plugin = plugged(make(), batch)
    compiled = torch.compile(copy.deepcopy(plugin), backend=backend)
    smaller = Batch.from_data_list(batch.to_data_list()[:4])
    for data in (batch, smaller, batch):
        expected, out = apply(plugin, data), apply(compiled, data)
        torch.testing.assert_close(out, expected)
        expected.sum().backward()
        out.sum().backward()
    for ours, theirs in zip(plugin.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(theirs.grad, ours.grad)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize(
    "make",
    [
        gin,
        lambda: SAGEConv(3, 4),
        lambda: GraphConv(3, 4),
        lambda: GCNConv(3, 4),
        lambda: GATConv(3, 2, heads=2),
        lambda: GINEConv(nn.Linear(3, 4), edge_dim=2),
    ],
)
def test_a_compiled_layer_is_one_graph(batch: Data, make: Callable[[], MessagePassing]) -> None:
    conv = make()
    plugin = UnionPlugin(conv, channels=3 if isinstance(conv, GINEConv) else None).double().eval()
    plugin.gate.set_columns(COLUMNS)
    plugin.fit_statistics(batch)
    compiled = torch.compile(plugin, backend="eager", dynamic=True, fullgraph=True)
    for data in (batch, with_loops(batch, [3, 0, 2])):
        extra = (data.edge_index.double().t(),) if isinstance(conv, GINEConv) else ()
        arguments = (data.x, data.edge_index, *extra)
        out = compiled(*arguments, edge_coefficient=data.edge_coefficient)
        plain = plugin(*arguments, edge_coefficient=data.edge_coefficient)
        torch.testing.assert_close(out, plain, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_compiled_network_is_one_graph(batch: Data) -> None:
    network = plug_in(pyg.GIN(3, 4, num_layers=2)).double().eval()
    fit_statistics(network, batch)
    compiled = torch.compile(network, backend="eager", dynamic=True, fullgraph=True)
    torch.testing.assert_close(apply(compiled, batch), apply(network, batch))


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("change", ["reversed", "dropped", "other edges last"])
def test_compiled_code_refuses_other_edges(batch: Data, change: str) -> None:
    plugin = UnionPlugin(Custom(change), channels=3, gate="paper").double()
    plugin.gate.set_columns(COLUMNS)
    with pytest.raises(RuntimeError, match="Custom changes the order or number of edges"):
        apply(torch.compile(plugin, backend="eager"), batch)


@pytest.mark.parametrize("make", [gin, lambda: GCNConv(3, 4)])
def test_bfloat16_autocast(batch: Data, make: Callable[[], MessagePassing]) -> None:
    plugin = plugged(make(), batch).float().eval()
    data = batch.apply(lambda value: value.float(), "x", "edge_coefficient")
    exact = apply(plugin, data)
    with torch.autocast("cpu", torch.bfloat16):
        out = apply(plugin, data)
    torch.testing.assert_close(out.float(), exact, rtol=0.05, atol=0.05)
    out.float().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in plugin.parameters() if p.grad is not None)


def test_a_short_layer_may_have_an_exact_gate(batch: Data) -> None:
    plugin = plugged(SAGEConv(3, 4), batch).float()
    data = batch.apply(lambda value: value.float(), "x", "edge_coefficient")
    exact = apply(plugin, data)
    plugin.conv.bfloat16()
    data.x = data.x.bfloat16()
    out = apply(plugin, data)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), exact, rtol=0.05, atol=0.05)


def test_all_gates_of_a_network_are_fitted_by_one_call() -> None:
    graphs = [graph(star(3), 4, channels=3), graph(cycle(4), 4, channels=3)]
    network = torch.nn.ModuleList(UnionPlugin(SAGEConv(3, 3)) for _ in range(2))
    fit_statistics(network, iter(graphs))
    alone = UnionPlugin(SAGEConv(3, 3)).fit_statistics(graphs)
    for layer in network:
        assert torch.equal(layer.gate.feature_mean, alone.gate.feature_mean)
        assert torch.equal(layer.gate.feature_std, alone.gate.feature_std)
    with pytest.raises(ValueError, match="Linear reads no structural coefficients: wrap its"):
        fit_statistics(torch.nn.Linear(1, 1), graphs)
