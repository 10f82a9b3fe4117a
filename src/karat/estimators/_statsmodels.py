"""statsmodels with weights as counts; see :mod:`karat.estimators.inference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from statsmodels.regression.linear_model import WLS, RegressionResults

from karat.engine.linalg import Array
from karat.errors import NotExactError

NO_ROBUST = (
    "Robust (HC) standard errors need the fourth moments of rows and residuals, which a least-squares coreset does not "
    "keep; compute them from the full data."
)


class FrequencyWLS(WLS):
    """Weighted least squares in which a weight of 3 is a row written three times."""

    def __init__(self, y: Array, X: Array, weights: Array) -> None:
        super().__init__(y, X, weights=weights)
        self.nobs = float(weights.sum())

    def fit(self, *args: Any, cov_type: str = "nonrobust", **kwargs: Any) -> Any:
        """Fit with the ordinary covariance; any other needs more than second moments."""
        if cov_type != "nonrobust" or kwargs.get("cov_kwds") is not None:
            raise NotExactError(NO_ROBUST)
        results = super().fit(*args, **kwargs)
        results._results.__class__ = FrequencyResults  # statsmodels offers no other way to choose the class of a fit
        return results

    def loglike(self, params: Any) -> float:
        """The Gaussian log-likelihood of the rows written out."""
        rss = float(np.sum((self.wendog - self.wexog @ params) ** 2))
        return float(-0.5 * self.nobs * (np.log(2 * np.pi * rss / self.nobs) + 1))


class FrequencyResults(RegressionResults):
    """Results that count observations, and refuse what second moments do not hold."""

    @property
    def nobs(self) -> float:
        return float(self.model.nobs)

    def summary(self, *args: Any, **kwargs: Any) -> Any:
        """The table, without the tests of the residuals' shape (skewness, Durbin-Watson), which need every residual."""
        return super().summary(*args, **kwargs | {"slim": True})

    def summary2(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: it holds tests of every residual's shape."""
        raise NotExactError("summary2() tests the shape of all residuals, which a coreset does not keep; use summary().")

    def _refused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotExactError(NO_ROBUST)

    get_robustcov_results = get_influence = outlier_test = _refused
    HC0_se = HC1_se = HC2_se = HC3_se = property(_refused)
    cov_HC0 = cov_HC1 = cov_HC2 = cov_HC3 = property(_refused)  # noqa: N815 - names of statsmodels


def frequency_ols(y: Array, X: Array, weights: Array, names: list[str]) -> Any:
    """The fitted results."""
    model = FrequencyWLS(y, X, weights)
    model.data.xnames = names
    return model.fit()
