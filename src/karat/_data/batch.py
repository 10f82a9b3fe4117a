"""Pieces of a stream: rows as column blocks with their numbers, and whatever weights, groups and keys they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from karat._data import containers, frames
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Chunked, Offsets, Rows

MOST = 2**28  # bytes of a buffer


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a source, or the rows held of it.

    Attributes
    ----------
    parts : list of 2-D arrays or CSR matrices
        Column blocks side by side: those of X, then those of y.
    numbers : int64 array
        Row numbers in the source.
    weights, groups, keys : arrays or None
        A stacked piece has its numbers and keys in chunks.
    offsets : mapping of column to int, or None
        What is subtracted from columns when they are read; the column blocks hold the numbers as they came.
    """

    parts: list[Any]
    numbers: Any
    weights: Array | None = None
    groups: np.ndarray | None = None
    keys: Any = None
    offsets: Offsets | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """Memory of the column blocks."""
        return sum(p.data.nbytes + p.indices.nbytes if sparse.issparse(p) else p.nbytes for p in self.parts)

    def take(self, where: Any, weights: Array | None = None) -> Piece:
        """Some of the rows (a slice, mask or positions), with new weights or their own."""
        own = weights if weights is not None else None if self.weights is None else self.weights[where]
        labels = None if self.groups is None else self.groups[where]
        keys = None if self.keys is None else self.keys[where]
        return Piece([p[where] for p in self.parts], self.numbers[where], own, labels, keys, self.offsets)

    def rows(self, index: Indices | None = None) -> Rows:
        """For the engine: all rows, or some of them."""
        return Rows(self.parts, self.weights, index, self.offsets)

    def block(self, left: int, right: int) -> Any:
        """Columns ``left:right``, side by side in one array or CSR matrix (in several, where one would round them)."""
        edges = np.cumsum([0, *(p.shape[1] for p in self.parts)])
        inside = [p for p, a, b in zip(self.parts, edges, edges[1:], strict=False) if left <= a and b <= right]
        if any(sparse.issparse(p) for p in inside):
            return sparse.csr_array(sparse.hstack(inside, format="csr"))
        if self.offsets and len(inside) > 1:
            return containers.Columns([column for p in inside for column in p.T])
        return inside[0] if len(inside) == 1 else np.hstack(inside)


class Buffer:
    """Memory in which rows wait: a caller may reuse its batch, and memory used before costs half as much as new memory."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size  # most rows, most bytes
        self.used = 0
        self.arrays: list[Any] = []

    def hold(self, piece: Piece) -> Piece:
        """The same rows, copied, with whatever they carry."""
        weights, groups, keys = (None if a is None else a.copy() for a in (piece.weights, piece.groups, piece.keys))
        piece = replace(piece, weights=weights, groups=groups, keys=keys)
        if not self.arrays and not any(sparse.issparse(p) for p in piece.parts):
            rows = min(self.rows, max(1, min(self.size, MOST) // max(1, piece.nbytes // len(piece))))
            self.arrays = [np.empty((rows, p.shape[1]), p.dtype) for p in piece.parts]
        end = self.used + len(piece)
        fits = [end <= len(a) and a.dtype == p.dtype for a, p in zip(self.arrays, piece.parts, strict=False)]
        if not fits or not all(fits):
            return replace(piece, parts=[p.copy() for p in piece.parts])
        views = [a[self.used : end] for a in self.arrays]
        for view, part in zip(views, piece.parts, strict=True):
            view[...] = part
        self.used = end
        return replace(piece, parts=views)

    def gathered(self, pieces: list[Piece]) -> list[Piece]:
        """The same pieces; as a single one, without a copy, if all of them are held here."""
        if sum(map(len, pieces)) != self.used:
            return pieces
        return [replace(stack(pieces), parts=[a[: self.used] for a in self.arrays])]


def stack(pieces: Sequence[Piece]) -> Piece:
    """Pieces of equal columns, one after the other; dense column blocks are not copied."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    return Piece(
        _stacked_parts(pieces),
        Chunked([p.numbers for p in pieces]),
        _stacked_weights(pieces),
        None if first.groups is None else np.concatenate([p.groups for p in pieces]),
        None if first.keys is None else Chunked([p.keys for p in pieces]),
        first.offsets,
    )


def stacked_rows(pieces: Sequence[Piece], index: Indices | None) -> Rows:
    """Rows of several pieces for the engine, without numbers, groups and keys."""
    return Rows(_stacked_parts(pieces), _stacked_weights(pieces), index, pieces[0].offsets)


def _stacked_parts(pieces: Sequence[Piece]) -> list[Any]:
    """Column blocks of several pieces."""
    if len(pieces) == 1:
        return pieces[0].parts
    columns = zip(*(p.parts for p in pieces), strict=True)
    return [frames.stack_rows(*blocks) if sparse.issparse(blocks[0]) else Chunked(blocks) for blocks in columns]


def _stacked_weights(pieces: Sequence[Piece]) -> Array | None:
    if all(p.weights is None for p in pieces):
        return None
    weights = np.ones(sum(map(len, pieces)))
    start = 0
    for piece in pieces:
        if piece.weights is not None:
            weights[start : start + len(piece)] = piece.weights
        start += len(piece)
    return weights
