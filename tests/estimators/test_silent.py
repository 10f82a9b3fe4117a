"""Cases that used to give another answer than scikit-learn without a word; each now gives its
answer or is refused.
"""

import numpy as np
import pandas as pd
import pytest
from estimators.agreement import LEAVE_ONE_OUT, assert_same, on_all_rows, scores
from estimators.reducing import CoresetClassifier, CoresetRegressor
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, Ridge, RidgeCV
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    RandomizedSearchCV,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import karat
from karat import InputError, NotExactError, models

HALVING = {"min_resources": 500, "max_resources": 4500, "factor": 3, "resource": "max_iter"}
POWERS = Pipeline(
    [("scale", StandardScaler()), ("powers", PolynomialFeatures(2)), ("model", Lasso(0.1))]
)


@pytest.mark.parametrize("state", [0, np.random.RandomState(0)], ids=["seed", "state"])
def test_all_candidates_of_a_halving_search_are_looked_at(blobs, state):
    X, y, _ = blobs
    params = {"powers__degree": [1, 2, 3], "model__alpha": loguniform(1e-2, 1)}
    options = HALVING | {"resource": "model__max_iter", "n_candidates": "exhaust", "cv": 3}
    assert_same(HalvingRandomSearchCV(POWERS, params, random_state=state, **options), X[:, :3], y)


@pytest.mark.parametrize("count", [np.int64(6), 6])
def test_all_candidates_of_a_random_search_are_checked(blobs, count):
    X, y, _ = blobs
    search = RandomizedSearchCV(
        Pipeline([("model", Ridge())]),
        {"model": [Ridge(), HuberRegressor()]},
        n_iter=count,
        random_state=0,
        cv=3,
    )
    with (
        pytest.warns(UserWarning, match="total space"),
        pytest.raises(NotExactError, match="Huber"),
    ):
        CoresetRegressor(search).fit(X, y)


def test_a_resource_that_changes_the_columns(blobs):
    X, y, _ = blobs
    search = HalvingGridSearchCV(
        clone(POWERS).set_params(powers__degree=1),
        {"model__alpha": [0.01, 0.1, 1.0]},
        resource="powers__degree",
        min_resources=1,
        max_resources=3,
        factor=2,
        cv=3,
    )
    assert_same(search, X[:, :3], y)


@pytest.mark.parametrize("front", [StandardScaler(), "passthrough"])
@pytest.mark.parametrize("search", [False, True])
def test_columns_dropped_after_polynomials(blobs, front, search):
    X, y, _ = blobs
    some = ColumnTransformer([("some", "passthrough", [2, 4, 6])], remainder="drop")
    pipeline = Pipeline(
        [("scale", front), ("powers", PolynomialFeatures(2)), ("some", some), ("model", Ridge())]
    )
    assert_same(
        GridSearchCV(pipeline, {"model__alpha": [1.0, 1e3]}, cv=3) if search else pipeline,
        X[:, :3],
        y,
    )


def test_a_grid_of_degrees_before_a_selection(blobs):
    """The columns of degree 3 do not hold those that degree 2 selects."""
    X, y, _ = blobs
    last = ColumnTransformer(
        [("some", SplineTransformer(knots=np.array([[-9.0], [0.0], [9.0], [99.0]])), [-1])]
    )
    pipeline = Pipeline([("powers", PolynomialFeatures(2)), ("some", last), ("model", Ridge())])
    assert_same(GridSearchCV(pipeline, {"powers__degree": [1, 2]}, cv=3), X[:, :2] / 4, y)


class BySign:
    """A splitter that looks at X: the test parts are the signs of a column."""

    def split(self, X, y=None, groups=None):
        side = np.asarray(X)[:, 0] > 3
        for one in (side, ~side):
            yield np.flatnonzero(~one), np.flatnonzero(one)

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2


def test_splitters_that_look_at_the_columns(blobs):
    X, y, _ = blobs
    assert_same(GridSearchCV(Ridge(), {"alpha": [1.0, 1e4]}, cv=BySign()), X, y)


@pytest.mark.parametrize(
    "estimator",
    [
        Lasso(0.1, copy_X=False),
        LinearRegression(copy_X=False),
        make_pipeline(StandardScaler(copy=False), Ridge(copy_X=False)),
        GridSearchCV(
            make_pipeline(StandardScaler(copy=False), Lasso(copy_X=False)),
            {"lasso__alpha": [0.01, 0.1]},
            cv=3,
        ),
    ],
    ids=["lasso", "ols", "pipeline", "search"],
)
def test_estimators_that_overwrite_their_input(blobs, estimator):
    X, y, _ = blobs
    before = X.copy()
    few = CoresetRegressor(estimator).fit(X, y)
    np.testing.assert_array_equal(X, before)
    core = karat.coreset(X, y)
    core.fit(clone(getattr(estimator, "estimator", estimator)))
    np.testing.assert_array_equal(core.X, X[core.indices])
    full = clone(estimator).fit(X.copy(), y)
    np.testing.assert_allclose(few.predict(X), full.predict(X.copy()), rtol=1e-9)


@pytest.mark.parametrize(
    "choose",
    [make_column_selector(dtype_include="float64"), lambda X: list(X.columns[:2])],
    ids=["selector", "function"],
)
@pytest.mark.parametrize("search", [False, True])
def test_columns_chosen_by_a_function(blobs, choose, search):
    X, y, _ = blobs
    frame = pd.DataFrame(X, columns=list("abcde")).astype({"c": np.float32, "d": np.float32})
    columns = make_column_transformer((StandardScaler(), choose))
    pipeline = make_pipeline(columns, Ridge())
    estimator = GridSearchCV(pipeline, {"ridge__alpha": [1.0, 1e3]}, cv=3) if search else pipeline
    few, full = CoresetRegressor(estimator).fit(frame, y), clone(estimator).fit(frame, y)
    assert len(few.coef_) == len(choose(frame))
    np.testing.assert_allclose(few.predict(frame), full.predict(frame), rtol=1e-9)


def test_inference_refuses_robust_errors_wherever_they_hide(blobs):
    pytest.importorskip("statsmodels")
    from karat.inference import ols

    X, y, _ = blobs
    results = ols(karat.coreset(X, y))
    for name in ("cov_HC0", "cov_HC1", "cov_HC2", "cov_HC3", "HC0_se", "HC3_se"):
        with pytest.raises(NotExactError, match="robust covariance"):
            getattr(results, name)
    with pytest.raises(NotExactError, match="summary"):
        results.summary2()
    with pytest.raises(NotExactError, match="robust covariance"):
        results.model.fit(cov_type="HC3")
    np.testing.assert_allclose(results.model.fit().bse, results.bse, rtol=1e-12)


def r2_score(y_true, y_pred, sample_weight=None):
    """Not what its name says."""
    return -float(np.max(np.abs(y_true - y_pred)))


def test_a_scorer_is_not_known_by_its_name(blobs):
    X, y, _ = blobs
    search = GridSearchCV(Lasso(), {"alpha": [0.01, 0.5, 2.0]}, scoring=make_scorer(r2_score), cv=3)
    few, full = CoresetRegressor(search).fit(X, y), clone(search).fit(X, y)
    np.testing.assert_allclose(
        scores(few.estimator_)["mean_test_score"], scores(full)["mean_test_score"], rtol=1e-9
    )


def test_a_scorer_is_not_known_without_its_sign(blobs):
    """``make_scorer(mean_squared_error)`` takes large errors for good ones, unlike
    "neg_mean_squared_error".
    """
    X, y, _ = blobs
    search = GridSearchCV(
        Ridge(), {"alpha": [1.0, 1e4]}, scoring=make_scorer(mean_squared_error), cv=3
    )
    few, full = CoresetRegressor(search, few_rows=0).fit(X, y), clone(search).fit(X, y)
    assert few.estimator_.best_params_ == full.best_params_
    np.testing.assert_allclose(
        scores(few.estimator_)["mean_test_score"], scores(full)["mean_test_score"], rtol=1e-9
    )


@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        (["r2", "neg_mean_squared_error"], "neg_mean_squared_error"),
        ({"a": "r2", "b": "neg_mean_absolute_error"}, "b"),
        ("neg_mean_squared_error", True),
        (None, True),
    ],
)
def test_score_is_that_of_the_search(blobs, scoring, refit):
    X, y, _ = blobs
    search = GridSearchCV(Ridge(), {"alpha": [1.0, 1e4]}, scoring=scoring, refit=refit, cv=3)
    few, full = CoresetRegressor(search).fit(X, y), clone(search).fit(X, y)
    assert few.score(X, y) == pytest.approx(full.score(X, y), rel=1e-9)
    assert few.score(X, y, sample_weight=np.ones(len(y))) == pytest.approx(
        full.score(X, y), rel=1e-9
    )


@pytest.mark.parametrize("search", [RandomizedSearchCV, HalvingRandomSearchCV])
def test_a_random_state_draws_the_same_candidates(blobs, search):
    X, y, _ = blobs
    options = {"n_iter": 4} if search is RandomizedSearchCV else HALVING | {"n_candidates": 6}
    made = search(Lasso(), {"alpha": loguniform(1e-3, 1)}, cv=3, **options)
    few = (
        CoresetRegressor(made.set_params(random_state=np.random.RandomState(0)))
        .fit(X, y)
        .estimator_
    )
    full = clone(made).set_params(random_state=np.random.RandomState(0)).fit(X, y)
    assert [p["alpha"] for p in few.cv_results_["params"]] == [
        p["alpha"] for p in full.cv_results_["params"]
    ]
    np.random.seed(3)  # noqa: NPY002 - scikit-learn draws from it
    few = (
        CoresetRegressor(
            made.set_params(random_state=None, cv=KFold(3, shuffle=True, random_state=0))
        )
        .fit(X, y)
        .estimator_
    )
    np.random.seed(3)  # noqa: NPY002 - scikit-learn draws from it
    full = clone(made).fit(X, y)
    assert few.cv_results_["params"] == full.cv_results_["params"]


def test_a_request_for_no_weights_is_refused(blobs):
    import sklearn

    X, y, w = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        plain = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            Ridge().set_fit_request(sample_weight=True),
        )
        search = GridSearchCV(Ridge().set_fit_request(sample_weight=False), {"alpha": [1.0, 10.0]})
    for estimator in (plain, search):
        with pytest.raises(NotExactError, match=r"set_fit_request\(sample_weight=False\)"):
            CoresetRegressor(estimator).fit(X, y, sample_weight=w)
        CoresetRegressor(estimator).fit(X, y)  # without weights there is nothing to decline


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(PolynomialFeatures(3), Ridge()),
        RidgeCV([1e-3, 1.0], cv=3),
        RidgeCV([1e-3, 1.0]),
        GridSearchCV(
            make_pipeline(PolynomialFeatures(2), Ridge()), {"ridge__alpha": [1.0, 10.0]}, cv=3
        ),
        make_pipeline(SplineTransformer(), Ridge()),
    ],
    ids=["polynomials", "ridge_cv", "leave-one-out", "search", "splines"],
)
def test_single_precision_is_computed_in_double(blobs, estimator):
    X, y, _ = blobs
    single = X[:, :3].astype(np.float32)
    few, full = (
        CoresetRegressor(estimator).fit(single, y),
        clone(estimator).fit(single.astype(float), y),
    )
    np.testing.assert_allclose(
        few.predict(single), full.predict(single.astype(float)), rtol=LEAVE_ONE_OUT
    )


def test_the_linear_discriminant_is_that_of_scikit_learn():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4))
    X = np.column_stack([X, X[:, 0] + 1e-6 * rng.standard_normal(3000)])  # a direction below tol
    for y in (
        (X[:, 1] > 0.3).astype(int),
        np.digitize(X[:, 1] + rng.standard_normal(3000), [-0.5, 0.5]),
    ):
        for tol in (1e-4, 1e-9):
            full = LinearDiscriminantAnalysis(tol=tol).fit(X, y)
            few = CoresetClassifier(models.LinearDiscriminant(tol=tol)).fit(X, y)
            assert few.coef_.shape == full.coef_.shape
            assert few.intercept_.shape == full.intercept_.shape
            np.testing.assert_allclose(
                few.decision_function(X), full.decision_function(X), rtol=1e-6, atol=1e-6
            )


def test_an_encoder_without_columns(blobs):
    X, y, _ = blobs
    columns = ColumnTransformer([("none", OneHotEncoder(), []), ("all", StandardScaler(), [0, 1])])
    assert_same(make_pipeline(columns, Ridge()), X, y)
    assert_same(
        GridSearchCV(make_pipeline(columns, Ridge()), {"ridge__alpha": [1.0, 10.0]}, cv=3), X, y
    )


def test_quantile_knots_with_ties():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.integers(0, 3, 2000) * (rng.random(2000) < 0.3), rng.standard_normal(2000)]
    ).astype(float)
    y = X.sum(axis=1) + rng.standard_normal(2000)
    pipeline = make_pipeline(SplineTransformer(knots="quantile", n_knots=6), Ridge())
    few, full = CoresetRegressor(pipeline).fit(X, y), on_all_rows(pipeline, X, y)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-8, atol=1e-9)


def test_a_generator_of_splits(blobs):
    X, y, _ = blobs
    for estimator in (
        GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=KFold(3).split(X)),
        RidgeCV(cv=KFold(3).split(X)),
    ):
        with pytest.raises(InputError, match=r"list\(cv\)"):
            CoresetRegressor(estimator).fit(X, y)


def test_refusals_come_before_any_coreset(blobs, monkeypatch):
    from sklearn.decomposition import PCA

    X, y, _ = blobs

    def never(*args, **kwargs):
        raise AssertionError("a coreset was built before the refusal")

    monkeypatch.setattr("karat.estimators.training_rows.coreset", never, raising=False)
    monkeypatch.setattr("karat.estimators.folds.coreset", never)
    for estimator in (
        GridSearchCV(Ridge(), {"solver": ["auto", "sag"]}),
        make_pipeline(StandardScaler(), GridSearchCV(HuberRegressor(), {"alpha": [1.0]})),
        make_pipeline(StandardScaler(), PCA()),
    ):
        with pytest.raises(NotExactError):
            CoresetRegressor(estimator).fit(X, y)


def test_messages_do_not_lead_in_a_circle(blobs):
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y, _ = blobs
    labels = (y > y.mean()).astype(int)
    with pytest.raises(
        NotExactError, match=r"karat.CoresetClassifier\(karat.models.LinearDiscriminant\(\)\)"
    ):
        CoresetRegressor(LinearDiscriminantAnalysis()).fit(X, labels)
    CoresetClassifier(models.LinearDiscriminant()).fit(X, labels)
    with pytest.raises(NotExactError, match=r"karat.CoresetClassifier"):
        CoresetRegressor(models.LinearDiscriminant()).fit(X, labels)
    with pytest.raises(NotExactError, match=r"karat.CoresetRegressor"):
        CoresetClassifier(Ridge()).fit(X, labels)
    for components in (PCA(), models.PCA()):
        with pytest.raises(NotExactError, match=r"karat.coreset\(X\).fit\(karat.models.PCA\("):
            CoresetRegressor(components).fit(X, y)
    karat.coreset(X).fit(models.PCA())
    CoresetRegressor(RidgeCV()).fit(X, y)


@pytest.mark.parametrize("solver", ["cholesky", "svd"])
@pytest.mark.parametrize("seed", range(4))
def test_polynomials_of_columns_that_are_nearly_copies(seed, solver):
    """The default solver of Ridge squares their condition, so that its answer moves with the order
    of the rows.

    Rational arithmetic says that few rows are as near to the truth as all of them.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 3)) * [1.0, 10.0, 1.0] + [100.0, 10.0, 1.0]
    X[:, 2] = 2.0 * X[:, 0] + 1e-4 * rng.standard_normal(200)
    y = X[:, 0] + rng.standard_normal(200)
    plain = make_pipeline(PolynomialFeatures(2, include_bias=False), Ridge(1e-5, solver=solver))
    orders = [rng.permutation(200) for _ in range(8)]
    found = np.array([clone(plain).fit(X[order], y[order]).predict(X) for order in orders])
    moves = np.ptp(found, axis=0).max()
    few = CoresetRegressor(plain).fit(X, y).predict(X)
    assert np.abs(few - found.mean(axis=0)).max() < 2.0 * moves + 1e-7 * np.abs(few).max()
