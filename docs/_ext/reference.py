"""Pages made from the source: keys, networks, data sets, results. They go to docs/generated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.application import Sphinx

if TYPE_CHECKING:
    from unionsnn.config.keys import Key

ROOT = Path(__file__).parents[2]


def configuration() -> str:
    """Return the page of all keys of the configuration, group by group."""
    from unionsnn.config.keys import SEVERAL_SECTIONS, groups, keys_of
    from unionsnn.reports.table import markdown
    from unionsnn.reports.views.keys import groups_tables, keys_table, options_table

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
            "constructor: [Train your own model and data by one command](../own_model_cli.md).\n"
        )
        found = groups()
        for table in groups_tables(found, keys_of("")):
            yield _section(_anchored(markdown(table), keys_of("")))
        for group in found:
            yield f"## {group.name}\n"
            yield markdown(options_table(group)).partition("\n\n")[2]
            if group.name not in SEVERAL_SECTIONS:
                keys = keys_of(group.name)
                yield _anchored(markdown(keys_table("", keys)), keys)

    return "\n".join(sections())


def networks() -> str:
    """Return the page of all networks."""
    from unionsnn.config.keys import keys_of
    from unionsnn.reports.table import markdown
    from unionsnn.reports.views.keys import network_tables, networks_table
    from unionsnn.runs.networks import networks

    facts = networks()
    parts = ["# Networks\n", markdown(networks_table(facts)).partition("\n\n")[2]]
    for each in facts:
        about, keys = network_tables(each, keys_of("model", each.name))
        parts += [_section(markdown(about)), markdown(keys).partition("\n\n")[2]]
    return "\n".join(parts)


def data_sets() -> str:
    """Return the page of all data sets, with what to cite and their licences."""
    from unionsnn.data.catalog import CATALOG
    from unionsnn.data.inventory import OnDisk
    from unionsnn.reports.table import markdown
    from unionsnn.reports.views.datasets import dataset_tables

    parts = [
        "# Data sets\n\n`unionsnn datasets` lists them with what is on disk; "
        "[Add a data set](../add_a_dataset.md) says how your own graphs are read.\n"
    ]
    here = ("on disk", "raw file", "processed", "coefficients")
    for entry in CATALOG.values():
        for i, table in enumerate(dataset_tables(entry, OnDisk((), (), (), False))):
            rows = [row for row in table.rows if row[0] not in here]
            text = markdown(replace(table, rows=rows))
            parts.append(_section(text) if i == 0 else text)
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
        "compared; those of two tables cannot. No hyper-parameters were searched unless the "
        "command says so.\n"
    )
    return f"{head}\n{leaderboard.page()}"


PAGES: dict[str, Callable[[], str]] = {
    "configuration": configuration,
    "networks": networks,
    "data_sets": data_sets,
    "leaderboards": results,
}


def _section(text: str) -> str:
    """Return a table with its title as a section of a page."""
    return text.replace("### ", "## ", 1)


def _anchored(text: str, keys: Sequence[Key]) -> str:
    """Return a table of keys whose rows have addresses."""
    for key in keys:
        text = text.replace(f"\n| {key.name} |", f'\n| <a id="{key.name}"></a>`{key.name}` |', 1)
    return text


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
