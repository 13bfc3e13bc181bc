"""The command line: what it takes is frozen for ever, its wording until it is worded better."""

from __future__ import annotations

from freeze import product
from freeze.frozen import check, check_text


def test_commands_and_what_they_take() -> None:
    found = {path: product.structure(context) for path, context in product.commands()}
    check("commands.json", found)


def test_wording_of_help() -> None:
    for path, context in product.commands():
        name = path.replace(" ", "_")
        check_text(f"help/{name}.txt", product.help_text(context), wording=True)
