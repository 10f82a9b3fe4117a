"""Another proof for rows that stand for others: both second moments in twice the precision.

The proof of :mod:`karat.engine.proof` bounds the rounding of its own sums and coordinates, some
1e-14 to 1e-12 of the loss, however exact the rows are.  A coreset of coresets adds up such claims:
after some hundred reductions one after the other nothing would be left.  Here with

    z = (1, d - shift),     A = sum_i u_i z_i z_i',     B = the same of the kept rows,    E = B - A

A, B and E are known to about 2^-100, and for any T, computed as the inverse of a Cholesky factor,

    |f_c - f| / f  <=  | T'E T |_2 / (1 - | T'A T - I |_2),

so that the loss error is what it is, and there is no second term.  Directions in which the rows
hardly differ have no such T, and are left to the other proofs.

**The products** (K. Ozaki et al., *Error-free transformations of matrix multiplication*, 2012).
Every number is cut into SLICES of EXACT_BITS bits, on grids of its column; the products of two
slices of BLOCK rows are sums of integers below 2^53 and hence exact, in any order.  They are added
with the exact errors of the additions.  What is left out is at most, with X and Z the largest
numbers of two columns, n rows and t products,

    2^-106 (t^2 + 16) 2 n X Z:

t roundings of errors of additions, of at most u^2 = 2^-106 of all products each; the slices that
were not multiplied, below 2^-110 each; and 4 u^2 for the weights.

**Even powers p = 2h > 2.**  The sums of :class:`PreciseFrame` are those of the usual proof, in its
coordinates: Gram matrices of monomials of degree h.  A monomial is a pair as well, off by h 2^-102
of itself.  Rows are multiplied by powers of two near the roots of their weights, so that X Z <= 2
d_k d_l, d the roots of the diagonal: where few rows of hardly any weight make up a direction, the
bound on the rounding of extended precision is still more than the loss error that is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product
from math import ceil

import numpy as np

from karat.engine import linalg
from karat.engine.claim import Proof
from karat.engine.frame import Frame
from karat.engine.kernel import monomials
from karat.engine.linalg import Array
from karat.engine.sums import BLOCK, EXACT_BITS, two_sum
from karat.engine.tolerances import EPS

SLICES = 5
SPLIT = 2.0**27 + 1  # cuts a double in two halves (Dekker)
SMALL = 2.0**-300  # numbers whose products keep all their digits
Pair = tuple[Array, Array]  # a number and what it is off by


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def prove_precisely(rows: Array, weights: Array, kept: Array, kept_weights: Array) -> Proof | None:
    """Prove kept rows against the rows that they represent; None if that cannot be done here."""
    unit = np.exp2(np.round(np.log2(weights.max())))
    weights, kept_weights = weights / unit, kept_weights / unit  # exact
    means = weights @ rows / weights.sum()
    nearest = np.abs(rows - means).argmin(axis=0)
    shift = rows[nearest, np.arange(rows.shape[1])]  # a constant column becomes zero
    blocks = [two_sum(values, -shift) for values in (rows, kept)]
    largest = np.max([np.abs(high).max(axis=0) for high, _ in blocks], axis=0)
    alive = largest > 0
    if not np.isfinite(largest).all() or not (largest[alive] > SMALL).all():
        return None
    scale = np.exp2(-np.round(np.log2(largest[alive])))
    scaled = [tuple(part[:, alive] * scale for part in block) for block in blocks]
    before, lost = _moments(*_with_ones(*scaled[0]), weights)
    after, more = _moments(*_with_ones(*scaled[1]), kept_weights)
    high, error = two_sum(after[0], -before[0])
    difference = high + (error + (after[1] - before[1]))
    lost = lost + more + EPS * np.abs(difference)
    difference, lost = (difference + difference.T) / 2, np.maximum(lost, lost.T)
    squares = np.diag(before[0])
    if not (squares > SMALL).all() or not np.isfinite(difference).all():
        return None
    size = np.sqrt(squares)
    factor = linalg.cholesky(np.asfortranarray(before[0] / size / size[:, None]))
    if factor is None:
        return None
    back = linalg.upper_inverse(factor) / size[:, None]
    # The rounding of these products, in doubles, by their absolute values.
    gram, whole = back.T @ before[0] @ back, np.abs(back)
    rounding = 2 * (len(back) + 2) * EPS
    off = np.linalg.norm(gram - np.eye(len(gram)))
    off += np.linalg.norm(whole.T @ (rounding * np.abs(before[0]) + lost) @ whole)
    if not off <= 0.5:
        return None
    change = linalg.spectral_norm(back.T @ difference @ back)
    change += float(np.linalg.norm(whole.T @ (rounding * np.abs(difference) + lost) @ whole))
    loss = float(change * (1 + len(back) * EPS) / (1 - off))
    gap = np.abs(difference) / size / size[:, None]
    worst = (
        int(np.append(0, np.flatnonzero(alive))[gap.max(axis=0)[1:].argmax() + 1])
        if alive.any()
        else 0
    )
    return Proof(loss, 0.0, float(gap.max()), 1.0, (), loss, 2, worst, in_columns=True)


@dataclass(frozen=True)
class PreciseFrame(Frame):
    """A frame whose sums of powers are known in twice the precision."""

    rest: Array | None = None  # what ``summed`` lacks

    @staticmethod
    def of(frame: Frame, coordinates: Array, weights: Array) -> PreciseFrame:
        """The frame with its sums made again, from the coordinates of all rows."""
        settings = {entry.name: getattr(frame, entry.name) for entry in fields(frame)}
        summed, rest = _power_moments(frame, coordinates, weights)
        return PreciseFrame(**settings | {"summed": summed}, rest=rest)

    def difference(self, coordinates: Array, weights: Array) -> Array:
        assert self.rest is not None
        high, low = _power_moments(self, coordinates, weights)
        difference, error = two_sum(high, -self.summed)
        return np.asarray(difference + (error + (low - self.rest)))

    def sum_errors(self, kept: int) -> tuple[float, float]:
        return self._lost(self.count), self._lost(kept)

    def _lost(self, rows: int) -> float:
        products = ceil(rows / BLOCK) * SLICES * (SLICES + 1) // 2
        return 2.0**-103 * (products**2 + 16) * rows + self.degree * 2.0**-100


def _power_moments(frame: Frame, coordinates: Array, weights: Array) -> Pair:
    """The Gram matrix of the isometric monomials of weighted coordinates, as a pair."""
    there, half = weights > 0, frame.degree // 2
    columns, weights = np.ascontiguousarray(coordinates[there].T), weights[there]
    high, low = columns, np.zeros_like(columns)
    for degree in range(2, half + 1):
        table = monomials(len(columns), degree)
        last = columns[table.indices[:, -1]]
        above, rest = _product(high[table.parent], last)
        high, low = two_sum(above, rest + low[table.parent] * last)
    root = np.sqrt(monomials(len(columns), half).multinomials)[:, None]
    above, rest = _product(high, root)
    high, low = two_sum(above, rest + low * root)
    unit = np.exp2(np.floor(np.log2(weights) / 2))  # exact
    return _moments((high * unit).T, (low * unit).T, weights / unit**2)[0]


def _with_ones(high: Array, low: Array) -> Pair:
    """The rows (1, z) of a pair z."""
    count = len(high)
    return np.column_stack([np.ones(count), high]), np.column_stack([np.zeros(count), low])


def _moments(high: Array, low: Array, weights: Array) -> tuple[Pair, Array]:
    """``sum w z z'`` of rows ``z = high + low`` as a pair, and a bound on its error."""
    count = len(weights)
    first, rest = _product(high, weights[:, None])
    weighted = first, rest + low * weights[:, None]
    total = np.zeros((2, high.shape[1], high.shape[1]))
    largest, terms = np.zeros(total.shape[1:]), 0
    for start in range(0, count, BLOCK):
        some = slice(start, start + BLOCK)
        left, right = (_slices(a[some], b[some]) for a, b in (weighted, (high, low)))
        for i, j in product(range(SLICES), repeat=2):
            if i + j < SLICES:
                total[0], error = two_sum(total[0], left[i].T @ right[j])
                total[1] += error
                terms += 1
        sizes = [np.abs(values[some]).max(axis=0) for values in (first, high)]
        largest += min(BLOCK, count - start) * np.outer(*sizes)
    return (total[0], total[1]), 2.0**-106 * (terms**2 + 16) * 2 * largest


def _slices(high: Array, low: Array) -> list[Array]:
    """Numbers as a sum of SLICES numbers of EXACT_BITS bits, on grids of their columns."""
    slices = []
    for _ in range(SLICES):
        largest = np.abs(high).max(axis=0, initial=0.0)
        step = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - EXACT_BITS)
        slices.append(np.rint(high / step) * step)
        high, low = two_sum(high - slices[-1], low)
    return slices


def _product(a: Array, b: Array) -> Pair:
    """The rounded product and its exact error (Dekker)."""
    rounded = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = a_low * b_low - (((rounded - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return rounded, error


def _halves(values: Array) -> Pair:
    """Numbers as sums of two of 26 bits."""
    moved = SPLIT * values
    high = moved - (moved - values)
    return high, values - high
