"""Line breaks inside quotes belong to a value; only those outside end a row."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import COLUMNS, arrays, make

import karat
from karat.io.csv_text import line_ends
from karat.io.find import open_source

LABELS = np.array(["plain", "two\nlines", 'a "quoted"\r\nword, and a comma', '\n"'])


def make_quoted(path, n=6000, broken=None):
    """A CSV file with text of every kind in front of the numbers, written by Python's own
    module.
    """
    table = make(n)
    labels = LABELS[np.random.default_rng(1).integers(0, 4, n)]
    numbers = np.column_stack([*arrays(table)]).tolist()
    rows = [[label, *values] for label, values in zip(labels, numbers, strict=True)]
    if broken is not None:
        rows[broken][2] = "x7"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["label", *COLUMNS, "y"], *rows])
    return table, labels


blocks = pytest.mark.parametrize("block_bytes", [2**24, 30_011])


@blocks
def test_values_with_line_breaks(block_bytes, tmp_path):
    table, labels = make_quoted(tmp_path / "a.csv")
    source = open_source(tmp_path / "a.csv", block_bytes=block_bytes)
    core = karat.coreset_files(source, "y", columns=COLUMNS, groups="label", batch_rows=700)
    proof = core.verify(*arrays(table), groups=labels)
    assert proof.ok
    assert not proof.notes
    assert proof.loss_error <= 1e-11
    np.testing.assert_array_equal(core.groups, labels[core.indices])


@blocks
def test_a_bad_value_is_found_in_its_line(block_bytes, tmp_path):
    make_quoted(tmp_path / "a.csv", broken=5000)
    lines = (tmp_path / "a.csv").read_text().split("\n")
    (line,) = [i + 1 for i, text in enumerate(lines) if "x7" in text]
    with pytest.raises(karat.InputError, match=rf"line {line:,}: column 'b' has the value 'x7'"):
        karat.coreset_files(
            open_source(tmp_path / "a.csv", block_bytes=block_bytes), "y", columns=COLUMNS
        )


def test_resumes_between_values_with_line_breaks(tmp_path):
    make_quoted(tmp_path / "a.csv")
    source = open_source(tmp_path / "a.csv", block_bytes=30_011)
    options = {"columns": COLUMNS, "groups": "label", "batch_rows": 700}
    whole = karat.coreset_files(source, "y", **options)

    def stop(done, total, seen=[]):  # noqa: B006
        seen.append(done)
        if len(seen) == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        karat.coreset_files(source, "y", checkpoint=tmp_path / "c.npz", progress=stop, **options)
    core = karat.coreset_files(source, "y", checkpoint=tmp_path / "c.npz", **options)
    np.testing.assert_array_equal(core.weights, whole.weights)
    np.testing.assert_array_equal(core.indices, whole.indices)


def test_files_without_quotes_are_parsed_as_before(tmp_path, monkeypatch):
    table = make(3000)
    pacsv.write_csv(
        table.select([*COLUMNS, "y"]), tmp_path / "a.csv", pacsv.WriteOptions(quoting_style="none")
    )
    head, _, body = (tmp_path / "a.csv").read_bytes().partition(b"\n")
    (tmp_path / "a.csv").write_bytes(head.replace(b'"', b"") + b"\n" + body)
    seen = []
    real = pacsv.ParseOptions
    monkeypatch.setattr(
        "karat.io.csv.pacsv.ParseOptions", lambda **kw: seen.append(kw) or real(**kw)
    )
    assert karat.coreset_files(tmp_path / "a.csv", "y").verify(*arrays(table)).ok
    assert not any(options["newlines_in_values"] for options in seen)


values = st.text(alphabet='ab,"\n', max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(values, min_size=2, max_size=3), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
)
def test_every_row_ends_where_the_csv_module_says(rows, end):
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(rows)
    data = text.getvalue().encode()
    ends, inner = line_ends(data, ",")
    assert len(ends) + len(inner) == data.count(b"\n")
    starts = [0, *(ends + 1)]
    found = [
        next(csv.reader(io.StringIO(data[a : b + 1].decode(), newline="")))
        for a, b in zip(starts, ends, strict=False)
    ]
    assert found == rows


@pytest.mark.parametrize(
    ("data", "ends", "inner"),
    [
        # a quote inside a value without quotes opens nothing
        (b'1,5" pipe\n2,"a\nb"\n', [9, 17], [14]),
        (b'"a"b\n"c\n"\n', [4, 9], [7]),
        (b'"a\nb', [], [2]),
        (b"", [], []),
    ],
)
def test_quotes_that_open_nothing(data, ends, inner):
    found = line_ends(data, ",")
    assert [x.tolist() for x in found] == [ends, inner]
