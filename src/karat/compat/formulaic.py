"""formulaic, configured so that its tables are those of statsmodels.

Powers come in the order of patsy, booleans are categories, and ``C(g, Treatment)`` may be written
without parentheses.  Not public are two methods of a materializer, the argument by which a
transform is given its state, and the name in the context that lists what ``.`` stands for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, reduce
from itertools import combinations
from math import comb
from operator import mul
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula
from formulaic.materializers import PandasMaterializer
from formulaic.parser import DefaultFormulaParser, DefaultOperatorResolver
from formulaic.parser.types import Operator
from formulaic.transforms import TRANSFORMS
from formulaic.transforms.contrasts import UNSET, TreatmentContrasts

from karat.errors import InputError

AVAILABLE = "__formulaic_variables_available__"  # in the context of a formula: what "." stands for
STATE = "_state"  # the argument of a transform that holds what was learned
COLOURS = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")  # in the messages of formulaic's errors
MOST_TERMS = 10_000  # of a power


def parse_formula(text: str, names: Sequence[str]) -> Any:
    """Parse a formula, with terms in the order in which they are written; ``.`` stands for
    ``names``.
    """
    return Formula.from_spec(
        text, ordering="none", parser=_parser(), context={AVAILABLE: list(names)}
    )


def has_dot(text: str) -> bool:
    """Whether ``.`` is in a formula."""
    return any(token.token == "." for token in _parser().get_tokens(text))


@cache
def _parser() -> DefaultFormulaParser:
    return DefaultFormulaParser(operator_resolver=PowersInOrder())


class PowersInOrder(DefaultOperatorResolver):
    """The terms of a power by degree, as in patsy: (a + b)**2 is a, b, a:b."""

    @property
    def operators(self) -> list[Any]:
        return [
            _by_degree(operator) if operator.symbol in ("**", "^") else operator
            for operator in super().operators
        ]


def _by_degree(operator: Any) -> Any:
    """Products of up to ``power`` different terms, the shortest first; formulaic would make all
    with repetitions.
    """

    def expand(terms: Any, power: Any) -> Any:
        written = str(next(iter(power)))
        if not written.isdecimal() or int(written) < 1:
            return operator.to_terms(terms, power)  # says what is wrong
        sizes = range(1, min(int(written), len(terms)) + 1)
        if sum(comb(len(terms), size) for size in sizes) > MOST_TERMS:
            raise InputError(
                f"The power {written} of {len(terms)} terms has more than {MOST_TERMS:,} terms;"
                " lower it."
            )
        return type(terms)(
            reduce(mul, factors) for size in sizes for factors in combinations(terms, size)
        )

    return Operator(
        operator.symbol, arity=operator.arity, precedence=operator.precedence,
        associativity=operator.associativity, fixity=operator.fixity, to_terms=expand,
    )  # fmt: skip


class Treatment(TreatmentContrasts):
    """With patsy's name and argument, and also without parentheses."""

    def __init__(self, reference: Any = UNSET) -> None:
        super().__init__(base=reference)


class Without(TreatmentContrasts):
    """An indicator per level but the references, whether or not there is a constant; without
    references those of ``Treatment``.
    """

    FACTOR_FORMAT = FACTOR_FORMAT_REDUCED = "{name}::{field}"

    def __init__(self, *references: Any) -> None:
        super().__init__()
        self.references = references

    def _left_out(self, levels: Sequence[Any], reduced_rank: bool) -> list[int]:
        unknown = [level for level in self.references if level not in levels]
        if unknown:
            shown = ", ".join(map(repr, levels[:10])) + ", ..." * (len(levels) > 10)
            raise ValueError(f"ref={unknown[0]!r} is not a level; the levels are {shown}")
        first = [0] if reduced_rank else []
        return [levels.index(level) for level in self.references] or first

    @TreatmentContrasts.override
    def _apply(
        self, dummies: Any, levels: Sequence[Any], reduced_rank: bool = True, sparse: bool = False
    ) -> Any:
        return dummies.iloc[:, self._kept(levels, reduced_rank)]

    def _kept(self, levels: Sequence[Any], reduced_rank: bool) -> list[int]:
        left_out = self._left_out(levels, reduced_rank)
        return [place for place in range(len(levels)) if place not in left_out]

    @TreatmentContrasts.override
    def get_coding_column_names(self, levels: Sequence[Any], reduced_rank: bool = True) -> Any:
        return [levels[place] for place in self._kept(levels, reduced_rank)]

    @TreatmentContrasts.override
    def get_spans_intercept(self, levels: Sequence[Any], reduced_rank: bool = True) -> bool:
        return not self._left_out(levels, reduced_rank)

    @TreatmentContrasts.override
    def get_drop_field(self, levels: Sequence[Any], reduced_rank: bool = True) -> Any:
        return None if self._left_out(levels, reduced_rank) else levels[0]


class BooleanLevels(PandasMaterializer):
    """formulaic's materializer for pandas, with booleans as categories, as in statsmodels."""

    REGISTER_NAME = "karat"
    REGISTER_INPUTS = ()

    def __init__(self, data: Any) -> None:
        super().__init__(data, context={"Treatment": Treatment, "Without": Without})

    @PandasMaterializer.override
    def _evaluate(self, expr: str, metadata: Any, spec: Any) -> tuple[Any, Any]:
        value, variables = super()._evaluate(expr, metadata, spec)
        return (
            pd.Series(value) if isinstance(value, np.ndarray) and value.dtype == bool else value
        ), variables

    @PandasMaterializer.override
    def _is_categorical(self, values: Any) -> bool:
        return str(getattr(values, "dtype", "")) == "bool" or super()._is_categorical(values)


def apply_transform(
    name: str, arguments: Sequence[Any], keywords: dict[str, Any], state: dict[str, Any]
) -> np.ndarray:
    """The values of a transform with a state that was learned."""
    values = TRANSFORMS[name](*arguments, **keywords, **{STATE: state})
    if isinstance(values, dict):
        return np.column_stack([np.asarray(column, dtype=float) for column in values.values()])
    return np.asarray(getattr(values, "__wrapped__", values), dtype=float)


def first_line(error: Exception) -> str:
    """The first line of an error of formulaic, without terminal colours; empty if there is none."""
    return next(iter(COLOURS.sub("", str(error)).strip().splitlines()), "")
