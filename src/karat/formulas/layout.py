"""How the rows of a formula are read: a layout whose features are the terms, and passes over the
data.

    consumer = rows.scan(layout, consumer)      # one pass; consumers of partitions are merged
    core     = rows.coreset(layout)             # one pass; a sketch per partition

``rows`` are in memory, in files or in DuckDB (:class:`SourceRows`), or in partitions of Dask and
Spark (:class:`ClusterRows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from karat.cluster.partitions import cluster_of, scan_partitions
from karat.cluster.sketches import finish, last_pass
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.arguments import ColumnRoles
from karat.data.batch import Batch
from karat.data.labels import as_objects
from karat.engine.rows import Progress
from karat.engine.stream import FOLD
from karat.errors import InputError
from karat.formulas.design import Design
from karat.formulas.formula import Factor, Formula, parse
from karat.io.columnar import ColumnarFiles
from karat.io.find import open_source
from karat.io.layout import Layout
from karat.io.passes import SamePasses
from karat.io.scan import Consumer, Position, Reduce, require_rows
from karat.io.source import Source, is_number, places, text_columns
from karat.problems import LeastSquares
from karat.stream.sketch import Sketch

Where = Callable[[int], str]


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
    """

    formula: Formula = field(kw_only=True)
    text: tuple[str, ...] = field(kw_only=True)
    only: tuple[str, ...] | None = field(default=None, kw_only=True)
    row: dict[str, np.ndarray] = field(kw_only=True)

    @property
    def columns(self) -> list[str]:
        others = [name for name in (self.roles.weight, self.roles.key) if name is not None]
        return list(
            dict.fromkeys([*(self.formula.variables if self.only is None else self.only), *others])
        )

    @property
    def numeric(self) -> list[str]:
        return [name for name in self.columns if name not in self.text and name != self.roles.key]

    def of_design(self, design: Design) -> DesignLayout:
        """The layout of the rows once the columns of the formula are known."""
        roles = replace(self.roles, features=tuple(design.names), key=None)
        return DesignLayout(
            roles, None, self.drop,
            formula=self.formula, text=self.text, row=self.row, design=design,
        )  # fmt: skip

    def among(self, schema: pa.Schema) -> FormulaLayout:
        """This layout itself: :func:`formula_columns` has checked the columns."""
        return self

    def batch(self, table: Any, number: int, where: Where) -> tuple[Batch, int]:
        """A batch without numbers: :class:`~karat.formulas.learn.Learn` reads the table."""
        ids = np.arange(number, number + table.num_rows)
        return Batch([np.empty((table.num_rows, 0))], ids, None, None, None), 0

    @property
    def _remedy(self) -> str:
        return "Fill it, or drop such rows with on_missing='drop'."

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
            name for name in self.formula.variables if name in categories and name != self.roles.key
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
            if pa.types.is_floating(column.type):
                self._number(table, factor.column, keep, where)  # refuses NaN and infinity
                column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 and 0.0 are one level
            return column
        assert factor.expression is not None
        columns = {name: self.column(table, name, keep, where) for name in factor.variables}
        values = factor.expression.evaluate(columns, {})
        if values.dtype.kind == "f":
            self._checked(values[:, None], [factor.text], keep, where)
            values = np.where(keep, values, 0.0)  # any number for dropped rows
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
            numbers = numbers.astype(float, copy=False)
            return numbers != 0 if name in self.row and self.row[name].dtype == bool else numbers
        column = table.column(name)
        self._check_missing(column, name, keep, where)
        return np.asarray(column.to_pylist(), dtype=object)

    def _check_missing(self, column: Any, name: str, keep: np.ndarray, where: Where) -> None:
        if column.null_count:
            self._missing(np.asarray(column.is_null())[:, None], [name], keep, where)


@dataclass(frozen=True)
class DesignLayout(FormulaLayout):
    """How rows become the columns of a design and the response.

    Attributes
    ----------
    design : Design
    """

    design: Design = field(kw_only=True)

    def feature_names(self, count: int) -> list[str]:
        return self.design.names

    def batch(self, table: Any, number: int, where: Where) -> tuple[Batch, int]:
        return Layout.batch(self, table, number, where)

    def parts(self, table: Any, keep: np.ndarray, where: Where) -> list[Any]:
        response = self.numbers(
            table, self.design.formula.response, keep, where, self.design.learned.states
        )
        return [*self.blocks(table, keep, where), response]

    def blocks(self, table: Any, keep: np.ndarray, where: Where) -> list[np.ndarray]:
        """The columns of the design."""
        return self.design.blocks(
            {
                text: self._factor(table, factor, keep, where)
                for text, factor in self.design.factors.items()
            }
        )

    def _factor(self, table: Any, factor: Factor, keep: np.ndarray, where: Where) -> np.ndarray:
        """The values of a factor, or their positions among its levels."""
        levels = self.design.learned.levels.get(factor.text)
        if levels is None:
            return self.numbers(table, factor, keep, where, self.design.learned.states)
        column = self.values(table, factor, keep, where)
        codes = places(column, levels)
        if not keep.all():
            codes = np.where(keep, codes, 0)  # any level for dropped rows
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            shown = ", ".join(map(repr, levels[:10])) + (", ..." if len(levels) > 10 else "")
            raise InputError(
                f"{where(row)}: the term {factor.text!r} has no level {column[row].as_py()!r}; its"
                f" levels are {shown}."
            )
        return codes


def formula_columns(
    formula: Formula, schema: pa.Schema, weight: str | None, on_missing: str, key: str | None
) -> FormulaLayout:
    """The layout of a formula before anything is learned; raises if a column is missing."""
    roles = ColumnRoles((), (formula.response.text,), weight, None, key)
    drop = Layout.of(None, roles, None, on_missing).drop
    layout = FormulaLayout(
        roles, None, drop, formula=formula, text=tuple(text_columns(schema)), row=typed_row(schema)
    )
    ColumnRoles(tuple(layout.columns)).among(schema.names)
    if weight in layout.text:
        raise InputError(f"The weights in column {weight!r} are not numbers.", column=weight)
    if formula.response.column in layout.text:
        raise InputError(
            f"The response {formula.response.text!r} is text; encode it as a number first."
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


class SourceRows:
    """Rows of a source of :mod:`karat.io`, read in several passes.

    Attributes
    ----------
    declared : dict
        Levels of the columns of a categorical type, in order.
    all_doubles : bool
        Whether the source reads integers as doubles.
    """

    def __init__(
        self, source: Source, declared: dict[str, list[Any]], progress: Progress | None
    ) -> None:
        self.source, self.declared, self.progress = source, declared, progress
        self.passes, self.all_doubles, self.same = 0, source.all_doubles, SamePasses()

    def schema(self) -> pa.Schema:
        """The columns."""
        return self.source.schema()

    def as_codes(self, columns: Sequence[str]) -> None:
        """Read these columns as codes and levels, if the source can."""
        if isinstance(self.source, ColumnarFiles):
            self.source.as_codes(columns)

    def scan(self, layout: FormulaLayout, consumer: Any) -> Any:
        """The consumer after all rows."""
        self._scan(layout, consumer)
        return consumer

    def _scan(self, layout: FormulaLayout, consumer: Consumer) -> Position:
        if self.passes and self.source.once:
            raise InputError(
                "A stream can be read only once, and this table takes several passes; write it to"
                " files, or pass a frame."
            )
        self.passes += 1
        position = self.same.scan(self.source, layout, [consumer], FOLD, self.progress)
        require_rows(self.source, layout, position)
        return position

    def coreset(self, layout: DesignLayout) -> Coreset:
        """The coreset of all rows."""
        sketch = Sketch(LeastSquares(), random_state=0, buffer_rows=FOLD)
        position = self._scan(layout, Reduce(sketch, layout))
        core = sketch.coreset()
        source = self.source.described(self.source.identity(), position.counts)
        dropped = {"missing": position.dropped, "broken": position.bad}
        return replace(core, provenance=layout.provenance(core.problem, 0, source, dropped, None))


class ClusterRows:
    """Rows of a Dask or Spark data frame, with the methods of :class:`SourceRows`.

    Parameters
    ----------
    data : data frame
    home : module
        :mod:`karat.dask` or :mod:`karat.spark`.
    """

    def __init__(self, data: Any, home: Any) -> None:
        self.data, self.home = data, home
        self.declared: dict[str, list[Any]] = {}
        self.all_doubles = False

    def schema(self) -> pa.Schema:
        return self.home.frame_schema(self.data)

    def as_codes(self, columns: Sequence[str]) -> None:
        """Nothing: partitions are read as they come."""

    def scan(self, layout: FormulaLayout, consumer: Any) -> Any:
        """The merged consumers of the partitions."""
        return scan_partitions(self.data, layout, partial(replace, consumer))[0]

    def coreset(self, layout: DesignLayout) -> Coreset:
        work = last_pass(LeastSquares(), layout, 0)
        return finish(work, self.home.messages(self.data, work), self.home.NAME)


def open_rows(data: Any, progress: Progress | None) -> SourceRows | ClusterRows:
    """Rows of anything that :func:`karat.inference.ols` takes."""
    cluster = cluster_of(data)
    if cluster is not None:
        return ClusterRows(data, cluster)
    return SourceRows(open_table(data), _declared(containers.collected(data)), progress)


def needed_columns(data: Any, text: str, others: Sequence[str | None]) -> Any:
    """The columns of a pandas frame that a formula and its options name."""
    if not hasattr(data, "iloc") or not hasattr(data, "columns"):
        return data
    free = [str(name) for name in data.columns if str(name) not in others]
    return only_columns(
        data, [*parse(text, free).variables, *(name for name in others if name is not None)]
    )


def only_columns(data: Any, wanted: Sequence[str]) -> Any:
    """The wanted columns of a pandas frame, since the others may hold anything; other data as it
    is.
    """
    if (
        not hasattr(data, "iloc")
        or not hasattr(data, "columns")
        or not set(wanted) <= set(map(str, data.columns))
    ):
        return data  # a missing column is an error later, which lists all names
    frame = data.copy(deep=False)  # no numbers are copied
    for name in dict.fromkeys(name for name in data.columns if str(name) not in wanted):
        del frame[name]
    return frame


def open_table(data: Any) -> Source:
    """The source of rows that are not in partitions; a dictionary of single values is one row."""
    data = containers.collected(data)
    if containers.frame_library(data) in ("pandas", "polars") and containers.dimensions(data) == 1:
        raise InputError(
            f"The data is a {type(data).__name__}, a single column; pass a frame.", argument="data"
        )
    if isinstance(data, dict):
        columns = {str(name): _column(values) for name, values in data.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1 or any(values.ndim != 1 for values in columns.values()):
            sizes = ", ".join(f"{name} {values.shape[0]}" for name, values in columns.items())
            raise InputError(
                "The columns of the dictionary must be one-dimensional and have the same length:"
                f" {sizes}."
            )
        try:
            data = pa.table(columns)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                f"The dictionary has a column that cannot be read: {error}."
            ) from error
    # polars before 1.3 has no Arrow stream
    if containers.frame_library(data) == "polars" and not hasattr(data, "__arrow_c_stream__"):
        data = data.to_arrow()
    return open_source(data)


def _column(values: Any) -> np.ndarray:
    """A column of a dictionary; NumPy turns numbers into text if some values are text."""
    objects = np.atleast_1d(as_objects(values))
    return objects if all(isinstance(value, str) for value in objects) else np.atleast_1d(values)


def _declared(data: Any) -> dict[str, list[Any]]:
    """The levels of the categorical columns of a frame in memory, in their order."""
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        kinds = zip(data.columns, data.dtypes, strict=True)
        return {
            str(name): list(kind.categories) for name, kind in kinds if hasattr(kind, "categories")
        }
    if containers.frame_library(data) == "polars" and hasattr(data, "schema"):
        enums = {name: kind for name, kind in data.schema.items() if type(kind).__name__ == "Enum"}
        return {str(name): list(kind.categories) for name, kind in enums.items()}
    return {}
