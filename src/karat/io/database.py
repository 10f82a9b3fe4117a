"""Databases and Arrow streams: whatever gives record batches is a source, read batch by batch and never as a whole.

    a DuckDB relation, or :func:`query`             runs anew for every pass
    a table or frame in memory                      is read anew for every pass
    a reader, a cursor (ADBC), any other stream     comes once: one pass only

The order of the rows of a query is that in which the database gives them.  Row numbers and hashes of blocks depend on it, the
coreset's exactness does not; ``ORDER BY`` or a key column makes rows easy to find again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from karat.errors import InputError, MissingExtraError
from karat.io.columnar import Stream, brief

ROWS = 10**6  # of a query at a time
READERS = ("to_arrow_reader", "fetch_arrow_reader")  # of a DuckDB relation, new and old


def stream_of(source: Any, rows: int) -> Stream | None:
    """A source for anything that gives Arrow record batches; None if it gives none."""
    if isinstance(source, pa.RecordBatchReader):
        return Stream(lambda: source, once=True)
    if hasattr(source, "iloc") and hasattr(source, "columns"):  # the index of a pandas frame is no feature
        source = _from_pandas(source)
    if any(hasattr(source, method) for method in READERS) and hasattr(source, "columns"):  # a connection has no columns
        # Old versions give the rows of one and the same relation only once.
        return Stream(lambda: _relation_reader(source.project("*"), rows), "The query")
    if hasattr(source, "execute"):
        return Stream(lambda: _cursor_reader(source), "The result of the cursor", once=True)
    if hasattr(source, "__arrow_c_stream__"):
        whole = hasattr(source, "__len__")  # rows in memory can be counted, and read again
        return Stream(lambda: pa.RecordBatchReader.from_stream(source), once=not whole)
    return None


def _relation_reader(relation: Any, rows: int) -> Any:
    """The batches of a DuckDB relation."""
    method = next(method for method in READERS if hasattr(relation, method))
    return getattr(relation, method)(rows)


def _from_pandas(frame: Any) -> Any:
    """A pandas frame as an Arrow table."""
    names = list(frame.columns)
    twice = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if twice:
        raise InputError(f"The frame has several columns {twice[0]!r}; give each a name of its own.")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:  # a UnicodeEncodeError is a ValueError
        said = " ".join(map(str, error.args)) if not isinstance(error, UnicodeError) else f"text that is not Unicode ({error})"
        raise InputError(f"The frame has a column that cannot be read: {said}. Convert it to one type throughout.") from error


def _cursor_reader(cursor: Any) -> Any:
    """The batches of a database cursor that has run a query (ADBC)."""
    if hasattr(cursor, "sql"):  # a DuckDB connection, whose results are copies
        raise InputError("source is a DuckDB connection; pass the relation that a query gives: connection.sql('SELECT ...').")
    if not hasattr(cursor, "fetch_record_batch"):
        raise InputError(
            f"source is a {type(cursor).__name__}, which gives no Arrow batches; use an ADBC cursor, or DuckDB, or write files."
        )
    try:
        return cursor.fetch_record_batch()
    except Exception as error:
        raise InputError(f"The cursor has no rows to give ({brief(error)}); call its execute first.") from error


class Query(Stream):
    """A query of DuckDB, which runs anew for every pass over its rows.

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
            raise InputError(f"There is no database {database}.", argument="database")
        self.query: dict[str, str | None] = {"sql": sql, "database": database}
        try:
            # The database stays as it is; without one, a query may read files: SELECT * FROM 'data.parquet'.
            self.connection = duckdb.connect() if database is None else duckdb.connect(database, read_only=True)
            kinds = [statement.type for statement in self.connection.extract_statements(sql)]
            if kinds != [duckdb.StatementType.SELECT]:  # it runs more than once, so it must not change anything
                raise InputError(f"The query must be one SELECT, not {sql[:60]!r}.", argument="sql")
            super().__init__(lambda: _relation_reader(self.connection.sql(sql), rows), "The query")
        except duckdb.Error as error:
            raise InputError(f"DuckDB refuses the query: {brief(error)}.", argument="sql") from error


def query(sql: str, database: str | Path | None = None, *, rows: int = ROWS) -> Query:
    """The rows of a DuckDB query as a source for :func:`karat.coreset_files`, :func:`karat.verify_files` and others.

    Parameters
    ----------
    sql : str
        A query that gives rows.
    database : path, optional
        A DuckDB file, which is opened for reading only; without it, the query may read files by their names.
    rows : int
        Rows that are read at a time.
    """
    if not isinstance(sql, str) or not sql.strip():
        raise InputError(f"sql must be the text of a query, not {sql!r}.", argument="sql")
    return Query(sql, None if database is None else str(database), rows)
