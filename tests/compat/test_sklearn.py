"""scikit-learn still has the names that karat.compat.sklearn uses, and they mean what they did."""

from __future__ import annotations

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.cross_decomposition import PLSRegression  # noqa: E402
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis  # noqa: E402
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV  # noqa: E402
from sklearn.metrics import get_scorer, make_scorer, mean_squared_error, r2_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import LabelBinarizer  # noqa: E402

from karat.compat import sklearn as compat  # noqa: E402

CHANGED = f"scikit-learn {sklearn.__version__} has changed: "


def test_what_a_scorer_computes():
    known = get_scorer("neg_mean_squared_error")
    assert compat.is_scorer(known), f"{CHANGED}a scorer has no _score_func"
    assert compat.score_function(known) is mean_squared_error
    assert set(compat.SCORER) <= set(vars(known)), f"{CHANGED}a scorer has {sorted(vars(known))}"
    assert compat.same_score(known, make_scorer(mean_squared_error, greater_is_better=False))
    for other in (
        make_scorer(mean_squared_error),
        make_scorer(r2_score),
        get_scorer("r2"),
        get_scorer("accuracy"),
    ):
        assert not compat.same_score(known, other)


def test_a_score_of_ones_own_is_its_function():
    def score(estimator, X, y):
        return 0.0

    assert not compat.is_scorer(score)
    assert compat.score_function(score) is score


def test_parameters_are_checked():
    compat.check_parameters(Ridge(alpha=1.0))
    compat.check_parameters(object())
    # else _parameter_constraints or _validate_params has another name
    with pytest.raises(ValueError, match="alpha"):
        compat.check_parameters(Ridge(alpha="a lot"))


def test_requests_are_read():
    with sklearn.config_context(enable_metadata_routing=True):
        declines = [model.set_fit_request(sample_weight=False) for model in (Ridge(), RidgeCV())]
        asks = Ridge().set_fit_request(sample_weight=True)
        scorer = make_scorer(r2_score).set_score_request(sample_weight="mine")
    assert [compat.weight_request(one) for one in declines] == [False, False], (
        f"{CHANGED}requests are not in _metadata_request"
    )
    assert compat.weight_request(asks) is True
    assert compat.weight_request(scorer, "score") == "mine"
    for one in (Ridge(), RidgeCV(), make_pipeline(declines[0]), object()):
        assert compat.weight_request(one) is None


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"]])
def test_fitted_state_is_copied(labels):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.array(labels)[np.argsort(X[:, 0]) % len(labels)]
    model, other = RidgeClassifier().fit(X, y), RidgeClassifierCV()
    compat.copy_fitted(model, other)
    fitted = {
        name
        for name in vars(RidgeClassifierCV().fit(X, y))
        if name.endswith("_") or name.startswith("_")
    }
    own = {"alpha_", "best_score_"}  # which karat sets itself
    assert fitted - own <= set(vars(other)), f"{CHANGED}RidgeClassifierCV has {sorted(fitted)}"
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


def test_means_of_partial_least_squares():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)) + 5.0, rng.standard_normal((50, 2))
    model, centred = (
        PLSRegression().fit(X, y),
        PLSRegression().fit(X - X.mean(axis=0), y - y.mean(axis=0)),
    )
    compat.set_means_of_pls(centred, X.mean(axis=0), y.mean(axis=0))
    for name in ("predict", "transform"):
        np.testing.assert_allclose(
            getattr(centred, name)(X), getattr(model, name)(X), rtol=1e-9, err_msg=CHANGED
        )
    assert not hasattr(centred, "x_scores_"), CHANGED


def test_classes_of_a_ridge():
    X, y = np.eye(6), np.array(list("abcabc"))
    full, ridge = RidgeClassifierCV().fit(X, y), RidgeClassifierCV()
    compat.copy_fitted(full, ridge)
    compat.set_classes(ridge, LabelBinarizer(pos_label=1, neg_label=-1).fit(y))
    np.testing.assert_array_equal(ridge.classes_, full.classes_, err_msg=CHANGED)
    np.testing.assert_array_equal(ridge.predict(X), full.predict(X), err_msg=CHANGED)


def test_what_discriminants_divide_by():
    X, y = np.array([[0.0], [2.0], [10.0], [14.0]]), np.array([0, 0, 1, 1])
    fitted = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
    np.testing.assert_allclose(
        fitted.covariance_[0], 1.0 if compat.DIVIDES_BY_ROWS else 2.0, err_msg=CHANGED
    )
