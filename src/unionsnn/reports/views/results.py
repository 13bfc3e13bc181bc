"""The record of one experiment, its plan, and the environment, for the terminal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from unionsnn.base.words import duration_text, format_bytes
from unionsnn.config.grid import cell_text
from unionsnn.reports.formatting import (
    COMPILING,
    CUT,
    count_text,
    is_cut,
    metric_text,
    possible,
    spread_text,
)
from unionsnn.reports.paper import paper_value
from unionsnn.reports.table import Table, key_value_table, numbers, output_console, show
from unionsnn.runs.failures import failure_lines
from unionsnn.training.records import Result


def results_table(record: Result) -> Table:
    """Return the metrics of each repetition of one experiment."""
    report = record.protocol.report
    found = {key for row in record.repetitions for key in row.metrics}
    validated = sorted(key for key in found - {report} if key.startswith("val_"))
    keys = [report, *validated]
    rows: list[list[Any]] = [
        [
            row.index + 1,
            *(metric_text(key, row.metrics.get(key)) for key in keys),
            None if row.best_epoch is None else row.best_epoch + 1,
            row.epochs,
            row.seconds,
        ]
        for row in record.repetitions
    ]
    rows += [[row.index + 1, "failed", *[None] * (len(keys) + 2)] for row in record.failed]
    title = f"{record.model} on {record.data}"
    if record.control != "none":
        title += f", control: {record.control}"
    if (debug := record.config.get("debug")) is not None:
        title += f", debug={debug}: no result"
    columns = [*numbers("#", *keys, "best", "epochs"), *numbers("time", form=duration_text)]
    spare = ["time", "epochs", "best", *reversed(validated)]
    return Table(title, columns, rows, spare=spare)


def summary_line(record: Result) -> str:
    """Return the reported result with spread, interval and protocol."""
    result, protocol = record.result, record.protocol
    if result is None:
        return f"No repetition of {protocol.name} is finished."
    report = protocol.report
    first = f"{report}: {metric_text(report, result.mean)}"
    if result.std is not None and result.interval is not None:
        low, high = possible(report, result.interval) or result.interval
        first += (
            f" ± {metric_text(report, result.std)}, 95 % interval [{metric_text(report, low)}, "
            f"{metric_text(report, high)}] ({result.method}"
            f"{f', {CUT}' if is_cut(report, result.interval) else ''})"
        )
    if result.epoch is not None:
        first += f", epoch {result.epoch + 1}"
    lines = [first, f"protocol: {protocol.name} ({protocol.selection})"]
    lines += selected_lines(record)
    paper = paper_value(record)
    if paper is not None and report == f"test_{paper.metric}":
        spread = "" if paper.std is None else f" ± {metric_text(report, paper.std)}"
        lines.append(
            f"paper: {metric_text(report, paper.mean)}{spread} ({paper.table}, {paper.model}, "
            "under the paper's own protocol)"
        )
    lines += evaluation_lines(record)
    if record.missing:
        done = len(record.repetitions)
        lines.append(f"INCOMPLETE: {done} of {protocol.repetitions} repetitions")
    lines += [
        f"FAILED {reason} (rerun the command to train it again)"
        for reason in failure_lines(record.failed)
    ]
    return "\n".join(lines)


def selected_lines(record: Result) -> list[str]:
    """Return the grid cell selected in each repetition, with its validation result."""
    lines = []
    for row in record.repetitions:
        if (grid := row.grid) is not None:
            value = next(c[grid["on"]] for c in grid["cells"] if c["cell"] == grid["selected"])
            shown = metric_text(grid["on"], value)
            lines.append(f"chosen in {row.index + 1}: {cell_text(grid['selected'])} ({shown})")
            failed = [cell for cell in grid["cells"] if "failed" in cell]
            if failed:
                lines.append(
                    f"FAILED in {row.index + 1}: {len(failed)} of {len(grid['cells'])} cells, the "
                    f"first {cell_text(failed[0]['cell'])}: {failed[0]['failed']}"
                )
    return lines


def evaluation_lines(record: Result) -> list[str]:
    """Return how much the metric of a network that samples in evaluation varies with the seed."""
    report = record.protocol.report
    values = [
        [row.metrics[report], *(other[report] for other in row.other_evaluations)]
        for row in record.repetitions
        if row.other_evaluations
    ]
    if not values:
        return []
    # Repetitions may have been evaluated different numbers of times.
    mean = statistics.fmean(statistics.fmean(row) for row in values)
    std = math.sqrt(statistics.fmean(statistics.variance(row) for row in values))
    times = sorted({len(row) for row in values})
    return [
        f"evaluated {' or '.join(map(str, times))} times with other seeds: "
        f"{spread_text(report, mean, std)} (spread within a repetition; the figure above is the "
        "first)"
    ]


def provenance(record: Result) -> str:
    """Return what a reader needs to trust or reproduce the result."""
    versions = record.versions
    one = versions if isinstance(versions, Mapping) else (versions or [{}])[0]
    shown = ("unionsnn", "torch", "torch-geometric")
    packages = ", ".join(f"{name} {one[name]}" for name in shown if name in one)
    devices = sorted({r.device for r in record.repetitions})
    count = count_text(record.parameters)
    config = record.config
    gate = record.gate or "none"
    if config["gate"].get("features"):
        gate += f" of {', '.join(config['gate']['features'])}"
    if "inject" in config["gate"]:
        edge = "an edge feature"
        gate += f" as {edge if config['gate']['inject'] == 'edge' else f'weight and {edge}'}"
    if record.control != "none":
        gate += f", control {record.control} (not the real coefficient)"
    return "\n".join(
        [
            f"data: {record.dataset}, split {(record.protocol.split_hash or '')[:12]}, "
            f"seed {record.protocol.seed}",
            f"model: {count} parameters{_budget(config)}, {_width(record)}"
            f"gate {gate}, {_edges(config)}config {record.config_hash}",
            f"{packages}; {', '.join(devices)}; {duration_text(record.seconds)} of training",
        ]
    )


def _edges(config: Mapping[str, Any]) -> str:
    read = config["data"].get("edge_features")
    return "" if read is None else f"edge {'features' if read == 'both' else read}, "


def _width(record: Result) -> str:
    # A network of the user's may have none.
    return "" if record.hidden_channels is None else f"hidden {record.hidden_channels}, "


def _budget(config: Mapping[str, Any]) -> str:
    budget = config["model"]["parameter_budget"]
    return "" if budget is None else f" of a budget of {budget:,}"


def print_results(record: Result, console: Console | None = None) -> None:
    """Print the final table, the summary and its provenance."""
    show(
        [results_table(record), Text(summary_line(record), style="bold"), provenance(record)],
        console,
    )


def folder_lines(folder: Path, record: Result, before: Collection[int]) -> list[str]:
    """Say where the results are, and how many of them were finished before.

    Args:
        folder: The run folder.
        record: Its merged record.
        before: Repetitions that were finished before.
    """
    count, all_of_them = len(before), len(record.repetitions)
    lines = [f"run folder: {folder}"]
    if count:
        which = f"{count} of {all_of_them}" if count < all_of_them else "All"
        lines.append(
            f"{which} repetitions were finished before and not trained again; force=true starts "
            "over."
        )
    return lines


def print_dry_run(plan: Mapping[str, Any]) -> None:
    """Print the plan of an experiment."""
    output_console().print(Syntax(yaml.safe_dump(plan["config"], sort_keys=False), "yaml"))
    sizes, budget = plan["sizes"][0], _budget(plan["config"])
    width, epoch = plan["hidden_channels"], plan["seconds_per_epoch"]
    hidden = "" if width is None else f" (hidden {width})"
    grid = f"{plan['cells']} cells in each repetition: {plan['trainings']:,} trainings"
    rows = [
        ("run folder", plan["run_dir"]),
        ("protocol", f"{plan['protocol']} ({plan['selection']}), reports {plan['report']}"),
        ("repetitions", f"{len(plan['pending'])} of {plan['repetitions']} still to train"),
        *([("grid", grid)] if plan["cells"] > 1 else []),
        ("data", plan["dataset"]),
        ("split", ", ".join(f"{name} {size:,}" for name, size in sizes.items())),
        *(
            (
                "not computed yet",
                f"coefficients {', '.join(each['columns'])} of {each['edges']:,} edges: about "
                f"{duration_text(each['seconds'])}, once",
            )
            for each in plan["to_compute"]
        ),
        *(
            (label, str(plan[key]))
            for label, key in (("node features", "num_features"), ("outputs", "num_outputs"))
            if plan[key] is not None
        ),
        ("parameters", f"{plan['parameters']:,}{budget}{hidden}"),
        *([] if plan["batch"] is None else [("largest batch", plan["batch"])]),
        *([] if epoch is None else [("an epoch", f"about {duration_text(epoch)}")]),
        (
            "all epochs",
            f"at most about {duration_text(plan['seconds_at_most'])}"
            if plan["pending"]
            else "all are trained",
        ),
        *([("compiling", f"on top of that: {COMPILING}")] if plan["compiles"] else []),
    ]
    show([key_value_table("Dry run: nothing was trained", rows)])


def info_table(content: Mapping[str, Any]) -> Table:
    """Return versions, devices, folders and the size of the cache."""
    devices, sizes = content["devices"], content["bytes_on_disk"]
    rows = [(name, number) for name, number in content["versions"].items()]
    rows += [("platform", content["platform"]), ("git revision", content["git_revision"] or "–")]
    rows += [("cpu", devices["cpu"]), ("gpu", ", ".join(devices["gpu"]) or "none")]
    rows += [(f"path: {k}", v or "–") for k, v in content["paths"].items()]
    rows += [(f"configurations: {k}", v) for k, v in content["packages"].items()]
    rows += [(f"on disk: {k}", format_bytes(v)) for k, v in sizes.items()]
    return key_value_table("unionsnn", rows)
