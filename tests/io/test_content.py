"""Hashes of rows: the same for the same values however they are stored, other ones after any
change.
"""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather
from tables import COLUMNS, make, write

import karat
from karat.io.row_hashes import BLOCK, RowHashes, joined_hashes, spans
from karat.io.verdict import compare


def hashed(table, cuts=(), gaps=True):
    content = RowHashes(table.column_names, gaps)
    for a, b in zip([0, *cuts], [*cuts, len(table)], strict=True):
        content.add(table.slice(a, b - a))
    return content.to_dict()


def differ(one, other):
    return one["sums"] != other["sums"] and one["blocks"] != other["blocks"]


numbers = st.floats(width=32)
rows = st.lists(
    st.tuples(numbers, st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=5)),
    min_size=2,
    max_size=40,
)


def as_table(listed):
    kinds = [pa.float64(), pa.int64(), pa.string()]
    return pa.table(
        {n: pa.array(c, k) for n, c, k in zip("abc", zip(*listed, strict=True), kinds, strict=True)}
    )


@settings(max_examples=100, deadline=None)
@given(rows, st.randoms(use_true_random=False), st.data())
def test_cuts_order_and_changes(listed, random, data):
    table = as_table(listed)
    whole = hashed(table)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(listed)), max_size=4)))
    assert hashed(table, cuts) == whole
    assert hashed(table.select(["c", "a", "b"])) == whole
    shuffled = list(listed)
    random.shuffle(shuffled)
    again = hashed(as_table(shuffled))
    assert again["sums"] == whole["sums"]
    equal = [repr(x) for x in shuffled] == [repr(x) for x in listed]
    assert (again["blocks"] == whole["blocks"]) == (equal or as_table(shuffled).equals(table))
    # a row of zeros has the hash 0: the number of rows tells
    for other in ([*listed, listed[0]], listed[1:]):
        assert (
            compare(whole, RowHashes.from_dict(hashed(as_table(other)), True), [], {})[0]
            == "changed"
        )


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False), st.integers(0, 63), st.integers(0, 99), st.integers(0, 4))
def test_one_bit_of_one_value(value, bit, row, column):
    columns = np.random.default_rng(0).standard_normal((5, 100))
    columns[column, row] = value
    before = hashed(pa.table(list(columns), names=list("abcde")))
    columns[column].view(np.uint64)[row] ^= np.uint64(1) << np.uint64(bit)
    after = hashed(pa.table(list(columns), names=list("abcde")))
    if value == columns[column, row]:  # the sign of zero is not a change of the value
        assert after == before
    else:
        assert differ(after, before)


def test_two_values_changed_places():
    x = np.random.default_rng(0).standard_normal((2, 1000))
    before = hashed(pa.table({"a": x[0], "b": x[1]}))
    assert differ(hashed(pa.table({"a": x[1], "b": x[0]})), before)
    other = x[0].copy()
    other[[3, 5]] = other[[5, 3]]  # column sums stay what they were
    assert differ(hashed(pa.table({"a": other, "b": x[1]})), before)


@pytest.mark.parametrize("one", ["f4", "f8", "i1", "i4", "i8", "u8", "?"])
def test_values_not_types(one):
    values = np.random.default_rng(1).integers(0, 2, 500)
    assert hashed(pa.table({"a": values.astype(one)})) == hashed(
        pa.table({"a": values.astype(float)})
    )
    assert hashed(pa.table({"a": pa.array(values.astype(one)).dictionary_encode()})) == hashed(
        pa.table({"a": values})
    )


def test_whole_numbers_beyond_doubles():
    ids = 2**60 + np.arange(1000)
    assert len({hashed(pa.table({"a": pa.array([i])}))["sums"][0] for i in ids.tolist()}) == 1000


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts(kind):
    texts = ["", "a", "b", "ab", "ba", "a\x00", "ä", "\U0001f600", "x" * 5000, "x" * 5001]
    alone = [hashed(pa.table({"a": pa.array([text]).cast(kind)}))["sums"][0] for text in texts]
    assert len({*alone, hashed(pa.table({"a": pa.array([None], kind)}))["sums"][0]}) == 11
    column = pa.array(texts * 30)
    assert hashed(pa.table({"a": column.cast(kind)})) == hashed(pa.table({"a": column}))
    assert hashed(pa.table({"a": column.slice(7, 100)})) == hashed(
        pa.table({"a": column.to_pylist()[7:107]})
    )


def test_long_texts_in_little_memory():
    texts = ["y" * (i % 3000) for i in range(3000)]
    each = sum(int(hashed(pa.table({"a": [t]}))["sums"][0], 16) for t in texts) % 2**64
    assert hashed(pa.table({"a": texts}))["sums"][0] == f"{each:016x}"


def test_other_types_are_hashed_by_their_text():
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None]
    assert differ(hashed(pa.table({"a": days})), hashed(pa.table({"a": [days[0], days[0], None]})))
    assert hashed(pa.table({"a": pa.array([[1], [2]])}))["rows"] == 2


def test_every_missing_number_is_the_same():
    nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(float)
    assert hashed(pa.table({"a": nan})) == hashed(pa.table({"a": pa.array([None, np.nan])}))
    assert hashed(pa.table({"a": nan})) == hashed(pa.table({"a": pa.nulls(2)}))


def test_blocks_find_the_row():
    n = 3 * BLOCK + 100
    values = np.random.default_rng(0).standard_normal(n)
    before = hashed(pa.table({"a": values}))
    assert spans(before) == [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, 3 * BLOCK), (3 * BLOCK, n)]
    for row, block in ((0, 0), (BLOCK - 1, 0), (BLOCK, 1), (n - 1, 3)):
        other = values.copy()
        other[row] = np.nextafter(other[row], 9)
        after = hashed(pa.table({"a": other}), cuts=(5000, BLOCK + 3))
        assert [i for i in range(4) if after["blocks"][i] != before["blocks"][i]] == [block]


def test_hashes_of_sources_add_up():
    values = np.random.default_rng(0).standard_normal(2 * BLOCK)
    parts = [pa.table({"a": v}) for v in np.split(values, [BLOCK + 5, BLOCK + 9])]
    known = joined_hashes([hashed(part) for part in parts])
    content = RowHashes(["a"], True, known["parts"][:-1])
    content.add(pa.table({"a": values}))
    assert content.to_dict() == known
    assert known["sums"] == hashed(pa.table({"a": values}))["sums"]
    assert joined_hashes([known, None]) is None
    assert joined_hashes([known, hashed(pa.table({"b": values}))]) is None


def content_of(source, **options):
    options = {"columns": COLUMNS, "groups": "g", "key": "id", "sample_weight": "w"} | options
    return karat.coreset_files(source, "y", **options).provenance["content"]


@pytest.fixture(scope="module")
def narrow():
    """Values that float32, text and double can all hold."""
    table = make(5000)
    kinds = [pa.float32() if pa.types.is_floating(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema([(f.name, k) for f, k in zip(table.schema, kinds, strict=True)]))


def test_formats_files_and_batches_do_not_matter(narrow, tmp_path):
    expected = content_of(write(narrow, tmp_path / "five"))
    doubles = narrow.cast(make(10).schema)
    pacsv.write_csv(doubles, tmp_path / "one.csv")
    feather.write_feather(narrow, str(tmp_path / "one.feather"), compression="uncompressed")
    assert content_of(write(doubles, tmp_path / "two", files=2, row_group_size=777)) == expected
    assert content_of(tmp_path / "one.csv") == expected
    assert content_of(tmp_path / "one.feather", batch_rows=1234) == expected
    assert content_of(narrow) == expected
    assert content_of(narrow.to_reader(max_chunksize=100)) == expected
    assert expected["rows"] == 5000


def test_missing_rows_count(narrow, tmp_path):
    values = narrow["b"].to_pylist()
    values[17] = None
    holes = narrow.set_column(1, "b", pa.array(values, pa.float32()))
    expected = content_of(write(narrow, tmp_path / "whole"))
    found = content_of(write(holes, tmp_path / "holes"), on_missing="drop")
    assert found["rows"] == 5000
    assert differ(found, expected)
    pacsv.write_csv(holes.cast(make(10).schema), tmp_path / "holes.csv")
    assert content_of(tmp_path / "holes.csv", on_missing="drop") == found


def test_it_can_be_left_out(narrow):
    assert content_of(narrow, content=False) is None


def test_a_resumed_run_ends_with_the_same(tmp_path):
    folder = write(make(2 * BLOCK + 500), tmp_path / "data", row_group_size=10_000)
    expected = content_of(folder)
    options = {"checkpoint": tmp_path / "run.npz", "batch_rows": 10_000}

    class Stop(Exception):
        pass

    for share in (0.3, 0.55, 0.8):

        def stop(done, total, share=share):
            if done > share * total:
                raise Stop

        with pytest.raises(Stop):
            content_of(folder, **options, progress=stop)
    assert content_of(folder, **options) == expected
    assert content_of(folder, **options) == expected
