"""Sources: files of one kind, or a stream of record batches, read in order with the place of every
batch.

A *resume point* is the place where a resumed run continues: the file, the number of its rows that
are done, and a cursor (the next byte of a CSV file).  The same chunks follow a resume point whether
or not the run was interrupted.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from karat.errors import InputError

T = TypeVar("T")
U = TypeVar("U")
END = object()
AHEAD = 6  # more items than threads, so that threads stay busy while earlier items are reduced
DROP_ROWS = "Correct it, leave the column out, or leave such rows out with on_missing='drop'."
INDEX = re.compile(r"__index_level_\d+__")
# Metadata of a column of numbers with a value that is text: a sentence that says where it is.
NOT_A_NUMBER = b"karat: not a number"
# Metadata of a column of text that looks like numbers, and would be numbers in other files.
DIGITS = b"karat: digits"


def decoded(column: Any) -> Any:
    """The values of a column that comes as codes and a dictionary; any other column as it is."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def decimals_as_doubles(column: Any) -> Any:
    """Decimals as an Arrow column of doubles; cast through text, because Arrow's direct cast is off
    by an ulp.
    """
    return column.cast(pa.string()).cast(pa.float64())


def places(column: Any, levels: Sequence[Any]) -> np.ndarray:
    """The position of every value of an Arrow column among the levels, -1 if it is none of them."""
    if not pa.types.is_dictionary(column.type):
        try:
            value_set = pa.array(levels).cast(column.type)
        # levels of another type
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            column = pc.dictionary_encode(column)
        else:
            return np.asarray(pc.index_in(column, value_set=value_set).fill_null(-1))
    numbers = {level: i for i, level in enumerate(levels)}
    codes = np.array([*(numbers.get(value, -1) for value in column.dictionary.to_pylist()), -1])
    return np.asarray(codes[np.asarray(column.indices.fill_null(len(codes) - 1))])


@dataclass(frozen=True)
class ResumePoint:
    """Where a chunk ends."""

    file: int = 0
    row: int = 0
    cursor: int = 0


@dataclass(frozen=True)
class Chunk:
    """Arrow rows of one file of a source, from row ``start`` of it on.

    ``end`` is the resume point after it, None if a run cannot resume there; ``bad`` counts broken
    rows, which are not among the rows of the table.
    """

    source: Source
    table: pa.RecordBatch | pa.Table
    file: int
    start: int
    end: ResumePoint | None
    bad: int = 0

    def where(self, row: int) -> str:
        """A row of the table, for error messages."""
        return self.source.where(self.file, self.start + row)


class Source(ABC):
    """Files or a stream, read as often as there are passes.

    Attributes
    ----------
    names : sequence of str
        Of the files, for error messages.
    given : list of str
        The paths that were passed; none, if it is a stream.
    notes : list of str
        What the certificate should say about how the source was read.
    once : bool
        Whether its rows can be read only once.
    in_memory : bool
        Whether its rows are the same in every pass.
    all_doubles : bool
        Whether integers are read as doubles; the schema has the original types.
    query : dict or None
        The database query that returns the rows (:mod:`karat.io.database`).
    hidden : collection of str
        Columns that are not read.
    whole : bool
        Whether all columns are read, so that one which the first file lacks is an error.
    """

    names: Sequence[str]
    given: Sequence[str] = ()
    notes: Sequence[str] = ()
    once = False
    in_memory = False
    all_doubles = False
    query: dict[str, str | None] | None = None
    hidden: Collection[str] = ()
    whole = False
    _schema: pa.Schema | None = None

    def schema(self) -> pa.Schema:
        """Of the first file, with the columns that folder names give; read once."""
        if self._schema is None:
            self._schema = self.read_schema()
        return without_columns(self._schema, self.hidden)

    @abstractmethod
    def read_schema(self) -> pa.Schema:
        """See :meth:`schema`."""

    @abstractmethod
    def chunks(
        self,
        columns: Sequence[str],
        numeric: Sequence[str] | None,
        rows: int,
        start: ResumePoint,
        strict: bool,
    ) -> Iterator[Chunk]:
        """Chunks of at most ``rows`` rows from a resume point on.

        The same chunks follow every resume point.  Columns in ``numeric`` are numbers of a type
        that holds their values exactly (from text files doubles, or 64-bit integers if doubles
        would round), or booleans; other columns are not converted.  If ``numeric`` is not None, a
        column has the same type in all chunks.  Columns from folder names are included
        (:func:`with_folders`).  A broken row is an error if ``strict``; else it is counted once, in
        ``bad`` of a chunk, which may be empty.  ``end`` is None unless a run can resume after the
        chunk.
        """

    def read_labels(self, readings: Mapping[str, Any]) -> None:  # noqa: B027
        """How columns of labels are read from now on (:mod:`karat.io.written_labels`); only text
        files leave a choice.
        """

    def label_kinds(self, columns: Sequence[str]) -> dict[str, pa.DataType]:
        """The types of columns of labels, as they are read."""
        return {name: self.schema().field(name).type for name in columns}

    def identity(self) -> list[list[Any]]:
        """Names, sizes and times of the files, to detect changes."""
        return []

    def described(self, files: Sequence[Sequence[Any]], rows: Mapping[int, int]) -> dict[str, Any]:
        """For the provenance: the paths that were passed (none, if it is a stream), and the files
        found there.

        ``files`` are those of :meth:`identity`, and ``rows`` says how many each has.
        """
        names = short_names([str(file[0]) for file in files])
        described = [
            {"name": name, "size": file[1], "rows": rows.get(i, 0)}
            for i, (name, file) in enumerate(zip(names, files, strict=True))
        ]
        return {"given": list(self.given), "files": described} | (
            {} if self.query is None else {"query": self.query}
        )

    def where(self, file: int, row: int) -> str:
        """A row of a file, for error messages."""
        return f"{self.names[file]}, row {row:,}"

    def bytes_done(self, point: ResumePoint) -> tuple[int, int]:
        """Bytes done, and bytes in all (0: unknown)."""
        return 0, 0

    def row_count(self) -> tuple[int, bool]:
        """The number of rows, from footers or first bytes, and whether it is exact."""
        raise InputError("The number of rows of a stream is unknown; pass it as an argument.")


@dataclass(frozen=True)
class File:
    """A file, and the columns that its folder names give, with their values."""

    path: str
    size: int
    folders: Mapping[str, Any]


class Files(Source):
    """Files of one kind, in order of their names."""

    def __init__(self, filesystem: Any, files: Sequence[File], given: Sequence[str]) -> None:
        self.filesystem, self.files, self.given = filesystem, files, given
        self.names = [f.path for f in files]
        self.folders = [f.folders for f in files]

    def identity(self) -> list[list[Any]]:
        """Read again every time, since files may change during a run."""
        infos = self.filesystem.get_file_info(list(self.names))
        return [[f.path, f.size, f.mtime_ns] for f in infos]

    def bytes_done(self, point: ResumePoint) -> tuple[int, int]:
        before, total = (
            sum(f.size for f in self.files[: point.file]),
            sum(f.size for f in self.files),
        )
        return before + (self.bytes_inside(point) if point.file < len(self.files) else 0), total

    @abstractmethod
    def bytes_inside(self, point: ResumePoint) -> int:
        """Bytes done of the file of a resume point."""


class Batches(Source):
    """Record batches, one after the other."""

    @abstractmethod
    def batches(self, columns: list[str], rows: int) -> Iterable[Any]:
        """The batches of some columns, of about ``rows`` rows where that can be chosen."""

    def chunks(
        self,
        columns: Sequence[str],
        numeric: Sequence[str] | None,
        rows: int,
        start: ResumePoint,
        strict: bool,
    ) -> Iterator[Chunk]:
        Expected(self, columns).check(self.names[0], self.schema())
        place = start
        try:
            for batch in self.batches(list(columns), rows):
                for first in range(0, batch.num_rows, rows):
                    part = batch.slice(first, rows)
                    after = replace(place, row=place.row + part.num_rows)
                    yield Chunk(self, part, 0, place.row, after)
                    place = after
        except (pa.ArrowException, OSError) as error:  # a database may fail at any row
            raise InputError(
                f"{self.where(0, place.row)} cannot be read ({brief(error)})."
            ) from error


def brief(error: BaseException) -> str:
    """The first line of an error, or its kind where it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def short_names(paths: Sequence[str]) -> list[str]:
    """Paths below their common folder."""
    if not paths:
        return []
    home = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [PurePath(os.path.relpath(path, home or ".")).as_posix() for path in paths]


def with_folders(batch: Any, folders: Mapping[str, Any], columns: Sequence[str]) -> Any:
    """The batch with the wanted columns from its folder names; None is a missing value."""
    for name, value in folders.items():
        if name in columns and name not in batch.schema.names:
            constant = (
                pa.nulls(batch.num_rows)
                if value is None
                else pa.array(np.full(batch.num_rows, value))
            )
            batch = batch.append_column(name, constant)
    return batch


class Expected:
    """Every file must have the columns of the first, of the same sort, and no others if the whole
    source is read.

    True is 1 among numbers, and something else in columns that are not ``numeric``.
    """

    def __init__(
        self, source: Source, columns: Sequence[str], numeric: Sequence[str] | None = None
    ) -> None:
        self.columns, self.numeric = columns, columns if numeric is None else numeric
        self.first: tuple[str, dict[str, pa.DataType]] | None = None
        self.source = source

    def check(self, name: str, schema: pa.Schema) -> None:
        types = {}
        for column in self.columns:
            if column not in schema.names:
                others = f"it has {', '.join(schema.names)}"
                others = f"{self.first[0]} has it" if self.first else others
                raise InputError(
                    f"{name} has no column {column!r}; {others}. Add the column, or leave out the"
                    " column or the file."
                )
            types[column] = schema.field(column).type
        self.refuse_more(name, schema)
        if self.first is None:
            self.first = (name, types)
        for column, kind in self.first[1].items():
            other = types[column]
            unlike = pa.types.is_boolean(kind) != pa.types.is_boolean(other)
            if (unlike and column not in self.numeric) or sort_of(kind) != sort_of(other):
                raise InputError(
                    f"Column {column!r} is {kind} in {self.first[0]} but {other} in {name}; convert"
                    " one of them."
                )

    def refuse_more(self, name: str, schema: pa.Schema) -> None:
        """Raise if nobody chose the columns, and a file has some that the first does not have."""
        if not self.source.whole:
            return
        known = {*self.source.schema().names, *self.source.hidden, *pandas_index(schema)}
        more = ", ".join(repr(column) for column in schema.names if column not in known)
        if more:
            raise InputError(
                f"{name} has columns that {self.source.names[0]} does not have: {more}.",
                "Name the columns to read in columns= (in a formula, in place of '.'), or give all"
                " files the same columns.",
                argument="columns",
            )


def check_unique_columns(name: str, columns: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    twin = next((c for i, c in enumerate(columns) if c in columns[:i]), None)
    if twin is not None:
        raise InputError(
            f"{name} has two columns named {twin!r}; rename one of them, or leave it out of the"
            " file."
        )


def without_columns(schema: pa.Schema, hidden: Collection[str]) -> pa.Schema:
    """A schema without some of its columns."""
    if not hidden:
        return schema
    return pa.schema([f for f in schema if f.name not in hidden], metadata=schema.metadata)


def pandas_index(schema: pa.Schema) -> list[str]:
    """The columns in which pandas stored an index that has no name."""
    metadata = schema.pandas_metadata
    stored = metadata.get("index_columns", []) if isinstance(metadata, dict) else []
    # An index that is a range is stored as a dict, not as a column.
    names = [name for name in stored if isinstance(name, str) and INDEX.fullmatch(name)]
    # to_csv writes the index as a first column without a name.
    return [
        *(name for name in names if name in schema.names),
        *(n for n in schema.names[:1] if not n),
    ]


def is_number(field: pa.Field) -> bool:
    """Whether a column holds numbers, apart from a few values of a CSV file (see NOT_A_NUMBER)."""
    return sort_of(field.type) in ("number", "null") or NOT_A_NUMBER in (field.metadata or {})


def text_columns(schema: pa.Schema) -> list[str]:
    """The columns that do not hold numbers."""
    return [field.name for field in schema if not is_number(field)]


def sort_of(kind: pa.DataType) -> str:
    """The sort of a type; columns of several files may be combined if their sorts are equal."""
    numeric = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
    if numeric:
        return "number"
    text = (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    )
    return "text" if text else str(kind)


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items; each is computed while the one before it is in use.

    An error is raised in place of its item.
    """
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(next, items, END)
        while True:
            item = coming.result()
            if item is END:
                return
            coming = worker.submit(next, items, END)
            yield item  # type: ignore[misc]


def worked_in_order(
    work: Callable[[T], U], items: Iterator[T], threads: int
) -> Iterator[tuple[T, U]]:
    """Each item with the result of ``work``, in order; threads work ahead.

    An error is raised in place of its item.
    """
    with ThreadPoolExecutor(threads) as workers:

        def started() -> Iterator[tuple[Any, Future[U]]]:
            try:
                for item in items:
                    yield item, workers.submit(work, item)
            except Exception as error:
                failed: Future[U] = Future()
                failed.set_exception(error)
                yield None, failed

        coming: deque[tuple[T, Future[U]]] = deque()
        for pair in started():
            coming.append(pair)
            if len(coming) > threads + AHEAD:
                item, made = coming.popleft()
                yield item, made.result()
        for item, made in coming:
            yield item, made.result()
