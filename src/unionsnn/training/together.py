"""Repetitions that are trained together: one step for all of them, a record for each."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress, zip_longest
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from unionsnn.base.display import current_display
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.config.targets import code_digests, is_network
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.models.stacked import Blocks, StackedNetwork, unstackable
from unionsnn.nn.batch import GraphBatch
from unionsnn.training.build import build_model
from unionsnn.training.devices import training_device
from unionsnn.training.member import Member
from unionsnn.training.memory import memory_errors, require_memory
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import REPETITIONS, Training, surroundings
from unionsnn.training.resume import SharedPoint, point_of

# A GPU computes as long as it is told what to compute at about so many edges of a batch.
_MOST_EDGES = 200_000


def obstacle(config: Config, data: GraphDataModule) -> str:
    """Return why repetitions of an experiment cannot be trained together; empty if they can."""
    trainer, protocol = config.trainer, config.protocol
    keys = {
        "protocol.workers": protocol.workers > 1,
        "trainer.devices": trainer.several,
        "protocol.grid": protocol.grid is not None,
        "debug": config.debug is not None,
        "coefficient.control": config.coefficient.control != "none",
        "trainer.accumulate_grad_batches": trainer.accumulate_grad_batches > 1,
        "trainer.ema_decay": trainer.ema_decay is not None,
        "trainer.swa_start": trainer.swa_start is not None,
        "trainer.compile": trainer.compile,
        "trainer.callbacks": bool(trainer.callbacks),
        "trainer.extra": bool(trainer.extra),
        f"trainer.precision={trainer.precision}": trainer.precision.endswith("mixed"),
        f"data.task={data.task}": data.task.startswith("node"),
        f"model._target_={config.model.target}": not is_network(config.model.target),
    }
    if found := [key for key, there in keys.items() if there]:
        return f"{found[0]} is set"
    with torch.device("meta"):
        network = build_model(config, data.num_features, data.num_outputs, data.num_edge_features)
    edges = data.graphs._data.edge_index
    if getattr(network, "adds_loops", False) and bool((edges[0] == edges[1]).any()):
        return f"{config.model.name} adds self loops to graphs, which {data.name} has already"
    if part := unstackable(network):
        return f"{config.model.name} has a part ({part}) that computes one network at a time"
    return ""


def pays(config: Config, data: GraphDataModule) -> bool:
    """Return whether repetitions take less time together than one after another.

    On a GPU a step of small graphs takes as long as its launches, of which there are as many for
    ten networks as for one. On a CPU the filling of the blocks costs more than is saved.
    """
    edges = int(torch.as_tensor(data.graphs.slices["edge_index"])[-1])
    of_batch = edges / max(data.num_graphs, 1) * data.batch_size
    on_gpu = training_device(config.trainer.accelerator).type == "cuda"
    return on_gpu and of_batch <= _MOST_EDGES


@dataclass(frozen=True)
class _Batch:
    """A batch of each network: the blocks' graphs, their extents, and the targets of each."""

    graphs: GraphBatch
    blocks: Blocks
    targets: Sequence[Tensor]


def _outcome(member: Member, data: GraphDataModule) -> Repetition | Exception:
    try:
        return member.finish(data)
    except Exception as error:  # One that concerns it alone.
        return error


def train_together(
    trainings: Sequence[Training], data: GraphDataModule
) -> Generator[tuple[int, Repetition | Exception]]:
    """Train repetitions of an experiment together; yield each record, or error, when it is there.

    A repetition draws from its own seeds, stops by its own curve, and keeps its own best weights:
    its record is that of `train_repetition` up to the order of sums, and its share of the time.

    Args:
        trainings: The repetitions, whose experiment `obstacle` says nothing against.
        data: Their data module.
    """
    config, folder = trainings[0].config, trainings[0].folder
    members: list[Member] = []
    fitting = len(trainings)
    with surroundings(config), ExitStack() as runs:
        device = training_device(config.trainer.accelerator)
        data.device, data.accumulated = device, 1
        while trainings and len(members) < fitting:
            training, *trainings = trainings
            try:
                member = Member(training, data, device)
            except Exception as error:  # As that of a part without both classes.
                yield training.index, error
                continue
            runs.enter_context(member.run)
            if not members:
                memory = require_memory(member.task.model, data, device)
                if memory.needed and memory.free:
                    fitting = max(1, min(fitting, memory.free // memory.needed))
            members.append(member)
        if members:
            about = {"config": config_hash(config), "code": code_digests(config)}
            point = SharedPoint(point_of(folder), about)
            yield from _Group(config, data, members, device, point).train()
    if trainings:
        yield from train_together(trainings, data)


class _Group:
    """Trains members in one network, which those that end leave.

    Args:
        config: The configuration.
        data: The data module.
        members: The members.
        device: Where they are trained.
        point: Where the state is kept.
    """

    def __init__(
        self,
        config: Config,
        data: GraphDataModule,
        members: list[Member],
        device: torch.device,
        point: SharedPoint,
    ) -> None:
        self.config = config
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

    def train(self) -> Iterator[tuple[int, Repetition | Exception]]:
        """Train; yield each member's index with its record, or error, when it has ended."""
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
                    yield member.training.index, failed.get(member) or _outcome(member, self.data)
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
        first = members[0]
        label = f"{len(members)} {self.config.protocol.unit}s together: epoch"
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
