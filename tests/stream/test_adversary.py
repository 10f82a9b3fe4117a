"""What a tester broke once: callers that reuse their arrays, weights of any size, structured
changes, made-up rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat import problems as P
from karat.io.row_hashes import RowHashes


def table(n=4000, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X.sum(axis=1) + rng.standard_normal(n), rng.random(n)


def test_a_caller_may_reuse_every_array():
    X, y, w = table()
    groups, keys = np.arange(4000) % 2, np.arange(4000)
    sketch = karat.Sketch(P.LeastSquares(), key="k")
    weights, labels = np.empty(1000), np.empty(1000, dtype=int)
    frame = pd.DataFrame(X[:1000].copy(), columns=list("abc")).assign(k=keys[:1000])
    for i in range(0, 4000, 1000):
        rows = slice(i, i + 1000)
        weights[:], labels[:] = w[rows], groups[rows]
        frame.loc[:, list("abc")] = X[rows]
        frame.loc[:, "k"] = keys[rows]
        sketch.update(frame, y[rows], sample_weight=weights, groups=labels)
    core = sketch.coreset()
    for label in (0, 1):
        assert core.weights[core.groups == label].sum() == pytest.approx(
            w[groups == label].sum(), rel=1e-12
        )
    assert np.array_equal(core.keys, keys[core.indices])


def test_weights_of_any_size_keep_their_size():
    X, y, _ = table(2000)
    w = np.r_[np.ones(1000), np.full(1000, 1e-120)]
    sketch = karat.Sketch(P.LeastSquares())
    for i in (0, 1000):
        sketch.update(X[i : i + 1000], y[i : i + 1000], sample_weight=w[i : i + 1000])
    assert sketch.coreset().weights.sum() == pytest.approx(1000.0, rel=1e-12)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_rows_that_differ_have_hashes_that_differ(kind):
    """Small integers and signs differ in few bits, all of them high."""
    grid = np.stack(np.meshgrid(*[np.arange(-2, 8)] * 4), axis=-1).reshape(-1, 4).astype(kind)
    content = RowHashes(list("abcd"))
    hashes = content._hashes(list(np.ascontiguousarray(grid.T)), len(grid))
    assert len(np.unique(hashes)) == len(grid)


def test_negated_rows_are_noticed(tmp_path):
    X, y, _ = table(20_000)
    frame = pd.DataFrame(np.column_stack([X, y]), columns=list("abcy"))
    frame.to_parquet(tmp_path / "h.parquet", index=False)
    core = karat.coreset_files(tmp_path / "h.parquet", "y", P.LeastSquares(fit_intercept=False))
    frame.iloc[:1000] *= -1
    frame.to_parquet(tmp_path / "h.parquet", index=False)
    found = karat.verify_files(core)
    assert (found.data, found.ok) == ("changed", False)


def test_made_up_rows_are_refuted_in_any_order(tmp_path):
    X, y, _ = table(20_000, 2)
    frame = pd.DataFrame(np.column_stack([X, y]), columns=list("aby"))
    path = tmp_path / "f.parquet"
    frame.to_parquet(path, index=False)
    core, mean = karat.coreset_files(path, "y"), frame.mean()
    mirrored = pa.table({c: 2 * mean[c] - np.asarray(core.X[c]) for c in "ab"})
    fake = replace(core, X=mirrored, y=pa.chunked_array([2 * mean["y"] - np.asarray(core.y)]))
    frame.iloc[[1, 0, *range(2, 20_000)]].to_parquet(path, index=False)
    assert karat.verify_files(core).data == "reordered"
    assert karat.verify_files(core).ok
    assert not karat.verify_files(fake).ok
    assert not replace(core, n_rows=5).verify(frame[["a", "b"]], frame["y"]).ok


def test_a_batch_that_overflows_is_refused_at_once():
    X, y, _ = table(1000)
    sketch = karat.Sketch(P.LeastSquares(), buffer_rows=100)
    sketch.update(X[:500], y[:500])
    bad = X[:50].copy()
    bad[0] = 1e200
    with pytest.raises(karat.InputError, match=r"row 0 that is .* times as far from the others"):
        sketch.update(bad, y[:50])
    core = sketch.update(X[500:], y[500:]).coreset()
    assert (core.n_rows, core.certificate.ok) == (1000, True)
    assert core.weights.sum() == pytest.approx(1000.0, rel=1e-12)
    assert np.array_equal(core.X, X[core.indices])


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e80])
@pytest.mark.parametrize("buffer_rows", [20, 1000])
def test_groups_have_units_of_their_own(size, buffer_rows):
    """What one group has in a column says nothing about another, and neither do the rows that
    wait.
    """
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((240, 2)), np.arange(240) % 2
    y = X.sum(axis=1) + rng.standard_normal(240)
    X[:, 0] *= np.where(groups == 1, size, 1e-200)
    sketch = karat.Sketch(P.LeastSquares(), buffer_rows=buffer_rows)
    for a in range(0, 240, 40):
        sketch.update(X[a : a + 40], y[a : a + 40], groups=groups[a : a + 40])
    core = sketch.coreset()
    assert core.certificate.ok
    for label, unit in ((0, 1e-200), (1, size)):
        full, kept = groups == label, core.groups == label
        rows = np.column_stack([np.ones(240), X[:, 0] / unit, X[:, 1], y]).astype(np.longdouble)
        second = (rows[core.indices[kept]].T * core.weights[kept]) @ rows[core.indices[kept]]
        np.testing.assert_allclose(
            second.astype(float), (rows[full].T @ rows[full]).astype(float), rtol=1e-11, atol=1e-11
        )
    with pytest.raises(karat.InputError, match="Column 0"):  # in one group, no unit serves both
        sketch.update(np.full((3, 2), 1e300), np.ones(3), groups=np.zeros(3, dtype=int))
    assert sketch.coreset().certificate.ok


def test_constant_columns_need_no_square_matrix():
    import tracemalloc

    tracemalloc.start()
    karat.coreset(np.ones((16_000, 3)), np.zeros(16_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_frames_without_names(tmp_path):
    X, y, _ = table(500)
    core = karat.coreset(pd.DataFrame(X), y)
    for name in ("i.npz", "i.parquet"):
        core.save(tmp_path / name)
        assert karat.load(tmp_path / name).verify(X, y).ok
    assert core.merge(karat.coreset(pd.DataFrame(X[:300]), y[:300])).n_rows == 800


def test_missing_booleans_are_left_out(tmp_path):
    X, y, _ = table(1000)
    flags = pa.array([None if i % 7 == 0 else bool(i % 2) for i in range(1000)])
    pq.write_table(pa.table({"b": flags, "x": X[:, 0], "y": y}), tmp_path / "b.parquet")
    core = karat.coreset_files(tmp_path / "b.parquet", "y", on_missing="drop")
    assert core.weights.sum() == pytest.approx(1000 - len(range(0, 1000, 7)))


@pytest.mark.parametrize("offset", [1e2, 1e4])
def test_maps_do_not_depend_on_the_origin(offset, tmp_path):
    """Sums are taken about the mean, so those of batches and of one table agree far from the origin
    too.
    """
    rng = np.random.default_rng(0)
    means = 3 * rng.standard_normal((3, 6))
    X = means[rng.integers(0, 3, 12_000)] + rng.standard_normal((12_000, 6)) + offset
    pd.DataFrame(X, columns=list("abcdef")).to_parquet(tmp_path / "g.parquet", row_group_size=5000)
    core = karat.coreset_files(tmp_path / "g.parquet", problem=P.GaussianMixture(3))
    assert karat.verify_files(core).ok
    assert core.verify(X).ok
    assert not any("maps" in note for note in core.certificate.notes)


def test_large_whole_numbers_with_gaps_do_not_depend_on_batches(tmp_path):
    values = pa.array([None] + [2**53 + 3 * i + 1 for i in range(1, 4000)], pa.int64())
    rows = pa.table({"a": values, "y": np.random.default_rng(0).standard_normal(4000)})
    pq.write_table(rows, tmp_path / "i.parquet", row_group_size=1000)
    core = karat.coreset_files(tmp_path / "i.parquet", "y", on_missing="drop")
    pq.write_table(rows, tmp_path / "i.parquet", row_group_size=4000)
    assert karat.verify_files(core).data == "identical"


def test_rare_values_whose_fourth_powers_no_coordinate_holds():
    """A column of 1e-155 in 3 % of the rows: scaled to 1, products of its powers overflow."""
    rng = np.random.default_rng(9046)
    X = np.column_stack(
        [rng.standard_normal(500) * 1e-155 * (rng.random(500) < 0.03), rng.standard_normal(500)]
    )
    y = rng.standard_normal(500) + 1
    sketch = karat.Sketch(P.LpRegression(4), buffer_rows=100)
    for start in range(0, 500, 97):
        sketch.update(X[start : start + 97], y[start : start + 97])
    core = sketch.coreset()
    powers = (X[:, 0] * 1e155) ** 4
    assert core.certificate.ok
    assert core.weights @ powers[core.indices] == pytest.approx(powers.sum(), rel=1e-9)
