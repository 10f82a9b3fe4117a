"""Options that several commands share, as dataclasses.

A parameter of such a type becomes one option per field:

    def plan(problem: ProblemOptions, shown: Common) -> None: ...

is a command with all options of both.  :class:`Roles` are the columns, whose names are checked
before any row is read; :class:`Database` is a query instead of files;
:class:`~karat.cli.problems.ProblemOptions` make a problem.  :func:`check_output` makes sure that
``--output`` overwrites neither the data nor a file of another kind.
"""

from __future__ import annotations

import functools
import glob
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from urllib.parse import unquote, urlparse

import typer

import karat
from karat.errors import InputError, StorageError

if TYPE_CHECKING:
    from karat.io.source import Source

FAILED = 1  # exit code of a verification that failed
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}  # of bytes
column_option = partial(
    typer.Option, rich_help_panel="Columns (several separated by commas, or the option repeated)"
)
database_option = partial(typer.Option, rich_help_panel="Rows of a database instead of files")
csv_option = partial(typer.Option, rich_help_panel="How CSV files are read")


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Replace every dataclass among the parameters of a command by its fields."""
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    single = [
        parameter.replace(annotation=hints[name])
        for name, parameter in signature.parameters.items()
        if name not in bundles
    ]
    bundled = [parameter for bundle in bundles.values() for parameter in _parameters(bundle)]

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        built = {
            name: bundle(**{f.name: values.pop(f.name) for f in fields(bundle)})
            for name, bundle in bundles.items()
        }
        command(**values, **built)

    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*single, *bundled)]
    flat.__signature__ = signature.replace(parameters=keyword)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in keyword} | {"return": None}
    return flat


def _parameters(bundle: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(bundle)
    ]


def count(text: str | int) -> int:
    """Parse an integer, also 1e9 or 1_000_000; a default is a number already."""
    for kind in (int, float):
        try:
            value = kind(text)
            if value == int(value):
                return int(value)
        except (ValueError, OverflowError):
            continue
    raise InputError(f"{text!r} is not an integer, such as 1000000 or 1e6.")


def size(text: str) -> int:
    """Parse a number of bytes, such as 500MB or 2GB."""
    number = text.lower().rstrip("bkmgt ")
    unit = text[len(number) :].strip().lower()
    try:
        return int(float(number) * UNITS[unit.removesuffix("b")])
    except (ValueError, KeyError, OverflowError):
        raise InputError(f"{text!r} is not an amount of memory, such as 500MB or 2GB.") from None


@dataclass(frozen=True)
class Roles:
    """The roles of the columns; None means that the option was not given."""

    target: Annotated[
        list[str] | None,
        column_option("--target", "-t", metavar="COLUMN", help="The column to predict."),
    ] = None
    columns: Annotated[
        list[str] | None, column_option(metavar="COLUMN", help="Features; default: all others.")
    ] = None
    drop_columns: Annotated[
        list[str] | None, column_option(metavar="COLUMN", help="Columns that are not features.")
    ] = None
    view: Annotated[
        list[str] | None,
        column_option(
            metavar="COLUMN", help="Features of one view of multi-view; give it three times."
        ),
    ] = None
    weight: Annotated[str | None, column_option(metavar="COLUMN", help="Sample weights.")] = None
    groups: Annotated[
        str | None,
        column_option(metavar="COLUMN", help="Groups (folds, sites): one exact coreset for each."),
    ] = None
    key: Annotated[
        str | None, column_option(metavar="COLUMN", help="A column that identifies rows.")
    ] = None
    sequence: Annotated[
        str | None,
        column_option(metavar="COLUMN", help="The sequence of each row, for hidden-markov."),
    ] = None

    def arguments(self, opened: Source, available: Sequence[str]) -> dict[str, Any]:
        """The arguments of :func:`karat.coreset_files`; every name must be one of the ``available``
        columns.  Columns that are dropped are hidden from now on.
        """
        single = {
            "sample_weight": self.weight,
            "groups": self.groups,
            "key": self.key,
            "sequence": self.sequence,
        }
        for role, name in single.items():
            option = "--weight" if role == "sample_weight" else f"--{role}"
            named(option, None if name is None else [name], available)
        target = named("--target", self.target, available)
        return single | {
            "target": target or None,
            "columns": self._features(opened, available, {*target, *single.values()}),
        }

    def _features(
        self, opened: Source, available: Sequence[str], taken: set[str | None]
    ) -> list[Any] | None:
        if [self.columns, self.drop_columns, self.view].count(None) < 2:
            raise InputError("Use only one of --columns, --drop-columns and --view.")
        if self.view is not None:
            if len(self.view) != 3:
                raise InputError(
                    "--view is for the three views of multi-view: give it three times, not"
                    f" {len(self.view)}."
                )
            return [named("--view", [view], available) for view in self.view]
        opened.hidden = {*named("--drop-columns", self.drop_columns, available)} - taken
        return named("--columns", self.columns, available) or None


def named(option: str, typed: Sequence[str] | None, available: Sequence[str]) -> list[str]:
    """Split a list of columns at commas and check every name.

    A text with a comma is one name if the data has such a column.
    """
    names = []
    for text in typed or ():
        names += [text] if text in available else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in available:
            from karat.data.advice import closest

            close = closest(name, available)
            hint = (
                f"there are {', '.join(available)}." if close is None else f"did you mean {close}?"
            )
            raise InputError(f"{option} {name}: the data has no such column; {hint}")
    return names


@dataclass(frozen=True)
class Database:
    """A query, or how CSV files are read; None means that the option was not given."""

    sql: Annotated[
        str | None, database_option(metavar="QUERY", help="A DuckDB query that gives the rows.")
    ] = None
    database: Annotated[
        Path | None, database_option(metavar="FILE", help="The DuckDB file that it reads.")
    ] = None
    header: Annotated[
        bool | None,
        csv_option(
            "--header/--no-header",
            help="Whether the first line holds names; without names, columns are 0, 1, 2, ...",
        ),
    ] = None
    dtype: Annotated[
        list[str] | None,
        csv_option(
            metavar="COLUMN=TYPE",
            help="The type of a column of labels: str, int, float, date or datetime.",
        ),
    ] = None

    def source(self, paths: Sequence[str] | None) -> Source:
        """The source of the files or the query; one of them must be given."""
        reading = self._csv_reading()
        if self.sql is None and self.database is not None:
            raise InputError("--database needs a query: add --sql 'SELECT ...'.")
        if self.sql is not None and paths:
            raise InputError("Give files or --sql, not both.")
        if self.sql is not None and reading:
            raise InputError(f"--{next(iter(reading))} is for CSV files, not for --sql.")
        if self.sql is not None:
            from karat.io.database import query

            return query(self.sql, self.database)
        if not paths:
            raise InputError("Missing argument 'DATA': name files, or give a query with --sql.")
        if reading:
            from karat.io.csv_source import csv_files

            return csv_files(list(paths), **reading)
        from karat.io.find import open_source

        return open_source(list(paths))

    def _csv_reading(self) -> dict[str, Any]:
        """The arguments of :func:`karat.io.csv_files` that were given."""
        pairs = [text.rpartition("=") for text in self.dtype or ()]
        wrong = next((kind for name, _, kind in pairs if not name), None)
        if wrong is not None:
            raise InputError(f"--dtype must be COLUMN=TYPE, such as zip=str, not {wrong!r}.")
        types = {"dtype": {name: kind for name, _, kind in pairs}} if pairs else {}
        return types if self.header is None else types | {"header": self.header}

    def source_if_given(self, paths: Sequence[str] | None) -> Source | None:
        """The source; None if neither files nor a query are given."""
        options = (self.sql, self.database, self.dtype, self.header)
        given = bool(paths) or any(value is not None for value in options)
        return self.source(paths) if given else None

    @property
    def files(self) -> list[str]:
        """Files that must not be overwritten."""
        return [] if self.database is None else [str(self.database)]


@dataclass(frozen=True)
class OutputKind:
    """A kind of output: its name, its suffixes, and a test whether a file is one."""

    name: str
    suffixes: tuple[str, ...]
    is_one: Callable[[Path], bool]


def loads(load: Callable[[Path], object], path: Path) -> bool:
    """Whether a file is what ``load`` reads."""
    try:
        load(path)
    except InputError as error:
        # a coreset with a function of the user loads only with problem=..., but it is one
        return error.argument == "problem"
    return True


CORESET = OutputKind(
    "a coreset", (".parquet", ".npz"), lambda path: loads(karat.Coreset.load, path)
)


def check_output(
    output: Path, sources: Sequence[str], force: bool, kind: OutputKind = CORESET
) -> None:
    """Raise if the output cannot be written or would overwrite other data; an older result may be
    replaced.
    """
    if output.suffix not in kind.suffixes:
        raise InputError(f"--output must end in {' or '.join(kind.suffixes)}, not {output.name!r}.")
    if not output.parent.is_dir():
        raise StorageError(
            f"The folder {output.parent} does not exist; create it, or choose another --output."
        )
    if not os.access(output.parent, os.W_OK):
        raise StorageError(f"The folder {output.parent} is not writable; choose another --output.")
    place = output.resolve()
    for source in map(_local, sources):
        # a file name may contain * or ?
        for path in map(Path, [source, *glob.glob(source, recursive=True)]):
            if place == path.resolve():
                raise InputError(f"--output {output} is the data itself; choose another name.")
            if path.is_dir() and place.is_relative_to(path.resolve()):
                raise InputError(
                    f"--output {output} is in the folder {path}, whose files are all read; choose"
                    " another folder."
                )
    if output.exists() and not force and not kind.is_one(output):
        raise InputError(
            f"{output} exists and is not {kind.name}; choose another name, or replace it with"
            " --force."
        )


def _local(source: str) -> str:
    """The path of a file: URL."""
    return unquote(urlparse(source).path) if source.startswith("file:") else source
