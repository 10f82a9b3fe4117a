"""The kernel of the 1-mean loss: features 1, x, |x|^2.

``sum_i u_i |x_i - q|^2 = U |q - m|^2 + V`` with U the total weight, m the mean, V the scatter.
With errors (dU, dx, dV) of the three kinds of moments about m, the worst relative error over every
q is the norm of a small symmetric matrix:

    | [[dU/U I, -dx/sqrt(U V)], [-dx'/sqrt(U V), dV/V]] |_2 .

V is a difference of sums, so the columns are shifted close to their mean first: if they are not,
the pass is repeated.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array
from karat.engine.rows import Statistic
from karat.engine.tolerances import EPS, TINY

FAR = 64.0  # mean square over variance beyond which another shift is chosen and the pass repeated


class MeanKernel(Kernel):
    """Features ``1, (x - c) / s, |x - c|^2 / s^2`` with c and s from a pilot; rows may carry
    further columns, such as y.
    """

    power = 2
    rounding = 2 * FAR * EPS  # relative error of V, a difference of sums

    def __init__(self, columns: int, carried: int = 0) -> None:
        linalg.check_width(columns + 2)
        self.columns, self.carried = columns, carried
        self.width = columns + 2
        self.shift = np.zeros(columns + carried)
        self.size = 1.0
        self.product_shape = (columns + 1, 2)

    def _at(self, shift: Array, size: float) -> Self:
        other = self.__class__(self.columns, self.carried)
        other.shift[: self.columns], other.size = shift[: self.columns], size
        return other

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        pilot = pilot[:, 1 : self.columns + 1]
        shift = np.average(pilot, axis=0, weights=weights)
        spread = float(linalg.column_norms((pilot - shift).reshape(-1, 1))[0] / np.sqrt(len(pilot)))
        return self._at(shift, spread if spread > 0 else 1.0)

    def rescaled(self, sizes: Array) -> Self:
        return self._at(self.shift, float(sizes.max()) or 1.0)

    def features(self, block: Array) -> Array:
        scaled = block[:, : self.columns + 1] / self.size
        scaled[:, 0] = 1.0
        return np.column_stack([scaled, np.einsum("ij,ij->i", scaled[:, 1:], scaled[:, 1:])])

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        features = np.ascontiguousarray(self.features(block).T)
        return ((features if weights is None else features * weights).sum(axis=1),)

    def fitted_moments(
        self, statistic: Statistic, total: float, last: bool = False
    ) -> FittedMoments:
        full = statistic[0]
        mean = full[1:-1] / total
        shift = self.shift[: self.columns]
        middle = shift + mean * self.size
        far = (
            not last and full[-1] > FAR * self._scatter(full) and not np.array_equal(middle, shift)
        )
        kernel = self._at(middle, self.size) if far else self
        vanished = np.full(len(self.shift), full[-1] <= TINY) & (
            np.arange(len(self.shift)) < self.columns
        )
        return FittedMoments(
            kernel, full, statistic, total, needs_pass=bool(far), vanished=vanished
        )

    @staticmethod
    def _scatter(full: Array) -> float:
        mean = full[1:-1] / full[0]
        return float(full[-1] - full[0] * mean @ mean)

    def loss_error(self, full: Array, core: Array) -> float:
        """The worst relative error over every q, from the moments of all rows and of the kept
        ones.
        """
        total, mean, scatter = full[0], full[1:-1] / full[0], self._scatter(full)
        d_total = core[0] - total
        d_first = (core[1:-1] - full[1:-1]) - d_total * mean
        d_scatter = (
            (core[-1] - full[-1]) - 2 * mean @ (core[1:-1] - full[1:-1]) + d_total * mean @ mean
        )
        # all rows are equal: only the total weight matters
        if scatter <= EPS * abs(full[-1]) or scatter <= 0:
            return float(abs(d_total) / total)
        # the product might overflow
        side = float(np.linalg.norm(d_first / np.sqrt(total))) / np.sqrt(scatter)
        return linalg.spectral_norm(
            np.array([[d_total / total, -side], [-side, d_scatter / scatter]])
        )
