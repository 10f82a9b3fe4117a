"""Tests between nested models of one coreset."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from statsmodels.stats.anova import anova_lm

from karat.errors import InputError


def anova(*fits: Any) -> Any:
    """F tests between nested models, from the smallest to the largest, as ``anova_lm`` in
    statsmodels.

    Parameters
    ----------
    *fits : results of :func:`karat.inference.ols`
        Two or more, of the same rows and response; each must have all columns of the one before.

    Returns
    -------
    pandas.DataFrame
        ``df_resid``, ``ssr``, and of each model against the one before ``df_diff``, ``ss_diff``,
        ``F`` and ``Pr(>F)``; the residual variance is that of the largest model.
    """
    if len(fits) < 2:
        raise InputError("anova compares two or more nested fits.")
    for fit in fits:
        if not hasattr(fit, "labels") or not hasattr(fit, "uncentered_tss"):
            raise InputError(
                f"anova compares results of karat.inference.ols, not {type(fit).__name__}."
            )
    for smaller, larger in pairwise(fits):
        missing = [name for name in smaller.labels if name not in larger.labels]
        if missing or len(larger.labels) == len(smaller.labels):
            what = (
                f"the column {missing[0]!r} is not in the larger one"
                if missing
                else "they have the same columns"
            )
            raise InputError(
                f"The fits are not nested: {what}. Pass them from the smallest to the largest."
            )
        # of the response, with the weights
        one, other = float(smaller.uncentered_tss), float(larger.uncentered_tss)
        same = smaller.nobs == larger.nobs and smaller.model.endog_names == larger.model.endog_names
        if not same or not np.isclose(one, other, rtol=1e-8, atol=0.0):
            raise InputError(
                "The fits are of other rows, other weights or another response; anova needs the"
                " same data."
            )
    robust = next((fit.cov_type for fit in fits if fit.cov_type != "nonrobust"), None)
    if robust is not None:
        raise InputError(
            f"anova compares classical fits, not {robust}; test the terms of the larger fit by"
            " wald_test."
        )
    return anova_lm(*fits)
