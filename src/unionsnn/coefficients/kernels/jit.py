"""Compilation with numba: typed, cached on disk, never stale."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from unionsnn.base.display import Display, current_display

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


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


def kernel(function: Function) -> Function:
    """Compile a function with numba: no GIL, no Python objects, machine code kept on disk.

    To decide whether machine code on disk is fresh, numba checks only the file of the compiled
    function, although code from other files is inlined into it. Its stamp is therefore replaced by
    a digest of both packages that contain kernels. If that is not possible (another numba, or no
    writable cache folder), the function is compiled in memory: a slower start, the same values.

    Args:
        function: A file-level function in numba's nopython subset.

    Returns:
        The compiled function.
    """
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
        cache_file = compiled._cache._cache_file
        if not hasattr(cache_file, "_source_stamp"):
            raise AttributeError("numba keeps the stamp of the source elsewhere")
        cache_file._source_stamp = SOURCE_STAMP
    except (AttributeError, RuntimeError):
        compiled = numba.njit(**_OPTIONS)(function)
    return compiled


COMPILING = "compiling kernels (once, about 30 s)"


class _Compilations(event.Listener):
    """Shows that numba compiles: kernels that call others compile these first.

    Args:
        shown: The display.
    """

    def __init__(self, shown: Display) -> None:
        self.shown = shown
        self._open = 0

    def on_start(self, event: event.Event) -> None:
        """Show it."""
        self._open += 1
        self.shown.show(COMPILING, COMPILING)

    def on_end(self, event: event.Event) -> None:
        """Show it no longer."""
        self._open -= 1
        if not self._open:
            self.shown.end(COMPILING)


@contextmanager
def compiling() -> Iterator[None]:
    """Show in the display that is open, if there is one, when kernels are being compiled."""
    shown = current_display()
    if shown is None:
        yield
        return
    try:
        with event.install_listener("numba:compile", _Compilations(shown)):
            yield
    finally:
        shown.end(COMPILING)


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
