"""Labels of text files: groups, keys, sequences and categories, as they are written.

01234 and 1234 are two zip codes, and 1.10 and 1.1 two versions, though they are equal as numbers.
So labels of CSV files are text, or dates in ISO form.  Where a number is asked for, or stored, a
text is that number only if nothing is lost: 7 is the number 7, and 007 is an error.

    "written"   text as it is written (CSV); other files have their own types
    "text"      text; numbers of other files become text, because text is what is stored
    "checked"   what all values of the first block look like, if nothing is lost
    "inferred"  the same without a check, as karat 0.2.0 read labels
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv as pacsv

from karat.errors import InputError
from karat.io.source import DIGITS, decoded, sort_of

Reading = Literal["written", "text", "checked", "inferred"]
BLANK = pa.array(pacsv.ConvertOptions().null_values)  # missing, where values look like numbers
NAMES = {pa.int64(): "an integer", pa.float64(): "a number", pa.bool_(): "true or false"}
DTYPES: dict[Any, pa.DataType] = {
    str: pa.string(), "str": pa.string(), int: pa.int64(), "int": pa.int64(),
    float: pa.float64(), "float": pa.float64(), "date": pa.date32(),
    "datetime": pa.timestamp("us"),
}  # fmt: skip


COMMA = b"karat: numbers with a comma"  # metadata of such a column: a sentence


class Lost(NamedTuple):
    """A value that would not be the same after it was read as another type."""

    column: str
    row: int
    value: str
    kind: pa.DataType

    def error(self, where: str) -> InputError:
        """``where`` is the line of the value."""
        return InputError(
            f"{where}: column {self.column!r} has the value {self.value!r}, which is not"
            f" {NAMES[self.kind]} as karat would write it, so different labels might become one.",
            f"Read the column as text: karat.io.csv_files(..., dtype={{{self.column!r}: 'str'}}).",
            argument="dtype",
            column=self.column,
        )


def parsed_dtype(dtype: Any) -> dict[str, pa.DataType]:
    """The types that an argument ``dtype`` names."""
    if not isinstance(dtype, Mapping):
        raise InputError(
            f"dtype must be a dictionary of columns and types, such as {{'zip': 'str'}}, not"
            f" {dtype!r}.",
            argument="dtype",
        )
    for column, kind in dtype.items():
        if not isinstance(kind, str | type) or kind not in DTYPES:
            raise InputError(
                f"dtype of column {column!r} must be 'str', 'int', 'float', 'date' or 'datetime',"
                f" not {kind!r}.",
                argument="dtype",
            )
    return {str(column): DTYPES[kind] for column, kind in dtype.items()}


def label_type(inferred: pa.DataType, reading: Reading) -> pa.DataType:
    """The type of a column of labels whose first values look like ``inferred``."""
    if pa.types.is_null(inferred):
        return pa.string()  # whatever may follow
    if pa.types.is_time(inferred) and reading != "inferred":
        return pa.string()  # 12:30 and 12:30:00 are two labels
    as_text = sort_of(inferred) == "number" or reading == "text"
    return pa.string() if as_text and reading in ("written", "text") else inferred


def converted(table: pa.Table, labels: Mapping[str, pa.DataType]) -> tuple[pa.Table, Lost | None]:
    """Columns of text as the types of their labels, and the first value that is lost by it."""
    for name in [name for name in labels if name in table.column_names]:
        kind, texts = labels[name], table[name]
        texts = pc.if_else(pc.is_in(texts, value_set=BLANK), pa.scalar(None, pa.string()), texts)
        if kind != pa.string():
            row = _first_lost(texts, kind)
            if row is not None:
                return table, Lost(name, row, texts[row].as_py(), kind)
        field = pa.field(name, kind, metadata={DIGITS: b""} if kind == pa.string() else None)
        table = table.set_column(table.column_names.index(name), field, texts.cast(kind))
    return table, None


def _first_lost(texts: Any, kind: pa.DataType) -> int | None:
    try:
        rows = pc.indices_nonzero(pc.not_equal(texts.cast(kind).cast(pa.string()), texts))
    except pa.ArrowInvalid:  # some value is of another type altogether
        rows = pa.array(range(len(texts)))
    values = texts.take(rows).to_pylist()
    pairs = zip(rows.to_pylist(), values, strict=True)
    return next(
        (row for row, text in pairs if text is not None and not _is_written(text, kind)), None
    )


def _is_written(text: str, kind: pa.DataType) -> bool:
    """Whether a text is how a value of the type is written."""
    if pa.types.is_boolean(kind):
        return text.lower() in ("true", "false")
    try:
        if pa.types.is_integer(kind):
            return text == str(int(text)) and -(2**63) <= int(text) < 2**63
        return text in (repr(float(text)), pa.scalar(float(text)).cast(pa.string()).as_py())
    except ValueError:
        return False


def as_stored_text(table: Any, columns: Sequence[str]) -> Any:
    """Numbers as text, for labels that are stored as text."""
    for name in columns:
        column = decoded(table.column(name))
        if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
            field = pa.field(name, pa.string(), metadata={DIGITS: b""})
            table = table.set_column(
                table.schema.names.index(name), field, column.cast(pa.string())
            )
    return table


def without_bytes(column: Any, name: str, where: Callable[[int], str]) -> Any:
    """Bytes as text; any other column as it is."""
    kind = column.type
    if not (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return column
    try:
        return column.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise InputError(
            f"Column {name!r} holds bytes that are not text in UTF-8 ({where(0)} or a later row of"
            " its batch); write the file in UTF-8, or the column as text or numbers.",
            column=name,
        ) from error


def with_comma(where: str, column: str, value: str) -> dict[bytes, str]:
    """Metadata of a column of text whose values are numbers written with a comma."""
    said = (
        f"{where}: column {column!r} has the value {value!r}, a number with a comma, which karat"
        " does not read as one. Write points in the file, or pass the frame that"
        " pandas.read_csv(path, sep=..., decimal=',') reads. If it is text:"
        f" karat.io.csv_files(path, dtype={{{column!r}: 'str'}})."
    )
    return {COMMA: said}


def require_no_commas(schema: pa.Schema, columns: Sequence[str]) -> None:
    """Raise if numbers are asked for that are written with a comma."""
    for column in columns:
        said = (schema.field(column).metadata or {}).get(COMMA)
        if said is not None:
            raise InputError(said.decode(), column=column)
