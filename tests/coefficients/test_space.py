"""Which choices go together, what the key depends on, and what the columns are called."""

import itertools

import numpy as np
import pytest

from unionsnn.coefficients import CoefficientSpec, space, structural_coefficients

TRIANGLE = np.array([[0, 1, 1, 2, 0, 2, 3], [1, 0, 2, 1, 2, 0, 3]])
SCALARS = space.LOCAL_SCALARS + space.WHOLE_GRAPH_SCALARS


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"descriptor": "curvature", "encoding": "entry_sum"},
            r"encoding 'entry_sum' does not apply to descriptor 'curvature', which is a number, "
            r"not a matrix: leave it out, or give None \(matrices: path, laplacian\)\.",
        ),
        (
            {"descriptor": "laplacian", "encoding": "entry_sum"},
            r"encoding 'entry_sum' of descriptor 'laplacian' is 0 for every graph; "
            r"allowed: singular_value_sum, largest_eigenvalue\.",
        ),
        (
            {"encoding": None},
            r"descriptor 'path' is a matrix and needs an encoding; allowed: singular_value_sum, "
            r"entry_sum, largest_eigenvalue\.",
        ),
        ({"encoding": "none"}, r"descriptor 'path' is a matrix and needs an encoding"),
        (
            {"descriptor": "curvature", "encoding": "entry_smu"},
            r"encoding 'entry_smu' is not available; .*, none\. Did you mean 'entry_sum'\?",
        ),
        (
            {"descriptor": "curvature_graph", "substructure": "overlap"},
            r"'curvature_graph' is taken in the whole graph, so substructure 'overlap' does not "
            r"apply: leave it out \(allowed: union\)\.",
        ),
        (
            {"descriptor": "cycle_count", "radius": [1, 2]},
            r"'cycle_count' is taken in the whole graph, so radius \[1, 2\] does not apply",
        ),
        ({"alpha": 0.3}, r"alpha 0\.3 has no effect on descriptor 'path': leave it out \(it "),
        (
            {"descriptor": "curvature", "exponent": 1},
            r"exponent 1 has no effect on descriptor 'curvature': .* belongs to node_edge_count",
        ),
        ({"descriptor": "curvature", "alpha": 1.5}, r"alpha must be a finite number in 0\.\.1, "),
        ({"descriptor": "curvature", "alpha": "x"}, r"alpha must be a finite number .* got 'x'"),
        (
            {"descriptor": "node_edge_count", "exponent": float("nan")},
            r"exponent must be a finite number, got nan",
        ),
        *(
            ({"quantities": "a_tree", **choice}, r"quantity 'a_tree' is defined for substructure")
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
def test_what_does_not_go_together_is_refused_by_name(choices, message):
    with pytest.raises(ValueError, match=message):
        structural_coefficients(TRIANGLE, 4, **choices)


def test_all_faults_of_a_combination_are_named_at_once():
    with pytest.raises(ValueError, match=r"(?s)encoding 'entry_sum'.*radius \[2\].*alpha 0.3"):
        CoefficientSpec(descriptor="cycle_count", encoding="entry_sum", radius=2, alpha=0.3)


@pytest.mark.parametrize("descriptor", SCALARS)
def test_a_number_has_no_encoding(descriptor):
    given = CoefficientSpec(descriptor=descriptor)
    assert given.encoding is None
    for encoding in (None, "none", "singular_value_sum"):
        assert CoefficientSpec(descriptor=descriptor, encoding=encoding).key == given.key
    assert CoefficientSpec.from_dict(given.to_dict()) == given
    assert structural_coefficients(TRIANGLE, 4, descriptor=descriptor).shape == (7,)


def test_keys_differ_where_values_can():
    specs = [
        CoefficientSpec(substructure=s, descriptor=d, encoding=e, radius=r)
        for s, d, e, r in itertools.product(
            space.SUBSTRUCTURES,
            space.MATRICES + space.LOCAL_SCALARS,
            space.ENCODINGS,
            (1, 2),
        )
        if not space.encoding_faults(d, e)
    ]
    specs += [CoefficientSpec(descriptor=d) for d in space.WHOLE_GRAPH_SCALARS]
    specs += [CoefficientSpec(descriptor="curvature", alpha=0.3)]
    specs += [CoefficientSpec(descriptor="node_edge_count", exponent=1)]
    # The three scalars inside a substructure come once for the one encoding that means none.
    assert len({spec.key for spec in specs}) == len(set(specs)) == 3 * 2 * (3 + 2 + 3) + 4


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
