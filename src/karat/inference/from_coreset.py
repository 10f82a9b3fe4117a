"""The regression table of the full data from a coreset, by statsmodels.

Coefficients, residual sum and total sum of squares are kept moments, so standard errors, t, F, R2, log-likelihood, AIC
and BIC are functions of the coreset and of the number of observations.  Plain ``WLS(weights=core.weights)`` gets the
coefficients and R2 right and the rest wrong: it takes weights for precisions and counts kept rows as observations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat._core.coreset import Coreset
from karat._core.provenance import Provenance
from karat._data import containers
from karat.errors import InputError, MissingExtraError, NotExactError

KINDS = ("nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster")


def check_kind(cov_type: str) -> None:
    """Refuse a covariance that is not known."""
    if cov_type not in KINDS:
        raise InputError(f"cov_type must be one of {', '.join(KINDS)}, not {cov_type!r}.", argument="cov_type")


def table_of(core: Coreset, *, cov_type: str = "nonrobust", use_t: bool | None = None) -> Any:
    """Ordinary least squares on the full data, with its standard errors and tests, from a coreset.

    Parameters
    ----------
    core : Coreset
        Of :class:`~karat.problems.LeastSquares` with one target.  Input weights count as frequencies, unless the coreset was
        made by :func:`karat.inference.ols` with weights.
    cov_type : {"nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster"}
        A robust covariance is refused unless its sums were stored with the coreset.
    use_t : bool, optional
        The t distribution for a robust covariance; by default the normal distribution, as in statsmodels.

    Returns
    -------
    statsmodels.regression.linear_model.RegressionResults
        With ``params``, ``bse``, ``tvalues``, ``pvalues``, ``fvalue``, ``rsquared``, ``aic``, ``bic``, ``conf_int()``,
        ``summary()``; the intercept comes first.
    """
    try:
        import pandas as pd

        from karat.inference.results import FrequencyWLS
    except ImportError:
        raise MissingExtraError("karat.inference.ols", "inference") from None
    if core.y is None or not core.problem.keeps_squares or core.absorbed is not None or not core.problem.keeps_total:
        raise NotExactError("Inference needs a coreset of LeastSquares() with its total weight and a target.")
    X, y = core.arrays()
    assert y is not None
    if y.ndim == 2 and y.shape[1] > 1:
        raise NotExactError("Inference takes one target at a time; build a coreset for each.")
    facts = {} if core.regression is None else core.regression.facts
    intercept = facts.get("intercept", core.problem.shifts)
    names = facts.get("columns") or (list(containers.columns_of(core.X)) if containers.is_frame(core.X) else [])
    names = names if len(names) == X.shape[1] else [f"x{i + 1}" for i in range(X.shape[1])]
    label = "Intercept" if facts else "const"
    design = pd.DataFrame(
        np.column_stack([np.ones(len(X)), X]) if intercept else X, columns=([label] if intercept else []) + names
    )
    targets = Provenance.read(core.provenance).targets or [getattr(core.y, "name", None) or "y"]
    response = pd.Series(y.ravel(), name=facts.get("response", str(targets[0])))
    return FrequencyWLS(response, design, core.weights, full_data(core), core).fit(cov_type=cov_type, use_t=use_t)


def full_data(core: Coreset) -> Any:
    """What a coreset knows about all rows beside the kept ones."""
    from karat.inference.results import FullData

    if core.regression is None:
        return FullData(float(core.weights.sum()))
    facts = core.regression.facts
    cluster = facts["covariances"].get("cluster", {})
    return FullData(
        float(facts["observations"]), float(facts.get("log_weights") or 0.0), core.regression.sums,
        dict(facts.get("residual_quantiles") or {}), int(cluster.get("clusters", 0)),
    )  # fmt: skip
