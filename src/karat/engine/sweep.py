"""One pass over the rows: the sum of a kernel's statistic, by BLAS-3 on blocks, on every core.

A thread reads its own range of rows block by block.  Where the products of a block are small enough that BLAS would
run them on one thread anyway, our threads share the work, copies included; where they are large, BLAS has its own
threads and we use one.  Block sums are added in a fixed order, so the result does not depend on timing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import Any, cast

import numpy as np

from karat.engine.kernel import Kernel, Statistic
from karat.engine.linalg import Array
from karat.engine.rows import Blocks, Rows

SERIAL_PRODUCT = 8e5  # OpenBLAS multiplies (a x b)(b x c) on one thread below about this a*b*c
CACHE = 2**19  # bytes of a block that stay in a core's second-level cache
LARGE_BLOCK = 2**24  # bytes of a block handed to a threaded BLAS

Progress = Callable[[int, int], None]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def block_rows(columns: int, left: int, right: int) -> tuple[int, int]:
    """Rows per block, and threads of ours, for blocks multiplied as ``(left x b)(b x right)``."""
    rows = min(int(SERIAL_PRODUCT / max(1, left * right)), CACHE // (8 * max(columns, left)), 8192)
    if rows >= 128:
        return rows, cores()
    return max(256, min(4096, LARGE_BLOCK // (8 * (columns + left + right)))), 1


def sweep(
    rows: Rows,
    shift: Array,
    visit: Callable[[Array, Array | None, int], Any],
    combine: Callable[[Any, Any], Any],
    shape: tuple[int, int],
    progress: Progress | None = None,
) -> Any:
    """Combine ``visit(block, weights, start)`` over all blocks of rows, in row order.

    ``shape`` is (left, right): the products of a block are of that size (see :func:`block_rows`).
    """
    block, threads = block_rows(rows.columns + 1, *shape)
    starts = range(0, len(rows), block)
    threads = max(1, min(threads, len(starts) // 4))

    def run(part: range) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):  # non-finite sums are noticed, and explained, by the caller
            return read(part)

    def read(part: range) -> Any:
        blocks = Blocks(rows, shift, min(block, len(rows)))
        sums: list[Any] = []  # of 1, 2, 4, ... blocks: added pairwise, so that rounding grows with their logarithm
        for number, start in enumerate(part, 1):
            stop = min(start + block, len(rows))
            weights = None if rows.weights is None else rows.weights[start:stop]
            sums.append(visit(blocks.read(start, stop), weights, start))
            for _ in range((number & -number).bit_length() - 1):
                sums[-2:] = [combine(*sums[-2:])]
            if progress is not None:
                progress(stop, len(rows))
        return reduce(lambda right, left: combine(left, right), reversed(sums))

    if threads == 1:
        return run(starts)
    cuts = np.linspace(0, len(starts), threads + 1).astype(int)
    own, *others = [starts[a:b] for a, b in pairwise(cuts)]
    with ThreadPoolExecutor(threads - 1) as workers:
        coming = workers.map(run, others)
        return reduce(combine, coming, run(own))


def add(left: Statistic, right: Statistic) -> Statistic:
    """Sum of two statistics, in the place of the first."""
    for mine, other in zip(left, right, strict=True):
        np.add(mine, other, out=mine)
    return left


def pass_over(rows: Rows, kernel: Kernel, progress: Progress | None = None) -> Statistic:
    """The kernel's statistic, summed over all rows."""
    return cast(
        Statistic,
        sweep(rows, kernel.shift, lambda b, w, _: kernel.statistic(b, w), add, kernel.product_shape, progress),
    )


def evaluate(rows: Rows, kernel: Kernel, directions: Array) -> Array:
    """``features @ directions`` for every row (n x J)."""
    shape = (kernel.product_shape[0], kernel.product_shape[1] * directions.shape[1])
    return np.concatenate(
        sweep(rows, kernel.shift, lambda b, w, _: [kernel.evaluate(b, directions)], lambda a, b: a + b, shape)
    )


def column_sizes(rows: Rows, shift: Array) -> Array:
    """The largest absolute value of every shifted column."""
    largest = sweep(rows, shift, lambda b, w, _: np.abs(b[:, 1:]).max(axis=0), np.maximum, (rows.columns + 1, 1))
    return np.asarray(largest)
