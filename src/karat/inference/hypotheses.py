"""Tests of the terms of a fit, as statsmodels makes them from its own formulas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
from statsmodels.stats.contrast import MultiCompResult, t_test_multi

from karat.engine.linalg import Array
from karat.errors import InputError


@contextmanager
def hypothesis(asked: Any, labels: list[str]) -> Iterator[None]:
    """Say in one message what is wrong with a hypothesis, whoever reads it (patsy, formulaic,
    NumPy).
    """
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            yield
    except Exception as error:
        if isinstance(error, InputError | Warning):
            raise
        said = str(error).strip().splitlines() or [type(error).__name__]
        shown = repr(asked) if isinstance(asked, str) else f"of shape {np.shape(asked)}"
        raise InputError(
            f"The hypothesis {shown} cannot be tested ({said[0]}); write it as 'a - b = 0', or as a"
            f" matrix with a column for each of {', '.join(labels)}.",
            argument="r_matrix",
        ) from error


def terms_of(results: Any) -> dict[str, list[int]]:
    """The places of the columns of every term."""
    if results.design is None:
        return {name: [place] for place, name in enumerate(results.labels)}
    names = {
        column: ":".join(text for text, _ in term.factors) or column
        for term in results.design.design.terms
        for column in term.columns
    }
    found: dict[str, list[int]] = {}
    for place, label in enumerate(results.labels):
        found.setdefault(names[label], []).append(place)
    return found


def constraints(results: Any) -> list[tuple[str, Array]]:
    """That all columns of a term are zero, for every term."""
    identity = np.eye(len(results.labels))
    return [(name, identity[places]) for name, places in terms_of(results).items()]


def pairwise(results: Any, term_name: str, method: Any, alpha: float, factor_labels: Any) -> Any:
    """t tests between all pairs of levels of a category, corrected for their number."""
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
        there = [t for t in terms if set(t.columns) <= set(results.labels)]
        known = [
            t.factors[0][0] for t in there if len(t.factors) == 1 and t.factors[0][0] in learned
        ]
        raise InputError(
            f"t_test_pairwise compares the levels of a category; {term_name!r} is none of"
            f" {', '.join(known) or 'this fit'}."
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
    found = t_test_multi(
        results, matrix, method=method, ci_method=None, alpha=alpha, contrast_names=labels
    )
    return MultiCompResult(
        result_frame=found,
        contrasts=matrix,
        term=term_name,
        contrast_labels=labels,
        term_encoding_matrix=coding,
    )
