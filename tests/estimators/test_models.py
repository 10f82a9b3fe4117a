"""Learners from second moments: on a coreset they give what scikit-learn's namesakes give on all
rows.
"""

import numpy as np
import pytest
from estimators.reducing import CoresetRegressor
from sklearn.covariance import GraphicalLasso
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LassoLars, LassoLarsCV, OrthogonalMatchingPursuit, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB

import karat
from karat import InputError, NotExactError, models, problems

CLASSIFIERS = [
    (LinearDiscriminantAnalysis(), models.LinearDiscriminant()),
    (QuadraticDiscriminantAnalysis(), models.QuadraticDiscriminant()),
    (GaussianNB(), models.GaussianNaiveBayes()),
    (RidgeClassifier(), RidgeClassifier()),
]


@pytest.fixture(scope="module", params=["iris", "blobs"])
def classes(request):
    if request.param == "iris":
        return load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 4)) @ rng.standard_normal((4, 4))
    labels = np.array(["ash", "beech"])[(X[:, 0] + rng.standard_normal(9000) > 0.5).astype(int)]
    return X, labels


@pytest.mark.parametrize(("theirs", "ours"), CLASSIFIERS, ids=lambda e: type(e).__name__)
def test_classifiers(theirs, ours, classes):
    X, y = classes
    core = karat.coreset(X, problem=problems.Moments(2), groups=y)
    assert len(core) <= 15 * len(np.unique(y))
    few, full = core.fit(ours), theirs.fit(X, y)
    if hasattr(full, "decision_function"):
        np.testing.assert_allclose(
            few.decision_function(X), full.decision_function(X), rtol=1e-8, atol=1e-8
        )
    np.testing.assert_array_equal(few.predict(X), full.predict(X))
    if hasattr(full, "predict_proba"):
        np.testing.assert_allclose(few.predict_proba(X), full.predict_proba(X), atol=1e-10)
        np.testing.assert_allclose(
            few.predict_log_proba(X), full.predict_log_proba(X), rtol=1e-8, atol=1e-8
        )


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_bundled_sets(load):
    X, y = load(return_X_y=True)
    core = karat.coreset(X[:, :6], problem=problems.Moments(2), groups=y)
    few, full = core.fit(models.LinearDiscriminant()), LinearDiscriminantAnalysis().fit(X[:, :6], y)
    np.testing.assert_allclose(few.predict_proba(X[:, :6]), full.predict_proba(X[:, :6]), atol=1e-9)


def test_a_singular_class_is_refused():
    X = np.random.default_rng(0).standard_normal((50, 3))
    X[:, 2] = X[:, 0]
    with pytest.raises(InputError, match="singular covariance"):
        models.QuadraticDiscriminant().fit(X, np.arange(50) % 2)


def test_pca(blobs):
    X, _, w = blobs
    few, full = karat.coreset(X).fit(models.PCA(3)), PCA(3).fit(X)
    for name in (
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "mean_",
    ):
        np.testing.assert_allclose(
            getattr(few, name), getattr(full, name), rtol=1e-9, atol=1e-10, err_msg=name
        )
    np.testing.assert_allclose(
        few.inverse_transform(few.transform(X)),
        full.inverse_transform(full.transform(X)),
        atol=1e-9,
    )
    assert list(few.set_output(transform="pandas").transform(X).columns) == ["pca0", "pca1", "pca2"]
    counts = w.astype(int) + 1
    weighted, written = (
        models.PCA().fit(X, sample_weight=counts),
        PCA().fit(np.repeat(X, counts, axis=0)),
    )
    np.testing.assert_allclose(
        weighted.explained_variance_, written.explained_variance_, rtol=1e-10
    )


def test_graphical_lasso_and_the_documented_way(blobs):
    X, _, _ = blobs
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    core = karat.coreset(X)
    full = GraphicalLasso(0.2).fit(X)
    np.testing.assert_allclose(
        core.fit(models.GraphicalLasso(0.2)).precision_, full.precision_, rtol=1e-7, atol=1e-9
    )
    covariance = np.cov(core.X.T, aweights=core.weights, bias=True)
    theirs = GraphicalLasso(0.2, covariance="precomputed").fit(covariance)
    np.testing.assert_allclose(theirs.precision_, full.precision_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (LassoLars(0.05), models.LassoLars(0.05)),
        (LassoLars(0.01, fit_intercept=False), models.LassoLars(0.01, fit_intercept=False)),
        (LassoLars(0.01, positive=True), models.LassoLars(0.01, positive=True)),
        (OrthogonalMatchingPursuit(n_nonzero_coefs=2), models.OrthogonalMatchingPursuit(2)),
        (OrthogonalMatchingPursuit(tol=2e4), models.OrthogonalMatchingPursuit(tol=2e4)),
        (OrthogonalMatchingPursuit(), models.OrthogonalMatchingPursuit()),
    ],
    ids=str,
)
def test_from_the_gram_matrix(theirs, ours, blobs):
    X, y, _ = blobs
    few, full = karat.coreset(X, y).fit(ours), theirs.fit(X, y)
    np.testing.assert_allclose(few.coef_, full.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(few.intercept_, full.intercept_, rtol=1e-8, atol=1e-10)


def test_lasso_lars_chosen_by_cross_validation(blobs, diabetes):
    for X, y in (blobs[:2], [part.to_numpy() for part in diabetes]):
        cv = KFold(4, shuffle=True, random_state=0)
        few = CoresetRegressor(models.LassoLarsCV(cv=cv)).fit(X, y).estimator_
        full = LassoLarsCV(cv=cv).fit(X, y)
        np.testing.assert_allclose(few.alpha_, full.alpha_, rtol=1e-9)
        np.testing.assert_allclose(few.coef_, full.coef_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            few.mse_path_.mean(axis=1).min(), full.mse_path_.mean(axis=1).min(), rtol=1e-9
        )


def test_lasso_lars_in_a_search(blobs):
    X, y, _ = blobs
    few = (
        CoresetRegressor(GridSearchCV(models.LassoLars(), {"alpha": [0.01, 0.1]}))
        .fit(X, y)
        .estimator_
    )
    full = GridSearchCV(LassoLars(), {"alpha": [0.01, 0.1]}).fit(X, y)
    np.testing.assert_allclose(
        few.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"], rtol=1e-9
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_inference(intercept, diabetes):
    sm = pytest.importorskip("statsmodels.api")
    from karat.inference import ols

    X, y = diabetes
    core = karat.coreset(X, y, problems.LeastSquares(fit_intercept=intercept))
    few, full = ols(core), sm.OLS(y, sm.add_constant(X) if intercept else X).fit()
    names = (
        "params bse tvalues pvalues fvalue f_pvalue rsquared rsquared_adj aic bic llf scale ssr ess"
        " nobs df_resid df_model"
    )
    for name in names.split():
        np.testing.assert_allclose(getattr(few, name), getattr(full, name), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(few.conf_int(), full.conf_int(), rtol=1e-9)
    assert "bmi" in str(few.summary())
    assert "Durbin" not in str(few.summary())
    with pytest.raises(NotExactError, match="were not stored"):
        few.HC1_se  # noqa: B018
    with pytest.raises(NotExactError, match="were not stored"):
        few.get_robustcov_results("HC3")


def test_weighted_rows_are_frequencies_in_inference(blobs):
    sm = pytest.importorskip("statsmodels.api")
    from karat.inference import ols

    X, y, w = blobs
    counts = w.astype(int)
    few = ols(karat.coreset(X, y, sample_weight=counts))
    full = sm.OLS(np.repeat(y, counts), sm.add_constant(np.repeat(X, counts, axis=0))).fit()
    for name in ("params", "bse", "aic", "fvalue"):
        np.testing.assert_allclose(getattr(few, name), getattr(full, name), rtol=1e-9, err_msg=name)


def test_inference_needs_a_target(blobs):
    pytest.importorskip("statsmodels")
    from karat.inference import ols

    X, y, _ = blobs
    with pytest.raises(NotExactError, match="LeastSquares"):
        ols(karat.coreset(X))
    with pytest.raises(NotExactError, match="needs a single target"):
        ols(karat.coreset(X, np.column_stack([y, y**2])))
