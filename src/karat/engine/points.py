"""A frame: a few rows as points in R^r, ready for a reducer.

Features are brought to comparable size column by column; rows carry the square root of their nominal weight.  Where the
features depend on each other (one-hot columns: x^2 = x, products vanish), the points are expressed in an orthonormal basis of
their span, r = numerical rank, by QR and SVD of the features themselves (never of their Gram matrix, which squares the
condition number).  What the target has outside that span is ``missed``: more rows are needed to reach it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import Settled
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Rows
from karat.engine.tolerances import PIVOT, RANK, RANK_WHITENED, TINY


@dataclass(frozen=True)
class Frame:
    """Candidates as points.

    Attributes
    ----------
    search : Settled
        The features and moments in which the points are.
    positions : int array (N,)
    root : array (N,)
        Square roots of the nominal weights.
    points : array (N, r), Fortran order
        ``sqrt(v_i) phi_i`` in scaled features or in coordinates of their span.
    target : array (r,)
    scale : array (m,)
        Sizes by which the features were divided.
    span : array (m, r) or None
        ``scaled features @ span`` are the coordinates; None if the features are used as they are.
    singular : array (m,)
        Singular values that decided the rank (empty if no decision was needed).
    gram, factor : arrays (r, r)
        Upper triangle of the Gram matrix of the points, and its Cholesky factor; empty before :meth:`resolve`.
    missed : float
        Largest entry of the target outside the span, relative to the largest entry.
    """

    search: Settled
    positions: Indices
    root: Array
    points: Array
    target: Array
    scale: Array
    span: Array | None
    singular: Array
    gram: Array
    factor: Array
    missed: float = 0.0

    @property
    def rank(self) -> int:
        return int(self.points.shape[1])

    def resolve(self) -> Frame:
        """The same points in independent coordinates, with the factor of their Gram matrix.

        A Cholesky factorisation tells whether the scaled features are independent; only if not, QR and SVD follow.
        """
        gram = linalg.upper_gram(self.points)
        diagonal = np.diag(gram)
        factor = linalg.cholesky(gram) if diagonal.all() and len(self.points) >= self.rank else None
        if factor is None or np.min(np.diag(factor) ** 2 / diagonal) < PIVOT:
            return self.independent()
        return replace(self, gram=gram, factor=factor)

    def independent(self) -> Frame:
        """The same points in orthonormal coordinates of their numerical span; features count alike, whatever their size."""
        norm = np.linalg.norm(self.points, axis=0)
        norm[norm == 0] = 1.0
        s, v = linalg.right_svd(self.points / norm)
        keep = s > (RANK_WHITENED if self.search.absolute is None else RANK) * s[:1]
        inside = v[:, keep].T @ (self.target / norm)
        outside = self.target - norm * (v[:, keep] @ inside)
        missed = float(np.abs(outside).max(initial=0.0) / max(np.abs(self.target).max(initial=0.0), TINY))
        span = v[:, keep] / s[keep] / norm[:, None]
        one = np.eye(int(keep.sum()), order="F")
        return replace(
            self, points=linalg.product(self.points, span), target=inside / s[keep], span=span, gram=one, factor=one,
            singular=s, missed=missed,
        )  # fmt: skip

    def direction(self, coordinates: Array) -> Array:
        """A dual vector of the points, as a direction in feature space."""
        scaled = coordinates if self.span is None else self.span @ coordinates
        return scaled / self.scale


def frame(rows: Rows, settled: Settled, positions: Indices, nominal: Array) -> Frame:
    """The rows at ``positions`` with nominal weights, as points in scaled features.

    Features of the linear class are scaled by their absolute moment over *all* rows, so that one which the candidates do not
    show is missed as much as any other; those of whitened variables by their root mean square over the candidates.
    """
    block = rows.take(positions, settled.kernel.shift)
    points = np.asfortranarray(settled.kernel.features(block))
    root = np.sqrt(nominal)
    columns = points.T
    if settled.absolute is None:
        columns *= root
        size = np.sqrt(np.einsum("ij,ij->i", columns, columns) / nominal.sum())
        zero = size <= settled.kernel.resolution(block)
        scale = np.where(zero, 1.0, size)
        columns /= scale[:, None]
        columns[zero] = 0.0
    else:
        mean = settled.absolute / settled.total
        scale = np.where(mean > 0, mean, 1.0)
        columns /= scale[:, None]
        columns *= root
    none = np.zeros(0)
    return Frame(settled, positions, root, points, settled.target / scale, scale, None, none, none, none)
