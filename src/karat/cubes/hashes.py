"""Hashes of the rows of cells, by which a cube knows rows that it has already.

With a key column a row is 128 bits of its key, and a key that comes again is the same row, in
whatever cell.  Without one a row is 64 bits of its numbers (:mod:`karat.io.row_hashes`).  Equal
rows of ordinary data are different rows, so that numbers decide only where rows are mostly distinct
(:func:`mostly_there`).

The hashes of a cell are sorted and stand for all of its rows, whichever of them are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from itertools import pairwise
from typing import Any

import numpy as np

from karat.data.batch import Batch
from karat.data.labels import SECOND, first_word, key_kind, key_numbers, mixed
from karat.engine.linalg import Flags, Indices
from karat.errors import InputError
from karat.io.row_hashes import RowHashes
from karat.io.source import Chunk

DISTINCT = 0.95  # rows that are distinct, of the new ones and of the cells that they belong to
THERE = 0.9  # new rows that are there already
NOTHING = np.zeros(3, dtype=np.uint64)
Labelled = dict[tuple[Any, ...], int]  # the number of every label


@dataclass(frozen=True)
class CellHashes:
    """The hashes of the rows of cells, those of cell g at ``starts[g]:starts[g + 1]``.

    Attributes
    ----------
    starts : array of shape (cells + 1,)
    words : uint64 array of shape (rows, 1), or (rows, 2) for keys
        Sorted in every cell.  Rows that were not hashed are not among them.
    """

    starts: Indices
    words: np.ndarray

    @staticmethod
    def none(cells: int) -> CellHashes:
        """Of cells whose rows were not hashed."""
        return CellHashes(np.zeros(cells + 1, dtype=np.intp), np.zeros((0, 1), dtype=np.uint64))

    @staticmethod
    def sorted_by_cell(codes: Indices, words: np.ndarray, cells: int) -> CellHashes:
        """From the hashes of rows in any order; ``codes`` are the numbers of their cells."""
        order = np.argsort(codes.astype(np.uint16) if cells <= 2**16 else codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=cells))
        return CellHashes(np.append(0, ends).astype(np.intp), words[order])._in_order()

    def _in_order(self) -> CellHashes:
        """The same with the rows of every cell sorted, in place."""
        for words in self:
            if words.shape[1] == 1:
                words[:, 0].sort()
            else:
                words[...] = words[np.lexsort((words[:, 1], words[:, 0]))]
        return self

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[np.ndarray]:
        """The hashes of every cell."""
        return (self.words[a:b] for a, b in pairwise(self.starts.tolist()))

    def chosen(self, places: Indices) -> CellHashes:
        """Those of some cells, in a given order."""
        if not len(self.words):
            return CellHashes(np.zeros(len(places) + 1, dtype=np.intp), self.words)
        sizes = np.diff(self.starts)[places]
        ends = np.cumsum(sizes)
        rows = np.arange(int(sizes.sum())) + np.repeat(
            self.starts[:-1][places] - ends + sizes, sizes
        )
        return CellHashes(np.append(0, ends).astype(np.intp), self.words[rows])

    @staticmethod
    def joined(parts: Sequence[CellHashes]) -> CellHashes:
        """Those of several parts, one part after the other."""
        sizes = np.concatenate([np.diff(part.starts) for part in parts])
        hashed = [part.words for part in parts if len(part.words)] or [parts[0].words]
        return CellHashes(np.append(0, np.cumsum(sizes)).astype(np.intp), np.concatenate(hashed))

    def united(self, groups: Sequence[Indices]) -> CellHashes:
        """One cell from each list of cells."""
        together = self.chosen(np.concatenate(groups))
        ends = np.cumsum([len(group) for group in groups])
        return CellHashes(together.starts[np.append(0, ends)], together.words)._in_order()

    def cell_of(self, row: int) -> int:
        """The cell that a hash belongs to."""
        return int(np.searchsorted(self.starts, row, side="right")) - 1

    def repeated(self) -> int | None:
        """The cell of a key that occurs twice, in one cell or in two; None if there is none."""
        first = np.sort(self.words[:, 0])
        again = first[1:][first[1:] == first[:-1]]
        rows = np.flatnonzero(_among(self.words[:, 0], again))
        _, counts = np.unique(self.words[rows], axis=0, return_counts=True)
        return self.cell_of(int(rows[-1])) if (counts > 1).any() else None

    def shared(self, others: CellHashes) -> Indices:
        """The places of the keys that ``others`` has, too."""
        rows = np.flatnonzero(_among(self.words[:, 0], others.words[:, 0]))
        near = _among(others.words[:, 0], self.words[rows, 0])
        held = {(a, b) for a, b in others.words[near].tolist()}
        return rows[[pair in held for pair in map(tuple, self.words[rows].tolist())]]


def _among(values: np.ndarray, wanted: np.ndarray) -> Flags:
    """Whether each value is one of those wanted."""
    if not len(values) or not len(wanted):
        return np.zeros(len(values), dtype=bool)
    if len(wanted) > len(values):  # sort the shorter one
        ordered = np.sort(values)
        places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        wanted = wanted[ordered[places] == wanted]
    return np.isin(values, wanted, kind="sort")  # NumPy 2.0 overflows with a table of 64 bits


def mostly_there(held: Sequence[np.ndarray | None], new: CellHashes) -> tuple[int, int] | None:
    """How many of the new rows are there already, and of how many, if that is no accident.

    It is none where at least 95 % of the new rows are distinct, at least 90 % are in their cells
    already, and at least 95 % of the rows of these cells are distinct.

    Parameters
    ----------
    held : list of arrays or None
        For each of the new cells, the hashes of the cell of the same label, if there is one.
    new : CellHashes
    """
    there = distinct = held_rows = held_distinct = 0
    for before, words in zip(held, new, strict=True):
        distinct += _distinct(words)
        if before is not None:
            there += int(np.isin(words, before, kind="sort").sum())
            held_rows, held_distinct = held_rows + len(before), held_distinct + _distinct(before)
    rows = len(new.words)
    accident = (
        not there
        or distinct < DISTINCT * rows
        or there < THERE * rows
        or held_distinct < DISTINCT * held_rows
    )
    return None if accident else (there, rows)


def _distinct(words: np.ndarray) -> int:
    """The number of different hashes, which are sorted."""
    return int((words[1:] != words[:-1]).sum()) + 1 if len(words) else 0


def key_hashes(keys: np.ndarray) -> np.ndarray:
    """128 bits of every key, as two words; equal keys of any type have the same."""
    if keys.dtype.kind in "US":
        texts = (key.encode("utf-8", "surrogatepass") for key in keys.astype(str).tolist())
        digests = b"".join(blake2b(text, digest_size=16).digest() for text in texts)
        return np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)
    numbers, kinds = key_numbers(keys)
    return np.column_stack([first_word(numbers, kinds), mixed(numbers * SECOND + kinds)])


def require_one_kind(kinds: set[str], column: str | None) -> None:
    """Raise if keys are of several kinds."""
    if len(kinds) > 1:
        raise InputError(
            f"Some keys in column {column!r} are {' and others are '.join(sorted(kinds))}, so rows"
            " that come again would not be found. Convert the column (of a CSV file, with"
            f" karat.io.csv_files(..., dtype={{{column!r}: 'int'}}), or 'str').",
            column=column,
        )


class HashRows:
    """Hashes rows as they are sorted into cells.

    The rows of every file have sums, too: those of :mod:`karat.io.row_hashes`, and a third one of
    the rows with their labels.

    Parameters
    ----------
    columns : list of str
        What is hashed of each row.
    gaps : bool
        Numbers may be missing.
    """

    def __init__(self, columns: Sequence[str], gaps: bool) -> None:
        self.rows = RowHashes(columns, gaps)
        self.files: dict[int, np.ndarray] = {}
        self.labels = np.zeros(0, dtype=np.uint64)  # a word for every label so far
        self.cells: list[np.ndarray] = []  # the numbers of the cells of the rows so far
        self.words: list[np.ndarray] = []  # their hashes
        self.kinds: set[str] = set()  # of keys

    def add(self, chunk: Chunk, batch: Batch, codes: Indices, used: Any, labels: Labelled) -> None:
        """Add the rows of a chunk, of which ``used`` are in the batch.

        ``codes`` are the numbers of the labels of all rows of the chunk.
        """
        if len(labels) > len(self.labels):
            self.labels = np.append(self.labels, _label_words(list(labels)[len(self.labels) :]))
        rows = self.rows.each(chunk.table)
        if len(rows):
            labelled = mixed(rows + self.labels[codes])
            sums = np.array([rows.sum(), (rows * rows).sum(), labelled.sum()], dtype=np.uint64)
            self.files[chunk.file] = self.files.get(chunk.file, NOTHING) + sums
        self.cells.append(codes[used].astype(np.uint32))
        if batch.keys is not None and len(batch.keys):
            self.kinds.add(key_kind(batch.keys))
        self.words.append(rows[used, None] if batch.keys is None else key_hashes(batch.keys))

    def by_cell(self) -> CellHashes:
        """The hashes of all cells, in the order of their numbers."""
        codes, words = np.concatenate(self.cells), np.concatenate(self.words)
        return CellHashes.sorted_by_cell(codes, words, len(self.labels))

    def add_sums(self, files: dict[int, np.ndarray], kinds: set[str]) -> None:
        """Add the sums of another partition, and its kinds of keys; all partitions are one file."""
        together = [NOTHING, *self.files.values(), *files.values()]
        self.files = {0: np.stack(together).sum(axis=0)}
        self.kinds = self.kinds | kinds

    def total(self) -> list[str]:
        """Two sums of all rows."""
        sums = np.stack([NOTHING, *self.files.values()]).sum(axis=0)
        return [f"{word:016x}" for word in sums[:2].tolist()]

    def of_files(self) -> list[list[str]]:
        """Three sums for every file."""
        return [[f"{word:016x}" for word in sums.tolist()] for sums in self.files.values()]


def _label_words(labels: Sequence[Any]) -> np.ndarray:
    """64 bits of every label."""
    digests = (
        blake2b(repr(label).encode("utf-8", "surrogatepass"), digest_size=8) for label in labels
    )
    return np.array([int.from_bytes(digest.digest(), "little") for digest in digests], np.uint64)


def part_names(by: Sequence[str], labels: Sequence[Any], batch: str) -> tuple[tuple[str, ...], ...]:
    """A name for what a batch adds to each cell, the same whenever the batch is read.

    The first four characters tell the columns of labels: names of the same columns are different
    for different rows of a batch (:func:`karat.core.provenance.same_source`).
    """
    columns = blake2b(repr(tuple(by)).encode("utf-8", "surrogatepass"), digest_size=2).hexdigest()
    texts = (f"{batch} {label!r}".encode("utf-8", "surrogatepass") for label in labels)
    return tuple((columns + blake2b(text, digest_size=6).hexdigest(),) for text in texts)


def label_digest(labels: Sequence[Any], counts: np.ndarray) -> str:
    """A digest of the labels and their numbers of rows, to tell relabelled rows apart."""
    counted = sorted((repr(label), n) for label, n in zip(labels, counts.tolist(), strict=True))
    return sha256(repr(counted).encode()).hexdigest()[:16]


def kept_digest(weights: np.ndarray, columns: Sequence[np.ndarray]) -> str:
    """A digest of the kept rows, for a batch whose rows are not hashed."""
    return sha256(np.column_stack([weights, *columns]).astype(float).tobytes()).hexdigest()


def old_part_names(
    weights: np.ndarray, numbers: np.ndarray, column: np.ndarray, starts: Indices
) -> tuple[tuple[str, ...], ...]:
    """The names that older versions gave to cells, by their kept rows."""
    rows = np.column_stack([weights, numbers, column]).astype(float)
    digests = (sha256(rows[a:b].tobytes()).hexdigest() for a, b in pairwise(starts.tolist()))
    return tuple((digest[:32],) for digest in digests)
