"""The doors: integers beyond 2^53, odd objects in every argument, tables that are too wide."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import karat
from karat import InputError, NotExactError
from karat.problems import (
    Kernel,
    LeastSquares,
    LpRegression,
    Mean,
    Moments,
    Ridge,
    TensorContraction,
)

NOW = 1_700_000_000_000_000_000  # nanoseconds


def stamps(n=400, spread=10_000, seed=0, start=NOW + 7):
    """Neighbouring timestamps, a feature, and a target that depends on both."""
    rng = np.random.default_rng(seed)
    ts = start + rng.integers(0, spread, n)
    x = rng.standard_normal(n)
    return ts, x, (ts - start) / spread + x + rng.standard_normal(n)


def assert_same_moments(core, ts, x, y=None, degree=2):
    """In rationals, about the first timestamp: products of the columns up to a degree, of all rows
    and of the kept ones.
    """
    first = int(ts[0])
    named = karat.data.containers.is_frame(core.X)
    kept_ts = [int(v) for v in (np.asarray(core.X["ts"]) if named else np.asarray(core.X)[:, 0])]
    assert kept_ts == [int(v) for v in ts[core.indices]], "not the rows as they came"
    spread = max(abs(int(t) - first) for t in ts)
    full = [
        (Fraction(int(t) - first, spread), Fraction(float(v))) for t, v in zip(ts, x, strict=True)
    ]
    weights = [Fraction(float(w)) for w in core.weights]
    for a in range(degree + 1):
        for b in range(degree + 1 - a):
            terms = [t**a * v**b for t, v in full]
            kept = sum(w * terms[i] for w, i in zip(weights, core.indices, strict=True))
            assert abs(float(kept - sum(terms))) <= 1e-11 * float(sum(map(abs, terms))), (a, b)


KINDS = {
    "int64 array": lambda ts, x: np.column_stack([ts, (x * 1000).astype(np.int64)]),
    "uint64 array": (
        lambda ts, x: np.column_stack([ts, (np.abs(x) * 1000).astype(np.int64)]).astype(np.uint64)
    ),
    "pandas of one type": lambda ts, x: pd.DataFrame({"ts": ts, "x": (x * 1000).astype(np.int64)}),
    "pandas": lambda ts, x: pd.DataFrame({"ts": ts, "x": x}),
    "pandas Int64": lambda ts, x: pd.DataFrame({"ts": pd.array(ts, dtype="Int64"), "x": x}),
    "pandas uint64": lambda ts, x: pd.DataFrame({"ts": ts.astype(np.uint64), "x": x}),
    "arrow": lambda ts, x: pa.table({"ts": ts, "x": x}),
    "arrow uint64": lambda ts, x: pa.table({"ts": ts.astype(np.uint64), "x": x}),
    "list": lambda ts, x: [[int(t), int(v * 1000)] for t, v in zip(ts, x, strict=True)],
}


def values_of(kind, x):
    if kind in ("int64 array", "pandas of one type", "list"):
        return np.array([int(v * 1000) for v in x], dtype=float)
    return (np.abs(x) * 1000).astype(np.int64).astype(float) if kind == "uint64 array" else x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "problem", [LeastSquares(), Ridge(1.0), LpRegression(4), Moments(3), Mean()]
)
def test_timestamps_in_nanoseconds(kind, problem):
    ts, x, y = stamps()
    X = KINDS[kind](ts, x)
    core = karat.coreset(X, None if isinstance(problem, Mean | Moments) else y, problem)
    assert core.certificate.ok
    assert not core.certificate.excluded_directions
    if not isinstance(problem, Mean):
        assert_same_moments(core, ts, values_of(kind, x), degree=2 if problem.needs_target else 3)
    assert core.verify(X, None if isinstance(problem, Mean | Moments) else y).ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_sketch_of_timestamps(kind, tmp_path):
    ts, x, y = stamps(2000)
    sketch = karat.Sketch(LeastSquares(), buffer_rows=150)
    for i in range(0, 2000, 100):
        sketch.update(KINDS[kind](ts[i : i + 100], x[i : i + 100]), y[i : i + 100])
        if i == 1000:
            sketch.save(tmp_path / "half.npz")
            sketch = karat.Sketch.load(tmp_path / "half.npz")
    core = sketch.coreset()
    assert core.certificate.ok
    assert_same_moments(core, ts, values_of(kind, x))
    assert core.verify(KINDS[kind](ts, x), y).ok


def test_a_sketch_refuses_what_is_out_of_its_range():
    ts, x, y = stamps()
    frame = pd.DataFrame({"ts": ts, "x": x})
    sketch = karat.Sketch(LeastSquares()).update(frame, y)
    with pytest.raises(InputError, match=r"'ts'.*2\^53"):
        sketch.update(frame.assign(ts=ts + 2**54 + 1), y)
    for kind in ("uint64", "float64"):
        with pytest.raises(InputError, match=r"types of the first: column 'ts'"):
            sketch.update(frame.astype({"ts": kind}), y)
    sketch.update(frame.assign(ts=ts - 10**9), y)
    assert sketch.coreset().n_rows == 800
    late = karat.Sketch(LeastSquares()).update(frame.assign(ts=np.arange(400)), y)
    with pytest.raises(InputError, match="'ts'"):
        late.update(frame, y)


def test_sketches_of_timestamps_merge():
    ts, x, y = stamps(1200)
    frame = pd.DataFrame({"ts": ts, "x": x})
    parts = [
        karat.Sketch(LeastSquares()).update(frame[i : i + 400], y[i : i + 400])
        for i in (0, 400, 800)
    ]
    core = parts[0].merge(*parts[1:]).coreset()
    assert_same_moments(core, ts, x)
    whole = (
        karat.Sketch(LeastSquares()).merge(karat.Sketch(LeastSquares()).update(frame, y)).coreset()
    )
    assert_same_moments(whole, ts, x)
    far = karat.Sketch(LeastSquares()).update(frame.assign(ts=ts + 2**54 + 1), y)
    with pytest.raises(InputError, match="'ts'"):
        parts[0].merge(far)


@pytest.mark.parametrize("kind", ["int64 array", "pandas", "arrow"])
def test_coresets_of_timestamps_merge_and_travel(kind, tmp_path):
    ts, x, y = stamps(1200)
    first, second = (
        karat.coreset(KINDS[kind](ts[a:b], x[a:b]), y[a:b]) for a, b in ((0, 500), (500, 1200))
    )
    first.save(tmp_path / "first.npz")
    second.save(tmp_path / "second.parquet")
    core = karat.load(tmp_path / "first.npz").merge(karat.load(tmp_path / "second.parquet"))
    assert_same_moments(core, ts, values_of(kind, x))
    assert core.verify(KINDS[kind](ts, x), y).ok
    moved = karat.coreset(KINDS[kind](ts + 2**54 + 1, x), y)
    with pytest.raises(InputError, match=r"ts|Column 0"):
        core.merge(moved)


def test_coresets_of_different_integers_do_not_merge_into_doubles():
    ts, x, y = stamps()
    first = karat.coreset(np.column_stack([ts, ts % 7]), y)
    second = karat.coreset(np.column_stack([ts, ts % 7]).astype(np.uint64), y)
    third = karat.coreset(np.column_stack([ts * 1.0, x]), y)
    for other in (second, third):
        with pytest.raises(InputError, match=r"int64"):
            first.merge(other)
    frames = [
        karat.coreset(pd.DataFrame({"ts": ts.astype(kind), "x": x}), y)
        for kind in ("int64", "uint64", "float64")
    ]
    for other in frames[1:]:
        with pytest.raises(InputError, match=r"ts"):
            frames[0].merge(other)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_with_timestamps(suffix, tmp_path):
    ts, x, y = stamps(2000)
    frame = pd.DataFrame({"ts": ts, "x": x, "y": y})
    path = tmp_path / f"rows.{suffix}"
    (
        frame.to_parquet(path, row_group_size=300)
        if suffix == "parquet"
        else frame.to_csv(path, index=False)
    )
    core = karat.coreset_files(path, "y", batch_rows=500)
    assert core.certificate.ok
    assert_same_moments(core, ts, x)
    assert karat.verify_files(core).ok
    assert core.verify(frame[["ts", "x"]], y).ok
    changed = frame.assign(ts=ts + (np.arange(2000) == core.indices[0]))  # by one nanosecond
    (
        changed.to_parquet(path, row_group_size=300)
        if suffix == "parquet"
        else changed.to_csv(path, index=False)
    )
    found = karat.verify_files(core)
    assert not found.ok
    assert core.indices[0] in found.moved


def test_files_with_timestamps_and_gaps(tmp_path):
    ts, x, y = stamps(2000)
    gaps = np.arange(2000) % 50 == 3
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"ts": pa.array(ts, mask=gaps), "x": x, "y": y}), path, row_group_size=300
    )
    core = karat.coreset_files(path, "y", on_missing="drop", batch_rows=500)
    kept = np.flatnonzero(~gaps)
    assert not gaps[core.indices].any()
    assert [int(t) for t in np.asarray(core.X["ts"])] == ts[core.indices].tolist()
    same = karat.coreset(np.column_stack([ts, ts % 2])[kept], y[kept])
    assert same.certificate.ok


def test_a_csv_file_whose_whole_numbers_come_late(tmp_path):
    ts, x, _ = stamps(2000)
    path = tmp_path / "rows.csv"
    pd.DataFrame({"ts": np.where(np.arange(2000) < 1500, ts % 1000, ts), "x": x}).to_csv(
        path, index=False
    )
    with pytest.raises(InputError, match=r"'ts'.*2\^53"):
        karat.coreset_files(path)
    pd.DataFrame({"ts": [str(t) for t in ts[:-1]] + ["1.5"], "x": x}).to_csv(path, index=False)
    with pytest.raises(InputError, match=r"line 2,001: column 'ts'.*integer"):
        karat.coreset_files(path)
    core = karat.coreset_files(path, on_missing="drop")
    assert [int(t) for t in np.asarray(core.X["ts"])] == ts[core.indices].tolist()
    pd.DataFrame({"ts": x * 1e20, "x": x}).to_csv(path, index=False)
    assert karat.coreset_files(path).certificate.ok


@pytest.mark.parametrize("spread", [1000, 10**6, 10**14])
def test_loss_and_solution_of_timestamps(spread):
    """The loss at a query that cancels, and the best model, against rationals."""
    ts, x, y = stamps(spread=spread)
    core = karat.coreset(pd.DataFrame({"ts": ts, "x": x}), y)
    w, b = np.array([1.0 / spread, 0.5]), -(NOW + 7) / spread
    exact = [
        Fraction(w[0]) * int(t) + Fraction(w[1]) * Fraction(v) + Fraction(b) - Fraction(r)
        for t, v, r in zip(ts, x, y, strict=True)
    ]
    full = float(sum(e * e for e in exact))
    assert core.loss((w, b)) == pytest.approx(full, rel=1e-11)
    assert core.loss(np.append(w, b)) == pytest.approx(full, rel=1e-11)
    best = core.problem.solve(core)
    D = np.column_stack([(ts - ts[0]) / spread, x, np.ones(len(x))])
    want = np.linalg.lstsq(D, y, rcond=None)[0]
    assert best.coef * [spread, 1] == pytest.approx(want[:2], rel=1e-9)
    moments = karat.coreset(pd.DataFrame({"ts": ts, "x": x}), problem=Moments(2))
    form = np.array([b, *w])
    full = float(sum((e + Fraction(r)) ** 2 for e, r in zip(exact, y, strict=True)))
    assert moments.loss(form) == pytest.approx(full, rel=1e-11)
    mean = karat.coreset(pd.DataFrame({"ts": ts, "x": x}), problem=Mean())
    centre = [float(NOW + 1024), 0.1]
    full = sum((int(t) - int(centre[0])) ** 2 for t in ts) + float(np.square(x - 0.1).sum())
    assert mean.loss(centre) == pytest.approx(full, rel=1e-11)


def test_a_target_of_large_whole_numbers():
    ts, x, _ = stamps()
    core = karat.coreset(x[:, None], ts)
    assert core.y.tolist() == ts[core.indices].tolist()
    assert core.verify(x[:, None], ts).ok
    want = np.polyfit(x, ts - ts[0], 1)
    best = core.problem.solve(core)
    assert best.coef[0] == pytest.approx(want[0], rel=1e-9)
    assert best.intercept == pytest.approx(float(want[1] + ts[0]), rel=1e-15)
    both = karat.coreset(x[:, None], np.column_stack([ts, ts[::-1]]))
    assert both.certificate.ok
    assert both.problem.solve(both).coef[0, 0] == pytest.approx(want[0], rel=1e-9)


@pytest.mark.parametrize(
    "problem",
    [
        LeastSquares(fit_intercept=False),
        TensorContraction(2),
        Kernel(lambda X: X),
        LpRegression(4, fit_intercept=False),
    ],
)
def test_problems_that_a_shift_would_change(problem):
    ts, x, y = stamps()
    target = y if problem.needs_target else None
    with pytest.raises(
        InputError, match=r"Column 'ts' holds integers up to 1.7e\+18.*subtract an offset"
    ):
        karat.coreset(pd.DataFrame({"ts": ts, "x": x}), target, problem)
    with pytest.raises(InputError, match=r"Column 'ts' holds"):
        karat.Sketch(problem).update(pd.DataFrame({"ts": ts, "x": x}), target)
    even = pd.DataFrame({"ts": ts // 2**11 * 2**11, "x": x})  # doubles
    assert karat.coreset(even, target, problem).certificate.ok


def test_ranges_beyond_double_precision():
    rng = np.random.default_rng(0)
    ids = rng.integers(-(2**62), 2**62, 300)
    x = rng.standard_normal(300)
    for X in (np.column_stack([ids, ids]), pd.DataFrame({"0": ids, "x": x}), ids):
        with pytest.raises(InputError, match=r"Column '?0'? holds integers up to 4.*range"):
            karat.coreset(X, x)
    with pytest.raises(InputError, match=r"Column y holds"):
        karat.coreset(x, ids)
    # over fifteen years, but multiples of 64
    millis = NOW + rng.integers(0, 5 * 10**11, 300) * 10**6
    assert karat.coreset(np.column_stack([millis]), x).certificate.ok
    assert karat.coreset(
        np.array([[2**63], [2**63 + 2**11], [1]] * 50, dtype=np.uint64)
    ).certificate.ok
    assert karat.coreset(np.array([[-(2**63)], [2**62]] * 50)).certificate.ok


def test_rows_of_no_weight_do_not_widen_the_range():
    ts, x, y = stamps()
    ts[5] = -1
    weights = np.where(np.arange(400) == 5, 0.0, 1.0)
    frame = pd.DataFrame({"ts": ts, "x": x})
    core = karat.coreset(frame, y, sample_weight=weights)
    assert core.verify(frame, y, sample_weight=weights).ok
    assert (
        karat.Sketch(LeastSquares())
        .update(frame, y, sample_weight=weights)
        .coreset()
        .certificate.ok
    )


def test_sparse_whole_numbers():
    ts, _, y = stamps()
    X = sparse.csr_array(np.column_stack([ts % 5, ts]))
    with pytest.raises(InputError, match="Column 1 holds integers"):
        karat.coreset(X, y)
    assert karat.coreset(sparse.csr_array(np.column_stack([ts % 5, ts % 1000])), y).certificate.ok


def test_python_integers_are_not_rounded():
    ts, x, y = stamps(50)
    for X in (
        [[int(t), float(v)] for t, v in zip(ts, x, strict=True)],
        np.array([[int(t)] for t in ts], dtype=object),
        [[2**80 + i] for i in range(50)],
        [[10**400 + i] for i in range(50)],
    ):
        with pytest.raises(InputError, match=r"beyond 2\^53"):
            karat.coreset(X, y)
    with pytest.raises(InputError, match=r"beyond 2\^53"):
        karat.coreset(x, [2**63, -1] + [0] * 47 + [2**60 + 1])


def test_groups_of_timestamps():
    ts, x, y = stamps(1000)
    frame = pd.DataFrame({"ts": ts, "x": x})
    groups = np.arange(1000) // 500
    core = karat.coreset(frame, y, groups=groups)
    assert core.verify(frame, y, groups=groups).ok
    core = karat.Sketch(LeastSquares()).update(frame, y, groups=groups).coreset()
    assert core.verify(frame, y, groups=groups).ok


@pytest.mark.parametrize("method", ["onepass", "tree", "caratheodory"])
@pytest.mark.parametrize("absorb", [None, "box", "diagonal"])
def test_every_reducer_reads_timestamps(method, absorb):
    ts, x, y = stamps(1000)
    frame = pd.DataFrame({"ts": ts, "x": x})
    core = karat.coreset(frame, y, Ridge(1.0, absorb=absorb), method=method)
    assert core.certificate.ok
    assert core.verify(frame, y).ok


def test_the_input_of_timestamps_is_not_changed():
    ts, _, y = stamps()
    X = np.column_stack([ts, ts % 3])
    before = X.copy()
    core = karat.coreset(X, y)
    assert np.array_equal(X, before)
    assert core.X.dtype == np.int64


def test_dates_are_refused_as_before():
    with pytest.raises(InputError, match="datetime64"):
        karat.coreset(np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"))


# Wide tables.  Those of polynomial problems wait for the check inside engine/polynomial.py.


@pytest.mark.parametrize(
    ("X", "problem"),
    [
        (
            sparse.random_array((100, 200_000), density=1e-4, format="csr", random_state=0),
            LeastSquares(),
        ),
        (
            sparse.random_array((100, 200_000), density=1e-4, format="csr", random_state=0),
            Moments(2),
        ),
        (
            sparse.random_array((100, 200_000), density=1e-4, format="csr", random_state=0),
            LpRegression(4),
        ),
        (
            sparse.random_array((100, 200_000), density=1e-4, format="csr", random_state=0),
            TensorContraction(3),
        ),
        (np.ones((10, 5000)), LeastSquares()),
        (np.ones((10, 5000)), LeastSquares(fit_intercept=False)),
        (np.ones((10, 20_000)), Mean()),
        (np.ones((10, 20_000)), Moments(1)),
    ],
)
def test_too_wide_is_refused_before_anything_is_computed(X, problem):
    """The features would take gigabytes, and 200,000 dense columns 160 MB; the refusal takes
    little.
    """
    y = np.ones(X.shape[0]) if problem.needs_target else None
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"[\d,]{5,}.*more than the 20,000.*columns"):
            karat.coreset(X, y, problem)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    with pytest.raises(InputError, match=r"more than the 20,000"):
        karat.Sketch(problem).update(X, y)


@pytest.mark.parametrize("targets", [196, 400])  # waits for engine/polynomial.py
def test_many_targets(targets):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4))
    Y = X @ rng.standard_normal((4, targets)) + rng.standard_normal((3000, targets))
    core = karat.coreset(X, Y)
    assert core.certificate.ok
    assert core.certificate.bound == 15 + 6 * targets


def test_a_direction_that_appears_late():
    """Two columns that are equal in the first rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    X[:100, 1] = X[:100, 0]
    for step in (20, 50, 400):
        sketch = karat.Sketch(Moments(1), buffer_rows=50)
        for i in range(0, 400, step):
            sketch.update(X[i : i + step])
        core = sketch.coreset()
        assert core.certificate.ok
        assert core.weights @ core.X == pytest.approx(X.sum(axis=0), abs=1e-9)


def odd_tables():
    """Makers of things that are not a table of numbers, or barely: each is made when it is asked
    for.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    return {
        "None": lambda: None,
        "scalar": lambda: 3.0,
        "integer": lambda: 7,
        "boolean": lambda: True,
        "zero-dimensional": lambda: np.array(1.0),
        "string": lambda: "table",
        "bytes": lambda: b"table",
        "path": lambda: __import__("pathlib").Path("table.csv"),
        "dict": lambda: {"a": [1.0, 2.0]},
        "set": lambda: {1.0, 2.0},
        "generator": lambda: (row for row in X),
        "range": lambda: range(40),
        "iterator": lambda: iter(X.tolist()),
        "function": lambda: len,
        "type": lambda: float,
        "object": object,
        "module": lambda: np,
        "slice": lambda: slice(0, 4),
        "empty list": lambda: [],
        "list of nothing": lambda: [[], []],
        "ragged": lambda: [[1.0, 2.0], [3.0]],
        "ragged objects": lambda: [[1.0, 2.0], 3.0],
        "list of strings": lambda: [["1", "2"], ["3", "4"]],
        "list of None": lambda: [[None, 1.0]] * 40,
        "list of dicts": lambda: [{"a": 1.0}] * 40,
        "list of frames": lambda: [pd.DataFrame(X)] * 2,
        "list of arrays": lambda: list(X),
        "list of sparse": lambda: [sparse.csr_array(X)] * 2,
        "complex": lambda: X * 1j,
        "object numbers": lambda: X.astype(object),
        "object of None": lambda: np.full((40, 2), None),
        "decimals": lambda: np.array([[__import__("decimal").Decimal(1)]] * 40),
        "fractions": lambda: np.array([[Fraction(1, 3)]] * 40),
        "structured": lambda: np.zeros(40, dtype=[("a", float), ("b", int)]),
        "record": lambda: np.rec.array(np.zeros(40, dtype=[("a", float)])),
        "dates": lambda: np.full((40, 1), "2020-01-01", dtype="datetime64[ns]"),
        "durations": lambda: np.full((40, 1), 3, dtype="timedelta64[s]"),
        "text": lambda: X.astype(str),
        "byte strings": lambda: X.astype("S"),
        "three dimensions": lambda: np.zeros((4, 2, 2)),
        "no columns": lambda: np.zeros((40, 0)),
        "no rows": lambda: np.zeros((0, 2)),
        "half": lambda: X.astype(np.float16),
        "long double": lambda: X.astype(np.longdouble),
        "booleans": lambda: X > 0,
        "masked": lambda: np.ma.masked_greater(X, 1.0),
        "all masked": lambda: np.ma.masked_all((40, 2)),
        "read backwards": lambda: X[::-1, ::-1],
        "Fortran": lambda: np.asfortranarray(X),
        "big-endian": lambda: X.astype(">f8"),
        "NaN": lambda: np.full((40, 2), np.nan),
        "infinite": lambda: np.full((40, 2), np.inf),
        "sparse of one dimension": lambda: sparse.coo_array(X[:, 0]),
        "sparse coo": lambda: sparse.coo_array(X),
        "sparse csc matrix": lambda: sparse.csc_matrix(X),
        "sparse dia": lambda: sparse.dia_array(X),
        "sparse lil": lambda: sparse.lil_array(X),
        "sparse dok": lambda: sparse.dok_array(X),
        "sparse bsr": lambda: sparse.bsr_array(X),
        "sparse booleans": lambda: sparse.csr_array(X > 0),
        "sparse complex": lambda: sparse.csr_array(X * 1j),
        "sparse single": lambda: sparse.csr_array(X.astype(np.float32)),
        "sparse NaN": lambda: sparse.csr_array(np.where(X > 1, np.nan, X)),
        "frame of text": lambda: pd.DataFrame({"a": ["x"] * 40}),
        "frame of categories": lambda: pd.DataFrame({"a": pd.Categorical(["x"] * 40)}),
        "frame of dates": lambda: pd.DataFrame({"a": pd.date_range("2020", periods=40)}),
        "frame of objects": lambda: pd.DataFrame({"a": [object()] * 40}),
        "frame of complex": lambda: pd.DataFrame({"a": X[:, 0] * 1j}),
        "frame with missing": lambda: pd.DataFrame({"a": pd.array([1, None] * 20, dtype="Int64")}),
        "frame of lists": lambda: pd.DataFrame({"a": [[1, 2]] * 40}),
        "frame with twin names": lambda: pd.DataFrame(X, columns=["a", "a"]),
        "frame with numbered names": lambda: pd.DataFrame(X, columns=[3, 1]),
        "frame with two levels": lambda: pd.DataFrame(
            X, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
        ),
        "frame of sparse columns": lambda: pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X)),
        "empty frame": pd.DataFrame,
        "series": lambda: pd.Series(X[:, 0]),
        "index": lambda: pd.Index(X[:, 0]),
        "categorical": lambda: pd.Categorical(["x"] * 40),
        "arrow of text": lambda: pa.table({"a": ["x"] * 40}),
        "arrow with nulls": lambda: pa.table({"a": [1, None] * 20}),
        "arrow of nulls": lambda: pa.table({"a": pa.nulls(40)}),
        "arrow of structs": lambda: pa.table({"a": [{"b": 1}] * 40}),
        "arrow of decimals": lambda: pa.table({"a": pa.array([1] * 40).cast(pa.decimal128(30, 2))}),
        "arrow column": lambda: pa.chunked_array([X[:, 0]]),
        "arrow array": lambda: pa.array(X[:, 0]),
        "memory view": lambda: memoryview(X),
    }


ODD = list(odd_tables())


def outcome(function, *arguments, **options):
    """Runs, or is refused in words of karat."""
    try:
        return function(*arguments, **options)
    except (InputError, NotExactError) as error:
        text = str(error)
        assert len(text) > 20, text
        assert text.endswith((".", ")")), text
        return error


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # NumPy's matrices
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("place", ["X", "y", "sample_weight", "groups", "lengths"])
def test_no_raw_exception(kind, place):
    """Whatever is passed, in whichever place, to whichever function."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    core = karat.coreset(X, y)
    for problem in (
        LeastSquares(),
        Moments(1),
        Mean(),
        karat.problems.ICA(2),
        karat.problems.HiddenMarkov(2),
    ):
        odd = odd_tables()[kind]()
        arguments = {"X": X, "y": y if problem.needs_target else None} | {place: odd}
        outcome(karat.coreset, problem=problem, **arguments)
        arguments = {"X": X, "y": y if problem.needs_target else None} | {
            place: odd_tables()[kind]()
        }
        if place != "lengths" and problem.mergeable:
            sketch = karat.Sketch(problem)
            if not isinstance(outcome(sketch.update, **arguments), Exception):
                outcome(sketch.coreset)
                outcome(
                    sketch.update, **({"X": X, "y": arguments["y"]} | {place: odd_tables()[kind]()})
                )
            before = karat.Sketch(problem).update(X, y if problem.needs_target else None)
            arguments = {"X": X, "y": y if problem.needs_target else None} | {
                place: odd_tables()[kind]()
            }
            if not isinstance(outcome(before.update, **arguments), Exception):
                outcome(before.coreset)
    outcome(core.verify, **({"X": X, "y": y} | {place: odd_tables()[kind]()}))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # NumPy's matrices
@pytest.mark.parametrize("kind", ODD)
def test_no_raw_exception_elsewhere(kind):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    core = karat.coreset(X, y)
    for function in (
        core.merge,
        lambda odd: karat.Sketch(LeastSquares()).merge(odd),
        karat.Sketch,
        lambda odd: karat.coreset(X, y, odd if odd is not None else 0),
        lambda odd: karat.Sketch(LeastSquares(), key=0).update(odd, y),
        lambda odd: karat.coreset(X, y, method=odd),
        lambda odd: karat.coreset(X, y, random_state=odd),
    ):
        outcome(function, odd_tables()[kind]())


def test_a_sketch_that_gets_no_target():
    X = np.ones((5, 2))
    for problem in (LeastSquares(), Ridge(1.0), LpRegression(4)):
        with pytest.raises(InputError, match="needs a target"):
            karat.Sketch(problem).update(X)
    with pytest.raises(InputError, match="not None"):
        karat.Sketch(Moments(2)).update(None)


def labels(kind):
    n = 60
    codes = np.arange(n) % 3
    names = np.array(["a", "b", "c"])[codes]
    return {
        "integers": codes,
        "strings": names,
        "objects": names.astype(object),
        "a list": names.tolist(),
        "booleans": codes > 0,
        "categories": pd.Categorical(names),
        "series of categories": pd.Series(names, dtype="category"),
        "series of strings": pd.Series(names, dtype="string"),
        "series of Int64": pd.Series(codes, dtype="Int64"),
        "dates": np.datetime64("2020-01-01") + codes,
        "series of dates": pd.Series(np.datetime64("2020-01-01", "ns") + codes),
        "arrow": pa.array(names.tolist()),
        "arrow dictionary": pa.array(names.tolist()).dictionary_encode(),
        "object integers": codes.astype(object),
        "periods": pd.Series(pd.period_range("2020", periods=3, freq="M")[codes]),
        "dates with a zone": pd.Series(pd.date_range("2020", periods=3, tz="UTC")[codes]),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "integers",
        "strings",
        "objects",
        "a list",
        "booleans",
        "categories",
        "series of categories",
        "series of strings",
        "series of Int64",
        "dates",
        "series of dates",
        "arrow",
        "arrow dictionary",
        "object integers",
        "periods",
        "dates with a zone",
    ],
)
def test_labels_that_work(kind, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    groups = labels(kind)
    core = karat.coreset(X, y, groups=groups)
    assert core.verify(X, y, groups=groups).ok
    sketch = karat.Sketch(LeastSquares(), buffer_rows=25)
    sketch.update(X[:30], y[:30], groups=groups[:30]).update(X[30:], y[30:], groups=groups[30:])
    other = sketch.coreset()
    assert other.verify(X, y, groups=groups).ok
    for name in ("core.npz", "core.parquet") if core.groups.dtype.kind != "O" else ():
        core.save(tmp_path / name)
        assert karat.load(tmp_path / name).verify(X, y, groups=groups).ok


@pytest.mark.parametrize(
    ("bad", "row", "match"),
    [
        (lambda v: [*v[:7], None, *v[8:]], 7, "missing"),
        (lambda v: [*v[:7], np.nan, *v[8:]], 7, "missing"),
        (lambda v: [*v[:7], pd.NaT, *v[8:]], 7, "missing"),
        (lambda v: [*v[:7], pd.NA, *v[8:]], 7, "missing"),
        (lambda v: pd.Categorical([*v[:7], None, *v[8:]]), 7, "missing"),
        (lambda v: pd.Series([*v[:7], None, *v[8:]], dtype="string"), 7, "missing"),
        (lambda v: pa.array([*v[:7], None, *v[8:]]), 7, "missing"),
        (
            lambda v: pd.Series([*range(7), None, *v[8:]][:8] + [1] * 52, dtype="Int64"),
            7,
            "missing",
        ),
        (
            lambda v: np.array(
                [*["2020-01-01"] * 7, "NaT", *["2020-01-02"] * 52], dtype="datetime64[D]"
            ),
            7,
            "missing",
        ),
        (lambda v: [*v[:7], 7, *v[8:]], 7, "int"),
        (lambda v: [*v[:7], b"a", *v[8:]], 7, "bytes"),
        (lambda v: [*v[:7], object(), *v[8:]], 7, "object"),
        (lambda v: pd.Series([(1, 2)] * 60), 0, "tuple"),
        (lambda v: pd.Series([[1, 2]] * 60), 0, "list"),
        (lambda v: [{1}] * 60, 0, "set"),
        (lambda v: [object() for _ in v], 0, "object"),
        (lambda v: np.ma.array(np.zeros(60), mask=np.arange(60) == 7), 7, "missing"),
        (lambda v: np.where(np.arange(60) == 7, np.nan, 1.0), 7, "missing"),
    ],
)
def test_labels_that_are_refused(bad, row, match):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    groups = bad(["a", "b", "c"] * 20)
    if isinstance(groups, list):  # as NumPy would, but without turning everything into text
        groups = pd.Series(groups, dtype=object)
    for build in (
        lambda: karat.coreset(X, y, groups=groups),
        lambda: karat.Sketch(LeastSquares()).update(X, y, groups=groups),
    ):
        with pytest.raises(
            InputError, match=rf"groups.*{match}.*row {row}\b|groups.*row {row}\b.*{match}"
        ):
            build()


def test_lists_of_tuples_as_labels():
    X = np.random.default_rng(0).standard_normal((60, 2))
    with pytest.raises(InputError, match="one label per row"):
        karat.coreset(X, groups=[(1, 2), (1, 3)] * 30)
    with pytest.raises(InputError, match="groups"):
        karat.coreset(X, groups=["a", 1] * 30)  # which NumPy makes text of


def test_labels_that_change_their_kind():
    X = np.random.default_rng(0).standard_normal((60, 2))
    sketch = karat.Sketch(Moments(2)).update(X, groups=np.arange(60) % 2)
    with pytest.raises(InputError, match="groups"):
        sketch.update(X, groups=np.array(["a", "b"] * 30))
    first = karat.coreset(X, groups=np.arange(60) % 2)
    with pytest.raises(InputError, match="groups"):
        first.merge(karat.coreset(X, groups=np.array(["a", "b"] * 30)))
