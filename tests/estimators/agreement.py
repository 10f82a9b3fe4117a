"""The full data's answer, got from scikit-learn alone, and how far a coreset's answer is from
it.
"""

import numpy as np
import sklearn
from estimators.reducing import CoresetRegressor
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version

# Before 1.9 RidgeCV without cv decomposes a matrix of all pairs of rows, and loses digits.
NEW = parse_version(sklearn.__version__) >= parse_version("1.9")
LEAVE_ONE_OUT = 1e-8 if NEW else 1e-6


def scores(search):
    """The scores of a search, without its times and ranks."""
    return {
        k: v
        for k, v in search.cv_results_.items()
        if "score" in k and "time" not in k and "rank" not in k
    }


def on_all_rows(estimator, X, y, weights=None, groups=None):
    """Fitted on the full data; weights, if any, routed by hand to the scaler, the regressor and the
    scorer.
    """
    estimator = clone(estimator)
    extra = {} if groups is None else {"groups": groups}
    if weights is None:
        return estimator.fit(X, y, **extra)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = getattr(estimator, "estimator", estimator)
        for part in [step for _, step in inner.steps] if hasattr(inner, "steps") else [inner]:
            if hasattr(part, "set_fit_request"):
                part.set_fit_request(sample_weight=True)
        if isinstance(estimator, GridSearchCV | RidgeCV) or hasattr(
            estimator, "param_distributions"
        ):
            estimator.scoring = get_scorer(estimator.scoring or "r2").set_score_request(
                sample_weight=True
            )
        return estimator.fit(X, y, sample_weight=weights, **extra)


def coefficients(estimator):
    """Coefficients and intercept of the model behind searches and pipelines."""
    model = getattr(estimator, "best_estimator_", estimator)
    model = model.steps[-1][1] if hasattr(model, "steps") else model
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def assert_same(estimator, X, y, weights=None, groups=None, tolerance=1e-8):
    """Fit on all rows and on a coreset, and compare everything that selection and refit produce."""
    extra = {} if groups is None else {"groups": groups}
    few = CoresetRegressor(estimator).fit(X, y, sample_weight=weights, **extra)
    full = on_all_rows(estimator, X, y, weights, groups)
    mine = few.estimator_
    assert len(few.core_) < len(y) / 2
    if hasattr(full, "cv_results_"):
        for name, values in scores(full).items():
            np.testing.assert_allclose(
                scores(mine)[name], values, rtol=1e-9, atol=1e-9, err_msg=name
            )
        if hasattr(full, "best_params_"):
            assert mine.best_params_ == full.best_params_
    if hasattr(full, "mse_path_"):
        np.testing.assert_allclose(mine.mse_path_, full.mse_path_, rtol=1e-9)
    for name in ("alpha_", "l1_ratio_", "best_score_"):
        if hasattr(full, name):
            np.testing.assert_allclose(getattr(mine, name), getattr(full, name), rtol=1e-9)
    expected = coefficients(full)
    np.testing.assert_allclose(
        coefficients(mine), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
    )
    return few
