"""The text of a CSV file: its header, its lines, and the numbers written in it.

Bytes are cut between rows: into blocks after which a run can resume, and these into pieces that
are parsed side by side.

pyarrow's own streaming reader cannot be resumed and does not report the line of an error.  So the
bytes are cut here: a block ends after its last whole line, a piece after the first line end behind
a number of bytes.  Where blocks and pieces end depends on the file alone.

Line ends inside quotes belong to a value.  Only blocks with quotes are searched for them.  A quote
opens a value only at the beginning of the value, and "" inside stands for one quote.  In a file
that follows these rules, a place is inside quotes if and only if an odd number of quotes precedes
it.  Blocks with other quotes (5" in a value without quotes) are read quote by quote.
"""

from __future__ import annotations

import csv
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv as pacsv

from karat.engine.parts import WHOLE
from karat.errors import InputError, several
from karat.io.source import check_unique_columns

SOME = 2**22  # bytes read at a time to count lines
QUOTE, BREAK = ord('"'), ord("\n")
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
# What pyarrow reads as a number: no underscores, no digits of other scripts, no words but infinity.
NUMBER = re.compile(
    r"[ \t]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|infinity)[ \t]*",
    re.IGNORECASE | re.ASCII,
)
WITH_COMMA = re.compile(r"[ \t]*[+-]?[0-9.' ]*,[0-9]+([eE][+-]?[0-9]+)?[ \t]*", re.ASCII)  # 1.234,5
NOTHING = {None, *pacsv.ConvertOptions().null_values}
# Dates, times and truth values, which are hardly names of columns.
DATA = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?|true|false", re.IGNORECASE | re.ASCII)
INTEGER = re.compile(r"^[ \t]*[+-]?[0-9]{1,300}[ \t]*$")
BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


class Header(NamedTuple):
    """The first line of a file."""

    names: list[str]
    delimiter: str
    note: str = ""  # for the certificate, where names are numbers
    is_row: bool = False  # the first line is a row, and the names come from elsewhere


class Piece(NamedTuple):
    """Whole lines of a file."""

    data: memoryview
    header: Header
    inner: int  # line breaks in values
    start: int  # their first byte
    end: int | None  # the byte after them, if a run can resume there
    stored: int  # bytes of the file that were read so far


class Lines(NamedTuple):
    """The whole lines at the beginning of some bytes: their length, and their line ends, if there
    are quotes.
    """

    length: int
    outside: np.ndarray | None = None
    inside: np.ndarray | None = None


class CsvBytes:
    """The bytes of one file.

    Parameters
    ----------
    filesystem : pyarrow FileSystem
    name : str
    read_header : callable
        Makes a :class:`Header` of the first line.
    spare : list of bytearray, optional
        Buffers of blocks that are no longer in use.  To reuse them is faster than to allocate new
        ones.
    """

    def __init__(
        self,
        filesystem: Any,
        name: str,
        read_header: Callable[[str], Header],
        spare: list[bytearray] | None = None,
    ) -> None:
        self.filesystem, self.name, self.read_header = filesystem, name, read_header
        self.spare = [] if spare is None else spare

    def pieces(self, start: int, block_bytes: int, piece_bytes: int) -> Iterator[Piece]:
        """Pieces of the blocks from byte ``start`` on, which is the end of the header if it is
        0.
        """
        buffer, filled, place, in_use = bytearray(block_bytes), 0, 0, False
        header: Header | None = None
        try:
            with self.filesystem.open_input_file(self.name) as stored:
                stream = self._decompressed(stored)
                while True:
                    while filled < block_bytes and (
                        count := stream.readinto(memoryview(buffer)[filled:])
                    ):
                        filled += count
                    final = filled < block_bytes
                    if header is None:
                        line = self._first_line(buffer, filled, final)
                        header = self.read_header(line.decode("utf-8-sig").strip("\r\n"))
                        mark = len(BOM_UTF8) if line.startswith(BOM_UTF8) else 0
                        cut = mark if header.is_row else len(line)
                        if header.is_row and not mark:
                            continue  # it is the first row, too
                    elif place < start and stream is stored:
                        place, filled = stored.seek(start), 0
                        continue
                    # A compressed file cannot be sought: skip what is done.
                    elif place < start:
                        cut = min(filled, start - place)
                    else:
                        lines = self._whole_lines(buffer, filled, final, header, place)
                        cut = lines.length
                        for first, last in pairwise(_cuts(buffer, lines, piece_bytes)):
                            inner = (
                                0
                                if lines.inside is None
                                else int(np.diff(np.searchsorted(lines.inside, [first, last]))[0])
                            )
                            end, in_use = place + cut if last == cut else None, True
                            yield Piece(
                                memoryview(buffer)[first:last],
                                header,
                                inner,
                                place + first,
                                end,
                                stored.tell(),
                            )
                    if filled and not cut:
                        raise InputError(
                            f"{self.name} has a line of more than {block_bytes >> 20} MB; is it a"
                            " CSV file?"
                        )
                    rest = memoryview(buffer)[cut:filled]
                    if final and not rest:
                        return
                    if in_use:  # by its pieces
                        buffer = self.spare.pop() if self.spare else bytearray(block_bytes)
                    memoryview(buffer)[: len(rest)] = rest
                    place, filled = place + cut, len(rest)
        except (OSError, EOFError, pa.ArrowException, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.name} cannot be read ({error}); it may be damaged. Write it again or leave"
                " it out."
            ) from error

    def _decompressed(self, stored: Any) -> Any:
        codec = CODECS.get(os.path.splitext(self.name)[1].lower())
        return pa.CompressedInputStream(stored, codec) if codec else stored

    def _first_line(self, buffer: bytearray, filled: int, final: bool) -> bytearray:
        line = buffer[: buffer.find(b"\n", 0, filled) + 1] or buffer[: filled if final else 0]
        if b"\r" in line.rstrip(b"\r\n"):
            raise InputError(
                f"{self.name} ends its lines with carriage returns alone; convert them to line"
                " feeds."
            )
        return line

    def _whole_lines(
        self, buffer: bytearray, filled: int, final: bool, header: Header, place: int
    ) -> Lines:
        """The whole lines of the bytes from ``place`` on."""
        if buffer.find(b'"', 0, filled) < 0:
            return Lines(filled if final else buffer.rfind(b"\n", 0, filled) + 1)
        data = memoryview(buffer)[:filled]
        stray = stray_quote(data, header.delimiter, final)
        if stray is not None:
            line = 1 + self.text_at(place)[0] + buffer.count(b"\n", 0, stray)
            text = bytes(data[stray : stray + 40]).decode("utf-8", "replace")
            raise InputError(
                f"{self.name}, line {line:,}: a quote opens a value and is not closed ({text!r}),"
                " so the lines after it would be lost. Close it, or double it if it is part of the"
                " value."
            )
        outside, inside = line_ends(data, header.delimiter)
        return Lines(
            filled if final else int(outside[-1]) + 1 if len(outside) else 0, outside, inside
        )

    def text_at(self, start: int, length: int = 0) -> tuple[int, bytes]:
        """The number of line breaks before a place of the text, and the bytes there.

        The file is read again up to that place, so this is for error messages only.
        """
        breaks = 0
        with self.filesystem.open_input_file(self.name) as stored:
            stream = self._decompressed(stored)
            while start > 0 and (data := stream.read(min(start, SOME))):
                breaks, start = breaks + data.count(b"\n"), start - len(data)
            return breaks, bytes(stream.read(length))


def read_header(path: str, line: str, given: bool | Sequence[str] | None = None) -> Header:
    """The names in the first line of a file, and the sign that separates them.

    ``given`` says whether the first line holds names, or what the names are; by default the line
    decides.
    """
    file_name = os.path.basename(path)
    outside_quotes = re.sub('"[^"]*"', "", line)
    delimiters = "\t" if ".tsv" in file_name.lower() else ",;\t|"
    delimiter = next((sign for sign in delimiters if sign in outside_quotes), delimiters[0])
    names = next(csv.reader([line], delimiter=delimiter), [""])
    if given is False:
        return Header([str(i) for i in range(len(names))], delimiter, is_row=True)
    if isinstance(given, Sequence):
        if len(given) != len(names):
            raise InputError(
                f"{path} has {several(len(names), 'value')} in its first row, but header has"
                f" {several(len(given), 'name')}; name every column.",
                argument="header",
            )
        return Header(list(given), delimiter, is_row=True)
    doubt = None if given else looks_like_data(names)
    if doubt is not None:
        raise InputError(
            f"{path}, line 1 holds {doubt!r}, so it looks like a row, not like names: in a file"
            " that has no header, the first row would be lost.",
            "Say what it is: karat.io.csv_files(..., header=True) if these are names, header=False"
            " or header=[...] with the names if they are values.",
            argument="header",
        )
    note = ""
    if given is None and any(NUMBER.fullmatch(name) for name in names):
        note = (
            f"The first line of {file_name} was read as names of columns ({', '.join(names[:3])})."
        )
    check_unique_columns(path, names)
    return Header(names, delimiter, note)


def checked_header(header: Any) -> bool | list[str] | None:
    """An argument ``header``."""
    if header is None or isinstance(header, bool):
        return header
    names = list(header) if isinstance(header, Iterable) and not isinstance(header, str) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"header must be True, False or a list of names, not {header!r}.", argument="header"
        )
    check_unique_columns("header", names)
    return names


def looks_like_data(names: Sequence[str]) -> str | None:
    """The first value of a line that is hardly the name of a column; None if all may be names.

    Integers are names only if each is one more than the last: 0, 1, 2, or years.
    """
    values = [name.strip() for name in names]
    integers = [int(value) for value in values if value.isascii() and value.isdigit()]
    count_up = all(b == a + 1 for a, b in pairwise(integers))
    alone = len(integers) == 1 < len([value for value in values if value])  # "AA,5"
    if integers and (missing := NOTHING.intersection(values) - {""}):  # "NA,1,2"
        return str(min(missing))
    for value in values:
        whole = value.isascii() and value.isdigit()
        if whole and (not count_up or alone or len(value) > len(str(int(value)))):
            return value
        if not whole and (NUMBER.fullmatch(value) or DATA.fullmatch(value)):
            return value
    return None


def _cuts(buffer: bytearray, lines: Lines, piece_bytes: int) -> list[int]:
    """Where the pieces of a block begin, and where the last one ends."""
    cuts = [0]
    while cuts[-1] + piece_bytes < lines.length:
        after = cuts[-1] + piece_bytes
        if lines.outside is None:
            cut = buffer.find(b"\n", after, lines.length) + 1
        else:
            behind = lines.outside[lines.outside >= after]
            cut = int(behind[0]) + 1 if len(behind) else 0
        cuts.append(cut or lines.length)
    return cuts if cuts[-1] == lines.length else [*cuts, lines.length]


def line_ends(block: memoryview | bytes, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the line ends outside and inside quotes, in a block that begins with a row."""
    data = np.frombuffer(block, dtype=np.uint8)
    toggles, _ = _quotes(data, delimiter)
    breaks = np.flatnonzero(data == BREAK)
    inside = np.searchsorted(toggles, breaks) % 2 == 1
    return breaks[~inside], breaks[inside]


def lines_before(text: bytes, sign: str, row: int, value: str = "") -> int:
    """Line breaks before a row of a piece, and before a value in it.

    The number of the row is that of pyarrow: from 1 on, without empty lines.
    """
    starts = np.append(0, line_ends(text, sign)[0] + 1)
    full = [
        start
        for start in starts.tolist()
        if start < len(text) and text[start : start + 2].strip(b"\r")[:1] not in (b"\n", b"")
    ]
    if not full:
        return 0
    start = full[min(row, len(full)) - 1]
    sign = re.escape(sign)
    match = re.compile(
        rf'(?:^|[\n"]|{sign}){re.escape(value)}(?:["\r\n]|$|{sign})'.encode()
    ).search(text, start)
    inside = match.start() if value and match else start
    end = min((other for other in full if other > start), default=len(text))
    return text.count(b"\n", 0, inside if inside < end else start)


def stray_quote(block: memoryview | bytes, delimiter: str, final: bool) -> int | None:
    """The first quote that opens a value of several lines without a proper end; None if there is
    none.

    The lines after such a quote are rows, not a value.  In the ``final`` block of a file, a quote
    that is never closed is stray as well.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    toggles, edge = _quotes(data, delimiter)
    breaks = np.flatnonzero(data == BREAK)
    opened, closed = toggles[0::2], toggles[1::2]
    if final and len(opened) > len(closed):
        closed = np.append(closed, len(data))
    opened = opened[: len(closed)]
    several = np.searchsorted(breaks, closed) > np.searchsorted(breaks, opened)
    # the end of the block ends a value, but not one that is still open
    behind = np.append(data, [BREAK, 0])[closed + 1]
    ends_well = edge[behind] | (behind == QUOTE)
    stray = opened[several & ~ends_well]
    return int(stray[0]) if len(stray) else None


def _quotes(data: np.ndarray, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """The quotes that open or close a value, and for every byte whether a value ends before it."""
    quotes = np.flatnonzero(data == QUOTE)
    edge = np.isin(np.arange(256), [ord(delimiter), BREAK, ord("\r")])
    # whether a value begins after what is before the quote
    opens = np.ones(len(quotes), dtype=bool)
    opens[quotes > 0] = edge[data[quotes[quotes > 0] - 1]]
    closes = np.ones(len(quotes), dtype=bool)  # whether a value ends before what is after it
    closes[quotes < len(data) - 1] = edge[data[quotes[quotes < len(data) - 1] + 1]]
    double = np.zeros(len(quotes) + 1, dtype=bool)  # whether a quote comes right after another
    double[1:-1] = np.diff(quotes) == 1
    regular = (opens | double[:-1])[0::2].all() and (closes | double[1:])[1::2].all()
    return quotes if regular else _toggles(quotes.tolist(), opens.tolist()), edge


def _toggles(quotes: list[int], opens: list[bool]) -> np.ndarray:
    """The quotes that open or close a value, where some are part of one."""
    toggles: list[int] = []
    skip = -1
    for i, place in enumerate(quotes):
        if i == skip:
            continue
        if len(toggles) % 2 == 0:
            if opens[i]:
                toggles.append(place)
        elif i + 1 < len(quotes) and quotes[i + 1] == place + 1:
            skip = i + 1
        else:
            toggles.append(place)
    return np.array(toggles, dtype=np.int64)


def number_of(text: str | None) -> float | None:
    """A value as a number; None if pyarrow would not read it as one."""
    return float(text) if text is not None and NUMBER.fullmatch(text) else None


def odd_number(values: Sequence[str | None]) -> tuple[int, bool] | None:
    """Of text that looks like numbers, the first value that is none, and whether all such values
    are numbers with a comma; None if it does not look like numbers.
    """
    odd = [i for i, text in enumerate(values) if text not in NOTHING and number_of(text) is None]
    commas = all(WITH_COMMA.fullmatch(values[i] or "") for i in odd)
    return (odd[0], commas) if odd and (commas or 2 * len(odd) < len(values)) else None


def _boolean_of(text: str | None) -> bool | None:
    """A value as a boolean, by the same rule."""
    return None if text is None else BOOLEANS.get(text.strip(" \t").lower())


def _integer_of(text: str | None) -> int | None:
    """A value as a 64-bit integer, by the same rule."""
    number = int(text) if text is not None and "+" not in text and INTEGER.match(text) else None
    return None if number is None or not -(2**63) <= number < 2**63 else number


def as_numbers(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Text columns as numbers of the given types; other values become null."""
    for name, kind in types.items():
        values = pa.array([READ[kind](value) for value in table[name].to_pylist()], kind)
        table = table.set_column(table.column_names.index(name), name, values)
    return table


READ = {pa.float64(): number_of, pa.bool_(): _boolean_of, pa.int64(): _integer_of}


def large_columns(table: pa.Table, types: dict[str, pa.DataType]) -> list[str]:
    """Columns of doubles with numbers beyond 2^53."""
    return [c for c in table.column_names if types.get(c) == pa.float64() and _is_large(table[c])]


def _is_large(column: pa.ChunkedArray) -> bool:
    """Whether numbers are beyond 2^53; a double of 2^53 may have been 2^53 + 1 before it was
    rounded.
    """
    if not len(column) or column.null_count == len(column):
        return False
    if pa.types.is_float64(column.type) and not column.null_count:
        values = [chunk.to_numpy() for chunk in column.chunks if len(chunk)]
        top = np.max([(v.max(), -v.min()) for v in values])  # faster than pyarrow's, but NaN wins
        if not np.isnan(top):
            return bool(top >= WHOLE)
    low, high = pc.min_max(column).as_py().values()
    return bool(max(-low, high) >= WHOLE)


def has_large_integers(column: pa.ChunkedArray) -> bool:
    """Whether a column holds integers beyond 2^53."""
    return pa.types.is_integer(column.type) and _is_large(column)
