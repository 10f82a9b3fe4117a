"""The default: moments where the model fits, EM where it does not; in any unit and container."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from latent_data import make_chain, make_mixture
from scipy import sparse
from sklearn.mixture import GaussianMixture as EM

import karat
from karat import models, problems
from karat.errors import InputError

OLD_FAITHFUL = np.loadtxt(Path(__file__).with_name("old_faithful.csv"), delimiter=",", skiprows=4)
RNG = np.random.default_rng(7)
RETURNS = 0.01 * RNG.standard_t(3, size=(500, 4)) * np.exp(0.3 * RNG.standard_normal((500, 1)))


def quiet(learner, X, **options):
    """Fit without the warning that the model does not fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", models.RecoveryWarning)
        return learner.fit(X, **options)


def test_moments_stay_where_the_model_fits():
    X = make_mixture(3000, 6, 3).X
    model = models.GaussianMixture(3).fit(X)
    assert model.refinement_ is None
    core = karat.coreset(X, problem=problems.GaussianMixture(3))
    few = models.GaussianMixture(3).fit_coreset(core)
    np.testing.assert_allclose(few.means_, model.means_, atol=1e-9)


def test_em_follows_where_it_does_not_and_weights_keep_the_moments():
    model = quiet(models.GaussianMixture(2), OLD_FAITHFUL)
    assert model.refinement_.kept
    peer = EM(2, n_init=3, random_state=0).fit(OLD_FAITHFUL)
    assert model.score(OLD_FAITHFUL) >= peer.score(OLD_FAITHFUL) - 1e-3
    ones = np.ones(len(OLD_FAITHFUL))
    with pytest.warns(models.RecoveryWarning, match="of components and other models"):
        weighted = models.GaussianMixture(2).fit(OLD_FAITHFUL, sample_weight=ones)
    assert weighted.refinement_ is None


def test_a_coreset_of_two_components_in_two_columns_is_no_test():
    core = karat.coreset(OLD_FAITHFUL, problem=problems.GaussianMixture(2))
    with pytest.warns(models.RecoveryWarning, match="2 columns leaves nothing to compare"):
        model = models.GaussianMixture(2).fit_coreset(core)
    full = quiet(models.GaussianMixture(2), OLD_FAITHFUL)
    model.refine_with(OLD_FAITHFUL)
    assert model.score(OLD_FAITHFUL) == pytest.approx(full.score(OLD_FAITHFUL), rel=1e-3)


def test_em_does_not_depend_on_the_unit():
    """The libraries add constants to variances: 1e-6 in one, priors of 0.01 in the other."""
    unit = 2.0**-40
    near, far = (quiet(models.GaussianMixture(2), RETURNS * u) for u in (1.0, unit))
    assert near.refinement_.kept
    assert far.covariance_type_ == near.covariance_type_
    np.testing.assert_allclose(far.means_, near.means_ * unit, rtol=1e-6)
    np.testing.assert_allclose(far.covariances_, near.covariances_ * unit**2, rtol=1e-6)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_em_of_chains_does_not_depend_on_the_unit(unit):
    pytest.importorskip("hmmlearn")
    X = make_chain(2000, gaussian=True).X
    near, far = (
        models.HiddenMarkov(3, emissions="gaussian", refine="diag").fit(X * u) for u in (1.0, unit)
    )
    assert near.refinement_.kept
    np.testing.assert_allclose(far.means_, near.means_ * unit, rtol=1e-6)
    np.testing.assert_allclose(far.covars_, near.covars_ * unit**2, rtol=1e-6)
    np.testing.assert_allclose(far.transmat_, near.transmat_, rtol=1e-6)
    shift = X.shape[1] * np.log(unit)
    for before in ("before", "after"):
        found = getattr(far.refinement_, before), getattr(near.refinement_, before)
        assert found[0] == pytest.approx(found[1] - shift, abs=1e-6)


def test_a_state_of_negative_variance_is_refined():
    """The lengths of Old Faithful's eruptions, one after the other."""
    pytest.importorskip("hmmlearn")
    X = OLD_FAITHFUL[:, :1]
    with pytest.warns(models.RecoveryWarning, match="variances of the states came out as"):
        moments = models.HiddenMarkov(2, emissions="gaussian", refine=None).fit(X)
    model = quiet(models.HiddenMarkov(2, emissions="gaussian"), X)
    assert model.refinement_.kept
    assert model.score(X) > moments.score(X)


def test_sparse_steps_are_refined():
    pytest.importorskip("hmmlearn")
    X = np.round(make_chain(900, gaussian=True).X)
    one, two = (
        quiet(models.HiddenMarkov(3, emissions="gaussian", refine="diag"), x)
        for x in (X, sparse.csr_array(X))
    )
    np.testing.assert_array_equal(one.means_, two.means_)


def test_a_criterion_of_a_frame_is_no_warning():
    frame = pd.DataFrame(make_mixture(500, 4, 2).X, columns=list("abcd"))
    model = models.GaussianMixture(2).fit(frame)
    assert model.bic(frame) > 0


@pytest.mark.parametrize("number", [0, -1, 2.5])
def test_numbers_of_draws_are_checked(number):
    fitted = [
        quiet(models.GaussianMixture(2), OLD_FAITHFUL),
        quiet(models.HiddenMarkov(2), np.random.default_rng(0).integers(0, 3, 500)),
        quiet(models.SingleTopic(2), np.random.default_rng(0).integers(0, 5, (300, 6))),
        quiet(models.LatentDirichlet(2), np.random.default_rng(0).integers(0, 5, (300, 6))),
        quiet(models.MultiView(1), tuple(np.random.default_rng(0).standard_normal((3, 300, 2)))),
    ]
    for model in fitted:
        with pytest.raises(InputError, match="n_samples must be an integer of at least 1"):
            model.sample(number)


def test_symbols_by_name_and_columns_of_numbers_are_said_what_to_do():
    with pytest.raises(
        InputError, match=r"number the symbols that occur: names, X = numpy\.unique"
    ):
        models.HiddenMarkov(2).fit(list("hello world"))
    with pytest.raises(InputError, match='numbers need emissions="gaussian"'):
        models.HiddenMarkov(2).fit(RETURNS)
