"""Candidates by importance: rows that show what a uniform sample misses.

Where a uniform sample fails, a few rows carry a feature alone: rare pairs of categories, the far
end of a tail.  Such rows are far from the others in whitened coordinates.  So they are drawn with
probabilities

    p_i = min(1, c u_i (1 + |w_i|^2 / r)^p),     w_i the r coordinates of row i,   sum_i p_i = size,

and get the nominal weight u_i / p_i: the expected moments are those of all rows, as with a uniform
sample.  The power p is the degree, or 1: then p_i is the leverage of the row in its columns, and
each category of a one-hot column gets about as many rows.
"""

from __future__ import annotations

import numpy as np

from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Indices
from karat.engine.points import CandidatePoints, by_score, candidate_points
from karat.engine.powers import Powers
from karat.engine.rows import Rows, own_weights, sweep
from karat.engine.weights import feasible

INFORMED = 4.0  # candidates per feature


def squared_lengths(rows: Rows, kernel: Powers) -> Array:
    """The squared length of each row in whitened coordinates, by one pass."""

    def visit(block: Array, _: Array | None, __: int) -> list[Array]:
        coordinates = kernel.coordinates(block)
        return [np.einsum("ij,ij->i", coordinates, coordinates)]

    return np.concatenate(
        sweep(rows, kernel.shift, visit, lambda a, b: a + b, (rows.columns + 1, kernel.variables))
    )


def important_rows(
    rows: Rows, kernel: Powers, squares: Array, power: int, rng: np.random.Generator
) -> tuple[Indices, Array] | None:
    """Rows drawn by their importance, INFORMED per feature, with nominal weights; None if lengths
    are not finite.
    """
    everything = np.arange(len(rows))
    own = own_weights(rows, everything)
    scores = own * (1.0 + squares / max(1, kernel.variables)) ** power
    found = by_score(everything, own, scores, int(INFORMED * kernel.width), rng)
    if found is None:
        return None
    chosen, nominal = found
    return chosen, nominal * (rows.total / nominal.sum())


def by_importance(
    rows: Rows, fitted: FittedMoments, squares: Array, rng: np.random.Generator
) -> tuple[CandidatePoints, Array] | None:
    """Candidates drawn by importance, and weights on them that meet the moments; None if there are
    none.
    """
    assert isinstance(fitted.kernel, Powers)
    chosen = important_rows(rows, fitted.kernel, squares, fitted.kernel.degree, rng)
    return (
        None
        if chosen is None
        else feasible(candidate_points(rows, fitted, *chosen).resolve(may_miss=True))
    )
