"""A formula: its response, its terms, and which columns of the data they read.

formulaic parses it and decides which columns the terms have.  The values are computed by :mod:`karat.inference.design`, batch
by batch, straight from Arrow columns.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from formulaic import SimpleFormula
from formulaic.errors import FormulaicError
from formulaic.transforms import TRANSFORMS
from formulaic.transforms.contrasts import Contrasts

from karat.compat.formulaic import first_line, parse_formula
from karat.errors import InputError
from karat.inference.expressions import QUOTED, Expression, parsed

CONTRASTS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")
IN_R = ("treatment", "SAS", "sum", "helmert", "diff", "poly")  # contr.treatment, ...


@dataclass(frozen=True)
class Factor:
    """A factor of terms: a column, or an expression of columns.

    Attributes
    ----------
    text : str
        As formulaic writes it; it names the columns of the design.
    looked_up : bool
        It is the name of a column.
    """

    text: str
    looked_up: bool

    @cached_property
    def category(self) -> ast.Call | None:
        """The call ``C(...)``, if it is one."""
        if self.looked_up:
            return None
        masked = QUOTED.sub(lambda name: "_" * len(name[0].encode()), self.text)  # what follows stays in its place
        call = parsed(masked, self.text)
        return call if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "C" else None

    @cached_property
    def expression(self) -> Expression | None:
        """What is evaluated: the expression, or the first argument of ``C(...)``; None where a column is looked up."""
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
        """The column that is looked up, also inside ``C(...)``."""
        if self.looked_up:
            return self.text
        if self.expression is None:
            return self._categories().variables()[0]
        return None

    @property
    def variables(self) -> list[str]:
        """The columns that it reads."""
        return [str(self.column)] if self.expression is None else self.expression.variables()

    def stateful(self) -> list[tuple[str, str, ast.Call]]:
        """The key, function and call of every part whose state is learned from all rows."""
        return [] if self.expression is None else self.expression.stateful()

    def contrasts(self) -> tuple[Any, list[Any] | None]:
        """The contrasts of ``C(...)`` and its levels, where they are given."""
        if self.category is None:
            return None, None
        given = {keyword.arg: keyword.value for keyword in self.category.keywords}
        if len(self.category.args) > 1:
            given["contrasts"] = self.category.args[1]
        strange = set(given) - {"contrasts", "levels"}
        if strange or len(self.category.args) > 2:
            other = ", ".join(repr(name or "**") for name in strange) or "more"
            raise InputError(f"The term {self.text!r}: C takes a column, contrasts and levels, not {other}.")
        return self._contrast(given.get("contrasts")), self._levels(given.get("levels"))

    def _levels(self, node: ast.expr | None) -> list[Any] | None:
        levels = None if node is None else self._literal(node)
        if levels is None:
            return None
        plain = isinstance(levels, list | tuple) and all(isinstance(level, str | int | float) for level in levels)
        if not plain or len(set(levels)) < len(levels) or not levels:
            raise InputError(f"The term {self.text!r}: levels must be a list of texts or numbers, each once, not {levels!r}.")
        return list(levels)

    def _contrast(self, node: ast.expr | None) -> Any:
        """``contr.sum``, ``contr.treatment("b")``, ``Treatment("b")`` and the like."""
        if node is None:
            return None
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        function, found = call.func, None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "contr":
            found = getattr(TRANSFORMS["contr"], function.attr) if function.attr in IN_R else None
        elif isinstance(function, ast.Name) and function.id in CONTRASTS:
            found = TRANSFORMS[function.id]
        arguments = [self._literal(a) for a in call.args]
        keywords = {str(k.arg): self._literal(k.value) for k in call.keywords}
        try:
            made = None if found is None else found(*arguments, **keywords)
        except (TypeError, ValueError) as error:
            raise InputError(f"The term {self.text!r}: {ast.unparse(node)} cannot be used ({error}).") from error
        if not isinstance(made, Contrasts):
            raise InputError(
                f"The term {self.text!r}: {ast.unparse(node)} are no known contrasts; use contr.treatment, contr.sum, "
                "contr.helmert, contr.diff or contr.poly."
            )
        return made

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise InputError(f"The term {self.text!r}: {ast.unparse(node)} must be written out.") from None


@dataclass(frozen=True)
class Formula:
    """A parsed formula."""

    text: str
    response: Factor
    factors: tuple[Factor, ...]
    terms: Any  # of formulaic

    @property
    def variables(self) -> list[str]:
        """The columns that it reads, each once."""
        every = [*self.response.variables, *(name for factor in self.factors for name in factor.variables)]
        return list(dict.fromkeys(every))


def parse(text: str, names: Sequence[str] = ()) -> Formula:
    """The formula of a text; ``names`` of the data's columns are what ``.`` stands for."""
    try:
        found = parse_formula(text, names)
        if not hasattr(found, "lhs"):
            raise InputError(f"The formula {text!r} has no response; write it as 'y ~ a + b'.")
        left, right = list(found.lhs), found.rhs
        for side in (found.lhs, right):
            if not isinstance(side, SimpleFormula):
                raise InputError(
                    f"The formula {text!r} has several parts, divided by '|'; a table has one. Write fixed effects as C(g)."
                )
        sides = [left, list(right)]
    except (FormulaicError, SyntaxError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"The formula {text!r} cannot be read: {first_line(error) or 'it is no formula'}") from None
    if len(left) != 1 or len(left[0].factors) != 1:
        shown = ", ".join(map(str, left)) or "none"
        raise InputError(f"The formula {text!r} must have one response, a single term on the left of '~'; it has {shown}.")
    every: dict[str, Factor] = {}
    for term in (*sides[0], *sides[1]):
        for factor in term.factors:
            if factor.eval_method.value != "literal":
                every[factor.expr] = Factor(factor.expr, factor.eval_method.value == "lookup")
    response = every.get(left[0].factors[0].expr)
    if response is None or response.category is not None:
        raise InputError(f"The response of the formula {text!r} must be a number; encode it first.")
    if any(name in ("poly", "bs") for _, name, _ in response.stateful()):
        raise InputError(f"The response {response.text!r} has several columns; a table is of one response.")
    used = {factor.expr for term in sides[1] for factor in term.factors}
    if response.text in used:
        raise InputError(f"The response {response.text!r} is also a term of the formula; leave it out on one side.")
    for factor in every.values():
        factor.variables  # noqa: B018 - refuses what cannot be evaluated row by row
        factor.contrasts()
        if factor.category is not None and factor.stateful():
            raise InputError(
                f"The term {factor.text!r} makes levels of numbers that all rows decide; compute the column first."
            )
    return Formula(text, response, tuple(f for f in every.values() if f.text in used), right)
