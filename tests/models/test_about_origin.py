"""``centred=False``: the method of the paper's reference, to the letter, beside a plain NumPy
version of it.
"""

import os
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import pytest
from latent_data import make_mixture
from sklearn.base import clone

import karat
from karat import models, problems

pytestmark = pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")


def second_moments(X, k):
    """Whitening M, its dual B and the variance, about the origin."""
    sigma2 = np.linalg.eigvalsh(np.cov(X.T, bias=True))[0]
    values, vectors = np.linalg.eigh(X.T @ X / len(X) - sigma2 * np.eye(X.shape[1]))
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    return vectors / np.sqrt(values), vectors * np.sqrt(values), sigma2


def by_numpy(X, k, seed, starts=20, steps=400):
    """Anandkumar et al. 2014, written down again: the means in the order they are found."""
    M, B, sigma2 = second_moments(X, k)
    z, G = X @ M, M.T @ M
    T = np.einsum("ni,nj,nl->ijl", z, z, z, optimize=True) / len(X)
    noise = np.einsum("i,jl->ijl", sigma2 * z.mean(axis=0), G)
    T -= noise + noise.transpose(1, 0, 2) + noise.transpose(1, 2, 0)
    rng, means = np.random.default_rng(seed), []
    for _ in range(k):
        found = []
        for _ in range(starts):
            v = rng.standard_normal(k)
            for _ in range(steps):
                v = T @ v @ v
                v /= np.linalg.norm(v)
            found.append((T @ v @ v @ v, v))
        value, v = max(found, key=lambda pair: pair[0])
        means.append(value * B @ v)
        T = T - value * np.einsum("i,j,l->ijl", v, v, v)
    return np.array(means)


def off_model(seed=3):
    """Rows on the sphere: no mixture of spherical Gaussians, so that deflation shows."""
    X = make_mixture(3000, 6, 3, seed=seed).X ** 2
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def literal(k, **given):
    return models.GaussianMixture(k, centred=False, **given)


@pytest.mark.parametrize("X", [make_mixture(5000, 6, 3).X, off_model()], ids=["model", "sphere"])
@pytest.mark.parametrize("seed", [0, 1])
def test_means_are_those_of_the_method_written_in_numpy(X, seed):
    found = literal(3, n_init=10, random_state=seed).fit(X).means_
    expected = by_numpy(X, 3, seed + 100)
    apart = np.linalg.norm(found[:, None] - expected[None], axis=2)
    assert apart.min(axis=1).max() <= 1e-7 * np.abs(expected).max()  # each is one of them
    assert len(set(apart.argmin(axis=1))) == 3


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("total_weight", [True, False])
def test_sizes_are_the_papers(k, total_weight):
    X = make_mixture(2000, 6, 4).X
    problem = problems.GaussianMixture(k, centred=False, total_weight=total_weight)
    core = karat.coreset(X, problem=problem)
    assert len(core) == comb(k + 2, 3) + total_weight == problem.width(6)
    assert core.certificate.ok
    assert core.verify(X).ok
    if total_weight:
        assert core.weights.sum() == pytest.approx(len(X), rel=1e-12)


def test_the_coreset_keeps_the_third_moments():
    """All contractions of the tensor, computed in long double from all rows and from the kept."""
    X = off_model()
    core = karat.coreset(X, problem=problems.GaussianMixture(3, centred=False))
    M, _, sigma2 = second_moments(X, 3)
    np.testing.assert_allclose(core.maps["sigma2"], sigma2, rtol=1e-9)
    G = M.T @ M

    def moments(rows, weights):
        z = (rows @ M).astype(np.longdouble)
        total = weights @ z
        for i, j, m in combinations_with_replacement(range(3), 3):
            cube = weights @ (z[:, i] * z[:, j] * z[:, m])
            less = total[i] * G[j, m] + total[j] * G[i, m] + total[m] * G[i, j]
            yield float(cube - sigma2 * less)

    full = np.array(list(moments(X, np.ones(len(X)))))
    kept = np.array(list(moments(core.X, core.weights)))
    np.testing.assert_allclose(kept, full, rtol=0, atol=1e-9 * np.abs(full).max())


def test_weighted_rows_are_repeated_rows():
    X = make_mixture(800, 5, 3).X
    times = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = literal(3).fit(X, sample_weight=times.astype(float))
    repeated = literal(3).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_a_saved_coreset_is_of_the_same_method(tmp_path, suffix):
    X = off_model()
    core = karat.coreset(X, problem=problems.GaussianMixture(3, centred=False))
    path = tmp_path / f"core.{suffix}"
    core.save(path)
    again = karat.load(path)
    assert again.problem == core.problem
    few, full = literal(3).fit_coreset(again), literal(3).fit(X)
    np.testing.assert_allclose(few.means_, full.means_, atol=1e-10)
    with pytest.raises(karat.NotExactError, match="centred=False"):
        models.GaussianMixture(3).fit_coreset(again)
    with pytest.raises(karat.NotExactError, match="centred=False"):
        literal(3).fit_coreset(karat.coreset(X, problem=problems.GaussianMixture(3)))


def test_files_read_in_chunks(tmp_path):
    frame = pytest.importorskip("pandas").DataFrame(off_model())
    path = tmp_path / "rows.parquet"
    frame.rename(columns=str).to_parquet(path)
    problem = problems.GaussianMixture(3, centred=False)
    core = karat.coreset_files(path, problem=problem)
    assert len(core) == 11
    few, full = literal(3).fit_coreset(core), literal(3).fit(frame.to_numpy())
    np.testing.assert_allclose(few.means_, full.means_, atol=1e-9)


def test_the_answer_depends_on_the_origin_and_that_about_the_mean_does_not():
    """Why it is not the default."""
    X = off_model()
    for centred, equal in ((False, False), (True, True)):
        learner = models.GaussianMixture(3, centred=centred)
        here, there = (clone(learner).fit(X + shift).means_ - shift for shift in (0.0, 1.0))
        apart = np.linalg.norm(here[:, None] - there[None], axis=2).min(axis=1).max()
        assert (apart < 1e-8) == equal


def test_what_it_cannot_do_is_said():
    X = make_mixture(500, 4, 3).X
    with pytest.raises(karat.InputError, match="centred=False is the paper's method"):
        problems.GaussianMixture(3, "spherical", centred=False)
    with pytest.raises(karat.InputError, match="centred=False is the paper's method"):
        problems.GaussianMixture(3, keep="all", centred=False)
    with pytest.raises(karat.InputError, match="n_init is for centred=False"):
        models.GaussianMixture(3, n_init=5).fit(X)
    with pytest.raises(karat.InputError, match="n_init must be an integer of at least 1, not 0"):
        literal(3, n_init=0).fit(X)
    with pytest.raises(karat.InputError, match="5 components cannot be told apart in 4 columns"):
        literal(5).fit(X)


def test_em_can_go_on_from_it():
    data = make_mixture(2000, 4, 3)
    refined = literal(3, refine="spherical").fit(data.X)
    assert refined.score(data.X) >= literal(3).fit(data.X).score(data.X) - 1e-6


@pytest.mark.skipif(not os.environ.get("KARAT_DATA"), reason="KARAT_DATA names no folder of data")
def test_credit_card_to_the_printed_digits():
    """Table 2 of the paper, for each of 20 seeds."""
    from paper.data import Source
    from paper.measure import kmeans_loss
    from paper.mixtures import unit_rows

    X = unit_rows(Source(network=False).credit_card())
    core = karat.coreset(X, problem=problems.GaussianMixture(4, centred=False))
    assert len(core) == 21
    for seed in range(20):
        given = {"n_init": 10, "random_state": seed}
        full = kmeans_loss(X, literal(4, **given).fit(X).means_)
        few = kmeans_loss(X, literal(4, **given).fit_coreset(core).means_)
        assert f"{full:.2f}" == f"{few:.2f}" == "1025.93"
        assert abs(full - few) <= 1e-10 * full
    assert kmeans_loss(X, by_numpy(X, 4, 0)) == pytest.approx(full, rel=1e-8)
