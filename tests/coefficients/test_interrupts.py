"""Ctrl-C in the middle of compiled code: answered at once, and nothing finished is lost."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from unionsnn.base.processes import LEFT_BEHIND
from unionsnn.cli import app
from unionsnn.coefficients import CoefficientCache, CoefficientSpec, SimpleGraph, engine, passes

PATH = np.array([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


class Slow(passes.RadiusOne):
    """The last edge takes long, in code that does not look at signals."""

    begun = threading.Event()
    go_on = threading.Event()
    ended = threading.Event()

    def costs(self, routes: Any) -> Any:
        """Make every edge a chunk of its own."""
        return np.full(len(routes), 1e9) * (routes == engine.DIRECT), np.zeros(len(routes))

    def compute(self, begin: int, end: int, *rest: Any) -> None:
        """Wait in the last chunk, on a thread that is not the main one."""
        super().compute(begin, end, *rest)
        if end == self.graph.num_undirected_edges:
            assert threading.current_thread() is not threading.main_thread()
            self.begun.set()
            self.go_on.wait(60)
            self.ended.set()


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ctrl-C as soon as the last edge is begun; what runs on ends with the test."""
    monkeypatch.setattr(engine, "_GRACE_SECONDS", 0.05)
    Slow.begun, Slow.go_on, Slow.ended = (threading.Event() for _ in range(3))

    def interrupt() -> None:
        # The kernels may be compiled first.
        Slow.begun.wait(300)
        time.sleep(0.2)
        _thread.interrupt_main()

    # Commands started in the background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    yield
    signal.signal(signal.SIGINT, before)
    Slow.go_on.set()
    thread.join()
    for left in threading.enumerate():
        if left.name.startswith(LEFT_BEHIND):
            left.join(10)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_edge_does_not_delay_an_interrupt(interrupted: Any, threads: int) -> None:
    graph = SimpleGraph.from_edge_index(PATH, 5)
    kept: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        engine.compute_values(
            Slow(graph, ("a",)), threads=threads, partial=lambda begin, *_: kept.append(begin)
        )
    assert not Slow.ended.is_set()
    assert sorted(kept) == [0, 1, 2]


def test_the_cache_goes_on_where_it_was_interrupted(
    interrupted: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, spec = CoefficientCache(tmp_path), CoefficientSpec()
    right = spec.compute(PATH, 5)
    from unionsnn.coefficients import spec as spec_module

    with monkeypatch.context() as patch:
        patch.setattr(spec_module, "RadiusOne", Slow)
        with pytest.raises(KeyboardInterrupt):
            cache.get(PATH, 5, spec, threads=2)
    assert not cache.entries()
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix != ".lock"] == [".blocks"]
    assert (cache.get(PATH, 5, spec) == right).all()
    assert len(cache.entries()) == 1


def test_the_command_exits_without_waiting_for_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    left = threading.Thread(target=ended.wait, name=f"{LEFT_BEHIND}-0", daemon=True)
    statuses: list[int] = []

    def leave(status: int) -> None:
        statuses.append(status)
        raise SystemExit(1000)

    monkeypatch.setattr(app.os, "_exit", leave)
    monkeypatch.setattr(app.signal, "signal", lambda *_: None)
    monkeypatch.setattr(app.command_line, "main", _interrupt)
    monkeypatch.setattr(sys, "argv", ["unionsnn"])
    with pytest.raises(SystemExit, match="130"):
        app.main()
    assert not statuses
    left.start()
    with pytest.raises(SystemExit, match="1000"):
        app.main()
    ended.set()
    # The next command of this process would not wait for it either.
    left.join()
    assert statuses == [130]


@pytest.mark.parametrize("option", [[], ["--no-cache"]], ids=["cache", "no cache"])
def test_only_what_is_kept_is_said_to_be_kept(
    option: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app.signal, "signal", lambda *_: None)
    monkeypatch.setattr(app.command_line, "main", _interrupt)
    monkeypatch.setattr(sys, "argv", ["unionsnn", "coefficients", "graph.csv", *option])
    with pytest.raises(SystemExit, match="130"):
        app.main()
    said = capsys.readouterr().err
    assert (app.KEPT in said) == (not option)
    assert ("Nothing is kept with --no-cache" in said) == bool(option)


def _interrupt(**_: Any) -> None:
    raise KeyboardInterrupt
