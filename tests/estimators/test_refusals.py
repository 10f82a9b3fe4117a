"""Default-deny: what is not known to be exact is refused, with a reason and an alternative."""

import warnings

import numpy as np
import pytest
from estimators.reducing import CoresetRegressor
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import NMF
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, StackingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    HuberRegressor,
    Lasso,
    LassoLars,
    LassoLarsCV,
    LinearRegression,
    LogisticRegression,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    LeaveOneOut,
    LeavePOut,
    RandomizedSearchCV,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import karat
from karat import InputError, NotExactError, models, problems


class Stranger(RegressorMixin, BaseEstimator):
    """Takes weights, and is the weighted mean."""

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class MyRidge(Ridge):
    """A subclass may do anything."""


def with_front(transformer):
    return make_pipeline(transformer, Ridge())


def searched(estimator, **options):
    return GridSearchCV(estimator, {}, **options)


LEAVES = [
    (HuberRegressor(), "polynomial of the residual"),
    (QuantileRegressor(), "absolute errors"),
    (SGDRegressor(), "one by one"),
    (DecisionTreeRegressor(), "tree splits"),
    (RandomForestRegressor(), "tree splits"),
    (Ridge(solver="sag"), "solver='sag'"),
    (Ridge(solver="saga"), "solver='saga'"),
    (Ridge(positive=True), "lbfgs"),
    (Lasso(selection="random"), "selection='cyclic'"),
    (Lasso(precompute=np.eye(5)), "Gram matrix"),
    (Stranger(), "pass that problem"),
    (MyRidge(), "not known"),
]
FRONTS = [
    (TargetEncoder(), "random folds"),
    (FunctionTransformer(np.cumsum), "does not know whether cumsum transforms each row separately"),
    (FunctionTransformer(lambda X: X - X.mean()), "apply it before building"),
    (NMF(), "Transform the columns before building"),
    (Nystroem(n_components=3), "integer random_state"),
    (make_column_transformer((TargetEncoder(), [0, 1])), "random folds"),
    (FeatureUnion([("codes", TargetEncoder()), ("rest", "passthrough")]), "random folds"),
]
SELECTION = [
    (RidgeCV(cv=LeaveOneOut()), "fold of its own"),
    (LassoLarsCV(), "karat.models.LassoLarsCV"),
    (searched(Ridge(), cv=LeaveOneOut()), "KFold"),
    (searched(Ridge(), cv=LeavePOut(2)), "KFold"),
    (searched(Ridge(), cv=KFold(300)), "nearly every row"),
    (GridSearchCV(Ridge(), {"solver": ["auto", "sag"]}), "solver='sag'"),
    (
        GridSearchCV(
            make_pipeline(StandardScaler(), Ridge()), {"ridge": [Ridge(), HuberRegressor()]}
        ),
        "Huber",
    ),
    (RandomizedSearchCV(Ridge(), {"solver": ["saga"]}, n_iter=1), "solver='saga'"),
    (HalvingGridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}), "n_samples"),
    (searched(searched(HuberRegressor())), "polynomial of the residual"),
    (with_front(StandardScaler()).set_params(ridge=searched(Ridge(), cv=LeaveOneOut())), "KFold"),
    (TransformedTargetRegressor(HuberRegressor()), "polynomial of the residual"),
    (MultiOutputRegressor(HuberRegressor()), "polynomial of the residual"),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (300, 5)).astype(float)
    return X, X.sum(axis=1) + rng.standard_normal(300)


@pytest.mark.parametrize(
    ("estimator", "words"), LEAVES + [(with_front(f), w) for f, w in FRONTS] + SELECTION
)
def test_refused(estimator, words, data):
    with pytest.raises(NotExactError, match=words):
        CoresetRegressor(estimator).fit(*data)


@pytest.mark.parametrize(("estimator", "words"), LEAVES)
def test_a_coreset_refuses_the_same(estimator, words, data):
    with pytest.raises(NotExactError, match=words.replace("pass that problem", "not known")):
        karat.coreset(*data).fit(estimator)


def test_a_huber_fit_would_have_been_wrong(data):
    """The reason for the registry: nothing warns, and the answer is another."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20_000, 4))
    y = X.sum(axis=1) + rng.standard_t(1.5, 20_000)
    core = karat.coreset(X, y)
    full = HuberRegressor().fit(X, y).coef_
    few = HuberRegressor().fit(core.X, core.y, sample_weight=core.weights).coef_
    assert np.abs(few / full - 1).max() > 0.02


def test_the_user_may_insist(data):
    X, y = data
    fitted = CoresetRegressor(Stranger(), problem=problems.LeastSquares()).fit(X, y)
    assert fitted.estimator_.mean_ == pytest.approx(y.mean(), rel=1e-12)


def test_insisting_in_a_search(data):
    X, y = data
    few = CoresetRegressor(
        GridSearchCV(MyRidge(), {"alpha": [1.0, 100.0]}, cv=3), problem=problems.LeastSquares()
    ).fit(X, y)
    full = GridSearchCV(MyRidge(), {"alpha": [1.0, 100.0]}, cv=3).fit(X, y)
    np.testing.assert_allclose(
        few.estimator_.cv_results_["mean_test_score"],
        full.cv_results_["mean_test_score"],
        rtol=1e-9,
    )


def test_insisting_does_not_conjure_weights(data):
    with pytest.raises(NotExactError, match="no sample_weight"):
        CoresetRegressor(LassoLars(), problem=problems.LeastSquares()).fit(*data)


def test_categories_that_a_training_part_lacks():
    """scikit-learn's encoder fails on the fold that has an unknown category, or ignores it; so does
    it here.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (300, 1)).astype(object)
    X[:60] = 9  # the first fold alone has this one
    y = rng.standard_normal(300)
    for encoder in (
        OneHotEncoder(sparse_output=False),
        OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
    ):
        search = searched(with_front(encoder))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            few, full = CoresetRegressor(search).fit(X, y), search.fit(X, y)
        np.testing.assert_allclose(
            few.cv_results_["split0_test_score"], full.cv_results_["split0_test_score"], rtol=1e-9
        )
        np.testing.assert_allclose(
            few.cv_results_["split1_test_score"], full.cv_results_["split1_test_score"], rtol=1e-9
        )


def test_a_score_without_weights_is_refused_if_there_are_weights(data):
    X, y = data
    with pytest.raises(NotExactError, match="max_error takes no sample_weight"):
        CoresetRegressor(searched(Ridge(), scoring="neg_max_error")).fit(
            X, y, sample_weight=np.ones(300)
        )
    CoresetRegressor(searched(Ridge(), scoring="neg_max_error")).fit(X, y)


def test_what_a_coreset_does_not_keep(data):
    X, y = data
    labels = (y > y.mean()).astype(int)
    by_class = karat.coreset(X, problem=problems.Moments(2), groups=labels)
    cases = [
        (karat.coreset(X), Ridge(), "built without y"),
        (karat.coreset(X, y), RidgeCV(cv=3), "CoresetRegressor"),
        (karat.coreset(X, y), searched(Ridge()), "one coreset per fold"),
        (karat.coreset(X, y), with_front(PolynomialFeatures()), "columns as they are"),
        (
            karat.coreset(X, y, problems.LeastSquares(fit_intercept=False)),
            Ridge(),
            "fit_intercept=True",
        ),
        (
            karat.coreset(X, y, problems.LeastSquares(fit_intercept=False)),
            with_front(StandardScaler()),
            "fit_intercept=True",
        ),
        (
            karat.coreset(X, y, problems.LeastSquares(False, total_weight=False)),
            Lasso(fit_intercept=False),
            "total_weight=True",
        ),
        (karat.coreset(X, y, problems.Ridge(10.0, absorb="diagonal")), Ridge(10.0), "absorbed"),
        (karat.coreset(X, y, problems.Mean()), LinearRegression(), "second moments"),
        (karat.coreset(X, y), models.LinearDiscriminant(), "groups=labels"),
        (by_class, GaussianNB(), "karat.models.GaussianNaiveBayes"),
        (by_class, LogisticRegression(), "LinearDiscriminant"),
        (karat.coreset(X, y), SVR(), "within epsilon"),
        (by_class, RidgeClassifier(class_weight="balanced"), "class_weight"),
    ]
    for core, estimator, words in cases:
        with pytest.raises(NotExactError, match=words):
            core.fit(estimator)


def test_a_core_behind_transformers_is_one_of_the_columns_that_they_make(data, tmp_path):
    X, y = data
    few = CoresetRegressor(with_front(MinMaxScaler())).fit(X, y)
    scaled = few.estimator_[:-1].transform(X)
    few.core_.save(tmp_path / "core.npz")
    for core in (few.core_, karat.load(tmp_path / "core.npz")):
        assert core.rows == "synthetic"
        np.testing.assert_allclose(
            core.fit(Ridge()).coef_, Ridge().fit(scaled, y).coef_, rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("problem", [None, problems.LeastSquares()])
def test_invalid_parameters_are_named(data, problem):
    with pytest.raises(ValueError, match="'alpha' parameter of Ridge"):
        CoresetRegressor(GridSearchCV(Ridge(), {"alpha": [1.0, -1.0]}), problem=problem).fit(*data)


def test_inputs(data):
    X, y = data
    with pytest.raises(InputError, match="does not select"):
        CoresetRegressor(Ridge()).fit(X, y, groups=np.zeros(300))
    with pytest.raises(InputError, match="twice"):
        karat.exact_cv(X, y, cv=[(np.array([0, 0, 1]), np.arange(2, 300))])
    with pytest.raises(InputError, match="no splits"):
        karat.exact_cv(X, y, cv=iter([]))
    with pytest.raises(InputError, match=r"not its name: y=data\['price'\]"):
        CoresetRegressor(Ridge()).fit(X, "price")


ENSEMBLES = [
    (
        StackingRegressor([("ridge", Ridge())]),
        StackingRegressor([("ridge", CoresetRegressor(Ridge()))], Ridge()),
    ),
    (BaggingRegressor(Lasso()), BaggingRegressor(CoresetRegressor(Ridge()), 3, random_state=0)),
]


@pytest.mark.parametrize(("outside", "inside"), ENSEMBLES, ids=["stacking", "bagging"])
def test_ensembles_of_single_rows_are_refused_and_hold_karat(outside, inside, data):
    X, y = data
    with pytest.raises(NotExactError, match="karat works inside it"):
        CoresetRegressor(outside).fit(X, y)
    part = {"ridge": Ridge()} if isinstance(inside, StackingRegressor) else {"estimator": Ridge()}
    plain = clone(inside).set_params(**part).fit(X, y)
    np.testing.assert_allclose(inside.fit(X, y).predict(X), plain.predict(X), rtol=1e-9)
