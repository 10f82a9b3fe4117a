"""CoresetClassifier: what second moments of every class decide, with the answer of all rows."""

import numpy as np
import pytest
from estimators.reducing import CoresetClassifier
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

from karat import NotExactError, models

PAIRS = [
    (LinearDiscriminantAnalysis(), models.LinearDiscriminant()),
    (QuadraticDiscriminantAnalysis(reg_param=0.1), models.QuadraticDiscriminant(reg_param=0.1)),
    (GaussianNB(), models.GaussianNaiveBayes()),
    (RidgeClassifier(10.0), RidgeClassifier(10.0)),
    (RidgeClassifierCV([1.0, 1e3], cv=3), RidgeClassifierCV([1.0, 1e3], cv=3)),
]


@pytest.fixture(scope="module", params=[2, 3])
def trees(request):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 4)) @ rng.standard_normal((4, 4)) + 2.0
    score = X[:, 0] + rng.standard_normal(5000)
    cuts = np.quantile(score, [0.4, 0.8][: request.param - 1])
    return X, np.array(["ash", "beech", "cedar"])[np.digitize(score, cuts)]


@pytest.mark.parametrize(
    "front",
    [None, StandardScaler(), MinMaxScaler(), PolynomialFeatures(2, include_bias=False)],
    ids=str,
)
@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda e: type(e).__name__)
def test_plain_and_behind_transformers(theirs, ours, front, trees):
    X, y = trees
    full, few = (one if front is None else make_pipeline(front, one) for one in (theirs, ours))
    full, few = clone(full).fit(X, y), CoresetClassifier(few).fit(X, y)
    assert len(few.core_) < len(y) / 2
    np.testing.assert_array_equal(few.predict(X), full.predict(X))
    np.testing.assert_array_equal(few.classes_, full.classes_)
    assert few.score(X, y) == full.score(X, y)
    if hasattr(full, "decision_function"):
        np.testing.assert_allclose(
            few.decision_function(X), full.decision_function(X), rtol=1e-7, atol=1e-7
        )
    if hasattr(full, "predict_proba"):
        np.testing.assert_allclose(few.predict_proba(X), full.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize(
    "scoring", [None, "neg_log_loss", "f1_macro", ["accuracy", "balanced_accuracy"]], ids=str
)
def test_searches(scoring, trees):
    X, y = trees
    refit = scoring[0] if isinstance(scoring, list) else True
    options = {
        "scoring": scoring,
        "refit": refit,
        "cv": StratifiedKFold(3, shuffle=True, random_state=0),
    }
    smooth = {"gaussiannaivebayes__var_smoothing": [1e-9, 0.1]}
    few = CoresetClassifier(
        GridSearchCV(make_pipeline(MinMaxScaler(), models.GaussianNaiveBayes()), smooth, **options)
    ).fit(X, y)
    full = GridSearchCV(
        make_pipeline(MinMaxScaler(), GaussianNB()),
        {"gaussiannb__var_smoothing": [1e-9, 0.1]},
        **options,
    ).fit(X, y)
    for name in (n for n in full.cv_results_ if "test_" in n and "rank" not in n):
        np.testing.assert_allclose(few.cv_results_[name], full.cv_results_[name], rtol=1e-9)
    assert few.best_score_ == pytest.approx(full.best_score_, rel=1e-9)


def test_an_integer_cv_is_stratified(trees):
    X, y = trees
    order = np.argsort(y, kind="stable")
    search = GridSearchCV(RidgeClassifier(), {"alpha": [1.0, 1e4]}, cv=4)
    few, full = (
        CoresetClassifier(search).fit(X[order], y[order]),
        clone(search).fit(X[order], y[order]),
    )
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )


def test_weights(trees):
    X, y = trees
    counts = np.random.default_rng(1).integers(0, 3, len(y))
    few = CoresetClassifier(models.LinearDiscriminant()).fit(
        X, y, sample_weight=counts.astype(float)
    )
    full = LinearDiscriminantAnalysis().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(
        few.decision_function(X), full.decision_function(X), rtol=1e-8, atol=1e-8
    )
    counts[y == "ash"] = 0  # a class without weight is no class
    if len(np.unique(y)) == 3:
        few = CoresetClassifier(models.LinearDiscriminant()).fit(
            X, y, sample_weight=counts.astype(float)
        )
        assert list(few.classes_) == ["beech", "cedar"]


def test_logistic_regression_is_refused_with_a_way_out(trees):
    for estimator in (LogisticRegression(), GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]})):
        with pytest.raises(
            NotExactError,
            match=r"not a polynomial of the data; karat.CoresetClassifier is exact for",
        ):
            CoresetClassifier(estimator).fit(*trees)


def test_the_core_is_one_of_classes(trees):
    X, y = trees
    core = CoresetClassifier(models.LinearDiscriminant()).fit(X, y).core_
    assert core.rows == "synthetic"
    for label in np.unique(y):
        of_class = core.groups == label
        np.testing.assert_allclose(core.weights[of_class].sum(), np.count_nonzero(y == label))
        np.testing.assert_allclose(
            np.average(core.X[of_class], axis=0, weights=core.weights[of_class]),
            X[y == label].mean(axis=0),
        )
    np.testing.assert_array_equal(
        core.fit(models.LinearDiscriminant()).predict(X),
        LinearDiscriminantAnalysis().fit(X, y).predict(X),
    )
