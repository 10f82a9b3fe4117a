"""Functions of rows, and transformers that the user vouches for: tried, and fitted to the answer of
all rows.
"""

import numpy as np
import pytest
from estimators.reducing import CoresetClassifier, CoresetRegressor
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Lasso, LassoCV, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import karat
from karat import InputError, NotExactError


class Winsorise(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Learns quantiles of all rows, and cuts every row at them."""

    def __init__(self, tail=0.05):
        self.tail = tail

    def fit(self, X, y=None):
        self.low_, self.high_ = np.quantile(X, [self.tail, 1 - self.tail], axis=0)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.clip(X, self.low_, self.high_)


class MyScaler(StandardScaler):
    """A subclass may do anything."""


class Centre(TransformerMixin, BaseEstimator):
    """Looks at the other rows that it is given."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X - X.mean(axis=0)


def cut(X):
    return np.where(X > 1.0, 1.0, X)


def ranks(X):
    return X.argsort(axis=0).argsort(axis=0).astype(float)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2500, 4)) * [1.0, 2.0, 0.5, 3.0]
    return (
        X,
        np.clip(X, -1, 1) @ [1.0, 2.0, -1.0, 0.5] + rng.standard_normal(2500),
        rng.integers(1, 4, 2500).astype(float),
    )


FUNCTIONS = [
    FunctionTransformer(np.clip, kw_args={"a_min": -1.0, "a_max": [1.0, 2.0, 1.0, 2.0]}),
    FunctionTransformer(np.nan_to_num, kw_args={"nan": -2.0}),
    FunctionTransformer(np.round, kw_args={"decimals": 1}),
]


@pytest.mark.parametrize("front", FUNCTIONS, ids=lambda front: front.func.__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_functions_of_numpy(front, weighted, table):
    X, y, weights = table
    if front.func is np.nan_to_num:
        X = np.where(X > 2.0, np.nan, X)
    given = {"sample_weight": weights} if weighted else {}
    model = make_pipeline(front, Lasso(0.05, tol=1e-12))
    few = CoresetRegressor(model).fit(X, y, **given)
    assert few.reduced_
    full = clone(model).fit(X, y, **{f"lasso__{name}": value for name, value in given.items()})
    np.testing.assert_allclose(few.estimator_[-1].coef_, full[-1].coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"out": np.zeros((2500, 4))}, {"copy": False}, {"nan": np.ones((2500, 1))}],
    ids=lambda options: next(iter(options)),
)
def test_options_that_reach_other_rows(options, table):
    function = np.clip if "out" in options else np.nan_to_num
    extra = {"a_min": 0.0, "a_max": 1.0} if function is np.clip else {}
    model = make_pipeline(FunctionTransformer(function, kw_args=extra | options), Ridge())
    with pytest.raises(NotExactError, match="does not know whether"):
        CoresetRegressor(model).fit(*table[:2])


@pytest.mark.parametrize(
    ("front", "rowwise"),
    [
        (Winsorise(0.1), [Winsorise]),
        (MyScaler(), [MyScaler]),
        (FunctionTransformer(cut), [cut]),
        (make_pipeline(FunctionTransformer(cut), Winsorise()), [cut, Winsorise]),
        (make_column_transformer((Winsorise(), [0, 2]), remainder="passthrough"), (Winsorise,)),
    ],
    ids=["class", "subclass", "function", "pipeline", "columns"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_vouched_for(front, rowwise, weighted, table):
    X, y, weights = table
    model = make_pipeline(front, Ridge(3.0))
    if weighted and not isinstance(front, MyScaler):  # else the scaler is given weights as well
        few = CoresetRegressor(model, rowwise=rowwise).fit(X, y, sample_weight=weights)
        full = clone(model).fit(X, y, ridge__sample_weight=weights)
    else:
        few, full = CoresetRegressor(model, rowwise=rowwise).fit(X, y), clone(model).fit(X, y)
    assert few.reduced_
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9, atol=1e-9)
    with pytest.raises(NotExactError, match=r"rowwise=\["):
        CoresetRegressor(model).fit(X, y)


def test_in_searches_and_for_classes(table):
    X, y, _ = table
    search = GridSearchCV(
        make_pipeline(Winsorise(), Lasso(0.1)), {"winsorise__tail": [0.01, 0.2]}, cv=3
    )
    few, full = CoresetRegressor(search, rowwise=[Winsorise]).fit(X, y), clone(search).fit(X, y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )
    model = make_pipeline(Winsorise(), LassoCV(cv=3))
    few, full = CoresetRegressor(model, rowwise=[Winsorise]).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)
    model, labels = make_pipeline(Winsorise(), RidgeClassifier()), np.digitize(y, [-1.0, 1.0])
    few, full = (
        CoresetClassifier(model, rowwise=[Winsorise]).fit(X, labels),
        clone(model).fit(X, labels),
    )
    np.testing.assert_array_equal(few.predict(X), full.predict(X))


@pytest.mark.parametrize("kind", [CoresetRegressor, karat.CoresetRegressor])
@pytest.mark.parametrize(
    "broken", [(Centre(), Centre), (FunctionTransformer(ranks), ranks)], ids=["mean", "ranks"]
)
def test_a_vouch_is_tried(kind, broken, table):
    """On few rows and on all of them."""
    X, y, _ = table
    front, name = broken
    with pytest.raises(NotExactError, match=f"rowwise names {name.__name__}.*does not"):
        kind(make_pipeline(front, Ridge()), rowwise=[name]).fit(X, y)
    with pytest.raises(NotExactError, match="does not transform each row"):
        kind(
            GridSearchCV(make_pipeline(front, Ridge()), {"ridge__alpha": [1.0, 2.0]}),
            rowwise=[name],
        ).fit(X, y)


def test_what_rowwise_takes(table):
    for wrong in ("Winsorise", [Winsorise()], Winsorise):
        with pytest.raises(InputError, match="list of classes"):
            CoresetRegressor(make_pipeline(Winsorise(), Ridge()), rowwise=wrong).fit(*table[:2])
