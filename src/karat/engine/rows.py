"""Rows: a table ``[X | Y]`` with weights, read in blocks as float64; and one pass over all of them.

**Reading.**  The table is never copied whole.  A block is written into a small buffer as ``[1 | D -
shift]``: the leading ones give totals and first moments, and the shift (a pilot's column means, or
zero) keeps later products accurate at no cost, since the copy is made anyway.  Integers, float32
and sparse rows become float64 only there.  A double holds every integer up to 2^53; larger
ones (identifiers, timestamps in nanoseconds) are read as differences to an offset, which is
subtracted before the conversion, so that nothing is rounded (:mod:`karat.engine.parts` chooses
the offsets).

**The pass.**  A kernel's statistic is summed by BLAS-3 on blocks, on every core.  All rows are cut
into at most PARTS ranges, which threads take one after the other (:mod:`karat.engine.blocked`) and
read block by block, copies included.  Only where the statistic is so large that a part could not
have its own there is one range, and the products are shared instead.  Blocks and ranges, and the
order in which their sums are added, depend on the shape of the data alone, and so does the last bit
of the sum.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from karat.engine import device, linalg
from karat.engine.blocked import share
from karat.engine.device import DevicePart
from karat.engine.linalg import Array, Indices, one_blas_thread, threads
from karat.engine.parts import LazyPart, Offsets, Part, has_views, minus_offsets, run
from karat.engine.sums import BLOCK, LARGE, STACKED, RunningSum

if TYPE_CHECKING:
    from karat.engine.kernel import Kernel

GATHERED = 2**16  # rows that are gathered at a time: a part may have to compute them
FEW = 0.2  # share of the columns up to which they are shifted one by one
CACHE = 2**19  # bytes of a block that stay in a core's second-level cache
THIN = 8e5  # a block is multiplied as (left x b)(b x right) with left * b * right of about this
# rows of a block, where a product of so many is efficient without a stack of shorter ones
TALL = 256
PARTS = 16  # ranges of rows that threads take

Progress = Callable[[int, int], None]
Statistic = tuple[Array, ...]


class Rows:
    """Weighted rows of several column blocks side by side.

    Parameters
    ----------
    parts : sequence of column blocks
        Arrays, CSR matrices or lazy blocks (:mod:`karat.engine.parts`) with the same number of
        rows.
    weights : array or None
        One positive weight per row of ``parts``; None means 1.
    index : array or None
        Use only these rows of ``parts``, in this order; None means all.
    offsets : mapping of column to int, or None
        Integers that are subtracted from columns before they become doubles.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        weights: Array | None = None,
        index: Indices | None = None,
        offsets: Offsets | None = None,
    ) -> None:
        self.parts: list[Any] = minus_offsets(parts, offsets) if offsets else list(parts)
        self.index = index
        self.weights = weights if index is None or weights is None else weights[index]
        self.count = len(index) if index is not None else int(self.parts[0].shape[0])
        widths = [int(part.shape[1]) for part in self.parts]
        self.edges = np.cumsum([1, *widths])
        self.columns = sum(widths)

    def __len__(self) -> int:
        return self.count

    @property
    def total(self) -> float:
        return float(self.count) if self.weights is None else float(self.weights.sum())

    @property
    def on_device(self) -> bool:
        """Whether all columns live on an accelerator."""
        return all(isinstance(part, DevicePart) for part in self.parts)

    def subset(self, positions: Indices) -> Rows:
        """The rows at ``positions``."""
        chosen = Rows(self.parts, index=positions if self.index is None else self.index[positions])
        chosen.weights = None if self.weights is None else self.weights[positions]
        return chosen

    def run(self, start: int, stop: int) -> Rows:
        """Consecutive rows ``start:stop``; as views where blocks have them, which are faster to
        read than an index.
        """
        where = slice(start, stop)
        index = None if self.index is None else self.index[where]
        if (
            index is not None
            and all(has_views(part) for part in self.parts)
            and (together := consecutive(index))
        ):
            where, index = together, None
        other = Rows(
            self.parts if index is not None else [run(part, where) for part in self.parts],
            index=index,
        )
        other.weights = None if self.weights is None else self.weights[start:stop]
        return other

    def replaced(self, parts: Sequence[Part]) -> Rows:
        """Other column blocks for the same rows."""
        other = Rows(parts, index=self.index)
        other.weights = self.weights
        return other

    def gathered(self) -> Rows:
        """The same rows in one array, to be read many times and in pieces.  Sparse rows stay as
        they are.
        """
        single_array = len(self.parts) == 1 and isinstance(self.parts[0], np.ndarray)
        if single_array or any(sparse.issparse(part) for part in self.parts):
            return self
        block = np.empty(
            (len(self), self.columns), dtype=np.result_type(*(part.dtype for part in self.parts))
        )
        for start in range(0, len(self), GATHERED):
            where = slice(start, min(start + GATHERED, len(self)))
            for part, left, right in zip(self.parts, self.edges[:-1], self.edges[1:], strict=True):
                block[where, left - 1 : right - 1] = part[
                    where if self.index is None else self.index[where]
                ]
        return Rows([block], self.weights)

    def take(self, positions: Indices, shift: Array) -> Array:
        """The rows at ``positions`` as a new block ``[1 | D - shift]``."""
        block = np.ones((len(positions), self.columns + 1))
        self.fill(positions, block)
        if shift.any():
            values = block[:, 1:]
            values -= shift
        return block

    def fill(self, where: slice | Indices, block: Array) -> None:
        """Write rows beside the ones of a block."""
        where = where if self.index is None else self.index[where]
        for part, left, right in zip(self.parts, self.edges[:-1], self.edges[1:], strict=True):
            # take is twice as fast as an index, but copies the whole of a part that does not lie
            # row by row
            by_rows = (
                isinstance(part, np.ndarray)
                and part.flags.c_contiguous
                and not isinstance(where, slice)
            )
            values = part.take(where, axis=0) if by_rows else part[where]
            # issparse is slow for many small parts
            dense = isinstance(values, np.ndarray) or not sparse.issparse(values)
            block[:, left:right] = values if dense else values.toarray()


def consecutive(index: Indices) -> slice | None:
    """The slice that selects the same rows as an index; None if they are not consecutive."""
    if not len(index) or index[-1] - index[0] + 1 != len(index) or not (np.diff(index) == 1).all():
        return None
    return slice(int(index[0]), int(index[-1]) + 1)


def useful_shift(
    pilot: Array, weights: Array | None = None, harmless: float = 1.0, alone: float = 0.5
) -> Array:
    """The means of columns; zero where a mean is at most ``harmless`` standard deviations and
    spoils no product.

    A row with more than the share ``alone`` of the weight is used as the mean.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # noticed by the pass
        mean = np.average(pilot, axis=0, weights=weights)
        # without the rounding of an average
        mean = mean + np.average(pilot - mean, axis=0, weights=weights)
        same = pilot[-1] == pilot[0]
        if same.any():  # columns that may be constant
            mean = np.where((pilot == pilot[0]).all(axis=0), pilot[0], mean)
        spread = np.sqrt(np.average(np.square(pilot - mean), axis=0, weights=weights))
    near = np.isfinite(spread) & (np.abs(mean) <= harmless * spread)
    # a mean that rounding would move away from its row
    if weights is not None and weights.max() > alone * weights.sum():
        mean = pilot[weights.argmax()]
    return np.where(near, 0.0, mean)


def typical(columns: Array, centred: bool) -> tuple[Array, Array]:
    """The median of every column (or 0), and the median of its nonzero distances from it; columns
    lie along the last axis.
    """
    values = np.sort(columns, axis=-1)
    count = values.shape[-1]
    middle = values[..., count // 2] if centred and count else np.zeros(values.shape[:-1])
    distances = np.sort(np.abs(values - middle[..., None]), axis=-1)
    place = np.minimum((np.count_nonzero(distances == 0, axis=-1) + count) // 2, count - 1)
    return middle, np.take_along_axis(distances, place[..., None], axis=-1)[..., 0]


def sample(rng: np.random.Generator, count: int, size: int) -> Indices:
    """A sorted uniform sample without replacement."""
    return (
        np.sort(rng.choice(count, size, replace=False, shuffle=False))
        if size < count
        else np.arange(count)
    )


def own_weights(rows: Rows, positions: Indices) -> Array:
    """The weights of rows; 1 if they have none."""
    return np.ones(len(positions)) if rows.weights is None else rows.weights[positions]


class Blocks:
    """Runs of rows as blocks ``[1 | D - shift]``, each of which overwrites the one before it.

    A few columns are shifted one by one.  For many, the shift is repeated in every row of a table,
    because arrays of one shape are subtracted three times as fast as a row from a table.
    """

    def __init__(self, rows: Rows, shift: Array, size: int) -> None:
        self.rows, self.shift = rows, shift
        # Columns that lie apart are copied three times as fast into columns as into rows.
        apart = all(
            part.shape[1] == 1 or (isinstance(part, LazyPart) and part.by_columns)
            for part in rows.parts
        )
        self.buffer = (
            np.ones((rows.columns + 1, size)).T if apart else np.ones((size, rows.columns + 1))
        )
        self.shifted = np.flatnonzero(shift).tolist()
        many = len(self.shifted) > FEW * len(shift)
        self.shifts = np.tile(np.concatenate([[0.0], shift]), (size, 1)) if many else None

    def read(self, start: int, stop: int) -> Array:
        """Rows ``start:stop``."""
        block = self.buffer[: stop - start]
        self.rows.fill(slice(start, stop), block)
        if self.shifts is not None:
            np.subtract(block, self.shifts[: stop - start], out=block)
        else:
            for column in self.shifted:
                block[:, column + 1] -= self.shift[column]
        return block


def block_rows(columns: int, left: int, right: int, cache: int = CACHE) -> tuple[int, int]:
    """Rows per block, and the largest number of ranges, for blocks multiplied as ``(left x b)(b x
    right)``.
    """
    if left * right > LARGE:
        return BLOCK, 1
    if left * right > STACKED**2:
        return BLOCK, PARTS
    if left * right > linalg.RELEASED:
        return TALL, PARTS
    return min(int(THIN / max(1, left * right)), cache // (8 * max(columns, left)), 8192), PARTS


def sweep(
    rows: Rows,
    shift: Array,
    visit: Callable[[Array, Array | None, int], Any],
    combine: Callable[[Any, Any], Any],
    shape: tuple[int, int],
    progress: Progress | None = None,
    cache: int = CACHE,
) -> Any:
    """Combine ``visit(block, weights, start)`` over all blocks of rows, in row order.

    ``shape`` is (left, right): the products of a block are of that size (see :func:`block_rows`).
    """
    block, most = block_rows(rows.columns + 1, *shape, cache)
    starts = range(0, len(rows), block)
    buffers: list[Blocks] = []  # those that no thread uses now
    advance = None if progress is None else counting_progress(progress, len(rows))

    def run(part: range) -> Any:
        blocks = buffers.pop() if buffers else Blocks(rows, shift, min(block, len(rows)))
        # non-finite sums are noticed, and explained, by the caller
        with np.errstate(over="ignore", invalid="ignore"):
            result = read(part, blocks)
        buffers.append(blocks)
        return result

    def read(part: range, blocks: Blocks) -> Any:
        # of 1, 2, 4, ... blocks: added pairwise, so that rounding grows with their logarithm
        sums: list[Any] = []
        for number, start in enumerate(part, 1):
            stop = min(start + block, len(rows))
            weights = None if rows.weights is None else rows.weights[start:stop]
            sums.append(visit(blocks.read(start, stop), weights, start))
            for _ in range((number & -number).bit_length() - 1):
                sums[-2:] = [combine(*sums[-2:])]
            if advance is not None:
                advance(stop - start)
        return reduce(lambda right, left: combine(left, right), reversed(sums))

    # The ranges depend on the number of blocks only, not on the threads: so do the bits of the sum.
    cuts = np.linspace(0, len(starts), max(1, min(most, len(starts) // 4)) + 1).astype(int)
    with one_blas_thread():
        if len(cuts) == 2:
            return run(starts)
        results = share(run, [starts[a:b] for a, b in pairwise(cuts)], threads())
    while len(results) > 1:  # in pairs, as the sums of blocks
        results = [
            combine(*results[i : i + 2]) if i + 1 < len(results) else results[i]
            for i in range(0, len(results), 2)
        ]
    return results[0]


def counting_progress(progress: Progress, total: int) -> Callable[[int], None]:
    """A function that several threads tell of finished blocks, and that reports the number of rows
    done.
    """
    lock, done = threading.Lock(), 0

    def advance(rows: int) -> None:
        nonlocal done
        with lock:
            done += rows
            progress(done, total)

    return advance


def add_in_place(left: Statistic, right: Statistic) -> Statistic:
    """Sum of two statistics, in the place of the first."""
    for mine, other in zip(left, right, strict=True):
        np.add(mine, other, out=mine)
    return left


def pass_over(rows: Rows, kernel: Kernel, progress: Progress | None = None) -> Statistic:
    """The kernel's statistic, summed over all rows."""
    kernel = kernel.over(len(rows))
    if (
        any(sparse.issparse(part) for part in rows.parts)
        and (statistic := kernel.sparse_statistic(rows)) is not None
    ):
        return statistic
    if rows.on_device and (statistic := kernel.device_statistic(rows, progress)) is not None:
        return statistic
    if prod(kernel.product_shape) > LARGE:  # one range, block after block
        sums = RunningSum()
        sweep(
            rows, kernel.shift, lambda b, w, _: kernel.add_statistic(sums, b, w),
            lambda a, b: None, kernel.product_shape, progress,
        )  # fmt: skip
        return sums.total
    return cast(
        Statistic,
        sweep(
            rows,
            kernel.shift,
            lambda b, w, _: kernel.statistic(b, w),
            add_in_place,
            kernel.product_shape,
            progress,
        ),
    )


def column_sizes(rows: Rows, shift: Array) -> Array:
    """The largest absolute value of every shifted column."""
    if rows.on_device:
        return device.column_sizes(rows, shift)
    kinds = [sparse.issparse(part) for part in rows.parts]
    in_memory = all(
        kind or isinstance(part, np.ndarray) for kind, part in zip(kinds, rows.parts, strict=True)
    )
    if any(kinds) and in_memory and not shift.any():  # as they are, without zeros
        parts = [part if rows.index is None else part[rows.index] for part in rows.parts]
        largest = [abs(part).max(axis=0) for part in parts]
        return np.concatenate(
            [np.ravel(sizes.toarray() if sparse.issparse(sizes) else sizes) for sizes in largest]
        ).astype(float)
    largest = sweep(
        rows, shift, lambda b, w, _: np.abs(b[:, 1:]).max(axis=0), np.maximum, (rows.columns + 1, 1)
    )
    return np.asarray(largest)


def column_sums(rows: Rows, shift: Array) -> Array:
    """Total weight, sums and sums of squares of the shifted columns (3, d)."""

    def visit(block: Array, weights: Array | None, start: int) -> Array:
        values = block[:, 1:]
        w = np.ones(len(block)) if weights is None else weights
        return np.stack([np.full(values.shape[1], w.sum()), w @ values, w @ np.square(values)])

    return np.asarray(sweep(rows, shift, visit, np.add, (rows.columns + 1, 3)))


def power_means(values: Array, weights: Array, total: float, power: int) -> Array:
    """``(sum_i w_i |values_ij|^p / total)^(1/p)`` of every column, without overflow or
    underflow.
    """
    largest = np.maximum(values.max(axis=0, initial=0.0), -values.min(axis=0, initial=0.0))
    scaled = values / np.where(largest > 0, largest, 1.0)
    scaled **= power
    return np.asarray(largest * (weights @ scaled / total) ** (1.0 / power))


def sparse_constants(rows: Rows) -> Array:
    """The values of sparse columns that are constant and not zero; 0 for all other columns.

    Such a column has no spread, so made rows must repeat it to the last bit.
    """
    values = np.zeros(rows.columns)
    for part, left in zip(rows.parts, rows.edges[:-1], strict=True):
        if not sparse.issparse(part):
            continue
        table = sparse.csr_array(part if rows.index is None else part[rows.index])
        full = np.flatnonzero(np.bincount(table.indices, minlength=table.shape[1]) == len(rows))
        if len(full):
            columns = sparse.csc_array(table[:, full]).data.reshape(len(full), -1)
            same = (columns == columns[:, :1]).all(axis=1)
            values[left - 1 + full] = np.where(same, columns[:, 0], 0.0)
    return values
