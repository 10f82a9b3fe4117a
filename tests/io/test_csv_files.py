"""What people put into CSV files: true and false, semicolons, two columns of one name, one bad
cell.
"""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat import InputError
from karat.io.find import open_source
from karat.io.source import text_columns

ROWS = 300


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    size, lift = rng.normal(70, 20, ROWS).round(1), rng.integers(2, size=ROWS).astype(bool)
    return pa.table(
        {
            "size": size,
            "lift": lift,
            "price": (3000 * size + 9000 * lift + rng.normal(0, 500, ROWS)).round(2),
        }
    )


def lines_of(table, sign=",", words=("false", "true")):
    spelt = [
        str(v) if not isinstance(v, bool) else words[v]
        for row in table.to_pylist()
        for v in row.values()
    ]
    width = table.num_columns
    return [sign.join(table.column_names)] + [
        sign.join(spelt[i : i + width]) for i in range(0, len(spelt), width)
    ]


def write(path, lines):
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("words", [("false", "true"), ("False", "True"), ("FALSE", "TRUE")])
def test_true_and_false_are_one_and_zero_as_in_parquet(words, table, tmp_path):
    pq.write_table(table, tmp_path / "flats.parquet")
    source = write(tmp_path / "flats.csv", lines_of(table, words=words))
    core, other = (
        karat.coreset_files(source, "price"),
        karat.coreset_files(tmp_path / "flats.parquet", "price"),
    )
    assert np.array_equal(core.indices, other.indices)
    X, y = (
        np.column_stack([table["size"], table["lift"]]).astype(float),
        table["price"].to_numpy(),
    )
    extended = np.column_stack([np.ones(ROWS), X, y])
    kept = np.column_stack([np.ones(len(core)), *core.arrays()])
    np.testing.assert_allclose(
        (kept * core.weights[:, None]).T @ kept, extended.T @ extended, rtol=1e-10
    )
    assert karat.verify_files(other, source).data == "identical"


def test_true_and_false_in_two_passes(table, tmp_path):
    source = write(tmp_path / "flats.csv", lines_of(table))
    core = karat.coreset_files(source, problem=karat.problems.GaussianMixture(1))
    assert karat.verify_files(core, source).ok


def test_gaps_between_true_and_false(table, tmp_path):
    lines = lines_of(table)
    lines[7] = lines[7].replace("true", "").replace("false", "")
    source = write(tmp_path / "flats.csv", lines)
    with pytest.raises(InputError, match=r"flats\.csv, line 8: column 'lift' has no value"):
        karat.coreset_files(source, "price")
    core = karat.coreset_files(source, "price", on_missing="drop")
    assert core.weights.sum() == pytest.approx(ROWS - 1)
    lines[250] = lines[250].replace("true", "maybe").replace("false", "maybe")
    source = write(tmp_path / "flats.csv", lines)
    with pytest.raises(
        InputError,
        match=r"line 251: column 'lift' has the value 'maybe', which is neither true nor false",
    ):
        karat.coreset_files(source, "price")
    core = karat.coreset_files(source, "price", on_missing="drop")
    assert core.weights.sum() == pytest.approx(ROWS - 2)


@pytest.mark.parametrize("name", ["flats.csv", "flats.csv.gz"])
@pytest.mark.parametrize("sign", [";", "\t"])
def test_the_header_tells_what_separates_values(sign, name, table, tmp_path):
    core = karat.coreset_files(write(tmp_path / name, lines_of(table, sign)), "price")
    plain = karat.coreset_files(write(tmp_path / "plain.csv", lines_of(table)), "price")
    assert np.array_equal(core.indices, plain.indices)
    assert np.array_equal(core.weights, plain.weights)


def test_a_comma_in_quotes_does_not_separate(table, tmp_path):
    lines = lines_of(table, ";")
    lines[0] = '"size, net";lift;price'
    assert open_source(write(tmp_path / "flats.csv", lines)).schema().names == [
        "size, net",
        "lift",
        "price",
    ]


def test_columns_of_one_name(table, tmp_path):
    source = write(tmp_path / "flats.csv", ["size,size,price", *lines_of(table)[1:]])
    with pytest.raises(InputError, match=r"flats\.csv has two columns named 'size'; rename"):
        karat.coreset_files(source, "price")
    pq.write_table(
        pa.table(table.columns, names=["size", "size", "price"]), tmp_path / "flats.parquet"
    )
    with pytest.raises(InputError, match=r"flats\.parquet has two columns named 'size'; rename"):
        karat.coreset_files(tmp_path / "flats.parquet", "price")


def test_one_bad_cell_is_named_with_its_line(table, tmp_path):
    lines = lines_of(table)
    lines[9] = "n/k" + lines[9][lines[9].index(",") :]
    source = write(tmp_path / "flats.csv", lines)
    with pytest.raises(
        InputError,
        match=r"flats\.csv, line 10: column 'size' has the value 'n/k', which is not a number",
    ):
        karat.coreset_files(source, "price")
    # as it would further down in the file
    core = karat.coreset_files(source, "price", on_missing="drop")
    assert core.weights.sum() == pytest.approx(ROWS - 1)
    assert text_columns(open_source(source).schema()) == []


def test_text_is_not_taken_for_a_bad_cell(table, tmp_path):
    words = table.set_column(0, "size", pa.array(["large", "small", "7"] * (ROWS // 3)))
    source = write(tmp_path / "flats.csv", lines_of(words))
    with pytest.raises(InputError, match=r"Column 'size' has type string, which is not numeric"):
        karat.coreset_files(source, "price")
    with pytest.raises(
        InputError, match=r"The target 'size' is text; karat needs a numeric target"
    ):
        karat.coreset_files(source, "size")
    assert text_columns(open_source(source).schema()) == ["size"]


@pytest.mark.parametrize("problem", [None, karat.problems.GaussianMixture(1)])
def test_when_every_row_is_left_out_the_column_is_named(problem, table, tmp_path):
    empty = table.append_column("lot", pa.nulls(ROWS, pa.float64()))
    pq.write_table(empty, tmp_path / "flats.parquet")
    with pytest.raises(
        InputError,
        match=r"All 300 rows were left out: column 'lot' has no number in 300 of the first 300",
    ):
        karat.coreset_files(tmp_path / "flats.parquet", problem=problem, on_missing="drop")


def test_lines_are_counted_through_quoted_line_breaks_and_blocks(table, tmp_path):
    lines = [f"{line},note" if i == 0 else f"{line},x" for i, line in enumerate(lines_of(table))]
    lines[3] = lines[3].rsplit(",", 1)[0] + ',"two\nlines"'
    lines[280] = lines[280].replace(lines[280].split(",")[0], "", 1)
    source = write(tmp_path / "flats.csv", lines)
    number = source.read_text().splitlines().index(lines[280]) + 1
    with pytest.raises(InputError, match=rf"flats\.csv, line {number}: column 'size' has no value"):
        karat.coreset_files(
            open_source(source, block_bytes=2**11), "price", columns=["size", "lift"]
        )


def test_names_are_checked_before_types(tmp_path):
    pq.write_table(pa.table({"town": ["a", "b"], "price": [1.0, 2.0]}), tmp_path / "flats.parquet")
    with pytest.raises(InputError, match=r"no column 'prise'; did you mean 'price'\?"):
        karat.coreset_files(tmp_path / "flats.parquet", "prise")
    with pytest.raises(InputError, match="'price' is the target, so it cannot be a feature"):
        karat.coreset_files(tmp_path / "flats.parquet", "price", columns=["price"])


@pytest.mark.parametrize(
    "name",
    ["flats.csv", "flats.csv.gz", "flats.csv.bz2", "flats.csv.zst", "flats.tsv", "flats.arrow"],
)
def test_a_data_file_is_no_coreset(name, table, tmp_path):
    with pytest.raises(
        InputError,
        match=r"is a data file \((CSV|Arrow)\), not a coreset; make one with karat build",
    ):
        karat.load(write(tmp_path / name, lines_of(table)))


@pytest.mark.parametrize("block_bytes", [2**24, 3000, 700])
def test_broken_lines_are_counted_also_where_a_block_has_no_other(block_bytes, tmp_path):
    good = [f"{a},{b}" for a, b in np.random.default_rng(0).standard_normal((400, 2))]
    lines = [*good[:200], *["1,2,3"] * 3000, *good[200:], *["4"] * 1000]
    (tmp_path / "x.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    core = karat.coreset_files(
        open_source(tmp_path / "x.csv", block_bytes=block_bytes), "y", on_missing="drop"
    )
    assert core.n_rows == 400
    assert core.weights.sum() == pytest.approx(400, rel=1e-13)
    assert core.provenance["dropped"] == {"missing": 0, "broken": 4000}
