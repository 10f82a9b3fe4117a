"""What the engine asks of a kernelization (the paper's Definition 1, read per row).

A loss has a kernelization if ``f(row, q) = <phi(row), h(q)>`` for every row and query (not only for the sums, as the
paper has it: X = {1, 3}, f = x q, phi = {2, 2} has equal sums and a wrong coreset).  Then any weighted rows with the same
``sum_i w_i phi(row_i)`` have the same loss at every query.  The engine meets rows only through the methods below; blocks
are ``[1 | D - shift]`` as :class:`karat.engine.rows.Rows` reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from karat.engine import linalg
from karat.engine.linalg import Array

Statistic = tuple[Array, ...]


class Kernel(ABC):
    """A kernelization with m features per row, in coordinates fitted to the data.

    Attributes
    ----------
    width : int
        The number m of features.
    shift : array
        What :class:`Rows` subtracts from the columns when it reads a block.
    product_shape : (int, int)
        The shape of the matrix products that :meth:`statistic` forms, for the choice of block sizes.
    """

    width: int
    shift: Array
    product_shape: tuple[int, int]
    adapts: ClassVar[bool] = True  # whether the coordinates depend on a pilot
    extrapolates: ClassVar[bool] = False  # whether witnesses stand for all rows (an estimate), or for themselves (a bound)

    @abstractmethod
    def prepare(self, pilot: Array, weights: Array | None, complete: bool) -> Self:
        """Choose shift, scale and coordinates from a pilot block ``[1 | D]`` (``complete``: it holds every row)."""

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        """What one pass adds up: arrays from which :meth:`settle` reads the moments."""
        features = self.features(block)
        return (features.sum(axis=0) if weights is None else weights @ features,)

    def settle(self, statistic: Statistic, total: float) -> Settled:
        """Final coordinates and the target moments; or better coordinates and the wish for another pass."""
        return Settled(self, statistic[0], statistic, total)

    @abstractmethod
    def features(self, block: Array) -> Array:
        """The kernel features of a block (b x m)."""

    @property
    def statistic_size(self) -> int:
        """About how many numbers the statistic holds."""
        left, right = self.product_shape
        return left * right

    def condition(self, block: Array, witness: Callable[[], Array] | None = None) -> float:
        """By how much the coordinates magnify the rounding of the rows; ``witness`` as in :meth:`gap`."""
        return 1.0

    def resolution(self, block: Array) -> Array:
        """Per feature, the root mean square over a block below which it is rounding of something that vanishes."""
        return np.zeros(self.width)

    def moments(self, block: Array, weights: Array) -> Array:
        """``weights @ features(block)``; a kernel may know a faster way."""
        return np.asarray(weights @ self.features(block))

    def evaluate(self, block: Array, directions: Array) -> Array:
        """``features(block) @ directions``; a kernel may know a faster way."""
        return np.asarray(self.features(block) @ directions)

    def gap(self, block: Array, weights: Array, settled: Settled, witness: Callable[[], Array]) -> float:
        """A bound of ``sup_q |f_c(q) - f(q)| / sum_i u_i |f_i(q)|`` between weighted rows and the settled moments.

        ``witness()`` gives the weighted features A = ``u_i phi(row_i)`` of some rows of the data.  Their part of the
        denominator alone is ``|A h|_1 >= |A h|_2 / sqrt(largest leverage of A)``, because no entry of ``A h`` exceeds
        ``sqrt(leverage) |A h|_2``.  That bounds the ratio by ``|A^+' rho|_2 sqrt(largest leverage)``, proven for every
        query in the span of the witnesses.
        """
        rho = weights @ self.features(block) - settled.target
        weighted = witness()
        size = np.linalg.norm(weighted, axis=0)
        seen = size > 0
        weighted = weighted[:, seen] / size[seen]
        s, v = linalg.right_svd(weighted)
        keep = s > linalg.RANK_TOLERANCE * s[:1]
        root = v[:, keep] / s[keep]
        leverage = np.square(weighted @ root).sum(axis=1).max()
        return float(np.linalg.norm(root.T @ (rho[seen] / size[seen])) * np.sqrt(leverage))


@dataclass(frozen=True)
class Settled:
    """The outcome of a pass.

    Attributes
    ----------
    kernel : Kernel
        With the coordinates to use from now on.
    target : array (m,)
        The moments to keep, ``sum_i u_i phi(row_i)`` in those coordinates.
    statistic : Statistic
        The summed statistic, in those coordinates.
    total : float
        Total weight.
    again : bool
        The coordinates were too poor for an accurate sum: pass again with ``kernel``.
    rounding : float
        Relative error that the sum itself may carry, in the coordinates in which it was made.
    excluded : tuple of float
        Relative norms of the directions that the rank decision left out.
    """

    kernel: Kernel
    target: Array
    statistic: Statistic
    total: float
    again: bool = False
    rounding: float = linalg.EPS
    excluded: tuple[float, ...] = ()
