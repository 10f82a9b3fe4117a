"""The linear algebra of the engine, in one place.

Everything the engine asks of LAPACK and BLAS goes through this module, so that another array library could replace it.
Inputs are finite float64 arrays: karat checks that once, when it reads the input.

It also says how far rounding can move sums over rows.  Every rounding changes a term by at most u = EPS / 2 of itself.  A sum
whose terms go through k of them each is off by at most ``k u`` times the sum of absolute values (to first order: k u < 1e-13).
So it is enough to count, for one term, the roundings on its way into the sum:

    its own           a feature of degree p is p shifted columns, p - 1 products, a factor and a weight  (``Kernel.roundings``)
    a run             BLAS adds SHORT rows at most one after the other; NumPy's sum has runs of 25 (an eighth of 128 values,
                      eight partial sums, up to seven values beside)
    a tree            runs of a block, blocks of a range and ranges are added in pairs, with a rest at either of the first two

What underflows on the way is off by at most the smallest number of all.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg as sla
from scipy.linalg import blas, lapack

from karat.engine import blocked
from karat.engine.threads import threads
from karat.engine.tolerances import EPS, RANK, TINY
from karat.errors import InputError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Real = blocked.Real  # single or double precision

MOST = 20_000  # features of a row; beyond this the m x m matrices do not fit in memory

LARGE = 400  # features from which on matrices are worked on in blocks, by all threads
SMALL = 100  # matrices of so few columns are inverted rather than solved with
TAME = 1e-200  # sums of squares from this size on, up to its inverse, have neither lost terms nor overflowed
RELEASED = 500  # NumPy lets other threads go on during a product with more entries than this
NARROW, STACKED = 22, 64  # columns up to which pieces of a tall block are short, and up to which they are a stack
SHORTEST, SHORT, MEDIUM, LONG = 8, 32, 64, 128  # rows of a piece
RESTS = 5  # additions beyond a perfect tree: rests of blocks, ranges of unequal length, and the first value of NumPy's sum
MOST_ROWS = 2**40  # where nothing is known about their number
WIDE = float(np.finfo(np.longdouble).eps)  # EPS where the machine has nothing longer than a double
EXTENDED = 2**23  # products that extended precision sums in some hundredths of a second
SMALLEST = float(np.finfo(float).smallest_subnormal)


def is_long(kind: np.dtype[Any]) -> bool:
    """Whether a type holds whole numbers that a double may not."""
    return kind.kind in "iu" and kind.itemsize > 4


def check_width(width: int) -> None:
    """Refuse more features than m x m matrices can have, before anything of that size is made."""
    if width > MOST:
        raise InputError(
            f"The rows have {width:,} features, more than the {MOST:,} that a coreset is worth making for; lower the number of "
            "columns or the degree."
        )


def column_norms(matrix: Array) -> Array:
    """Euclidean norms of the columns, without overflow or underflow of the squares."""
    squares = np.einsum("ij,ij->j", matrix, matrix)
    if ((squares > TAME) & (squares < 1 / TAME)).all():
        return np.asarray(np.sqrt(squares))
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit * np.sqrt(np.square(matrix / unit).sum(axis=0)))


def product(left: Array, right: Array) -> Array:
    """``left @ right`` for matrices of either memory order."""
    if left.shape[0] * left.shape[1] * right.shape[1] >= LARGE**3:  # many times what extended precision sums
        return np.asarray(blocked.blocked_product(left, right, threads()))
    return np.asarray(left @ right)


def upper_gram(columns: Real) -> Real:
    """``columns columns'`` of points that come as columns (m x N); only the upper triangle is to be used."""
    if len(columns) >= LARGE:
        gram = np.zeros((len(columns), len(columns)), dtype=columns.dtype)
        blocked.add_gram(gram, columns, None, threads())
        return gram
    return columns @ columns.T


def change_gram(gram: Real, columns: Real, signs: Array) -> None:
    """``gram += columns diag(signs) columns'`` in place, in the upper triangle."""
    signs = signs.astype(columns.dtype)
    if len(columns) >= LARGE:
        blocked.add_gram(gram, columns, signs, threads())
    else:
        gram += (columns * signs) @ columns.T


def null_table(points: Real) -> tuple[Indices, Real]:
    """Express N - m of the N points by the m others: ``points[order[m:]] = table @ points[order[:m]]``.

    From ``P F = [L1; L2] U`` follows ``F2 = (L2 L1^-1) F1``, which holds for any rank, since ``L1`` is unit triangular.
    The points are overwritten if they are in Fortran order.
    """
    count, width = points.shape
    if width >= LARGE:
        return blocked.blocked_null_table(np.ascontiguousarray(points.T), threads())
    lu, swaps, _ = lapack.dgetrf(points, overwrite_a=1)
    order = np.arange(count)
    for i, j in enumerate(swaps.tolist()):
        order[i], order[j] = order[j], order[i]
    if width <= SMALL:
        inverse, _ = lapack.dtrtri(lu[:width], lower=1, unitdiag=1)
        return order, np.ascontiguousarray(lu[width:] @ np.tril(inverse, -1) + lu[width:])
    lower = np.array(lu[width:].T, order="F")
    table = blas.dtrsm(1.0, lu[:width], lower, side=0, lower=1, trans_a=1, diag=1, overwrite_b=1)
    return order, table.T


def factored(points: Array) -> tuple[Indices, Array]:
    """``P F = [L1; L2] U`` of N points in R^m, in place (Fortran order): the swaps of rows that make P, and ``L1^-1``.

    Of the latter only what is below the diagonal is to be used.
    """
    lu, swaps, _ = lapack.dgetrf(points, overwrite_a=1)
    return swaps, lapack.dtrtri(lu[: points.shape[1]], lower=1, unitdiag=1)[0]


def unit_upper_inverse(matrix: Real) -> Real:
    """Inverse of a small unit upper triangular matrix."""
    invert = lapack.strtri if matrix.dtype == np.float32 else lapack.dtrtri
    return np.asarray(invert(matrix, lower=0, unitdiag=1)[0])


def upper_inverse(matrix: Array) -> Array:
    """Inverse of an upper triangular matrix."""
    return np.triu(lapack.dtrtri(matrix, lower=0)[0])


def add_product(target: Real, left: Real, right: Real) -> None:
    """``target += left @ right`` in place, without a temporary of its size; ``target`` is C-contiguous."""
    gemm = blas.sgemm if target.dtype == np.float32 else blas.dgemm
    result = gemm(1.0, right.T, left.T, beta=1.0, c=target.T, overwrite_c=1)
    if not np.shares_memory(result, target):  # a layout BLAS had to copy
        target[...] = result.T


def add_outer(target: Real, left: Real, right: Real) -> None:
    """``target += left right'`` in place; ``target`` is C-contiguous."""
    ger = blas.sger if target.dtype == np.float32 else blas.dger
    ger(1.0, right, left, a=target.T, overwrite_a=1, overwrite_x=0, overwrite_y=0)


def cholesky(gram: Real) -> Real | None:
    """Upper Cholesky factor, or None if the matrix is not numerically positive definite."""
    if len(gram) >= LARGE:
        return blocked.blocked_cholesky(gram, threads())
    factor, info = lapack.dpotrf(gram, lower=0, clean=1)
    return None if info else factor


def definite(matrix: Array) -> bool:
    """Whether a symmetric matrix is numerically positive definite, whatever the sizes of its diagonal are."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not (size > 0).all() or not np.isfinite(matrix).all():
        return False
    return cholesky(np.asfortranarray(matrix / size / size[:, None])) is not None


def solve_upper(factor: Real, rhs: Array, transposed: bool = False) -> Array:
    """Solve with an upper triangular matrix or its transpose, in the precision of the matrix."""
    single = factor.dtype == np.float32
    right = rhs.astype(factor.dtype, copy=False)
    given, lower = (factor.T, 1) if factor.flags.c_contiguous else (factor, 0)  # no copy of either memory order
    trans = int(transposed) ^ lower
    if right.ndim == 1:
        return np.asarray((blas.strsv if single else blas.dtrsv)(given, right, lower=lower, trans=trans), dtype=float)
    return np.asarray((blas.strsm if single else blas.dtrsm)(1.0, given, right, lower=lower, trans_a=trans))


def svd(matrix: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Singular value decomposition; the fast driver now and then fails to converge, the slow one does not."""
    try:
        return sla.svd(matrix, full_matrices=full_matrices, check_finite=False)  # type: ignore[no-any-return]
    except np.linalg.LinAlgError:
        return sla.svd(matrix, full_matrices=full_matrices, check_finite=False, lapack_driver="gesvd")  # type: ignore[no-any-return]


def pivoted_cholesky(gram: Array, cut: float) -> tuple[Array, Indices, int]:
    """Upper factor of a symmetric matrix with unit diagonal, its order of columns, and the number of pivots above ``cut``."""
    factor, order, rank, _ = lapack.dpstrf(np.asfortranarray(gram), tol=cut, lower=0, overwrite_a=1)
    return factor, order - 1, int(rank)


def pivoted_triangle(matrix: Array) -> tuple[Array, Indices]:
    """R of a QR factorisation with column pivoting, and the order of columns."""
    if matrix.shape[0] > matrix.shape[1]:
        matrix = sla.qr(matrix, mode="r", check_finite=False)[0][: matrix.shape[1]]
    triangle, order = sla.qr(matrix, mode="r", pivoting=True, check_finite=False)
    return triangle, order


def solve_transposed(triangle: Array, rhs: Array) -> Array:
    """Solve ``triangle' x = rhs`` with an upper triangular matrix."""
    return np.asarray(sla.solve_triangular(triangle, rhs, trans=1, check_finite=False)) if len(rhs) else rhs


def right_svd(matrix: Array) -> tuple[Array, Array]:
    """All singular values (padded with zeros) and right singular vectors, as columns, of a k x q matrix."""
    if not matrix.shape[1]:  # LAPACK's wrapper would make a k x k identity
        return np.zeros(0), np.zeros((0, 0))
    if matrix.shape[0] > matrix.shape[1]:
        matrix = sla.qr(matrix, mode="r", check_finite=False)[0][: matrix.shape[1]]
    _, s, vt = svd(matrix)
    return np.pad(s, (0, len(vt) - len(s))), vt.T


def triangular_map(matrix: Array, null: float, merit: Array | float = 1.0) -> tuple[Array, Array]:
    """A map T, triangular up to the order of columns, with orthonormal ``matrix @ T``; and the relative sizes of directions.

    QR with column pivoting, of rows sorted by size, is stable row by row (Powell and Reid; Cox and Higham).  Directions of size
    ``null`` or less are the remainders of columns beside those before them, and stay unscaled.  Of columns that are nearly
    parallel, those of higher ``merit`` come first.
    """
    count = matrix.shape[1]
    if not count:
        return np.zeros((0, 0)), np.zeros(0)
    size = column_norms(matrix)
    size[size == 0] = 1.0
    size = size / merit
    matrix = matrix / size
    rows = np.argsort(-np.abs(matrix).max(axis=1), kind="stable")
    factor, pivots = sla.qr(matrix[rows], mode="r", pivoting=True, check_finite=False)
    factor = np.pad(factor[:count], ((0, max(0, count - len(factor))), (0, 0)))
    sizes = np.abs(np.diag(factor)) / max(abs(factor[0, 0]), TINY)
    rank = int((np.cumsum(sizes <= null) == 0).sum())
    inverse = np.zeros((count, count))
    if rank:
        inverse[:rank, :rank] = sla.solve_triangular(factor[:rank, :rank], np.eye(rank), check_finite=False)
        inverse[:rank, rank:] = -inverse[:rank, :rank] @ factor[:rank, rank:]
    inverse[range(rank, count), range(rank, count)] = 1.0
    sizes[rank:] = np.minimum(sizes[rank:], null)
    result = np.zeros((count, count))
    result[pivots] = inverse
    return result / size[:, None], sizes


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues in decreasing order, and eigenvectors, of a symmetric matrix."""
    values, vectors, info = lapack.dsyevd(matrix, compute_v=1)
    if info:
        values, vectors = sla.eigh(matrix, check_finite=False)
    return values[::-1], vectors[:, ::-1]


def eigenvalues(matrix: Array) -> Array:
    """Eigenvalues of a symmetric matrix in increasing order."""
    values, _, info = lapack.dsyevd(matrix, compute_v=0)
    return np.asarray(sla.eigvalsh(matrix, check_finite=False) if info else values)


def spectral_norm(symmetric: Array) -> float:
    """Largest absolute eigenvalue; infinite where entries overflowed, which LAPACK might not survive."""
    if not symmetric.size:
        return 0.0
    if not np.isfinite(symmetric).all():
        return np.inf
    values = eigenvalues(symmetric)
    return float(max(abs(values[0]), abs(values[-1])))


def square_solver(matrix: Real) -> Callable[[Array], Array] | None:
    """Solve with a square matrix by LU, which leaves a small residual even if ill-conditioned; None if that cannot be."""
    if matrix.shape[0] != matrix.shape[1]:
        return None
    single = matrix.dtype == np.float32
    factor, solve = (lapack.sgetrf, lapack.sgetrs) if single else (lapack.dgetrf, lapack.dgetrs)
    lu, pivots, info = factor(matrix)
    return None if info else lambda rhs: np.asarray(solve(lu, pivots, rhs.astype(matrix.dtype))[0], dtype=float)


def least_squares_solver(matrix: Array, cut: float = RANK) -> Callable[[Array], Array]:
    """Minimum-norm least-squares solutions; singular values below ``cut`` times the largest count as zero."""
    u, s, vt = svd(matrix, full_matrices=False)
    keep = s > cut * s[:1]
    left, right = u[:, keep] / s[keep], vt[keep].T
    return lambda rhs: np.asarray(right @ (left.T @ rhs))


def summed_product(left: Array, right: Array, piece: int | None = None) -> Array:
    """``left' right`` of tall blocks, in pieces of rows whose products are added in a tree.

    BLAS adds the rows of a piece one after the other, and the rounding of equal products (zeros and ones, prices) does not
    cancel: a sum of n rows is off by up to n u.  Pieces of b rows are off by b u, and a tree adds log2(n / b) u
    (:mod:`karat.engine.linalg`).  During a stack of products other threads can go on.
    """
    size = piece_rows(left.shape[1]) if piece is None else piece
    whole = len(left) // size * size
    if left.shape[1] > STACKED or whole <= size or not left.shape[1] * right.shape[1]:
        return _halves(left, right, size)
    pieces = left[:whole].reshape(-1, size, left.shape[1]).transpose(0, 2, 1) @ right[:whole].reshape(-1, size, right.shape[1])
    total = tree_sum(pieces)
    return np.asarray(total + left[whole:].T @ right[whole:] if whole < len(left) else total)


def piece_rows(columns: int, degree: int = 2) -> int:
    """Rows that BLAS adds up by itself: few for few columns and high powers; else so many that it is efficient."""
    if degree > 2:
        return SHORTEST if degree > 4 else SHORT
    return SHORT if columns <= NARROW else MEDIUM if columns <= STACKED else LONG


def sums_in_extended(rows: int, left: int, right: int) -> bool:
    """Whether products (left x rows)(rows x right) are so small that they are summed in extended precision, if there is one."""
    return WIDE < EPS and rows * left * right <= EXTENDED


def sum_rounding(rows: int, own: int, piece: int = SHORT) -> float:
    """What the sum over so many rows may be off by, per unit of absolute values; a term has ``own`` roundings itself.

    ``piece``: rows that are added one after the other.
    """
    tree = RESTS + ceil(log2(rows / piece)) if rows > piece else 0
    return 0.5 * EPS * (own + min(rows, piece) + tree)


def tree_sum(terms: Array) -> Array:
    """The sum over the first axis, in a tree; the terms are overwritten."""
    count = len(terms)
    while count > 1:
        half = count // 2
        terms[:half] += terms[half : 2 * half]
        if count % 2:
            terms[half] = terms[count - 1]
        count -= half
    return np.asarray(terms[0])


def _halves(left: Array, right: Array, size: int) -> Array:
    """The same for many columns, one piece after the other."""
    if len(left) <= size:
        return product(left.T, right)
    half = (len(left) // size + 1) // 2 * size
    total = _halves(left[:half], right[:half], size)
    total += _halves(left[half:], right[half:], size)
    return total


def gram(block: Array, weights: Array | None) -> Array:
    """``block' diag(weights) block`` for a thin block.

    The copy makes NumPy call GEMM; for equal operands it would call SYRK, which OpenBLAS runs at half the speed on thin blocks
    and on several threads from a smaller size on.
    """
    return summed_product(block, block.copy() if weights is None else block * weights[:, None])


def gram_with_ones(block: Array, weights: Array | None) -> Array:
    """Gram matrix of a thin block whose first column is all ones: leaving it out on the right saves the copy."""
    if weights is not None:
        return gram(block, weights)
    product = np.empty((block.shape[1], block.shape[1]))
    product[:, 1:] = summed_product(block, block[:, 1:])
    product[1:, 0] = product[0, 1:]
    product[0, 0] = len(block)
    return product


def relative_norm(difference: Array, base: Array) -> float:
    """``|| B^(-1/2) E B^(-1/2) ||_2`` of a symmetric E relative to a positive definite B; infinite if B is not."""
    size = np.sqrt(np.maximum(np.diag(base), 0.0))
    if not size.all():
        return 0.0 if not difference[size == 0].any() and not size.any() else np.inf
    scale = np.outer(size, size)
    factor = cholesky(np.asfortranarray(base / scale))
    if factor is None:
        return np.inf
    left = solve_upper(factor, difference / scale, transposed=True)
    return spectral_norm(solve_upper(factor, left.T, transposed=True))


def relative_vector(difference: Array, base: Array) -> Array | None:
    """The vector at which a symmetric E is largest relative to a positive definite B; None if B is not."""
    size = np.sqrt(np.maximum(np.diag(base), TINY))
    factor = cholesky(np.asfortranarray(base / size / size[:, None]))
    if factor is None:
        return None
    left = solve_upper(factor, difference / size / size[:, None], transposed=True)
    values, vectors = eigh(solve_upper(factor, left.T, transposed=True))
    return np.asarray(solve_upper(factor, vectors[:, int(np.abs(values).argmax())]) / size)


def exact_sum_rounding(own: int) -> float:
    """The same for :func:`exact_sum`."""
    return 0.5 * EPS * (own + 2)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def exact_sum(features: Array, weights: Array) -> Array:
    """``weights @ features``: the sum of the rounded products is rounded once, however many rows there are."""
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
