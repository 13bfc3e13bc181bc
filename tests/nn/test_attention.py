"""Attention and its bias."""

from __future__ import annotations

import copy

import pytest
import torch
from gated_graphs import fitted, several_graphs, with_loops
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_dense_adj

from positions import encoded
from unionsnn.nn.attention import (
    Attention,
    AttentionBias,
    TransformerBlock,
    attention_bytes,
    feedforward,
)
from unionsnn.nn.gates import StructuralGate
from unionsnn.nn.padding import Padding

HEADS, CHANNELS = 4, 12
blocks = pytest.mark.parametrize("norm_first", [True, False])


def gated(data: Data, preset: str = "default", **options: object) -> AttentionBias:
    gate = fitted(preset, data, HEADS)
    torch.manual_seed(1)
    return AttentionBias(HEADS, gate=gate, **options).double()  # type: ignore[arg-type]


def rows(data: Data, extra: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    shape = data.num_nodes + extra, CHANNELS
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("preset", ["default", "paper", "authors-code"])
def test_equation_six(preset: str) -> None:
    """The scores are q_v . k_u / sqrt(d) + Trans(a_vu) where (v, u) is an edge: v receives."""
    data = several_graphs()
    bias = gated(data, preset)
    padding = Padding(data.batch, data.num_graphs)
    matrix = bias(padding, data.edge_index, edge_coefficient=data.edge_coefficient)
    trans = bias.gate(data.edge_coefficient, data.edge_index, data.num_nodes)
    attend = Attention(CHANNELS, HEADS).double()
    h = rows(data)
    out = attend(h, padding, matrix)
    q, k, v = attend.project(h).view(data.num_nodes, 3, HEADS, -1).unbind(1)
    scores = torch.einsum("vhc,uhc->hvu", q, k) / (CHANNELS // HEADS) ** 0.5
    for e, (u, receiver) in enumerate(data.edge_index.t().tolist()):
        scores[:, receiver, u] += trans[e]
    other_graph = data.batch[:, None] != data.batch
    weight = scores.masked_fill(other_graph, -torch.inf).softmax(dim=2)
    mixed = torch.einsum("hvu,uhc->vhc", weight, v).flatten(1)
    torch.testing.assert_close(out, attend.combine(mixed), rtol=0, atol=1e-10)


def test_the_residual_of_a_gate_marks_edges() -> None:
    """1 + weights: with weights of 0, the bias is the adjacency matrix."""
    data = several_graphs()
    bias = gated(data)
    nn.init.zeros_(bias.gate.last.weight)
    nn.init.zeros_(bias.gate.last.bias)
    padding = Padding(data.batch, data.num_graphs)
    matrix = bias(padding, data.edge_index, edge_coefficient=data.edge_coefficient)
    adjacency = to_dense_adj(data.edge_index, data.batch).double()
    for head in range(HEADS):
        real = matrix[:, head].masked_fill(~padding.keys[:, None], 0)
        assert torch.equal(real, adjacency)


def twice(data: Data) -> Data:
    """Every edge as it is, and every second one twice more."""
    again = torch.arange(data.num_edges)[::2]
    chosen = torch.cat([torch.arange(data.num_edges), again, again])
    other = copy.copy(data)
    other.edge_index = data.edge_index[:, chosen]
    other.edge_coefficient = data.edge_coefficient[chosen]
    return other


def test_repeated_edges_count_once_and_loops_have_no_bias() -> None:
    data = several_graphs()
    bias = gated(data, max_distance=3)
    padding = Padding(data.batch, data.num_graphs)
    given = encoded(data, {"distance": True})
    found = []
    for one in (data, twice(data), with_loops(data, [0, 5])):
        matrix = bias(padding, one.edge_index, edge_coefficient=one.edge_coefficient, **given)
        weight = torch.linspace(-1, 1, matrix.numel(), dtype=torch.float64).view_as(matrix)
        finite = torch.where(matrix.isinf(), 0, matrix)
        found.append([matrix, *torch.autograd.grad((weight * finite).sum(), bias.parameters())])
    for other in found[1:]:
        for expected, value in zip(found[0], other, strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("token", [True, False])
def test_each_distance_has_a_number_a_head(token: bool) -> None:
    data = several_graphs()
    torch.manual_seed(0)
    bias = AttentionBias(HEADS, max_distance=2, token=token)
    padding = Padding(data.batch, data.num_graphs, token=token)
    matrix = bias(padding, data.edge_index, **encoded(data, {"distance": True}))
    assert bias.spatial.shape == (3 + 1 + token, HEADS)
    last = data.num_graphs - 1  # a path of three nodes and two that stand apart
    size, t = padding.counts[last] + token, int(token)
    expected = torch.tensor(
        [[0, 1, 2, 3, 3], [1, 0, 1, 3, 3], [2, 1, 0, 3, 3], [3, 3, 3, 0, 3], [3, 3, 3, 3, 0]]
    )
    known = matrix[last, :, :size, :size].permute(1, 2, 0)
    assert torch.equal(known[t:, t:], bias.spatial[expected])
    if token:
        apart = bias.spatial[-1].expand(size, HEADS)
        assert torch.equal(known[0], apart)
        assert torch.equal(known[:, 0], apart)
    assert bool((matrix[last, :, :, size:] == -torch.inf).all())


def test_without_gate_and_distances_it_is_a_mask() -> None:
    data = several_graphs()
    padding = Padding(data.batch, data.num_graphs)
    mask = AttentionBias(HEADS)(padding, data.edge_index)
    assert torch.equal(mask[:, 0, 0], padding.keys)


@pytest.mark.parametrize("bias_heads", [None, HEADS])
def test_attention_is_that_of_torch(bias_heads: int | None) -> None:
    """With the same weights, torch.nn.MultiheadAttention gives the same."""
    data = several_graphs()
    padding = Padding(data.batch, data.num_graphs)
    attend = Attention(CHANNELS, HEADS).double()
    theirs = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True).double()
    copy_attention(attend, theirs)
    bias = padding.keys[:, None, None]
    mask = None
    if bias_heads:
        bias = gated(data)(padding, data.edge_index, edge_coefficient=data.edge_coefficient)
        mask = bias.flatten(0, 1).masked_fill(bias.flatten(0, 1) == -torch.inf, -1e30)
    h = rows(data)
    dense = padding.pad(h)
    ignored = torch.where(padding.keys, 0.0, -torch.inf).double()
    expected, _ = theirs(dense, dense, dense, attn_mask=mask, key_padding_mask=ignored)
    torch.testing.assert_close(
        attend(h, padding, bias), padding.unpad(expected), rtol=0, atol=1e-10
    )


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        nn.init.normal_(ours.project.bias)
        theirs.in_proj_weight.copy_(ours.project.weight)
        theirs.in_proj_bias.copy_(ours.project.bias)
        theirs.out_proj.load_state_dict(ours.combine.state_dict())


@blocks
@pytest.mark.parametrize(("activation", "name"), [(nn.ReLU, "relu"), (nn.GELU, "gelu")])
def test_a_block_is_that_of_torch(norm_first: bool, activation: type[nn.Module], name: str) -> None:
    data = several_graphs()
    padding = Padding(data.batch, data.num_graphs)
    block = TransformerBlock(
        CHANNELS, HEADS, feedforward_ratio=3, activation=activation, norm_first=norm_first
    ).double()
    theirs = nn.TransformerEncoderLayer(
        CHANNELS, HEADS, 3 * CHANNELS, 0.0, name, batch_first=True, norm_first=norm_first
    ).double()
    copy_attention(block.attention, theirs.self_attn)
    for mine, other in (
        (block.feedforward[0], theirs.linear1),
        (block.feedforward[3], theirs.linear2),
        (block.attention_norm, theirs.norm1),
        (block.feedforward_norm, theirs.norm2),
    ):
        with torch.no_grad():
            nn.init.normal_(mine.weight)
        other.load_state_dict(mine.state_dict())
    h = rows(data)
    expected = padding.unpad(theirs(padding.pad(h), src_key_padding_mask=~padding.keys))
    torch.testing.assert_close(
        block(h, padding, padding.keys[:, None, None]), expected, rtol=0, atol=1e-10
    )


def test_dropout_of_attention_is_for_training() -> None:
    data = several_graphs()
    padding = Padding(data.batch, data.num_graphs)
    attend = Attention(CHANNELS, HEADS, dropout=0.5).double()
    mask, h = padding.keys[:, None, None], rows(data)
    assert not torch.allclose(attend(h, padding, mask), attend(h, padding, mask))
    attend.eval()
    assert torch.equal(attend(h, padding, mask), attend(h, padding, mask))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_nothing_is_infinite_beside_empty_graphs(dtype: torch.dtype) -> None:
    batch, edge_index = torch.tensor([1, 1, 1, 3]), torch.tensor([[0, 1], [1, 0]])
    data = Batch(x=torch.ones(4, 1), edge_index=edge_index, batch=batch, num_nodes=4)
    data._num_graphs = 5
    given = encoded(data, {"distance": True})
    for token in (True, False):
        padding = Padding(batch, 5, token=token)
        bias = AttentionBias(HEADS, max_distance=3, token=token).to(dtype)
        attend = Attention(CHANNELS, HEADS).to(dtype)
        h = rows(data, 5 * token).to(dtype).requires_grad_()
        matrix = bias(padding, edge_index, **given)
        out = attend(h, padding, matrix)
        out.square().sum().backward()
        for tensor in (out, h.grad, *(p.grad for p in [*attend.parameters(), *bias.parameters()])):
            assert bool(torch.isfinite(tensor).all())


def test_faults() -> None:
    data = several_graphs()
    padding = Padding(data.batch, data.num_graphs)
    for given in (None, torch.zeros(3, dtype=torch.uint8)):
        message = rf"needs distance of the shape \[{padding.num_pairs}\].*encodings\.distance=true"
        with pytest.raises(ValueError, match=message):
            AttentionBias(HEADS, max_distance=2)(padding, data.edge_index, distance=given)
    with pytest.raises(ValueError, match=r"needs edge_coefficient: .*pass data\.edge_coeff"):
        AttentionBias(HEADS, gate=StructuralGate(HEADS))(padding, data.edge_index)
    for value in (0, 255):
        with pytest.raises(ValueError, match=rf"max_distance is {value}; it must be in 1 \.\.\. 2"):
            AttentionBias(HEADS, max_distance=value)
    with pytest.raises(ValueError, match="feedforward_ratio is 0; it must be at least 1"):
        feedforward(4, 0, nn.ReLU, 0.0)
    with pytest.raises(ValueError, match="hidden_channels is 10 and heads is 4"):
        Attention(10, 4)


def test_attention_bytes_is_what_is_kept_for_the_backward_pass_and_some_more() -> None:
    """Between the tensors kept by autograd, measured, and twice that and the peak beside it."""
    graphs, nodes, layers = 4, 60, 6
    batch = torch.arange(graphs).repeat_interleave(nodes)
    padding = Padding(batch, graphs)
    bias = AttentionBias(HEADS, max_distance=5)
    stack = nn.ModuleList(Attention(8, HEADS) for _ in range(layers))
    distance = torch.zeros(padding.num_pairs, dtype=torch.uint8)
    kept: dict[int, int] = {}
    scores = graphs * HEADS * nodes**2

    def keep(tensor: Tensor) -> Tensor:
        if tensor.numel() >= scores:
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    h = torch.randn(len(batch), 8)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        matrix = bias(padding, torch.zeros(2, 0, dtype=torch.long), distance=distance)
        for layer in stack:
            h = layer(h, padding, matrix)
    estimate = attention_bytes(graphs, nodes, heads=HEADS, num_layers=layers)
    assert sum(kept.values()) <= estimate <= 2 * sum(kept.values())
    evaluation = attention_bytes(graphs, nodes, heads=HEADS, num_layers=layers, training=False)
    assert evaluation < estimate
    more = attention_bytes(graphs, nodes - 1, heads=HEADS, num_layers=layers, tokens=1)
    assert more == estimate
