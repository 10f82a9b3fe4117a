"""Rows of databases and Arrow streams: exact, in batches, as often as there are passes; the oracle
is a plain sum.
"""

import pyarrow as pa
import pytest
from tables import COLUMNS, arrays, make

import karat
from karat import InputError
from karat import problems as P
from karat.io.find import Stream, open_source
from karat.io.source import ResumePoint

duckdb = pytest.importorskip("duckdb")
SELECT = "SELECT a, b, c, d, y FROM sales ORDER BY id"


@pytest.fixture(scope="module")
def rows():
    return make(20_000, seed=4)


@pytest.fixture(scope="module")
def shop(rows, tmp_path_factory):
    """A real DuckDB file."""
    path = tmp_path_factory.mktemp("db") / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE sales AS SELECT * FROM rows")
    return path


def exact(core, rows):
    proof = core.verify(*arrays(rows))
    assert proof.ok, str(proof)
    assert not proof.notes


def test_a_query_of_a_database_file(shop, rows):
    core = karat.coreset_files(karat.io.query(SELECT, shop, rows=3000), "y")
    exact(core, rows)
    assert core.provenance["source"]["query"] == {"sql": SELECT, "database": str(shop)}
    found = karat.verify_files(core, karat.io.query(SELECT, shop))
    assert found.ok
    assert found.data == "identical"
    with pytest.raises(InputError, match=r"made from a query.*karat\.io\.query\('SELECT"):
        karat.verify_files(core)  # a stored query is never run by itself


def test_a_relation_is_read_again(shop, rows):
    with duckdb.connect(str(shop), read_only=True) as connection:
        relation = connection.sql(SELECT)
        core = karat.coreset_files(relation, "y", batch_rows=4000)
        exact(core, rows)
        assert karat.verify_files(core, relation).data == "identical"
        changed = connection.sql(SELECT.replace("a, b", "a, b + (id = 1005000)::INT AS b"))
        assert not karat.verify_files(core, changed).ok
        latent = karat.coreset_files(relation, problem=P.ICA(2), columns=["a", "c"])  # two passes
        assert latent.verify(arrays(rows)[0][:, [0, 2]]).ok
        facts = pytest.importorskip("karat.report").facts(core, relation)
        assert facts["verified"]["ok"]


def test_files_by_a_query_without_a_database(rows, tmp_path):
    pa.parquet.write_table(rows, tmp_path / "rows.parquet")
    exact(
        karat.coreset_files(
            karat.io.query(f"SELECT * FROM '{tmp_path}/rows.parquet'"), "y", columns=COLUMNS
        ),
        rows,
    )


def test_the_rows_come_in_batches(shop):
    """The batches of one source are as short as was asked, and its schema is known without any."""
    source = karat.io.query(SELECT, shop, rows=2500)
    chunks = list(source.chunks(["a", "y"], ["a", "y"], 1000, ResumePoint(), True))
    assert max(chunk.table.num_rows for chunk in chunks) <= 1000
    assert sum(chunk.table.num_rows for chunk in chunks) == 20_000


class Cursor:
    """What ADBC's cursor is to us: ``execute``, and then batches, once."""

    def __init__(self, table, most):
        self.table, self.given, self.most = table, 0, most

    def execute(self, sql):
        self.sql = sql

    def fetch_record_batch(self):
        return pa.RecordBatchReader.from_batches(self.table.schema, self._batches())

    def _batches(self):
        for batch in self.table.to_batches(self.most):
            self.given += 1
            yield batch


def test_cursors_come_once(rows):
    table = rows.select([*COLUMNS, "y"])
    cursor = Cursor(table, 1000)
    source = open_source(cursor)
    assert isinstance(source, Stream)
    assert source.once
    assert cursor.given == 0  # nothing is read before the scan
    exact(karat.coreset_files(source, "y"), rows)
    assert cursor.given == 20
    with pytest.raises(InputError, match="only once"):
        karat.coreset_files(Cursor(table, 1000), problem=P.ICA(2), columns=["a", "c"])


def test_adbc(rows):
    sqlite = pytest.importorskip("adbc_driver_sqlite.dbapi")
    with sqlite.connect() as connection, connection.cursor() as cursor, connection.cursor() as idle:
        cursor.adbc_ingest("sales", rows)
        with pytest.raises(InputError, match="execute method first"):
            karat.coreset_files(idle, "y")
        cursor.execute(SELECT)
        exact(karat.coreset_files(cursor, "y"), rows)


class OnceStream:
    """An object that has nothing but the Arrow interface, such as a result of a driver."""

    def __init__(self, table):
        self.reader = table.to_reader(700)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.reader.__arrow_c_stream__(requested_schema)


def test_any_object_with_an_arrow_stream(rows):
    table = rows.select([*COLUMNS, "y"])
    exact(karat.coreset_files(OnceStream(table), "y"), rows)
    with pytest.raises(InputError, match="only once"):
        karat.coreset_files(OnceStream(table), problem=P.ICA(2), columns=["a", "c"])


def test_what_is_no_query_is_refused(shop, tmp_path):
    with pytest.raises(InputError, match=r"The database .* does not exist"):
        karat.io.query(SELECT, tmp_path / "none.duckdb")
    with pytest.raises(InputError, match=r"DuckDB cannot run the query: Catalog Error.*prices"):
        karat.io.query("SELECT * FROM prices", shop)
    with pytest.raises(InputError, match="must be one SELECT"):
        karat.io.query("DROP TABLE sales", shop)
    for other in (
        "SET threads TO 1",
        "CREATE TABLE one AS SELECT 1",
        "SELECT 1; SELECT 2",
        "-- nothing",
    ):
        with pytest.raises(InputError, match=r"must be one SELECT|DuckDB cannot run"):
            karat.io.query(other)
    with pytest.raises(InputError, match="text of a query"):
        karat.io.query("  ")
    (tmp_path / "text.duckdb").write_text("no database")
    with pytest.raises(InputError, match="DuckDB cannot run"):
        karat.io.query(SELECT, tmp_path / "text.duckdb")
    with (
        duckdb.connect(str(shop), read_only=True) as connection,
        pytest.raises(InputError, match=r"connection\.sql"),
    ):
        karat.coreset_files(connection, "y")
    with pytest.raises(InputError, match="two columns named 'a'"):
        karat.coreset_files(pa.table([[1.0], [2.0]], names=["a", "a"]))


def test_a_query_that_fails_midway(shop):
    wrong = SELECT.replace(
        "a, b", "CASE WHEN id = 1015000 THEN error('late') ELSE a END AS a, b"
    ).replace(" ORDER BY id", "")
    with pytest.raises(InputError, match=r"cannot be read|refuses|cannot run the query"):
        karat.coreset_files(karat.io.query(wrong, shop, rows=2048), "y")
