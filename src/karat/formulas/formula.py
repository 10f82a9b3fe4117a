"""A formula: its responses, its terms, and the columns of the data they read.

formulaic parses the formula and decides which columns the terms have.
:mod:`karat.formulas.design` computes the values batch by batch, straight from Arrow columns.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from formulaic import SimpleFormula
from formulaic.errors import FormulaicError

from karat.compat.formulaic import first_line, parse_formula
from karat.errors import InputError
from karat.formulas.event import without_i
from karat.formulas.expression import QUOTED, Expression, parsed


@dataclass(frozen=True)
class Factor:
    """A factor of a term: a column, or an expression of columns.

    Attributes
    ----------
    text : str
        As formulaic writes it; columns of the design are named after it.
    looked_up : bool
        Whether the text is the name of a column.
    """

    text: str
    looked_up: bool

    @cached_property
    def category(self) -> ast.Call | None:
        """The call ``C(...)``, if the factor is one."""
        if self.looked_up:
            return None
        # as many bytes as before: _categories cuts the text at the positions of the tree
        masked = QUOTED.sub(lambda name: "_" * len(name[0].encode()), self.text)
        call = parsed(masked, self.text)
        if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "C":
            return call
        return None

    @cached_property
    def expression(self) -> Expression | None:
        """The expression to evaluate, inside ``C(...)`` its first argument; None for a plain
        column.
        """
        if self.looked_up:
            return None
        if self.category is None:
            return Expression(self.text)
        inner = self._categories()
        return None if isinstance(inner.tree, ast.Name) else inner

    def _categories(self) -> Expression:
        """The first argument of ``C(...)``."""
        assert self.category is not None
        if not self.category.args:
            raise InputError(f"The term {self.text!r} needs the column as its first argument.")
        return Expression(str(ast.get_source_segment(self.text, self.category.args[0])))

    @property
    def column(self) -> str | None:
        """The name of a plain column, also inside ``C(...)``."""
        if self.looked_up:
            return self.text
        if self.expression is None:
            return self._categories().variables()[0]
        return None

    @property
    def variables(self) -> list[str]:
        """The columns that the factor reads."""
        return [str(self.column)] if self.expression is None else self.expression.variables()

    def stateful(self) -> list[tuple[str, str, ast.Call]]:
        """The key, function and call of every part whose state is learned from all rows."""
        return [] if self.expression is None else self.expression.stateful()


@dataclass(frozen=True)
class Formula:
    """A parsed formula."""

    text: str
    response: Factor
    factors: tuple[Factor, ...]
    terms: Any  # of formulaic
    shown: Mapping[str, str]  # what parts of the names of columns are called

    def column_name(self, name: str) -> str:
        """The name of a column, in which the parts of ``i(...)`` are as they were written."""
        for written, shown in self.shown.items():
            name = name.replace(written, shown)
        return name

    @property
    def variables(self) -> list[str]:
        """The columns that the formula reads, each once."""
        names = [
            *self.response.variables,
            *(name for factor in self.factors for name in factor.variables),
        ]
        return list(dict.fromkeys(names))

    @property
    def regressors(self) -> list[str]:
        """The columns that the terms read, each once."""
        return list(dict.fromkeys(name for factor in self.factors for name in factor.variables))


def parse(text: str, names: Sequence[str] = ()) -> Formula:
    """Parse a formula; ``.`` stands for the columns ``names``."""
    written, shown = without_i(text) if "i(" in text.replace(" ", "") else (text, {})
    try:
        both = parse_formula(written, names)
        if not hasattr(both, "lhs"):
            raise InputError(f"The formula {text!r} has no response; write it as 'y ~ a + b'.")
        left, right = list(both.lhs), both.rhs
        for side in (both.lhs, right):
            if not isinstance(side, SimpleFormula):
                raise InputError(
                    f"The formula {text!r} has several parts separated by '|', where a table has"
                    " one. Write fixed effects as C(g)."
                )
        sides = [left, list(right)]
    except (FormulaicError, SyntaxError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The formula {text!r} cannot be read: {first_line(error) or 'it is not a formula'}"
        ) from None
    if len(left) != 1 or len(left[0].factors) != 1:
        responses = ", ".join(map(str, left)) or "none"
        raise InputError(
            f"The formula {text!r} must have one response, a single term on the left of '~'; it has"
            f" {responses}."
        )
    factors: dict[str, Factor] = {}
    for term in (*sides[0], *sides[1]):
        for factor in term.factors:
            if factor.eval_method.value != "literal":
                factors[factor.expr] = Factor(factor.expr, factor.eval_method.value == "lookup")
    response = factors.get(left[0].factors[0].expr)
    if response is None or response.category is not None:
        raise InputError(f"The response of the formula {text!r} must be a number; encode it first.")
    if any(name in ("poly", "bs") for _, name, _ in response.stateful()):
        raise InputError(
            f"The response {response.text!r} has several columns; a table has one response."
        )
    used = {factor.expr for term in sides[1] for factor in term.factors}
    if response.text in used:
        raise InputError(
            f"The response {response.text!r} is also a term of the formula; remove it from one"
            " side."
        )
    for factor in factors.values():
        factor.variables  # noqa: B018 - refuses what cannot be evaluated row by row
        if factor.category is not None and factor.stateful():
            raise InputError(
                f"The term {factor.text!r} makes levels from numbers that depend on all rows;"
                " compute the column first."
            )
    return Formula(
        text, response, tuple(f for f in factors.values() if f.text in used), right, shown
    )
