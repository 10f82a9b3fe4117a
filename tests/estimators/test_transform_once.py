"""Transformers run a few times, not once per read, per candidate or per score."""

import numpy as np
import pandas as pd
import pytest
from estimators.reducing import CoresetRegressor
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 12_000
    X = pd.DataFrame(
        {
            "cut": rng.choice(list("abcde"), n, p=[0.02, 0.08, 0.2, 0.3, 0.4]),
            "size": rng.standard_normal(n),
        }
    )
    X["clarity"] = rng.choice(list("uvwxyz"), n)
    X["depth"] = rng.standard_normal(n) + 60.0
    return X, X["size"] * 3 + (X["cut"] == "a") + rng.standard_normal(n)


@pytest.fixture
def counted(monkeypatch):
    """Calls of OneHotEncoder.transform."""
    calls = []
    own = OneHotEncoder.transform

    def transform(self, X):
        calls.append(len(X))
        return own(self, X)

    monkeypatch.setattr(OneHotEncoder, "transform", transform)
    return calls


def encoded():
    return make_column_transformer(
        (OneHotEncoder(), ["cut", "clarity"]), (StandardScaler(), ["size", "depth"])
    )


def test_at_most_one_transform_of_all_rows(frame, counted):
    X, y = frame
    few = CoresetRegressor(make_pipeline(encoded(), LinearRegression())).fit(X, y)
    assert counted.count(len(X)) <= 1
    assert len(counted) <= 3
    plain = make_pipeline(encoded(), LinearRegression()).fit(X, y)
    assert np.allclose(few.predict(X), plain.predict(X), atol=1e-8)


@pytest.mark.parametrize("alphas", [2, 20])
def test_candidates_share_the_transformers_of_a_fold(frame, counted, alphas):
    X, y = frame
    search = GridSearchCV(
        make_pipeline(encoded(), Ridge()), {"ridge__alpha": np.logspace(-3, 3, alphas)}, cv=3
    )
    few = CoresetRegressor(search).fit(X, y).estimator_
    # for the coresets of the folds; the transformers learn from few rows
    assert counted.count(len(X)) <= 1
    assert len(counted) < 20
    plain = search.fit(X, y)
    assert few.best_params_ == plain.best_params_
    assert np.allclose(
        few.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=1e-10
    )
    assert np.allclose(few.predict(X), plain.predict(X), atol=1e-8)


def test_candidates_with_other_transformers_get_their_own():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 3)) + 2.0
    y = X[:, 0] * X[:, 1] + rng.standard_normal(3000)
    model = make_pipeline(
        StandardScaler(), PolynomialFeatures(), Lasso(tol=1e-12, max_iter=100_000)
    )
    grid = {
        "polynomialfeatures__degree": [1, 2],
        "lasso__alpha": [0.01, 0.1],
        "standardscaler__with_std": [True, False],
    }
    search = GridSearchCV(model, grid, cv=3, return_train_score=True)
    few = CoresetRegressor(search).fit(X, y).estimator_
    plain = clone(search).fit(X, y)
    for name in ("mean_test_score", "mean_train_score"):
        assert np.allclose(few.cv_results_[name], plain.cv_results_[name], atol=1e-9)
    assert np.allclose(few.predict(X), plain.predict(X), atol=1e-7)


@pytest.mark.parametrize(
    "model", [Ridge(copy_X=False), Lasso(0.01, copy_X=False, tol=1e-12)], ids=str
)
def test_models_that_overwrite_their_rows(model):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2000, 3)) + 5.0
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(2000)
    name = type(model).__name__.lower()
    for estimator, prefix in ((model, ""), (make_pipeline(StandardScaler(), model), f"{name}__")):
        search = GridSearchCV(estimator, {f"{prefix}alpha": [0.01, 0.1, 1.0]}, cv=3)
        few = CoresetRegressor(search).fit(X, y).estimator_
        plain = clone(search).fit(X.copy(), y)
        assert np.allclose(
            few.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=1e-9
        )
