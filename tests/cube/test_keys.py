"""A key is the same key whatever the type, and the container, that it comes in."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat import InputError, Sketch
from karat.cubes.hashes import key_hashes
from karat.data.labels import as_keys
from karat.problems import LeastSquares

COUNT = 24
WHOLE = [*range(100, 100 + COUNT - 4), 0, -7, 2**53, 127]
DAYS = [datetime.date(2023, 12, 20) + datetime.timedelta(k) for k in range(COUNT)]
MIDNIGHTS = [datetime.datetime(day.year, day.month, day.day) for day in DAYS]
TEXTS = [f"{k:03d}" for k in range(7, 7 + COUNT)]
HALVES = [Decimal(k) / 4 for k in range(COUNT)]

FAMILIES = {
    "whole numbers": [
        pa.array(WHOLE, pa.int64()),
        pa.array(WHOLE, pa.float64()),
        pa.array(map(Decimal, WHOLE), pa.decimal128(20, 0)),
        pa.array(map(Decimal, WHOLE), pa.decimal128(24, 3)),
        pa.array(map(Decimal, WHOLE), pa.decimal256(60, 1)),
        pa.array(WHOLE).dictionary_encode(),
        pa.array(map(Decimal, WHOLE), pa.decimal128(20, 2)).dictionary_encode(),
    ],
    "small numbers": [
        pa.array(range(COUNT), kind)
        for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.uint64(), pa.float32())
    ],
    "large numbers": [
        pa.array([2**63 + k * 2**20 for k in range(COUNT)], pa.uint64()),
        pa.array([float(2**63 + k * 2**20) for k in range(COUNT)]),
    ],
    "fractions": [
        pa.array(map(float, HALVES)),
        pa.array(map(float, HALVES), pa.float32()),
        pa.array(HALVES, pa.decimal128(10, 4)),
    ],
    "text": [
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.large_string()).dictionary_encode(),
    ],
    "times": [
        pa.array(DAYS, pa.date32()),
        pa.array(DAYS, pa.date64()),
        pa.array(MIDNIGHTS, pa.timestamp("s")),
        pa.array(MIDNIGHTS, pa.timestamp("ns")),
        pa.array(MIDNIGHTS, pa.timestamp("us", "UTC")),
        pa.array(MIDNIGHTS, pa.timestamp("ms", "America/New_York")),
    ],
}
TYPES = [(family, i) for family, columns in FAMILIES.items() for i in range(len(columns))]


def rows(keys, seed=0):
    """Other rows for every seed, with these keys."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.standard_normal(len(keys)) for name in "ay"}
    return pa.table({**columns, "g": ["one", "two"] * (len(keys) // 2), "id": keys})


def cube(data, kept=None):
    return karat.cube(data, target="y", by="g", columns=["a"], key="id", rows=kept)


def csv(table, folder, dtype):
    path = folder / "rows.csv"
    table.to_pandas().to_csv(path, index=False)
    return karat.io.csv_files(path, dtype={"id": dtype})


OPEN = []  # connections


def duckdb(given, query):
    """The answer to a query of the rows ``given``."""
    connection = pytest.importorskip("duckdb").connect()
    OPEN.append(connection)  # DuckDB 1.1 closes one that nothing holds, and its relations with it
    connection.register("given", given)
    return connection.sql(query)


def parquet(table, folder):
    pq.write_table(table, folder / "rows.parquet")
    return folder / "rows.parquet"


CONTAINERS = {
    "arrow": lambda table, _: table,
    "pandas": lambda table, _: table.to_pandas(),
    "pandas of arrow": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table, _: pytest.importorskip("polars").from_arrow(table),
    "parquet": parquet,
    "duckdb": lambda table, _: duckdb(table, "select * from given"),
    "duckdb decimal": lambda table, _: duckdb(
        table, "select * replace (cast(id as decimal(20, 3)) as id) from given"
    ),
    "csv": lambda table, folder: csv(table, folder, "int"),
    "dask": lambda table, _: pytest.importorskip("dask.dataframe").from_pandas(
        table.to_pandas(), npartitions=2
    ),
}


@pytest.mark.parametrize(("family", "column"), TYPES)
def test_types_of_equal_keys(family, column):
    """The hashes are equal, and so a cube refuses a key of every other type."""
    columns = FAMILIES[family]
    made = cube(rows(columns[column]))
    for i, other in enumerate(columns):
        last = other.slice(COUNT - 2) if i != column else columns[column].slice(COUNT - 2)
        with pytest.raises(InputError, match="2 of the keys in column 'id' are already"):
            made.update(rows(last, seed=1))
    assert made.select().n_rows == COUNT


@pytest.mark.parametrize("kept", ["synthetic", "real"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_of_equal_keys(container, kept, tmp_path):
    whole = pa.array(range(100, 100 + COUNT))
    given = CONTAINERS[container](rows(whole), tmp_path)
    made = cube(given, kept)
    for later in CONTAINERS.values():
        with pytest.raises(InputError, match="2 of the keys in column 'id' are already"):
            made.update(later(rows(whole.slice(COUNT - 2), seed=1), tmp_path))
    other = pa.array(range(200, 200 + COUNT))
    made.update(CONTAINERS["duckdb decimal"](rows(other, seed=2), tmp_path))
    assert made.select().n_rows == 2 * COUNT
    if kept == "real":  # no cell has more rows than it may keep
        keys = [*range(100, 100 + COUNT), *range(200, 200 + COUNT)]
        assert sum(made.select().contains(keys)) == len(made.select())


def test_keys_that_differ():
    keys = [7, -7, 7.5, "7", "7.0", "007", 2**63 + 7, 2.0**63, 2.0**64, 1e300, np.inf, "x"]
    words = np.vstack([key_hashes(as_keys(np.array([key]))) for key in keys])
    assert len(np.unique(words, axis=0)) == len(keys)
    assert len(np.unique(words[:, 0])) == len(np.unique(words[:, 1])) == len(keys)


@pytest.mark.parametrize("first", ["whole numbers", "text", "times"])
@pytest.mark.parametrize("then", ["whole numbers", "text", "times"])
def test_keys_of_different_kinds_are_not_compared(first, then):
    """Nobody knows whether the text 007 is the row of the number 7."""
    made = cube(rows(FAMILIES[first][0]))
    new = cube(rows(FAMILIES[then][0], seed=1))
    said = "count twice" if first == then else "Some keys in column 'id' are .* and others are"
    for change in (
        lambda: made.update(rows(FAMILIES[then][0], seed=1)),
        lambda: made.merge(new),
        lambda: karat.Cube.from_bytes(made.to_bytes()).merge(new.rollup("g")),
        lambda: cube(rows(FAMILIES[first][1], seed=2)).merge(new),
    ):
        with pytest.raises(InputError, match=said):
            change()
    made.replace(rows(FAMILIES[then][0], seed=1))  # all cells anew
    assert made.select().n_rows == COUNT


def test_digits_that_would_be_lost():
    keys = pa.array([Decimal(2**70 + k) for k in range(COUNT)], pa.decimal128(38, 0))
    with pytest.raises(InputError, match="more digits than 64 bits hold; make text of the column"):
        cube(rows(keys))
    keys = pa.array([Decimal(2**53 + k) + Decimal("0.5") for k in range(COUNT)])
    with pytest.raises(InputError, match="more digits than 64 bits hold"):
        cube(rows(keys))


def test_labels_of_cells_that_are_decimals():
    """A label is the number, as it is in a Parquet file of integers."""
    whole = rows(FAMILIES["whole numbers"][0])
    decimals = whole.set_column(2, "g", pa.array([Decimal(7), Decimal(8)] * (COUNT // 2)))
    made = cube(decimals)
    assert made.labels("g").tolist() == [7, 8]
    numbers = rows(pa.array(range(500, 500 + COUNT)), 1)
    made.update(numbers.set_column(2, "g", pa.array([8, 9] * (COUNT // 2))))
    assert made.labels("g").tolist() == [7, 8, 9]
    assert made.select(g=8).n_rows == COUNT


@pytest.mark.parametrize("kept", ["synthetic", "real"])
@pytest.mark.parametrize("family", FAMILIES)
def test_keys_of_sketches(family, kept):
    """The same key in two batches of a stream."""
    first, *others = [
        as_keys(column.to_numpy(zero_copy_only=False))
        for column in FAMILIES[family]
        if not pa.types.is_dictionary(column.type)
    ]
    rng = np.random.default_rng(0)

    def batch(keys):
        return pd.DataFrame({"a": rng.standard_normal(COUNT), "id": keys}), rng.random(COUNT)

    for other in others:
        sketch = Sketch(LeastSquares(), key="id", rows=kept)
        sketch.update(*batch(first))
        with pytest.raises(InputError, match="comes twice"):
            sketch.update(*batch(other))


def test_kinds_of_keys_in_a_sketch():
    sketch = Sketch(LeastSquares(), key="id")
    frame = pd.DataFrame({"a": np.arange(3.0), "id": [1, 2, 3]})
    sketch.update(frame, np.arange(3.0) ** 2)
    with pytest.raises(InputError, match="Some keys are text and others are not"):
        sketch.update(frame.assign(id=["4", "5", "6"]), np.arange(3.0) ** 2)
