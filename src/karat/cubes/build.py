"""The cells of any data: frames, files, queries, streams, and Dask and Spark frames.

    rows of a batch  -> the cell of each row, and its number within the cell
    wait             -> until the rows fill their share of the memory
    fold             -> every cell that has many rows keeps a few
                     (:class:`karat.cubes.reduce.Reducer`)

in one pass and bounded memory.  A cell whose rows arrive together is reduced once.  Other cells are
reduced again when more rows have arrived, together with the rows that they hold.  On a cluster,
workers make the cells of their partitions, which are merged in a tree; kept rows and hashes are
sent.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karat import __version__
from karat.cluster.partitions import cluster_of, scan_partitions
from karat.core.certify import Certificate
from karat.core.synthetic import REAL
from karat.cubes.cells import CellLayout, Cells, cell_name, in_order, label_list, starts_of
from karat.cubes.fourth import GatherFourth
from karat.cubes.hashes import (
    CellHashes,
    HashRows,
    kept_digest,
    label_digest,
    part_names,
    require_one_kind,
)
from karat.cubes.labels import Labels
from karat.cubes.merge import joined_cells, merge_cells
from karat.cubes.reduce import TOO_LONG, Reducer, too_long, with_made
from karat.data.batch import Batch, joined
from karat.engine.linalg import Indices
from karat.engine.rows import Progress
from karat.errors import InputError
from karat.io.find import open_source
from karat.io.scan import Consumer, require_rows, scan
from karat.io.source import Chunk
from karat.problems import Problem

if TYPE_CHECKING:
    from karat.cubes.verify import Present

BATCH = 2**19  # rows that are read at a time
SHARE = 4  # rows wait in a quarter of the memory; the rest is for sorting and reducing
MANY = 4  # rows per feature above which a cell is reduced before the end


def gather_cells(
    data: Any, layout: CellLayout, problem: Problem, seed: int, origin: int, memory: int,
    content: bool, progress: Progress | None = None, present: Present | None = None,
    either: bool = False,
) -> tuple[Cells, dict[str, Any], CellLayout]:  # fmt: skip
    """The cells of some rows, the record of the change, and the layout of the columns.

    ``origin`` is the number of the change; ``present`` looks for kept rows among the rows.  With
    ``either``, cells keep real rows if the data has integers that synthetic rows do not have.
    """
    cluster = cluster_of(data)
    if cluster is not None:
        cell_layout = layout.named(cluster.frame_schema(data).names)
        make = partial(CollectCells, problem, cell_layout, seed, memory, present, content, either)
        collector, facts = scan_partitions(data, cell_layout, make)
        source: dict[str, Any] = {"given": [], "files": []}
        rows, dropped = facts.rows, {"missing": facts.missing, "broken": 0}
    else:
        opened = open_source(data)
        cell_layout = layout.among(opened.schema())
        collector = CollectCells(problem, cell_layout, seed, memory, present, content, either)
        files = opened.identity()
        position = scan(opened, cell_layout, [collector], BATCH, progress=progress)
        require_rows(opened, cell_layout, position)
        source = opened.described(files, position.counts)
        rows, dropped = position.rows, {"missing": position.dropped, "broken": position.bad}
    if present is not None:
        present.found |= collector.present.found
    cells = collector.cells()
    if not len(cells):
        raise InputError("The data has no rows that can be used; a cube needs at least one.")
    if not cells.sizes.all():
        name = cell_name(cells, layout.by, int(np.argmin(cells.sizes)))
        raise InputError(
            f"Cell {name} has no row of positive weight; leave its rows out or correct their"
            " weights."
        )
    hashing = collector.hashing
    if hashing is not None:
        require_one_kind(hashing.kinds, layout.roles.key)
    repeated = cells.hashes.repeated() if layout.roles.key is not None else None
    if repeated is not None:
        raise InputError(
            f"A key of column {layout.roles.key!r} comes twice; one of its rows is in cell"
            f" {cell_name(cells, layout.by, repeated)}. Pass every source once, and a key column"
            " without repeated values.",
            column=layout.roles.key,
        )
    # Labels have a digest of their own, which a rollup can drop when it changes the labels.
    labels = label_list(cells)
    sums = None if hashing is None else [*hashing.total(), label_digest(labels, cells.counts)]
    record = {"source": source, "rows": rows, "dropped": dropped, "content": sums}
    if hashing is not None:
        record["file_content"] = hashing.of_files()
        record |= {"keys": sorted(hashing.kinds)} if hashing.kinds else {}
    batch = kept_digest(cells.weights, cells.columns) if sums is None else " ".join(sums)
    parts = part_names(layout.by, labels, batch)
    origins = ((origin,),) * len(cells)
    return replace(cells, origins=origins, parts=parts), record, collector.layout


def stamped(record: dict[str, Any]) -> dict[str, Any]:
    """A record of a change, with the time and the version."""
    return {"karat": __version__, "time": datetime.now(UTC).isoformat(timespec="seconds")} | record


class CollectCells(Consumer):
    """Sorts rows into cells, and keeps a few of each.

    Parameters
    ----------
    problem : Problem
    layout : CellLayout
        Which knows its columns.
    seed : int
    memory : int
        Bytes that may be used.
    present : Present, optional
        Looks for kept rows among the new rows; the argument itself is not changed.
    content : bool
        Hash the rows.
    either : bool
        Keep real rows if there are integers that synthetic rows do not have.
    """

    def __init__(
        self,
        problem: Problem,
        layout: CellLayout,
        seed: int,
        memory: int,
        present: Present | None = None,
        content: bool = False,
        either: bool = False,
    ) -> None:
        self.hashing = HashRows(layout.roles.columns, layout.gaps) if content else None
        self.reducer, self.layout, self.either = Reducer.of(problem, layout, seed), layout, either
        # rows that may wait
        self.most = max(10**5, memory // (SHARE * 8 * (len(layout.columns) + 3)))
        self.present = None if present is None else present.emptied()
        self.fourth = None
        if layout.cov is not None:
            self.fourth = GatherFourth(len(self.reducer.names), memory)
        self.labels = Labels(layout)
        # rows that wait or are held: their groups are the numbers of cells, their parts flat
        self.pieces: list[Batch] = []
        self.claims: dict[int, Certificate] = {}  # of the cells that hold rows for others
        self.counts = np.zeros(0, dtype=np.int64)  # rows of each cell so far
        self.seen = self.waiting = 0
        self.merged: Cells | None = None  # those of several partitions

    def add(self, chunk: Chunk, batch: Batch) -> None:
        codes = self.labels.codes(chunk.table, chunk.where)
        used = batch.numbers - self.seen if len(batch) < chunk.table.num_rows else slice(None)
        if self.hashing is not None:
            self.hashing.add(chunk, batch, codes, used, self.labels.numbers)
        codes = codes[used]
        self.seen += chunk.table.num_rows
        if len(batch):
            columns = [np.asarray(part)[:, 0] for part in batch.parts]
            if self.present is not None:
                self.present.look(self.labels, codes, columns, batch.keys)
            if self.fourth is not None:
                self.fourth.add(codes, columns, batch.weights)
            self.pieces.append(
                Batch(columns, self._numbered(codes), batch.weights, codes, batch.keys)
            )
            self.waiting += len(batch)
            if self.waiting >= self.most:
                self.fold(MANY * self.reducer.width)

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
        if self.layout.makes_rows:
            self._check_doubles()
        piece, codes = self._waiting()
        self.pieces = []
        positive = None if piece.weights is None else piece.weights > 0
        counts = np.bincount(
            codes if positive is None else codes[positive], minlength=len(self.labels)
        )
        many = counts > least
        # Cells without new rows since their last reduction stay unchanged.
        many[[c for c, claim in self.claims.items() if claim.n_rows == self.counts[c]]] = False
        order = _sorted(codes, len(counts))
        chosen = many[codes[order]]
        if positive is not None:
            chosen &= positive[order]
        rest, order = order[~chosen], order[chosen]
        cells = np.flatnonzero(many)
        starts = starts_of(counts[cells])
        sorted_rows = piece.take(order)
        if self.layout.makes_rows:
            doubles = [column.astype(float, copy=False) for column in sorted_rows.parts]
            sorted_rows = replace(sorted_rows, parts=doubles)
        claims = [[self.claims[c]] if c in self.claims else [] for c in cells.tolist()]
        kept = self.reducer.reduce(
            sorted_rows.parts,
            sorted_rows.weights,
            starts,
            self.counts[cells],
            claims,
            lambda g: self._name(int(cells[g])),
        )
        held = np.concatenate(
            [start + result.positions for start, result in zip(starts[:-1], kept, strict=True)]
            or [order[:0]]
        )
        reduced = sorted_rows.take(
            held, np.concatenate([result.weights for result in kept] or [np.zeros(0)])
        )
        columns, numbers = with_made(kept, reduced.parts, reduced.numbers)
        reduced = replace(reduced, parts=columns, numbers=numbers)
        self.claims |= {
            c: result.certificate for c, result in zip(cells.tolist(), kept, strict=True)
        }
        self.pieces = [reduced] if not len(rest) else [reduced, piece.take(rest)]
        self.waiting = sum(map(len, self.pieces))
        # With many cells, the held rows alone may reach the limit; do not fold them repeatedly.
        self.most = max(self.most, 2 * self.waiting)

    def _check_doubles(self) -> None:
        """Raise if doubles do not hold the rows that wait; or keep real rows, if no cell has been
        reduced.
        """
        long = [place for piece in self.pieces if (place := too_long(piece.parts)) is not None]
        if long and not (self.either and not self.claims):
            name = self.reducer.names[long[0]]
            raise InputError(TOO_LONG.format(name), column=name)
        if long:
            self._keep(REAL)

    def _keep(self, rows: str) -> None:
        """Keep rows of a kind from now on."""
        self.layout = replace(self.layout, rows=rows)
        self.reducer = replace(self.reducer, makes_rows=self.layout.makes_rows)

    def cells(self) -> Cells:
        """All cells.  A label whose rows were all dropped has no cell; a cell whose rows all have
        weight zero keeps no row.
        """
        if self.merged is not None:
            return self.merged
        if not self.pieces:
            return _no_cells(len(self.layout.by), len(self.reducer.names))
        self.fold()
        there = np.flatnonzero(self.counts)
        rows, codes = self._waiting()
        order = _sorted(codes, len(self.labels))
        order = order[np.asarray(rows.weights)[order] > 0]
        rows = rows.take(order)
        labels = self.labels.arrays(there)
        sizes = np.bincount(codes[order], minlength=len(self.labels))[there]
        problem = self.reducer.problem
        claims = [
            self.claims.get(cell) or _no_weight(problem, int(self.counts[cell]))
            for cell in there.tolist()
        ]
        columns, keys = rows.parts, rows.keys
        if self.layout.makes_rows:
            columns, keys = [column.astype(float, copy=False) for column in columns], None
        unordered = Cells(
            labels, starts_of(sizes), tuple(columns), np.asarray(rows.weights), rows.numbers,
            keys, tuple(claims), ((0,),) * len(there), ((),) * len(there),
            CellHashes.none(len(there))
            if self.hashing is None
            else self.hashing.by_cell().chosen(there),
            None if self.fourth is None else self.fourth.of(there),
        )  # fmt: skip
        return unordered.chosen(in_order(labels, len(there))[0])

    def _waiting(self) -> tuple[Batch, Indices]:
        """All rows that wait or are held, and the cell of each."""
        rows = joined(self.pieces)
        return rows, np.asarray(rows.groups)

    def pack(self) -> bytes:
        found = None if self.present is None else self.present.found
        sums = None if self.hashing is None else (self.hashing.files, self.hashing.kinds)
        return pickle.dumps((self.cells(), found, sums, self.layout.rows))

    def unpack(self, message: bytes) -> CollectCells:
        other = copy(self)
        other.merged, present_rows, sums, rows = pickle.loads(message)
        other._keep(rows)
        if self.present is not None:
            other.present = self.present.emptied()
            other.present.found = present_rows
        if self.hashing is not None:
            other.hashing = HashRows(self.layout.roles.columns, self.layout.gaps)
            other.hashing.add_sums(*sums)
        return other

    def merge_all(self, others: Sequence[Any]) -> None:
        parts = [self, *others]
        kinds = {part.layout.rows for part in parts if len(part.cells())}
        if len(kinds) > 1:
            raise InputError(
                "Some partitions have integers beyond 2**53, which synthetic rows do not have:"
                " build the cube with rows='real'."
            )
        self._keep(*kinds or {self.layout.rows})
        self.merged = merge_cells(self.reducer, joined_cells([part.cells() for part in parts]))
        for other in others:
            if self.present is not None:
                self.present.found |= other.present.found
            if self.hashing is not None:
                self.hashing.add_sums(other.hashing.files, other.hashing.kinds)


def _sorted(codes: Indices, most: int) -> Indices:
    """The stable order of codes; 16-bit codes are sorted by radix sort, which is faster."""
    return np.argsort(codes.astype(np.uint16) if most <= 2**16 else codes, kind="stable")


def _no_cells(labels: int, columns: int) -> Cells:
    """Zero cells, with the given numbers of label columns and of data columns."""
    none, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
    return Cells(
        (none,) * labels, starts_of(whole), (none,) * columns, none, whole, None, (), (), (),
        CellHashes.none(0),
    )  # fmt: skip


def _no_weight(problem: Problem, count: int) -> Certificate:
    """The certificate of a cell of ``count`` rows of weight zero: no row is kept, and the error is
    zero.

    Rows of the same label may have weights in other partitions of the data.
    """
    return Certificate(
        loss_error=0.0, rounding=0.0, remainder=0.0, moment_error=0.0, total_error=0.0, rank=0,
        size=0, bound=0, condition=1.0, excluded_directions=(), method="no row", passes=1,
        seconds=0.0, keeps=problem.keeps, excludes=problem.excludes, n_rows=count, spent=0.0,
    )  # fmt: skip
