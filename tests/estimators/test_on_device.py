"""scikit-learn on rows that are on an accelerator: the answers of all rows on the host, from made
rows that alone travel.
"""

from __future__ import annotations

import numpy as np
import pytest
from device_libraries import LIBRARIES, Travels, maker
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import ElasticNetCV, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import karat
from karat.core import synthetic
from karat.models import LinearDiscriminant

N, D = 3000, 4


@pytest.fixture(params=LIBRARIES)
def make(request, monkeypatch):
    return maker(request.param, monkeypatch)


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((N, D)) * [1.0, 20.0, 0.1, 3.0] + [0.0, 100.0, 1.0, -5.0]
    return X, X @ [1.0, 0.02, 3.0, 0.0] + rng.standard_normal(N)


SCALED = make_pipeline(StandardScaler(), Lasso())
SEARCHES = [
    GridSearchCV(SCALED, {"lasso__alpha": [0.01, 0.1]}, cv=4),
    GridSearchCV(Ridge(), {"alpha": [1.0, 1e3]}, cv=KFold(3, shuffle=True, random_state=2)),
    GridSearchCV(
        SCALED,
        {"lasso__alpha": [0.01, 1.0]},
        cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        scoring="neg_mean_squared_error",
    ),
]
MEDIAN = GridSearchCV(SCALED, {"lasso__alpha": [0.1]}, scoring="neg_median_absolute_error")


@pytest.mark.parametrize("search", SEARCHES, ids=["scaled", "shuffled", "repeated"])
def test_a_search_chooses_and_scores_as_on_the_host(make, table, search):
    X, y = table
    few = karat.CoresetRegressor(search).fit(make(X), make(y))
    full = clone(search).fit(X, y)
    assert few.best_params_ == full.best_params_
    scores = (few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-9)
    np.testing.assert_allclose(few.predict(make(X)), full.predict(X), rtol=1e-8)
    assert few.reduced_


@pytest.mark.parametrize(
    "model",
    [LinearRegression(), SCALED, LassoCV(cv=3), ElasticNetCV(cv=3), RidgeCV(cv=3)],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_is_that_of_all_rows(make, table, model):
    X, y = table
    few = karat.CoresetRegressor(model).fit(make(X), make(y))
    np.testing.assert_allclose(few.predict(X), clone(model).fit(X, y).predict(X), rtol=1e-6)
    assert few.n_features_in_ == D


def test_weights_and_classes(make, table):
    X, y = table
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N)
    few = karat.CoresetRegressor(Ridge(10.0)).fit(make(X), make(y), sample_weight=weights)
    full = Ridge(10.0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(few.coef_, full.coef_, rtol=1e-9)
    labels = (y > np.median(y)).astype(int)
    few = karat.CoresetClassifier(LinearDiscriminant()).fit(make(X), make(labels))
    assert (few.predict(make(X)) == LinearDiscriminant().fit(X, labels).predict(X)).all()


@pytest.mark.parametrize("together", [2**16, 1], ids=["blocks", "sums"])
def test_folds_of_exact_cv_lie_where_the_rows_do(make, table, monkeypatch, together):
    monkeypatch.setattr(synthetic, "AT_ONCE", together)
    X, y = table
    given = make(X)
    folds = karat.exact_cv(given, make(y), cv=3, rows="synthetic")
    core = folds.core
    assert type(core.X) is type(given)
    rows, target = core.arrays()
    for number, (train, _) in enumerate(folds.cv):
        there = np.arange(N) // (N // 3) != number
        few = Ridge().fit(rows[train], target[train], sample_weight=core.weights[train])
        np.testing.assert_allclose(few.coef_, Ridge().fit(X[there], y[there]).coef_, rtol=1e-9)


def test_only_few_numbers_travel(make, table, monkeypatch):
    monkeypatch.setattr(synthetic, "AT_ONCE", 1)
    rng = np.random.default_rng(3)
    X, y = make(rng.standard_normal((200_000, 4))), make(rng.standard_normal(200_000))
    travels = Travels(monkeypatch)
    karat.CoresetRegressor(SEARCHES[0]).fit(X, y)
    assert travels.numbers < 200_000  # samples of every fold, and sums


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (MEDIAN, "test rows"),
        (make_pipeline(StandardScaler(), LassoCV()), "search over the pipeline"),
        (make_pipeline(OneHotEncoder(), Ridge()), "only scalers"),
        (make_pipeline(PCA(2), Ridge()), "only scalers"),
        (RidgeCV(), "on the host"),
    ],
)
def test_what_needs_all_rows_says_so(make, table, model, said):
    X, y = table
    with pytest.raises((karat.NotExactError, karat.InputError), match=said):
        karat.CoresetRegressor(model).fit(make(X), make(y))
