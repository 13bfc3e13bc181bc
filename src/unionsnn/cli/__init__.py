"""The command line: parse, then import and call one function below."""

import sys
from typing import NoReturn

from unionsnn.base.extras import missing_extra


def main() -> NoReturn:
    """Run the command line, or say which extra of the installation it needs."""
    try:
        from unionsnn.cli import app
    except ModuleNotFoundError as error:
        fault = missing_extra(error)
        if fault is None:
            raise
        print(f"error: {fault} [{fault.codes[0]}]", file=sys.stderr)
        sys.exit(fault.exit_status)
    app.main()


__all__ = ["main"]
