"""Training: tasks for Lightning, and of a repetition protocols, callbacks and checkpoints."""

from typing import TYPE_CHECKING

from unionsnn.base.lazy import on_first_use

if TYPE_CHECKING:
    from unionsnn.training.checkpoints import load_checkpoint
    from unionsnn.training.records import Repetition, Result
    from unionsnn.training.tasks import (
        GraphBinaryClassification,
        GraphClassification,
        GraphMultilabelClassification,
        GraphRegression,
        LinkPrediction,
        NodeClassification,
        Task,
    )

__getattr__ = on_first_use(
    __name__,
    {
        "unionsnn.training.checkpoints": "load_checkpoint",
        "unionsnn.training.records": "Repetition Result",
        "unionsnn.training.tasks": (
            "GraphBinaryClassification GraphClassification GraphMultilabelClassification "
            "GraphRegression LinkPrediction NodeClassification Task"
        ),
    },
)

__all__ = [
    "GraphBinaryClassification",
    "GraphClassification",
    "GraphMultilabelClassification",
    "GraphRegression",
    "LinkPrediction",
    "NodeClassification",
    "Repetition",
    "Result",
    "Task",
    "load_checkpoint",
]


def __dir__() -> list[str]:
    return sorted(__all__)
