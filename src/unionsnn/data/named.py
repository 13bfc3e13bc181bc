"""Data modules by the name of a set, for Python: `TUDataModule("MUTAG", coefficients=True)`.

Each chooses a source and what its file in conf/data chooses on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args

from torch_geometric.data import Data

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.words import nearest
from unionsnn.coefficients import CoefficientSpec
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CATALOG, CatalogEntry
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.nodes import NodeDataModule
from unionsnn.data.sources.amazon import Amazon
from unionsnn.data.sources.csl import CSL
from unionsnn.data.sources.cycles import Cycles
from unionsnn.data.sources.folder import Folder
from unionsnn.data.sources.ogb import OGB, OGBNodes
from unionsnn.data.sources.planetoid import Planetoid
from unionsnn.data.sources.pyg import PyG
from unionsnn.data.sources.pyg_graphs import read_pyg_dataset
from unionsnn.data.sources.pyg_links import PyGLinks, read_pyg_links
from unionsnn.data.sources.source import (
    InMemory,
    NodeSource,
    Progress,
    RawFiles,
    Source,
    Task,
    Unlabelled,
)
from unionsnn.data.sources.tu import TU
from unionsnn.data.sources.zinc import Zinc
from unionsnn.data.splits import Split
from unionsnn.data.transforms import StructuralCoefficients


class ModuleOptions(TypedDict, total=False):
    """Arguments that every data module takes."""

    coefficients: bool | CoefficientSpec
    """Coefficients in the batches: True for those that the gates' presets read, at radius 1 to 3,
    of a single graph at radius 1; or a spec."""
    layer_spec: CoefficientSpec | None
    """The coefficient in the batches for layers that read their own (GraphSNN, CurvGN)."""
    encodings: Encodings | Mapping[str, int | bool] | None
    """Encodings in the batches, such as {"random_walk": 20, "distance": True}."""
    seed: int | None
    """Seed of the split and of the order of the training items, 0 by default."""
    split: Split | None
    """The split; by default that of the set, or one drawn from the seed."""
    root: str | Path | None
    """Folder of the data; by default UNIONSNN_DATA, or the user's cache."""
    mirror: str | None
    """Folder or URL before the upstream address; by default UNIONSNN_MIRROR."""
    offline: bool
    """Whether to never access the network."""
    features: str
    """Node features: labels, categorical, attributes, both, degree or constant."""
    edge_features: str
    """Edge features: none, labels, attributes or both."""
    batch_size: int
    """Number of graphs in a batch, 32 by default."""
    max_pairs: int | None
    """Limit of the graphs of a batch times the squared size of the largest."""
    standardize_targets: bool
    """Whether networks learn the targets of a regression in standardized units."""
    max_hours: float | None
    """Hours beyond which the expected time of coefficients is refused, 1 by default."""
    threads: int | None
    """Threads for computing coefficients; by default all cores."""
    progress: Progress | None
    """Called during long work."""


class _Named(GraphDataModule):
    """A data module of a set whose name, task and metric are known."""

    def __init__(
        self, source: Source, *, name: str, metric: str | None, **options: Unpack[ModuleOptions]
    ) -> None:
        given: dict[str, Any] = {"seed": 0, "features": "labels", **options}
        coefficients = given.pop("coefficients", False)
        if coefficients is True:
            radius = 1 if source.task.startswith("node") else None
            coefficients = StructuralCoefficients(radius=radius).spec
        elif coefficients is not False and not isinstance(coefficients, CoefficientSpec):
            raise RequestError(
                f"coefficients is {coefficients!r}; it must be True, False or a CoefficientSpec, "
                "such as CoefficientSpec(radius=1).",
                code="data.coefficients",
            )
        split, standardize = given.pop("split", None), given.pop("standardize_targets", False)
        encodings = given.pop("encodings", None)
        if isinstance(encodings, Mapping):
            encodings = Encodings(**encodings)
        super().__init__(source, name=name, spec=coefficients or None, encodings=encodings, **given)
        self.split, self.metric, self.standardize_targets = split, metric, standardize
        if standardize and source.task != "graph_regression":
            raise RequestError(
                f"standardize_targets is for graph_regression, not for {source.task}: leave it "
                "out.",
                code="config.no_effect",
            )


class _NamedNodes(_Named, NodeDataModule):
    """The same for the nodes of a single graph."""

    def __init__(
        self, source: NodeSource, *, name: str, metric: str | None, **options: Unpack[ModuleOptions]
    ) -> None:
        given: ModuleOptions = {"features": "attributes", "batch_size": 1, **options}
        super().__init__(source, name=name, metric=metric, **given)


def _entry(form: str, name: str) -> CatalogEntry | None:
    """Return a known set of a format by one of its names, in any case."""
    wanted = name.lower()
    for entry in CATALOG.values():
        names = [entry.name, entry.source_name, *map(str, entry.arguments.values())]
        if entry.format == form and wanted in [each.lower() for each in names]:
            return entry
    return None


def _known(form: str, name: str) -> CatalogEntry:
    entry = _entry(form, name)
    if entry is None:
        names = [each.name for each in CATALOG.values() if each.format == form]
        raise RequestError(
            f"{name!r} is no set of {form}; allowed are {', '.join(names)}."
            f"{nearest(name.lower(), names)}",
            code="data.unknown",
        )
    return entry


class TUDataModule(_Named):
    """A set of the TU collection, such as MUTAG.

    Args:
        name: Its name there; that of a set on the command line (mutag) also counts.
        symmetrize: Whether to add the reverse of one-way edges, which are an error otherwise.
        options: As in `ModuleOptions`.
    """

    def __init__(
        self, name: str, *, symmetrize: bool = False, **options: Unpack[ModuleOptions]
    ) -> None:
        known = _entry("TU", name)
        if known is not None:
            options = {"features": known.feature_kind, **options}
        super().__init__(
            TU(tu_name=known.source_name if known else name, symmetrize=symmetrize),
            name=known.name if known else name,
            metric="accuracy",
            **options,
        )


class ZINCDataModule(_Named):
    """ZINC: constrained solubility of molecules, with the split of benchmarking-gnns.

    Args:
        size: ``subset``, 12,000 molecules, or ``full``, 249,456.
        options: As in `ModuleOptions`.
    """

    def __init__(
        self, size: Literal["subset", "full"] = "subset", **options: Unpack[ModuleOptions]
    ) -> None:
        given: ModuleOptions = {"features": "categorical", **options}
        name = "zinc10k" if size == "subset" else "zinc_full"
        super().__init__(Zinc(size=size), name=name, metric="mae", **given)


class OGBDataModule(_Named):
    """A set of OGB's molecules, such as ogbg-molhiv, with its scaffold split.

    Args:
        name: Its name there; that of a set on the command line (molhiv) also counts.
        options: As in `ModuleOptions`.
    """

    def __init__(self, name: str, **options: Unpack[ModuleOptions]) -> None:
        known = _known("OGB", name)
        given: ModuleOptions = {"features": "categorical", **options}
        source = OGB(folder=str(known.arguments["folder"]), task=_task(known))
        super().__init__(source, name=known.name, metric=known.metric, **given)


class OGBNodeDataModule(_NamedNodes):
    """ogbn-arxiv: papers in 40 subjects, linked by citations and split by year.

    Args:
        name: ogbn-arxiv.
        options: As in `ModuleOptions`.
    """

    def __init__(self, name: str = "ogbn-arxiv", **options: Unpack[ModuleOptions]) -> None:
        known = _known("OGBNodes", name)
        source = OGBNodes.model_validate(dict(known.arguments))
        super().__init__(source, name=known.name, metric=known.metric, **options)


class PlanetoidDataModule(_NamedNodes):
    """A citation graph with its public split: Cora, CiteSeer or PubMed.

    Args:
        name: Its name.
        normalize_features: Whether the words of a node add up to 1.
        options: As in `ModuleOptions`.
    """

    def __init__(
        self, name: str, *, normalize_features: bool = True, **options: Unpack[ModuleOptions]
    ) -> None:
        known = _known("Planetoid", name)
        source = Planetoid(planetoid_name=known.name, normalize_features=normalize_features)
        super().__init__(source, name=known.name, metric=known.metric, **options)


class AmazonDataModule(_NamedNodes):
    """A co-purchase graph, its largest component: computers or photo.

    Args:
        name: Its name.
        train_share: Share of training nodes, stratified by class.
        validation_share: Share of validation nodes; the rest is tested.
        normalize_features: Whether the words of a node add up to 1.
        options: As in `ModuleOptions`.
    """

    def __init__(
        self,
        name: str,
        *,
        train_share: float = 0.1,
        validation_share: float = 0.1,
        normalize_features: bool = True,
        **options: Unpack[ModuleOptions],
    ) -> None:
        known = _known("Amazon", name)
        source = Amazon(
            amazon_name=known.name,
            train_share=train_share,
            validation_share=validation_share,
            normalize_features=normalize_features,
        )
        super().__init__(source, name=known.name, metric=known.metric, **options)


class CyclesDataModule(_Named):
    """Generated graphs with or without a cycle of a length, which need no download.

    Args:
        length: 4 or 6.
        variant: ``matched`` (degrees say nothing) or ``plain`` (degrees leak the class).
        num_train: Number of training graphs.
        num_validation: Number of validation graphs.
        num_test: Number of test graphs.
        generator_seed: Seed of the generator of the graphs.
        options: As in `ModuleOptions`.
    """

    def __init__(
        self,
        length: Literal[4, 6] = 4,
        *,
        variant: Literal["matched", "plain"] = "matched",
        num_train: int = 9000,
        num_validation: int = 1000,
        num_test: int = 10000,
        generator_seed: int = 0,
        **options: Unpack[ModuleOptions],
    ) -> None:
        source = Cycles(
            length=length,
            variant=variant,
            num_train=num_train,
            num_validation=num_validation,
            num_test=num_test,
            generator_seed=generator_seed,
        )
        given: ModuleOptions = {"features": "constant", **options}
        super().__init__(source, name=f"{length}cycles", metric="accuracy", **given)


class CSLDataModule(_Named):
    """Circular skip links: ten classes of 4-regular graphs, with five folds: `fold(0, of=5)`.

    Args:
        options: As in `ModuleOptions`.
    """

    def __init__(self, **options: Unpack[ModuleOptions]) -> None:
        given: ModuleOptions = {"features": "constant", **options}
        super().__init__(CSL(), name="csl", metric="accuracy", **given)


class LRGBDataModule(_Named):
    """Molecules of the Long Range Graph Benchmark, which PyG downloads.

    Args:
        name: Peptides-func (10 functions), Peptides-struct (11 properties) or PCQM-Contact (pairs
            of distant atoms that touch).
        options: As in `ModuleOptions`.
    """

    def __init__(self, name: str, **options: Unpack[ModuleOptions]) -> None:
        names = ("peptides_func", "peptides_struct", "pcqm_contact")
        wanted = name.lower().replace("-", "_")
        if wanted not in names:
            raise RequestError(
                f"{name!r} is not supported; allowed are Peptides-func, Peptides-struct and "
                "PCQM-Contact.",
                code="data.unknown",
            )
        known = CATALOG[wanted]
        kind = PyGLinks if known.format == "PyGLinks" else PyG
        source = kind.model_validate({**known.arguments, "task": known.task})
        given: ModuleOptions = {"features": "categorical", **options}
        super().__init__(source, name=known.name, metric=known.metric, **given)


class QM9DataModule(_Named):
    """130,831 small molecules with 19 properties, which PyG downloads.

    Args:
        targets: The properties to learn; 0 is the dipole moment.
        options: As in `ModuleOptions`; targets are standardized by default.
    """

    def __init__(self, targets: Sequence[int] = (0,), **options: Unpack[ModuleOptions]) -> None:
        source = PyG(
            dataset="torch_geometric.datasets.QM9", targets=list(targets), task="graph_regression"
        )
        given: ModuleOptions = {"features": "attributes", "standardize_targets": True, **options}
        super().__init__(source, name="qm9", metric="mae", **given)


class FolderDataModule(_Named):
    """Graphs of your own in the files of a folder, with a table of labels.

    Args:
        path: The folder.
        table: A CSV file in it with the columns file and label, or several of numbers.
        task: What is learned.
        metric: Its metric; by default the first of the task.
        name: Name of the set, for caches and messages; by default that of the folder.
        symmetrize: Whether to add the reverse of one-way edges, which are an error otherwise.
        unlabelled: What a missing label means: ``drop``, ``class`` or ``mask``.
        header: Whether the first line of an edge list names its columns.
        options: As in `ModuleOptions`; node features are ``degree`` by default.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        table: str = "labels.csv",
        task: Task = "graph_classification",
        metric: str | None = None,
        name: str | None = None,
        symmetrize: bool = False,
        unlabelled: Unlabelled | None = None,
        header: bool | None = None,
        **options: Unpack[ModuleOptions],
    ) -> None:
        source = Folder(
            path=str(path),
            table=table,
            task=task,
            symmetrize=symmetrize,
            unlabelled=unlabelled,
            header=header,
        )
        given: ModuleOptions = {"features": "degree", **options}
        super().__init__(source, name=name or Path(path).resolve().name, metric=metric, **given)


class _GivenNodes(NodeSource):
    """The one graph of a PyG data set in memory."""

    model_config = InMemory.model_config

    graphs: GraphArrays

    def processed_key(self, raw: RawFiles) -> None:
        """Return None: nothing is stored."""

    def read(self, raw: RawFiles) -> GraphArrays:
        """Return the graph."""
        return self.graphs


def _of_pyg(
    dataset: Any,
    *,
    task: Task,
    symmetrize: bool,
    unlabelled: Unlabelled | None,
    targets: Sequence[int] | None,
    options: ModuleOptions,
) -> tuple[GraphArrays, ModuleOptions]:
    """Read a PyG data set, and choose the node features that it has."""
    edge_features = options.get("edge_features", "none") != "none"
    try:
        if task == "link_prediction":
            if unlabelled is not None or targets is not None:
                raise RequestError(
                    "unlabelled and targets have no effect on pairs of nodes: leave them out.",
                    code="config.no_effect",
                )
            arrays = read_pyg_links([dataset], symmetrize=symmetrize, edge_features=edge_features)
        else:
            arrays = read_pyg_dataset(
                dataset,
                level=task.partition("_")[0],
                symmetrize=symmetrize,
                unlabelled=unlabelled,
                edge_features=edge_features,
                columns=targets,
            )
    except DataError as error:
        raise DataError(f"{type(dataset).__name__}: {error}.", code=error.codes[0]) from error
    features = "attributes" if arrays.node_attributes is not None else "labels"
    return arrays, {"features": features, **options}


class PyGDataModule(_Named):
    """Graphs of your own: any data set of PyG, or a list of `Data`.

    Whole numbers in x and edge_attr are labels, others attributes. Self loops are dropped, repeated
    edges count once.

    Args:
        dataset: A sequence of `Data`, with a target in y, or for link_prediction with labels of
            pairs of nodes in edge_label_index and edge_label.
        task: What is learned.
        metric: Its metric; by default the first of the task.
        name: Name of the set, for caches and messages.
        symmetrize: Whether to add the reverse of one-way edges, which are an error otherwise.
        unlabelled: What a missing target means: ``drop``, ``class`` or ``mask``.
        targets: Columns of y to learn; None for all.
        options: As in `ModuleOptions`; `features` are ``labels`` or ``attributes``, as x is.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        task: Task = "graph_classification",
        metric: str | None = None,
        name: str | None = None,
        symmetrize: bool = False,
        unlabelled: Unlabelled | None = None,
        targets: Sequence[int] | None = None,
        **options: Unpack[ModuleOptions],
    ) -> None:
        if task not in (allowed := get_args(Task)):
            raise RequestError(
                f"task is {task!r}; allowed are {', '.join(allowed)}.{nearest(task, allowed)}",
                code="data.task",
            )
        if task == "node_classification":
            raise RequestError(
                "PyGDataModule is for sets of graphs: for the nodes of one graph, use "
                "PyGNodeDataModule.",
                code="data.task",
            )
        arrays, given = _of_pyg(
            dataset,
            task=task,
            symmetrize=symmetrize,
            unlabelled=unlabelled,
            targets=targets,
            options=options,
        )
        super().__init__(
            InMemory(graphs=arrays, task=task),
            name=name or type(dataset).__name__,
            metric=metric,
            **given,
        )


class PyGNodeDataModule(_NamedNodes):
    """The nodes of one graph of your own, split by its masks, or by the seed.

    Args:
        dataset: A data set of PyG with one graph, that graph itself, or a list of it.
        metric: accuracy or f1.
        name: Name of the set, for caches and messages.
        normalize_features: Whether to divide each node's features by their sum.
        symmetrize: As in `PyGDataModule`.
        unlabelled: As in `PyGDataModule`.
        options: As in `ModuleOptions`.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        metric: str = "accuracy",
        name: str | None = None,
        normalize_features: bool = False,
        symmetrize: bool = False,
        unlabelled: Unlabelled | None = None,
        **options: Unpack[ModuleOptions],
    ) -> None:
        arrays, given = _of_pyg(
            [dataset] if isinstance(dataset, Data) else dataset,
            task="node_classification",
            symmetrize=symmetrize,
            unlabelled=unlabelled,
            targets=None,
            options=options,
        )
        super().__init__(
            _GivenNodes(graphs=arrays, normalize_features=normalize_features),
            name=name or type(dataset).__name__,
            metric=metric,
            **given,
        )


def _task(known: CatalogEntry) -> Task:
    return known.task  # type: ignore[return-value]
