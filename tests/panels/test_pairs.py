"""Pairs of levels: their counts, however they come, and the memory that they take."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

import karat
from karat.panels.pairs import WAITING, PairCounts, pair_bytes


def settled(parts, weighted: bool) -> PairCounts:
    pairs = PairCounts(("a", "b"), weighted, 2**40)
    for first, second, weights in parts:
        pairs.add(first, second, weights if weighted else None)
        pairs.settle()
    return pairs


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_counts_of_parts(seed, weighted):
    """Parts with old pairs, new ones before, between and behind them, and none at all."""
    rng = np.random.default_rng(seed)
    parts = [
        (rng.integers(low, low + 30, n), rng.integers(0, 20, n), rng.integers(1, 9, n) / 4)
        for low, n in zip(rng.integers(0, 60, 9), rng.integers(0, 300, 9), strict=True)
    ]
    pairs = settled(parts, weighted)
    first, second, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    table = pd.DataFrame({"key": (first << 32) | second, "w": weights}).groupby("key")["w"]
    assert pairs.keys.tolist() == table.count().index.tolist()
    assert pairs.counts.tolist() == table.count().tolist()
    if weighted:
        assert pairs.weights.tolist() == table.sum().tolist()  # sums of quarters are exact
    dense = np.zeros((90, 20))
    np.add.at(dense, (first, second), weights if weighted else 1.0)
    assert (pairs.matrix((90, 20)).toarray() == dense).all()


@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_the_memory_that_is_announced_is_enough(weighted):
    """Of pairs of which nearly all differ, while they are counted and as two matrices."""
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        pairs, step = PairCounts(("a", "b"), weighted, 2**40), 2**19
        for _ in range(2 * WAITING // step):
            first, second = rng.integers(0, 10**6, step), rng.integers(0, 10**4, step)
            pairs.add(first, second, rng.random(step) if weighted else None)
        pairs.settle()
        block = pairs.matrix((10**6, 10**4))
        across = block.T.tocsr()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert across.nnz == block.nnz == len(pairs.keys) > 1.9 * WAITING
    assert peak < pair_bytes(weighted) * len(pairs.keys)


@pytest.mark.parametrize("weight", [None, "w"])
def test_it_is_announced_before_the_pass_and_what_it_says_is_enough(weight, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((900, 2)), columns=["x", "y"])
    for name in ("firm", "year", "town"):
        frame[name] = rng.integers(0, 60, 900)
    frame["w"] = 1.5
    frame.to_parquet(tmp_path / "rows.parquet")
    formula, need = "y ~ x | firm + year + town", 900 * 3 * pair_bytes(weight is not None)
    for data in (frame, tmp_path / "rows.parquet"):
        said = f"pairs of levels of 900 rows may take up to {need:,} bytes.*Pass memory={need} if"
        with (
            pytest.warns(UserWarning, match=said),
            pytest.raises(karat.InputError, match=r"take more than memory=50,000 bytes: "),
        ):
            karat.ols(formula, data, weights=weight, memory=50_000)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            karat.ols(formula, data, weights=weight, memory=need)
            karat.ols("y ~ x | firm", data, weights=weight, memory=1)  # one effect has no pairs
