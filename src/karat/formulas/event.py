"""Indicators of levels as fixest writes them: ``i(year, treated, ref=2004)``.

    i(year, ref=2004)            an indicator per level of year, but that of 2004
    i(year, treated, ref=2004)   the same, times the number treated (an event study)
    i(year)                      without a reference: as C(year)

They are rewritten as categories with contrasts that leave out the reference whether or not there is
a constant, before formulaic reads the formula; columns are named ``year::2001:treated``.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from karat.errors import InputError
from karat.formulas.expression import QUOTED, parsed

CALL = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|(?<![\w.])i\s*\(")
QUOTES_AND_BRACKETS = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|[()]")


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
