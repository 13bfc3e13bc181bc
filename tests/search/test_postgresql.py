"""Studies on a PostgreSQL server on loopback, run by an unprivileged user."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from killed_workers import GRID, Book, check_whole, child, kill_one_of, wait_for
from unionsnn.base.errors import RequestError
from unionsnn.search.queue import open_study
from unionsnn.search.storage import open_storage
from unionsnn.search.study import Study

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: extra postgresql")

Make = Callable[..., Study]


class Server:
    """A server with a database of its own in a temporary folder."""

    def __init__(self) -> None:
        # Not below pytest's folder, which belongs to its user alone.
        self.folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
        # PostgreSQL refuses to be run by root.
        self.user = "nobody" if os.geteuid() == 0 else None
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql+psycopg://unionsnn@127.0.0.1:{self.port}/postgres"
        command = ["initdb", "-D", "data", "-A", "trust", "-U", "unionsnn", "-E", "UTF8"]
        subprocess.run(
            [*command, "--locale=C", "--no-sync"],
            cwd=self.folder,
            user=self.user,
            check=True,
            capture_output=True,
        )
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            ["postgres", "-D", "data", "-h", "127.0.0.1", "-p", str(self.port), "-k", "", "-F"],
            cwd=self.folder,
            user=self.user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.answers, 30)

    def answers(self) -> bool:
        try:
            psycopg.connect(
                host="127.0.0.1", port=self.port, user="unionsnn", dbname="postgres"
            ).close()
        except psycopg.OperationalError:
            return False
        return True

    def make_database(self, name: str) -> None:
        options = {"host": "127.0.0.1", "port": self.port, "user": "unionsnn", "dbname": "postgres"}
        with psycopg.connect(**options, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")

    def stop(self) -> None:
        # Connections are cut, not waited for.
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)

    def restart(self) -> None:
        self.stop()
        time.sleep(1.0)
        self.start()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    absent = [name for name in ("initdb", "postgres") if shutil.which(name) is None]
    if absent:
        pytest.skip(f"no PostgreSQL server on this machine: {', '.join(absent)} not found")
    made = Server()
    yield made
    made.stop()
    shutil.rmtree(made.folder)


def test_four_workers_one_killed_and_the_server_restarted(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    study = make(**GRID, options={"storage": server.url})
    book = Book(tmp_path, monkeypatch, seconds=0.3)
    child(open_study, study).join()
    kill_one_of(4, study, book, server.restart)
    check_whole(study, book, make(**GRID, options={"name": "alone"}))


def test_several_commands_at_once_make_one_study(make: Make, server: Server) -> None:
    # Not even the tables are there yet.
    server.make_database("empty")
    url = server.url.replace("/postgres", "/empty")
    study = make(**GRID, options={"storage": url})
    commands = [child(open_study, study) for _ in range(4)]
    for each in commands:
        each.join(60)
    assert [each.exitcode for each in commands] == [0] * 4
    held = open_study(study)
    assert sorted(t.user_attrs["cell"] for t in held.get_trials()) == list(range(12))


def test_a_server_that_is_not_there_is_told_at_once_without_its_password() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        url = f"postgresql+psycopg://me:secret@127.0.0.1:{port}/postgres"
        with pytest.raises(RequestError, match="cannot be opened") as caught:
            open_storage(url, 1, 0)
    assert "secret" not in str(caught.value)
