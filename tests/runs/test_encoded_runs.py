"""Encodings from the model's configuration into its batches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import encoded_model
from data_files import write_planetoid
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.data.catalog import CatalogEntry
from unionsnn.reports.collection import collect
from unionsnn.runs.comparison import read_candidates
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.precompute import precompute
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_data, build_task

Maker = Callable[..., dict[str, Any]]
MODEL = [
    "model=gin",
    "model._target_=encoded_model.Encoded",
    "~model.train_eps",
    "+model.encodings={random_walk: 4, laplacian: 3, distance: true}",
]


@pytest.mark.parametrize("max_pairs", [None, 3000])
def test_a_model_is_trained_on_the_encodings_that_it_asks_for(
    tiny: Maker, max_pairs: int | None
) -> None:
    bound = [] if max_pairs is None else [f"data.max_pairs={max_pairs}"]
    config = tiny(*MODEL, *bound)
    record = run_experiment(config)
    assert record.state == "finished"
    (row,) = record.repetitions
    held = RunFolder.of(config).finished()[0].encodings
    assert held == {"random_walk": 4, "laplacian": 3, "distance": 1}
    file = Path(encoded_model.__file__)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert row.code == {"encoded_model.Encoded": digest}
    if max_pairs is None:
        path = next(Path(config.paths.output).rglob("repetitions/00.json"))
        path.write_text(path.read_text().replace(digest, "0" * 64))
        # It holds the digest of the record as it was written.
        RunFolder.of(config).results_path.unlink()
        changed = (
            r"The file of encoded_model\.Encoded \(repetition 1\) has changed since .*force=true"
        )
        with pytest.raises(RequestError, match=changed) as caught:
            run_experiment(config)
        assert caught.value.codes == ["run.other_code"]
        assert "accept_code=true" in str(caught.value)
        accepting = tiny(*MODEL, "accept_code=true")
        assert config_hash(accepting) == config_hash(config)
        with pytest.warns(UserWarning, match="has changed since"):
            assert run_experiment(accepting).repetitions[0].metrics == row.metrics
        folder = RunFolder.of(config).path
        (stored,), faults = collect([folder])
        assert stored.record.config_hash == config_hash(config)
        assert any("is of other code: the file of encoded_model.Encoded" in f for f in faults)
        with pytest.raises(RequestError) as caught:
            read_candidates([str(folder), str(folder)])
        assert caught.value.codes == ["run.other_code"] * 2
        assert len(read_candidates([str(folder)] * 2, ["accept_code=true"])) == 2
        # A new folder is trained in without a word.
        assert run_experiment(config.replace({"force": True})).repetitions[0].code == row.code
        return
    again = run_experiment(tiny(*MODEL, *bound, run_dir="again"))
    assert again.repetitions[0].metrics == row.metrics


def test_a_bound_of_pairs_is_kept_in_training_and_is_part_of_the_hash(tiny: Maker) -> None:
    config = tiny(*MODEL, "data.max_pairs=3000")
    data = build_data(config)
    assert data.max_pairs == 3000
    assert config_hash(config) != config_hash(tiny(*MODEL))
    assert "max_pairs" not in tiny(*MODEL).data
    data.split = data.default_split(None)
    for batch in data.train_dataloader():
        assert batch.num_graphs * int(batch.ptr.diff().max()) ** 2 <= 3000


def test_batches_carry_what_is_asked_for_and_nothing_else(tiny: Maker) -> None:
    for section, names in {
        "{}": set(),
        "{random_walk: 2}": {"random_walk"},
        "{laplacian: 2, distance: true}": {"laplacian", "distance"},
    }.items():
        config = tiny(*MODEL[:3], f"+model.encodings={section}")
        data = build_data(config)
        batch = data.store.batch(torch.arange(3))
        assert {"random_walk", "laplacian", "distance"} & set(batch.keys()) == names
        # The network checks what it is given.
        build_task(config, data)(batch)
    plain = build_data(tiny("model=gin"))
    assert not {"random_walk", "laplacian", "distance"} & set(plain.graphs[0].keys())


def test_every_key_of_the_encodings_matters(tiny: Maker) -> None:
    hashes = {config_hash(tiny(*MODEL))}
    for key, value in {"random_walk": 5, "laplacian": 0, "distance": False}.items():
        section = {"random_walk": 4, "laplacian": 3, "distance": True, key: value}
        text = ", ".join(f"{name}: {size}" for name, size in section.items())
        config = tiny(*MODEL[:3], f"+model.encodings={{{text}}}")
        hashes.add(config_hash(config))
        assert getattr(build_data(config).encodings, key) == value
    assert len(hashes) == 4


def test_a_model_that_knows_no_encodings_refuses_them(tiny: Maker) -> None:
    config = tiny("model=gin", "+model.encodings={random_walk: 2}")
    with pytest.raises(RequestError, match=r"model gin: .*encodings"):
        build_task(config, build_data(config))


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("{randm_walk: 3}", ["'model.encodings.randm_walk' does not exist", "Did you mean 'rand"]),
        ("{a: 1, b: 2}", ["'model.encodings.a'", "'model.encodings.b'"]),
        ("{random_walk: -3}", ["model.encodings.random_walk is -3", "greater than or equal to 0"]),
        ("{random_walk: true}", ["model.encodings.random_walk is True", "integer"]),
        ("{laplacian: 2.5}", ["model.encodings.laplacian is 2.5", "integer"]),
        ("{distance: 3}", ["model.encodings.distance is 3", "boolean"]),
        ("5", ["model.encodings is 5; it must be a section with the keys random_walk"]),
    ],
)
def test_a_wrong_section_says_what_to_do(given: str, parts: list[str]) -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config(["model=gin", f"+model.encodings={given}"])
    for part in parts:
        assert part in str(refusal.value)


def test_precompute_fills_the_cache_of_encodings_too(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(*MODEL)
    first = precompute(config)["encodings"]
    assert [(e["encoding"], e["size"], e["computed"]) for e in first] == [
        ("random_walk", 4, True), ("laplacian", 3, True), ("distance", 1, True),
    ]  # fmt: skip
    assert all(Path(each["entry"]).exists() for each in first)
    assert not any(each["computed"] for each in precompute(config)["encodings"])
    monkeypatch.setattr("unionsnn.data.encodings.cache.ENCODINGS", {})
    assert run_experiment(config).state == "finished"


def test_one_large_graph_carries_its_encodings(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    write_planetoid(tmp_path / "mirror", "cora")
    place = [f"data.mirror={tmp_path / 'mirror'}", "data.offline=true"]
    config = tiny("data=cora", *place, *MODEL, "~data.batch_size", "+data.batch_size=1")
    data = build_data(config)
    batch = data.graphs[0]
    assert batch.distance.shape == (data.arrays.num_nodes**2,)
    assert run_experiment(config).state == "finished"
