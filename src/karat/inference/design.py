"""The design: the columns that the terms of a formula become, computed from a batch of Arrow rows.

    term     = product of factors, times a number;  column (j, i) of A:B is A[:, i] * B[:, j]
    factor   = a column, an expression, or levels: row r of a category has the row ``coding[code[r]]``

formulaic decides once which columns there are (:mod:`.terms`); what it decided is stored as JSON, with the levels and the
states of the transforms, so that other rows are encoded in the same way by anyone who has the coreset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from formulaic.transforms.contrasts import encode_contrasts

from karat._storage.damage import reading
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.inference.formula import Factor, Formula, parse

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
        return {(text, reduced): coding(self.factors[text], self.learned.levels[text], reduced) for text, reduced in used}

    def blocks(self, known: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The columns of a batch, term by term, from the values of its factors: one or more columns, or codes of levels."""
        return [self._block(term, known) for term in self.terms if term.factors]

    def _block(self, term: DesignTerm, known: Mapping[str, np.ndarray]) -> np.ndarray:
        block: np.ndarray | None = None
        product = len(term.factors) > 1
        for text, reduced in term.factors:
            values = known[text].astype(float, copy=False) if product and text not in self.learned.levels else known[text]
            if text in self.learned.levels:
                values = self.codings[text, reduced].T.take(values, axis=1).T  # column by column
            elif reduced:
                values = values[:, 1:]  # of a basis that contains the constant
            block = values if block is None else (values[:, :, None] * block[:, None, :]).reshape(len(values), -1)
        assert block is not None
        return block if term.scale == 1.0 else term.scale * block

    def facts(self) -> dict[str, Any]:
        """For JSON, and for :func:`restored_design`."""
        return {
            "formula": self.formula.text,
            "levels": self.learned.levels,
            "states": self.learned.states,
            "row": self.learned.row,
            "terms": [[list(term.columns), [list(one) for one in term.factors], term.scale] for term in self.terms],
        }


def restored_design(facts: Mapping[str, Any]) -> Design:
    """The design of :meth:`Design.facts`."""
    with reading("The regression of this coreset", "one that karat wrote"):
        terms = tuple(
            DesignTerm(tuple(names), tuple((t, bool(r)) for t, r in factors), scale) for names, factors, scale in facts["terms"]
        )
        names = {name for term in terms for name in term.columns}
        learned = Learned(facts["levels"], facts["states"], facts["row"])
        return Design(parse(facts["formula"], sorted(names)), terms, learned)


def coding(factor: Factor, levels: Sequence[Any], reduced: bool) -> Array:
    """The row of the design that each level of a category has."""
    contrasts, _ = factor.contrasts()
    try:
        found = encode_contrasts(
            pd.Series(list(levels)), contrasts=contrasts, levels=list(levels), reduced_rank=reduced, output="pandas"
        )
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"The term {factor.text!r} cannot be encoded: {error}") from error
    return np.ascontiguousarray(np.asarray(found, dtype=float))
