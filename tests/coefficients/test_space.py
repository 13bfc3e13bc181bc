"""Which choices go together, what the key depends on, and what the columns are called."""

import itertools

import numpy as np
import pytest

from unionsnn.base.errors import RequestError
from unionsnn.coefficients import CoefficientSpec, space, structural_coefficients

TRIANGLE = np.array([[0, 1, 1, 2, 0, 2, 3], [1, 0, 2, 1, 2, 0, 3]])
MATRICES = space.matrices()
WHOLE = tuple(name for name in space.DESCRIPTORS if space.is_of_whole_graph(name))
SCALARS = tuple(name for name in space.DESCRIPTORS if name not in MATRICES)


@pytest.mark.parametrize(
    ("choices", "named", "code"),
    [
        (
            {"descriptor": "curvature", "encoding": "entry_sum"},
            ("'entry_sum'", "'curvature'", "path, laplacian"),
            "encoding",
        ),
        (
            {"descriptor": "laplacian", "encoding": "entry_sum"},
            ("'entry_sum'", "'laplacian'", "singular_value_sum, largest_eigenvalue"),
            "encoding",
        ),
        (
            {"encoding": None},
            ("'path'", "singular_value_sum, entry_sum, largest_eigenvalue"),
            "encoding",
        ),
        ({"encoding": "none"}, ("'path'",), "encoding"),
        (
            {"descriptor": "curvature", "encoding": "entry_smu"},
            ("'entry_smu'", ", none", "'entry_sum'?"),
            "unknown",
        ),
        (
            {"descriptor": "curvature_graph", "substructure": "overlap"},
            ("'curvature_graph'", "'overlap'", "union"),
            "whole_graph",
        ),
        (
            {"descriptor": "cycle_count", "radius": [1, 2]},
            ("'cycle_count'", "[1, 2]"),
            "whole_graph",
        ),
        ({"alpha": 0.3}, ("0.3", "'path'", "curvature, curvature_graph"), "no_effect"),
        (
            {"descriptor": "curvature", "exponent": 1},
            ("exponent 1", "'curvature'", "node_edge_count"),
            "no_effect",
        ),
        ({"descriptor": "curvature", "alpha": 1.5}, ("alpha", "0..1", "1.5"), "number"),
        ({"descriptor": "curvature", "alpha": "x"}, ("alpha", "'x'"), "number"),
        (
            {"descriptor": "node_edge_count", "exponent": float("nan")},
            ("exponent", "nan"),
            "number",
        ),
        *(
            ({"quantities": "a_tree", **choice}, ("'a_tree'", "a, nodes, edges"), "a_tree")
            for choice in (
                {"radius": 2},
                {"radius": [3, 2]},
                {"substructure": "overlap"},
                {"descriptor": "curvature"},
                {"encoding": "entry_sum"},
            )
        ),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(choices, named, code):
    with pytest.raises(RequestError) as raised:
        structural_coefficients(TRIANGLE, 4, **choices)
    assert raised.value.codes == [f"coefficient.{code}"]
    assert all(part in str(raised.value) for part in named)


def test_all_faults_of_a_combination_are_named_at_once():
    with pytest.raises(RequestError) as raised:
        CoefficientSpec(descriptor="cycle_count", encoding="entry_sum", radius=2, alpha=0.3)
    kinds = "encoding", "whole_graph", "no_effect"
    assert raised.value.codes == [f"coefficient.{kind}" for kind in kinds]


@pytest.mark.parametrize("descriptor", SCALARS)
def test_a_number_has_no_encoding(descriptor):
    given = CoefficientSpec(descriptor=descriptor)
    assert given.encoding is None
    for encoding in (None, "none", "singular_value_sum"):
        assert CoefficientSpec(descriptor=descriptor, encoding=encoding).key == given.key
    assert CoefficientSpec.from_dict(given.to_dict()) == given
    assert structural_coefficients(TRIANGLE, 4, descriptor=descriptor).shape == (7,)


def test_keys_differ_where_values_can():
    local = [(d, e) for d in space.DESCRIPTORS if d not in WHOLE for e in space.encodings_of(d)]
    specs = [
        CoefficientSpec(substructure=s, descriptor=d, encoding=e, radius=r)
        for s, (d, e), r in itertools.product(space.SUBSTRUCTURES, local, (1, 2))
    ]
    specs += [CoefficientSpec(descriptor=d) for d in WHOLE]
    specs += [CoefficientSpec(descriptor="curvature", alpha=0.3)]
    specs += [CoefficientSpec(descriptor="node_edge_count", exponent=1)]
    assert len({spec.key for spec in specs}) == len(set(specs)) == 6 * len(local) + len(WHOLE) + 2


def test_numbers_of_any_type_give_one_key():
    assert CoefficientSpec(descriptor="node_edge_count", exponent=np.int64(1)).key == (
        CoefficientSpec(descriptor="node_edge_count", exponent=1.0).key
    )


def test_columns_of_several_radii():
    spec = CoefficientSpec.from_columns(["a_r3", "nodes_r1"], descriptor="curvature", alpha=0.25)
    assert spec.columns == ("a_r1", "nodes_r1", "a_r3", "nodes_r3")
    assert spec.alpha == 0.25
    values = structural_coefficients(TRIANGLE, 4, radius=(2, 1), quantities=("nodes", "a"))
    np.testing.assert_allclose(values[0], [3, 4, 3, 4])
    np.testing.assert_allclose(values[-1], 0)


def test_only_the_default_has_a_tree():
    assert CoefficientSpec().has_tree_value
    assert CoefficientSpec(radius=(1, 2)).has_tree_value
    for choice in ({"radius": (2, 3)}, {"descriptor": "curvature"}, {"substructure": "overlap"}):
        assert not CoefficientSpec(**choice).has_tree_value
