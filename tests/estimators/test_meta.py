"""The meta-estimator behaves like one: clone, pickle, routing, diagram, parallel searches."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from estimators.reducing import CoresetRegressor
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import ElasticNetCV, Lasso, LassoCV, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import karat
from karat import problems

SEARCH = GridSearchCV(
    make_pipeline(StandardScaler(), PolynomialFeatures(2), Lasso()),
    {"lasso__alpha": [0.1, 1.0]},
    cv=3,
)


def test_the_user_s_estimator_is_left_alone(blobs):
    X, y, _ = blobs
    before = str(SEARCH.get_params())
    fitted = CoresetRegressor(SEARCH).fit(X, y)
    assert str(SEARCH.get_params()) == before
    assert not hasattr(SEARCH, "best_params_")
    assert fitted.estimator_.cv == 3  # what the user wrote, not positions in the coreset
    assert fitted.estimator_.scoring is None
    assert not sklearn.get_config()["enable_metadata_routing"]


def test_clone_and_parameters():
    meta = CoresetRegressor(SEARCH, problem=problems.LeastSquares(), random_state=3)
    copy = clone(meta)
    assert copy.problem == meta.problem
    assert copy.get_params()["estimator__estimator__lasso__alpha"] == 1.0
    assert copy.set_params(estimator__cv=4).estimator.cv == 4


def test_pickling_keeps_predictions(blobs):
    X, y, _ = blobs
    fitted = CoresetRegressor(SEARCH).fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(X[:9]), fitted.predict(X[:9]))
    assert copy.core_.certificate.ok


def test_not_fitted(blobs):
    with pytest.raises(NotFittedError):
        CoresetRegressor(Ridge()).predict(blobs[0])


def test_diagram(blobs):
    html = CoresetRegressor(SEARCH)._repr_html_()
    assert "CoresetRegressor" in html
    assert "StandardScaler" in html
    assert "Lasso" in html


def test_parallel_searches(blobs):
    X, y, _ = blobs
    one = CoresetRegressor(SEARCH).fit(X, y).estimator_
    two = CoresetRegressor(clone(SEARCH).set_params(n_jobs=2)).fit(X, y).estimator_
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


def test_inside_a_pipeline_and_under_cross_validation(blobs):
    X, y, _ = blobs
    outer = KFold(3)
    few = cross_val_score(
        make_pipeline(StandardScaler(), CoresetRegressor(LassoCV(alphas=5, cv=3))), X, y, cv=outer
    )
    full = cross_val_score(make_pipeline(StandardScaler(), LassoCV(alphas=5, cv=3)), X, y, cv=outer)
    np.testing.assert_allclose(few, full, rtol=1e-9)


def test_routing_from_outside(blobs):
    X, y, w = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        meta = CoresetRegressor(LassoCV(alphas=5)).set_fit_request(sample_weight=True, groups=False)
        assert meta.get_metadata_routing().fit.requests["sample_weight"] is True
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), meta).fit(
            X, y, sample_weight=w
        )
        scaled = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=True),
            LassoCV(alphas=5).set_fit_request(sample_weight=True),
        )
        full = scaled.fit(X, y, sample_weight=w)
    np.testing.assert_allclose(pipeline[-1].estimator_.coef_, full[-1].coef_, rtol=1e-8, atol=1e-8)


def test_the_user_s_setting_of_routing_changes_nothing(blobs):
    X, y, _ = blobs
    for routing in (False, True):
        with sklearn.config_context(enable_metadata_routing=routing):
            few = CoresetRegressor(RidgeCV(cv=3)).fit(X, y).estimator_
            full = RidgeCV(cv=3).fit(X, y)
        np.testing.assert_allclose(few.best_score_, full.best_score_, rtol=1e-9)


def test_the_rows_made_do_not_matter(blobs):
    X, y, _ = blobs
    one = CoresetRegressor(ElasticNetCV(alphas=5), random_state=0).fit(X, y)
    two = CoresetRegressor(ElasticNetCV(alphas=5), random_state=1).fit(X, y)
    np.testing.assert_allclose(one.estimator_.coef_, two.estimator_.coef_, rtol=1e-9, atol=1e-10)


def test_a_core_fits_listed_estimators(blobs):
    X, y, w = blobs
    core = karat.coreset(X, y, sample_weight=w)
    np.testing.assert_allclose(
        core.fit(Lasso(0.1)).coef_,
        Lasso(0.1).fit(X, y, sample_weight=w).coef_,
        rtol=1e-9,
        atol=1e-10,
    )
    scaled = core.fit(make_pipeline(StandardScaler(), Ridge(10.0)))
    mean = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(scaled[0].mean_, mean, rtol=1e-10)


def test_without_scikit_learn():
    script = """
import sys
sys.modules["sklearn"] = None
import numpy as np, karat
assert len(karat.coreset(np.random.default_rng(0).standard_normal((500, 3)))) == 10
for name in ("CoresetRegressor", "exact_cv"):
    try:
        getattr(karat, name)
    except karat.MissingExtraError as error:
        assert "karat[sklearn]" in str(error)
    else:
        raise SystemExit(name)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("problem", [None, problems.LeastSquares()], ids=["exact", "insisting"])
def test_n_jobs_sends_rows_to_no_other_process(blobs, problem):
    """Before, all rows were pickled for every fit of a few rows."""
    X, y, _ = blobs
    processes = []

    def score(model, X, y, sample_weight=None):
        processes.append(os.getpid())  # of another process, the list would stay here as it is
        return model.score(X, y)

    for n_jobs in (None, 2):
        search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, scoring=score, n_jobs=n_jobs)
        found = CoresetRegressor(search, problem).fit(X, y).estimator_
        assert found.n_jobs == n_jobs
    assert processes == [os.getpid()] * 2 * 15
