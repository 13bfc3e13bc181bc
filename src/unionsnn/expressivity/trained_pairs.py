"""Training and test of a network on each pair of graphs, recorded and resumable."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import nn

from unionsnn.base.environment import environment
from unionsnn.base.errors import DamagedFileError, NonFiniteLossError, RequestError
from unionsnn.base.files import read_json, set_aside, write_json
from unionsnn.base.processes import Died, ProcessPool
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.pairs import (
    AdamConfig,
    PairConfig,
    PairProtocolConfig,
    PairSetConfig,
    PairTrainerConfig,
)
from unionsnn.expressivity.graph_sets import Family, Graph
from unionsnn.expressivity.pair_test import chance_bound, compare_pair, t2_threshold
from unionsnn.expressivity.pairs_together import blocks_of, compare_together, obstacle
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_model, check_model, count_parameters, locate
from unionsnn.training.devices import named_device

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]

RECORD = "pairs.json"
"""Name of the record in its run folder."""

DEFAULTS = (
    "optimizer.lr=0.0001",
    "optimizer.weight_decay=0.00001",
    "trainer.max_epochs=20",
    "data.batch_size=16",
)
"""Default overrides of the test: the settings of Wang and Zhang's code."""

_ALLOWED = (
    *("model", "gate", "coefficient", "optimizer.lr", "optimizer.weight_decay", "seed"),
    *("trainer.max_epochs", "trainer.threads", "trainer.progress", "data.batch_size"),
    *("protocol.workers", "protocol.together"),
    *("run_dir", "force", "paths"),
)
NOISE = ("random", "shuffled")
"""Controls that draw the coefficients of each copy from those of both graphs."""

_SAMPLE_SEED = 0

_WHOLE = {
    *("format", "state", "set", "model", "gate", "control", "parameters", "threshold"),
    *("categories", "pairs", "environments", "config", "config_hash"),
}
_OUTCOME = {
    *("index", "told", "reliable", "statistic", "reliability", "rank", "distance", "spread"),
    *("told_by_1wl", "epochs", "loss", "seconds", "name", "category"),
}
"""Keys of a record and of its pairs."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two graphs to tell apart, with their category and name."""

    category: str
    name: str
    graphs: tuple[Graph, Graph]


def pairs_of(families: Sequence[Family]) -> list[Pair]:
    """Return all pairs of graphs within each family."""
    pairs = []
    for family in families:
        many = len(family.graphs) > 2
        for i, j in combinations(range(len(family.graphs)), 2):
            name = f"{family.name} {i}, {j}" if many else family.name
            pairs.append(Pair(family.category, name, (family.graphs[i], family.graphs[j])))
    return pairs


def sample_of(pairs: Sequence[Pair], share: float) -> list[int]:
    """Draw a share of each category, at least one pair and always the same ones."""
    generator = np.random.default_rng(_SAMPLE_SEED)
    chosen: list[int] = []
    for category in dict.fromkeys(pair.category for pair in pairs):
        members = [i for i, pair in enumerate(pairs) if pair.category == category]
        size = max(1, round(share * len(members)))
        chosen += generator.choice(members, size, replace=False).tolist()
    return sorted(chosen)


def trained_config(
    overrides: Sequence[str],
    name: str,
    pairs: Sequence[Pair],
    *,
    config_dir: str | None = None,
    protocol: PairProtocolConfig | None = None,
) -> PairConfig:
    """Compose the configuration of a trained test.

    Args:
        overrides: In Hydra's syntax; keys of model, gate, coefficient, and some of training.
        name: Name of the set of pairs.
        pairs: The pairs, whose content is part of the experiment's identity.
        config_dir: Folder with the user's configuration files.
        protocol: The protocol; by default that of Wang and Zhang.

    Raises:
        RequestError: with every fault found.
    """
    keys = [words.partition("=")[0].lstrip("+~").partition("@")[0] for words in overrides]
    foreign = [key for key in keys if not any(_within(key, allowed) for allowed in _ALLOWED)]
    if foreign:
        raise RequestError(
            *(
                f"{key} has no effect on this test; allowed are {', '.join(_ALLOWED)} and keys "
                "inside them."
                for key in foreign
            ),
            code="expressivity.override",
        )
    composed = compose_config([*DEFAULTS, *overrides], config_dir)
    trainer, data = composed.trainer, composed.data
    if data.batch_size < 2:
        raise RequestError(
            f"data.batch_size is {data.batch_size}; a batch holds pairs: at least 2.",
            code="expressivity.batch_size",
        )
    return PairConfig(
        data=PairSetConfig(
            name=name, content=content_hash(pairs), batch_size=composed.data.batch_size
        ),
        protocol=(protocol or PairProtocolConfig()).replace(
            {"workers": composed.protocol.workers, "together": composed.protocol.together}
        ),
        trainer=PairTrainerConfig(
            max_epochs=trainer.max_epochs, threads=trainer.threads, progress=trainer.progress
        ),
        optimizer=AdamConfig(
            lr=composed.optimizer.lr, weight_decay=composed.optimizer.weight_decay
        ),
        model=composed.model,
        gate=composed.gate,
        coefficient=composed.coefficient,
        seed=composed.seed,
        run_dir=composed.run_dir,
        force=composed.force,
        paths=composed.paths,
    )


def _within(key: str, allowed: str) -> bool:
    return key == allowed or key.startswith(f"{allowed}.")


def content_hash(pairs: Sequence[Pair]) -> str:
    """Return the hash of all graphs: 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for pair in pairs:
        for edge_index, num_nodes in pair.graphs:
            digest.update(f"{num_nodes} {edge_index.shape[1]};".encode())
            digest.update(np.ascontiguousarray(edge_index, dtype="<i8").data)
    return digest.hexdigest()[:12]


def compare_pairs(
    config: PairConfig,
    pairs: Sequence[Pair],
    wanted: Sequence[int] | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train and test on each unfinished pair, writing the record after each.

    Args:
        config: A configuration from `trained_config`.
        pairs: All pairs of the set.
        wanted: Indices of the requested pairs; None for all.
        progress: Called with (what, pairs done, total).
        device: Name of the device, as in `named_device`.

    Returns:
        The record of all finished pairs, requested now or before.

    Raises:
        RequestError: if the model refuses its arguments, the folder has another experiment, or
            there is no such device.
        RunFolderError: if the run folder cannot be used.
        NonFiniteLossError: if training diverges.
        FloatingPointError: if an embedding is not finite.
        RuntimeError: if a worker is killed.
    """
    place = named_device(device)
    check_model(config)
    torch.set_num_threads(config.trainer.threads)
    wanted = range(len(pairs)) if wanted is None else wanted
    with RunFolder.of(config).locked() as folder:
        path = folder.path / RECORD
        record = _begun(folder, config, pairs)
        outcomes = {outcome["index"]: outcome for outcome in record["pairs"]}
        pending = [i for i in wanted if i not in outcomes]
        if pending and environment() not in record["environments"]:
            record["environments"].append(environment())
        what = f"{config.data.name}, {config.model.name}"
        if progress is not None and pending:
            progress(what, len(wanted) - len(pending), len(wanted))
        for outcome in _compared(config, [pair.graphs for pair in pairs], pending, place):
            index = outcome["index"]
            named = {"name": pairs[index].name, "category": pairs[index].category}
            outcomes[index] = {**outcome, **named}
            record["pairs"] = [outcomes[i] for i in sorted(outcomes)]
            record["state"] = "finished" if len(outcomes) == len(pairs) else "incomplete"
            write_json(path, record)
            if progress is not None:
                progress(what, sum(i in outcomes for i in wanted), len(wanted))
        return {**record, "summary": summarize(record)}


def _compared(
    config: PairConfig,
    pairs: Sequence[tuple[Graph, Graph]],
    pending: Sequence[int],
    device: torch.device,
) -> Iterator[dict[str, Any]]:
    """Train and test on pairs in ``protocol.workers`` processes; yield each outcome when done.

    Raises:
        RuntimeError: if a worker is killed.
    """
    workers = max(1, min(config.protocol.workers, len(pending)))
    work = _Worker(config, pairs, device)
    if _go_together(config, device):
        blocks = blocks_of(pairs, pending, config.data.batch_size, device, workers)
    else:
        blocks = [[index] for index in pending]
    if workers == 1:
        for block in blocks:
            yield from work.outcomes(block)
        return
    with ProcessPool(work, workers) as pool:
        for _, outcomes in pool.run(deque(blocks)):
            if isinstance(outcomes, Died):
                raise RuntimeError(
                    f"A worker process died ({outcomes}). If memory ran out, lower "
                    "protocol.workers or data.batch_size. Finished pairs are kept; rerun the "
                    "command to resume."
                )
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome


def _go_together(config: PairConfig, device: torch.device) -> bool:
    """Return whether pairs are trained in blocks; say if they cannot be though that is asked for.

    On a GPU they are. On a CPU they are only if that is asked for: coefficients of the copies take
    most of the time there, and results stay the same bit for bit, whichever pairs are asked for.
    """
    wanted = config.protocol.together
    if wanted is False or (wanted == "auto" and device.type == "cpu"):
        return False
    reason = obstacle(config)
    if reason and wanted is True:
        logger.warning("Pairs are trained one after another: %s.", reason)
    return not reason


@dataclass(frozen=True)
class _Worker:
    """Trains and tests on blocks of pairs, also in a worker process."""

    config: PairConfig
    pairs: Sequence[tuple[Graph, Graph]]
    device: torch.device

    def __call__(self, block: Sequence[int]) -> list[dict[str, Any] | Exception]:
        """Return the outcome of each pair, and in the end the error of one that diverges."""
        torch.set_num_threads(self.config.trainer.threads)
        done: list[dict[str, Any] | Exception] = []
        try:
            for outcome in self.outcomes(block):
                done.append(outcome)
        except (NonFiniteLossError, FloatingPointError) as error:
            done.append(error)
        return done

    def outcomes(self, block: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the outcome of each pair when it is done."""
        if len(block) > 1:
            yield from compare_together(self.config, self.pairs, block, self.device)
        else:
            yield compare_pair(self.config, self.pairs[block[0]], block[0], self.device)


def _begun(
    folder: RunFolder[PairConfig], config: PairConfig, pairs: Sequence[Pair]
) -> dict[str, Any]:
    """Return the folder's record, or an empty one."""
    path = folder.path / RECORD
    record = _read(path)
    if record is not None:
        if record["config_hash"] != config_hash(config):
            raise RequestError(
                f"{folder.path} holds another experiment; give another run_dir, or leave it out.",
                code="expressivity.other_experiment",
            )
        return record
    sizes: dict[str, int] = {}
    for pair in pairs:
        sizes[pair.category] = sizes.get(pair.category, 0) + 1
    protocol = config.protocol
    return {
        "format": 1,
        "state": "incomplete",
        "set": config.data.name,
        "model": config.model.name,
        "gate": config.gate.preset,
        "control": config.coefficient.control,
        "parameters": count_parameters(build_model(config, 1, protocol.channels)),
        "threshold": t2_threshold(protocol.channels, protocol.copies, protocol.alpha),
        "categories": sizes,
        "pairs": [],
        "environments": [],
        "config": config.to_dict(),
        "config_hash": config_hash(config),
    }


def _read(path: Any) -> dict[str, Any] | None:
    """Read a record; rename a damaged one, with a warning."""
    try:
        content: dict[str, Any] = read_json(path)
        if content.keys() >= _WHOLE and all(row.keys() >= _OUTCOME for row in content["pairs"]):
            return content
    except FileNotFoundError:
        return None
    except (DamagedFileError, AttributeError, TypeError):
        pass
    aside = set_aside(path)
    warnings.warn(f"{path} is damaged and set aside as {aside.name}.", stacklevel=4)
    return None


# -- summary -------------------------------------------------------------------------------


def summarize(record: Mapping[str, Any]) -> dict[str, Any]:
    """Count by category, and compare with the limit of a control.

    Returns:
        Plain types: ``categories`` (told, tested, pairs), ``told``, ``tested``, ``unreliable``
        (pairs whose check failed), ``unreliable_bound`` (how many chance explains), ``bar``,
        ``resolved`` and ``unresolved`` (smallest distance that counted as a difference, largest
        that did not), ``seconds``.
    """
    outcomes = record["pairs"]
    alpha = record["config"]["protocol"]["alpha"]
    categories = {}
    for category, size in record["categories"].items():
        rows = [o for o in outcomes if o["category"] == category]
        told = sum(o["told"] for o in rows)
        categories[category] = {"told": told, "tested": len(rows), "pairs": size}
    return {
        "categories": categories,
        "told": sum(o["told"] for o in outcomes),
        "tested": len(outcomes),
        "unreliable": sum(not o["reliable"] for o in outcomes),
        "unreliable_bound": chance_bound(len(outcomes), alpha),
        "bar": bar(record),
        "resolved": min((o["distance"] for o in outcomes if o["told"]), default=None),
        "unresolved": max((o["distance"] for o in outcomes if not o["told"]), default=None),
        "seconds": round(sum(o["seconds"] for o in outcomes), 3),
    }


def bar(record: Mapping[str, Any]) -> int | None:
    """Return how many pairs a control may tell apart; None for other models.

    A network that says so (`Network.at_most_1wl`) is, without a coefficient or with the same one on
    every edge, at most 1-WL.
    If a control draws other coefficients for each copy, chance is added. `shuffled_within` is not a
    control here: it keeps each graph's coefficients, by which graphs may differ.
    """
    model = record["config"]["model"]
    network = locate(model["_target_"], nn.Module, "model._target_")
    # A coefficient of the layers, and encodings.
    reads_structure = model.get("coefficient") or any((model.get("encodings") or {}).values())
    if reads_structure or not getattr(network, "at_most_1wl", False):
        return None
    known = sum(o["told_by_1wl"] for o in record["pairs"])
    if record["control"] in NOISE:
        others = len(record["pairs"]) - known
        return known + chance_bound(others, record["config"]["protocol"]["alpha"])
    return known if record["gate"] is None or record["control"] == "constant" else None
