"""The command line: parse, then import and call one function below."""

from unionsnn.cli.app import main

__all__ = ["main"]
