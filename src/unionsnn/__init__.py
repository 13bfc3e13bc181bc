"""Graph neural networks that see union subgraphs (Xu et al., AAAI 2024)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unionsnn.data.transforms import StructuralCoefficients
    from unionsnn.nn.gates import StructuralGate
    from unionsnn.nn.plugin import UnionPlugin, fit_statistics
    from unionsnn.structure import CoefficientSpec, structural_coefficients

__version__ = "0.1.0"

# Loaded on first use: `import unionsnn` and the command line's answers must not wait for torch.
_LAZY = {
    "CoefficientSpec": "unionsnn.structure",
    "StructuralCoefficients": "unionsnn.data.transforms",
    "StructuralGate": "unionsnn.nn.gates",
    "UnionPlugin": "unionsnn.nn.plugin",
    "fit_statistics": "unionsnn.nn.plugin",
    "structural_coefficients": "unionsnn.structure",
}

__all__ = [
    "CoefficientSpec",
    "StructuralCoefficients",
    "StructuralGate",
    "UnionPlugin",
    "__version__",
    "fit_statistics",
    "structural_coefficients",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'unionsnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
