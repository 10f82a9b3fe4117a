"""More of what people use: leave-one-out, transformed targets, searches inside pipelines, fitted
attributes, partial fits.
"""

import numpy as np
import pytest
from estimators.agreement import LEAVE_ONE_OUT, assert_same, on_all_rows
from estimators.reducing import CoresetRegressor
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.feature_selection import RFE
from sklearn.linear_model import BayesianRidge, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, QuantileTransformer, StandardScaler

from karat import InputError


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "scoring", [None, "r2", "neg_mean_absolute_error", "neg_median_absolute_error"]
)
@pytest.mark.parametrize("targets", [1, 2])
def test_leave_one_out(blobs, scoring, targets, weighted):
    X, y, w = blobs
    y = y if targets == 1 else np.column_stack([y, X[:, 0] ** 2])
    weights = w if weighted else None
    ridge = RidgeCV(np.logspace(-1, 5, 7), scoring=scoring, store_cv_results=True)
    few, full = (
        CoresetRegressor(ridge).fit(X, y, sample_weight=weights),
        clone(ridge).fit(X, y, sample_weight=weights),
    )
    assert few.alpha_ == full.alpha_
    np.testing.assert_allclose(few.best_score_, full.best_score_, rtol=1e-9)
    np.testing.assert_allclose(few.cv_results_, full.cv_results_, rtol=LEAVE_ONE_OUT, atol=1e-9)
    np.testing.assert_allclose(few.coef_, full.coef_, rtol=LEAVE_ONE_OUT)
    np.testing.assert_allclose(few.intercept_, full.intercept_, rtol=LEAVE_ONE_OUT)


def test_leave_one_out_in_a_pipeline_and_per_target(blobs):
    X, y, _ = blobs
    Y = np.column_stack([y, np.random.default_rng(0).standard_normal(len(y))])
    ridge = RidgeCV([1.0, 1e3, 1e5], alpha_per_target=True, fit_intercept=False)
    few, full = (
        CoresetRegressor(make_pipeline(PCA(3), ridge)).fit(X, Y),
        make_pipeline(PCA(3), ridge).fit(X, Y),
    )
    np.testing.assert_array_equal(few.alpha_, full[-1].alpha_)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-8, atol=1e-9)
    with pytest.raises(InputError, match="must be > 0"):
        CoresetRegressor(RidgeCV([0.0, 1.0])).fit(X, y)


TARGETS = [
    TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
    TransformedTargetRegressor(
        make_pipeline(StandardScaler(), Ridge()), transformer=StandardScaler()
    ),
    TransformedTargetRegressor(transformer=QuantileTransformer(n_quantiles=50, random_state=0)),
    make_pipeline(
        StandardScaler(),
        TransformedTargetRegressor(LassoCV(alphas=5, cv=3), transformer=PowerTransformer()),
    ),
]


@pytest.mark.parametrize("estimator", TARGETS, ids=["function", "scaler", "quantiles", "search"])
def test_transformed_targets(blobs, estimator):
    X, y, _ = blobs
    y = y - y.min() + 0.5
    few, full = CoresetRegressor(estimator).fit(X, y), clone(estimator).fit(X, y)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-8, atol=1e-9)
    assert few.score(X, y) == pytest.approx(full.score(X, y), rel=1e-9)


def test_a_search_over_a_transformed_target(blobs):
    X, y, _ = blobs
    y = y - y.min() + 0.5
    search = GridSearchCV(
        make_pipeline(StandardScaler(), TARGETS[0]),
        {"transformedtargetregressor__regressor__alpha": [1.0, 1e3]},
        cv=3,
    )
    few, full = CoresetRegressor(search).fit(X, y), clone(search).fit(X, y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-8)


@pytest.mark.parametrize(
    "front",
    [StandardScaler(), PCA(3), QuantileTransformer(n_quantiles=20, random_state=0)],
    ids=str,
)
@pytest.mark.parametrize(
    "last",
    [
        RidgeCV([1.0, 1e3], cv=4),
        RidgeCV([1.0, 1e3]),
        GridSearchCV(Lasso(), {"alpha": [0.01, 0.1]}, scoring="neg_median_absolute_error"),
    ],
    ids=["RidgeCV", "leave-one-out", "GridSearchCV"],
)
def test_a_search_as_the_last_step(blobs, front, last):
    X, y, _ = blobs
    few, full = (
        CoresetRegressor(make_pipeline(front, last)).fit(X, y),
        make_pipeline(front, clone(last)).fit(X, y),
    )
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-8, atol=1e-9)
    assert few.best_score_ == pytest.approx(full[-1].best_score_, rel=1e-9)


def test_a_search_inside_a_search(blobs):
    X, y, _ = blobs
    search = GridSearchCV(
        make_pipeline(PCA(), RidgeCV([1.0, 1e3], cv=3)), {"pca__n_components": [2, 4]}, cv=KFold(3)
    )
    few, full = CoresetRegressor(search).fit(X, y), clone(search).fit(X, y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )


@pytest.mark.parametrize("scoring", ["neg_mean_absolute_error", "neg_median_absolute_error", "r2"])
@pytest.mark.parametrize("weighted", [False, True])
def test_any_score_with_weights(blobs, scoring, weighted):
    X, y, w = blobs
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Lasso()),
        {"lasso__alpha": [0.01, 0.1, 1.0]},
        scoring=scoring,
        cv=3,
    )
    few, full = (
        CoresetRegressor(search).fit(X, y, sample_weight=w if weighted else None),
        on_all_rows(search, X, y, w if weighted else None),
    )
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )


def test_bayesian_ridge_and_several_outputs(blobs):
    X, y, w = blobs
    few, full = (
        CoresetRegressor(BayesianRidge(tol=1e-10)).fit(X, y),
        BayesianRidge(tol=1e-10).fit(X, y),
    )
    for name in ("coef_", "alpha_", "lambda_", "sigma_"):
        np.testing.assert_allclose(getattr(few, name), getattr(full, name), rtol=1e-7)
    Y = np.column_stack([y, X[:, 0] ** 2])
    few = CoresetRegressor(MultiOutputRegressor(Lasso(0.1))).fit(X, Y, sample_weight=w)
    full = MultiOutputRegressor(Lasso(0.1)).fit(X, Y, sample_weight=w)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-8, atol=1e-9)


def test_fitted_attributes_reach_through(blobs):
    X, y, _ = blobs
    search = CoresetRegressor(
        GridSearchCV(make_pipeline(StandardScaler(), Lasso()), {"lasso__alpha": [0.01, 0.1]}, cv=3)
    )
    assert not hasattr(search, "coef_")
    search.fit(X, y)
    assert search.best_params_ == search.estimator_.best_params_
    assert "mean_test_score" in search.cv_results_
    np.testing.assert_array_equal(search.coef_, search.estimator_.best_estimator_[-1].coef_)
    for missing in ("nothing_", "nothing"):
        with pytest.raises(AttributeError, match=missing):
            getattr(search, missing)
    few = RFE(CoresetRegressor(LinearRegression()), n_features_to_select=2).fit(X, y)
    np.testing.assert_array_equal(
        few.support_, RFE(LinearRegression(), n_features_to_select=2).fit(X, y).support_
    )


@pytest.mark.parametrize(
    "estimator", [Ridge(10.0), Lasso(0.1), make_pipeline(StandardScaler(), Lasso(0.1))], ids=str
)
@pytest.mark.parametrize("weighted", [False, True])
def test_partial_fit(blobs, estimator, weighted):
    X, y, w = blobs
    few = CoresetRegressor(estimator)
    for rows in np.array_split(np.arange(len(y)), 5):
        few.partial_fit(X[rows], y[rows], sample_weight=w[rows] if weighted else None)
    full = on_all_rows(estimator, X, y, w if weighted else None)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-8, atol=1e-9)
    assert few.core_.n_rows == len(y)
    few.fit(X[:100], y[:100]).partial_fit(X[:500], y[:500])  # fit starts anew
    assert few.core_.n_rows == 500
    with pytest.raises(ValueError, match="features"):
        few.partial_fit(X[:, :2], y)


def test_partial_fit_begins_anew_after_a_first_call_that_failed(blobs):
    X, y, _ = blobs
    few = CoresetRegressor(Ridge())
    with pytest.raises(InputError, match="negative"):
        few.partial_fit(X, y, sample_weight=-np.ones(len(X)))
    np.testing.assert_allclose(
        few.partial_fit(X, y).predict(X), Ridge().fit(X, y).predict(X), rtol=1e-9
    )


def test_partial_fit_is_for_moments_only():
    assert hasattr(CoresetRegressor(Ridge()), "partial_fit")
    for estimator in (
        LassoCV(),
        make_pipeline(PCA(), Ridge()),
        GridSearchCV(Ridge(), {"alpha": [1.0]}),
    ):
        assert not hasattr(CoresetRegressor(estimator), "partial_fit")


def test_pipelines_people_use(blobs):
    X, y, _ = blobs
    assert_same(make_pipeline(StandardScaler(), PCA(3), Ridge()), X, y)
    assert_same(
        GridSearchCV(
            make_pipeline(StandardScaler(), PCA(), Ridge()), {"pca__n_components": [2, 4]}, cv=3
        ),
        X,
        y,
    )
