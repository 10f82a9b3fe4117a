"""Linear regression with squared or even-power loss, with or without a ridge or l_p regulariser.

With rows d_i = (x_i, y_i) and the query z = (w, -1), or d_i = (x_i, 1, y_i) and z = (w, b, -1) with
an intercept,

    LeastSquares      sum_i u_i (d_i . z)^2
    Ridge             sum_i u_i (d_i . z)^2 + alpha |w|_2^2
    LpRegression      sum_i u_i (d_i . z)^p + alpha |w|_p^p,      p even,

whose kernelization is the monomials of degree p in d_i: binom(d+p, p) of them, d+1 in place of d
with an intercept.

The regulariser may take a part of the data's moments upon itself (``absorb``; the paper's
Algorithms 2 and 3, corrected). What the kept rows do not carry is stored as a *correction*, the
difference of moments, and added back when the loss is evaluated or minimised:

    absorb=None        the rows carry everything, and serve every alpha;
    absorb="diagonal"  d regulariser rows e_a with weights W_a = 1 + (S_aa - S_c,aa) / alpha >= 0
    (the paper's experiments);
    absorb="box"       every cross moment may be off by alpha, |S_ab - S_c,ab| <= alpha, S_c,aa <=
                       S_aa + alpha, y^2 exact: what the sign matrix T of the paper's Lemma amounts
                       to.  A linear programme looks for few rows; it minimises the sum of their
                       weights, so nothing is claimed about their number.

The paper solves ``(Xc'Xc + alpha I_c)^-1 Xc'yc``; that misses the label term.  With G = X'X - Xc'Xc
and b = X'y - Xc'yc it is ``(Xc'Xc + G + alpha I)^-1 (Xc'yc + b)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar, Literal, final

import numpy as np

from karat.engine.claim import Claim, Reduction
from karat.engine.kernel import FittedMoments, Kernel
from karat.engine.linalg import Array, one_blas_thread
from karat.engine.parts import exact_combination
from karat.engine.powers import Powers
from karat.engine.rows import Progress, Rows
from karat.engine.sums import sum_of_products
from karat.engine.tolerances import EPS, TINY
from karat.errors import InputError
from karat.problems.absorb.absorb import absorb, measure_absorbed
from karat.problems.absorb.correction import Correction
from karat.problems.absorb.minimise import Solution, minimise_power
from karat.problems.base import LIKELIHOODS, NEVER_KEPT, CoresetLike, Problem, query_matrix

Absorb = Literal["diagonal", "box"] | None
ONE_ALPHA = "other values of alpha (the regulariser has absorbed a part of the data)"
NO_TOTAL = "the total weight"
LOWER_POWERS = "lower powers of the residual"
LEAST = TINY / EPS  # mean loss that single powers, too small for a double, could not change
REGULARISER_ZERO = 1e-10  # a regulariser weight below this is zero


class _Regression(Problem):
    """A power loss of the residual, with or without a regulariser."""

    needs_target: ClassVar[bool] = True
    fit_intercept: bool

    @property
    def power(self) -> int:
        return 2

    @property
    def penalty(self) -> float:
        return 0.0

    @property
    def keeps_total(self) -> bool:
        return self.absorb is None if self.total_weight is None else self.total_weight

    @property
    def keeps_squares(self) -> bool:
        return self.power == 2 or self.fit_intercept  # degree <= p in (x, y) includes the squares

    def kernel(self, columns: int, targets: int) -> Kernel:
        # with an intercept the constant is a feature anyway
        total = self.fit_intercept or self.keeps_total
        return Powers(
            columns + targets,
            self.power,
            affine=self.fit_intercept,
            total=total,
            separate_targets=targets,
        )

    @property
    def needs_real_rows(self) -> str:
        if self.absorb is not None:
            return "A regulariser absorbs real rows: leave out absorb=, or take rows='real'."
        if self.power > 2:
            return (
                f"Losses of degree {self.power} need moments of degree {self.power}: take"
                " rows='real'."
            )
        return ""

    @property
    def shifts(self) -> bool:
        return self.fit_intercept

    def shifted(self, query: Any, X: Sequence[int], y: Sequence[int]) -> Any:
        coefficients, offset = query_matrix(query, len(X), self.fit_intercept, len(y))
        count = max(coefficients.shape[1], len(y))
        coefficients, offset = (
            np.broadcast_to(a, (*a.shape[:-1], count)) for a in (coefficients, offset)
        )
        moved = [
            exact_combination(b, [*w, -1.0], [*X, t])
            for b, w, t in zip(offset, coefficients.T, y, strict=True)
        ]
        return coefficients, np.array(moved)

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        """The loss at coefficients (d,), (d + 1,) with the intercept last, or a pair (coefficients,
        intercept).
        """
        assert y is not None
        targets = y.reshape(len(y), -1)
        coefficients, offset = query_matrix(query, X.shape[1], self.fit_intercept, targets.shape[1])
        residual = X @ coefficients + offset - targets
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(weights @ (residual**self.power).sum(axis=1))
        if not LEAST * float(weights.sum()) <= value < np.inf:  # powers may be beyond all doubles
            value = sum_of_products(weights[:, None], *[residual] * self.power)
        return value + sum_of_products(self.penalty, *[np.abs(coefficients)] * self.power)

    def loss_on(self, core: CoresetLike, query: Any) -> float:
        value = super().loss_on(core, query)
        if core.absorbed is None:
            return value
        coefficients, _ = query_matrix(query, core.absorbed.columns, self.fit_intercept)
        return value + core.absorbed.value(coefficients[:, 0])

    def regulariser_weights(self, core: CoresetLike) -> Array:
        """Weights W_a >= 0 of the regulariser's rows e_a, for ``absorb="diagonal"``; all 1 if
        nothing was absorbed.

        Together with the kept rows they are the paper's coreset: ``sum_i w_i (d_i . z)^p + alpha
        sum_a W_a |w_a|^p`` is the loss of the full data.  A weight of zero means that the row is
        not needed.
        """
        if core.absorbed is None:
            return np.ones(core.arrays()[0].shape[1])
        if self.absorb != "diagonal":
            raise InputError(
                "absorb='box' stores a correction of every moment; only 'diagonal' amounts to"
                " regulariser rows."
            )
        weights = 1.0 + core.absorbed.pure() / self.penalty
        if (weights < -REGULARISER_ZERO).any():
            raise InputError(
                "A row of the regulariser would have a negative weight, which happens after"
                " merging; problem.solve(core) and core.loss are exact nevertheless."
            )
        return np.where(weights > REGULARISER_ZERO, weights, 0.0)

    def solve(self, core: CoresetLike) -> Solution:
        """The exact minimiser on the full data, from the coreset alone.

        Returns
        -------
        Solution
            ``coef`` and ``intercept``, of shape (d,) and scalar for one target, (d, T) and (T,) for
            several.
        """
        X, y, away = core.minus_offsets()
        assert y is not None
        solution = minimise_power(
            X, y, core.weights, self.power, self.penalty, self.fit_intercept, core.absorbed
        )
        if not any(away):
            return solution
        # `shifted` turns the intercept for the original columns into that of the shifted ones
        _, offset = self.shifted(
            solution, [-a for a in away[: X.shape[1]]], [-a for a in away[X.shape[1] :]]
        )
        return Solution(solution.coef, offset if y.ndim == 2 else float(offset[0]))


class _Penalised(_Regression):
    """A regression with a regulariser, which may carry a part of the data."""

    alpha: float
    absorb: Absorb

    def __post_init__(self) -> None:
        alpha, absorb = self.alpha, self.absorb
        if (
            not isinstance(alpha, int | float | np.number)
            or not isfinite(float(alpha))
            or float(alpha) < 0
        ):
            raise InputError(f"alpha must be a finite number of at least 0, not {alpha!r}.")
        if absorb not in (None, "diagonal", "box"):
            raise InputError(f"absorb must be None, 'diagonal' or 'box', not {absorb!r}.")
        if absorb is not None and not alpha > 0:
            raise InputError(
                f"absorb={absorb!r} needs a regulariser to absorb into: alpha must be positive."
            )

    @property
    def penalty(self) -> float:
        return float(self.alpha)

    def absorb_rows(
        self, rows: Rows, exact: Reduction, seed: int, progress: Progress | None,
        missing: Correction | None = None, unit: float = 1.0, inherited: Claim | None = None,
    ) -> tuple[Reduction, Correction]:  # fmt: skip
        """The reduction and the correction of an absorbed coreset; the exact reduction and zero if
        nothing can be absorbed.

        ``missing`` is what the rows miss already, if they are those of absorbed coresets.
        ``inherited`` is their claim, by default that of the exact reduction.  Weights of rows are
        in units of ``unit``; corrections are not.
        """
        with one_blas_thread():
            absorbed = absorb(
                rows, exact, self.power, self.fit_intercept, self.penalty / float(unit),
                self.absorb == "box", self.keeps_total,
                None if missing is None else missing.over(unit), seed, progress, unit,
            )  # fmt: skip
        passes = exact.passes + absorbed.passes
        if not absorbed.correction:
            return replace(exact, passes=passes), absorbed.correction
        error = absorbed.loss_error
        reduction = replace(
            exact, positions=absorbed.positions, weights=absorbed.weights,
            inherited=inherited or exact.inherited,
            proof=replace(exact.proof, loss_error=error, moment_error=error),
            method=f"{exact.method}, then {self.absorb}", passes=passes,
            peeled=np.zeros(0, dtype=bool),
        )  # fmt: skip
        return reduction, absorbed.correction.times(unit)

    def absorbed_error(
        self, rows: Rows, fitted: FittedMoments, kept: Rows, correction: Correction, unit: float
    ) -> float:
        return measure_absorbed(
            rows,
            fitted,
            self.power,
            self.fit_intercept,
            self.penalty / unit,
            kept,
            correction.over(unit),
        )

    @property
    def keeps(self) -> str:  # type: ignore[override]
        loss = "ridge loss" if self.power == 2 else f"l_{self.power} loss"
        if self.absorb:
            return (
                f"the {loss} at alpha = {self.alpha:g}, at every query, together with the stored"
                " correction"
            )
        return f"the {loss} of every linear model, for every alpha"

    @property
    def excludes(self) -> tuple[str, ...]:  # type: ignore[override]
        lost: tuple[str, ...] = ()
        if self.absorb is not None:
            lost += (
                (ONE_ALPHA,) if self.keeps_total or self.fit_intercept else (ONE_ALPHA, NO_TOTAL)
            )
        if self.power > 2 and not self.fit_intercept:
            lost += (LOWER_POWERS,)
        return (*lost, LIKELIHOODS, *NEVER_KEPT)


@final
@dataclass(frozen=True)
class LeastSquares(_Regression):
    """The sum of squared residuals of every linear model, for any number of targets.

    Only the products that are needed are kept: X'X, X'Y and each target's own square, not the
    products of different targets.

    Parameters
    ----------
    fit_intercept : bool, default True
        Whether the models have an intercept.
    total_weight : bool, default True
        Also keep the total weight; with an intercept it is kept in any case.
    """

    fit_intercept: bool = True
    total_weight: bool = True
    keeps: ClassVar[str] = (
        "the squared loss of every linear model, so also ridge, lasso and elastic net at every"
        " penalty, R2, standard errors, GCV and the Gaussian likelihood"
    )


@final
@dataclass(frozen=True)
class Ridge(_Penalised):
    """Ridge regression, in which the intercept is not penalised.

    The loss is ``sum_i u_i (x_i . w + b - y_i)^2 + alpha |w|^2``.

    Parameters
    ----------
    alpha : float, default 1.0
    fit_intercept : bool, default True
    absorb : None, "diagonal" or "box"
        Whether the regulariser may carry a part of the data: the squares only, or every product.
        An absorbed coreset has fewer rows as a rule (not more, and not the fewest possible), serves
        one alpha only, and needs ``problem.solve`` or its ``correction``.
    total_weight : bool, optional
        Also keep the total weight; by default yes, but not with ``absorb``.
    """

    alpha: float = 1.0
    fit_intercept: bool = True
    absorb: Absorb = None
    total_weight: bool | None = None


@final
@dataclass(frozen=True)
class LpRegression(_Penalised):
    """l_p regression for even p, in which the intercept is not penalised.

    The loss is ``sum_i u_i |x_i . w + b - y_i|^p + alpha |w|_p^p``.

    Parameters
    ----------
    p : int
        An even power, at least 2.  (The paper's sign tensor needs a power of two; nothing here
        does.)
    alpha : float, default 0
    fit_intercept : bool, default True
    absorb : None, "diagonal" or "box"
        As in :class:`Ridge`.
    total_weight : bool, optional
        Also keep the total weight; by default yes, but not with ``absorb``.
    """

    p: int
    alpha: float = 0.0
    fit_intercept: bool = True
    absorb: Absorb = None
    total_weight: bool | None = None

    def __post_init__(self) -> None:
        if (
            not isinstance(self.p, int | np.integer)
            or isinstance(self.p, bool)
            or self.p < 2
            or self.p % 2
        ):
            raise InputError(
                f"LpRegression needs an even p of at least 2, not {self.p!r}: for odd p the loss"
                " |r|^p is not a polynomial of the data: it has a kink at another place for every"
                " row, and no finite kernelization exists."
            )
        super().__post_init__()

    @property
    def power(self) -> int:
        return int(self.p)
