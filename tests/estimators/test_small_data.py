"""Small data passes through: the answer is that without karat."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.linear_model import HuberRegressor, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)

from karat import CoresetRegressor, InputError, NotExactError

ESTIMATORS = [
    LinearRegression(),
    Ridge(),
    Lasso(0.1, copy_X=False),
    LassoCV(cv=3, alphas=20),
    RidgeCV(cv=3),
    make_pipeline(StandardScaler(), Ridge()),
    GridSearchCV(make_pipeline(StandardScaler(), Lasso()), {"lasso__alpha": [0.01, 0.1]}, cv=3),
]


def data(n, d):
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d)) + 1.0
    return X, X[:, 0] + rng.standard_normal(n)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize(("n", "d"), [(100, 10), (1000, 40), (4900, 90)])
def test_the_answer_of_all_rows(estimator, n, d):
    X, y = data(n, d)
    before = X.copy()
    few = CoresetRegressor(estimator).fit(X, y)
    assert np.array_equal(X, before)
    assert np.array_equal(few.predict(X), clone(estimator).fit(X.copy(), y).predict(X))
    core = few.core_
    assert len(core) == n
    assert core.certificate.ok
    assert core.certificate.loss_error == 0.0
    assert core.certificate.method == "all rows"
    assert "gain nothing" in str(core.certificate)
    assert np.array_equal(core.X, before)
    assert np.array_equal(core.weights, np.ones(n))


def test_many_rows_do_not_pass_through():
    X, y = data(6000, 5)
    assert len(CoresetRegressor(LassoCV(cv=3)).fit(X, y).core_) < 200


def test_what_is_refused_is_refused_on_few_rows():
    X, y = data(100, 3)
    with pytest.raises(NotExactError, match="Huber"):
        CoresetRegressor(HuberRegressor()).fit(X, y)
    with pytest.raises(NotExactError, match="random_state"):
        CoresetRegressor(make_pipeline(PCA(2, svd_solver="randomized"), Ridge())).fit(X, y)


def test_weights_count_in_every_step():
    X, y = data(300, 4)
    weights = np.random.default_rng(0).integers(0, 4, 300)
    repeated = np.repeat(np.arange(300), weights)
    for estimator in (Ridge(), make_pipeline(StandardScaler(), Lasso(0.01, tol=1e-12))):
        few = CoresetRegressor(estimator).fit(X, y, sample_weight=weights)
        assert np.allclose(
            few.predict(X), clone(estimator).fit(X[repeated], y[repeated]).predict(X), atol=1e-10
        )
        assert np.array_equal(few.core_.weights, weights[weights > 0])
        assert np.array_equal(few.core_.indices, np.flatnonzero(weights))
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 100.0]}, cv=3)
    weighted = CoresetRegressor(search).fit(X, y, sample_weight=weights).estimator_
    assert not np.allclose(
        weighted.cv_results_["mean_test_score"],
        clone(search).fit(X, y).cv_results_["mean_test_score"],
    )


def test_groups_reach_the_splitter():
    X, y = data(200, 3)
    groups = np.arange(200) % 7
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 100.0]}, cv=GroupKFold(3))
    mine = CoresetRegressor(search).fit(X, y, groups=groups).estimator_
    plain = clone(search).fit(X, y, groups=groups)
    assert np.array_equal(mine.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_frames_pass_through():
    frame = pd.DataFrame({"kind": list("abca") * 50, "size": np.arange(200.0)})
    y = frame["size"] * 2 + (frame["kind"] == "a")
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"), Ridge()
    )
    few = CoresetRegressor(model).fit(frame, y)
    assert np.array_equal(few.predict(frame), clone(model).fit(frame, y).predict(frame))
    assert few.core_.X.equals(frame)


def test_zero_few_rows_builds_a_coreset():
    X, y = data(1000, 5)
    assert len(CoresetRegressor(Ridge(), few_rows=0).fit(X, y).core_) < 100
    assert len(CoresetRegressor(LinearRegression(), few_rows=999).fit(X, y).core_) < 100
    assert len(CoresetRegressor(LinearRegression(), few_rows=1000).fit(X, y).core_) == 1000


@pytest.mark.parametrize("few", [-1, 0.5, None, "all"])
def test_few_rows_is_a_number_of_rows(few):
    with pytest.raises(InputError, match="few_rows="):
        CoresetRegressor(Ridge(), few_rows=few).fit(*data(100, 2))


def test_a_transformer_without_a_seed_that_needs_none_passes_through():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 20)), rng.standard_normal(300)
    few = CoresetRegressor(make_pipeline(PCA(3), Ridge())).fit(X, y)
    assert len(few.core_) == 300
    assert few.estimator_[0].random_state is None
    assert np.allclose(few.predict(X), make_pipeline(PCA(3), Ridge()).fit(X, y).predict(X))
    with pytest.raises(NotExactError, match="random_state"):
        CoresetRegressor(make_pipeline(PCA(3, svd_solver="randomized"), Ridge())).fit(X, y)


@pytest.mark.parametrize(
    ("front", "n"),
    [(PolynomialFeatures(2), 20_000), (SplineTransformer(n_knots=12), 6000)],
    ids=["polynomials", "splines"],
)
def test_wide_columns_that_transformers_make_pass_through(front, n):
    """What counts is the number of columns that the model sees."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 10)), rng.standard_normal(n)
    few = CoresetRegressor(make_pipeline(front, Ridge())).fit(X, y)
    assert len(few.core_) == n


def test_narrow_columns_of_a_wide_table_do_not():
    """PCA of many columns: parts get coresets of the few columns that it makes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 6)) @ rng.standard_normal((6, 60)) + 0.1 * rng.standard_normal(
        (20_000, 60)
    )
    y = X[:, 0] + rng.standard_normal(20_000)
    model = make_pipeline(PCA(4, random_state=0), Ridge())
    search = GridSearchCV(model, {"ridge__alpha": [1.0, 1e5]}, cv=3)
    few, full = CoresetRegressor(search).fit(X, y), clone(search).fit(X, y)
    assert len(few.core_) < 200
    for name in ("mean_test_score", "split1_test_score"):
        assert np.allclose(few.cv_results_[name], full.cv_results_[name], atol=1e-9)
    assert np.allclose(few.predict(X), full.predict(X), atol=1e-8)


@pytest.mark.filterwarnings("error")
def test_trying_transformers_on_a_sample_says_nothing():
    """Quantiles of 1,000 rows are fine; that a sample has fewer is nobody's business."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6000, 3)), rng.standard_normal(6000)
    CoresetRegressor(
        make_pipeline(QuantileTransformer(n_quantiles=1000, random_state=0), Ridge())
    ).fit(X, y)
