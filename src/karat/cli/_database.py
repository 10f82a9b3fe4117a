"""Options that name a query of a database as the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karat.errors import InputError

if TYPE_CHECKING:
    from karat.io.source import Source

PANEL = "Rows of a database instead of files"


@dataclass(frozen=True)
class Database:
    """A query; None means that the option was not given."""

    sql: Annotated[
        str | None, typer.Option(metavar="QUERY", rich_help_panel=PANEL, help="A DuckDB query that gives the rows.")
    ] = None
    database: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=PANEL, help="The DuckDB file that it reads.")
    ] = None

    def source(self, paths: Sequence[str] | None) -> Source:
        """The files or the query; one of them must be given."""
        if self.sql is None and self.database is not None:
            raise InputError("--database needs a query: add --sql 'SELECT ...'.")
        if self.sql is not None and paths:
            raise InputError("Give files or --sql, not both.")
        if self.sql is not None:
            from karat.io.database import query

            return query(self.sql, self.database)
        if not paths:
            raise InputError("Missing argument 'DATA': name files, or rows of a database with --sql.")
        from karat.io.find import open_source

        return open_source(list(paths))

    def source_if_given(self, paths: Sequence[str] | None) -> Source | None:
        """The same; None if neither is given."""
        return self.source(paths) if paths or self.sql is not None or self.database is not None else None

    @property
    def files(self) -> list[str]:
        """Files that must not be overwritten."""
        return [] if self.database is None else [str(self.database)]
