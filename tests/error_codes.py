"""The codes of faults, found in the source, as the table of docs/errors.md."""

from __future__ import annotations

import ast
import html
from collections.abc import Iterator
from pathlib import Path

from unionsnn.base import errors

SOURCE = Path(errors.__file__).parents[1]
HEAD = (
    "# Errors\n\n"
    "Each fault is one line on stderr with its code at the end, such as `[data.unknown]`, by which "
    "scripts and tests recognise it: the wording may change, the code does not. In Python, "
    "`error.codes` lists the codes of an exception; all of them derive from "
    "`unionsnn.base.errors.UnionsnnError`. The exit status is 2 for an invalid request and 1 if "
    "the work failed; with `unionsnn -v` a failure comes with a traceback.\n\n"
    "This table is made from the source by `tests/error_codes.py`. It shows the first message of "
    "each code; … stands for a value.\n\n"
    "| code | message |\n"
    "| --- | --- |\n"
)


def page() -> str:
    """Return the page of documentation."""
    messages: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for code, message in _faults(ast.parse(path.read_text())):
            messages[code] = messages.get(code) or message
    return HEAD + "".join(f"| `{code}` | {messages[code]} |\n" for code in sorted(messages))


def _faults(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Code and message of each error that a module makes; no message if it is made elsewhere."""
    named: dict[str, list[ast.Assign]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        made = getattr(errors, node.func.id, None)
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if made is errors.Fault:
            code: ast.expr | None = node.args[1]
        elif isinstance(made, type) and issubclass(made, errors.UnionsnnError):
            if node.args and isinstance(node.args[0], ast.Starred) and "code" not in given:
                # Faults that have codes already.
                continue
            code = given.get("code", ast.Constant(made.default_code))
        else:
            continue
        message = node.args[0] if node.args else None
        if isinstance(message, ast.Name):
            before = [a for a in named.get(message.id, []) if a.lineno < node.lineno]
            message = max(before, key=lambda a: a.lineno).value if before else None
        if isinstance(code, ast.Constant):
            yield str(code.value), _cell(_text(message))


def _text(node: ast.expr | None) -> str:
    """Return a message with … for each value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


def _cell(message: str) -> str:
    if not message.strip("….,: "):
        return ""
    return " ".join(html.escape(message, quote=False).replace("|", "\\|").split())
