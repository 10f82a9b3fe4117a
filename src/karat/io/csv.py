"""CSV files, plain or compressed: whole lines (:mod:`karat.io.csv_text`), each piece parsed by a
thread of its own.

pyarrow first parses a piece on the assumption that it is clean: every number is a number, and every
line has all values.  Pieces that are not clean are treated afterwards, in the order of the file,
where the number of their first line is known.  Values that pyarrow cannot read as numbers are then
read one by one, by pyarrow's own rules.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv as pacsv

from karat.compat.pyarrow import invalid_value, without_broken_lines
from karat.errors import InputError, several
from karat.io.csv_text import (
    CODECS,
    INTEGER,
    CsvBytes,
    Header,
    Piece,
    as_numbers,
    checked_header,
    has_large_integers,
    large_columns,
    line_ends,
    lines_before,
    odd_number,
    read_header,
)
from karat.io.source import (
    DROP_ROWS,
    NOT_A_NUMBER,
    Chunk,
    Expected,
    File,
    Files,
    ResumePoint,
    ahead,
    sort_of,
    with_folders,
    worked_in_order,
)
from karat.io.written_labels import (
    NAMES,
    Lost,
    Reading,
    converted,
    label_type,
    parsed_dtype,
    with_comma,
)

STRANGE = {
    "double": "not a number",
    "bool": "neither true nor false",
    "int64": "not an integer of 64 bits like those before it",
}
# The most threads that parse.  More would hold more of the file in memory, and wait for the thread
# that reduces.
THREADS = 8
COUNTED = 2**32  # bytes of a file that may be read again to find the number of a line
# Pieces per block.  Smaller pieces cost more per row; larger ones leave threads idle at the end.
PIECES = 4
PREVIEW = 100  # lines from which column types are guessed

Types = dict[str, pa.DataType]


class Parsed(NamedTuple):
    """The result of parsing a piece: a table and its broken lines, or an error."""

    table: pa.Table | None
    broken: list[Any]
    error: str = ""
    # columns of doubles with numbers beyond 2^53, which may have been rounded
    large: Sequence[str] = ()
    lost: Lost | None = None  # a label that is no number without loss


class Place(NamedTuple):
    """Where the rows of a piece are in a file, for error messages."""

    file: int
    row: int  # the first
    start: int
    length: int
    delimiter: str
    bad: int


class CsvFiles(Files):
    """Files with a header line; values are separated by commas, or by semicolons or tabs if the
    header has no comma.
    """

    all_doubles = True

    def __init__(
        self,
        filesystem: Any,
        files: Sequence[File],
        given: Sequence[str],
        block_bytes: int,
        first_bytes: int,
    ) -> None:
        super().__init__(filesystem, files, given)
        self.block_bytes, self.first_bytes = block_bytes, first_bytes
        self.dtype: Types = {}  # of columns, as the user says
        self.header: bool | Sequence[str] | None = None  # whether files have one, or what it is
        self.readings: dict[str, Reading] = {}  # of columns of labels
        self.labels: Types = {}  # columns that are converted from text
        self.types: Types = {}  # of the columns that are not numbers, from the first block
        self.switches: set[str] = set()  # columns of true and false, among the first lines
        self.longs: set[str] = set()  # columns of integers beyond 2^53 among these lines
        self.lines_per_byte = 0.0  # as stored, in the first block
        self.places: list[Place] = []  # of the pieces that were read
        # for a file and a byte of its text: bytes of the file
        self.stored: dict[tuple[int, int], int] = {}

    def read_with(
        self, dtype: Mapping[str, Any] | None = None, header: bool | Sequence[str] | None = None
    ) -> CsvFiles:
        """The same files, read as :func:`karat.io.csv_files` is told."""
        self.dtype, self.header = parsed_dtype(dtype or {}), checked_header(header)
        return self

    def read_schema(self) -> pa.Schema:
        """The schema of the first lines; later values of a numeric column may still be text."""
        for piece in self._bytes(0).pieces(0, self.first_bytes, self.first_bytes):
            self.lines_per_byte = bytes(piece.data).count(b"\n") / max(1, piece.stored)
            ends, _ = line_ends(piece.data, piece.header.delimiter)
            first = piece.data[: ends[PREVIEW - 1] + 1] if len(ends) >= PREVIEW else piece.data
            table, broken = self._read(0, piece._replace(data=first), piece.header.names, {})
            self.longs = {
                field.name for field in table.schema if has_large_integers(table[field.name])
            }
            self.switches = {
                field.name for field in table.schema if pa.types.is_boolean(field.type)
            }
            for i, field in enumerate(table.schema):
                if not pa.types.is_string(field.type):
                    continue
                culprit = self._culprit(table[field.name], field.name, piece, len(broken))
                if culprit is not None:
                    table = table.set_column(i, field.with_metadata(culprit), table[field.name])
            schema = with_folders(table, self.folders[0], list(self.folders[0])).schema
            return self._with_dtype(schema)
        raise InputError(f"{self.names[0]} has no rows; leave it out.")

    def _with_dtype(self, schema: pa.Schema) -> pa.Schema:
        for name, kind in self.dtype.items():
            if name not in schema.names:
                raise InputError(
                    f"{self.names[0]} has no column {name!r} of dtype; it has"
                    f" {', '.join(schema.names)}.",
                    argument="dtype",
                )
            schema = schema.set(schema.names.index(name), pa.field(name, kind))
        return schema

    def read_labels(self, readings: Mapping[str, Reading]) -> None:
        if readings != self.readings:
            self.readings, self.types, self.labels = dict(readings), {}, {}

    def label_kinds(self, columns: Sequence[str]) -> Types:
        self._learn_types(columns)
        known = self.types | self.labels
        return super().label_kinds(columns) | {c: known[c] for c in columns if c in known}

    def row_count(self) -> tuple[int, bool]:
        self.schema()
        return max(1, round(self.lines_per_byte * sum(f.size for f in self.files))), False

    def _culprit(
        self, column: pa.ChunkedArray, name: str, piece: Piece, broken: int
    ) -> dict[bytes, str] | None:
        """Metadata that says why a column is text though its values look like numbers, if so."""
        values = column.to_pylist()
        if (odd := odd_number(values)) is None:
            return None
        row, commas = odd
        where = f"{self.names[0]}, row {row:,}" if broken else self._line(0, piece, row + 1)
        said = {NOT_A_NUMBER: _not_a_number(where, name, values[row])}
        return said if not commas else said | with_comma(where, name, values[row])

    def _line(self, file: int, piece: Piece, row: int, value: str = "") -> str:
        """The line of a row of a piece, or of a value in that row; far into a file, the byte at
        which the piece begins.
        """
        if piece.start > COUNTED:
            return f"{self.names[file]}, row {row:,} after byte {piece.start:,}"
        before, _ = self._bytes(file).text_at(piece.start)
        inside = lines_before(bytes(piece.data), piece.header.delimiter, row, value)
        return f"{self.names[file]}, line {before + inside + 1:,}"

    def where(self, file: int, row: int) -> str:
        before_row = [place for place in self.places if place.file == file and place.row <= row]
        if not before_row or before_row[-1].bad or before_row[-1].start > COUNTED:
            return super().where(file, row)
        place = before_row[-1]
        before, text = self._bytes(file).text_at(place.start, place.length)
        return (
            f"{self.names[file]}, line"
            f" {before + lines_before(text, place.delimiter, row - place.row + 1) + 1:,}"
        )

    def _bytes(self, file: int, spare: list[bytearray] | None = None) -> CsvBytes:
        return CsvBytes(
            self.filesystem, self.names[file], lambda line: self._header(file, line), spare
        )

    def _header(self, file: int, line: str) -> Header:
        header = read_header(self.names[file], line, self.header)
        if header.note and header.note not in self.notes:
            self.notes = [*self.notes, header.note]
        return header

    def chunks(
        self,
        columns: Sequence[str],
        numeric: Sequence[str] | None,
        rows: int,
        start: ResumePoint,
        strict: bool,
    ) -> Iterator[Chunk]:
        if numeric is not None:
            self.schema()
            self._learn_types([c for c in columns if c not in numeric])
        numbers = self._number_types([c for c in columns if c in (numeric or ())])
        types = {
            c: kind for c, kind in self.types.items() if c in columns and numeric is not None
        } | numbers
        spare: list[bytearray] = []
        # Types that are not known are those of a whole block.
        pieces = self._pieces(
            columns,
            start,
            self.block_bytes if numeric is None else self.block_bytes // PIECES,
            spare,
        )

        labels = {c: kind for c, kind in self.labels.items() if numeric is not None}

        def parse(item: tuple[int, Piece]) -> Parsed:
            return _parse(item[1], columns, types, labels)

        self.places, self.stored = [], {}
        last, row = start.file, start.row
        for (file, piece), parsed in worked_in_order(
            parse, ahead(pieces), min(pa.cpu_count(), THREADS)
        ):
            if file != last:
                last, row = file, 0
            table, bad = self._settle(parsed, piece, file, columns, types, numbers, strict)
            table, end = with_folders(table, self.folders[file], columns), None
            self.places.append(
                Place(file, row, piece.start, len(piece.data), piece.header.delimiter, bad)
            )
            if piece.end is not None:  # all pieces of a block are parsed
                spare.append(piece.data.obj)  # type: ignore[arg-type]
                end = ResumePoint(file, row + table.num_rows, piece.end)
                self.stored[file, piece.end] = piece.stored
            # As parsed, without a copy; an empty chunk tells of a piece of broken lines.
            parts = [part for part in table.to_batches(max_chunksize=rows) if part.num_rows] or [
                table
            ]
            for part in parts[:-1]:
                yield Chunk(self, part, file, row, None)
                row += part.num_rows
            yield Chunk(self, parts[-1], file, row, end, bad)
            row += parts[-1].num_rows

    def _number_types(self, columns: Sequence[str]) -> Types:
        return {
            c: pa.bool_() if c in self.switches else pa.int64() if c in self.longs else pa.float64()
            for c in columns
        }

    def _pieces(
        self, columns: Sequence[str], start: ResumePoint, piece_bytes: int, spare: list[bytearray]
    ) -> Iterator[tuple[int, Piece]]:
        """The pieces of all files from a resume point on; the files must have the columns."""
        expected = Expected(self, columns)
        for file in range(start.file, len(self.files)):
            begin = start.cursor if file == start.file else 0
            for piece in self._bytes(file, spare).pieces(begin, self.block_bytes, piece_bytes):
                names = [*piece.header.names, *self.folders[file]]
                expected.check(
                    self.names[file], pa.schema([pa.field(c, pa.float64()) for c in names])
                )
                yield file, piece

    def _learn_types(self, columns: Sequence[str]) -> None:
        """Learn the types of columns that need not be numeric from the first block, wherever a run
        begins.
        """
        if not set(columns) - {*self.types, *self.folders[0]}:
            return
        for piece in self._bytes(0).pieces(0, self.block_bytes, self.block_bytes):
            table, _ = self._read(0, piece, columns, {})
            for field in table.schema:
                name, inferred = field.name, field.type
                reading = self.readings.get(name, "inferred")
                kind = self.dtype.get(name) or label_type(inferred, reading)
                self.types[name] = kind
                looks_like_numbers = sort_of(inferred) == "number"
                exact = name in self.dtype or (reading != "inferred" and looks_like_numbers)
                if exact and kind in (*NAMES, pa.string()):
                    self.labels[name], self.types[name] = kind, pa.string()
            return

    def _read(
        self, file: int, piece: Piece, columns: Sequence[str], types: Types
    ) -> tuple[pa.Table, list[Any]]:
        """:func:`_read_csv`, with errors that name the line, the column and the remedy."""
        try:
            return _read_csv(piece, columns, types)
        except pa.ArrowInvalid as error:
            raise self._explain(str(error), piece, file) from error

    def _settle(
        self,
        parsed: Parsed,
        piece: Piece,
        file: int,
        columns: Sequence[str],
        types: Types,
        numbers: Types,
        strict: bool,
    ) -> tuple[pa.Table, int]:
        """The table of a piece, and how many broken lines were left out of it.

        Unless ``strict``, values of numeric columns that are not numbers become null.
        """
        table, broken, error, large, lost = parsed
        if lost is not None:
            raise lost.error(self._line(file, piece, lost.row + 1, lost.value))
        if table is None and strict:
            raise self._explain(error, piece, file)
        if table is None:
            table, broken = self._read(
                file, piece, columns, types | dict.fromkeys(numbers, pa.string())
            )
            table = as_numbers(
                table, {c: kind for c, kind in numbers.items() if c in table.column_names}
            )
            table, lost = converted(table, self.labels)
            if lost is not None:
                raise lost.error(self._line(file, piece, lost.row + 1, lost.value))
            large = large_columns(table, types)
        if large:
            self._refuse_rounded(
                self._read(file, piece, large, dict.fromkeys(large, pa.string()))[0]
            )
        if broken and strict:
            bad = broken[0]
            where = self._line(file, piece, bad.number)
            raise InputError(
                f"{where}: {several(bad.actual_columns, 'value')} where the header has"
                f" {bad.expected_columns} ({bad.text[:60]!r}).",
                "Correct the line, or leave such rows out with on_missing='drop'.",
                argument="on_missing",
            )
        lost = next((bad for bad in broken if "\n" in bad.text), None)
        # A broken row is counted as one row, so it must not swallow several lines.
        if lost is not None:
            raise InputError(
                f"{self.names[file]} has {several(lost.actual_columns, 'value')} where the header"
                f" has {lost.expected_columns}, in a quoted row of {lost.text.count(chr(10)) + 1:,}"
                f" lines ({lost.text[:60]!r}). Correct the quotes."
            )
        return table, len(broken)

    def _refuse_rounded(self, table: pa.Table) -> None:
        """Raise if large integers were rounded because the first lines did not show any."""
        for column in table.column_names:
            texts = table[column]
            for text in texts.filter(pc.match_substring_regex(texts, INTEGER.pattern)).to_pylist():
                if int(float(text)) != int(text):
                    raise InputError(
                        f"Column {column!r} holds {text}, an integer beyond 2^53 that double"
                        " precision would round; subtract an offset, or leave the column out."
                    )

    def _explain(self, error: str, piece: Piece, file: int) -> InputError:
        """An error of pyarrow as one that names the line, the column and the value."""
        invalid = invalid_value(error)
        if invalid is None:
            return InputError(
                f"{self.names[file]} cannot be read as CSV ({error}); correct it or leave it out."
            )
        column = piece.header.names[invalid.column]
        strange = STRANGE.get(invalid.kind, f"no {invalid.kind} like those before it")
        message = _not_a_number(
            self._line(file, piece, invalid.row, invalid.value), column, invalid.value, strange
        )
        return InputError(message, DROP_ROWS, argument="on_missing", column=column)

    def bytes_inside(self, point: ResumePoint) -> int:
        packed = os.path.splitext(self.names[point.file])[1].lower() in CODECS
        done = self.stored.get((point.file, point.cursor), point.cursor) if packed else point.cursor
        return min(done, self.files[point.file].size)


def _read_csv(piece: Piece, columns: Sequence[str], types: Types) -> tuple[pa.Table, list[Any]]:
    """The columns that a piece has, and the lines with more or fewer values than the header."""

    # Without threads: other pieces keep the other cores busy, and pyarrow then reports the row of
    # an error.
    def read(skip: Any) -> pa.Table:
        return pacsv.read_csv(
            pa.BufferReader(pa.py_buffer(piece.data)),
            read_options=pacsv.ReadOptions(
                column_names=piece.header.names, block_size=len(piece.data) + 1, use_threads=False
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=piece.header.delimiter,
                invalid_row_handler=skip,
                newlines_in_values=piece.inner > 0,
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=[c for c in columns if c in piece.header.names], column_types=types
            ),
        )

    try:
        return read(None), []
    except pa.ArrowInvalid as error:
        return without_broken_lines(read, error, piece.data)


def _parse(piece: Piece, columns: Sequence[str], types: Types, labels: Types) -> Parsed:
    """Parse a piece, without raising."""
    try:
        table, broken = _read_csv(piece, columns, types)
    except pa.ArrowInvalid as error:
        return Parsed(None, [], str(error))
    table, lost = converted(table, labels)
    return Parsed(table, broken, "", large_columns(table, types), lost)


def _not_a_number(where: str, column: str, value: str, problem: str = "not a number") -> str:
    return f"{where}: column {column!r} has the value {value!r}, which is {problem}."
