"""A request of which nothing is left to train is answered by its record, and checked as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fabricated import write_folder
from unionsnn.base.errors import RequestError
from unionsnn.base.files import write_json
from unionsnn.config.schema import Config
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
