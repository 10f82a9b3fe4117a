"""Everyday classifiers and their parameters on few rows: scikit-learn's own, on all rows, is the
oracle.
"""

import numpy as np
import pytest
from estimators.reducing import CoresetClassifier
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import karat
from karat import InputError, NotExactError, models

ALPHAS = [1e-2, 10.0, 1e4]
CLASSIFIERS = [
    RidgeClassifier(class_weight="balanced"),
    RidgeClassifier(5.0, class_weight={"ash": 3.0, "beech": 0.5}),
    RidgeClassifierCV(),
    RidgeClassifierCV(ALPHAS, class_weight="balanced", store_cv_results=True),
    RidgeClassifierCV(ALPHAS, fit_intercept=False),
    make_pipeline(StandardScaler(), RidgeClassifierCV(ALPHAS)),
    DummyClassifier(),
    DummyClassifier(strategy="most_frequent"),
    DummyClassifier(strategy="stratified", random_state=0),
    DummyClassifier(strategy="uniform", random_state=0),
]
PAIRS = [
    ({"priors": True}, LinearDiscriminantAnalysis, models.LinearDiscriminant),
    ({"n_components": 1}, LinearDiscriminantAnalysis, models.LinearDiscriminant),
    ({"solver": "lsqr"}, LinearDiscriminantAnalysis, models.LinearDiscriminant),
    (
        {"solver": "lsqr", "shrinkage": 0.3, "priors": True},
        LinearDiscriminantAnalysis,
        models.LinearDiscriminant,
    ),
    ({"solver": "eigen"}, LinearDiscriminantAnalysis, models.LinearDiscriminant),
    (
        {"solver": "eigen", "shrinkage": 0.1, "n_components": 1},
        LinearDiscriminantAnalysis,
        models.LinearDiscriminant,
    ),
    (
        {"priors": True, "reg_param": 0.1},
        QuadraticDiscriminantAnalysis,
        models.QuadraticDiscriminant,
    ),
    ({"priors": True}, GaussianNB, models.GaussianNaiveBayes),
]


@pytest.fixture(scope="module", params=[2, 3])
def trees(request):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, 4)) @ rng.standard_normal((4, 4)) + 2.0
    score = X[:, 0] + rng.standard_normal(4000)
    labels = np.digitize(score, np.quantile(score, [0.3, 0.9][: request.param - 1]))
    return X, np.array(["ash", "beech", "cedar"])[labels], rng.integers(1, 4, 4000).astype(float)


def assert_agree(few, full, X):
    np.testing.assert_array_equal(few.predict(X), full.predict(X))
    np.testing.assert_array_equal(few.classes_, full.classes_)
    for name in ("coef_", "intercept_", "alpha_", "best_score_", "cv_results_"):
        if hasattr(full, name):
            np.testing.assert_allclose(
                getattr(few.estimator_, name), getattr(full, name), rtol=1e-9, atol=1e-9
            )
    for name in ("decision_function", "predict_proba", "transform"):
        if hasattr(full, name) and not (
            name == "transform" and getattr(full, "solver", "") == "lsqr"
        ):
            mine = few.estimator_.transform if name == "transform" else getattr(few, name)
            found, expected = mine(X), getattr(full, name)(X)
            if name == "transform":  # directions have no sign
                found, expected = np.abs(found), np.abs(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: str(model).replace("\n", "")[:70])
def test_classifiers(model, weighted, trees):
    X, y, weights = trees
    if weighted and hasattr(model, "steps"):
        full = clone(model).fit(
            X, y, standardscaler__sample_weight=weights, ridgeclassifiercv__sample_weight=weights
        )
    else:
        full = clone(model).fit(X, y, **({"sample_weight": weights} if weighted else {}))
    few = CoresetClassifier(model).fit(X, y, sample_weight=weights if weighted else None)
    assert_agree(few, full, X)
    assert str(few.estimator_) == str(full)  # the user's settings


@pytest.mark.parametrize(("options", "theirs", "ours"), PAIRS, ids=str)
def test_discriminants(options, theirs, ours, trees):
    X, y, weights = trees
    count = len(np.unique(y))
    if "priors" in options:
        options = options | {"priors": np.arange(1.0, count + 1) / np.arange(1.0, count + 1).sum()}
    few = CoresetClassifier(ours(**options)).fit(X, y)
    assert few.reduced_
    assert_agree(few, theirs(**options).fit(X, y), X)
    places = np.repeat(np.arange(len(y)), weights.astype(int))
    few = CoresetClassifier(ours(**options)).fit(X, y, sample_weight=weights)
    assert_agree(few, theirs(**options).fit(X[places], y[places]), X)


def test_balanced_in_a_search(trees):
    X, y, _ = trees
    search = GridSearchCV(
        RidgeClassifier(class_weight="balanced"), {"alpha": ALPHAS}, cv=3, scoring="f1_macro"
    )
    few, full = CoresetClassifier(search).fit(X, y), clone(search).fit(X, y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-12
    )
    np.testing.assert_allclose(
        few.estimator_.best_estimator_.coef_, full.best_estimator_.coef_, rtol=1e-9
    )


def test_a_tie_of_classes():
    """The most frequent of classes with as many rows is the first, as sums of few weights would not
    tell.
    """
    X, y = np.random.default_rng(0).standard_normal((6000, 3)), np.repeat([4, 7, 9], 2000)
    for model in (DummyClassifier(strategy="most_frequent"), DummyClassifier()):
        assert (CoresetClassifier(model).fit(X, y).predict(X[:5]) == 4).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RidgeClassifierCV(scoring="accuracy"), "pass an integer cv"),
        (RidgeClassifierCV(cv=3, class_weight="balanced"), "GridSearchCV"),
        (LinearDiscriminantAnalysis(), "karat.models.LinearDiscriminant"),
    ],
    ids=str,
)
def test_refused(model, words, trees):
    with pytest.raises(NotExactError, match=words):
        CoresetClassifier(model).fit(*trees[:2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"solver": "lsqr", "shrinkage": "auto"}, "fourth moments"),
        ({"shrinkage": 0.5}, "solver='lsqr'"),
        ({"solver": "qr"}, "none of"),
        ({"n_components": 9}, "one less than classes"),
        ({"priors": [0.5]}, "one per class"),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense(options, words, trees):
    with pytest.raises(InputError, match=words):
        CoresetClassifier(models.LinearDiscriminant(**options)).fit(*trees[:2])


def test_a_coreset_by_class_weighs_classes_that_are_named(trees):
    X, y, _ = trees
    core = karat.coreset(X, problem=karat.problems.Moments(2), groups=y)
    model = RidgeClassifier(class_weight={"ash": 3.0})
    np.testing.assert_allclose(
        core.fit(clone(model)).coef_, clone(model).fit(X, y).coef_, rtol=1e-9
    )
