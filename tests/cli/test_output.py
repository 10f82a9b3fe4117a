"""Standard output that is closed or full, and a command line without a command."""

import os
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.conftest import KARAT, command, environment


def run(data, redirection, *line):
    words = " ".join([str(KARAT), *map(str, line)])
    shell = ["bash", "-c", f"{words} {redirection}"]
    return subprocess.run(shell, capture_output=True, text=True, env=environment(), check=False)


def test_closed_output(data, tmp_path):
    found = run(
        data,
        ">&-",
        "build",
        data / "rows.parquet",
        "-t",
        "y",
        "-o",
        tmp_path / "core.npz",
        "--json",
    )
    assert found.returncode == 2
    assert "Traceback" not in found.stderr
    assert "output is closed" in found.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "line",
    [
        ["inspect", "none.npz", "--json"],
        ["build", "none.csv", "-o", "c.npz", "--json"],
        ["--version"],
    ],
)
def test_full_output(line, data):
    found = run(data, "> /dev/full", *line)
    assert found.returncode == 2
    assert "Traceback" not in found.stderr


def test_no_command():
    found = command()
    assert "Error: ." not in found.err
    assert "build" in found.out
    assert found.code == 0


def test_digest(inside, data, tmp_path):
    found = inside(
        "build",
        data / "rows.parquet",
        "-t",
        "y",
        "-o",
        tmp_path / "core.npz",
        "--digest",
        "sha256",
        "--json",
    )
    assert found.json["provenance"]["digest"]["algorithm"] == "sha256"
    assert (
        inside(
            "build", data / "rows.parquet", "-t", "y", "-o", tmp_path / "d.npz", "--digest", "md5"
        ).code
        == 2
    )


def test_letters_that_a_code_page_lacks(tmp_path):
    """Windows prints to pipes in the code page of the system, which ended the command."""
    rows = pa.table({"β": np.arange(50.0) % 7, "y": np.arange(50.0) % 5})
    pq.write_table(rows, tmp_path / "rows.parquet")
    core = tmp_path / "core.npz"
    assert command("build", tmp_path / "rows.parquet", "-t", "y", "-o", core).code == 0
    shown = command("inspect", core, env={"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"})
    assert shown.code == 0, shown.err
    assert "\\u03b2" in shown.out
