"""The design: the columns of the terms of a formula, computed from a batch of Arrow rows.

    term    = product of factors, times a number;  column (j, i) of A:B is A[:, i] * B[:, j]
    factor  = a column, an expression, or a category: row r has the row ``coding[code[r]]``
    coding  = the row of each level, by the contrasts that ``C(...)`` names

formulaic decides once which columns there are (:func:`make_design`), from one row and from what was
learned from all rows.  Its decision is stored as JSON, with the levels and the states of the
transforms, so that anyone who has the coreset encodes other rows in the same way.  Terms come in
patsy's order, as in statsmodels; :mod:`karat.compat.formulaic` makes formulaic's other choices
those of patsy.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula as ParsedFormula
from formulaic import ModelSpec
from formulaic.parser.types import Factor as ParsedFactor
from formulaic.transforms import TRANSFORMS
from formulaic.transforms.contrasts import Contrasts, encode_contrasts

from karat.compat.formulaic import BooleanLevels, Without, first_line
from karat.engine.linalg import Array
from karat.errors import InputError, reading
from karat.formulas.expression import with_numbers
from karat.formulas.formula import Factor, Formula, parse

INTERCEPT = "Intercept"
CONTRASTS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")
CONTRASTS_OF_R = ("treatment", "SAS", "sum", "helmert", "diff", "poly")  # contr.treatment, ...


@dataclass(frozen=True)
class Learned:
    """What was learned from all rows: all that the encoding depends on.

    Attributes
    ----------
    levels : dict
        Levels of every category, by the text of its factor.
    states : dict
        States of the transforms, by their text.
    row : dict
        The values of one row, by column.
    """

    levels: dict[str, list[Any]] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DesignTerm:
    """A term, or a part of one: names of its columns, its factors (and whether each is of reduced
    rank), the number that multiplies it, and the term of the formula that it belongs to.
    """

    columns: tuple[str, ...]
    factors: tuple[tuple[str, bool], ...]
    scale: float
    of: str


@dataclass(frozen=True)
class Design:
    """The columns of a formula.

    With instruments, they come in the order exogenous, instruments, endogenous; the names of the
    last two are listed.
    """

    formula: Formula
    terms: tuple[DesignTerm, ...]
    learned: Learned
    instruments: tuple[str, ...] = ()
    endogenous: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns, without the intercept unless it is alone."""
        return [name for term in self._feature_terms for name in term.columns]

    @property
    def _feature_terms(self) -> tuple[DesignTerm, ...]:
        """The terms whose columns are computed: all but the intercept, or the intercept alone."""
        return tuple(term for term in self.terms if term.factors) or self.terms

    @property
    def intercept(self) -> bool:
        """Whether there is an intercept beside the columns."""
        return len(self._feature_terms) < len(self.terms)

    @property
    def widths(self) -> list[int]:
        """The number of columns of each block."""
        return [len(term.columns) for term in self._feature_terms]

    @cached_property
    def factors(self) -> dict[str, Factor]:
        return {factor.text: factor for factor in self.formula.factors}

    @cached_property
    def codings(self) -> dict[tuple[str, bool], Array]:
        """For every category, the row of the design for each of its levels."""
        levels = self.learned.levels
        return {
            (text, reduced): coding(self.factors[text], levels[text], reduced)
            for term in self.terms
            for text, reduced in term.factors
            if text in levels
        }

    def blocks(self, factor_values: Mapping[str, np.ndarray], rows: int) -> list[np.ndarray]:
        """The columns of a batch, term by term, from the values of the factors: columns of numbers,
        or codes of levels.
        """
        return [
            self._block(term, factor_values) if term.factors else np.ones((rows, 1))
            for term in self._feature_terms
        ]

    def _block(self, term: DesignTerm, factor_values: Mapping[str, np.ndarray]) -> np.ndarray:
        block: np.ndarray | None = None
        product = len(term.factors) > 1
        for text, reduced in term.factors:
            values = factor_values[text]
            if text in self.learned.levels:
                values = self.codings[text, reduced].T.take(values, axis=1).T  # column by column
            elif product:
                values = values.astype(float, copy=False)  # products of integers would overflow
            if reduced and text not in self.learned.levels:
                values = values[
                    :, 1:
                ]  # the first column of such a basis is implied by the constant
            block = (
                values
                if block is None
                else (values[:, :, None] * block[:, None, :]).reshape(
                    len(values), values.shape[1] * block.shape[1]
                )
            )
        assert block is not None
        return block if term.scale == 1.0 else term.scale * block

    @property
    def structural(self) -> Design:
        """The design without instruments, which encodes rows that are predicted."""
        if not self.instruments:
            return self
        terms = tuple(term for term in self.terms if not set(term.columns) & set(self.instruments))
        used = {text for term in terms for text, _ in term.factors}
        factors = tuple(factor for factor in self.formula.factors if factor.text in used)
        return Design(replace(self.formula, factors=factors), terms, self.learned)

    def facts(self) -> dict[str, Any]:
        """For JSON, and for :func:`restored_design`."""
        roles = {"instruments": list(self.instruments), "endogenous": list(self.endogenous)}
        return (roles if self.instruments else {}) | {
            "formula": self.formula.text,
            "variables": list(self.formula.variables),
            "levels": self.learned.levels,
            "states": self.learned.states,
            "row": self.learned.row,
            "terms": [
                [list(term.columns), [list(factor) for factor in term.factors], term.scale, term.of]
                for term in self.terms
            ],
        }


def restored_design(facts: Mapping[str, Any]) -> Design:
    """The design of :meth:`Design.facts`."""
    with reading("The regression of this coreset", "one that karat wrote"):
        terms = tuple(
            DesignTerm(
                tuple(names), tuple((t, bool(r)) for t, r in factors), scale,
                of[0] if of else ":".join(text for text, _ in factors) or INTERCEPT,
            )  # files of 0.2.0 do not say which term a part belongs to
            for names, factors, scale, *of in facts["terms"]
        )  # fmt: skip
        names = facts.get("variables")  # what "." stands for; earlier files do not say
        if names is None:
            names = sorted({name for term in terms for name in term.columns})
        learned = Learned(facts["levels"], facts["states"], facts["row"])
        roles = (tuple(facts.get(role, ())) for role in ("instruments", "endogenous"))
        return Design(parse(facts["formula"], names), terms, learned, *roles)


def make_design(formula: Formula, learned: Learned) -> Design:
    """Ask formulaic which columns the terms have.

    Instruments are coded beside the exogenous terms, as if there were no endogenous ones, and these
    as if there were no instruments.
    """
    exogenous = _make_terms(formula, learned, ())
    instruments, endogenous = (
        _make_terms(formula, learned, terms)[len(exogenous) :] if terms else ()
        for terms in (formula.instruments, formula.endogenous)
    )
    terms = (*exogenous, *instruments, *endogenous)
    _check_names(formula, terms)
    columns = (
        [name for term in part for name in term.columns] for part in (instruments, endogenous)
    )
    return Design(formula, terms, learned, *map(tuple, columns))


def _make_terms(formula: Formula, learned: Learned, last: Sequence[Any]) -> tuple[DesignTerm, ...]:
    """The exogenous terms of a formula, and others after them."""
    if not len(formula.terms) and not last:
        return ()
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
        _in_order(formula, learned, last),
        encoder_state=states,
        transform_state=transforms,
        na_action="ignore",
        output="numpy",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row may be outside the domain of a term
        try:
            matrix = BooleanLevels(frame).get_model_matrix(spec)
        except Exception as error:  # formulaic evaluates what the user wrote
            reason = first_line(error) or type(error).__name__
            raise InputError(f"The formula {formula.text!r} cannot be used: {reason}") from error
    terms = []
    for structure in matrix.model_spec.structure:
        if not structure.columns:
            raise InputError(
                f"The term {str(structure.term)!r} has a single level, so it has no column; remove"
                " it."
            )
        place = 0
        whole = max((scoped.factors for scoped in structure.scoped_terms), key=len)
        term = ":".join(part.factor.expr for part in whole) or INTERCEPT
        for scoped in structure.scoped_terms:
            factors = tuple((part.factor.expr, bool(part.reduced)) for part in scoped.factors)
            count = int(
                np.prod([_width(formula, text, reduced, learned) for text, reduced in factors])
            )
            columns = structure.columns[place : place + count]
            names = tuple(formula.column_name(str(name)) for name in columns)
            terms.append(DesignTerm(names, factors, float(scoped.scale), term))
            place += count
        assert place == len(structure.columns), structure
    return tuple(terms)


def _check_names(formula: Formula, terms: Sequence[DesignTerm]) -> None:
    seen: set[str] = set()
    for name in (name for term in terms for name in term.columns):
        if name in seen:
            raise InputError(
                f"Two terms of the formula {formula.text!r} make a column {name!r}; rename a column"
                " of the data."
            )
        seen.add(name)


def _in_order(formula: Formula, learned: Learned, last: Sequence[Any]) -> Any:
    """The terms in patsy's order: first those of categories alone, then by the numeric factors they
    contain, in order of appearance, and within that by the number of factors.  Then the ``last``
    ones, in the same order.
    """
    numbers = {factor.text for factor in formula.factors if factor.text not in learned.levels}
    ordered: list[Any] = []
    for terms in (formula.terms, last):
        buckets: dict[frozenset[str], list[Any]] = {frozenset(): []}
        for term in terms:
            numeric = frozenset(factor.expr for factor in term.factors) & numbers
            buckets.setdefault(numeric, []).append(term)
        for bucket in buckets.values():
            ordered += sorted(bucket, key=lambda term: term.degree)
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
    """The value of an expression without levels in one row; an error names it if it is text."""
    assert factor.expression is not None
    values = {name: learned.row.get(name, 0.5) for name in factor.variables}
    columns = {
        name: np.array([value], dtype=object if isinstance(value, str) else None)
        for name, value in values.items()
    }
    return factor.expression.numbers(columns, learned.states)


def coding(factor: Factor, levels: Sequence[Any], reduced: bool) -> Array:
    """The row of the design that each level of a category has."""
    contrasts, _ = category_options(factor)
    try:
        rows = encode_contrasts(
            pd.Series(list(levels)),
            contrasts=contrasts,
            levels=list(levels),
            reduced_rank=reduced,
            output="pandas",
        )
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"The term {factor.text!r} cannot be encoded: {error}") from error
    return np.ascontiguousarray(np.asarray(rows, dtype=float))


def category_options(factor: Factor) -> tuple[Any, list[Any] | None]:
    """The contrasts and the levels that ``C(...)`` names; None for those it does not."""
    if factor.category is None:
        return None, None
    given = {keyword.arg: keyword.value for keyword in factor.category.keywords}
    if len(factor.category.args) > 1:
        given["contrasts"] = factor.category.args[1]
    unknown = set(given) - {"contrasts", "levels"}
    if unknown or len(factor.category.args) > 2:
        other = ", ".join(repr(name or "**") for name in unknown) or "more"
        raise InputError(
            f"The term {factor.text!r}: C takes a column, contrasts and levels, not {other}."
        )
    return _contrasts(factor, given.get("contrasts")), _levels(factor, given.get("levels"))


def _levels(factor: Factor, node: ast.expr | None) -> list[Any] | None:
    levels = None if node is None else _literal(factor, node)
    if levels is None:
        return None
    plain = isinstance(levels, list | tuple) and all(
        isinstance(level, str | int | float) for level in levels
    )
    if not plain or len(set(levels)) < len(levels) or not levels:
        raise InputError(
            f"The term {factor.text!r}: levels must be a list of different texts or numbers, not"
            f" {levels!r}."
        )
    return list(levels)


def _contrasts(factor: Factor, node: ast.expr | None) -> Any:
    """``contr.sum``, ``contr.treatment("b")``, ``Treatment("b")`` and the like."""
    if node is None:
        return None
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    function, kind = call.func, None
    if isinstance(function, ast.Attribute) and getattr(function.value, "id", None) == "contr":
        known = function.attr in CONTRASTS_OF_R
        kind = getattr(TRANSFORMS["contr"], function.attr) if known else None
    elif isinstance(function, ast.Name) and function.id in CONTRASTS:
        kind = TRANSFORMS[function.id]
    elif isinstance(function, ast.Name) and function.id == Without.__name__:
        kind = Without
    arguments = [_literal(factor, argument) for argument in call.args]
    keywords = {str(k.arg): _literal(factor, k.value) for k in call.keywords}
    try:
        contrasts = None if kind is None else kind(*arguments, **keywords)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The term {factor.text!r}: {ast.unparse(node)} cannot be used ({error})."
        ) from error
    if not isinstance(contrasts, Contrasts):
        raise InputError(
            f"The term {factor.text!r}: {ast.unparse(node)} are not known contrasts; use"
            " contr.treatment, contr.sum, contr.helmert, contr.diff or contr.poly."
        )
    return contrasts


def _literal(factor: Factor, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise InputError(
            f"The term {factor.text!r}: {ast.unparse(node)} must be a written-out value."
        ) from None
