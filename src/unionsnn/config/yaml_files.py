"""YAML files of the user's: read only if they are what they seem, and small enough."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import yaml

from unionsnn.base.errors import RequestError

_MOST_BYTES = 4_000_000
_MOST_VALUES = 100_000
_OTHER_NUMBER = re.compile(
    r"[-+]?(0[0-7_]*[1-7][0-7_]*|0b[01_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)"
)
"""What YAML 1.1 reads as a number that does not look like it."""


def read_yaml(path: Path) -> Any:
    """Read a YAML file.

    Raises:
        RequestError: if it is no regular file, not UTF-8, not YAML, names a key of a mapping twice,
            or holds more than any configuration, written out or by aliases of aliases.
        OSError: if it cannot be opened.
    """
    # A pipe would be waited for, a device be read without end.
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise RequestError(f"{path} is not a regular file; name a YAML file.", code="yaml.kind")
    if status.st_size > _MOST_BYTES:
        raise RequestError(
            f"{path} has {status.st_size:,} bytes; a configuration has at most {_MOST_BYTES:,}.",
            code="yaml.size",
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            _expanded(root, {}, path)
        return yaml.safe_load(text)
    except RequestError:
        raise
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise RequestError(
            f"{path} is not UTF-8 (line {line}); save it as UTF-8.", code="yaml.encoding"
        ) from None
    except yaml.YAMLError as error:
        hint = " Indent with blanks, not tabs." if "'\\t'" in str(error) else ""
        raise RequestError(
            f"{path} is not YAML: {' '.join(str(error).split())}.{hint}", code="yaml.syntax"
        ) from None
    except RecursionError:
        raise RequestError(f"{path} is nested too deeply.", code="yaml.size") from None
    except (ValueError, TypeError) as error:
        # Numbers with too many digits, dates that do not exist, keys that are no names.
        raise RequestError(
            f"{path} holds a value that cannot be read: {error}.", code="yaml.value"
        ) from None


def user_folder(config_dir: str | Path) -> Path:
    """Return the user's configuration folder.

    Raises:
        RequestError: if there is none.
    """
    if not Path(config_dir).is_dir():
        raise RequestError(
            f"--config-dir is {str(config_dir)!r}; there is no such folder.", code="config.folder"
        )
    return Path(config_dir)


def _expanded(node: yaml.Node, known: dict[yaml.Node, int], path: Path) -> int:
    """Return the number of values below a node, with those that its aliases repeat."""
    if known.get(node) == 0:
        raise RequestError(
            f"{path}, line {node.start_mark.line + 1}: an alias stands for a value that "
            "contains it.",
            code="yaml.size",
        )
    if node in known:
        return known[node]
    if (
        isinstance(node, yaml.ScalarNode)
        and node.style is None
        and node.tag.rpartition(":")[2] in ("int", "float")
        and _OTHER_NUMBER.fullmatch(node.value)
    ):
        raise RequestError(
            f"{path}, line {node.start_mark.line + 1}: YAML reads {node.value} as another number "
            f"(octal, binary, or in sixties); write it in decimal, or as text: '{node.value}'.",
            code="yaml.number",
        )
    known[node], children = 0, list[yaml.Node]()
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        children = [each for pair in node.value for each in pair]
        first: dict[tuple[str, str], yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            before = first.setdefault((key.tag, key.value), key)
            if before is not key:
                raise RequestError(
                    f"{path} has the key {key.value!r} twice, in lines "
                    f"{before.start_mark.line + 1} and {key.start_mark.line + 1}; keep one.",
                    code="yaml.duplicate",
                )
    known[node] = 1 + sum(_expanded(child, known, path) for child in children)
    if known[node] > _MOST_VALUES:
        raise RequestError(
            f"{path} stands for {known[node]:,} values, with all aliases; a configuration has at "
            f"most {_MOST_VALUES:,}.",
            code="yaml.size",
        )
    return known[node]
