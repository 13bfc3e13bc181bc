"""The codes of faults, found in the source, as the table of docs/errors.md."""

from __future__ import annotations

import ast
import html
from collections.abc import Iterator
from pathlib import Path

from unionsnn.base import errors

SOURCE = Path(errors.__file__).parents[1]
HEAD = """# Errors and exit status

This page lists every error by the code at the end of its line, such as `[data.unknown]`. Scripts \
and tests recognise an error by its code: the wording may change, the code does not. An invalid \
request lists all its faults, one line on stderr for each. In Python, `error.codes` lists the \
codes of an exception; all of them derive from `unionsnn.base.errors.UnionsnnError`.

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | the work failed; `unionsnn -v` adds the traceback |
| 2 | the request is invalid; nothing was started |
| 130 | interrupted by Ctrl-C; finished work is kept |
| 143 | ended by SIGTERM, SIGUSR1 or SIGUSR2, which batch systems send before a time limit |

The tables are made from the source by `tests/error_codes.py`. They show the first message of each \
code; … stands for a value. The address of a code is that of this page with the code at its end, \
such as `errors.html#data.unknown`.
"""
ELSEWHERE = {
    "compare.altered": "A file of a run on disk is not the one that its record was made from; "
    "each is named.",
    "compare.failed": "Repetitions of compared runs failed; each is named with the reason.",
    "compare.other_data": "The data or splits of … are …, those of … would be …; train … again "
    "on the present data.",
    "compare.other_records": "Only runs on the same data, splits and seeds can be compared; what "
    "differs is named.",
    "compare.quotes": "A quotation mark of a configuration is not closed.",
    "config.grid": "A key of the grid does not exist, or one of its values is not allowed; each "
    "is named.",
    "config.reference": "A value such as ${data.name} refers to a key that does not exist.",
    "config.sweep": "Several values for one key: train takes one. What to type instead is named.",
    "expressivity.at_fault": "A coefficient gives two isomorphic graphs different values, or "
    "separates fewer pairs than it must; each is named.",
    "expressivity.options": "Options that do not go together, or need --trained; each is named.",
    "expressivity.override": "… has no effect on this test; allowed are … and keys inside them.",
    "failed": "An error of the operating system or of arithmetic, in its own words.",
    "report.not_a_folder": "… is not a folder; name one with runs in it, such as runs.",
    "reproduce.unknown": "The table has no such data set or model; allowed are ….",
    "run.failed": "All repetitions that were started failed, and none is finished.",
}
"""What codes mean whose messages are put together where they are raised."""


def page() -> str:
    """Return the page of documentation."""
    messages: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for code, message in _faults(ast.parse(path.read_text())):
            messages[code] = messages.get(code) or message
    lines, area = [HEAD], ""
    for code in sorted(messages):
        if code.partition(".")[0] != area:
            area = code.partition(".")[0]
            lines.append(f"\n## {area}\n\n| code | message |\n| --- | --- |\n")
        message = messages[code] or ELSEWHERE[code]
        lines.append(f'| <a id="{code}"></a>`{code}` | {message} |\n')
    return "".join(lines)


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
