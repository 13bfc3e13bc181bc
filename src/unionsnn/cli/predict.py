"""The commands that use what was trained: predict, and export."""

from __future__ import annotations

import json
from pathlib import Path

import click

from unionsnn.cli.common import failures, refusals

_PATH = click.Path(path_type=Path)
_THERE = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("run", metavar="RUN", type=_THERE)
@click.argument("file", metavar="FILE", type=_THERE)
@click.option("--out", type=_PATH, help="Table to write: .csv, .parquet or .json.")
@click.option("--format", "form", help="edgelist, graphml, graph6, npz or pt; else by the ending.")
@click.option("--symmetrize", is_flag=True, help="Take each edge of a file in both directions.")
@click.option("--json", "as_json", is_flag=True, help="Print all rows as JSON.")
@click.pass_obj
def predict(
    options: dict[str, bool],
    run: Path,
    file: Path,
    out: Path | None,
    form: str | None,
    symmetrize: bool,
    as_json: bool,
) -> None:
    """Apply trained networks to your own graphs.

    RUN is a run folder, all of whose repetitions are applied and averaged, or one .ckpt of its
    folder checkpoints. FILE is a graph file (edge list, GraphML, graph6, npz, PyG's .pt), or a
    folder of them, with or without labels.csv. Nodes get the features that the run was trained on:
    labels and attributes of nodes come from npz files (node_labels, node_attributes).
    """
    from unionsnn.reports.progress import data_progress
    from unionsnn.reports.views import prediction_table
    from unionsnn.runs.prediction import predict as apply

    if out is not None:
        with refusals():
            prediction_table.check_writable(out)
    kind = "none" if as_json or options["quiet"] else "auto"
    with failures(options), data_progress(kind) as progress:
        found = apply(run, file, form=form, symmetrize=symmetrize, progress=progress)
        if out is not None:
            prediction_table.write_predictions(found, out)
    if as_json:
        click.echo(json.dumps(prediction_table.as_plain(found), indent=1))
    else:
        prediction_table.print_predictions(found, f"Predictions of {run} for {file}", out)


@click.command()
@click.argument("run", metavar="RUN", type=_THERE)
@click.option("--out", type=_PATH, required=True, help="Program to write: .pt2.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
@click.pass_obj
def export(options: dict[str, bool], run: Path, out: Path, as_json: bool) -> None:
    """Write a trained network as a program that runs without this package.

    RUN is a checkpoint, or a run folder with one. The program of torch.export takes one graph of
    any number of nodes and edges a call; it is checked on other graphs before it is written.
    """
    from unionsnn.reports.formats import check_output

    with refusals():
        check_output("--out", out, (".pt2",))
    from unionsnn.runs.export import export_checkpoint

    with failures(options):
        found = export_checkpoint(run, out)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(f"written: {out}, of {found['checkpoint']}")
    click.echo("inputs: " + ", ".join(f"{k} {v}" for k, v in found["inputs"].items()))
    click.echo(
        f"checked on {len(found['errors'])} other graphs: largest difference "
        f"{max(found['errors']):.1e}"
    )
