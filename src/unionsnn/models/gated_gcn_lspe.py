"""GatedGCN with learned positional encodings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter

from unionsnn.base.arguments import require_at_least
from unionsnn.models.arguments import Encodings, encodes_edges, sole_encoding
from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.models.parts import make_norm
from unionsnn.nn.batch import GraphBatch, required
from unionsnn.nn.conv.gated_gcn_lspe import GatedGCNLSPEConv
from unionsnn.nn.plugin import UnionPlugin

# Positions of equivalent nodes differ by rounding, which must not be scaled to length 1: a column
# whose squares are far below this counts as 0.
_SHORT = 1e-3


class GatedGCNLSPE(MPNN):
    r"""GatedGCN-LSPE: features and positions in two streams, joined before the readout.

    .. math::
        p^{(0)}_v = T r_v, \qquad
        \hat p = \mathrm{unit}(P p^{(L)}), \qquad
        h_v = W [h^{(L)}_v, \hat p_v]

    "Graph Neural Networks with Learnable Structural and Positional Representations" (Dwivedi et
    al., ICLR 2022), section 3; see `GatedGCNLSPEConv` for the layers. r are the landing
    probabilities of a random walk of k steps, and unit subtracts the mean from each of a graph's k
    columns and divides it by its length. With a weight, the mean of the positional loss over graphs
    is added, which makes the columns similar to eigenvectors of the normalised Laplacian L,

    .. math::
        \frac{1}{k} \mathrm{tr}(\hat p^T L \hat p) +
        \frac{\lambda}{k} \| \hat p^T \hat p - I \|_F^2

    The edge features start from e_vu; without any, from one learned vector for all edges. The
    structural gate of a union variant multiplies the messages of both streams.

    Args:
        encodings: Must be ``random_walk``, the number of steps k, alone.
        positional_loss: Weight of the positional loss; 0 for none.
        orthogonality: The weight λ.
        stack: Arguments of `MPNN`; `norm` also applies to edge features, `dropout` is applied to
            node features only.

    Shapes:
        - batch: as for `MPNN`, with `random_walk` of encodings["random_walk"] columns
        - output: as for `MPNN`

    Raises:
        RequestError: if a choice or number is not allowed, or landing probabilities are missing.
    """

    reads_edges = True
    reads_encodings = ("random_walk",)

    def __init__(
        self,
        *,
        encodings: Encodings | None,
        positional_loss: float = 0.0,
        orthogonality: float = 0.1,
        **stack: Unpack[StackOptions],
    ) -> None:
        norm = stack.get("norm", "batch")
        super().__init__(lambda c: GatedGCNLSPEConv(c, make_norm(norm, c)), **stack)
        require_at_least("positional_loss", positional_loss, 0)
        require_at_least("orthogonality", orthogonality, 0)
        last = self.convs[-1]
        # Nothing reads its edge features.
        (last.conv if isinstance(last, UnionPlugin) else last).edge_norm = None
        self.encodings = sole_encoding(type(self).__name__, "random_walk", encodings)
        self.positional_loss = positional_loss
        self.orthogonality = orthogonality
        steps, width = self.encodings["random_walk"], self.hidden_channels
        if not encodes_edges(stack):
            self.edge = nn.Parameter(torch.randn(width))
        self.first_position = nn.Linear(steps, width)
        self.last_position = nn.Linear(width, steps)
        self.join = nn.Linear(width + steps, width)
        self._loss: Tensor | None = None

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode nodes, convolve both streams, join them, and read out."""
        h = self.encoder(batch.x)
        state = self.initial_state(h, batch)
        h, (_, position) = self.convolve(h, batch.edge_index, state, batch.edge_coefficient)
        position = unit_columns(self.last_position(position), batch.batch, batch.num_graphs)
        self._loss = None
        if self.training and self.positional_loss:
            self._loss = self.positional_loss * laplacian_loss(
                position,
                batch.edge_index,
                batch.batch,
                batch.num_graphs,
                orthogonality=self.orthogonality,
            )
        return self.pool(self.join(torch.cat([h, position], dim=1)), batch)

    def initial_state(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return edge features and positions before the first layer."""
        steps = self.encodings["random_walk"]
        random_walk = required(
            "random_walk",
            batch.random_walk,
            [batch.x.size(0), steps],
            reader=type(self).__name__,
            remedy=f"load the data with model.encodings.random_walk={steps}.",
        )
        position = self.first_position(random_walk.to(self.first_position.weight.dtype))
        edges = self.encoded_edges(batch)
        if edges is None:
            edges = self.edge.expand(batch.edge_index.size(1), -1)
        return edges, position

    def auxiliary_loss(self, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Return what to add to the loss of the preceding training pass, or None.

        Args:
            loss: The loss of an output; not used.
        """
        value, self._loss = self._loss, None
        return value


def unit_columns(position: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    """Centre each graph's columns and divide them by their length.

    An almost constant column stays short.

    Shapes:
        - position, output: [num_nodes, k]
        - batch: [num_nodes]
    """
    # In half precision, a mean and differences from it would have three digits.
    position = position.float() if position.dtype.itemsize < 4 else position
    mean = scatter(position, batch, dim=0, dim_size=num_graphs, reduce="mean")
    position = position - mean.index_select(0, batch)
    square = scatter(position.square(), batch, dim=0, dim_size=num_graphs, reduce="sum")
    return position / (square + _SHORT).sqrt().index_select(0, batch)


def laplacian_loss(
    position: Tensor,
    edge_index: Tensor,
    batch: Tensor,
    num_graphs: int,
    *,
    orthogonality: float,
) -> Tensor:
    r"""Return the mean over graphs of tr(p^T L p) / k + orthogonality * ||p^T p - I||^2 / k.

    The positional loss of Dwivedi et al. (2022); L = I - D^(-1/2) A D^(-1/2) of each graph, so that
    its entry for a node without edges is 1.

    Args:
        position: p.
        edge_index: Edges in both directions.
        batch: Graph of each node.
        num_graphs: Number of graphs.
        orthogonality: Weight of the second term.

    Shapes:
        - position: [num_nodes, k]
        - output: []
    """
    sender, receiver = edge_index
    k = position.size(1)
    # Exact in whole numbers; not bincount, which waits for a GPU to find the largest node.
    degree = torch.zeros_like(batch).index_add_(0, receiver, torch.ones_like(receiver))
    scaled = position * degree.clamp(min=1).to(position.dtype).rsqrt().unsqueeze(1)
    joined = scaled.index_select(0, sender) * scaled.index_select(0, receiver)
    smoothness = position.square().sum() - joined.sum()
    products = position.unsqueeze(2) * position.unsqueeze(1)
    gram = scatter(products, batch, dim=0, dim_size=num_graphs, reduce="sum")
    identity = torch.eye(k, dtype=position.dtype, device=position.device)
    deviation = (gram - identity).square().sum()
    return (smoothness + orthogonality * deviation) / (k * max(num_graphs, 1))
