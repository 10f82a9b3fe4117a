"""Cells of rows in files, frames and databases: one pass, bounded memory.

    rows of a batch   -> the number of the cell of each, and its number within the cell
    wait              -> until they fill the memory that they may take
    fold              -> every cell that has many rows keeps a few (:class:`karat._cube.reduce.Reducer`)

Cells of which all rows come together are reduced once.  Others are reduced again when more rows have come, together with the
rows that they hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat._core.certify import Certificate
from karat._cube.cells import Cells, in_order, no_cells, starts_of
from karat._cube.layout import CellLayout, Labels
from karat._cube.present import Present
from karat._cube.reduce import Reducer
from karat._data.batch import Batch, joined
from karat.engine.linalg import Indices
from karat.engine.rows import Progress
from karat.errors import InputError
from karat.io.build import described_source
from karat.io.consumers import Consumer, Hashes
from karat.io.row_hashes import RowHashes
from karat.io.scan import Position, scan
from karat.io.source import Chunk, Source
from karat.problems import Problem

BATCH = 2**19  # rows that are read at a time
SHARE = 4  # parts of the memory: rows wait in one, and are sorted and reduced in others
MANY = 4  # rows per feature above which a cell is reduced before the end


class CollectCells(Consumer):
    """Sorts rows into cells, and keeps a few of each.

    Parameters
    ----------
    reducer : Reducer
    layout : CellLayout
    most : int
        Rows that may wait.
    present : Present, optional
        Looks for kept rows among those that come.
    """

    def __init__(self, reducer: Reducer, layout: CellLayout, most: int, present: Present | None = None) -> None:
        self.reducer, self.layout, self.most, self.present = reducer, layout, most, present
        self.labels = Labels(layout)
        self.pieces: list[Batch] = []  # rows that wait or are held: their groups are the numbers of cells, their parts flat
        self.claims: dict[int, Certificate] = {}  # of the cells that hold rows for others
        self.counts = np.zeros(0, dtype=np.int64)  # rows of each cell so far
        self.seen = self.waiting = 0

    def add(self, chunk: Chunk, batch: Batch) -> None:
        codes = self.labels.codes(chunk.table, chunk.where)
        if len(batch) < chunk.table.num_rows:
            codes = codes[batch.numbers - self.seen]
        self.seen += chunk.table.num_rows
        if len(batch):
            columns = [np.asarray(part)[:, 0] for part in batch.parts]
            if self.present is not None:
                self.present.look(self.labels, codes, columns, batch.keys)
            self.pieces.append(Batch(columns, self._numbered(codes), batch.weights, codes, batch.keys))
            self.waiting += len(batch)
            if self.waiting >= self.most:
                self.fold(MANY * self.reducer.kernel.width)

    def _numbered(self, codes: Indices) -> np.ndarray:
        """The number of each row within its cell."""
        counts = np.bincount(codes, minlength=len(self.labels))
        before = np.zeros(len(self.labels), dtype=np.int64)
        before[: len(self.counts)] = self.counts
        order = _sorted(codes, len(counts))
        numbers = np.empty(len(codes), dtype=np.int64)
        starts = np.cumsum(counts) - counts
        numbers[order] = np.arange(len(codes)) - np.repeat(starts - before, counts)
        self.counts = before + counts
        return numbers

    def _name(self, cell: int) -> str:
        labels = zip(self.layout.by, self.labels.arrays(np.array([cell])), strict=True)
        return f"Cell {', '.join(f'{name}={values[0]}' for name, values in labels)}"

    def fold(self, least: int = 0) -> None:
        """Reduce the cells that have more than ``least`` rows; the rows of others wait on."""
        if not self.pieces:
            return
        piece, codes = self._waiting()
        self.pieces = []
        positive = None if piece.weights is None else piece.weights > 0
        counts = np.bincount(codes if positive is None else codes[positive], minlength=len(self.labels))
        many = counts > least
        many[[c for c, claim in self.claims.items() if claim.n_rows == self.counts[c]]] = False  # nothing has come since
        order = _sorted(codes, len(counts))
        chosen = many[codes[order]]
        if positive is not None:
            chosen &= positive[order]
        rest, order = order[~chosen], order[chosen]
        cells = np.flatnonzero(many)
        starts = starts_of(counts[cells])
        sorted_rows = piece.take(order)
        claims = [[self.claims[c]] if c in self.claims else [] for c in cells.tolist()]
        kept = self.reducer.reduce(
            sorted_rows.parts, sorted_rows.weights, starts, self.counts[cells], claims, lambda g: self._name(int(cells[g]))
        )
        held = np.concatenate([start + one.positions for start, one in zip(starts[:-1], kept, strict=True)] or [order[:0]])
        reduced = sorted_rows.take(held, np.concatenate([one.weights for one in kept] or [np.zeros(0)]))
        self.claims |= {c: one.certificate for c, one in zip(cells.tolist(), kept, strict=True)}
        self.pieces = [reduced] if not len(rest) else [reduced, piece.take(rest)]
        self.waiting = sum(map(len, self.pieces))
        self.most = max(self.most, 2 * self.waiting)  # many cells: what they hold must not be folded again and again

    def cells(self, origin: int) -> Cells:
        """All cells; ``origin`` is the number of the change that they are part of.

        A label all of whose rows were left out, because they lack values, is no cell.
        """
        if not self.pieces:
            return no_cells(len(self.layout.by), len(self.reducer.names))
        self.fold()
        there = np.flatnonzero(self.counts)
        empty = [cell for cell in there.tolist() if cell not in self.claims]
        if empty:
            raise InputError(
                f"{self._name(empty[0])} has no row of positive weight; leave its rows out or correct their weights."
            )
        rows, codes = self._waiting()
        order = _sorted(codes, len(self.labels))
        order = order[np.asarray(rows.weights)[order] > 0]
        rows = rows.take(order)
        labels = self.labels.arrays(there)
        sizes = np.bincount(codes[order], minlength=len(self.labels))[there]
        found = Cells(
            labels, starts_of(sizes), tuple(rows.parts), np.asarray(rows.weights), rows.numbers, rows.keys,
            tuple(self.claims[c] for c in there.tolist()), ((origin,),) * len(there),
        )  # fmt: skip
        return found.chosen(in_order(labels, len(there))[0])

    def _waiting(self) -> tuple[Batch, Indices]:
        """All rows that wait or are held, and the cell of each."""
        rows = joined(self.pieces)
        return rows, np.asarray(rows.groups)


def collect(
    source: Source, layout: CellLayout, problem: Problem, seed: int, origin: int, memory: int, content: bool,
    progress: Progress | None = None, present: Present | None = None,
) -> tuple[Cells, dict[str, Any], Position]:  # fmt: skip
    """The cells of a source, what is to be remembered of it, and what was read; ``layout`` knows its columns."""
    each = 8 * (len(layout.columns) + 3)
    collector = CollectCells(new_reducer(problem, layout, seed), layout, max(10**5, memory // (SHARE * each)), present)
    hashes = [Hashes(RowHashes(layout.roles.columns, layout.gaps))] if content else []  # labels: see karat._cube.gather
    files = source.identity()
    position = scan(source, layout, [*hashes, collector], BATCH, progress=progress)
    found = {
        "source": described_source(source, files, position.counts),
        "rows": position.rows,
        "dropped": {"missing": position.dropped, "broken": position.bad},
        "content": hashes[0].rows.to_dict()["sums"] if hashes else None,
    }
    return collector.cells(origin), found, position


def new_reducer(problem: Problem, layout: CellLayout, seed: int) -> Reducer:
    """For the rows of a layout that knows its columns."""
    features, targets = layout.roles.features, layout.roles.targets
    return Reducer(problem, features + targets, len(targets), seed)


def _sorted(codes: Indices, most: int) -> Indices:
    """The order of codes; few codes are sorted by counting."""
    return np.argsort(codes.astype(np.uint16) if most <= 2**16 else codes, kind="stable")
