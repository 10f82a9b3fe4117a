"""Sums over rows, and how far rounding can move them.

Every rounding changes a term by at most u = EPS / 2 of itself.  A sum whose terms go through k of
them each is off by at most ``k u`` times the sum of absolute values (to first order: k u < 1e-13).
So it is enough to count, for one term, the roundings on its way into the sum:

    its own        a feature of degree p is p shifted columns, p - 1 products, a factor and a weight
                   (``Kernel.roundings``)
    a run          BLAS adds SHORT rows at most one after the other; NumPy's sum has runs of 25 (an
                   eighth of 128 values, eight partial sums, up to seven values beside)
    a chain        squares of many columns: BLAS adds SHORT rows to a matrix, and the next, until a
                   block is done
    a tree         runs of a block, blocks of a range and ranges are added in pairs, with a rest at
                   either of the first two
    a running sum  of blocks, where a tree of large matrices would fill the memory: TOGETHER of
                   them, and then a pair high + low with the exact error of every addition (Knuth's
                   two-sum), which is rounded once

A term that underflows is off by at most the smallest positive double.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from karat.engine import blocked
from karat.engine.linalg import Array, product, threads
from karat.engine.tolerances import EPS

# columns up to which pieces of a tall block are short, and up to which they are a stack
NARROW, STACKED = 22, 64
SHORTEST, FINE, SHORT, MEDIUM = 8, 16, 32, 64  # rows of a piece
BLOCK, FINE_BLOCK = 512, 256  # rows of a chain
LARGE = 2**17  # numbers in a sum from which on there is a single running one
# additions beyond a perfect tree: rests of blocks, ranges of unequal length, and the first value of
# NumPy's sum
RESTS = 5
MOST_ROWS = 2**40  # where nothing is known about their number
WIDE = float(np.finfo(np.longdouble).eps)  # EPS where the machine has nothing longer than a double
EXTENDED = 2**23  # products that extended precision sums in some hundredths of a second
SMALLEST = float(np.finfo(float).smallest_subnormal)
TOGETHER = 4  # matrices that are added before the exact error of an addition is kept
EXACT_BITS = 22  # two numbers of so many bits, and the sum of BLOCK products, fit into a double
STRIP = 2**14  # numbers that are added at a time


def summed_product(left: Array, right: Array, piece: int | None = None) -> Array:
    """``left' right`` of tall blocks, in pieces of rows whose products are added in a tree.

    BLAS adds the rows of a piece one after the other, and the rounding of equal products (zeros and
    ones, prices) does not cancel: a sum of n rows is off by up to n u.  Pieces of b rows are off by
    b u, and a tree adds log2(n / b) u.  During a stack of products other threads can go on.
    """
    size = piece_rows(left.shape[1]) if piece is None else piece
    whole = len(left) // size * size
    if (
        left.shape[1] * right.shape[1] > STACKED**2
        or whole <= size
        or not left.shape[1] * right.shape[1]
    ):
        return _halves(left, right, size)
    pieces = left[:whole].reshape(-1, size, left.shape[1]).transpose(0, 2, 1) @ right[
        :whole
    ].reshape(-1, size, right.shape[1])
    total = tree_sum(pieces)
    return np.asarray(total + left[whole:].T @ right[whole:] if whole < len(left) else total)


def _halves(left: Array, right: Array, size: int) -> Array:
    """The same for many columns, one piece after the other."""
    if len(left) <= size:
        return product(left.T, right)
    half = (len(left) // size + 1) // 2 * size
    total = _halves(left[:half], right[:half], size)
    total += _halves(left[half:], right[half:], size)
    return total


def piece_rows(columns: int, degree: int = 2) -> int:
    """Rows that BLAS adds up by itself: few for few columns and high powers, else enough to be
    efficient.
    """
    if degree > 2:
        return SHORTEST if degree > 4 else SHORT
    return SHORT if columns <= NARROW else MEDIUM


def tree_sum(terms: Array) -> Array:
    """The sum over the first axis, in a tree; the terms are overwritten."""
    count = len(terms)
    while count > 1:
        half = count // 2
        first = terms[:half]
        first += terms[half : 2 * half]  # "terms[:half] += ..." would copy the sum onto itself
        if count % 2:
            terms[half] = terms[count - 1]
        count -= half
    return np.asarray(terms[0])


def gram_matrix(block: Array, weights: Array | None) -> Array:
    """``block' diag(weights) block`` of a tall block.

    Few columns: the copy makes NumPy call GEMM; for equal operands it would call SYRK, which
    OpenBLAS runs at half the speed on thin blocks and on several threads from a smaller size on.
    Many columns: SYRK has half the work.
    """
    if block.shape[1] > STACKED:
        return mirrored(upper_squares(block, weights))
    return summed_product(block, block.copy() if weights is None else block * weights[:, None])


def gram_with_ones(block: Array, weights: Array | None) -> Array:
    """Gram matrix of a tall block whose first column is all ones.  Leaving it out on the right
    saves the copy.
    """
    if weights is not None or block.shape[1] > STACKED:
        return gram_matrix(block, weights)
    product = np.empty((block.shape[1], block.shape[1]))
    product[:, 1:] = summed_product(block, block[:, 1:])
    product[1:, 0] = product[0, 1:]
    product[0, 0] = len(block)
    return product


def upper_squares(
    block: Array, weights: Array | None, piece: int = SHORT, rows: int = BLOCK
) -> Array:
    """The upper triangle of the same for many columns, by chains of pieces and a running sum of
    blocks of ``rows``.
    """
    sums = RunningSum()
    add_upper_squares(sums, block, weights, piece, rows)
    return sums.total[0]


def add_upper_squares(
    sums: RunningSum, block: Array, weights: Array | None, piece: int = SHORT, rows: int = BLOCK
) -> None:
    """Add the same to a running sum."""
    block = np.ascontiguousarray(block if weights is None else block * np.sqrt(weights)[:, None])
    for start in range(0, len(block), rows):
        part = sums.zeros(block.shape[1])
        blocked.add_squares(part, block[start : start + rows], piece, threads())
        sums.add((part,))


def chained_squares(block: Array, weights: Array, piece: int) -> Array:
    """The same in a single chain of pieces: a row goes through at most ``piece + len(block) /
    piece`` additions.
    """
    block = np.ascontiguousarray(block * np.sqrt(weights)[:, None])
    gram = np.zeros((block.shape[1], block.shape[1]))
    blocked.add_squares(gram, block, piece, threads())
    return gram


def exact_squares(block: Array, weights: Array | None) -> Array:
    """The same, at three times the cost, with hardly any rounding but that of running sums.

    The numbers of a block of rows are cut in two, ``x = a + b`` with a on a grid so coarse that the
    sums of products of a are exact; the rounding of the rest, ``(a + b / 2)'b`` and its transpose,
    is small beside them.
    """
    block = np.ascontiguousarray(block if weights is None else block * np.sqrt(weights)[:, None])
    sums = RunningSum()
    for start in range(0, len(block), BLOCK):
        values = block[start : start + BLOCK]
        largest = np.abs(values).max(axis=0, initial=0.0)
        step = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - EXACT_BITS)
        coarse = np.rint(values / step) * step
        fine = values - coarse
        part = np.zeros((block.shape[1], block.shape[1]))
        blocked.add_squares(part, coarse, BLOCK, threads())
        mixed = product((coarse + fine / 2).T, fine)
        mixed += mixed.T.copy()
        part += np.triu(mixed)
        sums.add((part,))
    return sums.total[0]


def mirrored(upper: Array) -> Array:
    """The symmetric matrix of an upper triangle; entries below the diagonal are ignored."""
    whole = upper.copy()
    edges = range(0, len(whole), BLOCK)
    for rows in (slice(i, i + BLOCK) for i in edges):  # blocks that stay in the cache
        corner = np.triu(whole[rows, rows])
        whole[rows, rows] = corner + np.triu(corner, 1).T
        whole[rows.stop :, rows] = whole[rows, rows.stop :].T
    return np.asarray(whole)


class RunningSum:
    """A sum of tuples of arrays whose rounding does not grow with their number.  It takes ownership
    of the arrays.

    TOGETHER of them are added directly, and their sum to the pair high + low.
    """

    def __init__(self) -> None:
        self.high: tuple[Array, ...] = ()
        self.low: tuple[Array, ...] = ()
        self.waiting: tuple[Array, ...] = ()
        self.count = 0
        self.spare: list[Array] = []  # matrices that have been added, if any were asked for
        self.lends = False

    def zeros(self, width: int) -> Array:
        """A square matrix of zeros for the next part; the memory is that of an earlier part, since
        the pages of new memory take as long as the product that is written to them.
        """
        self.lends = True
        if not self.spare:
            return np.zeros((width, width))
        matrix = self.spare.pop()
        matrix[...] = 0.0
        return matrix

    def add(self, parts: tuple[Array, ...]) -> None:
        if self.waiting:
            for sum_, part in zip(self.waiting, parts, strict=True):
                np.add(sum_, part, out=sum_)
            self._added(parts)
        self.waiting, self.count = self.waiting or parts, self.count + 1
        if self.count % TOGETHER == 0:
            self._settle()

    def _settle(self) -> None:
        if not self.high:
            self.high = self.waiting
        else:
            self.low = self.low or tuple(np.zeros_like(part) for part in self.high)
            for high, low, part in zip(self.high, self.low, self.waiting, strict=True):
                _add_exactly(high.reshape(-1), low.reshape(-1), part.reshape(-1))
            self._added(self.waiting)
        self.waiting = ()

    def _added(self, parts: tuple[Array, ...]) -> None:
        if self.lends:
            self.spare.extend(parts)

    @property
    def total(self) -> tuple[Array, ...]:
        if self.waiting:
            self._settle()
        return (
            tuple(high + low for high, low in zip(self.high, self.low, strict=True))
            if self.low
            else self.high
        )


def _add_exactly(high: Array, low: Array, part: Array) -> None:
    """Add to the pair high + low by :func:`two_sum`, in place and in strips that stay in the
    cache.
    """
    scratch = np.empty((2, STRIP), dtype=high.dtype)
    for start in range(0, len(high), STRIP):
        a, b, lost = (array[start : start + STRIP] for array in (high, part, low))
        s, t = scratch[:, : len(a)]
        np.add(a, b, out=s)
        np.subtract(s, a, out=t)
        np.subtract(b, t, out=b)
        np.subtract(s, t, out=t)
        np.subtract(a, t, out=t)
        np.add(t, b, out=t)
        np.add(lost, t, out=lost)
        a[...] = s


def squares_rounding(rows: int, columns: int, roundings: int, exact: bool = False) -> float:
    """Error bound of the entries of a Gram matrix after a pass over that many rows, per roots of
    its diagonal.

    ``exact``: by :func:`exact_squares`, where the rest has an eighth of a rounding left.
    """
    if exact:
        return 0.5 * EPS * (roundings + TOGETHER + 2)
    if columns <= STACKED:
        return sum_rounding(rows, roundings, piece_rows(columns))
    chain = SHORT + BLOCK // SHORT
    if rows <= BLOCK or columns**2 > LARGE:
        # 3 additions, and one of high and low
        return 0.5 * EPS * (roundings + min(rows, chain) + TOGETHER)
    return 0.5 * EPS * (roundings + chain + RESTS + ceil(log2(rows / BLOCK)))


def sums_in_extended(rows: int, left: int, right: int) -> bool:
    """Whether products (left x rows)(rows x right) are small enough to be summed in extended
    precision, if there is one.
    """
    return WIDE < EPS and rows * left * right <= EXTENDED


def sum_rounding(rows: int, roundings: int, piece: int = SHORT) -> float:
    """A bound on the error of a sum over so many rows, per unit of absolute values.

    Each term has been rounded ``roundings`` times; ``piece`` rows are added one after the other.
    """
    tree = RESTS + ceil(log2(rows / piece)) if rows > piece else 0
    return 0.5 * EPS * (roundings + min(rows, piece) + tree)


def exact_sum_rounding(roundings: int) -> float:
    """The same for :func:`exact_sum`."""
    return 0.5 * EPS * (roundings + 2)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def exact_sum(features: Array, weights: Array) -> Array:
    """``weights @ features``, where the sum of the rounded products is rounded only once."""
    terms = np.multiply(np.ascontiguousarray(features.T), weights)
    if not terms.shape[1]:
        return np.zeros(len(terms))
    lost = np.zeros(len(terms))
    while (count := terms.shape[1]) > 1:
        half = count // 2
        joint, error = two_sum(terms[:, :half], terms[:, half : 2 * half])
        lost += error.sum(axis=1)
        terms = joint if count == 2 * half else np.hstack([joint, terms[:, -1:]])
    return np.asarray(terms[:, 0] + lost)


def sum_of_products(*factors: Array | float) -> float:
    """``sum_t prod_k factors[k][t]``; products may overflow or underflow as long as their sum does
    not.
    """
    mantissas, exponents = np.frexp(np.stack(np.broadcast_arrays(*factors)))
    products, powers = mantissas.prod(axis=0), exponents.sum(axis=0)
    most = powers[products != 0].max(initial=-(2**20))
    return float(np.ldexp(np.ldexp(products, powers - most).sum(), most))
