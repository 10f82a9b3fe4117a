"""Problems about the distribution of the rows themselves: mean, tensor contractions, all moments up
to a degree.

    Mean                  sum_i u_i |x_i - q|^2   features 1, x, |x|^2          d + 2
    TensorContraction(p)  sum_i u_i (x_i . q)^p   degree p exactly (Corollary)  binom(d+p-1, p) (+1)
    Moments(p)            sum_i u_i P(x_i)        any P of degree <= p          binom(d+p, p)

Corollary: preserving T(q,..,q) for all q preserves every contraction T(q_1,..,q_p) by polarisation.
The paper's proof counts binom(d+p+1, p) features there; it is binom(d+p-1, p).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from karat.engine.kernel import Kernel
from karat.engine.linalg import Array
from karat.engine.parts import exact_combination
from karat.engine.polynomial import Polynomials
from karat.engine.powers import Powers
from karat.engine.small_kernels import MeanKernel
from karat.errors import InputError, check_integer
from karat.problems.base import Problem


def _direction(query: Any, columns: int) -> Array:
    vector = np.asarray(query, dtype=float)
    if vector.shape[-1:] != (columns,):
        raise InputError(
            f"The query has shape {vector.shape}; its last dimension must be {columns}, the number"
            " of columns."
        )
    return vector


@final
@dataclass(frozen=True)
class Mean(Problem):
    """The 1-mean loss ``sum_i u_i |x_i - q|^2`` at every centre q.

    Parameters
    ----------
    total_weight : bool, default True
        Kept in any case: the constant is one of the features.
    """

    total_weight: bool = True
    keeps: ClassVar[str] = "the 1-mean loss at every centre: total weight, mean and total variance"

    def __post_init__(self) -> None:
        if not self.total_weight:
            raise InputError("Remove total_weight=False: Mean always keeps the total weight.")

    @property
    def needs_real_rows(self) -> str:
        return ""

    def kernel(self, columns: int, targets: int) -> Kernel:
        # y travels with the rows, but a centre has no coordinate for it
        return MeanKernel(columns, targets)

    @property
    def shifts(self) -> bool:
        return True

    def shifted(self, query: Any, X: Sequence[int], y: Sequence[int]) -> Any:
        return np.array(
            [
                exact_combination(q, [-1.0], [offset])
                for q, offset in zip(_direction(query, len(X)), X, strict=True)
            ]
        )

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        return float(weights @ np.square(X - _direction(query, X.shape[1])).sum(axis=1))


@final
@dataclass(frozen=True)
class TensorContraction(Problem):
    """The contraction of the p-th moment tensor with every vector.

    The loss at q is ``sum_i u_i (x_i . q)^p``.

    Parameters
    ----------
    p : int
        The order, at least 1, odd or even.
    total_weight : bool, default True
        Also keep the total weight (one more row).

    Notes
    -----
    A query is a vector q, or p vectors (p x d) for the mixed contraction ``sum_i u_i prod_j (x_i .
    q_j)``.
    """

    p: int
    total_weight: bool = True
    keeps: ClassVar[str] = "every contraction of the p-th moment tensor"

    def __post_init__(self) -> None:
        check_integer("The order p of TensorContraction", self.p)

    @property
    def power(self) -> int:
        return int(self.p)

    @property
    def needs_real_rows(self) -> str:
        return "" if self.p <= 2 else super().needs_real_rows

    def kernel(self, columns: int, targets: int) -> Kernel:
        single = Polynomials(columns + targets, self.p, affine=False, total=self.total_weight)
        if self.p == 1:
            return single
        return Powers(
            columns + targets, self.p, affine=False, total=self.total_weight, single=single
        )

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        vectors = _direction(query, X.shape[1])
        if vectors.ndim == 1:
            return float(weights @ (X @ vectors) ** self.p)
        if vectors.shape[0] != self.p:
            raise InputError(
                f"A mixed contraction takes p = {self.p} vectors, not {vectors.shape[0]}."
            )
        return float(weights @ np.prod(X @ vectors.T, axis=1))


@final
@dataclass(frozen=True)
class Moments(Problem):
    """Every moment of the columns up to a degree, so the sum of every polynomial of that degree.

    Parameters
    ----------
    degree : int, default 2
        The highest degree, at least 1.
    total_weight : bool, default True
        Kept in any case: it is the moment of degree 0.

    Notes
    -----
    A query is an affine form, d + 1 numbers ``(q_0, q)``; its loss is ``sum_i u_i (q_0 + x_i .
    q)^degree``.  Such powers span all polynomials of the degree.
    """

    degree: int = 2
    total_weight: bool = True
    keeps: ClassVar[str] = "every moment of the columns up to the degree"

    def __post_init__(self) -> None:
        check_integer("The degree of Moments", self.degree)
        if not self.total_weight:
            raise InputError(
                "Remove total_weight=False: Moments always keeps the total weight, the moment of"
                " degree 0."
            )

    @property
    def needs_real_rows(self) -> str:
        return "" if self.degree <= 2 else super().needs_real_rows

    def kernel(self, columns: int, targets: int) -> Kernel:
        single = Polynomials(columns + targets, self.degree, affine=True)
        if self.degree == 1:
            return single
        return Powers(columns + targets, self.degree, affine=True, single=single)

    @property
    def keeps_squares(self) -> bool:
        return self.degree >= 2

    @property
    def shifts(self) -> bool:
        return True

    def shifted(self, query: Any, X: Sequence[int], y: Sequence[int]) -> Any:
        form = _direction(query, len(X) + 1)
        return np.array([exact_combination(form[0], form[1:], X), *form[1:]])

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        form = _direction(query, X.shape[1] + 1)
        return float(weights @ (form[0] + X @ form[1:]) ** self.degree)
