"""Several targets: each has a coordinate of its own, and the loss of each is kept.

The columns explain the targets up to rounding, but for rows that come later or that a sample
misses. The coordinates of the targets are then fitted to rounding, and say little about the other
rows.
"""

from __future__ import annotations

import numpy as np
import pytest

import karat
from karat.engine.coordinates import pilot_basis
from karat.engine.tolerances import EPS

ODD = 40  # rows that the columns do not explain


def explained(seed: int, count: int, odd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, targets and coefficients; the first target vanishes beside the columns, the second
    nearly.
    """
    rng = np.random.default_rng(seed)
    X, coefficients = rng.standard_normal((count, 2)), rng.standard_normal((2, 3))
    Y = X @ coefficients + np.array([1, 500, 1e12]) * EPS * rng.standard_normal((count, 3))
    Y[odd] += rng.standard_normal((len(odd), 3))
    return X, Y, coefficients


def excess(
    core: karat.Coreset, X: np.ndarray, Y: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """The error of the squared residuals of every target beside what the certificate allows, in
    extended precision.
    """
    proof, X, Y = core.certificate, X.astype(np.longdouble), Y.astype(np.longdouble)
    squares = np.square(Y - X @ coefficients)
    full = squares.sum(axis=0)
    change = (
        proof.rounding
        * np.sqrt(np.longdouble(len(X)))
        * (Y.std(axis=0) + X.std(axis=0) @ np.abs(coefficients))
    )
    allowed = proof.loss_error * full + 2 * change * np.sqrt(full) + change**2
    return np.asarray(np.abs(core.weights @ squares[core.indices] - full) / allowed, dtype=float)


@pytest.mark.parametrize("seed", range(6))
def test_a_target_that_a_sample_explains_is_kept_by_itself(seed):
    odd = np.random.default_rng(seed).choice(200_000, ODD, replace=False)
    X, Y, coefficients = explained(seed, 200_000, odd)
    core = karat.coreset(X, Y)
    assert core.certificate.ok
    assert not core.verbatim.any()
    assert excess(core, X, Y, coefficients).max() <= 1


@pytest.mark.parametrize("buffer_rows", [5, 8, 20])
@pytest.mark.parametrize("seed", range(4))
def test_a_target_that_the_first_rows_explain_is_kept_by_itself(buffer_rows, seed):
    X, Y, coefficients = explained(seed, 300, np.arange(buffer_rows, 300))
    core = (
        karat.Sketch(karat.problems.LeastSquares(), buffer_rows=buffer_rows).update(X, Y).coreset()
    )
    assert core.certificate.ok
    assert not core.verbatim.any()
    assert excess(core, X, Y, coefficients).max() <= 1


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_no_coordinate_holds_two_targets(constant, seed):
    """Some of the columns and of the targets vanish beside others, up to all kinds of rounding."""
    rng = np.random.default_rng(seed)
    columns, targets, count = (int(rng.integers(1, most)) for most in (5, 5, 40))
    values = rng.standard_normal((count, columns + targets))
    values[:, 1:] = (
        values[:, :1] + 10.0 ** rng.uniform(-18, 0, columns + targets - 1) * values[:, 1:]
    )
    variables = np.column_stack([np.ones(count), values]) if constant else values
    map_ = pilot_basis(variables, None, targets, constant).map[-targets:]
    assert not map_[:, :-targets].any()
    assert np.array_equal(map_[:, -targets:], np.diag(np.diag(map_[:, -targets:])))
