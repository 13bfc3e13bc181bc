"""What a search finds first: keys and error codes, which it leads to their rows, and titles."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

_KINDS = {"generated/configuration": "confval", "errors": "errorcode"}
"""The pages whose rows have addresses, and what these are."""

_UNSEARCHED = ("changelog", "architecture")
"""Pages whose words only get in the way of a search; their titles are found."""


def _register(app: Sphinx, doctree: nodes.document) -> None:
    page = app.env.docname
    if page in _UNSEARCHED:
        app.env.metadata[page]["no-search"] = ""
    # A search weighs the words of an entry of the index more than those of a title.
    title = next(doctree.findall(nodes.title))
    entry = ("single", title.astext(), "", "main", None)
    title.parent.insert(1, addnodes.index(entries=[entry]))
    if page in _KINDS:
        domain = app.env.get_domain("std")
        for node in doctree.findall(nodes.raw):
            for name in re.findall(r'<a id="(.+?)">', node.astext()):
                domain.note_object(_KINDS[page], name, name, location=node)  # type: ignore[attr-defined]


def _first(app: Sphinx) -> None:
    # An error code may have the name of a key, whose row is then the first.
    app.env.get_domain("std").object_types["confval"].attrs["searchprio"] = 0


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what a page holds once it is read."""
    app.add_object_type("errorcode", "errorcode", objname="error code")
    app.connect("builder-inited", _first)
    app.connect("doctree-read", _register)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
