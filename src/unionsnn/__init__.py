"""Graph neural networks that see union subgraphs (Xu et al., AAAI 2024)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unionsnn.base.extras import missing_extra
from unionsnn.base.version import __version__

if TYPE_CHECKING:
    from unionsnn.coefficients import CoefficientSpec, structural_coefficients
    from unionsnn.data.transforms import StructuralCoefficients
    from unionsnn.nn.encoders import StructuralEdgeEncoder
    from unionsnn.nn.gates import StructuralGate
    from unionsnn.nn.plugin import UnionPlugin, fit_statistics
    from unionsnn.nn.whole_network import plug_in

# Loaded on first use: `import unionsnn` and the command line's answers must not wait for torch.
_LAZY = {
    "CoefficientSpec": "unionsnn.coefficients",
    "StructuralCoefficients": "unionsnn.data.transforms",
    "StructuralEdgeEncoder": "unionsnn.nn.encoders",
    "StructuralGate": "unionsnn.nn.gates",
    "UnionPlugin": "unionsnn.nn.plugin",
    "fit_statistics": "unionsnn.nn.plugin",
    "plug_in": "unionsnn.nn.whole_network",
    "structural_coefficients": "unionsnn.coefficients",
}

__all__ = [
    "CoefficientSpec",
    "StructuralCoefficients",
    "StructuralEdgeEncoder",
    "StructuralGate",
    "UnionPlugin",
    "__version__",
    "fit_statistics",
    "plug_in",
    "structural_coefficients",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        try:
            return getattr(import_module(_LAZY[name]), name)
        except ModuleNotFoundError as error:
            fault = missing_extra(error)
            if fault is None:
                raise
            raise ModuleNotFoundError(str(fault), name=error.name) from error
    raise AttributeError(f"module 'unionsnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
