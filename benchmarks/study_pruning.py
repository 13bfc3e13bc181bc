"""What a pruner saves and costs: a study's trials again, with the folds that it left out.

    python benchmarks/study_pruning.py tu_tpe data=mutag

Run after `unionsnn sweep` with the same words. Folds on disk are not trained again. Prints the
share of folds that the study trained, and how much better the best of the same trials without
pruning is.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import optuna

from unionsnn.search.study import make_study
from unionsnn.search.study_file import PrunerSchema
from unionsnn.search.workers import TrialRunner


def main() -> None:
    study = make_study(sys.argv[1], sys.argv[2:])
    record = json.loads((study.folder / "study.json").read_text())
    unpruned = study.file.model_copy(update={"pruner": PrunerSchema(name="none")})
    runner = TrialRunner(replace(study, file=unpruned), "benchmark")
    better = min if study.directions[0] == "minimize" else max
    means = {}
    for trial in record["trials"]:
        if trial["state"] == "failed":
            continue
        fixed = optuna.trial.FixedTrial(trial["parameters"], trial["index"])
        fixed.set_user_attr("cell", trial["index"])
        means[trial["index"]] = runner(fixed)[0]
        print(f"{trial['index']} {trial['state']} {means[trial['index']]:.6f}", flush=True)
    share = record["repetitions_trained"] / record["repetitions_at_most"]
    pruned = record["trials"][record["best"]]["values"][0]
    whole = better(means.values())
    print(f"folds trained: {share:.1%} of {record['repetitions_at_most']}")
    print(f"best {study.file.objectives[0]}: {pruned:.6f}; of the same trials unpruned {whole:.6f}")
    print(f"difference: {abs(whole - pruned):.6f}")


if __name__ == "__main__":
    main()
