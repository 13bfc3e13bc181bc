"""Networks compiled by torch.compile: what it needs, and its settings during a training.

The compiler is imported only where it is used, since that takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Of shapes and modes of one network, and of networks of a grid: torch gives up after 8.
_VERSIONS = 64


def missing_compiler(device: str) -> str | None:
    """Return what torch.compile lacks on a kind of device; None if nothing."""
    if device == "cuda":
        from torch.utils._triton import has_triton

        return None if has_triton() else "Triton"
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError):
        return "a C++ compiler (g++ or clang++, or the one that CXX names)"
    return None


@contextmanager
def compiler_settings(wanted: bool) -> Iterator[None]:
    """Set what compiled networks need, and restore torch's settings at the end.

    Dropout draws the numbers that it draws in code that is not compiled.

    Args:
        wanted: Whether to do so.
    """
    if not wanted:
        yield
        return
    import torch._dynamo.config
    import torch._inductor.config

    with (
        torch._dynamo.config.patch(
            # Self loops, whose number depends on the data.
            capture_dynamic_output_shape_ops=True,
            recompile_limit=_VERSIONS,
            # Otherwise it goes on uncompiled, and nobody is told.
            fail_on_recompile_limit_hit=True,
        ),
        torch._inductor.config.patch(fallback_random=True),
    ):
        yield


def compiler_failure(error: Exception) -> str | None:
    """Return the first line of what the compiler says; None if the error is not the compiler's."""
    import torch._dynamo.exc

    if not isinstance(error, torch._dynamo.exc.TorchDynamoException):
        return None
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
