"""The linear algebra of the engine, in one place.

Everything the engine asks of LAPACK and BLAS goes through this module, so that another array library could replace it.
Inputs are finite float64 arrays: karat checks that once, when it reads the input.

NumPy and SciPy each carry an OpenBLAS with threads of its own, and the idle threads of one spin for some 25 ms beside the
busy threads of the other.  So all large products here go to SciPy's, NumPy's ``@`` is left to products too small for threads,
and small problems, of which there may be many in a row (groups), wake no threads at all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg as sla
from scipy.linalg import blas, lapack

from karat.engine.tolerances import RANK, TINY
from karat.errors import InputError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

MOST = 20_000  # features of a row; beyond this the m x m matrices do not fit in memory

THREADED = 600  # features from which on BLAS should use its threads
SMALL = 100  # matrices of so few columns are factored without threads
SERIAL = 2.5e5  # OpenBLAS multiplies (a x b)(b x c) without threads up to this a*b*c
STACK, SHORT = 8, 32  # tall blocks are multiplied as so many short ones, of so many rows at least


def check_width(width: int) -> None:
    """Refuse more features than m x m matrices can have, before anything of that size is made."""
    if width > MOST:
        raise InputError(
            f"The rows have {width:,} features, more than the {MOST:,} that a coreset is worth making for; lower the number of "
            "columns or the degree."
        )


@lru_cache(maxsize=1)
def _thread_controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # comes with scikit-learn; without it BLAS keeps its threads
        return None
    return ThreadpoolController()


def few_threads(width: int) -> AbstractContextManager[Any]:
    """Keep BLAS on one thread for problems of so few features that threads would mostly wait for each other.

    Idle they cost nothing; on a busy machine a factorisation of size 250 on two threads took 100 times as long as on one.
    """
    controller = _thread_controller() if width <= THREADED else None
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")


def column_norms(matrix: Array) -> Array:
    """Euclidean norms of the columns, without overflow or underflow of the squares."""
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit * np.sqrt(np.square(matrix / unit).sum(axis=0)))


def product(left: Array, right: Array) -> Array:
    """``left @ right`` for large matrices of either memory order; the result is in Fortran order."""
    a, b = _blas_view(left), _blas_view(right)
    return np.asarray(blas.dgemm(1.0, a[0], b[0], trans_a=a[1], trans_b=b[1]))


def _blas_view(matrix: Array) -> tuple[Array, int]:
    return (matrix, 0) if matrix.flags.f_contiguous else (matrix.T, 1)


def upper_gram(points: Array) -> Array:
    """``points' points``, of which only the upper triangle is to be used."""
    count, width = points.shape
    if count * width**2 <= 16 * SERIAL:  # by pieces that no thread wakes up for
        step = max(1, int(SERIAL / width**2))
        pieces = (points[i : i + step] for i in range(0, count, step))
        return sum((gram(piece, None) for piece in pieces), np.zeros((width, width)))
    matrix, transposed = _blas_view(points)
    return np.asarray(blas.dsyrk(1.0, matrix, trans=1 - transposed, lower=0))


def null_table(points: Array) -> tuple[Indices, Array]:
    """Express N - m of the N points by the m others: ``points[order[m:]] = table @ points[order[:m]]``.

    From ``P F = [L1; L2] U`` follows ``F2 = (L2 L1^-1) F1``, which holds for any rank, since ``L1`` is unit triangular.
    The points are overwritten if they are in Fortran order.
    """
    count, width = points.shape
    lu, swaps, _ = lapack.dgetrf(points, overwrite_a=1)
    order = np.arange(count)
    for i, j in enumerate(swaps):
        order[i], order[j] = order[j], order[i]
    if width <= SMALL:  # TRSM wakes threads from 16 columns on, an inverse and a product do not
        inverse, _ = lapack.dtrtri(lu[:width], lower=1, unitdiag=1)
        return order, np.ascontiguousarray(product(lu[width:], np.tril(inverse, -1)) + lu[width:])
    lower = np.array(lu[width:].T, order="F")
    table = blas.dtrsm(1.0, lu[:width], lower, side=0, lower=1, trans_a=1, diag=1, overwrite_b=1)
    return order, table.T


def factored(points: Array) -> tuple[Indices, Array]:
    """``P F = [L1; L2] U`` of N points in R^m, in place (Fortran order): the swaps of rows that make P, and ``L1^-1``.

    Of the latter only what is below the diagonal is to be used.
    """
    lu, swaps, _ = lapack.dgetrf(points, overwrite_a=1)
    return swaps, lapack.dtrtri(lu[: points.shape[1]], lower=1, unitdiag=1)[0]


def unit_upper_inverse(matrix: Array) -> Array:
    """Inverse of a small unit upper triangular matrix."""
    return np.asarray(lapack.dtrtri(matrix, lower=0, unitdiag=1)[0])


def upper_inverse(matrix: Array) -> Array:
    """Inverse of an upper triangular matrix."""
    return np.triu(lapack.dtrtri(matrix, lower=0)[0])


def add_product(target: Array, left: Array, right: Array) -> None:
    """``target += left @ right`` in place, without a temporary of its size; ``target`` is C-contiguous."""
    result = blas.dgemm(1.0, right.T, left.T, beta=1.0, c=target.T, overwrite_c=1)
    if not np.shares_memory(result, target):  # a layout BLAS had to copy
        target[...] = result.T


def cholesky(gram: Array) -> Array | None:
    """Upper Cholesky factor, or None if the matrix is not numerically positive definite."""
    factor, info = lapack.dpotrf(gram, lower=0, clean=1)
    return None if info else factor


def cholesky_solve(factor: Array, rhs: Array) -> Array:
    solution, _ = lapack.dpotrs(factor, rhs, lower=0)
    return np.asarray(solution)


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


def triangular_map(matrix: Array, null: float) -> tuple[Array, Array]:
    """A map T, triangular up to the order of columns, with orthonormal ``matrix @ T``; and the relative sizes of directions.

    QR with column pivoting, of rows sorted by size, is stable row by row (Powell and Reid; Cox and Higham).  Directions of size
    ``null`` or less are the remainders of columns beside those before them, and stay unscaled.
    """
    count = matrix.shape[1]
    if not count:
        return np.zeros((0, 0)), np.zeros(0)
    size = column_norms(matrix)
    size[size == 0] = 1.0
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
    values, vectors = sla.eigh(matrix, check_finite=False)
    return values[::-1], vectors[:, ::-1]


def spectral_norm(symmetric: Array) -> float:
    """Largest absolute eigenvalue; infinite where entries overflowed, which LAPACK might not survive."""
    if not symmetric.size:
        return 0.0
    if not np.isfinite(symmetric).all():
        return np.inf
    values = sla.eigvalsh(symmetric, check_finite=False)
    return float(max(abs(values[0]), abs(values[-1])))


def square_solver(matrix: Array) -> Callable[[Array], Array] | None:
    """Solve with a square matrix by LU, which leaves a small residual even if ill-conditioned; None if that cannot be."""
    if matrix.shape[0] != matrix.shape[1]:
        return None
    lu, pivots, info = lapack.dgetrf(matrix)
    return None if info else lambda rhs: np.asarray(lapack.dgetrs(lu, pivots, rhs)[0])


def least_squares_solver(matrix: Array, cut: float = RANK) -> Callable[[Array], Array]:
    """Minimum-norm least-squares solutions; singular values below ``cut`` times the largest count as zero."""
    u, s, vt = svd(matrix, full_matrices=False)
    keep = s > cut * s[:1]
    left, right = u[:, keep] / s[keep], vt[keep].T
    return lambda rhs: np.asarray(right @ (left.T @ rhs))


def tall_product(left: Array, right: Array) -> Array:
    """``left' right`` of tall blocks, by a stack of shorter ones.

    One product of the whole would keep the interpreter to itself; during the products of a stack, other threads can go on.
    """
    return _sum_of_products(left, right, len(left) // STACK)


def accurate_product(left: Array, right: Array) -> Array:
    """``left' right`` in pieces of SHORT rows, whose products are added pairwise.

    BLAS adds the rows of a piece one after the other; the rounding of equal values (zeros and ones, prices) does not cancel.
    """
    return _sum_of_products(left, right, SHORT)


def _sum_of_products(left: Array, right: Array, size: int) -> Array:
    if size < SHORT or len(left) < 2 * size or not left.shape[1] * right.shape[1]:
        return np.asarray(left.T @ right)
    whole = len(left) // size * size
    pieces = left[:whole].reshape(-1, size, left.shape[1]).transpose(0, 2, 1) @ right[:whole].reshape(-1, size, right.shape[1])
    total = np.ascontiguousarray(pieces.transpose(1, 2, 0)).sum(axis=2)
    return np.asarray(total + left[whole:].T @ right[whole:] if whole < len(left) else total)


def mapped(block: Array, matrix: Array) -> Array:
    """``block @ matrix`` of a tall block, by a stack of shorter ones as in :func:`tall_product`."""
    size = len(block) // STACK
    if size < SHORT:
        return np.asarray(block @ matrix)
    whole = size * STACK
    result = np.empty((len(block), matrix.shape[1]))
    np.matmul(_stacked(block, size), matrix, out=_stacked(result, size))
    if whole < len(block):
        result[whole:] = block[whole:] @ matrix
    return result


def _stacked(block: Array, size: int) -> Array:
    return block[: size * STACK].reshape(STACK, size, block.shape[1])  # a view, not a copy


def gram(block: Array, weights: Array | None) -> Array:
    """``block' diag(weights) block`` for a thin block.

    The copy makes NumPy call GEMM; for equal operands it would call SYRK, which OpenBLAS runs at half the speed on thin blocks
    and on several threads from a smaller size on.
    """
    return tall_product(block, block.copy() if weights is None else block * weights[:, None])


def gram_with_ones(block: Array, weights: Array | None) -> Array:
    """Gram matrix of a thin block whose first column is all ones: leaving it out on the right saves the copy."""
    if weights is not None:
        return gram(block, weights)
    product = np.empty((block.shape[1], block.shape[1]))
    product[:, 1:] = tall_product(block, block[:, 1:])
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
    left = sla.solve_triangular(factor, difference / scale, trans=1, check_finite=False)
    return spectral_norm(sla.solve_triangular(factor, left.T, trans=1, check_finite=False))
