"""The linear algebra of the engine, in one place.

Everything the engine asks of LAPACK and BLAS goes through this module and :mod:`karat.engine.sums`,
so that another array library could replace it.  Inputs are finite float64 arrays: karat checks that
once, when it reads the input.

BLAS runs on one thread wherever the engine works (:func:`one_blas_thread`);
:mod:`karat.engine.blocked` says why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg as sla
from scipy.linalg import blas, lapack

from karat.compat.blas import blas_threads
from karat.engine import blocked
from karat.engine.blocked import cores
from karat.engine.tolerances import EPS, RANK, TINY

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Real = blocked.Real  # single or double precision

LARGE = 400  # features from which on matrices are worked on in blocks, by all threads
KRYLOV = 32  # steps of Lanczos' method,
# unless so many have changed the largest eigenvalue by no more than this
CHECKED, CONVERGED = 4, 1e-3
SMALL = 100  # matrices of so few columns are inverted rather than solved with
# sums of squares from this size on, up to its inverse, have neither lost terms nor overflowed
TAME = 1e-200
RELEASED = 500  # NumPy lets other threads go on during a product with more entries than this


def is_long(kind: np.dtype[Any]) -> bool:
    """Whether a type holds integers that a double may not."""
    return kind.kind in "iu" and kind.itemsize > 4


class _OneThread(ContextDecorator):
    """A context in which BLAS uses one thread.  It ends, for the whole process, when the last
    thread that entered it leaves.
    """

    def __init__(self) -> None:
        self.entered, self.before, self.lock = 0, list[int](), Lock()

    def __enter__(self) -> None:
        with self.lock:
            self.entered += 1
            if self.entered == 1:
                self.before = [ask() for ask, _ in blas_threads()]
                for _, give in blas_threads():
                    give(1)

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.entered -= 1
            if not self.entered:
                for (_, restore), count in zip(blas_threads(), self.before, strict=True):
                    restore(count)


_ONE_THREAD = _OneThread()


def one_blas_thread() -> _OneThread:
    """Keep BLAS on one thread: a context, or a decorator of a function."""
    return _ONE_THREAD


def threads() -> int:
    """How many threads large work is shared among: as many as BLAS would use, so that one setting
    is enough for both.
    """
    counts = _ONE_THREAD.before if _ONE_THREAD.entered else [ask() for ask, _ in blas_threads()]
    return min([cores(), *counts[-1:]])


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
    # many times what extended precision sums
    if left.shape[0] * left.shape[1] * right.shape[1] >= LARGE**3:
        return np.asarray(blocked.blocked_product(left, right, threads()))
    return np.asarray(left @ right)


def unit_columns(matrix: Array) -> tuple[Indices, Flags]:
    """The row of the largest entry of each column, and which columns are not unit vectors."""
    places = np.abs(matrix).argmax(axis=0)
    return places, (np.count_nonzero(matrix, axis=0) != 1) | (
        matrix[places, np.arange(matrix.shape[1])] != 1
    )


def product_with_units(left: Array, right: Array) -> Array:
    """``left @ right``, where most columns on the right are unit vectors."""
    places, mixed = unit_columns(right)
    products = left[:, places]
    if mixed.any():
        products[:, mixed] = left @ right[:, mixed]
    return products


def upper_gram(columns: Real) -> Real:
    """``columns columns'`` of points that come as columns (m x N); only the upper triangle is to be
    used.
    """
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
    """Express N - m of the N points by the m others:

    ``points[order[m:]] = table @ points[order[:m]]``.

    From ``P F = [L1; L2] U`` follows ``F2 = (L2 L1^-1) F1``, which holds for any rank, since ``L1``
    is unit triangular. The points are overwritten if they are in Fortran order.
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
    """``P F = [L1; L2] U`` of N points in R^m, in place (Fortran order): the swaps of rows that
    make P, and ``L1^-1``.

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
    """``target += left @ right`` in place, without a temporary of its size; ``target`` is
    C-contiguous.
    """
    gemm = blas.sgemm if target.dtype == np.float32 else blas.dgemm
    result = gemm(1.0, right.T, left.T, beta=1.0, c=target.T, overwrite_c=1)
    if not np.shares_memory(result, target):  # a layout BLAS had to copy
        target[...] = result.T


def add_outer(target: Real, left: Real, right: Real) -> None:
    """``target += left right'`` in place; ``target`` is C-contiguous."""
    ger = blas.sger if target.dtype == np.float32 else blas.dger
    # increments of 1; overwrite the matrix only; names take a fifth longer
    ger(1.0, right, left, 1, 1, target.T, 0, 0, 1)


def cholesky(gram: Real, floor: float = 0.0) -> Real | None:
    """Upper Cholesky factor, or None if the matrix is not numerically positive definite.

    A large matrix is not factored to the end if the square of a pivot, an upper bound of
    eigenvalues, is at most ``floor``.
    """
    if len(gram) >= LARGE:
        return blocked.blocked_cholesky(gram, threads(), floor)
    factor, info = lapack.dpotrf(np.asfortranarray(gram), lower=0, clean=1)
    return None if info else factor


def definite(matrix: Array) -> bool:
    """Whether a symmetric matrix is numerically positive definite, whatever the sizes of its
    diagonal are.
    """
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not (size > 0).all() or not np.isfinite(matrix).all():
        return False
    return cholesky(np.asfortranarray(matrix / size / size[:, None])) is not None


def solve_upper(factor: Real, rhs: Array, transposed: bool = False) -> Array:
    """Solve with an upper triangular matrix or its transpose, in the precision of the matrix."""
    single = factor.dtype == np.float32
    right = rhs.astype(factor.dtype, copy=False)
    # no copy of either memory order
    given, lower = (factor.T, 1) if factor.flags.c_contiguous else (factor, 0)
    trans = int(transposed) ^ lower
    if right.ndim == 1:
        return np.asarray(
            (blas.strsv if single else blas.dtrsv)(given, right, lower=lower, trans=trans),
            dtype=float,
        )
    return np.asarray(
        (blas.strsm if single else blas.dtrsm)(1.0, given, right, lower=lower, trans_a=trans)
    )


def svd(matrix: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Singular value decomposition, by the slow driver where the fast one does not converge."""
    triple: tuple[Array, Array, Array]
    try:
        triple = sla.svd(matrix, full_matrices=full_matrices, check_finite=False)
    except np.linalg.LinAlgError:
        slow = {"lapack_driver": "gesvd", "check_finite": False}
        triple = sla.svd(matrix, full_matrices=full_matrices, **slow)
    return triple


def pivoted_cholesky(gram: Array, cut: float) -> tuple[Array, Indices, int]:
    """Upper factor of a symmetric matrix with unit diagonal, its order of columns, and the number
    of pivots above ``cut``.

    The matrix is overwritten.
    """
    # to LAPACK it is its transpose, and the upper triangle the lower one
    if gram.flags.c_contiguous:
        factor, order, rank, _ = lapack.dpstrf(gram.T, tol=cut, lower=1, overwrite_a=1)
        return factor.T, order - 1, int(rank)
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
    return (
        np.asarray(sla.solve_triangular(triangle, rhs, trans=1, check_finite=False))
        if len(rhs)
        else rhs
    )


def right_svd(matrix: Array) -> tuple[Array, Array]:
    """All singular values (padded with zeros) and right singular vectors, as columns, of a k x q
    matrix.
    """
    if not matrix.shape[1]:  # LAPACK's wrapper would make a k x k identity
        return np.zeros(0), np.zeros((0, 0))
    if matrix.shape[0] > matrix.shape[1]:
        matrix = sla.qr(matrix, mode="r", check_finite=False)[0][: matrix.shape[1]]
    _, s, vt = svd(matrix)
    return np.pad(s, (0, len(vt) - len(s))), vt.T


def triangular_map(matrix: Array, null: float, merit: Array | float = 1.0) -> tuple[Array, Array]:
    """A map T, triangular up to the order of columns, with orthonormal ``matrix @ T``; and the
    relative sizes of directions.

    QR with column pivoting, of rows sorted by size, is stable row by row (Powell and Reid; Cox and
    Higham).  Directions of size ``null`` or less are the remainders of columns beside those before
    them, and stay unscaled.  Of columns that are nearly parallel, those of higher ``merit`` come
    first.
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
        inverse[:rank, :rank] = sla.solve_triangular(
            factor[:rank, :rank], np.eye(rank), check_finite=False
        )
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


def lost_by_factoring(count: int) -> float:
    """Error bound of a Cholesky factorisation of that many columns with unit diagonal (Demmel)."""
    return count * (count + 1) * EPS


def least_eigenvalue(matrix: Array, factor: Array) -> float:
    """A lower bound of the smallest eigenvalue of a matrix with unit diagonal and a factor; 0 if
    there is none.

    Lanczos' method finds it from above, and a Cholesky factorisation of ``matrix - value`` shows
    that there is none below. The matrix is overwritten.
    """
    value, count, lost = near_least_eigenvalue(factor), len(matrix), lost_by_factoring(len(matrix))
    diagonal = np.diag(matrix).copy()
    for share in (0.99, 0.9, 0.5, 0.1, 0.01):
        matrix[np.diag_indices(count)] = diagonal - share * value
        if cholesky(matrix) is not None:
            return max(share * value - lost, 0.0)
    return 0.0


def near_least_eigenvalue(factor: Array) -> float:
    """The smallest eigenvalue of ``R'R``, to a hundredth and from above, by Lanczos' method for the
    inverse.
    """
    count = len(factor)
    if count <= KRYLOV:
        return float(eigenvalues(factor.T @ factor)[0]) if count else 1.0
    if not (factor.flags.c_contiguous or factor.flags.f_contiguous):
        factor = factor.copy(order="K")  # once, and not by BLAS in every step
    vector = np.random.default_rng(0).standard_normal(count)
    vector, basis = vector / np.linalg.norm(vector), list[Array]()
    diagonal, beside, largest = list[float](), list[float](), 0.0
    for _ in range(KRYLOV):
        basis.append(vector)
        after = solve_upper(factor, solve_upper(factor, vector, transposed=True))
        diagonal.append(float(vector @ after))
        for earlier in basis:  # rounding would bring back what was found already
            after -= (earlier @ after) * earlier
        beside.append(float(np.linalg.norm(after)))
        if beside[-1] <= TINY:
            break
        vector = after / beside[-1]
        if len(diagonal) % CHECKED == 0:
            before, largest = largest, float(sla.eigvalsh_tridiagonal(diagonal, beside[:-1])[-1])
            if largest <= (1 + CONVERGED) * before:
                break
    return 1.0 / float(sla.eigvalsh_tridiagonal(diagonal, beside[: len(diagonal) - 1])[-1])


def spectral_norm(symmetric: Array) -> float:
    """Largest absolute eigenvalue; infinite where entries overflowed, which LAPACK might not
    survive.
    """
    if not symmetric.size:
        return 0.0
    if not np.isfinite(symmetric).all():
        return np.inf
    values = eigenvalues(symmetric)
    return float(max(abs(values[0]), abs(values[-1])))


def square_solver(matrix: Real) -> Callable[[Array], Array] | None:
    """A solver by LU, which leaves a small residual even if the matrix is ill-conditioned; None if
    it is singular or not square.
    """
    if matrix.shape[0] != matrix.shape[1]:
        return None
    single = matrix.dtype == np.float32
    factor, solve = (lapack.sgetrf, lapack.sgetrs) if single else (lapack.dgetrf, lapack.dgetrs)
    lu, pivots, info = factor(matrix)
    return (
        None
        if info
        else lambda rhs: np.asarray(solve(lu, pivots, rhs.astype(matrix.dtype))[0], dtype=float)
    )


def least_squares_solver(matrix: Array, cut: float = RANK) -> Callable[[Array], Array]:
    """Minimum-norm least-squares solutions; singular values below ``cut`` times the largest count
    as zero.
    """
    u, s, vt = svd(matrix, full_matrices=False)
    keep = s > cut * s[:1]
    left, right = u[:, keep] / s[keep], vt[keep].T
    return lambda rhs: np.asarray(right @ (left.T @ rhs))


def relative_norm(difference: Array, base: Array) -> float:
    """``|| B^(-1/2) E B^(-1/2) ||_2`` of a symmetric E relative to a positive definite B; infinite
    if B is not.
    """
    size = np.sqrt(np.maximum(np.diag(base), 0.0))
    if not size.all():
        return 0.0 if not difference[size == 0].any() and not size.any() else np.inf
    scale = np.outer(size, size)
    factor = cholesky(np.asfortranarray(base / scale))
    if factor is None:
        return np.inf
    return whitened_norm(difference / scale, factor)


def whitened_norm(difference: Array, factor: Array) -> float:
    """``|| R^-T E R^-1 ||_2`` with an upper triangular R."""
    left = solve_upper(factor, difference, transposed=True)
    return spectral_norm(solve_upper(factor, left.T, transposed=True))
