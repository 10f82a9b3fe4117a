"""Which columns the terms of a formula have: formulaic decides it once, from one row and from what all rows taught.

Terms come in patsy's order, as in statsmodels; :mod:`karat.compat.formulaic` makes formulaic's other choices those of patsy.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula as ParsedFormula
from formulaic import ModelSpec
from formulaic.parser.types import Factor as ParsedFactor

from karat.compat.formulaic import BooleanLevels, first_line
from karat.errors import InputError
from karat.inference.design import Design, DesignTerm, Learned, coding
from karat.inference.expressions import with_numbers
from karat.inference.formula import Factor, Formula


def make_design(formula: Formula, learned: Learned) -> Design:
    """Ask formulaic which columns the terms have."""
    row: dict[str, Any] = {name: [learned.row.get(name, 0.5)] for name in formula.variables}
    states = {text: (ParsedFactor.Kind.CATEGORICAL, {"categories": list(levels)}) for text, levels in learned.levels.items()}
    for factor in formula.factors:
        if factor.looked_up and factor.text in learned.levels:
            row[factor.text] = pd.Categorical(learned.levels[factor.text][:1])
        elif factor.expression is not None and factor.text not in learned.levels:
            _first_value(factor, learned)
    kinds = {name: object if isinstance(value, list) and isinstance(value[0], str) else None for name, value in row.items()}
    frame = pd.DataFrame({name: pd.Series(value, dtype=kinds[name]) for name, value in row.items()})
    transforms = {text: with_numbers(state) for text, state in learned.states.items()}
    spec = ModelSpec.from_spec(
        _in_order(formula, learned), encoder_state=states, transform_state=transforms, na_action="ignore", output="numpy"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row need not have the values of any term
        try:
            made = BooleanLevels(frame).get_model_matrix(spec)
        except Exception as error:  # formulaic computes what the user wrote, so any error may come
            said = first_line(error) or type(error).__name__
            raise InputError(f"The formula {formula.text!r} cannot be used: {said}") from error
    terms = []
    for structure in made.model_spec.structure:
        if not structure.columns:
            raise InputError(f"The term {str(structure.term)!r} has a single level, so it has no column; leave it out.")
        place = 0
        for scoped in structure.scoped_terms:
            factors = tuple((one.factor.expr, bool(one.reduced)) for one in scoped.factors)
            count = int(np.prod([_width(formula, text, reduced, learned) for text, reduced in factors]))
            names = tuple(str(name) for name in structure.columns[place : place + count])
            terms.append(DesignTerm(names, factors, float(scoped.scale)))
            place += count
        assert place == len(structure.columns), structure
    named = [name for term in terms for name in term.columns]
    for name in named:
        if named.count(name) > 1:
            raise InputError(f"Two terms of the formula {formula.text!r} make a column {name!r}; rename a column of the data.")
    return Design(formula, tuple(terms), learned)


def _in_order(formula: Formula, learned: Learned) -> Any:
    """The terms in patsy's order: first those without numbers; then by the numbers in them, in the order they appear in; of
    the same numbers, by how many factors there are.
    """
    numbers = {factor.text for factor in formula.factors if factor.text not in learned.levels}
    buckets: dict[frozenset[str], list[Any]] = {frozenset(): []}
    for term in formula.terms:
        buckets.setdefault(frozenset(factor.expr for factor in term.factors) & numbers, []).append(term)
    ordered = [term for bucket in buckets.values() for term in sorted(bucket, key=lambda term: term.degree)]
    return ParsedFormula.from_spec(ordered, ordering="none")


def _width(formula: Formula, text: str, reduced: bool, learned: Learned) -> int:
    factor = next(f for f in formula.factors if f.text == text)
    if text in learned.levels:
        return int(coding(factor, learned.levels[text], reduced).shape[1])
    if factor.expression is None:
        return 1
    values = _first_value(factor, learned)
    return (values.shape[1] if values.ndim == 2 else 1) - reduced


def _first_value(factor: Factor, learned: Learned) -> np.ndarray:
    """Of an expression that has no levels; refused by its name if it is no number."""
    assert factor.expression is not None
    values = {name: learned.row.get(name, 0.5) for name in factor.variables}
    columns = {name: np.array([value], dtype=object if isinstance(value, str) else None) for name, value in values.items()}
    return factor.expression.numbers(columns, learned.states)
