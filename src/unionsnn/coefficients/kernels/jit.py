"""The one place that touches numba's decorator: typed, cached on disk, never stale."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def _source_stamp() -> str:
    """Return a digest of every source file that holds kernels or is inlined into them."""
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

    numba looks only at the file of the compiled function to decide whether the machine code on
    disk is fresh, although code from other files is inlined into it. The stamp is therefore
    replaced by a digest of both packages that hold kernels. Where that is not possible (another
    numba, or no writable folder for its cache) the function is compiled in memory: a slower start,
    same values.

    Args:
        function: A file-level function in numba's nopython subset.

    Returns:
        The compiled function.
    """
    options = {"nogil": True, "error_model": "numpy"}
    try:
        compiled = numba.njit(cache=True, **options)(function)
        cache_file = compiled._cache._cache_file
        if not hasattr(cache_file, "_source_stamp"):
            raise AttributeError("numba keeps the stamp of the source elsewhere")
        cache_file._source_stamp = SOURCE_STAMP
    except (AttributeError, RuntimeError):
        compiled = numba.njit(**options)(function)
    return compiled
