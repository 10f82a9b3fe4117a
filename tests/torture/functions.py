"""Feature functions for Kernel, by name.

Elementwise sums, so that a row's features do not depend on the block it comes in.
"""

from __future__ import annotations

from functools import partial

import numpy as np


def identity(X: np.ndarray) -> np.ndarray:
    return X


def powers(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, X**2, np.abs(X)])


def waves(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.sin(X), np.cos(X)])


def bumps(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.exp(-np.square(X - c)) for c in (-1.0, 0.0, 2.0)])


def threshold(X: np.ndarray, scale: float, level: float) -> np.ndarray:
    """The columns, and a small indicator of rows that hardly occur."""
    return np.column_stack([X, scale * (X[:, 0] > level)])


def smooth(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Random smooth features 1 / (1 + (x . w + b)^2), which are cheap; a few rows at a time to stay
    in the cache.
    """
    rng = np.random.default_rng(seed)
    W, b = rng.standard_normal((X.shape[1], count)), rng.uniform(-2, 2, count)
    values = np.empty((len(X), count))
    for start in range(0, len(X), 512):
        some, out = X[start : start + 512], values[start : start + 512]
        out[:] = b
        for j in range(X.shape[1]):
            out += some[:, [j]] * W[j]
        out *= out
        out += 1.0
        np.divide(1.0, out, out=out)
    return values


def hinge(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.maximum(X - c, 0.0) for c in (-1.0, 0.5, 2.5)])


# Features that depend on the other rows of the block: no coreset of them means anything.


def centred(X: np.ndarray) -> np.ndarray:
    return X - X.mean(axis=0)


def cumulative(X: np.ndarray) -> np.ndarray:
    return np.cumsum(X, axis=0)


def ranks(X: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(X, axis=0), axis=0).astype(float)


def scaled(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.abs(X).max(axis=0), 1e-300)


def first(X: np.ndarray) -> np.ndarray:
    return X - X[:1]


FUNCTIONS = {
    "centred": centred, "cumulative": cumulative, "ranks": ranks, "scaled": scaled, "first": first,
    "identity": identity, "powers": powers, "waves": waves, "bumps": bumps, "threshold": threshold,
    "smooth": smooth, "hinge": hinge,
}  # fmt: skip


def function(name: str, **settings):
    """The function of a name, with its settings bound; it has a ``__name__``, which karat
    prints.
    """
    made = partial(FUNCTIONS[name], **settings)
    made.__name__ = name
    return made
