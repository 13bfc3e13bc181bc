"""Errors shown to the user: what was given, what is allowed, what to type next.

Each fault has a short code, such as ``data.unknown``, which tests, scripts and documentation refer
to; the wording may change. The command line prints a line for each fault and ends with the error's
exit status.
"""

from __future__ import annotations

from typing import Any, ClassVar

from unionsnn.base.secrets import masked


class Fault(str):
    """One sentence about what is wrong.

    Args:
        text: The sentence.
        code: Its short code: the area, a dot, and the fault.
    """

    code: str

    def __new__(cls, text: str, code: str) -> Fault:
        """Create a string with a code, without passwords."""
        fault = super().__new__(cls, masked(text))
        fault.code = code
        return fault

    def __reduce__(self) -> tuple[type[Fault], tuple[str, str]]:
        """Keep the codes when pickled."""
        return Fault, (str(self), self.code)


class UnionsnnError(Exception):
    """Base class of all errors shown to the user.

    Args:
        faults: A sentence for each fault; a plain string gets `code`.
        code: Code of plain strings; by default that of the class.

    Attributes:
        exit_status: Exit status of the command line.
        default_code: Code of faults without one.
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
        """Codes of the faults."""
        return [fault.code for fault in self.faults]

    def __reduce__(self) -> tuple[type[UnionsnnError], tuple[Any, ...]]:
        """Keep the codes when pickled."""
        return type(self), tuple(self.faults)


class RequestError(UnionsnnError, ValueError):
    """An invalid request; lists every fault."""

    exit_status = 2
    default_code = "request"


class DataError(UnionsnnError, RuntimeError):
    """A mistake in data, or in a request for data."""

    default_code = "data"


class DataRequestError(RequestError, DataError):
    """A request for data that do not exist, or not in this form."""

    default_code = "data"


class MalformedDataError(DataError):
    """A file or array that does not follow its format."""

    default_code = "data.malformed"


class GraphFileError(DataError):
    """A file that cannot be read as graphs."""

    default_code = "data.graph_file"


class DamagedFileError(DataError):
    """A file written by this package whose content has changed; it can be rebuilt."""

    default_code = "file.damaged"


class NotDeterministicError(UnionsnnError, RuntimeError):
    """A network uses an operation without a deterministic algorithm."""

    default_code = "training.not_deterministic"


class NonFiniteLossError(UnionsnnError, RuntimeError):
    """Training reached a loss that is NaN or infinite."""

    default_code = "training.not_finite"


class NonFiniteOutputError(UnionsnnError, RuntimeError):
    """A trained network gives outputs that are NaN or infinite."""

    default_code = "predict.not_finite"


class MemoryRanOutError(UnionsnnError, RuntimeError):
    """A step of training or evaluation did not fit into memory."""

    default_code = "memory.ran_out"


class TooLargeError(RequestError):
    """A batch would not fit into memory."""

    default_code = "memory.too_large"


class TooLongError(RequestError):
    """Coefficients would take longer than allowed."""

    default_code = "coefficient.too_long"


class UndefinedMetricError(UnionsnnError, RuntimeError):
    """The metric is undefined on a part of a split."""

    default_code = "metric.undefined"


class WorkersDiedError(UnionsnnError, RuntimeError):
    """All workers of this command died before the study was finished."""

    default_code = "study.workers_died"


class StudyStorageError(UnionsnnError, RuntimeError):
    """The storage of a study stopped working."""

    default_code = "study.storage_lost"


class MissingObjectiveError(UnionsnnError, RuntimeError):
    """A record lacks the metric that a study optimises."""

    default_code = "study.objective_missing"


class WidthError(DataError):
    """Categorical node features do not match those that a network was made for."""

    default_code = "data.widths"


class MaxPairsError(DataError):
    """A single graph exceeds the limit of pairs."""

    default_code = "data.max_pairs"


class DataUnavailableError(DataError):
    """A file could not be obtained; the user can name another location."""

    default_code = "data.unavailable"


class DamagedEntryError(UnionsnnError, ValueError):
    """A cache entry does not hold what was written."""

    default_code = "cache.damaged"


class DamagedBlocksError(UnionsnnError, ValueError):
    """A file of blocks does not start with what was written."""

    default_code = "cache.damaged"


class RunFolderError(UnionsnnError, RuntimeError):
    """A run folder that cannot be used: in use by another process, damaged, or not writable."""

    default_code = "run.folder"


class FolderInUseError(RunFolderError):
    """A run folder is in use by another process."""

    default_code = "run.in_use"


class ExportError(UnionsnnError, RuntimeError):
    """A network cannot be exported by torch.export."""

    default_code = "export.failed"


class RepetitionFailedError(UnionsnnError, RuntimeError):
    """All repetitions that were started failed, and none is finished."""

    default_code = "run.failed"


class ComparisonFailedError(UnionsnnError, RuntimeError):
    """Repetitions of compared runs failed; names each with the reason."""

    default_code = "compare.failed"


class RankDiedError(UnionsnnError, RuntimeError):
    """One of the processes that train together died."""

    default_code = "run.rank_died"
