"""The known data sets of all formats."""

from __future__ import annotations

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest
from unionsnn.data.sources import amazon, cycles, ogb, planetoid, tu, zinc
from unionsnn.data.sources.facts import CatalogEntry

_FORMATS = (tu.KNOWN, ogb.KNOWN, zinc.KNOWN, cycles.KNOWN, planetoid.KNOWN, amazon.KNOWN)

CATALOG = {entry.name: entry for known in _FORMATS for entry in known.values()}
"""Known sets by the name of their configuration."""


def find(name: str) -> CatalogEntry:
    """Look a set up by the name of its configuration.

    Raises:
        RequestError: There is none; names the nearest.
    """
    if name not in CATALOG:
        raise RequestError(
            f"{name!r} is not in the catalog; there are {', '.join(CATALOG)}."
            f"{nearest(name.lower(), CATALOG)}",
            code="data.unknown",
        )
    return CATALOG[name]
