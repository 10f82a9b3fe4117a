"""Exact inference: the regression table of the full data from a coreset, by statsmodels.

Coefficients, residual sum and total sum of squares are kept moments, so standard errors, t, F, R2, log-likelihood, AIC
and BIC are functions of the coreset and of the number of observations, which is the sum of the weights.  Plain
``WLS(weights=core.weights)`` gets the coefficients and R2 right and the rest wrong: it takes weights for precisions and
counts kept rows as observations.  Robust (HC) errors sum x x' e^2, of degree four in the data, and are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat._core.coreset import Coreset
from karat.errors import MissingExtraError, NotExactError
from karat.estimators.fitting import keeps_squares


def ols(core: Coreset) -> Any:
    """Ordinary least squares on the full data, with its standard errors and tests, from a coreset.

    Parameters
    ----------
    core : Coreset
        Of :class:`~karat.problems.LeastSquares` with one target.  Input weights count as frequencies.

    Returns
    -------
    statsmodels.regression.linear_model.RegressionResults
        With ``params``, ``bse``, ``tvalues``, ``pvalues``, ``fvalue``, ``rsquared``, ``aic``, ``bic``, ``conf_int()``,
        ``summary()``; the intercept comes first.
    """
    try:
        from karat.estimators import _statsmodels
    except ImportError:
        raise MissingExtraError("karat.estimators.inference.ols", "inference") from None
    if core.y is None or not keeps_squares(core.problem) or core.absorbed is not None or not core.problem.keeps_total:
        raise NotExactError("Inference needs a coreset of LeastSquares() with its total weight and a target.")
    X, y = core.arrays()
    assert y is not None
    if y.ndim == 2 and y.shape[1] > 1:
        raise NotExactError("Inference takes one target at a time; build a coreset for each.")
    intercept = core.problem.shifts
    names = [str(c) for c in getattr(core.X, "columns", [f"x{i + 1}" for i in range(X.shape[1])])]
    design = np.column_stack([np.ones(len(X)), X]) if intercept else X
    labels = (["const"] if intercept else []) + names
    return _statsmodels.frequency_ols(y.ravel(), design, core.weights, labels)
