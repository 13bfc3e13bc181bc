"""Provably powerful graph network, the 3WL-GNN of the paper's tables."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from unionsnn.base.arguments import require_at_least
from unionsnn.base.memory import Extent
from unionsnn.models.arguments import Gate, NetworkOptions, Readout, refuse_gate
from unionsnn.models.network import Network
from unionsnn.models.parts import make_head
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.padding import SPREAD
from unionsnn.nn.pairs import PairBlock, PairPadding, node_rows, pair_features
from unionsnn.nn.readout import readout


class PPGN(Network):
    r"""PPGN: matrix products over features of all pairs of nodes, as powerful as 3-WL.

    .. math::
        X^{(0)} = [A;\ \mathrm{diag}(E x);\ e], \qquad X^{(l)} = \mathrm{block}_l(X^{(l-1)}), \qquad
        y = \mathrm{head}\Big(\sum_l W_l [\mathrm{pool}_v X^{(l)}_{vv};\
        \mathrm{pool}_{v \ne u} X^{(l)}_{vu}]\Big)

    "Provably Powerful Graph Networks" (Maron et al., NeurIPS 2019), in the setting of "Benchmarking
    Graph Neural Networks" (Dwivedi et al., JMLR 2023), which calls it 3WL-GNN; see `PairBlock`.
    Graphs of similar size are padded to a common size (`similar_sizes`). Each block is read out,
    the diagonal separately from the rest. On node tasks the row of a node is pooled, not the whole
    matrix. Time grows cubically and memory quadratically with the nodes of a graph: see
    `batch_bytes`. Edge features, if there are any, are encoded and become further channels e of
    the pairs, as in the paper's section 5.2. No messages are sent that a gate could weight.

    Args:
        out_channels: Number of classes or targets.
        gate: Must be None.
        num_layers: Number of blocks.
        mlp_layers: Number of linear maps in each of the two MLPs of a block.
        dropout: Probability of dropping a channel in the head.
        readout: ``sum``, ``mean`` or ``max``, over nodes and over pairs.
        options: Arguments of `Network`; `hidden_channels` is the number of channels of a pair.

    Shapes:
        - batch: as in `GraphBatch`; a structural encoder needs its `edge_coefficient`
        - output: [num_graphs, num_nodes or num_pairs, out_channels]

    Raises:
        RequestError: if a choice or size is not allowed, or there is a gate.
    """

    reads_edges = True

    not_exported = "torch.export cannot trace its padded matrices for a free number of nodes"

    def __init__(
        self,
        *,
        out_channels: int,
        gate: Gate | None = None,
        num_layers: int = 3,
        mlp_layers: int = 2,
        dropout: float = 0.0,
        readout: Readout = "max",
        **options: Unpack[NetworkOptions],
    ) -> None:
        super().__init__(
            out_channels=out_channels, num_layers=num_layers, readout=readout, **options
        )
        refuse_gate(gate, "PPGN", "it multiplies matrices of all pairs and sends no messages")
        require_at_least("mlp_layers", mlp_layers, 1)
        self.mlp_layers = mlp_layers
        channels = self.hidden_channels
        first = 1 + channels * (1 if self.edge_encoder is None else 2)
        widths = [first, *[channels] * (num_layers - 1)]
        self.blocks = nn.ModuleList(
            PairBlock(width, channels, mlp_layers=mlp_layers) for width in widths
        )
        # The head has a bias; without one here, an empty graph is 0 as in other networks.
        self.readers = nn.ModuleList(nn.Linear(2 * channels, channels, bias=False) for _ in widths)
        self.head = make_head(channels, out_channels, dropout, self.level)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode nodes, apply and read out each block, in groups of graphs of similar size."""
        padding = PairPadding(batch.batch, batch.num_graphs, batch.sizes)
        pairs = pair_features(
            self.encoder(batch.x), batch.edge_index, padding, self.encoded_edges(batch)
        )
        read = []
        for block, reader in zip(self.blocks, self.readers, strict=True):
            pairs = [block(*each) for each in zip(pairs, padding.taken, strict=True)]
            rows = node_rows(pairs, padding, self.readout)
            if self.level == "graph":
                rows = readout(rows, batch.batch, batch.num_graphs, self.readout)
            read.append(reader(rows))
        return sum(read[1:], start=read[0])

    def batch_bytes(self, extent: Extent) -> int:
        """Estimate the memory from the channels of pairs that exist at the same time."""
        # `similar_sizes` pads a graph of n nodes to at most SPREAD n^2 pairs, an empty one to 1.
        padded = extent.num_graphs * max(extent.largest, 1) ** 2
        pairs = min(padded, SPREAD * extent.pairs + extent.num_graphs)
        width = self.hidden_channels
        if self.training:
            # Kept for gradients: the pairs, each ReLU's output, the product, its masked pool.
            kept = 2 + 2 * self.mlp_layers + int(self.readout == "max")
            # In addition, three gradients at the same time.
            channels = (len(self.blocks) * kept + 3) * width
        else:
            # A block's input, its two factors, and the partial sums of its output.
            channels = 1 + width + 5 * width
        if self.edge_encoder is not None:
            # By cell, then as channels beside the others; in training the gradients of both.
            channels += (4 if self.training else 2) * width
        return pairs * channels * self.element_size
