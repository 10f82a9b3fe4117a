"""Threads that share a sketch, and merges that fail: no row twice, none lost."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import karat
from karat import problems as P

RNG = np.random.default_rng(5)


def batch(n=200, d=3):
    X = RNG.standard_normal((n, d))
    return X, X.sum(axis=1) + RNG.standard_normal(n)


def test_threads_share_a_sketch():
    batches = [batch(301) for _ in range(60)]
    for _ in range(4):
        sketch = karat.Sketch(P.LeastSquares(), buffer_rows=500)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda b, sketch=sketch: sketch.update(*b), batches))
        core = sketch.coreset()
        assert core.n_rows == 60 * 301
        assert core.weights.sum() == pytest.approx(60 * 301, rel=1e-12)
        X, y = (np.concatenate(part) for part in zip(*batches, strict=True))
        D = np.column_stack([np.ones(len(X)), X, y])
        K = np.column_stack([np.ones(len(core)), core.X, core.y])
        np.testing.assert_allclose((K.T * core.weights) @ K, D.T @ D, rtol=1e-9, atol=1e-9 * len(X))


def test_threads_merge_crosswise():
    a, b = (karat.Sketch(P.LeastSquares()).update(*batch()) for _ in range(2))
    # neither waits for the other for ever; the second finds its rows in the first
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(a.merge, b), pool.submit(b.merge, a)]
        errors = [call.exception(timeout=60) for call in done]
    assert sum(error is None for error in errors) == 1
    assert max(a.n_rows, b.n_rows) == 400


def test_lost_rows_are_noticed():
    sketch = karat.Sketch(P.LeastSquares()).update(*batch())
    sketch.buffer.clear()  # what a race did
    with pytest.raises((karat.NotExactError, karat.InputError)):
        sketch.coreset()
    sketch.update(*batch())
    with pytest.raises(karat.NotExactError, match="rows were lost"):
        sketch.coreset()


def test_a_merge_that_fails_changes_nothing():
    a, b = (karat.Sketch(P.LeastSquares()).update(*batch()) for _ in range(2))
    bad = karat.Sketch(P.LeastSquares()).update(*batch(d=4))
    with pytest.raises(karat.InputError, match="columns"):
        a.merge(b, bad)
    assert a.n_rows == 200
    assert a.coreset().weights.sum() == pytest.approx(200)
    a.merge(b)
    assert a.n_rows == 400
    assert a.coreset().weights.sum() == pytest.approx(400)


def test_a_merge_that_fails_over_keys_changes_nothing():
    def keyed(start):
        X, y = batch()
        return karat.Sketch(P.LeastSquares(), key=3).update(
            np.column_stack([X, np.arange(start, start + 200)]), y
        )

    a, b, twice = keyed(0), keyed(200), keyed(100)
    with pytest.raises(karat.InputError, match="comes twice"):
        a.merge(b, twice)
    assert a.merge(b).n_rows == 400


@pytest.mark.parametrize("way", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_have_their_own_lock(way):
    sketch = karat.Sketch(P.LeastSquares()).update(*batch())
    other = way(sketch)
    assert other.update(*batch()).n_rows == 400
    assert sketch.n_rows == 200
    assert other.coreset().certificate.ok
