"""Each kind of table that the commands print, from made-up results: no data, no training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from made_records import record, result
from unionsnn.coefficients.upkeep import CacheItem
from unionsnn.config.compose import compose_config
from unionsnn.data.catalog import CATALOG
from unionsnn.data.inventory import OnDisk, Removal
from unionsnn.expressivity.case_study import KINDS, CaseStudy, Shares
from unionsnn.reports.claims import claims_report
from unionsnn.reports.collection import StoredRecord
from unionsnn.reports.paper import paper_table
from unionsnn.reports.reproduction import Cell, Outcome
from unionsnn.reports.table import Report, Table
from unionsnn.reports.views import (
    cache as cached,
)
from unionsnn.reports.views import (
    case_study,
    coefficients,
    comparison,
    datasets,
    expressivity,
    predictions,
    records,
    reproduction,
    results,
    study,
    theorems,
    trained_expressivity,
)
from unionsnn.runs.comparison import ComparedRun, Comparison, Difference
from unionsnn.runs.costs import Cost
from unionsnn.runs.prediction import Prediction
from unionsnn.search.queue import Trial
from unionsnn.search.record import StudyRecord
from unionsnn.search.space import parse_space
from unionsnn.search.study import Study
from unionsnn.search.study_file import MethodSchema, PrunerSchema, StudySchema
from unionsnn.training.records import Result
from unionsnn.training.statistics import PairedDifference

SHUFFLED = "model=union_gin coefficient.control=shuffled gate.features=[raw]"


def stored(model: str, data: str, mean: float, gate: str | None = None, **keys: Any) -> Any:
    """A finished record with a name, as if it were on disk."""
    made = record(model, data, gate)
    made["config"]["model"] |= {"name": model, **keys}
    values = [mean - 0.05 / 2**0.5, mean + 0.05 / 2**0.5]
    made["result"] |= {"mean": mean, "interval": [mean - 0.15, mean + 0.15], "values": values}
    made |= {"state": "finished", "missing": []}
    made["protocol"]["repetitions"] = 2
    for index, (row, value) in enumerate(zip(made["repetitions"], values, strict=True)):
        row |= {"index": index, "seed": [0, index]}
        row["metrics"]["test_accuracy"] = value
    return StoredRecord(Path("runs") / data / model, Result.from_json(made))


def stored_records() -> list[StoredRecord]:
    """Records of several models on seven sets, one with an interval beyond 100 %."""
    return [
        stored(model, data, mean + shift / 12, gate)
        for shift, data in enumerate(
            ("mutag", "proteins", "enzymes", "frankenstein", "tox21", "nci109", "4cycles_small")
        )
        for model, gate, mean in (
            ("gin", None, 0.1),
            ("union_gin", "default", 0.37),
            ("gatedgcn_lspe", None, 0.2),
        )
    ]


def compared() -> Comparison:
    made = result("gin", "toy", None)
    runs = [
        ComparedRun(label, Path("runs"), made) for label in ("model=gin", SHUFFLED, "runs/toy/sage")
    ]
    method = "corrected resampled t over folds"
    paired = PairedDifference(-0.0125, 0.02, (-0.03, 0.005), 0.0423, method, (-0.01, -0.015))
    keys = ["model.name", "coefficient.control", "gate.features"]
    differences = [
        Difference(run.label, runs[0].label, keys, paired, -0.0156, 0, 2, 0) for run in runs[1:]
    ]
    return Comparison(runs, differences, Path("runs/comparisons/0/comparison.json"))


SPACE = {
    "optimizer.lr": "tag(log, interval(1e-4, 1e-2))",
    "optimizer.weight_decay": "choice(0.0, 0.0005)",
    "model.hidden_channels": "choice(32, 64, 128)",
    "model.dropout": "choice(0.0, 0.5)",
}


def study_record(values: Sequence[float | None] = (0.81, 0.93, None, 0.4)) -> StudyRecord:
    file = StudySchema(
        overrides=[],
        space=SPACE,
        objective="val_accuracy",
        sampler=MethodSchema(name="tpe", n_startup_trials=8),
        pruner=PrunerSchema(name="wilcoxon", every="repetition", p_threshold=0.3),
        trials=len(values),
    )
    base = compose_config(["data=mutag", "protocol=cross_validation"])
    made = Study("tu_tpe_mutag_unionsnn", file, (), tuple(parse_space(SPACE)), base, [], {})
    point = dict(zip(SPACE, (0.0012345, 0.0005, 64, 0.5), strict=True))
    trials = [
        Trial(
            i,
            "pruned" if value is None else "finished",
            point,
            None if value is None else (value,),
            dict.fromkeys(range(10), 0.5),
            "p 0.08 < 0.1 against trial 1 on the same 4 folds" if value is None else None,
            12.5 * (i + 1),
            i,
        )
        for i, value in enumerate(values)
    ]
    best = max((t for t in trials if t.values), key=lambda t: t.values[0] if t.values else 0)
    return StudyRecord(
        study=made, trials=trials, best=best, repetitions=10, best_file=Path("best.yaml")
    )


def outcomes(table: str, dataset: str) -> list[Outcome]:
    values = [value for value in paper_table(table).values if value.dataset == dataset]
    made = result("unionsnn", dataset.lower(), "paper")
    config = compose_config(["data=mutag"])
    found = [Outcome(Cell(value, config, differs=("lr=0.01",)), made) for value in values[:-2]]
    found.append(Outcome(Cell(values[-2], config), error="ZeroDivisionError: broken"))
    return [*found, Outcome(Cell(values[-1], None, "not in this package"), absent="not there")]


def costs() -> Report:
    return reproduction.reproduction_report(
        [
            Outcome(Cell(value, None), cost=Cost(0.5, 3, "cpu (1 thread(s))"))
            for value in paper_table("table12").values
        ]
    )


def bench() -> Mapping[str, Any]:
    sizes = {"basic": 60, "regular": 50, "extension": 100, "CFI": 97, "4-vertex condition": 20}
    counts = {"told": 55, "classes": 2, "pairs_told": 55, "whole": 3, "told_where_not_whole": 52}
    counts |= {"at_fault": 0, "unstable": 0}
    choice = {
        "choice": "overlap+union@1+2+3",
        "categories": dict.fromkeys(sizes, counts),
        "told": 281,
        "exact": False,
        "largest_equal": 1.2e-14,
        "smallest_different": 3.4e-6,
        "at_fault": 0,
        "unstable": 2,
        "seconds": 312.0,
    }
    categories = {name: {"families": n, "graphs": 2} for name, n in sizes.items()}
    choices = [choice, {**choice, "told": 9}]
    return {"sets": [{"set": "brec", "categories": categories, "choices": choices}]}


def trained() -> Mapping[str, Any]:
    sizes = {"basic": 60, "regular": 50, "extension": 100, "CFI": 97}
    summary = {
        "categories": {name: {"told": 9, "tested": 9, "pairs": n} for name, n in sizes.items()},
        "told": 36,
        "tested": 36,
        "bar": None,
        "unreliable": 0,
        "unreliable_bound": 2,
        "unresolved": 1e-14,
        "resolved": 0.3,
        "seconds": 4000.0,
    }
    config = {
        "protocol": {"copies": 32, "channels": 16, "alpha": 0.001},
        "trainer": {"max_epochs": 20},
    }
    pairs = [
        {"category": name, "seconds": 3.0}
        | dict.fromkeys(
            (
                *("name", "told", "reliable", "told_by_1wl", "statistic", "reliability"),
                *("rank", "distance", "spread", "epochs", "loss"),
            ),
            1.0,
        )
        for name in sizes
    ]
    return {
        "set": "brec",
        "model": "union_gin",
        "gate": "paper",
        "control": "shuffled",
        "state": "partial",
        "threshold": 72.34,
        "categories": sizes,
        "config": config,
        "summary": summary,
        "pairs": pairs,
    }


def deletions() -> Table:
    shares = Shares(4125, 0.932, 0.01, 0.058, 0.4)
    made = CaseStudy(87, 2, 3, shares, shares, dict.fromkeys(KINDS, shares), 87, 1, {})
    return case_study.case_study_table(made, "union subgraphs of mutag", at_ends=False)


def theorem_result() -> Mapping[str, Any]:
    pair = ["GCrb`o", "GCQb`o"]
    failures = [{"graphs": pair, "nodes": [1, 3]}]
    return {
        "theorem_1": {"graphs": 30, "rooted": [], "unrooted": failures, "converse": failures},
        "graphs": 996,
        "max_nodes": 7,
        "theorem_3": {"a": {"coarser": 0, "finer": 12}},
        "smallest_failures": {
            "a~@2+overlap": {"classes": 3, "pair": pair},
            "a": {"classes": 0, "pair": None},
        },
        "appendix_a": {"pair": pair, "four_cycles": [2, 0], "told_apart": {"1-WL": False}},
    }


def predicted() -> Prediction:
    each = np.full((3, 40, 6), 1 / 6)
    names = [f"graphs/molecule_{i}.csv" for i in range(40)]
    outputs = [f"class {i}" for i in range(6)]
    return Prediction(
        "graph_classification", names, None, outputs, (0, 1, 2), each, names, [], "cpu"
    )


def lists() -> list[Table | str]:
    folder = Path("/home/somebody/data/coefficients")
    items = [
        CacheItem(
            folder / f"{i}.npz", state, "mutag", ("union", "path"), ("a_r1", "a_r2"), 7442, 9999, 60
        )
        for i, state in enumerate(("complete", "damaged"))
    ]
    summary = {"a_r1": {"min": 0.0, "mean": 2.5, "max": 1e6}}
    info: dict[str, Any] = {
        "versions": {"unionsnn": "0.1", "torch": "2.13.0"},
        "devices": {"cpu": "a processor of 2 cores", "gpu": []},
        "bytes_on_disk": {"raw": 12},
        "platform": "Linux",
        "packages": {"theirs": "theirs.conf"},
        "git_revision": None,
        "paths": {"data": str(folder)},
    }
    return [
        cached.cache_table(items, folder),
        coefficients.summary_table("Coefficients of mutag", ["188 graphs"], summary),
        results.info_table(info),
        datasets.removals_table([Removal("coefficients", folder, (), 12)]),
    ]


def disk() -> OnDisk:
    return OnDisk((Path("/data/raw/MUTAG.zip"),), (), (), True)


def validated() -> Result:
    content = record("unionsnn", "mutag", "default")
    for row in content["repetitions"]:
        row["metrics"] |= {"val_accuracy": 0.5, "val_loss": 0.25, "val_f1": 0.5}
    return Result.from_json(content)


def plan() -> Report:
    cells = [outcome.cell for outcome in outcomes("table3", "MUTAG")]
    return reproduction.plan_report(cells, {cell.key: 4000.0 for cell in cells})


ITEMS: Mapping[str, Callable[[], Sequence[Table | str]]] = {
    "results": lambda: [results.results_table(validated())],
    "report": lambda: records.records_report(stored_records()).tables,
    "compare": lambda: comparison.comparison_tables(compared()),
    "sweep": lambda: [
        study.trials_table(study_record()),
        study.plan_table(
            {
                **{"name": "tu_tpe", "trials": 24, "objectives": ["val_accuracy"]},
                **{"repetitions": 10, "sampler": "tpe", "pruner": "wilcoxon", "storage": "here"},
                **{"seconds_per_trial": 60.0, "seconds_at_most": 9000.0, "compiles": False},
                "space": SPACE,
            }
        ),
    ],
    "reproduce": lambda: [
        *reproduction.reproduction_report(outcomes("table3", "MUTAG")).tables,
        *costs().tables,
        *plan().tables,
    ],
    "claims": lambda: claims_report().tables,
    "datasets": lambda: [
        *datasets.datasets_tables(list(CATALOG.values()), [disk()] * len(CATALOG)),
        *datasets.dataset_tables(CATALOG["mutag"], disk()),
    ],
    "expressivity": lambda: expressivity.bench_report(bench()).tables,
    "trained": lambda: trained_expressivity.trained_report([trained()] * 2).tables,
    "case study": lambda: [case_study.example_table(at_ends=True), deletions()],
    "theorems": lambda: theorems.theorem_lines(theorem_result()),
    "predictions": lambda: [predictions.prediction_table(predicted(), "Predictions")],
    "lists": lists,
}
"""What each command prints."""

REPORTS: Mapping[str, Callable[[], Report]] = {
    "report": lambda: records.records_report(stored_records()),
    "compare": lambda: comparison.comparison_report(compared()),
    "reproduce": lambda: reproduction.reproduction_report(outcomes("table3", "MUTAG")),
    "costs": costs,
    "plan": plan,
    "claims": claims_report,
    "expressivity": lambda: expressivity.bench_report(bench()),
    "trained": lambda: trained_expressivity.trained_report([trained()] * 2),
}
"""What each command with ``--out`` writes."""
