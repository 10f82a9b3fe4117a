"""Rows alone in a level, again and again: how many, and the fit without them, by brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from panels.dummies import Dummies, without_singletons

import karat

pytestmark = pytest.mark.filterwarnings("ignore:.*are singletons, each alone:UserWarning")
Codes = list[np.ndarray]


def chain(rng: np.random.Generator, length: int) -> Codes:
    """A path of workers and employers, both of whose ends are peeled, with cycles near its middle
    and a path between two of them, which stays.
    """
    worker = np.repeat(np.arange(length), 2)
    employer = worker + np.tile([0, 1], length)
    more = length // 2 + np.array([0, 1, 2, 30, 31, 32])
    return [np.concatenate([worker, more]), np.concatenate([employer, more + 3])]


def trees(rng: np.random.Generator, length: int) -> Codes:
    """Trees that hang from cycles, deep ones too: edges to a vertex shortly before."""
    child = np.arange(1, length)
    parent = child - 1 - rng.integers(0, np.minimum(child, 3))
    cycles = rng.integers(0, length, (4, length // 40))
    pairs = np.concatenate([np.stack([child, parent]), cycles[:2], cycles[2:]], axis=1)
    row = np.arange(pairs.shape[1])  # each edge is a worker with two rows
    return [np.concatenate([row, row]), pairs.ravel()]


def three(rng: np.random.Generator, length: int) -> Codes:
    worker, employer = chain(rng, length)
    third = employer // 7
    third[rng.random(len(third)) < 0.05] += 2
    return [worker, employer, third]


def sparse(rng: np.random.Generator, length: int) -> Codes:
    return [rng.integers(0, levels, length) for levels in (length // 3, length // 2, length // 3)]


def table(rng: np.random.Generator, codes: Codes, spread: float = 1.0) -> pd.DataFrame:
    n = len(codes[0])
    frame = pd.DataFrame({f"f{place}": code for place, code in enumerate(codes)})
    frame["x"] = rng.standard_normal(n) + spread * codes[0] / codes[0].max()
    frame["w"], frame["y"] = rng.integers(1, 9, n) / 4, frame["x"] + rng.standard_normal(n)
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [chain, trees, three, sparse])
def test_the_number_of_rows_that_are_left(shape, seed):
    """Depths of one to a few hundred rounds; the queue begins after twenty."""
    rng = np.random.default_rng(seed)
    codes = shape(rng, int(rng.integers(50, 900)))
    dense = [code.max() + rng.integers(0, 6, 80) for code in codes]  # something to estimate from
    frame = table(rng, [np.concatenate(both) for both in zip(codes, dense, strict=True)])
    names = [name for name in frame if name.startswith("f")]
    kept = without_singletons([frame[name].to_numpy() for name in names])
    formula = f"y ~ x | {' + '.join(names)}"
    counts = [len(set(frame[name][kept])) for name in names]
    fit = karat.ols(formula, frame)
    assert (fit.nobs, fit.singletons) == (kept.sum(), (~kept).sum())
    assert list(fit.model.parameters.levels) == counts


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("spread", [1.0, 1e6])
def test_the_fit_after_a_deep_peel(weight, spread):
    """The ends of the chain are far larger than what stays."""
    rng = np.random.default_rng(1)
    length = 120
    codes = chain(rng, length)
    dense = [rng.integers(50, 60, 60), rng.integers(50, 58, 60)]
    frame = table(rng, [np.concatenate(both) for both in zip(codes, dense, strict=True)], spread)
    factors = [frame["f0"].to_numpy(), frame["f1"].to_numpy()]
    weights = None if weight is None else frame["w"].to_numpy()
    right = Dummies(frame[["x"]].to_numpy(), frame["y"].to_numpy(), factors, weights)
    fit = karat.ols("y ~ x | f0 + f1", frame, cov_type=["HC1", "nonrobust"], weights=weight)
    assert fit.nobs == right.n < len(frame) - 100
    for kind, matrix in (("HC1", right.hc1()), ("nonrobust", right.classical())):
        error = float(np.sqrt(matrix[0, 0]))
        assert abs(float(fit.params["x"] - right.params[0])) < 1e-10 * error
        assert abs(fit.with_covariance(kind).bse["x"] / error - 1) < 1e-10
    assert abs(fit.rsquared - right.r2()) < 1e-10


def test_a_chain_of_which_nothing_stays():
    frame = table(np.random.default_rng(0), [np.arange(400) // 2, (np.arange(400) + 1) // 2])
    with pytest.raises(karat.InputError, match="All 400 rows are singletons"):
        karat.ols("y ~ x | f0 + f1", frame)


def test_passes_of_a_long_chain(tmp_path):
    """One more than without singletons, however long the chain is."""
    rng, passes = np.random.default_rng(0), []
    for length in (100, 20_000):
        table(rng, chain(rng, length)).to_parquet(tmp_path / "chain.parquet")
        read = []
        karat.ols(
            "y ~ x | f0 + f1", tmp_path / "chain.parquet",
            progress=lambda done, total, read=read: read.append(done == total),
        )  # fmt: skip
        passes.append(sum(read))
    assert passes == [3, 3]
