"""Imports: of large libraries, and of the user's own modules, also from the working folder."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unionsnn.base.display import stage
from unionsnn.base.errors import RequestError


@contextmanager
def loading(libraries: str) -> Iterator[None]:
    """Inside the block, large libraries are imported: it is shown, and no garbage is collected.

    torch, PyG and Lightning make a million objects that stay; looking through all of them again and
    again takes a sixth of the time.

    Args:
        libraries: Their names, for the display.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with stage(f"loading {libraries}"):
            yield
    finally:
        if collects:
            if not gc.get_freeze_count():
                # Makes all of them old at once, without looking through them.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def working_folder(module: str) -> Iterator[None]:
    """Inside the block, a module of the working folder is found first, as Python's scripts find it.

    The path of other modules is left as it is, so that nothing else can be found there by mistake.

    Args:
        module: Dotted name of the module.

    Raises:
        RequestError: Another module of this name was imported from elsewhere before.
    """
    top, folder = module.partition(".")[0], Path.cwd()
    places = [place for place in (folder / f"{top}.py", folder / top) if top and place.exists()]
    if not places or top in sys.stdlib_module_names:
        yield
        return
    files = [folder / f"{top}.py", folder / top / "__init__.py"]
    before = getattr(sys.modules.get(top), "__file__", None)
    here = [file for file in files if file.is_file()]
    if before and here and not any(file.samefile(before) for file in here if Path(before).exists()):
        raise RequestError(
            f"{top} was imported from {before} before, and {here[0]} is another file of that name: "
            "rename it, or start Python again in this folder.",
            code="target.other_module",
        )
    # A module may have been written since the folder was last looked through.
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def check_path(path: str, key: str) -> None:
    """Refuse what is no dotted path, with the one that it stands for.

    Args:
        path: What was given.
        key: Its key in the configuration, for messages.
    """
    module, _, name = path.rpartition(".")
    if not module or name == "py" or not all(part.isidentifier() for part in path.split(".")):
        words = path.removeprefix("./").replace(":", ".").replace("/", ".")
        near = ".".join(part for part in words.split(".") if part and part != "py")
        if "." not in near:
            near = f"{near}.NAME" if ".py" in path else f"MODULE.{near or 'NAME'}"
        raise RequestError(
            f"{key} is {path!r}; it must be a dotted path, MODULE.NAME, where MODULE.py is a file "
            f"of this folder, or the module of an installed package: type {key}={near}.",
            code="target.path",
        )


def import_named(path: str, key: str) -> Any:
    """Import what a dotted path names, from the working folder or an installed package.

    Args:
        path: The path, such as ``mypkg.net.Net``.
        key: Its key in the configuration, for messages.

    Raises:
        RequestError: It cannot be imported; says where it was looked for.
    """
    check_path(path, key)
    module, _, name = path.rpartition(".")
    try:
        with working_folder(module):
            return getattr(importlib.import_module(module), name)
    except RequestError:
        raise
    except Exception as error:  # A user's module may fail in any way.
        # Not one that the module itself imports.
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(
            f"{error.name}."
        )
        where = f" It was looked for in {Path.cwd()} and among installed packages." * absent
        reason = f"{type(error).__name__}: {error}"
        raise RequestError(
            f"{key} is {path!r}, which cannot be imported ({reason}).{where}",
            code="target.import",
        ) from error
