"""Configurations that are no configuration: refused at once, in a sentence, by what they are."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.overrides import refuse_repeats
from unionsnn.config.yaml_files import read_yaml
from unionsnn.training.build import check_model

GOOD = "defaults:\n  - tu\n  - _self_\nname: MUTAG\n"
LAUGHS = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]\n" for i in range(12)
)
FILES = {
    "latin1": (GOOD.encode() + b"# caf\xe9\n", "yaml.encoding"),
    "utf16": (GOOD.encode("utf-16"), "yaml.encoding"),
    "tab": (b"defaults:\n\t- tu\n", "yaml.syntax"),
    "nul": (GOOD.encode() + b"x: a\x00b\n", "yaml.syntax"),
    "python": (GOOD.encode() + b"x: !!python/object/apply:os.getpid []\n", "yaml.syntax"),
    "tag": (GOOD.encode() + b"x: !mine 1\n", "yaml.syntax"),
    "two": (GOOD.encode() + b"---\nname: B\n", "yaml.syntax"),
    "list_key": (GOOD.encode() + b"? [a, b]\n: 2\n", "yaml.syntax"),
    "twice": (GOOD.encode() + b"name: PROTEINS\n", "yaml.duplicate"),
    "digits": (GOOD.encode() + b"batch_size: " + b"9" * 5000, "yaml.value"),
    "laughs": (GOOD.encode() + LAUGHS.encode(), "yaml.size"),
    "itself": (GOOD.encode() + b"x: &x [*x]\n", "yaml.size"),
    "deep": (GOOD.encode() + b"x: " + b"[" * 3000 + b"]" * 3000, "yaml.size"),
    "large": (GOOD.encode() + b"x: " + b"a" * 5_000_000, "yaml.size"),
    "octal": (GOOD.encode() + b"batch_size: 010\n", "yaml.number"),
    "binary": (GOOD.encode() + b"batch_size: -0b11\n", "yaml.number"),
    "sixties": (GOOD.encode() + b"batch_size: 1:30\n", "yaml.number"),
    "sixties_list": (GOOD.encode() + b"x: [1, 1:30.5]\n", "yaml.number"),
    "open": (b"defaults:\n  - tu\n  - _self_\nname: MUTAG\nbatch_size: ???\n", "config.missing"),
    "sequence": (b"- 1\n- 2\n", "yaml.kind"),
    "scalar": (b"hello\n", "yaml.kind"),
    "set": (GOOD.encode() + b"x: !!set {a, b}\n", "config.compose"),
    "defaults_text": (b"defaults: tu\n", "config.compose"),
    "defaults_map": (b"defaults: {tu: null}\n", "config.compose"),
    "defaults_number": (b"defaults:\n  - 3\n", "config.compose"),
    "defaults_null": (b"defaults:\n  - null\n", "config.compose"),
    "defaults_nested": (b"defaults:\n  - {a: {b: c}}\n", "config.compose"),
    "defaults_list": (b"defaults:\n  - [tu]\n", "config.compose"),
    "defaults_unknown": (b"defaults:\n  - nowhere\n", "config.compose"),
    "defaults_itself": (b"defaults:\n  - defaults_itself\n", "config.compose"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_configuration_is_refused(name: str, tmp_path: Path) -> None:
    content, code = FILES[name]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"{name}.yaml").write_bytes(content)
    started = time.monotonic()
    with pytest.raises(RequestError) as caught:
        compose_config([f"data={name}"], tmp_path)
    assert caught.value.codes == [code]
    assert name in str(caught.value) or code.startswith("config.")
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 10


def test_numbers_that_are_what_they_seem_are_read(tmp_path: Path) -> None:
    path = tmp_path / "fine.yaml"
    path.write_text("a: [0, 10, -3, 1e-3, 0.5, 0x10, '010', '1:30', 1_000, 08, 00, 007x]\n")
    assert read_yaml(path)["a"][:4] == [0, 10, -3, "1e-3"]


def test_what_a_file_leaves_open_is_asked_for_and_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\nseed: ???\noptimizer:\n  lr: ???\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    with pytest.raises(RequestError, match=r"optimizer.lr must be given.*\n?.*seed must") as caught:
        compose_config(["experiment=mine"], tmp_path)
    assert set(caught.value.codes) == {"config.missing"}
    config = compose_config(["experiment=mine", "seed=3", "optimizer.lr=0.5"], tmp_path)
    assert (config.seed, config.optimizer.lr) == (3, 0.5)


def test_an_override_that_is_given_twice_is_refused() -> None:
    refuse_repeats(["seed=1", "seed=1", "model=gin", "model.dropout=0.1"])
    for words in (["seed=1", "seed=2"], ["optimizer.lr=1", "++optimizer.lr=2"], ["~a", "+a=3"]):
        with pytest.raises(RequestError, match="both set") as caught:
            refuse_repeats(words)
        assert caught.value.codes == ["config.twice"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(RequestError) as caught:
        read_yaml(tmp_path / "pipe.yaml")
    assert caught.value.codes == ["yaml.kind"]


def test_both_lines_of_a_key_are_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("a: {x: 1, y: 2}\nb:\n  x: 1\n  y: 2\n  x: 3\n")
    with pytest.raises(RequestError, match=r"the key 'x' twice, in lines 3 and 5"):
        read_yaml(path)


def test_aliases_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "fine.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n")
    assert read_yaml(path) == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


def test_a_file_with_the_name_of_a_shipped_one_is_refused_unless_it_is_the_same(
    tmp_path: Path,
) -> None:
    own = tmp_path / "data" / "mutag.yaml"
    own.parent.mkdir()
    own.write_text(GOOD.replace("MUTAG", "MINE"))
    with pytest.raises(RequestError, match=r"data/my_mutag\.yaml") as caught:
        compose_config(["data=mutag"], tmp_path)
    assert caught.value.codes == ["config.shadowed"]
    own.rename(own.with_name("my_mutag.yaml"))
    assert compose_config(["data=my_mutag"], tmp_path).data.name == "MINE"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("model.name=" + "a" * 100_000, "config.syntax"),
        ("protocol.grid={optimizer.lr:[" + "0.1," * 25_000 + "1]}", "config.syntax"),
        ("optimizer.lr=" + "[" * 3000 + "]" * 3000, "config.syntax"),
        ("seed=" + "9" * 5000, "config.syntax"),
        ("a." * 20_000 + "b=1", "config.syntax"),
        ("model=null", "config.unknown_option"),
        ("model={a:1}", "config.unknown_option"),
        ("model=[gin,gcn]", "config.several"),
        ("data.num_train=1000000000000", "config.value"),
        (f"data.num_validation={'9' * 400}", "config.value"),
        ("trainer.threads=1000000", "config.machine"),
        ("trainer.devices=1000000", "config.machine"),
        ("protocol.workers=1000000", "config.machine"),
        ("model.num_layers=100000", "config.value"),
        ("data.batch_size=1" + "0" * 30, "config.value"),
        ("trainer.max_epochs=1" + "0" * 30, "config.value"),
        ("model.parameter_budget=1" + "0" * 30, "config.value"),
    ],
)
def test_an_override_beyond_any_use_is_refused(words: str, code: str) -> None:
    with pytest.raises(RequestError) as caught:
        compose_config([words])
    assert caught.value.codes == [code]
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("words", ["protocol.seeds=10000000000", "protocol.seeds=2000000000"])
def test_more_repetitions_than_can_be_counted_are_refused(words: str) -> None:
    with pytest.raises(RequestError) as caught:
        compose_config(["protocol=repeated_seeds", words])
    assert caught.value.codes == ["config.value"]


@pytest.mark.parametrize(
    "words",
    [
        ["model.num_layers=10000", "model.hidden_channels=4096"],
        ["model.hidden_channels=1000000000"],
        ["model=gps", "model.encodings.laplacian=1000000000"],
    ],
)
def test_weights_that_do_not_fit_are_refused_before_they_are_made(words: list[str]) -> None:
    started = time.monotonic()
    with pytest.raises(RequestError) as caught:
        check_model(compose_config(words))
    assert caught.value.codes == ["memory.too_large"]
    assert time.monotonic() - started < 10
