"""Second moments of sparse rows, at a cost that depends on their nonzero entries only.

A sparse product adds the terms of an entry one after the other, up to as many as there are rows, so
that rounding would grow with their number.  So the numbers of a block of rows are cut in three,
``x = a + b + c``, with a and b on grids so coarse that sums of products of a with a, and of a with
b, are exact:

    x'y  =  a_x'a_y  +  (a_x'b_y + b_x'a_y)  +  (b_x'b_y + x'c_y + c_x'(a_y + b_y))

With n = 2^18 rows a has 17 bits of the largest number and b the next 17.  The last sum is then off
by at most 2^-18 r_x r_y of a rounding, r the ratio of the largest number of a column to its root
mean square, which is at most 2^9: a fraction of one, for any data.

Small integers, such as the indicators of categories, are on the first grid: b and c are zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array, Indices
from karat.engine.rows import Rows
from karat.engine.sums import RunningSum

DIGITS = 53
ROWS = 2**18  # that are multiplied at a time: the grid depends on it
MOST = 2**22  # the same of small integers, whose sums are exact anyway
LISTED = 2**16  # rows whose products are listed at a time
# numbers of a sparse matrix on two grids, and the rest
Pieces = tuple[Array, Array | None, Array | None]


def sparse_squares(
    rows: Rows, shift: Array, map_: Array, replaced: Indices, plain_gram: Array | None
) -> Array:
    """The second moments of coordinates; only the upper triangle is to be used.

    They are the variables ``(1, D - shift)``, some of them ``replaced`` by their combinations in
    the map.  Columns of sparse parts are not shifted, unless they are constant.

    ``plain_gram`` has the second moments of the variables, if they have been summed before.
    """
    inner, sums, integers = (
        np.zeros_like(map_) if plain_gram is None else plain_gram.copy(),
        RunningSum(),
        _integers(rows),
    )
    squares = RunningSum()
    for start in range(0, len(rows), ROWS):
        stop = min(start + ROWS, len(rows))
        table, dense, order = _sparse_and_dense(rows, start, stop, shift)
        weights = None if rows.weights is None else rows.weights[start:stop]
        weighted, beside = _with_weights(table, dense, weights)
        if len(replaced):
            rest = np.asarray(
                table @ map_[order[0]][:, replaced] + dense @ map_[order[1]][:, replaced]
            )
            beside = np.hstack(
                [beside, rest if weights is None else rest * np.sqrt(weights)[:, None]]
            )
        # a bit less than a double has: two products are added to one sum
        bits = (DIGITS - 1 - int(np.ceil(np.log2(max(stop - start, 2))))) // 2
        pieces = (weighted.data, None, None) if integers else _cut_sparse(weighted, bits)
        cut = _cut(beside, _grid_steps(np.abs(beside).max(axis=0, initial=0.0), bits), bits)
        sums.add((_across(weighted, pieces, cut), _squares(cut)))
        if plain_gram is None:
            _add_products(inner, weighted, pieces, order[0])
            if stop % (MOST if integers else ROWS) == 0 and stop < len(rows):
                squares.add((inner,))
                inner = np.zeros_like(map_)
    squares.add((inner,))
    (total,), (across, corner) = squares.total, sums.total
    count = len(order[1])
    if plain_gram is None:
        total[np.ix_(order[0], order[1])], total[np.ix_(order[1], order[0])] = (
            across[:, :count],
            across[:, :count].T,
        )
        total[np.ix_(order[1], order[1])] = corner[:count, :count]
    rests = np.empty((len(total), len(replaced)))
    rests[order[0]], rests[order[1]] = across[:, count:], corner[:count, count:]
    rests[replaced] = corner[count:, count:]
    total[:, replaced], total[replaced] = rests, rests.T
    return total


def _integers(rows: Rows) -> bool:
    """Whether all sparse numbers are small integers, and weights too: their sums are exact."""
    if rows.weights is not None:
        return False
    data = [part.data for part in rows.parts if sparse.issparse(part)]
    return all(bool((np.rint(d) == d).all() and np.abs(d).max(initial=0.0) <= 2**15) for d in data)


def _sparse_and_dense(
    rows: Rows, start: int, stop: int, shift: Array
) -> tuple[Any, Array, tuple[Indices, Indices]]:
    """Rows as a sparse matrix and as dense columns with the constant, and the variables that each
    holds.
    """
    where: Any = slice(start, stop) if rows.index is None else rows.index[start:stop]
    tables, dense, first, last = [], [np.ones((stop - start, 1))], [], [np.zeros(1, dtype=np.intp)]
    for part, left, right in zip(rows.parts, rows.edges[:-1], rows.edges[1:], strict=True):
        if sparse.issparse(part):
            tables.append(part[where])
            first.append(np.arange(left, right))
        else:
            dense.append(np.asarray(part[where], dtype=float) - shift[left - 1 : right - 1])
            last.append(np.arange(left, right))
    table = sparse.csr_array(
        sparse.hstack(tables, format="csr") if len(tables) > 1 else tables[0], dtype=float
    )
    if not table.has_canonical_format:  # a column twice in a row, or not in order
        table = table.copy()
        table.sum_duplicates()
    sparse_columns = np.concatenate(first)
    constant = shift[sparse_columns - 1] != 0
    if constant.any():
        data = np.where(constant[table.indices], 0.0, table.data)
        table = sparse.csr_array((data, table.indices, table.indptr), table.shape)
    return table, np.hstack(dense), (sparse_columns, np.concatenate(last))


def _with_weights(table: Any, dense: Array, weights: Array | None) -> tuple[Any, Array]:
    """Rows times the roots of their weights."""
    if weights is None:
        return table, dense
    root = np.sqrt(weights)
    data = table.data * np.repeat(root, np.diff(table.indptr))
    return sparse.csr_array((data, table.indices, table.indptr), table.shape), dense * root[:, None]


def _add_products(total: Array, table: Any, pieces: Pieces, places: Indices) -> None:
    """Add ``S'S`` to the upper triangle of a matrix in which the columns of S have these places.

    Every entry of a row is multiplied with itself, then with the next one of the row, then with
    that after it.
    """
    flat, (first, second, third) = total.reshape(-1), pieces
    middle, rest = np.zeros((2, total.size if second is not None else 0))
    for start in range(0, table.shape[0], LISTED):
        ends = table.indptr[start : start + LISTED + 1].astype(np.intp)
        here = slice(ends[0], ends[-1])
        columns, a = places[table.indices[here]], first[here]
        left, last = np.arange(len(a)), np.repeat(ends[1:] - ends[0], np.diff(ends))
        right = left
        while len(left):
            pairs = columns[left] * len(total) + columns[right]
            np.add.at(flat, pairs, a[left] * a[right])
            if second is not None and third is not None:
                b, c = second[here], third[here]
                np.add.at(middle, pairs, a[left] * b[right] + b[left] * a[right])
                whole = a[left] + b[left] + c[left]
                small = b[left] * b[right] + whole * c[right] + c[left] * (a[right] + b[right])
                np.add.at(rest, pairs, small)
            more = right + 1 < last[left]
            left, right = left[more], right[more] + 1
    if second is not None:
        middle += rest
        flat += middle


def _across(table: Any, pieces: Pieces, cut: tuple[Array, Array, Array]) -> Array:
    """``S'E`` of sparse rows S and dense ones E = a + b + c."""

    def transposed(data: Array) -> Any:
        return sparse.csr_array((data, table.indices, table.indptr), table.shape).T

    (a, b, c), (first, second, third) = cut, pieces
    near = transposed(first)
    middle, rest = near @ b, transposed(table.data) @ c
    if second is not None and third is not None:
        far = transposed(second)
        middle = middle + far @ a
        rest = rest + far @ b + transposed(third) @ (a + b)
    return np.asarray(near @ a + (middle + rest))


def _squares(cut: tuple[Array, Array, Array]) -> Array:
    """``E'E`` of dense rows E = a + b + c."""
    a, b, c = cut
    middle, rest = a.T @ b, (a + b + c / 2).T @ c
    return np.asarray(a.T @ a + ((middle + middle.T) + (b.T @ b + (rest + rest.T))))


def _cut_sparse(table: Any, bits: int) -> Pieces:
    """The numbers on two grids, and the rest; only the first if the others are zero."""
    largest = np.zeros(table.shape[1])
    np.maximum.at(largest, table.indices, np.abs(table.data))
    first, second, third = _cut(table.data, _grid_steps(largest, bits)[table.indices], bits)
    return (first, second, third) if second.any() or third.any() else (first, None, None)


def _cut(values: Array, step: Array, bits: int) -> tuple[Array, Array, Array]:
    """Numbers as multiples of a step, multiples of a step finer by ``bits``, and the rest."""
    first = np.rint(values / step) * step
    finer, rest = step * 0.5**bits, values - first
    second = np.rint(rest / finer) * finer
    return first, second, rest - second


def _grid_steps(largest: Array, bits: int) -> Array:
    """Powers of two: the grid steps of columns of at most this size."""
    return np.asarray(np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - bits))
