"""The page on the architecture names what there is."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
STATION = re.compile(r"^\d+\. `([\w.<>]+)`$", re.MULTILINE)
FILE = re.compile(r"`((?:conf|sweeps|[a-z]+)/[\w/]+\.(?:py|yaml))`")


def test_every_station_is_a_function_of_the_package() -> None:
    stations = STATION.findall(PAGE.read_text())
    assert len(stations) > 60
    for station in stations:
        names = station.split(".<locals>")[0].split(".")
        depth = next(
            i for i in range(len(names), 0, -1) if is_module("unionsnn." + ".".join(names[:i]))
        )
        module = import_module("unionsnn." + ".".join(names[:depth]))
        assert callable(reduce(lambda a, n: getattr_of(a, n), names[depth:], module)), station


def is_module(name: str) -> bool:
    path = ROOT / "src" / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or path.is_dir()


def getattr_of(owner: object, name: str) -> object:
    found = getattr(owner, name)
    # A property is a function of its class.
    return found.fget if isinstance(found, property) else found


def test_every_file_is_there() -> None:
    for name in FILE.findall(PAGE.read_text()):
        if "NAME" not in name:
            assert (ROOT / name).exists() or (ROOT / "src" / "unionsnn" / name).exists(), name


def test_every_row_of_a_table_has_the_cells_of_its_header() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE):
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        for row, count in zip(table.splitlines(), cells, strict=True):
            assert count == cells[0], row


def test_every_name_in_a_module_is_there() -> None:
    """Of rows such as `METRICS` in `config/schema.py`."""
    found = re.findall(r"((?:`\w+`,? ?)+) in `([\w/]+\.py)`", PAGE.read_text())
    assert len(found) > 5
    for names, path in found:
        source = (ROOT / "src" / "unionsnn" / path).read_text()
        for name in re.findall(r"\w+", names):
            assert re.search(rf"^\s*(class|def) {name}\b|^{name}\b", source, re.MULTILINE), name
