"""A query of DuckDB as a source."""

from __future__ import annotations

from pathlib import Path

from karat.errors import InputError, MissingExtraError
from karat.io.find import ROWS, Stream, relation_reader
from karat.io.source import brief


class Query(Stream):
    """A query of DuckDB, which runs again for every pass over its rows.

    Attributes
    ----------
    query : dict
        The query and the database, for the provenance.
    """

    def __init__(self, sql: str, database: str | None, rows: int) -> None:
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError("A query", "duckdb") from None
        if database is not None and not Path(database).is_file():
            raise InputError(f"The database {database} does not exist.", argument="database")
        self.query: dict[str, str | None] = {"sql": sql, "database": database}
        try:
            # Without a database, a query may read files: SELECT * FROM 'data.parquet'.
            self.connection = (
                duckdb.connect() if database is None else duckdb.connect(database, read_only=True)
            )
            kinds = [statement.type for statement in self.connection.extract_statements(sql)]
            # it runs more than once, so it must not change anything
            if kinds != [duckdb.StatementType.SELECT]:
                raise InputError(f"The query must be one SELECT, not {sql[:60]!r}.", argument="sql")
            super().__init__(lambda: relation_reader(self.connection.sql(sql), rows), "The query")
        except duckdb.Error as error:
            raise InputError(
                f"DuckDB cannot run the query: {brief(error)}.", argument="sql"
            ) from error


def query(sql: str, database: str | Path | None = None, *, rows: int = ROWS) -> Query:
    """The rows of a DuckDB query as a source for :func:`karat.coreset_files`,
    :func:`karat.verify_files` and others.

    Parameters
    ----------
    sql : str
        A SELECT statement.
    database : path, optional
        A DuckDB file, which is opened for reading only; without it, the query may read files by
        their names.
    rows : int
        Rows that are read at a time.
    """
    if not isinstance(sql, str) or not sql.strip():
        raise InputError(f"sql must be the text of a query, not {sql!r}.", argument="sql")
    return Query(sql, None if database is None else str(database), rows)
