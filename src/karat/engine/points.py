"""Candidates as points in R^r: the few rows among which a coreset is sought.

Features are brought to comparable size column by column; rows carry the square root of their nominal weight.  Where the
features depend on each other (one-hot columns: x^2 = x, products vanish), the points are expressed in an orthonormal basis of
their span, r = numerical rank, by QR and SVD of the features themselves (never of their Gram matrix, which squares the
condition number).  What the target has outside that span is ``missed``: more rows are needed to reach it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import FittedMoments
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Rows
from karat.engine.tolerances import PIVOT, RANK, RANK_WHITENED, TINY


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

    def resolve(self) -> CandidatePoints:
        """The same points in independent coordinates, with the factor of their Gram matrix.

        A Cholesky factorisation tells whether the scaled features are independent; only if not, QR and SVD follow.
        """
        gram = linalg.upper_gram(self.points)
        diagonal = np.diag(gram)
        factor = linalg.cholesky(gram) if diagonal.all() and len(self.points) >= self.rank else None
        if factor is None or np.min(np.diag(factor) ** 2 / diagonal) < PIVOT:
            return self._independent()
        return replace(self, gram=gram, factor=factor)

    def _independent(self) -> CandidatePoints:
        """The same points in orthonormal coordinates of their numerical span; features count alike, whatever their size."""
        norm = np.linalg.norm(self.points, axis=0)
        norm[norm == 0] = 1.0
        s, v = linalg.right_svd(self.points / norm)
        keep = s > (RANK_WHITENED if self.fitted.absolute is None else RANK) * s[:1]
        inside = v[:, keep].T @ (self.target / norm)
        outside = self.target - norm * (v[:, keep] @ inside)
        missed = float(np.abs(outside).max(initial=0.0) / max(np.abs(self.target).max(initial=0.0), TINY))
        span = v[:, keep] / s[keep] / norm[:, None]
        one = np.eye(int(keep.sum()), order="F")
        points = linalg.product(self.points, span)
        return replace(self, points=points, target=inside / s[keep], gram=one, factor=one, missed=missed)


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
