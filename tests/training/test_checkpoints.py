"""Checkpoints: what is believed of a file, and what it may make Python import."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unionsnn.base.errors import DataError, RequestError, UnionsnnError
from unionsnn.config.compose import compose_config
from unionsnn.config.targets import named_networks
from unionsnn.data.splits import Split
from unionsnn.runs.export import export_checkpoint
from unionsnn.runs.prediction import predict
from unionsnn.training import repetition
from unionsnn.training.build import build_data, build_task, fit_gates
from unionsnn.training.checkpoints import load_checkpoint, read_checkpoint, save_checkpoint
from unionsnn.training.repetition import Training, measure_selected

Content = dict[str, Any]

SMALL = ["data.num_train=32", "data.num_validation=8", "data.num_test=8"]
SMALL += ["model.hidden_channels=4", "model.num_layers=1", "trainer.accelerator=cpu"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that no test writes to."""
    root = tmp_path_factory.mktemp("saved")
    config = compose_config([*SMALL, f"paths.data={root}"])
    data = build_data(config)
    data.split = Split(np.arange(32), np.arange(32, 40), np.arange(40, 48))
    task = build_task(config, data)
    fit_gates(task.model, data)
    path = root / "checkpoints" / "00.ckpt"
    save_checkpoint(path, task, config, data)
    return path


@pytest.fixture(autouse=True)
def _own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))


@pytest.fixture
def changed(saved: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a writer of the checkpoint after a change, with or without the digest."""

    def write(change: Callable[[Content], object], *, digest: bool = False) -> Path:
        content = torch.load(saved, weights_only=True)
        if not digest:
            del content["digest"]
        change(content)
        torch.save(content, tmp_path / "00.ckpt")
        return tmp_path / "00.ckpt"

    return write


def outcome(path: Path) -> dict[str, torch.Tensor] | str:
    try:
        return load_checkpoint(path).state_dict()
    except UnionsnnError as error:
        return error.codes[0]


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_a_flipped_bit_never_changes_weights_unnoticed(
    saved: Path, tmp_path: Path, count: int
) -> None:
    whole, wanted = bytearray(saved.read_bytes()), outcome(saved)
    path = tmp_path / "flipped.ckpt"
    refused = 0
    for place in np.random.default_rng(0).integers(0, 8 * len(whole), count).tolist():
        flipped = whole.copy()
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        found = outcome(path)
        if isinstance(found, str):
            assert found == "checkpoint.damaged"
            refused += 1
        else:
            assert same(found, wanted), place
    assert refused > count / 3


def _scale(content: Content) -> None:
    name = next(k for k, v in content["state_dict"].items() if v.is_floating_point())
    content["state_dict"][name] = content["state_dict"][name] * 1.5


@pytest.mark.parametrize(
    "change",
    [
        _scale,
        lambda c: c["config"]["model"].update(dropout=0.25),
        lambda c: c.update(class_names=["b", "a"]),
        lambda c: c.update(normalize_features=True),
    ],
)
def test_whatever_comes_with_the_weights_is_in_the_digest(
    changed: Callable[..., Path], change: Callable[[Content], object]
) -> None:
    with pytest.raises(DataError, match="does not hold what was written"):
        read_checkpoint(changed(change, digest=True))


def test_a_checkpoint_without_digest_is_read_and_said(
    saved: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    path = changed(lambda content: None)
    assert not read_checkpoint(path).has_digest
    assert read_checkpoint(saved).has_digest
    graphs = tmp_path / "one.g6"
    graphs.write_text("C~\n")
    (note,) = [n for n in predict(path, graphs).notes if "no digest" in n]
    assert note.startswith("00.ckpt: from an earlier version")
    assert not [n for n in predict(saved, graphs).notes if "digest" in n]


def test_a_cell_of_a_grid_is_checked_before_it_is_measured(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged = changed(_scale, digest=True)
    monkeypatch.setattr(Training, "checkpoint", damaged)
    monkeypatch.setattr(repetition, "prepare", lambda *given: None)
    config = compose_config(SMALL)
    split = Split(np.arange(32), np.arange(32, 40), np.arange(40, 48))
    with pytest.raises(DataError) as caught:
        measure_selected(Training(config, split, 0, tmp_path, 0), build_data(config))
    assert caught.value.codes == ["checkpoint.damaged"]


def _without(*keys: str) -> Callable[[Content], object]:
    def change(content: Content) -> None:
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


def _with(value: Any, *keys: str) -> Callable[[Content], object]:
    def change(content: Content) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


MALFORMED = {
    "no configuration": _without("config"),
    "None": _with(None, "config"),
    "a list": _with([1], "config"),
    "a text": _with("model=gin", "config"),
    "empty": _with({}, "config"),
    "no model": _without("config", "model"),
    "no task": _without("config", "data", "task"),
    "model is a text": _with("gin", "config", "model"),
    "target is a number": _with(1, "config", "model", "_target_"),
    "unknown key": _with(1, "config", "nonsense"),
    "unknown logger": _with({"name": "nowhere"}, "config", "logger"),
    "logger is a list": _with([1], "config", "logger"),
    "layers are text": _with("3", "config", "model", "num_layers"),
    "too many layers": _with(10**9, "config", "model", "num_layers"),
    "radius is a mapping": _with({"a": 1}, "config", "coefficient", "radius"),
    "substructure is a list": _with([1], "config", "coefficient", "substructure"),
    "encodings are a list": _with([1], "config", "model", "encodings"),
    "grid is a number": _with(1, "config", "protocol", "grid"),
    "gate without preset": _without("config", "gate", "preset"),
    "keys are numbers": _with({1: 2}, "config", "model"),
    "features are text": _with("many", "num_features"),
    "features are negative": _with(-1, "num_features"),
    "no outputs": _without("num_outputs"),
    "outputs are None": _with(None, "num_outputs"),
    "class names are a number": _with(3, "class_names"),
    "widths are a mapping": _with({}, "feature_widths"),
    "weights are a list": _with([], "state_dict"),
    "a weight is text": _with("x", "state_dict", "encoder.weight"),
    "too many features": _with(2**31 - 1, "num_features"),
    "too wide": _with(2**31 - 1, "config", "model", "hidden_channels"),
    "no weights": _with({}, "state_dict"),
    "a preset is unknown": _with("mine", "config", "gate", "preset"),
    "digest is a number": _with(1, "digest"),
    "an argument of the class is unknown": _with(1, "config", "model", "nonsense"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_checkpoint_is_refused_in_a_sentence(
    changed: Callable[..., Path], kind: str
) -> None:
    with pytest.raises(UnionsnnError) as caught:
        load_checkpoint(changed(MALFORMED[kind]))
    assert caught.value.codes != ["failed"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "00.ckpt")
    with pytest.raises(DataError) as caught:
        read_checkpoint(tmp_path / "00.ckpt")
    assert caught.value.codes == ["checkpoint.damaged"]


@pytest.fixture
def foreign(changed: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint whose network is a class of a module that must not be imported."""
    module = tmp_path / "code" / "imported_by_checkpoint.py"
    module.parent.mkdir()
    module.write_text(
        "import os\nfrom unionsnn.models.unionsnn import UnionSNN\n"
        "os.environ['IMPORTED_BY_CHECKPOINT'] = '1'\nclass Own(UnionSNN): ...\n"
    )
    monkeypatch.syspath_prepend(str(module.parent))
    monkeypatch.delenv("IMPORTED_BY_CHECKPOINT", raising=False)
    monkeypatch.delitem(sys.modules, module.stem, raising=False)
    return changed(_with("imported_by_checkpoint.Own", "config", "model", "_target_"))


def test_a_network_from_elsewhere_is_not_imported(foreign: Path, tmp_path: Path) -> None:
    graphs = tmp_path / "one.g6"
    graphs.write_text("C~\n")
    for use in (
        load_checkpoint,
        lambda path: predict(path, graphs),
        lambda path: export_checkpoint(path, tmp_path / "out.pt2"),
        lambda path: load_checkpoint(path, trust={"imported_by_checkpoint.Other"}),
    ):
        with pytest.raises(RequestError) as caught:
            use(foreign)
        assert caught.value.codes == ["checkpoint.target"]
    assert "IMPORTED_BY_CHECKPOINT" not in os.environ
    assert not (tmp_path / "out.pt2").exists()


def test_a_network_that_the_users_own_configuration_names_is_trusted(
    foreign: Path, tmp_path: Path
) -> None:
    own = tmp_path / "conf" / "model" / "own.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("_target_: imported_by_checkpoint.Own\n")
    assert type(load_checkpoint(foreign, named_networks(tmp_path / "conf"))).__name__ == "Own"
    assert type(load_checkpoint(foreign, trust=True)).__name__ == "Own"


@pytest.mark.parametrize("target", ["os.system", "builtins.exec", "unionsnn.models.gin.torch"])
def test_what_is_no_network_is_never_called(changed: Callable[..., Path], target: str) -> None:
    path = changed(_with(target, "config", "model", "_target_"))
    for trust in (False, True):
        with pytest.raises(RequestError):
            load_checkpoint(path, trust)


def test_outputs_that_are_not_numbers_are_an_error(
    changed: Callable[..., Path], tmp_path: Path
) -> None:
    def spoil(content: Content) -> None:
        for tensor in content["state_dict"].values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))

    graphs = tmp_path / "two.g6"
    graphs.write_text("C~\nBw\n")
    with pytest.raises(UnionsnnError, match="for 2 of 2 items, first for number 0") as caught:
        predict(changed(spoil), graphs)
    assert caught.value.codes == ["predict.not_finite"]


def test_hidden_files_of_a_folder_are_left_out_and_what_is_left_out_is_named(
    saved: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "a.g6").write_text("C~\n")
    for name in ("._a.g6", ".hidden.g6", "notes.md", "Thumbs.db"):
        (folder / name).write_bytes(b"\0")
    (folder / "folder.g6").mkdir()
    found = predict(saved, folder)
    assert found.names == ("a.g6",)
    (note,) = [n for n in found.notes if n.startswith("left out of")]
    for name in ("._a.g6", ".hidden.g6", "notes.md", "Thumbs.db", "folder.g6"):
        assert name in note
