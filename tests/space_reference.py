"""The whole space of coefficients, slow and independent: networkx, numpy and scipy."""

import itertools

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from unionsnn.coefficients import space


def substructure(graph, v, u, kind, radius):
    """The substructure of an edge as a graph of its own, straight from the definitions."""
    ball_v = nx.ego_graph(graph, v, radius)
    ball_u = nx.ego_graph(graph, u, radius)
    if kind == "union":
        return graph.subgraph({*ball_v, *ball_u}).copy()
    return nx.intersection(ball_v, ball_u) if kind == "overlap" else nx.compose(ball_v, ball_u)


def local_value(S, v, u, descriptor, encoding):
    """Coefficient of the edge in its substructure, for the default alpha and exponent."""
    if descriptor in MATRICES:
        return ENCODINGS[encoding](MATRICES[descriptor](S))
    return INSIDE[descriptor](S, v, u)


def whole_value(graph, v, u, descriptor):
    """Coefficient of the edge in the whole graph, for the default alpha."""
    return IN_GRAPH[descriptor](graph, v, u)


def path_matrix(S):
    lengths = dict(nx.all_pairs_shortest_path_length(S))
    return np.array([[lengths[i][j] for j in S] for i in S], dtype=float)


def laplacian(S):
    return nx.laplacian_matrix(S).toarray().astype(float)


def edge_betweenness(S, v, u):
    scores = nx.edge_betweenness_centrality(S, normalized=False)
    return scores.get((v, u), scores.get((u, v)))


def node_edge_count(S, v, u):
    n, m = S.number_of_nodes(), S.number_of_edges()
    return m / (n * (n - 1)) * n**2


def curvature(graph, v, u, alpha=0.5):
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


def extremes(matrix):
    """The largest, the second largest, the smallest and the second smallest eigenvalue."""
    eigenvalues = np.linalg.eigvalsh(matrix)
    return eigenvalues[[-1, -2, 0, 1]]


def eigenvalues(S, v, u, radius):
    return extremes(path_matrix(S))


def marked(S, v, u, radius):
    weights = np.array([2.0 if node in (v, u) else 1.0 for node in S])
    matrix = path_matrix(S) * np.outer(weights, weights)
    return [*extremes(matrix), np.linalg.svd(matrix, compute_uv=False).sum()]


def distances(S, v, u, radius):
    counts = np.bincount(path_matrix(S).astype(int).ravel(), minlength=2 * radius + 2)[1:] // 2
    return counts if radius <= 3 else [*counts[:6], counts[6:].sum()]


def cycles_by_length(graph, v, u):
    rest = graph.copy()
    rest.remove_edge(v, u)
    lengths = [len(path) for path in nx.all_simple_paths(rest, v, u, cutoff=7)]
    return np.bincount(np.array(lengths, int), minlength=9)[3:]


MATRICES = {
    "path": path_matrix,
    "laplacian": laplacian,
}
ENCODINGS = {
    "singular_value_sum": lambda matrix: np.linalg.svd(matrix, compute_uv=False).sum(),
    "entry_sum": lambda matrix: matrix.sum(),
    "largest_eigenvalue": lambda matrix: np.linalg.eigvalsh(matrix)[-1],
}
INSIDE = {
    "edge_betweenness": edge_betweenness,
    "node_edge_count": node_edge_count,
    "curvature": curvature,
}
IN_GRAPH = {
    "curvature_graph": curvature,
    "cycle_count": cycles,
}

COLUMNS_INSIDE = {
    "eigenvalues": eigenvalues,
    "distances": distances,
    "marked": marked,
}
COLUMNS_IN_GRAPH = {
    "cycles": cycles_by_length,
}

SUBSTRUCTURES = tuple(space.SUBSTRUCTURES)
WHOLE_CHOICES = tuple((d, None) for d in space.DESCRIPTORS if space.is_of_whole_graph(d))
LOCAL_CHOICES = tuple(
    (descriptor, encoding)
    for descriptor in space.DESCRIPTORS
    if not space.is_of_whole_graph(descriptor)
    for encoding in space.encodings_of(descriptor)
)
MATRIX_CHOICES = tuple(choice for choice in LOCAL_CHOICES if choice[1] is not None)
