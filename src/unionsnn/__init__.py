"""Graph neural networks that see union subgraphs (Xu et al., AAAI 2024)."""

from typing import TYPE_CHECKING

from unionsnn.base.lazy import on_first_use
from unionsnn.base.version import __version__

if TYPE_CHECKING:
    from unionsnn.api import compare, load, sweep, train
    from unionsnn.coefficients import CoefficientSpec, structural_coefficients
    from unionsnn.data.transforms import StructuralCoefficients
    from unionsnn.nn.encoders import StructuralEdgeEncoder
    from unionsnn.nn.gates import StructuralGate
    from unionsnn.nn.plugin import UnionPlugin, fit_statistics
    from unionsnn.nn.whole_network import plug_in
    from unionsnn.runs.model import Model
    from unionsnn.training.records import Result

__getattr__ = on_first_use(
    __name__,
    {
        "unionsnn.api": "compare load sweep train",
        "unionsnn.coefficients": "CoefficientSpec structural_coefficients",
        "unionsnn.data.transforms": "StructuralCoefficients",
        "unionsnn.nn.encoders": "StructuralEdgeEncoder",
        "unionsnn.nn.gates": "StructuralGate",
        "unionsnn.nn.plugin": "UnionPlugin fit_statistics",
        "unionsnn.nn.whole_network": "plug_in",
        "unionsnn.runs.model": "Model",
        "unionsnn.training.records": "Result",
    },
)

__all__ = [
    "CoefficientSpec",
    "Model",
    "Result",
    "StructuralCoefficients",
    "StructuralEdgeEncoder",
    "StructuralGate",
    "UnionPlugin",
    "__version__",
    "compare",
    "fit_statistics",
    "load",
    "plug_in",
    "structural_coefficients",
    "sweep",
    "train",
]


def __dir__() -> list[str]:
    return sorted(__all__)
