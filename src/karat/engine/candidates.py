"""Candidates: the few rows among which the coreset is sought.

A uniform sample of a few times m rows is enough on well-behaved data and costs nothing.  Where it is not (rare categories,
heavy tails), rows are drawn by their *kernel leverage* ``u_i phi_i' (H + eps I)^-1 phi_i``, H the second-moment matrix of
the features.  It is estimated for every row in one pass, by J random directions each of which is one polynomial evaluated
per row.  A row outside the span of the candidates shows a huge value, a row that no other can replace one near 1: all of
those are taken, the rest sampled in proportion.
"""

from __future__ import annotations

import numpy as np

from karat.engine.kernel import Settled
from karat.engine.linalg import Array, Indices
from karat.engine.points import Frame
from karat.engine.rows import Rows
from karat.engine.sweep import evaluate

DIRECTIONS = 12
CERTAIN = 0.15  # a row of at least this leverage is always taken
FLOOR = 1e-6  # regularisation, relative to the largest singular value of the candidates
OUTSIDE = 20.0  # leverage is at most 1, its estimate rarely above 3: a row beyond this lies outside the candidates' span


def sample(rng: np.random.Generator, count: int, size: int) -> Indices:
    """A sorted uniform sample without replacement."""
    return np.sort(rng.choice(count, size, replace=False, shuffle=False)) if size < count else np.arange(count)


def own_weights(rows: Rows, positions: Indices) -> Array:
    return np.ones(len(positions)) if rows.weights is None else rows.weights[positions]


def leverage(rows: Rows, settled: Settled, known: Frame, rng: np.random.Generator) -> Array:
    """Estimated kernel leverage of every row with respect to an independent frame."""
    span = known.span
    assert span is not None
    # span = V / s: directions inside have variance 1; directions outside are amplified by the regulariser.
    inside = span @ rng.standard_normal((span.shape[1], DIRECTIONS))
    norm = span / np.linalg.norm(span, axis=0)
    outside = rng.standard_normal((len(span), DIRECTIONS))
    outside -= norm @ (norm.T @ outside)
    directions = (inside + outside / (FLOOR * known.singular[0])) / known.scale[:, None] / np.sqrt(DIRECTIONS)
    values = evaluate(rows, settled.kernel, directions)
    scores = np.einsum("ij,ij->i", values, values)
    return np.asarray(scores if rows.weights is None else scores * rows.weights)


def by_leverage(rows: Rows, scores: Array, size: int, rng: np.random.Generator) -> tuple[Indices, Array]:
    """Draw about ``size`` rows in proportion to their leverage; every essential one is taken. Positions, nominal weights."""
    bounded = np.minimum(scores, 1.0)
    chance = size * (0.5 / len(rows) + 0.5 * bounded / max(bounded.sum(), 1e-300))
    certain = scores >= CERTAIN
    chance[certain] = 4.0 * size / max(certain.sum(), 1)
    np.minimum(chance, 1.0, out=chance)
    positions = np.flatnonzero(rng.random(len(rows)) < chance)
    return positions, own_weights(rows, positions) / chance[positions]
