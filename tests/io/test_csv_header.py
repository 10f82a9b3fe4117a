"""The first row of a CSV file without a header is not lost."""

import gzip

import numpy as np
import pytest

import karat
from karat import InputError
from karat.io import csv_files
from karat.io.find import open_source

ROWS = np.random.default_rng(8).normal(size=(500, 3)).round(4)
BODY = [",".join(map(str, row)) for row in ROWS.tolist()]


def written(path, *lines, mark=""):
    path.write_text("\n".join(lines) + "\n", encoding=mark or "utf-8")
    return path


def keeps_moments(core, rows):
    kept = np.column_stack([np.ones(len(core.weights)), *(core.X[c] for c in core.X.column_names)])
    full = np.column_stack([np.ones(len(rows)), rows])
    np.testing.assert_allclose(
        (kept * core.weights[:, None]).T @ kept, full.T @ full, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "first",
    [
        "1.5,,2.5", "1.5,NA,2.5", "AA,1.5,2", "AA,7,3", "AA,,5", "x,007,008", "2026-01-02,a,b",
        "a,2026-01-02 10:00,b", "a,true,b", "1,-2,3", "1e5,a,b", "NA,1,2", "1,nan,2",
    ],
)  # fmt: skip
def test_a_first_line_that_looks_like_a_row(tmp_path, first):
    path = written(tmp_path / "d.csv", first, *BODY)
    with pytest.raises(InputError, match=r"d\.csv, line 1 holds .* looks like a row.*header=False"):
        karat.coreset_files(path)
    names = karat.io.csv_files(path, header=True).schema().names
    assert names == first.split(",")


@pytest.mark.parametrize(
    "first", ["a,b,c", ",b,c", "NA,b,c", "id,2020,2021", "0,1,2", ",0,1", "x1,x2,"]
)
def test_a_first_line_of_names(tmp_path, first):
    path = written(tmp_path / "d.csv", first, *BODY)
    source = open_source(path)
    assert source.schema().names == first.split(",")
    core = karat.coreset_files(path)
    assert core.n_rows == 500
    numbers = any(name.isdigit() for name in first.split(","))
    assert numbers == any("read as names" in note for note in core.certificate.notes)


@pytest.mark.parametrize("block", [900, 2**20])
@pytest.mark.parametrize("mark", ["", "utf-8-sig"])
def test_every_row_of_a_file_without_a_header(tmp_path, block, mark):
    path = written(tmp_path / "d.csv", *BODY, mark=mark)
    source = open_source(path, block_bytes=block, first_bytes=block).read_with(header=False)
    core = karat.coreset_files(source)
    assert core.n_rows == 500
    assert core.X.column_names == ["0", "1", "2"]
    keeps_moments(core, ROWS)


def test_names_of_a_file_without_a_header(tmp_path):
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress("\n".join(BODY).encode()))
    core = karat.coreset_files(csv_files(tmp_path / "d.csv.gz", header=["a", "b", "c"]))
    assert core.n_rows == 500
    keeps_moments(core, ROWS)
    with pytest.raises(InputError, match="3 values in its first row, but header has 2 names"):
        karat.coreset_files(csv_files(tmp_path / "d.csv.gz", header=["a", "b"]))


def test_the_line_of_an_error_in_a_file_without_a_header(tmp_path):
    path = written(tmp_path / "d.csv", *BODY[:30], "1,oops,2", *BODY[30:])
    with pytest.raises(InputError, match=r"line 31: column '1' has the value 'oops'"):
        karat.coreset_files(csv_files(path, header=False))


def test_a_run_without_a_header_is_resumed(tmp_path):
    path, saved = written(tmp_path / "d.csv", *BODY), tmp_path / "run.npz"
    stops = iter(range(3))

    def stop(done, total):
        if next(stops, None) is None:
            raise KeyboardInterrupt

    def opened():
        return open_source(path, block_bytes=900, first_bytes=900).read_with(header=False)

    options = {"batch_rows": 1, "checkpoint": saved}
    with pytest.raises(KeyboardInterrupt):
        karat.coreset_files(opened(), progress=stop, **options)
    core = karat.coreset_files(opened(), **options)
    assert core.n_rows == 500
    keeps_moments(core, ROWS)


@pytest.mark.parametrize("header", ["a", [], [1, 2], ["a", "a"], 5])
def test_header_is_checked(tmp_path, header):
    with pytest.raises(InputError, match="header"):
        csv_files(written(tmp_path / "d.csv", *BODY), header=header)


def test_the_command_line_says_what_the_first_line_is(tmp_path, capsys):
    pytest.importorskip("typer")
    from karat.cli.app import run_command

    path, out = written(tmp_path / "d.csv", "1.5,,2.5", *BODY), tmp_path / "core.npz"
    assert run_command(["build", str(path), "-o", str(out)]) != 0
    assert "--no-header" in capsys.readouterr().err.replace("\n", " ")
    words = ["build", str(path), "--no-header", "--on-missing", "drop", "-o", str(out)]
    assert run_command(words) == 0
    assert karat.load(out).n_rows == 501
