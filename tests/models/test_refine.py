"""EM from the moments: never worse than they are, and at least as good as EM alone."""

import numpy as np
import pytest
from latent_data import make_chain, make_mixture
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.mixture import GaussianMixture as EM

import karat
from karat import models, problems
from karat.errors import InputError

real = pytest.mark.filterwarnings(
    "ignore::karat.models.RecoveryWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)


def distance(found, truth):
    cost = np.linalg.norm(found[:, None] - truth[None], axis=2)
    return cost.min(axis=0).max()


def test_refined_mixture_is_closer_and_more_likely():
    data = make_mixture(6000, 8, 4, spherical=True)
    moments = models.GaussianMixture(4, variances="spherical").fit(data.X)
    model = models.GaussianMixture(4, variances="spherical", refine="spherical").fit(data.X)
    assert model.refinement_.kept
    assert model.refinement_.after >= model.refinement_.before
    assert model.score(data.X) >= moments.score(data.X)
    assert distance(model.means_, data.means) <= 1.3 * distance(moments.means_, data.means)
    core = karat.coreset(data.X, problem=problems.GaussianMixture(4, "spherical"))
    later = models.GaussianMixture(4, variances="spherical", refine="spherical").fit_coreset(core)
    assert later.refinement_ is None
    np.testing.assert_allclose(later.refine_with(data.X).means_, model.means_, atol=1e-6)


@real
@pytest.mark.parametrize(("load", "k"), [(load_iris, 3), (load_breast_cancer, 2)])
def test_full_covariances_on_real_data_are_as_likely_as_those_of_em(load, k):
    X = load().data
    model = models.GaussianMixture(k, refine="full").fit(X)
    peer = EM(k, n_init=3, random_state=0).fit(X)
    assert model.score(X) >= peer.score(X) - 1e-6
    assert model.covariances_.shape == (k, X.shape[1], X.shape[1])
    np.testing.assert_allclose(model.bic(X), model.to_sklearn().bic(X), rtol=1e-9)
    assert model.sample(5)[0].shape == (5, X.shape[1])
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def penguins(seed=1):
    """Four measurements of three kinds of birds in their own units, correlated, as in the Palmer
    penguins.
    """
    rng = np.random.default_rng(seed)
    means = np.array([[38.8, 18.3, 190, 3701], [48.8, 18.4, 196, 3733], [47.5, 15.0, 217, 5076]])
    deviations = np.array([[2.7, 1.2, 6.5, 459], [3.3, 1.1, 7.1, 384], [3.1, 1.0, 6.5, 504]])
    kind = rng.choice(3, 342, p=[0.44, 0.2, 0.36])
    noise = rng.standard_normal((342, 4)) @ np.linalg.cholesky(0.5 + 0.5 * np.eye(4)).T
    return means[kind] + deviations[kind] * noise


@real
@pytest.mark.parametrize("standardised", [False, True])
def test_columns_of_different_units_are_noticed_and_refined(standardised):
    X = penguins()
    X = (X - X.mean(axis=0)) / X.std(axis=0) if standardised else X
    model = models.GaussianMixture(3, refine="full").fit(X)
    assert not model.recovery_.fits
    assert model.score(X) >= EM(3, n_init=3, random_state=0).fit(X).score(X) - 1e-6


@real
def test_a_tie_goes_to_em_where_the_model_fits_and_to_the_moments_where_it_does_not():
    """The moments know that the variances are equal; held-out rows prefer that, by less than their
    noise.
    """
    rng = np.random.default_rng(1)
    means = 3 * np.random.default_rng(0).standard_normal((5, 20))
    X = means[rng.integers(5, size=100_000)] + rng.standard_normal((100_000, 20))
    model = models.GaussianMixture(5, refine="spherical").fit(X)
    assert model.recovery_.fits
    assert model.refinement_.after < model.refinement_.before
    assert model.refinement_.kept
    few = np.random.default_rng(0).standard_normal((60, 12)) * np.linspace(1, 3, 12)
    small = models.GaussianMixture(3, refine="full").fit(few)
    assert not small.refinement_.kept


@pytest.mark.parametrize("kind", ["diag", "tied"])
def test_every_kind_of_covariances(kind):
    X = make_mixture(3000, 5, 3).X
    model = models.GaussianMixture(3, refine=kind).fit(X)
    peer = model.to_sklearn()
    np.testing.assert_allclose(model.score(X), peer.score(X), rtol=1e-8)
    assert model.aic(X) < models.GaussianMixture(3).fit(X).aic(X) + 60


@real
@pytest.mark.parametrize("gaussian", [False, True])
def test_refined_chain(gaussian):
    pytest.importorskip("hmmlearn")
    data = make_chain(lengths=[500] * 6, gaussian=gaussian, seed=5)
    options = {"emissions": "gaussian"} if gaussian else {}
    moments = models.HiddenMarkov(3, **options).fit(data.X, lengths=data.lengths)
    model = models.HiddenMarkov(3, refine="spherical", **options).fit(data.X, lengths=data.lengths)
    truth = data.means if gaussian else data.emissions
    before, after = ((m.means_ if gaussian else m.emissionprob_) for m in (moments, model))
    if model.refinement_.kept:
        assert model.score(data.X, lengths=data.lengths) > moments.score(
            data.X, lengths=data.lengths
        )
    assert distance(after, truth) <= 1.5 * distance(before, truth)
    assert model.bic(data.X, lengths=data.lengths) == pytest.approx(
        -2 * model.score(data.X, lengths=data.lengths) + model._parameters * np.log(len(data.X))
    )


@real
def test_a_symbol_that_the_first_rows_do_not_hold_does_not_stop_em():
    pytest.importorskip("hmmlearn")
    X = make_chain(3000, seed=5).X.copy()
    X[:2500][X[:2500] == 6] = 5  # the part on which EM is tried does not hold symbol 6
    model = models.HiddenMarkov(3, refine="spherical").fit(X)
    assert np.isfinite(model.refinement_.after)


@pytest.mark.parametrize("kind", ["diag", "tied", "full"])
def test_chain_with_other_covariances(kind):
    pytest.importorskip("hmmlearn")
    data = make_chain(3000, gaussian=True)
    model = models.HiddenMarkov(3, emissions="gaussian", refine=kind).fit(data.X)
    assert model.refinement_.kept
    peer = model.to_hmmlearn()
    np.testing.assert_allclose(peer.score(data.X), model.score(data.X), rtol=0.01)
    assert model.sample(7)[0].shape == (7, 6)


def test_what_refine_refuses():
    X = make_mixture(500, 5, 3).X
    with pytest.raises(InputError, match="refine must be None or one of"):
        models.GaussianMixture(3, refine="round").fit(X)
    with pytest.raises(InputError, match="takes no sample_weight"):
        models.GaussianMixture(3, refine="full").fit(X, sample_weight=np.ones(500))
