"""CSV files, plain or compressed: blocks of whole lines, each parsed by pyarrow on all cores.

pyarrow's own streaming reader cannot be resumed and does not say in which line it stumbled.  So the bytes are cut here, after
the last line end of a block, and a run can resume at the first byte of any block.  Only where a block holds quotes is it asked
which line ends are outside of them.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv as pacsv

from karat.engine.offsets import WHOLE
from karat.errors import InputError
from karat.io.background import ahead
from karat.io.csv_lines import line_ends, stray_quote
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

PIECE = 2**22  # bytes of a block that a thread parses at a time
NOTHING = {None, *pacsv.ConvertOptions().null_values}
WHOLE_NUMBER = re.compile(r"^[ \t]*[+-]?[0-9]{1,300}[ \t]*$")
# What pyarrow reads as a number: no underscores, no digits of other scripts, no words but infinity.
NUMBER = re.compile(r"[ \t]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|infinity)[ \t]*", re.IGNORECASE | re.ASCII)
SWITCH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
NO_HEADER = "Add a line with the names of the columns"
STRANGE = {"bool": "neither true nor false", "int64": "not a whole number of 64 bits like those before it"}
PREVIEW = 100  # lines that tell numbers from text


class Block(NamedTuple):
    """Whole lines of a file (valid until the next block is asked for)."""

    data: memoryview
    end: int  # the byte after them
    header: list[str]
    inner: int  # line breaks in values
    stored: int  # bytes of the file that were read so far


class CsvFiles(Files):
    """Files with a header line; values are separated by commas, or by semicolons or tabs if the header has no comma."""

    def __init__(
        self, filesystem: Any, files: Sequence[File], given: Sequence[str], block_bytes: int, first_bytes: int
    ) -> None:
        super().__init__(filesystem, files, given)
        self.block_bytes, self.first_bytes = block_bytes, first_bytes
        self.types: dict[str, pa.DataType] = {}  # of the columns that are not numbers, from the first block
        self.delimiters: dict[int, str] = {}  # of the files whose headers were read
        self.switches: set[str] = set()  # columns of true and false, among the first lines
        self.longs: set[str] = set()  # columns of whole numbers beyond 2^53 among these lines
        self.lines_per_byte = 0.0  # as stored, in the first block
        self.blocks: list[tuple[int, int, int | None]] = []  # of each: file, first row, and lines before it that are no rows

    def read_schema(self) -> pa.Schema:
        """Of the first lines; numbers may still turn out to be text further down."""
        for data, _, header, inner, stored in self._blocks(0, 0, self.first_bytes):
            self.lines_per_byte = bytes(data).count(b"\n") / max(1, stored)
            ends, _ = line_ends(data, self.delimiters[0])
            first = data[: ends[:PREVIEW][-1] + 1] if len(ends) else data
            table, broken = self._parse(first, 0, 0, header, header, [], strict=False, inner=inner)
            self.longs = {field.name for field in table.schema if _is_long(table[field.name])}
            self.switches = {field.name for field in table.schema if pa.types.is_boolean(field.type)}
            for i, field in enumerate(table.schema):
                culprit = (
                    self._culprit(table[field.name], field.name, broken + inner) if pa.types.is_string(field.type) else None
                )
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
        strange = [i for i, text in enumerate(values) if text not in NOTHING and _number(text) is None]
        if 2 * len(strange) >= len(values):
            return None
        where = self._line(0, strange[0] + 2) if not others else f"{self.names[0]}, row {strange[0]:,}"
        return _not_a_number(where, name, values[strange[0]])

    def _line(self, file: int, line: int) -> str:
        return f"{self.names[file]}, line {line:,}"

    def where(self, file: int, row: int) -> str:
        known = [others for f, first, others in self.blocks if f == file and first <= row]
        if not known or known[-1] is None:
            return super().where(file, row)
        return self._line(file, row + known[-1] + 2)

    def _header(self, file: int, line: str) -> list[str]:
        """The names in the first line; it also tells what separates them."""
        outside = re.sub('"[^"]*"', "", line)
        signs = "\t" if ".tsv" in self.names[file].lower() else ",;\t"
        sign = self.delimiters[file] = next((sign for sign in signs if sign in outside), signs[0])
        names = next(csv.reader([line], delimiter=sign), [""])
        self._doubt_header(file, names)
        refuse_twins(self.names[file], names)
        return names

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

    def _blocks(self, file: int, start: int, size: int) -> Iterator[Block]:
        """The blocks of a file, from byte ``start`` on, of at most ``size`` bytes."""
        name = self.names[file]
        buffer = bytearray(size)
        view = memoryview(buffer)
        filled = place = 0
        header: list[str] = []
        try:
            with self.filesystem.open_input_file(name) as file_bytes:
                codec = CODECS.get(os.path.splitext(name)[1].lower())
                stream = pa.CompressedInputStream(file_bytes, codec) if codec else file_bytes
                while True:
                    while filled < size and (count := stream.readinto(view[filled:])):
                        filled += count
                    final = filled < size
                    if not header:
                        line = buffer[: buffer.find(b"\n", 0, filled) + 1] or buffer[: filled if final else 0]
                        if b"\r" in line.rstrip(b"\r\n"):
                            raise InputError(f"{name} ends its lines with carriage returns alone; convert them to line feeds.")
                        header = self._header(file, line.decode("utf-8-sig").strip("\r\n"))
                        cut = len(line)
                    elif place < start:  # read again what is done: a compressed file has no other way
                        cut = min(filled, start - place)
                    else:
                        cut, inner = self._end(file, buffer, filled, final, place)
                        if cut:
                            yield Block(view[:cut], place + cut, header, inner, file_bytes.tell())
                    if filled and not cut:
                        raise InputError(f"{name} has a line of more than {size >> 20} MB; is it a CSV file?")
                    place, rest = place + cut, filled - cut
                    view[:rest] = view[cut:filled]
                    filled = rest
                    if final and not rest:
                        return
        except (OSError, EOFError, pa.ArrowException, UnicodeDecodeError) as error:
            raise InputError(f"{name} cannot be read ({error}); it may be damaged. Write it again or leave it out.") from error

    def _end(self, file: int, buffer: bytearray, filled: int, final: bool, place: int) -> tuple[int, int]:
        """Where the last whole line ends, and how many line breaks before that belong to values."""
        if buffer.find(b'"', 0, filled) < 0:
            return filled if final else buffer.rfind(b"\n", 0, filled) + 1, 0
        stray = stray_quote(memoryview(buffer)[:filled], self.delimiters[file], final)
        if stray is not None:
            line = 1 + self._breaks_before(file, place) + buffer.count(b"\n", 0, stray)
            text = bytes(buffer[stray : stray + 40]).decode("utf-8", "replace")
            raise InputError(
                f"{self._line(file, line)}: a quote opens a value and is not closed ({text!r}), so the lines behind it would "
                "be lost. Close it, or double it if it belongs to the value."
            )
        ends, inner = line_ends(memoryview(buffer)[:filled], self.delimiters[file])
        cut = filled if final else int(ends[-1]) + 1 if len(ends) else 0
        return cut, int((inner < cut).sum())

    def _breaks_before(self, file: int, byte: int) -> int:
        """Line breaks before a byte of a file, for error messages."""
        found = 0
        with self.filesystem.open_input_file(self.names[file]) as file_bytes:
            codec = CODECS.get(os.path.splitext(self.names[file])[1].lower())
            stream = pa.CompressedInputStream(file_bytes, codec) if codec else file_bytes
            while byte > 0 and (some := stream.read(min(byte, PIECE))):
                found, byte = found + some.count(b"\n"), byte - len(some)
        return found

    def chunks(
        self, columns: Sequence[str], numeric: Sequence[str], rows: int, start: ResumePoint, strict: bool
    ) -> Iterator[Chunk]:
        return chain.from_iterable(ahead(self._chunks(columns, numeric, rows, start, strict)))

    def _chunks(
        self, columns: Sequence[str], numeric: Sequence[str], rows: int, start: ResumePoint, strict: bool
    ) -> Iterator[list[Chunk]]:
        """The chunks of a block at a time: while they are in use, the next block is parsed."""
        expected = Expected(columns)
        self.blocks = []
        if numeric:
            self.schema()
        for file in range(start.file, len(self.files)):
            here = start if file == start.file else ResumePoint(file)
            row, broken = here.row, 0
            own = list(self.folders[file])
            for data, after, header, inner, _ in self._blocks(file, here.cursor, self.block_bytes):
                known = pa.schema([pa.field(c, pa.float64()) for c in [*header, *own]])
                expected.check(self.names[file], known)
                wanted = [c for c in columns if c in header]
                table, bad = self._parse(data, file, row + broken, header, wanted, numeric, strict, inner)
                table = with_folders(table, self.folders[file], columns)
                self.blocks.append((file, row, None if bad + inner else broken))
                # As parsed, without a copy; an empty chunk tells of a block of broken lines.
                parts = [part for part in table.to_batches(max_chunksize=rows) if part.num_rows] or [table]
                starts = np.cumsum([row, *(part.num_rows for part in parts)]).tolist()
                ends = [*[None] * (len(parts) - 1), ResumePoint(file, row + table.num_rows, after)]
                yield [
                    Chunk(self, part, file, start, end, bad if end else 0)
                    for part, start, end in zip(parts, starts, ends, strict=False)
                ]
                row, broken = row + table.num_rows, broken + bad + inner

    def _parse(
        self, data: memoryview, file: int, line: int, header: list[str], columns: Sequence[str], numeric: Sequence[str],
        strict: bool, inner: int,
    ) -> tuple[pa.Table, int]:  # fmt: skip
        """One block with ``inner`` line breaks in values as a table, and the broken lines left out of it."""
        broken: list[Any] = []

        def invalid(bad: Any) -> str:
            broken.append(bad)
            return "skip"

        types = {c: pa.bool_() if c in self.switches else pa.float64() for c in columns if c in numeric}
        types |= {c: pa.int64() for c in self.longs if c in types} | self.types
        parse = pacsv.ParseOptions(delimiter=self.delimiters[file], invalid_row_handler=invalid, newlines_in_values=inner > 0)

        def read(kinds: dict[str, pa.DataType], serially: bool = False) -> pa.Table:
            broken.clear()
            return pacsv.read_csv(
                pa.BufferReader(pa.py_buffer(data)),
                read_options=pacsv.ReadOptions(column_names=header, block_size=PIECE, use_threads=not serially),
                parse_options=parse,
                convert_options=pacsv.ConvertOptions(include_columns=list(columns), column_types=kinds),
            )

        try:
            table = read(types)
        except pa.ArrowInvalid as error:
            if strict:
                raise self._explain(_error_of(lambda: read(types, serially=True)) or error, data, file, line, header) from error
            table = _numbers(read({c: pa.string() for c in columns}), types)
        large = [c for c, kind in types.items() if kind == pa.float64() and c in numeric and _is_large(table[c])]
        if large:
            self._refuse_rounded(read({c: pa.string() for c in columns}), large)
        if broken and strict:
            read(types, serially=True)
            bad = broken[0]
            where = self._line(file, line + _lines_before(data, bad.number, self.delimiters[file]) + 2)
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
        if numeric:
            self.types |= {c: table.schema.field(c).type for c in columns if c not in numeric}
        return table, len(broken)

    def _refuse_rounded(self, table: pa.Table, columns: Sequence[str]) -> None:
        """Refuse whole numbers that the first lines gave no reason to expect, and that were read as doubles."""
        for column in columns:
            texts = table[column]
            for text in texts.filter(pc.match_substring_regex(texts, WHOLE_NUMBER.pattern)).to_pylist():
                if int(float(text)) != int(text):
                    raise InputError(
                        f"Column {column!r} holds {text}, a whole number beyond 2^53, which double precision cannot tell from "
                        "its neighbours, and numbers of other kinds; subtract an offset, or leave the column out."
                    )

    def _explain(self, error: Exception, data: memoryview, file: int, line: int, header: list[str]) -> InputError:
        """What pyarrow says of a block that it read serially, which tells the row."""
        found = re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", str(error), re.DOTALL)
        if not found:
            return InputError(f"{self.names[file]} cannot be read as CSV ({error}); correct it or leave it out.")
        column, value = header[int(found[1])], found[3]
        before = _lines_before(data, int(found[2] or 1), self.delimiters[file], value)
        strange = [said for kind, said in STRANGE.items() if f"to {kind}" in str(error)]
        message = _not_a_number(self._line(file, line + before + 2), column, value, strange[0] if strange else "not a number")
        return InputError(message, DROP_ROWS, argument="on_missing", column=column)

    def bytes_inside(self, point: ResumePoint) -> int:
        return min(point.cursor, self.files[point.file].size)


def _error_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except pa.ArrowInvalid as error:
        return ValueError(str(error))
    return None


def _lines_before(data: memoryview, row: int, delimiter: str, value: str = "") -> int:
    """Line breaks before a row of a block, and before a value in it.

    The number of the row is that of pyarrow: from 1 on, without empty lines.
    """
    starts = np.append(0, line_ends(data, delimiter)[0] + 1)
    text = bytes(data)
    full = [
        start for start in starts.tolist() if start < len(text) and text[start : start + 2].strip(b"\r")[:1] not in (b"\n", b"")
    ]
    if not full:
        return 0
    start = full[min(row, len(full)) - 1]
    sign = re.escape(delimiter.encode())
    found = re.compile(rb'(?:^|[\n"]|' + sign + rb")" + re.escape(value.encode()) + rb'(?:["\r\n]|$|' + sign + rb")").search(
        text, start
    )
    inside = found.start() if value and found else start
    end = min((other for other in full if other > start), default=len(text))
    return text.count(b"\n", 0, inside if inside < end else start)


def _not_a_number(where: str, column: str, value: str, what: str = "not a number") -> str:
    return f"{where}: column {column!r} has the value {value!r}, which is {what}."


def _is_large(column: pa.ChunkedArray) -> bool:
    """Whether numbers are beyond 2^53."""
    if not len(column) or column.null_count == len(column):
        return False
    low, high = pc.min_max(column).as_py().values()
    return bool(max(-low, high) > WHOLE)


def _is_long(column: pa.ChunkedArray) -> bool:
    """Whether a column holds whole numbers beyond 2^53."""
    return pa.types.is_integer(column.type) and _is_large(column)


def _number(text: str | None) -> float | None:
    """What a value says; None if that is no number to pyarrow."""
    return float(text) if text is not None and NUMBER.fullmatch(text) else None


def _switch(text: str | None) -> float | None:
    """The same for a column of true and false."""
    return None if text is None else SWITCH.get(text.strip(" \t").lower())


def _whole_number(text: str | None) -> int | None:
    """The same for a column of whole numbers of 64 bits."""
    number = int(text) if text is not None and "+" not in text and WHOLE_NUMBER.match(text) else None
    return None if number is None or not -(2**63) <= number < 2**63 else number


def _numbers(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Text columns as numbers where they should be; what is not a number becomes null."""

    for i, name in enumerate(table.column_names):
        if types.get(name) in (pa.float64(), pa.bool_()):
            read = _number if types[name] == pa.float64() else _switch
            table = table.set_column(i, name, pa.array([read(v) for v in table[name].to_pylist()], pa.float64()))
        elif types.get(name) == pa.int64():
            table = table.set_column(i, name, pa.array([_whole_number(v) for v in table[name].to_pylist()], pa.int64()))
        elif name in types:
            table = table.set_column(i, name, table[name].cast(types[name]))
    return table
