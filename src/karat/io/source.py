"""Sources: files of one kind, or a stream of record batches, read in order with the place of every batch.

A *resume point* is what a resumed run needs to go on: the file, the rows of it that are done, and a cursor (the next byte of a
CSV file).  From a resume point on, the same chunks follow whether or not the run was interrupted.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from karat.errors import InputError

KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".tsv.gz": "csv",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip

WILD = "*?["
ROWS = 10**6  # of a stream at a time
DROP_ROWS = "Correct it, leave the column out, or leave such rows out with on_missing='drop'."
NOT_A_NUMBER = b"karat: not a number"  # metadata of a column that is text for one value's sake: where that is, in words


@dataclass(frozen=True)
class ResumePoint:
    """Where a chunk ends."""

    file: int = 0
    row: int = 0
    cursor: int = 0


@dataclass(frozen=True)
class Chunk:
    """Arrow rows of one file of a source, from row ``start`` of it on.

    ``end`` is the resume point after it, None if a run cannot resume there; ``bad`` counts broken rows, which are not among the
    rows of the table.
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
    once : bool
        Its rows come only once.
    """

    names: Sequence[str]
    given: Sequence[str] = ()
    once = False
    _schema: pa.Schema | None = None

    def schema(self) -> pa.Schema:
        """Of the first file, with the columns that folder names give; read once."""
        if self._schema is None:
            self._schema = self.read_schema()
        return self._schema

    @abstractmethod
    def read_schema(self) -> pa.Schema:
        """See :meth:`schema`."""

    @abstractmethod
    def chunks(
        self, columns: Sequence[str], numeric: Sequence[str], rows: int, start: ResumePoint, strict: bool
    ) -> Iterator[Chunk]:
        """Chunks of at most ``rows`` rows from a resume point on.

        Columns in ``numeric`` come as doubles, whole numbers that doubles would round as 64-bit integers, and true and false as
        booleans; others as they are.  Columns that folder names give are among them (:func:`with_folders`).  A broken row is an
        error if ``strict``; else it is counted once, in ``bad`` of a chunk, which may be empty.  ``end`` is None but for chunks
        after which a run can resume.
        """

    def identity(self) -> list[list[Any]]:
        """Names, sizes and times of the files, to notice changes."""
        return []

    def where(self, file: int, row: int) -> str:
        """A row of a file, for error messages."""
        return f"{self.names[file]}, row {row:,}"

    def bytes_done(self, point: ResumePoint) -> tuple[int, int]:
        """Bytes done, and bytes in all (0: unknown)."""
        return 0, 0

    def row_count(self) -> tuple[int, bool]:
        """How many rows there are, told from footers or first bytes, and whether that is exact."""
        raise InputError("A stream does not say how many rows are coming; give their number.")


@dataclass(frozen=True)
class File:
    """A file, and what its folders say (``year=2024/``)."""

    path: str
    size: int
    changed: int
    folders: tuple[tuple[str, str], ...]


class Files(Source):
    """Files of one kind, in order of their names."""

    def __init__(self, filesystem: Any, files: Sequence[File], given: Sequence[str]) -> None:
        self.filesystem, self.files, self.given = filesystem, files, given
        self.names = [f.path for f in files]

    def identity(self) -> list[list[Any]]:
        """Read anew, since files may change while we look at them."""
        infos = self.filesystem.get_file_info(list(self.names))
        return [[f.path, f.size, f.mtime_ns] for f in infos]

    def bytes_done(self, point: ResumePoint) -> tuple[int, int]:
        before, total = sum(f.size for f in self.files[: point.file]), sum(f.size for f in self.files)
        return before + (self.bytes_inside(point) if point.file < len(self.files) else 0), total

    @abstractmethod
    def bytes_inside(self, point: ResumePoint) -> int:
        """Bytes done of the file of a resume point."""


def open_source(source: Any, *, rows: int = ROWS, block_bytes: int = 2**24, first_bytes: int = 2**20) -> Source:
    """A source for anything that :func:`karat.coreset_files` takes; one that is open already stays as it is.

    Parameters
    ----------
    source : path, list of paths, stream or Source
    rows : int
        Rows that a DuckDB relation gives at a time.
    block_bytes, first_bytes : int
        Bytes of a CSV file that are read at a time, and those that tell numbers from text.
    """
    from karat.io.columnar import ColumnarFiles, Stream
    from karat.io.csv import CsvFiles

    if isinstance(source, Source):
        return source
    if isinstance(source, pa.RecordBatchReader):
        return Stream(lambda: source, once=True)
    if isinstance(source, pads.Dataset):
        source = list(source.files) if hasattr(source, "files") else source
    for method in ("to_arrow_reader", "fetch_arrow_reader"):  # a DuckDB relation, new and old
        if hasattr(source, method):
            return Stream(partial(getattr(source, method), rows))
    if hasattr(source, "__arrow_c_stream__"):
        return Stream(lambda: pa.RecordBatchReader.from_stream(source))
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        source = [source]
    if not isinstance(source, list | tuple) or not source:
        raise InputError(f"source must be a path, a list of paths or a stream of Arrow batches, not {type(source).__name__}.")
    filesystem, files = None, []
    for one in source:
        filesystem, found = _find(str(one))
        files += found
    kinds = {_kind(f.path) for f in files}
    if len(kinds) != 1:
        raise InputError(f"The source mixes {' and '.join(sorted(map(str, kinds)))} files; give files of one kind.")
    kind = str(kinds.pop())
    given = [os.fspath(one) for one in source]
    if kind == "csv":
        return CsvFiles(filesystem, files, given, block_bytes, first_bytes)
    return ColumnarFiles(filesystem, files, given, kind)


def _kind(path: str) -> str | None:
    suffixes = PurePosixPath(path).suffixes
    return KINDS.get("".join(suffixes[-2:]).lower()) or KINDS.get("".join(suffixes[-1:]).lower())


def _find(source: str) -> tuple[Any, list[File]]:
    """The file system and the data files at a path or address, in order of their names."""
    filesystem, path = _file_system(source)
    info = filesystem.get_file_info(path)
    if info.type == pafs.FileType.NotFound and any(sign in path for sign in WILD):
        path, found = _matching(filesystem, source, path)
    elif info.type == pafs.FileType.NotFound:
        raise InputError(f"There is no file or folder {source}.")
    elif info.type == pafs.FileType.Directory:
        inside = filesystem.get_file_info(pafs.FileSelector(path, recursive=True))
        found = [f for f in inside if f.is_file and _kind(f.path) and not _hidden(f.path[len(path) :])]
        if not found:
            raise InputError(f"The folder {source} holds no data files; known are {', '.join(KINDS)}.")
    elif _kind(path) is None:
        raise InputError(f"{source} is of no known kind; known are {', '.join(KINDS)}.")
    else:
        found = [info]
    found.sort(key=lambda f: f.path)
    return filesystem, [File(f.path, f.size or 0, f.mtime_ns or 0, _folders(f.path[len(path) :])) for f in found]


def _matching(filesystem: Any, source: str, path: str) -> tuple[str, list[Any]]:
    """The folder above the first wildcard of a pattern, and the data files below it that match."""
    parts = PurePosixPath(path).parts
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in WILD))
    home, pattern = str(PurePosixPath(*parts[:fixed])), parts[fixed:]
    selector = pafs.FileSelector(home, allow_not_found=True, recursive=len(pattern) > 1 or "**" in pattern)
    below = ((f, PurePosixPath(f.path).parts[fixed:]) for f in filesystem.get_file_info(selector) if f.is_file)
    found = [f for f, names in below if _matches(names, pattern) and _kind(f.path)]
    if not found:
        raise InputError(f"No data file matches {source}; known are {', '.join(KINDS)}. ({home} was searched.)")
    return home, found


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path matches, part by part; ``**`` stands for any folders, and only a dot matches a leading dot."""
    if not pattern:
        return not names
    if pattern[0] == "**" and _matches(names, pattern[1:]):
        return True
    if not names or (names[0].startswith(".") and not pattern[0].startswith(".")):
        return False
    if pattern[0] == "**":
        return _matches(names[1:], pattern)
    return fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])


def _file_system(source: str) -> tuple[Any, str]:
    if "://" not in source:
        return pafs.LocalFileSystem(), os.path.abspath(source)
    try:
        return pafs.FileSystem.from_uri(source)  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    try:
        import fsspec

        handler, path = fsspec.core.url_to_fs(source)
    except (ImportError, ValueError) as error:
        raise InputError(f"{source} cannot be opened: {error}.") from error
    return pafs.PyFileSystem(pafs.FSSpecHandler(handler)), path


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in PurePosixPath(path).parts)


def _folders(path: str) -> tuple[tuple[str, str], ...]:
    parts = [part.partition("=") for part in PurePosixPath(path).parts[:-1]]
    return tuple((name, value) for name, equals, value in parts if equals)


def folder_value(value: str) -> int | float | str:
    """What a folder name says, as a number if it is one."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def with_folders(batch: Any, folders: tuple[tuple[str, str], ...], columns: Sequence[str]) -> Any:
    """The batch with the wanted columns that its folders give."""
    for name, value in folders:
        if name in columns and name not in batch.schema.names:
            constant = pa.array(np.full(batch.num_rows, folder_value(value)))
            batch = batch.append_column(name, constant)
    return batch


class Expected:
    """Every file must have the columns of the first, of the same sort."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns
        self.first: tuple[str, dict[str, pa.DataType]] | None = None

    def check(self, name: str, schema: pa.Schema) -> None:
        types = {}
        for column in self.columns:
            if column not in schema.names:
                other = f"; {self.first[0]} has it" if self.first else f"; it has {', '.join(schema.names)}"
                raise InputError(f"{name} has no column {column!r}{other}. Add the column or leave it, or the file, out.")
            types[column] = schema.field(column).type
        if self.first is None:
            self.first = (name, types)
        for column, kind in self.first[1].items():
            if sort_of(kind) != sort_of(types[column]):
                raise InputError(
                    f"Column {column!r} is {kind} in {self.first[0]} but {types[column]} in {name}; convert one of them."
                )


def refuse_twins(name: str, columns: Sequence[str]) -> None:
    """Two columns of one name cannot be told apart."""
    twin = next((c for i, c in enumerate(columns) if c in columns[:i]), None)
    if twin is not None:
        raise InputError(f"{name} has two columns named {twin!r}; rename one of them, or leave it out of the file.")


def is_number(field: pa.Field) -> bool:
    """Whether a column holds numbers, apart from some values of a CSV file that are none (see NOT_A_NUMBER)."""
    return sort_of(field.type) in ("number", "null") or NOT_A_NUMBER in (field.metadata or {})


def text_columns(schema: pa.Schema) -> list[str]:
    """The columns that do not hold numbers."""
    return [field.name for field in schema if not is_number(field)]


def sort_of(kind: pa.DataType) -> str:
    """Types that mix: numbers of any width with each other, and nothing else."""
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)
    if numeric:
        return "number"
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    return "text" if text else str(kind)
