"""CSV files, plain or compressed: blocks of whole lines, each parsed by pyarrow on all cores.

pyarrow's own streaming reader cannot be resumed and does not say in which line it stumbled.  So the bytes are cut here, after
the last line end of a block, and a run can resume at the first byte of any block.  Only where a block holds quotes is it asked
which line ends are outside of them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv as pacsv

from karat.engine.offsets import WHOLE
from karat.errors import InputError
from karat.io.background import ahead
from karat.io.csv_lines import line_ends
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
WHOLE_NUMBER = re.compile(r"^\s*[+-]?\d{1,300}\s*$")
SWITCH = {"true": 1.0, "false": 0.0}
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
        refuse_twins(self.names[file], names)
        return names

    def _blocks(self, file: int, start: int, size: int) -> Iterator[Block]:
        """The blocks of a file, from byte ``start`` on, of at most ``size`` bytes."""
        name = self.names[file]
        buffer = bytearray(size)
        view = memoryview(buffer)
        filled = place = 0
        header: list[str] = []
        try:
            with self.filesystem.open_input_file(name) as file_bytes:
                stream = pa.CompressedInputStream(file_bytes, "gzip") if name.endswith(".gz") else file_bytes
                while True:
                    while filled < size and (count := stream.readinto(view[filled:])):
                        filled += count
                    final = filled < size
                    if not header:
                        line = buffer[: buffer.find(b"\n", 0, filled) + 1] or buffer[: filled if final else 0]
                        header = self._header(file, line.decode("utf-8-sig").strip())
                        cut = len(line)
                    elif place < start:  # read again what is done: a compressed file has no other way
                        cut = min(filled, start - place)
                    else:
                        cut, inner = self._end(file, buffer, filled, final)
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

    def _end(self, file: int, buffer: bytearray, filled: int, final: bool) -> tuple[int, int]:
        """Where the last whole line ends, and how many line breaks before that belong to values."""
        if buffer.find(b'"', 0, filled) < 0:
            return filled if final else buffer.rfind(b"\n", 0, filled) + 1, 0
        ends, inner = line_ends(memoryview(buffer)[:filled], self.delimiters[file])
        cut = filled if final else int(ends[-1]) + 1 if len(ends) else 0
        return cut, int((inner < cut).sum())

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
                parts = [part for part in table.to_batches(max_chunksize=rows) if part.num_rows]  # as parsed, without a copy
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

        def read(kinds: dict[str, pa.DataType]) -> pa.Table:
            broken.clear()
            return pacsv.read_csv(
                pa.BufferReader(pa.py_buffer(data)),
                read_options=pacsv.ReadOptions(column_names=header, block_size=PIECE),
                parse_options=parse,
                convert_options=pacsv.ConvertOptions(include_columns=list(columns), column_types=kinds),
            )

        try:
            table = read(types)
        except pa.ArrowInvalid as error:
            if strict:
                raise self._explain(error, bytes(data), file, line, header) from error
            table = _numbers(read({c: pa.string() for c in columns}), types)
        large = [c for c, kind in types.items() if kind == pa.float64() and c in numeric and _is_large(table[c])]
        if large:
            self._refuse_rounded(read({c: pa.string() for c in columns}), large)
        if broken and strict:
            bad = broken[0]
            text = bytes(data)
            found = re.search(rb"^" + re.escape(bad.text.encode()) + rb"\r?$", text, re.MULTILINE)
            where = self._line(file, line + text[: found.start() if found else 0].count(b"\n") + 2)
            raise InputError(
                f"{where}: {bad.actual_columns} values where the header has {bad.expected_columns} ({bad.text[:60]!r}).",
                "Correct the line, or leave such rows out with on_missing='drop'.",
                argument="on_missing",
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

    def _explain(self, error: Exception, data: bytes, file: int, line: int, header: list[str]) -> InputError:
        found = re.search(r"column #(\d+).*invalid value '(.*)'", str(error), re.DOTALL)
        if not found:
            return InputError(f"{self.names[file]} cannot be read as CSV ({error}); correct it or leave it out.")
        column, value = header[int(found[1])], found[2]
        position = re.search(rb"(?:^|[\t,;\"])" + re.escape(value.encode()) + rb"(?:[\t,;\"\r\n]|$)", data, re.MULTILINE)
        where = self._line(file, line + data[: position.start() if position else 0].count(b"\n") + 2)
        strange = [said for kind, said in STRANGE.items() if f"to {kind}" in str(error)]
        message = _not_a_number(where, column, value, strange[0] if strange else "not a number")
        return InputError(message, DROP_ROWS, argument="on_missing", column=column)

    def bytes_inside(self, point: ResumePoint) -> int:
        return min(point.cursor, self.files[point.file].size)


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
    """What a value says, true and false as 1 and 0; None if that is no number."""
    try:
        return None if text is None else SWITCH[text.lower()] if text.lower() in SWITCH else float(text)
    except ValueError:
        return None


def _whole_number(text: str | None) -> int | None:
    """The same for a column of whole numbers of 64 bits."""
    number = int(text) if text is not None and WHOLE_NUMBER.match(text) else None
    return None if number is None or not -(2**63) <= number < 2**63 else number


def _numbers(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Text columns as numbers where they should be; what is not a number becomes null."""

    for i, name in enumerate(table.column_names):
        if types.get(name) in (pa.float64(), pa.bool_()):
            table = table.set_column(i, name, pa.array([_number(v) for v in table[name].to_pylist()], pa.float64()))
        elif types.get(name) == pa.int64():
            table = table.set_column(i, name, pa.array([_whole_number(v) for v in table[name].to_pylist()], pa.int64()))
        elif name in types:
            table = table.set_column(i, name, table[name].cast(types[name]))
    return table
