"""Names of a package that are imported on first use, so that importing the package stays fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from unionsnn.base.extras import missing_extra


def on_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: Its name.
        modules: The names, separated by blanks, that each module defines.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = getattr(import_module(places[name]), name)
        except ModuleNotFoundError as error:
            fault = missing_extra(error)
            if fault is None:
                raise
            raise ModuleNotFoundError(str(fault), name=error.name) from error
        setattr(sys.modules[package], name, found)
        return found

    return get
