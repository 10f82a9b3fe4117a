"""Work that every core takes pieces of, in threads of our own; and products and factorisations of
large matrices by such pieces, in single or double precision.

NumPy and SciPy each bring a BLAS with threads, but these wait for each other by spinning, at every
step of a factorisation.  On a machine with other work a step then takes a time slice: a Cholesky
factorisation that took 43 ms on one thread took up to 1.4 s on two.  So BLAS runs on one thread
wherever the engine works (:func:`karat.engine.linalg.one_blas_thread`), and a piece of work is a
call to BLAS on one thread.  A thread that is held up delays its own piece only; the others take the
rest.

**What is guaranteed.**  Which pieces there are, and in which order their results are added, depends
on the data alone.  The result is therefore the same, to the last bit, for any number of threads,
any affinity and any timing (on one machine, with one version of BLAS, if its threads can be
limited).

**Matrices.**  Points are the columns of a matrix, one row per feature: ``columns`` is m x N and
C-contiguous.  Every block is one product by NumPy, during which other threads can go on (SciPy's
BLAS holds the interpreter).  Triangular systems become products with inverses of diagonal blocks,
which are small.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from karat.compat.blas import blas_routine

Real = npt.NDArray[Any]  # float32 or float64

BLOCK = 192  # rows of a block row
STRIP = 512  # columns that are updated at a time
Piece = TypeVar("Piece")
Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _workers() -> ThreadPoolExecutor:
    """Threads besides the calling one, created when first needed; they sleep while there is nothing
    to do.
    """
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="karat")


if hasattr(os, "register_at_fork"):
    # a forked process has none of the threads of its parent
    os.register_at_fork(after_in_child=_workers.cache_clear)


def share(work: Callable[[Piece], Result], pieces: Iterable[Piece], threads: int) -> list[Result]:
    """``[work(piece) for piece in pieces]``, by the calling thread and up to ``threads - 1``
    others.

    The calling thread never waits for a thread that has not started, so pieces may themselves share
    work.
    """
    listed = list(pieces)
    if threads <= 1 or len(listed) <= 1:
        return [work(piece) for piece in listed]
    results: dict[int, Result] = {}
    left, lock = iter(range(len(listed))), Lock()

    def take(numbers: Iterator[int]) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            results[number] = work(listed[number])

    helpers: list[Future[None]] = [
        _workers().submit(take, left) for _ in range(min(threads, len(listed)) - 1)
    ]
    try:
        take(left)
    finally:
        began = [helper for helper in helpers if not helper.cancel()]
        errors = [error for helper in began if (error := helper.exception()) is not None]
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(listed))]


def lapack_routine(name: str, matrix: Real) -> Callable[..., Any]:
    """A routine of LAPACK for the precision of a matrix."""
    return getattr(lapack, ("s" if matrix.dtype == np.float32 else "d") + name)  # type: ignore[no-any-return]


def _blocks(start: int, stop: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


def blocked_product(left: Real, right: Real, threads: int) -> Real:
    """``left @ right``, a strip of rows at a time."""
    result = np.empty((left.shape[0], right.shape[1]), dtype=np.result_type(left, right))

    def multiply(rows: slice) -> None:
        np.matmul(left[rows], right, out=result[rows])

    share(multiply, _blocks(0, len(left), STRIP), threads)
    return result


def add_gram(gram: Real, columns: Real, signs: Real | None, threads: int) -> None:
    """Add ``columns diag(signs) columns'`` to the upper triangle of a matrix (and some of it to the
    lower).
    """
    signed = columns if signs is None else columns * signs

    def add(rows: slice) -> None:
        gram[rows, rows.start :] += columns[rows] @ signed[rows.start :].T

    share(add, _blocks(0, len(gram), BLOCK), threads)


def add_squares(gram: Real, block: Real, piece: int, threads: int) -> None:
    """Add ``block' block`` to the upper triangle of a C-contiguous matrix, ``piece`` rows after the
    other.

    BLAS sums the rows of a piece before it adds them to the matrix.  So a row goes through at most
    ``piece + len(block) / piece`` additions.
    """
    tiles = [
        (i, j) for i in _blocks(0, len(gram), STRIP) for j in _blocks(i.start, len(gram), STRIP)
    ]
    square, multiply = blas_routine("dsyrk", 10), blas_routine("dgemm", 13)
    whole = len(block) // piece * piece
    starts = [*range(0, whole, piece), *([whole] if whole < len(block) else [])]
    # slower: the product is a matrix of its own
    if square is None or multiply is None or block.strides[1] != 8:

        def add(tile: tuple[slice, slice]) -> None:
            for start in starts:
                rows = block[start : start + piece]
                part = rows[:, tile[0]].T @ rows[:, tile[1]]
                gram[tile] += np.triu(part) if tile[0] == tile[1] else part

        share(add, tiles, threads)
        return
    lower, plain, turned, one_double = (
        ctypes.c_char(b"L"),
        ctypes.c_char(b"N"),
        ctypes.c_char(b"T"),
        ctypes.c_double(1.0),
    )
    leading, width = ctypes.c_int(block.strides[0] // 8), ctypes.c_int(gram.strides[0] // 8)
    # BLAS reads matrices column by column: to it the block is its transpose, and the upper triangle
    # the lower one.
    constants: tuple[Any, ...] = (lower, plain, turned, one_double, leading, width)
    low, no, yes, unit, ld, ldc = map(ctypes.addressof, constants)
    data, target, step = block.ctypes.data, gram.ctypes.data, block.strides[0]

    def add_tile(tile: tuple[slice, slice]) -> None:
        sizes = [ctypes.c_int(part.stop - part.start) for part in tile]
        left, right = map(ctypes.addressof, sizes)
        first, last = (data + 8 * part.start for part in tile)
        place = target + gram.strides[0] * tile[0].start + 8 * tile[1].start
        for start in starts:
            rows = ctypes.c_int(min(piece, len(block) - start))
            count, away = ctypes.addressof(rows), start * step
            if tile[0] == tile[1]:
                square(low, no, left, count, unit, first + away, ld, unit, place, ldc)
            else:
                multiply(
                    no,
                    yes,
                    right,
                    left,
                    count,
                    unit,
                    last + away,
                    ld,
                    first + away,
                    ld,
                    unit,
                    place,
                    ldc,
                )

    share(add_tile, tiles, threads)


def blocked_cholesky(gram: Real, threads: int, floor: float = 0.0) -> Real | None:
    """Upper factor R of ``gram = R'R``, from the upper triangle of ``gram``; None if it is not
    numerically positive definite.

    It also stops and returns None as soon as the square of a pivot is at most ``floor``.
    """
    factor = np.empty_like(gram)
    size = len(gram)
    for rows in _blocks(0, size, BLOCK):
        factor[rows, : rows.start] = 0.0
        above = factor[: rows.start, rows].T

        def reduce(columns: slice, rows: slice = rows, above: Real = above) -> None:
            factor[rows, columns] = gram[rows, columns]
            if rows.start:
                factor[rows, columns] -= above @ factor[: rows.start, columns]

        share(reduce, _blocks(rows.start, size, STRIP), threads)
        corner, info = lapack_routine("potrf", gram)(factor[rows, rows], lower=0, clean=1)
        if info or np.square(np.diag(corner)).min() <= floor:
            return None
        inverse = np.triu(lapack_routine("trtri", gram)(corner, lower=0)[0]).T

        def solve(columns: slice, rows: slice = rows, inverse: Real = inverse) -> None:
            factor[rows, columns] = inverse @ factor[rows, columns]

        share(solve, _blocks(rows.stop, size, STRIP), threads)
        factor[rows, rows] = corner
    return factor


def blocked_null_table(columns: Real, threads: int) -> tuple[npt.NDArray[np.intp], Real]:
    """Express N - m of N points by the m others, as in :func:`karat.engine.linalg.null_table`;
    overwrites ``columns`` (m x N).

    Gaussian elimination of the points with pivoting among them: after a block of features, the
    others are updated.
    """
    width, count = columns.shape
    order = np.arange(count)
    for rows in _blocks(0, width, BLOCK):
        here = slice(rows.start, count)
        lower, swaps, _ = lapack_routine("getrf", columns)(columns[rows, here].T)
        moved = np.arange(count)
        for i, j in enumerate(swaps + rows.start, rows.start):
            moved[i], moved[j] = moved[j], moved[i]
        order = order[moved]
        changed = np.flatnonzero(moved != np.arange(count))
        columns[:, changed] = columns[:, moved[changed]]
        columns[rows, here] = lower.T
        size = rows.stop - rows.start
        corner = _unit_inverse(lower[:size])
        below = columns[rows, rows.stop :]

        def update(
            others: slice, rows: slice = rows, corner: Real = corner, below: Real = below
        ) -> None:
            columns[others, rows] = columns[others, rows] @ corner.T
            columns[others, rows.stop :] -= columns[others, rows] @ below

        share(update, _blocks(rows.stop, width, BLOCK), threads)
    entering = columns[:, width:]
    table = np.empty((count - width, width), dtype=columns.dtype)

    def solve(points: slice) -> None:
        part = np.empty((width, points.stop - points.start), dtype=columns.dtype)
        for rows in reversed(_blocks(0, width, BLOCK)):
            rest = entering[rows, points] - columns[rows, rows.stop : width] @ part[rows.stop :]
            part[rows] = _unit_inverse(columns[rows, rows].T).T @ rest
        table[points] = part.T

    share(solve, _blocks(0, count - width, STRIP // 2), threads)
    return order, table


def _unit_inverse(lower: Real) -> Real:
    """Inverse of the unit lower triangle of a small matrix."""
    inverse: Real = np.tril(lapack_routine("trtri", lower)(lower, lower=1, unitdiag=1)[0], -1)
    inverse[np.diag_indices_from(inverse)] = 1.0
    return inverse
