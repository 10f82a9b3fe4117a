"""n_components="auto", score and sample of every learner."""

import numpy as np
import pytest
from latent_data import make_mixture, make_topics
from misfit_data import FAMILIES
from scipy.special import gammaln

import karat
from karat import models, problems

DATA = {
    "GaussianMixture": lambda rng: make_mixture(5000, 8, 3).X,
    "MultiView": lambda rng: FAMILIES["views"][0](None, 5000, rng),
    "HiddenMarkov": lambda rng: FAMILIES["chain, symbols"][0](None, 5000, rng),
    "SingleTopic": lambda rng: FAMILIES["single topic"][0](None, 5000, rng),
    "LatentDirichlet": lambda rng: FAMILIES["latent Dirichlet"][0](None, 5000, rng),
    "ICA": lambda rng: rng.laplace(size=(5000, 3)) @ rng.standard_normal((3, 6)),
}
NAMES = {"HiddenMarkov": "n_states", "SingleTopic": "n_topics", "LatentDirichlet": "n_topics"}


@pytest.mark.parametrize("name", DATA)
def test_auto_finds_three(name):
    X = DATA[name](np.random.default_rng(1))
    learner, number = getattr(models, name), NAMES.get(name, "n_components")
    model = learner("auto").fit(X)
    assert model.n_components_ == 3
    options = [3, 1.0] if name == "LatentDirichlet" else [3]
    core = karat.coreset(X, problem=getattr(problems, name)(*options))
    assert learner("auto").fit_coreset(core).n_components_ == 3
    with pytest.raises(karat.InputError, match=f'{number} must be an integer or "auto", not'):
        learner("gap").fit(X)


def test_auto_knows_where_the_sequences_end():
    rng = np.random.default_rng(0)
    X, lengths = FAMILIES["chain, Gaussian"][0](None, 6000, rng), [30] * 200
    assert (
        models.HiddenMarkov("auto", emissions="gaussian").fit(X, lengths=lengths).n_components_ == 3
    )


def test_the_score_of_documents_is_a_bound():
    """Oracle: the integral over the proportions of two topics, on a grid."""
    data = make_topics(4000, alpha=[0.6, 0.9], k=2, length=12)
    model = models.LatentDirichlet(2, alpha0=1.5).fit(data.X)
    few = data.X[:40]
    h = (np.arange(20_000) + 0.5) / 20_000
    words = 0.999 * model.topics_ + 0.001 / model.topics_.shape[1]  # no word is impossible
    laws = np.log(np.column_stack([h, 1 - h]) @ words)
    a, b = model.alpha_
    prior = gammaln(a + b) - gammaln(a) - gammaln(b) + (a - 1) * np.log(h) + (b - 1) * np.log(1 - h)
    exact = np.log(np.exp(few @ laws.T + prior).mean(axis=1))
    bound = model.score_samples(few)
    assert (bound <= exact + 1e-3).all()
    assert np.mean(exact - bound) < 0.5
    assert model.score(few) == pytest.approx(bound.mean())
    assert model.perplexity(few) == pytest.approx(np.exp(-bound.sum() / few.sum()))


def test_the_score_of_views_is_the_density():
    """Oracle: scipy's normal densities."""
    from scipy import stats

    X = FAMILIES["views"][0](None, 3000, np.random.default_rng(0))
    model = models.MultiView(3).fit(X)
    joint = np.log(model.weights_) + sum(
        stats.norm.logpdf(x[:, None], means, np.sqrt(variances)).sum(axis=2)
        for x, means, variances in zip(X, model.means_, model.variances_, strict=True)
    )
    np.testing.assert_allclose(
        model.score(X), np.logaddexp.reduce(joint, axis=1).mean(), rtol=1e-10
    )


@pytest.mark.parametrize("name", ["MultiView", "SingleTopic", "LatentDirichlet"])
def test_draws_are_of_the_model(name):
    model = getattr(models, name)(3).fit(DATA[name](np.random.default_rng(1)))
    drawn, hidden = model.sample(20_000)
    again = getattr(models, name)(3, random_state=0).fit(drawn)
    if name == "MultiView":
        assert [len(x) for x in drawn] == [20_000] * 3
        assert hidden.max() == 2
        apart = np.linalg.norm(again.means_[1][:, None] - model.means_[1], axis=2).min(axis=0)
        assert apart.max() < 0.3
    else:
        assert (drawn.sum(axis=1) == 100).all()
        assert len(hidden) == 20_000
        apart = np.abs(again.topics_[:, None] - model.topics_).sum(axis=2).min(axis=0)
        assert apart.max() < 0.15


def test_negative_variances_of_states_are_refused_or_refined():
    """Steps of plus and minus one, modulo five, are no Gaussian states."""
    X = np.random.default_rng(38).choice([-1.0, 1.0], size=(300, 2)).cumsum(axis=0) % 5
    moments = models.HiddenMarkov(3, emissions="gaussian", refine=None)
    with pytest.raises(karat.InputError, match="no model has negative ones"):
        moments.fit(X)
    with pytest.raises(karat.InputError, match="no model has negative ones"):
        models.HiddenMarkov(3, emissions="gaussian").fit(X, sample_weight=np.ones(len(X)))
    core = karat.coreset(X, problem=problems.HiddenMarkov(3, "gaussian"))
    with pytest.raises(karat.InputError, match="Or continue with EM on rows"):
        models.HiddenMarkov(3, emissions="gaussian").fit_coreset(core)
    pytest.importorskip("hmmlearn")
    with pytest.warns(models.RecoveryWarning, match="The parameters are those of EM on all rows"):
        models.HiddenMarkov(3, emissions="gaussian").fit(X)
    with pytest.warns(models.RecoveryWarning, match="came out as .* no model has negative ones"):
        model = models.HiddenMarkov(3, emissions="gaussian", refine="diag").fit(X)
    assert np.diagonal(model.covars_, axis1=-2, axis2=-1).min() > 1e-5
