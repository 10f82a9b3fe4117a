"""Discrete regressors: rows with equal regressors are joined before anything else is done.

If all columns that the terms read have few distinct values, a cell is a combination of these.
Per cell the pass keeps the number of rows f and the sums of d = y - c and d^2, where c is a mean of
the cell's first rows.  With the mean m and the variance s^2 of a cell, two rows of frequency f / 2,

    y = m + s   and   y = m - s,

have the same sums of 1, y and y^2, so they have the same coefficients, residual sum of squares,
HC0 to HC3 (sum f e^2 z z'; leverages are those of single rows) and, if the cluster's label is one
of the values, sums of scores by cluster.  Doubles round m + s, so cells are used only if that is
below 1e-12 of the typical s; the certificate is charged with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from karat.core.coreset import Coreset
from karat.core.provenance import with_provenance
from karat.data import containers
from karat.data.batch import Batch
from karat.engine.linalg import Array
from karat.formulas.layout import DesignLayout, FormulaLayout
from karat.formulas.passes import SourceRows
from karat.io.scan import Consumer, Position, scan
from karat.io.source import Chunk, Source

RESPONSE, FREQUENCY = "(response)", "(frequency)"  # columns of the table of cells
FEWEST_ROWS = 2**15  # of the first chunk; fewer are read as they are
MOST_VALUES = 2**12  # of a column
MOST_CELLS = 2**22  # addresses
SHARE = 4  # rows for each cell in the first chunk
ROUNDED = 1e-12  # what rounding a row may change, relative to the typical deviation in a cell
SUMMED = 16 * np.finfo(float).eps  # of sums within a chunk and over chunks, and the row itself


class NotDiscreteError(Exception):
    """The rows have too many different regressors, or some that cannot be cells."""


@dataclass
class CellSums(Consumer):
    """Counts and sums of the response by cell.

    Parameters
    ----------
    layout : FormulaLayout
    keys : tuple of str
        The columns whose values make a cell.
    """

    layout: FormulaLayout
    keys: tuple[str, ...]
    rows: int = 0
    values: list[dict[Any, int]] = field(default_factory=list)  # codes of each column
    shape: tuple[int, ...] = ()  # room for codes of each column
    # by address: rows, c, and sums of d and d^2
    sums: Array = field(default_factory=lambda: np.zeros((4, 0)))
    largest: float = 0.0

    def add(self, chunk: Chunk, batch: Batch) -> None:
        table, rows, where = self.layout.complete(chunk.table, chunk.where)
        if not self.rows and len(rows) < FEWEST_ROWS:
            raise NotDiscreteError
        if not len(rows):
            return
        everything = np.ones(len(rows), dtype=bool)
        response = self.layout.numbers(table, self.layout.formula.response, everything, where, {})
        if containers.rounds(response):
            raise NotDiscreteError
        addresses = self._addresses(table)
        self._add(addresses, response[:, 0].astype(float, copy=False))
        if not self.rows and SHARE * int((self.sums[0] > 0).sum()) > len(rows):
            raise NotDiscreteError
        self.rows += len(rows)

    def _addresses(self, table: Any) -> np.ndarray:
        """The address of the cell of every row."""
        self.values = self.values or [{} for _ in self.keys]
        coded = [
            self._codes(table.column(name), codes_of)
            for name, codes_of in zip(self.keys, self.values, strict=True)
        ]
        self._make_room()
        addresses = np.zeros(table.num_rows, dtype=np.int64)
        for codes, size in zip(coded, self.shape, strict=True):
            addresses *= size
            addresses += codes
        return addresses

    def _codes(self, column: Any, codes_of: dict[Any, int]) -> np.ndarray:
        """The codes of a column; new values get the next ones."""
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if column.null_count:
            raise NotDiscreteError  # the ordinary pass says where
        try:
            encoded = (
                column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
            )
        except pa.ArrowNotImplementedError:
            raise NotDiscreteError from None
        local = encoded.dictionary.to_pylist()
        if len(local) > MOST_VALUES or not all(map(_can_be_key, local)):
            raise NotDiscreteError
        codes = np.array(
            [codes_of.setdefault(value, len(codes_of)) for value in local], dtype=np.int64
        )
        return np.asarray(codes[encoded.indices.to_numpy(zero_copy_only=False)])

    def _make_room(self) -> None:
        """Addresses for all codes; the sums move if there are new ones."""
        room = self.shape or (1,) * len(self.keys)
        wanted = tuple(
            have if len(codes_of) <= have else 1 << (len(codes_of) - 1).bit_length()
            for have, codes_of in zip(room, self.values, strict=True)
        )
        if wanted == self.shape:
            return
        if np.prod([float(size) for size in wanted]) > MOST_CELLS:
            raise NotDiscreteError
        sums = np.zeros((4, *wanted))
        if self.shape:
            sums[(slice(None), *(slice(size) for size in self.shape))] = self.sums.reshape(
                4, *self.shape
            )
        self.shape, self.sums = wanted, sums.reshape(4, -1)

    def _add(self, addresses: np.ndarray, y: Array) -> None:
        counts, centre, first, second = self.sums
        size = len(counts)
        added = np.bincount(addresses, minlength=size)
        new = (counts == 0) & (added > 0)
        if new.any():
            means = np.bincount(addresses, y, size)
            centre[new] = means[new] / added[new]
        deviation = y - centre[addresses]
        counts += added
        first += np.bincount(addresses, deviation, size)
        second += np.bincount(addresses, deviation * deviation, size)
        self.largest = max(self.largest, float(np.abs(y).max()))
        if not np.isfinite(self.largest):
            raise NotDiscreteError  # the ordinary pass says where

    def table(self, schema: pa.Schema) -> tuple[pa.Table, float]:
        """Two rows for each cell, or one where the response is constant, and what rounding them
        may change, relative to the loss of any coefficients.
        """
        used = np.flatnonzero(self.sums[0])
        counts, centre, first, second = self.sums[:, used]
        mean = first / counts
        squares = np.maximum(second - mean * first, 0.0)
        typical = np.sqrt(squares.sum() / counts.sum())
        if not self.largest * np.finfo(float).eps <= ROUNDED * typical:
            raise NotDiscreteError
        spread = np.sqrt(squares / counts)
        double = spread > 0
        places = np.concatenate([np.arange(len(used)), np.flatnonzero(double)])
        sign = np.concatenate([np.ones(len(used)), -np.ones(int(double.sum()))])
        columns = {}
        for name, codes_of, codes in zip(
            self.keys, self.values, np.unravel_index(used, self.shape), strict=True
        ):
            kind = schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            columns[name] = pa.array(list(codes_of), type=kind).take(pa.array(codes[places]))
        columns[RESPONSE] = pa.array(centre[places] + (mean[places] + sign * spread[places]))
        columns[FREQUENCY] = pa.array(counts[places] / np.where(double[places], 2, 1))
        return pa.table(columns), float(SUMMED * (1 + self.largest / typical))


def _can_be_key(value: Any) -> bool:
    """Whether a value is text or a finite number."""
    return isinstance(value, str | int) or (isinstance(value, float) and bool(np.isfinite(value)))


class CellRows(SourceRows):
    """The rows of cells, in the place of those of a source.

    Parameters
    ----------
    table : pyarrow.Table
    rows : SourceRows
        Those that the cells stand for.
    position : Position
        What the pass over them read.
    count : int
    rounding : float
    """

    def __init__(
        self, table: Source, rows: SourceRows, position: Position, count: int, rounding: float
    ) -> None:
        super().__init__(table, rows.declared, None)
        self.all_doubles = rows.all_doubles
        self.described, self.position = rows.source, position
        self.count, self.rounding = count, rounding

    def coreset(self, layout: DesignLayout) -> Coreset:
        """The coreset of all rows."""
        core = super().coreset(layout)
        source = self.described.described(self.described.identity(), self.position.counts)
        dropped = {"missing": self.position.dropped, "broken": self.position.bad}
        provenance = layout.provenance(core.problem, 0, source, dropped, None)
        note = "Rows with equal regressors were joined in one pass, before the coreset was made."
        certificate = replace(
            core.certificate,
            loss_error=core.certificate.loss_error + self.rounding,
            notes=(*core.certificate.notes, note),
        )
        core = replace(core, n_rows=self.count, certificate=certificate)
        return with_provenance(core, provenance)


def as_cells(rows: Any, layout: FormulaLayout, keys: tuple[str, ...]) -> list[CellRows] | None:
    """The rows of the cells for every response, or None if the regressors are not discrete."""
    if not isinstance(rows, SourceRows) or rows.source.once or not keys:
        return None
    formulas = layout.formula.each()
    named = [name for formula in formulas for name in formula.response.variables]
    layout = replace(layout, only=tuple(dict.fromkeys([*keys, *named])))
    consumers = [CellSums(replace(layout, formula=formula), keys) for formula in formulas]
    try:
        position = scan(rows.source, layout, consumers, rows.rows_at_once, progress=rows.progress)
        tables = [consumer.table(rows.schema()) for consumer in consumers]
    except NotDiscreteError:
        return None
    return [
        CellRows(rows.opened(table), rows, position, consumer.rows, rounding)
        for consumer, (table, rounding) in zip(consumers, tables, strict=True)
    ]
