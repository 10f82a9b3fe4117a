"""Absorb a part of the moments into the regulariser: few rows, by linear programmes with column
generation.

With the weights of the regulariser's rows eliminated, the paper's Algorithms 2 and 3 ask for data
weights w >= 0 with

    lower <= sum_i w_i phi_i <= upper      (upper = lower on what must be exact),

phi the raw monomials of degree p, S their moments, and per monomial

                      "diagonal"        "box"
    x_a^p             S_c <= S + alpha  S_c <= S + alpha  (regulariser weight 1 + (S - S_c)/alpha >=
                      0)
    other, without 1  exact             |S_c - S| <= alpha
    y^p, or with 1    exact             exact

A vertex of this polyhedron has at most as many rows as constraints are tight.  A linear programme
finds one on a few candidates.  For "box" each row costs 1, the dual prices all other rows in one
pass, and rows of negative reduced cost join until none is left.  Then costs reweighted by 1/w are
tried for a sparser vertex.  What is minimised is a sum of weights, and with an intercept (or
``total``) that sum is fixed: any vertex is an optimum.  Nothing is claimed about the number of
rows.  The smallest number falls with alpha; the number found need not, and an exhaustive search may
find fewer (docs/mathematics.md).

Whatever the kept rows miss becomes the :class:`~karat.problems.absorb.correction.Correction`; only
the moments of zero width must be met by the rows, and are polished.  The rows, their weights and
the correction, all as they will be stored, are then measured against the regularised loss of all
rows (regularised.py).  The result is accepted if that error is at most ``LIMIT``; otherwise the
exact rows are returned, with a correction of zero.

Constants:

    LIMIT     A tenth of the 1e-10 that counts as exact: two parts may then be merged several times,
              and ``verify``, in other coordinates, agrees.  Rounding alone gives p eps kappa, so
              kappa may be up to 2e4 for p = 2 and no more.
    REFUTED   The error at which ``verify`` refutes: the 1e-10 itself, never more.
    WIDEST    Monomials up to which a programme of 12 times as many candidates is solved within its
              budget of time.
    AT_BOUND  A regulariser weight within this many eps (of the moment) of zero is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.claim import Reduction
from karat.engine.kernel import FittedMoments, monomials
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.powers import Powers
from karat.engine.rows import Progress, Rows, own_weights
from karat.engine.tolerances import EPS
from karat.engine.weights import polish
from karat.problems.absorb.correction import Correction
from karat.problems.absorb.programme import Budget, price_all, sparsest
from karat.problems.absorb.regularised import Regularised, powers_within

LIMIT = 1e-11
REFUTED = 1e-10
WIDEST = 1000
AT_BOUND = 64
ATTEMPTS = 3  # with other candidates, as a vertex may turn out not to be exact
CANDIDATES = 12  # in units of the number of monomials


@dataclass(frozen=True)
class Absorbed:
    """Rows kept, what the regulariser carries, and the error of both together."""

    positions: Indices
    weights: Array
    correction: Correction  # zero if nothing was absorbed
    # worst relative error of the regularised loss over every query, correction included
    loss_error: float
    passes: int


def absorb(
    rows: Rows,
    exact: Reduction,
    degree: int,
    intercept: bool,
    alpha: float,
    box: bool,
    total: bool,
    missing: Correction | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    unit: float = 1.0,
    budget: Budget | None = None,
    widest: int = WIDEST,
) -> Absorbed:
    """Reduce rows ``[X | y]`` as far as a regulariser of strength alpha allows.

    ``exact`` is an exact coreset of them, feasible for every alpha, and returned if nothing better
    is found.  ``missing`` is what the rows miss already, when absorbed coresets are merged.
    Weights of rows, alpha and corrections are in units of ``unit``, a power of two; results are
    stored without it.  Linear programmes are tried up to ``widest`` monomials.
    """
    loss = Regularised(rows, exact.fitted, degree, intercept, alpha, missing, progress)
    passes = 1
    if loss.rounding <= LIMIT:
        kernel = scaled_kernel(loss, total)
        if kernel.width <= widest:
            budget = budget or Budget()
            for attempt in range(ATTEMPTS):
                absorbed, more = _vertex(
                    rows, exact, loss, kernel, alpha, box, seed + attempt, unit, budget
                )
                passes += more
                if absorbed is not None and (
                    missing is not None or len(absorbed.positions) < len(exact.positions)
                ):
                    return absorbed
    if missing is None:
        sets = monomials(rows.columns, degree).indices
        return Absorbed(
            exact.positions,
            exact.weights,
            Correction(sets, np.zeros(len(sets))),
            exact.proof.loss_error,
            passes,
        )
    # What is missing is not in the rows: their own reduction is exact, if it is so against the loss
    # with the missing part.
    gap = loss.error(rows.take(exact.positions, loss.shift), exact.weights, missing)
    if gap <= LIMIT:
        return Absorbed(exact.positions, exact.weights, missing, gap, passes)
    everything = np.arange(len(rows))
    return Absorbed(everything, own_weights(rows, everything), missing, 0.0, passes)


def _vertex(
    rows: Rows, exact: Reduction, loss: Regularised, kernel: Powers, alpha: float, box: bool,
    seed: int, unit: float, budget: Budget,
) -> tuple[Absorbed | None, int]:  # fmt: skip
    """A vertex of the polyhedron, None if none was found or its error is too large; also the passes
    it took.
    """
    kinds = Kinds(kernel, rows.columns)
    moments = scaled_moments(loss, kernel)
    if loss.missing is not None:
        moments[: len(kinds.unit)][kinds.plain] += loss.missing.delta * kinds.unit[kinds.plain]
    lower, upper = kinds.bounds(moments, alpha, box)
    if not (np.isfinite(moments).all() and np.isfinite(upper).all()):
        return None, 0
    fixed = lower == upper
    rng = np.random.default_rng(seed)
    candidates = np.union1d(exact.positions, rng.integers(0, len(rows), CANDIDATES * kernel.width))
    passes, priced_weights = 0, None
    if box:
        candidates, priced_weights, _, passes = price_all(
            rows, kernel, candidates, lower, upper, budget
        )
        if priced_weights is None:
            return None, passes
    features = kernel.features(rows.take(candidates, kernel.shift))
    fewest = max(1, int(fixed.sum()))  # generic data cannot do with fewer rows than exact moments
    chosen = sparsest(features, lower, upper, rows.total, fewest, budget, priced_weights)
    if chosen is None:
        return None, passes
    positions, weights = candidates[chosen > 0], chosen[chosen > 0]
    weights = _polished(features[chosen > 0], weights, moments, lower, upper, rows.total)
    weights = weights * unit / unit  # as stored: a power of two rounds nothing short of underflow
    if not (weights > 0).all():
        return None, passes
    block = rows.take(positions, loss.shift)
    missed = loss.missed(block, weights)[kinds.plain]
    if loss.missing is not None:
        missed += loss.missing.delta
    pure = kinds.pure[kinds.plain]
    with np.errstate(over="ignore"):
        slack = AT_BOUND * EPS * np.abs(moments[: len(kinds.unit)] / kinds.unit)[kinds.plain]
        # no regulariser weight is negative
        missed = np.where(pure & (missed + alpha <= slack), -alpha, missed)
        delta = np.where(kinds.free[kinds.plain], missed, 0.0) * unit / unit
    if not np.isfinite(delta).all():  # no number that could be stored
        return None, passes
    correction = Correction(kinds.sets, delta)
    gap = loss.error(block, weights, correction)
    return (
        Absorbed(positions, weights, correction, gap, 1 + passes) if gap <= LIMIT else None
    ), passes


def _polished(
    features: Array, weights: Array, moments: Array, lower: Array, upper: Array, total: float
) -> Array:
    """Bring a vertex to full accuracy: all its tight constraints, or at least those that must be
    exact.
    """
    size = np.sqrt(np.square(features).mean(axis=0))
    size[size == 0] = 1.0
    kept, near = weights @ features, 1e-7 * size * total
    high, low = np.abs(kept - upper) <= near, np.abs(kept - lower) <= near
    tight = (lower == upper) | high | low
    # A regulariser weight at its bound is zero; a cross moment stays where it is, just inside the
    # box.
    goal = np.where(lower == upper, moments, np.where(high & np.isinf(lower), upper, kept))
    for held in (tight, lower == upper):
        weights = polish((features / size)[:, held], weights, (goal / size)[held])
    return weights


class Kinds:
    """The monomials, by what the regulariser may do to their moments: those without the constant
    are ``plain``.

    Moments of ``free`` ones may change; those of ``pure`` ones, powers of one input, may fall by
    any amount and rise by alpha.
    """

    def __init__(self, kernel: Powers, columns: int) -> None:
        sets = monomials(kernel.basis.map.shape[1], kernel.degree).indices
        lead = int(kernel.affine)
        label = columns - 1 + lead
        same = np.all(sets == sets[:, :1], axis=1)
        self.plain: Flags = (
            ~np.any(sets == 0, axis=1) if kernel.affine else np.ones(len(sets), dtype=bool)
        )
        self.pure: Flags = same & (sets[:, 0] >= lead) & (sets[:, 0] < label)
        self.free: Flags = self.plain & ~(same & (sets[:, 0] == label))
        # from raw moments to features
        self.unit = kernel.root * np.prod(np.diag(kernel.basis.map)[sets], axis=1)
        self.sets = sets[self.plain] - lead

    def bounds(self, moments: Array, alpha: float, box: bool) -> tuple[Array, Array]:
        lower, upper = moments.copy(), moments.copy()
        with np.errstate(over="ignore"):  # infinite: such a moment may change by any amount
            slack = alpha * self.unit
        rest = slice(0, len(slack))
        upper[rest][self.pure] += slack[self.pure]
        lower[rest][self.pure] = -np.inf
        if box:
            cross = self.free & ~self.pure
            upper[rest][cross] += slack[cross]
            lower[rest][cross] -= slack[cross]
        return lower, upper


def scaled_kernel(loss: Regularised, total: bool) -> Powers:
    """Monomials of shifted and scaled columns, not mixed: the box belongs to the raw monomials."""
    scale = 1.0 / np.where(loss.size > 0, loss.size, 1.0)
    return powers_within(np.diag(scale), loss.shift, loss.degree, bool(loss.lead), total)


def scaled_moments(loss: Regularised, kernel: Powers) -> Array:
    """The moments of all rows in the features of the scaled kernel."""
    moments = kernel.root * loss.moments(np.diag(kernel.basis.map))
    return np.append(moments, loss.total) if kernel.total else moments


def measure_absorbed(
    rows: Rows,
    fitted: FittedMoments,
    degree: int,
    intercept: bool,
    alpha: float,
    kept: Rows,
    correction: Correction,
) -> float:
    """Worst relative loss error of kept rows, with their weights and correction, against all
    rows.
    """
    loss = Regularised(rows, fitted, degree, intercept, alpha)
    everything = np.arange(len(kept))
    return loss.error(kept.take(everything, loss.shift), own_weights(kept, everything), correction)
