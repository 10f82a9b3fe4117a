"""Tests of hypotheses: of the terms of a fit, as statsmodels makes them from its own formulas, and
of nested models of one coreset (:func:`anova`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.base.data import PandasData
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.contrast import MultiCompResult, t_test_multi

from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError
from karat.formulas.design import INTERCEPT


@contextmanager
def hypothesis(r_matrix: Any, labels: list[str]) -> Iterator[None]:
    """Turn any error of patsy, formulaic or NumPy about a hypothesis into one kind of message."""
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            yield
    except Exception as error:
        if isinstance(error, InputError | Warning):
            raise
        reason = str(error).strip().splitlines() or [type(error).__name__]
        shown = repr(r_matrix) if isinstance(r_matrix, str) else f"of shape {np.shape(r_matrix)}"
        raise InputError(
            f"The hypothesis {shown} cannot be tested ({reason[0]}); write it as 'a - b = 0', or as"
            f" a matrix with a column for each of {', '.join(labels)}.",
            argument="r_matrix",
        ) from error


class NotAvailableError(NotExactError, AttributeError):
    """An attribute that results of all rows cannot have; ``hasattr`` is False."""


class KeptRows(PandasData):
    """The data of a model; it has no specification from which statsmodels could make tables."""

    @property
    def model_spec(self) -> Any:
        raise NotAvailableError(
            "anova_lm(fit) needs all rows; karat.inference.anova(fit) gives the same table."
        )

    design_info = model_spec  # its name before statsmodels 0.15


def places_of(results: Any, terms: Any) -> list[int]:
    """The positions of the columns of a submodel: a list of names, or a formula."""
    if isinstance(terms, str):
        if results.design is None:
            raise InputError(
                "This fit was not made from a formula; list the columns of the submodel.",
                argument="terms",
            )
        terms = results.design.columns_of(terms, results.labels)
    if not isinstance(terms, list | tuple | pd.Index | np.ndarray) or not len(terms):
        raise InputError(
            "A submodel is a formula or a list of columns, which may include 'Intercept'.",
            argument="terms",
        )
    labels = results.labels
    unknown = [name for name in terms if name not in labels]
    if unknown:
        raise InputError(
            f"The coreset has no column {unknown[0]!r}; it has {', '.join(labels)}.",
            column=str(unknown[0]),
        )
    places = [labels.index(name) for name in terms]
    if len(set(places)) < len(places):
        raise InputError("The submodel names a column twice; name each once.", argument="terms")
    return places


def terms_of(results: Any) -> dict[str, list[int]]:
    """The positions of the columns of every term."""
    if results.design is None:
        return {name: [place] for place, name in enumerate(results.labels)}
    names = {column: term.of for term in results.design.design.terms for column in term.columns}
    places: dict[str, list[int]] = {}
    for place, label in enumerate(results.labels):
        places.setdefault(names[label], []).append(place)
    return places


def constraints(results: Any) -> list[tuple[str, Array]]:
    """For every term, the hypothesis that all its coefficients are zero."""
    identity = np.eye(len(results.labels))
    return [(name, identity[places]) for name, places in terms_of(results).items()]


def compare_levels(
    results: Any, term_name: str, method: Any, alpha: float, factor_labels: Any
) -> Any:
    """t tests between all pairs of levels of a category, corrected for multiple comparisons."""
    learned = {} if results.design is None else results.design.design.learned.levels
    terms = () if results.design is None else results.design.design.terms
    term = next(
        (
            t
            for t in terms
            if [text for text, _ in t.factors] == [term_name] and term_name in learned
        ),
        None,
    )
    if term is None or not set(term.columns) <= set(results.labels):
        fitted = [t for t in terms if set(t.columns) <= set(results.labels)]
        categories = [
            t.factors[0][0] for t in fitted if len(t.factors) == 1 and t.factors[0][0] in learned
        ]
        raise InputError(
            f"t_test_pairwise compares the levels of a category, and {term_name!r} is not one;"
            f" this fit has {', '.join(categories) or 'none'}."
        )
    levels = learned[term_name] if factor_labels is None else list(factor_labels)
    if len(levels) != len(learned[term_name]):
        raise InputError(
            f"factor_labels must have {len(learned[term_name])} labels, one for each level of"
            f" {term_name!r}."
        )
    coding = results.design.design.codings[term.factors[0]]
    pairs = list(combinations(range(len(levels)), 2))
    matrix = np.zeros((len(pairs), len(results.labels)))
    places = [results.labels.index(column) for column in term.columns]
    for row, (first, second) in zip(matrix, pairs, strict=True):
        row[places] = coding[second] - coding[first]
    labels = [f"{levels[second]}-{levels[first]}" for first, second in pairs]
    frame = t_test_multi(
        results, matrix, method=method, ci_method=None, alpha=alpha, contrast_names=labels
    )
    return MultiCompResult(
        result_frame=frame,
        contrasts=matrix,
        term=term_name,
        contrast_labels=labels,
        term_encoding_matrix=coding,
    )


def anova(*fits: Any) -> Any:
    """F tests between nested models, from the smallest to the largest, or of the terms of one
    model, each after those before it, as ``anova_lm`` in statsmodels.

    Parameters
    ----------
    *fits : results of :func:`karat.inference.ols`
        One; or several of the same rows and response, each of which must contain all columns of the
        previous one.

    Returns
    -------
    pandas.DataFrame
        For several models ``df_resid``, ``ssr``, and for each model against the previous one
        ``df_diff``, ``ss_diff``, ``F`` and ``Pr(>F)``; the residual variance is that of the largest
        model.  For one model ``df``, ``sum_sq``, ``mean_sq``, ``F`` and ``PR(>F)`` of its terms.
    """
    if not fits:
        raise InputError("anova needs a fit, or several nested ones.")
    for fit in fits:
        if not hasattr(fit, "labels") or not hasattr(fit, "uncentered_tss"):
            raise InputError(
                f"anova compares results of karat.inference.ols, not {type(fit).__name__}."
            )
        if getattr(fit.model, "instruments", ()):
            raise InputError(
                "Sums of squares do not compare regressions with instruments; test terms with"
                " wald_test."
            )
    for smaller, larger in pairwise(fits):
        missing = [name for name in smaller.labels if name not in larger.labels]
        if missing or len(larger.labels) == len(smaller.labels):
            reason = (
                f"the column {missing[0]!r} is not in the larger one"
                if missing
                else "they have the same columns"
            )
            raise InputError(
                f"The fits are not nested: {reason}. Pass them from the smallest to the largest."
            )
        # the weighted sum of squares of the response shows whether the data is the same
        squares = float(smaller.uncentered_tss), float(larger.uncentered_tss)
        same = smaller.nobs == larger.nobs and smaller.model.endog_names == larger.model.endog_names
        if not same or not np.isclose(*squares, rtol=1e-8, atol=0.0):
            raise InputError(
                "anova needs fits of the same data; these differ in rows, weights or response."
            )
    robust = next((fit.cov_type for fit in fits if fit.cov_type != "nonrobust"), None)
    if robust is not None:
        raise InputError(
            f"anova compares fits with the classical covariance, not {robust}; test the terms of"
            " the larger fit with wald_test."
        )
    return anova_lm(*fits) if len(fits) > 1 else _sequential(fits[0])


def _sequential(fit: Any) -> pd.DataFrame:
    """The sum of squares that each term adds to those before it (type I)."""
    # rows = Q unwhitening; columns made orthogonal in order split the sum of squares of the fit
    turn, _ = np.linalg.qr(fit.solution.unwhitening)
    squares = np.square(turn.T @ fit.solution.rotated)
    terms = {name: places for name, places in terms_of(fit).items() if name != INTERCEPT}
    table = pd.DataFrame(
        {
            "df": [float(len(places)) for places in terms.values()] + [float(fit.df_resid)],
            "sum_sq": [squares[places].sum() for places in terms.values()] + [fit.ssr],
        },
        index=[*terms, "Residual"],
    )
    table["mean_sq"] = table["sum_sq"] / table["df"]
    with np.errstate(divide="ignore", invalid="ignore"):
        table["F"] = (table["mean_sq"] / fit.scale).where(table.index != "Residual")
    table["PR(>F)"] = stats.f.sf(table["F"], table["df"], fit.df_resid)
    return table
