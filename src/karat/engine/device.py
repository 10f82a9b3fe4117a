"""Rows that live elsewhere: in the memory of an accelerator.

A block of such rows is a :class:`DevicePart`.  Whoever reads it by slices and positions gets NumPy
arrays, like those of any other block, so that all of the engine works.  What looks at every row
and has a small result is done where the rows are: sums of squares (:func:`squares`), largest values
and rows beyond a limit.  Only the results travel.

**Rounding.**  A matrix product of another library may add its terms in any order.  A term of a
product over b rows then goes through at most b - 1 additions, whatever the order, and that is all
that is used here.  So the bounds of :mod:`karat.engine.sums` hold as they stand:

    few columns   products of pieces of rows as short as there, added in a tree; blocks in a pair
                  high + low by two-sum
    many columns  numbers are cut in two as by :func:`karat.engine.sums.exact_squares`, ``x = a +
                  b`` with a on a grid, 2^-BITS of a power of two above the norm |x| of the column
                  in the piece.  By Cauchy and Schwarz a sum of products of a is at most ``(2^BITS +
                  PIECE^(1/2) / 2)^2`` steps, fits into a double, and so is exact in any order.  The
                  rest is ``c'b`` and its transpose, ``c = a + b / 2``.  It is off by at most ``2
                  PIECE^1.5 2^-BITS`` = 1 / 362 of a rounding of the roots of the diagonal, since
                  ``|b_i| <= 2^-BITS |x|``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.compat import array_api
from karat.engine.linalg import Array, Indices
from karat.engine.parts import LazyPart
from karat.engine.sums import STACKED, TOGETHER, piece_rows, two_sum
from karat.engine.tolerances import TINY

if TYPE_CHECKING:
    from karat.engine.rows import Progress, Rows

NUMBERS = 2**26  # of a block on the device: so many that starting its operations takes no time
WIDE = 2**7  # columns from which a quarter of that is enough
PIECE, BITS = 2048, 26  # 2 * 26 bits, and one for what is rounded up, are those of a double
ABOVE = 1 + 2.0**-20  # a computed norm times that is at least the norm
TILE = 256  # columns that are multiplied at a time where a product is symmetric


class DevicePart(LazyPart):
    """A block of columns on a device.

    Parameters
    ----------
    array : array of two dimensions
        Of a library with the functions of the array API.
    """

    has_views = True

    def __init__(self, array: Any) -> None:
        self.array, self.functions = array, array_api.namespace(array)
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    @property
    def device(self) -> Any:
        return array_api.device_of(self.array)

    @property
    def nbytes(self) -> int:
        """Memory of the rows as they are read."""
        return 8 * self.shape[0] * self.shape[1]

    def doubles(self, where: slice | Indices) -> Any:
        """Rows at a slice or at positions, in double precision on the device."""
        if isinstance(where, slice):
            start, stop, _ = where.indices(len(self))
            values = self.array[start:stop, :]
        else:
            positions = np.asarray(where)
            if positions.dtype == bool:
                positions = np.flatnonzero(positions)
            values = array_api.take_rows(self.array, positions)
        return self.functions.astype(values, self.functions.float64, copy=False)

    def __getitem__(self, where: Any) -> np.ndarray:
        return array_api.to_host(self.doubles(where))

    def run(self, where: slice) -> DevicePart:
        start, stop, _ = where.indices(len(self))
        return DevicePart(self.array[start:stop, :])

    def copy(self) -> np.ndarray:
        """The rows, in memory of their own."""
        return np.array(self[:])

    def sum_of_squares(self) -> float:
        """About the sum of the squares of all values."""
        step = block_rows(self.shape[1])
        blocks = (self.doubles(slice(i, i + step)) for i in range(0, len(self), step))
        return sum(float(self.functions.sum(block * block)) for block in blocks)


def block_rows(columns: int) -> int:
    """Rows of a block on the device: a power of two, so that a tree of pieces has no rests."""
    numbers = NUMBERS if columns < WIDE else NUMBERS // 4
    return max(PIECE, 1 << (numbers // max(1, columns)).bit_length() >> 1)


class DeviceBlocks:
    """Runs of rows as blocks ``[1 | D - shift]`` on their device, or without the ones.

    Each block has memory of its own, which whoever reads it may change.
    """

    def __init__(self, rows: Rows, shift: Array, ones: bool) -> None:
        self.rows, self.ones, self.first = rows, ones, rows.parts[0]
        self.functions = self.first.functions
        self.shift = None
        if shift.any():
            self.shift = self.put(np.concatenate([[0.0], shift]) if ones else shift)

    def put(self, values: np.ndarray) -> Any:
        """A NumPy array on the device."""
        return array_api.from_host(values, self.first.array)

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Where each block begins, the block, and the weights of its rows (or None)."""
        rows, step = self.rows, block_rows(self.rows.columns + self.ones)
        for start in range(0, len(rows), step):
            where: Any = slice(start, min(start + step, len(rows)))
            weights = None if rows.weights is None else self.put(rows.weights[where])
            yield start, self._read(where if rows.index is None else rows.index[where]), weights

    def _read(self, where: slice | Indices) -> Any:
        parts = [part.doubles(where) for part in self.rows.parts]
        if self.ones:
            parts.insert(0, self.functions.ones_like(parts[0][:, :1]))
        return array_api.side_by_side(parts, self.shift)


def column_sizes(rows: Rows, shift: Array) -> Array:
    """The largest absolute value of every shifted column."""
    blocks, largest = DeviceBlocks(rows, shift, ones=False), np.zeros(rows.columns)
    for _, block, _ in blocks:
        found = blocks.functions.max(blocks.functions.abs(block), axis=0)
        largest = np.maximum(largest, array_api.to_host(found))
    return largest


def rows_beyond(rows: Rows, middle: Array, far: Array) -> Indices:
    """The rows that are further than ``far`` from the middle in some column."""
    blocks = DeviceBlocks(rows, middle, ones=False)
    functions, limit = blocks.functions, blocks.put(far)
    found = [
        start
        + array_api.to_host(
            functions.nonzero(functions.any(functions.abs(block) > limit, axis=1))[0]
        )
        for start, block, _ in blocks
    ]
    return np.concatenate(found).astype(np.intp)


def squares(
    rows: Rows,
    shift: Array,
    affine: bool,
    maps: Sequence[Array] = (),
    replaced: Indices | None = None,
    progress: Progress | None = None,
) -> Array:
    """``W' diag(weights) W`` over all rows, W the coordinates ``[1 | D - shift] maps``.

    Without the ones unless ``affine``.  ``replaced``: only these columns are mapped, by the one
    map; the others are coordinates as they are.
    """
    blocks = DeviceBlocks(rows, shift, affine)
    chosen = slice(None) if replaced is None else replaced
    factors = [blocks.put(np.ascontiguousarray(map_[:, chosen])) for map_ in maps]
    add = exact_products if rows.columns + affine > STACKED else products_of_pieces
    high: Any = None
    low: Any = None
    for start, block, weights in blocks:
        values = block
        for factor in factors:
            values = values @ factor
        if replaced is not None:
            values = _with_columns(blocks, block, values, replaced)
        part = add(blocks, values, weights)
        if high is None:
            high, low = part, blocks.functions.zeros_like(part)
        else:
            high, lost = two_sum(high, part)
            low = low + lost
        count = int(block.shape[0])
        del block, values  # before the next block takes memory
        if progress is not None:
            progress(start + count, len(rows))
    return array_api.to_host(high + low)


def _with_columns(blocks: DeviceBlocks, block: Any, rests: Any, replaced: Indices) -> Any:
    """The block with some of its columns replaced."""
    columns = int(block.shape[1])
    order = np.arange(columns)
    order[replaced] = columns + np.arange(len(replaced))
    joint = blocks.functions.concat([block, rests], axis=1)
    return blocks.functions.take(joint, blocks.put(order), axis=1)


def products_of_pieces(blocks: DeviceBlocks, values: Any, weights: Any) -> Any:
    """``values' diag(weights) values`` of few columns: products of pieces, added in a tree."""
    functions, (count, columns) = blocks.functions, values.shape
    weighted = values if weights is None else values * weights[:, None]
    size = piece_rows(columns)
    whole = count // size * size
    rest = functions.matrix_transpose(values[whole:, :]) @ weighted[whole:, :]
    if not whole:
        return rest
    left, right = (
        functions.reshape(one[:whole, :], (-1, size, columns)) for one in (values, weighted)
    )
    products = functions.matrix_transpose(left) @ right
    return _tree(functions, products, operator.add) + rest


def exact_products(blocks: DeviceBlocks, values: Any, weights: Any) -> Any:
    """The same of many columns, with hardly any rounding."""
    functions, (count, columns) = blocks.functions, values.shape
    if weights is not None:
        values = values * functions.sqrt(weights)[:, None]
    whole = count // PIECE * PIECE
    pieces = [
        functions.reshape(values[start:stop, :], (-1, size, columns))
        for start, stop, size in ((0, whole, PIECE), (whole, count, count - whole))
        if start < stop
    ]
    products = [_cut_in_two(blocks, stack) for stack in pieces]
    terms = functions.concat(products, axis=0) if len(products) > 1 else products[0]
    rounded = TOGETHER - 1  # additions of a tree that may be rounded; then errors are kept
    lost = functions.zeros_like(terms[0, :, :])

    def add(first: Any, second: Any) -> Any:
        nonlocal rounded, lost
        if rounded:
            rounded -= 1
            return first + second
        joint, error = two_sum(first, second)
        lost = lost + functions.sum(error, axis=0)
        return joint

    return _tree(functions, terms, add) + lost


def _tree(functions: Any, terms: Any, add: Callable[[Any, Any], Any]) -> Any:
    """All terms, added in a tree: one half to the other, and again."""
    while (number := int(terms.shape[0])) > 1:
        half = number // 2
        joint = add(terms[:half, :, :], terms[half : 2 * half, :, :])
        odd = number > 2 * half
        terms = functions.concat([joint, terms[2 * half :, :, :]], axis=0) if odd else joint
    return terms[0, :, :]


def _cut_in_two(blocks: DeviceBlocks, pieces: Any) -> Any:
    """The Gram matrices of pieces of at most PIECE rows, in whose memory their rests are made."""
    functions = blocks.functions
    norms = functions.linalg.vector_norm(pieces, axis=1, keepdims=True) * ABOVE
    # Beside a number of 2^52 steps and a half, doubles are a step apart.
    aside = 1.5 * 2.0 ** (53 - BITS) * functions.clip(power_below(functions, norms), TINY)
    coarse = pieces + aside
    coarse -= aside
    exact = _symmetric(functions, coarse)
    pieces -= coarse
    coarse = array_api.add_twice(pieces, coarse)  # 2 a + b
    mixed = functions.matrix_transpose(coarse) @ pieces
    mixed /= 2
    exact += mixed + functions.matrix_transpose(mixed)
    return exact


def _symmetric(functions: Any, pieces: Any) -> Any:
    """``pieces' pieces``.  Of many columns, the part below the diagonal is copied from above."""
    flipped, columns = functions.matrix_transpose, int(pieces.shape[-1])
    bands: list[tuple[int, Any]] = []  # the columns from the first of a tile on
    rows = []
    for start in range(0, columns, TILE):
        stop = min(start + TILE, columns)
        below = [flipped(band[:, :, start - at : stop - at]) for at, band in bands]
        bands.append((start, flipped(pieces[:, :, start:stop]) @ pieces[:, :, start:]))
        rows.append(functions.concat([*below, bands[-1][1]], axis=2) if below else bands[-1][1])
    return functions.concat(rows, axis=1) if len(rows) > 1 else rows[0]


def power_below(functions: Any, values: Any) -> Any:
    """The largest power of two up to each positive value (Rump, Ogita and Oishi, *Accurate
    floating-point summation*, 2008), without a look at its bits.
    """
    spread = values * (2.0**52 + 1)
    return functions.abs(spread - (1 - 2.0**-53) * spread)
