"""Candidates by importance: rows that show what a uniform sample misses.

Where a uniform sample fails, a few rows carry a feature alone: rare pairs of categories, the far end of a tail.  Such rows are
far from the others in whitened coordinates.  So they are drawn with probabilities

    p_i = min(1, c u_i (1 + |w_i|^2 / r)^p),     w_i the r coordinates of row i, p the degree,   sum_i p_i = size,

and get the nominal weight u_i / p_i: the expected moments are those of all rows, as with a uniform sample.
"""

from __future__ import annotations

import numpy as np

from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Indices
from karat.engine.points import CandidatePoints, by_score, candidate_points
from karat.engine.powers import Powers
from karat.engine.rows import Rows, own_weights, sweep
from karat.engine.tolerances import MISSED
from karat.engine.weights import match_moments

INFORMED = 4.0  # candidates per feature


def important_rows(rows: Rows, fitted: FittedMoments, size: int, rng: np.random.Generator) -> tuple[Indices, Array] | None:
    """About ``size`` rows drawn by their importance, with nominal weights; None for kernels without whitened coordinates."""
    kernel = fitted.kernel
    if not isinstance(kernel, Powers) or len(rows) <= size:
        return None

    def visit(block: Array, _: Array | None, __: int) -> list[Array]:
        coordinates = kernel.coordinates(block)
        return [np.einsum("ij,ij->i", coordinates, coordinates)]

    squares = np.concatenate(sweep(rows, kernel.shift, visit, lambda a, b: a + b, (rows.columns + 1, kernel.variables)))
    everything = np.arange(len(rows))
    own = own_weights(rows, everything)
    found = by_score(everything, own, own * (1.0 + squares / max(1, kernel.variables)) ** kernel.degree, size, rng)
    if found is None:
        return None
    chosen, nominal = found
    return chosen, nominal * (rows.total / nominal.sum())


def by_importance(rows: Rows, fitted: FittedMoments, rng: np.random.Generator) -> tuple[CandidatePoints, Array] | None:
    """Candidates drawn by importance, and weights on them that meet the moments; None if there are none."""
    chosen = important_rows(rows, fitted, int(INFORMED * fitted.kernel.width), rng)
    known = None if chosen is None else candidate_points(rows, fitted, *chosen).resolve(may_miss=True)
    factors = None if known is None or known.missed > MISSED else match_moments(known)
    return None if known is None or factors is None else (known, known.root * factors)
