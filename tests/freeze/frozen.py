"""Frozen values: kept in JSON and text beside the tests, compared, or written anew when asked to.

``UNIONSNN_FREEZE=all pytest tests/freeze`` writes every value as the product gives it now, and
``UNIONSNN_FREEZE=wording pytest tests/freeze`` the texts of help alone.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
WRITES = os.environ.get("UNIONSNN_FREEZE")
VOLATILE = "<differs from run to run>"
VOLATILE_KEYS = {"seconds", "versions", "platform", "git_revision", "device", "digests", "digest"}


def check(name: str, found: Any) -> None:
    """Compare a value with the frozen one: keys in their order, types and all but floats exactly.

    Floats may differ in the last digits, as they do between processors.
    """
    path = FOLDER / name
    found = json.loads(json.dumps(found))
    if WRITES == "all":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
    faults = differences(json.loads(path.read_text()), found)
    assert not faults, f"{name} is not what it was:\n" + "\n".join(faults)


def check_text(name: str, found: str, *, wording: bool = False) -> None:
    path = FOLDER / name
    if WRITES == "all" or (WRITES == "wording" and wording):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()


def differences(frozen: Any, found: Any, where: str = "") -> list[str]:
    """Say where two JSON values differ."""
    if type(frozen) is not type(found):
        return [f"{where}: {frozen!r} became {found!r}"]
    if isinstance(frozen, dict):
        if list(frozen) != list(found):
            return [f"{where}: keys {list(frozen)} became {list(found)}"]
        return [f for k in frozen for f in differences(frozen[k], found[k], f"{where}.{k}")]
    if isinstance(frozen, list):
        if len(frozen) != len(found):
            return [f"{where}: {len(frozen)} items became {len(found)}"]
        pairs = enumerate(zip(frozen, found, strict=True))
        return [f for i, (a, b) in pairs for f in differences(a, b, f"{where}[{i}]")]
    if isinstance(frozen, float):
        same = math.isclose(frozen, found, rel_tol=1e-4, abs_tol=1e-7)
    else:
        same = frozen == found
    return [] if same else [f"{where}: {frozen!r} became {found!r}"]


def without_volatile(content: Any, folder: Path) -> Any:
    """Put a placeholder for what depends on the moment, the machine or the test's folder."""
    if isinstance(content, Mapping):
        return {
            k: VOLATILE if k in VOLATILE_KEYS else without_volatile(v, folder)
            for k, v in content.items()
        }
    if isinstance(content, list):
        return [without_volatile(each, folder) for each in content]
    if isinstance(content, str):
        return content.replace(str(folder), "<folder>")
    return content


def tree(folder: Path) -> list[str]:
    """Files below a folder, by their relative paths."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
