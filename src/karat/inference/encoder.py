"""New rows as columns of a design: what a fit needs to predict, and to find the columns of a submodel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from karat._data.roles import ColumnRoles
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError
from karat.inference.design import INTERCEPT, Design, make_design
from karat.inference.formula import parse
from karat.inference.layout import DesignLayout
from karat.inference.passes import open_table
from karat.io.source import ResumePoint, is_number

ROWS = 2**20  # encoded at a time


@dataclass(frozen=True)
class Encoder:
    """The design of a fit, for other rows."""

    design: Design

    def matrix(self, frame: Any, labels: list[str]) -> Array:
        """The columns of these names."""
        source = open_table(frame)
        schema, design = source.schema(), self.design
        names = list(dict.fromkeys(name for factor in design.formula.factors for name in factor.variables))
        text = tuple(field.name for field in schema if not is_number(field))
        layout = DesignLayout(ColumnRoles(), None, False, design.formula, text, tuple(names), design)
        if names:
            ColumnRoles(tuple(names)).among(schema.names)
        elif not schema.names:
            raise InputError("The new rows have no columns.")
        found = []
        for chunk in source.chunks(names or schema.names[:1], layout.numeric, ROWS, ResumePoint(), strict=True):
            rows = chunk.table.num_rows
            blocks = layout.blocks(chunk.table, np.ones(rows, dtype=bool), chunk.where)
            found.append(np.column_stack([np.ones(rows), *(block.astype(float) for block in blocks)]))
        every = np.concatenate(found) if found else np.empty((0, 1 + len(design.names)))
        places = {name: i for i, name in enumerate([INTERCEPT, *design.names])}
        return every[:, [places[name] for name in labels]]

    def columns_of(self, text: str, labels: list[str]) -> list[str]:
        """The columns that a smaller formula has, all of them among those of this design."""
        formula = parse(text, self.design.formula.variables)
        if formula.response.text != self.design.formula.response.text:
            raise NotExactError(
                f"This coreset keeps the response {self.design.formula.response.text!r}, not {formula.response.text!r}."
            )
        smaller = make_design(formula, self.design.learned)
        names = [name for term in smaller.terms for name in term.columns]
        for name in names:
            if name not in labels:
                raise NotExactError(
                    f"The term of column {name!r} is not in this coreset, which has {', '.join(labels)}; fit the larger "
                    "formula to the data first."
                )
        return names
