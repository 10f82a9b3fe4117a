"""Categories: encoders in searches, of columns of any kind."""

import numpy as np
import pandas as pd
import pytest
from estimators.reducing import CoresetRegressor
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from karat import InputError

N = 1500


def letters(rng, levels, missing=()):
    values = np.array([f"level {i}" for i in range(levels)], dtype=object)[
        rng.integers(0, levels, N)
    ]
    for one in missing:
        values[rng.random(N) < 0.1] = one
    return values


KINDS = {
    "text": lambda rng: letters(rng, 4),
    "string": lambda rng: pd.array(letters(rng, 4), dtype="str"),
    "string with missing": lambda rng: pd.array(letters(rng, 3, [np.nan]), dtype="str"),
    "category": lambda rng: pd.Categorical(letters(rng, 4, [np.nan])),
    "none": lambda rng: letters(rng, 3, [None]),
    "nan": lambda rng: letters(rng, 3, [np.nan]),
    "none and nan": lambda rng: letters(rng, 3, [None, np.nan]),
    "whole": lambda rng: rng.integers(0, 4, N),
    "floats": lambda rng: np.where(rng.random(N) < 0.1, np.nan, rng.integers(0, 3, N) / 2),
    "flags": lambda rng: rng.random(N) < 0.3,
    "constant": lambda rng: np.full(N, "only", dtype=object),
    "rare": lambda rng: np.where(np.arange(N) == 700, "once", letters(rng, 2)).astype(object),
}


def frame(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"c": KINDS[kind](rng), "x": rng.standard_normal(N) + 50.0})
    return X, X["x"].to_numpy() + (pd.factorize(X["c"])[0] == 1) + rng.standard_normal(N)


def encoded(leaf, **options):
    return make_pipeline(
        make_column_transformer((OneHotEncoder(**options), ["c"]), (StandardScaler(), ["x"])), leaf
    )


def assert_same_search(search, X, y, weights=None):
    few, full = (
        CoresetRegressor(search).fit(X, y, sample_weight=weights).estimator_,
        clone(search).fit(X, y),
    )
    for name, values in full.cv_results_.items():
        if "score" in name and "time" not in name and "rank" not in name:
            np.testing.assert_allclose(
                few.cv_results_[name], values, rtol=1e-9, atol=1e-9, err_msg=name
            )
    assert few.best_params_ == full.best_params_
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)
    return few, full


@pytest.mark.parametrize("kind", KINDS)
def test_searches_over_categories_of_any_kind(kind):
    X, y = frame(kind)
    assert_same_search(
        GridSearchCV(
            encoded(Ridge(), handle_unknown="ignore"), {"ridge__alpha": [0.1, 100.0]}, cv=4
        ),
        X,
        y,
    )


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    "limit", [{}, {"min_frequency": 0.2}, {"max_categories": 2}], ids=["all", "frequent", "two"]
)
def test_options_of_the_encoder(drop, sparse, limit):
    X, y = frame("text")
    options = {"drop": drop, "sparse_output": sparse, "handle_unknown": "ignore", **limit}
    assert_same_search(
        GridSearchCV(encoded(Ridge(tol=1e-12), **options), {"ridge__alpha": [0.1, 100.0]}, cv=4),
        X,
        y,
    )


def test_whether_a_table_is_sparse_is_decided_by_all_rows():
    """Kept rows are more even than all rows, so that with ``drop`` they hold another share of
    zeros.
    """
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "c": (
                np.where(rng.random(N) < 0.97, "a", np.where(rng.random(N) < 0.5, "b", "d")).astype(
                    object
                )
            )
        }
    )
    y = rng.standard_normal(N) + (X["c"] == "b")
    for threshold in (0.02, 0.1, 0.2, 0.3):
        front = make_column_transformer(
            (OneHotEncoder(drop="first"), ["c"]), sparse_threshold=threshold
        )
        search = GridSearchCV(
            make_pipeline(front, Ridge(tol=1e-12)), {"ridge__alpha": [1.0, 10.0]}, cv=3
        )
        few, full = assert_same_search(search, X, y)
        assert few.best_estimator_[0].sparse_output_ == full.best_estimator_[0].sparse_output_


def test_categories_of_rows_without_weight():
    """An encoder sees the categories of rows that do not count."""
    X, y = frame("text")
    weights = np.where(X["c"] == "level 2", 0.0, 1.0)
    few = CoresetRegressor(encoded(LinearRegression())).fit(X, y, sample_weight=weights)
    assert len(few.estimator_[0].named_transformers_["onehotencoder"].categories_[0]) == 4
    search = GridSearchCV(encoded(Ridge()), {"ridge__alpha": [0.1, 100.0]}, cv=3)
    found = CoresetRegressor(search).fit(X, y, sample_weight=weights).best_estimator_
    assert len(found[0].named_transformers_["onehotencoder"].categories_[0]) == 4


@pytest.mark.parametrize(
    "cv", [KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3)], ids=["shuffled", "windows"]
)
@pytest.mark.parametrize(
    "scoring",
    ["r2", "neg_root_mean_squared_error", "explained_variance", "neg_mean_absolute_error"],
)
def test_any_split_and_score(cv, scoring):
    X, y = frame("rare")
    model = encoded(Ridge(), handle_unknown="ignore")
    search = GridSearchCV(
        model, {"ridge__alpha": [0.1, 100.0]}, cv=cv, scoring=scoring, return_train_score=True
    )
    assert_same_search(search, X, y)


def test_a_rare_category_is_unknown_to_a_part():
    """Where scikit-learn fails on the part that has the only row of a category, so does karat;
    other parts are scored.
    """
    X, y = frame("rare")
    search = GridSearchCV(encoded(Ridge()), {"ridge__alpha": [0.1, 100.0]}, cv=3)
    with pytest.warns(UserWarning, match="non-finite|Scoring failed"):
        full = clone(search).fit(X, y)
    with pytest.warns(UserWarning, match="non-finite|Scoring failed"):
        few = CoresetRegressor(search).fit(X, y).estimator_
    for name in ("split0_test_score", "split1_test_score", "split2_test_score"):
        np.testing.assert_allclose(few.cv_results_[name], full.cv_results_[name], rtol=1e-9)


def test_transformers_are_not_shared_between_a_search_and_its_user():
    X, y = frame("text")
    search = GridSearchCV(
        encoded(Ridge()),
        {"ridge__alpha": [0.1, 100.0], "columntransformer__remainder": ["drop"]},
        cv=3,
    )
    few = CoresetRegressor(search).fit(X, y)
    assert not hasattr(search.estimator[0], "transformers_")
    assert not hasattr(search.estimator[-1], "coef_")
    assert few.best_estimator_[0] is not few.estimator_.estimator[0]


def test_the_core_is_one_of_indicators():
    X, y = frame("none and nan")
    few = CoresetRegressor(encoded(LinearRegression(), handle_unknown="ignore")).fit(X, y)
    assert few.core_.rows == "synthetic"
    assert few.core_.verify(few.estimator_[:-1].transform(X), y).ok


def test_missing_numbers_are_named():
    X, y = frame("text")
    X.loc[7, "x"] = np.nan
    front = make_column_transformer((OneHotEncoder(), ["c"]), ("passthrough", ["x"]))
    with pytest.raises(InputError, match="NaN"):
        CoresetRegressor(make_pipeline(front, Ridge())).fit(X, y)
