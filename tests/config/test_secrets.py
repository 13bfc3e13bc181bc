"""Passwords reach neither messages nor records, trackers or checkpoints."""

from __future__ import annotations

import json
import logging
import sys
import types
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from unionsnn.base.errors import DataError, DataUnavailableError, Fault, RequestError
from unionsnn.base.secrets import masked, masked_content
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.data.sources.download import fetch
from unionsnn.data.sources.pyg import make_dataset
from unionsnn.runs.failures import Failure
from unionsnn.runs.information import information
from unionsnn.runs.run_folder import RunFolder
from unionsnn.search.storage import open_storage, shown
from unionsnn.training.tracking import GuardedRun

SECRET = "geheim7"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a postgresql+psycopg://me:geheim7@h/db b", "a postgresql+psycopg://me:***@h/db b"),
        ("postgresql://me:p@geheim7/w:x@h/db", "postgresql://me:***@h/db"),
        ("postgresql//me:geheim7@h/db", "postgresql//me:***@h/db"),
        ("postgresql:/me:geheim7@h/db", "postgresql:/me:***@h/db"),
        ("postgresql:me:geheim7@h", "postgresql:***@h"),
        ("me:geheim7@h:5432/db", "me:***@h:5432/db"),
        ("data.mirror=https://u:geheim7@h/x: no", "data.mirror=https://u:***@h/x: no"),
        ("https://geheim7@h/x", "https://***@h/x"),
        ("'http://a:ge\"geheim7@b'", "'http://a:***@b'"),
        ("https://h/x?token=geheim7&y=1", "https://h/x?token=***&y=1"),
        ("host=h password=geheim7 user=x", "host=h password=*** user=x"),
        ("https://h/x?sv=1&sig=geheim7&y=1", "https://h/x?sv=1&sig=***&y=1"),
        ("https://h/x?key=geheim7", "https://h/x?key=***"),
    ],
)
def test_a_message_has_no_password(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown
    assert str(Fault(text, "x.y")) == shown
    assert RequestError(text).faults == [shown]
    assert Failure.of(ValueError(text)).reason == shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me@h/db",
        "https://host:8080/x",
        "rooted@5, a~@1+2",
        "model.num_tokens=5",
        "monkey=5 design=7 key=value",
        "The key 'x' does not exist. Keys there: data.x.",
    ],
)
def test_other_words_stay(text: str) -> None:
    assert masked(text) == text
    assert masked_content({"a": [text]}) == {"a": [text]}


@pytest.mark.parametrize(
    "mirror",
    [
        "http://u:geheim7@host/x",
        "http://geheim7@host/x",
        "http://u:it's geheim7@host/x",
        "http://u:p@geheim7/w@host/x",
        "http//u:geheim7@host/x",
        "u:geheim7@host",
        "https://host/x?sig=geheim7",
        "http://u:geheim7@[::1",
    ],
)
def test_a_mirror_is_shown_without_its_password(
    mirror: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIONSNN_MIRROR", mirror)
    paths = information()["paths"]
    assert SECRET not in json.dumps(paths)
    assert "host" in paths["mirror"] or "[::1" in paths["mirror"]
    assert SECRET not in json.dumps(masked_content({"data": {"mirror": mirror}}))


def test_a_mirror_that_is_no_url_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match="it is not a URL") as refusal:
        fetch("a/b.txt", root=tmp_path, mirror="http://u:geheim7@[::1", upstream=None)
    assert SECRET not in str(refusal.value)


class Failing:
    """A data set that repeats its argument in its failure."""

    def __init__(self, token: str, deep: object = None) -> None:
        raise ValueError(f"no access with {token}, {deep}")

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int) -> None:
        pass


@pytest.mark.parametrize("more", [{}, {"other": 1}])
def test_arguments_of_a_data_set_are_named_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, object]
) -> None:
    monkeypatch.setitem(sys.modules, "failing_set", types.SimpleNamespace(Failing=Failing))
    monkeypatch.setattr(Failing, "__module__", "failing_set")
    arguments = {"token": SECRET, "deep": {"password": "geheim8"}, **more}
    with pytest.raises(DataError) as refusal:
        make_dataset("failing_set.Failing", arguments, tmp_path)
    assert "geheim" not in str(refusal.value)
    assert "***" in str(refusal.value)


def test_values_of_secret_variables_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("SHORT_TOKEN", "false")
    assert masked("key 0123456789abcdef, false") == "key ***, false"


def test_values_of_secret_variables_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "abc0123456789")
    monkeypatch.setenv("SHORT_PASSWORD", "xy")
    monkeypatch.setenv("GRAPHS", "some/folder")
    words = ["data=pyg", "data.name=mine", "data.dataset=own.Graphs"]
    arguments = (
        "auth: ${oc.env:HUB_TOKEN}, also: ['a ${oc.env:HUB_TOKEN}'], "
        "short: ${oc.env:SHORT_PASSWORD}, root: ${oc.env:GRAPHS}, word: oxygen, key: ${.auth}"
    )
    config = compose_config([*words, f"data.arguments={{{arguments}}}"])
    assert (config.data.model_extra or {})["arguments"]["auth"] == "abc0123456789"
    recorded = config.replace({"seed": 1}).to_dict()
    assert recorded["data"]["arguments"] == {
        "auth": "***",
        "also": ["a ***"],
        "short": "***",
        # It determines the run.
        "root": "some/folder",
        "word": "oxygen",
        "key": "***",
    }
    assert config_hash(Config.from_dict(config.to_dict())) == config_hash(config)


def test_tracebacks_have_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def fails() -> None:
        try:
            raise ValueError(f"postgresql://me:{SECRET}@h/db")
        except ValueError:
            logging.getLogger("unionsnn").debug("failed", exc_info=True)
            raise

    root = logging.getLogger()
    held, root.handlers[:] = root.handlers[:], []
    command_line.add_command(fails)
    try:
        done = CliRunner().invoke(command_line, ["--verbose", "fails"])
    finally:
        root.handlers[:] = held
        del command_line.commands["fails"]
    assert done.exit_code == 1
    assert done.stderr.count("Traceback (most recent call last)") == 2
    assert "postgresql://me:***@h/db" in done.stderr
    assert SECRET not in done.output


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    monkeypatch.setenv("MIRROR", f"https://me:{SECRET}@h/x")
    return compose_config(
        [
            "data.mirror=${oc.env:MIRROR}",
            "logger=mlflow",
            f'logger.uri="http://me:{SECRET}@h:5000"',
            f"paths.output={tmp_path}",
            f"paths.data={tmp_path / 'data'}",
        ]
    )


def test_what_is_recorded_has_no_password_and_the_run_is_the_same(
    secret: Config, tmp_path: Path
) -> None:
    assert secret.data.mirror == f"https://me:{SECRET}@h/x"
    assert getattr(secret.logger, "uri", None) == f"http://me:{SECRET}@h:5000"
    assert SECRET not in json.dumps(secret.to_dict())
    assert secret.to_dict()["data"]["mirror"] == "https://me:***@h/x"
    # As after a failure, so that no run is started.
    (tmp_path / "tracking").mkdir()
    (tmp_path / "tracking" / "failure_mlflow.txt").touch()
    assert SECRET not in str(GuardedRun(secret, tmp_path, "results").description)
    assert config_hash(secret) == config_hash(compose_config([]))
    # Again, as when it is resumed.
    for _ in range(2):
        with RunFolder.of(secret).locked() as folder:
            assert SECRET not in (folder.path / "config.json").read_text()
            (folder.path / "unfinished").mkdir(exist_ok=True)
            (folder.path / "unfinished" / "00.ckpt").touch()


def test_a_recorded_mirror_is_replaced_by_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("UNIONSNN_MIRROR", raising=False)
    places = {"upstream": None, "root": tmp_path / "root", "mirror": "https://me:***@h/x"}
    with pytest.raises(DataUnavailableError, match="set UNIONSNN_MIRROR"):
        fetch("a.txt", **places)  # type: ignore[arg-type]
    (tmp_path / "a.txt").write_text("x")
    monkeypatch.setenv("UNIONSNN_MIRROR", str(tmp_path))
    assert fetch("a.txt", **places).read_text() == "x"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql//me:geheim7@h/db",
        "postgresql+psycopg://me:a@geheim7@h/db",
        "postgresql+psycopg://me:geheim7/db",
        "postgresql+psycopg://me:1/geheim7@h/db",
        "me:geheim7@h/db",
        "geheim7",
        "journal://",
        "nonsense://me:geheim7@h/db",
    ],
)
def test_a_malformed_storage_is_not_repeated(url: str) -> None:
    with pytest.raises(RequestError) as caught:
        open_storage(url, 1, 0)
    assert caught.value.codes == ["study.storage"]
    assert SECRET not in str(caught.value)
    assert SECRET not in shown(url)


@pytest.mark.parametrize(
    ("url", "package"),
    [("mysql://me@h/db", "mysqlclient"), ("mysql+pymysql://me@h/db", "pymysql")],
)
def test_an_absent_driver_is_named(url: str, package: str) -> None:
    with pytest.raises(RequestError, match=f"pip install {package}"):
        open_storage(url, 1, 0)
