"""An experiment as a search measures it: repetitions are trained and validated, never tested."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import yaml
from pytorch_lightning.callbacks import Callback

from unionsnn.base.errors import Fault, RequestError, UnionsnnError
from unionsnn.base.processes import refuse_second_run
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.source import Progress
from unionsnn.runs.experiment import refuse_other_code, refuse_other_data
from unionsnn.runs.pending import recorded_splits
from unionsnn.runs.run_folder import RunFolder
from unionsnn.tracking.csv import Csv
from unionsnn.tracking.wandb import SWEEP_VARIABLE, Wandb
from unionsnn.training.build import build_data, check_request
from unionsnn.training.devices import check_accelerator
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training, train_repetition
from unionsnn.training.resume import SharedPoint, point_of
from unionsnn.training.together import groups_of, say_alone, train_together
from unionsnn.training.tracking import GuardedRun, parameters_text

logger = logging.getLogger(__name__)


class EpochLog(Callback):
    """Log the metrics of each epoch.

    Args:
        run: Run that logs them; None for none.
    """

    def __init__(self, run: GuardedRun | None) -> None:
        self.run = run

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the epoch."""
        if self.run is not None:
            metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
            self.run.log(metrics, trainer.current_epoch)


def validated(
    config: Config, folder: RunFolder[Config], data: GraphDataModule, watch: Callback | None = None
) -> Iterator[Repetition]:
    """Yield the record of each wanted repetition, which is trained unless it is finished.

    Args:
        config: The configuration.
        folder: Its run folder, locked.
        data: Its data module.
        watch: Callback for the epochs.
    """
    finished, trainings = _left(config, folder, data)
    for index in config.protocol.wanted:
        record = finished.get(index)
        if record is None:
            record = train_repetition(trainings[index], data, watch, test=False)
            folder.save_repetition(index, record)
        yield record


def validate_together(
    candidates: Sequence[tuple[Config, RunFolder[Config]]],
    data: GraphDataModule,
    point: SharedPoint,
    called: str,
) -> None:
    """Train in one step what candidates of one shape lack, where that is to be.

    `validated` finds it recorded, and trains what is left.

    Args:
        candidates: Their configurations and run folders, locked.
        data: Their data module.
        point: Where the state is kept.
        called: What several candidates are called.

    Raises:
        RequestError: if that is asked for, and they cannot be trained together.
    """
    lacking = []
    for config, folder in candidates:
        try:
            trainings = _left(config, folder, data)[1].values()
        except UnionsnnError:  # Which it meets again, and alone.
            continue
        # Those that have begun alone go on alone.
        lacking += [training for training in trainings if not training.unfinished.exists()]
    folders = {folder.path: folder for _, folder in candidates}
    for group in groups_of(lacking, lambda _: data, point, called):
        for training, found in train_together(group, data, point, test=False):
            if isinstance(found, Exception):
                say_alone(training, found)
            else:
                folders[training.folder].save_repetition(training.index, found)


def _left(
    config: Config, folder: RunFolder[Config], data: GraphDataModule
) -> tuple[dict[int, Repetition], dict[int, Training]]:
    """Return the finished repetitions of a candidate, and the trainings of the others."""
    finished = folder.finished()
    refuse_other_data(folder, finished, data.dataset_id)
    refuse_other_code(folder, finished, accept=config.accept_code)
    splits = recorded_splits(folder, config.protocol, data, config.seed)
    if any(tracker.keeps_runs for tracker in config.logger.parts):
        # The candidate has one run, which replaces those of its repetitions.
        config = config.replace({"logger": Csv()})
    return finished, {
        index: Training(config, splits[index], index, folder.path)
        for index in config.protocol.wanted
        if index not in finished
    }


@dataclass(frozen=True)
class SweepRun:
    """What one run of a W&B sweep has come to.

    Args:
        sweep: Id of the sweep.
        metrics: Means over the repetitions of the validation metrics.
        repetitions: Metrics by repetition.
        folder: Where the repetitions are recorded.
    """

    sweep: str
    metrics: dict[str, float]
    repetitions: dict[int, dict[str, float]]
    folder: Path

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return {
            "sweep": self.sweep,
            "metrics": self.metrics,
            "repetitions": {str(index): row for index, row in self.repetitions.items()},
            "folder": str(self.folder),
        }


def run_for_agent(config: Config, sweep: str, progress: Progress | None = None) -> SweepRun:
    """Train and validate the repetitions, and log their means as the one run of W&B's agent.

    The test part is not read: the sweep chooses among such runs. They have their own folders, in
    ``sweeps/ID`` of the output folder.

    Args:
        config: A checked configuration.
        sweep: Id of the sweep.
        progress: Called during long work on data.

    Raises:
        RequestError: if the request does not fit a sweep, the data, the model or the machine.
    """
    refuse_second_run()
    if faults := [*_agent_faults(config)]:
        raise RequestError(*faults)
    check_accelerator(config)
    config.logger.check()
    check_request(config)
    torch.set_num_threads(config.trainer.threads)
    output = Path(config.paths.output).expanduser() / "sweeps" / sweep
    config = config.replace(
        {"paths.output": str(output), "logger": config.logger.in_group(f"sweep-{sweep}")}
    )
    alone = len(config.protocol.wanted) == 1
    rows: dict[int, dict[str, float]] = {}
    means: dict[str, float] = {}
    with RunFolder.of(config, tested=False).locked() as folder:
        data = build_data(config, progress)
        run = GuardedRun(
            config,
            folder.path,
            "sweep",
            axis="epoch" if alone else "repetition",
            label=parameters_text(_agent_parameters()) or None,
        )
        with run:
            if not alone:
                point = SharedPoint(point_of(folder.path), config)
                validate_together([(config, folder)], data, point, "candidates")
            for record in validated(config, folder, data, EpochLog(run if alone else None)):
                rows[record.index] = record.metrics
                means = {
                    key: math.fsum(row[key] for row in rows.values()) / len(rows)
                    for key in record.metrics
                }
                if not alone:
                    of_one = {f"one/{key}": value for key, value in record.metrics.items()}
                    run.log({**means, **of_one}, record.index)
            run.report(means)
    return SweepRun(sweep, means, rows, folder.path)


def _agent_faults(config: Config) -> Iterator[Fault]:
    """Say what cannot be one run of a sweep."""
    trackers = [tracker for tracker in config.logger.parts if isinstance(tracker, Wandb)]
    if not trackers:
        yield Fault(
            f"{SWEEP_VARIABLE} is set, so an agent of W&B waits for this run; type logger=wandb "
            "logger.mode=online in the sweep's command, or unset the variable.",
            "agent.logger",
        )
    elif trackers[0].mode != "online":
        logger.warning(
            "logger.mode is %r, so the sweep does not hear of this run before `wandb sync`; type "
            "logger.mode=online in the sweep's command.",
            trackers[0].mode,
        )
    if config.protocol.keeps_test_curve:
        yield Fault(
            "protocol=cross_validation_paper tests in every epoch, and a sweep must not see the "
            "test part; type protocol=cross_validation.",
            "agent.protocol",
        )
    if config.protocol.grid is not None:
        yield Fault(
            "protocol.grid searches inside each repetition: put its keys into the sweep's "
            "parameters instead.",
            "agent.grid",
        )
    if config.protocol.workers > 1 or config.trainer.several:
        yield Fault(
            "A run of a sweep is trained by one process: type trainer=default protocol.workers=1, "
            "and start several agents.",
            "agent.workers",
        )
    if config.run_dir is not None or config.force:
        yield Fault(
            "Each run of a sweep has its own folder: leave out run_dir and force.", "agent.run_dir"
        )


def _agent_parameters() -> Mapping[str, Any]:
    """Return the parameters that the agent has chosen, by their names in the sweep."""
    path = os.environ.get("WANDB_SWEEP_PARAM_PATH")
    if not path or not Path(path).is_file():
        return {}
    content = yaml.safe_load(Path(path).read_text()) or {}
    return {k: v["value"] for k, v in content.items() if isinstance(v, dict) and "value" in v}
