"""The plane of a projection is that of the two largest eigenvectors of the correlation matrix."""

import numpy as np
import pytest

from karat.report.one_coreset import Plane


def correlated(n=2000, d=6):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) * 10.0 ** np.arange(d) + 100.0


@pytest.mark.parametrize("weighted", [False, True])
def test_plane_against_eigenvectors(weighted):
    rows = correlated()
    weights = np.random.default_rng(1).uniform(0.1, 2, len(rows)) if weighted else None
    covariance = np.cov(rows.T, aweights=weights)
    scale = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    plane = Plane.fit(rows, weights)
    np.testing.assert_allclose(plane.share, values[::-1][:2] / values.sum(), rtol=1e-8)
    for mine, theirs in zip(plane.axes.T, vectors.T[::-1][:2], strict=True):
        assert abs(mine @ theirs) == pytest.approx(1.0, abs=1e-8)


def test_coordinates_have_the_variance_they_claim():
    rows = correlated()
    plane = Plane.fit(rows)
    np.testing.assert_allclose(plane(rows).var(axis=0), plane.share * rows.shape[1], rtol=1e-8)
    np.testing.assert_allclose(plane(rows).mean(axis=0), 0, atol=1e-8)


def test_constant_columns_lines_and_single_rows():
    rng = np.random.default_rng(0)
    constant = np.column_stack([np.full(50, 7.3), rng.standard_normal(50)])
    plane = Plane.fit(constant)
    assert plane.share.tolist() == [1.0, 0.0]
    assert not plane(constant)[:, 1].any()
    assert np.isfinite(Plane.fit(np.ones((1, 3)))(np.ones((1, 3)))).all()
