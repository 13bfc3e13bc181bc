r"""Path matrices of union subgraphs, with each class of twins merged into one row.

P_ij is the length of a shortest path inside the subgraph (Xu et al., AAAI 2024, eq. 2): at most 3
in a union subgraph, so 1 if i and j are adjacent, else 2 if they have a common neighbour, else 3.

A class of s twins at mutual distance δ (2 for false, 1 for true twins) contributes the eigenvalue
-δ with multiplicity s - 1; the rest of the spectrum is that of the quotient matrix

    Q_kk = δ_k (s_k - 1),   Q_kl = P_kl √(s_k s_l).

P has zero trace, hence Σ|λ(P)| = 2 Σ max(λ(P), 0) = 2 Σ max(λ(Q), 0).
"""

import math

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.substructures import TRUE_TWINS, WORD

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@kernel
def fill_path_quotient(
    rows: IntArray, sizes: IntArray, kinds: IntArray, classes: int, matrix: FloatArray
) -> None:
    """Write the quotient path matrix Q from bit rows of the adjacency between classes.

    Shapes:
        rows [>= m, W] with W the words in use, sizes [>= m], kinds [>= m], matrix [>= m, >= m].
    """
    words = (classes + WORD - 1) // WORD
    for k in range(classes):
        matrix[k, k] = math.sqrt(sizes[k])
        for j in range(k):
            adjacent = (rows[k, j // WORD] >> (j % WORD)) & 1
            common = rows[k, 0] & rows[j, 0]
            for word in range(1, words):
                common |= rows[k, word] & rows[j, word]
            # Branch-free: the distance is 1, 2 or 3.
            distance = 3 - np.int64(common != 0) * (1 - adjacent) - 2 * adjacent
            matrix[k, j] = distance * (matrix[k, k] * matrix[j, j])
            matrix[j, k] = matrix[k, j]
    for k in range(classes):
        within = 1.0 if kinds[k] == TRUE_TWINS else 2.0
        matrix[k, k] = within * (sizes[k] - 1)


@kernel
def fill_double_star(degree_v: int, degree_u: int, matrix: FloatArray) -> int:
    """Write the quotient of a double star below the diagonal; return its order.

    It is the tree in which v and u are adjacent and have d - 1 leaves each. The leaves of an end
    are false twins, so Q has the four classes v, u, leaves of v, leaves of u. Swapping the ends
    does not change a bit of the value.

    Shapes:
        matrix [>= 4, >= 4].
    """
    p = max(degree_v, degree_u) - 1
    q = min(degree_v, degree_u) - 1
    order = 2 + (p > 0) + (q > 0)
    root_p, root_q = math.sqrt(p), math.sqrt(q)
    matrix[0, 0] = 0.0
    matrix[1, 0] = 1.0
    matrix[1, 1] = 0.0
    matrix[2, 0] = root_p
    matrix[2, 1] = 2.0 * root_p
    matrix[2, 2] = 2.0 * (p - 1)
    matrix[3, 0] = 2.0 * root_q
    matrix[3, 1] = root_q
    matrix[3, 2] = 3.0 * root_p * root_q
    matrix[3, 3] = 2.0 * (q - 1)
    return order
