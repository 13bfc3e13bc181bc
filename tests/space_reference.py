"""The whole space of coefficients, slow and independent: networkx, numpy and scipy."""

import itertools

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

MATRIX_CHOICES = (
    ("path", "singular_value_sum"),
    ("path", "entry_sum"),
    ("path", "largest_eigenvalue"),
    ("laplacian", "singular_value_sum"),
    ("laplacian", "largest_eigenvalue"),
)
LOCAL_CHOICES = (
    *MATRIX_CHOICES,
    ("edge_betweenness", None),
    ("node_edge_count", None),
    ("curvature", None),
)
WHOLE_CHOICES = (("curvature_graph", None), ("cycle_count", None))
SUBSTRUCTURES = ("union", "overlap", "union_minus")


def substructure(graph, v, u, kind, radius):
    """The substructure of an edge as a graph of its own, straight from the definitions."""
    ball_v = nx.ego_graph(graph, v, radius)
    ball_u = nx.ego_graph(graph, u, radius)
    if kind == "union":
        return graph.subgraph({*ball_v, *ball_u}).copy()
    return nx.intersection(ball_v, ball_u) if kind == "overlap" else nx.compose(ball_v, ball_u)


def local_value(S, v, u, descriptor, encoding, alpha=0.5, exponent=2):
    if descriptor == "edge_betweenness":
        scores = nx.edge_betweenness_centrality(S, normalized=False)
        return scores.get((v, u), scores.get((u, v)))
    if descriptor == "node_edge_count":
        n, m = S.number_of_nodes(), S.number_of_edges()
        return m / (n * (n - 1)) * n**exponent
    if descriptor == "curvature":
        return curvature(S, v, u, alpha)
    nodes = list(S)
    if descriptor == "path":
        lengths = dict(nx.all_pairs_shortest_path_length(S))
        matrix = np.array([[lengths[i][j] for j in nodes] for i in nodes], dtype=float)
    else:
        matrix = nx.laplacian_matrix(S).toarray().astype(float)
    return {
        "singular_value_sum": lambda: np.linalg.svd(matrix, compute_uv=False).sum(),
        "entry_sum": matrix.sum,
        "largest_eigenvalue": lambda: np.linalg.eigvalsh(matrix)[-1],
    }[encoding]()


def whole_value(graph, v, u, descriptor, alpha=0.5):
    return curvature(graph, v, u, alpha) if descriptor == "curvature_graph" else cycles(graph, v, u)


def curvature(graph, v, u, alpha):
    """1 - W1 by a linear programme over all pairs of nodes with mass."""
    mass_v, mass_u = measure(graph, v, alpha), measure(graph, u, alpha)
    near = {x: nx.single_source_shortest_path_length(graph, x, cutoff=3) for x in mass_v}
    costs = [near[x][y] for x, y in itertools.product(mass_v, mass_u)]
    m, n = len(mass_v), len(mass_u)
    masses = np.array([*mass_v.values(), *mass_u.values()])
    return 1 - linprog(costs, A_eq=equations(m, n), b_eq=masses, method="highs").fun


def equations(m, n):
    """Rows of a transport between m sources and n sinks: all supply leaves, all demand is met."""
    leaves = sparse.kron(sparse.eye_array(m), np.ones((1, n)))
    arrives = sparse.kron(np.ones((1, m)), sparse.eye_array(n))
    return sparse.vstack([leaves, arrives])


def measure(graph, v, alpha):
    share = (1 - alpha) / graph.degree[v]
    return {v: alpha, **dict.fromkeys(graph[v], share)}


def cycles(graph, v, u):
    rest = graph.copy()
    rest.remove_edge(v, u)
    return sum(1 for _ in nx.all_simple_paths(rest, v, u, cutoff=5))
