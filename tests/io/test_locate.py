"""One changed row is named: by both sums of its block, or by the sum of all rows where a file has
no sums of blocks.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat.io.row_hashes import BLOCK, RowHashes
from karat.io.verdict import compare

N = 2 * BLOCK + 5000


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    return {
        "a": rng.standard_normal(N),
        "town": rng.choice(["x", "y"], N),
        "y": rng.standard_normal(N),
    }


def hashed(columns):
    content = RowHashes(list(columns))
    content.add(pa.table(columns))
    return content


def changed(columns, *rows):
    a = columns["a"].copy()
    a[list(rows)] += 1e-9
    return columns | {"a": a}


def rows_named(stored, columns):
    return [block.row for block in compare(stored, hashed(columns), ["f"], {0: N})[1]]


@pytest.mark.parametrize(
    "row", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK, N - 1, *np.random.default_rng(1).integers(0, N, 8)]
)
def test_the_row_is_named(columns, row):
    stored = hashed(columns).to_dict()
    other = columns | {"town": columns["town"].copy()}
    other["town"][row] = "z"
    for touched in (changed(columns, row), other):
        assert rows_named(stored, touched) == [row]
        older = {name: value for name, value in stored.items() if name != "plain"}
        assert rows_named(older, touched) == [row]


def test_one_row_in_each_of_several_blocks(columns):
    stored = hashed(columns).to_dict()
    touched = changed(columns, 7, BLOCK + 9, N - 3)
    assert rows_named(stored, touched) == [7, BLOCK + 9, N - 3]
    assert (
        rows_named({name: value for name, value in stored.items() if name != "plain"}, touched)
        == [None] * 3
    )


def test_several_rows_of_a_block_are_not_named(columns):
    """Also not by rows that changed places, whose sum is what it was."""
    stored = hashed(columns).to_dict()
    assert rows_named(stored, changed(columns, 7, 8)) == [None]
    swapped = columns | {"a": columns["a"].copy()}
    swapped["a"][[3, 5]] = swapped["a"][[5, 3]]
    assert rows_named(stored, swapped) == [None]
    (block,) = compare(stored, hashed(changed(columns, 7, 8)), ["f"], {0: N})[1]
    assert (
        str(block) == "somewhere in the block of 32,768 rows from 0 to 32,767 (f rows 0 to 32,767)"
    )


def test_files_and_what_the_row_holds_now(columns, tmp_path):
    for i, half in enumerate((slice(0, BLOCK + 10), slice(BLOCK + 10, N))):
        pq.write_table(
            pa.table({name: values[half] for name, values in columns.items()}),
            tmp_path / f"{i}.parquet",
        )
    core = karat.coreset_files(tmp_path, "y", one_hot=["town"])
    touched = changed(columns, BLOCK + 25)
    rest = {name: values[BLOCK + 10 :] for name, values in touched.items()}
    pq.write_table(pa.table(rest), tmp_path / "1.parquet")
    found = karat.verify_files(core)
    assert not found.ok
    assert str(found.changed[0]) == "row 32,793 (1.parquet row 15)"
    (block,) = karat.verify_files(core, locate=True).changed
    assert block.values == {
        "a": touched["a"][BLOCK + 25],
        "town": touched["town"][BLOCK + 25],
        "y": columns["y"][BLOCK + 25],
    }
    assert str(block).startswith("row 32,793 (1.parquet row 15), which now is a = ")
    with pytest.raises(karat.InputError, match="A stream can be read only once"):
        karat.verify_files(core, pa.table(touched).to_reader(), locate=True)


def test_hashes_of_a_run_that_resumed(columns):
    """A checkpoint without sums of blocks goes on without them."""
    whole, older = hashed(columns), hashed(columns).to_dict()
    older.pop("plain")
    resumed = RowHashes.from_dict(older, False)
    for one in (whole, resumed):
        one.add(pa.table({name: values[:100] for name, values in columns.items()}))
    assert "plain" not in resumed.to_dict()
    assert resumed.same_rows(whole)
