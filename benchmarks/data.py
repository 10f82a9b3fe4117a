"""Data of the benchmarks: random tables, Covertype, and the feature matrix for the peers."""

from __future__ import annotations

import os
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

Array = np.ndarray


def gaussian(n: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    """Draw independent Gaussian columns and a noisy linear target: well-conditioned data."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 3.0 + rng.standard_normal(n)


def correlated(n: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    """Draw correlated columns with non-zero means, and a target that depends on half of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1)) + np.arange(d)
    return X, X[:, ::2] @ rng.standard_normal((d + 1) // 2) + 3.0 + 2.0 * rng.standard_normal(n)


def heavy(n: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    """Draw log-normal columns: a few rows contribute most of the moments."""
    X, y = gaussian(n, d, seed)
    return np.exp(X), np.exp(y / y.std())


def covtype() -> tuple[Array, Array] | None:
    """Read Covertype:

    Elevation from the 53 other attributes, all rows; None if it is not in KARAT_DATA.
    """
    path = Path(os.environ.get("KARAT_DATA") or ".") / "covtype.parquet"
    if not path.exists():
        return None
    import pandas as pd

    frame = pd.read_parquet(path)
    frame = frame.drop(columns="Cover_Type") if "Cover_Type" in frame else frame.iloc[:, :54]
    return np.ascontiguousarray(frame.drop(columns="Elevation"), dtype=float), frame[
        "Elevation"
    ].to_numpy(dtype=float)


def design(X: Array, y: Array) -> Array:
    """The matrix D = [1, X, y]."""
    return np.column_stack([np.ones(len(X)), X, y])


def monomials(X: Array, y: Array) -> Array:
    """The n x m matrix of all products of two columns of D, the features of least squares, constant
    first.
    """
    D = design(X, y)
    pairs = list(combinations_with_replacement(range(D.shape[1]), 2))
    F = np.empty((len(D), len(pairs)))
    for start in range(0, len(D), 4096):
        block = D[start : start + 4096]
        for j, (a, b) in enumerate(pairs):
            np.multiply(block[:, a], block[:, b], out=F[start : start + 4096, j])
    return F
