"""Optional packages, and the extra of the installation that brings each."""

from __future__ import annotations

from collections.abc import Mapping

from unionsnn.base.errors import RequestError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "bench": (
        *("click", "hydra", "lightning_fabric", "matplotlib", "networkx", "omegaconf", "pooch"),
        *("pyarrow", "pydantic", "pytorch_lightning", "requests", "rich", "torchmetrics", "yaml"),
        "jinja2",
    ),
    "search": ("cmaes", "optuna", "plotly", "sklearn", "sqlalchemy"),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "tensorboard": ("tensorboard",),
    "distributed": ("dask", "distributed"),
}
"""Modules by extra; what is not listed comes with the package itself."""


def missing_extra(error: ImportError) -> RequestError | None:
    """Return what to say of a module that is not installed; None if no extra brings it."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is None:
        return None
    return RequestError(
        f"This needs {module}, which is not installed: type pip install 'unionsnn[{extra}]', or "
        "'unionsnn[all]' for everything.",
        code="install.extra",
    )
