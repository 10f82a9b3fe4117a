"""Everyday estimators on few rows: scikit-learn's own, on all rows, is the oracle.

Where scikit-learn takes no weights, a weight of 3 is a row written three times."""

import warnings

import numpy as np
import pytest
from estimators.reducing import CoresetRegressor
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import (
    ElasticNetCV,
    Lars,
    Lasso,
    LassoLars,
    LassoLarsIC,
    OrthogonalMatchingPursuit,
    OrthogonalMatchingPursuitCV,
    Ridge,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import karat
from karat import InputError, NotExactError

COUNTED = [
    Lars(),
    Lars(n_nonzero_coefs=3, precompute=False),
    Lars(fit_intercept=False),
    LassoLars(0.05),
    LassoLars(0.02, positive=True),
    LassoLars(0.05, fit_intercept=False),
    LassoLarsIC("aic"),
    LassoLarsIC("bic"),
    LassoLarsIC("bic", noise_variance=3.0, fit_intercept=False),
    OrthogonalMatchingPursuit(n_nonzero_coefs=3),
    OrthogonalMatchingPursuit(tol=20_000.0),
    OrthogonalMatchingPursuit(n_nonzero_coefs=2, fit_intercept=False),
    PLSRegression(),
    PLSRegression(3, scale=False),
]
WEIGHTED = [
    TweedieRegressor(solver="newton-cholesky", alpha=0.3),
    DummyRegressor(),
    DummyRegressor(strategy="median"),
    DummyRegressor(strategy="quantile", quantile=0.3),
    DummyRegressor(strategy="constant", constant=2.0),
    VotingRegressor(
        [("ridge", Ridge(3.0)), ("lasso", Lasso(0.1)), ("none", "drop")], weights=[1, 2, 3]
    ),
    VotingRegressor(
        [("scaled", make_pipeline(StandardScaler(), Lasso(0.1))), ("plain", Ridge(2.0))]
    ),
]
SEVERAL = [
    MultiOutputRegressor(make_pipeline(StandardScaler(), Lasso(0.1))),
    MultiOutputRegressor(Lars()),
    RegressorChain(Ridge(2.0)),
    RegressorChain(Lasso(0.05), order=[2, 0, 1]),
    RegressorChain(make_pipeline(MinMaxScaler(), Ridge(0.1)), order="random", random_state=1),
    PLSRegression(2),
    OrthogonalMatchingPursuit(n_nonzero_coefs=2),
    LassoLars(0.05),
]
ATTRIBUTES = (
    "coef_", "intercept_", "alpha_", "alphas_", "criterion_", "noise_variance_", "constant_",
    "n_nonzero_coefs_", "active_", "coef_path_", "x_weights_", "x_loadings_", "x_rotations_",
    "y_loadings_", "order_", "n_features_in_",
)  # fmt: skip


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3000, 6)) @ rng.standard_normal((6, 6)) + 4.0
    Y = X @ rng.standard_normal((6, 3)) + 2.0 * rng.standard_normal((3000, 3)) - 3.0
    return X, Y, rng.integers(0, 4, 3000).astype(float)


def assert_agree(few, full, X, rtol=1e-9):
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=rtol, atol=rtol)
    for name in ATTRIBUTES:
        if getattr(full, name, None) is not None and not isinstance(getattr(full, name), list):
            np.testing.assert_allclose(
                getattr(few.estimator_, name), getattr(full, name), rtol=1e-8, atol=1e-9
            )


def name_of(model):
    return str(model).replace("\n", "").replace(" ", "")[:60]


@pytest.mark.parametrize("model", COUNTED, ids=name_of)
def test_weights_are_numbers_of_rows(model, table):
    X, Y, counts = table
    y = Y[:, 0]
    few = CoresetRegressor(model).fit(X, y)
    assert few.reduced_
    assert len(few.core_) < 20
    assert_agree(few, clone(model).fit(X, y), X)
    places = np.repeat(np.arange(len(y)), counts.astype(int))
    few = CoresetRegressor(model).fit(X, y, sample_weight=counts)
    assert_agree(few, clone(model).fit(X[places], y[places]), X)


@pytest.mark.parametrize("model", WEIGHTED, ids=name_of)
@pytest.mark.parametrize("weighted", [False, True])
def test_models_that_take_weights(model, weighted, table):
    X, Y, counts = table
    given = {"sample_weight": counts} if weighted else {}
    few = CoresetRegressor(model).fit(X, Y[:, 0], **given)
    # Voting hands weights to estimators that take them only
    if weighted and "scaled" in str(model):
        expected = 0.0
        for part in (Lasso(0.1), Ridge(2.0)):
            front = StandardScaler().fit(X, sample_weight=counts)
            Z = front.transform(X) if isinstance(part, Lasso) else X
            expected = expected + 0.5 * part.fit(Z, Y[:, 0], sample_weight=counts).predict(Z)
        np.testing.assert_allclose(few.predict(X), expected, rtol=1e-9)
    else:
        assert_agree(few, clone(model).fit(X, Y[:, 0], **given), X)


@pytest.mark.parametrize("model", SEVERAL, ids=name_of)
def test_several_targets(model, table):
    X, Y, counts = table
    counts = counts + 1.0  # scalers look at rows without weight as well
    few = CoresetRegressor(model).fit(X, Y)
    assert few.reduced_
    assert_agree(few, clone(model).fit(X, Y), X)
    places = np.repeat(np.arange(len(Y)), counts.astype(int))
    few = CoresetRegressor(model).fit(X, Y, sample_weight=counts)
    assert_agree(few, clone(model).fit(X[places], Y[places]), X)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_pursuit_with_folds(fit_intercept, table):
    X, Y, counts = table
    model = OrthogonalMatchingPursuitCV(cv=4, fit_intercept=fit_intercept)
    few = CoresetRegressor(model).fit(X, Y[:, 1])
    assert few.reduced_
    assert few.estimator_.cv == 4
    assert_agree(few, clone(model).fit(X, Y[:, 1]), X)
    # with weights: the folds of the rows written several times
    counts = counts + 1.0
    places = np.repeat(np.arange(len(X)), counts.astype(int))
    fold = np.arange(len(X)) % 3
    both = [
        [(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(3)]
        for of in (fold, fold[places])
    ]
    few = CoresetRegressor(clone(model).set_params(cv=both[0])).fit(
        X, Y[:, 1], sample_weight=counts
    )
    full = clone(model).set_params(cv=both[1]).fit(X[places], Y[places, 1])
    assert_agree(few, full, X)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (PLSRegression(), {"n_components": [1, 3]}),
        (LassoLars(), {"alpha": [0.01, 1.0]}),
        (DummyRegressor(), {"strategy": ["mean", "median"]}),
        (VotingRegressor([("a", Ridge()), ("b", Lasso())]), {"a__alpha": [1.0, 1e4]}),
        (
            make_pipeline(StandardScaler(), LassoLarsIC()),
            {"lassolarsic__criterion": ["aic", "bic"]},
        ),
        (make_pipeline(MinMaxScaler(), Lars()), {"lars__n_nonzero_coefs": [1, 2, 5]}),
    ],
    ids=lambda part: name_of(part) if hasattr(part, "fit") else "",
)
def test_searches(model, grid, table):
    X, Y, _ = table
    search = GridSearchCV(model, grid, cv=3)
    few, full = CoresetRegressor(search).fit(X, Y[:, 0]), clone(search).fit(X, Y[:, 0])
    for name, values in full.cv_results_.items():
        if name.endswith("test_score") and "rank" not in name:
            np.testing.assert_allclose(few.cv_results_[name], values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)


def test_names_of_columns(table):
    pd = pytest.importorskip("pandas")
    X, Y, _ = table
    frame = pd.DataFrame(X, columns=list("abcdef"))
    for model in (
        Lars(),
        PLSRegression(),
        LassoLarsIC(),
        OrthogonalMatchingPursuitCV(),
        DummyRegressor(),
    ):
        few, full = CoresetRegressor(model).fit(frame, Y[:, 0]), clone(model).fit(frame, Y[:, 0])
        assert list(getattr(few.estimator_, "feature_names_in_", [])) == list(
            getattr(full, "feature_names_in_", [])
        )
        np.testing.assert_allclose(few.predict(frame), full.predict(frame), rtol=1e-9)


def test_a_constant_column(table):
    X, Y, _ = table
    X = np.column_stack([X, np.full(len(X), 0.1)])
    for model in (
        PLSRegression(),
        Lars(),
        LassoLarsIC(),
        OrthogonalMatchingPursuit(n_nonzero_coefs=3),
    ):
        few, full = CoresetRegressor(model).fit(X, Y[:, 0]), clone(model).fit(X, Y[:, 0])
        np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        Lars(),
        LassoLars(0.01),
        LassoLarsIC(),
        OrthogonalMatchingPursuit(n_nonzero_coefs=4),
        OrthogonalMatchingPursuitCV(cv=3),
        PLSRegression(7),
        GridSearchCV(LassoLars(), {"alpha": [0.01, 0.1]}, cv=3),
    ],
    ids=name_of,
)
def test_copies_of_columns(model, table):
    """Which of two equal columns is chosen is decided by their last digits, which all rows have."""
    X, Y, _ = table
    X = np.column_stack([X, X[:, :2]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few, full = CoresetRegressor(model).fit(X, Y[:, 0]), clone(model).fit(X, Y[:, 0])
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)
    assert not few.reduced_
    assert "combinations of others" in few.reason_


def test_copies_of_columns_on_made_rows(table):
    X, Y, _ = table
    core = karat.coreset(np.column_stack([X, X[:, 0]]), Y[:, 0], rows="synthetic")
    with pytest.raises(NotExactError, match="Leave such columns out"):
        core.fit(Lars())
    core = karat.coreset(X, Y[:, 0], rows="synthetic")
    np.testing.assert_allclose(core.fit(Lars()).coef_, Lars().fit(X, Y[:, 0]).coef_, rtol=1e-9)


def test_more_rows_one_batch_after_another(table):
    X, Y, _ = table
    few = CoresetRegressor(make_pipeline(StandardScaler(), LassoLarsIC()))
    for start in range(0, 3000, 1000):
        few.partial_fit(X[start : start + 1000], Y[start : start + 1000, 0])
    full = make_pipeline(StandardScaler(), LassoLarsIC()).fit(X, Y[:, 0])
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)


def test_folds_inside_a_vote(table):
    X, Y, _ = table
    model = VotingRegressor([("net", ElasticNetCV(cv=3)), ("ridge", Ridge())])
    few, full = CoresetRegressor(model).fit(X, Y[:, 0]), clone(model).fit(X, Y[:, 0])
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9)
    assert set(few.estimator_.named_estimators_) == {"net", "ridge"}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (TweedieRegressor(power=1.5), "power=0 is exact"),
        (TweedieRegressor(link="log"), "link='identity'"),
        (TweedieRegressor(), "newton-cholesky"),
        (Lars(jitter=0.1), "jitter=None"),
        (RegressorChain(Ridge(), cv=3), "leave cv=None"),
        (VotingRegressor([("a", TweedieRegressor(power=2))]), "power=0 is exact"),
    ],
    ids=name_of,
)
def test_refused(model, words, table):
    X, Y, _ = table
    with pytest.raises(NotExactError, match=words):
        CoresetRegressor(model).fit(X, Y if isinstance(model, RegressorChain) else Y[:, 0])


def test_inputs_that_make_no_sense(table):
    X, Y, _ = table
    with pytest.raises(InputError, match="order"):
        CoresetRegressor(RegressorChain(Ridge(), order=[0, 0, 1])).fit(X, Y)
    with pytest.raises(InputError, match="one dimension"):
        CoresetRegressor(MultiOutputRegressor(Lars())).fit(X, Y[:, 0])
    with pytest.raises(InputError, match="weights"):
        CoresetRegressor(VotingRegressor([("a", Ridge())], weights=[1, 2])).fit(X, Y[:, 0])
    with pytest.raises(InputError, match="numbers of rows"):
        CoresetRegressor(PLSRegression()).fit(X, Y[:, 0], sample_weight=np.full(len(X), 1e-5))
    with pytest.raises(ValueError, match="noise"):
        CoresetRegressor(LassoLarsIC()).fit(X[:6], Y[:6, 0])
