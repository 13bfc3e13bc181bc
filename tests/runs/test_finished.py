"""A request of which nothing is left to train is answered by its record, and checked as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from fabricated import write_folder
from unionsnn.base.errors import RequestError
from unionsnn.base.files import write_json
from unionsnn.config.schema import Config
from unionsnn.data.sources.pyg import PyG
from unionsnn.data.sources.source import RawFiles
from unionsnn.runs import pending
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.records import Result


class CalledError(Exception):
    """What needs torch was called."""


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return whether a request is answered without what needs torch."""

    def complete(config: Config, *rest: Any) -> Result:
        raise CalledError

    def ask(config: Config) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(pending, "complete", complete)
            try:
                run_experiment(config)
            except CalledError:
                return False
            return True

    return ask


def test_only_what_is_known_without_torch_is_answered_without_it(tiny: Any, answered: Any) -> None:
    config = tiny("protocol=repeated_seeds", "protocol.seeds=2", run_dir="run")
    assert not answered(config)
    run_experiment(config.replace({"protocol.only": [0]}))
    assert not answered(config)
    assert answered(config.replace({"protocol.only": [0]}))
    whole = run_experiment(config)
    assert answered(config)
    assert run_experiment(config) == whole
    assert json.loads(RunFolder.of(config).results_path.read_text()) == whole.to_json()
    for change in (
        {"force": True},
        {"trainer.accelerator": "gpu"},
        {"trainer.devices": 2},
        {"trainer.num_nodes": 2},
    ):
        assert not answered(config.replace(change)), change
    # Whether its network takes these arguments, only the present version can tell.
    path = RunFolder.of(config).repetition_path(1)
    RunFolder.of(config).results_path.unlink()
    record = json.loads(path.read_text())
    write_json(path, {**record, "versions": {**record["versions"], "torch": "1.0"}})
    assert not answered(config)
    with pytest.warns(UserWarning, match=r"torch 1\.0 -> "):
        run_experiment(config)


def test_changed_data_of_the_users_own_are_refused_without_torch(
    tiny: Any, answered: Any, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "own", 40)
    config = tiny("data=folder", "data.name=own", f"data.path={folder}", run_dir="run")
    run_experiment(config)
    assert answered(config)
    edges = (folder / "0.csv").read_text()
    (folder / "0.csv").write_text(edges + "0,2\n2,0\n")
    with pytest.raises(RequestError, match=r"own-.*, but the data is now own-"):
        answered(config)
    (folder / "0.csv").write_text(edges)
    assert answered(config)


def test_a_finished_run_of_pygs_data_reads_them_again_only_if_their_files_changed(
    tiny: Any, answered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cycles(sizes: range) -> None:
        graphs = []
        for n in sizes:
            ends = torch.arange(n)
            edges = torch.stack([ends, (ends + 1) % n])
            both = torch.cat([edges, edges.flip(0)], dim=1)
            graphs.append(Data(x=torch.ones(n, 1), edge_index=both, y=torch.tensor([n % 2])))
        torch.save(graphs, tmp_path / "own.pt")

    def read(*given: Any) -> None:
        raise CalledError

    cycles(range(3, 43))
    file = f"data.dataset={tmp_path / 'own.pt'}"
    config = tiny("data=pyg", "data.name=own", file, run_dir="run")
    run_experiment(config)
    with monkeypatch.context() as patch:
        patch.setattr(PyG, "read", read)
        assert answered(config)
    cycles(range(4, 44))
    with pytest.raises(RequestError, match=r"own-.*, but the data is now own-"):
        answered(config)


def test_what_pyg_keeps_in_a_folder_is_told_by_its_files(tmp_path: Path) -> None:
    def key(dataset: str) -> str | None:
        return PyG(dataset=dataset).processed_key(RawFiles(tmp_path))

    folder = tmp_path / "raw" / "pyg" / "KarateClub"
    assert key("torch_geometric.datasets.KarateClub") is None
    folder.mkdir(parents=True)
    (folder / "data").write_text("1")
    before = key("torch_geometric.datasets.KarateClub")
    assert before is not None
    assert key("torch_geometric.datasets.KarateClub") == before
    (folder / "data").write_text("12")
    assert key("torch_geometric.datasets.KarateClub") not in (None, before)
    assert key("own.KarateClub") is None
