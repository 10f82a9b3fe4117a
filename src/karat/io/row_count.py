"""How large the data in files is, told from their footers or first bytes, without reading them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from karat.errors import InputError
from karat.io.columnar import ColumnarFiles
from karat.io.csv import CsvFiles
from karat.io.source import is_number, open_source

SAMPLE = 2**20  # bytes of a CSV file from which its lines are estimated
GZIP = 31  # window bits by which zlib reads a gzip header


@dataclass(frozen=True)
class Extent:
    """Rows (estimated if not ``exact``), the names of the columns, and those of them that are not numbers."""

    rows: int
    columns: list[str]
    text: list[str]
    exact: bool


def extent(source: Any) -> Extent:
    """Of anything :func:`karat.coreset_files` takes, but streams, which can be read only once."""
    opened = open_source(source, 1)
    schema = opened.schema()
    names, text = list(schema.names), [field.name for field in schema if not is_number(field)]
    if isinstance(opened, CsvFiles):
        return Extent(max(1, round(_lines_per_byte(opened) * sum(f.size for f in opened.files))), names, text, exact=False)
    if not isinstance(opened, ColumnarFiles):
        raise InputError("A stream does not say how many rows are coming; give their number.")
    try:
        rows = pads.dataset(opened.names, filesystem=opened.filesystem, format=opened.format).count_rows()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"The rows of {opened.names[0]} and what lies beside it cannot be counted ({error}).") from error
    if not rows:
        raise InputError(f"{opened.names[0]} has no rows.")
    return Extent(rows, names, text, exact=True)


def _lines_per_byte(files: CsvFiles) -> float:
    """Lines per byte as stored, from the first bytes of the first file."""
    name = files.names[0]
    with files.filesystem.open_input_stream(name, compression=None) as stream:
        stored = stream.read(SAMPLE)
    plain = zlib.decompressobj(GZIP).decompress(stored) if name.endswith(".gz") else stored
    return plain.count(b"\n") / max(1, len(stored))
