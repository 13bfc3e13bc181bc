"""Trainings of one shape that are trained together: one step for all, a record for each."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress, zip_longest
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from unionsnn.base.display import current_display
from unionsnn.base.errors import RequestError
from unionsnn.config.grid import flatten
from unionsnn.config.identity import determining
from unionsnn.config.schema import Config
from unionsnn.config.targets import is_network
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.models.stacked import Blocks, StackedNetwork, unstackable
from unionsnn.nn.batch import GraphBatch
from unionsnn.training.build import build_model
from unionsnn.training.devices import training_device
from unionsnn.training.member import Member
from unionsnn.training.memory import memory_errors, require_memory
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import REPETITIONS, Training, surroundings
from unionsnn.training.resume import SharedPoint

logger = logging.getLogger(__name__)

# A GPU computes as long as it is told what to compute at about so many edges of a batch.
_MOST_EDGES = 200_000
# Beyond, what each training does by itself (its optimiser, dropout, metrics) is nearly all.
_MOST_MEMBERS = 128
# In what trainings in one step may differ: it concerns one by itself, and no shape of a weight.
_OWN = (
    *("optimizer", "model.dropout", "trainer.max_epochs"),
    *("trainer.gradient_clip_val", "trainer.gradient_clip_algorithm"),
    *("protocol.select_on", "protocol.stop_on", "protocol.patience", "protocol.grid"),
)


def obstacle(config: Config, data: GraphDataModule) -> str:
    """Return why trainings of this shape cannot be trained together; empty if they can."""
    trainer, protocol = config.trainer, config.protocol
    keys = {
        "protocol.workers": protocol.workers > 1,
        "trainer.devices": trainer.several,
        "debug": config.debug is not None,
        "coefficient.control": config.coefficient.control != "none",
        "trainer.accumulate_grad_batches": trainer.accumulate_grad_batches > 1,
        "trainer.ema_decay": trainer.ema_decay is not None,
        "trainer.swa_start": trainer.swa_start is not None,
        "trainer.compile": trainer.compile,
        "trainer.callbacks": bool(trainer.callbacks),
        "trainer.extra": bool(trainer.extra),
        f"trainer.precision={trainer.precision}": trainer.precision.endswith("mixed"),
        f"data.task={data.task}": not data.task.startswith("graph"),
        f"model._target_={config.model.target}": not is_network(config.model.target),
    }
    if found := [key for key, there in keys.items() if there]:
        return f"{found[0]} is set"
    sizes = data.num_features, data.num_outputs, data.num_edge_features
    with torch.device("meta"):
        network = build_model(config, *sizes)
    edges = data.graphs._data.edge_index
    if getattr(network, "adds_loops", False) and bool((edges[0] == edges[1]).any()):
        return f"{config.model.name} adds self loops to graphs, which {data.name} has already"
    if part := unstackable(network):
        return f"{config.model.name} has a part ({part}) that computes one network at a time"
    return ""


def pays(config: Config, data_of: Callable[[Config], GraphDataModule]) -> bool:
    """Return whether trainings take less time together than one after another.

    On a GPU a step of small graphs takes as long as its launches, of which there are as many for
    ten networks as for one. On a CPU that is so for the smallest sets only, and there results stay
    the same bit for bit.
    """
    if training_device(config.trainer.accelerator).type != "cuda":
        return False
    data = data_of(config)
    edges = int(torch.as_tensor(data.graphs.slices["edge_index"])[-1])
    of_batch = edges / max(data.num_graphs, 1) * data.batch_size
    return of_batch <= _MOST_EDGES


@dataclass(frozen=True)
class _Batch:
    """A batch of each network: the blocks' graphs, their extents, and the targets of each."""

    graphs: GraphBatch
    blocks: Blocks
    targets: Sequence[Tensor]


def own(key: str) -> bool:
    """Return whether trainings in one step may differ in a key."""
    return any(f"{key}.".startswith(f"{each}.") for each in _OWN)


def shape_of(config: Config) -> str:
    """Return the hash of what trainings in one step have in common."""
    common = {key: value for key, value in flatten(determining(config)) if not own(key)}
    text = json.dumps(common, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def groups_of(
    trainings: Sequence[Training],
    data_of: Callable[[Config], GraphDataModule],
    point: SharedPoint,
    cells: str = "cells",
) -> list[list[Training]]:
    """Return trainings by shape, as ``protocol.together`` and the device have them go in one step.

    Says in one line which do. Those that are left out are trained one after another.

    Args:
        trainings: The trainings.
        data_of: Returns the data module of a configuration.
        point: Where their state is kept; if there is one, they go on from there.
        cells: What their configurations are called.

    Raises:
        RequestError: if that is asked for, and a training cannot be trained with others.
    """
    resumes = point.path.exists()
    # Repetitions share a configuration.
    configs = {id(each.config): each.config for each in trainings}
    names = {key: shape_of(config) for key, config in configs.items()}
    shapes: dict[str, list[Training]] = {}
    for each in trainings:
        shapes.setdefault(names[id(each.config)], []).append(each)
    groups: list[list[Training]] = []
    obstacles: dict[str, None] = {}
    for group in shapes.values():
        config = group[0].config
        wanted = config.protocol.together
        if wanted is False or not (len(group) > 1 or resumes):
            continue
        if wanted == "auto" and not (resumes or pays(config, data_of)):
            continue
        if reason := obstacle(config, data_of(config)):
            if wanted is True:
                raise RequestError(
                    f"protocol.together is true, but {reason}: leave one of them out, or type "
                    "protocol.together=auto.",
                    code="protocol.together",
                )
            obstacles[reason] = None
            continue
        groups.append(group)
    for reason in obstacles:
        logger.info("Trainings go one after another: %s.", reason)
    if resumes and not groups:
        logger.warning("%s is not used: its trainings start over, one by one.", point.path)
    if groups:
        logger.info(
            "protocol.together=%s: %s in one step%s. Numbers differ from those of one after "
            "another by rounding, which grows over steps, and so the chosen epoch may; "
            "protocol.together=false trains one after another.",
            str(wanted).lower(),
            _counted([each for group in groups for each in group], cells),
            "" if len(groups) == 1 else f" for each of {len(groups)} shapes of the network",
        )
    return groups


def _counted(trainings: Sequence[Training], cells: str) -> str:
    protocol = trainings[0].config.protocol
    configs = len({id(each.config) for each in trainings})
    repetitions = len({each.index for each in trainings})
    folds = f"{repetitions} {protocol.unit}{'s' if repetitions > 1 else ''}"
    if configs == 1:
        return f"{folds} are trained"
    of = "" if protocol.num_repetitions == 1 else f" of {folds}"
    return f"{configs} {cells}{of} are trained"


def say_alone(training: Training, error: Exception) -> None:
    """Say that a training has failed in one step with others, and is tried again by itself."""
    logger.warning(
        "%s failed together with others (%s: %s) and starts over alone.",
        training.label or "A training",
        type(error).__name__,
        error,
    )


def _outcome(member: Member, data: GraphDataModule) -> Repetition | Exception:
    try:
        return member.finish(data)
    except Exception as error:  # One that concerns it alone.
        return error


def train_together(
    trainings: Sequence[Training], data: GraphDataModule, point: SharedPoint, *, test: bool = True
) -> Generator[tuple[Training, Repetition | Exception]]:
    """Train one of `groups_of` in one step; yield each training with its record, or its error.

    A training draws from its own seeds, takes its own steps, stops by its own curve, and keeps its
    own best weights: its record is that of `train_repetition` up to the order of sums, and its
    share of the time.

    Args:
        trainings: The trainings.
        data: Their data module.
        point: Where their state is kept.
        test: Whether to test, which a search must not do before selecting.
    """
    config = trainings[0].config
    members: list[Member] = []
    fitting = _MOST_MEMBERS
    with surroundings(config), ExitStack() as runs:
        device = training_device(config.trainer.accelerator)
        data.device, data.accumulated = device, 1
        while trainings and len(members) < fitting:
            training, *trainings = trainings
            try:
                member = Member(training, data, device, test=test)
            except Exception as error:  # As that of a part without both classes.
                yield training, error
                continue
            runs.enter_context(member.run)
            if not members:
                memory = require_memory(member.task.model, data, device)
                if memory.needed and memory.free:
                    fitting = max(1, min(fitting, memory.free // memory.needed))
            members.append(member)
        if members:
            yield from _Group(data, members, device, point).train()
    if trainings:
        yield from train_together(trainings, data, point, test=test)


class _Group:
    """Trains members in one network, which those that end leave.

    Args:
        data: The data module.
        members: The members.
        device: Where they are trained.
        point: Where the state is kept.
    """

    def __init__(
        self,
        data: GraphDataModule,
        members: list[Member],
        device: torch.device,
        point: SharedPoint,
    ) -> None:
        self.data = data
        self.members = members
        self.device = device
        self.point = point
        self.num_edges = torch.as_tensor(data.graphs.slices["edge_index"]).diff()
        self.num_nodes = data.store.num_nodes
        self.alike = all(
            each.task.scale is None and each.task.class_weights is None for each in members
        )
        self._stack()

    def _stack(self) -> None:
        """Make the network of all members."""
        networks = [member.task.model for member in self.members]
        self.network = StackedNetwork(networks, [member.dropout for member in self.members])
        for place, member in enumerate(self.members):
            member.share(self.network, place)

    def train(self) -> Iterator[tuple[Training, Repetition | Exception]]:
        """Train; yield each member's training with its record, or error, when it has ended."""
        self.point.restore(self.members)
        for member in self.members:
            member.call("setup", "fit")
            member.call("on_train_start")
        shown = current_display()
        try:
            while self.members:
                begun = time.perf_counter()
                failed: dict[Member, Exception] = {}
                try:
                    with memory_errors(self.members[0].task.model, self.data):
                        self._epoch(failed)
                except Exception as error:
                    failed = dict.fromkeys(self.members, error)
                share = (time.perf_counter() - begun) / len(self.members)
                for member in self.members:
                    member.seconds += share
                ended = [
                    each
                    for each in self.members
                    if each in failed or each.should_stop or each.current_epoch >= each.max_epochs
                ]
                if shown is not None:
                    self._show(shown)
                if not ended:
                    self.point.save(self.members)
                    continue
                self.members = [each for each in self.members if each not in ended]
                for member in ended:
                    yield member.training, failed.get(member) or _outcome(member, self.data)
                if self.members:
                    self._stack()
            self.point.path.unlink(missing_ok=True)
        finally:
            if shown is not None:
                shown.end(self)

    def _show(self, shown: Any) -> None:
        members = self.members
        rows = [member.curves.history[-1] for member in members if member.curves.history]
        keys = [key for key in rows[0] if not key.startswith("test_")] if rows else []
        figures = {f"mean {key}": sum(row[key] for row in rows) / len(rows) for key in keys}
        # Of those that go on from a resume point, one may be ahead.
        first = min(members, key=lambda member: member.current_epoch)
        unit = first.training.config.protocol.unit if first.training.cell is None else "training"
        label = f"{len(members)} {unit}s together: epoch"
        shown.show(
            self,
            label,
            first.current_epoch,
            first.max_epochs,
            figures=figures,
            inside=REPETITIONS,
            numbered=True,
        )

    def _epoch(self, failed: dict[Member, Exception]) -> None:
        """Train an epoch, validate, and let the callbacks look; note which of them raise."""
        members, network = self.members, self.network
        for member in members:
            member.call("on_train_epoch_start")
        plugin = members[0].strategy.precision_plugin
        total = rows = torch.zeros(len(members), device=self.device)
        network.train()
        for number, batch in enumerate(self._batches("train")):
            # One that has no batch left takes no step.
            taking = [number < member.num_training_batches for member in members]
            for member in compress(members, taking):
                member.is_last_batch = number == member.num_training_batches - 1
                member.call("on_train_batch_start", batch, number)
            with plugin.forward_context():
                outputs = network(batch.graphs, batch.blocks)
                losses, terms = self._losses(self._rows(outputs, batch, "train"), outputs)
                (gradient,) = torch.autograd.grad(losses.sum(), [network.flat])
            total, rows = total + terms * losses.detach(), rows + terms
            for place, member in compress(enumerate(members), taking):
                member.step(network, gradient, place)
        network.eval()
        parts = [part for part in members[0].loaders if part != "train"]
        with torch.inference_mode(), plugin.forward_context():
            found = [self._evaluated(part) for part in parts]
        means = total / rows.clamp(min=1)
        for place, member in enumerate(members):
            metrics = {key: value for each in found for key, value in each[place].items()}
            member.callback_metrics = {**metrics, "train_loss": means[place]}
            try:
                member.call("on_train_epoch_end")
            except Exception as error:  # Such as a loss that is not finite.
                failed[member] = error
            member.current_epoch += 1

    def _evaluated(self, part: str) -> list[dict[str, Tensor]]:
        """Return metric and loss of each member over a part."""
        members = self.members
        pairs: list[list[tuple[Tensor, Tensor]]] = [[] for _ in members]
        total = rows = torch.zeros(len(members), device=self.device)
        for batch in self._batches(part):
            outputs = self.network(batch.graphs, batch.blocks)
            of_batch = self._rows(outputs, batch, part)
            losses, terms = self._losses(of_batch, outputs)
            total, rows = total + terms * losses, rows + terms
            for mine, pair in zip(pairs, of_batch, strict=True):
                mine.append(pair)
        means = total / rows.clamp(min=1)
        found = []
        for member, mine, loss in zip(members, pairs, means, strict=True):
            output, target = (torch.cat(each) for each in zip(*mine, strict=True))
            task = member.task
            # Whole, so that it is updated once.
            metric = task.metrics[part]
            metric.update(output, target)
            found.append({f"{part}_{task.metric_name}": metric.compute(), f"{part}_loss": loss})
            metric.reset()
            if part == "test":
                rows_of_test = {"output": output, "target": target}
                member.call("on_validation_start")
                member.call("on_validation_batch_end", rows_of_test, None, 0, 1)
                member.call("on_validation_epoch_end")
        return found

    def _rows(self, outputs: Tensor, batch: _Batch, part: str) -> list[tuple[Tensor, Tensor]]:
        """Return outputs and targets of each member."""
        blocks = outputs.view(len(self.members), -1, *outputs.shape[1:])
        return [
            member.task.select(
                member.task._in_units(block[: len(target)]),
                cast(Data, SimpleNamespace(y=target)),
                part,
            )
            for member, block, target in zip(self.members, blocks, batch.targets, strict=True)
        ]

    def _losses(
        self, pairs: Sequence[tuple[Tensor, Tensor]], outputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of each member, and over how many terms it is a mean, [K] each."""
        tasks = [member.task for member in self.members]
        counts = [task.terms(target) for task, (_, target) in zip(tasks, pairs, strict=True)]
        if isinstance(counts[0], Tensor):
            terms = torch.stack([cast(Tensor, count) for count in counts])
        else:
            terms = torch.tensor(counts, device=outputs.device)
        if self.alike and len({len(target) for _, target in pairs}) == 1:
            both = (torch.stack(each) for each in zip(*pairs, strict=True))
            return torch.func.vmap(tasks[0].loss)(*both), terms
        nothing = outputs.new_zeros(())
        losses = [
            task.loss(output, target) if len(target) else nothing
            for task, (output, target) in zip(tasks, pairs, strict=True)
        ]
        return torch.stack(losses), terms

    def _batches(self, part: str) -> Iterator[_Batch]:
        """Yield the batches of a part; a member that has fewer has empty ones at the end."""
        orders = [member.loaders[part].indices() for member in self.members]
        none = torch.zeros(0, dtype=torch.long)
        for indices in zip_longest(*orders, fillvalue=none):
            yield self._batch(indices)

    def _batch(self, indices: Sequence[Tensor]) -> _Batch:
        """Gather the graphs of each member into its block."""
        given = self.data.store.batch(torch.cat([*indices])).to(self.device)
        nodes = [int(self.num_nodes[each].sum()) for each in indices]
        edges = [int(self.num_edges[each].sum()) for each in indices]
        sizes = [len(each) for each in indices]
        blocks, dtype = Blocks(nodes, edges, sizes, self.device), self.network.flat.dtype
        y = given.y.to(dtype) if given.y.is_floating_point() else given.y
        return _Batch(blocks.fill(given, dtype), blocks, y.split(sizes))
