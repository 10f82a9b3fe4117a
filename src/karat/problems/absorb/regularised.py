"""The error of a regularised loss over every query, measured in coordinates in which the loss
itself is about 1.

Rows are ``b = (1, x, y)`` (or ``(x, y)``), shifted; a query ``z = (., w, -1)`` has, with weights u
of sum 1 and p = 2h,

    f(z) = sum_i u_i (b_i . z)^p + alpha sum_a |w_a|^p        over all rows,
    g(z) = the same over the kept rows with their weights, plus the stored correction C(w, -1).

With coordinates ``b T`` of the rows and ``z = T q``, let G be their second moments and

    Q(q) = q' G q + (alpha d^(1-h))^(1/h) |w|_2^2 .

Then ``f >= 2^(1-h) Q^h``: the first sum is at least ``(q' G q)^h`` (Jensen), the second at least
``alpha d^(1-h) |w|_2^(2h)`` (power means), and ``a^h + b^h >= 2^(1-h) (a + b)^h``.  T is the
whitening map of the exact coreset, completed by directions along which the rows vanish; a Cholesky
factor of Q makes ``Q = |q|^2``, whatever alpha is and whatever vanishes.

On monomials s(q) of degree h with ``|s|^2 = |q|^p`` (correction.py) they are quadratic forms, ``f =
s' F s``, ``g - f = s' E s``, so

    |g - f| / f  <=  || B^(-1/2) E B^(-1/2) ||_2,     B = (1 - t) F + t 2^(1-h) I,  any t in [0, 1].

No direction is skipped: B is positive definite by itself, and where it is not to working precision
nothing is claimed.  For p = 2, B = F and the bound is attained.  C enters as it is stored, in raw
units as doubles.  Two terms are added for what cannot be seen in double precision:

    rows        coordinates are rounded:    p eps kappa,  kappa = largest ``|b| |T|`` against Q
    correction  so are value and form in q: eps sup_z sum_t m_t |C_t| |z^t| / f(z), by ``|z_j| <=
    |T_j| |q|``.

If the rows are themselves absorbed coresets that miss a correction (merging), it belongs to f.
Then Jensen's bound still holds where second moments are kept exactly: p > 2 with an intercept.
Otherwise t = 0.
"""

from __future__ import annotations

from contextlib import suppress
from math import comb

import numpy as np
from scipy import linalg as sla

from karat.engine import linalg
from karat.engine.coordinates import Basis
from karat.engine.kernel import FittedMoments, monomials
from karat.engine.linalg import Array
from karat.engine.powers import Powers
from karat.engine.rows import Progress, Rows, column_sizes, pass_over
from karat.engine.sums import gram_matrix
from karat.engine.tolerances import EPS
from karat.problems.absorb.correction import Correction, balanced, form_of, gathered, lifted

# t above: Jensen's part of the denominator; the bound is at most 1 / (1 - t) too large where F
# dominates
SHARE = 0.1
# eigenvalue of B, scaled to unit diagonal and per its size, that eigh can tell from zero
RESOLVED = 100 * EPS
LARGEST = 20_000  # monomials; beyond this no kernel exists either


class Regularised:
    """The regularised loss of all rows, against which kept rows and a correction are measured.

    The error is infinite if there are too many monomials or the loss is too degenerate for anything
    to be claimed.

    ``map`` is T, ``kernel`` reads rows in its coordinates, and ``form`` is the form of all rows in
    them, for weights of sum 1.
    """

    def __init__(
        self,
        rows: Rows,
        fitted: FittedMoments,
        degree: int,
        intercept: bool,
        alpha: float,
        missing: Correction | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.degree, self.half, self.lead = degree, degree // 2, int(intercept)
        self.variables = rows.columns + self.lead
        self.total, self.missing = rows.total, missing
        self.alpha = alpha / self.total
        _, self.shift = _coordinates(fitted)
        self._ready = False
        if comb(self.variables + degree - 1, degree) > LARGEST or not np.isfinite(alpha):
            return
        # Whitened coordinates mix columns.  A penalty that exceeds the rows by a hundred orders of
        # magnitude along one column cannot be written in them, but in the columns themselves.
        for coordinates in (_completed, _unmixed):
            with (
                suppress(np.linalg.LinAlgError),
                np.errstate(over="ignore", invalid="ignore", divide="ignore"),
            ):
                self._fit(rows, coordinates(rows, fitted, intercept), intercept, progress)
            if self._ready:
                break

    def _fit(
        self, rows: Rows, coordinates: Array, intercept: bool, progress: Progress | None
    ) -> None:
        """Sum all rows in coordinates T, and prepare the denominator."""
        self.map = coordinates
        self.kernel = powers_within(self.map, self.shift, self.degree, intercept)
        statistic = pass_over(rows, self.kernel, progress)
        self.gram, self.form = (
            np.asarray(part / self.total, dtype=float) for part in (statistic[0], statistic[-1])
        )
        length = np.linalg.norm(self.map, axis=1)
        # from the coordinates to the base variables
        self.back = np.linalg.inv(self.map / length[:, None]) / length
        self.size = np.sqrt(np.maximum(np.diag(self.back.T @ self.gram @ self.back), 0.0))
        self._ready = self._prepare()

    def _prepare(self) -> bool:
        """The maps to q and the root of B^-1; False if B is not positive definite to working
        precision.
        """
        inputs = self.map[self.lead : -1]
        share = (self.alpha * len(inputs) ** (1.0 - self.half)) ** (1.0 / self.half)
        square = self.gram + share * inputs.T @ inputs
        carried = None if self.missing is None else self._carried(self.missing)
        if carried is not None and self.half == 1:
            square = square + carried
        jensen = self.missing is None or self.half == 1 or self.lead == 1
        # Rows and penalty may differ by thirty orders of magnitude: their sum would forget the
        # smaller, a QR of both does not.
        factor = linalg.cholesky(np.asfortranarray(self.gram)) if carried is None else None
        stacked = None if factor is None else np.vstack([factor, np.sqrt(share) * inputs])
        inverse = (
            _cholesky_inverse(square) if stacked is None else linalg.triangular_map(stacked, 0.0)[0]
        )
        if inverse is None or not np.isfinite(inverse).all():
            return False
        self.whole = self.map @ inverse
        self.inner, self.outer = lifted(inverse, self.half), lifted(self.whole, self.half)
        ones = (
            inverse.T @ square @ inverse
            if stacked is None
            else gram_matrix(stacked @ inverse, None)
        )
        least = float(linalg.eigh(ones)[0][-1])  # 1 but for rounding
        if not least > 0.5:
            return False
        rows = monomials(self.variables, self.half).values(
            np.ascontiguousarray(self.whole[self.lead : -1].T)
        )
        base = self.inner.T @ self.form @ self.inner + self.alpha * rows @ rows.T
        if carried is not None:
            base = base + self.inner.T @ carried @ self.inner
        base = balanced(base, self.variables, self.half)
        self.floor = 2.0 ** (1 - self.half) * least**self.half  # f >= floor |q|^p
        if jensen:
            base = (1 - SHARE) * base + SHARE * self.floor * np.eye(len(base))
        scale = np.sqrt(np.maximum(np.diag(base), 0.0))
        if not scale.all() or not np.isfinite(base).all():
            return False
        values, vectors = linalg.eigh(base / np.outer(scale, scale))
        if not values[-1] > RESOLVED * len(values):
            return False
        if not jensen:  # f >= |s|^2 / largest eigenvalue of B^-1
            self.floor = float(values[-1] * scale.min() ** 2)
        self.root = vectors / np.sqrt(values) / scale[:, None]
        noise = np.linalg.norm(self.size[:, None] * self.map, axis=0)
        self.kappa = float(np.linalg.norm(noise[:, None] * inverse, axis=0).max())
        return True

    def _carried(self, correction: Correction) -> Array:
        """The form of a correction in coordinates."""
        change = lifted(self.map, self.half)
        return np.asarray(change.T @ (correction.form(self.lead) / self.total) @ change)

    @property
    def rounding(self) -> float:
        """What the rounding of rows alone does to the error; infinite if nothing can be claimed."""
        return self.degree * EPS * self.kappa if self._ready else np.inf

    def error(self, block: Array, weights: Array, correction: Correction) -> float:
        """Worst ``|g - f| / f`` over every query, for kept rows ``[1 | D - shift]``, their weights
        and correction as stored.
        """
        if not self._ready or not np.isfinite(correction.delta).all():
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            difference = (
                form_of(self.kernel.coordinates(block), weights / self.total, self.half) - self.form
            )
            carried = correction if self.missing is None else correction - self.missing
            change = self.inner.T @ difference @ self.inner
            change += self.outer.T @ (carried.form(self.lead) / self.total) @ self.outer
            change = self.root.T @ balanced(change, self.variables, self.half) @ self.root
            rounding = self.rounding + EPS * self._sensitivity(correction)
        if not np.isfinite(change).all() or not np.isfinite(rounding):
            return np.inf
        return linalg.spectral_norm((change + change.T) / 2) + rounding

    def _sensitivity(self, correction: Correction) -> float:
        """A bound of ``sup_z sum_t m_t |C_t| |z^t| / f(z)``: by the largest ``|z_j|`` each, or by a
        norm if that is less.
        """
        reach = np.linalg.norm(self.whole, axis=1)
        spread = float(np.linalg.norm(self.whole / np.where(reach > 0, reach, 1.0)[:, None], 2))
        sizes = Correction(correction.sets, np.abs(correction.delta) / self.total).form(self.lead)
        products = monomials(self.variables, self.half).values(reach[:, None])[:, 0]
        sizes = balanced(products[:, None] * sizes * products, self.variables, self.half)
        root = np.sqrt(monomials(self.variables, self.half).multinomials)
        return (
            min(float(root @ sizes @ root), spread**self.degree * linalg.spectral_norm(sizes))
            / self.floor
        )

    @np.errstate(over="ignore", invalid="ignore")  # overflow is an error later
    def missed(self, block: Array, weights: Array) -> Array:
        """Moments of all rows less those of kept ones, per monomial of degree p in the base
        variables.

        The subtraction is made in coordinates, where it costs eps of the *difference*; between raw
        moments it would cost eps of the moments.
        """
        difference = self.form - form_of(
            self.kernel.coordinates(block), weights / self.total, self.half
        )
        return self.total * self._raw(difference, self.back)

    @np.errstate(over="ignore", invalid="ignore")
    def moments(self, scale: Array) -> Array:
        """Moments of all rows, per monomial of degree p in the base variables times ``scale``."""
        return self.total * self._raw(self.form, self.back * scale)

    def _raw(self, form: Array, back: Array) -> Array:
        change = lifted(back, self.half)
        return gathered(change.T @ form @ change, self.variables, self.half)


def _coordinates(fitted: FittedMoments) -> tuple[Array, Array]:
    """Whitening map and shift of an exact coreset's kernel: all that is used of it."""
    kernel = fitted.kernel
    assert isinstance(kernel, Powers)
    return kernel.basis.map, kernel.shift


def powers_within(
    map_: Array, shift: Array, degree: int, intercept: bool, total: bool = False
) -> Powers:
    """The polynomial kernel in given coordinates."""
    kernel = Powers(len(shift), degree, affine=intercept, total=total)
    kernel.shift = shift
    return kernel.within(Basis.of(map_))


def _completed(rows: Rows, fitted: FittedMoments, intercept: bool) -> Array:
    """The whitening map, and directions along which the rows vanish, if it left out any: a square
    matrix.
    """
    white, shift = _coordinates(fitted)
    count = rows.columns + int(intercept)
    if white.shape[1] == count:
        return white
    size = _sizes(rows, shift, intercept)
    seen = size[:, None] * white
    seen = seen / np.linalg.norm(seen, axis=0)
    others = sla.qr(seen, check_finite=False)[0][:, white.shape[1] :]
    gram = pass_over(rows, powers_within(np.diag(1 / size), shift, 2, intercept))[0] / rows.total
    white = size[:, None] * white
    others = others - white @ np.linalg.solve(white.T @ gram @ white, white.T @ gram @ others)
    return np.hstack([white, others]) / size[:, None]


def _unmixed(rows: Rows, fitted: FittedMoments, intercept: bool) -> Array:
    """The columns, each in units of its largest value."""
    return np.diag(1 / _sizes(rows, _coordinates(fitted)[1], intercept))


def _sizes(rows: Rows, shift: Array, intercept: bool) -> Array:
    """The largest absolute value of every column; 1 where all are zero."""
    largest = np.concatenate([np.ones(int(intercept)), column_sizes(rows, shift)])
    return np.where(largest > 0, largest, 1.0)


def _cholesky_inverse(square: Array) -> Array | None:
    """K with ``K' A K = 1``; None if A is not numerically positive definite."""
    scale = np.sqrt(np.maximum(np.diag(square), 0.0))
    if not scale.all() or not np.isfinite(square).all():
        return None
    factor = linalg.cholesky(square / np.outer(scale, scale))
    if factor is None:
        return None
    inverse = sla.solve_triangular(factor, np.eye(len(factor)), check_finite=False)
    return np.asarray(inverse / scale[:, None])
