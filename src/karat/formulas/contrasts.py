"""Contrasts and levels of categories: what ``C(...)`` says, and the design row of each level."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from formulaic.transforms import TRANSFORMS
from formulaic.transforms.contrasts import Contrasts, encode_contrasts

from karat.compat.formulaic import Without
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.formulas.formula import Factor

CONTRASTS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")
CONTRASTS_OF_R = ("treatment", "SAS", "sum", "helmert", "diff", "poly")  # contr.treatment, ...


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
