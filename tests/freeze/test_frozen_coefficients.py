"""Digests of every coefficient on five sets, cache keys and column names: none of them may change.

A value may differ in its last bits on another processor, so real columns are compared through sums
with random weights at a relative 1e-9, which still catches one wrong or misplaced row; columns of
whole numbers are compared exactly. A deliberate change is written down by

    UNIONSNN_FREEZE=all pytest tests/freeze/test_frozen_coefficients.py
"""

import hashlib
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

FROZEN_FILE = Path(__file__).with_name("coefficients.json")

SUBSTRUCTURES = ("union", "overlap", "union_minus")
MATRICES = ("path", "laplacian")
SCALARS = ("edge_betweenness", "node_edge_count", "curvature", "curvature_graph", "cycle_count")
ENCODINGS = ("singular_value_sum", "entry_sum", "largest_eigenvalue")
RADII = ((1,), (2,), (3,), (1, 2, 3))
QUANTITIES = (("a", "a_tree", "nodes", "edges"), ("a", "nodes", "edges"))
OTHER_NUMBERS = (
    {"descriptor": "curvature", "encoding": None, "alpha": 0.3},
    {"descriptor": "curvature_graph", "encoding": None, "alpha": 0.0},
    {"descriptor": "node_edge_count", "encoding": None, "exponent": 1.0},
)
WHOLE_NUMBERS = ("nodes_r", "edges_r", "cycle_count a_r", "entry_sum a_r")

RTOL = 1e-9


def product():
    """Everything that this test needs of the product."""
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.data.sources.cycles import generate_cycles
    from unionsnn.expressivity.graph_sets import circular_skip_links, golden_pairs

    return CoefficientSpec, generate_cycles, (golden_pairs, circular_skip_links)


def specs():
    """Every allowed combination by its label, with as many quantities as it allows."""
    make, _, _ = product()
    matrices = itertools.product(MATRICES, ENCODINGS)
    choices = [*matrices, *((descriptor, None) for descriptor in SCALARS)]
    named = [
        {"substructure": s, "descriptor": d, "encoding": e, "radius": r}
        for s, (d, e), r in itertools.product(SUBSTRUCTURES, choices, RADII)
    ]
    found = {}
    for options in (*named, *OTHER_NUMBERS):
        for quantities in QUANTITIES:
            try:
                spec = make(**options, quantities=quantities)
            except ValueError:
                continue
            found[" ".join([base_label(spec), *map(str, spec.radius)])] = spec
            break
    return found


def base_label(spec):
    """Name what the coefficient of an edge depends on, but for the radius."""
    numbers = [
        f"{name}={value:g}"
        for name, value, default in (
            ("alpha", spec.alpha, 0.5),
            ("exponent", spec.exponent, 2.0),
        )
        if value != default
    ]
    return "/".join([spec.substructure, spec.descriptor, *filter(None, [spec.encoding]), *numbers])


def column_label(spec, column):
    """Name a column; the nodes and edges of a substructure are the same for every descriptor."""
    owner = base_label(spec) if column.startswith("a_r") else spec.substructure
    return f"{owner} {column}"


def four_cycles(rng):
    _, generate_cycles, _ = product()
    graphs = generate_cycles(4, num_graphs=16)
    counts = np.diff(graphs.edge_slices)
    first_nodes = np.repeat(graphs.node_slices[:-1], counts)
    edges = graphs.edge_index + first_nodes
    return edges[:, edges[0] < edges[1]], int(graphs.node_slices[-1])


def classics(rng):
    """The golden pairs, CSL, and the strongly regular graph (25, 12, 5, 6) of a Latin square."""
    _, _, families = product()
    graphs = [graph for make in families for family in make() for graph in family.graphs]
    cells = np.stack(np.divmod(np.arange(25), 5))
    lines = np.concatenate([cells, cells.sum(axis=0, keepdims=True) % 5])
    same = (lines[:, :, None] == lines[:, None, :]).sum(axis=0)
    graphs.append((np.stack(np.nonzero(same == 1)), 25))
    first, edges = 0, []
    for edge_index, num_nodes in graphs:
        edges.append(edge_index[:, edge_index[0] < edge_index[1]] + first)
        first += num_nodes
    return np.concatenate(edges, axis=1), first


def molecules(rng):
    """Random trees of degree at most 4, some with rings of 5 or 6 nodes, an isolated node last."""
    pairs, first = [], 0
    for _ in range(40):
        size = 8 + int(20 * rng.random())
        degree = np.zeros(size, int)
        for node in range(1, size):
            open_nodes = np.flatnonzero(degree[:node] < 3)
            parent = int(open_nodes[int(len(open_nodes) * rng.random())])
            pairs.append((first + parent, first + node))
            degree[[parent, node]] += 1
        nodes = first + size
        for _ in range(int(3 * rng.random())):
            length = 5 + int(2 * rng.random())
            ring = [first + int(size * rng.random()), *range(nodes, nodes + length - 1)]
            pairs += zip(ring, [*ring[1:], ring[0]], strict=True)
            nodes += length - 1
        first = nodes
    return np.array(pairs).T, first + 1


def hubs(rng):
    """A hub of 104 neighbours, random edges among all nodes; one loop and repeated edges."""
    num_nodes = 116
    adjacency = np.triu(rng.random((num_nodes, num_nodes)) < 0.03, 1)
    adjacency[0, 1:105] = True
    edges = np.stack(np.nonzero(adjacency))
    return np.concatenate([edges, edges[:, :5], [[7], [7]]], axis=1), num_nodes


def small_world(rng):
    """A ring of 80 nodes, each linked to the next 5, with every tenth link rewired."""
    num_nodes = 80
    senders, steps = np.divmod(np.arange(5 * num_nodes), 5)
    receivers = (senders + steps + 1) % num_nodes
    rewired = rng.random(len(senders)) < 0.1
    anywhere = (senders + 1 + (rng.random(len(senders)) * (num_nodes - 1)).astype(int)) % num_nodes
    return np.stack([senders, np.where(rewired, anywhere, receivers)]), num_nodes


SETS = {make.__name__: make for make in (four_cycles, classics, molecules, hubs, small_world)}


def edges_of(name):
    """Directed edges of a set in random order, and its number of nodes."""
    rng = np.random.default_rng([2024, list(SETS).index(name)])
    edges, num_nodes = SETS[name](rng)
    edges = np.asarray(edges, np.int64)
    both = np.concatenate([edges, edges[::-1]], axis=1)
    return both[:, np.argsort(rng.random(both.shape[1]))], num_nodes


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array, "<i8").tobytes()).hexdigest()


def is_whole(label):
    return any(name in label for name in WHOLE_NUMBERS)


def digest(label, values):
    """Exact hash of a whole-number column; count, least, greatest and weighted sums of another."""
    if is_whole(label):
        assert (values == np.rint(values)).all(), label
        return sha256(values)
    weights = np.random.default_rng(len(values)).random((4, len(values)))
    return [len(values), values.min(), values.max(), *(weights @ values).tolist()]


def unlike(label, values, frozen):
    """Whether values are not those that were frozen."""
    found = digest(label, values)
    if is_whole(label):
        return found != frozen
    greatest = np.abs(values).max()
    # A sum of n numbers with random weights is compared with n times their mean size.
    scale = np.array([0.0, greatest, greatest, *[np.abs(values).sum()] * 4])
    return bool((np.abs(np.subtract(found, frozen)) > RTOL * scale).any())


def columns_of(name):
    """Columns of all combinations on a set, by label; from each combination that has it."""
    edges, num_nodes = edges_of(name)
    for spec in specs().values():
        values = spec.compute(edges, num_nodes)
        for column, one in zip(spec.columns, values.T, strict=True):
            yield column_label(spec, column), one


@pytest.fixture(scope="module")
def frozen():
    if os.environ.get("UNIONSNN_FREEZE") == "all":
        content = {
            "specs": {k: [s.key, " ".join(s.columns)] for k, s in specs().items()},
            "edges": {name: sha256(edges_of(name)[0]) for name in SETS},
            "columns": {
                name: {label: digest(label, values) for label, values in columns_of(name)}
                for name in SETS
            },
        }
        FROZEN_FILE.write_text(json.dumps(content, indent=1) + "\n")
    return json.loads(FROZEN_FILE.read_text())


def test_allowed_combinations_cache_keys_and_columns(frozen):
    found = {label: [spec.key, " ".join(spec.columns)] for label, spec in specs().items()}
    assert found == frozen["specs"]


@pytest.mark.parametrize("name", SETS)
def test_coefficients(name, frozen):
    assert sha256(edges_of(name)[0]) == frozen["edges"][name], "the input itself has changed"
    right = frozen["columns"][name]
    seen, changed = set(), set()
    for label, values in columns_of(name):
        seen.add(label)
        if label not in right or unlike(label, values, right[label]):
            changed.add(label)
    assert not changed
    assert seen == set(right)


def test_the_digests_notice_two_rows_that_changed_places(frozen):
    edges, num_nodes = edges_of("molecules")
    make, _, _ = product()
    values = make().compute(edges, num_nodes)[:, 0]
    right = frozen["columns"]["molecules"]["union/path/singular_value_sum a_r1"]
    first, second = 0, int(np.flatnonzero(values != values[0])[0])
    values[[first, second]] = values[[second, first]]
    assert unlike("a_r1", values, right)
