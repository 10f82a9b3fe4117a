"""All estimators, scorers, splitters and transformers of scikit-learn: the answer of all rows, or a
refusal with a message.

Each case is fitted twice, by scikit-learn on all rows and through karat.  Predictions and scores
must agree to 1e-8 (solvers with tight tolerances), unless karat refuses with one of its own errors.
Where scikit-learn itself fails there is nothing to compare with.
"""

import inspect
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from estimators.reducing import CoresetClassifier, CoresetRegressor
from sklearn import model_selection
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectFromModel, SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression, Ridge, RidgeClassifier
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.utils import all_estimators

from karat import InputError, NotExactError, models

N = 400
EQUAL, REFUSED, DIFFERENT, RAW, NOTHING = (
    "equal",
    "refused",
    "different",
    "raw",
    "fails in scikit-learn",
)
TIGHT = {
    "tol": 1e-13,
    "max_iter": 100_000,
    "random_state": 0,
    "n_estimators": 5,
    "early_stopping": False,
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    X = rng.gamma(2.0, 1.0, (N, 4)) + 0.1
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * X[:, 0] ** 2 + rng.standard_normal(N) + 8.0
    return X, y


def tight(kind, **given):
    """An instance with a tight tolerance, and with what it needs inside."""
    names = inspect.signature(kind.__init__).parameters
    needs = {
        "estimator": Ridge(),
        "regressor": Ridge(),
        "estimators": [("a", Ridge()), ("b", LinearRegression())],
    }
    defaults = {name: value for name, value in TIGHT.items() if name in names}
    if "Lars" in kind.__name__ or "OrthogonalMatching" in kind.__name__:
        defaults.pop("tol", None)
        defaults.pop("max_iter", None)
    required = {
        k: v for k, v in needs.items() if k in names and names[k].default is inspect.Parameter.empty
    }
    return kind(**defaults | required | given)


def small(kind):
    """A transformer with a seed and few components; the same code fits it on the same rows, so any
    tolerance will do.
    """
    names = inspect.signature(kind.__init__).parameters
    options = {
        "random_state": 0,
        "n_components": 3,
        "n_estimators": 2,
        "max_depth": 2,
        "max_leaf_nodes": None,
    }
    needs = {
        "estimator": Ridge(),
        "transformer_list": [("a", StandardScaler())],
        "transformers": [("a", StandardScaler(), [0, 1])],
    }
    chosen = {name: value for name, value in options.items() if name in names}
    return kind(
        **chosen
        | {
            k: v
            for k, v in needs.items()
            if k in names and names[k].default is inspect.Parameter.empty
        }
    )


def verdict(full, few, answers):
    """How a fit through karat compares with that of scikit-learn; ``answers`` lists what to
    compare.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = None
        try:
            found = answers(few())
        except (NotExactError, InputError) as refusal:
            return REFUSED if len(str(refusal)) > 40 else RAW
        except Exception as error:
            raw = error
        try:
            expected = answers(full())
        except Exception:
            return NOTHING
        if raw is not None:
            print(f"raw: {raw!r}")
            return RAW
    for one, other in (
        (np.asarray(a), np.asarray(b)) for a, b in zip(found, expected, strict=True)
    ):
        if one.dtype.kind in "OUS":
            if not np.array_equal(one, other):
                return DIFFERENT
        elif not np.allclose(
            one, other, rtol=1e-8, atol=1e-8 * max(1.0, np.nanmax(np.abs(other))), equal_nan=True
        ):
            print("different:", np.nanmax(np.abs(one - other)))
            return DIFFERENT
    return EQUAL


def report(title, verdicts):
    """Print the counts, and assert that nothing is different or raw."""
    counts = Counter(verdicts.values())
    print(
        f"{title}: {len(verdicts)} cases, {dict(counts)}; equal:"
        f" {sorted(k for k, v in verdicts.items() if v == EQUAL)}"
    )
    assert not {name: found for name, found in verdicts.items() if found in (DIFFERENT, RAW)}
    return counts


def test_regressors(data):
    X, y = data
    Y = np.column_stack([y, X[:, 0] - y])
    verdicts = {}
    for name, kind in all_estimators("regressor"):
        for target in (y, Y):
            try:
                model = tight(kind)
            except Exception:
                continue
            verdicts[f"{name}{target.ndim}"] = verdict(
                lambda m=model, t=target: clone(m).fit(X, t),
                lambda m=model, t=target: CoresetRegressor(m).fit(X, t),
                lambda fitted: [fitted.predict(X)],
            )
    counts = report("regressors", verdicts)
    assert counts[EQUAL] >= 20


def test_classifiers(data):
    X, y = data
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    verdicts = {}
    ours = [
        (f"karat.{k.__name__}", k)
        for k in (
            models.LinearDiscriminant,
            models.QuadraticDiscriminant,
            models.GaussianNaiveBayes,
        )
    ]
    for name, kind in all_estimators("classifier") + ours:
        try:
            model = tight(kind)
        except Exception:
            continue
        for named, one in (
            (name, model),
            (f"{name} cv", model.set_params(cv=3) if hasattr(model, "cv") else None),
        ):
            if one is not None:
                verdicts[named] = verdict(
                    lambda m=one: clone(m).fit(X, labels),
                    lambda m=one: CoresetClassifier(m).fit(X, labels),
                    lambda fitted: [
                        getattr(fitted, "decision_function", fitted.predict)(X),
                        fitted.predict(X),
                    ],
                )
    counts = report("classifiers", verdicts)
    assert counts[EQUAL] >= 5


def search_answers(search):
    """What a search found."""
    return [
        values
        for name, values in sorted(search.cv_results_.items())
        if "test_score" in name and "rank" not in name
    ]


@pytest.mark.slow
def test_scorers(data):
    X, y = data
    verdicts = {}
    for name in get_scorer_names():
        for target, model, wrap in (
            (y, Ridge(), CoresetRegressor),
            ((y > 8).astype(int), models.LinearDiscriminant(), CoresetClassifier),
        ):
            parameters = {"alpha": [1.0, 100.0]} if wrap is CoresetRegressor else {"tol": [1e-4]}
            search = GridSearchCV(model, parameters, scoring=name, cv=3, error_score="raise")
            verdicts[f"{name} of {type(model).__name__}"] = verdict(
                lambda s=search, t=target: clone(s).fit(X, t),
                lambda s=search, t=target, w=wrap: w(s).fit(X, t),
                search_answers,
            )
    counts = report("scorers", verdicts)
    assert counts[EQUAL] >= 40


@pytest.mark.slow
def test_splitters(data):
    X, y = data
    labels, groups = np.digitize(y, [6.0, 9.0]), np.arange(N) % 7
    options = {
        "n_groups": 2,
        "p": 2,
        "test_fold": np.arange(N) % 3,
        "random_state": 0,
        "cv": [(np.arange(200), np.arange(200, N))],
    }
    verdicts = {}
    for name, kind in inspect.getmembers(model_selection, inspect.isclass):
        if not hasattr(kind, "split"):
            continue
        names = inspect.signature(kind.__init__).parameters
        given = {
            k: v
            for k, v in options.items()
            if k in names and (k != "random_state" or "Shuffle" in name or "Repeated" in name)
        }
        try:
            cv = kind(**given)
        except TypeError:
            continue
        for target, model, wrap in (
            (y, Ridge(), CoresetRegressor),
            (labels, RidgeClassifier(), CoresetClassifier),
        ):
            search = GridSearchCV(
                model, {"alpha": [1.0, 100.0]}, cv=cv, error_score="raise", refit=True, scoring=None
            )
            if name in ("LeaveOneOut", "LeavePOut"):
                search = search.set_params(scoring="neg_mean_squared_error")
            if name == "LeavePOut":
                with pytest.raises(NotExactError):
                    wrap(search).fit(X, target)
                continue
            verdicts[f"{name} {type(model).__name__}"] = verdict(
                lambda s=search, t=target: clone(s).fit(X, t, groups=groups),
                lambda s=search, t=target, w=wrap: w(s).fit(X, t, groups=groups), search_answers,
            )  # fmt: skip
    counts = report("splitters", verdicts)
    assert counts[EQUAL] >= 20


VARIANTS = [
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=30),
    OneHotEncoder(handle_unknown="ignore", max_categories=3, drop="first"),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    *(
        SimpleImputer(strategy=strategy)
        for strategy in ("mean", "median", "most_frequent", "constant")
    ),
    SimpleImputer(add_indicator=True),
    MinMaxScaler(clip=True),
    FunctionTransformer(np.log1p),
    FunctionTransformer(lambda X: X - X.mean()),
    SplineTransformer(knots="quantile"),
    KBinsDiscretizer(encode="onehot", strategy="uniform"),
    KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf"),
    SelectKBest(f_regression, k=2),
    SelectFromModel(Lasso(0.2)),
    FeatureUnion([("a", StandardScaler()), ("b", PolynomialFeatures(2))]),
    make_pipeline(SimpleImputer(), MinMaxScaler(), PolynomialFeatures(2)),
    make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
]


def columns_for(transformer, X):
    """Numbers; integers for encoders, gaps for imputers."""
    text = str(transformer)
    table = np.floor(X * 1.5) if "Encoder" in text else X
    if "Imput" in text or "Missing" in text:
        table = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, table)
    return table


@pytest.mark.nightly
@pytest.mark.parametrize("searched", [False, True])
def test_transformers(data, searched):
    X, y = data
    cases = {f"{number} {type(one).__name__}": one for number, one in enumerate(VARIANTS)}
    for name, kind in all_estimators("transformer"):
        try:
            cases[name] = small(kind)
        except Exception:
            continue
    verdicts = {}
    for name, transformer in cases.items():
        table = columns_for(transformer, X)
        estimator = make_pipeline(transformer, Ridge(tol=1e-13))
        if searched:
            estimator = GridSearchCV(
                estimator, {"ridge__alpha": [0.5, 5.0]}, cv=3, error_score="raise"
            )
        verdicts[name] = verdict(
            lambda e=estimator, t=table: clone(e).fit(t, y), lambda e=estimator,
            t=table: CoresetRegressor(e).fit(t, y), lambda fitted,
            t=table: [fitted.predict(t), *(search_answers(fitted) if searched else [])],
        )  # fmt: skip
    counts = report("transformers" + (" in a search" if searched else ""), verdicts)
    assert counts[EQUAL] >= 40


def test_one_frame_with_everything(data):
    X, y = data
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(
        town=rng.choice(["x", "y", "z"], N), code=rng.integers(0, 4, N)
    )
    frame.loc[::17, "a"] = np.nan
    frame.loc[::29, "town"] = None
    from sklearn.compose import make_column_transformer

    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (
            make_pipeline(
                SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
            ),
            ["town"],
        ),
        (OrdinalEncoder(), ["code"]),
    )
    search = GridSearchCV(
        make_pipeline(columns, Lasso(tol=1e-13)),
        {"lasso__alpha": [0.01, 0.1]},
        cv=4,
        scoring="neg_median_absolute_error",
    )
    full, few = clone(search).fit(frame, y), CoresetRegressor(search).fit(frame, y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )
    np.testing.assert_allclose(few.predict(frame), full.predict(frame), rtol=1e-8)
