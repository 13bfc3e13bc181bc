"""The hash of a configuration names run folders and pairs results: it must not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricated import REQUIRED
from freeze import product
from freeze.frozen import check

GROUPS: dict[str, list[str]] = {
    "data": [],
    "model": [],
    "gate": ["model=gin"],
    "coefficient": [],
    "protocol": [],
    "optimizer": [],
    "trainer": [],
    "logger": [],
    "experiment": [],
    "grid": ["protocol=cross_validation"],
}
"""Groups of the shipped configuration, and what their options are composed with."""

NOT_IN_HASH = [
    "logger=wandb",
    "force=true",
    "data.offline=true",
    "protocol.workers=2",
    "protocol.only=[0]",
    "trainer.accelerator=cpu",
    "trainer=ddp",
    "trainer.devices=2",
    "trainer.devices=2 trainer.num_nodes=2 trainer.sync_batchnorm=true",
    "trainer.threads=3",
    "trainer.progress=none",
    "trainer.keep_checkpoints=false",
]


def test_every_group_is_here() -> None:
    shipped = {p.name for p in product.config_folder().iterdir() if p.is_dir()}
    assert shipped == set(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_hash_of_every_option(group: str) -> None:
    # experiment=ogb is a set of its own, which needs no name.
    needed = {k: words for k, words in REQUIRED.items() if group == "data" or k != "ogb"}
    requests = {
        f"{group}={option}": [*GROUPS[group], f"{group}={option}", *needed.get(option, [])]
        for option in product.options(group)
    }
    check(
        f"configs/{group}.json",
        {name: product.hash_of(request) for name, request in requests.items()},
    )


def test_hash_of_a_few_values() -> None:
    requests = (
        "",
        "seed=1",
        "optimizer.lr=0.01",
        "coefficient.radius=[1,2]",
        "coefficient.control=shuffled",
        "protocol=cross_validation protocol.folds=5",
        "protocol=cross_validation protocol.train_size=64",
        "data=mutag model=union_gin gate=paper protocol=cross_validation grid=tu seed=3",
    )
    check("configs/values.json", {words: product.hash_of(words.split()) for words in requests})


def test_paths_and_machine_are_not_in_the_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = product.hash_of([])
    places = [f"paths.output={tmp_path}", f"paths.data={tmp_path}", f"run_dir={tmp_path}"]
    for word in [*NOT_IN_HASH, *places, f"data.mirror={tmp_path}"]:
        assert product.hash_of(word.split()) == plain, word
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path))
    monkeypatch.setenv("UNIONSNN_MIRROR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert product.hash_of([]) == plain


@pytest.mark.parametrize("name", product.studies())
def test_plan_of_every_sweep(name: str) -> None:
    check(f"sweeps/{name}.json", product.study_plan(name))
