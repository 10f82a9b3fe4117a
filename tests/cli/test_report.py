"""karat report: the page, the exit code, and nothing half-written."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli.conftest import command, leftovers, refused


def test_the_page_and_the_table(core, data, tmp_path):
    result = command(
        "report", core, "--data", data / "rows.parquet", "-o", tmp_path / "report.html"
    )
    assert result.code == 0, result.err
    assert result.err == ""
    assert "4,000 rows, 15 kept" in result.out
    assert "identical" in result.out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "karat build" in page  # the exact command that made the coreset
    assert "identical in the 4 columns used" in page
    assert not leftovers(tmp_path)


def test_without_data(inside, core, tmp_path):
    result = inside("report", core, "-o", tmp_path / "report.html", "--json")
    assert result.code == 0
    assert result.json["verified"] is None
    assert (result.json["rows_in"], result.json["rows_kept"]) == (4000, 15)
    assert result.json["bytes"] == (tmp_path / "report.html").stat().st_size


def test_several_files_and_folders(inside, core, data, tmp_path):
    parts = [part for i in range(4) for part in ("--data", data / "parts" / f"part-{i}.parquet")]
    for given in (
        parts,
        ["--data", data / "parts"],
        ["--data", data / "parts" / "*.parquet"],
        ["--data", data / "rows.csv"],
    ):
        result = inside("report", core, *given, "-o", tmp_path / "report.html", "--json")
        assert result.code == 0, result.err
        assert result.json["verified"]["data"] == "identical"


def test_changed_data_is_exit_one_and_still_a_page(inside, core, data, tmp_path):
    rows = pq.read_table(data / "rows.parquet")
    y = rows["y"].to_numpy().copy()
    y[5] += 1.0
    pq.write_table(rows.set_column(3, "y", [y]), tmp_path / "changed.parquet")
    result = inside(
        "report",
        core,
        "--data",
        tmp_path / "changed.parquet",
        "-o",
        tmp_path / "report.html",
        "--json",
    )
    assert result.code == 1
    assert result.json["verified"]["data"] == "changed"
    assert "REFUTED" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.parquet", "-o", "r.html"], ["missing.parquet"]),
        (["{core}", "-o", "r.pdf"], ["must end in .html"]),
        (["{core}", "-o", "nowhere/r.html"], ["does not exist"]),
        (["{core}", "--data", "nothing.parquet", "-o", "r.html"], ["nothing.parquet"]),
        (["{data}/rows.csv", "-o", "r.html"], ["rows.csv"]),
        (["{core}"], ["--output"]),
    ],
)
def test_refusals(inside, core, data, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    refused(inside("report", *(a.format(core=core, data=data) for a in arguments)), *words)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_not_replaced(inside, core, tmp_path):
    other = tmp_path / "notes.html"
    other.write_text("<p>mine</p>")
    refused(inside("report", core, "-o", other), "is not a report", "--force")
    assert other.read_text() == "<p>mine</p>"
    assert inside("report", core, "-o", other, "--force").code == 0
    assert inside("report", core, "-o", other).code == 0  # a report of before is


def test_help_has_an_example(inside):
    result = inside("report", "--help")
    assert result.code == 0
    assert "karat report core.parquet --data data.parquet -o report.html" in " ".join(
        result.out.split()
    )


def test_the_rows_on_the_page_are_those_of_the_data(core, data, tmp_path, inside, numbers):
    import json
    import re

    inside("report", core, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    rows = json.loads(re.search(r'id="rows-data">(.*?)</script>', page, re.S).group(1))["columns"]
    full = np.column_stack([c.to_numpy() for c in numbers.columns])
    assert [c["name"] for c in rows] == ["row", "weight", "a", "b", "c", "y"]
    assert np.array_equal(np.column_stack([c["values"] for c in rows[2:]]), full[rows[0]["values"]])
