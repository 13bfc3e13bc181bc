"""The content of `unionsnn info`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from unionsnn.base.environment import environment
from unionsnn.base.secrets import masked_place
from unionsnn.config.compose import config_folder
from unionsnn.config.packages import package_folders
from unionsnn.data.inventory import KINDS
from unionsnn.data.sources.download import data_root


def information() -> dict[str, Any]:
    """Return versions, devices, folders and the size of the cache, as plain types."""
    root = data_root()
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed else os.cpu_count()
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        **environment(),
        "devices": {
            "cpu": f"{cores} cores",
            "gpu": gpus,
            "mps": torch.backends.mps.is_available(),
        },
        "paths": {
            "data": str(root),
            "mirror": masked_place(os.environ.get("UNIONSNN_MIRROR", "")) or None,
            "configuration": str(config_folder()),
            "output": str(Path("runs").absolute()),
        },
        "packages": {
            folder.origin: ", ".join(sorted(name.removesuffix(".yaml") for name in folder.files()))
            for folder in package_folders(config_folder())
        },
        "bytes_on_disk": {
            name: sum(path.stat().st_size for path in (root / name).rglob("*") if path.is_file())
            for name in KINDS
        },
    }
