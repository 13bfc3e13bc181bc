"""Memory of a training step on large graphs: bounded by data.max_pairs, stated by the model, seen.

Usage: python benchmarks/attention_memory.py [NODES]. Sets of graphs of NODES (512) and of NODES / 8
nodes, divided by the sampler under several bounds; of each bucket the largest batch, through the
networks of experiment=zinc/... : what the model states before the first step, and the peak of what
tensors take in a step beyond weights and batch.
"""

from __future__ import annotations

import sys

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import barabasi_albert_graph

from attention import peak
from unionsnn.base.memory import Extent
from unionsnn.config.compose import compose_config
from unionsnn.data.buckets import size_buckets
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.features import structural_modules
from unionsnn.training.build import build_model

EXPERIMENTS = ("gps", "union_gps", "graphormer", "unionormer")
GRAPHS, BATCH_SIZE, FEATURES = 64, 128, (28,)
BOUNDS = (1, 4, 16)


def graph(n: int, steps: int, columns: int) -> Data:
    """A graph of n nodes with all that the networks read, its values random."""
    edge_index = barabasi_albert_graph(n, 2)
    return Data(
        x=torch.randint(FEATURES[0], (n, 1)),
        edge_index=edge_index,
        edge_coefficient=torch.rand(edge_index.shape[1], columns),
        random_walk=torch.rand(n, steps),
        distance=torch.randint(9, (n * n,), dtype=torch.uint8),
    )


def measured(name: str, graphs: int, nodes: int) -> tuple[int, int]:
    """Bytes that the model states for a batch, and the peak of a training step."""
    config = compose_config([f"experiment=zinc/{name}"])
    torch.manual_seed(0)
    network = build_model(config, FEATURES, 1)
    union = structural_modules(network)
    columns = len(union[0].required_columns) if union else 1
    for gate in union:
        gate.fit_statistics(torch.rand(1000, columns))
    steps = network.encodings["random_walk"]
    batch = Batch.from_data_list([graph(nodes, steps, columns) for _ in range(graphs)])

    def apply(data: Batch) -> Tensor:
        return network(GraphBatch.of(data))

    rows = {"x": batch.num_nodes, "edge_index": batch.num_edges}
    extent = Extent(graphs, nodes, graphs * nodes**2, rows)
    return network.batch_bytes(extent), peak(network, apply, batch)


def main() -> None:
    torch.set_num_threads(1)
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    table = Table(title=f"a training step, data.batch_size={BATCH_SIZE}")
    for column in (
        "experiment",
        "data.max_pairs",
        "largest batch",
        "stated",
        "seen",
        "seen/stated",
    ):
        table.add_column(column, justify="left" if column == "experiment" else "right")
    sizes = torch.tensor([nodes] * GRAPHS + [nodes // 8] * 16 * GRAPHS)
    for name in EXPERIMENTS:
        for bound in BOUNDS:
            max_pairs = bound * nodes**2
            for bucket in size_buckets(sizes, batch_size=BATCH_SIZE, max_pairs=max_pairs):
                stated, seen = measured(name, bucket.num_graphs, bucket.largest)
                extent = f"{bucket.num_graphs} x {bucket.largest}"
                figures = [f"{value / 1e9:.3f} GB" for value in (stated, seen)]
                table.add_row(name, f"{max_pairs:,}", extent, *figures, f"{seen / stated:.2f}")
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
