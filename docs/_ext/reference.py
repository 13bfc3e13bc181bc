"""Pages made from the source: keys, networks, data sets, results. They go to docs/generated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.application import Sphinx

if TYPE_CHECKING:
    from unionsnn.config.keys import Key
    from unionsnn.models.network import Network

ROOT = Path(__file__).parents[2]


def configuration() -> str:
    """Return the page of all keys of the configuration, group by group."""
    from unionsnn.config.keys import SEVERAL_SECTIONS, groups, keys_of
    from unionsnn.reports.table import markdown
    from unionsnn.reports.views.keys import groups_tables, options_table

    def sections() -> Iterator[str]:
        yield (
            "# Configuration keys\n\nEvery key, with its default, the values that it takes and "
            "what it is for. Type it on the command line, such as `optimizer.lr=0.01`, or write "
            "it into a file of `--config-dir`; `GROUP=OPTION` chooses an option of a group. "
            "`unionsnn config` prints these tables, `unionsnn train --dry-run` the values in "
            "effect. The address of a key is that of this page with the key at its end, such as "
            "`configuration.html#optimizer.lr`.\n\n"
            "`model._target_=MODULE.CLASS`, `data._target_=…` and `optimizer._target_=…` name a "
            "class; one of yours makes the other keys of its group the arguments of its "
            "constructor: [Your own model and data by one command](../own_model_cli.md).\n"
        )
        found = groups()
        for table in groups_tables(found, ())[:1]:
            yield _section(markdown(table))
        yield f"## Keys outside of groups\n\n{keys_list(keys_of(''))}"
        for group in found:
            yield f"## {group.name}\n"
            yield markdown(options_table(group)).partition("\n\n")[2]
            if group.name not in SEVERAL_SECTIONS:
                yield keys_list(keys_of(group.name))

    return "\n".join(sections())


def networks() -> str:
    """Return the page of all networks: what each reads and refuses, then each with its keys."""
    from unionsnn.config.keys import keys_of
    from unionsnn.reports.table import markdown
    from unionsnn.reports.views.keys import network_tables
    from unionsnn.runs.networks import networks

    facts = {each.name: each for each in networks()}
    # Those of one class: the plain network, and the one with a gate.
    pairs: dict[str, list[str]] = {}
    for each in facts.values():
        pairs.setdefault(each.kind, []).append(each.name)
    parts = [
        "# Networks\n\nWhat each network reads and refuses, as tried when this page was made, and "
        "its keys below. `model=NAME` chooses one, `unionsnn models NAME` prints the same. "
        "The gate is optional but for `unionsnn`; a name that begins with union stands for its "
        "class with `gate=default`.\n",
        "| `model=` | with the gate | parameters | nodes | edge features | encodings | export |",
        "| --- | --- | ---: | --- | --- | --- | --- |",
    ]
    reasons: dict[str, list[str]] = {}

    def tried(name: str, *words: str, edges: int | None = None) -> str:
        if reason := refused(f"model={name}", *words, edges=edges):
            reasons.setdefault(reason, []).append(name)
        return "no" if reason else "yes"

    for names in pairs.values():
        (name, *_), each = names, facts[names[0]]
        gated = next((n for n in names if facts[n].gate), "")
        if name == gated:
            gate = "always"
        elif gated:
            gate = f"[{gated}](#{gated.replace('_', '-')})"
        else:
            gate = "`gate=default`" if tried(name, "gate=default") == "yes" else "no"
        if each.reason:
            reasons.setdefault(f"Not exported: {each.reason}.", []).append(name)
        cells = [
            f"[{name}](#{name.replace('_', '-')})",
            gate,
            f"{each.parameters:,}",
            tried(name, "data=cora"),
            tried(name, "data.edge_features=labels", edges=3),
            ", ".join(class_of(each.kind).reads_encodings).replace("_", " ") or "–",
            "yes" if each.exports else "no",
        ]
        parts.append(f"| {' | '.join(cells)} |")
    parts += [
        "",
        "- parameters: at the defaults, with one node feature and one output; nodes: tasks on "
        "nodes, too; encodings: those that `model.encodings` may name; export: by `unionsnn "
        "export`",
    ]
    parts += [f"- {', '.join(f'`{n}`' for n in names)}: {why}" for why, names in reasons.items()]
    parts.append("")
    said = ("model.name", "model._target_")
    keys = {name: [k for k in keys_of("model", name) if k.name not in said] for name in facts}
    for each in facts.values():
        (about, _) = network_tables(each, ())
        parts.append(_section(markdown(about)))
        plain = pairs[each.kind][0]
        if keys[each.name] == keys[plain] and each.name != plain:
            parts.append(f"Its keys are those of [{plain}](#{plain.replace('_', '-')}).\n")
        else:
            parts.append(keys_list(keys[each.name], anchored=False))
    return "\n".join(parts)


def class_of(kind: str) -> type[Network]:
    """Return the class of a network."""
    module, _, name = kind.rpartition(".")
    return getattr(import_module(module), name)


def refused(*words: str, edges: int | None = None) -> str:
    """Return why a network is not made for a request; empty if it is."""
    import torch

    from unionsnn.base.errors import UnionsnnError
    from unionsnn.config.compose import compose_config
    from unionsnn.training.build import build_model

    try:
        with torch.device("meta"):
            build_model(compose_config(["data=mutag", *words]), 1, 1, edges)
    except UnionsnnError as error:
        return error.faults[0].partition(": ")[2]
    return ""


def data_sets() -> str:
    """Return the page of all data sets, with what to cite and their licences."""
    from unionsnn.data.catalog import CATALOG
    from unionsnn.data.inventory import OnDisk
    from unionsnn.reports.table import markdown
    from unionsnn.reports.views.datasets import dataset_tables

    parts = [
        "# Data sets\n\n`unionsnn datasets` lists them with what is on disk; "
        "[Add a data set](../add_a_dataset.md) says how your own graphs are read. The entries in "
        "BibTeX hold authors, title and year; add the venue from the publisher.\n"
    ]
    here = ("on disk", "raw file", "processed", "coefficients")
    for entry in CATALOG.values():
        for i, table in enumerate(dataset_tables(entry, OnDisk((), (), (), False))):
            rows = [row for row in table.rows if row[0] not in here]
            text = markdown(replace(table, rows=rows))
            parts.append(_section(text) if i == 0 else text)
        works = "\n\n".join(work.bibtex() for work in entry.citations)
        parts.append(f":::{{dropdown}} BibTeX\n```bibtex\n{works}\n```\n:::\n")
    return "\n".join(parts)


def results() -> str:
    """Return the page of all recorded results."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import leaderboard

    head = (
        "# Leaderboards\n\nMade from the records in `benchmarks/records` by "
        "`python benchmarks/leaderboard.py`. ± is the standard deviation over repetitions; the "
        "interval is the corrected resampled t interval over folds (Nadeau and Bengio 2003) or "
        "Student's t over seeds. A table holds results of one protocol and one split, which can be "
        "compared; those of two tables cannot. No hyper-parameters were searched unless "
        "the command or the page of results says so.\n"
    )
    # A value stays on one line with its deviation and unit.
    page = leaderboard.page().replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u00a0%")
    return f"{head}\n{page}"


PAGES: dict[str, Callable[[], str]] = {
    "configuration": configuration,
    "networks": networks,
    "data_sets": data_sets,
    "leaderboards": results,
}


def _section(text: str) -> str:
    """Return a table with its title as a section of a page."""
    return text.replace("### ", "## ", 1)


def keys_list(keys: Sequence[Key], *, anchored: bool = True) -> str:
    """Return a table of keys that fits on a phone, whose rows have addresses."""
    lines = ["| key and default | what it is for, *values* |", "| --- | --- |"]
    for key in keys:
        place = f'<a id="{key.name}"></a>' if anchored else ""
        having = f" ({', '.join(key.options)} only)" if key.options else ""
        kind = key.kind.replace("*", "\\*").replace("|", "\\|")
        meaning = key.meaning.replace("*", "\\*").replace("|", "\\|").rstrip(".")
        lines.append(f"| {place}`{key.name}`<br>{key.default} | {meaning}{having}. *{kind}* |")
    return "\n".join([*lines, ""])


def write(folder: Path) -> None:
    """Write the pages that have changed."""
    folder.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        path, text = folder / f"{name}.md", make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before they are read."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "generated"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
