"""Networks of several pairs of graphs trained and tested in one step, each as it would be alone."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cosine_embedding_loss
from torch_geometric.data import Data

from unionsnn.config.pairs import PairConfig
from unionsnn.data.store import GraphStore
from unionsnn.expressivity.graph_sets import Graph
from unionsnn.expressivity.pair_test import (
    PairNetwork,
    diverged,
    of_pair,
    paired_t2,
    require_memory,
    verdict,
)
from unionsnn.models.stacked import Blocks, StackedNetwork, unstackable
from unionsnn.nn.batch import GraphBatch
from unionsnn.training.build import build_model
from unionsnn.training.devices import forked_generators

# Edges of a batch of all networks of a block: a GPU computes as long as it is told what to compute;
# a CPU, as long as what it reads stays in its cache.
_MOST_EDGES = {"cuda": 200_000, "cpu": 15_000}
# Beyond, what each network does by itself (copies, optimiser, T²) is nearly all.
_MOST_PAIRS = 64


def obstacle(config: PairConfig) -> str:
    """Return why the networks of pairs cannot be trained together; empty if they can."""
    with torch.device("meta"):
        network = build_model(config, 1, config.protocol.channels)
    part = unstackable(network)
    return part and f"{config.model.name} has a part ({part}) that computes one network at a time"


def blocks_of(
    pairs: Sequence[tuple[Graph, Graph]],
    pending: Sequence[int],
    batch_size: int,
    device: torch.device,
    workers: int,
) -> list[list[int]]:
    """Divide pairs among blocks of similar size, so that little of a block is filling.

    Args:
        pairs: All pairs.
        pending: Numbers of those to divide.
        batch_size: Number of graphs in a batch of a pair.
        device: Where the blocks are trained.
        workers: Number of processes, for each of which there is a block.
    """

    def edges(index: int) -> int:
        return max(edge_index.shape[1] for edge_index, _ in pairs[index])

    longest = min(_MOST_PAIRS, -(-len(pending) // workers))
    blocks: list[list[int]] = []
    for index in sorted(pending, key=edges):
        # All of a block are filled up to its last.
        most = _MOST_EDGES[device.type] // (edges(index) * batch_size + 1)
        if blocks and len(blocks[-1]) < min(longest, most):
            blocks[-1].append(index)
        else:
            blocks.append([index])
    return blocks


class _Member(PairNetwork):
    """A network among those of a block: with its optimiser, schedule and dropout masks."""

    def __init__(
        self, config: PairConfig, pair: tuple[Graph, Graph], index: int, device: torch.device
    ) -> None:
        begin = time.perf_counter()
        with forked_generators(device):
            super().__init__(config, pair, index, device)
            # What dropout draws from: on a CPU, the masks of a network that is trained alone.
            self.dropout = torch.Generator(device)
            if device.type == "cpu":
                self.dropout.set_state(torch.get_rng_state())
            else:
                self.dropout.manual_seed(self.seed)
        section = config.optimizer
        # A row of the weights of a stack.
        self.weights = nn.Parameter(next(self.model.parameters()).new_zeros(0))
        self.optimizer = torch.optim.Adam(
            [self.weights], lr=section.lr, weight_decay=section.weight_decay, fused=True
        )
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer)
        self.store = GraphStore(self.copies.dataset).to(device)
        self.epochs, self.loss = 0, float("nan")
        self.seconds = time.perf_counter() - begin


def compare_together(
    config: PairConfig,
    pairs: Sequence[tuple[Graph, Graph]],
    block: Sequence[int],
    device: torch.device,
) -> Iterator[dict[str, Any]]:
    """Train the networks of a block of pairs in one step; yield the record of each that ends.

    Each is trained on its own copies from its own seeds, with its own learning rate, and ends by
    its own loss: the record is that of `compare_pair` up to the order of sums, and its share of the
    time. One that fails leaves the others, and its error is raised when they have ended.

    Args:
        config: A configuration from `unionsnn.expressivity.trained_pairs.trained_config`, without
            an `obstacle`.
        pairs: All pairs.
        block: Numbers of the pairs to train on.
        device: Where the networks are trained.

    Raises:
        NonFiniteLossError: if the training of one diverges.
        FloatingPointError: if an embedding is not finite.
    """
    members: list[_Member] = []
    fitting = len(block)
    while len(members) < fitting:
        index = block[len(members)]
        members.append(_Member(config, pairs[index], index, device))
        last = members[-1]
        memory = require_memory(last.model.train(), last.store, torch.cat(last.copies.test), config)
        if memory.needed and memory.free:
            fitting = max(1, min(fitting, memory.free // memory.needed))
    rest = block[len(members) :]
    failed: list[Exception] = []
    while members:
        members, ended = _trained(members, config, device)
        failed += [
            diverged(each.index, each.loss, each.epochs)
            for each in ended
            if not math.isfinite(each.loss)
        ]
        ended = [each for each in ended if math.isfinite(each.loss)]
        if not ended:
            continue
        begin = time.perf_counter()
        outcomes = _tested(ended, config, device)
        share = (time.perf_counter() - begin) / len(ended)
        for member, outcome in zip(ended, outcomes, strict=True):
            if isinstance(outcome, Exception):
                failed.append(outcome)
                continue
            record = member.record(outcome, member.epochs, member.loss, member.seconds + share)
            yield {**record, "together": True}
    if rest:
        yield from compare_together(config, pairs, rest, device)
    if failed:
        raise failed[0]


def _trained(
    members: Sequence[_Member], config: PairConfig, device: torch.device
) -> tuple[list[_Member], list[_Member]]:
    """Train until some members end; return those that go on, and those."""
    begin, number = time.perf_counter(), len(members)
    protocol, copies = config.protocol, members[0].copies
    stack = StackedNetwork([each.model for each in members], [each.dropout for each in members])
    for place, member in enumerate(members):
        member.weights.data = stack.flat.data[place]
    numbers = torch.stack(copies.test, dim=1).flatten()
    # Whole pairs in each batch.
    parts = torch.split(numbers, config.data.batch_size // 2 * 2)
    batches = [_filled(members, part, stack.flat.dtype, device) for part in parts]
    terms = torch.tensor([[len(part) // 2] for part in parts], dtype=torch.float64)
    ended: list[_Member] = []
    stack.train()
    while not ended:
        of_batches = []
        for (batch, blocks), part in zip(batches, parts, strict=True):
            output = stack(batch, blocks).view(number, blocks.num_graphs, -1)[:, : len(part)]
            first, second = (output[:, side::2].flatten(0, 1) for side in (0, 1))
            apart = -output.new_ones(len(first))
            losses = cosine_embedding_loss(first, second, apart, protocol.margin, reduction="none")
            losses = losses.view(number, -1).mean(1)
            (gradient,) = torch.autograd.grad(losses.sum(), [stack.flat])
            for member, row in zip(members, gradient, strict=True):
                member.weights.grad = row
                member.optimizer.step()
            of_batches.append(losses.detach())
        # Read once an epoch, so that a GPU does not wait.
        means = (torch.stack(of_batches).double().cpu() * terms).sum(0) / copies.copies
        for member, mean in zip(members, means.tolist(), strict=True):
            member.epochs += 1
            member.loss = mean
            last = member.epochs == config.trainer.max_epochs
            if last or mean < protocol.stop_loss or not math.isfinite(mean):
                ended.append(member)
            else:
                member.plateau.step(mean)
    share = (time.perf_counter() - begin) / number
    for member in members:
        member.seconds += share
    return [member for member in members if member not in ended], ended


@torch.no_grad()
def _tested(
    members: Sequence[_Member], config: PairConfig, device: torch.device
) -> list[dict[str, Any] | FloatingPointError]:
    """Compare the two graphs of each member, and one of them with itself, in double precision.

    Returns:
        The outcome of each, or the error of one whose embeddings are not finite.
    """
    models = [member.model.double() for member in members]
    stack = StackedNetwork(models, [member.dropout for member in members]).eval()

    def embeddings(numbers: Tensor) -> NDArray[np.float64]:
        """Return those of copies of one graph of each pair, without others, [K, q, d]."""
        found = []
        for part in torch.split(numbers, config.data.batch_size):
            batch, blocks = _filled(members, part, torch.float64, device)
            outputs = stack(batch, blocks).view(len(members), blocks.num_graphs, -1)
            found.append(outputs[:, : len(part)])
        return torch.cat(found, 1).cpu().numpy()

    copies = members[0].copies
    both = [[embeddings(side) for side in sides] for sides in (copies.test, copies.check)]
    outcomes: list[dict[str, Any] | FloatingPointError] = []
    for place, member in enumerate(members):
        try:
            test, check = (paired_t2(first[place], second[place]) for first, second in both)
            outcomes.append(verdict(test, check, config.protocol))
        except FloatingPointError as error:
            outcomes.append(of_pair(member.index, error))
    return outcomes


def _filled(
    members: Sequence[_Member], numbers: Tensor, dtype: torch.dtype, device: torch.device
) -> tuple[GraphBatch, Blocks]:
    """Gather the same numbers of each member's copies into its block."""
    given = [member.store.batch(numbers) for member in members]
    nodes, edges = [each.x.size(0) for each in given], [each.edge_index.size(1) for each in given]
    firsts = itertools.accumulate(nodes[:-1], initial=0)
    union = Data(
        x=torch.cat([each.x for each in given]),
        edge_index=torch.cat([e.edge_index + f for e, f in zip(given, firsts, strict=True)], 1),
        batch=torch.cat([each.batch + place * len(numbers) for place, each in enumerate(given)]),
    )
    if "edge_coefficient" in given[0]:
        union.edge_coefficient = torch.cat([each.edge_coefficient for each in given])
    blocks = Blocks(nodes, edges, [len(numbers)] * len(members), device)
    return blocks.fill(union, dtype), blocks
