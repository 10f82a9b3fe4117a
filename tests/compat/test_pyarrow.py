"""pyarrow's messages still say what karat.compat.pyarrow reads in them, and its scanner still has
columns of its own.
"""

from __future__ import annotations

import io

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.dataset as pads  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from karat.compat import pyarrow as compat  # noqa: E402

CHANGED = f"pyarrow {pa.__version__} has changed: "


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (pa.float64(), "double", "x 'y'"),
        (pa.int64(), "int64", "1.5"),
        (pa.bool_(), "bool", "maybe"),
        (pa.float64(), "double", "a\nb"),
    ],
)
def test_what_an_invalid_value_is(kind, name, value):
    text = f'a,b\n1,1\n1,1\n1,"{value}"\n'
    options = {
        "read_options": pacsv.ReadOptions(use_threads=False, skip_rows=1, column_names=["a", "b"]),
        "parse_options": pacsv.ParseOptions(newlines_in_values=True),
        "convert_options": pacsv.ConvertOptions(column_types={"b": kind}),
    }
    with pytest.raises(pa.ArrowInvalid) as caught:
        pacsv.read_csv(io.BytesIO(text.encode()), **options)
    found = compat.invalid_value(str(caught.value))
    assert found is not None, f"{CHANGED}it says {caught.value}"
    assert (found.column, found.kind, found.value) == (
        1,
        name,
        value,
    ), f"{CHANGED}it says {caught.value}"
    assert found.row in (3, 4), f"{CHANGED}it says {caught.value}"


def test_other_messages_are_not_about_a_value():
    assert compat.invalid_value("CSV parse error: Expected 2 columns, got 3") is None


@pytest.mark.parametrize("name", sorted(compat.RESERVED))
def test_the_scanner_has_columns_of_its_own(name, tmp_path):
    """If it has none any more, ``_batches`` of ``io/columnar.py`` is not needed."""
    pq.write_table(pa.table({name: [1.5, 2.5]}), tmp_path / "a.parquet")
    try:
        found = (
            pads.dataset(tmp_path / "a.parquet").to_table(columns=[name]).column(name).to_pylist()
        )
    except pa.ArrowInvalid:
        return
    assert found != [1.5, 2.5], f"{CHANGED}a column may be called {name} now"
