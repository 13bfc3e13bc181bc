"""What autodoc shows of the source: plain types in signatures, docstrings with their colons."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_COLON = "\ue000"
"""Stands for the colon of a property's docstring, which napoleon takes for the end of a type."""

_LINKS = {
    re.compile(r"(?<![\w/`])docs/(\w+)\.md"): r":doc:`/\1`",
    re.compile(r"`space\.(\w+)`"): r":doc:`space.\1 </coefficients>`",
}
"""Names that lead to pages, as they are read in the source, and as links."""


def _plain(signature: str) -> str:
    """Return a signature in which ``Annotated[T, ...]`` is ``T``."""
    while (found := re.search(r"~?(?:typing\.)?Annotated\[", signature)) is not None:
        depth, comma = 1, 0
        for end in range(found.end(), len(signature)):
            depth += {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}.get(signature[end], 0)
            if depth == 1 and signature[end] == "," and not comma:
                comma = end
            if depth == 0:
                break
        inner = signature[found.end() : comma or end]
        signature = signature[: found.start()] + inner + signature[end + 1 :]
    # Sphinx reads a signature as Python, or else shows it as it is.
    return signature.replace("<factory>", "...")


def _signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    return (_plain(signature) if signature else signature, returned)


def _hide(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    if what in ("property", "attribute", "data") and lines:
        lines[0] = re.sub(r"(?<!:):(?!:)", _COLON, lines[0])


def _show(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    for i, line in enumerate(lines):
        line = line.replace(_COLON, ":")
        for words, link in _LINKS.items():
            line = words.sub(link, line)
        lines[i] = line


def setup(app: Sphinx) -> dict[str, Any]:
    """Change docstrings before and after napoleon, whose priority is 500."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _hide, priority=400)
    app.connect("autodoc-process-docstring", _show, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
