"""What one pass over all rows must learn before a formula can be evaluated: levels and states.

    C(a), text columns    the levels that occur
    center, poly, bs ...  the sums from which their states follow (:mod:`.transforms`)
    weights               the sum of their logarithms, a term of the likelihood

Nothing else is kept, so the pass runs in bounded memory and its parts (files, partitions) can be
merged.  Booleans need no pass: their levels are False and True.  The options of ``C(...)`` are
checked before the data is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from karat.data.batch import Batch
from karat.errors import InputError
from karat.formulas.design import Learned, category_options
from karat.formulas.formula import Factor
from karat.formulas.layout import FormulaLayout
from karat.formulas.transforms import transforms_of
from karat.io.scan import LearnLevels
from karat.io.source import Chunk


@dataclass
class Learn(LearnLevels):
    """Learns levels and states from the rows of a scan."""

    layout: FormulaLayout
    # levels of categorical columns, in the order that their type declares
    declared: dict[str, list[Any]] = field(default_factory=dict)
    # the source reads integers as doubles; as levels they must be 2019 again, not 2019.0
    all_doubles: bool = False
    rows: int = 0
    log_weights: float = 0.0
    total_weight: float = 0.0
    row: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        formula = self.layout.formula
        self.categories = [factor for factor in formula.factors if self.layout.is_category(factor)]
        for factor in self.categories:
            category_options(factor)  # raises before the data is read
        self.levels = {factor.text: set() for factor in self.categories}
        self.transforms = list(transforms_of((*formula.factors, *formula.responses)))
        self.sums = {transform.key: transform.start() for transform in self.transforms}

    @property
    def needed(self) -> bool:
        """Whether there is anything to learn."""
        return bool(self.categories or self.transforms or self.layout.roles.weight)

    def reading(self) -> FormulaLayout:
        """The layout of the pass: only the columns it needs, unless rows may be dropped."""
        if self.layout.drop:
            return self.layout
        formula = self.layout.formula
        names = [
            name
            for factor in (*formula.factors, *formula.responses)
            if factor in self.categories or factor.stateful()
            for name in factor.variables
        ]
        return replace(self.layout, only=tuple(dict.fromkeys(names)))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        table, rows, where = self.layout.complete(chunk.table, chunk.where)
        if not len(rows):
            return
        everything = np.ones(len(rows), dtype=bool)
        weights = self.layout.weights(table, everything, where)
        if weights is not None:
            self.log_weights += float(np.log(weights).sum())
            self.total_weight += float(weights.sum())
        for transform in self.transforms:
            columns = {
                name: self.layout.column(table, name, everything, where)
                for name in transform.columns()
            }
            x = transform.expression.numbers(columns, {}, transform.call.args[0])
            self.sums[transform.key].add(self.layout.checked(x, transform.key, everything, where))
        for factor in self.categories:
            column = self.layout.values(table, factor, everything, where)
            self.add_levels(
                "term",
                factor.text,
                column,
                "is it an identifier? Use it as cluster=, or join levels",
            )
        if not self.row:
            values = {name: table.column(name)[0].as_py() for name in table.schema.names}
            self.row = {
                name: value
                for name, value in values.items()
                if isinstance(value, str | int | float | bool)
            }
        self.rows += len(rows)

    def merge(self, other: Learn) -> None:
        """Add what was learned from another part of the data."""
        for text, levels in other.levels.items():
            self.levels[text] |= levels
        for key, sums in other.sums.items():
            self.sums[key].merge(sums)
        self.rows += other.rows
        self.log_weights += other.log_weights
        self.total_weight += other.total_weight
        self.row = self.row or other.row

    def learned(self) -> Learned:
        """The levels and states, after all rows."""
        if self.needed and not self.rows:
            raise InputError("The data has no rows that the formula can use.")
        levels = {factor.text: self._ordered(factor) for factor in self.categories}
        formula = self.layout.formula
        levels |= {
            factor.text: [False, True]
            for factor in formula.factors
            if self.layout.is_boolean(factor)
        }
        states = {
            transform.key: transform.state(self.sums[transform.key])
            for transform in self.transforms
        }
        typed = {name: self.layout.row[name][0] for name in formula.variables}
        row = {
            name: value if isinstance(value, str) else value.item() for name, value in typed.items()
        }
        return Learned(levels, states, row | self.row)

    def _level(self, value: Any) -> Any:
        return (
            int(value)
            if self.all_doubles and isinstance(value, float) and value.is_integer()
            else value
        )

    def _ordered(self, factor: Factor) -> list[Any]:
        """The levels of a category: those of ``C(...)`` or of the type, else sorted."""
        levels = {self._level(value) for value in self.levels[factor.text] if value is not None}
        for level in levels:
            if not isinstance(level, str | int | float | bool):
                raise InputError(
                    f"The term {factor.text!r} has levels of type {type(level).__name__}; convert"
                    " them to text or numbers."
                )
        given = category_options(factor)[1]
        if given is not None:
            missing = [level for level in levels if level not in given]
            if missing:
                raise InputError(
                    f"The term {factor.text!r} does not list the level {missing[0]!r}, which the"
                    " data has."
                )
            return list(given)
        declared = self.declared.get(factor.column or "")
        if declared is not None:
            return [level for level in declared if level in levels]
        return sorted(levels, key=lambda level: (isinstance(level, str), level))
