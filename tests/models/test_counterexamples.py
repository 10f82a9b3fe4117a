"""Where the paper's statements fail, kept as tests."""

from dataclasses import replace

import numpy as np
import pytest
from latent_data import make_chain, make_mixture, make_sources
from scipy import sparse

import karat
from karat import models, problems
from karat.core.construct import read_sample
from karat.problems.latent.whiten import standardise, whiten


def rank(features):
    scaled = features / np.linalg.norm(features, axis=0)
    s = np.linalg.svd(scaled, compute_uv=False)
    return int(np.sum(s > 1e-10 * s[0]))


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
def test_tensor_mode_without_its_maps_gives_other_parameters():
    X = make_mixture().X
    full = models.GaussianMixture(4).fit(X)
    core = karat.coreset(X, problem=problems.GaussianMixture(4))
    np.testing.assert_allclose(
        models.GaussianMixture(4).fit_coreset(core).covariances_, full.covariances_, rtol=1e-9
    )
    alone = models.GaussianMixture(4).fit_coreset(replace(core, maps=None))
    assert abs(alone.covariances_[0] / full.covariances_[0] - 1) > 0.1
    assert np.abs(np.sort(alone.weights_) - np.sort(full.weights_)).max() > 1e-3


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
def test_fewer_rows_than_columns_have_no_variance_left():
    """With 10 rows in 30 dimensions the covariance is singular: the paper's claim can only mean
    stored maps.
    """
    X = make_mixture(20_000, 30, 3).X
    core = karat.coreset(X, problem=problems.GaussianMixture(3))
    assert len(core) == 10
    smallest = np.linalg.eigvalsh(np.cov(core.X.T, aweights=core.weights))[0]
    assert abs(smallest) < 1e-10
    assert models.GaussianMixture(3).fit_coreset(core).covariances_[0] > 0.7


def test_unsymmetrised_chain_tensors_have_rank_k_cubed():
    data = make_chain(20_000)
    problem = problems.HiddenMarkov(3)
    sample, _ = read_sample(data.X, problem, None, None)
    maps = problem.maps(sample)
    c = problem.reader(maps, "tensor")(*(view[np.arange(3000)] for view in sample.views))
    z1, z2, z3 = c[:, :3], c[:, 3:6], c[:, 6:9]
    assert rank(np.einsum("ni,nj,nl->nijl", z1, z2, z3).reshape(len(c), -1)) == 27
    kernel = problem.known_kernel(maps)
    assert rank(kernel.features(np.column_stack([np.ones(len(c)), c]))) == 10 + 1


def test_rademacher_source_lowers_the_rank():
    data = make_sources(5000)
    assert len(karat.coreset(data.X, problem=problems.ICA(4, "moments"))) == 70
    H = data.H.copy()
    H[:, 0] = np.sign(np.random.default_rng(0).standard_normal(len(H)))
    core = karat.coreset(H @ data.A.T, problem=problems.ICA(4, "moments"))
    assert core.certificate.bound == 70
    assert len(core) == core.certificate.rank == 55


def test_whitening_of_the_paper_squares_in_place_of_inverting():
    matrix = np.cov(make_mixture().X.T)
    white = whiten(matrix, 3, "components")
    np.testing.assert_allclose(white.M.T @ matrix @ white.M, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(white.B.T @ white.M, np.eye(3), atol=1e-12)
    root = white.M * white.spectrum[:3]  # U sqrt(Sigma), the paper's map
    np.testing.assert_allclose(
        root.T @ matrix @ root, np.diag(white.spectrum[:3] ** 2), rtol=1e-10, atol=1e-8
    )


def test_merging_two_halves_would_not_be_exact():
    """Mode C coresets of two halves, put together, do not have the tensor of the whole."""
    X = make_mixture().X
    X = X[np.argsort(X[:, 0])]
    problem = problems.GaussianMixture(4, keep="all")
    halves = [karat.coreset(part, problem=problem) for part in (X[:10_000], X[10_000:])]
    whole, _ = read_sample(X, problem, None, None)
    joined, _ = read_sample(
        np.vstack([h.X for h in halves]), problem, np.concatenate([h.weights for h in halves]), None
    )
    maps = problem.maps(whole)
    one, two = problem.statistics(whole, maps)["tensor"], problem.statistics(joined, maps)["tensor"]
    assert np.linalg.norm(one - two) > 1e-3 * np.linalg.norm(one)


def test_sparse_input_of_a_mixture_is_read_dense():
    X = make_mixture(3000, 6, 3).X
    one, two = (models.GaussianMixture(3).fit(x) for x in (X, sparse.csr_matrix(X)))
    np.testing.assert_allclose(one.means_, two.means_, rtol=1e-10)


def test_standardise_leaves_directions_of_no_variance():
    z = np.column_stack([np.arange(5.0), np.ones(5)])
    centre, axes = standardise(z, None)
    values = (z - centre) @ axes
    assert np.isfinite(values).all()
    np.testing.assert_allclose(np.sort(values.var(axis=0)), [0, 1], atol=1e-12)
