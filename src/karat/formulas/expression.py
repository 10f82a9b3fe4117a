"""Expressions of columns, evaluated batch by batch.

A formula is evaluated in batches and stored with a coreset.  So an expression, such as
``np.log(price)``, ``center(age)`` or ``(size > 3) * rooms``, may use two kinds of functions: those
whose value in a row depends on that row alone (``np.mean(x)`` would differ between batches), and
those whose state is learned from all rows first (``center``, ``scale``, ``standardize``, ``poly``,
``bs``).  Nothing else is ever called, because a formula may come from a file.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from karat.compat.formulaic import apply_transform
from karat.errors import InputError

LOGICAL = ("where", "logical_and", "logical_or", "logical_not", "isin")  # take booleans as they are
ROW_BY_ROW: dict[str, Callable[..., Any]] = {
    name: getattr(np, name) for name in (
        "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "sqrt", "cbrt", "abs", "sign",
        "square", "floor", "ceil", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
        "cosh", "tanh", "minimum", "maximum", "power", "clip", *LOGICAL,
    )
}  # fmt: skip
BARE = ("log", "log2", "log10", "exp", "exp2", "I")  # may be written without "np."
ARGUMENT_COUNTS = {  # of functions that take more than one
    "minimum": 2, "maximum": 2, "power": 2, "logical_and": 2, "logical_or": 2, "isin": 2,
    "where": 3, "clip": 3,
}  # fmt: skip
STATEFUL = ("center", "scale", "standardize", "poly", "bs")
SPLINES = ("ns", "cr", "cs", "cc")  # of R, patsy and formulaic; karat has bs
ONE_FORMULA = "call ols for each formula, or take fit.submodel(terms) of the largest"
LAGS = "a lag depends on another row; compute it as a column of the data first"
ELSEWHERE = {  # functions of patsy, R and fixest
    "Q": "write a quoted name in backticks: `a name`",
    "factor": "write a category as C(...)",
    **dict.fromkeys(("sw", "sw0", "csw", "csw0", "mvsw"), ONE_FORMULA),
    **dict.fromkeys(("l", "L", "lag", "f", "F", "lead", "d", "D"), LAGS),
}
OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: np.logical_and, ast.BitOr: np.logical_or, ast.USub: operator.neg,
    ast.UAdd: operator.pos, ast.Not: np.logical_not, ast.Invert: np.logical_not,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
QUOTED = re.compile(r"`([^`]*)`")
ColumnValues = Mapping[str, np.ndarray]  # by the names of the columns
States = Mapping[str, Any]  # what transforms have learned, by their text


class Expression:
    """A parsed expression, which may use only functions of single rows or of learned states.

    Parameters
    ----------
    text : str
        As written in the formula; names in backticks may contain any character.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.aliases: dict[str, str] = {}
        self.tree = parsed(QUOTED.sub(self._alias, text), text)
        self._check(self.tree)
        if not self.variables():
            raise InputError(f"The term {text!r} reads no column of the data; remove it.")

    def _alias(self, quoted: re.Match[str]) -> str:
        name = f"quoted_{len(self.aliases)}_"
        self.aliases[name] = quoted[1]
        return name

    def _check(self, node: ast.expr, inside: str = "") -> None:
        kind = type(node)
        if isinstance(node, ast.Name) or (
            isinstance(node, ast.Constant) and self._is_plain(node.value, inside)
        ):
            return
        if isinstance(node, ast.Call):
            name = self._function(node)
            if any(keyword.arg is None for keyword in node.keywords):
                raise self._not_allowed("**")
            self._check_count(name, node)
            if inside in STATEFUL and name in STATEFUL:
                raise InputError(
                    f"The term {self.text!r}: {name} inside {inside} would need another pass;"
                    " use one of them."
                )
            if name == "isin" and any(
                isinstance(part, ast.Name) for other in node.args[1:] for part in ast.walk(other)
            ):
                raise InputError(
                    f"The term {self.text!r}: isin compares with values, not with a column; list"
                    " them: [1, 2]."
                )
            for child in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._check(child, name if name in (*STATEFUL, "isin") else inside)
        elif kind in (ast.BinOp, ast.UnaryOp, ast.Compare) or (
            kind in (ast.List, ast.Tuple) and inside
        ):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self._check(part, inside)
                elif not isinstance(part, ast.expr_context) and type(part) not in OPERATORS:
                    raise self._not_allowed(ast.unparse(node))
            if isinstance(node, ast.BinOp):
                self._check_constants(node)
        else:
            raise self._not_allowed(ast.unparse(node))

    @staticmethod
    def _is_plain(value: Any, inside: str) -> bool:
        """Whether a constant may be in a formula; None is only an option of a transform."""
        finite = not isinstance(value, int) or abs(value) < 2**1000
        return (isinstance(value, str | int | float) and finite) or (value is None and bool(inside))

    def _check_count(self, name: str, node: ast.Call) -> None:
        """Check the number of arguments: NumPy would write the result into an extra one."""
        count = ARGUMENT_COUNTS.get(name, 1)
        if name not in STATEFUL and (len(node.args) != count or node.keywords):
            raise InputError(
                f"The term {self.text!r}: {name} takes {count} argument{'s' * (count > 1)}, by"
                " position."
            )

    def _check_constants(self, node: ast.BinOp) -> None:
        """Refuse arithmetic of constants that gives no number, before formulaic computes it."""
        if any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node)):
            return
        try:
            value = self.value(node, {}, {})
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(
                f"The term {self.text!r}: {ast.unparse(node)} is not a number ({error})."
            ) from None
        if not isinstance(value, float | bool | np.bool_):
            raise InputError(f"The term {self.text!r}: {ast.unparse(node)} is not a number.")

    def _function(self, call: ast.Call) -> str:
        function = call.func
        if isinstance(function, ast.Name) and function.id in (*BARE, *STATEFUL):
            return function.id
        if (
            isinstance(function, ast.Attribute)
            and ast.unparse(function.value) in ("np", "numpy")
            and function.attr in ROW_BY_ROW
        ):
            return function.attr
        raise self._not_allowed(ast.unparse(function))

    def _not_allowed(self, part: str) -> InputError:
        if part in ELSEWHERE:
            return InputError(f"The term {self.text!r} uses {part!r}: {ELSEWHERE[part]}.")
        if " ^ " in part:
            return InputError(f"The term {self.text!r}: write powers with two stars, x**2.")
        functions = [*(f"np.{name}" for name in ROW_BY_ROW), *BARE, *STATEFUL]
        similar = ["bs"] if part in SPLINES else get_close_matches(part, functions, 1, 0.8)
        advice = f", or use {similar[0]}(...)" if similar else ""
        return InputError(
            f"The term {self.text!r} uses {part!r}, which is not known to depend on one row at a"
            f" time; make it a column of the data first{advice}."
        )

    def variables(self) -> list[str]:
        """The columns that the expression reads."""
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        called |= {
            id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)
        }
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        names = [node.id for node in nodes if id(node) not in called]
        return list(dict.fromkeys(self.aliases.get(name, name) for name in names))

    def stateful(self) -> list[tuple[str, str, ast.Call]]:
        """The key, function and call of every part whose state is learned from all rows."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        named = [(ast.unparse(call), self._function(call), call) for call in calls]
        return [entry for entry in named if entry[1] in STATEFUL]

    def evaluate(
        self, columns: ColumnValues, states: States, part: ast.expr | None = None
    ) -> np.ndarray:
        """The values of the expression or of a part of it: one column, or several for a spline or
        polynomial.
        """
        try:
            with np.errstate(all="ignore"):  # NaN and infinity are reported later, with their row
                values = np.asarray(
                    self.value(self.tree if part is None else part, columns, states)
                )
                return values if values.dtype.kind in "bUO" else values.astype(float, copy=False)
        except (TypeError, ValueError, ArithmeticError) as error:
            if isinstance(error, InputError):
                raise
            text = ", ".join(
                repr(name) for name, values in columns.items() if values.dtype.kind in "OU"
            )
            reason = f"{text} is text, not numbers" if text else str(error).split(". ")[0]
            raise InputError(f"The term {self.text!r} cannot be computed: {reason}.") from error

    def numbers(
        self, columns: ColumnValues, states: States, part: ast.expr | None = None
    ) -> np.ndarray:
        """The values as doubles; text, or anything but one value per row, is an error."""
        values = self.evaluate(columns, states, part)
        if values.dtype.kind in "UO":
            text = next(
                (n for n, column in columns.items() if column.dtype.kind in "UO"), self.text
            )
            raise InputError(
                f"The term {text!r} is text where a number is needed; write C(...), or encode it."
            )
        rows = {len(column) for column in columns.values()}
        if (values.ndim and len(values) not in rows) or values.ndim > 2:
            raise InputError(
                f"The term {self.text!r} does not have one value per row; write it with columns of"
                " the data."
            )
        values = np.full(rows.pop(), values) if values.ndim == 0 else values
        return values.astype(float, copy=False)

    def stateless(self, columns: ColumnValues) -> list[np.ndarray]:
        """What is computed without a state: the arguments of the transforms, or the whole."""
        parts = [call.args[0] for _, _, call in self.stateful() if call.args]
        return [self.evaluate(columns, {}, part) for part in parts or [self.tree]]

    def kind(self, row: ColumnValues) -> str:
        """NumPy's letter for the type of the values, such as "b" for ``I(x > 0)``; ``row`` is one
        row with the types of the data.
        """
        if self.stateful():
            return "f"
        try:
            with np.errstate(all="ignore"):
                return str(np.asarray(self.value(self.tree, row, {})).dtype.kind)
        except (TypeError, ValueError, ArithmeticError, KeyError):
            return "f"  # evaluate raises the error

    def value(self, node: ast.expr, columns: ColumnValues, states: States) -> Any:
        """The value of a part; see :meth:`evaluate`."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return columns[self.aliases.get(node.id, node.id)]
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(child, columns, states) for child in node.elts]
        if isinstance(node, ast.BinOp):
            left, right = (self.value(side, columns, states) for side in (node.left, node.right))
            # Python's integers grow without bound: 9**9**9 would never end
            if type(left) is int and type(right) is int:
                left, right = float(left), float(right)
            return OPERATORS[type(node.op)](left, right)
        if isinstance(node, ast.UnaryOp):
            return OPERATORS[type(node.op)](self.value(node.operand, columns, states))
        if isinstance(node, ast.Compare):
            left, holds = self.value(node.left, columns, states), None  # a < b < c is a chain
            for sign, right in zip(
                node.ops, (self.value(c, columns, states) for c in node.comparators), strict=True
            ):
                link = OPERATORS[type(sign)](left, right)
                holds, left = link if holds is None else np.logical_and(holds, link), right
            return holds
        assert isinstance(node, ast.Call)
        name = self._function(node)
        arguments, keywords = self.arguments(node, columns, states)
        if name == "I":
            return arguments[0]
        if name in STATEFUL:
            return apply_transform(
                name,
                list(map(booleans_as_numbers, arguments)),
                keywords,
                with_numbers(states[ast.unparse(node)]),
            )
        return ROW_BY_ROW[name](
            *(arguments if name in LOGICAL else map(booleans_as_numbers, arguments))
        )

    def arguments(
        self, node: ast.Call, columns: ColumnValues, states: States
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, evaluated."""
        keywords = {
            str(keyword.arg): self.value(keyword.value, columns, states)
            for keyword in node.keywords
        }
        return [self.value(child, columns, states) for child in node.args], keywords


def parsed(text: str, shown: str) -> ast.expr:
    """The syntax tree of an expression."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise InputError(f"The term {shown!r} is not an expression: {error.msg}.") from None


def booleans_as_numbers(value: Any) -> Any:
    """Booleans as doubles: NumPy would compute their logarithm in half precision."""
    return value.astype(float) if isinstance(value, np.ndarray) and value.dtype == bool else value


def with_numbers(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state of formulaic with integer keys, which JSON stores as text."""
    return {
        name: {int(key): v for key, v in value.items()} if isinstance(value, dict) else value
        for name, value in dict(state).items()
    }
