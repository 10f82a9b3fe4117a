"""How often the data is read: counted by a file system that notes every open and every byte."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from fsspec import register_implementation
from fsspec.implementations.local import LocalFileSystem

import karat
from karat.cli.app import run_command

ROWS = 60_000
opens, read = Counter(), Counter()


class CountingFileSystem(LocalFileSystem):
    """Local files under counted://, which say how often they were opened and how many bytes were
    read of them.
    """

    protocol = "counted"

    @classmethod
    def _strip_protocol(cls, path):
        return LocalFileSystem._strip_protocol(str(path).removeprefix("counted://"))

    def _open(self, path, mode="rb", **options):
        file = super()._open(path, mode, **options)
        opens[path] += 1
        plain = file.f.read

        class Counted:
            def __getattr__(self, name):
                return getattr(file, name)

            def read(self, size=-1):
                data = plain(size)
                read[path] += len(data)
                return data

        return Counted()


register_implementation("counted", CountingFileSystem, clobber=True)


@pytest.fixture(autouse=True)
def forget():
    opens.clear()
    read.clear()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    home = tmp_path_factory.mktemp("reads")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, 4))
    groups = np.array(["n", "s"])[rng.integers(2, size=ROWS)]
    table = pa.table(
        {f"x{i}": X[:, i] for i in range(4)}
        | {"y": X.sum(axis=1) + rng.standard_normal(ROWS), "g": groups}
    )
    pacsv.write_csv(table.drop(["g"]), home / "data.csv")
    pq.write_table(table, home / "data.parquet", row_group_size=9000)
    return home


def times(path):
    """How often the bytes of a file were read."""
    return read[str(path)] / path.stat().st_size


def test_build_sniffs_a_csv_file_once_and_reads_it_once(data, tmp_path):
    path = data / "data.csv"
    assert (
        run_command(
            ["build", f"counted://{path}", "--target", "y", "-o", str(tmp_path / "core.npz")]
        )
        == 0
    )
    assert opens[str(path)] == 2  # to tell numbers from text, and to read the rows
    first = 2**20 / path.stat().st_size
    assert times(path) <= 1.01 + first
    assert karat.load(tmp_path / "core.npz").certificate.ok


@pytest.mark.parametrize("options", [[], ["--groups", "g"]])
@pytest.mark.parametrize("command", ["verify", "report"])
def test_verify_and_report_read_the_data_once(command, options, data, tmp_path, capsys):
    path = data / "data.parquet"
    ignored = [] if options else ["--drop-columns", "g"]
    assert (
        run_command(
            [
                "build",
                str(path),
                "--target",
                "y",
                *options,
                *ignored,
                "-o",
                str(tmp_path / "core.npz"),
            ]
        )
        == 0
    )
    page = ["-o", str(tmp_path / "r.html")]
    arguments = (
        [f"counted://{path}"] if command == "verify" else ["--data", f"counted://{path}", *page]
    )
    assert run_command([command, str(tmp_path / "core.npz"), *arguments, "--json"]) == 0
    assert '"ok": true' in capsys.readouterr().out
    assert 0.5 < times(path) < 1.3  # and the footer, twice


def test_a_csv_report_opens_the_file_twice(data, tmp_path):
    path = data / "data.csv"
    core = karat.coreset_files(path, "y")
    page = karat.report.write_report(core, tmp_path / "r.html", data=f"counted://{path}")
    assert page.exists()
    assert opens[str(path)] == 2


def test_a_latent_problem_takes_two_passes(data, tmp_path):
    path = data / "data.csv"
    core = karat.coreset_files(
        f"counted://{path}", problem=karat.problems.GaussianMixture(1), columns=["x0", "x1", "x2"]
    )
    assert opens[str(path)] == 3  # one to tell numbers from text
    opens.clear()
    assert karat.verify_files(core).ok
    assert opens[str(path)] == 3
    opens.clear()
    karat.report.write_report(core, tmp_path / "r.html", data=f"counted://{path}")
    assert opens[str(path)] == 3
