"""A formula as it is written: its responses, its terms, and the columns of the data they read.

formulaic parses the formula and decides which columns the terms have.
:mod:`karat.formulas.design` computes the values batch by batch, straight from Arrow columns.  Two
parts are rewritten before formulaic reads them:

    [endogenous ~ instruments]   as in linearmodels: cut out; a name stands in the place of the
                                 brackets, so that the parser says where they are
    i(year, ref=2004)            as in fixest: an indicator per level of year, but that of 2004
    i(year, treated, ref=2004)   the same, times the number treated (an event study)
    i(year)                      without a reference: as C(year)

Indicators become categories with contrasts that leave out the reference whether or not there is a
constant; columns are named ``year::2001:treated``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from formulaic import SimpleFormula
from formulaic.errors import FormulaicError

from karat.compat.formulaic import first_line, has_dot, parse_formula
from karat.errors import InputError
from karat.formulas.expression import QUOTED, Expression, parsed

PLACE = "brackets_"  # stands for the brackets in the formula
EXAMPLE = "y ~ w + [endogenous ~ instruments]"
CLOSING = {"(": ")", "[": "]", "{": "}"}
QUOTES = "`'\""
CALL = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|(?<![\w.])i\s*\(")
QUOTES_AND_BRACKETS = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|[()]")


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
    """A parsed formula; in brackets it may have endogenous regressors and their instruments."""

    text: str
    responses: tuple[Factor, ...]
    factors: tuple[Factor, ...]
    terms: Any  # of formulaic, as are those in brackets
    shown: Mapping[str, str]  # what parts of the names of columns are called
    endogenous: tuple[Any, ...] = ()
    instruments: tuple[Any, ...] = ()
    dot: bool = False  # whether "." stands for all other columns

    def column_name(self, name: str) -> str:
        """The name of a column, in which the parts of ``i(...)`` are as they were written."""
        for written, shown in self.shown.items():
            name = name.replace(written, shown)
        return name

    @property
    def response(self) -> Factor:
        """The response, or the first of several."""
        return self.responses[0]

    def each(self) -> list[Formula]:
        """The formula of every response."""
        if len(self.responses) == 1:
            return [self]
        right = self.text[outside(self.text)[2][0] :]
        return [
            replace(self, text=f"{_alone(response)} {right}", responses=(response,))
            for response in self.responses
        ]

    @property
    def variables(self) -> list[str]:
        """The columns that the formula reads, each once."""
        factors = (*self.responses, *self.factors)
        return list(dict.fromkeys(name for factor in factors for name in factor.variables))

    @property
    def regressors(self) -> list[str]:
        """The columns that the terms read, each once."""
        return list(dict.fromkeys(name for factor in self.factors for name in factor.variables))


def parse(text: str, names: Sequence[str] = (), several: bool = False) -> Formula:
    """Parse a formula; ``.`` stands for the columns ``names``.

    With ``several`` it may have several responses, ``y1 + y2 ~ x`` or ``c(y1, y2) ~ x``.
    """
    written = _listed(text) if text.lstrip().startswith("c(") else text
    written, shown = without_i(written) if "i(" in text.replace(" ", "") else (written, {})
    brackets = brackets_of(written) if "[" in text else None
    endogenous: list[Any] = []
    instruments: list[Any] = []
    try:
        if brackets is not None:
            endogenous, instruments = _bracketed(text, brackets)
            inside = [*_factors([*endogenous, *instruments]).values()]
            taken = {name for factor in inside for name in factor.variables}
            names = [name for name in names if name not in taken]
        both = parse_formula(written if brackets is None else brackets.formula, names)
        if not hasattr(both, "lhs"):
            raise InputError(f"The formula {text!r} has no response; write it as 'y ~ a + b'.")
        left, right = list(both.lhs), both.rhs
        for side in (both.lhs, right):
            if not isinstance(side, SimpleFormula):
                raise InputError(
                    f"The formula {text!r} has several parts separated by '|', where a table has"
                    " one. Write fixed effects as C(g)."
                )
        if brackets is not None:
            right = _without_place(text, right)
        sides = [left, [*right, *endogenous, *instruments]]
        twice = [str(term) for term in right if term in (*endogenous, *instruments)]
        if twice:
            raise InputError(
                f"The term {twice[0]!r} is in the brackets of the formula {text!r} and outside;"
                " remove it from one of the two."
            )
    except (FormulaicError, SyntaxError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The formula {text!r} cannot be read: {first_line(error) or 'it is not a formula'}"
        ) from None
    if not left or any(len(term.factors) != 1 for term in left):
        found = ", ".join(map(str, left)) or "none"
        raise InputError(
            f"The formula {text!r} must have one response, or several with '+' between them, on the"
            f" left of '~'; it has {found}."
        )
    if len(left) > 1 and (brackets is not None or not several):
        raise InputError(
            f"The formula {text!r} has {len(left)} responses, where one is possible; call ols for"
            " each of them."
        )
    factors = _factors([*sides[0], *sides[1]])
    responses = tuple(_response(text, factors.get(term.factors[0].expr), sides[1]) for term in left)
    used = {factor.expr for term in sides[1] for factor in term.factors}
    for factor in factors.values():
        factor.variables  # noqa: B018 - refuses what cannot be evaluated row by row
        if factor.category is not None and factor.stateful():
            raise InputError(
                f"The term {factor.text!r} makes levels from numbers that depend on all rows;"
                " compute the column first."
            )
    return Formula(
        text, responses, tuple(f for f in factors.values() if f.text in used), right,
        shown, tuple(endogenous), tuple(instruments), "." in text and has_dot(written),
    )  # fmt: skip


def _response(text: str, response: Factor | None, terms: Sequence[Any]) -> Factor:
    """A response, which is a number."""
    if response is None or response.category is not None:
        raise InputError(f"The response of the formula {text!r} must be a number; encode it first.")
    if any(name in ("poly", "bs") for _, name, _ in response.stateful()):
        raise InputError(
            f"The response {response.text!r} has several columns; a table has one response."
        )
    if response.text in {factor.expr for term in terms for factor in term.factors}:
        raise InputError(
            f"The response {response.text!r} is also a term of the formula; remove it from one"
            " side."
        )
    return response


def _alone(response: Factor) -> str:
    """A response in a formula of its own."""
    plain = not response.looked_up or response.text.isidentifier()
    return response.text if plain else f"`{response.text}`"


def _listed(text: str) -> str:
    """A formula in which ``c(y1, y2)`` is written with '+'."""
    tildes = outside(text)[2]
    left = text[: tildes[0]].strip() if tildes else text
    call = parsed(QUOTED.sub(lambda name: "_" * len(name[0].encode()), left), text)
    if not isinstance(call, ast.Call) or not call.args or call.keywords or not tildes:
        raise InputError(f"The formula {text!r} cannot be read; write c(y1, y2) ~ x.")
    responses = [str(ast.get_source_segment(left, argument)) for argument in call.args]
    return f"{' + '.join(responses)} {text[tildes[0] :]}"


def _factors(terms: Sequence[Any]) -> dict[str, Factor]:
    """The factors of terms by their text."""
    return {
        factor.expr: Factor(factor.expr, factor.eval_method.value == "lookup")
        for term in terms
        for factor in term.factors
        if factor.eval_method.value != "literal"
    }


def _bracketed(text: str, brackets: Brackets) -> list[list[Any]]:
    """The endogenous terms and the instruments."""
    sides = []
    for name, side in (
        ("endogenous regressors", brackets.endogenous),
        ("instruments", brackets.instruments),
    ):
        terms = list(parse_formula(f"0 + {side}", ())) if side else []
        if not terms or any(not term.degree for term in terms):
            raise InputError(
                f"The brackets of the formula {text!r} need {name}, without a constant; write"
                f" {EXAMPLE}."
            )
        sides.append(terms)
    twice = [str(term) for term in sides[0] if term in sides[1]]
    if twice:
        raise InputError(
            f"The term {twice[0]!r} is both an endogenous regressor and an instrument; remove it"
            " from one side of the brackets."
        )
    return sides


def _without_place(text: str, terms: Any) -> list[Any]:
    """The exogenous terms: all but the one that stands for the brackets."""
    rest = [term for term in terms if PLACE not in str(term)]
    if len(rest) != len(terms) - 1 or PLACE not in map(str, terms):
        raise InputError(
            f"The brackets of the formula {text!r} must be a term of their own, added to others:"
            f" {EXAMPLE}."
        )
    return rest


@dataclass(frozen=True)
class Brackets:
    """A formula with instruments, taken apart.

    Attributes
    ----------
    formula : str
        The formula, with :data:`PLACE` for the brackets.
    endogenous, instruments : str
        What is on the left and on the right of ``~`` in the brackets.
    """

    formula: str
    endogenous: str
    instruments: str


def brackets_of(text: str) -> Brackets | None:
    """The brackets of a formula; None if it has none."""
    spans, bars, tildes = outside(text)
    # behind a bar, brackets without '~' are slopes of effects
    spans = [(a, b) for a, b in spans if not bars or a < bars[0] or "~" in text[a:b]]
    if not spans:
        return None
    if len(spans) > 1:
        raise InputError(
            f"The formula {text!r} has {len(spans)} pairs of brackets; write all endogenous"
            f" regressors and all instruments in one: {EXAMPLE}."
        )
    start, end = spans[0]
    if bars:
        raise InputError(
            f"The formula {text!r} has instruments and, after '|', fixed effects; karat has no"
            " instrumental variables with absorbed effects. Write effects with few levels as"
            " C(g), or remove one of the two."
        )
    inside = text[start + 1 : end]
    _, bars, middle = outside(inside)
    if len(middle) != 1 or bars or not any(place < start for place in tildes):
        raise InputError(
            f"The brackets of the formula {text!r} cannot be read; write them after '~', as"
            f" in {EXAMPLE}."
        )
    return Brackets(
        f"{text[:start]}{PLACE}{text[end + 1 :]}",
        inside[: middle[0]].strip(),
        inside[middle[0] + 1 :].strip(),
    )


def outside(text: str) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """The brackets, the bars and the tildes that are not inside parentheses or quotes."""
    spans, bars, tildes = [], [], []
    waiting: list[tuple[str, int]] = []  # what closes what is open, and where it was opened
    quote = ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in QUOTES:
            quote = sign
        elif sign in CLOSING:
            waiting.append((CLOSING[sign], place))
        elif waiting and sign == waiting[-1][0]:
            _, start = waiting.pop()
            if sign == "]" and not waiting:
                spans.append((start, place))
        elif not waiting and sign == "|":
            bars.append(place)
        elif not waiting and sign == "~":
            tildes.append(place)
    return spans, bars, tildes


def without_i(text: str) -> tuple[str, dict[str, str]]:
    """A formula without ``i(...)``, and what the rewritten parts are called in names of columns."""
    shown: dict[str, str] = {}
    pieces, done = [], 0
    for found in CALL.finditer(text):
        if not found[0].endswith("(") or found.start() < done:
            continue
        end = _closing(text, found.end())
        pieces += [text[done : found.start()], _term(text[found.start() : end], shown)]
        done = end
    return "".join([*pieces, text[done:]]), shown


def _closing(text: str, start: int) -> int:
    """The place behind the bracket that closes one before ``start``."""
    depth = 1
    for found in QUOTES_AND_BRACKETS.finditer(text, start):
        depth += (found[0] == "(") - (found[0] == ")")
        if not depth:
            return found.end()
    raise InputError(f"The formula {text!r}: close the bracket of i(...).")


def _term(text: str, shown: dict[str, str]) -> str:
    """One call as a term of formulaic."""
    call = parsed(QUOTED.sub(lambda name: "_" * len(name[0].encode()), text), text)
    assert isinstance(call, ast.Call)
    columns = [str(ast.get_source_segment(text, argument)) for argument in call.args]
    names = [keyword.arg for keyword in call.keywords]
    if len(columns) not in (1, 2) or names not in ([], ["ref"]):
        raise InputError(
            f"The term {text!r}: i takes a column of levels, perhaps a number that multiplies the"
            " indicators, and ref=, as in i(year, treated, ref=2004)."
        )
    left_out = _references(text, call.keywords[0].value) if names else []
    written = f"C({columns[0]}, Without({', '.join(map(repr, left_out))}))"
    shown[written] = columns[0].strip("`")
    if len(columns) == 1:
        return written
    number = f"I({columns[1]} * 1)"  # of a boolean, too
    shown[number] = columns[1].strip("`")
    return f"{written}:{number}"


def _references(text: str, node: ast.expr) -> list[Any]:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    levels = list(value) if isinstance(value, list | tuple) else [value]
    if not levels or not all(isinstance(level, str | int | float) for level in levels):
        raise InputError(
            f"The term {text!r}: ref must be a level, or a list of levels, written out."
        )
    return levels
