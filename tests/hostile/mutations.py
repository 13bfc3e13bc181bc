"""Random changes to the content of files and to words of a command line."""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from typing import Any

import numpy as np

Random = np.random.Generator

WORDS = [
    *("nan", "inf", "-inf", "1e400", "-1", "0", "1", "1.0", "01", "-0", "1e3", "0x10", "1_000"),
    *(str(2**31), str(2**63), str(2**64), "9" * 400, "1e9", "0.1", "-0.5", "٣", "½"),
    *(
        "",
        '""',
        "'",
        '"',
        "`",
        "\t",
        "\0",
        "\r",
        "\n",
        " ",
        ",",
        ";",
        "=",
        ":",
        "#",
        "%",
        "//",
        "\\",
    ),
    *("\u202e", "\u200b", "\ufeff", "\x1b[31m", "\x07", "\x85", "é", "💣", "ß"),
    *("None", "null", "NA", "true", "no", "[]", "{}", "[1,2", "{a: 1}", "???", "~", "*a", "&a b"),
    *(
        "${seed}",
        "${oc.env:HOME}",
        "${x",
        "!!python/object:os.system",
        "<a>",
        "=1+1",
        "../x",
        "/etc",
    ),
    *("choice()", "choice(1)", "range(0,1e9)", "interval(1,0)", "x" * 5000, "id_1", "source"),
]
"""What a number, a name or a key may be replaced by."""

_TOKEN = re.compile(r"[^\s,:;=\[\]{}()<>\"'/]+")


def text(rng: Random, content: str) -> str:
    """Change a text once or a few times: a word, a line, or single characters."""
    for _ in range(1 + int(rng.integers(3)) // 2):
        content = _text(rng, content)
    return content


def _text(rng: Random, content: str) -> str:
    tokens = list(_TOKEN.finditer(content))
    lines = content.split("\n")
    i = int(rng.integers(len(lines)))
    match rng.choice(["word", "word", "word", "swap", "drop", "repeat", "insert", "cut", "indent"]):
        case "word" if tokens:
            found = tokens[int(rng.integers(len(tokens)))]
            return content[: found.start()] + word(rng) + content[found.end() :]
        case "swap" if len(tokens) > 1:
            one, other = sorted(rng.choice(len(tokens), 2, replace=False).tolist())
            a, b = tokens[one], tokens[other]
            return (
                content[: a.start()]
                + b.group()
                + content[a.end() : b.start()]
                + a.group()
                + content[b.end() :]
            )
        case "drop":
            del lines[i]
        case "repeat":
            lines.insert(i, lines[i])
        case "indent":
            lines[i] = str(rng.choice([" ", "\t", "  "])) + lines[i]
        case "cut":
            return content[: int(rng.integers(len(content) + 1))]
        case _:
            at = int(rng.integers(len(content) + 1))
            return content[:at] + word(rng) + content[at:]
    return "\n".join(lines)


def word(rng: Random) -> str:
    """Draw a hostile word."""
    return str(WORDS[int(rng.integers(len(WORDS)))])


def raw(rng: Random, content: bytes) -> bytes:
    """Change bytes: flip a bit, overwrite, insert, delete, repeat or cut."""
    if not content:
        return rng.bytes(8)
    at = int(rng.integers(len(content)))
    end = min(len(content), at + 1 + int(rng.integers(16)))
    match rng.choice(["flip", "flip", "over", "insert", "delete", "repeat", "cut", "large"]):
        case "flip":
            return (
                content[:at]
                + bytes([content[at] ^ (1 << int(rng.integers(8)))])
                + content[at + 1 :]
            )
        case "over":
            return content[:at] + rng.bytes(end - at) + content[end:]
        case "insert":
            return content[:at] + rng.bytes(int(rng.integers(1, 16))) + content[at:]
        case "delete":
            return content[:at] + content[end:]
        case "repeat":
            return content[:end] + content[at:]
        case "large":
            return content[:at] + b"\xff" * (end - at) + content[end:]
        case _:
            return content[:at]


def text_or_raw(rng: Random, content: str) -> bytes:
    """Change a text, seldom its bytes."""
    if rng.random() < 0.15:
        return raw(rng, content.encode())
    return text(rng, content).encode("utf-8", "surrogatepass")


def value(rng: Random, held: Any) -> Any:
    """Draw another value in the place of a leaf of JSON or YAML."""
    others: list[Any] = [None, True, [], {}, "", "x", 0, -1, 2**63, 7.0, [held], {"a": held}]
    if isinstance(held, int | float) and not isinstance(held, bool):
        others += [-held, held + 1, held / 2 + 0.1, str(held), float("nan"), float("inf"), 1e308]
    else:
        others += [f"{held}x", word(rng)]
    return others[int(rng.integers(len(others)))]


def tree(rng: Random, content: Any) -> Any:
    """Change one place of nested mappings and lists: its value, or whether it is there."""
    content = copy.deepcopy(content)
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        keys = node.keys() if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                collect(node[key])

    collect(content)
    # By depth first, or the long lists of a record would get all changes.
    holders = list({id(holder): holder for holder, _ in places}.values())
    holder = holders[int(rng.integers(len(holders)))]
    keys = [key for node, key in places if node is holder]
    key = keys[int(rng.integers(len(keys)))]
    match rng.choice(["value", "value", "value", "drop", "add"]):
        case "drop":
            del holder[key]
        case "add" if isinstance(holder, dict):
            holder[word(rng)] = holder[key]
        case "add":
            holder.append(holder[key])
        case _:
            holder[key] = value(rng, holder[key])
    return content


def json_text(rng: Random, content: str) -> bytes:
    """Change a JSON file: a value, or its text."""
    if rng.random() < 0.3:
        return text_or_raw(rng, content)
    return json.dumps(tree(rng, json.loads(content)), indent=1).encode()


def arrays(rng: Random, content: bytes) -> bytes:
    """Change an npz file: one of its arrays, or its bytes."""
    if rng.random() < 0.3:
        return raw(rng, content)
    with np.load(io.BytesIO(content)) as file:
        held = dict(file)
    name = sorted(held)[int(rng.integers(len(held)))]
    held[name] = array(rng, held[name])
    if rng.random() < 0.1:
        held["x" if rng.random() < 0.5 else word(rng).replace("/", "_").replace("\0", "")] = held[
            name
        ]
    written = io.BytesIO()
    np.savez(written, **{(key or "_"): each for key, each in held.items()})
    return written.getvalue()


def array(rng: Random, held: Any) -> Any:
    """Change an array: an entry, its type or its shape."""
    held = np.array(held)
    numbers = held.dtype.kind in "iuf"
    match rng.choice(
        ["entry", "entry", "entry", "type", "shape", "cut", "text", "object", "empty"]
    ):
        case "entry" if held.size and numbers:
            large = [-1, 1, held.size, 2**31, 10**9, 2**62, -(2**63), 2**63 - 1]
            which = large[int(rng.integers(len(large)))]
            try:
                held.flat[int(rng.integers(held.size))] = which
            except OverflowError:
                held = held.astype(np.int64)
                held.flat[int(rng.integers(held.size))] = which
        case "type" if numbers:
            types = ["f8", "f4", "c16", "u8", "i1", "?", "f2"]
            return held.astype(types[int(rng.integers(len(types)))])
        case "shape":
            return held.reshape(-1) if held.ndim > 1 else held[None]
        case "cut" if held.ndim:
            return held[..., :-1]
        case "text":
            return held.astype(str)
        case "object":
            return held.astype(object)
        case _:
            return held[..., :0] if held.ndim else np.float64(np.nan)
    return held


def archive(rng: Random, content: bytes) -> bytes:
    """Change a zip file of texts: a member, its name, or its bytes."""
    if rng.random() < 0.25:
        return raw(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = sorted(members)[int(rng.integers(len(members)))]
    match rng.choice(["text", "text", "text", "text", "drop", "rename"]):
        case "drop":
            del members[name]
        case "rename":
            members[text(rng, name).replace("\0", "") or "x"] = members.pop(name)
        case _:
            members[name] = text_or_raw(rng, members[name].decode())
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        for each, held in members.items():
            file.writestr(each, held)
    return written.getvalue()
