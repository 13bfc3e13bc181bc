"""Figures: what is drawn is what was given, and the file is whole or absent."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import rgb_to_hsv, to_rgb
from matplotlib.figure import Figure

from unionsnn.base.errors import DataError
from unionsnn.reports.figures import palette, plots

EDGES = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 2, 4]])
VALUES = np.array([1.0, 1.0, 2.0, 2.0, 0.0, 5.0])


def drawn(edges: np.ndarray = EDGES, values: np.ndarray = VALUES, nodes: int = 6) -> Figure:
    names = [f"node {i}" for i in range(nodes)]
    return plots.draw_coefficients(edges, values, names, title="toy", label="a_r1")


def lines(figure: Figure) -> LineCollection:
    (found,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    return found


def test_each_edge_is_one_line_of_its_value() -> None:
    figure = drawn()
    assert len(lines(figure).get_segments()) == 3
    assert lines(figure).get_array().tolist() == [1.0, 2.0, 5.0]
    axes, bar = figure.axes
    assert axes.get_title() == "toy"
    assert bar.get_ylabel() == "a_r1"
    assert [text.get_text() for text in axes.texts] == [f"node {i}" for i in range(6)]


def test_no_two_nodes_share_a_place() -> None:
    edges = np.array([[0, 1, 3, 4, 5], [1, 2, 4, 5, 3]])
    place = plots.place_nodes(edges.T, 9)
    gaps = np.linalg.norm(place[:, None] - place[None], axis=-1)[np.triu_indices(9, 1)]
    assert gaps.min() > 0.1


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        plots.save_figure(drawn(), tmp_path / name)
    for ending in ("svg", "png"):
        one, other = ((tmp_path / f"{n}.{ending}").read_bytes() for n in "ab")
        assert one == other
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_graphs_without_edges_are_drawn(tmp_path: Path, nodes: int) -> None:
    figure = drawn(np.zeros((2, 0), dtype=int), np.zeros(0), nodes)
    plots.save_figure(figure, tmp_path / "g.png")
    assert len(figure.axes) == 1


def test_a_few_extreme_edges_do_not_take_the_colours_from_all_others() -> None:
    path = np.stack([np.arange(299), np.arange(1, 300)])
    values = np.linspace(1, 2, 299)
    values[7] = 1000.0
    figure = drawn(path, values, 300)
    low, high = lines(figure).get_clim()
    assert 1 <= low < high < 3
    assert lines(figure).get_array()[-1] == 1000  # On top of the others.
    assert "from 1 to 1000" in figure.axes[1].get_ylabel()
    assert figure.get_figwidth() > drawn().get_figwidth()


def test_no_two_colours_are_red_and_green() -> None:
    """A colour-blind reader takes those for one: what differs must differ in blue or lightness."""
    for shades in (palette.COLORS, palette.PALE, palette.ORDERED):
        rgb = np.array([to_rgb(color) for color in shades])
        hue = rgb_to_hsv(rgb)[:, 0] * 360
        strong = rgb_to_hsv(rgb)[:, 1] > 0.35
        assert not np.any(strong & (hue > 80) & (hue < 170))
        # Deuteranopia and protanopia lose the difference of red and green, keep their sum and blue.
        seen = np.stack([rgb[:, :2] @ [0.4, 0.6], rgb[:, 2]], axis=1)
        gaps = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(len(rgb), 1)]
        assert gaps.min() > 0.02


def test_all_figures_take_their_colours_from_one_place() -> None:
    folder = Path(palette.__file__).parents[2]
    own = re.compile(r"\b(?:color|cmap|colors)=\"(?!white|black|#808080)[^\"]*\"")
    named = [
        f"{path.name}: {found}"
        for path in [*folder.glob("reports/**/*.py"), *folder.glob("search/*.py")]
        if path.name != "palette.py"
        for found in own.findall(path.read_text())
    ]
    assert not named


def test_labels_are_left_out_where_there_is_no_room() -> None:
    path = np.stack([np.arange(99), np.arange(1, 100)])
    assert not drawn(path, np.ones(99), 100).axes[0].texts


def test_a_graph_that_is_too_large_is_refused_with_advice() -> None:
    with pytest.raises(DataError, match=r"301 nodes is not drawn: beyond 300 .* Leave out --plot"):
        drawn(nodes=301)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("g.jpg", "must end in .png, .svg, .pdf"),
        ("none/g.png", "there is no folder"),
        ("folder.png", "which is a folder"),
    ],
)
def test_names_that_will_not_do_are_refused_before_the_work(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match=message.replace(".", r"\.")):
        plots.check_plot(tmp_path / name)


def test_boxes_of_effects(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    effects = {kind: rng.standard_normal(20) for kind in ("E1", "E2", "E3", "E4", "node")}
    figure = plots.draw_effects(effects, title="toy", label="change of a")
    left, right = figure.axes
    assert [t.get_text() for t in left.get_xticklabels()] == [
        f"{kind}\n20 cases" for kind in ("E1", "E2", "E3", "E4")
    ]
    assert [t.get_text() for t in right.get_xticklabels()] == ["node\n20 cases"]
    assert left.get_ylabel() == "change of a"
    plots.save_figure(figure, tmp_path / "e.pdf")


def test_kinds_without_a_case_have_no_box() -> None:
    effects = {"E1": np.empty(0), "E2": np.ones(2), "node": np.empty(0)}
    figure = plots.draw_effects(effects, title="toy", label="change of a")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["E2\n2 cases"]
