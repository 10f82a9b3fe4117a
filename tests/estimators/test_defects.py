"""Answers that were once wrong, and errors that were once raw; each with others of its kind."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from estimators.agreement import NEW
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.covariance import GraphicalLasso
from sklearn.exceptions import DataConversionWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    BayesianRidge,
    Lasso,
    LassoCV,
    LassoLarsIC,
    LinearRegression,
    OrthogonalMatchingPursuitCV,
    Ridge,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.metrics import make_scorer, mean_squared_error, r2_score, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import karat
from karat import CoresetClassifier, CoresetRegressor, InputError, NotExactError

N = 6000
ALPHAS = {"alpha": [0.1, 1e5]}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4))
    return X, X @ [1.0, 2.0, 0.0, 0.0] + rng.standard_normal(N), rng.uniform(0.5, 2.0, N)


@pytest.fixture(scope="module")
def codes():
    """Indicators of two columns of codes, and a target with large effects."""
    rng = np.random.default_rng(1)
    Z = OneHotEncoder().fit_transform(rng.integers(0, 60, (N, 2)))
    return Z, Z @ (100.0 * rng.standard_normal(Z.shape[1])) + rng.standard_normal(N)


@pytest.fixture(scope="module")
def mixed(data):
    """Numbers beside text, dates and gaps."""
    frame = pd.DataFrame(data[0], columns=list("abcd"))
    frame["text"] = "x"
    frame["date"] = pd.Timestamp("2020-01-01")
    frame["gap"] = np.where(np.arange(N) % 7 == 0, np.nan, 1.0)
    frame["object"] = [None, "q"] * (N // 2)
    return frame


def same_scores(mine, plain, tolerance=1e-9):
    for name, values in plain.cv_results_.items():
        if "score" in name and "time" not in name and "rank" not in name:
            np.testing.assert_allclose(
                mine.cv_results_[name], values, rtol=tolerance, atol=tolerance, err_msg=name
            )
    assert mine.best_index_ == plain.best_index_


# ---- sparse rows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ridge",
    [
        RidgeCV(),
        RidgeCV([1e-3, 1e-2]),
        RidgeCV(fit_intercept=False),
        RidgeCV(scoring="r2"),
        RidgeCV(cv=3),
    ],
    ids=str,
)
def test_ridge_cv_of_sparse_rows(codes, ridge):
    few, full = CoresetRegressor(ridge).fit(*codes), clone(ridge).fit(*codes)
    assert few.reduced_
    assert few.alpha_ == full.alpha_
    digits = 1e-7 if NEW else 1e-3  # of scikit-learn's; karat's are compared below
    np.testing.assert_allclose(few.coef_, full.coef_, rtol=0, atol=digits)
    np.testing.assert_allclose(few.predict(codes[0]), full.predict(codes[0]), rtol=0, atol=digits)
    if ridge.cv is not None:  # solvers of sparse rows, which stop at their tolerance
        return
    dense = Ridge(full.alpha_, fit_intercept=ridge.fit_intercept).fit(codes[0].toarray(), codes[1])
    np.testing.assert_allclose(few.coef_, dense.coef_, rtol=0, atol=1e-7)


def test_ridge_classifier_cv_of_sparse_rows(codes):
    Z, y = codes
    few, full = (
        model.fit(Z, y > 0)
        for model in (CoresetClassifier(RidgeClassifierCV(cv=3)), RidgeClassifierCV(cv=3))
    )
    np.testing.assert_allclose(few.coef_, full.coef_, rtol=0, atol=1e-7)


def test_an_answer_up_to_a_tolerance_is_called_that(codes):
    few = CoresetRegressor(GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=3)).fit(*codes)
    assert any("up to its own tolerance" in note for note in few.core_.certificate.notes)


# ---- scores ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [mean_squared_error, root_mean_squared_error, r2_score], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("greater", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_scorers_of_either_sign(data, function, greater, weighted):
    X, y, w = data
    w = w if weighted else None
    scorer = make_scorer(function, greater_is_better=greater)
    search = GridSearchCV(Ridge(), ALPHAS, cv=3, scoring=scorer)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = GridSearchCV(
            Ridge().set_fit_request(sample_weight=True),
            ALPHAS,
            cv=3,
            scoring=scorer.set_score_request(sample_weight=True),
        )
        full = asked.fit(X, y, **({} if w is None else {"sample_weight": w}))
    scorer = make_scorer(function, greater_is_better=greater)
    few = CoresetRegressor(search.set_params(scoring=scorer)).fit(X, y, sample_weight=w)
    assert few.reduced_
    same_scores(few.estimator_, full)
    ridge = RidgeCV([0.1, 1e5], scoring=scorer)
    assert CoresetRegressor(ridge).fit(X, y).alpha_ == clone(ridge).fit(X, y).alpha_


@pytest.mark.parametrize("where", ["scorer", "model"])
def test_a_score_that_declines_weights(data, where):
    X, y, w = data
    scorer = make_scorer(r2_score)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight=True)
        if where == "scorer":
            search = GridSearchCV(
                model, ALPHAS, cv=3, scoring=scorer.set_score_request(sample_weight=False)
            )
        else:
            search = GridSearchCV(model.set_score_request(sample_weight=False), ALPHAS, cv=3)
        full = clone(search).fit(X, y, sample_weight=w)
    same_scores(CoresetRegressor(search).fit(X, y, sample_weight=w).estimator_, full)


@pytest.mark.parametrize("scoring", ["r2", "explained_variance", "neg_mean_squared_error"])
@pytest.mark.parametrize("front", [None, StandardScaler(), SplineTransformer()], ids=str)
@pytest.mark.parametrize("value", [3.3, 0.0, 1e9 / 3])
def test_constant_test_folds(data, scoring, front, value):
    """A score that divides by the spread of a constant is rounding, or scikit-learn's special case:
    it decides.
    """
    X, y, _ = data
    y = np.where(np.arange(N) < N // 3, value, y)
    model = (
        make_pipeline(front, Ridge())
        if front is not None
        else make_pipeline("passthrough", Ridge())
    )
    search = GridSearchCV(model, {"ridge__alpha": [1.0, 1e4]}, cv=3, scoring=scoring)
    few, full = CoresetRegressor(search).fit(X, y).estimator_, clone(search).fit(X, y)
    for split in range(3):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(few.cv_results_[name], full.cv_results_[name], rtol=1e-6)
    assert few.best_params_ == full.best_params_


# ---- candidates that are told apart by functions ---------------------------------------------


def first(count):
    return lambda table: list(range(count))


def test_candidates_with_functions_of_their_own(data):
    X, y, _ = data
    front = ColumnTransformer([("some", StandardScaler(), [0])])
    choices = [[("some", StandardScaler(), first(count))] for count in (1, 2, 3)]
    search = GridSearchCV(
        make_pipeline(front, Ridge()), {"columntransformer__transformers": choices}, cv=3
    )
    few, full = CoresetRegressor(search).fit(X, y).estimator_, clone(search).fit(X, y)
    assert len(np.unique(full.cv_results_["mean_test_score"])) == 3
    same_scores(few, full)


def test_candidates_with_other_targets(data):
    X, y, _ = data
    targets = [
        (lambda v, k=k: np.arcsinh(v / k), lambda v, k=k: k * np.sinh(v)) for k in (0.1, 1.0, 10.0)
    ]
    grid = [{"func": [func], "inverse_func": [inverse]} for func, inverse in targets]
    search = GridSearchCV(
        TransformedTargetRegressor(LinearRegression(), check_inverse=False), grid, cv=3
    )
    few, full = CoresetRegressor(search).fit(X, y).estimator_, clone(search).fit(X, y)
    same_scores(few, full)


# ---- columns that no step reads --------------------------------------------------------------


@pytest.mark.parametrize(
    "leaf",
    [LinearRegression(), LassoCV(), GridSearchCV(Ridge(), {"alpha": [1.0, 2.0, 3.0]}, cv=3)],
    ids=str,
)
def test_dropped_columns_of_any_kind(mixed, data, leaf):
    model = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), leaf)
    few, full = CoresetRegressor(model).fit(mixed, data[1]), clone(model).fit(mixed, data[1])
    assert few.reduced_
    np.testing.assert_allclose(few.predict(mixed), full.predict(mixed), rtol=1e-9)


def test_a_search_over_a_pipeline_that_drops_columns(mixed, data):
    model = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), Ridge())
    search = GridSearchCV(model, {"ridge__alpha": [1.0, 2.0, 3.0]}, cv=3)
    for table in (mixed, mixed.drop(columns="date").to_numpy(dtype=object)):
        chosen = ["a", "b"] if table is mixed else [0, 1]
        search.estimator[0].transformers = [("some", StandardScaler(), chosen)]
        few, full = CoresetRegressor(search).fit(table, data[1]), clone(search).fit(table, data[1])
        assert few.reduced_
        same_scores(few.estimator_, full)


# ---- weights and the pass-through ------------------------------------------------------------


@pytest.mark.parametrize("weighted", [True, False])
def test_weights_do_not_change_whether_all_rows_are_used(weighted):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"code": rng.integers(0, 260, 3000).astype(str), "x": rng.standard_normal(3000)}
    )
    y, w = rng.standard_normal(3000), rng.uniform(0.5, 2.0, 3000) if weighted else None
    front = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["code"]), remainder="passthrough"
    )
    for leaf in (Ridge(tol=1e-12), GridSearchCV(Ridge(tol=1e-12), {"alpha": [1.0, 2.0]}, cv=3)):
        few = CoresetRegressor(make_pipeline(front, leaf)).fit(frame, y, sample_weight=w)
        assert not few.reduced_
        assert len(few.core_) == 3000
        assert "few_rows" in few.reason_
        assert few.reason_ in repr(few)
    search = GridSearchCV(
        make_pipeline(front, Ridge(tol=1e-12)), {"ridge__alpha": [1.0, 2.0]}, cv=3
    )
    assert not CoresetRegressor(search).fit(frame, y, sample_weight=w).reduced_


# ---- plain errors, or none -------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [LinearRegression(), Ridge(), LassoCV(cv=3)], ids=str)
def test_arrow_tables(data, leaf):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), leaf)
    few = CoresetRegressor(model).fit(pa.Table.from_pandas(frame), y)
    plain = clone(model).fit(frame, y).predict(frame)
    np.testing.assert_allclose(few.predict(pa.Table.from_pandas(frame)), plain, rtol=1e-9)


def test_unions_of_column_transformers_that_make_sparse_columns():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"c": rng.integers(0, 6, N).astype(str), "e": rng.integers(0, 6, N).astype(str)},
        dtype=object,
    )
    frame["x"] = rng.standard_normal(N)
    y = frame["x"] + (frame["c"] == "1") + rng.standard_normal(N)
    kinds = make_column_selector(dtype_include=object)
    union = FeatureUnion(
        [
            ("codes", ColumnTransformer([("hot", OneHotEncoder(), kinds)])),
            ("other", make_column_transformer((OneHotEncoder(), ["e"]), ("passthrough", ["x"]))),
        ]
    )
    for model in (
        make_pipeline(union, LinearRegression()),
        GridSearchCV(make_pipeline(union, Ridge()), {"ridge__alpha": [1.0, 2.0, 3.0]}),
    ):
        few, full = CoresetRegressor(model).fit(frame, y), clone(model).fit(frame, y)
        assert few.reduced_
        np.testing.assert_allclose(few.predict(frame), full.predict(frame), rtol=1e-9, atol=1e-9)


def test_two_columns_of_one_name(data):
    X, y, _ = data
    good, twice = (pd.DataFrame(X, columns=list(names)) for names in ("abcd", "abca"))
    targets = pd.DataFrame(np.column_stack([y, y]), columns=["t", "t"])
    fitted = CoresetRegressor(LinearRegression()).fit(good, y)
    for act in (
        lambda: CoresetRegressor(LinearRegression()).fit(twice, y),
        lambda: CoresetRegressor(LinearRegression()).fit(X, targets),
        lambda: fitted.predict(twice),
        lambda: fitted.score(twice, y),
        lambda: karat.coreset(twice, y),
        lambda: karat.exact_cv(twice, y),
    ):
        with pytest.raises(InputError, match=r"two columns of one name, '[at]'"):
            act()


def test_predictions_with_a_deviation(data):
    X, y, _ = data
    few, full = CoresetRegressor(BayesianRidge()).fit(X, y), BayesianRidge().fit(X, y)
    for mine, plain in zip(
        few.predict(X, return_std=True), full.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, plain, rtol=1e-8, atol=1e-10)


def test_weights_of_another_name(data):
    X, y, w = data
    with pytest.raises(InputError, match="no argument 'mine'; pass weights as sample_weight"):
        CoresetRegressor(Ridge()).fit(X, y, mine=w)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight="mine")
        with pytest.raises(NotExactError, match="leave the request out"):
            CoresetRegressor(model).fit(X, y, sample_weight=w)


@pytest.mark.parametrize(
    "wrong", [Lasso, "lasso", None, make_pipeline(StandardScaler(), Lasso)], ids=str
)
def test_what_is_no_estimator(data, wrong):
    X, y, _ = data
    for act in (lambda: karat.coreset(X, y).fit(wrong), lambda: CoresetRegressor(wrong).fit(X, y)):
        with pytest.raises(InputError, match="estimator"):
            act()
    assert repr(CoresetRegressor(wrong))


def test_names_of_columns_behind_a_transformed_target(data):
    frame, y = pd.DataFrame(data[0], columns=list("abcd")), np.abs(data[1])
    for inside in (Lasso(0.1), make_pipeline(StandardScaler(), LinearRegression())):
        model = TransformedTargetRegressor(inside, func=np.log1p, inverse_func=np.expm1)
        few, full = CoresetRegressor(model, few_rows=0).fit(frame, y), clone(model).fit(frame, y)
        assert list(few.estimator_.feature_names_in_) == list(full.feature_names_in_)
        assert list(few.feature_names_in_) == list("abcd")
    bare = CoresetRegressor(TransformedTargetRegressor(LinearRegression()), few_rows=0).fit(
        data[0], y
    )
    assert not hasattr(bare.estimator_, "feature_names_in_")


def test_names_that_are_public():
    assert "Learner" not in karat.models.__all__
    assert all(hasattr(karat.models, name) for name in karat.models.__all__)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_graphical_lasso_says_what_to_do():
    """Of fewer rows than columns scikit-learn's solver breaks down at small penalties, with a raw
    error.
    """
    X = np.random.default_rng(4).standard_normal((15, 30))
    with pytest.raises(FloatingPointError):
        GraphicalLasso(1e-4).fit(X)
    with pytest.raises(InputError, match="larger alpha"):
        karat.models.GraphicalLasso(1e-4).fit(X)


@pytest.mark.parametrize(
    "leaf", [LinearRegression(), GridSearchCV(Ridge(), {"alpha": [1.0, 2.0, 3.0]}, cv=3)], ids=str
)
def test_columns_that_are_nearly_constant(leaf):
    """Made rows need no powers of columns: what overflowed behind kernels does not."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((N, 8)), rng.standard_normal(N)
    model = make_pipeline(StandardScaler(), Nystroem(n_components=60, random_state=0), leaf)
    few, full = CoresetRegressor(model).fit(X, y), clone(model).fit(X, y)
    assert few.reduced_
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-7, atol=1e-9)


def test_errors_of_transformers_are_those_of_scikit_learn(data):
    """No error of a step is swallowed: it comes out of fit, or makes the scores of its candidate
    NaN, as without karat.
    """
    X, y, _ = data
    broken = make_pipeline(FunctionTransformer(np.add), Ridge())  # np.add takes two arguments
    with pytest.raises(TypeError):
        CoresetRegressor(broken).fit(X, y)
    search = GridSearchCV(broken, {"ridge__alpha": [1.0, 2.0]}, cv=KFold(3), error_score="raise")
    with pytest.raises(TypeError):
        CoresetRegressor(search).fit(X, y)


@pytest.mark.parametrize(
    "front",
    [FunctionTransformer(np.exp), FunctionTransformer(np.exp, check_inverse=False)],
    ids=str,
)
def test_columns_whose_squares_doubles_do_not_hold(data, front):
    """Finite values far below or above all others: scikit-learn takes them, so all rows are used,
    and nothing is refused.
    """
    X, y, _ = data
    X = X.copy()
    # exp underflows to zero but for one row
    X[:, 0] = np.where(np.arange(N) == 7, -600.0, -900.0 + 1e-3 * X[:, 0])
    search = GridSearchCV(make_pipeline(front, Ridge()), {"ridge__alpha": [0.1, 1.0, 10.0]}, cv=3)
    few, full = CoresetRegressor(search).fit(X, y), clone(search).fit(X, y)
    same_scores(few.estimator_, full)
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "leaf", [Ridge(), GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=3)], ids=str
)
@pytest.mark.parametrize("powers", [True, False])
def test_fewer_made_rows_than_columns(leaf, powers):
    """Of columns that are combinations of others, fewer rows are made than there are columns; no
    solver may notice.
    """
    rng = np.random.default_rng(6)
    X = np.column_stack([20.0 * rng.standard_normal(N) + 10.0, rng.standard_normal((N, 2))])
    X = np.column_stack([X, 2.0 * X[:, 0], X[:, 1], X[:, 2]])
    y = X[:, 1] + rng.standard_normal(N)
    model = make_pipeline(PolynomialFeatures(), leaf) if powers else leaf
    few, full = CoresetRegressor(model, few_rows=0).fit(X, y), clone(model).fit(X, y)
    assert len(few.core_) < 40
    np.testing.assert_allclose(few.predict(X), full.predict(X), rtol=0, atol=1e-7)


@pytest.mark.parametrize("shape", [(50, 50), (60, 50), (40, 50)])
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_with_hardly_any_penalty(shape, intercept):
    """Its answer once had the squared condition of the rows, as that of scikit-learn 1.7 has."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal(shape)
    y = X @ rng.standard_normal(shape[1]) + 10.0
    ridge = RidgeCV(alphas=[1e-10], fit_intercept=intercept)
    few = CoresetRegressor(ridge, few_rows=0).fit(X, y)
    direct = Ridge(alpha=1e-10, fit_intercept=intercept, solver="svd").fit(X, y)
    np.testing.assert_allclose(few.coef_, direct.coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("alpha", [1e-13, 1e-15])
def test_fewer_rows_than_columns(container, alpha):
    """Rows of no weight beside made ones once made a singular matrix of a regular one, and of
    sparse rows a raw error.
    """
    rng = np.random.default_rng(4)
    X, y = container(rng.standard_normal((20, 30))), rng.standard_normal(20)
    ridge = Ridge(alpha=alpha, solver="cholesky", fit_intercept=False)
    few = CoresetRegressor(ridge, few_rows=0).fit(X, y)
    np.testing.assert_allclose(few.coef_, clone(ridge).fit(X, y).coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("leaf", [LinearRegression(), Ridge(), LassoCV(cv=3), RidgeCV()])
def test_one_weight_for_all_rows(data, leaf):
    X, y, _ = data
    few = CoresetRegressor(leaf, few_rows=0).fit(X, y, sample_weight=123.0)
    np.testing.assert_allclose(
        few.coef_, clone(leaf).fit(X, y, sample_weight=123.0).coef_, rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("leaf", [LassoLarsIC(), OrthogonalMatchingPursuitCV(), LassoCV(cv=3)])
@pytest.mark.parametrize("container", [np.array, pd.DataFrame])
def test_a_target_of_one_column(data, leaf, container):
    """Regressors of one target take it as it is meant."""
    X, y, _ = data
    with pytest.warns(DataConversionWarning):
        few = CoresetRegressor(leaf, few_rows=0).fit(X, container(y[:, None]))
    np.testing.assert_allclose(few.coef_, clone(leaf).fit(X, y).coef_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize(
    ("alphas", "error"), [((1.0, -1.0), ValueError), ((1.0, "1.0"), TypeError)]
)
def test_alphas_that_are_none(data, cv, alphas, error):
    X, y, _ = data
    for wrapper, ridge in ((CoresetRegressor, RidgeCV), (CoresetClassifier, RidgeClassifierCV)):
        with pytest.raises(error, match=r"alphas\[1\]"):
            wrapper(ridge(alphas, cv=cv)).fit(X, y > 0 if wrapper is CoresetClassifier else y)
        with pytest.raises(error, match=r"alphas\[1\]"):
            wrapper(ridge(alphas, cv=cv), few_rows=0).fit(
                X, y > 0 if wrapper is CoresetClassifier else y
            )


def test_an_estimator_where_the_rows_belong():
    """``cross_val_score`` takes the estimator first; the error was one of Python."""
    with pytest.raises(InputError, match="A table is needed, such as a frame or an array, not Rid"):
        karat.exact_cv(Ridge(), np.ones((9, 2)), np.ones(9))
