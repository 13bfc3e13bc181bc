"""What is said of the configuration: each key has a type and a meaning, and the files agree."""

from __future__ import annotations

import re

import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.keys import BY_OPTION, content_of, gate_of, groups, keys_of
from unionsnn.config.schema import Config

GROUPS = {each.name: each for each in groups() if each.name not in ("experiment", "grid")}


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_each_key_has_a_type_a_default_and_a_meaning(group: str) -> None:
    keys = keys_of(group)
    assert keys
    assert [key.name for key in keys if not key.meaning] == []
    assert [key.name for key in keys if not key.kind] == []
    assert [key.name for key in keys if not key.default] == []


@pytest.mark.parametrize("group", GROUPS)
def test_each_key_of_an_option_has_a_meaning(group: str) -> None:
    riddle = re.compile(r"(of|null|by|from|over|in|inside|under|divides|spread|only)\b|.*\.\.\.$")
    for option in GROUPS[group].options:
        lacking = [key.name for key in keys_of(group, option) if not (key.meaning and key.kind)]
        assert lacking == [], option
        assert [k.meaning for k in keys_of(group, option) if riddle.match(k.meaning)] == [], option


def test_each_section_and_each_of_its_keys_is_there() -> None:
    for name, field in Config.model_fields.items():
        if name in GROUPS and name != "logger":
            assert field.annotation is not None
            wanted = {f.alias or k for k, f in field.annotation.model_fields.items()}
            found = {key.name.split(".")[1] for key in keys_of(name)}
            assert wanted - found <= {"curve", "max_path", "norm", "readout"} - found, name


def test_types_are_those_of_the_schema() -> None:
    kinds = {key.name: key.kind for group in ("", *GROUPS) for key in keys_of(group)}
    assert kinds["seed"] == "whole number ≥ 0"
    assert kinds["force"] == "true, false"
    assert kinds["trainer.accelerator"] == "auto, cpu, gpu, mps"
    assert kinds["optimizer.betas"] == "list of number ≥ 0 and < 1 or null"
    assert kinds["trainer.swa_start"] == "whole number ≥ 1 or number > 0 and < 1 or null"
    assert kinds["protocol.only"] == "list of whole number ≥ 0 or null"
    assert kinds["data.unlabelled"] == "drop, class, mask or null"
    assert kinds["model.encodings.random_walk"] == "whole number ≥ 0"
    assert kinds["logger.mode"] == "offline, online, disabled"


@pytest.mark.parametrize("key", ["optimizer.lr", "seed", "paths.data", "coefficient.control"])
def test_a_single_key_is_shown(key: str) -> None:
    assert [each.name for each in keys_of(key)] == [key]


def test_a_key_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RequestError) as refused:
        keys_of("optimizer.lrr")
    assert refused.value.codes == ["config.unknown_key"]
    assert "'optimizer.lr'" in str(refused.value)


def test_the_default_gate_is_that_of_the_default_request() -> None:
    assert GROUPS["gate"].default == compose_config([]).gate.preset
    (preset,) = keys_of("gate.preset")
    assert preset.default == GROUPS["gate"].default


def test_an_option_has_its_own_defaults_and_meanings() -> None:
    folder = {key.name: key for key in keys_of("data", "folder")}
    every = {key.name: key.default for key in keys_of("data")}
    assert (every["data.folder"], every["data.tu_name"]) == (BY_OPTION, BY_OPTION)
    assert (every["data.length"], every["data.table"]) == ("4", "labels.csv")
    assert folder["data.table"].meaning == "a CSV file in the folder, with the columns file,label"
    assert folder["data.features"].default == "degree"
    assert all(not key.options for key in folder.values())
    assert "protocol.folds" not in {key.name for key in keys_of("protocol", "holdout")}


@pytest.mark.parametrize("name", ["gin", "union_nested_gin", "unionormer", "curvgn"])
def test_the_content_of_an_option_is_what_a_request_gets(name: str) -> None:
    config = compose_config([f"model={name}"])
    plain = compose_config([]).to_dict()
    plain["coefficient"]["radius"] = None
    parts = {"model": content_of("model", name), "gate": content_of("gate", gate_of(name))}
    assert Config.from_dict({**plain, **parts}) == config


@pytest.mark.parametrize(
    ("group", "option", "code", "suggestion"),
    [
        ("optimiser", None, "config.unknown_group", "optimizer"),
        ("model", "gni", "config.unknown_option", "gin"),
    ],
)
def test_what_is_unknown_is_refused(
    group: str, option: str | None, code: str, suggestion: str
) -> None:
    with pytest.raises(RequestError, match=f"Did you mean '{suggestion}'") as caught:
        keys_of(group, option)
    assert caught.value.codes == [code]
