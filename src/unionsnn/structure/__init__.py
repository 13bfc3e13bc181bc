"""Structural coefficients of edges: graph theory on numpy arrays, without torch."""

from unionsnn.structure.cache import CoefficientCache
from unionsnn.structure.coefficients import structural_coefficients
from unionsnn.structure.entries import DamagedEntryError
from unionsnn.structure.graph import SimpleGraph
from unionsnn.structure.spec import ENGINE_VERSION, QUANTITIES, CoefficientSpec

__all__ = [
    "ENGINE_VERSION",
    "QUANTITIES",
    "CoefficientCache",
    "CoefficientSpec",
    "DamagedEntryError",
    "SimpleGraph",
    "structural_coefficients",
]
