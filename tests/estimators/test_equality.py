"""Every estimator and search gives the answer of the full data: scores to 1e-9, the same choice,
coefficients to 1e-8.
"""

import numpy as np
import pytest
from estimators.agreement import NEW, assert_same
from estimators.reducing import CoresetClassifier, CoresetRegressor
from scipy import sparse
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    MultiTaskElasticNetCV,
    MultiTaskLasso,
    MultiTaskLassoCV,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from karat import NotExactError

ALPHAS = np.logspace(-3, 1, 5)
SCALED_LASSO = make_pipeline(StandardScaler(), Lasso())

PLAIN = [
    LinearRegression(),
    LinearRegression(fit_intercept=False),
    LinearRegression(positive=True),
    *(Ridge(10.0, solver=solver) for solver in ("auto", "svd", "cholesky")),
    Lasso(0.1),
    Lasso(0.1, positive=True, precompute=True),
    ElasticNet(0.1, l1_ratio=0.3),
    make_pipeline(StandardScaler(), Ridge(100.0)),
    make_pipeline(StandardScaler(), Lasso(0.05, fit_intercept=False)),
]
SELECTING = [
    GridSearchCV(SCALED_LASSO, {"lasso__alpha": ALPHAS}, return_train_score=True),
    GridSearchCV(
        Ridge(),
        {"alpha": [1.0, 1e3], "fit_intercept": [True, False]},
        scoring="neg_root_mean_squared_error",
    ),
    GridSearchCV(
        ElasticNet(), {"alpha": ALPHAS, "l1_ratio": [0.2, 0.8]}, scoring="explained_variance"
    ),
    GridSearchCV(
        Lasso(),
        {"alpha": ALPHAS},
        scoring=make_scorer(mean_squared_error, greater_is_better=False),
        n_jobs=2,
    ),
    RandomizedSearchCV(
        SCALED_LASSO, {"lasso__alpha": loguniform(1e-3, 1)}, n_iter=6, random_state=3
    ),
    LassoCV(alphas=30),
    ElasticNetCV(l1_ratio=[0.2, 0.9], alphas=20),
    LassoCV(alphas=[0.5, 0.01], fit_intercept=False, positive=True),
    RidgeCV(alphas=[0.1, 10.0, 1e3], cv=4),
]
SPLITTERS = [
    KFold(4),
    KFold(5, shuffle=True, random_state=1),
    TimeSeriesSplit(4),
    TimeSeriesSplit(3, gap=7, max_train_size=1500),
    RepeatedKFold(n_splits=4, n_repeats=3, random_state=0),
    ShuffleSplit(5, test_size=0.3, random_state=2),
    PredefinedSplit(np.arange(4000) % 3 - 1),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", PLAIN, ids=str)
def test_plain_fits(estimator, weighted, blobs):
    X, y, w = blobs
    assert_same(estimator, X, y, w if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", SELECTING, ids=lambda e: type(e).__name__)
def test_selection(estimator, weighted, blobs):
    X, y, w = blobs
    assert_same(estimator, X, y, w if weighted else None)


@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
def test_splitters(cv, blobs):
    X, y, _ = blobs
    assert_same(GridSearchCV(Ridge(), {"alpha": [1.0, 1e4]}, cv=cv), X, y)
    assert_same(LassoCV(cv=cv, alphas=10), X, y)
    assert_same(RidgeCV(cv=cv, alphas=[10.0, 1e4]), X, y)


@pytest.mark.parametrize(
    "cv", [GroupKFold(4), StratifiedKFold(3)], ids=lambda cv: type(cv).__name__
)
def test_splitters_that_look_at_labels(cv, blobs):
    X, y, _ = blobs
    y = np.digitize(y, [-2.0, 4.0]).astype(float)
    groups = np.arange(len(y)) % 11 if isinstance(cv, GroupKFold) else None
    assert_same(GridSearchCV(Ridge(), {"alpha": [1.0, 1e4]}, cv=cv), X, y, groups=groups)


def test_halving_over_a_parameter(blobs):
    X, y, _ = blobs
    options = {
        "resource": "max_iter",
        "min_resources": 500,
        "max_resources": 5000,
        "factor": 3,
        "random_state": 0,
    }
    assert_same(HalvingGridSearchCV(Lasso(), {"alpha": ALPHAS}, **options), X, y)
    assert_same(
        HalvingRandomSearchCV(Lasso(), {"alpha": loguniform(1e-3, 1)}, n_candidates=9, **options),
        X,
        y,
    )


def test_several_scores_and_the_one_that_refits(blobs):
    X, y, _ = blobs
    search = GridSearchCV(
        Ridge(), {"alpha": [1.0, 1e4]}, scoring=["r2", "neg_mean_squared_error"], refit="r2"
    )
    assert_same(search, X, y)


@pytest.mark.skipif(not NEW, reason="before 1.9 scikit-learn gives them no sample_weight")
@pytest.mark.parametrize(
    "estimator",
    [MultiTaskLasso(0.1), MultiTaskLassoCV(alphas=10), MultiTaskElasticNetCV(alphas=5)],
    ids=str,
)
def test_several_targets(estimator, blobs):
    X, y, _ = blobs
    Y = np.column_stack([y, X[:, 0] - np.roll(y, 1)])
    assert_same(estimator, X, Y)
    assert_same(GridSearchCV(Ridge(), {"alpha": [1.0, 1e4]}), X, Y)
    assert_same(GridSearchCV(MultiTaskLasso(), {"alpha": [0.1, 1.0]}), X, Y)


@pytest.mark.skipif(NEW, reason="scikit-learn gives them sample_weight")
@pytest.mark.parametrize("estimator", [MultiTaskLasso(0.1), MultiTaskLassoCV(alphas=10)], ids=str)
def test_what_needs_a_later_version_is_refused(estimator, blobs):
    X, y, _ = blobs
    with pytest.raises(
        NotExactError, match=f"{type(estimator).__name__} .* update scikit-learn to 1.9"
    ):
        CoresetRegressor(estimator).fit(X, np.column_stack([y, X[:, 0]]))


@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(),
        Ridge(solver="lsqr"),
        LinearRegression(),
        RidgeCV(cv=3),
        LassoCV(alphas=5),
        GridSearchCV(Lasso(), {"alpha": [1e-3, 1e-2]}),
    ],
    ids=lambda e: type(e).__name__,
)
def test_sparse_rows(estimator):
    rng = np.random.default_rng(0)
    # indices of 32 bits
    X = sparse.csr_array(sparse.random_array((5000, 12), density=0.2, random_state=rng).toarray())
    y = X @ rng.standard_normal(12) + 0.3 * rng.standard_normal(5000)
    few = assert_same(estimator, X, y)
    solved = estimator if type(estimator) is not RidgeCV else Ridge()
    told = any("tolerance (tol)" in note for note in few.core_.certificate.notes)
    assert told == isinstance(solved, Ridge | LinearRegression)


@pytest.mark.parametrize("estimator", [Ridge(), LinearRegression(), RidgeClassifier()], ids=str)
def test_sparse_rows_of_which_fewer_are_made_than_there_are_columns(estimator):
    """With the indicators of two kinds the made rows are fewer than the columns; solvers must not
    notice.
    """
    rng = np.random.default_rng(0)
    X = OneHotEncoder().fit_transform(rng.integers(0, 8, (5000, 3)))
    y = X @ rng.standard_normal(24) + 0.3 * rng.standard_normal(5000)
    if isinstance(estimator, RidgeClassifier):
        y = y > 0
        few = CoresetClassifier(estimator).fit(X, y)
    else:
        few = CoresetRegressor(estimator).fit(X, y)
    full = clone(estimator).fit(X, y)
    assert few.reduced_
    np.testing.assert_allclose(few.coef_, full.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(few.intercept_, full.intercept_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", [np.float32, np.int16])
def test_single_precision_and_whole_numbers_are_computed_in_double(blobs, kind):
    X, y, _ = blobs
    rounded = (X * 100).astype(kind)
    full = LassoCV(alphas=5).fit(rounded.astype(float), y)
    few = CoresetRegressor(LassoCV(alphas=5)).fit(rounded, y)
    assert few.core_.X.dtype == float
    np.testing.assert_allclose(few.estimator_.coef_, full.coef_, rtol=1e-9, atol=1e-12)


def test_diabetes(diabetes):
    X, y = diabetes
    assert_same(LassoCV(cv=2), X, y)
    assert_same(GridSearchCV(SCALED_LASSO, {"lasso__alpha": ALPHAS}, cv=2), X, y)


@pytest.mark.parametrize("weighted", [False, True])
def test_credit_cards(credit, weighted):
    X, y = credit
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    assert_same(
        GridSearchCV(
            SCALED_LASSO,
            {"lasso__alpha": [1.0, 10.0, 100.0]},
            cv=KFold(4, shuffle=True, random_state=0),
        ),
        X,
        y,
        w,
    )
    assert_same(make_pipeline(StandardScaler(), Ridge(10.0)), X, y, w)
    assert_same(RidgeCV(alphas=[1.0, 1e3, 1e6], cv=4), X, y, w)


def test_covertype(covtype):
    X, y = covtype
    assert_same(GridSearchCV(SCALED_LASSO, {"lasso__alpha": [2.0, 10.0, 50.0]}), X, y)
    assert_same(ElasticNetCV(l1_ratio=[0.5, 0.9], alphas=10, tol=1e-8), X, y)


@pytest.mark.slow
def test_covertype_with_its_categories(covtype_all):
    X, y = covtype_all
    assert_same(
        GridSearchCV(
            SCALED_LASSO, {"lasso__alpha": [1.0, 10.0]}, cv=KFold(3, shuffle=True, random_state=0)
        ),
        X,
        y,
    )
