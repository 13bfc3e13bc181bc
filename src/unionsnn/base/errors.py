"""Errors that are told to the user: what was given, what is allowed, what to type next.

Each fault has a short code, such as ``data.unknown``, by which tests, scripts and documentation
refer to it; its wording is free to become better. The command line turns an error into a line for
each fault and the error's exit status.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Fault(str):
    """One sentence about what is wrong.

    Args:
        text: The sentence.
        code: Its short name: the area, a dot, and what is wrong there.
    """

    code: str

    def __new__(cls, text: str, code: str) -> Fault:
        """Make a string that carries its code."""
        fault = super().__new__(cls, text)
        fault.code = code
        return fault

    def __reduce__(self) -> tuple[type[Fault], tuple[str, str]]:
        """Come whole from another process."""
        return Fault, (str(self), self.code)


class UnionsnnError(Exception):
    """Base of all errors that are told to the user in full.

    Args:
        faults: A sentence for each thing that is wrong; a plain string gets `code`.
        code: Code of the plain strings; that of the class unless given.

    Attributes:
        exit_status: What the command line ends with.
        default_code: Code of a fault that has none of its own.
    """

    exit_status: ClassVar[int] = 1
    default_code: ClassVar[str] = "failed"

    def __init__(self, *faults: str, code: str | None = None) -> None:
        self.faults = [
            fault if isinstance(fault, Fault) else Fault(fault, code or self.default_code)
            for fault in faults
        ]
        super().__init__("\n".join(self.faults))

    @property
    def codes(self) -> list[str]:
        """Code of each fault."""
        return [fault.code for fault in self.faults]

    def __reduce__(self) -> tuple[type[UnionsnnError], tuple[Any, ...]]:
        """Come whole from another process."""
        return type(self), tuple(self.faults)


class RequestError(UnionsnnError, ValueError):
    """A request that cannot be carried out as it stands; lists every fault."""

    exit_status = 2
    default_code = "request"


class DataError(UnionsnnError, RuntimeError):
    """A mistake in data, or in a request for data."""

    default_code = "data"


class MalformedDataError(DataError):
    """A file or array that does not hold what its format says."""

    default_code = "data.malformed"


class GraphFileError(DataError):
    """A file that cannot be read as graphs."""

    default_code = "data.graph_file"


class DamagedFileError(DataError):
    """A file that this package wrote no longer holds what was written; it can be rebuilt."""

    default_code = "file.damaged"


class NotDeterministicError(UnionsnnError, RuntimeError):
    """A network uses an operation that gives the same result twice by chance only."""

    default_code = "training.not_deterministic"


class NonFiniteLossError(UnionsnnError, RuntimeError):
    """Training reached a loss that is NaN or infinite."""

    default_code = "training.not_finite"


class MemoryRanOutError(UnionsnnError, RuntimeError):
    """A step of training or evaluation did not fit into memory."""

    default_code = "memory.ran_out"


class TooLargeError(RequestError):
    """A batch would not fit into memory."""

    default_code = "memory.too_large"


class UndefinedMetricError(UnionsnnError, RuntimeError):
    """The metric is undefined on a part of a split."""

    default_code = "metric.undefined"


class WorkersDiedError(UnionsnnError, RuntimeError):
    """All workers of this command ended before the study did."""

    default_code = "study.workers_died"


class MissingObjectiveError(UnionsnnError, RuntimeError):
    """A record without the metric that the study is about."""

    default_code = "study.objective_missing"


class WidthError(DataError):
    """Categorical node features that are not those that a network was made for."""

    default_code = "data.widths"


class MaxPairsError(DataError):
    """A bound of pairs that a single graph exceeds."""

    default_code = "data.max_pairs"


class DataUnavailableError(DataError):
    """No place has the file; the user can name another one."""

    default_code = "data.unavailable"


class DamagedEntryError(UnionsnnError, ValueError):
    """An entry of the cache is there but is not what was written."""

    default_code = "cache.damaged"


class DamagedBlocksError(UnionsnnError, ValueError):
    """A file of blocks whose beginning is not what was written."""

    default_code = "cache.damaged"


class RunFolderError(UnionsnnError, RuntimeError):
    """A run folder that cannot be used: in use by another process, damaged, or not writable."""

    default_code = "run.folder"


class FolderInUseError(RunFolderError):
    """A run folder that another process holds."""

    default_code = "run.in_use"


class ExportError(UnionsnnError, RuntimeError):
    """A network that torch.export cannot make a program of."""

    default_code = "export.failed"


class RepetitionFailedError(UnionsnnError, RuntimeError):
    """All repetitions that were begun failed, and none is finished."""

    default_code = "run.failed"


class ComparisonFailedError(UnionsnnError, RuntimeError):
    """Repetitions of runs that are to be compared failed; names each with its reason."""

    default_code = "compare.failed"


class RankDiedError(UnionsnnError, RuntimeError):
    """One of the processes that train together ended before the others."""

    default_code = "run.rank_died"
