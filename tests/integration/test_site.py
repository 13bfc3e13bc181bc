"""The documentation site: what is public has a place in it; its pages, clicked through."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urldefrag

import pytest

import error_codes
from unionsnn.cli.app import command_line
from unionsnn.config.keys import groups, keys_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class QuietHandler(SimpleHTTPRequestHandler):
    """Serve without a line for each request."""

    def log_message(self, *args: object) -> None:
        pass


def listed(index: Path) -> Iterator[str]:
    """Pages in the tables of contents of a page."""
    for block in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL):
        yield from (row for row in block.splitlines() if row and not row.startswith(":"))


def test_every_page_is_in_a_table_of_contents() -> None:
    named = {*listed(DOCS / "index.md")}
    named |= {f"reference/{name}" for name in listed(DOCS / "reference" / "api.md")}
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for path in DOCS.rglob("*.md")
        if not {"_build", "generated"} & {*path.parts}
    }
    generated = {"configuration", "networks", "data_sets", "leaderboards"}
    pages |= {f"generated/{name}" for name in generated}
    assert pages - named == {"index"}
    assert named - pages == {"tutorials/*"}


def test_every_public_name_and_error_has_a_place() -> None:
    for page in (DOCS / "reference" / "api").glob("*.md"):
        name = "unionsnn" if page.stem == "unionsnn" else f"unionsnn.{page.stem}"
        text = page.read_text()
        assert f"automodule:: {name}\n" in text
        (left,) = re.findall(r":exclude-members: (.*)", text) or [""]
        top = importlib.import_module("unionsnn").__all__
        assert {*left.split(", ")} - {""} <= {*top}
        assert all(importlib.import_module(name).__dict__.get("__all__", ()))
    assert (DOCS / "errors.md").read_text() == error_codes.page()


def test_every_command_has_a_line_in_the_table() -> None:
    table = (DOCS / "reference" / "commands.md").read_text().partition("```{eval-rst}")[0]
    # An entry may hold several commands.
    assert {*re.findall(r"`unionsnn ([a-z-]+)", table)} == {*command_line.commands}


def test_every_key_says_what_it_is_for() -> None:
    silent = [
        key.name
        for group in groups()
        if group.name not in ("experiment", "grid")
        for key in keys_of(group.name)
        if not key.meaning
    ]
    assert silent == []


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's chromium")
def test_no_link_is_dead_and_no_page_is_wider_than_a_phone(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    made = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", DOCS, tmp_path]
    subprocess.run(made, check=True)
    handler = partial(QuietHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as tools:
        Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}/"
        seen, waiting, faults = {f"{root}index.html"}, [f"{root}index.html"], []
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: line.type == "error" and faults.append(str(line.location)))
        while waiting:
            url = waiting.pop()
            page.goto(url)
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > 390:
                faults.append(f"{url} is {wide} wide")
            for target in page.evaluate("[...document.links].map(link => link.href)"):
                place, fragment = urldefrag(target)
                if not place.startswith(root):
                    continue
                if not (tmp_path / place.removeprefix(root)).exists():
                    faults.append(f"{url} links to {target}")
                elif place == url and fragment:
                    if not page.evaluate("id => !!document.getElementById(id)", fragment):
                        faults.append(f"{url} has no {fragment}")
                elif place not in seen and place.endswith(".html"):
                    seen.add(place)
                    waiting.append(place)
        page.goto(f"{root}search.html?q=betweenness")
        page.wait_for_selector("#search-results li")
        browser.close()
        server.shutdown()
    assert len(seen) > 50
    assert faults == []
