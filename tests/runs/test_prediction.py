"""Trained networks applied to graphs that they have not seen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from commands import printed_codes
from own_datasets import Links
from pretended import pretended_cuda
from unionsnn import load
from unionsnn.base.errors import DataError, RequestError
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.splits import Split, load_splits
from unionsnn.reports.figures.records import draw_predictions
from unionsnn.reports.views.predictions import columns
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.export import export_checkpoint
from unionsnn.runs.prediction import predict, probabilities
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import memory
from unionsnn.training.build import build_data, build_task
from unionsnn.training.checkpoints import save_checkpoint

Maker = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))


def write_graphs(arrays: GraphArrays, chosen: np.ndarray, folder: Path) -> Path:
    """Write graphs as npz files that sort in the order of `chosen`."""
    folder.mkdir()
    for place, graph in enumerate(chosen.tolist()):
        first, end = arrays.node_slices[graph : graph + 2]
        edges = arrays.edge_index[:, slice(*arrays.edge_slices[graph : graph + 2])]
        carried = {
            name: getattr(arrays, name)[first:end]
            for name in ("node_labels", "node_attributes")
            if getattr(arrays, name) is not None
        }
        path = folder / f"{place:04d}.npz"
        np.savez(path, edge_index=edges, num_nodes=end - first, **carried)
    return folder


def own_graphs(folder: Path, task: str = "class") -> Path:
    """Make a folder of small random graphs with labels and attributes of nodes."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    lines = ["file,first,second" if task == "labels" else "file,label"]
    for i in range(24):
        nodes = int(generator.integers(4, 9))
        ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
        chord = np.array([[0], [2]])
        edges = np.concatenate([ring, chord] if i % 2 else [ring], axis=1)
        np.savez(
            folder / f"{i}.npz",
            edge_index=np.concatenate([edges, edges[::-1]], axis=1),
            num_nodes=nodes,
            node_labels=generator.integers(0, (3, 2), (nodes, 2)),
            node_attributes=generator.random((nodes, 3)),
        )
        label = "ring" if i % 2 == 0 else "chord"
        if task == "labels":
            # Two labels, of which the second is missing in every eighth graph.
            label = f"{i % 2},{'NA' if i % 8 == 1 else i % 4 // 2}"
        lines.append(f"{i}.npz,{i / 7 if task == 'number' else label}")
    (folder / "labels.csv").write_text("\n".join(lines))
    return folder


def trained(config: Config) -> tuple[Path, GraphArrays]:
    run_experiment(config)
    return RunFolder.of(config).path, build_data(config).arrays


def stored(run: Path, index: int = 0) -> tuple[np.ndarray, np.ndarray]:
    with np.load(run / "predictions" / f"{index:02d}.npz") as content:
        output = content["output"].astype(np.float64)
    test = load_splits(run / "splits.json")[index].test
    return output, test


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=gin"],
        ["model=unionsnn"],
        ["model=graphsnn", "data.features=degree"],
        ["model=unionormer", "data.max_pairs=3000"],
        ["model=union_gps", "model.heads=2"],
    ],
    ids=lambda words: words[0],
)
def test_the_test_part_of_a_run_gets_the_predictions_that_it_stored(
    tiny: Maker, tmp_path: Path, overrides: list[str]
) -> None:
    config = tiny(*overrides)
    run, arrays = trained(config)
    output, test = stored(run)
    if "data.max_pairs=3000" in overrides:
        # Its batches are by size: the stored rows are in another order.
        output = output[np.lexsort(output.T)]
    found = predict(run, write_graphs(arrays, test, tmp_path / "new"))
    wanted = probabilities(output, config.data.task)
    values = found.each[0]
    if "data.max_pairs=3000" in overrides:
        values = values[np.lexsort(values.T)]
        wanted = wanted[np.lexsort(wanted.T)]
    np.testing.assert_allclose(values, wanted, atol=1e-5)


@pytest.mark.parametrize("features", ["labels", "categorical", "attributes", "both", "degree"])
def test_nodes_get_the_features_of_training(tiny: Maker, tmp_path: Path, features: str) -> None:
    folder = own_graphs(tmp_path / "own")
    config = tiny("data=folder", f"data.path={folder}", f"data.features={features}", "model=gin")
    run, arrays = trained(config)
    output, test = stored(run)
    # One graph alone has fewer labels and degrees than the set has.
    for place, graph in enumerate(test[:2].tolist()):
        new = write_graphs(arrays, np.array([graph]), tmp_path / f"new{place}")
        found = predict(run, new / "0000.npz")
        np.testing.assert_allclose(
            found.each[0], probabilities(output[[place]], "graph_classification"), atol=1e-5
        )
    assert found.outputs == ["chord", "ring"]


def test_a_prediction_does_not_depend_on_the_other_graphs(tiny: Maker, tmp_path: Path) -> None:
    run, arrays = trained(tiny("model=unionsnn"))
    many = predict(run, write_graphs(arrays, np.arange(12), tmp_path / "many"))
    for graph in (0, 5, 11):
        one = predict(run, tmp_path / "many" / f"{graph:04d}.npz")
        np.testing.assert_allclose(one.each[:, 0], many.each[:, graph], atol=1e-6)
    assert list(many.names) == [f"{i:04d}.npz" for i in range(12)]


def test_a_gpu_predicts_what_the_cpu_does(tiny: Maker, tmp_path: Path) -> None:
    run, arrays = trained(tiny("model=unionsnn", "trainer.max_epochs=1"))
    graphs = write_graphs(arrays, np.arange(6), tmp_path / "new")
    expected = predict(run, graphs)
    with pretended_cuda() as counts:
        found = predict(run, graphs, device="cuda:0")
    assert counts.launches
    assert not counts.mixed
    np.testing.assert_array_equal(found.each, expected.each)
    assert (found.device, expected.device[:3]) == ("pretended", "cpu")
    with pytest.raises(RequestError) as refused:
        predict(run, graphs, device="gpu")
    assert refused.value.codes == ["device.name"]
    done = CliRunner().invoke(command_line, ["predict", str(run), str(graphs), "--device", ""])
    assert (done.exit_code, printed_codes(done.stderr)) == (2, ["device.name"])


def test_repetitions_are_averaged_and_one_checkpoint_stands_alone(
    tiny: Maker, tmp_path: Path
) -> None:
    run, arrays = trained(tiny("model=gin", "protocol=repeated_seeds", "protocol.seeds=3"))
    new = write_graphs(arrays, np.arange(4), tmp_path / "new")
    found = predict(run, new)
    assert found.repetitions == [0, 1, 2]
    single = [predict(run / "checkpoints" / f"0{i}.ckpt", new) for i in range(3)]
    np.testing.assert_array_equal(found.each, np.concatenate([p.each for p in single]))
    np.testing.assert_allclose(found.mean, np.mean([p.mean for p in single], axis=0))
    np.testing.assert_allclose(found.spread, np.std([p.mean for p in single], axis=0, ddof=1))
    assert single[0].spread is None
    np.testing.assert_allclose(found.mean.sum(axis=1), 1)
    # A sound checkpoint, but of another repetition.
    shutil.copy(run / "checkpoints" / "00.ckpt", run / "checkpoints" / "01.ckpt")
    (note,) = {*predict(run, new).notes} - {*found.notes}
    assert f"{run / 'checkpoints' / '01.ckpt'}: is not what was written" in note
    alone = predict(run / "checkpoints" / "01.ckpt", new)
    assert note in alone.notes
    # One that is of no repetition is not averaged.
    extra = run / "checkpoints" / "07.ckpt"
    shutil.copy(run / "checkpoints" / "00.ckpt", extra)
    more = predict(run, new)
    assert more.repetitions == [0, 1, 2]
    (left_out,) = {*more.notes} - {*found.notes, note}
    assert left_out == f"{extra}: is of no repetition of {run / 'results.json'}; it was left out"
    extra.unlink()
    (run / "results.json").write_text("{")
    (note,) = {*predict(run, new).notes} - {*found.notes}
    assert f"{run / 'results.json'}: is damaged" in note


@pytest.mark.parametrize("standardized", [False, True])
def test_a_regression_predicts_values(tiny: Maker, tmp_path: Path, standardized: bool) -> None:
    folder = own_graphs(tmp_path / "own", "number")
    config = tiny(
        *("data=folder", f"data.path={folder}", "model=gin"),
        *("data.task=graph_regression", "data.metric=rmse"),
        f"data.standardize_targets={standardized}",
    )
    run, arrays = trained(config)
    output, test = stored(run)
    if standardized:
        # The mean of all targets is 1.6; a network of random weights predicts about 0.
        assert output.mean() == pytest.approx(arrays.y.mean(), abs=1)
        program = tmp_path / "program.pt2"
        assert max(export_checkpoint(run, program)["errors"]) < 1e-5
    found = predict(run, write_graphs(arrays, test, tmp_path / "new"))
    np.testing.assert_allclose(found.each[0], output, atol=1e-5)
    assert found.outputs == ["value"]
    assert not found.classifies
    # Beside their table, graphs are read in its order and keep their labels.
    labelled = predict(run, folder)
    assert labelled.labels is not None
    assert float(labelled.labels[7]) == 1.0


def test_several_labels_with_missing_ones_are_learned_measured_and_predicted(
    tiny: Maker, tmp_path: Path
) -> None:
    folder = own_graphs(tmp_path / "own", "labels")
    own = ["data=folder", f"data.path={folder}", "model=gin", "trainer.max_epochs=1"]
    own += ["data.task=graph_multilabel_classification", "data.metric=accuracy"]
    with pytest.raises(DataError, match="mask to learn from the other columns") as refused:
        run_experiment(tiny(*own))
    assert refused.value.codes == ["data.unlabelled"]
    config = tiny(*own, "data.unlabelled=mask")
    run, arrays = trained(config)
    assert np.isnan(arrays.y).sum() == 3
    output, test = stored(run)
    target, known = arrays.y[test], ~np.isnan(arrays.y[test])
    right = [((output[:, t] > 0) == target[:, t])[known[:, t]].mean() for t in range(2)]
    (row,) = json.loads((run / "results.json").read_text())["repetitions"]
    assert row["metrics"]["test_accuracy"] == pytest.approx(np.mean(right), abs=1e-6)
    found = predict(run, write_graphs(arrays, test, tmp_path / "new"))
    np.testing.assert_allclose(found.each[0], 1 / (1 + np.exp(-output)), atol=1e-5)
    assert found.outputs == ["label_0", "label_1"]
    assert list(columns(found)) == ["graph", "probability_label_0", "probability_label_1"]
    figure = draw_predictions(output, target, config.data.task, "labels")
    drawn = sum(int(text.get_text()) for text in figure.axes[0].texts)
    assert drawn == known.sum()


def test_nodes_are_predicted_in_the_order_of_their_names(tiny: Maker, tmp_path: Path) -> None:
    config = tiny(
        *("data=pyg_nodes", "data.dataset=own_datasets.Nodes", "model=gin", "data.name=mine")
    )
    run, arrays = trained(config)
    found = predict(run, write_graphs(arrays, np.array([0]), tmp_path / "new") / "0000.npz")
    output, test = stored(run)
    assert found.nodes == list(range(arrays.num_nodes))
    np.testing.assert_allclose(
        found.each[0][np.sort(test)], probabilities(output, "node_classification"), atol=1e-5
    )


def test_every_pair_of_nodes_has_a_row_or_those_that_are_given(tiny: Maker, tmp_path: Path) -> None:
    config = tiny(
        *("data=pyg_links", "data.dataset=own_datasets.Links", "model=gin", "data.name=mine")
    )
    run, arrays = trained(config)
    output, test = stored(run)
    (row,) = json.loads((run / "results.json").read_text())["repetitions"]
    assert 0 < row["metrics"]["test_mrr-extended"] <= 1
    new = write_graphs(arrays, test, tmp_path / "new")
    found = predict(run, new)
    sizes = np.diff(arrays.node_slices)[test]
    pairs = [(u, v) for n in sizes for u in range(n) for v in range(u + 1, n)]
    assert [tuple(each) for each in found.nodes or ()] == pairs
    names = [f"{i:04d}.npz" for i, n in enumerate(sizes) for _ in range(n * (n - 1) // 2)]
    assert list(found.names) == names
    table = columns(found)
    assert list(table) == ["graph", "node", "other_node", "probability_link", "score_link"]
    np.testing.assert_allclose(
        1 / (1 + np.exp(-np.array(table["score_link"]))), found.each[0, :, 0]
    )
    assert list(zip(table["node"], table["other_node"], strict=True)) == pairs
    # The labelled pairs have the scores that the run stored, in any way of asking.
    graphs = [Links()[int(i)] for i in test]
    model = load(run)
    given = model.predict(graphs)
    expected = 1 / (1 + np.exp(-output))
    np.testing.assert_allclose(model.predict(graphs, logits=True).numpy(), output, atol=1e-4)
    np.testing.assert_allclose(given.numpy(), expected, atol=1e-5)
    asked = [tuple(sorted(pair)) for g in graphs for pair in g.edge_label_index.t().tolist()]
    of_pair = dict(zip(zip(names, pairs, strict=True), found.each[0], strict=True))
    owners = [f"{i:04d}.npz" for i, g in enumerate(graphs) for _ in range(4)]
    for owner, pair, value in zip(owners, asked, expected, strict=True):
        if len(set(pair)) == 2:
            np.testing.assert_allclose(of_pair[owner, pair], value, atol=1e-5)
    assert model.outputs == ["link"]
    assert model.embed(graphs).shape == (sizes.sum(), config.model.hidden_channels)
    del graphs[0].edge_label_index
    with pytest.raises(DataError, match="graph 0 has no edge_label_index, but other graphs have"):
        model.predict(graphs)
    summary = export_checkpoint(run, tmp_path / "links.pt2")
    assert summary["inputs"]["edge_label_index"] == "int64 [2, num_pairs]"


def test_what_cannot_be_predicted_is_refused(tiny: Maker, tmp_path: Path) -> None:
    folder = own_graphs(tmp_path / "own")
    own = ["data=folder", f"data.path={folder}", "model=gin"]
    run, _ = trained(tiny(*own, "data.features=labels", run_dir="labels"))
    edges = np.array([[0, 1], [1, 0]])

    def message(run: Path, **arrays: Any) -> str:
        np.savez(tmp_path / "one.npz", edge_index=edges, **arrays)
        with pytest.raises((DataError, RequestError)) as caught:
            predict(run, tmp_path / "one.npz")
        return str(caught.value)

    assert "has no node_labels" in message(run)
    assert "value 3; allowed are 0..2" in message(run, node_labels=[[3, 0], [0, 0]])
    assert "there are 1 columns; needed are 2" in message(run, node_labels=[0, 1])
    run, _ = trained(tiny(*own, "data.features=attributes", run_dir="attributes"))
    assert "2 columns of node features, but the network was trained on 3" in message(
        run, node_attributes=[[0.5, 1], [1, 1]]
    )
    run, _ = trained(tiny(*own, "data.features=degree", run_dir="degree"))
    edges = np.array([[0, 0, 0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 0, 0, 0]])
    assert "degrees of nodes: column 0 has the value 4; allowed are 0..3" in message(run)
    edges = np.array([[0], [1]])
    assert "--symmetrize" in message(run)
    assert predict(run, tmp_path / "one.npz", symmetrize=True).each.shape == (1, 1, 2)
    with pytest.raises(RequestError) as caught:
        predict(run, run / "results.json")
    assert caught.value.codes == ["data.format"]
    with pytest.raises(RequestError, match="Did you mean") as caught:
        predict(tmp_path, folder)
    assert caught.value.codes == ["predict.no_checkpoint"]


def test_a_control_is_refused(tiny: Maker, tmp_path: Path) -> None:
    run, arrays = trained(tiny("model=unionsnn", "coefficient.control=shuffled"))
    new = write_graphs(arrays, np.arange(2), tmp_path / "new")
    with pytest.raises(RequestError, match="control=shuffled") as refused:
        predict(run, new)
    assert refused.value.codes == ["predict.control"]


def test_checkpoints_can_be_left_out_and_belong_to_the_same_run(tiny: Maker) -> None:
    config = tiny("model=gin", "trainer.keep_checkpoints=false")
    assert config_hash(config) == config_hash(tiny("model=gin"))
    run, _ = trained(config)
    assert not (run / "checkpoints").exists()
    with pytest.raises(RequestError, match="keep_checkpoints") as refused:
        predict(run, run)
    assert refused.value.codes == ["predict.no_checkpoint"]


def test_damaged_and_foreign_checkpoints_are_told_apart(tiny: Maker, tmp_path: Path) -> None:
    run, _ = trained(tiny("model=gin"))
    whole = (run / "checkpoints" / "00.ckpt").read_bytes()
    np.savez(tmp_path / "one.npz", edge_index=np.zeros((2, 0), dtype=int), num_nodes=1)
    for content in (whole[: len(whole) // 2], b"", b"nothing of the kind"):
        (tmp_path / "x.ckpt").write_bytes(content)
        with pytest.raises(DataError) as refused:
            predict(tmp_path / "x.ckpt", tmp_path / "one.npz")
        assert refused.value.codes == ["checkpoint.damaged"]
    torch.save({"state_dict": {}}, tmp_path / "x.ckpt")
    with pytest.raises(DataError) as refused:
        predict(tmp_path / "x.ckpt", tmp_path / "one.npz")
    assert refused.value.codes == ["checkpoint.foreign"]


def test_probabilities_of_a_score_are_its_sigmoid() -> None:
    score = np.array([[-800.0], [0.0], [2.0]])
    found = probabilities(score, "graph_binary_classification")
    np.testing.assert_allclose(found[:, 1], [0, 0.5, 1 / (1 + np.exp(-2))])
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_graphs_that_do_not_fit_are_refused(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_graphs(tmp_path / "own")
    own = ["data=folder", f"data.path={folder}", "model=ppgn", "data.features=constant"]
    run, _ = trained(tiny(*own))
    monkeypatch.setattr(memory, "free_memory", lambda device: 1000)
    with pytest.raises(RequestError) as refused:
        predict(run, folder)
    assert refused.value.codes == ["memory.too_large"]


# -- features of edges ---------------------------------------------------------------------


def write_edge_graphs(folder: Path) -> Path:
    """Make a folder of rings, with labels and attributes of edges."""
    generator = np.random.default_rng(1)
    folder.mkdir()
    lines = ["file,label"]
    for i in range(12):
        nodes = 4 + i % 3
        ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
        labels, attributes = generator.integers(0, (3, 2), (nodes, 2)), generator.random((nodes, 1))
        arrays = {
            "edge_index": np.concatenate([ring, ring[::-1]], axis=1),
            "edge_labels": np.concatenate([labels, labels]),
            "edge_attributes": np.concatenate([attributes, attributes]),
        }
        np.savez(folder / f"{i:02d}.npz", **arrays)
        lines.append(f"{i:02d}.npz,{i % 2}")
    (folder / "labels.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def edge_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Return the untrained checkpoint of a choice of edge features, and its folder of graphs."""
    root = tmp_path_factory.mktemp("edges")
    folder = write_edge_graphs(root / "own")
    made: dict[str, Path] = {}

    def of(choice: str) -> tuple[Path, Path]:
        if choice not in made:
            words = ["data=folder", f"data.path={folder}", f"data.edge_features={choice}"]
            words += ["model=gin", "model.hidden_channels=16", "model.num_layers=1"]
            config = compose_config([*words, f"paths.data={root / choice}", "data.features=degree"])
            data = build_data(config)
            data.split = Split(np.arange(8), np.arange(8, 10), np.arange(10, 12))
            made[choice] = root / choice / "00.ckpt"
            with torch.random.fork_rng():
                torch.manual_seed(0)
                save_checkpoint(made[choice], build_task(config, data), config, data)
        return made[choice], folder

    return of


@pytest.mark.parametrize("choice", ["labels", "attributes", "both"])
def test_edges_get_the_features_of_training(
    edge_runs: Callable[[str], tuple[Path, Path]], tmp_path: Path, choice: str
) -> None:
    checkpoint, folder = edge_runs(choice)
    whole = predict(checkpoint, folder)
    # One graph alone has fewer labels than the set has.
    one = predict(checkpoint, folder / "01.npz")
    np.testing.assert_allclose(one.each[0, 0], whole.each[0, 1], atol=1e-6)
    left_out = [note for note in one.notes if note.startswith("left out, as in training")]
    assert len(left_out) == (choice != "both")
    with np.load(folder / "01.npz") as arrays:
        changed = {key: arrays[key] for key in arrays.files}
    changed["edge_labels"] = changed["edge_labels"] * 0
    changed["edge_attributes"] = changed["edge_attributes"] + 1
    np.savez(tmp_path / "changed.npz", **changed)
    assert not np.allclose(predict(checkpoint, tmp_path / "changed.npz").each, one.each)
    # A graph without edges needs no features of edges.
    np.savez(tmp_path / "alone.npz", edge_index=np.empty((2, 0), dtype=np.int64), num_nodes=2)
    assert predict(checkpoint, tmp_path / "alone.npz").each.shape == (1, 1, 2)


@pytest.mark.parametrize(
    ("choice", "changes", "message", "code"),
    [
        ("labels", {"edge_labels": None}, "has 0 columns of edge_labels", "data.no_features"),
        ("both", {"edge_attributes": None}, "0 columns of edge_attributes", "data.no_features"),
        ("labels", {"edge_labels": np.zeros((8, 1), int)}, "has 1 columns", "data.widths"),
        ("attributes", {"edge_attributes": np.zeros((8, 2))}, "has 2 columns", "data.widths"),
        ("labels", {"edge_labels": np.full((8, 2), 2)}, "column 1 has the value 2", "data.widths"),
        ("both", {"edge_labels": np.full((8, 2), 2)}, "column 1 has the value 2", "data.widths"),
        ("labels", {"edge_labels": np.full((8, 2), -1)}, "numbers from 0", "data.edge_features"),
        ("labels", {"edge_labels": np.zeros((7, 2), int)}, r"shape \(7, 2\)", "data.table"),
        ("both", {"edge_attributes": np.full((8, 1), np.nan)}, "has nan in row 0", "data.table"),
    ],
)
def test_edges_that_do_not_match_the_training_data_are_refused(
    edge_runs: Callable[[str], tuple[Path, Path]],
    tmp_path: Path,
    choice: str,
    changes: dict[str, Any],
    message: str,
    code: str,
) -> None:
    checkpoint, folder = edge_runs(choice)
    with np.load(folder / "00.npz") as arrays:
        given = {key: arrays[key] for key in arrays.files} | changes
    np.savez(tmp_path / "g.npz", **{k: v for k, v in given.items() if v is not None})
    with pytest.raises(DataError, match=message) as refused:
        predict(checkpoint, tmp_path / "g.npz")
    assert refused.value.codes == [code]


def test_labels_of_no_class_are_named_and_a_table_that_is_a_pipe_is_refused(
    edge_runs: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    checkpoint, folder = edge_runs("labels")
    new = shutil.copytree(folder, tmp_path / "new")
    table = new / "labels.csv"
    table.write_text(table.read_text().replace("00.npz,0", "00.npz,banana"))
    (note,) = {*predict(checkpoint, new).notes} - {*predict(checkpoint, folder).notes}
    assert note == "labels that are no class of the run: banana"
    table.unlink()
    os.mkfifo(table)
    with pytest.raises(DataError, match="is no regular file"):
        predict(checkpoint, new)
