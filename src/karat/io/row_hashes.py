"""Hashes of all rows, which detect a single changed digit: since a coreset was made, and from one
pass to the next.

A changed digit among 2e7 rows moves moments by less than rounding does.  So a pass that reads the
rows hashes them as well:

    word(value)  the 64 bits of the value as a double (-0 counts as 0; every NaN, and a missing
    number, is the same NaN);
                 a polynomial in the bytes of a text
    h(row)       <- (h ^ (h >> 32)) * M + word, column by column in order of their names; mixed at
                 the end
    sums         sum of h, and of h * h, over all rows: the same in any order, and every duplicate
                 counts
    blocks       sum of h(row i) * key(i), per block of 2^15 rows of the source: a changed block is
                 found by its rows
    plain        sum of h per block: if a single row of a block has changed, both sums together name
                 it (:func:`changed_row`)

all modulo 2^64.  Words are values, not bytes of a file, so the same numbers in CSV, Parquet or
Arrow, as float32 or as integers, agree (7 and the text "7" do not, but for labels of a CSV file:
7 is the number there, and 007 a text), and neither batches nor the
borders of files matter.  Each step is a bijection of h, and keys are odd: one changed number always
changes its row, its block and the sum; several go unnoticed by a chance of about 2^-64.  The fold h
^ (h >> 32) comes after every column: without it the high bits, where signs and small numbers
differ, cancel each other.  Equal blocks mean identical data, equal sums the same rows in another
order.  The hashes detect accidental changes (a rewritten file, a lost or repeated row).  They are
not a signature: rows can be forged.

All rows are hashed, including those that ``on_missing="drop"`` drops, but not broken lines of a CSV
file.  A query may give other rows every time, and a table or file may change meanwhile.  So every
pass hashes its rows, and the sums are compared with those of an earlier pass over the same columns
(:class:`SamePasses`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from karat.data.batch import Batch
from karat.engine.rows import Progress
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.scan import Consumer, Position, scan
from karat.io.source import DIGITS, Chunk, Source, decimals_as_doubles
from karat.storage.archive import Stored

BLOCK = 2**15
TEXT = 2**20  # bytes of text at a time
HALF = np.uint64(32)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
FINISH = np.uint64(0xBF58476D1CE4E5B9)
MISSING = np.uint64(0x94D049BB133111EB)  # the word of a missing text
MODULUS = 2**64
WHOLE = "^(0|-?[1-9][0-9]{0,18})$"  # how integers are written
WRITTEN = "^-?[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?$"  # how numbers may be written
Columns = tuple[str, ...]
Seen = tuple[int, int, int]  # rows, and the two sums of their hashes
OTHER_ROWS = (
    "A later pass over the data read other rows than the first: a query gives other rows every"
    " time, or the data changed meanwhile. Write the rows to a file first, and read that."
)


class RowHashes:
    """Hashes of rows as they are read.

    Parameters
    ----------
    columns : list of str
        What is hashed of each row.
    gaps : bool
        Numbers may be missing.
    parts : list of int
        Rows of the sources that are read one after the other, but for the last: blocks begin anew
        with each.
    """

    def __init__(
        self, columns: Sequence[str], gaps: bool = False, parts: Sequence[int] = ()
    ) -> None:
        self.columns = sorted(columns)
        self.gaps = gaps
        self.parts = list(parts)
        self.rows = 0
        self.sums = [0, 0]
        self.blocks: list[int] = []  # the last one is open
        self.plain: list[int] | None = []  # None if hashes go on from a checkpoint that had none
        self._first = self._next = 0  # of the rows, where the open block begins and where it ends
        # Scratch arrays of one block stay in the cache.
        self._scratch = [np.empty(BLOCK, dtype=np.uint64) for _ in range(3)]

    def add(self, table: Any) -> None:
        """Add the rows of a table or record batch."""
        values, start = self._words(table), 0
        while start < table.num_rows:
            if self.rows == self._next:
                self._open()
            stop = min(table.num_rows, start + self._next - self.rows)
            with np.errstate(invalid="ignore"):  # a signalling NaN
                hashes = self._hashes([v[start:stop] for v in values], stop - start)
            self._sum(hashes)
            self.rows, start = self.rows + stop - start, stop

    def _words(self, table: Any) -> list[np.ndarray]:
        """The columns as numbers or words."""
        return [
            (
                _written_label_words
                if DIGITS in (table.schema.field(name).metadata or {})
                else _values
            )(table.column(name))
            for name in self.columns
        ]

    def each(self, table: Any) -> np.ndarray:
        """The hash of every row of a table or record batch, which is not added to the sums."""
        values, hashes = self._words(table), np.empty(table.num_rows, dtype=np.uint64)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            for start in range(0, table.num_rows, BLOCK):
                block = hashes[start : start + BLOCK]
                block[...] = self._hashes([v[start : start + BLOCK] for v in values], len(block))
        return hashes

    def _open(self) -> None:
        """Begin a block: it ends after BLOCK rows, or where its part of the source does."""
        ends = np.cumsum(self.parts)
        ahead = ends[ends > self.rows]
        self._first, self._next = self.rows, int(min([self.rows + BLOCK, *ahead[:1]]))
        self.blocks.append(0)
        if self.plain is not None:
            self.plain.append(0)

    def _hashes(self, values: list[np.ndarray], count: int) -> np.ndarray:
        mixed, high, word = (scratch[:count] for scratch in self._scratch)
        number = word.view(np.float64)
        mixed[...] = FINISH  # not 0, so that rows of zeros change the sums
        for i, column in enumerate(values):
            if i:
                mixed ^= np.right_shift(mixed, HALF, out=high)
            mixed *= MULTIPLIER
            if column.dtype == np.uint64:  # words already
                mixed += column
                continue
            number[...] = column
            number += 0.0
            if self.gaps:
                number[np.isnan(number)] = np.nan
            mixed += word
        return _mixed(mixed, high)

    def _sum(self, hashes: np.ndarray) -> None:
        scratch = self._scratch[2][: len(hashes)]
        first = self.rows - self._first
        total = int(hashes.sum())
        self.sums[0] = (self.sums[0] + total) % MODULUS
        if self.plain is not None:
            self.plain[-1] = (self.plain[-1] + total) % MODULUS
        self.sums[1] = (
            self.sums[1] + int(np.multiply(hashes, hashes, out=scratch).sum())
        ) % MODULUS
        placed = np.multiply(hashes, KEYS[first : first + len(hashes)], out=scratch)
        self.blocks[-1] = (self.blocks[-1] + int(placed.sum())) % MODULUS

    def to_dict(self) -> dict[str, Any]:
        """For JSON, and for :meth:`from_dict`."""
        hashes = {
            "columns": self.columns,
            "rows": self.rows,
            "parts": [*self.parts, self.rows - sum(self.parts)],
            "sums": [f"{s:016x}" for s in self.sums],
            "block_rows": BLOCK,
            "blocks": [f"{b:016x}" for b in self.blocks],
        }
        return (
            hashes if self.plain is None else hashes | {"plain": [f"{p:016x}" for p in self.plain]}
        )

    def same_rows(self, other: RowHashes) -> bool:
        """Whether both have seen the same rows in the same order."""
        return (self.rows, self.sums, self.blocks) == (other.rows, other.sums, other.blocks)

    @staticmethod
    def from_dict(state: dict[str, Any], gaps: bool) -> RowHashes:
        """The hashes of one source, to continue with."""
        content = RowHashes(state["columns"], gaps)
        content.rows, content.sums = state["rows"], [int(s, 16) for s in state["sums"]]
        content.blocks = [int(b, 16) for b in state["blocks"]]
        content.plain = [int(p, 16) for p in state["plain"]] if "plain" in state else None
        content._first = (len(content.blocks) - 1) * BLOCK
        content._next = content._first + BLOCK
        return content


def joined_hashes(contents: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The hashes of several sources one after the other; None if one has none, or they are of
    different columns.
    """
    present = [content for content in contents if content is not None]
    if len(present) < len(contents) or any(c["columns"] != present[0]["columns"] for c in present):
        return None
    sums = [sum(int(c["sums"][i], 16) for c in present) % MODULUS for i in (0, 1)]
    plain = (
        {"plain": [sums for c in present for sums in c["plain"]]}
        if all("plain" in c for c in present)
        else {}
    )
    return (
        {name: value for name, value in present[0].items() if name != "plain"}
        | plain
        | {
            "rows": sum(c["rows"] for c in present),
            "parts": [rows for c in present for rows in c["parts"]],
            "sums": [f"{s:016x}" for s in sums],
            "blocks": [block for c in present for block in c["blocks"]],
        }
    )


def spans(content: dict[str, Any]) -> list[tuple[int, int]]:
    """The rows of each block, from the first to the one after the last."""
    spans, first = [], 0
    for rows in content["parts"]:
        spans += [(first + a, first + min(a + BLOCK, rows)) for a in range(0, rows, BLOCK)]
        first += rows
    return spans


def changed_row(
    stored: dict[str, Any], fresh: dict[str, Any], block: int, alone: bool
) -> int | None:
    """The row of a block, counted from its first, that has changed; None if more than one has, or
    the hashes do not tell.

    One changed row i moves the plain sum of its block by some d, and the other sum by d * key(i).
    Keys differ, so i is the row that fits.  If several rows have changed, one fits by a chance of
    2^-49.  Hashes without plain sums tell by the sum of all rows, if the block is the only one that
    has changed (``alone``).
    """
    if "plain" in stored and "plain" in fresh:
        moved = int(fresh["plain"][block], 16) - int(stored["plain"][block], 16)
    elif alone:
        moved = int(fresh["sums"][0], 16) - int(stored["sums"][0], 16)
    else:
        return None
    keyed = int(fresh["blocks"][block], 16) - int(stored["blocks"][block], 16)
    if not moved % MODULUS:
        return None
    fits = np.flatnonzero(KEYS * np.uint64(moved % MODULUS) == np.uint64(keyed % MODULUS))
    return int(fits[0]) if len(fits) == 1 else None


def _mixed(values: np.ndarray, scratch: np.ndarray | None = None) -> np.ndarray:
    """Spread every bit over all of the word, in place."""
    for multiplier in (FINISH, MULTIPLIER):
        values ^= np.right_shift(values, HALF, out=scratch)
        values *= multiplier
    values ^= np.right_shift(values, HALF, out=scratch)
    return values


def _values(column: Any) -> np.ndarray:
    """A column as numbers, or as words (uint64) where its values are not all doubles."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_decimal(kind):
        column = decimals_as_doubles(column)
    kind = column.type
    if pa.types.is_integer(kind) and column.null_count:
        missing = np.asarray(column.is_null())
        words = _whole_words(np.asarray(column.fill_null(0)))
        words[missing] = np.nan if words.dtype.kind == "f" else np.float64(np.nan).view(np.uint64)
        return words
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    ):
        values = (
            column.to_numpy()
            if isinstance(column, pa.ChunkedArray)
            else column.to_numpy(zero_copy_only=False)
        )
        if values.dtype.kind == "O":  # nothing but missing values, or booleans with some
            values = np.array([np.nan if v is None else float(v) for v in values])
        return (
            _whole_words(values)
            if values.dtype.kind in "iu" and values.dtype.itemsize == 8
            else values
        )
    chunks = [
        chunk
        for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
        if len(chunk)
    ]
    return np.concatenate([np.empty(0, dtype=np.uint64), *(_text_words(chunk) for chunk in chunks)])


def _written_label_words(column: Any) -> np.ndarray:
    """Words of labels in a CSV file that look like numbers: those of the number, if the text is
    how it is written, so that files of other kinds agree; else those of the text.
    """
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    words = _text_words(column)
    numeric = _matching_texts(column, WRITTEN)
    texts = column.take(pa.array(numeric))
    numbers = texts.cast(pa.float64())
    same = np.asarray(pc.equal(numbers.cast(pa.string()), texts.cast(pa.string())))
    words[numeric[same]] = np.asarray(numbers).view(np.uint64)[same]
    whole = _matching_texts(column, WHOLE)
    try:
        integers = np.asarray(column.take(pa.array(whole)).cast(pa.int64()))
    except pa.ArrowInvalid:  # beyond 64 bits: text
        return _text_words(column)
    words[whole] = _whole_words(integers).view(np.uint64)
    words[np.asarray(column.is_null())] = np.float64(np.nan).view(np.uint64)
    return words


def _matching_texts(column: Any, pattern: str) -> np.ndarray:
    """The places of the texts that match a pattern."""
    return np.flatnonzero(pc.match_substring_regex(column, pattern).fill_null(False))


def _whole_words(values: np.ndarray) -> np.ndarray:
    """Integers as doubles; beyond 2^53 what the double is off by goes into the word."""
    doubles = values.astype(np.float64)
    if not len(values) or max(abs(int(values.max())), abs(int(values.min()))) <= 2**53:
        return doubles
    with np.errstate(invalid="ignore"):
        off = values.view(np.uint64) - doubles.astype(values.dtype).view(np.uint64)
    return doubles.view(np.uint64) + off * MULTIPLIER


def _text_words(column: Any) -> np.ndarray:
    """A word per text: sum over its bytes of (byte + 1) * M^position."""
    if not pa.types.is_large_string(column.type):
        try:
            column = column.cast(pa.large_string())
        except pa.ArrowException:
            column = pa.array(
                [None if v is None else str(v) for v in column.to_pylist()], pa.large_string()
            )
    ends = np.frombuffer(column.buffers()[1], dtype=np.int64)[
        column.offset : column.offset + len(column) + 1
    ]
    data = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)
    words = np.empty(len(column), dtype=np.uint64)
    start = 0
    while start < len(column):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + TEXT, side="right")) - 1)
        lengths = np.diff(ends[start : stop + 1])
        powers = np.cumprod(np.full(int(lengths.max()) + 1, MULTIPLIER))
        place = np.arange(ends[start], ends[stop]) - np.repeat(ends[start:stop], lengths)
        terms = np.concatenate(
            [[np.uint64(0)], (data[ends[start] : ends[stop]] + np.uint64(1)) * powers[place]]
        )
        running = np.cumsum(terms, dtype=np.uint64)[ends[start : stop + 1] - ends[start]]
        words[start:stop] = np.diff(running)
        start = stop
    if column.null_count:
        words[np.asarray(column.is_null())] = MISSING
    return words


KEYS = _mixed(np.arange(1, BLOCK + 1, dtype=np.uint64) * MULTIPLIER) | np.uint64(1)


def seen_rows(hashes: RowHashes) -> Seen:
    """What must be the same in every pass."""
    return hashes.rows, hashes.sums[0], hashes.sums[1]


def joined_seen(parts: Sequence[Seen]) -> Seen:
    """Of the rows of several parts of the data."""
    rows, first, second = (sum(numbers) for numbers in zip(*parts, strict=True))
    return rows, first % MODULUS, second % MODULUS


def require_same(first: Seen, later: Seen) -> None:
    """Raise if two passes did not read the same rows."""
    if first != later:
        raise InputError(OTHER_ROWS)


class Hashes(Consumer):
    """Hashes all rows, including dropped ones."""

    background = True

    def __init__(self, hashes: RowHashes) -> None:
        self.rows = hashes

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.rows.add(chunk.table)

    def state(self) -> Stored:
        return {"content": self.rows.to_dict()}, {}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.rows = RowHashes.from_dict(header["content"], self.rows.gaps)


class SamePasses:
    """The hashes of the passes over a source, by the columns that were read."""

    def __init__(self) -> None:
        self.seen: dict[Columns, Seen] = {}

    def remembered(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` returns."""
        return make()

    def hashed(self, layout: Layout) -> list[Columns]:
        """The columns to hash in a pass: all of them, and those of an earlier pass, if others."""
        columns = tuple(sorted(layout.columns))
        before = [known for known in self.seen if set(known) <= set(columns)]
        return sorted({columns, max(before, key=len, default=columns)})

    def compare(self, now: Mapping[Columns, Seen]) -> None:
        """Raise if a pass did not read the rows of the passes before."""
        for columns, seen in now.items():
            require_same(self.seen.setdefault(columns, seen), seen)

    def scan(
        self, source: Source, layout: Layout, consumers: Sequence[Consumer], rows: int,
        progress: Progress | None = None,
    ) -> Position:  # fmt: skip
        """:func:`karat.io.scan.scan`; an error if the rows are not those of the passes before."""
        if source.in_memory or source.once:
            return scan(source, layout, consumers, rows, progress=progress)
        hashes = {names: Hashes(RowHashes(names, gaps=True)) for names in self.hashed(layout)}
        position = scan(source, layout, [*hashes.values(), *consumers], rows, progress=progress)
        self.compare({names: seen_rows(each.rows) for names, each in hashes.items()})
        return position
