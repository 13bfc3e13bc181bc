"""StructuralGate against formulas written out edge by edge."""

from __future__ import annotations

import copy
import functools
import math

import pytest
import torch
from gated_graphs import (
    COLUMNS,
    PRESETS,
    WITH_TREE,
    apply,
    fitted,
    float64,
    make,
    several_graphs,
    with_loops,
    with_spec,
    with_tree_value,
)
from torch_geometric.data import Batch, Data

from graphs import cycle, graph, star
from unionsnn import CoefficientSpec, StructuralCoefficients, StructuralGate
from unionsnn.coefficients.space import QUANTITIES
from unionsnn.coefficients.spec import columns_of
from unionsnn.nn.features import FEATURES


@pytest.fixture
def batch() -> Data:
    return several_graphs()


def normalized(data: Data, over: str) -> list[float]:
    """a_vu divided by the sum over the neighbours of receiver or sender, edge by edge."""
    a = data.edge_coefficient[:, 0].tolist()
    ends = data.edge_index.tolist()[1 if over == "receiver" else 0]
    return [a[e] / sum(a[f] for f in range(len(a)) if ends[f] == ends[e]) for e in range(len(a))]


def mlp(gate: StructuralGate, inputs: list[list[float]], slope: float) -> list[list[float]]:
    """Apply the gate's MLP, Linear or Linear - LeakyReLU - Linear, written out."""
    layers = [layer for layer in (gate.hidden, gate.last) if layer is not None]
    rows = inputs
    for depth, layer in enumerate(layers):
        W, b = layer.weight.tolist(), layer.bias.tolist()
        rows = [
            [sum(w * v for w, v in zip(W[c], row, strict=True)) + b[c] for c in range(len(b))]
            for row in rows
        ]
        if depth + 1 < len(layers):
            rows = [[v if v > 0 else slope * v for v in row] for row in rows]
    return rows


def softmax_over(rows: list[list[float]], groups: list[int]) -> list[list[float]]:
    """Softmax per channel among the rows of the same group."""
    return [
        [
            math.exp(value)
            / sum(math.exp(rows[f][c]) for f in range(len(rows)) if groups[f] == groups[e])
            for c, value in enumerate(row)
        ]
        for e, row in enumerate(rows)
    ]


def test_paper_is_equation_4(batch: Data) -> None:
    gate = make("paper")
    scores = mlp(gate, [[value] for value in normalized(batch, "receiver")], slope=0.0)
    expected = softmax_over(scores, batch.edge_index[1].tolist())
    torch.testing.assert_close(apply(gate, batch), torch.tensor(expected, dtype=torch.float64))


def test_paper_sums_to_one_over_the_neighbours_of_the_receiver(batch: Data) -> None:
    weight = apply(make("paper"), batch)
    total = torch.zeros(batch.num_nodes, 4, dtype=torch.float64)
    total.index_add_(0, batch.edge_index[1], weight)
    has_neighbours = torch.zeros(batch.num_nodes, 1, dtype=torch.float64)
    has_neighbours[batch.edge_index[1]] = 1
    torch.testing.assert_close(total, has_neighbours.expand(-1, 4))


def test_authors_code_is_its_formula(batch: Data) -> None:
    gate = make("authors-code")
    scores = mlp(gate, [[value + 1] for value in normalized(batch, "sender")], slope=0.2)
    expected = softmax_over(scores, [0] * batch.num_edges)
    torch.testing.assert_close(apply(gate, batch), 1 + torch.tensor(expected, dtype=torch.float64))


def test_default_is_one_plus_a_linear_map_of_standardised_features(batch: Data) -> None:
    gate = fitted("default", batch)
    rows = batch.edge_coefficient.t().tolist()
    columns = [rows[0], [t - a for t, a in zip(rows[1], rows[0], strict=True)]]
    for a, nodes, edges in ((None, 2, 3), (4, 5, 6), (7, 8, 9)):
        columns += [] if a is None else [rows[a]]
        columns += [[m - n + 1 for m, n in zip(rows[edges], rows[nodes], strict=True)]]
    standardised = []
    for values in columns:
        mean = sum(values) / len(values)
        std = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        standardised.append([(v - mean) / std for v in values])
    expected = mlp(gate, [list(row) for row in zip(*standardised, strict=True)], slope=0.0)
    torch.testing.assert_close(apply(gate, batch), 1 + torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("normalization", ["neighborhood", "batch", "none"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_every_feature_under_every_normalisation(
    batch: Data, normalization: str, residual: bool, layers: int
) -> None:
    batch = with_tree_value(batch)
    gate = fitted(
        "default",
        batch,
        columns=WITH_TREE,
        radius=1,
        features=("cyclomatic", "normalized", "raw", "excess"),
        normalization=normalization,
        residual=residual,
        layers=layers,
        negative_slope=0.1,
        normalize_over="sender",
        offset=0.5,
    )
    a, tree, nodes, edges = batch.edge_coefficient.t()
    share = torch.tensor(normalized(batch, "sender"), dtype=torch.float64)
    raw = {"cyclomatic": edges - nodes + 1, "raw": a, "excess": tree - a}
    scaled = {k: (v - v.mean()) / v.std(correction=0) for k, v in raw.items()}
    inputs = [scaled["cyclomatic"], share + 0.5, scaled["raw"], scaled["excess"]]
    expected = mlp(gate, torch.stack(inputs, dim=1).tolist(), slope=0.1)
    if normalization != "none":
        receivers = batch.edge_index[1].tolist()
        groups = receivers if normalization == "neighborhood" else [0] * batch.num_edges
        expected = softmax_over(expected, groups)
    torch.testing.assert_close(
        apply(gate, batch), residual + torch.tensor(expected, dtype=torch.float64)
    )


def test_several_radii_have_features_of_their_own_whatever_the_order() -> None:
    rows = torch.tensor([[1.0, 10.0], [3.0, 40.0], [8.0, 20.0]], dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    outputs = []
    for radius in ([1, 2], [2, 1]):
        torch.manual_seed(0)
        gate = StructuralGate(3, features=("raw",), radius=radius).double().fit_statistics(rows)
        assert gate.columns == ("a_r1", "a_r2")
        torch.testing.assert_close(gate.feature_mean, rows.mean(dim=0))
        torch.testing.assert_close(gate.feature_std, rows.std(dim=0, correction=0))
        outputs.append(gate(rows, edge_index, 3))
    standardised = (rows - rows.mean(dim=0)) / rows.std(dim=0, correction=0)
    expected = 1 + standardised @ gate.last.weight.t() + gate.last.bias
    torch.testing.assert_close(outputs[0], expected)
    assert torch.equal(outputs[0], outputs[1])


def test_columns_are_found_by_name(batch: Data) -> None:
    batch = with_tree_value(batch)
    features = ("raw", "excess", "cyclomatic")
    gate = fitted("default", batch, columns=WITH_TREE, radius=1, features=features)
    turned = copy.deepcopy(gate)
    turned.set_columns(("edges_r1", "unused", "a_tree_r1", "nodes_r1", "a_r1"))
    a, tree, nodes, edges = batch.edge_coefficient.t()
    rows = torch.stack([edges, torch.full_like(a, 1e9), tree, nodes, a], dim=1)
    assert torch.equal(turned(rows, batch.edge_index, batch.num_nodes), apply(gate, batch))


def test_required_columns_are_those_that_the_features_use() -> None:
    assert StructuralGate.preset("paper", 1).required_columns == ("a_r1",)
    assert StructuralGate.preset("authors-code", 1).required_columns == ("a_r1",)
    assert StructuralGate.preset("default", 1).required_columns == COLUMNS
    several = StructuralGate(1, features=("cyclomatic", "normalized"), radius=[1, 3])
    assert several.required_columns == (
        "a_r1", "nodes_r1", "edges_r1", "a_r3", "nodes_r3", "edges_r3",
    )  # fmt: skip


@pytest.mark.parametrize(
    "features",
    [
        *((feature,) for feature in FEATURES),
        ("cycles", "marked", "distances"),
        ("marked", "excess", "distances", "cycles", "cyclomatic", "eigenvalues"),
    ],
    ids=",".join,
)
def test_features_are_those_of_their_columns(features: tuple[str, ...]) -> None:
    """The data's columns are those required, in their order; counts enter as logarithms."""
    gate = StructuralGate(3, features=features, radius=(1, 2)).double()
    required = gate.required_columns
    spec = CoefficientSpec.from_columns(required)
    assert [name for name in spec.columns if name in required] == list(required)
    gate.set_columns(spec.columns)
    batch = with_spec(several_graphs(), spec)
    gate.fit_statistics(batch.edge_coefficient)
    if set(features) <= set(QUANTITIES):
        local = [feature for feature in features if feature != "cycles"]
        names = columns_of([*local, *(f for f in features if f not in local)], (1, 2))
        rows = batch.edge_coefficient[:, [spec.columns.index(name) for name in names]]
        counted = [name.startswith(("distances", "cycles")) for name in names]
        rows = torch.where(torch.tensor(counted), torch.log1p(rows), rows)
        std = rows.std(dim=0, correction=0)
        std[std < 1e-6] = 1
        torch.testing.assert_close(
            gate.standardized(batch.edge_coefficient, batch.edge_index, batch.num_nodes),
            (rows - rows.mean(dim=0)) / std,
        )
    assert apply(gate, batch).isfinite().all()


def test_size_is_nodes_and_edges_as_logarithms() -> None:
    gate = StructuralGate(1, features=("size",), radius=1).double()
    assert gate.required_columns == ("nodes_r1", "edges_r1")
    rows = torch.tensor([[2.0, 1.0], [3.0, 3.0], [4.0, 4.0]], dtype=torch.float64)
    counts = torch.log1p(rows)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    torch.testing.assert_close(
        gate.fit_statistics(rows).standardized(rows, edge_index, 4),
        (counts - counts.mean(dim=0)) / counts.std(dim=0, correction=0),
    )


def test_bridges_count_in_the_statistics_of_cycles() -> None:
    """Their rows are 0 like those of self loops."""
    gate = StructuralGate(1, features=("cycles",))
    triangle = torch.tensor([[1.0, 0, 0, 0, 0, 0]])
    gate.fit_statistics(torch.cat([triangle, torch.zeros(3, 6)]))
    assert gate.feature_mean[0].item() == pytest.approx(math.log(2) / 4)


def test_an_eigenvalue_that_is_always_0_is_no_feature() -> None:
    """Its rounding errors are not blown up to unit variance."""
    gate = StructuralGate(1, features=("eigenvalues",), radius=1)
    noise = 1e-16 * torch.randn(9, generator=torch.Generator().manual_seed(0))
    rows = torch.stack([torch.full((9,), 4.0), noise, torch.full((9,), -2.0), noise - 2], dim=1)
    assert gate.fit_statistics(rows).feature_std.tolist() == [1] * 4


def test_self_loops_do_not_count_in_the_statistics(batch: Data) -> None:
    plain, looped = fitted("default", batch), fitted("default", with_loops(batch, [0, 3, 4]))
    assert torch.equal(plain.feature_mean, looped.feature_mean)
    assert torch.equal(plain.feature_std, looped.feature_std)


def test_a_constant_feature_is_centred_and_not_blown_up() -> None:
    """On trees excess and cyclomatic number are 0 but for rounding, in training and later."""
    trees = Batch.from_data_list([graph(star(k), k + 1) for k in (1, 2, 5)])
    trees = with_tree_value(trees)
    rows = trees.edge_coefficient
    noisy = rows.clone()
    noisy[:, 1] = noisy[:, 0] * (1 + 1e-7 * (-1.0) ** torch.arange(len(rows)))
    assert (noisy[:, 1] - noisy[:, 0]).std() > 0
    features = ("raw", "excess", "cyclomatic")
    gate = make("default", 2, columns=WITH_TREE, radius=1, features=features)
    gate.fit_statistics(noisy)
    assert gate.feature_std[1:].tolist() == [1.0, 1.0]
    assert gate.feature_std[0] == pytest.approx(float(rows[:, 0].std(correction=0)), rel=1e-6)
    cycles = with_tree_value(graph(cycle(4), 4))
    ones, rings = gate._features(cycles.edge_coefficient, cycles.edge_index, 4)[:, 1:].t()
    torch.testing.assert_close(ones, cycles.edge_coefficient[:, 1] - cycles.edge_coefficient[:, 0])
    assert rings.tolist() == [1.0] * 8


def test_statistics_are_fitted_anew(batch: Data) -> None:
    gate = fitted("default", batch)
    other = batch.edge_coefficient[:7] * 3
    assert gate.fit_statistics(other) is gate
    fresh = make("default").fit_statistics(other)
    assert torch.equal(gate.feature_mean, fresh.feature_mean)
    assert torch.equal(gate.feature_std, fresh.feature_std)
    gate.fit_statistics(other[:0])
    assert gate.fitted
    assert gate.feature_mean.tolist() == [0.0] * 7
    assert gate.feature_std.tolist() == [1.0] * 7


def test_reset_parameters_keeps_the_statistics(batch: Data) -> None:
    gate = fitted("default", batch)
    before = copy.deepcopy(gate.state_dict())
    gate.reset_parameters()
    after = gate.state_dict()
    assert {k for k in before if not torch.equal(before[k], after[k])} == {
        "last.weight",
        "last.bias",
    }


def test_without_statistics_the_error_names_the_call(batch: Data) -> None:
    with pytest.raises(RuntimeError, match=r"no statistics\. Call fit_statistics\(columns\)"):
        apply(make("default"), batch)
    for preset in ("paper", "authors-code"):
        assert not make(preset).needs_statistics
        assert torch.isfinite(apply(make(preset), batch)).all()


def test_a_missing_column_is_named() -> None:
    message = r"\['nodes_r1', 'edges_r1'\] are missing from \['a_r1', 'a_tree_r1'\]"
    at_one = functools.partial(StructuralGate.preset, "default", 2, radius=1)
    with pytest.raises(ValueError, match=message) as error:
        at_one(columns=("a_r1", "a_tree_r1"))
    remedy = str(error.value).split("Compute them with ")[1].rstrip(".")
    names = {
        "CoefficientSpec": CoefficientSpec,
        "StructuralCoefficients": StructuralCoefficients,
    }
    columns = eval(remedy, names).spec.columns
    at_one(columns=columns)


@pytest.mark.parametrize("shape", [(5,), (5, 9), (5, 11)])
def test_a_wrong_width_is_refused(shape: tuple[int, ...]) -> None:
    gate = make("default")
    message = r"has the shape \[5.*must be \[num_edges, 10\].*set_columns"
    with pytest.raises(ValueError, match=message):
        gate.fit_statistics(torch.ones(shape))
    with pytest.raises(ValueError, match=message):
        gate(torch.ones(shape), torch.zeros(2, 5, dtype=torch.long), 5)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_rows_that_do_not_fit_the_edges_are_refused(batch: Data, rows: int) -> None:
    gate = fitted("default", batch)
    with pytest.raises(ValueError, match=f"edge_coefficient has {rows} rows for 4 edges"):
        gate(batch.edge_coefficient[:rows], batch.edge_index[:, :4], batch.num_nodes)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_statistics_of_what_is_not_finite_are_refused(batch: Data, value: float) -> None:
    rows = batch.edge_coefficient.clone()
    rows[3, 2] = value
    gate = make("default")
    with pytest.raises(ValueError, match="contain NaN or infinity"):
        gate.fit_statistics(rows)
    assert not gate.fitted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"channels": 0}, "channels is 0; it must be at least 1"),
        ({"layers": 3}, r"layers is 3; allowed are 1 \(linear\) and 2"),
        ({"features": ()}, "features is empty; name at least one of raw, normalized"),
        ({"features": ("cyclic",)}, "A gate's feature is 'cyclic'.*Did you mean 'cyclomatic'"),
        ({"normalization": "neighbourhood"}, "Did you mean 'neighborhood'"),
        ({"normalize_over": "reciever"}, "Did you mean 'receiver'"),
        (
            {"features": ("excess",), "radius": 2},
            r"'excess' is defined at radius 1 only, but radius is \[2\]; use 'cyclomatic'",
        ),
        (
            {"features": ("excess",), "radius": [3, 2]},
            r"'excess' is defined at radius 1 only, but radius is \[2, 3\]",
        ),
        ({"radius": []}, r"radius is \[\]; it must be one or several integers of at least 1"),
        ({"radius": 0}, "radius is 0; it must be one or several integers of at least 1"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        StructuralGate(**{"channels": 4, **arguments})  # type: ignore[arg-type]


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"preset is 'papers'; allowed are.*Did you mean 'paper'"):
        StructuralGate.preset("papers", 4)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_self_loop_has_the_weight_one_and_changes_no_other(batch: Data, preset: str) -> None:
    """Node 4 of the last graph has no other edge."""
    lonely = batch.num_nodes - 1
    assert lonely not in batch.edge_index
    gate = fitted(preset, batch)
    looped = with_loops(batch, [0, lonely, 2])
    weight = apply(gate, looped)
    loops = looped.edge_index[0] == looped.edge_index[1]
    assert torch.equal(weight[loops], torch.ones(3, 4, dtype=torch.float64))
    torch.testing.assert_close(weight[~loops], apply(gate, batch))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("nodes", [[0, 1], [1, 1]])
def test_gradients_are_finite_where_all_edges_are_loops(preset: str, nodes: list[int]) -> None:
    gate = make(preset).fit_statistics(torch.ones(1, 10))
    rows = torch.zeros(2, 10, dtype=torch.float64, requires_grad=True)
    weight = gate(rows, torch.tensor([nodes, nodes]), 3)
    assert torch.equal(weight, torch.ones(2, 4, dtype=torch.float64))
    # Not even a NaN on the way that is masked in the end.
    with torch.autograd.set_detect_anomaly(True):
        weight.sum().backward()
    for gradient in [rows.grad, *(p.grad for p in gate.parameters())]:
        assert gradient is not None
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("preset", PRESETS)
def test_gradients_reach_the_mlp_beside_loops(batch: Data, preset: str) -> None:
    gate = fitted(preset, batch)
    looped = with_loops(batch, [0, batch.num_nodes - 1])
    (apply(gate, looped) ** 2).sum().backward()
    for parameter in gate.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
    assert any(bool((p.grad != 0).any()) for p in gate.parameters() if p.grad is not None)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("num_nodes", [0, 3])
def test_no_edges(preset: str, num_nodes: int) -> None:
    gate = make(preset).fit_statistics(torch.ones(1, 10))
    rows = torch.zeros(0, 10, dtype=torch.float64)
    weight = gate(rows, torch.zeros(2, 0, dtype=torch.long), num_nodes)
    assert weight.shape == (0, 4)
    weight.sum().backward()


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_a_graph_does_not_depend_on_its_batch(batch: Data, preset: str) -> None:
    gate = fitted(preset, batch)
    together = apply(gate, batch)
    graphs = batch.to_data_list()
    alone = [apply(gate, data) for data in graphs]
    torch.testing.assert_close(torch.cat(alone), together, rtol=1e-12, atol=1e-12)


def test_with_authors_code_a_graph_depends_on_its_batch(batch: Data) -> None:
    """A known trap of the authors' code: its softmax runs over all edges of the batch."""
    gate = make("authors-code")
    ring = float64(graph(cycle(4), 4))
    alone = apply(gate, ring)
    torch.testing.assert_close(alone, torch.full_like(alone, 1 + 1 / 8))
    together = apply(gate, Batch.from_data_list([ring, ring]))
    torch.testing.assert_close(together, torch.full_like(together, 1 + 1 / 16))


@pytest.mark.parametrize("preset", PRESETS)
def test_the_order_of_edges_is_of_no_matter(batch: Data, preset: str) -> None:
    gate = fitted(preset, batch)
    order = torch.randperm(batch.num_edges, generator=torch.Generator().manual_seed(1))
    shuffled = gate(batch.edge_coefficient[order], batch.edge_index[:, order], batch.num_nodes)
    torch.testing.assert_close(shuffled, apply(gate, batch)[order])
