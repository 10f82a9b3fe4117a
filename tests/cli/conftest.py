"""The installed command in a subprocess, on real files."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from karat.cli.app import run_command

KARAT = Path(sys.executable).with_name("karat")
ROWS = 4000


class Result:
    """What a run of the command left: its exit code and what it printed."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


def environment(**changes):
    fixed = {"OPENBLAS_NUM_THREADS": "1", "COLUMNS": "80", "TERM": "dumb"}
    return (
        {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
        | fixed
        | changes
    )


def command(*arguments, env=None, **options):
    """Run ``karat`` with the arguments."""
    options = {"capture_output": True, "text": True, "timeout": 120} | options
    done = subprocess.run(
        [KARAT, *map(str, arguments)], env=environment(**(env or {})), check=False, **options
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def inside(capsys):
    """The same in this process, a second faster: for the many variants of what :func:`command` has
    shown to work.
    """

    def call(*arguments):
        code = run_command([str(a) for a in arguments])
        return Result(code, *capsys.readouterr())

    return call


def refused(result, *words):
    """One error message on standard error, exit code 2, nothing on standard output, no
    traceback.
    """
    assert result.code == 2, (result.out, result.err)
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    assert "Unexpected" not in result.err
    for word in words:
        assert word in result.err, result.err


def leftovers(folder):
    """Files that a run began and did not finish."""
    return [path for path in folder.rglob("*") if path.name.endswith(".part")]


@pytest.fixture(scope="session")
def table():
    rng = np.random.default_rng(11)
    X = np.exp(rng.standard_normal((ROWS, 3)))
    y = X @ [1.0, -2.0, 0.5] + 3 + rng.standard_normal(ROWS)
    weight, fold = rng.uniform(0.5, 2.0, ROWS), rng.integers(3, size=ROWS)
    text = np.array(["red", "green"])[rng.integers(2, size=ROWS)]
    columns = {
        "a": X[:, 0],
        "b": X[:, 1],
        "c": X[:, 2],
        "y": y,
        "w": weight,
        "fold": fold,
        "id": np.arange(ROWS) + 7,
        "hue": text,
    }
    return pa.table(columns)


@pytest.fixture(scope="session")
def numbers(table):
    return table.select(["a", "b", "c", "y"])


@pytest.fixture(scope="session")
def data(table, numbers, tmp_path_factory):
    """A folder with the same rows in every format."""
    home = tmp_path_factory.mktemp("data")
    pq.write_table(table, home / "all.parquet", row_group_size=1000)
    pq.write_table(numbers, home / "rows.parquet", row_group_size=1000)
    pacsv.write_csv(numbers, home / "rows.csv")
    (home / "rows.csv.gz").write_bytes(gzip.compress((home / "rows.csv").read_bytes()))
    feather.write_feather(numbers, home / "rows.arrow", compression="uncompressed")
    (home / "parts").mkdir()
    for i in range(4):
        pq.write_table(numbers.slice(i * 1000, 1000), home / "parts" / f"part-{i}.parquet")
    return home


@pytest.fixture(scope="session")
def core(data):
    """A least-squares coreset, made by the command."""
    result = command("build", data / "rows.parquet", "--target", "y", "-o", data / "core.parquet")
    assert result.code == 0, result.err
    return data / "core.parquet"
