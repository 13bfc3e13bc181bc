"""The colours of all figures: told apart also without red or green, on light and dark pages.

Blue, orange, sky blue and purple are those of Okabe and Ito (2008), whose green is left out.
"""

from __future__ import annotations

COLORS = ("#0072b2", "#e69f00", "#56b4e9", "#cc79a7", "#332288", "#5f6b78", "#b8a000")
"""Colours of what has no order, in the order of use."""

PALE = ("#ffffff", "#a9d3f0", "#fbe5b8", "#e3b3c9", "#dcdfe3", "#f2c879", "#d9d2a0")
"""Fills of nodes, beside lines of `COLORS`."""

SCALE = "viridis"
"""Colour map of ordered numbers."""

ORDERED = ("#332288", "#0072b2", "#56b4e9", "#e69f00")
"""Colours of ordered numbers in lines and points, none of which is pale: best first."""

SHARES = "Blues"
"""Colour map of shares from 0 to 1."""

INK = "#30363d"
"""Outlines and names of nodes."""

NEUTRAL = "#808080"
"""Lines to compare with: zero, the diagonal."""
