"""The command that measures which graphs coefficients tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unionsnn.base.errors import DataError, RequestError, UnionsnnError
from unionsnn.cli.common import (
    FILE,
    Completed,
    Options,
    config_dir_option,
    device_option,
    echo_json,
    examples,
    json_option,
    out_option,
    show_report,
)

if TYPE_CHECKING:
    from unionsnn.reports.table import Report

_INSTEAD = {"seed": " and type seed=N", "threads": " and type trainer.threads=N"}
_SAMPLE = "With --trained: share of each category, such as 0.15; always the same pairs."
_DEFAULT_SETS = ("golden", "csl", "sr25")


def _words() -> Iterable[str]:
    from unionsnn.config.compose import completions
    from unionsnn.expressivity.graph_sets import SETS

    return [*SETS, *completions("")]


@dataclass(frozen=True)
class Request:
    """The parameters of the command.

    Args:
        words: Sets, files and overrides, in any order.
        trained: Whether to train a network on each pair.
        sample: Share of the pairs to train on; None for all.
        family: Whether all graphs of a file are compared with each other, not its pairs of lines.
        device: Name of the device to train on; None for the CPU.
        config_dir: A folder of the user's own configuration.
        choices: Names of colourings, separated by commas.
        theorems: Whether to check the theorems instead.
        max_nodes: Maximum number of nodes of the graphs for the theorems.
        seed: Seed of the relabelled copies.
        threads: Number of threads of the engine.
        mirror: Folder or address with the data.
        offline: Whether to never access http(s) addresses.
        out: Table to write.
        plot: Folder for pictures.
        as_json: Whether to print JSON.
    """

    words: tuple[str, ...]
    trained: bool
    sample: float | None
    family: bool
    device: str | None
    config_dir: str | None
    choices: str | None
    theorems: bool
    max_nodes: int
    seed: int | None
    threads: int | None
    mirror: str | None
    offline: bool
    out: Path | None
    plot: Path | None
    as_json: bool

    @property
    def sets(self) -> list[str]:
        """Names of sets, and files of pairs."""
        return [word for word in self.words if "=" not in word or Path(word).exists()]

    @property
    def overrides(self) -> list[str]:
        """The words that are not sets."""
        sets = self.sets
        return [word for word in self.words if word not in sets]

    def check(self) -> None:
        """Refuse options that have no effect together.

        Raises:
            RequestError: with every fault.
        """
        from unionsnn.expressivity.graph_sets import SETS

        faults = []
        if self.sample is not None and not 0 < self.sample <= 1:
            faults.append(f"--sample is {self.sample}; it must lie in 0..1 and not be 0.")
        if self.family and (self.trained or not any(name not in SETS for name in self.sets)):
            faults.append("--family is for a FILE of graphs, without --trained; leave it out.")
        if self.theorems:
            if self.words or self.choices or self.out or self.trained:
                faults.append(
                    "--theorems takes only --max-nodes, --plot and --json; leave out the rest."
                )
        elif self.trained:
            for name in ("choices", "seed", "threads", "plot"):
                if getattr(self, name) is not None:
                    instead = _INSTEAD.get(name, "")
                    faults.append(f"--{name} has no effect with --trained; leave it out{instead}.")
            if len(self.sets) > 1:
                faults.append(f"--trained takes one set, not {', '.join(self.sets)}.")
        elif self.overrides or (self.sample, self.config_dir, self.device) != (None, None, None):
            named = ", ".join(self.overrides) or "--sample, --device or --config-dir"
            faults.append(f"{named} requires --trained: add that option, or leave it out.")
        if faults:
            raise RequestError(*faults, code="expressivity.options")
        if self.out is not None:
            from unionsnn.reports.table import EXTENSIONS, check_output

            check_output("--out", self.out, EXTENSIONS)


@click.command(
    epilog=examples(
        "unionsnn expressivity brec --choices 1wl,a",
        "unionsnn expressivity brec --trained model=gin --sample 0.05",
        "unionsnn expressivity --theorems",
    ),
)
@click.argument(
    "words", nargs=-1, type=Completed("set", _words), metavar="[SET|FILE ...] [OVERRIDE ...]"
)
@click.option("--trained", is_flag=True, help="Train a network on each pair, set by OVERRIDEs.")
@click.option("--sample", type=click.FloatRange(0, 1, min_open=True), help=_SAMPLE)
@device_option("With --trained: auto, cpu, cuda or cuda:N. Default: cpu.")
@click.option("--family", is_flag=True, help="Compare all graphs of FILE, not pairs of lines.")
@config_dir_option
@click.option("--choices", help="Choices such as 1wl,a,a~@2,overlap@1+2,rooted@5, or all.")
@click.option("--theorems", is_flag=True, help="Check the paper's theorems on all small graphs.")
@click.option(
    "--max-nodes", type=click.IntRange(3, 8), default=7, help="With --theorems: maximum size."
)
@click.option("--seed", type=click.IntRange(0), help="Seed of the relabelled copies. Default: 0.")
@click.option("--threads", type=click.IntRange(1), help="Number of threads. Default: all cores.")
@click.option("--mirror", help="Folder or URL with the data. Default: UNIONSNN_MIRROR.")
@click.option("--offline", is_flag=True, help="Never access the network.")
@out_option("Table to write: .md, .csv or .tex.")
@click.option(
    "--plot",
    type=FILE,
    help="Folder for pictures of the golden pairs, or with --theorems of counterexamples.",
)
@json_option("Print the measurements as JSON.")
@click.pass_obj
def expressivity(options: Options, /, **parameters: Any) -> None:
    """Measure which graphs coefficients can tell apart.

    SET is golden, csl, sr25 or brec (default: golden, csl and sr25); FILE holds pairs of graphs in
    graph6, two lines per pair, or with --family any number of graphs, all of which are compared
    with each other. Colour refinement (1-WL) in which every edge carries the
    coefficient is an upper bound for message-passing networks; nothing is trained.

    With --trained, a network is trained on each pair of one set (default: brec) and tested on it,
    by BREC's protocol. OVERRIDES have the form key=value, such as model=union_gin
    coefficient.control=constant; finished pairs are not trained again.
    """
    request = Request(**parameters)
    request.check()
    if request.theorems:
        _theorems(request)
    elif request.trained:
        from unionsnn.reports.views import trained_expressivity as trained

        record = _trained(request, options.progress(as_json=request.as_json))
        _show(request, record, trained.trained_report([record]), trained.faults(record))
    else:
        from unionsnn.reports.views import expressivity as untrained

        result = _measured(request, options.progress(as_json=request.as_json))
        _show(request, result, untrained.bench_report(result), untrained.faults(result))


def _show(request: Request, result: dict[str, Any], report: Report, faults: Sequence[str]) -> None:
    """Write and print the measurements; fail if a choice is at fault."""
    show_report(report, request.out, as_json=request.as_json, content=result)
    if faults:
        raise UnionsnnError(*faults, code="expressivity.at_fault")


def _theorems(request: Request) -> None:
    """Check the theorems; draw counterexamples if asked to."""
    from unionsnn.expressivity.theorems import check_theorems
    from unionsnn.reports.figures.expressivity import make_folder, save_figures
    from unionsnn.reports.table import show
    from unionsnn.reports.views.theorems import draw_theorems, theorem_lines

    if request.plot is not None:
        make_folder(request.plot)
    result = check_theorems(request.max_nodes)
    if request.plot is not None:
        save_figures(draw_theorems(result), request.plot)
    if request.as_json:
        echo_json(result)
    else:
        show(theorem_lines(result))


def _measured(request: Request, progress_kind: str) -> dict[str, Any]:
    """Measure what colourings tell apart, without training; draw the golden pairs."""
    from unionsnn.base.display import display
    from unionsnn.base.imports import loading
    from unionsnn.data.sources.download import data_root
    from unionsnn.expressivity.edge_colorings import parse_colorings
    from unionsnn.reports.figures.expressivity import (
        draw_golden_pairs,
        make_folder,
        save_figures,
    )

    colorings = parse_colorings(request.choices)
    if request.plot is not None:
        try:
            make_folder(request.plot)
        except DataError as error:
            raise RequestError(*error.faults) from None
    with display(progress_kind) as progress:
        with loading("networkx and the kernels"):
            from unionsnn.expressivity.bench import measure
        result = measure(
            request.sets or _DEFAULT_SETS,
            colorings,
            family=request.family,
            root=data_root(),
            mirror=request.mirror,
            offline=request.offline,
            seed=request.seed or 0,
            threads=request.threads,
            progress=progress,
        )
        if request.plot is not None:
            save_figures(draw_golden_pairs(), request.plot)
    return result


def _trained(request: Request, progress_kind: str) -> dict[str, Any]:
    """Train and test a network on each pair of a set, and return the record."""
    from unionsnn.base.display import display
    from unionsnn.base.imports import loading
    from unionsnn.config.overrides import refuse_repeats
    from unionsnn.data.sources.download import data_root

    refuse_repeats(request.overrides)
    name = request.sets[0] if request.sets else "brec"
    with display(progress_kind):
        with loading("torch"):
            from unionsnn.expressivity.graph_sets import SETS, load_set
            from unionsnn.expressivity.trained_pairs import (
                compare_pairs,
                pairs_of,
                sample_of,
                trained_config,
            )
        families = load_set(name, root=data_root(), mirror=request.mirror, offline=request.offline)
        pairs = pairs_of(families)
        # A file may have the same stem as a set, but is not that set.
        stem = Path(name).stem
        title = Path(name).name if name != stem and stem in SETS else stem
        config = trained_config(request.overrides, title, pairs, config_dir=request.config_dir)
    wanted = None if request.sample is None else sample_of(pairs, request.sample)
    device = "cpu" if request.device is None else request.device
    with display("none" if progress_kind == "none" else config.trainer.progress) as progress:
        return compare_pairs(config, pairs, wanted, progress, device)
