"""Compilation with numba: typed, cached on disk, never stale."""

import gc
import hashlib
import os
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from unionsnn.base.display import Display, current_display

Function = TypeVar("Function", bound=Callable[..., Any])

# Nobody calls kernels from C: the wrappers for that are a twentieth of the compilation.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def _source_stamp() -> str:
    """Return a digest of all source files of kernels and of code inlined into them."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[2]
    for folder in ("coefficients", "expressivity"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


SOURCE_STAMP = _source_stamp()


_in_memory: list[str] = []
"""Names of kernels whose machine code is not kept, because no folder can be written."""


def kernel(function: Function) -> Function:
    """Compile a function with numba: no GIL, no Python objects, machine code kept on disk.

    It is kept where numba keeps it (NUMBA_CACHE_DIR, beside the source, or the user's cache), else
    in UNIONSNN_DATA, for all processes that may use that folder. If none can be written, or numba
    is another, the function is compiled in memory: a slower start, the same values.

    To decide whether machine code on disk is fresh, numba checks only the file of the compiled
    function, although code from other files is inlined into it. Its stamp is therefore replaced by
    a digest of both packages that contain kernels.

    Args:
        function: A file-level function in numba's nopython subset.

    Returns:
        The compiled function.
    """
    folders = [numba.config.CACHE_DIR]
    if data := os.environ.get("UNIONSNN_DATA"):
        folders.append(str(Path(data).expanduser().absolute() / "kernels"))
    for folder in folders:
        try:
            return _kept(function, folder)
        except (AttributeError, RuntimeError):
            continue
    _in_memory.append(function.__name__)
    return cast("Function", numba.njit(**_OPTIONS)(function))


def _kept(function: Function, folder: str) -> Function:
    """Compile a function whose machine code is kept in a folder, by default one of numba's choice.

    Raises:
        RuntimeError: No such folder can be written.
        AttributeError: Numba keeps the stamp of the source elsewhere.
    """
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, folder
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = before
    cache_file = compiled._cache._cache_file
    if not hasattr(cache_file, "_source_stamp"):
        raise AttributeError("numba keeps the stamp of the source elsewhere")
    cache_file._source_stamp = SOURCE_STAMP
    return cast("Function", compiled)


def inlined(function: Function) -> Function:
    """Compile a function as a part of the kernels that call it, for one that has a caller or two.

    A kernel is optimised again with each kernel that calls it; in a chain of them, each time.

    Args:
        function: A file-level function in numba's nopython subset.

    Returns:
        The function, which is compiled in memory if it is called from Python.
    """
    return cast("Function", numba.njit(inline="always", **_OPTIONS)(function))


def variant(template: Function, name: str, **functions: Callable[..., Any]) -> Function:
    """Return a kernel with other functions in the place of some that its code names.

    Each variant is compiled, and kept on disk, when it is called first.

    Args:
        template: A kernel, or an inlined function.
        name: Appended to its name.
        functions: Kernels, by the names in the code.
    """
    code: types.FunctionType = template.py_func  # type: ignore[attr-defined]
    names = {**code.__globals__, **functions}
    copy = types.FunctionType(code.__code__, names, f"{code.__name__}_{name}", code.__defaults__)
    # Machine code on disk is found by this name.
    copy.__qualname__ = copy.__name__
    decorate = inlined if "inline" in template.targetoptions else kernel  # type: ignore[attr-defined]
    return cast("Function", decorate(copy))


COMPILING = "compiling kernels (once, about 10 s)"
COMPILING_EACH_TIME = (
    "compiling kernels (about 10 s in each process: no folder can be written for them; set "
    "NUMBA_CACHE_DIR or UNIONSNN_DATA to one that can)"
)


# Objects between two collections of garbage while numba compiles. It allocates millions, nearly all
# of them in use: by default an eighth of the time goes into looking for those that are not.
_COLLECT_EVERY = 100_000


class _Compilations(event.Listener):
    """Shows that numba compiles, and collects less garbage meanwhile.

    Kernels that call others compile these first.

    Args:
        shown: The display, if there is one.
    """

    def __init__(self, shown: Display | None) -> None:
        self.shown = shown
        self._open = 0
        self._threshold, *self._others = gc.get_threshold()

    def on_start(self, event: event.Event) -> None:
        """Show it."""
        self._open += 1
        # 0 switches collecting off.
        if 0 < self._threshold < _COLLECT_EVERY:
            gc.set_threshold(_COLLECT_EVERY, *self._others)
        if self.shown is not None:
            self.shown.show(COMPILING, COMPILING_EACH_TIME if _in_memory else COMPILING)

    def on_end(self, event: event.Event) -> None:
        """Show it no longer."""
        self._open -= 1
        if not self._open:
            self.end()

    def end(self) -> None:
        """Return to what was before."""
        gc.set_threshold(self._threshold, *self._others)
        if self.shown is not None:
            self.shown.end(COMPILING)


@contextmanager
def compiling() -> Iterator[None]:
    """Show in the display that is open, if there is one, when kernels are being compiled."""
    listener = _Compilations(current_display())
    try:
        with event.install_listener("numba:compile", listener):
            yield
    finally:
        listener.end()


def dispatcher(kernels: Sequence[Function], arguments: str, unknown: str) -> Function:
    """Compile a function that calls the kernel at a position in a sequence.

    Its first argument is the position, the others are those of the kernels, which all have the same
    types.

    Args:
        kernels: Compiled functions.
        arguments: Names of their arguments.
        unknown: Error message for any other position.

    Raises:
        NotImplementedError: Raised by the function for a position without a kernel.
    """
    # Written out: in a chain of closures each link would count references to all arrays. What is
    # made here is not kept on disk by itself, but as a part of the kernels that call it.
    names: dict[str, Any] = {f"kernel_{k}": function for k, function in enumerate(kernels)}
    names["unknown"] = unknown
    lines = [f"def call(position, {arguments}):"]
    for k in range(len(kernels)):
        lines += [f"    if position == {k}:", f"        return kernel_{k}({arguments})"]
    exec("\n".join([*lines, "    raise NotImplementedError(unknown)"]), names)
    return cast("Function", numba.njit(**_OPTIONS)(names["call"]))
