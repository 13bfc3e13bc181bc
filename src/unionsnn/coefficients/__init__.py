"""Structural coefficients of edges, on numpy arrays and without torch."""

from unionsnn.coefficients.cache import CoefficientCache
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.spec import ENGINE_VERSION, QUANTITIES, CoefficientSpec
from unionsnn.coefficients.structural import structural_coefficients

__all__ = [
    "ENGINE_VERSION",
    "QUANTITIES",
    "CoefficientCache",
    "CoefficientSpec",
    "SimpleGraph",
    "structural_coefficients",
]
