"""The cells of any data: frames, files, queries, streams, and Dask and Spark frames.

    rows of a batch  -> the cell of each row, and its number within the cell
    wait             -> until the rows fill their share of the memory
    fold             -> every cell that has many rows keeps a few
                     (:class:`karat.cubes.reduce.Reducer`)
    together         cells that kept rows in several folds become one (:mod:`karat.cubes.merge`)

in one pass and bounded memory.  A cell whose rows arrive together is reduced once; other cells once
in every fold and once at the end, so that errors add up twice, and not as often as there are folds.
On a cluster, workers make the cells of their partitions, which are merged in a tree; kept rows and
hashes are sent.
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
from karat.cubes.cells import (
    CellLayout,
    Cells,
    Labels,
    cell_name,
    in_order,
    label_list,
    starts_of,
)
from karat.cubes.fourth import check_room, fourth_moments
from karat.cubes.hashes import (
    CellHashes,
    HashRows,
    kept_digest,
    label_digest,
    part_names,
    require_one_kind,
)
from karat.cubes.merge import joined_cells, merge_cells
from karat.cubes.reduce import TOO_LONG, Reducer, positions_of, too_long, with_made
from karat.data.batch import Batch, joined, joined_weights
from karat.data.containers import partition_library
from karat.engine.linalg import Flags, Indices
from karat.engine.rows import Progress, Rows
from karat.errors import InputError
from karat.io.find import open_source
from karat.io.scan import Consumer, require_rows, scan
from karat.io.source import Chunk
from karat.problems import Problem

if TYPE_CHECKING:
    from karat.cubes.verify import Present

BATCH = 2**19  # rows that are read at a time
SHARE = 3  # rows wait in a third of the memory; the rest is for one copy, and reducing
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
    if partition_library(data) is not None:
        cell_layout = layout.named(cluster_of(data).frame_schema(data).names)
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
        self.labels, self.memory = Labels(layout), memory
        self.pieces: list[Batch] = []  # rows that wait; their groups are the numbers of cells
        # cells of the rows that do not wait any more, labelled by their numbers; a cell may have
        # rows in several parts, which are merged at the end
        self.parts: list[Cells] = []
        self.seen = self.waiting = 0
        self.merged: Cells | None = None  # all cells, when all rows have come

    def add(self, chunk: Chunk, batch: Batch) -> None:
        codes = self.labels.codes(chunk.table, chunk.where)
        used = batch.numbers - self.seen if len(batch) < chunk.table.num_rows else slice(None)
        if self.hashing is not None:
            self.hashing.add(chunk, batch, codes, used, self.labels.numbers)
        codes = codes[used]
        self.seen += chunk.table.num_rows
        if len(batch):
            if self.present is not None:
                columns = [part[:, 0] for part in batch.parts]
                self.present.look(self.labels, codes, columns, batch.keys)
            self.pieces.append(replace(batch, groups=codes))
            self.waiting += len(batch)
            if self.waiting >= self.most:
                self.fold(MANY * self.reducer.width)

    def _name(self, cell: int) -> str:
        labels = zip(self.layout.by, self.labels.arrays(np.array([cell])), strict=True)
        return f"Cell {', '.join(f'{name}={values[0]}' for name, values in labels)}"

    def fold(self, least: int = 0) -> None:
        """Reduce the rows of cells that have more than ``least`` rows; those of others wait on."""
        if not self.pieces:
            return
        if self.layout.makes_rows:
            self._check_doubles()
        codes = np.concatenate([piece.groups for piece in self.pieces])
        weights = joined_weights(self.pieces)
        counts = np.bincount(codes, minlength=len(self.labels))
        sizes = (
            counts if weights is None else np.bincount(codes[weights > 0], minlength=len(counts))
        )
        many = sizes > least if least else counts > 0
        if many.any():
            self._reduce(codes, counts, sizes, many)
        held = sum(len(part.weights) for part in self.parts)
        again = sum(map(len, self.parts)) > 2 * len(self.labels) and self.layout.cov is not None
        if len(self.parts) > 1 and (again or 2 * held > self.most):
            self.parts = [self._together()]
            held = len(self.parts[0].weights)
        self.waiting = sum(map(len, self.pieces)) + held
        # With many cells, the held rows alone may reach the limit; do not fold them repeatedly.
        self.most = max(self.most, 2 * self.waiting)

    def _reduce(
        self, codes: Indices, counts: np.ndarray, sizes: np.ndarray, many: Flags
    ) -> None:  # fmt: skip
        """Reduce the rows that wait of ``many`` cells.

        ``codes`` are the cells of all rows that wait, ``counts`` their rows in each cell, and
        ``sizes`` those of positive weight.
        """
        doubles = self.layout.makes_rows or all(
            part.dtype == np.float64 for piece in self.pieces for part in piece.parts
        )
        batch, self.pieces = joined(self.pieces, doubles), []
        order, cells = _sorted(codes, len(counts)), np.flatnonzero(many)
        if not many.all():
            chosen = many[codes[order]]
            rest = batch.take(order[~chosen])
            if len(rest):
                columns = [column[:, None] for part in rest.parts for column in part.T]
                self.pieces = [replace(rest, parts=columns)]
            order = order[chosen]
        # rows of a cell are numbered in order of arrival; those of weight zero count
        numbers = np.arange(len(order)) - np.repeat(starts_of(counts[cells])[:-1], counts[cells])
        if batch.weights is not None:
            positive = batch.weights[order] > 0
            order, numbers = order[positive], numbers[positive]
        starts, full = starts_of(sizes[cells]), np.flatnonzero(sizes[cells])
        kept = self.reducer.reduce(
            Rows(batch.parts, batch.weights, order), starts[np.append(full, -1)],
            counts[cells][full], [()] * len(full), lambda g: self._name(int(cells[full[g]])),
        )  # fmt: skip
        held = positions_of(kept, starts[full])
        rows, lengths = batch.take(order[held]), np.zeros(len(cells), dtype=np.intp)
        lengths[full] = [len(result.positions) for result in kept]
        columns, made_numbers = with_made(
            kept, [column for part in rows.parts for column in part.T], numbers[held]
        )
        fourth = None
        if self.layout.cov is not None:
            check_room(len(self.labels), len(self.reducer.names), self.memory)
            fourth = fourth_moments(batch.parts, batch.weights, order, starts)
        proofs = dict(zip(full.tolist(), (result.certificate for result in kept), strict=True))
        self.parts.append(
            Cells(
                (cells,), starts_of(lengths), tuple(map(np.ascontiguousarray, columns)),
                np.concatenate([np.zeros(0), *(result.weights for result in kept)]), made_numbers,
                None if self.layout.makes_rows else rows.keys,
                tuple(
                    proofs.get(g) or _no_weight(self.reducer.problem, count)
                    for g, count in enumerate(counts[cells].tolist())
                ),
                ((0,),) * len(cells), ((),) * len(cells), CellHashes.none(len(cells)), fourth,
            )
        )  # fmt: skip

    def _together(self) -> Cells:
        """The cells of all parts, each once."""
        first, *others = self.parts
        return merge_cells(self.reducer, joined_cells(self.parts)) if others else first

    def _check_doubles(self) -> None:
        """Raise if doubles do not hold the rows that wait; or keep real rows, if no cell has been
        reduced.
        """
        long = [place for piece in self.pieces if (place := too_long(piece.parts)) is not None]
        if long and not (self.either and not self.parts):
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
        self.fold()
        if not self.parts:
            return _no_cells(len(self.layout.by), len(self.reducer.names))
        numbered = self._together()
        (cells,) = numbered.labels
        labels = self.labels.arrays(cells)
        order = in_order(labels, len(cells))[0]
        found = replace(numbered, labels=labels).chosen(order)
        if self.hashing is not None:
            found = replace(found, hashes=self.hashing.by_cell().chosen(cells[order]))
        self.parts, self.merged = [], found
        return found

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
