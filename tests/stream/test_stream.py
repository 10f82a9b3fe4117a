"""Streams start their sum afresh only when they must: each time they spend some of the second term
of the claim.
"""

from __future__ import annotations

import numpy as np

import karat
from karat import problems
from karat.engine.coordinates import Basis, vanishing
from karat.engine.rows import useful_shift
from karat.engine.tolerances import AFFORD, EPS, NULL, ROUNDING


def test_a_heavy_row_is_no_centre_for_columns_around_zero():
    """A kept row may hold most of the weight, and lie half a standard deviation off."""
    pilot, weights = np.array([[-1.34], [0.56], [2.2]]), np.array([127.0, 254.0, 20.0])
    assert useful_shift(pilot, weights, 0.25) == 0.0
    far, weights = np.array([[100.0], [103.0]]), np.array([1.0, 1e17])
    assert useful_shift(far, weights, 0.25) == 103.0  # where it is the mean, up to rounding


def test_columns_of_every_size_vanish_alike():
    """The inverse of the map must not take the factors of a large column for zero."""
    rng = np.random.default_rng(0)
    joint = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3))
    joint[:, 2] = joint[:, 0] + 1e-17
    for size in (1.0, 1e-18, 1e18):
        scale = np.array([size, 1.0, size])
        map_ = (
            np.linalg.inv(np.array([[1.0, 0.3, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
            / scale[:, None]
        )
        coordinates = (joint * scale) @ map_
        gone, sizes = vanishing(Basis.of(map_), coordinates.T @ coordinates / 50, NULL)
        assert gone.tolist() == [False, False, True]
        assert (sizes[:2] > 1e-3).all()
        assert (sizes <= 1.0 + 1e-9).all()


def test_a_proven_fold_goes_on_once_the_second_term_is_spent():
    """Columns that differ in two rows keep an error above CONTENT, which no fresh start would lower
    for good.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 3))
    X[:, 2] = X[:, 0]
    X[rng.choice(20_000, 2, replace=False), 2] += 1e-4
    certificate = karat.Sketch(problems.Moments(2), buffer_rows=140).update(X).coreset().certificate
    assert certificate.ok
    assert certificate.rounding <= 2 * AFFORD * ROUNDING


def test_a_sum_that_starts_from_a_merged_sketch_adds_to_what_that_has_spent():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3))
    other = karat.Sketch(problems.LeastSquares(), buffer_rows=500).update(X[:2000, :2], X[:2000, 2])
    # at the least, columns are shifted
    spent, once = other.coreset().certificate.spent, EPS / ROUNDING
    assert spent >= once
    merged = karat.Sketch(problems.LeastSquares(), buffer_rows=500).merge(other)
    assert merged.coreset().certificate.spent >= spent  # its rows, as they are
    certificate = merged.update(X[2000:, :2], X[2000:, 2]).coreset().certificate
    assert certificate.ok
    assert certificate.spent >= spent + once  # against a sum that began with these rows
