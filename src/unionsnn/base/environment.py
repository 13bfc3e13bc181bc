"""The environment of a result: versions, platform, revision of the source."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from unionsnn.base.version import __version__

PACKAGES = ("torch", "pytorch-lightning", "torch-geometric", "numpy", "numba", "networkx", "scipy")


@cache
def environment() -> dict[str, Any]:
    """Return the versions and platform that are stored in a record."""
    versions = {"python": platform.python_version(), "unionsnn": __version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    return {"versions": versions, "platform": platform.platform(), "git_revision": git_revision()}


def git_revision() -> str | None:
    """Return the git revision, with suffix ``-dirty`` if files differ; None outside a checkout."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    inside = any((parent / ".git").exists() for parent in folder.parents[:3])
    return done.stdout.strip() if inside else None
