"""Any frame in, the same kind out: names, types and index kept; what is not numeric raises an
error.
"""

import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from estimators.reducing import CoresetRegressor
from scipy import sparse
from sklearn.linear_model import LassoCV, Ridge

import karat
from karat import InputError, problems
from karat.data import containers


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "height": rng.normal(170, 10, 3000).astype(np.float32),
            "count": rng.integers(0, 9, 3000),
            "flag": rng.random(3000) < 0.3,
            "income": rng.lognormal(3, 1, 3000),
        },
        index=pd.Index([f"id{i}" for i in range(3000)], name="person"),
    )
    return frame, pd.Series(
        frame["income"] * 2 - frame["count"] + rng.normal(size=3000),
        name="spent",
        index=frame.index,
    )


KINDS = {
    "pandas": lambda X: X,
    "polars": pl.from_pandas,
    "lazy": lambda X: (
        pl.from_pandas(X).lazy() if isinstance(X, pd.DataFrame) else pl.from_pandas(X)
    ),
    "pyarrow": lambda X: (
        pa.Table.from_pandas(X, preserve_index=False)
        if isinstance(X, pd.DataFrame)
        else pa.chunked_array([X])
    ),
    "nullable": lambda X: X.convert_dtypes(),
    "arrow types": lambda X: X.convert_dtypes(dtype_backend="pyarrow"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_from_every_kind(kind, table):
    X, y = table
    plain = karat.coreset(X.to_numpy(dtype=float), y.to_numpy())
    A, b = KINDS[kind](X), KINDS[kind](y)
    core = karat.coreset(A, b)
    np.testing.assert_array_equal(core.indices, plain.indices)
    np.testing.assert_allclose(core.weights, plain.weights, rtol=1e-12)
    assert type(core.X) is (pl.DataFrame if kind == "lazy" else type(A))
    assert type(core.y) is type(b)
    np.testing.assert_allclose(core.loss(np.ones(5)), plain.loss(np.ones(5)), rtol=1e-12)
    assert core.verify(A, b).ok
    merged = core.merge(core)
    assert type(merged.X) is type(core.X)
    assert merged.weights.sum() == pytest.approx(6000)


def test_names_types_and_index(table):
    X, y = table
    core = karat.coreset(X, y)
    pd.testing.assert_frame_equal(core.X, X.iloc[core.indices])
    pd.testing.assert_series_equal(core.y, y.iloc[core.indices])
    eager = pl.from_pandas(X)
    assert karat.coreset(eager, y.to_numpy()).X.schema == eager.schema


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_fitting_from_frames(kind, table):
    X, y = table
    full = LassoCV(alphas=5, cv=3).fit(X.astype(float), y)
    few = CoresetRegressor(LassoCV(alphas=5, cv=3)).fit(
        KINDS[kind](X), y if kind == "pandas" else y.to_numpy()
    )
    np.testing.assert_allclose(few.estimator_.coef_, full.coef_, rtol=1e-8, atol=1e-8)
    assert few.n_features_in_ == 4
    if kind != "pyarrow":  # scikit-learn reads no names from pyarrow tables
        assert list(few.feature_names_in_) == list(X.columns)
    np.testing.assert_allclose(
        few.predict(KINDS[kind](X)), full.predict(X.astype(float)), rtol=1e-8
    )


def test_a_changed_order_of_columns_is_noticed(table):
    X, y = table
    few = CoresetRegressor(Ridge()).fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        few.predict(X[X.columns[::-1]])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(list("abc") * 10),
        pd.Categorical(list("abc") * 10),
        pd.date_range("2020", periods=30),
    ],
    ids=["strings", "categories", "dates"],
)
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_columns_that_are_not_numbers(column, kind):
    X = pd.DataFrame({"size": np.arange(30.0), "town": column})
    with pytest.raises(
        InputError, match=r"Column 'town' of X has type .* (encode it|days since a start)"
    ):
        karat.coreset(KINDS[kind](X), problem=problems.Moments(2))


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_placed(kind, table):
    X, y = table
    X = X.copy()
    X.iloc[7, 3] = np.nan
    with pytest.raises(InputError, match=r"Column 'income' has 1 NaN value, the first in row 7"):
        karat.coreset(KINDS[kind](X), y.to_numpy())


def test_two_columns_of_one_name():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 2)), columns=["a", "a"])
    with pytest.raises((InputError, ValueError), match=r"name|unique"):
        karat.coreset(X)


def test_sparse_rows_are_read_by_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random_array((200_000, 12), density=0.05, random_state=rng, format="csr")
    y = X @ np.ones(12) + rng.standard_normal(200_000)
    seen = []
    whole = sparse.csr_array.toarray
    monkeypatch.setattr(
        sparse.csr_array,
        "toarray",
        lambda self, *a, **k: (seen.append(self.shape[0]), whole(self, *a, **k))[1],
    )
    core = karat.coreset(X, y)
    assert seen
    assert max(seen) < 20_000
    assert sparse.issparse(core.X)


def test_saving_rows_of_a_frame(table, tmp_path):
    X, y = table
    for kind in ("pandas", "polars", "pyarrow"):
        core = karat.coreset(KINDS[kind](X), y.to_numpy())
        core.save(tmp_path / "core.npz")
        assert karat.load(tmp_path / "core.npz").loss(np.ones(5)) == pytest.approx(
            core.loss(np.ones(5)), rel=1e-12
        )


def test_arrays_and_sparse_need_no_narwhals():
    script = """
import sys
import tracemalloc
sys.modules["narwhals"] = None
import numpy as np, karat
from scipy import sparse
X = np.random.default_rng(0).standard_normal((500, 3))
assert len(karat.coreset(X)) == 10 and len(karat.coreset(sparse.csr_array(X))) == 10
import pandas as pd
try:
    karat.coreset(pd.DataFrame(X))
except karat.MissingExtraError as error:
    assert "karat[frames]" in str(error), error
else:
    raise SystemExit("a frame was read without narwhals")
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_single_precision_becomes_double(table):
    X, _ = table
    assert containers.in_double(X)["height"].dtype == np.float64
    assert containers.in_double(X)["count"].dtype == X["count"].dtype
    assert containers.in_double(pl.from_pandas(X)).schema["height"] == pl.Float64
    assert containers.in_double(X["height"]).dtype == np.float64


def test_verify_goes_by_the_names_of_columns(table):
    X, y = table
    core = karat.coreset(X, y)
    assert core.verify(X[X.columns[::-1]].assign(unused=1.0), y).ok
    assert core.verify(pl.from_pandas(X), y.to_numpy()).ok
    with pytest.raises(InputError, match="no column 'flag'"):
        core.verify(X.drop(columns="flag"), y)


def test_the_name_of_a_target(table):
    """It stands for the column in a frame; an array has no names."""
    X, _ = table
    core = karat.coreset(X, "income")
    assert core.y.name == "income"
    assert "income" not in core.X.columns
    with pytest.raises(InputError, match="names a column, but X is of type ndarray"):
        karat.coreset(np.eye(30), "income")


def test_predictions_convert_a_frame_once():
    """Before, columns in single precision were copied twice: one by one, then side by side."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.standard_normal((100_000, 10)).astype(np.float32), columns=[f"x{i}" for i in range(10)]
    )
    model = CoresetRegressor(Ridge()).fit(frame, frame.x0 - frame.x1)
    tracemalloc.start()
    found = model.predict(frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * 8 * frame.size
    np.testing.assert_array_equal(found, model.estimator_.predict(frame.astype(float)))
