"""What users of such models expect."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latent_data import make_chain, make_mixture, make_sources, make_topics
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import karat
from karat import models, problems
from karat.errors import InputError
from karat.models.tensor import contract, decompose, rank_one


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.sampled_from([3, 4]), st.integers(0, 2**32 - 1))
def test_power_method_finds_every_component(k, order, seed):
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((k, k)))[0]
    values = rng.uniform(1, 3, size=k) * (1 if order == 3 else rng.choice([-1, 1], size=k))
    tensor = sum(rank_one(x, v, order) for x, v in zip(values, V, strict=True))
    found, vectors, report = decompose(tensor, np.ones(k))
    by_size = np.argsort(-np.abs(values))
    np.testing.assert_allclose(found, values[by_size], atol=1e-8)
    cosine = np.sum(vectors * V[by_size], axis=1)
    np.testing.assert_allclose(np.abs(cosine), 1, atol=1e-8)
    if order == 3:
        assert (cosine > 0).all()
    assert report.converged
    assert report.tensor_residual < 1e-10
    assert report.off_diagonal < 1e-7


def test_answer_does_not_depend_on_rounding_of_the_tensor():
    """Two nearly equal eigenvalues and noise: the order of deflation must not decide the
    parameters.
    """
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    tensor = sum(rank_one(x, v, 3) for x, v in zip([2, 2 + 1e-13, 1.5, 1.5], V, strict=True))
    noise = rng.standard_normal((4, 4, 4))
    noise = (
        sum(
            noise.transpose(p)
            for p in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
        )
        / 6
    )
    tensor = tensor + 0.02 * noise
    wobble = 1e-14 * sum(rank_one(1.0, v, 3) for v in rng.standard_normal((3, 4)))
    one, two = (decompose(t, np.ones(4)) for t in (tensor, tensor + wobble))
    assert one[2].refined
    nearest = np.abs(one[1] @ two[1].T).argmax(axis=1)
    assert sorted(nearest) == [0, 1, 2, 3]
    np.testing.assert_allclose(one[1], two[1][nearest], atol=1e-11)


def test_answer_does_not_depend_on_the_order_of_deflation():
    """Two components that mirror each other tie exactly; in rotated coordinates the starts meet the
    other one first.
    """
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    mirror = np.eye(5) - np.outer(V[0] - V[1], V[0] - V[1])  # swaps the first two
    noise = rng.standard_normal((4, 5))
    tensor = sum(rank_one(x, v, 3) for x, v in zip([2.5, 2.5, 2, 1.7, 1.4], V, strict=True))
    tensor = tensor + sum(rank_one(0.02, v, 3) for v in np.vstack([noise, noise @ mirror]))
    _, vectors, report = decompose(tensor, np.ones(5))
    assert report.refined
    for seed in range(8):
        Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((5, 5)))[0]
        _, rotated, _ = decompose(np.einsum("ijl,ia,jb,lc->abc", tensor, Q, Q, Q), np.ones(5))
        back = rotated @ Q.T
        np.testing.assert_allclose(back[(back @ vectors.T).argmax(axis=0)], vectors, atol=1e-11)


def test_contract_is_the_multilinear_form():
    rng = np.random.default_rng(0)
    T, v = rng.standard_normal((3, 3, 3, 3)), rng.standard_normal((2, 3))
    np.testing.assert_allclose(
        contract(T, v, 3)[1], np.einsum("ijlm,j,l,m->i", T, v[1], v[1], v[1])
    )
    np.testing.assert_allclose(
        contract(T, v, 2)[1].reshape(3, 3), np.einsum("ijlm,l,m->ij", T, v[1], v[1])
    )


def test_condition_predicts_how_errors_grow():
    rng = np.random.default_rng(1)
    V = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    tensor = sum(rank_one(x, v, 3) for x, v in zip([3.0, 2.0, 0.05], V, strict=True))
    _, vectors, report = decompose(tensor, np.ones(3))
    wobble = rank_one(1e-8, np.linalg.qr(rng.standard_normal((3, 3)))[0][0], 3)
    _, moved, _ = decompose(tensor + wobble, np.ones(3))
    change = np.linalg.norm(moved - vectors, axis=1).max()
    relative = np.linalg.norm(wobble) / np.linalg.norm(tensor)
    assert (
        0.01 * report.tensor_condition * relative < change < 2 * report.tensor_condition * relative
    )


def test_mixture_like_any_mixture():
    data = make_mixture(spherical=True)
    model = models.GaussianMixture(4, variances="spherical").fit(data.X)
    rows = data.X[:50]
    parts = [
        w * multivariate_normal(m, s * np.eye(8)).pdf(rows)
        for w, m, s in zip(model.weights_, model.means_, model.covariances_, strict=True)
    ]
    joint = np.column_stack(parts)
    np.testing.assert_allclose(
        model.predict_proba(rows), joint / joint.sum(axis=1, keepdims=True), atol=1e-9
    )
    np.testing.assert_allclose(model.score(rows), np.log(joint.sum(axis=1)).mean(), rtol=1e-9)
    assert (model.predict(rows) == joint.argmax(axis=1)).all()
    drawn, labels = model.sample(40_000)
    np.testing.assert_allclose(drawn[labels == 1].mean(axis=0), model.means_[1], atol=0.06)
    np.testing.assert_allclose(np.bincount(labels) / 40_000, model.weights_, atol=0.02)
    again = models.GaussianMixture("auto", variances="spherical").fit(data.X)
    assert again.n_components_ == 4
    core = karat.coreset(data.X, problem=problems.GaussianMixture(4, "spherical"))
    np.testing.assert_allclose(clone(again).fit_coreset(core).means_, again.means_, rtol=1e-9)


def test_mixture_becomes_scikit_learns_and_starts_its_em():
    data = make_mixture()
    model = models.GaussianMixture(4).fit(data.X)
    peer = model.to_sklearn()
    np.testing.assert_allclose(peer.score(data.X), model.score(data.X), rtol=1e-9)
    assert (peer.predict(data.X) == model.predict(data.X)).all()
    better = peer.fit(data.X)  # EM, on the full data: a separate step
    assert better.score(data.X) >= model.score(data.X) - 1e-9
    assert better.n_iter_ < 20


def test_single_topics():
    data = make_topics(length=40)
    model = models.SingleTopic(4).fit(data.X)
    shares = model.transform(data.X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    nearest = np.abs(model.topics_[:, None] - data.topics[None]).sum(axis=2).argmin(axis=1)
    assert sorted(nearest) == [0, 1, 2, 3]
    assert np.mean(nearest[model.predict(data.X)] == data.h) > 0.95
    vocabulary = [f"w{i}" for i in range(14)]
    top = model.top_words(vocabulary, 3)
    assert top[0][0] == f"w{model.topics_[0].argmax()}"
    assert len(top) == 4
    assert len(top[0]) == 3
    assert model.top_words(n_words=1)[1] == [int(model.topics_[1].argmax())]
    with pytest.raises(InputError, match="vocabulary has 2 words"):
        model.top_words(["a", "b"])
    np.testing.assert_allclose(
        models.SingleTopic(4).fit(sparse.csr_matrix(data.X)).topics_, model.topics_, rtol=1e-9
    )


def test_dirichlet_proportions_match_scikit_learns():
    data = make_topics(alpha=[0.2, 0.3, 0.4, 0.6], length=60)
    model = models.LatentDirichlet(4, alpha0=1.5).fit(data.X)
    np.testing.assert_allclose(model.alpha_.sum(), 1.5, rtol=0.1)
    shares = model.transform(data.X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    peer = model.to_sklearn()
    theirs = peer.transform(data.X)
    assert np.abs(shares - theirs).mean() < 0.02
    assert peer.perplexity(data.X) < 14
    peer.partial_fit(data.X)  # variational Bayes goes on from the topics: a separate step
    assert np.isfinite(peer.components_).all()


def test_chain_decodes_like_an_enumeration_of_all_paths():
    data = make_chain()
    model = models.HiddenMarkov(3).fit(data.X)
    X = data.X[:6]
    best, total = (-np.inf, None), 0.0
    for path in product(range(3), repeat=6):
        chance = model.startprob_[path[0]] * np.prod(
            [model.transmat_[a, b] for a, b in pairwise(path)]
        )
        chance *= np.prod([model.emissionprob_[s, x] for s, x in zip(path, X, strict=True)])
        total += chance
        best = max(best, (np.log(max(chance, 1e-300)), path))
    log_chance, states = model.decode(X)
    np.testing.assert_allclose(log_chance, best[0], rtol=1e-4)
    assert tuple(states) == best[1]
    np.testing.assert_allclose(model.score(X), np.log(total), rtol=1e-4)
    twice = np.concatenate([X, X])
    np.testing.assert_allclose(model.score(twice, lengths=[6, 6]), 2 * model.score(X))
    assert (model.predict(twice, lengths=[6, 6]) == np.concatenate([states, states])).all()
    with pytest.raises(InputError, match="symbol 9"):
        model.predict([9, 0, 1])
    with pytest.raises(InputError, match="lengths add up to 5"):
        model.decode(X, lengths=[5])


@pytest.mark.parametrize("gaussian", [False, True])
def test_chain_becomes_hmmlearns(gaussian):
    pytest.importorskip("hmmlearn")
    data = make_chain(lengths=[500] * 40, gaussian=gaussian)
    model = models.HiddenMarkov(3, emissions="gaussian" if gaussian else "categorical")
    model.fit(data.X, lengths=data.lengths)
    peer = model.to_hmmlearn()
    X = data.X[:500].reshape(500, -1)
    np.testing.assert_allclose(peer.score(X), model.score(X), rtol=0.02)  # smoothed by 1 %
    assert np.mean(peer.predict(X) == model.predict(X)) > 0.97
    assert peer.transmat_.min() > 0
    drawn, states = model.sample(5000)
    assert drawn.shape == (5000, X.shape[1])
    law = model.emissionprob_[1] if not gaussian else None
    if law is not None:
        np.testing.assert_allclose(
            np.bincount(drawn[states == 1, 0], minlength=7) / (states == 1).sum(), law, atol=0.05
        )
    peer.n_iter = 2
    before = peer.score(X)
    assert peer.fit(X).score(X) >= before - 1e-6  # EM from here: a separate step


def test_first_law_of_many_sequences():
    data = make_chain(lengths=[5] * 8000)
    model = models.HiddenMarkov(3, start="first").fit(data.X, lengths=data.lengths)
    order = np.abs(model.emissionprob_[:, None] - data.emissions[None]).sum(axis=2).argmin(axis=1)
    np.testing.assert_allclose(model.startprob_, data.start[order], atol=0.12)
    core = karat.coreset(data.X, problem=problems.HiddenMarkov(3), lengths=data.lengths)
    again = models.HiddenMarkov(3, start="first").fit_coreset(core)
    np.testing.assert_allclose(again.startprob_, model.startprob_, atol=1e-9)


# two of four sources are not a model
@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
def test_sources_and_back():
    data = make_sources()
    model = models.ICA(4).fit(data.X)
    S = model.transform(data.X)
    np.testing.assert_allclose(model.inverse_transform(S), data.X, atol=1e-9)
    match = np.abs(np.corrcoef(S.T, data.H.T)[:4, 4:])
    assert (match.max(axis=1) > 0.99).all()
    np.testing.assert_allclose(model.to_sklearn().transform(data.X), S, atol=1e-9)
    two = models.ICA(2).fit(data.X)
    assert two.transform(data.X).shape == (20_000, 2)


def test_estimators_follow_scikit_learn(case):
    model = case.learner()
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        case.learner()._check_fitted()
    assert case.full.recovery_.condition >= 1
    assert "converged" in str(case.full.recovery_)
    assert case.full.recovery_.to_dict()["condition"] == case.full.recovery_.condition


def test_pipeline_with_weights():
    X = make_mixture(3000, 6, 3).X
    pipeline = make_pipeline(FunctionTransformer(lambda x: x * 2.0), models.GaussianMixture(3))
    pipeline.fit(X, gaussianmixture__sample_weight=np.ones(3000))
    np.testing.assert_allclose(
        pipeline[-1].means_, 2 * models.GaussianMixture(3).fit(X).means_, rtol=1e-8
    )


def test_columns_must_match():
    model = models.GaussianMixture(3).fit(make_mixture(3000, 6, 3).X)
    with pytest.raises(ValueError, match="X has 5 features, but GaussianMixture is expecting 6"):
        model.predict(np.zeros((2, 5)))
