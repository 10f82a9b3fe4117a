"""Pipelines: the coreset keeps raw rows, and is exact for what the transformers make of them."""

import numpy as np
import pandas as pd
import pytest
from estimators.agreement import assert_same
from estimators.reducing import CoresetRegressor
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.linear_model import Lasso, LassoCV, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)


@pytest.fixture(scope="module")
def houses():
    """Numbers and strings; prices."""
    rng = np.random.default_rng(3)
    n = 6000
    frame = pd.DataFrame(
        {
            "area": rng.gamma(5.0, 20.0, n),
            "age": rng.uniform(0, 90, n),
            "town": rng.choice(["north", "south", "east"], n, p=[0.6, 0.3, 0.1]),
            "heating": pd.Categorical(rng.choice(["gas", "oil"], n)),
        },
        index=pd.Index([f"h{i}" for i in range(n)], name="house"),
    )
    price = (
        3 * frame["area"]
        - 0.02 * frame["age"] ** 2
        + 40 * (frame["town"] == "north")
        + rng.normal(0, 20, n)
    )
    return frame, price.rename("price")


NUMBERS = ["area", "age"]
STRINGS = ["town", "heating"]
COLUMNS = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), STRINGS))
PIPELINES = [
    make_pipeline(PolynomialFeatures(2), Ridge(1.0)),
    make_pipeline(
        StandardScaler(), PolynomialFeatures(3, include_bias=False), StandardScaler(), Ridge(1.0)
    ),
    make_pipeline(StandardScaler(), PolynomialFeatures(3, interaction_only=True), Lasso(0.1)),
    make_pipeline(SplineTransformer(n_knots=4), Ridge(1.0)),
    make_pipeline(
        SplineTransformer(n_knots=4, knots="quantile", degree=2), StandardScaler(), Ridge(1.0)
    ),
    make_pipeline(SplineTransformer(n_knots=5, extrapolation="periodic"), Ridge(1.0)),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: "-".join(name for name, _ in p.steps))
def test_numeric_pipelines(pipeline, weighted, houses):
    X, y = houses
    X, y = X[NUMBERS].to_numpy(), y.to_numpy()
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    few = assert_same(pipeline, X, y, w)
    assert few.core_.rows == "synthetic"
    # of the columns that the model sees
    assert few.core_.X.shape[1] == few.estimator_[-1].n_features_in_
    assert few.core_.verify(few.estimator_[:-1].transform(X), y, sample_weight=w).ok


def test_categories_of_a_frame(houses):
    X, y = houses
    few = assert_same(make_pipeline(COLUMNS, Ridge(1.0)), X, y)
    np.testing.assert_array_equal(few.feature_names_in_, X.columns)
    assert few.core_.certificate.ok
    assert few.core_.verify(few.estimator_[:-1].transform(X), y).ok


def test_searching_over_categories(houses):
    X, y = houses
    search = GridSearchCV(
        make_pipeline(COLUMNS, Lasso()), {"lasso__alpha": [0.01, 0.1, 1.0]}, cv=KFold(4)
    )
    few = assert_same(search, X, y)
    np.testing.assert_allclose(
        few.predict(X.iloc[:5]), few.estimator_.best_estimator_.predict(X.iloc[:5])
    )


def test_nested_transformers(houses):
    X, y = houses
    numeric = Pipeline(
        [("scale", StandardScaler()), ("powers", PolynomialFeatures(2, include_bias=False))]
    )
    columns = ColumnTransformer(
        [
            ("numbers", numeric, make_column_selector(dtype_include="number")),
            ("strings", OneHotEncoder(drop="first"), STRINGS),
        ],
        sparse_threshold=0.2,
    )
    assert_same(
        Pipeline(
            [("columns", columns), ("scale", StandardScaler(with_mean=False)), ("model", Ridge())]
        ),
        X,
        y,
    )
    search = GridSearchCV(
        Pipeline([("columns", columns), ("model", Ridge())]),
        {"columns__numbers__powers__degree": [1, 2, 3]},
        cv=3,
    )
    assert_same(search, X, y)


def test_a_grid_that_swaps_steps(houses):
    X, y = houses
    grid = {"scale": [StandardScaler(), "passthrough"], "model": [Ridge(10.0), Lasso(0.1)]}
    search = GridSearchCV(Pipeline([("scale", StandardScaler()), ("model", Ridge())]), grid, cv=3)
    few = CoresetRegressor(search).fit(X[NUMBERS], y).estimator_
    full = search.fit(X[NUMBERS], y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )
    assert few.best_index_ == full.best_index_


def test_a_grid_over_different_columns(houses):
    X, y = houses
    knots = np.quantile(X[NUMBERS].to_numpy(), [0.0, 0.3, 0.7, 1.0], axis=0)
    grid = {"shape": [PolynomialFeatures(2), SplineTransformer(knots=knots)]}
    search = GridSearchCV(
        Pipeline([("shape", PolynomialFeatures(1)), ("model", Ridge())]), grid, cv=3
    )
    few = CoresetRegressor(search).fit(X[NUMBERS].to_numpy(), y).estimator_
    full = search.fit(X[NUMBERS].to_numpy(), y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )


def test_a_selecting_last_step(houses):
    X, y = houses
    few = CoresetRegressor(make_pipeline(COLUMNS, LassoCV(alphas=10, cv=4))).fit(X, y).estimator_
    full = make_pipeline(COLUMNS, LassoCV(alphas=10, cv=4)).fit(X, y)
    np.testing.assert_allclose(few[-1].mse_path_, full[-1].mse_path_, rtol=1e-9)
    np.testing.assert_allclose(few[-1].coef_, full[-1].coef_, rtol=1e-8, atol=1e-8)


def test_a_scaled_pipeline_on_a_plain_coreset(houses):
    import karat

    X, y = houses
    core = karat.coreset(X[NUMBERS], y)
    few = core.fit(make_pipeline(StandardScaler(), LinearRegression()))
    full = make_pipeline(StandardScaler(), LinearRegression()).fit(X[NUMBERS], y)
    np.testing.assert_allclose(few[-1].coef_, full[-1].coef_, rtol=1e-10)


def test_transform_output_is_left_to_the_user(houses):
    X, y = houses
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()).set_output(
        transform="pandas"
    )
    few = CoresetRegressor(pipeline).fit(X[NUMBERS], y)
    assert list(few.estimator_[:-1].transform(X[NUMBERS]).columns) == list(
        pipeline.fit(X[NUMBERS], y)[:-1].get_feature_names_out()
    )
