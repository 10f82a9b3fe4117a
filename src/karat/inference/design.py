"""The design: the columns that the terms of a formula become, computed from a batch of Arrow rows.

    term    = product of factors, times a number;  column (j, i) of A:B is A[:, i] * B[:, j]
    factor  = a column, an expression, or levels: row r of a category has the row
    ``coding[code[r]]``

formulaic decides once which columns there are (:func:`make_design`), from one row and from what all
rows taught.  What it decided is stored as JSON, with the levels and the states of the transforms,
so that other rows are encoded in the same way by anyone who has the coreset.  Terms come in patsy's
order, as in statsmodels; :mod:`karat.compat.formulaic` makes formulaic's other choices those of
patsy.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula as ParsedFormula
from formulaic import ModelSpec
from formulaic.parser.types import Factor as ParsedFactor
from formulaic.transforms.contrasts import encode_contrasts

from karat.compat.formulaic import BooleanLevels, first_line
from karat.engine.linalg import Array
from karat.errors import InputError, reading
from karat.inference.formula import Factor, Formula, parse, with_numbers

INTERCEPT = "Intercept"


@dataclass(frozen=True)
class Learned:
    """What all rows decide about the encoding.

    Attributes
    ----------
    levels : dict
        Of every category, by the text of its factor.
    states : dict
        Of the transforms, by their text.
    row : dict
        Values of the columns in some row.
    """

    levels: dict[str, list[Any]] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DesignTerm:
    """A term: names of its columns, its factors (and whether each is reduced), and a number."""

    columns: tuple[str, ...]
    factors: tuple[tuple[str, bool], ...]
    scale: float


@dataclass(frozen=True)
class Design:
    """The columns of a formula."""

    formula: Formula
    terms: tuple[DesignTerm, ...]
    learned: Learned

    @property
    def names(self) -> list[str]:
        """Of the columns, without the intercept."""
        return [name for term in self.terms if term.factors for name in term.columns]

    @property
    def intercept(self) -> bool:
        """Whether there is an intercept."""
        return any(not term.factors for term in self.terms)

    @cached_property
    def factors(self) -> dict[str, Factor]:
        return {factor.text: factor for factor in self.formula.factors}

    @cached_property
    def codings(self) -> dict[tuple[str, bool], Array]:
        """Of a category: the rows of the design that its levels have."""
        used = {one for term in self.terms for one in term.factors if one[0] in self.learned.levels}
        return {
            (text, reduced): coding(self.factors[text], self.learned.levels[text], reduced)
            for text, reduced in used
        }

    def blocks(self, known: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The columns of a batch, term by term, from the values of its factors: one or more
        columns, or codes of levels.
        """
        return [self._block(term, known) for term in self.terms if term.factors]

    def _block(self, term: DesignTerm, known: Mapping[str, np.ndarray]) -> np.ndarray:
        block: np.ndarray | None = None
        product = len(term.factors) > 1
        for text, reduced in term.factors:
            values = (
                known[text].astype(float, copy=False)
                if product and text not in self.learned.levels
                else known[text]
            )
            if text in self.learned.levels:
                values = self.codings[text, reduced].T.take(values, axis=1).T  # column by column
            elif reduced:
                values = values[:, 1:]  # of a basis that contains the constant
            block = (
                values
                if block is None
                else (values[:, :, None] * block[:, None, :]).reshape(len(values), -1)
            )
        assert block is not None
        return block if term.scale == 1.0 else term.scale * block

    def facts(self) -> dict[str, Any]:
        """For JSON, and for :func:`restored_design`."""
        return {
            "formula": self.formula.text,
            "levels": self.learned.levels,
            "states": self.learned.states,
            "row": self.learned.row,
            "terms": [
                [list(term.columns), [list(one) for one in term.factors], term.scale]
                for term in self.terms
            ],
        }


def restored_design(facts: Mapping[str, Any]) -> Design:
    """The design of :meth:`Design.facts`."""
    with reading("The regression of this coreset", "one that karat wrote"):
        terms = tuple(
            DesignTerm(tuple(names), tuple((t, bool(r)) for t, r in factors), scale)
            for names, factors, scale in facts["terms"]
        )
        names = {name for term in terms for name in term.columns}
        learned = Learned(facts["levels"], facts["states"], facts["row"])
        return Design(parse(facts["formula"], sorted(names)), terms, learned)


def coding(factor: Factor, levels: Sequence[Any], reduced: bool) -> Array:
    """The row of the design that each level of a category has."""
    contrasts, _ = factor.contrasts()
    try:
        found = encode_contrasts(
            pd.Series(list(levels)),
            contrasts=contrasts,
            levels=list(levels),
            reduced_rank=reduced,
            output="pandas",
        )
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"The term {factor.text!r} cannot be encoded: {error}") from error
    return np.ascontiguousarray(np.asarray(found, dtype=float))


def make_design(formula: Formula, learned: Learned) -> Design:
    """Ask formulaic which columns the terms have."""
    row: dict[str, Any] = {name: [learned.row.get(name, 0.5)] for name in formula.variables}
    states = {
        text: (ParsedFactor.Kind.CATEGORICAL, {"categories": list(levels)})
        for text, levels in learned.levels.items()
    }
    for factor in formula.factors:
        if factor.looked_up and factor.text in learned.levels:
            row[factor.text] = pd.Categorical(learned.levels[factor.text][:1])
        elif factor.expression is not None and factor.text not in learned.levels:
            _first_value(factor, learned)
    kinds = {
        name: object if isinstance(value, list) and isinstance(value[0], str) else None
        for name, value in row.items()
    }
    frame = pd.DataFrame({name: pd.Series(value, dtype=kinds[name]) for name, value in row.items()})
    transforms = {text: with_numbers(state) for text, state in learned.states.items()}
    spec = ModelSpec.from_spec(
        _in_order(formula, learned),
        encoder_state=states,
        transform_state=transforms,
        na_action="ignore",
        output="numpy",
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
            raise InputError(
                f"The term {str(structure.term)!r} has a single level, so it has no column; leave"
                " it out."
            )
        place = 0
        for scoped in structure.scoped_terms:
            factors = tuple((one.factor.expr, bool(one.reduced)) for one in scoped.factors)
            count = int(
                np.prod([_width(formula, text, reduced, learned) for text, reduced in factors])
            )
            names = tuple(str(name) for name in structure.columns[place : place + count])
            terms.append(DesignTerm(names, factors, float(scoped.scale)))
            place += count
        assert place == len(structure.columns), structure
    named = [name for term in terms for name in term.columns]
    for name in named:
        if named.count(name) > 1:
            raise InputError(
                f"Two terms of the formula {formula.text!r} make a column {name!r}; rename a column"
                " of the data."
            )
    return Design(formula, tuple(terms), learned)


def _in_order(formula: Formula, learned: Learned) -> Any:
    """The terms in patsy's order: first those without numbers; then by the numbers in them, in the
    order they appear in; of the same numbers, by how many factors there are.
    """
    numbers = {factor.text for factor in formula.factors if factor.text not in learned.levels}
    buckets: dict[frozenset[str], list[Any]] = {frozenset(): []}
    for term in formula.terms:
        buckets.setdefault(frozenset(factor.expr for factor in term.factors) & numbers, []).append(
            term
        )
    ordered = [
        term for bucket in buckets.values() for term in sorted(bucket, key=lambda term: term.degree)
    ]
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
    columns = {
        name: np.array([value], dtype=object if isinstance(value, str) else None)
        for name, value in values.items()
    }
    return factor.expression.numbers(columns, learned.states)
