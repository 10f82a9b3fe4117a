"""Columns that transformers make alike for every part: the scores and models of plain
scikit-learn.
"""

import numpy as np
import pandas as pd
import pytest
import sklearn
from estimators.agreement import on_all_rows, scores
from estimators.reducing import CoresetClassifier, CoresetRegressor
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import Lasso, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from karat.estimators import searches, shared_columns

N = 3000
NUMBERS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def table():
    """Numbers and two categories; one town has a single row, so that it is missing in a training
    part.
    """
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.gamma(2.0, [1.0, 10.0, 0.1], (N, 3)), columns=NUMBERS)
    frame["town"] = rng.choice([f"t{k}" for k in range(9)], N)
    frame["kind"] = rng.choice(["x", "y"], N)
    frame.loc[17, "town"] = "alone"
    y = frame["a"] - 0.1 * frame["b"] + (frame["town"] == "t3") + 0.5 * rng.standard_normal(N)
    return frame, y.to_numpy()


@pytest.fixture
def shared(monkeypatch):
    """The parts that were served by shared columns."""
    served = []

    class Seen(shared_columns.SharedColumns):
        def part(self, number, positions):
            found = super().part(number, positions)
            served.append(found)
            return found

    monkeypatch.setattr(searches, "SharedColumns", Seen)
    return served


def assert_served(shared):
    assert shared
    assert None not in shared


def hot(**options):
    return OneHotEncoder(**{"handle_unknown": "ignore"} | options)


def preprocessors():
    text = ["town", "kind"]
    return {
        "encoder": ([hot()], text),
        "dense encoder": ([hot(sparse_output=False)], text),
        "scaled": ([make_column_transformer((StandardScaler(), NUMBERS), (hot(), text))], None),
        "ranges": (
            [make_column_transformer((MinMaxScaler(), NUMBERS), (hot(sparse_output=False), text))],
            None,
        ),
        "selector": (
            [
                make_column_transformer(
                    (RobustScaler(), make_column_selector(dtype_include="number")),
                    (hot(), ["town"]),
                    ("drop", ["kind"]),
                )
            ],
            None,
        ),
        "logarithms": (
            [
                make_column_transformer(
                    (FunctionTransformer(np.log1p, feature_names_out="one-to-one"), NUMBERS),
                    (hot(), text),
                )
            ],
            None,
        ),
        "squares": ([PolynomialFeatures(2, include_bias=False), StandardScaler()], NUMBERS),
        "chosen squares": (
            [
                FunctionTransformer(np.sqrt, feature_names_out="one-to-one"),
                PolynomialFeatures(2),
                SelectKBest(f_regression, k=4),
            ],
            NUMBERS,
        ),
    }


@pytest.mark.parametrize("name", preprocessors())
@pytest.mark.parametrize(
    "cv",
    [5, RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), ShuffleSplit(3, random_state=1)],
)
def test_searches(table, shared, name, cv):
    frame, y = table
    steps, columns = preprocessors()[name]
    X = frame if columns is None else frame[columns]
    search = GridSearchCV(
        make_pipeline(*steps, Ridge(tol=1e-13)), {"ridge__alpha": [0.1, 1.0, 30.0]}, cv=cv
    )
    full, few = clone(search).fit(X, y), CoresetRegressor(search).fit(X, y)
    assert few.reduced_
    assert_served(shared)
    for key, values in scores(full).items():
        np.testing.assert_allclose(
            scores(few.estimator_)[key], values, rtol=1e-8, atol=1e-9, err_msg=key
        )
    assert few.best_params_ == full.best_params_
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-7, atol=1e-7)
    mine, theirs = (model.best_estimator_[:-1] for model in (few, full))
    assert list(mine.get_feature_names_out()) == list(theirs.get_feature_names_out())
    one, other = (sparse.csr_array(front.transform(X)).toarray() for front in (mine, theirs))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_weights(table, shared):
    X, y = table
    weights = np.random.default_rng(0).integers(0, 4, N) + 0.5
    columns = make_column_transformer(
        (StandardScaler(), NUMBERS), (hot(sparse_output=False), ["town"])
    )
    search = GridSearchCV(
        make_pipeline(columns, Lasso(tol=1e-13)), {"lasso__alpha": [1e-3, 0.1]}, cv=4
    )
    few = CoresetRegressor(search).fit(X, y, sample_weight=weights)
    routed = clone(search)
    with sklearn.config_context(enable_metadata_routing=True):
        routed.estimator.steps[0][1].transformers[0][1].set_fit_request(sample_weight=True)
    full = on_all_rows(routed, X, y, weights)
    assert_served(shared)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-7, atol=1e-7)


def test_classes(table, shared):
    X, y = table
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    columns = make_column_transformer(
        (StandardScaler(), NUMBERS), (hot(sparse_output=False), ["town"])
    )
    search = GridSearchCV(
        make_pipeline(columns, RidgeClassifier()), {"ridgeclassifier__alpha": [0.1, 100.0]}, cv=4
    )
    full, few = clone(search).fit(X, labels), CoresetClassifier(search).fit(X, labels)
    assert_served(shared)
    np.testing.assert_array_equal(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(few.predict(X), full.predict(X))


def test_a_part_without_a_category_that_must_be_known(table, shared):
    X, y = table
    search = GridSearchCV(
        make_pipeline(OneHotEncoder(), Ridge(tol=1e-13)), {"ridge__alpha": [0.1, 1.0]}, cv=KFold(4)
    )
    with pytest.warns(UserWarning, match="non-finite|unknown categories|Scoring failed"):
        full = clone(search).fit(X[["town"]], y)
    with pytest.warns(UserWarning, match="non-finite|unknown categories|Scoring failed"):
        few = CoresetRegressor(search).fit(X[["town"]], y)
    assert None in shared
    for split in range(4):
        mine, theirs = (one.cv_results_[f"split{split}_test_score"] for one in (few, full))
        # not a number, where a category is unknown
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)
