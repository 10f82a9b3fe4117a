"""What one pass over all rows must learn before a formula can be evaluated: levels, means, knots.

    C(a), text columns        the levels that occur
    center, scale, poly, bs   sums over the values of the expression (:mod:`.transforms`)
    weights                   the sum of their logarithms, which the likelihood has

Nothing else is kept, so the pass runs in bounded memory and its parts (files, partitions) can be joined.  Booleans need no
pass: their levels are False and True.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat._data.batch import Batch
from karat.errors import InputError
from karat.inference.design import Learned
from karat.inference.formula import Factor
from karat.inference.layout import Columns
from karat.inference.transforms import transforms_of
from karat.io.learn import LearnLevels
from karat.io.source import Chunk


@dataclass
class Learn(LearnLevels):
    """Learns levels and states from the rows of a scan."""

    layout: Columns
    declared: dict[str, list[Any]] = field(default_factory=dict)  # levels in the order of the data's own category type
    whole: bool = False  # numbers are read as doubles, so that whole numbers are levels such as 2019, not 2019.0
    rows: int = 0
    log_weights: float = 0.0
    row: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        formula = self.layout.formula
        self.categories = [factor for factor in formula.factors if self.layout.is_category(factor)]
        self.levels = {factor.text: set() for factor in self.categories}
        self.transforms = list(transforms_of((*formula.factors, formula.response)))
        self.sums = {transform.key: transform.start() for transform in self.transforms}

    @property
    def needed(self) -> bool:
        """Whether there is anything to learn."""
        return bool(self.categories or self.transforms or self.layout.roles.weight)

    def reading(self) -> Columns:
        """The layout of the pass: only the columns that it looks at, if no row is left out."""
        if self.layout.drop:
            return self.layout
        formula = self.layout.formula
        some = [f for f in (*formula.factors, formula.response) if f in self.categories or f.stateful()]
        return replace(self.layout, only=tuple(dict.fromkeys(name for factor in some for name in factor.variables)))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        table, where = chunk.table, chunk.where
        keep = np.ones(table.num_rows, dtype=bool)
        found = {factor.text: self.layout.values(table, factor, keep, where) for factor in self.categories}
        columns: dict[str, np.ndarray] = {}
        for transform in self.transforms:
            names = transform.columns()
            columns |= {name: self.layout.column(table, name, keep, where) for name in names if name not in columns}
        weights = self.layout.weights(table, keep, where)
        if self.layout.drop:
            self._find_gaps(table, keep, where)
        arguments = {}
        for transform in self.transforms:
            inside = {name: columns[name] for name in transform.columns()}
            x = transform.expression.numbers(inside, {}, transform.call.args[0])
            arguments[transform.key] = self.layout.checked(x, transform.key, keep, where)
        for key, x in arguments.items():  # the rows that count are known now
            self.sums[key].add(x if keep.all() else x[keep])
        if weights is not None:
            self.log_weights += float(np.log(weights[keep]).sum())
        for text, column in found.items():
            some = column if keep.all() else column.filter(pa.array(keep))
            self.add_levels("term", text, some, "is it an identifier? Use it as cluster=, or join levels")
        if not self.row and keep.any():
            values = {name: table.column(name)[int(np.argmax(keep))].as_py() for name in table.schema.names}
            self.row = {name: value for name, value in values.items() if isinstance(value, str | int | float | bool)}
        self.rows += int(keep.sum())

    def _find_gaps(self, table: Any, keep: np.ndarray, where: Any) -> None:
        """Rows that later passes leave out have no say."""
        formula = self.layout.formula
        for name in formula.variables:
            self.layout.column(table, name, keep, where)
        for factor in (*formula.factors, formula.response):
            if self.layout.is_boolean(factor):
                self.layout.values(table, factor, keep, where)
            elif not self.layout.is_category(factor) and not factor.stateful():
                self.layout.numbers(table, factor, keep, where, {})

    def merge(self, other: Learn) -> None:
        """Add what another part of the data has taught."""
        for text, levels in other.levels.items():
            self.levels[text] |= levels
        for key, sums in other.sums.items():
            self.sums[key].merge(sums)
        self.rows += other.rows
        self.log_weights += other.log_weights
        self.row = self.row or other.row

    def learned(self) -> Learned:
        """What all rows decide."""
        if self.needed and not self.rows:
            raise InputError("The data has no rows that the formula can use.")
        levels = {factor.text: self._ordered(factor) for factor in self.categories}
        formula = self.layout.formula
        levels |= {factor.text: [False, True] for factor in formula.factors if self.layout.is_boolean(factor)}
        states = {transform.key: transform.state(self.sums[transform.key]) for transform in self.transforms}
        typed = {name: self.layout.row[name][0] for name in formula.variables}
        row = {name: value if isinstance(value, str) else value.item() for name, value in typed.items()}
        return Learned(levels, states, row | self.row)

    def _level(self, value: Any) -> Any:
        return int(value) if self.whole and isinstance(value, float) and value.is_integer() else value

    def _ordered(self, factor: Factor) -> list[Any]:
        found = {self._level(value) for value in self.levels[factor.text] if value is not None}
        strange = next((value for value in found if not isinstance(value, str | int | float | bool)), None)
        if strange is not None:
            raise InputError(
                f"The term {factor.text!r} has levels of type {type(strange).__name__}; make them text or numbers."
            )
        given = factor.contrasts()[1]
        if given is not None:
            missing = [level for level in found if level not in given]
            if missing:
                raise InputError(f"The term {factor.text!r} does not list the level {missing[0]!r}, which the data has.")
            return list(given)
        declared = self.declared.get(factor.column or "")
        if declared is not None:
            return [level for level in declared if level in found]
        return sorted(found, key=lambda level: (isinstance(level, str), level))
