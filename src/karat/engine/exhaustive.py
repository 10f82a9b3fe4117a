"""Where a sample is not enough: candidates by a pass, and reducers that look at every row.

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

**The tree** (the paper's Algorithm 5, corrected) finds weights however the data is distributed, as
does the last reducer.  All rows are cut into 2m contiguous groups, the groups' moments are reduced
by Caratheodory's theorem to at most m, and the rows of the groups that survive go to the next level
with their group's factor. Half of the rows are left after a level, so all levels together read the
data twice.  The paper allows any number of groups; with m or fewer nothing is ever removed and its
recursion does not end.  Group moments are Gram matrices of contiguous rows, so nothing is copied
and no n x m matrix is formed.

**Row by row** (the paper's Algorithm 6 on a stream).  At most 2m + 1 rows are held at a time; it
costs O(n m^2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.points import CandidatePoints, by_score, candidate_points, feature_sizes
from karat.engine.powers import Powers
from karat.engine.rows import Blocks, Progress, Rows, own_weights, sweep
from karat.engine.tolerances import HIDDEN, MISSED, SEEN, TINY
from karat.engine.weights import eliminate, feasible, group_bounds

INFORMED = 4.0  # candidates per feature
ENOUGH = 4.0  # candidates per independent feature, beside the rare rows
MOST = 2.0  # rare rows per feature: more are not rare
GROUPS_PER_FEATURE = 2.0
GROUPED = 2**20  # bytes of the rows whose groups are summed at a time


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


def reduce_by_tree(
    rows: Rows, fitted: FittedMoments, progress: Progress | None = None
) -> tuple[Indices, Array]:
    """Positions and weights of at most 2m + 2 rows with the same moments."""
    kernel = fitted.kernel
    groups = int(GROUPS_PER_FEATURE * kernel.width) + 2
    positions = np.arange(len(rows))
    weights = own_weights(rows, positions)
    while len(positions) > groups:
        bounds = group_bounds(len(positions), groups)
        here = rows if len(positions) == len(rows) else rows.subset(positions)
        factors = eliminate(_group_moments(here, kernel, weights, bounds))
        keep = np.repeat(factors > 0, np.diff(bounds))
        weights = (weights * np.repeat(factors, np.diff(bounds)))[keep]
        positions = positions[keep]
        if progress is not None:
            progress(len(rows) - len(positions), len(rows))
    return positions, weights


def reduce_sequentially(
    rows: Rows, fitted: FittedMoments, progress: Progress | None = None
) -> tuple[Indices, Array]:
    """Positions and weights of at most m rows: hold at most m rows, take in m + 1 more, eliminate,
    until all rows are used.
    """
    kernel = fitted.kernel
    positions = np.zeros(0, dtype=np.intp)
    weights = np.zeros(0)
    row_weights = own_weights(rows, np.arange(len(rows)))
    step = kernel.width + 1
    for start in range(0, len(rows), step):
        stop = min(start + step, len(rows))
        positions = np.concatenate([positions, np.arange(start, stop)])
        weights = np.concatenate([weights, row_weights[start:stop]])
        if len(positions) > kernel.width:
            features = kernel.features(rows.take(positions, kernel.shift))
            weights = weights * eliminate(np.asfortranarray(features * weights[:, None]))
            positions, weights = positions[weights > 0], weights[weights > 0]
        if progress is not None:
            progress(stop, len(rows))
    return positions, weights


def _group_moments(rows: Rows, kernel: Kernel, weights: Array, bounds: Indices) -> Array:
    """The moments of contiguous groups of rows, many groups at a time: one read and product per
    group would cost more than the few rows.
    """
    sums = np.empty((len(bounds) - 1, kernel.width), order="F")
    sizes = np.diff(bounds)
    most = max(int(sizes.max()), GROUPED // (8 * (rows.columns + 1)))
    blocks = Blocks(rows, kernel.shift, min(most, len(rows)))
    ends = np.flatnonzero(np.diff(sizes)) + 1  # of runs of groups of one size
    for first, last in pairwise([0, *ends.tolist(), len(sizes)]):
        size = int(sizes[first])
        step = max(1, most // size)
        for left in range(first, last, step):
            right = min(left + step, last)
            start, stop = int(bounds[left]), int(bounds[right])
            sums[left:right] = kernel.group_moments(
                blocks.read(start, stop), weights[start:stop], right - left
            )
    return sums
