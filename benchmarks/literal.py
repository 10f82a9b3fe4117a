"""The paper's Algorithms 5 and 6, taken literally: NumPy, an SVD per removed point, the ambient dimension as the stop.

Three guards, without which they do not end:

* Algorithm 5 is called with k > d + 1 clusters.  The paper leaves k open; with k <= d + 1 no cluster is ever removed and
  the recursion is endless.
* The weight that determines the step is set to zero.  Rounding may leave it at 1e-17, and ``w > 0`` would keep the point.
* Both recursions are tail calls, written as loops: Python would run out of stack.

They stop at d + 1 points for points in R^d, whatever the rank.  The benchmarks hand them the unique monomials without the
constant, which is kind: on the paper's vec(d d') with (d+1)^2 entries they would keep almost twice as many rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

Array = np.ndarray


def caratheodory(points: Array, weights: Array) -> Array:
    """Algorithm 6: remove one point after the other; O(n^3) per point, O(n^4) in all.  New weights, mostly zero."""
    weights = weights.astype(float)
    alive = np.flatnonzero(weights > 0)
    while len(alive) > points.shape[1] + 1:
        chosen = points[alive]
        differences = (chosen[1:] - chosen[0]).T
        null = np.linalg.svd(differences, full_matrices=True)[2][-1]
        null = np.concatenate([[-null.sum()], null])
        ratios = np.full(len(alive), np.inf)
        np.divide(weights[alive], null, out=ratios, where=null > 0)
        out = ratios.argmin()
        weights[alive] -= ratios[out] * null
        weights[alive[out]] = 0.0
        alive = alive[weights[alive] > 0]
    weights[weights < 0] = 0.0
    return weights


def fast_caratheodory(points: Array, weights: Array, clusters: int | None = None) -> tuple[Array, Array]:
    """Algorithm 5: Algorithm 6 on the means of clusters, then again on the points of the clusters that are left.

    Returns indices and weights.
    """
    width = points.shape[1]
    clusters = 2 * (width + 1) if clusters is None else clusters
    if clusters <= width + 1:
        raise ValueError(f"{clusters} clusters of points in R^{width}: with at most {width + 1} the recursion never ends.")
    index = np.flatnonzero(weights > 0)
    weights = weights[index].astype(float)
    while len(index) > width + 1:
        bounds = np.linspace(0, len(index), min(clusters, len(index)) + 1).astype(int)
        mass = np.add.reduceat(weights, bounds[:-1])
        means = np.array([weights[a:b] @ points[index[a:b]] for a, b in pairwise(bounds)])
        kept = caratheodory(means / mass[:, None], mass)
        weights = weights * np.repeat(kept / mass, np.diff(bounds))
        index, weights = index[weights > 0], weights[weights > 0]
    return index, weights
