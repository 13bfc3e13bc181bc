"""The table of codes in the documentation."""

from __future__ import annotations

from pathlib import Path

from error_codes import page
from freeze.frozen import WRITES

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_docs_list_every_code() -> None:
    if WRITES in ("all", "wording"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), (
        "docs/errors.md is out of date; run UNIONSNN_FREEZE=wording pytest "
        "tests/integration/test_error_codes.py"
    )
