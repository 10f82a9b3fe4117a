"""Rows of a DuckDB file by ``--sql`` and ``--database``."""

import numpy as np
import pytest
from cli.conftest import refused

import karat

duckdb = pytest.importorskip("duckdb")
SELECT = "SELECT a, b, c, y FROM sales ORDER BY id"


def test_build_verify_and_report(table, inside, tmp_path):
    shop, output = tmp_path / "shop.duckdb", tmp_path / "core.parquet"
    with duckdb.connect(str(shop)) as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE sales AS SELECT * FROM rows")
    built = inside("build", "--sql", SELECT, "--database", shop, "-t", "y", "-o", output, "--json")
    assert built.code == 0, built.err
    X = np.column_stack([table[name] for name in "abc"])
    assert karat.load(output).verify(X, table["y"].to_numpy()).ok
    assert inside("verify", output, "--sql", SELECT, "--database", shop).code == 0
    assert (
        inside(
            "report", output, "--sql", SELECT, "--database", shop, "-o", tmp_path / "page.html"
        ).code
        == 0
    )
    refused(inside("verify", output), "made from a query", "--sql")
    refused(inside("build", "--database", shop, "-t", "y", "-o", output), "--sql")
    refused(inside("build", "x.parquet", "--sql", SELECT, "-t", "y", "-o", output), "not both")
    refused(inside("build", "-t", "y", "-o", output), "DATA")
    refused(
        inside("build", "--sql", "SELECT", "--database", shop, "-t", "y", "-o", output),
        "DuckDB cannot run the query",
    )
