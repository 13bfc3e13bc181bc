"""Data modules, networks and tasks by hand with Lightning's own Trainer."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.core.mixins import HyperparametersMixin
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool

import unionsnn.models
from tu_files import write_tu
from unionsnn.base.errors import DataError, RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.schema import Config
from unionsnn.data import (
    AmazonDataModule,
    CoefficientSpec,
    CSLDataModule,
    CyclesDataModule,
    FolderDataModule,
    GraphDataModule,
    LRGBDataModule,
    OGBDataModule,
    OGBNodeDataModule,
    PlanetoidDataModule,
    PyGDataModule,
    PyGNodeDataModule,
    QM9DataModule,
    StructuralCoefficients,
    TUDataModule,
    ZINCDataModule,
)
from unionsnn.data.splits import repetition_seeds
from unionsnn.models import GIN, GPS, GraphSNN, Network, UnionSNN
from unionsnn.nn import GraphBatch, StructuralGate
from unionsnn.runs.experiment import run_experiment
from unionsnn.training import (
    GraphBinaryClassification,
    GraphClassification,
    GraphRegression,
    NodeClassification,
    Task,
)
from unionsnn.training.build import build_data, fit_gates
from unionsnn.training.protocols import draw_splits

ALL_ENCODINGS = {"random_walk": 3, "laplacian": 2, "distance": True, "subgraph": 1}
BASES = ("GraphTransformer", "MPNN", "Network", "SAGE")
NETWORKS = [name for name in unionsnn.models.__all__ if name not in BASES]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def cycles(root: Path) -> Callable[..., CyclesDataModule]:
    return functools.partial(
        CyclesDataModule,
        num_train=48,
        num_validation=16,
        num_test=16,
        batch_size=16,
        root=root,
        coefficients=True,
    )


def trainer(folder: Path, epochs: int = 2, **options: Any) -> pl.Trainer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            default_root_dir=folder,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=1,
            **options,
        )


def saved(task: Task, path: Path) -> Path:
    made = trainer(path.parent, enable_checkpointing=False)
    made.strategy.connect(task)
    made.save_checkpoint(path)
    return path


def equal(one: Data, two: Data) -> bool:
    keys = set(one.keys())
    return keys == set(two.keys()) and all(torch.equal(one[key], two[key]) for key in keys)


# -- exports -------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["", ".data", ".models", ".nn", ".training"])
def test_every_exported_name_is_there(package: str) -> None:
    module = importlib.import_module(f"unionsnn{package}")
    assert sorted(module.__all__) == dir(module)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        module.Nothing  # noqa: B018


# -- the first fit -------------------------------------------------------------------------


def test_the_first_fit_equals_the_command(
    tiny: Callable[..., Config], cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    config = tiny("protocol.select_on=val_loss", "protocol.stop_on=val_loss")
    record = run_experiment(config)
    assert record is not None
    torch.manual_seed(repetition_seeds(0, 0)[0])

    dm = cycles(seed=0)
    model = UnionSNN.for_data(dm, hidden_channels=8, num_layers=2)
    task = GraphClassification(model, lr=config.optimizer.lr)
    fitting = trainer(tmp_path, callbacks=[ModelCheckpoint(tmp_path / "c", monitor="val_loss")])
    fitting.fit(task, dm)
    (found,) = fitting.test(task, dm, ckpt_path="best", verbose=False)

    metrics = record.repetitions[0].metrics
    assert found == {key: metrics[key] for key in found}
    assert {"test_loss", "test_accuracy"} == found.keys()


def test_statistics_are_fitted_once_to_the_training_part(
    cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    dm = cycles()
    task = GraphClassification(UnionSNN.for_data(dm, hidden_channels=4, num_layers=1))
    fitting = trainer(tmp_path, epochs=1, callbacks=[ModelCheckpoint(tmp_path / "c")])
    fitting.fit(task, dm)
    by_hand = UnionSNN.for_data(dm, hidden_channels=4, num_layers=1)
    fit_gates(by_hand, dm)
    gate, expected = task.model.convs[0].gate, by_hand.convs[0].gate
    assert torch.equal(gate.feature_mean, expected.feature_mean)
    # Another training part has other statistics, which neither a second fit nor a resume takes.
    other = dm.fold(0, of=4)
    assert not torch.equal(other.part_coefficient("train"), dm.part_coefficient("train"))
    trainer(tmp_path, epochs=1, enable_checkpointing=False).fit(task, other)
    again = GraphClassification.load_from_checkpoint(fitting.checkpoint_callback.best_model_path)
    trainer(tmp_path, epochs=1, enable_checkpointing=False).fit(again, other)
    for each in (task, again):
        assert torch.equal(each.model.convs[0].gate.feature_mean, expected.feature_mean)


def test_a_fit_resumes_as_if_it_had_not_stopped(
    cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    path = str(tmp_path / "half.ckpt")

    def fitted(epochs: int, resume: str | None = None) -> Task:
        torch.manual_seed(1)
        dm, fitting = cycles(), trainer(tmp_path, epochs, enable_checkpointing=False)
        task = GraphClassification(UnionSNN.for_data(dm, hidden_channels=4, num_layers=1))
        fitting.fit(task, dm, ckpt_path=resume)
        if epochs == 1:
            fitting.save_checkpoint(path)
        return task

    whole, _ = fitted(3), fitted(1)
    resumed = fitted(3, path)
    for one, two in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)
    fitting, other = trainer(tmp_path, 3, enable_checkpointing=False), cycles().fold(1, of=4)
    with pytest.raises(DataError, match="another split") as refused:
        fitting.fit(resumed, other, ckpt_path=path)
    assert refused.value.codes == ["checkpoint.split"]


def test_targets_are_standardized_by_those_of_the_training_part(tmp_path: Path, root: Path) -> None:
    graphs = [
        Data(torch.randn(3, 2), torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([50.0 + i]))
        for i in range(20)
    ]
    dm = PyGDataModule(graphs, task="graph_regression", standardize_targets=True, root=root)
    task = GraphRegression(GIN.for_data(dm, hidden_channels=4, num_layers=1), lr=0.0)
    trainer(tmp_path, 1, enable_checkpointing=False).fit(task, dm)
    assert task.scale is not None
    assert torch.equal(task.scale.mean, dm.target_scale()[0])
    again = GraphRegression.load_from_checkpoint(saved(task, tmp_path / "t.ckpt"))
    batch = next(iter(dm.test_dataloader()))
    assert torch.equal(again.eval()(batch), task.eval()(batch))
    assert abs(again(batch).mean().item() - 60) < 10


# -- checkpoints ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_a_checkpoint_alone_restores_every_network(
    name: str, cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    kind: type[Network] = getattr(unionsnn.models, name)
    dm = cycles(
        encodings=ALL_ENCODINGS,
        layer_spec=CoefficientSpec("overlap", "node_edge_count", exponent=2),
    )
    gated = name not in ("MEWISPoolNet", "PPGN")
    size = {"hidden_channels": 8, "num_layers": 2}
    model = kind.for_data(dm, **size, **({"gate": "paper"} if gated else {}))
    fit_gates(model, dm)
    task = GraphClassification(model, lr=np.float64(0.25))
    again = GraphClassification.load_from_checkpoint(saved(task, tmp_path / "t.ckpt"))
    assert again.lr == 0.25
    batch = next(iter(dm.test_dataloader()))
    assert torch.equal(again.eval()(batch), task.eval()(batch))
    assert model.arguments == again.model.arguments


def test_double_precision_is_restored(
    cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    dm = cycles()
    task = GraphClassification(GIN.for_data(dm, hidden_channels=4)).double()
    again = GraphClassification.load_from_checkpoint(saved(task, tmp_path / "t.ckpt"))
    for one, two in zip(task.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)


class Plain(nn.Module):
    """A network of one's own, whose arguments are its attributes."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.linear = nn.Linear(in_channels, out_channels)

    def forward(self, batch: GraphBatch) -> Tensor:
        return self.linear(batch.x.new_zeros(batch.num_graphs, self.in_channels))


class Kept(Plain, HyperparametersMixin):
    """One that keeps its arguments as Lightning does."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2)
        self.save_hyperparameters()


class Hidden(Plain):
    """One whose argument cannot be found."""

    def __init__(self, secret: int) -> None:
        super().__init__(secret, 2)


@pytest.mark.parametrize("make", [lambda: Plain(3, 2), lambda: Kept(3)])
def test_a_network_of_ones_own_is_restored(make: Callable[[], Plain], tmp_path: Path) -> None:
    task = GraphClassification(make())
    again = GraphClassification.load_from_checkpoint(saved(task, tmp_path / "t.ckpt"))
    assert type(again.model) is type(task.model)
    assert torch.equal(again.model.linear.weight, task.model.linear.weight)


class OfPyG(Plain):
    """A network as PyG's tutorials write it."""

    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, batch: Tensor
    ) -> Tensor:
        return global_add_pool(self.linear(x), batch)


def test_a_network_with_the_forward_pass_of_pyg_is_trained(
    cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    task = GraphClassification(OfPyG(1, 2))
    trainer(tmp_path, 1, enable_checkpointing=False).fit(task, dm := cycles())
    again = GraphClassification.load_from_checkpoint(saved(task, tmp_path / "t.ckpt"))
    batch = next(iter(dm.test_dataloader()))
    assert torch.equal(again(batch), task(batch))


def test_edge_features_that_a_network_does_not_name_are_refused(tmp_path: Path, root: Path) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [
        Data(torch.ones(2, 3), edges, torch.ones(2, 1), y=torch.tensor([i % 2])) for i in range(20)
    ]
    dm = PyGDataModule(
        graphs, task="graph_classification", edge_features="attributes", seed=0, root=root
    )
    with pytest.raises(RequestError, match='edge_features="none"') as refused:
        trainer(tmp_path, 1, enable_checkpointing=False).fit(GraphClassification(OfPyG(3, 2)), dm)
    assert refused.value.codes == ["model.edges"]


def test_what_cannot_be_restored_says_what_to_pass(tmp_path: Path) -> None:
    path = saved(GraphClassification(Hidden(3)), tmp_path / "t.ckpt")
    with pytest.raises(RequestError, match=r"secret.*model=network") as refused:
        GraphClassification.load_from_checkpoint(path)
    assert refused.value.codes == ["checkpoint.arguments"]
    again = GraphClassification.load_from_checkpoint(path, model=Hidden(3))
    assert isinstance(again.model, Hidden)
    with pytest.raises(RequestError, match=r"use unionsnn\.training\.GraphCl") as refused:
        GraphRegression.load_from_checkpoint(path, model=Hidden(3))
    assert refused.value.codes == ["checkpoint.task"]
    content = torch.load(path, weights_only=True)
    del content["unionsnn"]["task"]
    torch.save(content, path)
    # A file of an earlier version does not name its task.
    assert GraphClassification.load_from_checkpoint(path, model=Hidden(3)).model.out_channels == 2
    content["hyper_parameters"]["model"] = {"class": "elsewhere.Net", "arguments": {}}
    torch.save(content, path)
    with pytest.raises(RequestError, match="import elsewhere first") as refused:
        GraphClassification.load_from_checkpoint(path)
    assert refused.value.codes == ["checkpoint.target"]


class Warm(GraphClassification):
    """A task of one's own, with an optimiser and an argument of its own."""

    def __init__(self, model: Any, momentum: float = 0.9, **options: Any) -> None:
        super().__init__(model, **options)
        self.momentum = momentum

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=self.momentum)


def test_a_subclass_keeps_its_own_arguments(
    cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    task = Warm(GIN.for_data(cycles(), hidden_channels=4), momentum=0.5, lr=0.1)
    again = Warm.load_from_checkpoint(saved(task, tmp_path / "t.ckpt"))
    assert (again.momentum, again.lr) == (0.5, 0.1)


def test_what_a_checkpoint_cannot_hold_is_named(
    cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    def sgd(task: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(task.parameters(), lr=0.1)

    model = GIN.for_data(cycles(), hidden_channels=4)
    weights = torch.tensor([0.5, 1.5])
    task = GraphClassification(model, optimizer=sgd, class_weights=weights)
    path = saved(task, tmp_path / "t.ckpt")
    with pytest.warns(UserWarning, match=r"load_from_checkpoint\(path, optimizer=\.\.\.\)"):
        again = GraphClassification.load_from_checkpoint(path)
    assert torch.equal(again.class_weights, weights)
    again = GraphClassification.load_from_checkpoint(path, optimizer=sgd)
    assert isinstance(again.configure_optimizers(), torch.optim.SGD)


# -- networks ------------------------------------------------------------------------------


def test_a_gate_is_given_by_name_options_example_or_factory(
    cycles: Callable[..., CyclesDataModule],
) -> None:
    dm = cycles()
    columns = dm.spec.columns
    options = StructuralGate.preset("paper", 4, columns=columns).options
    forms: list[Any] = [
        "paper",
        options,
        functools.partial(StructuralGate, **options),
        StructuralGate.preset("paper", 4, columns=columns),
    ]
    made = [UnionSNN.for_data(dm, gate=form, hidden_channels=4, num_layers=2) for form in forms]
    assert len({str(each.arguments) for each in made}) == 1
    one, two = (layer.gate.last.weight for layer in made[3].convs)
    assert not torch.equal(one, two)
    with pytest.raises(RequestError, match="it needs 8") as refused:
        UnionSNN.for_data(dm, gate=forms[3], hidden_channels=8)
    assert refused.value.codes == ["gate.width"]
    for wrong in (3, nn.Linear(1, 1), "papers"):
        with pytest.raises(RequestError):
            UnionSNN.for_data(dm, gate=wrong)


def test_nodes_get_layer_norm_and_edges_their_features(root: Path) -> None:
    graph = Data(torch.randn(12, 3), torch.tensor([[0, 1], [1, 0]]), y=torch.arange(12) % 3)
    nodes = PyGNodeDataModule(graph, coefficients=True, root=root)
    model = UnionSNN.for_data(nodes, hidden_channels=4)
    assert isinstance(model.norms[0], nn.LayerNorm)
    assert model.level == "node"
    assert nodes.spec is not None
    assert nodes.spec.radius == (1,)
    molecules = [
        Data(
            torch.zeros(2, 1, dtype=torch.long),
            torch.tensor([[0, 1], [1, 0]]),
            edge_attr=torch.tensor([i % 2, i % 2]),
            y=torch.tensor([i % 2]),
        )
        for i in range(10)
    ]
    dm = PyGDataModule(molecules, edge_features="labels", root=root)
    assert GIN.for_data(dm).edge_encoder is not None


def test_embeddings_do_not_depend_on_order_and_batch(
    cycles: Callable[..., CyclesDataModule],
) -> None:
    dm = cycles()
    model = UnionSNN.for_data(dm, hidden_channels=8, num_layers=2).eval()
    fit_gates(model, dm)
    graphs = list(dm.pyg_dataset("test"))
    with torch.no_grad():
        together = model.embed(Batch.from_data_list(graphs))
        alone = torch.cat([model.embed(graph) for graph in graphs])
        batch = next(iter(dm.test_dataloader()))
        assert torch.equal(model.embed(batch), together)
        assert torch.equal(model.head(together), model(batch))
        permuted = []
        for graph in graphs:
            order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
            edges = torch.argsort(order)[graph.edge_index]
            permuted.append(
                Data(graph.x[order], edges, edge_coefficient=graph.edge_coefficient, y=graph.y)
            )
        renumbered = model.embed(Batch.from_data_list(permuted))
    assert together.shape == (len(graphs), 8)
    torch.testing.assert_close(alone, together)
    torch.testing.assert_close(renumbered, together)


# -- data modules --------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_part_is_a_data_set_of_pyg(part: Any, cycles: Callable[..., CyclesDataModule]) -> None:
    dm = cycles(seed=3)
    dataset = dm.pyg_dataset(part)
    assert len(dataset) == (48 if part == "train" else 16)
    if part != "train":
        loaders = {"val": dm.val_dataloader, "test": dm.test_dataloader}
        own, pyg = loaders[part](), DataLoader(dataset, batch_size=16)
        assert all(equal(a, b) for a, b in zip(own, pyg, strict=True))
    assert len(dm.pyg_dataset()) == 80


def test_nodes_are_a_data_set_of_one_graph_with_masks(root: Path) -> None:
    graph = Data(torch.randn(30, 3), torch.tensor([[0, 1], [1, 0]]), y=torch.arange(30) % 3)
    dm = PyGNodeDataModule(graph, root=root, seed=1)
    (batch,) = DataLoader(dm.pyg_dataset("test"))
    assert equal(batch, next(iter(dm.test_dataloader())))
    assert bool((batch.train_mask ^ batch.val_mask ^ batch.test_mask).all())


def test_folds_are_those_of_the_command(cycles: Callable[..., CyclesDataModule]) -> None:
    dm = cycles(seed=5)
    folds = [dm.fold(i, of=4) for i in range(4)]
    config = compose_config(["protocol=cross_validation", "protocol.folds=4"])
    for one, two in zip(folds, draw_splits(config.protocol, dm, 5), strict=True):
        for part in ("train", "validation", "test"):
            assert np.array_equal(getattr(one.split, part), getattr(two, part))
    tested = np.concatenate([fold.split.test for fold in folds])
    assert sorted(tested) == list(range(80))
    assert dm.split is None
    assert folds[0].graphs is dm.graphs
    for index in (-1, 4):
        with pytest.raises(RequestError, match="allowed are 0 to 3"):
            dm.fold(index, of=4)


MODULES: dict[str, Callable[..., GraphDataModule]] = {
    "mutag": lambda **o: TUDataModule("MUTAG", **o),
    "tox21": lambda **o: TUDataModule("tox21", **o),
    "frankenstein": lambda **o: TUDataModule("FRANKENSTEIN", **o),
    "tu data.name=BZR": lambda **o: TUDataModule("BZR", **o),
    "zinc10k": ZINCDataModule,
    "zinc_full": lambda **o: ZINCDataModule("full", **o),
    "molhiv": lambda **o: OGBDataModule("ogbg-molhiv", **o),
    "ogb data.name=ogbg-molpcba": lambda **o: OGBDataModule("ogbg-molpcba", **o),
    "ogbn_arxiv": OGBNodeDataModule,
    "cora": lambda **o: PlanetoidDataModule("Cora", **o),
    "photo": lambda **o: AmazonDataModule("photo", **o),
    "6cycles": lambda **o: CyclesDataModule(6, **o),
    "csl": CSLDataModule,
    "peptides_func": lambda **o: LRGBDataModule("Peptides-func", **o),
    "qm9": QM9DataModule,
    "folder data.path=here": lambda **o: FolderDataModule("here", name="folder", **o),
}


@pytest.mark.parametrize("data", MODULES)
def test_a_data_module_by_name_is_that_of_the_command(data: str, tmp_path: Path) -> None:
    config = compose_config(
        [f"data={data.split()[0]}", *data.split()[1:], f"paths.data={tmp_path}"]
    )
    asked, made = build_data(config), MODULES[data](root=tmp_path)
    for name in ("task", "features", "edge_features", "batch_size", "standardize_targets", "root"):
        assert getattr(made, name) == getattr(asked, name), name
    assert made.source == asked.source
    assert made.normalize_features == asked.normalize_features
    if not data.startswith("folder"):
        assert made.metric == asked.metric
    if made.source.known is not None:
        assert made.name == made.source.known.name
    assert type(made).__mro__[-4:] == type(asked).__mro__[-4:]


def test_root_and_mirror_default_as_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tu(tmp_path / "mirror", "BZR", 12)
    monkeypatch.setenv("UNIONSNN_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    assert TUDataModule("BZR").num_graphs == 12
    assert (tmp_path / "data" / "processed").is_dir()


# -- refusals ------------------------------------------------------------------------------


def without_split(dm: GraphDataModule) -> Any:
    dm.seed = None
    return dm.train_dataloader()


REFUSALS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "no gate": (
        lambda dm: UnionSNN(in_channels=1, out_channels=2, gate=None),
        "unionsnn.models.GIN",
        "model.argument",
    ),
    "unknown gate": (
        lambda dm: GIN.for_data(dm, gate="defualt"),
        "Did you mean 'default'",
        "argument.choice",
    ),
    "no coefficients": (
        lambda dm: UnionSNN.for_data(
            CyclesDataModule(num_train=8, num_validation=2, num_test=2, root=dm.root)
        ),
        r"coefficients=True\.$",
        "gate.columns",
    ),
    "no coefficients, no need": (
        lambda dm: GIN.for_data(
            CyclesDataModule(num_train=8, num_validation=2, num_test=2, root=dm.root),
            gate="default",
        ),
        "coefficients=True, or the network with gate=None",
        "gate.columns",
    ),
    "no coefficients in training": (
        lambda dm: CyclesDataModule(
            num_train=8, num_validation=2, num_test=2, seed=0, root=dm.root
        ).part_coefficient("train"),
        "coefficients=True",
        "gate.columns",
    ),
    "no split": (without_split, "seed=0", "data.no_split"),
    "no encodings": (
        lambda dm: GPS.for_data(dm),
        r'in Python encodings=\{"distance": True\}',
        "model.argument",
    ),
    "no layer coefficient": (lambda dm: GraphSNN.for_data(dm), "layer_spec=", "batch.attribute"),
    "coefficients": (
        lambda dm: CyclesDataModule(coefficients=1),
        "True, False",
        "data.coefficients",
    ),
    "no outputs": (lambda dm: GraphClassification(nn.Linear(1, 2)), "num_outputs=", "task.outputs"),
    "batch size": (lambda dm: CyclesDataModule(batch_size=0), "batch_size is 0", "argument.size"),
    "seed": (lambda dm: CyclesDataModule(seed=-1), "seed is -1", "argument.size"),
    "fold": (lambda dm: dm.fold("a", of=3), "allowed are 0 to 2", "data.folds"),
    "folds": (lambda dm: dm.fold(0, of=1), "of is 1; it must be at least", "argument.size"),
    "no rate": (lambda dm: GraphClassification(GIN.for_data(dm), lr="x"), "lr", "argument.size"),
    "rate": (lambda dm: GraphClassification(GIN.for_data(dm), lr=-1), "lr is -1", "argument.size"),
    "by place": (lambda dm: GIN(7, 2), r"in_channels=7, out_channels=2", "model.argument"),  # type: ignore[misc]
    "spec": (
        lambda dm: StructuralCoefficients("union"),  # type: ignore[arg-type]
        r"CoefficientSpec\(substructure=\"union\"\)",
        "transform.arguments",
    ),
    "part": (lambda dm: dm.pyg_dataset("valid"), "train, val and test", "data.split"),
    "set": (lambda dm: PlanetoidDataModule("coro"), "cora", "data.unknown"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_new_user_is_told_what_to_type(
    kind: str, cycles: Callable[..., CyclesDataModule]
) -> None:
    act, words, code = REFUSALS[kind]
    with pytest.raises((RequestError, DataError), match=words) as refused:
        act(cycles())
    assert refused.value.codes[0] == code


@pytest.mark.parametrize("task", [GraphBinaryClassification, GraphRegression, NodeClassification])
def test_a_task_for_other_data_is_refused(
    task: type[Task], cycles: Callable[..., CyclesDataModule], tmp_path: Path
) -> None:
    dm = cycles()
    with pytest.raises(
        RequestError, match=r"use unionsnn\.training\.GraphClassification"
    ) as refused:
        trainer(tmp_path, enable_checkpointing=False).fit(task(GIN.for_data(dm)), dm)
    assert refused.value.codes == ["data.task"]
