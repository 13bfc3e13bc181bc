"""Structural coefficients of edges, on numpy arrays and without torch."""

from unionsnn.coefficients.cache import CoefficientCache
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.space import BASIC_QUANTITIES
from unionsnn.coefficients.spec import ENGINE_VERSION, CoefficientSpec
from unionsnn.coefficients.structural import structural_coefficients

__all__ = [
    "BASIC_QUANTITIES",
    "ENGINE_VERSION",
    "CoefficientCache",
    "CoefficientSpec",
    "SimpleGraph",
    "structural_coefficients",
]
