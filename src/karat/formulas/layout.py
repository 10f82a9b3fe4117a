"""How the rows of a formula are read: a layout whose features are the terms.

With ``on_missing="drop"`` rows that lack a value are removed before anything else looks at them
(:meth:`FormulaLayout.complete`), so that neither a rare level nor an infinite value of such a row
matters, in any pass and in any order of the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from karat.data import containers
from karat.data.arguments import ColumnRoles
from karat.data.batch import Batch
from karat.errors import InputError
from karat.formulas.design import Design
from karat.formulas.formula import Factor, Formula
from karat.io.layout import Layout
from karat.io.source import is_number, places, text_columns
from karat.io.written_labels import require_no_commas

Where = Callable[[int], str]
LEAVE_OUT = ("Fill it, or leave such rows out with on_missing='drop'.", "on_missing")


def _places(where: Where, rows: np.ndarray) -> Where:
    """The names of some rows, for messages."""
    return lambda row: where(int(rows[row]))


@dataclass(frozen=True)
class ClusterLabels:
    """The cluster labels of rows, one array for each column of labels."""

    columns: list[np.ndarray]

    def __getitem__(self, rows: Any) -> ClusterLabels:
        return ClusterLabels([column[rows] for column in self.columns])


@dataclass(frozen=True)
class FormulaLayout(Layout):
    """How the columns of a formula are read.

    Attributes
    ----------
    formula : Formula
    text : tuple of str
        Columns that do not hold numbers.
    only : tuple of str or None
        The columns to read; None for all columns of the formula.
    row : dict of arrays
        One row with the types of the columns, from which the type of a term follows.
    clusters : tuple of str
        Columns of cluster labels; a row without a label lacks a value.
    labelled : bool
        Whether batches carry these labels.
    about_missing : tuple
        What a message advises where a value is missing, and which argument that is about.
    frequencies : bool
        Whether the weights count rows.
    joined : str or None
        The column of the response, in a table of cells (:mod:`karat.formulas.cells`).
    """

    formula: Formula = field(kw_only=True)
    text: tuple[str, ...] = field(kw_only=True)
    only: tuple[str, ...] | None = field(default=None, kw_only=True)
    row: dict[str, np.ndarray] = field(kw_only=True)
    clusters: tuple[str, ...] = field(default=(), kw_only=True)
    labelled: bool = field(default=False, kw_only=True)
    about_missing: tuple[str, str | None] = field(default=LEAVE_OUT, kw_only=True)
    frequencies: bool = field(default=False, kw_only=True)
    joined: str | None = field(default=None, kw_only=True)

    @property
    def columns(self) -> list[str]:
        weight = [] if self.roles.weight is None else [self.roles.weight]
        labels = self.clusters if self.drop or self.labelled else ()
        variables = self.formula.variables if self.only is None else self.only
        if self.joined is not None and self.only is None:
            variables = [*self.formula.regressors, self.joined]
        return list(dict.fromkeys([*variables, *weight, *labels]))

    @property
    def numeric(self) -> list[str]:
        read_as_labels = [
            name for name in self.clusters if self.labelled or name not in self.formula.variables
        ]
        return [name for name in self.columns if name not in (*self.text, *read_as_labels)]

    def of_design(self, design: Design) -> DesignLayout:
        """The layout of the rows once the columns of the formula are known."""
        return DesignLayout(
            replace(self.roles, features=tuple(design.names)), None, self.drop, design=design,
            formula=self.formula, text=self.text, row=self.row, clusters=self.clusters,
            frequencies=self.frequencies, joined=self.joined,
        )  # fmt: skip

    def each(self) -> list[Self]:
        """The layouts of the single responses."""
        return [
            replace(self, formula=one, roles=replace(self.roles, targets=(one.response.text,)))
            for one in self.formula.each()
        ]

    def as_joined(self, response: str, weight: str) -> Self:
        """The layout of a table whose rows stand for others, with the columns that are named."""
        roles = replace(self.roles, weight=weight)
        return replace(self, roles=roles, frequencies=True, joined=response)

    def among(self, schema: pa.Schema) -> FormulaLayout:
        """This layout itself: :func:`formula_columns` has checked the columns."""
        return self

    def batch(self, table: Any, number: int, where: Where) -> tuple[Batch, int]:
        """A batch without numbers: :class:`~karat.formulas.learn.Learn` reads the table."""
        ids = np.arange(number, number + table.num_rows)
        return Batch([np.empty((table.num_rows, 0))], ids, None, None, None), 0

    def complete(self, table: Any, where: Where) -> tuple[Any, np.ndarray, Where]:
        """The rows that lack no value, their positions in the table, and their names for messages.

        Unless rows may be dropped these are all rows, and a missing value is an error later.
        """
        rows = np.arange(table.num_rows)
        if not self.drop:
            return table, rows, where
        for missing in (self._without_value, self._without_result):
            gaps = missing(table)
            if gaps.any():
                table, rows = table.filter(pa.array(~gaps)), rows[~gaps]
        return table, rows, _places(where, rows)

    def _without_value(self, table: Any) -> np.ndarray:
        """Which rows lack a value of a column."""
        gaps = np.zeros(table.num_rows, dtype=bool)
        for name in self.columns:
            column = table.column(name)
            if column.null_count:
                gaps |= np.asarray(column.is_null())
            if pa.types.is_floating(column.type):
                gaps |= np.isnan(column.to_numpy(zero_copy_only=False))
        return gaps

    def _without_result(self, table: Any) -> np.ndarray:
        """In which rows an expression has no value, such as the logarithm of -1; what infinite
        values give is no gap but an error later.
        """
        gaps = np.zeros(table.num_rows, dtype=bool)
        for factor in (*self.formula.factors, *self.formula.responses):
            if factor.expression is None or not len(gaps):
                continue
            columns = {name: self._unchecked(table, name) for name in factor.variables}
            numbers = [column for column in columns.values() if column.dtype.kind == "f"]
            finite = np.logical_and.reduce([~gaps, *map(np.isfinite, numbers)])
            for values in factor.expression.stateless(columns):
                if values.dtype.kind == "f":
                    gaps |= np.isnan(values) & finite
        return gaps

    def _unchecked(self, table: Any, name: str) -> np.ndarray:
        """A column as an expression reads it, whatever its values are."""
        column = table.column(name)
        if name in self.text:
            return np.asarray(column.to_pylist(), dtype=object)
        return self._as_read(name, self._values(column, np.ones(len(column), dtype=bool)))

    def _as_read(self, name: str, numbers: np.ndarray) -> np.ndarray:
        numbers = numbers.astype(float, copy=False)
        return numbers != 0 if name in self.row and self.row[name].dtype == bool else numbers

    @property
    def _about_missing(self) -> tuple[str, str | None]:
        return self.about_missing

    def is_category(self, factor: Factor) -> bool:
        """Whether a factor has levels that are learned from the data."""
        return factor.category is not None or (factor.looked_up and factor.text in self.text)

    def coded(self) -> list[str]:
        """Columns of text that are read only for their levels."""
        categories = {
            factor.column
            for factor in self.formula.factors
            if self.is_category(factor) and factor.column in self.text
        }
        return [
            name
            for name in self.formula.variables
            if name in categories and name not in self.clusters
        ]

    def is_boolean(self, factor: Factor) -> bool:
        """Whether a factor has the levels False and True, as in statsmodels."""
        return factor.category is None and self._kind(factor) == "b"

    def _kind(self, factor: Factor) -> str:
        """NumPy's letter for the type of its values."""
        if factor.column is not None:
            return str(self.row[factor.column].dtype.kind) if factor.column in self.row else "f"
        assert factor.expression is not None
        return factor.expression.kind(self.row)

    def numbers(
        self, table: Any, factor: Factor, keep: np.ndarray, where: Where, states: Any
    ) -> np.ndarray:
        """The values of a factor, as a table of columns."""
        if factor.expression is None:
            assert factor.column is not None
            return self._number(table, factor.column, keep, where)
        columns = {name: self.column(table, name, keep, where) for name in factor.variables}
        values = factor.expression.numbers(columns, states)
        values = values if values.ndim == 2 else values[:, None]
        return self._checked(values, [factor.text] * values.shape[1], keep, where)

    def values(self, table: Any, factor: Factor, keep: np.ndarray, where: Where) -> Any:
        """The values of a category, as an Arrow array."""
        if factor.column is not None:
            column = table.column(factor.column)
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            if pa.types.is_string_view(column.type):
                column = column.cast(pa.string())
            self._check_missing(column, factor.column, keep, where)
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
                return _written_dates(column, factor.text)
            if pa.types.is_floating(column.type):
                self._number(table, factor.column, keep, where)  # refuses NaN and infinity
                column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 and 0.0 are one level
            return column
        assert factor.expression is not None
        columns = {name: self.column(table, name, keep, where) for name in factor.variables}
        values = factor.expression.evaluate(columns, {})
        if values.dtype.kind == "f":
            self._checked(values[:, None], [factor.text], keep, where)
            values = values.astype(np.int64) if self._kind(factor) in "iu" else values + 0.0
        return pa.array(values)

    def _number(self, table: Any, name: str, keep: np.ndarray, where: Where) -> np.ndarray:
        if name in self.text:
            raise InputError(
                f"The term {name!r} is text where a number is needed; write C({name}), or"
                " encode it.",
                column=name,
            )
        numbers: np.ndarray = self._numbers(table, name, keep, where)
        # formulaic and pandas do not support half precision
        return numbers.astype(float) if numbers.dtype == np.float16 else numbers

    def weights(self, table: Any, keep: np.ndarray, where: Where) -> np.ndarray | None:
        """The weights of the rows, all of them positive."""
        if self.roles.weight is None:
            return None
        column: np.ndarray = self._numbers(table, self.roles.weight, keep, where)
        weights = column[:, 0].astype(float)
        if not (weights[keep] > 0).all():
            row = int(np.flatnonzero(~(weights > 0) & keep)[0])
            raise InputError(
                f"{where(row)}: the weight in column {self.roles.weight!r} is not positive; drop"
                " such rows, because packages disagree on whether they count as observations."
            )
        if self.frequencies and self.joined is None and (weights[keep] % 1 != 0).any():
            row = int(np.flatnonzero((weights % 1 != 0) & keep)[0])
            raise InputError(
                f"{where(row)}: the frequency in column {self.roles.weight!r} is not an integer;"
                " pass inverse variances as weights=.",
                column=self.roles.weight,
            )
        return weights

    def checked(self, values: np.ndarray, text: str, keep: np.ndarray, where: Where) -> np.ndarray:
        """Values of an expression, all of them finite; other rows are dropped or an error."""
        return self._checked(values[:, None], [text], keep, where)[:, 0]

    def column(self, table: Any, name: str, keep: np.ndarray, where: Where) -> np.ndarray:
        """A column as an expression reads it: doubles, booleans or text."""
        if name not in self.text:
            numbers = self._number(table, name, keep, where)[:, 0]
            if containers.rounds(numbers):
                raise InputError(
                    f"Column {name!r} holds {containers.TOO_LONG}, so an expression of it would be"
                    " rounded; use a coarser unit, or subtract a constant in the data first.",
                    column=name,
                )
            return self._as_read(name, numbers)
        self._check_missing(table.column(name), name, keep, where)
        return self._unchecked(table, name)

    def _check_missing(self, column: Any, name: str, keep: np.ndarray, where: Where) -> None:
        if column.null_count:
            self._missing(np.asarray(column.is_null())[:, None], [name], keep, where)


@dataclass(frozen=True)
class DesignLayout(FormulaLayout):
    """How rows become the columns of a design and the response.

    Attributes
    ----------
    design : Design
    dropped : tuple of str
        Columns of the design that are left out, because they are combinations of others.
    """

    design: Design = field(kw_only=True)
    dropped: tuple[str, ...] = field(default=(), kw_only=True)

    def feature_names(self, count: int) -> list[str]:
        return self.design.names

    def batch(self, table: Any, number: int, where: Where) -> tuple[Batch, int]:
        complete, rows, named = self.complete(table, where)
        if len(rows):
            batch, _ = Layout.batch(self, complete, 0, named)
        else:
            nothing = None if self.roles.weight is None else np.empty(0)
            widths = [*self.design.widths, *(1 for _ in self.roles.targets)]
            blocks = [np.empty((0, width)) for width in widths]
            batch = Batch(blocks, rows, nothing)
        kept = batch.numbers
        labels = (
            ClusterLabels([self.labels(complete, name, named)[kept] for name in self.clusters])
            if self.labelled
            else None
        )
        return replace(batch, numbers=number + rows[kept], keys=labels), table.num_rows - len(kept)

    def parts(self, table: Any, keep: np.ndarray, where: Where) -> list[Any]:
        states = self.design.learned.states
        responses = (
            [self.numbers(table, y, keep, where, states) for y in self.formula.responses]
            if self.joined is None
            else [self._number(table, self.joined, keep, where)]
        )
        blocks = self.blocks(table, keep, where)
        if self.dropped:
            columns = iter([name not in self.dropped for name in self.design.names])
            blocks = [block[:, [next(columns) for _ in range(block.shape[1])]] for block in blocks]
        return [*blocks, *responses]

    def blocks(self, table: Any, keep: np.ndarray, where: Where) -> list[np.ndarray]:
        """The columns of the design."""
        return self.design.blocks(
            {
                text: self._factor(table, factor, keep, where)
                for text, factor in self.design.factors.items()
            },
            table.num_rows,
        )

    def _factor(self, table: Any, factor: Factor, keep: np.ndarray, where: Where) -> np.ndarray:
        """The values of a factor, or their positions among its levels."""
        levels = self.design.learned.levels.get(factor.text)
        if levels is None:
            return self.numbers(table, factor, keep, where, self.design.learned.states)
        column = self.values(table, factor, keep, where)
        codes = places(column, levels)
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            shown = ", ".join(map(repr, levels[:10])) + (", ..." if len(levels) > 10 else "")
            raise InputError(
                f"{where(row)}: the term {factor.text!r} has no level {column[row].as_py()!r}; its"
                f" levels are {shown}."
            )
        return codes


def _written_dates(column: Any, text: str) -> Any:
    """Dates and times as ISO texts; midnight is the day, so that dates and times agree."""
    codes = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    zone = getattr(codes.dictionary.type, "tz", None)
    if zone is not None:
        raise InputError(
            f"The term {text!r} has times in the zone {zone}; write the column as dates, or as"
            " times without a zone.",
            column=text,
        )
    written = codes.dictionary.cast(pa.string())
    for pattern, short in ((r"( 00:00:00)?(\.0+)?$", ""), (r"(\.\d*[1-9])0+$", r"\1")):
        written = pc.replace_substring_regex(written, pattern, short)
    return pa.DictionaryArray.from_arrays(codes.indices, written)


def formula_columns(
    formula: Formula,
    schema: pa.Schema,
    weight: str | None,
    on_missing: str,
    clusters: Sequence[str],
) -> FormulaLayout:
    """The layout of a formula before anything is learned; raises if a column is missing."""
    responses = tuple(response.text for response in formula.responses)
    roles = ColumnRoles((), responses, weight, whole=formula.dot)
    drop = Layout.of(None, roles, None, on_missing).drop
    layout = FormulaLayout(
        roles, None, drop, formula=formula, text=tuple(text_columns(schema)),
        row=typed_row(schema), clusters=tuple(clusters),
    )  # fmt: skip
    ColumnRoles(tuple(dict.fromkeys([*layout.columns, *clusters]))).among(schema.names)
    require_no_commas(schema, layout.numeric)
    if weight in layout.text:
        raise InputError(f"The weights in column {weight!r} are not numbers.", column=weight)
    for response in formula.responses:
        if response.column in layout.text:
            raise InputError(
                f"The response {response.text!r} is text; encode it as a number first."
            )
    return layout


def typed_row(schema: pa.Schema) -> dict[str, np.ndarray]:
    """One row of a table, whose values have the types of its columns."""

    def example(column: pa.Field) -> np.ndarray:
        if not is_number(column):
            return np.array(["a"], dtype=object)
        if pa.types.is_boolean(column.type):
            return np.array([True])
        return np.array([1 if pa.types.is_integer(column.type) else 0.5])

    return {column.name: example(column) for column in schema}
