"""Learners notice data that do not follow their model, and are silent about data that do; see
benchmarks/misfit.py.
"""

import dataclasses
import warnings

import misfit_cases as misfit
import numpy as np
import pytest
from latent_data import make_mixture, make_topics
from scipy import stats

import karat
from karat import models, problems

KINDS = [(family, kind) for family, (_, kinds) in misfit.FAMILIES.items() for kind in kinds]


@pytest.mark.parametrize("family", misfit.FAMILIES)
def test_data_of_the_model_are_no_alarm(family):
    assert misfit.share(family, None, 3000, 8)[0] == 0


@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_data_of_another_model_are_noticed(family, kind):
    """The silent ones are at most one in twenty: of two draws, none."""
    words = [(misfit.said(family, kind, 3000, seed) or (None,))[0] for seed in (1000, 1001)]
    enough = {"misfit", "either"} | ({"too few"} if kind == "one too many" else set())
    assert set(words) <= enough


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("family", misfit.FAMILIES)
def test_nineteen_in_twenty_are_noticed_and_one_in_twenty_is_a_false_alarm(family):
    assert misfit.share(family, None, 3000, 40)[0] <= 2
    for kind in misfit.FAMILIES[family][1]:
        assert sum(misfit.share(family, kind, 3000, 20)[:2]) >= 19


def test_a_coreset_knows_the_second_moments():
    rng = np.random.default_rng(0)
    X = make_mixture(5000, 8, 3).X + rng.standard_normal((5000, 8)) * np.linspace(0.1, 2, 8)
    core = karat.coreset(X, problem=problems.GaussianMixture(3))
    with pytest.warns(models.RecoveryWarning, match="unequal variances"):
        model = models.GaussianMixture(3).fit_coreset(core)
    assert not model.recovery_.fits
    assert [check.name for check in model.recovery_.checks] == ["equal variances", "tensor"]


CORESETS = {
    "mixture": (problems.GaussianMixture(3), "t3 noise"),
    "mixture, own variances": (problems.GaussianMixture(3, "spherical"), "correlation"),
    "chain, Gaussian": (problems.HiddenMarkov(3, "gaussian"), "second order"),
    "chain, symbols": (problems.HiddenMarkov(3), "two chains in turn"),
}


@pytest.mark.parametrize("family", CORESETS)
@pytest.mark.parametrize("keep", ["tensor", "all"])
def test_a_coreset_is_compared_with_draws_of_the_model(family, keep):
    problem, kind = CORESETS[family]
    problem = dataclasses.replace(problem, keep=keep)

    def doubts(kind, seed):
        X = misfit.FAMILIES[family][0](kind, 3000, np.random.default_rng(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", models.RecoveryWarning)
            return (
                misfit.LEARNERS[family]().fit_coreset(karat.coreset(X, problem=problem)).recovery_
            )

    draws = 40 if keep == "tensor" else 4  # the modes keep the same moments
    right = [doubts(None, seed) for seed in range(draws)]
    # one check in a thousand fails by chance: of two checks of 40 draws, two or more in 3 of 1,000
    assert sum(not found.fits for found in right) <= 1
    for p_values in zip(*([c.p_value for c in found.checks] for found in right), strict=True):
        # not smaller than uniform ones
        assert stats.kstest(p_values, "uniform", alternative="greater").pvalue > 1e-3
    found = doubts(kind, 5)
    assert not found.fits
    assert "tensor" in [check.name for check in found.checks]


def test_many_components_are_no_alarm_for_want_of_draws():
    rng = np.random.default_rng(0)
    X = 6 * np.eye(14)[rng.integers(14, size=6000)] + rng.standard_normal((6000, 14))
    core = karat.coreset(X, problem=problems.GaussianMixture(14))
    with warnings.catch_warnings():
        # fourteen components in fourteen columns
        warnings.simplefilter("ignore", models.RecoveryWarning)
        model = models.GaussianMixture(14).fit_coreset(core)
    assert all(check.ok for check in model.recovery_.checks)


def test_two_components_always_have_a_diagonal_tensor():
    """Of two components the check has nothing to compare; rounding must not decide."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4)) + 4 * rng.integers(2, size=(2000, 1)) * np.eye(4)[0]
    core = karat.coreset(X, problem=problems.GaussianMixture(2))
    for model in (models.GaussianMixture(2).fit(X), models.GaussianMixture(2).fit_coreset(core)):
        check = {check.name: check for check in model.recovery_.checks}["tensor"]
        assert not check.tested
        assert "tensor: not tested (two components" in str(model.recovery_)


@pytest.mark.parametrize("learner", [models.SingleTopic(3), models.LatentDirichlet(3, alpha0=1.2)])
def test_as_many_topics_as_words_explain_every_pair(learner):
    rng = np.random.default_rng(0)
    one = isinstance(learner, models.SingleTopic)
    shares = np.eye(3)[rng.integers(3, size=3000)] if one else rng.dirichlet([0.4] * 3, size=3000)
    X = rng.multinomial(30, shares @ np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.1, 0.2, 0.7]]))
    assert learner.fit(X).recovery_.fits


def test_columns_of_other_units_are_named():
    X = make_mixture(3000, 6, 3).X * np.array([1e4, 1, 1, 1, 1, 1])
    with pytest.warns(models.RecoveryWarning, match="standardise them"):
        models.GaussianMixture(3).fit(X)


def test_wrong_alpha0_is_noticed_and_auto_finds_it():
    X = make_topics(6000, alpha=[0.3, 0.4, 0.5, 0.6], length=40).X
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        models.LatentDirichlet(4, alpha0=12.0).fit(X)
    assert any("and this alpha0" in str(one.message) for one in said)
    model = models.LatentDirichlet(4, alpha0="auto").fit(X)
    assert 1.2 < model.alpha0_ < 2.7  # the truth is 1.8
    assert model.recovery_.fits
    core = karat.coreset(X, problem=problems.LatentDirichlet(4, model.alpha0_))
    again = models.LatentDirichlet(4, alpha0="auto").fit_coreset(core)
    np.testing.assert_allclose(again.topics_, model.topics_, atol=1e-9)
    with pytest.raises(karat.NotExactError, match="of 4 topics, not 3"):
        models.LatentDirichlet(3, alpha0="auto").fit_coreset(core)


def test_displays_of_the_spectrum_and_of_alpha0():
    pytest.importorskip("matplotlib").use("agg")
    from karat.report import Alpha0Display, SpectrumDisplay

    X = make_mixture(4000, 8, 4).X
    display = SpectrumDisplay.from_estimator(models.GaussianMixture(4).fit(X)).plot()
    assert display.leading == display.gap == 3
    assert display.ax_.get_yscale() == "log"
    with pytest.raises(karat.InputError, match="no spectrum"):
        SpectrumDisplay.from_estimator(models.GaussianMixture(4))
    documents = make_topics(3000, alpha=[0.3, 0.4, 0.5], k=3, length=30).X
    model = models.LatentDirichlet(3, alpha0="auto").fit(documents)
    curve = Alpha0Display.from_estimator(model).plot()
    assert curve.best == model.alpha0_
    assert len(curve.ax_.lines) == 2
    with pytest.raises(karat.InputError, match='alpha0="auto"'):
        Alpha0Display.from_estimator(models.LatentDirichlet(3).fit(documents))


def test_messages_are_one_warning():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        models.GaussianMixture(3).fit(
            misfit.FAMILIES["mixture"][0]("correlation", 3000, np.random.default_rng(0))
        )
    assert sum("does not fit" in str(one.message) for one in said) == 1


@pytest.mark.parametrize(
    "learner", [models.GaussianMixture(3), models.HiddenMarkov(3, emissions="gaussian")]
)
def test_constant_columns_are_named(learner):
    family = "mixture" if isinstance(learner, models.GaussianMixture) else "chain, Gaussian"
    X = misfit.FAMILIES[family][0](None, 3000, np.random.default_rng(0))
    X[:, 2] = 7.0
    with pytest.warns(models.RecoveryWarning, match="column 2 is constant"):
        learner.fit(X)


def test_weights_are_no_evidence_of_their_own():
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        centres = 3 * rng.standard_normal((3, 6))
        X = centres[rng.integers(0, 3, 3000)] + rng.standard_normal((3000, 6))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", models.RecoveryWarning)
            fit = models.GaussianMixture(3).fit(X, sample_weight=rng.integers(0, 3, 3000))
        alarms += bool(fit.recovery_.misfits)
    assert alarms <= 2  # rows drawn with replacement gave one in thirteen


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
@pytest.mark.parametrize("k", [3, "auto"])
def test_one_row_with_nearly_all_the_weight(k):
    rng = np.random.default_rng(0)
    X = 6 * np.eye(3, 8)[rng.integers(0, 3, 600)] + rng.standard_normal((600, 8))
    weights = np.ones(600)
    weights[0] = 1e6
    fit = models.GaussianMixture(k).fit(X, sample_weight=weights)
    assert np.isfinite(fit.means_).all()
