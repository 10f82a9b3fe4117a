"""A user's features must be those of single rows: what depends on the block is refused, what
differs by rounding is not.
"""

from __future__ import annotations

import numpy as np
import pytest

import karat
from karat import problems as P

COUNTER = [0]


def drawn(A):
    COUNTER[0] += 1
    return A + np.random.default_rng(COUNTER[0]).standard_normal(A.shape)


DEPENDENT = {
    "centred": lambda A: A - A.mean(axis=0),
    "standardised": lambda A: (A - A.mean(axis=0)) / A.std(axis=0),
    "running": lambda A: np.cumsum(A, axis=0),
    "ranks": lambda A: np.argsort(np.argsort(A, axis=0), axis=0).astype(float),
    "largest": lambda A: A / np.abs(A).max(axis=0),
    "shares": lambda A: np.exp(A) / np.exp(A).sum(axis=0),
    "before": lambda A: np.vstack([A[:1] * 0, np.diff(A, axis=0)]),
    "numbered": lambda A: A + np.arange(len(A))[:, None] / len(A),
    "drawn": drawn,
    "slightly": lambda A: A + 1e-7 * A.mean(axis=0),
    "sorted": lambda A: np.sort(A, axis=0),
}
W = np.random.default_rng(3).standard_normal((4, 30))
PLAIN = {
    "product": lambda A: A @ W,
    "cancelling": lambda A: (A + 1e6) @ (W - W.mean(axis=0)),
    "single": lambda A: (A.astype(np.float32) @ W.astype(np.float32)).astype(float),
    "range": lambda A: np.exp(100 * A),
    "powers": lambda A: np.column_stack([A, A**2, A**3]),
    "codes": lambda A: (np.round(A[:, :1]) == np.arange(-2, 3)).astype(float),
    "distances": lambda A: np.sqrt(
        np.maximum(((A[:, None, :] - W.T[None, :5]) ** 2).sum(axis=2), 0.0)
    ),
    "tanh": lambda A: np.tanh(A @ W + 1.0) @ W.T,
    "zeros": lambda A: np.column_stack([A, 0 * A[:, :1]]),
}


def data(rows: int = 3000, seed: int = 0):
    return np.random.default_rng(seed).standard_normal((rows, 4))


@pytest.mark.parametrize("rows", [2, 40, 3000])
@pytest.mark.parametrize("name", DEPENDENT)
def test_features_that_depend_on_other_rows_are_refused(name, rows):
    with pytest.raises(karat.InputError, match="depend on the other rows of its block") as caught:
        karat.coreset(data(rows), problem=P.Kernel(DEPENDENT[name]))
    assert "constants" in str(caught.value)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLAIN)
def test_features_that_differ_by_rounding_are_not(name, seed):
    X = data(seed=seed)
    core = karat.coreset(X, problem=P.Kernel(PLAIN[name]))
    full, kept = PLAIN[name](X), core.weights @ PLAIN[name](core.X)
    loose = 1e-5 if name == "single" else 1e-8
    assert np.abs(kept - full.sum(axis=0)).max() <= loose * np.abs(full).sum(axis=0).max()
    assert core.verify(X).ok


@pytest.mark.parametrize("name", ["centred", "running"])
def test_a_sketch_and_verify_refuse_them_as_well(name):
    X = data()
    sketch = karat.Sketch(P.Kernel(DEPENDENT[name]), buffer_rows=500)
    sketch.update(X[:250])
    with pytest.raises(karat.InputError, match="depend on the other rows of its block"):
        sketch.update(X[250:])
    plain = karat.coreset(X, problem=P.Kernel(lambda A: A))
    changed = karat.Coreset(**{**vars(plain), "problem": P.Kernel(DEPENDENT[name])})
    with pytest.raises(karat.InputError, match="depend on the other rows of its block"):
        changed.verify(X)
