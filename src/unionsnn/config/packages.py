"""Configurations that installed packages bring along, by entry points of ``unionsnn.configs``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from unionsnn.base.errors import Fault, RequestError

GROUP = "unionsnn.configs"


@dataclass(frozen=True)
class PackageFolder:
    """A folder of configurations in an installed package.

    Args:
        origin: The distribution and its version.
        path: The folder, laid out as the shipped ``conf``, with studies in ``sweeps``.
    """

    origin: str
    path: Path

    def files(self) -> set[str]:
        """Return the paths of its files, relative to it."""
        return {path.relative_to(self.path).as_posix() for path in self.path.rglob("*.yaml")}

    def options(self, group: str) -> set[str]:
        """Return the options that it adds to a group."""
        folder = self.path / group
        found = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
        return {path.as_posix() for path in found if path.parts[0] != "base"}


def package_folders(shipped: Path) -> tuple[PackageFolder, ...]:
    """Return the folders of all installed packages that have some, in the order of their names.

    Args:
        shipped: Folder of the shipped configuration.

    Raises:
        RequestError: A package names no folder, or has a file that is shipped or another package's.
    """
    return _found(tuple(sys.path), shipped)


@lru_cache(maxsize=8)
def _found(path: tuple[str, ...], shipped: Path) -> tuple[PackageFolder, ...]:
    folders, faults = [], []
    taken = {file.relative_to(shipped).as_posix(): "unionsnn" for file in shipped.rglob("*.yaml")}
    points = entry_points(group=GROUP)
    for point in sorted(points, key=lambda point: (point.dist.name if point.dist else "", point)):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        folder = _folder(point.value, list(path))
        if folder is None:
            faults.append(
                Fault(
                    f"{origin} names {point.value!r} as its folder of configurations, which is no "
                    f"package of it: mend its entry point {point.name!r} of {GROUP}, or uninstall "
                    "it.",
                    "config.package",
                )
            )
            continue
        made = PackageFolder(origin, folder)
        for file in sorted(made.files()):
            if owner := taken.get(file):
                faults.append(
                    Fault(
                        f"{origin} has the configuration {file}, which {owner} has, too: rename "
                        "one, or uninstall a package.",
                        "config.package",
                    )
                )
            taken[file] = origin
        folders.append(made)
    if faults:
        raise RequestError(*faults)
    return tuple(folders)


def _folder(package: str, path: list[str]) -> Path | None:
    """Return the folder of a package without importing it."""
    top, *inner = package.split(".")
    spec = PathFinder.find_spec(top, path)
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place).joinpath(*inner)
        if folder.is_dir():
            return folder
    return None
