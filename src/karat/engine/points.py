"""Which rows: candidates as points in R^r, among which a coreset is sought, and rows that are kept
apart.

Features are brought to comparable size column by column; rows carry the square root of their
nominal weight.  Where the features depend on each other (one-hot columns: x^2 = x, products
vanish), the points are expressed in an orthonormal basis of their span, r = numerical rank, by
pivoted QR or SVD of the features themselves (never of their Gram matrix, which squares the
condition number).  What the target has outside that span is ``missed``: more rows are needed to
reach it.

**Which rows** (:func:`drawn`).  The weights of a few rows can meet the moments if the moments are
inside the cone of their features, and a direction in which few rows are long is met only if some of
them are among the candidates.  So rows are drawn in proportion to the norm of their features, ``p_i
~ u_i |phi_i|``, from a uniform sample POOL times as large as the number of features, and get the
nominal weight ``u_i / p_i``: the expected moments are those of all rows.  In whitened coordinates w
the norm of the features of degree p is ``|w|^p``, so nothing of size N x m is needed.  A cone about
the mean of directions that are symmetric is met by 2 m of them half of the time (Wendel); 2 m +
MARGIN sqrt(m) are enough in all but one of 100 cases.

**Rows that dominate a moment** are kept as they are, and the rest is reduced (peeling).  With heavy
tails one row can hold most of a moment.  In floating point all features are then parallel to those
of that row, and what the other rows contribute is lost in its rounding.  Such a row cannot be
replaced by others anyway: it is kept verbatim with its own weight, and the remaining rows are
*summed anew* (a subtraction would cancel).  Their moments may again be dominated by a few rows, and
so on, until every row holds at most the share DOMINATES of every absolute moment ``sum_i u_i
|phi_t(i)|``.  For a power law the number of these rows grows with the number of features and the
logarithm of the range, not with n.

**Light rows** have hardly any weight.  What they alone have, say a difference of two columns that
are equal elsewhere, is lost in the rounding of the others, too.  They are peeled where nothing else
is proven.

**Wild rows** (regression).  The claim is relative to the sizes of the columns.  One row of 1e20
dominates the size of its column, which then says nothing about the others.  So the size sigma_j of
a column is compared with what is typical in it, the median of the non-zero distances from the
middle in a sample.  Where it is more than WILD times as large, the rows beyond WILD times the
typical distance are wild.  Few of them are kept verbatim; many are a level of their own, which is
reduced by itself.  What more than an eighth of the rows have in a column is not wild.  (Of 1e6 rows
sigma is 1.5 times the typical distance for normal data, 59 for lognormal data with sigma 2, 540 for
Cauchy's: nothing to do.  A sentinel in 0.03 % of the rows: 302 wild rows. Pareto with the exponent
0.3: a level of 34,489 rows.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from karat.engine import linalg
from karat.engine.device import rows_beyond
from karat.engine.frame import Frame
from karat.engine.kernel import PILOT, FittedMoments, Kernel
from karat.engine.linalg import Array, Flags, Indices, Real
from karat.engine.polynomial import unmixed
from karat.engine.powers import Powers
from karat.engine.rows import Rows, own_weights, sample, sweep, typical
from karat.engine.tolerances import (
    CLEAR,
    DOMINATES,
    PIVOT,
    RANK,
    RANK_WHITENED,
    SEEN,
    SINGLE,
    TINY,
    WILD,
)

POOL = 8  # uniform rows per feature, from which candidates are drawn
# candidates beyond two per feature, in units of the square root of the number of features
MARGIN = 3.5
SPREAD = 2.5  # candidates per feature where the norms of features are not known
# rounds in which probabilities are scaled to their sum; rows that become certain are set aside
SCALINGS = 20
PEELINGS = 60
PEELED = 16  # most rows to peel per feature
LOOKED_AT = 512  # rows of a sample that tell what is typical
MINORITY = 0.125  # share of the rows up to which those that are large in a column may be wild
LIGHT = 1e-9  # part of the mean weight below which a row is light
ABOVE = 4.0  # among few rows, shares of so many times the average are dominating


@dataclass(frozen=True)
class CandidatePoints:
    """Rows as points, and the moments of all rows as a point to reach."""

    fitted: FittedMoments  # the features and moments in which the points are
    positions: Indices  # (N,): the rows
    root: Array  # (N,): square roots of the nominal weights
    points: Array  # (N, r): ``sqrt(v_i) phi_i`` in scaled features or in coordinates of their span
    target: Array  # (r,): the moments of all rows, in the same coordinates
    # what directions are sought with, in single precision if that is enough; empty before
    # :meth:`resolve`
    columns: Real  # (r, N): the points
    gram: Real  # (r, r): upper triangle of their Gram matrix
    factor: Real  # and its Cholesky factor
    # largest entry of the target outside the span, relative to the largest entry
    missed: float = 0.0

    @property
    def rank(self) -> int:
        return int(self.points.shape[1])

    @property
    def single(self) -> bool:
        """Whether the points are so well conditioned that single precision finds a vertex."""
        return self.columns.dtype == np.float32

    def resolve(self, may_miss: bool = False, single: bool = False) -> CandidatePoints:
        """The same points in independent coordinates, with the factor of their Gram matrix.

        A Cholesky factorisation shows whether the scaled features are independent.  If not, QR with
        pivoting follows, and SVD where the rank is still in doubt.  ``may_miss``: points that
        clearly do not span the target need no coordinates.  ``single``: try single precision first,
        if there are many features.
        """
        if len(self.points) < self.rank and (few := self._independent_rows()) is not None:
            return few
        diagonal = np.einsum("ij,ij->j", self.points, self.points)
        enough = bool(diagonal.all()) and len(self.points) >= self.rank
        for kind, least in ((np.float32, SINGLE), (np.float64, PIVOT))[
            0 if single and self.rank >= linalg.LARGE else 1 :
        ]:
            columns = np.ascontiguousarray(self.points.T, dtype=kind)
            gram = linalg.upper_gram(columns)
            factor = linalg.cholesky(gram) if enough else None
            if factor is not None and np.min(np.diag(factor) ** 2 / np.diag(gram)) >= least:
                return replace(self, columns=columns, gram=gram, factor=factor)
        norm = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        if may_miss and self._clearly_missed(gram, norm):
            return replace(self, missed=np.inf)
        return self._by_pivots(norm) or self._by_svd(norm)

    def _independent_rows(self) -> CandidatePoints | None:
        """Fewer points than features, in orthonormal coordinates of their span: rows of L, where L
        L' is their Gram matrix.

        None if the points depend on each other.
        """
        rows = np.ascontiguousarray(self.points)
        gram = linalg.upper_gram(rows)
        factor = linalg.cholesky(gram) if np.diag(gram).all() else None
        if factor is None or np.min(np.diag(factor) ** 2 / np.diag(gram)) < PIVOT:
            return None
        inside = linalg.solve_upper(factor, rows @ self.target, transposed=True)
        outside = self.target - linalg.solve_upper(factor, inside) @ rows
        return self._spanned(factor.T, inside, outside)

    def _clearly_missed(self, gram: Array, norm: Array) -> bool:
        """Whether a large part of the target is outside the span, according to the Gram matrix."""
        factor, order, rank = linalg.pivoted_cholesky(gram / norm / norm[:, None], SEEN)
        target = (self.target / norm)[order]
        inside = linalg.solve_transposed(factor[:rank, :rank], target[:rank])
        rest = target[rank:] - factor[:rank, rank:].T @ inside
        return bool(
            np.abs(rest * norm[order[rank:]]).max(initial=0.0)
            > SEEN**0.25 * np.abs(self.target).max()
        )

    def _by_pivots(self, norm: Array) -> CandidatePoints | None:
        """The same points in orthonormal coordinates made of independent features; None if the rank
        is not clear.
        """
        triangle, order = linalg.pivoted_triangle(self.points / norm)
        sizes = np.abs(np.diag(triangle))
        if not sizes.size or not sizes[0]:
            return None
        sizes = sizes / sizes[0]
        rank = int((sizes > self._cut).sum())
        if sizes[rank - 1] < CLEAR:
            return None
        chosen, scale = order[:rank], norm[order[:rank]]
        target = self.target / norm
        inside = linalg.solve_transposed(triangle[:rank, :rank], target[chosen])
        outside = target[order[rank:]] - triangle[:rank, rank:].T @ inside
        span = linalg.upper_inverse(triangle[:rank, :rank]) / scale[:, None]
        points = linalg.product(self.points[:, chosen], span)
        return self._spanned(points, inside, outside * norm[order[rank:]])

    @property
    def _cut(self) -> float:
        return RANK_WHITENED if self.fitted.absolute is None else RANK

    def _by_svd(self, norm: Array) -> CandidatePoints:
        """The same points in orthonormal coordinates of their numerical span.  All features count
        equally, whatever their size.
        """
        s, v = linalg.right_svd(self.points / norm)
        keep = s > self._cut * s[:1]
        inside = v[:, keep].T @ (self.target / norm)
        outside = self.target - norm * (v[:, keep] @ inside)
        span = v[:, keep] / s[keep] / norm[:, None]
        return self._spanned(linalg.product(self.points, span), inside / s[keep], outside)

    def _spanned(self, points: Array, target: Array, outside: Array) -> CandidatePoints:
        """Orthonormal points, the target in their coordinates, and how much of it is outside their
        span.
        """
        missed = float(
            np.abs(outside).max(initial=0.0) / max(np.abs(self.target).max(initial=0.0), TINY)
        )
        identity, columns = np.eye(points.shape[1]), np.ascontiguousarray(points.T)
        return replace(
            self,
            points=columns.T,
            target=target,
            columns=columns,
            gram=identity,
            factor=identity,
            missed=missed,
        )


def candidate_points(
    rows: Rows, fitted: FittedMoments, positions: Indices, nominal: Array
) -> CandidatePoints:
    """The rows at ``positions`` with nominal weights, as points in scaled features.

    Features of the linear class are scaled by their absolute moment over *all* rows, so that one
    which the candidates do not show is missed as much as any other; those of whitened variables by
    their root mean square over the candidates.
    """
    block = rows.take(positions, fitted.kernel.shift)
    points = np.asfortranarray(fitted.kernel.features(block))
    root = np.sqrt(nominal)
    columns = points.T
    if fitted.absolute is None:
        columns *= root
        size, zero = feature_sizes(fitted.kernel, block, columns, float(nominal.sum()))
        scale = np.where(zero, 1.0, size)
        columns /= scale[:, None]
        columns[zero] = 0.0
    else:
        mean = fitted.absolute / fitted.total
        scale = np.where(mean > 0, mean, 1.0)
        columns /= scale[:, None]
        columns *= root
    none = np.zeros(0)
    return CandidatePoints(fitted, positions, root, points, fitted.target / scale, none, none, none)


def feature_sizes(
    kernel: Kernel, block: Array, columns: Array, total: float
) -> tuple[Array, Flags]:
    """Root mean squares of features, given as rows ``sqrt(v_i) phi_i`` (m x N), and which features
    are only rounding.
    """
    size = np.sqrt(np.einsum("ij,ij->i", columns, columns) / total)
    return size, size <= kernel.resolution(block)


def enough(kernel: Kernel) -> int:
    """How many candidates meet the moments of well-behaved data."""
    width = kernel.width
    return (
        int(2 * width + MARGIN * np.sqrt(width))
        if isinstance(kernel, Powers)
        else int(SPREAD * width)
    )


def drawn(
    rows: Rows, kernel: Kernel, pool: Indices, size: int, rng: np.random.Generator, first: int = 0
) -> tuple[Indices, Array]:
    """Draw about ``size`` of the rows from ``first`` on, by the norm of their features; also their
    nominal weights.

    Rows come from ``pool`` if that is large enough, else from a larger uniform sample.
    """
    wanted = max(size, POOL * size // 2) if isinstance(kernel, Powers) else size
    among = (
        pool[sample(rng, len(pool), wanted)]
        if wanted <= len(pool)
        else first + sample(rng, len(rows) - first, wanted)
    )
    weights = own_weights(rows, among)
    if not isinstance(kernel, Powers) or len(among) <= size:
        return among, weights
    coordinates = kernel.coordinates(rows.take(among, kernel.shift))
    squares = np.einsum("ij,ij->i", coordinates, coordinates) + (0.0 if kernel.affine else 1.0)
    return by_score(among, weights, weights * squares ** (kernel.degree / 2), size, rng) or (
        among,
        weights,
    )


def by_score(
    positions: Indices, weights: Array, scores: Array, size: int, rng: np.random.Generator
) -> tuple[Indices, Array] | None:
    """About ``size`` rows, drawn in proportion to scores, with ``weights / probability``; None if a
    score is not positive.
    """
    chances = probabilities(scores, size)
    if chances is None:
        return None
    # systematic: one draw per unit of probability
    edges = np.floor(np.cumsum(chances) + rng.random()).astype(np.int64)
    chosen = np.flatnonzero(np.diff(edges, prepend=0) > 0)
    return positions[chosen], weights[chosen] / chances[chosen]


def probabilities(scores: Array, size: int) -> Array | None:
    """Probabilities in proportion to scores, at most 1, that sum to ``size``; None if scores are
    not positive and finite.
    """
    total = float(scores.sum())
    if not np.isfinite(total) or not (scores > 0).all():
        return None
    factor = size / total
    for _ in range(SCALINGS):
        certain = factor * scores >= 1.0
        rest = float(scores[~certain].sum())
        left = size - int(certain.sum())
        if rest == 0 or left <= 0 or left / rest <= factor * (1 + 1e-9):
            break
        factor = left / rest
    return np.minimum(factor * scores, 1.0)


def dominating(rows: Rows, kernel: Kernel, most: int) -> Indices | None:
    """Positions of the rows to peel, increasing; None if more than ``most`` would be."""
    peeled = np.zeros(len(rows), dtype=bool)
    for _ in range(PEELINGS):
        left = np.flatnonzero(~peeled)
        if not len(left):
            break
        rest = rows if not peeled.any() else rows.subset(left)
        heavy = left[heaviest(rest, kernel)]
        if not len(heavy):
            return np.flatnonzero(peeled)
        peeled[heavy] = True
        if peeled.sum() > most:
            return None
    return np.flatnonzero(peeled)


def looked_at(rows: Rows) -> Indices:
    """A sample that tells what is typical.  It depends only on the number of rows, so that
    verification finds the same wild rows.
    """
    return sample(np.random.default_rng(0), len(rows), LOOKED_AT)


def wild_rows(
    rows: Rows, fitted: FittedMoments, among: Array | None = None,
    usual: tuple[Array, Array] | None = None,
) -> tuple[float, Indices]:  # fmt: skip
    """The largest ratio of a column's size to its typical size, and the wild rows.

    The typical size is that of the rows ``among`` (``[1 | D]``), by default :func:`looked_at`, and
    ``usual`` if it is known.
    """
    frame, none = fitted.frame, np.zeros(0, dtype=np.intp)
    if frame is None or not isinstance(fitted.kernel, Powers) or fitted.kernel.single is not None:
        return 1.0, none
    if among is None:
        among = rows.take(looked_at(rows), np.zeros(rows.columns))
    spread, middle, far = _wild_limits(frame, among[:, 1:], usual)
    if not spread > WILD:
        return spread, none
    if rows.on_device:
        return spread, rows_beyond(rows, middle, far)

    def visit(block: Array, _: Array | None, start: int) -> list[Indices]:
        return [start + np.flatnonzero((np.abs(block[:, 1:]) > far).any(axis=1))]

    return spread, np.concatenate(
        sweep(rows, middle, visit, lambda a, b: a + b, (rows.columns + 1, 1))
    )


def _wild_limits(
    frame: Frame, sample: Array, known: tuple[Array, Array] | None
) -> tuple[float, Array, Array]:
    """The largest ratio of a column's size to its typical size in a sample; the middle of every
    column; and the distance from it beyond which rows are wild.

    The distance is infinite for most columns.
    """
    first = int(frame.affine)
    with np.errstate(over="ignore", invalid="ignore"):
        middle, usual = known or typical(sample[:: max(1, len(sample) // LOOKED_AT)].T, bool(first))
        ratio = np.where(usual > 0, frame.spreads[first:] / np.where(usual > 0, usual, 1.0), 1.0)
        far = np.where(ratio > WILD, WILD * usual, np.inf)
        if (far == np.inf).all():
            return float(ratio.max(initial=1.0)), middle, far
        beyond = np.abs(sample - middle) > far
    # What many rows have is what the column is, such as probabilities near 0 and 1.
    far[beyond.mean(axis=0) > MINORITY] = np.inf
    if (beyond & (far < np.inf)).any(axis=1).mean() > 0.5:
        far[:] = np.inf
    return float(ratio.max(initial=1.0)), middle, far


def light_rows(rows: Rows) -> Indices:
    """Rows of so little weight that what only they have is lost in the rounding of the others, in
    any coordinates.
    """
    if rows.weights is None:
        return np.zeros(0, dtype=np.intp)
    share = rows.weights / rows.weights.max()
    return np.flatnonzero(share < LIGHT * share.mean())


def apart(
    rows: Rows, kernel: Kernel, fitted: FittedMoments, among: Array | None, proven: bool
) -> tuple[float, Indices]:  # fmt: skip
    """How wild rows are, and the rows to peel: a few wild ones or, if nothing is proven, dominating
    and light ones.
    """
    spread, wild = wild_rows(rows, fitted, among)
    most = PEELED * max(1, fitted.kernel.width)
    if 0 < len(wild) <= most and len(wild) < len(rows):
        return spread, wild
    if proven:
        return spread, wild[:0]
    heavy = dominating(rows, kernel, most)
    heavy = wild[:0] if heavy is None else heavy
    both = np.union1d(heavy, light_rows(rows))
    return spread, both if len(both) <= most else heavy


def heaviest(rows: Rows, kernel: Kernel) -> Indices:
    """Rows that hold more than DOMINATES of an absolute moment, in features of single columns."""
    pilot = sample(np.random.default_rng(0), len(rows), PILOT)
    block = rows.take(pilot, np.zeros(rows.columns))
    kernel = unmixed(kernel).prepare(block, own_weights(rows, pilot))
    shape = (kernel.width, 1)

    def sizes(block: Array, weights: Array | None, _: int) -> Array:
        features = np.abs(kernel.features(block))
        return np.asarray(features.sum(axis=0) if weights is None else weights @ features)

    moments = sweep(rows, kernel.shift, sizes, lambda a, b: a + b, shape)
    limit = np.maximum(max(DOMINATES, ABOVE / len(rows)) * moments, TINY)

    def heavy(block: Array, weights: Array | None, start: int) -> list[Indices]:
        share = (np.abs(kernel.features(block)) / limit).max(axis=1)
        return [start + np.flatnonzero((share if weights is None else share * weights) > 1.0)]

    return np.concatenate(sweep(rows, kernel.shift, heavy, lambda a, b: a + b, shape))
