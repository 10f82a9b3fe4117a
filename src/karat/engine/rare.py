"""Candidates by a pass: rows that show what a uniform sample misses.

**By importance.**  Where a uniform sample fails, a few rows carry a feature alone: rare pairs of
categories, the far end of a tail.  Such rows are far from the others in whitened coordinates, so
they are drawn with probabilities

    p_i = min(1, c u_i (1 + |w_i|^2 / r)^p),     w_i the r coordinates of row i,   sum_i p_i = size,

and get the nominal weight u_i / p_i: the expected moments are those of all rows.  The power p is
the degree, or 1: then p_i is the leverage of the row in its columns, and each category of a one-hot
column gets about as many rows.

**Rare pairs of categories.**
The features of one-hot columns depend on each other (x^2 = x, products vanish), and on a sample of
rows even more so: it has rank r < m, and m - r combinations of features

    psi_j = phi_j - sum_s c_js phi_s        (s: r independent features,  j: one of the others)

vanish on all of it.  Most of them vanish on every row; the others show in rows that are too rare to
be in a sample.  A random combination ``q = sum_j g_j psi_j`` is zero on a row if all of them are
(and, with probability one, only then).  Of degree 2 it is a quadratic form ``w'Vw``: one pass finds
the rows on which it is more than rounding.

The candidates are these rows, and ENOUGH r others that are drawn by their leverage, so that no
direction of the sample is lost. They are points in r independent features and a few that the rare
rows add, which is much less work than in all m.  Nothing but time depends on the choice: the proof
judges all features of the rows that are found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Indices
from karat.engine.points import CandidatePoints, by_score, candidate_points, feature_sizes
from karat.engine.powers import Powers
from karat.engine.rows import Rows, own_weights, sweep
from karat.engine.tolerances import HIDDEN, MISSED, SEEN, TINY
from karat.engine.weights import feasible

INFORMED = 4.0  # candidates per feature
ENOUGH = 4.0  # candidates per independent feature, beside the rare rows
MOST = 2.0  # rare rows per feature: more are not rare


@dataclass(frozen=True)
class Independent:
    """Independent features of a sample of rows, and the other features expressed by them."""

    norm: Array  # (m,): of each feature on the sample
    basic: Indices  # (r,): the independent ones
    others: Indices  # (m - r,)
    terms: Array  # (r, m - r): the others in terms of the basic ones, all divided by their norms
    leverage: Array  # (N,): of the rows of the sample

    @classmethod
    def of(cls, sample: Array) -> Independent:
        """From the features of a sample (N x m), by a pivoted Cholesky factorisation of their Gram
        matrix.
        """
        size = np.sqrt(np.einsum("ij,ij->j", sample, sample))
        norm = np.where(size > 0, size, 1.0)
        columns = np.ascontiguousarray((sample / norm).T)
        factor, order, rank = linalg.pivoted_cholesky(linalg.upper_gram(columns), SEEN)
        basic, triangle = order[:rank], np.ascontiguousarray(factor[:rank, :rank])
        terms = linalg.solve_upper(triangle, np.asfortranarray(factor[:rank, rank:]))
        orthogonal = linalg.solve_upper(
            triangle, np.asfortranarray(columns[basic]), transposed=True
        )
        return cls(norm, basic, order[rank:], terms, np.einsum("ij,ij->j", orthogonal, orthogonal))

    def hidden(self, rng: np.random.Generator) -> Array:
        """A random combination of the features that vanishes on the sample."""
        combination, chances = np.empty(len(self.norm)), rng.standard_normal(len(self.others))
        combination[self.others], combination[self.basic] = chances, -self.terms @ chances
        return combination / self.norm

    def with_those_of(self, rows: Array) -> Indices:
        """The basic features, and the others that further rows (k x m) make independent."""
        if not len(rows):
            return self.basic
        scaled = rows / self.norm
        rest = scaled[:, self.others] - scaled[:, self.basic] @ self.terms
        rest /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), TINY)
        triangle, order = linalg.pivoted_triangle(rest)
        added = order[: int((np.abs(np.diag(triangle)) > HIDDEN).sum())]
        return np.concatenate([self.basic, self.others[added]])


def informed(
    rows: Rows,
    fitted: FittedMoments,
    candidates: CandidatePoints,
    rng: np.random.Generator,
    held: int = 0,
) -> tuple[CandidatePoints, Array, int] | None:
    """Better candidates than the given ones, found by a look at all rows, weights on them that meet
    the moments, and the number of passes.

    The first ``held`` rows represent others, and are candidates if features depend on each other.
    """
    kernel = fitted.kernel
    if not isinstance(kernel, Powers) or len(rows) <= INFORMED * kernel.width:
        return None
    squares = squared_lengths(rows, kernel)
    dependent = kernel.degree == 2 and (
        candidates.missed > MISSED or candidates.rank < kernel.width
    )
    better = with_rare_rows(rows, fitted, squares, held, rng) if dependent else None
    better = better or by_importance(rows, fitted, squares, rng)
    # passes: one for the lengths, and one for the rare rows
    return None if better is None else (*better, 1 + int(dependent))


def with_rare_rows(
    rows: Rows, fitted: FittedMoments, squares: Array, held: int, rng: np.random.Generator
) -> tuple[CandidatePoints, Array] | None:
    """Candidates with all rare and held rows, and weights on them that meet the moments; None if
    there are none.
    """
    kernel = fitted.kernel
    assert isinstance(kernel, Powers)
    drawn = important_rows(rows, kernel, squares, 1, rng)
    if drawn is None:
        return None
    chosen, nominal = drawn
    block = rows.take(chosen, kernel.shift)
    sample = kernel.features(block) * np.sqrt(nominal)[:, None]
    sample[:, feature_sizes(kernel, block, sample.T, float(nominal.sum()))[1]] = 0.0
    independent = Independent.of(sample)
    if not len(independent.others):
        return None
    rare = np.union1d(np.arange(held), showing(rows, kernel, independent.hidden(rng)))
    if len(rare) > MOST * kernel.width:
        return None
    weights = own_weights(rows, rare)
    common = np.flatnonzero(~np.isin(chosen, rare))
    kept = by_score(
        common,
        nominal[common],
        independent.leverage[common],
        int(ENOUGH * len(independent.basic)),
        rng,
    )
    common, nominal = (common, nominal[common]) if kept is None else kept
    nominal = nominal * (
        max(rows.total - float(weights.sum()), TINY) / max(float(nominal.sum()), TINY)
    )
    candidates = candidate_points(
        rows, fitted, np.concatenate([rare, chosen[common]]), np.concatenate([weights, nominal])
    )
    features = independent.with_those_of(kernel.features(rows.take(rare, kernel.shift)))
    candidates = replace(
        candidates,
        points=np.asfortranarray(candidates.points[:, features]),
        target=candidates.target[features],
    )
    return feasible(candidates.resolve())


def showing(rows: Rows, kernel: Powers, combination: Array) -> Indices:
    """The rows on which a combination of the features is more than rounding, by one pass."""
    form = np.zeros((kernel.variables, kernel.variables))
    form[kernel.first, kernel.last] = kernel.root * combination[: len(kernel.root)]
    constant = float(combination[-1]) if kernel.total else 0.0
    least = HIDDEN * float(np.linalg.norm(form))

    def visit(block: Array, _: Array | None, start: int) -> list[Indices]:
        variables = kernel.coordinates(block)
        values = np.einsum("ij,ij->i", variables @ form, variables) + constant
        terms = np.einsum("ij,ij->i", variables, variables)
        return [start + np.flatnonzero(np.abs(values) > least * terms + HIDDEN * abs(constant))]

    return np.concatenate(
        sweep(rows, kernel.shift, visit, lambda a, b: a + b, (rows.columns + 1, kernel.variables))
    )


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
    """Rows drawn by importance, INFORMED per feature, with nominal weights; None if lengths are not
    finite.
    """
    everything = np.arange(len(rows))
    weights = own_weights(rows, everything)
    scores = weights * (1.0 + squares / max(1, kernel.variables)) ** power
    drawn = by_score(everything, weights, scores, int(INFORMED * kernel.width), rng)
    if drawn is None:
        return None
    chosen, nominal = drawn
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
