"""Imports of large libraries."""

import gc

from unionsnn.base.display import current_display, display
from unionsnn.base.imports import loading


def test_nothing_is_collected_while_libraries_are_loaded_and_all_is_as_before_then() -> None:
    with display("plain") as shown:
        assert shown is not None
        with loading("torch"):
            assert not gc.isenabled()
            assert list(shown.rows) == ["loading torch"]
        assert gc.isenabled()
        assert shown.rows == {}
    assert current_display() is None
    assert gc.get_freeze_count() == 0
    gc.disable()
    try:
        with loading("torch"):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
