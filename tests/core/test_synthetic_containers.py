"""Synthetic rows come in the caller's container, with the caller's names, as doubles."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from factory import data
from made_rows import check, worst_ratio
from scipy import sparse

import karat
from karat import InputError
from karat.problems import Moments

NAMES = ["size", "weight", "row"]
FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": lambda columns: pa.table(
        {name: np.asarray(values) for name, values in columns.items()}
    ),
}


def made(*args, **kwargs):
    return karat.coreset(*args, rows="synthetic", **kwargs)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames(kind):
    given = data("skewed")
    columns = dict(zip(NAMES, given.X.T, strict=True))
    core = made(FRAMES[kind](columns | {"price": given.y}), "price")
    check(core, given.X, given.y)
    assert type(core.X) is type(FRAMES[kind](columns))
    names = core.X.column_names if kind == "arrow" else list(core.X.columns)
    assert names == NAMES
    for name, values in zip(NAMES, core.arrays()[0].T, strict=True):
        column = np.asarray(core.X[name])
        assert column.dtype == np.float64
        assert np.array_equal(column, values)
    tables = (core.to_pandas(), core.to_polars().to_pandas(), core.to_arrow().to_pandas())
    for table in tables:
        assert list(table.columns) == [*NAMES, "price", "weight_"]
        np.testing.assert_array_equal(table[NAMES].to_numpy(), core.arrays()[0])
        np.testing.assert_array_equal(table["weight_"], core.weights)


def test_labels_of_pandas():
    given = data("gaussian")
    frame = pd.DataFrame(given.X, index=pd.date_range("2020", periods=len(given.y)))
    core = made(frame, pd.Series(given.y, index=frame.index, name="t"))
    assert list(core.X.columns) == [0, 1, 2]
    assert core.y.name == "t"
    assert core.X.index.equals(pd.RangeIndex(len(core)))
    assert core.X.index.equals(core.y.index)
    two = made(frame, pd.DataFrame({"u": given.y, "v": given.y**2}, index=frame.index))
    assert list(two.y.columns) == ["u", "v"]


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.int64, bool, np.uint16])
def test_other_types_become_doubles(kind):
    given = data("integers")
    X = np.abs(given.X).astype(kind)
    core = made(X, given.y.astype(np.float32))
    assert core.X.dtype == core.y.dtype == np.float64
    check(core, X, given.y.astype(np.float32))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_rows_become_an_array(form):
    given = data("sparse_rows")
    core = made(given.X.asformat(form), given.y)
    assert isinstance(core.X, np.ndarray)
    check(core, given.X, given.y)
    assert core.verify(given.X, given.y).ok


def test_wide_sparse_rows_with_weights():
    rng = np.random.default_rng(0)
    X = sparse.random_array((900, 300), density=0.05, random_state=rng, format="csr")
    X = sparse.csr_array(X)
    y, u = rng.standard_normal(900), rng.uniform(0.1, 3.0, 900)
    core = made(X, y, sample_weight=u)
    dense = made(X.toarray(), y, sample_weight=u)
    D = np.column_stack([np.ones(900), X.toarray(), y])
    full = (D * u[:, None]).T @ D
    for one in (core, dense):
        Z = np.column_stack([np.ones(len(one)), one.X, one.y])
        assert np.abs((Z * one.weights[:, None]).T @ Z - full).max() <= 1e-12 * full.max()
        assert one.verify(X, y, sample_weight=u).ok


LONG = 1_700_000_000_000_000_000


def long_integers(rng, spread):
    return np.column_stack([LONG + rng.integers(0, spread, 600), rng.integers(-1000, 1000, 600)])


def test_integers_beyond_doubles():
    """Nanoseconds: read as differences to an offset, stored as the nearest doubles."""
    rng = np.random.default_rng(0)
    X, y = long_integers(rng, 10**14), rng.standard_normal(600)
    core = made(X, y)
    check(core, X, y)
    assert core.X[:, 0].min() > 1e18
    assert core.verify(X, y).ok
    assert not core.verify(X + np.array([0, 1]), y).ok
    halves = [made(X[part], y[part]) for part in (slice(0, 300), slice(300, 600))]
    merged = halves[0].merge(halves[1])
    check(merged, X, y)
    assert merged.verify(X, y).ok
    with pytest.raises(karat.NotExactError, match="integers beyond 2"):
        karat.coreset(X[:300], y[:300]).merge(halves[1])


@pytest.mark.parametrize("groups", [None, 3])
@pytest.mark.parametrize("count", [30, 600])
def test_integers_that_doubles_cannot_resolve(count, groups):
    """The doubles about 1.7e18 are 256 apart: rows of a spread of 1000 cannot be made, by any
    proof.
    """
    rng = np.random.default_rng(1)
    X, y = long_integers(rng, 1000)[:count], rng.standard_normal(count)
    labels = None if groups is None else np.arange(count) % groups
    with pytest.raises(karat.NotExactError):
        made(X, y, groups=labels)


def test_a_wild_row_that_doubles_do_not_hold_is_not_kept_rounded():
    rng = np.random.default_rng(2)
    X, y = long_integers(rng, 10**9), rng.standard_normal(600)
    X[7, 0] = LONG + 2**52 + 1
    try:
        core = made(X, y)
    except karat.NotExactError:
        return
    assert worst_ratio(core, X, y) <= 1
    assert core.verify(X, y).ok


def test_minus_zero_is_zero():
    given = data("gaussian")
    X = np.array(given.X)
    X[5], X[:, 2] = 1e12, -0.0
    X[5, 2] = -0.0
    core = made(X, given.y)
    assert core.certificate.verbatim == 1
    assert core.verify(X, given.y).ok


def test_names_that_come_twice_are_refused():
    with pytest.raises(InputError, match="two columns of one name, 'a'; rename"):
        made(pd.DataFrame(data("gaussian").X, columns=["a", "a", "b"]), data("gaussian").y)


def test_missing_values_are_named():
    X = np.array(data("gaussian").X)
    X[33, 1] = np.nan
    with pytest.raises(InputError, match="Column 1 has 1 NaN value, the first in row 33"):
        made(X, problem=Moments(2))
    with pytest.raises(InputError, match="Column 1 has 1 NaN value, the first in row 33"):
        made(X, problem=Moments(2), groups=np.arange(len(X)) % 4)
    wide = np.ones((400, 300))
    wide[33, 7] = np.inf
    with pytest.raises(InputError, match="Column 7 has 1 infinite value, the first in row 33"):
        made(wide, problem=Moments(2))
