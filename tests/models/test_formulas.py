"""The moment formulas, on populations: distributions listed point by point with their
probabilities, and no sampling at all.

Gaussians are replaced by their three-point Gauss-Hermite rule, which has the same moments up to
degree five.  A fit with the probabilities as weights must then find the truth to rounding.
"""

from itertools import permutations, product
from math import gamma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from karat import models, problems
from karat.engine.kernel import monomials
from karat.problems.latent.plain import gram_in_place
from karat.problems.latent.terms import Cubes, Cubic, Power, Symmetric, TermKernel, bracket, expand
from karat.problems.latent.topics import bracket_rows

# a population has no sampling noise, but few points: the warnings about noise do not apply
pytestmark = pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
NODES, CHANCES = np.array([-np.sqrt(3), 0.0, np.sqrt(3)]), np.array([1, 4, 1]) / 6


def gaussian(mean, variance):
    """Points and probabilities with the moments of N(mean, variance I) up to degree five."""
    points = np.array(list(product(NODES, repeat=len(mean)))) * np.sqrt(variance) + mean
    return points, np.array([np.prod(c) for c in product(CHANCES, repeat=len(mean))])


def matched(found, truth):
    """The rows of ``found`` in the order of ``truth``."""
    cost = np.square(found[:, None] - truth[None]).sum(axis=2)
    order = min(
        permutations(range(len(truth))), key=lambda p: sum(cost[p[i], i] for i in range(len(truth)))
    )
    return list(order)


MEANS = np.array([[2.0, 0.5, -1.0, 0.3], [-1.0, 1.5, 0.4, 1.0], [0.2, -2.0, 1.0, -0.5]])
WEIGHTS = np.array([0.2, 0.3, 0.5])


@pytest.mark.parametrize("variances", [[0.7, 0.7, 0.7], [0.3, 0.7, 1.1]])
def test_gaussian_mixture(variances):
    own = len(set(variances)) > 1
    points = [gaussian(m, s) for m, s in zip(MEANS, variances, strict=True)]
    X = np.vstack([p for p, _ in points])
    u = np.concatenate([g * c for g, (_, c) in zip(WEIGHTS, points, strict=True)])
    model = models.GaussianMixture(3, variances="spherical" if own else "shared").fit(
        X, sample_weight=u
    )
    order = matched(model.means_, MEANS)
    np.testing.assert_allclose(model.means_[order], MEANS, atol=1e-10)
    np.testing.assert_allclose(model.weights_[order], WEIGHTS, atol=1e-10)
    np.testing.assert_allclose(model.covariances_[order], variances, atol=1e-10)
    np.testing.assert_allclose(model.mass_, 1.0, atol=1e-10)
    assert model.recovery_.tensor_residual < 1e-10


TOPICS = np.array(
    [[0.5, 0.3, 0.1, 0.05, 0.05], [0.1, 0.1, 0.6, 0.1, 0.1], [0.05, 0.25, 0.05, 0.25, 0.4]]
)


def all_triples(joint):
    """Every document of three words, with its probability."""
    d = len(joint)
    X = np.zeros((d**3, d))
    for row, words in enumerate(product(range(d), repeat=3)):
        np.add.at(X[row], list(words), 1)
    return X, joint.ravel()


def test_single_topic():
    X, u = all_triples(np.einsum("j,ja,jb,jc->abc", WEIGHTS, TOPICS, TOPICS, TOPICS))
    model = models.SingleTopic(3).fit(X, sample_weight=u)
    order = matched(model.topics_, TOPICS)
    np.testing.assert_allclose(model.topics_[order], TOPICS, atol=1e-10)
    np.testing.assert_allclose(model.weights_[order], WEIGHTS, atol=1e-10)


def test_latent_dirichlet():
    alpha = np.array([0.4, 0.5, 0.9])
    a0 = alpha.sum()
    # E[theta_i theta_j theta_l] = Gamma(a0)/Gamma(a0+3) prod Gamma(alpha+m)/Gamma(alpha)
    moment = np.empty((3, 3, 3))
    for t in product(range(3), repeat=3):
        rising = np.prod([gamma(alpha[j] + t.count(j)) / gamma(alpha[j]) for j in range(3)])
        moment[t] = rising * gamma(a0) / gamma(a0 + 3)
    X, u = all_triples(np.einsum("ijl,ia,jb,lc->abc", moment, TOPICS, TOPICS, TOPICS))
    model = models.LatentDirichlet(3, alpha0=a0).fit(X, sample_weight=u)
    order = matched(model.topics_, TOPICS)
    np.testing.assert_allclose(model.topics_[order], TOPICS, atol=1e-9)
    np.testing.assert_allclose(model.alpha_[order], alpha, atol=1e-9)


START = np.array([0.2, 0.3, 0.5])
STEPS = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.3, 0.1, 0.6]])


def test_categorical_chain():
    joint = np.einsum("i,ij,jl,ia,jb,lc->abc", START, STEPS, STEPS, TOPICS, TOPICS, TOPICS)
    X = np.array(list(product(range(5), repeat=3))).ravel()
    u = np.repeat(joint.ravel(), 3)
    model = models.HiddenMarkov(3).fit(X, lengths=[3] * 125, sample_weight=u)
    order = matched(model.emissionprob_, TOPICS)
    np.testing.assert_allclose(model.emissionprob_[order], TOPICS, atol=1e-9)
    np.testing.assert_allclose(model.transmat_[np.ix_(order, order)], STEPS, atol=1e-9)
    np.testing.assert_allclose(model.startprob_[order], START, atol=1e-9)
    first = models.HiddenMarkov(3, start="first").fit(X, lengths=[3] * 125, sample_weight=u)
    np.testing.assert_allclose(
        first.startprob_[matched(first.emissionprob_, TOPICS)], START, atol=1e-9
    )


def test_gaussian_chain():
    means, variances = np.array([[1.5, 0.3], [-0.5, 2.0]]), np.array([0.3, 0.8])
    start, steps = np.array([0.4, 0.6]), np.array([[0.8, 0.2], [0.3, 0.7]])
    emit = [gaussian(m, s) for m, s in zip(means, variances, strict=True)]
    X, u = [], []
    for h in product(range(2), repeat=3):
        chance = start[h[0]] * steps[h[0], h[1]] * steps[h[1], h[2]]
        for ends in product(range(9), repeat=3):
            X += [emit[s][0][e] for s, e in zip(h, ends, strict=True)]
            u += [chance * np.prod([emit[s][1][e] for s, e in zip(h, ends, strict=True)])] * 3
    model = models.HiddenMarkov(2, emissions="gaussian").fit(
        np.array(X), lengths=[3] * (len(X) // 3), sample_weight=u
    )
    order = matched(model.means_, means)
    np.testing.assert_allclose(model.means_[order], means, atol=1e-9)
    np.testing.assert_allclose(model.covars_[order], variances, atol=1e-9)
    np.testing.assert_allclose(model.transmat_[np.ix_(order, order)], steps, atol=1e-9)
    np.testing.assert_allclose(model.startprob_[order], start, atol=1e-9)


def test_three_views():
    rng = np.random.default_rng(0)
    laws = [rng.dirichlet(np.ones(d), size=3) for d in (4, 5, 3)]
    joint = np.einsum("j,ja,jb,jc->abc", WEIGHTS, *laws)
    cells = np.array(list(product(*(range(d) for d in joint.shape))))
    X = tuple(np.eye(d)[cells[:, a]] for a, d in enumerate(joint.shape))
    model = models.MultiView(3).fit(X, sample_weight=joint.ravel())
    order = matched(model.means_[1], laws[1])
    for means, law in zip(model.means_, laws, strict=True):
        np.testing.assert_allclose(means[order], law, atol=1e-9)
    np.testing.assert_allclose(model.weights_[order], WEIGHTS, atol=1e-9)


def test_independent_sources():
    values = [np.array([-1.0, 0.0, 3.0]), np.array([-1.0, 1.0]), np.array([0.0, 1.0, 2.0, 5.0])]
    chances = [np.array([0.5, 0.3, 0.2]), np.array([0.5, 0.5]), np.array([0.4, 0.3, 0.2, 0.1])]
    H = np.array(list(product(*values)))
    u = np.array([np.prod(c) for c in product(*chances)])
    A = np.random.default_rng(1).standard_normal((3, 3))
    spread = np.sqrt(u @ np.square(H - u @ H))
    model = models.ICA(3).fit(H @ A.T, sample_weight=u)
    truth = (A * spread).T
    truth = truth * np.sign(
        np.take_along_axis(truth, np.abs(truth).argmax(axis=1)[:, None], axis=1)
    )
    np.testing.assert_allclose(model.mixing_.T[matched(model.mixing_.T, truth)], truth, atol=1e-9)


def test_third_moments_of_a_document_by_enumeration():
    """t1~, t2~, t3~ against the mean over all ordered triples of distinct word positions."""
    rng = np.random.default_rng(0)
    d, k, a = 5, 3, 1.3
    M, m1 = rng.standard_normal((d, k)), rng.dirichlet(np.ones(d))
    maps = {"M": M, "m1": m1}
    for _ in range(5):
        words = rng.integers(d, size=6)
        counts = np.bincount(words, minlength=d)[None].astype(float)
        triples = list(permutations(range(6), 3))
        t2 = np.mean(
            [np.einsum("i,j->ij", M[words[p]], M[words[q]]) for p, q, _ in triples], axis=0
        )
        t3 = np.mean([np.einsum("i,j,l->ijl", *(M[words[p]] for p in t)) for t in triples], axis=0)
        mine = problems.SingleTopic(k).reader(maps, "tensor")(csr_array(counts))[0]
        np.testing.assert_allclose(expand(mine, k, 3), t3, atol=1e-12)
        m = M.T @ m1
        less = (
            a
            / (a + 2)
            * (
                np.einsum("i,jl->ijl", m, t2)
                + np.einsum("j,il->ijl", m, t2)
                + np.einsum("l,ij->ijl", m, t2)
            )
        )
        more = 2 * a**2 / ((a + 1) * (a + 2)) * np.einsum("i,j,l->ijl", m, m, m)
        mine = problems.LatentDirichlet(k, a).reader(maps, "tensor")(csr_array(counts))[0]
        np.testing.assert_allclose(expand(mine, k, 3), t3 - less + more, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_terms_are_the_tensors_they_stand_for(k, seed):
    rng = np.random.default_rng(seed)
    z, S, q = rng.standard_normal((3 * k, 7)), rng.standard_normal((k, k)), rng.standard_normal()
    S, z[k - 1] = S + S.T, 1.0  # the constant

    def bracketed(a):
        return sum(
            np.einsum(f"{x},{y}->ijl", a, S) for x, y in (("i", "jl"), ("j", "il"), ("l", "ij"))
        )

    one, two, three = (slice(a * k, (a + 1) * k) for a in range(3))
    np.testing.assert_allclose(
        expand(bracket(S) @ z[one, 0], k, 3), bracketed(z[one, 0]), atol=1e-12
    )
    pairs = S[tuple(monomials(k, 2).indices.T)] * np.sqrt(monomials(k, 2).multinomials)
    np.testing.assert_allclose(
        expand(pairs @ bracket_rows(z[one, 0]), k, 3), bracketed(z[one, 0]), atol=1e-12
    )
    cubic = expand(Cubic("", one, S, float(q)).features(z)[:, 0], k, 3)
    np.testing.assert_allclose(
        cubic, np.einsum("i,j,l->ijl", *[z[one, 0]] * 3) - q * bracketed(z[one, 0]), atol=1e-10
    )
    symmetric = expand(Symmetric("", one, two, three).features(z)[:, 0], k, 3)
    brute = (
        sum(
            np.einsum("i,j,l->ijl", *(z[s, 0] for s in order))
            for order in permutations([one, two, three])
        )
        / 6
    )
    np.testing.assert_allclose(symmetric, brute, atol=1e-12)
    fourth = expand(Power("", one, 4).features(z)[:, 0], k, 4)
    np.testing.assert_allclose(fourth, np.einsum("i,j,l,m->ijlm", *[z[one, 0]] * 4), atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.integers(0, 2**32 - 1))
def test_block_products_give_the_sum_of_the_features(k, weighted, seed):
    rng = np.random.default_rng(seed)
    block = np.column_stack([np.ones(9), rng.standard_normal((9, 3 * k + 1))])
    block[:, k] = 1.0  # the constant
    u = rng.random(9) if weighted else None
    one, two, three = (slice(a * k, (a + 1) * k) for a in range(3))
    terms = [
        Cubic("a", one, np.eye(k), 3 * k),
        Symmetric("b", one, two, three),
        Power("c", two, 4),
        Power("d", three, 2),
    ]
    kernel = TermKernel(terms, 3 * k + 1, 1)
    fitted = kernel.fitted_moments(kernel.statistic(block, u), 9.0)
    direct = (np.ones(9) if u is None else u) @ kernel.features(block)
    np.testing.assert_allclose(fitted.target, direct, atol=1e-11)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.booleans(), st.integers(0, 2**32 - 1))
def test_cubes_with_a_constant_are_those_without(k, weighted, seed):
    rng = np.random.default_rng(seed)
    c = np.vstack(
        [rng.standard_normal((k - 1, 300)), np.ones((1, 300)), rng.standard_normal((1, 300))]
    )
    u, where = rng.random(300) if weighted else None, slice(0, k)
    lifted, plain = Cubes("", where), Power("", where, 3)
    np.testing.assert_array_equal(lifted.features(c), plain.features(c))
    for mine, theirs in zip(lifted.sums(c, u), plain.sums(c, u), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        lifted.moments(lifted.statistic(c, u)), lifted.sums(c, u)[0], rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 3), (8193, 1), (20_001, 25)])
def test_a_table_is_multiplied_where_it_lies(n, d):
    table = 2.0 + np.random.default_rng(n).standard_normal((n, d))
    whole = np.column_stack([np.ones(n), table])
    np.testing.assert_allclose(gram_in_place(table), whole.T @ whole, rtol=1e-12)


@pytest.mark.parametrize("place", [0.0, 2.9, 3.1, 1e6])
def test_covariances_do_not_depend_on_how_the_table_is_read(place):
    table = place + np.random.default_rng(0).standard_normal((30_000, 4))
    problem = problems.GaussianMixture(1)
    for form in (table, np.asfortranarray(table)):
        sums = problem.sums(problem.sample((form,), None))
        np.testing.assert_allclose(
            sums["scatter"] / 30_000, np.cov(table.T, bias=True), atol=2e-11 * max(1.0, place / 1e5)
        )
        np.testing.assert_allclose(sums["mean"], table.mean(axis=0), rtol=1e-13, atol=1e-13)
