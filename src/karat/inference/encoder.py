"""New rows as columns of a design: what a fit needs to predict, and to find the columns of a
submodel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from karat.data.arguments import ColumnRoles
from karat.engine.linalg import Array
from karat.engine.stream import FOLD
from karat.errors import InputError, NotExactError
from karat.formulas.design import INTERCEPT, Design, make_design
from karat.formulas.formula import Factor, parse
from karat.formulas.layout import DesignLayout, only_columns, open_table, typed_row
from karat.inference.new_rows import BLOCK
from karat.io.source import ResumePoint, text_columns


@dataclass(frozen=True)
class Encoder:
    """The design of a fit, for other rows."""

    design: Design

    def matrix(self, frame: Any, labels: list[str]) -> Array:
        """The columns of these names."""
        return np.concatenate([np.empty((0, len(labels))), *self.pieces(frame, labels)])

    def pieces(self, frame: Any, labels: list[str]) -> Iterator[Array]:
        """The columns of these names, some rows at a time."""
        design = self.design
        names = list(
            dict.fromkeys(name for factor in design.formula.factors for name in factor.variables)
        )
        source = open_table(only_columns(frame, names) if names else frame)
        schema = source.schema()
        layout = DesignLayout(
            ColumnRoles(), formula=design.formula, text=tuple(text_columns(schema)),
            only=tuple(names), row=typed_row(schema), design=design,
        )  # fmt: skip
        if names:
            ColumnRoles(tuple(names)).among(schema.names)
        elif not schema.names:
            raise InputError("The new rows have no columns.")
        places = {name: i for i, name in enumerate([INTERCEPT, *design.names])}
        wanted = [places[name] for name in labels]
        for chunk in source.chunks(
            names or schema.names[:1], layout.numeric, FOLD, ResumePoint(), strict=True
        ):
            for start in range(0, chunk.table.num_rows, BLOCK):
                table = chunk.table.slice(start, BLOCK)
                there = np.ones(table.num_rows, dtype=bool)
                blocks = layout.blocks(table, there, _later(chunk.where, start))
                yield np.column_stack([there.astype(float), *blocks])[:, wanted]

    def columns_of(self, text: str, labels: list[str]) -> list[str]:
        """The columns that a smaller formula has, all of them among those of this design."""
        formula = parse(text, self.design.formula.variables)
        if formula.response.text != self.design.formula.response.text:
            raise NotExactError(
                f"This coreset keeps the response {self.design.formula.response.text!r}, not"
                f" {formula.response.text!r}."
            )
        for factor in formula.factors:
            self._check_known(factor)
        smaller = make_design(formula, self.design.learned)
        names = [name for term in smaller.terms for name in term.columns]
        for name in names:
            if name not in labels:
                raise NotExactError(
                    f"The term of column {name!r} is not in this coreset, which has"
                    f" {', '.join(labels)}; fit the larger formula to the data first."
                )
        return names

    def _check_known(self, factor: Factor) -> None:
        """Refuse a factor that the larger formula does not have."""
        if factor.text in self.design.factors:
            return
        like = [
            one.text
            for one in self.design.formula.factors
            if set(one.variables) & set(factor.variables)
        ]
        advice = f" write {like[0]!r} as there, or" if like else ""
        raise NotExactError(
            f"The term {factor.text!r} is not in this coreset, whose formula is"
            f" {self.design.formula.text!r};{advice} fit the larger formula to the data first."
        )


def _later(where: Callable[[int], str], start: int) -> Callable[[int], str]:
    """What rows from ``start`` on are called."""
    return lambda row: where(start + row)
