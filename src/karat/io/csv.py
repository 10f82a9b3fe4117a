"""CSV files, plain or compressed: whole lines (:mod:`karat.io.csv_blocks`), each piece parsed by a thread of its own.

A piece is parsed by pyarrow as one would wish all of them to be: every number is a number, every line is whole.  What does not
fit is settled afterwards, in the order of the file, where the number of its first line is known.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv as pacsv

from karat.errors import InputError
from karat.io.background import ahead, in_order
from karat.io.csv_blocks import CsvBytes, Header, Piece
from karat.io.csv_lines import line_ends
from karat.io.csv_values import NUMBER, WHOLE_NUMBER, as_numbers, is_large, is_long, number_of
from karat.io.find import File
from karat.io.source import (
    DROP_ROWS,
    NOT_A_NUMBER,
    Chunk,
    Expected,
    Files,
    ResumePoint,
    refuse_twins,
    with_folders,
)

NOTHING = {None, *pacsv.ConvertOptions().null_values}
NO_HEADER = "Add a line with the names of the columns"
STRANGE = {"bool": "neither true nor false", "int64": "not a whole number of 64 bits like those before it"}
PIECES = 4  # of a block: smaller ones cost more per row, larger ones leave threads waiting for the last one
PREVIEW = 100  # lines that tell numbers from text

Types = dict[str, pa.DataType]


class Parsed(NamedTuple):
    """What pyarrow made of a piece: a table and the lines that did not fit, or an error."""

    table: pa.Table | None
    broken: list[Any]
    error: str = ""
    large: Sequence[str] = ()  # columns of doubles with numbers beyond 2^53, which may have been rounded


class CsvFiles(Files):
    """Files with a header line; values are separated by commas, or by semicolons or tabs if the header has no comma."""

    all_doubles = True

    def __init__(
        self, filesystem: Any, files: Sequence[File], given: Sequence[str], block_bytes: int, first_bytes: int
    ) -> None:
        super().__init__(filesystem, files, given)
        self.block_bytes, self.first_bytes = block_bytes, first_bytes
        self.types: Types = {}  # of the columns that are not numbers, from the first block
        self.switches: set[str] = set()  # columns of true and false, among the first lines
        self.longs: set[str] = set()  # columns of whole numbers beyond 2^53 among these lines
        self.lines_per_byte = 0.0  # as stored, in the first block
        self.pieces: list[tuple[int, int, int | None]] = []  # of each: file, first row, and lines before it that are no rows

    def read_schema(self) -> pa.Schema:
        """Of the first lines; numbers may still turn out to be text further down."""
        for piece in self._bytes(0).pieces(0, self.first_bytes, self.first_bytes):
            self.lines_per_byte = bytes(piece.data).count(b"\n") / max(1, piece.stored)
            ends, _ = line_ends(piece.data, piece.header.delimiter)
            first = piece.data[: ends[:PREVIEW][-1] + 1] if len(ends) else piece.data
            table, broken = _read(piece._replace(data=first), piece.header.names, {})
            self.longs = {field.name for field in table.schema if is_long(table[field.name])}
            self.switches = {field.name for field in table.schema if pa.types.is_boolean(field.type)}
            for i, field in enumerate(table.schema):
                text = pa.types.is_string(field.type)
                culprit = self._culprit(table[field.name], field.name, len(broken) + piece.inner) if text else None
                if culprit is not None:
                    table = table.set_column(i, field.with_metadata({NOT_A_NUMBER: culprit}), table[field.name])
            return with_folders(table, self.folders[0], list(self.folders[0])).schema
        raise InputError(f"{self.names[0]} has no rows; leave it out.")

    def row_count(self) -> tuple[int, bool]:
        self.schema()
        return max(1, round(self.lines_per_byte * sum(f.size for f in self.files))), False

    def _culprit(self, column: pa.ChunkedArray, name: str, others: int) -> str | None:
        """Why a column is text though most of its values are numbers, in words; None if they are not."""
        values = column.to_pylist()
        strange = [i for i, text in enumerate(values) if text not in NOTHING and number_of(text) is None]
        if 2 * len(strange) >= len(values):
            return None
        where = self._line(0, strange[0] + 2) if not others else f"{self.names[0]}, row {strange[0]:,}"
        return _not_a_number(where, name, values[strange[0]])

    def _line(self, file: int, line: int) -> str:
        return f"{self.names[file]}, line {line:,}"

    def where(self, file: int, row: int) -> str:
        known = [others for f, first, others in self.pieces if f == file and first <= row]
        if not known or known[-1] is None:
            return super().where(file, row)
        return self._line(file, row + known[-1] + 2)

    def _bytes(self, file: int, spare: list[bytearray] | None = None) -> CsvBytes:
        return CsvBytes(self.filesystem, self.names[file], lambda line: self._header(file, line), spare)

    def _header(self, file: int, line: str) -> Header:
        """The names in the first line; it also tells what separates them."""
        outside = re.sub('"[^"]*"', "", line)
        signs = "\t" if ".tsv" in self.names[file].lower() else ",;\t"
        sign = next((sign for sign in signs if sign in outside), signs[0])
        names = next(csv.reader([line], delimiter=sign), [""])
        self._doubt_header(file, names)
        refuse_twins(self.names[file], names)
        return Header(names, sign)

    def _doubt_header(self, file: int, names: list[str]) -> None:
        """Refuse a first line of numbers, which is a row, unless they count up: 0, 1, 2, or years."""
        if not all(NUMBER.fullmatch(name) for name in names):
            return
        whole = [int(name) for name in names if name.isascii() and name.isdigit()]
        if len(whole) < len(names) or any(b != a + 1 for a, b in pairwise(whole)):
            raise InputError(
                f"{self._line(file, 1)} holds numbers ({', '.join(names[:3])}), not names: the file has no header, and its "
                f"first row would be lost. {NO_HEADER}."
            )
        note = f"The first line of {os.path.basename(self.names[file])} was read as names of columns ({', '.join(names[:3])})."
        if note not in self.notes:
            self.notes = [*self.notes, note]

    def chunks(
        self, columns: Sequence[str], numeric: Sequence[str], rows: int, start: ResumePoint, strict: bool
    ) -> Iterator[Chunk]:
        if numeric:
            self.schema()
            self._learn_types([c for c in columns if c not in numeric])
        types = {c: pa.bool_() if c in self.switches else pa.float64() for c in columns if c in numeric}
        types |= {c: pa.int64() for c in self.longs if c in types} | self.types
        spare: list[bytearray] = []
        # Types that are not known are those of a whole block.
        pieces = self._pieces(columns, start, self.block_bytes // PIECES if numeric else self.block_bytes, spare)

        def parse(item: tuple[int, Piece]) -> Parsed:
            return _parse(item[1], columns, types)

        self.pieces = []
        last, row, broken = start.file, start.row, 0
        for (file, piece), parsed in in_order(parse, ahead(pieces), pa.cpu_count()):
            if file != last:
                last, row, broken = file, 0, 0
            table = self._settle(parsed, piece, file, row + broken, columns, types, strict)
            table = with_folders(table, self.folders[file], columns)
            if piece.end is not None:  # all pieces of a block are parsed
                spare.append(piece.data.obj)  # type: ignore[arg-type]
            bad, end = len(parsed.broken), None if piece.end is None else ResumePoint(file, row + table.num_rows, piece.end)
            self.pieces.append((file, row, None if bad + piece.inner else broken))
            # As parsed, without a copy; an empty chunk tells of a piece of broken lines.
            parts = [part for part in table.to_batches(max_chunksize=rows) if part.num_rows] or [table]
            for part in parts[:-1]:
                yield Chunk(self, part, file, row, None)
                row += part.num_rows
            yield Chunk(self, parts[-1], file, row, end, bad)
            row, broken = row + parts[-1].num_rows, broken + bad + piece.inner

    def _pieces(
        self, columns: Sequence[str], start: ResumePoint, piece_bytes: int, spare: list[bytearray]
    ) -> Iterator[tuple[int, Piece]]:
        """The pieces of all files from a resume point on; the files must have the columns."""
        expected = Expected(columns)
        for file in range(start.file, len(self.files)):
            begin = start.cursor if file == start.file else 0
            for piece in self._bytes(file, spare).pieces(begin, self.block_bytes, piece_bytes):
                known = [*piece.header.names, *self.folders[file]]
                expected.check(self.names[file], pa.schema([pa.field(c, pa.float64()) for c in known]))
                yield file, piece

    def _learn_types(self, columns: Sequence[str]) -> None:
        """The types of columns that need not hold numbers: those of the first block, wherever a run begins."""
        if not set(columns) - {*self.types, *self.folders[0]}:
            return
        for piece in self._bytes(0).pieces(0, self.block_bytes, self.block_bytes):
            table, _ = _read(piece, columns, {})
            empty = {field.name for field in table.schema if pa.types.is_null(field.type)}  # whatever may follow is text
            self.types |= {c: pa.string() if c in empty else table.schema.field(c).type for c in table.column_names}
            return

    def _settle(
        self, parsed: Parsed, piece: Piece, file: int, line: int, columns: Sequence[str], types: Types, strict: bool
    ) -> pa.Table:
        """The table of a piece before which there are ``line`` lines; what does not fit is an error, or left out."""
        table, broken, error, large = parsed
        if table is None and strict:
            raise self._explain(error, piece, file, line)
        if table is None:
            table, again = _read(piece, columns, dict.fromkeys(columns, pa.string()))
            broken[:] = again
            table = as_numbers(table, types)
            large = _large(table, types)
        if large:
            self._refuse_rounded(_read(piece, large, dict.fromkeys(large, pa.string()))[0])
        if broken and strict:
            bad = broken[0]
            where = self._line(file, line + _lines_before(piece, bad.number) + 2)
            raise InputError(
                f"{where}: {bad.actual_columns} values where the header has {bad.expected_columns} ({bad.text[:60]!r}).",
                "Correct the line, or leave such rows out with on_missing='drop'.",
                argument="on_missing",
            )
        lost = next((bad for bad in broken if "\n" in bad.text), None)
        if lost is not None:  # a broken row counts once, so it must not hide several
            raise InputError(
                f"{self.names[file]} has {lost.actual_columns} values where the header has {lost.expected_columns}, in a row "
                f"of {lost.text.count(chr(10)) + 1:,} lines that quotes hold together ({lost.text[:60]!r}). Correct the quotes."
            )
        return table

    def _refuse_rounded(self, table: pa.Table) -> None:
        """Refuse whole numbers that the first lines gave no reason to expect, and that were read as doubles."""
        for column in table.column_names:
            texts = table[column]
            for text in texts.filter(pc.match_substring_regex(texts, WHOLE_NUMBER.pattern)).to_pylist():
                if int(float(text)) != int(text):
                    raise InputError(
                        f"Column {column!r} holds {text}, a whole number beyond 2^53, which double precision cannot tell from "
                        "its neighbours, and numbers of other kinds; subtract an offset, or leave the column out."
                    )

    def _explain(self, error: str, piece: Piece, file: int, line: int) -> InputError:
        """What pyarrow says of a piece, in our words."""
        found = re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", error, re.DOTALL)
        if not found:
            return InputError(f"{self.names[file]} cannot be read as CSV ({error}); correct it or leave it out.")
        column, value = piece.header.names[int(found[1])], found[3]
        before = _lines_before(piece, int(found[2] or 1), value)
        strange = [said for kind, said in STRANGE.items() if f"to {kind}" in error]
        message = _not_a_number(self._line(file, line + before + 2), column, value, strange[0] if strange else "not a number")
        return InputError(message, DROP_ROWS, argument="on_missing", column=column)

    def bytes_inside(self, point: ResumePoint) -> int:
        return min(point.cursor, self.files[point.file].size)


def _read(piece: Piece, columns: Sequence[str], types: Types) -> tuple[pa.Table, list[Any]]:
    """Those of some columns that a piece has, and the lines that have more or fewer values than the header."""
    broken: list[Any] = []

    def invalid(bad: Any) -> str:
        broken.append(bad)
        return "skip"

    # Serially: other pieces keep the other cores busy, and pyarrow then says which row it stumbled over.
    table = pacsv.read_csv(
        pa.BufferReader(pa.py_buffer(piece.data)),
        read_options=pacsv.ReadOptions(column_names=piece.header.names, block_size=len(piece.data) + 1, use_threads=False),
        parse_options=pacsv.ParseOptions(
            delimiter=piece.header.delimiter, invalid_row_handler=invalid, newlines_in_values=piece.inner > 0
        ),
        convert_options=pacsv.ConvertOptions(
            include_columns=[c for c in columns if c in piece.header.names], column_types=types
        ),
    )
    return table, broken


def _parse(piece: Piece, columns: Sequence[str], types: Types) -> Parsed:
    """A piece as it should be, or the error that says why it is not."""
    try:
        table, broken = _read(piece, columns, types)
    except pa.ArrowInvalid as error:
        return Parsed(None, [], str(error))
    return Parsed(table, broken, "", _large(table, types))


def _large(table: pa.Table, types: Types) -> list[str]:
    """Columns of doubles with numbers beyond 2^53."""
    return [c for c in table.column_names if types.get(c) == pa.float64() and is_large(table[c])]


def _lines_before(piece: Piece, row: int, value: str = "") -> int:
    """Line breaks before a row of a piece, and before a value in it.

    The number of the row is that of pyarrow: from 1 on, without empty lines.
    """
    text, sign = bytes(piece.data), piece.header.delimiter
    starts = np.append(0, line_ends(text, sign)[0] + 1)
    full = [
        start for start in starts.tolist() if start < len(text) and text[start : start + 2].strip(b"\r")[:1] not in (b"\n", b"")
    ]
    if not full:
        return 0
    start = full[min(row, len(full)) - 1]
    sign = re.escape(sign)
    found = re.compile(rf'(?:^|[\n"]|{sign}){re.escape(value)}(?:["\r\n]|$|{sign})'.encode()).search(text, start)
    inside = found.start() if value and found else start
    end = min((other for other in full if other > start), default=len(text))
    return text.count(b"\n", 0, inside if inside < end else start)


def _not_a_number(where: str, column: str, value: str, what: str = "not a number") -> str:
    return f"{where}: column {column!r} has the value {value!r}, which is {what}."
