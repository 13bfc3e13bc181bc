"""The documentation site: what is public has a place in it; its pages, clicked through.

The slow test builds the site, or looks at one that is there: UNIONSNN_SITE=docs/_build/html.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urldefrag

import click
import pytest
import yaml

import unionsnn
from unionsnn.cli.app import command_line
from unionsnn.config.compose import completions
from unionsnn.config.keys import groups

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

DARK_WORDS = """() => [...document.querySelectorAll("article :is(p, li, td, h2)")]
    .filter(each => {
        const [r, g, b] = getComputedStyle(each).color.match(/\\d+/g).map(Number);
        return each.offsetParent && each.innerText.trim() && Math.max(r, g, b) < 96;
    }).map(each => each.innerText.slice(0, 40)).slice(0, 3)"""
"""A script that returns words which are too dark on a dark page."""


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
        for path in [*DOCS.rglob("*.md"), *DOCS.glob("tutorials/*.ipynb")]
        if not {"_build", "generated"} & {*path.parts}
    }
    generated = {"configuration", "networks", "data_sets", "leaderboards"}
    pages |= {f"generated/{name}" for name in generated}
    assert pages - named == {"index"}
    assert named <= pages


PROSE = [path for path in sorted(DOCS.glob("*.md")) if "{include}" not in path.read_text()]


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.stem)
def test_a_page_begins_with_what_the_reader_gets(page: Path) -> None:
    title, first, *_ = page.read_text().split("\n\n")
    assert re.fullmatch("# .+", title)
    assert re.match(r"[\w\"*`]", first)
    assert len(first.split()) > 8


API = DOCS / "reference" / "api"


def described() -> set[str]:
    """Public names in the pages of the API."""
    names = set[str]()
    for page in API.glob("*.md"):
        text = page.read_text()
        names |= {*re.findall(r"auto(?:class|function|data):: (\S+)", text)}
        for module in re.findall(r"automodule:: (\S+)", text):
            namespace = importlib.import_module(module)
            (left,) = re.findall(r":exclude-members: (.*)", text) or [""]
            public = {*getattr(namespace, "__all__", vars(namespace))} - {*left.split(", ")}
            names |= {f"{module}.{name}" for name in public}
    return names


def test_every_public_name_is_described_once() -> None:
    public = {
        f"{module.name}.{name}"
        for module in pkgutil.walk_packages(unionsnn.__path__, "unionsnn.")
        if module.ispkg and module.name != "unionsnn.cli"
        for name in getattr(importlib.import_module(module.name), "__all__", ())
    }
    public |= {f"unionsnn.{name}" for name in unionsnn.__all__}
    names = {name.rpartition(".")[2] for name in described()}
    assert {name for name in public if name.rpartition(".")[2] not in names} == {
        "unionsnn.__version__"
    }
    # A name that a package passes on is described where it is shortest.
    assert not {f"unionsnn.{name}" for name in unionsnn.__all__} & (public - described()) - {
        "unionsnn.__version__"
    }


def test_names_in_examples_are_described() -> None:
    written_there = {"jaccard", "diameter"}
    names = {name.rpartition(".")[2] for name in described()}
    for path in [ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("tutorials/*.ipynb")]:
        # A notebook's lines end with a written-out \n.
        text = path.read_text().replace("\\n", "\n")
        found = re.findall(r"from unionsnn[\w.]* import (?:\(([^)]*)\)|(.*))", text)
        imported = {*re.findall(r"\w+", " ".join(sum(found, ())))}
        assert imported - names - written_there == set(), path.name


def test_every_error_code_has_an_anchor_and_a_meaning() -> None:
    text = (DOCS / "errors.md").read_text()
    rows = re.findall(r'\| <a id="(.*?)"></a>`(.*?)` \| (.*) \|', text)
    assert len(rows) == text.count("<a id=") > 200
    assert [row for row in rows if row[0] != row[1] or not row[2].strip("… .:")] == []


def test_every_command_has_a_line_in_the_table() -> None:
    table = (DOCS / "reference" / "commands.md").read_text().partition("```{eval-rst}")[0]
    # An entry may hold several commands.
    assert {*re.findall(r"`unionsnn ([a-z-]+)", table)} == {*command_line.commands}


def test_every_command_and_option_says_what_it_is_for() -> None:
    waiting: list[tuple[str, click.Command]] = [("unionsnn", command_line)]
    silent = []
    while waiting:
        name, command = waiting.pop()
        context = click.Context(command)
        silent += [name] * (not command.help)
        silent += [
            f"{name} {each.opts[0]}"
            for each in command.params
            if isinstance(each, click.Option) and not (each.get_help_record(context) or ("", ""))[1]
        ]
        if isinstance(command, click.Group):
            waiting += [(f"{name} {key}", each) for key, each in command.commands.items()]
    assert silent == []


def test_every_key_and_option_is_on_the_page_of_keys() -> None:
    sys.path.insert(0, str(DOCS / "_ext"))
    page = importlib.import_module("reference").configuration()
    said = dict(re.findall(r'\n\| <a id="(.*?)"></a>.* \| (.*)\. \*.*\* \|', page))
    # The keys that a run is made of, as the shell completes them.
    keys = {word.removesuffix("=") for word in completions("") if word.endswith("=")}
    silent = {key for key in keys if not _said(key, said)}
    assert {key for key in silent if f"`{key}" not in page.partition("##")[0]} == set()
    sections = re.split(r"(?m)^## (.*)\n", page)
    for group in groups():
        about = sections[sections.index(group.name) + 1]
        assert {o for o in group.options if f"\n| {o} | " not in about} == set()
        assert {o for o in group.options if f"\n| {o} |  |" in about} == set()


def _said(key: str, said: Mapping[str, str]) -> str:
    """What a page says of a key, or of the mapping that it is a part of."""
    return said.get(key) or (_said(key.rpartition(".")[0], said) if "." in key else "")


def test_the_page_of_versions_agrees_with_what_is_installed() -> None:
    text = (DOCS / "install.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"(?m)^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text()))
    needed = " ".join([*project["dependencies"], *project["optional-dependencies"]["bench"]])
    rows = re.findall(r"(?m)^\| ([a-z-]+).* \| ([\d.]+) \| ([\d.]+) \|$", text)
    assert len(rows) == 4
    for name, lowest, version in rows:
        assert re.search(rf"(?:^| ){name}>={re.escape(lowest)}(?:[ ,]|$)", needed), name
        assert pinned[name] == version
    assert f"| Python | {project['requires-python'].partition(',')[0][2:]} |" in text


def test_the_workflow_runs_what_there_is() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    lines = [step["run"] for step in steps if "run" in step]
    assert ".ci/run" in lines
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    targets = re.findall(r"(?m)^([a-z-]+):.*##", (ROOT / "Makefile").read_text())
    made = [line.split()[1] for line in lines if line.startswith("make ")]
    assert {*made} <= {*targets}
    assert {"docs", "test-slow"} <= {*made}
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    claimed = {each.rpartition(" ")[2] for each in classifiers if ":: 3." in each}
    assert {*versions} == claimed


def test_the_release_holds_what_its_documentation_and_tests_read() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    included = {*tools["hatch"]["build"]["targets"]["sdist"]["include"]}
    assert {path.name for path in ROOT.glob("*.md")} <= included
    assert {".ci", ".github", "Makefile", "docs", "tests"} <= included


def test_signatures_have_plain_types() -> None:
    sys.path.insert(0, str(DOCS / "_ext"))
    plain = importlib.import_module("api")._plain
    limits = "FieldInfo(annotation=NoneType, metadata=[Ge(ge=0)])"
    seeds = f"seeds: ~typing.Annotated[list[~typing.Annotated[int, {limits}]], {limits}]"
    assert plain(f"(*, {seeds} = <factory>)") == "(*, seeds: list[int] = ...)"
    assert plain("(x: dict[str, int], y: int)") == "(x: dict[str, int], y: int)"


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's chromium")
def test_no_link_is_dead_and_no_page_is_wider_than_its_window(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    if (site := Path(os.environ.get("UNIONSNN_SITE", tmp_path))) == tmp_path:
        made = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", DOCS, site]
        subprocess.run(made, check=True)
    handler = partial(QuietHandler, directory=site)
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
            for width, scheme in ((390, "light"), (1280, "dark")):
                page.set_viewport_size({"width": width, "height": 844})
                page.emulate_media(color_scheme=scheme)
                if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                    faults.append(f"{url} is {wide} wide at {width}")
            # The words of a page in the dark: none is nearly as dark as what is behind it.
            faults += [f"{url} in the dark: {words}" for words in page.evaluate(DARK_WORDS)]
            for target in page.evaluate("[...document.links].map(link => link.href)"):
                place, fragment = urldefrag(target)
                if not place.startswith(root):
                    continue
                if not (site / place.removeprefix(root)).exists():
                    faults.append(f"{url} links to {target}")
                elif place == url and fragment:
                    if not page.evaluate("id => !!document.getElementById(id)", fragment):
                        faults.append(f"{url} has no {fragment}")
                elif place not in seen and place.endswith(".html"):
                    seen.add(place)
                    waiting.append(place)
        for words, place in [
            ("coefficient.radius", "generated/configuration.html#coefficient.radius"),
            ("lr", "generated/configuration.html#optimizer.lr"),
            ("config.no_effect", "errors.html#config.no_effect"),
            ("space of coefficients", "coefficients.html"),
            ("betweenness", ""),
        ]:
            page.goto(f"{root}search.html?q={words}")
            page.wait_for_selector("#search-results li a")
            first = page.locator("#search-results li a").first.get_attribute("href") or ""
            if place not in first:
                faults.append(f"a search for {words} finds {first} first")
        browser.close()
        server.shutdown()
    assert len(seen) > 50
    assert faults == []
