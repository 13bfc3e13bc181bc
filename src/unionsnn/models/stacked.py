"""Networks of one architecture, each with its own weights and graphs, computed as one."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn import aggr

from unionsnn.base.errors import RequestError
from unionsnn.models.gated_gcn import GatedGCN
from unionsnn.models.gcn import GCN
from unionsnn.models.gin import GIN
from unionsnn.models.sage import GraphSAGE
from unionsnn.models.unionsnn import UnionSNN
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.conv.edge_gcn import EdgeGCNConv
from unionsnn.nn.conv.edge_sage import EdgeSAGEConv
from unionsnn.nn.conv.gated_gcn import GatedGCNConv
from unionsnn.nn.conv.union import UnionConv
from unionsnn.nn.encoders import (
    CategoricalEncoder,
    EdgeEncoder,
    LinearEncoder,
    StructuralEdgeEncoder,
)
from unionsnn.nn.gates import StructuralGate
from unionsnn.nn.plugin import UnionPlugin


class Blocks:
    """Rows of K networks one after another, a block of equal length for each.

    The rows of a kind (nodes, edges, graphs) fill the start of each block. The lengths of the three
    kinds differ, so that the number of rows tells the kind.

    Args:
        nodes: Number of nodes of each network.
        edges: Number of edges of each network.
        graphs: Number of graphs of each network.
        device: Where the rows are.
    """

    def __init__(
        self,
        nodes: Sequence[int],
        edges: Sequence[int],
        graphs: Sequence[int],
        device: torch.device,
    ) -> None:
        self.number = len(nodes)
        # The rows that fill a block are a graph of their own, a ring of two nodes or more without
        # loops, and with at most 16 edges at a node: sums grow with the degree in each layer.
        longest = max(edges)
        fill = (max(2, -(-(longest - count) // 16)) for count in edges)
        self.num_nodes = max(n + f for n, f in zip(nodes, fill, strict=True))
        self.num_graphs = max(graphs) + 1
        if self.num_graphs == self.num_nodes:
            self.num_graphs += 1
        self.num_edges = max(longest, 1)
        while self.num_edges in (self.num_nodes, self.num_graphs):
            self.num_edges += 1
        self.device = device
        self.counts: Mapping[int, list[int]] = {
            self.num_nodes: list(nodes),
            self.num_edges: list(edges),
            self.num_graphs: list(graphs),
        }
        self._masks: dict[int, tuple[Tensor, Tensor]] = {}

    def length(self, rows: Tensor) -> int:
        """Return the length of a block of these rows.

        Raises:
            RuntimeError: if they are of no kind, so that it is not known whose they are.
        """
        length, rest = divmod(rows.size(0), self.number)
        if rest or length not in self.counts:
            raise RuntimeError(f"{rows.size(0)} rows are of no kind of {self.number} networks.")
        return length

    def cut(self, rows: Tensor) -> Tensor:
        """Return rows by network, [K, length, ...]; of edges, also with a loop at each node after.

        Raises:
            RuntimeError: as `length`.
        """
        edges, nodes = self.number * self.num_edges, self.number * self.num_nodes
        if rows.size(0) == edges + nodes:
            return torch.cat([self.cut(part) for part in torch.split(rows, [edges, nodes])], dim=1)
        return rows.reshape(self.number, self.length(rows), *rows.shape[1:])

    def join(self, rows: Tensor) -> Tensor:
        """Return rows as `cut` has got them."""
        if rows.size(1) == self.num_edges + self.num_nodes:
            parts = torch.split(rows, [self.num_edges, self.num_nodes], dim=1)
            return torch.cat([part.flatten(0, 1) for part in parts])
        return rows.flatten(0, 1)

    def mask(self, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return which rows of the blocks are real, [K, length, 1], and their number, [K, 1, 1]."""
        if length not in self._masks:
            count = torch.tensor(self.counts[length], device=self.device).view(-1, 1, 1)
            real = torch.arange(length, device=self.device).view(1, -1, 1) < count
            self._masks[length] = real.to(dtype), count.to(dtype)
        return self._masks[length]

    def fill(self, batch: Data, dtype: torch.dtype) -> GraphBatch:
        """Put a batch of all networks' graphs, those of the first network first, into blocks.

        Args:
            batch: The batch; of its attributes, node features, edges and what belongs to them.
            dtype: Of numbers that are not whole.
        """
        node_at, edge_at, graph_at = (
            self._places(length) for length in (self.num_nodes, self.num_edges, self.num_graphs)
        )

        def filled(rows: Tensor, length: int, at: Tensor) -> Tensor:
            made = rows.new_zeros(self.number * length, *rows.shape[1:])
            made.index_copy_(0, at, rows)
            return made.to(dtype) if made.is_floating_point() else made

        of_edges: dict[str, Any] = {
            name: filled(batch[name], self.num_edges, edge_at)
            for name in ("edge_attr", "edge_coefficient")
            if name in batch
        }
        return GraphBatch(
            x=filled(batch.x, self.num_nodes, node_at),
            edge_index=self._edges(batch.edge_index, node_at, edge_at),
            batch=self._graphs(batch.batch, node_at, graph_at),
            num_graphs=self.number * self.num_graphs,
            **of_edges,
        )

    def _places(self, length: int) -> Tensor:
        """Return where the rows of a kind are, network by network."""
        counts = self.counts[length]
        total = sum(counts)
        before = itertools.accumulate(counts[:-1], initial=0)
        starts = [block * length - first for block, first in enumerate(before)]
        both = torch.tensor([counts, starts], device=self.device)
        shift = both[1].repeat_interleave(both[0], output_size=total)
        return shift + torch.arange(total, device=self.device)

    def _edges(self, edge_index: Tensor, node_at: Tensor, edge_at: Tensor) -> Tensor:
        """Return the edges of all blocks, filled up with edges of the nodes that fill them up."""
        both = [self.counts[self.num_nodes], self.counts[self.num_edges]]
        nodes, edges = torch.tensor(both, device=self.device).unsqueeze(-1)
        first = torch.arange(self.number, device=self.device).unsqueeze(1) * self.num_nodes
        over = torch.arange(self.num_edges, device=self.device) - edges
        along = torch.stack([over, over + 1]).remainder(self.num_nodes - nodes)
        given = node_at.index_select(0, edge_index.reshape(-1)).view(2, -1)
        return (first + nodes + along).view(2, -1).index_copy_(1, edge_at, given)

    def _graphs(self, batch: Tensor, node_at: Tensor, graph_at: Tensor) -> Tensor:
        """Return the graph of each node of all blocks; that of filling nodes is a block's last."""
        last = torch.arange(1, self.number + 1, device=self.device) * self.num_graphs - 1
        of_node = last.repeat_interleave(self.num_nodes)
        return of_node.index_copy_(0, node_at, graph_at.index_select(0, batch))


class _Stacked(nn.Module):
    """Base class of what replaces a module of K networks.

    Attributes:
        given: The weights of the K modules by name, [K, ...], set before each pass.
    """

    def __init__(self, stack: StackedNetwork) -> None:
        super().__init__()
        # Not as a part of this module.
        object.__setattr__(self, "stack", stack)
        self.given: dict[str, Tensor] = {}

    stack: StackedNetwork

    @property
    def blocks(self) -> Blocks:
        """The rows of the current pass."""
        return self.stack.blocks


def _stacked_buffers(modules: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Stack the buffers of modules, which become views, so that both stay the same."""
    held = {}
    for name, _ in [*modules[0].named_buffers()]:
        prefix, _, attribute = name.rpartition(".")
        owners = [module.get_submodule(prefix) for module in modules]
        held[name] = torch.stack([getattr(owner, attribute) for owner in owners])
        for owner, row in zip(owners, held[name], strict=True):
            setattr(owner, attribute, row)
    return held


class _Linear(_Stacked):
    """Linear maps: one batched product."""

    def __init__(self, stack: StackedNetwork, modules: Sequence[nn.Module]) -> None:
        super().__init__(stack)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.given["weight"], self.given.get("bias")
        rows = self.blocks.cut(x.to(weight.dtype))
        if bias is None:
            return self.blocks.join(rows @ weight.transpose(1, 2))
        return self.blocks.join(torch.baddbmm(bias.unsqueeze(1), rows, weight.transpose(1, 2)))


class _LayerNorm(_Stacked):
    """Layer norms: rows are normalised alike, and scaled by the weights of their block."""

    def __init__(self, stack: StackedNetwork, modules: Sequence[nn.Module]) -> None:
        super().__init__(stack)
        first: Any = modules[0]
        self.shape, self.eps = first.normalized_shape, first.eps

    def forward(self, x: Tensor) -> Tensor:
        rows = nn.functional.layer_norm(x, self.shape, eps=self.eps)
        weight, bias = self.given["weight"].unsqueeze(1), self.given["bias"].unsqueeze(1)
        return self.blocks.join(torch.addcmul(bias, self.blocks.cut(rows), weight))


class _Normalize(torch.autograd.Function):
    r"""Batch norm of each block, \((x - \mu) / \sqrt{\sigma^2 + \epsilon} \cdot w + b\).

    Mean and variance are over the real rows; those of a block without several rows are given, as
    constants. Filling rows become 0.

    Shapes:
        x [K, N, C]; weight, bias, mean, variance [K, 1, C]; real [K, N, 1]; count, several
        [K, 1, 1] -> [K, N, C], and mean and variance [K, 1, C].
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        given: tuple[Tensor, Tensor],
        real: Tensor,
        count: Tensor,
        several: Tensor | None,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        # A block without rows has the sum 0.
        count = count.clamp(min=1)
        mean = (x * real).sum(1, keepdim=True) / count
        if several is not None:
            mean = torch.where(several > 0, mean, given[0])
        centred = (x - mean) * real
        variance = centred.square().sum(1, keepdim=True) / count
        if several is not None:
            variance = torch.where(several > 0, variance, given[1])
        scale = torch.rsqrt(variance + eps)
        normalized = centred * scale
        ctx.save_for_backward(normalized, scale, weight, real, count)
        ctx.several = several
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias * real, normalized, weight), mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        normalized, scale, weight, real, count = ctx.saved_tensors
        gradient = gradients[0] * real
        of_bias = gradient.sum(1, keepdim=True)
        of_weight = (gradient * normalized).sum(1, keepdim=True)
        through = (of_bias + normalized * of_weight) / count
        if ctx.several is not None:
            through = through * ctx.several
        of_x = (gradient - through) * (scale * weight) * real
        return of_x, of_weight, of_bias, None, None, None, None, None


class _BatchNorm(_Stacked):
    """Batch norms, each over the rows of its block."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, stack: StackedNetwork, modules: Sequence[Any]) -> None:
        super().__init__(stack)
        inner = [module.module for module in modules]
        self.eps, self.momentum = inner[0].eps, inner[0].momentum
        for name, stacked in _stacked_buffers(inner).items():
            self.register_buffer(name, stacked)

    def forward(self, x: Tensor) -> Tensor:
        blocks = self.blocks
        rows = x.view(blocks.number, -1, x.size(-1))
        # The weights are those of the module inside.
        weight, bias = (self.given[f"module.{name}"].unsqueeze(1) for name in ("weight", "bias"))
        mean, variance = self.running_mean.unsqueeze(1), self.running_var.unsqueeze(1)
        if not self.training:
            scale = weight * torch.rsqrt(variance + self.eps)
            return torch.addcmul(bias - mean * scale, rows, scale).view_as(x)
        length = rows.size(1)
        real, count = blocks.mask(length, x.dtype)
        single = min(blocks.counts[length]) < 2
        several = (count > 1).to(x.dtype) if single else None
        out, of_batch, spread = _Normalize.apply(  # type: ignore[no-untyped-call]
            rows, weight, bias, (mean, variance), real, count, several, self.eps
        )
        with torch.no_grad():
            rate = self.momentum if several is None else self.momentum * several.squeeze(1)
            unbiased = spread * (count / (count - 1).clamp(min=1))
            self.running_mean.lerp_(of_batch.squeeze(1), rate)
            self.running_var.lerp_(unbiased.squeeze(1), rate)
            self.num_batches_tracked += 1 if several is None else several.view(-1).long()
        normalized: Tensor = out.view_as(x)
        return normalized


class _Dropout(_Stacked):
    """Dropout; each block has its network's probability, and masks of its network's generator."""

    shares: Tensor

    def __init__(self, stack: StackedNetwork, modules: Sequence[Any]) -> None:
        super().__init__(stack)
        self.kept = [1 - module.p for module in modules]
        self.register_buffer("shares", stack.flat.new_tensor(self.kept))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or all(share == 1 for share in self.kept):
            return x
        blocks = self.blocks
        scales = torch.zeros_like(x).view(blocks.number, -1, *x.shape[1:])
        counts = blocks.counts[blocks.length(x)]
        drawn = zip(scales, counts, self.kept, self.stack.generators, strict=True)
        for block, count, share, generator in drawn:
            # As torch draws them, so that a network's are those that it has alone.
            if share == 1:
                block.fill_(1)
            elif count:
                block[:count].bernoulli_(share, generator=generator)
        scales /= self.shares.view(-1, *(1 for _ in x.shape))
        return x * scales.view_as(x)


class _Table(_Stacked):
    """Sums of embeddings, each block from a table of its own."""

    def __init__(self, stack: StackedNetwork, modules: Sequence[nn.Module]) -> None:
        super().__init__(stack)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.given["weight"]
        first = torch.arange(weight.size(0), device=x.device).view(-1, 1, 1) * weight.size(1)
        index = (x.view(weight.size(0), -1, x.size(1)) + first).view_as(x)
        return nn.functional.embedding_bag(index, weight.flatten(0, 1), mode="sum")


class _Mapped(_Stacked):
    """A module that is the same function of each block's rows: `torch.func.vmap` over blocks."""

    def __init__(self, stack: StackedNetwork, modules: Sequence[nn.Module]) -> None:
        super().__init__(stack)
        # Not as a part of this module: its weights are given.
        object.__setattr__(self, "module", copy.deepcopy(modules[0]))
        self.held = _stacked_buffers(modules)

    module: nn.Module

    def __getattr__(self, name: str) -> Any:
        """Return what a module says of itself, such as its number of channels."""
        if name in ("channels", "is_lazy", "normalization", "residual"):
            return getattr(self.module, name)
        return super().__getattr__(name)

    def quotient(self, *args: Any) -> None:
        """Return that a gate's weights are not given as quotients."""

    def forward(self, *args: Any) -> Tensor:
        """Return the rows of all blocks."""
        blocks = self.blocks
        values = [self._of_blocks(each) for each in args]

        def one(weights: dict[str, Tensor], held: dict[str, Tensor], *args: Any) -> Tensor:
            made: Tensor = functional_call(self.module, (weights, held), args)
            return made

        along = tuple(0 if isinstance(each, Tensor) else None for each in values)
        return blocks.join(vmap(one, in_dims=(0, 0, *along))(self.given, self.held, *values))

    def _of_blocks(self, value: Any) -> Any:
        """Return rows as [K, length, ...], edges as [K, 2, length], numbered within the block."""
        blocks = self.blocks
        if isinstance(value, int):
            return value // blocks.number
        if value.size(0) == 2 and value.dtype == torch.long:
            first = torch.arange(blocks.number, device=value.device).view(-1, 1, 1)
            return blocks.cut(value.t()).transpose(1, 2) - first * blocks.num_nodes
        return blocks.cut(value)


_COUNTERPARTS: Mapping[type[nn.Module], Callable[[Any, Any], _Stacked]] = {
    nn.Linear: _Linear,
    LinearEncoder: _Linear,
    pyg.Linear: _Linear,
    nn.LayerNorm: _LayerNorm,
    pyg.BatchNorm: _BatchNorm,
    nn.Dropout: _Dropout,
    nn.EmbeddingBag: _Table,
    StructuralGate: _Mapped,
    StructuralEdgeEncoder: _Mapped,
}
"""What replaces the modules of K networks, by their class."""

_OWN_WEIGHTS: Mapping[type[nn.Module], Mapping[str, str]] = {
    pyg.GINConv: {"eps": "num_nodes"},
    pyg.GINEConv: {"eps": "num_nodes"},
    UnionConv: {"epsilon": "num_nodes"},
    pyg.GCNConv: {"bias": "num_nodes"},
    EdgeGCNConv: {"loop": "num_nodes"},
    GatedGCN: {"edge": "num_edges"},
}
"""Weights that a module adds to rows, or multiplies them by, by name; and which rows."""

_UNCHANGED = (
    *(GIN, UnionSNN, GraphSAGE, GCN, GatedGCN),
    *(pyg.GINConv, pyg.GINEConv, pyg.SAGEConv, pyg.SGConv, pyg.GCNConv),
    *(UnionConv, EdgeSAGEConv, EdgeGCNConv, GatedGCNConv, UnionPlugin),
    *(CategoricalEncoder, EdgeEncoder),
    *(nn.ModuleList, nn.Sequential, nn.Identity, nn.ReLU),
    *(aggr.SumAggregation, aggr.MeanAggregation, aggr.MaxAggregation),
)
"""Modules that compute the rows of a block from those of that block, and hold no other weights."""


def unstackable(network: nn.Module) -> str:
    """Return which part of a network cannot be computed with those of others; empty if all can."""
    kind = type(network)
    if kind in _COUNTERPARTS:
        softmax = isinstance(network, StructuralGate) and network.normalization != "none"
        return f"a gate with normalization={network.normalization}" if softmax else ""
    own = _OWN_WEIGHTS.get(kind, {}).keys()
    if (
        kind not in _UNCHANGED
        or {name for name, _ in network.named_parameters(recurse=False)} - own
    ):
        return kind.__name__
    return next(filter(None, map(unstackable, network.children())), "")


class StackedNetwork(nn.Module):
    """K networks of one architecture as one, of a batch that holds a block for each.

    The weights of the networks become views of `flat`, and their running statistics views of those
    here: each network stays what it would be alone. Their dropout may differ.

    Args:
        networks: The networks, which `unstackable` does not name a part of.
        generators: What each network draws its dropout masks from.

    Attributes:
        flat: The weights of each network in a row, [K, number of weights].
        blocks: The rows of the current pass.

    Raises:
        RequestError: if a part of them cannot be computed with that of others.
    """

    blocks: Blocks

    def __init__(
        self, networks: Sequence[nn.Module], generators: Sequence[torch.Generator]
    ) -> None:
        super().__init__()
        if part := unstackable(networks[0]):
            raise RequestError(
                f"{part} cannot be trained together with those of other repetitions.",
                code="protocol.together",
            )
        self.generators = generators
        rows = [[*network.parameters()] for network in networks]
        self._sizes = [p.numel() for p in rows[0]]
        with torch.no_grad():
            flat = torch.stack([torch.cat([p.reshape(-1) for p in row]) for row in rows])
        self.flat = nn.Parameter(flat)
        for values, row in zip(flat, rows, strict=True):
            for parameter, value in zip(row, torch.split(values, self._sizes), strict=True):
                parameter.data = value.view(parameter.shape)
        # Weights are given to the parts of a copy.
        self.template = copy.deepcopy(networks[0])
        self._given: list[tuple[nn.Module, str, torch.Size, str]] = []
        self._replace(self.template, networks)

    def _replace(self, module: nn.Module, alike: Sequence[nn.Module]) -> None:
        """Note or remove the weights of a module, and replace its parts, in order."""
        kinds = _OWN_WEIGHTS.get(type(module), {})
        for name, parameter in [*module.named_parameters(recurse=False)]:
            delattr(module, name)
            self._given.append((module, name, parameter.shape, kinds[name]))
        for name, child in [*module.named_children()]:
            children = [each.get_submodule(name) for each in alike]
            make = _COUNTERPARTS.get(type(child))
            if make is None:
                self._replace(child, children)
                continue
            made = make(self, children)
            setattr(module, name, made)
            for weight, parameter in child.named_parameters():
                self._given.append((made, weight, parameter.shape, ""))

    def forward(self, batch: GraphBatch, blocks: Blocks) -> Tensor:
        """Return the outputs, [K * blocks.num_graphs, out_channels], some of them of filling."""
        self.blocks = blocks
        values = torch.split(self.flat, self._sizes, dim=1)
        for (module, name, shape, kind), value in zip(self._given, values, strict=True):
            if isinstance(module, _Stacked):
                module.given[name] = value.view(-1, *shape)
                continue
            rows = value.unsqueeze(1).expand(-1, getattr(blocks, kind), -1)
            setattr(module, name, rows.flatten(0, 1))
        outputs: Tensor = self.template(batch)
        return outputs

    def gradients(self, gradient: Tensor, network: int) -> list[Tensor]:
        """Return the gradient of each weight of a network, from that of `flat`."""
        parts = torch.split(gradient[network], self._sizes)
        shapes = (shape for _, _, shape, _ in self._given)
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
