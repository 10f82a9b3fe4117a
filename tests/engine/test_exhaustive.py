"""Rows that a sample does not show: rare pairs of categories, found by one look at all rows."""

import numpy as np
import pytest

import karat
from karat.engine.exhaustive import Independent


def categories(n=60_000, seed=0):
    """One-hot columns of three variables, whose rare levels meet in a few rows only, and two
    numbers.
    """
    rng = np.random.default_rng(seed)
    levels = [rng.choice(k, n, p=(p := 0.5 ** np.arange(k)) / p.sum()) for k in (14, 6, 4)]
    X = np.hstack(
        [*(np.eye(int(level.max()) + 1)[level] for level in levels), rng.standard_normal((n, 2))]
    )
    return X, X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(n)


def gram(X, y, weights):
    D = np.column_stack([np.ones(len(X)), X, y]).astype(np.longdouble)
    return D.T @ (D * np.asarray(weights, dtype=np.longdouble)[:, None])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
def test_rare_pairs_need_no_tree(seed):
    X, y = categories(seed=seed)
    core = karat.coreset(X, y)
    assert core.certificate.ok
    assert core.certificate.method == "onepass"
    whole, kept = gram(X, y, np.ones(len(X))), gram(core.X, core.y, core.weights)
    scale = np.sqrt(np.outer(np.diag(whole), np.diag(whole)))
    assert (np.abs(kept - whole) <= 1e-12 * scale).all()
    D = np.column_stack([np.ones(len(X)), X, y])
    i, j = np.triu_indices(D.shape[1])
    assert len(core) <= np.linalg.matrix_rank(
        (D[:, i] * D[:, j]) / np.maximum(np.linalg.norm(D[:, i] * D[:, j], axis=0), 1)
    )


def test_a_sketch_finds_them_too():
    X, y = categories()
    sketch = karat.Sketch(karat.problems.LeastSquares())
    for start in range(0, len(X), 20_000):
        sketch.update(X[start : start + 20_000], y[start : start + 20_000])
    core = sketch.coreset()
    assert core.certificate.ok
    assert "tree" not in core.certificate.method
    whole, kept = gram(X, y, np.ones(len(X))), gram(core.X, core.y, core.weights)
    assert (np.abs(kept - whole) <= 1e-12 * np.sqrt(np.outer(np.diag(whole), np.diag(whole)))).all()


def test_independent_features_of_a_sample():
    rng = np.random.default_rng(1)
    sample = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 9))
    independent = Independent.of(sample)
    assert len(independent.basic) == 4
    assert np.isclose(independent.leverage.sum(), 4)
    assert np.abs(sample @ independent.hidden(rng)).max() <= 1e-10
    assert set(independent.with_those_of(sample[:0])) == set(independent.basic)
    further = np.vstack([sample[:3], rng.standard_normal((2, 9))])
    assert len(independent.with_those_of(further)) == 6
    assert (
        np.linalg.matrix_rank(np.vstack([sample, further])[:, independent.with_those_of(further)])
        == 6
    )


def test_a_row_that_hides_another_is_kept_apart():
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 2))
    X[:, 1], X[5, 0], X[7, 0], X[8, 0] = np.arange(1000), 1.0, 1e-12, 2e-12
    core = karat.coreset(X, rng.standard_normal(1000))
    assert core.certificate.ok
    assert core.indices[core.verbatim].tolist() == [5]
    assert {7, 8} <= set(core.indices.tolist())
