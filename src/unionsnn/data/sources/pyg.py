"""Any in-memory data set class, by dotted path: its graphs, or the nodes of its one graph."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from unionsnn.base.errors import DataError, DataRequestError, RequestError
from unionsnn.base.imports import import_named
from unionsnn.base.secrets import MASK, masked_content, secret_values
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.sources.download import files_hash
from unionsnn.data.sources.graph_files.pt import load_content
from unionsnn.data.sources.pyg_graphs import read_pyg_dataset
from unionsnn.data.sources.pyg_items import graphs_of
from unionsnn.data.sources.source import NodeSource, RawFiles, Source, Unlabelled

# Packages whose functions do other things than to make a data set.
_NOT_THE_USERS = {"torch", "torch_geometric", "numpy", "unionsnn", "pytorch_lightning", "networkx"}


class PyG(Source):
    """The graphs of any in-memory data set class, named by its dotted path, or of a file.

    PyG keeps the files. What was read of a file ``.pt``, or of the folder of a class of PyG's own,
    is kept as well, so that a finished run is answered without torch.

    Args:
        dataset: Dotted path of a class, such as torch_geometric.datasets.TUDataset, or of a
            function of the user's own; or the path of a file ``.pt`` with a list of PyG's `Data`,
            or what `InMemoryDataset.save` wrote.
        arguments: Its arguments; ``root`` defaults to a folder in the data root.
        symmetrize: Whether to add the reverse of one-way edges.
        split_argument: The argument that chooses a part of the set's own split, called with train,
            val and test; None if the class has all items at once.
        targets: Columns of y to learn; None for all.
        unlabelled: Whether to ``drop`` items without a target (NaN, or a class below 0 where -1 and
            1 are not the only classes), to count these as a ``class``, or to ``mask`` those of
            several targets; an error otherwise.
    """

    dataset: str
    arguments: dict[str, Any] | None = None
    symmetrize: bool = False
    split_argument: str | None = None
    targets: list[Annotated[int, Field(ge=0)]] | None = None
    unlabelled: Unlabelled | None = None

    belongs_to_user: ClassVar[bool] = True

    def processed_key(self, raw: RawFiles) -> str | None:
        """Return the state of the set's files, and what is read of them.

        None where the graphs may depend on more: on code of the user's own, or on nothing that is
        kept in a folder, as in a class that draws its graphs.
        """
        if self.dataset.endswith(".pt"):
            path = Path(self.dataset).expanduser()
            files = files_hash([path]) if path.is_file() else None
        elif self.dataset.startswith("torch_geometric.datasets."):
            name = self.dataset.rpartition(".")[2]
            root = (self.arguments or {}).get("root") or raw.root / "raw" / "pyg" / name
            files = _state_of(Path(root))
        else:
            files = None
        if files is None:
            return None
        content = json.dumps(self.model_dump(), sort_keys=True, default=str)
        return f"pyg {version('torch-geometric')} {files} {content}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Make the data set and return its arrays."""
        sets, part = list(self._sets(raw)), None
        made = sets[0]
        if self.split_argument is not None:
            made = [data for each in sets for data in graphs_of(each)]
            part = np.repeat(np.arange(3), [len(each) for each in sets])
        level = self.task.partition("_")[0]
        try:
            return read_pyg_dataset(
                made,
                level=level,
                symmetrize=self.symmetrize,
                unlabelled=self.unlabelled,
                edge_features=self.reads_edges,
                columns=self.targets,
                part=part,
            )
        except DataError as error:
            raise DataError(f"{self.dataset}: {error}.", code=error.codes[0]) from error

    def _sets(self, raw: RawFiles) -> Iterator[Any]:
        """Make the data set, or with a split argument one for each part."""
        folder, arguments = raw.root / "raw" / "pyg", self.arguments or {}
        if self.dataset.endswith(".pt"):
            yield self._saved()
        elif self.split_argument is None:
            yield make_dataset(self.dataset, arguments, folder)
        else:
            for name in ("train", "val", "test"):
                yield make_dataset(self.dataset, {**arguments, self.split_argument: name}, folder)

    def _saved(self) -> Any:
        """Return the graphs of a file of the user's.

        Raises:
            DataRequestError: There is no such file.
            DataError: It holds something else.
        """
        from torch_geometric.data import Data, InMemoryDataset

        if self.arguments or self.split_argument:
            raise DataRequestError(
                f"{self.dataset} is a file, which takes no data.arguments or data.split_argument: "
                "leave them out",
                code="data.dataset",
            )
        path = Path(self.dataset).expanduser()
        if not path.is_file():
            raise DataRequestError(
                f"data.dataset is {self.dataset!r}, but there is no file {path.absolute()}",
                code="data.dataset",
            )
        content = load_content(path)
        if isinstance(content, Data):
            return [content]
        if isinstance(content, tuple) and len(content) in (2, 3):
            data, slices = content[:2]
            if isinstance(data, Mapping | Data) and isinstance(slices, Mapping):
                made = InMemoryDataset()
                made.data = Data.from_dict(dict(data)) if isinstance(data, Mapping) else data
                made.slices = dict(slices)
                return made
        if isinstance(content, list | tuple):
            return list(content)
        raise DataError(
            f"{path} holds a {type(content).__name__}; save a list of PyG's Data "
            "(torch.save(list(dataset), file)), or by InMemoryDataset.save",
            code="data.dataset",
        )


def _state_of(folder: Path) -> str | None:
    """Return the path, sizes and times of all files in a folder, as text; None if there are none.

    Hashing them would take longer than PyG does to read them.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            state = path.stat()
            files.append((str(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return f"{folder.absolute()} {files}" if files else None


class PyGNodes(NodeSource, PyG):
    """The nodes of the single graph of any in-memory data set class, split by its masks."""


def make_dataset(path: str, arguments: Mapping[str, Any], folder: Path) -> Any:
    """Import a data set class, or the user's function that makes one, and call it.

    Raises:
        DataError: It is not such a class or function, which is found out before it is called; or it
            refuses its arguments, or fails.
    """
    module, _, name = path.rpartition(".")
    package = module.partition(".")[0]
    refused = DataRequestError(
        f"data.dataset is {path!r}, which is no data set, so it was not called; type the dotted "
        "path of a class with the methods __getitem__ and __len__, such as "
        "torch_geometric.datasets.TUDataset, or of a function in a module of yours",
        code="data.dataset",
    )
    if package in sys.stdlib_module_names:
        raise refused
    try:
        kind = import_named(path, "data.dataset")
        # What a module only imported from elsewhere is not its own.
        own = str(getattr(kind, "__module__", "")).partition(".")[0] == package
        if inspect.isclass(kind):
            fits = own and hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
        else:
            fits = own and inspect.isfunction(kind) and package not in _NOT_THE_USERS
        if not fits:
            raise refused
        signature = inspect.signature(kind)
    except RequestError as error:
        raise DataRequestError(*error.faults) from error
    except (TypeError, ValueError) as error:
        raise refused from error
    given = dict(arguments)
    if "root" in signature.parameters:
        given.setdefault("root", str(folder / name))
    try:
        signature.bind(**given)
    except TypeError as error:
        raise DataRequestError(
            f"data.arguments are {masked_content(arguments)}, but {path} does not take them "
            f"({error}); it "
            f"takes {', '.join(signature.parameters)}",
            code="data.pyg",
        ) from error
    try:
        return kind(**given)
    except Exception as error:  # Third-party code may raise anything.
        reason = f"{type(error).__name__}: {error}"
        # It may repeat its arguments.
        for secret in secret_values(given):
            reason = reason.replace(secret, MASK)
        raise DataError(
            f"{path} with {masked_content(given)} failed ({reason}); it must work by itself "
            "before it can be used here",
            code="data.pyg",
        ) from error
