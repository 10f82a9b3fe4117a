"""The kernel of the 1-mean loss: features 1, x, |x|^2.

``sum_i u_i |x_i - q|^2 = U |q - m|^2 + V`` with U the total weight, m the mean, V the scatter.  With errors (dU, dx, dV) of
the three kinds of moments about m, the worst relative error over every q is the norm of a small symmetric matrix:

    | [[dU/U I, -dx/sqrt(U V)], [-dx'/sqrt(U V), dV/V]] |_2 .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import Kernel, Settled
from karat.engine.linalg import Array


class MeanKernel(Kernel):
    """Features ``1, (x - c) / s, |x - c|^2 / s^2`` with c and s from a pilot."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.width = columns + 2
        self.shift = np.zeros(columns)
        self.size = 1.0
        self.product_shape = (columns + 1, 2)

    def prepare(self, pilot: Array, weights: Array | None, complete: bool) -> Self:
        other = self.__class__(self.columns)
        other.shift = np.average(pilot[:, 1:], axis=0, weights=weights)
        spread = float(linalg.column_norms((pilot[:, 1:] - other.shift).reshape(-1, 1))[0] / np.sqrt(len(pilot)))
        other.size = spread if spread > 0 else 1.0
        return other

    def features(self, block: Array) -> Array:
        scaled = block / self.size
        scaled[:, 0] = 1.0
        return np.column_stack([scaled, np.einsum("ij,ij->i", scaled[:, 1:], scaled[:, 1:])])

    def gap(self, block: Array, weights: Array, settled: Settled, witness: Callable[[], Array]) -> float:
        full, core = settled.target, weights @ self.features(block)
        total, mean = full[0], full[1:-1] / full[0]
        scatter = full[-1] - total * mean @ mean
        d_total = core[0] - total
        d_first = (core[1:-1] - full[1:-1]) - d_total * mean
        d_scatter = (core[-1] - full[-1]) - 2 * mean @ (core[1:-1] - full[1:-1]) + d_total * mean @ mean
        if scatter <= linalg.EPS * abs(full[-1]) or scatter <= 0:  # all rows are equal: only the total weight matters
            return float(abs(d_total) / total)
        side = float(np.linalg.norm(d_first)) / np.sqrt(total * scatter)
        return linalg.spectral_norm(np.array([[d_total / total, -side], [-side, d_scatter / scatter]]))
