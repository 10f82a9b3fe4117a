"""From record batches to pieces of a stream: which columns are what, and what is done about missing values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from karat._data import containers, frames
from karat._data.batch import Piece
from karat._stream.sketch import Sketch
from karat.errors import InputError
from karat.io.source import DROP_ROWS, NOT_A_NUMBER, is_number, sort_of


@dataclass(frozen=True)
class Layout:
    """The roles of the columns.

    Attributes
    ----------
    features, targets : tuple of str
    weight, group, key : str or None
    pipeline : object or None
        A fitted transformer: features go through its ``transform`` first.
    drop : bool
        Leave rows with missing values out, instead of refusing them.
    """

    features: tuple[str, ...]
    targets: tuple[str, ...]
    weight: str | None
    group: str | None
    key: str | None
    pipeline: Any
    drop: bool

    @property
    def columns(self) -> list[str]:
        """All that must be read, each once."""
        roles = [*self.features, *self.targets, self.weight, self.group, self.key]
        return list(dict.fromkeys(c for c in roles if c is not None))

    @property
    def numeric(self) -> list[str]:
        """Columns that must hold numbers."""
        names = [*(self.features if self.pipeline is None else ()), *self.targets]
        return names if self.weight is None else [*names, self.weight]

    @property
    def gaps(self) -> bool:
        """Whether numbers that are missing may be read."""
        return self.drop or self.pipeline is not None

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that are not there, and text where numbers are needed, before anything is read."""
        for name in self.columns:
            if name not in schema.names:
                close = get_close_matches(name, schema.names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(schema.names)}."
                raise InputError(f"The data has no column {name!r}; {hint}")
        for name in self.targets:
            if name in self.features:
                raise InputError(f"Column {name!r} is the target, so it cannot be a feature; leave it out of the features.")
        for name in self.numeric:
            self._check_number(schema.field(name))

    def _check_number(self, field: pa.Field) -> None:
        culprit = (field.metadata or {}).get(NOT_A_NUMBER)
        if is_number(field) and (culprit is None or self.drop):  # rows without a number are then left out
            return
        if culprit is not None:
            raise InputError(culprit.decode(), DROP_ROWS, argument="on_missing", column=field.name)
        if field.name in self.targets:
            kind = "is text" if sort_of(field.type) == "text" else f"has type {field.type}"
            raise InputError(
                f"The target {field.name!r} {kind}; karat needs a numeric target: encode it as numbers, or choose another."
            )
        raise InputError(
            f"Column {field.name!r} has type {field.type}, which is not numeric.",
            "Leave it out of columns=, or encode it by a fitted pipeline=.",
            argument="pipeline",
            column=field.name,
        )

    def feed(self, sketch: Sketch, table: Any, where: Callable[[int], str]) -> int:
        """Let the sketch take the rows of a table; return how many were left out.  ``where`` puts a row in words."""
        piece, dropped = self.piece(table, sketch.n_rows, where)
        if len(piece):
            count = sum(p.shape[1] for p in piece.parts) - len(self.targets)
            names = self.feature_names(count)
            single = len(self.targets) == 1
            kind = "sparse" if sparse.issparse(piece.parts[0]) else "pyarrow"
            like = {"container": kind, "columns": names, "target": self.targets[0] if single else None, "flat": single}
            sketch._expect(count, len(self.targets), like, [repr(n) for n in [*names, *self.targets]])
            sketch._take(piece, owned=True)
        sketch.n_rows += table.num_rows
        return dropped

    def feature_names(self, count: int) -> list[str]:
        if self.pipeline is None:
            return list(self.features)
        given = getattr(self.pipeline, "get_feature_names_out", lambda: range(count))
        return [str(name) for name in given()]

    def piece(self, table: Any, number: int, where: Callable[[int], str]) -> tuple[Piece, int]:
        """Rows for a sketch, numbered from ``number`` on, and how many were left out."""
        keep = np.ones(table.num_rows, dtype=bool)
        parts = [self._numbers(table, name, keep, where) for name in self.targets]
        weights = None if self.weight is None else self._numbers(table, self.weight, keep, where)[:, 0].astype(float)
        if self.pipeline is None:
            parts = [self._numbers(table, name, keep, where) for name in self.features] + parts
        else:
            parts = [self._transformed(table, keep, where), *parts]
        groups, keys = (None if c is None else self._labels(table, c, where) for c in (self.group, self.key))
        if weights is not None and (weights[keep] < 0).any():
            row = int(np.flatnonzero((weights < 0) & keep)[0])
            raise InputError(f"{where(row)}: the weight in column {self.weight!r} is negative; weights must be at least 0.")
        piece = Piece(parts, np.arange(number, number + table.num_rows), weights, groups, keys)
        dropped = int(len(keep) - keep.sum())
        return (piece.take(keep) if dropped else piece), dropped

    def _numbers(self, table: Any, name: str, keep: np.ndarray, where: Callable[[int], str]) -> np.ndarray:
        column = table.column(name)
        if pa.types.is_decimal(column.type) or (pa.types.is_boolean(column.type) and column.null_count):
            column = column.cast(pa.float64())
        if self.drop and column.null_count and pa.types.is_integer(column.type):  # NaN would turn the others into doubles
            keep &= np.asarray(column.is_valid())
            column = column.fill_null(0)
        # Nulls become NaN; a column of a single chunk without nulls is not copied.
        values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
        if column.null_count == len(values):
            values = np.full(len(values), np.nan)
        elif values.dtype.kind == "O":  # booleans, some of them missing
            values = np.array([np.nan if value is None else float(value) for value in values])
        return self._checked(values[:, None], [name], keep, where)

    def _transformed(self, table: Any, keep: np.ndarray, where: Callable[[int], str]) -> Any:
        frame = table.select(list(self.features)).to_pandas()
        block = containers.as_table(self.pipeline.transform(frame), "The pipeline's output")
        if block.shape[0] != table.num_rows:
            raise InputError(f"The pipeline returned {block.shape[0]} rows for {table.num_rows}; it must keep every row.")
        if sparse.issparse(block):
            if not np.isfinite(block.data).all():
                raise InputError(f"{where(0)} or a later row of its batch: the pipeline returned values that are not finite.")
            return block
        return self._checked(block, [f"{i} of the pipeline" for i in range(block.shape[1])], keep, where)

    def _checked(self, values: np.ndarray, names: Sequence[str], keep: np.ndarray, where: Callable[[int], str]) -> np.ndarray:
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return values
        row, column = np.argwhere(np.isinf(values))[0] if np.isinf(values).any() else (-1, 0)
        if row >= 0:
            raise InputError(f"{where(int(row))}: column {names[column]!r} is infinite; drop or correct the row.")
        missing = np.isnan(values)
        if not self.drop:
            row, column = np.argwhere(missing)[0]
            count = int(missing[:, column].sum())
            raise InputError(
                f"{where(int(row))}: column {names[column]!r} has no value ({count:,} missing in this batch).",
                "Impute it, or leave such rows out with on_missing='drop'.",
                argument="on_missing",
                column=names[column],
            )
        keep &= ~missing.any(axis=1)
        return values

    def _labels(self, table: Any, name: str, where: Callable[[int], str]) -> np.ndarray:
        column = table.column(name)
        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise InputError(f"{where(row)}: column {name!r} has no value; every row needs one.")
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
        return frames.as_keys(values)
