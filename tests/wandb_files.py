"""A reader of the files that W&B writes offline."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def wandb_records(path: Path) -> Iterator[Any]:
    """Records of a .wandb file: a log in blocks of 32 KiB, as of LevelDB, after 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


class Read:
    """What a .wandb file holds."""

    def __init__(self, path: Path) -> None:
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.exit_code: int | None = None
        self.run: Any = None
        self.artifacts: list[Any] = []
        self.statistics: list[dict[str, Any]] = []
        # How a metric's history is summarized in one number.
        self.summarized: dict[str, str] = {}
        for record in wandb_records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config = decoded(record.run.config.update)
            elif kind == "history":
                self.history.append(decoded(record.history.item))
            elif kind == "summary":
                self.summary |= decoded(record.summary.update)
            elif kind == "artifact":
                self.artifacts.append(record.artifact)
            elif kind == "stats":
                self.statistics.append(decoded(record.stats.item))
            elif kind == "metric":
                wanted = [f.name for f, on in record.metric.summary.ListFields() if on]
                self.summarized |= dict.fromkeys([record.metric.name] if wanted else [], *wanted)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code


def decoded(items: Any) -> dict[str, Any]:
    return {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}


def wandb_runs(folder: Path) -> list[Read]:
    """Runs below a folder; W&B's own process may still be writing when a run has returned."""
    for _ in range(100):
        paths = sorted(folder.glob("tracking/wandb/offline-run-*/*.wandb"))
        found = [Read(path) for path in paths]
        if all(read.run is not None and read.exit_code is not None for read in found):
            break
        time.sleep(0.2)
    return found


def table_of(run_folder: Path, read: Read, name: str) -> dict[str, Any]:
    """Content of a run's table."""
    (path,) = run_folder.glob(f"tracking/wandb/offline-run-*/files/{read.summary[f'{name}/path']}")
    content: dict[str, Any] = json.loads(path.read_text())
    return content
