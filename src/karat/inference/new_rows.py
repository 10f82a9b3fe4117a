"""New rows of a fit: their columns of the design (:class:`Encoder`), and checks of the argument of
``predict``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from karat.data import containers
from karat.data.arguments import ColumnRoles
from karat.engine.linalg import Array
from karat.engine.stream import FOLD
from karat.errors import InputError, NotExactError, several
from karat.formulas.design import INTERCEPT, Design, make_design
from karat.formulas.formula import Factor, parse
from karat.formulas.layout import DesignLayout, typed_row
from karat.formulas.passes import only_columns, open_table
from karat.io.source import ResumePoint, text_columns

ROWS = "a frame, a dictionary of columns, files, or an array of the columns of the design"
FILL_FIRST = ("Fill it, or leave such rows out of the frame: frame.dropna().", None)
BLOCK = 2**14  # rows that are encoded, and multiplied, at a time


@dataclass(frozen=True)
class Encoder:
    """The design of a fit, which encodes new rows."""

    design: Design

    def matrix(self, frame: Any, labels: list[str]) -> Array:
        """The columns ``labels`` of the design."""
        return np.concatenate([np.empty((0, len(labels))), *self.pieces(frame, labels)])

    def pieces(self, frame: Any, labels: list[str]) -> Iterator[Array]:
        """The columns ``labels`` of the design, in blocks of rows."""
        design = self.design
        names = list(
            dict.fromkeys(name for factor in design.formula.factors for name in factor.variables)
        )
        source = open_table(only_columns(frame, names) if names else frame)
        schema = source.schema()
        layout = DesignLayout(
            ColumnRoles(), formula=design.formula, text=tuple(text_columns(schema)),
            only=tuple(names), row=typed_row(schema), design=design, about_missing=FILL_FIRST,
        )  # fmt: skip
        if names:
            ColumnRoles(tuple(names)).among(schema.names)
        elif not schema.names:
            raise InputError("The new rows have no columns.")
        places = {name: i for i, name in enumerate([INTERCEPT, *design.names])}
        order = [places[name] for name in labels]
        for chunk in source.chunks(
            names or schema.names[:1], layout.numeric, FOLD, ResumePoint(), strict=True
        ):
            for start in range(0, chunk.table.num_rows, BLOCK):
                table = chunk.table.slice(start, BLOCK)
                keep = np.ones(table.num_rows, dtype=bool)
                blocks = layout.blocks(table, keep, _later(chunk.where, start))
                yield np.column_stack([keep.astype(float), *blocks])[:, order]

    def columns_of(self, text: str, labels: list[str]) -> list[str]:
        """The columns of a smaller formula, which must all be among those of this design."""
        formula = parse(text, self.design.formula.variables)
        if formula.response.text != self.design.formula.response.text:
            raise NotExactError(
                f"This coreset keeps the response {self.design.formula.response.text!r}, not"
                f" {formula.response.text!r}."
            )
        for factor in formula.factors:
            self._check_factor(factor)
        smaller = make_design(formula, self.design.learned)
        names = [name for term in smaller.terms for name in term.columns]
        for name in names:
            if name not in labels:
                raise NotExactError(
                    f"The term of column {name!r} is not in this coreset, which has"
                    f" {', '.join(labels)}; fit the larger formula to the data first."
                )
        return names

    def _check_factor(self, factor: Factor) -> None:
        """Refuse a factor that the larger formula does not have."""
        if factor.text in self.design.factors:
            return
        similar = [
            candidate.text
            for candidate in self.design.formula.factors
            if set(candidate.variables) & set(factor.variables)
        ]
        advice = f" write {similar[0]!r} as there, or" if similar else ""
        raise NotExactError(
            f"The term {factor.text!r} is not in this coreset, whose formula is"
            f" {self.design.formula.text!r};{advice} fit the larger formula to the data first."
        )


def _later(where: Callable[[int], str], start: int) -> Callable[[int], str]:
    """The names of rows, for messages, from row ``start`` on."""
    return lambda row: where(start + row)


def checked_array(rows: np.ndarray, labels: list[str]) -> Array:
    """Check an array whose columns are those of the design."""
    try:
        array = np.atleast_2d(np.asarray(rows, dtype=float))
    except (TypeError, ValueError):
        raise InputError(
            f"The array of new rows must hold numbers; pass {ROWS}.", argument="exog"
        ) from None
    if array.ndim != 2 or array.shape[1] != len(labels):
        raise InputError(
            f"The array of new rows has shape {rows.shape}; it must have"
            f" {several(len(labels), 'column')}, those of the design: {', '.join(labels)}. Or pass"
            " a frame with the columns of the data.",
            argument="exog",
        )
    return array


def in_blocks(rows: Array) -> Iterator[Array]:
    """The rows in blocks, without a copy."""
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def check_rows(rows: Any) -> None:
    """Refuse what is not a table: a single column, or numbers in a list."""
    if containers.frame_library(rows) in ("pandas", "polars") and containers.dimensions(rows) == 1:
        raise InputError(
            f"The new rows are a one-dimensional {type(rows).__name__}; pass a frame, such as"
            " frame.iloc[[0]] for one row.",
            argument="exog",
        )
    paths = (
        isinstance(rows, list | tuple)
        and rows
        and not all(isinstance(value, int | float) for value in rows)
    )
    if isinstance(rows, int | float | complex) or (isinstance(rows, list | tuple) and not paths):
        raise InputError(
            f"The new rows are {type(rows).__name__} {rows!r:.50}; pass {ROWS}.", argument="exog"
        )


def design_columns(rows: Any, labels: list[str]) -> Array:
    """The columns of a frame, for a design that was not made from a formula."""
    if not hasattr(rows, "columns") and not isinstance(rows, dict):
        raise InputError(
            f"The new rows are of type {type(rows).__name__}; pass {ROWS}.", argument="exog"
        )
    names = (
        list(rows)
        if isinstance(rows, dict)
        else getattr(rows, "column_names", None) or list(rows.columns)
    )
    missing = [name for name in labels if name not in (*names, INTERCEPT)]
    if missing:
        raise InputError(f"The new rows have no column {missing[0]!r}.", column=missing[0])
    columns = {name: np.atleast_1d(rows[name]) for name in labels if name in names}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InputError("The columns of the new rows have different lengths.", argument="exog")
    constant = np.ones(lengths.pop() if lengths else len(rows))
    try:
        return np.column_stack([columns.get(name, constant) for name in labels]).astype(float)
    except (TypeError, ValueError):
        raise InputError(
            "The new rows contain values that are not numbers.", argument="exog"
        ) from None
