"""statsmodels with weights as counts; see :mod:`karat.estimators.inference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from statsmodels.regression.linear_model import WLS, RegressionResults

from karat.engine.linalg import Array
from karat.errors import NotExactError


class FrequencyWLS(WLS):
    """Weighted least squares in which a weight of 3 is a row written three times."""

    def __init__(self, y: Array, X: Array, weights: Array) -> None:
        super().__init__(y, X, weights=weights)
        self.nobs = float(weights.sum())

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

    def _refused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotExactError(
            "Robust (HC) standard errors need the fourth moments of rows and residuals, which a least-squares coreset does not "
            "keep; compute them from the full data."
        )

    get_robustcov_results = get_influence = outlier_test = _refused
    HC0_se = HC1_se = HC2_se = HC3_se = property(_refused)


def frequency_ols(y: Array, X: Array, weights: Array, names: list[str]) -> Any:
    """The fitted results."""
    model = FrequencyWLS(y, X, weights)
    model.data.xnames = names
    results = model.fit()
    results._results.__class__ = FrequencyResults  # statsmodels offers no other way to choose the class of a fit
    return results
