"""From Arrow rows to the columns of a design: a layout whose features are the terms of a formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from karat._data import containers
from karat._data.batch import Batch
from karat._data.roles import ColumnRoles
from karat.errors import InputError
from karat.inference.design import Design
from karat.inference.formula import Factor, Formula
from karat.io.encoding import places
from karat.io.layout import Layout
from karat.io.source import is_number, text_columns

Where = Callable[[int], str]


@dataclass(frozen=True)
class Columns(Layout):
    """How the columns of a formula are read.

    Attributes
    ----------
    formula : Formula
    text : tuple of str
        Columns that do not hold numbers.
    only : tuple of str or None
        The columns that are read, if they are not all of the formula.
    row : dict of arrays
        One row with the types that the columns have; it tells what kind of values a term has.
    """

    formula: Formula = field(kw_only=True)
    text: tuple[str, ...] = field(kw_only=True)
    only: tuple[str, ...] | None = field(default=None, kw_only=True)
    row: dict[str, np.ndarray] = field(kw_only=True)

    @property
    def columns(self) -> list[str]:
        others = [name for name in (self.roles.weight, self.roles.key) if name is not None]
        return list(dict.fromkeys([*(self.formula.variables if self.only is None else self.only), *others]))

    @property
    def numeric(self) -> list[str]:
        return [name for name in self.columns if name not in self.text and name != self.roles.key]

    def of_design(self, design: Design) -> DesignLayout:
        """The layout of the rows once the columns of the formula are known."""
        roles = replace(self.roles, features=tuple(design.names), key=None)
        return DesignLayout(roles, None, self.drop, formula=self.formula, text=self.text, row=self.row, design=design)

    def among(self, schema: pa.Schema) -> Columns:
        """The same: the columns were checked before (:func:`formula_columns`)."""
        return self

    def batch(self, table: Any, number: int, where: Where) -> tuple[Batch, int]:
        """No numbers yet: what is learned is learned from the table."""
        return Batch([np.empty((table.num_rows, 0))], np.arange(number, number + table.num_rows), None, None, None), 0

    @property
    def _remedy(self) -> str:
        return "Fill it, or leave such rows out with on_missing='drop'."

    def is_category(self, factor: Factor) -> bool:
        """Whether a factor has levels that the data decides."""
        return factor.category is not None or (factor.looked_up and factor.text in self.text)

    def coded(self) -> list[str]:
        """Columns of text that are read for their levels only."""
        found = {factor.column for factor in self.formula.factors if self.is_category(factor) and factor.column in self.text}
        return [name for name in self.formula.variables if name in found and name != self.roles.key]

    def is_boolean(self, factor: Factor) -> bool:
        """Whether a factor has the levels False and True, as in statsmodels."""
        return factor.category is None and self._kind(factor) == "b"

    def _kind(self, factor: Factor) -> str:
        """Of its values, by NumPy's letter."""
        if factor.column is not None:
            return str(self.row[factor.column].dtype.kind) if factor.column in self.row else "f"
        assert factor.expression is not None
        return factor.expression.kind(self.row)

    def numbers(self, table: Any, factor: Factor, keep: np.ndarray, where: Where, states: Any) -> np.ndarray:
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
                self._number(table, factor.column, keep, where)  # NaN and infinity are no levels
                column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 and 0.0 are one level
            return column
        assert factor.expression is not None
        columns = {name: self.column(table, name, keep, where) for name in factor.variables}
        values = factor.expression.evaluate(columns, {})
        if values.dtype.kind == "f":
            self._checked(values[:, None], [factor.text], keep, where)
            values = np.where(keep, values, 0.0)  # rows that are left out
            values = values.astype(np.int64) if self._kind(factor) in "iu" else values + 0.0
        return pa.array(values)

    def _number(self, table: Any, name: str, keep: np.ndarray, where: Where) -> np.ndarray:
        if name in self.text:
            raise InputError(f"The term {name!r} is text where a number is needed; write C({name}), or encode it.", column=name)
        numbers: np.ndarray = self._numbers(table, name, keep, where)
        return numbers.astype(float) if numbers.dtype == np.float16 else numbers  # frames do not know half precision

    def weights(self, table: Any, keep: np.ndarray, where: Where) -> np.ndarray | None:
        """The weights of the rows, all of them positive."""
        if self.roles.weight is None:
            return None
        weights: np.ndarray = self._numbers(table, self.roles.weight, keep, where)[:, 0].astype(float)
        if not (weights[keep] > 0).all():
            row = int(np.flatnonzero(~(weights > 0) & keep)[0])
            raise InputError(
                f"{where(row)}: the weight in column {self.roles.weight!r} is not positive; leave such rows out: software does "
                "not agree on whether they are observations."
            )
        return weights

    def checked(self, values: np.ndarray, text: str, keep: np.ndarray, where: Where) -> np.ndarray:
        """Values of an expression, all of them numbers, or rows left out."""
        return self._checked(values[:, None], [text], keep, where)[:, 0]

    def column(self, table: Any, name: str, keep: np.ndarray, where: Where) -> np.ndarray:
        """A column as an expression reads it: doubles, or texts."""
        if name not in self.text:
            numbers = self._number(table, name, keep, where)[:, 0]
            if containers.rounds(numbers):
                raise InputError(
                    f"Column {name!r} holds {containers.TOO_LONG}, so an expression of it would be rounded; use a coarser "
                    "unit, or subtract a constant in the data first.",
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
class DesignLayout(Columns):
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
        response = self.numbers(table, self.design.formula.response, keep, where, self.design.learned.states)
        return [*self.blocks(table, keep, where), response]

    def blocks(self, table: Any, keep: np.ndarray, where: Where) -> list[np.ndarray]:
        """The columns of the design."""
        known = {text: self._factor(table, factor, keep, where) for text, factor in self.design.factors.items()}
        return self.design.blocks(known)

    def _factor(self, table: Any, factor: Factor, keep: np.ndarray, where: Where) -> np.ndarray:
        """Its values, or the positions of its values among its levels."""
        levels = self.design.learned.levels.get(factor.text)
        if levels is None:
            return self.numbers(table, factor, keep, where, self.design.learned.states)
        column = self.values(table, factor, keep, where)
        codes = places(column, levels)
        if not keep.all():
            codes = np.where(keep, codes, 0)  # rows that are left out
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            shown = ", ".join(map(repr, levels[:10])) + (", ..." if len(levels) > 10 else "")
            raise InputError(
                f"{where(row)}: the term {factor.text!r} has no level {column[row].as_py()!r}; its levels are {shown}."
            )
        return codes


def formula_columns(formula: Formula, schema: pa.Schema, weight: str | None, on_missing: str, key: str | None) -> Columns:
    """The layout of a formula before anything was learned; every column is there."""
    roles = ColumnRoles((), (formula.response.text,), weight, None, key)
    drop = Layout.of(None, roles, None, on_missing).drop
    found = Columns(roles, None, drop, formula=formula, text=tuple(text_columns(schema)), row=typed_row(schema))
    ColumnRoles(tuple(found.columns)).among(schema.names)
    if weight in found.text:
        raise InputError(f"The weights in column {weight!r} are not numbers.", column=weight)
    if formula.response.column in found.text:
        raise InputError(f"The response {formula.response.text!r} is text; it must be a number: encode it first.")
    return found


def typed_row(schema: pa.Schema) -> dict[str, np.ndarray]:
    """One row of a table, whose values have the types of its columns."""
    found: dict[str, Any] = {}
    for column in schema:
        kind = column.type
        found[column.name] = np.array(
            [True if pa.types.is_boolean(kind) else 1 if pa.types.is_integer(kind) else 0.5 if is_number(column) else "a"],
            dtype=None if is_number(column) else object,
        )
    return found
