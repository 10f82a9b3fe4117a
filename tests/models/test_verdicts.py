"""What learners say: the model does not fit, the data are too few, or nothing could be tested."""

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest
from latent_data import make_mixture
from misfit_data import FAMILIES

from karat import models
from karat.models import chains, fourth, ica
from karat.models.misfit import Check, jackknife_p_value, orthonormal

OLD_FAITHFUL = np.loadtxt(Path(__file__).with_name("old_faithful.csv"), delimiter=",", skiprows=4)


def said(learner, X):
    """The messages of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", models.RecoveryWarning)
        learner.fit(X)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("variances", ["shared", "spherical"])
@pytest.mark.parametrize("standardised", [False, True])
def test_old_faithful_does_not_fit(variances, standardised):
    X = OLD_FAITHFUL
    X = (X - X.mean(axis=0)) / X.std(axis=0) if standardised else X
    model = models.GaussianMixture(2, variances=variances, refine=None)
    (message,) = said(model, X)
    assert message.startswith("The model does not fit: the fourth moments")
    untested = {check.name for check in model.recovery_.checks if not check.tested}
    assert untested == {"equal variances", "round noise", "tensor"}
    assert "not tested (k = 2 components in 2 columns: 1 direction left)" in message
    assert "p = 1.0e+00" not in message
    assert 'or continue with EM (refine="full")' in message
    # what the message recommends serves better, and is the default
    for refine in ("full", "auto"):
        better = models.GaussianMixture(2, variances=variances, refine=refine)
        (message,) = said(better, X)
        assert "The parameters are those of EM on all rows" in message
        assert better.score(X) > model.score(X) + 0.15


def test_too_little_data_is_another_sentence():
    rng = np.random.default_rng(0)
    (message,) = said(models.GaussianMixture(3), make_mixture(300, 8, 2).X)
    assert message.startswith("Too little data for 3 components: ")
    X = np.eye(3)[rng.integers(3, size=(400, 1))][:, 0] @ rng.dirichlet(np.ones(12), size=3)
    (message,) = said(models.SingleTopic(5), np.stack([rng.multinomial(12, x) for x in X]))
    assert message.startswith("Too little data for 5 topics: ")


def test_estimates_that_no_model_has_are_not_only_for_want_of_data():
    """States that last two steps each: no transition probabilities give these windows."""
    X = FAMILIES["chain, symbols"][0]("states last two steps", 6000, np.random.default_rng(0))
    (message,) = said(models.HiddenMarkov(3), X)
    assert message.startswith("The data are too few for 3 states, or not of this model: ")
    assert "negative mass" in message
    assert "nothing could be tested" not in message


def test_fewer_than_a_hundred_samples_are_said():
    model = models.GaussianMixture(2)
    (message,) = said(model, make_mixture(80, 4, 2).X)
    assert "only 80 samples; of fewer than 100 samples nothing is compared" in message
    assert not model.recovery_.tested
    assert not model.recovery_.fits


def test_a_p_value_is_printed_as_one():
    assert Check("fit", 0.0, "no fit").result == "p < 1e-16"
    assert Check("fit", 1e-5, "no fit").result == "p = 1.0e-05"
    assert Check("fit", None, "of two nothing is left").result.startswith("not tested (of two")
    assert Check("fit", None, "").ok
    assert not Check("fewer", 0.2, "", shortage=True).ok  # two explain it as well
    assert Check("fewer", 1e-5, "", shortage=True).ok


def population(places, weights, variances, free):
    """Exact moments of a mixture of N(place, s^2 I), by quadrature; the last ``free`` directions
    are across.
    """
    nodes, mass = np.polynomial.hermite_e.hermegauss(6)
    mass = mass / mass.sum()
    d = places.shape[1]
    grid = np.array(list(itertools.product(nodes, repeat=d)))
    shares = np.array([np.prod(m) for m in itertools.product(mass, repeat=d)])
    x = np.concatenate([p + np.sqrt(s) * grid for p, s in zip(places, variances, strict=True)])
    share = np.concatenate([w * shares for w in weights])
    x = x - share @ x
    inside = x if free == 1 else x[:, : d - free]
    q = np.square(x[:, d - free :]).mean(axis=1)
    u = np.column_stack([inside, np.ones(len(x))])
    four = np.einsum("n,na,nb,nc,nd->abcd", share, u, u, u, u, optimize=True)
    moments = fourth.FourthMoments(four, (u.T * (share * q)) @ u, float(share @ q**2), 0.0)
    return moments, inside.shape[1]


@pytest.mark.parametrize(("d", "own"), [(2, False), (2, True), (4, False), (4, True), (3, True)])
def test_the_fourth_moments_of_a_mixture_do_not_deviate(d, own):
    """Three components (two if d is 2); oracle: Gauss-Hermite quadrature."""
    k = 2 if d == 2 else 3
    free = d - k + 1
    rng = np.random.default_rng(d)
    places = np.zeros((k, d))
    places[:, : k - 1] = 3 * rng.standard_normal((k, k - 1))
    weights = rng.dirichlet(np.full(k, 5.0))
    variances = rng.uniform(0.5, 1.5, k) if own else np.full(k, 0.8)
    moments, width = population(places, weights, variances, free)
    centred = (places - weights @ places)[:, : k - 1]
    e, vectors = np.linalg.eigh((centred.T * weights) @ centred)
    whitening = np.zeros((width, k - 1))
    whitening[: k - 1] = vectors / np.sqrt(e)
    V = np.column_stack([centred @ whitening[: k - 1], np.ones(k)]) * np.sqrt(weights)[:, None]
    found = fourth.deviations(moments, whitening, orthonormal(V), free, not own)
    for place, group in enumerate(found):
        if place != 2:  # an exponential, of which quadrature is not exact
            np.testing.assert_allclose(group, 0.0, atol=1e-9)
    bent = moments._replace(square=moments.square * 1.1)
    sizes = fourth.deviations(bent, whitening, orthonormal(V), free, not own)[1]
    assert free == 1 or np.abs(sizes).max() > 1e-3


def test_the_jackknife_knows_the_noise_of_a_mean():
    """P-values of means of zero are uniform; scipy's Kolmogorov test is the oracle."""
    from scipy import stats

    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(200):
        blocks = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3))
        whole = blocks.mean(axis=0)
        p_values.append(jackknife_p_value(whole, (50 * whole - blocks) / 49))
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_later_steps_stay_in_their_sequence():
    rows = np.arange(40.0)[:, None]
    origin = np.concatenate([np.arange(18), 20 + np.arange(18)])  # windows of two sequences
    now, later = chains.later_steps([rows[origin + i] for i in range(3)], origin)
    first = [t for t in origin if t + 8 - 1 <= (17 if t < 20 else 37)]
    np.testing.assert_array_equal(now[:, 0], first)
    np.testing.assert_array_equal(later[:, 0], [sum(range(t + 1, t + 9)) for t in first])


def test_a_chain_that_drifts_is_noticed():
    rng = np.random.default_rng(0)
    steps = rng.standard_normal((2000, 3))
    assert chains.drift(steps) > 0.01
    assert chains.drift(steps + np.linspace(0, 0.5, 2000)[:, None]) < 1e-3
    assert chains.drift(np.ones((2000, 3))) is None


def test_unmixing_finds_independent_sources():
    rng = np.random.default_rng(0)
    h = rng.exponential(size=(200_000, 3)) - 1
    x = h @ np.linalg.inv(np.eye(3) + 0.05 * rng.standard_normal((3, 3))).T
    pairs = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    back = ica.unmixing(
        (pairs.T @ pairs / len(x)).reshape((3,) * 4), x.T @ x / len(x), x.mean(axis=0)
    )
    assert np.abs(np.corrcoef((x @ back.T).T, h.T)[:3, 3:] - np.eye(3)).max() < 0.02
