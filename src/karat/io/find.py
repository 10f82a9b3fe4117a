"""Open a source: files at paths, addresses and patterns, each exactly once, databases and Arrow
streams.

A file that is named twice would count every row twice.  On the local disk files are the same if
their resolved paths or their (device, inode) pairs are; a folder that links to one above it is not
entered again.

Anything else that yields record batches is a source, too, and is read batch by batch:

    a DuckDB relation or query (:mod:`.database`)    runs again for every pass
    a table or frame in memory                       is read again for every pass
    a reader, a cursor (ADBC), any other stream      can be read once only

Folder names (``year=2024/``) become columns: of numbers if every value is written as a number, else
of text.

Rows of a query are in the order in which the database returns them.  Row numbers and hashes of
blocks depend on that order; whether the coreset is exact does not.  ``ORDER BY`` or a key column
makes rows easy to find again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from karat.data.containers import collected
from karat.errors import InputError
from karat.io.columnar import ColumnarFiles, Scan
from karat.io.csv import CsvFiles
from karat.io.source import Batches, File, Source, brief, check_unique_columns

READERS = ("to_arrow_reader", "fetch_arrow_reader")  # of a DuckDB relation, new and old
KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv", ".csv.bz2": "csv",
    ".csv.zst": "csv", ".tsv": "csv", ".tsv.gz": "csv", ".tsv.bz2": "csv", ".tsv.zst": "csv",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
# after a known kind
PACKED = (".gz", ".bz2", ".zst", ".xz", ".lz4", ".zip", ".z", ".7z", ".br", ".snappy")
MISSING = "__HIVE_DEFAULT_PARTITION__"  # the value in a folder name
WILD = "*?["
HIDDEN = (".", "_")  # what names in a folder begin with that are no data
ROWS = 10**6  # of a query or stream at a time


class Stream(Batches):
    """Record batches of a reader, a DuckDB relation or a table; ``open`` returns a reader for every
    pass.
    """

    def __init__(
        self, open: Callable[[], Any], name: str = "The stream", once: bool = False,
        in_memory: bool = False,
    ) -> None:  # fmt: skip
        self.open, self.names, self.once, self.in_memory = open, [name], once, in_memory
        self.reader = open()

    def read_schema(self) -> pa.Schema:
        check_unique_columns(self.names[0], self.reader.schema.names)
        return self.reader.schema

    def batches(self, columns: list[str], rows: int) -> Iterable[Any]:
        reader, self.reader = self.reader or self.open(), None
        return (batch.select(columns) for batch in reader)


def stream_of(source: Any, rows: int) -> Stream | None:
    """A source for an object that yields Arrow record batches; None for other objects."""
    if isinstance(source, pa.RecordBatchReader):
        return Stream(lambda: source, once=True)
    # the index of a pandas frame is no feature
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        source = _from_pandas(source)
    # a connection has no columns
    if any(hasattr(source, method) for method in READERS) and hasattr(source, "columns"):
        # Old versions give the rows of one and the same relation only once.
        return Stream(lambda: relation_reader(source.project("*"), rows), "The query")
    if hasattr(source, "execute"):
        return Stream(lambda: _cursor_reader(source), "The result of the cursor", once=True)
    if hasattr(source, "__arrow_c_stream__"):
        whole = hasattr(source, "__len__")  # rows in memory can be counted, and read again
        name = "The data" if whole else "The stream"
        return Stream(
            lambda: pa.RecordBatchReader.from_stream(source), name, once=not whole, in_memory=whole
        )
    return None


def relation_reader(relation: Any, rows: int) -> Any:
    """The batches of a DuckDB relation."""
    method = next(method for method in READERS if hasattr(relation, method))
    return getattr(relation, method)(rows)


def _from_pandas(frame: Any) -> Any:
    """A pandas frame as an Arrow table."""
    names = list(frame.columns)
    twice = (
        [name for i, name in enumerate(names) if name in names[:i]]
        if len(set(names)) < len(names)
        else []
    )
    if twice:
        raise InputError(
            f"The frame has several columns named {twice[0]!r}; give each its own name."
        )
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    # a UnicodeEncodeError is a ValueError
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = " ".join(map(str, error.args))
        if isinstance(error, UnicodeError):
            reason = f"text that is not Unicode ({error})"
        elif isinstance(error, OverflowError):
            reason = "integers beyond 64 bits"
        raise InputError(
            f"The frame has a column that cannot be read: {reason}. Convert it to one type"
            " throughout."
        ) from error


def _cursor_reader(cursor: Any) -> Any:
    """The batches of a database cursor that has run a query (ADBC)."""
    if hasattr(cursor, "sql"):  # a DuckDB connection, whose results are copies
        raise InputError(
            "source is a DuckDB connection; pass the relation that a query returns:"
            " connection.sql('SELECT ...')."
        )
    if not hasattr(cursor, "fetch_record_batch"):
        raise InputError(
            f"source is a {type(cursor).__name__}, which returns no Arrow batches; use an ADBC"
            " cursor, or DuckDB, or write files."
        )
    try:
        return cursor.fetch_record_batch()
    except Exception as error:
        raise InputError(
            f"The cursor has no rows ({brief(error)}); call its execute method first."
        ) from error


def open_source(
    source: Any, *, rows: int = ROWS, block_bytes: int = 2**24, first_bytes: int = 2**20
) -> Source:
    """A source for anything that :func:`karat.coreset_files` takes; one that is open already stays
    as it is.

    Parameters
    ----------
    source : path, list of paths, stream or Source
    rows : int
        Rows that a query gives at a time.
    block_bytes, first_bytes : int
        Bytes of a CSV file that are read at a time, and those that tell numbers from text.
    """
    if isinstance(source, Source):
        return source
    source = collected(source)
    if isinstance(source, pads.Dataset | pads.Scanner):
        return Scan(source)
    try:
        stream = stream_of(source, rows)
    except Exception as error:
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        raise InputError(f"The relation of DuckDB cannot be read ({brief(error)}).") from error
    if stream is not None:
        return stream
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        source = [source]
    if not isinstance(source, list | tuple) or not source:
        raise InputError(
            "The data must be a frame, a path, a list of paths or a stream of Arrow batches, not of"
            f" type {type(source).__name__}; put an array into a frame with named columns."
        )
    given = [os.fspath(path) if hasattr(path, "__fspath__") else path for path in source]
    kind, filesystem, files = find_files(given)
    if kind == "csv":
        return CsvFiles(filesystem, files, given, block_bytes, first_bytes)
    return ColumnarFiles(filesystem, files, given, kind)


def find_files(sources: Sequence[Any]) -> tuple[str, Any, list[File]]:
    """The kind, the file system and the data files of some paths; an error if a file would be read
    twice.
    """
    searched: list[tuple[Any, list[File], str]] = []
    for path in sources:
        if not isinstance(path, str) or "\0" in path:
            given = repr(path) if isinstance(path, str) else f"A {type(path).__name__}"
            raise InputError(f"{given} is not a path; pass paths, or one table to karat.coreset.")
        searched.append((*_find(path), path))
    filesystem = searched[0][0]
    other = next((given for its, _, given in searched if not its.equals(filesystem)), None)
    if other is not None:
        raise InputError(
            f"{searched[0][2]} and {other} are on different file systems; make a coreset of each,"
            " and merge them."
        )
    files = [file for _, inside, _ in searched for file in inside]
    _refuse_repeats(files, isinstance(filesystem, pafs.LocalFileSystem))
    kinds = {kind_of(file.path) for file in files}
    if len(kinds) != 1:
        raise InputError(
            f"The source mixes {' and '.join(sorted(map(str, kinds)))} files; pass files of one"
            " kind."
        )
    return str(kinds.pop()), filesystem, _with_types(files)


def kind_of(path: str) -> str | None:
    """The kind of a file by the end of its name; None if it is not known."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes]
    return KINDS.get("".join(suffixes[-2:])) or KINDS.get("".join(suffixes[-1:]))


def _refuse_repeats(files: Sequence[File], local: bool) -> None:
    path_by_mark: dict[Any, str] = {}
    for file in files:
        marks: list[Any] = [os.path.realpath(file.path) if local else file.path]
        if local:
            status = os.stat(file.path)
            marks += [(status.st_dev, status.st_ino)] if status.st_ino else []
        first = next((path_by_mark[mark] for mark in marks if mark in path_by_mark), None)
        if first is not None:
            beside = "is given twice" if first == file.path else f"and {first} are the same file"
            raise InputError(
                f"{file.path} {beside}: every row would count twice. Pass each file once."
            )
        path_by_mark |= dict.fromkeys(marks, file.path)


def _find(source: str) -> tuple[Any, list[File]]:
    """The file system and the data files at a path or address, in order of their names."""
    filesystem, path = _file_system(source)
    try:
        info = filesystem.get_file_info(path)
        if info.type == pafs.FileType.NotFound and any(sign in path for sign in WILD):
            path, infos = _matching(filesystem, source, path)
        elif info.type == pafs.FileType.NotFound:
            raise InputError(f"The file or folder {source} does not exist.")
        elif info.type == pafs.FileType.Directory:
            infos = [
                f
                for f in _below(filesystem, path)
                if not _hidden(f.path[len(path) :]) and _is_data(f.path)
            ]
            if not infos:
                raise InputError(
                    f"The folder {source} holds no data files; known are {', '.join(KINDS)}."
                )
        elif kind_of(path) is None:
            raise InputError(f"{source} has no known format; known are {', '.join(KINDS)}.")
        else:
            infos = [info]
        _require_files(infos)
    except (OSError, UnicodeError, pa.ArrowException) as error:
        raise InputError(f"{source!r} cannot be searched ({error}).") from error
    infos.sort(key=lambda f: f.path)
    return filesystem, [File(f.path, f.size or 0, _folders(f.path[len(path) :])) for f in infos]


def _require_files(infos: Sequence[Any]) -> None:
    """Raise if one of the data files is none: to open a pipe would wait until somebody writes."""
    for info in infos:
        if info.type == pafs.FileType.NotFound:
            raise InputError(f"{info.path} is a link to a file that does not exist.")
        if not info.is_file:
            raise InputError(
                f"{info.path} is a pipe or a device, not a file; write its rows to a file, or pass"
                " a reader (pyarrow.csv.open_csv, pyarrow.RecordBatchReader)."
            )


def _is_data(path: str) -> bool:
    """Whether a file in a folder holds data; an error if its compression is not supported, so that
    its rows are not skipped silently.
    """
    stem, packed = os.path.splitext(path)
    if kind_of(path) is None and packed.lower() in PACKED and kind_of(stem) is not None:
        raise InputError(
            f"karat does not support the compression of {path}; decompress it, or move it to"
            " another folder."
        )
    return kind_of(path) is not None


def _below(filesystem: Any, home: str, passed_over: tuple[str, ...] = HIDDEN) -> list[Any]:
    """All files below a folder, but for names that begin with a sign of ``passed_over``; links are
    followed, and each folder is entered once.
    """
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return [
            f
            for f in filesystem.get_file_info(pafs.FileSelector(home, recursive=True))
            if f.is_file
        ]
    return list(filesystem.get_file_info(list(_walk(home, {}, (), passed_over))))


def _walk(
    folder: str,
    visited: dict[tuple[int, int], str],
    above: tuple[tuple[int, int], ...],
    passed_over: tuple[str, ...],
) -> Iterator[str]:
    """The files below a folder of the local disk."""
    status = os.stat(folder)
    mark = (status.st_dev, status.st_ino)
    if mark in above:  # a link to a parent folder, whose files are found anyway
        return
    if mark in visited:
        raise InputError(
            f"{folder} and {visited[mark]} are the same folder: every row would count twice. Remove"
            " the link."
        )
    visited[mark] = folder
    with os.scandir(folder) as inside:
        entries = sorted(inside, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith(passed_over):
            continue
        if entry.is_dir():
            yield from _walk(entry.path, visited, (*above, mark), passed_over)
        else:
            yield entry.path


def _matching(filesystem: Any, source: str, path: str) -> tuple[str, list[Any]]:
    """The folder above the first wildcard of a pattern, and the data files below it that match."""
    parts = PurePosixPath(path).parts
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in WILD))
    home, pattern = str(PurePosixPath(*parts[:fixed])), parts[fixed:]
    deep = len(pattern) > 1 or "**" in pattern
    if filesystem.get_file_info(home).type != pafs.FileType.Directory:
        inside: list[Any] = []
    elif deep:
        # what a pattern matches is read; only a dot in it matches names that begin with one
        dots = any(part.startswith(".") for part in pattern)
        inside = _below(filesystem, home, () if dots else (".",))
    else:
        inside = [
            info
            for info in filesystem.get_file_info(pafs.FileSelector(home))
            if info.type != pafs.FileType.Directory
        ]
    infos = [
        f
        for f in inside
        if _matches_pattern(PurePosixPath(f.path).parts[fixed:], pattern) and _is_data(f.path)
    ]
    if not infos:
        raise InputError(
            f"No data file matches {source}; known are {', '.join(KINDS)}. ({home} was searched.)"
        )
    return home, infos


def _matches_pattern(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path matches, part by part; ``**`` stands for any folders, and only a dot matches a
    leading dot.
    """
    if not pattern:
        return not names
    if pattern[0] == "**" and _matches_pattern(names, pattern[1:]):
        return True
    if not names or (names[0].startswith(".") and not pattern[0].startswith(".")):
        return False
    if pattern[0] == "**":
        return _matches_pattern(names[1:], pattern)
    return fnmatchcase(names[0], pattern[0]) and _matches_pattern(names[1:], pattern[1:])


def _file_system(source: str) -> tuple[Any, str]:
    if "://" not in source:
        return pafs.LocalFileSystem(), os.path.abspath(source).replace(os.sep, "/")
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
    return any(part.startswith(HIDDEN) for part in PurePosixPath(path).parts)


def _folders(path: str) -> dict[str, str]:
    parts = [part.partition("=") for part in PurePosixPath(path).parts[:-1]]
    return {unquote(name): unquote(value) for name, equals, value in parts if equals}


def _with_types(files: Sequence[File]) -> list[File]:
    """The files, with the values in their folder names as numbers or text.

    A column is numeric if each value is written as Python would write it; so 007 and 7 are text.
    """
    texts: dict[str, set[str]] = {}
    for file in files:
        for name, value in file.folders.items():
            texts.setdefault(name, set()).add(value)
    kinds = {name: _kind_of_values(values - {MISSING}) for name, values in texts.items()}
    return [
        replace(
            file,
            folders={
                name: None if value == MISSING else kinds[name](value)
                for name, value in file.folders.items()
            },
        )
        for file in files
    ]


def _kind_of_values(values: set[str]) -> Any:
    for kind in (int, float):
        try:
            plain = all(
                value == str(kind(value)) or (kind is float and value == str(int(value)))
                for value in values
            )
        except ValueError:
            continue
        if plain and len({kind(value) for value in values}) == len(values):
            return kind
    return str
