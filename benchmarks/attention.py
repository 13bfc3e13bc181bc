"""Graph transformers beside public formulas at equal width, in the same run.

Usage: python benchmarks/attention.py [DATA]. Random graphs with the sizes of molecules, unless DATA
names a data set of conf/data whose batches carry the encodings (such as zinc10k). Training steps on
batches of 32 and 128, the networks in turn, one thread; the median, and the peak of memory that
tensors take beyond weights and batch. Outputs and losses are compared first. Of DATA also how much
of the pairs of an epoch is padding, by data.max_pairs.

GPS: GPSLayer beside torch_geometric.nn.GPSConv, both with plain attention and GINE on one vector
for all edges. Graphormer: this package's beside the published formula, written as GraphGPS does:
to_dense_batch before each attention, torch.nn.MultiheadAttention, a bias permuted from rows.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, GPSConv
from torch_geometric.utils import degree, to_dense_batch, to_undirected

from unionsnn.config.compose import compose_config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.models.gps import LOCAL, GPSLayer
from unionsnn.models.graphormer import Graphormer
from unionsnn.models.parts import two_layer_mlp
from unionsnn.nn.attention import Attention
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.padding import Padding
from unionsnn.training.build import build_data
from unionsnn.training.protocols import draw_splits

CHANNELS, LAYERS, STEPS, WARM_UP = 64, 4, 30, 4
BATCH_SIZES = (32, 128)
ATOMS = 28


class OurGPS(nn.Module):
    """Layers of this package, on rows that are encoded already."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GPSLayer(CHANNELS, LOCAL["gine"](CHANNELS), Attention(CHANNELS, heads))
            for _ in range(LAYERS)
        )

    def forward(self, data: Batch) -> Tensor:
        padding = Padding(data.batch, data.num_graphs)
        h, keys = data.rows, padding.keys[:, None, None]
        for layer in self.layers:
            h = layer(h, data.edge_index, padding, keys)
        return h


class PyGGPS(nn.Module):
    """PyG's layers with the same weights."""

    def __init__(self, ours: OurGPS, heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.edges = nn.ParameterList(copy.deepcopy(layer.conv.edge) for layer in ours.layers)
        for mine in ours.layers:
            layer = GPSConv(CHANNELS, GINEConv(two_layer_mlp(CHANNELS, "none")), heads)
            attention = mine.attention
            layer.attn.in_proj_weight.data.copy_(attention.project.weight)
            layer.attn.in_proj_bias.data.copy_(attention.project.bias)
            for other, one in (
                (layer.attn.out_proj, attention.combine),
                (layer.conv.nn, mine.conv.conv.nn),
                (layer.mlp[0], mine.feedforward[0]),
                (layer.mlp[3], mine.feedforward[3]),
            ):
                other.load_state_dict(one.state_dict())
            self.layers.append(layer)

    def forward(self, data: Batch) -> Tensor:
        h = data.rows
        for layer, edge in zip(self.layers, self.edges, strict=True):
            edges = edge.expand(data.num_edges, -1)
            h = layer(h, data.edge_index, data.batch, edge_attr=edges)
        return h


class PlainGraphormer(nn.Module):
    """The published formula, without this package's attention; weights are those of `ours`."""

    def __init__(self, ours: Graphormer, heads: int) -> None:
        super().__init__()
        self.ours = ours
        self.heads = heads
        self.attentions = nn.ModuleList()
        for layer in ours.layers:
            attention = nn.MultiheadAttention(CHANNELS, heads, batch_first=True)
            attention.in_proj_weight.data.copy_(layer.attention.project.weight)
            attention.in_proj_bias.data.copy_(layer.attention.project.bias)
            attention.out_proj.load_state_dict(layer.attention.combine.state_dict())
            self.attentions.append(attention)

    def forward(self, data: Batch) -> Tensor:
        ours, graphs = self.ours, data.num_graphs
        known = degree(data.edge_index[1], data.num_nodes).long()
        largest = ours.degree.num_embeddings - 1
        h = ours.encoder(data.x) + ours.degree(known.clamp(max=largest))
        h = torch.cat([h, ours.first.expand(graphs, -1)])
        batch = torch.cat([data.batch, torch.arange(graphs)])
        order = torch.argsort(batch, stable=True)  # each graph's token comes after its nodes
        h, batch = h[order], batch[order]
        bias = self.bias(data, batch)
        for layer, attention in zip(ours.layers, self.attentions, strict=True):
            dense, real = to_dense_batch(layer.attention_norm(h), batch)
            padding = torch.where(real, 0.0, -torch.inf)
            mixed = attention(dense, dense, dense, padding, need_weights=False, attn_mask=bias)[0]
            h = h + mixed[real]
            h = h + layer.feedforward(layer.feedforward_norm(h))
        tokens = torch.zeros(len(batch), dtype=torch.bool)
        tokens[order >= data.num_nodes] = True
        return ours.head(ours.norm(h[tokens]))

    def bias(self, data: Batch, batch: Tensor) -> Tensor:
        """One matrix of rows of heads, then permuted."""
        table, graphs = self.ours.bias.spatial, data.num_graphs
        counts = torch.bincount(batch, minlength=graphs).tolist()
        size, largest = max(counts), len(table) - 3
        rows = torch.full((graphs, size, size), largest + 2)
        start = 0
        for graph, count in enumerate(counts):
            n = count - 1
            length = data.distance[start : start + n * n].view(n, n).long()
            known = torch.where(length == 255, largest + 1, length.clamp(max=largest))
            rows[graph, :n, :n] = known
            start += n * n
        encoded = nn.functional.embedding(rows, table).permute(0, 3, 1, 2)
        return encoded.reshape(graphs * self.heads, size, size)


def molecules(count: int, generator: torch.Generator) -> list[Data]:
    """Random trees of 9 to 37 nodes with two more edges, about as large as those of ZINC."""
    graphs = []
    for _ in range(count):
        n = int(torch.randint(9, 38, (1,), generator=generator))
        back = 1 + torch.randint(3, (n - 1,), generator=generator)
        child = torch.arange(1, n)
        tree = torch.stack([child, (child - back).clamp(min=0)])
        rings = torch.tensor([[0, 3], [5, n - 1]])
        edge_index = to_undirected(torch.cat([tree, rings], dim=1), num_nodes=n)
        length = torch.full((n, n), 255)
        A, reached = torch.eye(n), torch.eye(n)
        A[tuple(edge_index)] = 1
        for step in range(n):
            length[(reached > 0) & (length == 255)] = step
            reached = reached @ A
        x = nn.functional.one_hot(torch.randint(ATOMS, (n,), generator=generator), ATOMS).float()
        graphs.append(Data(x=x, edge_index=edge_index, distance=length.flatten().to(torch.uint8)))
    return graphs


def batches(size: int, name: str | None) -> tuple[list[Batch], int | Sequence[int]]:
    """Four batches, and what their node features are."""
    features: int | Sequence[int] = ATOMS
    if name is None:
        generator = torch.Generator().manual_seed(0)
        graphs = molecules(4 * size, generator)
        made = [Batch.from_data_list(graphs[i::4]) for i in range(4)]
    else:
        source = training_data(name, f"data.batch_size={size}")
        made = list(itertools.islice(source.train_dataloader(), 4))
        features = source.num_features
    for batch in made:
        generator = torch.Generator().manual_seed(1)
        batch.rows = torch.randn(batch.num_nodes, CHANNELS, generator=generator)
    return made, features


def training_data(name: str, *overrides: str) -> GraphDataModule:
    """A data set with its training part in batches that Graphormer can read."""
    config = compose_config([f"data={name}", "model=graphormer", *overrides])
    source = build_data(config)
    source.split = draw_splits(config.protocol, source, 0)[0]
    source.generator = torch.Generator().manual_seed(0)
    return source


def padding_table(name: str) -> Table:
    """Pairs of nodes in the batches of an epoch, of which only those inside a graph count."""
    table = Table(title=f"an epoch of {name}, data.batch_size={BATCH_SIZES[-1]}")
    for column in ("data.max_pairs", "batches", "pairs of the largest", "pairs", "padding"):
        table.add_column(column, justify="right")
    for bound in ("null", 160_000, 80_000, 40_000):
        source = training_data(
            name, f"data.batch_size={BATCH_SIZES[-1]}", f"data.max_pairs={bound}"
        )
        real = whole = most = count = 0
        for batch in source.train_dataloader():
            nodes = torch.bincount(batch.batch)
            pairs = batch.num_graphs * int(nodes.max()) ** 2
            real, whole = real + int(nodes.square().sum()), whole + pairs
            most, count = max(most, pairs), count + 1
        share = f"{100 * (1 - real / whole):.0f} %"
        table.add_row(str(bound), str(count), f"{most:,}", f"{whole:,}", share)
    return table


Networks = dict[str, tuple[nn.Module, Callable[[Batch], Tensor]]]


def step(network: nn.Module, apply: Callable[[Batch], Tensor], batch: Batch) -> Tensor:
    network.zero_grad()
    loss = apply(batch).square().mean()
    loss.backward()
    return loss.detach()


def peak(network: nn.Module, apply: Callable[[Batch], Tensor], batch: Batch) -> int:
    """Most bytes of tensors at one time during a step, beyond those before it."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step(network, apply, batch)
    held = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":  # negative where memory is given back
            held += event.nbytes()
            most = max(most, held)
    return most


def measured(networks: Networks, data: list[Batch]) -> list[tuple[str, float, int]]:
    """Median seconds and peak bytes of a step of each network."""
    outputs = [apply(data[0]).detach() for _, apply in networks.values()]
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0], rtol=1e-3, atol=1e-4)
    times: dict[str, list[float]] = {name: [] for name in networks}
    for number in range(STEPS + WARM_UP):
        for name, (network, apply) in networks.items():
            started = time.perf_counter()
            step(network, apply, data[number % len(data)])
            if number >= WARM_UP:
                times[name].append(time.perf_counter() - started)
    return [
        (name, statistics.median(times[name]), peak(network, apply, data[0]))
        for name, (network, apply) in networks.items()
    ]


def pairs(features: int | Sequence[int], heads: int) -> list[Networks]:
    """Networks that are compared: the other's first."""
    torch.manual_seed(0)
    gps = OurGPS(heads)
    pyg = PyGGPS(gps, heads)
    graphormer = Graphormer(
        in_channels=features,
        out_channels=1,
        hidden_channels=CHANNELS,
        num_layers=LAYERS,
        heads=heads,
        encodings={"distance": True},
    )
    plain = PlainGraphormer(copy.deepcopy(graphormer), heads)

    def ours(batch: Batch) -> Tensor:
        return graphormer(GraphBatch.of(batch))

    return [
        {"GPSConv of PyG": (pyg, pyg), "GPSLayer": (gps, gps)},
        {"published formula": (plain, plain), "Graphormer": (graphormer, ours)},
    ]


def main() -> None:
    torch.set_num_threads(1)
    name = sys.argv[1] if len(sys.argv) > 1 else None
    table = Table(title=f"a training step, {LAYERS} layers of {CHANNELS}, one thread")
    for column in ("network", "graphs", "heads", "step", "ratio", "peak"):
        table.add_column(column, justify="left" if column == "network" else "right")
    for size in BATCH_SIZES:
        data, features = batches(size, name)
        for heads in (4, 8):
            for networks in pairs(features, heads):
                found = measured(networks, data)
                for label, seconds, most in found:
                    ratio = f"{seconds / found[0][1]:.2f}"
                    cells = f"{1e3 * seconds:.1f} ms", ratio, f"{most / 2**20:.1f} MiB"
                    table.add_row(label, str(size), str(heads), *cells)
                table.add_section()
    console = Console(width=100)
    console.print(table)
    if name is not None:
        console.print(padding_table(name))


if __name__ == "__main__":
    main()
