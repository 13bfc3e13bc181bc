"""Networks of the user's own, in the working folder: passed what they name, and no more."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, global_add_pool

from commands import printed_codes
from unionsnn import UnionPlugin
from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.imports import import_named, working_folder
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config
from unionsnn.config.targets import code_digests
from unionsnn.data.sources.pyg import PyG, make_dataset
from unionsnn.models.own import adapt, constructor_arguments, reads_edges
from unionsnn.nn.batch import GraphBatch
from unionsnn.training.build import build_model, check_model

MODULE = """
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

class Net(torch.nn.Module):
    def __init__(self, in_channels, out_channels, hidden_channels=8):
        super().__init__()
        self.conv = GCNConv(in_channels, hidden_channels)
        self.head = torch.nn.Linear(hidden_channels, out_channels)

    def forward(self, x, edge_index, batch):
        return self.head(global_add_pool(self.conv(x, edge_index).relu(), batch))

class Unpooled(Net):
    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index))

class Heads(Net):
    def __init__(self, num_features, num_classes, heads, num_layers):
        super().__init__(num_features, num_classes, 4 * heads)
        self.heads, self.num_layers = heads, num_layers

def make(count=24):
    one = torch.arange(6)
    ring = torch.stack([one, (one + 1) % 6])
    edges = torch.cat([ring, ring.flip(0)], 1)
    return [
        Data(x=torch.full((6, 2), float(i % 2)), edge_index=edges, y=torch.tensor([i % 2]))
        for i in range(count)
    ]
"""
QUICK = ["trainer.max_epochs=1", "trainer.accelerator=cpu", "trainer.progress=none"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with a module of the user's."""
    (tmp_path / "usernet.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    path = list(sys.path)
    yield tmp_path
    assert sys.path == path
    sys.modules.pop("usernet", None)


def typed(*words: str) -> Any:
    return CliRunner().invoke(command_line, ["train", *words, *QUICK])


def test_a_class_and_a_function_of_the_folder_are_trained(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["model._target_=usernet.Net", "data=pyg", "data.dataset=usernet.make"]
    done = typed(*words)
    assert done.exit_code == 0, done.output
    assert "Net on pyg" in done.stdout
    assert re.search(r"usernet\.Net is not of this package.* gate=none", caplog.text)
    (record,) = folder.glob("runs/pyg/Net/*/repetitions/00.json")
    assert '"usernet.Net"' in record.read_text()


# What else a user may type.
ATTEMPTS: dict[str, tuple[list[str], str | None, str]] = {
    "a plus": (["+model._target_=usernet.Net"], None, ""),
    "a group": (["model=usernet.Net"], "config.unknown_option", "model._target_=usernet.Net"),
    "a file": (["model=usernet.py"], "config.unknown_option", "model._target_=usernet.NAME"),
    "a colon": (["model._target_=usernet:Net"], "target.path", "model._target_=usernet.Net"),
    "a path": (["model._target_=./usernet.py"], "target.path", "model._target_=usernet.NAME"),
    "no module": (["model._target_=Net"], "target.path", "model._target_=MODULE.Net"),
    "no file": (["model._target_=no_file.Net"], "target.import", "looked for in"),
    "another class": (["model._target_=usernet.Absent"], "target.import", "Absent"),
    "a function": (["model._target_=usernet.make"], "target.kind", "nn.modules.module.Module"),
    "width": (["model._target_=usernet.Net", "model.hidden_channels=4"], None, ""),
    "unknown key": (["model._target_=usernet.Net", "model.heads=4"], "model.argument", "heads"),
    "key": (["model._target_=usernet.Heads", "model.heads=2"], None, ""),
    "missing key": (["model._target_=usernet.Heads"], "model.argument", "model.heads=..."),
    "a gate": (["model._target_=usernet.Net", "gate=default"], "model.gate", "gate=none"),
    "edge features": (
        ["model._target_=usernet.Net", "data=mutag", "data.edge_features=labels"],
        "model.edges",
        "does not read edge features: type data.edge_features=none",
    ),
    "beside a model": (["model=gin", "model._target_=usernet.Net"], "model.argument", "train_eps"),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_each_attempt_works_or_says_what_to_type(folder: Path, name: str) -> None:
    words, code, expected = ATTEMPTS[name]
    if code is not None:
        with pytest.raises(RequestError, match=re.escape(expected)) as caught:
            check_model(compose_config([*words, *QUICK]))
        assert caught.value.codes == [code]
        return
    config = compose_config([*words, *QUICK])
    check_model(config)
    assert config.model.name in ("Net", "Heads")
    assert config.gate.preset is None
    model = build_model(config, 3, 2)
    assert model.head.weight.shape == (2, 8 if "Heads" in words[0] or len(words) == 1 else 4)
    assert getattr(model, "num_layers", 4) == 4


def test_an_output_that_is_not_of_graphs_is_refused(folder: Path) -> None:
    done = typed("model._target_=usernet.Unpooled", "data=pyg", "data.dataset=usernet.make")
    assert (done.exit_code, printed_codes(done.stderr)) == (2, ["model.output"])
    assert "Pool the nodes" in done.stderr


def test_a_grid_varies_arguments_of_the_class(folder: Path) -> None:
    words = ["model._target_=usernet.Heads", "model.heads=2", "model.num_layers=1"]
    config = compose_config([*words, "protocol.grid={model.heads:[1,2]}"])
    assert [config.with_cell({"model.heads": n}).model.model_extra for n in (1, 2)] == [
        {"heads": 1},
        {"heads": 2},
    ]


def test_code_of_the_folder_is_digested_and_found_by_name(folder: Path) -> None:
    config = compose_config(["model._target_=usernet.Net", "data=pyg", "data.dataset=usernet.make"])
    assert set(code_digests(config)) == {"usernet.Net", "usernet.make"}
    assert len(make_dataset("usernet.make", {"count": 3}, folder)) == 3


def test_a_module_of_another_folder_is_not_mistaken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_named("usernet.Net", "model._target_")
    (folder / "other").mkdir()
    (folder / "other" / "usernet.py").write_text(MODULE)
    monkeypatch.chdir(folder / "other")
    with pytest.raises(RequestError, match="rename it") as caught, working_folder("usernet"):
        pass
    assert caught.value.codes == ["target.other_module"]


@pytest.mark.parametrize("form", ["list", "saved", "one"])
def test_a_file_is_read_as_the_set_that_it_holds(folder: Path, form: str) -> None:
    from torch_geometric.data import InMemoryDataset

    graphs = make_dataset("usernet.make", {}, folder)
    if form == "saved":
        InMemoryDataset.save(graphs, "set.pt")
    else:
        torch.save(graphs if form == "list" else graphs[0], "set.pt")
    made = PyG(dataset="set.pt", task="graph_classification")._saved()
    wanted = graphs[:1] if form == "one" else graphs
    assert len(made) == len(wanted)
    for one, other in zip(made, wanted, strict=True):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)


@pytest.mark.parametrize(
    ("words", "content"),
    [({"arguments": {"a": 1}}, []), ({"dataset": "none.pt"}, []), ({}, {"x": torch.ones(1)})],
)
def test_a_file_that_is_no_set_is_refused(
    folder: Path, words: dict[str, Any], content: object
) -> None:
    torch.save(content, "set.pt")
    with pytest.raises(DataError) as caught:
        PyG(**{"dataset": "set.pt", "task": "graph_classification", **words})._saved()
    assert caught.value.codes == ["data.dataset"]


# -- forward passes ------------------------------------------------------------------------------


def batch_of(sizes: tuple[int, ...] = (3, 2)) -> GraphBatch:
    owner = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    edges = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]])
    x = torch.randn(len(owner), 2, generator=torch.Generator().manual_seed(0))
    return GraphBatch(x, edges, owner, len(sizes))


class Sums(nn.Module):
    """Sums of node features, by a forward pass of a given signature."""

    scale = 1.0


def adapted(forward: Callable[..., Any], level: str = "graph", columns: int = 2) -> nn.Module:
    network = type("Sums", (Sums,), {"forward": forward})()
    adapt(network, level=level, out_channels=columns)
    return network


def whole(self: Any, batch: Any) -> Any:
    return self.scale * global_add_pool(batch.x, batch.batch, batch.num_graphs)


def annotated(self: Any, graphs: GraphBatch) -> Any:
    return whole(self, graphs)


def pyg(self: Any, data: Any) -> Any:
    assert isinstance(data, Data)
    assert data.num_nodes == len(data.x)
    return whole(self, data)


def hinted(self: Any, g: Data) -> Any:
    return whole(self, g)


def named(self: Any, x: Any, edge_index: Any, batch: Any, edge_attr: Any = None) -> Any:
    return self.scale * global_add_pool(x, batch)


def sized(self: Any, x: Any, edge_index: Any, batch: Any, *, batch_size: int, mode: int = 0) -> Any:
    return self.scale * global_add_pool(x, batch, batch_size)


@pytest.mark.parametrize("forward", [whole, annotated, pyg, hinted, named, sized])
def test_a_forward_pass_gets_what_it_names(forward: Callable[..., Any]) -> None:
    batch, network = batch_of(), adapted(forward)
    wanted = torch.stack([batch.x[:3].sum(0), batch.x[3:].sum(0)])
    assert torch.allclose(network(batch), wanted)


def test_edge_features_reach_a_forward_pass_that_may_read_them() -> None:
    from torch_geometric.nn import GAT, GCN

    read = [reads_edges(adapted(each)) for each in (whole, annotated, pyg, hinted, named, sized)]
    assert read == [True] * 5 + [False]
    assert reads_edges(GAT(2, 4, 1, edge_dim=3))
    assert not reads_edges(GAT(2, 4, 1))
    assert not reads_edges(GCN(2, 4, 1))


def test_a_copy_calls_its_own_weights() -> None:
    import copy

    batch, network = batch_of(), adapted(pyg)
    other = copy.deepcopy(network)
    other.scale = 3.0
    assert torch.allclose(other(batch), 3 * network(batch))


def nodes(self: Any, x: Any, edge_index: Any) -> Any:
    return x


def column(self: Any, x: Any, batch: Any) -> Any:
    return global_add_pool(x, batch)[:, 0]


def test_rows_of_nodes_and_single_columns_are_as_good() -> None:
    assert adapted(nodes, "node")(batch_of()).shape == (5, 2)
    assert adapted(column, columns=1)(batch_of()).shape == (2, 1)


def strange(self: Any, graph: Any, extra: Any) -> Any: ...


def no_features(self: Any, edge_index: Any, batch: Any) -> Any: ...


def test_what_is_not_understood_is_refused_by_name() -> None:
    for forward, name in ((strange, "graph, extra"), (no_features, "edge_index, batch")):
        with pytest.raises(RequestError, match=name) as caught:
            adapted(forward)
        assert caught.value.codes == ["model.forward"]
    for broken in (nodes, column, lambda self, batch: (batch.x,)):
        with pytest.raises(RequestError) as caught:
            adapted(broken)(batch_of())
        assert caught.value.codes == ["model.output"]
    needs = adapted(lambda self, x, batch, edge_attr: x)
    with pytest.raises(RequestError, match=r"data\.edge_features") as caught:
        needs(batch_of())
    assert caught.value.codes == ["model.forward"]


def test_pyg_s_networks_are_given_what_they_name() -> None:
    from torch_geometric.nn import GCN

    offered = {"in_channels": 3, "out_channels": 2, "level": "node", "gate": None}
    given = constructor_arguments(GCN, offered, {"jk": "cat", "improved": True})
    assert given == {
        "in_channels": 3,
        "hidden_channels": 64,
        "num_layers": 4,
        "out_channels": 2,
        "jk": "cat",
        "improved": True,
    }


class WithPlugin(nn.Module):
    """Reads coefficients by a plug-in of its own."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = UnionPlugin(GINConv(nn.Linear(in_channels, out_channels)))
        values = [value.item() for value in torch.linspace(0, 1, 3)]
        assert len(values) == 3

    def forward(self, x: Any, edge_index: Any, batch: Any, edge_coefficient: Any) -> Any:
        h = self.conv(x, edge_index, edge_coefficient=edge_coefficient)
        return global_add_pool(h, batch)


class Lazy(nn.Module):
    """Its width is that of the first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.LazyLinear(2)

    def forward(self, x: Any) -> Any:
        return self.lin(x)


def test_a_plug_in_of_one_s_own_reads_the_coefficients_of_the_gate() -> None:
    target = f"model._target_={__name__}.WithPlugin"
    check_model(compose_config([target, "gate=default"]))
    with pytest.raises(RequestError, match="gate=default") as caught:
        check_model(compose_config([target]))
    assert caught.value.codes == ["model.gate"]
    with pytest.raises(RequestError) as caught:
        check_model(compose_config([f"model._target_={__name__}.Lazy"]))
    assert caught.value.codes == ["model.lazy"]
