"""Candidates as points in R^r: the few rows among which a coreset is sought.

Features are brought to comparable size column by column; rows carry the square root of their nominal weight.  Where the
features depend on each other (one-hot columns: x^2 = x, products vanish), the points are expressed in an orthonormal basis of
their span, r = numerical rank, by pivoted QR or SVD of the features themselves (never of their Gram matrix, which squares the
condition number).  What the target has outside that span is ``missed``: more rows are needed to reach it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Rows
from karat.engine.tolerances import CLEAR, PIVOT, RANK, RANK_WHITENED, SEEN, TINY


@dataclass(frozen=True)
class CandidatePoints:
    """Rows as points, and the moments of all rows as a point to reach."""

    fitted: FittedMoments  # the features and moments in which the points are
    positions: Indices  # (N,): the rows
    root: Array  # (N,): square roots of the nominal weights
    points: Array  # (N, r): ``sqrt(v_i) phi_i`` in scaled features or in coordinates of their span
    target: Array  # (r,): the moments of all rows, in the same coordinates
    # (r, r): upper triangle of the Gram matrix of the points, and its Cholesky factor; empty before :meth:`resolve`
    gram: Array
    factor: Array
    missed: float = 0.0  # largest entry of the target outside the span, relative to the largest entry

    @property
    def rank(self) -> int:
        return int(self.points.shape[1])

    def resolve(self, may_miss: bool = False) -> CandidatePoints:
        """The same points in independent coordinates, with the factor of their Gram matrix.

        A Cholesky factorisation tells whether the scaled features are independent; only if not, QR with pivoting follows, and
        SVD where that leaves doubt about the rank.  ``may_miss``: points that clearly do not span the target need no
        coordinates.
        """
        gram = linalg.upper_gram(self.points)
        diagonal = np.diag(gram)
        factor = linalg.cholesky(gram) if diagonal.all() and len(self.points) >= self.rank else None
        if factor is not None and np.min(np.diag(factor) ** 2 / diagonal) >= PIVOT:
            return replace(self, gram=gram, factor=factor)
        norm = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        if may_miss and self._clearly_missed(gram, norm):
            return replace(self, missed=np.inf)
        return self._by_pivots(norm) or self._by_svd(norm)

    def _clearly_missed(self, gram: Array, norm: Array) -> bool:
        """Whether a large part of the target is outside the span, as far as the Gram matrix tells."""
        factor, order, rank = linalg.pivoted_cholesky(gram / norm / norm[:, None], SEEN)
        target = (self.target / norm)[order]
        inside = linalg.solve_transposed(factor[:rank, :rank], target[:rank])
        rest = target[rank:] - factor[:rank, rank:].T @ inside
        return bool(np.abs(rest * norm[order[rank:]]).max(initial=0.0) > SEEN**0.25 * np.abs(self.target).max())

    def _by_pivots(self, norm: Array) -> CandidatePoints | None:
        """The same points in orthonormal coordinates made of independent features; None if the rank is not clear."""
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
        """The same points in orthonormal coordinates of their numerical span; features count alike, whatever their size."""
        s, v = linalg.right_svd(self.points / norm)
        keep = s > self._cut * s[:1]
        inside = v[:, keep].T @ (self.target / norm)
        outside = self.target - norm * (v[:, keep] @ inside)
        span = v[:, keep] / s[keep] / norm[:, None]
        return self._spanned(linalg.product(self.points, span), inside / s[keep], outside)

    def _spanned(self, points: Array, target: Array, outside: Array) -> CandidatePoints:
        """Orthonormal points and the target in their coordinates; and what it has outside their span."""
        missed = float(np.abs(outside).max(initial=0.0) / max(np.abs(self.target).max(initial=0.0), TINY))
        one = np.eye(points.shape[1], order="F")
        return replace(self, points=points, target=target, gram=one, factor=one, missed=missed)


def candidate_points(rows: Rows, fitted: FittedMoments, positions: Indices, nominal: Array) -> CandidatePoints:
    """The rows at ``positions`` with nominal weights, as points in scaled features.

    Features of the linear class are scaled by their absolute moment over *all* rows, so that one which the candidates do not
    show is missed as much as any other; those of whitened variables by their root mean square over the candidates.
    """
    block = rows.take(positions, fitted.kernel.shift)
    points = np.asfortranarray(fitted.kernel.features(block))
    root = np.sqrt(nominal)
    columns = points.T
    if fitted.absolute is None:
        columns *= root
        size = np.sqrt(np.einsum("ij,ij->i", columns, columns) / nominal.sum())
        zero = size <= fitted.kernel.resolution(block)
        scale = np.where(zero, 1.0, size)
        columns /= scale[:, None]
        columns[zero] = 0.0
    else:
        mean = fitted.absolute / fitted.total
        scale = np.where(mean > 0, mean, 1.0)
        columns /= scale[:, None]
        columns *= root
    none = np.zeros(0)
    return CandidatePoints(fitted, positions, root, points, fitted.target / scale, none, none)
