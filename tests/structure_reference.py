"""Slow and independent: networkx for the subgraphs and distances, numpy's SVD for the values."""

import itertools
import os
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest


def reference_columns(edge_index, num_nodes):
    """[E, 4]: a, a_tree, nodes and edges of each directed edge, straight from the definitions."""
    graph = simple_graph(edge_index, num_nodes)
    rows = {}
    for v, u in graph.edges:
        rows[v, u] = rows[u, v] = reference_row(graph, v, u)
    zero = (0.0, 0.0, 0.0, 0.0)
    values = [zero if v == u else rows[int(v), int(u)] for v, u in edge_index.T]
    return np.array(values).reshape(-1, 4)


def simple_graph(edge_index, num_nodes):
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((int(v), int(u)) for v, u in edge_index.T if v != u)
    return graph


def reference_row(graph, v, u):
    """a, a_tree, nodes and edges of one edge."""
    subgraph = graph.subgraph({v, u, *graph[v], *graph[u]})
    star = nx.Graph([("v", "u")])
    star.add_edges_from(("v", ("v", i)) for i in range(graph.degree[v] - 1))
    star.add_edges_from(("u", ("u", i)) for i in range(graph.degree[u] - 1))
    return (
        singular_value_sum(subgraph),
        singular_value_sum(star),
        subgraph.number_of_nodes(),
        subgraph.number_of_edges(),
    )


def singular_value_sum(graph):
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    nodes = list(graph)
    matrix = np.array([[lengths[i][j] for j in nodes] for i in nodes], dtype=float)
    return np.linalg.svd(matrix, compute_uv=False).sum()


def directed(graph):
    """edge_index [2, E] of a networkx graph with nodes 0..n-1, both directions."""
    graph = nx.convert_node_labels_to_integers(graph)
    pairs = [pair for v, u in graph.edges for pair in {(v, u), (u, v)}]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def random_graph(rng):
    """A graph of any shape with edge_index in random order, loops and duplicates included."""
    makers = (
        lambda n: nx.gnp_random_graph(n, rng.choice([0.1, 0.2, 0.3, 0.5, 0.8]), seed=seed),
        lambda n: nx.random_labeled_tree(n, seed=seed),
        lambda n: nx.star_graph(n - 1),
        nx.complete_graph,
        nx.cycle_graph,
        nx.path_graph,
        lambda n: nx.grid_2d_graph(2 + n % 2, max(1, n // 3)),
        lambda n: nx.complete_bipartite_graph(n // 2, n - n // 2),
        lambda n: nx.barabasi_albert_graph(n + 2, 2, seed=seed),
        lambda n: nx.disjoint_union(nx.gnp_random_graph(n // 2, 0.6, seed=seed), nx.path_graph(3)),
        nx.empty_graph,
    )
    seed = int(rng.integers(2**31))
    graph = makers[rng.integers(len(makers))](int(rng.integers(1, 15)))
    graph = nx.convert_node_labels_to_integers(graph)
    graph.add_nodes_from(range(len(graph), len(graph) + int(rng.integers(3))))
    num_nodes = len(graph)
    edge_index = rng.permutation(num_nodes)[directed(graph)]
    if rng.random() < 0.3:
        loops = np.tile(rng.integers(num_nodes, size=2), (2, 1))
        edge_index = np.concatenate([edge_index, loops], axis=1)
    if edge_index.shape[1] and rng.random() < 0.3:
        again = edge_index[:, rng.integers(edge_index.shape[1], size=3)]
        edge_index = np.concatenate([edge_index, again], axis=1)
    return edge_index[:, rng.permutation(edge_index.shape[1])], num_nodes


def disjoint_union(graphs):
    """One graph out of many (edge_index, num_nodes)."""
    offsets = list(itertools.accumulate((n for _, n in graphs), initial=0))
    parts = [edge_index + o for (edge_index, _), o in zip(graphs, offsets[:-1], strict=True)]
    return np.concatenate(parts, axis=1), offsets[-1]


def tu_graphs(name):
    """List of (edge_index, num_nodes) of a TU data set in the mirror, or skip the test."""
    beside = Path(__file__).parents[2] / ".." / "shared" / "data"
    mirror = Path(os.environ.get("UNIONSNN_TEST_MIRROR", beside))
    path = mirror / "TUDataset" / f"{name}.zip"
    if not path.is_file():
        pytest.skip(f"no {path}; name a folder with it in UNIONSNN_TEST_MIRROR")
    with zipfile.ZipFile(path) as archive:
        members = {member.rsplit("/", 1)[-1]: member for member in archive.namelist()}
        text = archive.read(members[f"{name}_A.txt"]).replace(b",", b" ")
        graph_of = np.array(archive.read(members[f"{name}_graph_indicator.txt"]).split(), int) - 1
    edges = np.array(text.split(), dtype=np.int64).reshape(-1, 2).T - 1
    starts = np.searchsorted(graph_of, np.arange(graph_of[-1] + 2))
    owner = graph_of[edges[0]]
    return [
        (edges[:, owner == g] - starts[g], int(starts[g + 1] - starts[g]))
        for g in range(len(starts) - 1)
    ]
