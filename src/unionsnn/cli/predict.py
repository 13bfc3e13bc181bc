"""The commands that use trained networks: predict and export."""

from __future__ import annotations

from pathlib import Path

import click

from unionsnn.cli.common import (
    Options,
    config_dir_option,
    device_option,
    echo_json,
    examples,
    header_option,
    json_option,
    out_option,
    trust_option,
    yes_option,
)
from unionsnn.config.targets import named_networks

_THERE = click.Path(exists=True, path_type=Path)


@click.command(
    epilog=examples(
        "unionsnn predict runs/mutag/gin/holdout-1a2b3c4d graphs.csv --out predictions.csv",
    ),
)
@click.argument("run", metavar="RUN", type=_THERE)
@click.argument("file", metavar="FILE", type=_THERE)
@out_option("Table to write: .csv, .parquet or .json.")
@click.option(
    "--format", "form", help="edgelist, graphml, graph6, npz or pt. Default: by extension."
)
@header_option
@click.option("--symmetrize", is_flag=True, help="Add the reverse of each edge of a file.")
@yes_option
@trust_option("Import the network's class although it is not of this package.")
@device_option("Where to compute: auto, cpu, cuda or cuda:N. Default: cpu.")
@config_dir_option
@json_option("Print all rows as JSON.")
@click.pass_obj
def predict(
    options: Options,
    run: Path,
    file: Path,
    out: Path | None,
    form: str | None,
    header: bool | None,
    symmetrize: bool,
    yes: bool,
    trust: bool,
    device: str | None,
    config_dir: str | None,
    as_json: bool,
) -> None:
    """Apply trained networks to your own graphs.

    RUN is a run folder, whose repetitions are all applied and averaged, or one .ckpt of its folder
    checkpoints. FILE is a graph file (edge list, GraphML, graph6, npz, PyG's .pt), or a folder of
    them, with or without labels.csv. Nodes get the features that the run was trained on; node
    labels and attributes come from npz files (node_labels, node_attributes).

    A network of this package runs no other code. One from elsewhere is imported only with --trust,
    or if a file in the folder model of --config-dir names its class.
    """
    from unionsnn.base.display import display
    from unionsnn.base.imports import loading
    from unionsnn.reports.table import check_output, show
    from unionsnn.reports.views import predictions

    if out is not None:
        check_output("--out", out, predictions.EXTENSIONS, inputs=[file])
    with display(options.progress(as_json=as_json)) as progress:
        with loading("torch"):
            from unionsnn.runs.prediction import predict as apply
        found = apply(
            run,
            file,
            form=form,
            header=header,
            symmetrize=symmetrize,
            trust=trust or _trusted(config_dir),
            device="cpu" if device is None else device,
            progress=progress,
            **({"max_hours": None} if yes else {}),
        )
        if out is not None:
            predictions.write_predictions(found, out)
    if as_json:
        echo_json(predictions.as_plain(found))
    else:
        title = f"Predictions of {run} for {file}"
        show([predictions.prediction_table(found, title, out)])


def _trusted(config_dir: str | None) -> set[str]:
    """Return the classes that the files of the user, or of installed packages, name."""
    from unionsnn.config.compose import config_folder
    from unionsnn.config.packages import package_folders

    return named_networks(config_dir, *(each.path for each in package_folders(config_folder())))


@click.command(
    epilog=examples(
        "unionsnn export runs/mutag/gin/holdout-1a2b3c4d --out gin.pt2",
    ),
)
@click.argument("run", metavar="RUN", type=_THERE)
@out_option("Program to write: .pt2.", required=True)
@trust_option("Import the network's class although it is not of this package.")
@config_dir_option
@json_option("Print the summary as JSON.")
def export(run: Path, out: Path, trust: bool, config_dir: str | None, as_json: bool) -> None:
    """Export a trained network to a program that runs without this package.

    RUN is a checkpoint, or a run folder with one. Each call of the torch.export program takes one
    graph with any number of nodes and edges. It is checked on other graphs before it is written.
    """
    from unionsnn.reports.table import check_output

    check_output("--out", out, (".pt2",), inputs=[run])
    from unionsnn.runs.export import export_checkpoint

    found = export_checkpoint(run, out, trust=trust or _trusted(config_dir))
    if as_json:
        echo_json(found)
        return
    click.echo(f"written: {out}, from {found['checkpoint']}")
    click.echo("inputs: " + ", ".join(f"{k} {v}" for k, v in found["inputs"].items()))
    click.echo(
        f"checked on {len(found['errors'])} other graphs: largest difference "
        f"{max(found['errors']):.1e}"
    )
    for note in found["notes"]:
        click.echo(f"note: {note}")
