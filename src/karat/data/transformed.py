"""Transformed columns: a transformation runs over the raw rows once, in large blocks, and its
result is held in memory.

The engine reads rows many times and in pieces: a pilot, the pass, candidates, the groups of a tree,
a proof.  A scikit-learn pipeline takes milliseconds even for a few rows, so these reads must not
run it.

    held as an array      if all rows fit into ``held`` bytes,
    held as a CSR matrix  if only their non-zero entries fit (one-hot columns),
    else                  :class:`LargeBlocks`, which holds the blocks that were read last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from karat.data import containers
from karat.engine.parts import LazyPart
from karat.errors import InputError

HELD = 2**28  # bytes of transformed columns that are held in memory
BLOCK = 2**16  # rows that are transformed at a time, at most
BLOCK_BYTES = 2**25  # and their bytes

Transform = Callable[[Any], Any]


def transformed(raw: Any, transform: Transform, held: int = HELD, block: int = BLOCK) -> Any:
    """The columns that ``transform`` makes of a raw table, to be read in pieces.

    Parameters
    ----------
    raw
        A table of any kind.
    transform : callable
        Maps a block of raw rows to a numeric array or CSR matrix, one row each, independent of the
        other rows.
    held : int
        Bytes of transformed columns that may be held in memory.
    block : int
        Rows that are transformed at a time, at most.
    """
    count = containers.row_count(raw)
    first = _block(raw, transform, 0, min(count, block))
    if containers.row_count(first) == count:
        return (
            first.toarray()
            if sparse.issparse(first) and _dense_bytes(first, count) <= held
            else first
        )
    if _dense_bytes(first, count) <= held:
        return _array(raw, transform, first, count, block)
    if (
        sparse.issparse(first)
        and _sparse_bytes(first) * (count / containers.row_count(first)) <= held
    ):
        blocks = [
            first,
            *(_block(raw, transform, i, min(i + block, count)) for i in range(block, count, block)),
        ]
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))
    return LargeBlocks(raw, transform, int(first.shape[1]), held, block)


def _array(raw: Any, transform: Transform, first: Any, count: int, block: int) -> np.ndarray:
    """All rows in one array."""
    table = np.empty((count, first.shape[1]))
    for start in range(0, count, block):
        stop = min(start + block, count)
        table[start:stop] = dense(first if start == 0 else _block(raw, transform, start, stop))
    return table


def _block(raw: Any, transform: Transform, start: int, stop: int) -> Any:
    """Rows ``start:stop``, transformed."""
    if hasattr(raw, "iloc"):
        rows = raw.iloc[start:stop]
    elif isinstance(raw, np.ndarray):
        rows = raw[start:stop]
    else:
        rows = containers.take_rows(raw, np.arange(start, stop))
    return _in_double(transform(rows))


def _in_double(features: Any) -> Any:
    """The result of a transformation in double precision; raise if that would round integers."""
    features = sparse.csr_array(features) if sparse.issparse(features) else np.asarray(features)
    if containers.rounds(np.asarray(features.data) if sparse.issparse(features) else features):
        raise InputError(
            f"The transformed columns hold {containers.TOO_LONG}; let the transformation subtract"
            " an offset."
        )
    return features.astype(float, copy=False)


def _dense_bytes(block: Any, count: int) -> int:
    return 8 * count * int(block.shape[1])


def _sparse_bytes(block: Any) -> int:
    return int(block.data.nbytes + block.indices.nbytes + block.indptr.nbytes)


class LargeBlocks(LazyPart):
    """A transformed table that does not fit into memory; it holds the blocks that were read last.

    Parameters
    ----------
    raw, transform
        As in :func:`transformed`.
    columns : int
        Columns that the transformation makes.
    held, block : int
        As in :func:`transformed`.
    """

    def __init__(self, raw: Any, transform: Transform, columns: int, held: int, block: int) -> None:
        self.raw, self.transform = raw, transform
        self.shape = (containers.row_count(raw), columns)
        self.size = max(256, min(block, BLOCK_BYTES // (8 * max(1, columns))))
        self.most = max(4, held // (8 * self.size * max(1, columns)))
        self.held: OrderedDict[int, Any] = OrderedDict()
        self.lock = Lock()

    def __getitem__(self, where: Any) -> Any:
        positions = (
            np.arange(*where.indices(len(self))) if isinstance(where, slice) else np.asarray(where)
        )
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        owner = positions // self.size
        numbers = np.unique(owner)
        # Scattered rows, such as candidates: transform these alone, not every block with one.
        if len(positions) < self.size and len(numbers) > 2:
            return dense(_in_double(self.transform(containers.take_rows(self.raw, positions))))
        values = np.empty((len(positions), self.shape[1]))
        for number in numbers.tolist():
            mine = np.flatnonzero(owner == number)
            rows = self._read(number)[positions[mine] - number * self.size]
            values[mine] = dense(rows)
        return values

    def _read(self, number: int) -> Any:
        """One large block; a new one replaces the block that was least recently read."""
        with self.lock:
            if number in self.held:
                self.held.move_to_end(number)
                return self.held[number]
        start = number * self.size
        block = _block(self.raw, self.transform, start, min(start + self.size, len(self)))
        with self.lock:
            self.held[number] = block
            while len(self.held) > self.most:
                self.held.popitem(last=False)
        return block


def dense(rows: Any) -> np.ndarray:
    """Rows as an array, sparse or not."""
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)
