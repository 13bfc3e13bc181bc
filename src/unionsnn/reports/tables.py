"""Tables of results for the terminal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.measure import Measurement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from unionsnn.config.grid import cell_text
from unionsnn.reports.paper import paper_value
from unionsnn.runs.failures import failure_lines

_PERCENT = ("accuracy",)


def format_value(key: str, value: float | None) -> str:
    """Write a metric as papers do: accuracy in percent, others with four digits."""
    if value is None:
        return "–"
    return f"{100 * value:.2f} %" if is_percent(key) else f"{value:.4f}"


def is_percent(key: str) -> bool:
    """Whether a metric is printed in percent."""
    return key.endswith(_PERCENT)


def spread(key: str, mean: float, std: float | None) -> str:
    """Write a mean with its standard deviation, and their unit once."""
    if std is None:
        return format_value(key, mean)
    return f"{format_value(key, mean).partition(' ')[0]} ± {format_value(key, std)}"


def signed(key: str, value: float) -> str:
    """Write a difference: percentage points where the metric is in percent."""
    return f"{100 * value:+.2f} points" if is_percent(key) else f"{value:+.4f}"


def interval_text(
    key: str,
    interval: Sequence[float] | None,
    form: Callable[[str, float], str] = format_value,
) -> str:
    """Write both bounds of an interval, and their unit once."""
    if interval is None:
        return "–"
    low, high = (form(key, bound) for bound in interval)
    return f"{low.partition(' ')[0]} to {high}"


def count_text(value: Any) -> str:
    """Write a count; a list of several as it is."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def results_table(record: Mapping[str, Any], *, narrow: bool = False) -> Table:
    """The metrics of each repetition of one experiment.

    Args:
        record: The merged record of a run folder.
        narrow: Whether to leave out all metrics but the reported one.
    """
    report = record["protocol"]["report"]
    keys = [k for k in _validation_keys(record["repetitions"]) if k != report and not narrow]
    title = f"{record['model']} on {record['data']}"
    if record["control"] != "none":
        title += f", control: {record['control']}"
    table = Table(title=title, title_justify="left")
    table.add_column("#", justify="right")
    for key in [report, *keys]:
        table.add_column(key, justify="right", no_wrap=True)
    table.add_column("best", justify="right")
    table.add_column("epochs", justify="right")
    table.add_column("time", justify="right")
    for row in record["repetitions"]:
        best = row["best_epoch"]
        table.add_row(
            str(row["index"]),
            *(format_value(k, row["metrics"].get(k)) for k in [report, *keys]),
            "–" if best is None else str(best + 1),
            str(row["epochs"]),
            format_seconds(row["seconds"]),
        )
    for row in record.get("failed", ()):
        table.add_row(str(row["index"]), "failed", *["–"] * (len(keys) + 3))
    return table


def summary_line(record: Mapping[str, Any]) -> str:
    """The reported number with spread, interval and the protocol that it comes from."""
    result, protocol = record["result"], record["protocol"]
    if result is None:
        return f"No repetition of {protocol['name']} is finished."
    report = protocol["report"]
    line = f"{report}: {format_value(report, result['mean'])}"
    if result["std"] is not None:
        line += f" ± {format_value(report, result['std'])}"
        low, high = result["interval"]
        line += f", 95 % interval [{format_value(report, low)}, {format_value(report, high)}]"
        line += f" ({result['method']}"
        beyond = is_percent(report) and not 0 <= low <= high <= 1
        line += ", which knows no bounds at 0 and 100 %)" if beyond else ")"
    if result["epoch"] is not None:
        line += f", epoch {result['epoch'] + 1}"
    line += f"\nprotocol: {protocol['name']} ({protocol['selection']})"
    line += "".join(f"\n{chosen}" for chosen in selected_lines(record))
    paper = paper_value(record)
    if paper is not None and report == f"test_{paper.metric}":
        line += f"\npaper: {format_value(report, paper.mean)}"
        if paper.std is not None:
            line += f" ± {format_value(report, paper.std)}"
        line += f" ({paper.table}, {paper.model}, under the paper's own protocol)"
    line += draws_text(record)
    if record["missing"]:
        done = len(record["repetitions"])
        line += f"\nINCOMPLETE: {done} of {protocol['repetitions']} repetitions"
    for reason in failure_lines(record.get("failed", ())):
        line += f"\nFAILED {reason} (the same command trains it again)"
    return line


def selected_lines(record: Mapping[str, Any]) -> list[str]:
    """The cell of a grid that each repetition chose, and how good it was on validation."""
    lines = []
    for row in record["repetitions"]:
        if "grid" in row:
            grid = row["grid"]
            value = next(c[grid["on"]] for c in grid["cells"] if c["cell"] == grid["selected"])
            shown = format_value(grid["on"], value)
            lines.append(f"chosen in {row['index']}: {cell_text(grid['selected'])} ({shown})")
            failed = [cell for cell in grid["cells"] if "failed" in cell]
            if failed:
                lines.append(
                    f"FAILED in {row['index']}: {len(failed)} of {len(grid['cells'])} cells, the "
                    f"first {cell_text(failed[0]['cell'])}: {failed[0]['failed']}"
                )
    return lines


def draws_text(record: Mapping[str, Any]) -> str:
    """How far other draws move the reported metric, of a network that draws in evaluation."""
    report = record["protocol"]["report"]
    values = [
        [row["metrics"][report], *(other[report] for other in row["other_evaluations"])]
        for row in record["repetitions"]
        if row.get("other_evaluations")
    ]
    if not values:
        return ""
    # Repetitions may differ in how often they were evaluated.
    mean = statistics.fmean(statistics.fmean(row) for row in values)
    std = math.sqrt(statistics.fmean(statistics.variance(row) for row in values))
    times = sorted({len(row) for row in values})
    return (
        f"\nevaluated {' or '.join(map(str, times))} times with other draws: "
        f"{spread(report, mean, std)} (spread within a repetition; the figure above is the first)"
    )


def provenance(record: Mapping[str, Any]) -> str:
    """What a reader needs to trust or repeat the number."""
    versions = record["versions"]
    one = versions if isinstance(versions, Mapping) else (versions or [{}])[0]
    shown = ("unionsnn", "torch", "torch-geometric")
    packages = ", ".join(f"{name} {one[name]}" for name in shown if name in one)
    devices = sorted({r["device"] for r in record["repetitions"]})
    count = count_text(record["parameters"])
    gate = record["gate"] or "none"
    if record["control"] != "none":
        gate += f", control {record['control']} (not the real coefficient)"
    return "\n".join(
        [
            f"data: {record['dataset']}, split {(record['protocol']['split_hash'] or '')[:12]}, "
            f"seed {record['protocol']['seed']}",
            f"model: {count} parameters{_budget(record)}, hidden {record['hidden_channels']}, "
            f"gate {gate}, config {record['config_hash']}",
            f"{packages}; {', '.join(devices)}; {format_seconds(record['seconds'])} of training",
        ]
    )


def _budget(record: Mapping[str, Any]) -> str:
    budget = record["config"]["model"]["parameter_budget"]
    return "" if budget is None else f" of a budget of {budget:,}"


def format_seconds(seconds: float) -> str:
    """Write a duration."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def key_value_table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """A table of two columns without a header."""
    table = Table(title=title, title_justify="left", show_header=False)
    for key, value in rows:
        table.add_row(key, value)
    return table


def print_results(record: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the final table, the summary and what it rests on."""
    console = console or Console()
    table = results_table(record)
    unbounded = console.options.update(width=1000)
    if Measurement.get(console, unbounded, table).maximum > console.width:
        table = results_table(record, narrow=True)
    console.print(table)
    # Lines stay whole where they are piped, so that they can be searched for.
    whole = not console.is_terminal
    console.print(Text(summary_line(record), style="bold"), soft_wrap=whole)
    console.print(Text(provenance(record)), soft_wrap=whole)


def print_folder(
    folder: Path,
    record: Mapping[str, Any],
    before: Collection[int],
    console: Console | None = None,
) -> None:
    """Print where the results are, and how many of them this command only read.

    Args:
        folder: The run folder.
        record: Its merged record.
        before: Repetitions that were finished before.
        console: Where to print.
    """
    console = console or Console()
    count, all_of_them = len(before), len(record["repetitions"])
    lines = [f"run folder: {folder}"]
    if count:
        which = f"{count} of {all_of_them} repetitions were" if count < all_of_them else "All was"
        lines.append(f"{which} finished before and not trained again; force=true starts anew.")
    console.print(Text("\n".join(lines)), soft_wrap=True)


def _validation_keys(repetitions: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({k for row in repetitions for k in row["metrics"] if k.startswith("val_")})


def print_dry_run(plan: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what an experiment would do."""
    console = console or Console()
    console.print(Syntax(yaml.safe_dump(plan["config"], sort_keys=False), "yaml"))
    sizes = plan["sizes"][0]
    rows = [
        ("run folder", plan["run_dir"]),
        ("protocol", f"{plan['protocol']} ({plan['selection']}), reports {plan['report']}"),
        ("repetitions", f"{len(plan['pending'])} of {plan['repetitions']} still to train"),
        *_grid_row(plan),
        ("data", plan["dataset"]),
        ("split", ", ".join(f"{name} {size:,}" for name, size in sizes.items())),
        ("node features", str(plan["num_features"])),
        ("outputs", str(plan["num_outputs"])),
        ("parameters", f"{plan['parameters']:,}{_budget(plan)} (hidden {plan['hidden_channels']})"),
        ("largest batch", plan["batch"]),
        ("an epoch", f"about {format_seconds(plan['seconds_per_epoch'])}"),
        ("all epochs", f"at most about {format_seconds(plan['seconds_at_most'])}"),
    ]
    console.print(key_value_table("Dry run: nothing was trained", rows))


def _grid_row(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    if plan["cells"] == 1:
        return []
    return [("grid", f"{plan['cells']} cells in each repetition: {plan['trainings']:,} trainings")]


def print_info(content: Mapping[str, Any], console: Console | None = None) -> None:
    """Print versions, devices, folders and the size of the cache."""
    devices, sizes = content["devices"], content["bytes_on_disk"]
    rows = [(name, number) for name, number in content["versions"].items()]
    rows += [("platform", content["platform"]), ("git revision", content["git_revision"] or "–")]
    rows += [("cpu", devices["cpu"]), ("gpu", ", ".join(devices["gpu"]) or "none")]
    rows += [(f"path: {k}", v or "–") for k, v in content["paths"].items()]
    rows += [(f"on disk: {k}", f"{v / 1e6:,.1f} MB") for k, v in sizes.items()]
    (console or Console()).print(key_value_table("unionsnn", rows))
