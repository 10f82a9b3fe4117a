"""Transformed columns are computed once, whichever way they are held."""

import numpy as np
import pytest
from scipy import sparse

import karat
from karat.data.advice import explain_non_finite
from karat.data.transformed import LargeBlocks, transformed
from karat.engine.reduce import build
from karat.engine.rows import Rows
from karat.problems import LeastSquares, Transformed


class Counted:
    """A row-wise transformation that counts its calls."""

    def __init__(self, dense):
        self.dense, self.calls = dense, 0

    def __call__(self, rows):
        self.calls += 1
        table = np.column_stack([rows, rows[:, 0] * rows[:, 1], rows[:, :1] > 0])
        return table if self.dense else sparse.csr_array(table)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.standard_normal(20_000)


@pytest.mark.parametrize("dense", [True, False])
def test_one_transform_of_all_rows(rows, dense):
    X, y = rows
    transform = Counted(dense)
    core = karat.coreset(X, y, Transformed(LeastSquares(), transform))
    assert transform.calls == 1
    assert core.certificate.ok
    table = Counted(True)(X)
    plain = karat.coreset(table, y)
    assert np.array_equal(core.indices, plain.indices)
    assert np.array_equal(core.X, X[core.indices])


@pytest.mark.parametrize("dense", [True, False])
def test_blocks_in_bounded_memory(rows, dense):
    X, y = rows
    table = Counted(True)(X)
    array = transformed(X, Counted(dense), block=3000)
    assert isinstance(array, np.ndarray)
    assert np.array_equal(array, table)
    blocks = transformed(X, Counted(dense), held=20_000 * 5 * 8 // 4, block=3000)
    assert isinstance(blocks, LargeBlocks)
    for where in (
        slice(0, 10),
        slice(2990, 9010),
        np.array([5, 19_999, 4000, 4001]),
        np.arange(0, 20_000, 3),
    ):
        assert np.array_equal(blocks[where], table[where])
    assert len(blocks.held) <= blocks.most
    kernel = LeastSquares().kernel(5, 1)
    chosen, plain = (build(Rows([part, y[:, None]]), kernel, "auto", 0) for part in (blocks, table))
    assert chosen.proof.ok
    assert np.array_equal(chosen.positions, plain.positions)


def test_errors_name_columns_that_are_not_in_memory(rows):
    X, y = rows
    for value, said in (
        (np.nan, "Column d has 2 NaN values, the first in row 7"),
        (1e300, "Column d has a value in row 7 that is 3e+300 times as far from the others"),
    ):

        def spoilt(part, value=value):
            table = Counted(True)(part)
            table[np.isin(part[:, 0], X[[7, 15_000], 0]), 3] = value
            return table

        blocks = transformed(X, spoilt, held=20_000 * 5 * 8 // 4, block=3000)
        assert isinstance(blocks, LargeBlocks)
        error = explain_non_finite([blocks, y[:, None]], list("abcdey"))
        assert said in str(error)
        assert error.column == "d"


def test_sparse_columns_stay_sparse(rows):
    X, _ = rows

    def codes(part):
        return sparse.csr_array(
            (np.ones(len(part)), (np.arange(len(part)), np.abs(part[:, 0] * 20).astype(int) % 50))
        )

    def one_hot(part):
        table = codes(part)
        return sparse.csr_array((table.data, table.indices, table.indptr), shape=(len(part), 50))

    table = transformed(X, one_hot, held=2**20, block=3000)
    assert sparse.issparse(table)
    assert (table != one_hot(X)).nnz == 0


def test_numbers_beyond_doubles_are_refused():
    X = np.arange(10, dtype=np.int64)[:, None] + 2**60
    with pytest.raises(karat.InputError, match="subtract an offset"):
        karat.coreset(X, np.arange(10.0), Transformed(LeastSquares(), lambda rows: rows))


def test_doors_that_keep_columns_as_they_are_refuse_a_transformation(tmp_path):
    """Dask and Spark ignored it, and the certificate said ok."""
    dd, _ = pytest.importorskip("dask.dataframe"), pytest.importorskip("karat.dask")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 3)), columns=["a", "b", "y"]).assign(
        g=np.arange(300) % 3
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    arrays = dd.from_pandas(frame, npartitions=2).to_dask_array(lengths=True)
    problem = Transformed(
        LeastSquares(), lambda rows: np.column_stack([rows, np.prod(rows, axis=1)])
    )
    with pytest.raises(karat.InputError, match="transform the rows first"):
        karat.coreset_files(tmp_path / "rows.parquet", "y", problem=problem)
    with pytest.raises(karat.InputError, match="transform the rows first"):
        karat.dask.coreset(dd.from_pandas(frame, npartitions=2), "y", problem)
    with pytest.raises(karat.InputError, match="transform the rows first"):
        karat.dask.coreset(arrays, arrays[:, 0], problem)
    with pytest.raises(karat.InputError, match="transform the rows first"):
        karat.cube(frame, by="g", target="y", problem=problem)
    with pytest.raises(karat.InputError, match="transform the rows before you add them"):
        karat.Sketch(problem)
