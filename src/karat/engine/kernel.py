"""What the engine asks of a kernelization (Definition 1 of "Introduction to accurate coresets", read per row).

A loss has a kernelization if ``f(row, q) = <phi(row), h(q)>`` for every row and query (not only for the sums, as the
paper has it: X = {1, 3}, f = x q, phi = {2, 2} has equal sums and a wrong coreset).  Then any weighted rows with the same
``sum_i w_i phi(row_i)`` have the same loss at every query.  The engine meets rows only through the methods below; blocks
are ``[1 | D - shift]`` as :class:`karat.engine.rows.Rows` reads them.

There are two classes of queries, and two ways to prove a coreset (:mod:`karat.engine.proof`):

    linear      h is any vector: every linear combination of the features is a query (moments, kernels, latent tensors);
    power       h is a p-th power: every linear form, raised to the power p, is a query (regression, the 1-mean loss).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from karat.engine.linalg import Array
from karat.engine.tolerances import EPS
from karat.errors import InputError

MOST = 20_000  # features of a row; beyond this the m x m matrices do not fit in memory

Statistic = tuple[Array, ...]
Flags = npt.NDArray[np.bool_]


def check_width(width: int) -> None:
    """Refuse more features than a coreset is worth making for, before anything of that size is made."""
    if width > MOST:
        raise InputError(
            f"The rows have {width:,} features, more than the {MOST:,} that a coreset is worth making for; lower the number of "
            "columns or the degree."
        )


class Kernel(ABC):
    """A kernelization with m features per row, in coordinates fitted to the data.

    Attributes
    ----------
    width : int
        The number m of features.
    power : int
        The degree of the features in the columns of a row, as far as it is known.
    shift : array
        What :class:`Rows` subtracts from the columns when it reads a block.
    product_shape : (int, int)
        The shape of the matrix products that :meth:`statistic` forms, for the choice of block sizes.
    """

    width: int
    power: int = 1
    shift: Array
    product_shape: tuple[int, int]
    linear: ClassVar[bool] = True  # the class of its queries
    adapts: ClassVar[bool] = True  # whether the coordinates depend on a pilot

    @abstractmethod
    def prepare(self, pilot: Array, weights: Array | None, complete: bool) -> Self:
        """Choose shift, scale and coordinates from a pilot block ``[1 | D]`` (``complete``: it holds every row)."""

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        """What one pass adds up: arrays from which :meth:`settle` reads the moments."""
        features = np.ascontiguousarray(self.features(block).T)
        if weights is not None:
            features = features * weights
        return features.sum(axis=1), np.abs(features).sum(axis=1)  # along contiguous rows, so pairwise

    def settle(self, statistic: Statistic, total: float, last: bool = False) -> Settled:
        """Final coordinates and the target moments; or, unless it is the ``last`` pass, better coordinates for another pass."""
        return Settled(self, statistic[0], statistic, total, absolute=statistic[1])

    @abstractmethod
    def features(self, block: Array) -> Array:
        """The kernel features of a block (b x m)."""

    @property
    def statistic_size(self) -> int:
        """About how many numbers the statistic holds."""
        left, right = self.product_shape
        return left * right

    def resolution(self, block: Array) -> Array:
        """Per feature, the root mean square over a block below which it is rounding of something that vanishes."""
        return np.zeros(self.width)

    def moments(self, block: Array, weights: Array) -> Array:
        """``weights @ features(block)``; a kernel may know a faster way."""
        return np.asarray(weights @ self.features(block))

    def evaluate(self, block: Array, directions: Array) -> Array:
        """``features(block) @ directions``; a kernel may know a faster way."""
        return np.asarray(self.features(block) @ directions)

    def unmixed(self) -> Kernel:
        """A kernel for the same columns whose features are monomials of single columns, in no coordinates yet."""
        return self

    def rescaled(self, sizes: Array) -> Self:
        """The same kernel in units in which columns of these sizes do not underflow."""
        return self

    def centred(self, target: Array, total: float) -> Self | None:
        """The same features of columns that are shifted by their means, which are among the moments; None without a shift."""
        return None

    def feature_name(self, feature: int, columns: list[str]) -> str:
        """What a feature is, for error messages; ``columns`` names the columns of the table."""
        return f"feature {feature}"


@dataclass(frozen=True)
class Directions:
    """Directions of the base variables that vanish on all rows, up to rounding.

    Attributes
    ----------
    vectors : array (v, e)
        Each a combination of the shifted columns (the constant first, if it is a base variable).
    sizes : array (e,)
        Their root mean square over all rows, relative to that of their terms.
    separate : bool array (e,)
        Which of them belong to variables that are not mixed with each other.
    """

    vectors: Array
    sizes: Array
    separate: Flags

    def plus(self, vectors: Array, sizes: Array, separate: Flags) -> Directions:
        return Directions(
            np.hstack([self.vectors, vectors]),
            np.concatenate([self.sizes, sizes]),
            np.concatenate([self.separate, separate]),
        )

    def chosen(self, which: Flags) -> Directions:
        return Directions(self.vectors[:, which], self.sizes[which], self.separate[which])

    @staticmethod
    def none(variables: int) -> Directions:
        return Directions(np.zeros((variables, 0)), np.zeros(0), np.zeros(0, dtype=bool))


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
    absolute : array (m,) or None
        ``sum_i u_i |phi(row_i)|``, for the linear class.
    excluded : Directions or None
        Directions that the rank decision left out, for the power class.
    vanished : bool array or None
        Columns whose moments are zero, because all values are, or because they are so small that their powers underflow.
    also : Settled or None
        The same moments in features of the linear class, where both classes of queries are served.
    """

    kernel: Kernel
    target: Array
    statistic: Statistic
    total: float
    again: bool = False
    rounding: float = EPS
    absolute: Array | None = None
    excluded: Directions | None = None
    vanished: Flags | None = None
    also: Settled | None = None

    @property
    def searches(self) -> tuple[Settled, ...]:
        """The features in which rows may be sought."""
        return (self,) if self.also is None else (self, self.also)

    @property
    def linear(self) -> Settled | None:
        """The moments in features of the linear class."""
        return self if self.absolute is not None else self.also
