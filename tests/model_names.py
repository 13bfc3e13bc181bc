"""Which models do without what the others have."""

from __future__ import annotations

UNGATED = ("deep_sets", "mewispool", "ppgn")
"""Networks that the union plug-in has no meaning in."""

GRAPHS_ONLY = ("mewispool",)
"""Networks without a row for each node."""
