"""CSV files are parsed in pieces side by side: the same rows, lines and errors as if they were read
from front to end.
"""

from __future__ import annotations

import csv
import gzip
import io
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import karat
from karat import InputError
from karat.io.csv_text import CsvBytes, Header
from karat.io.find import open_source
from karat.io.source import ResumePoint, worked_in_order

cells = st.one_of(
    st.integers(-999, 999).map(str),
    st.sampled_from(["", "x", '"a,b"', '"two\nlines"', '"say ""so"""', '"\n\n"', "1.5e3"]),
)
lines = st.lists(st.lists(cells, min_size=2, max_size=2).map(",".join), min_size=1, max_size=60)


def pieces_of(path, start, block_bytes, piece_bytes):
    spare = []
    source = CsvBytes(
        pa.fs.LocalFileSystem(), str(path), lambda line: Header(line.split(","), ","), spare
    )
    for piece in source.pieces(start, block_bytes, piece_bytes):
        yield bytes(piece.data), piece.inner, piece.end
        if piece.end is not None:
            spare.append(piece.data.obj)  # what was read must not change under it


@given(
    lines,
    st.sampled_from(["\n", "\r\n"]),
    st.integers(60, 400),
    st.integers(10, 200),
    st.booleans(),
    st.booleans(),
)
def test_pieces_are_the_file_cut_between_rows(
    tmp_path_factory, lines, sign, block_bytes, piece_bytes, final, packed
):
    path = tmp_path_factory.mktemp("pieces") / ("a.csv.gz" if packed else "a.csv")
    body = (sign.join(lines) + (sign if final else "")).encode()
    text = f"a,b{sign}".encode() + body
    path.write_bytes(gzip.compress(text) if packed else text)
    found = list(pieces_of(path, 0, block_bytes, piece_bytes))
    assert b"".join(data for data, _, _ in found) == body
    rows = [
        row for data, _, _ in found for row in csv.reader(io.StringIO(data.decode(), newline=""))
    ]
    assert rows == list(csv.reader(io.StringIO(body.decode(), newline="")))
    for data, inner, _ in found:
        breaks = sum(
            value.count("\n")
            for row in csv.reader(io.StringIO(data.decode(), newline=""))
            for value in row
        )
        assert inner == breaks
    ends = [end for _, _, end in found if end is not None]
    assert not body or ends[-1] == len(text)
    for i, (_, _, end) in enumerate(found):
        if end is not None:
            assert list(pieces_of(path, end, block_bytes, piece_bytes)) == found[i + 1 :]


def test_many_threads_keep_the_order():
    rng = np.random.default_rng(0)
    waits = rng.uniform(0, 0.002, 100)
    found = list(worked_in_order(lambda i: time.sleep(waits[i]) or 2 * i, iter(range(100)), 4))
    assert found == [(i, 2 * i) for i in range(100)]


@pytest.mark.parametrize("where", ["items", "work"])
def test_an_error_appears_where_its_item_would(where):
    def items():
        for i in range(20):
            if where == "items" and i == 7:
                raise ValueError("seven")
            yield i

    def work(i):
        if where == "work" and i == 7:
            raise ValueError("seven")
        return i

    found = worked_in_order(work, items(), 3)
    assert [next(found)[0] for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="seven"):
        next(found)


def test_the_first_error_of_a_file_is_the_one_that_is_told(tmp_path):
    rows = [f"{i},{i * i % 17}" for i in range(400)]
    rows[50] = "x,1"
    # a quote that is never closed, in a block that is read while the first is parsed
    rows[390] = '"5,1'
    (tmp_path / "a.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    with pytest.raises(InputError, match="line 52: column 'a' has the value 'x'"):
        karat.coreset_files(open_source(tmp_path / "a.csv", block_bytes=1000, first_bytes=500), "y")


@pytest.mark.parametrize("drop", [False, True])
def test_rows_and_lines_of_pieces(drop, tmp_path):
    """Every block and piece knows its rows and lines, whatever lies before it."""
    rng = np.random.default_rng(1)
    rows = [f"{a!r},{b!r}" for a, b in rng.standard_normal((500, 2)).tolist()]
    if drop:
        rows[120] = "1,2,3"
        rows[260] = "word,2"
    (tmp_path / "a.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    source = open_source(tmp_path / "a.csv", block_bytes=2000)
    chunks = list(source.chunks(["a", "y"], ["a", "y"], 30, ResumePoint(), strict=not drop))
    counts = [chunk.table.num_rows for chunk in chunks]
    assert [chunk.start for chunk in chunks] == np.cumsum([0, *counts[:-1]]).tolist()
    assert max(counts) <= 30
    assert sum(counts) == 500 - drop
    assert sum(chunk.bad for chunk in chunks) == drop
    got = np.concatenate([np.asarray(chunk.table.column("y")) for chunk in chunks])
    want = [float(row.split(",")[1]) for row in rows if row.count(",") == 1]
    np.testing.assert_array_equal(got, want)
    if not drop:
        assert source.where(0, 399).endswith("line 401")


@pytest.mark.parametrize("labels", [["x", "0", "1"], ["0.5", "0", "1"]])
def test_a_resumed_run_reads_labels_as_the_first_did(labels, tmp_path):
    """The kind of a column is that of the first block: behind it labels may all look like whole
    numbers.
    """
    rng = np.random.default_rng(0)
    names = [labels[0], *(labels[1 + i % 2] for i in range(1, 3000))]
    lines = [
        f"{name},{a!r},{b!r}"
        for name, (a, b) in zip(names, rng.standard_normal((3000, 2)).tolist(), strict=True)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["g,a,y", *lines]) + "\n")

    class Stop(BaseException):
        pass

    def run(checkpoint=None, progress=None):
        source = open_source(tmp_path / "a.csv", block_bytes=20_000)
        return karat.coreset_files(
            source, "y", groups="g", batch_rows=500, checkpoint=checkpoint, progress=progress
        )

    def stop(done, total):
        if done > 60_000:
            raise Stop

    whole = run()
    with pytest.raises(Stop):
        run(tmp_path / "c.npz", stop)
    core = run(tmp_path / "c.npz")
    assert list(core.groups) == list(whole.groups)
    np.testing.assert_array_equal(core.indices, whole.indices)
    np.testing.assert_array_equal(core.weights, whole.weights)


def test_a_column_that_is_empty_at_first_is_text(tmp_path):
    """Also in pieces in which it is empty throughout, and where rows are left out."""
    lines = [f"{'' if i < 200 else 't'},{i},{i * i % 7}" for i in range(400)]
    lines[300] = "t,word,1"
    (tmp_path / "a.csv").write_text("\n".join(["k,a,y", *lines]) + "\n")
    source = open_source(tmp_path / "a.csv", block_bytes=1000)
    core = karat.coreset_files(source, "y", columns=["a"], groups="k", on_missing="drop")
    assert core.n_rows == 400
    assert [str(label) for label in np.unique(core.groups)] == ["", "t"]
    counts = [core.weights[np.asarray(core.groups) == label].sum() for label in ("", "t")]
    np.testing.assert_allclose(counts, [200, 199], rtol=1e-12)


@pytest.mark.parametrize("odd", ["NAN", "nan", ""])
def test_a_missing_number_does_not_hide_one_that_doubles_round(odd, tmp_path):
    lines = [f"{0.5 + i},{i % 5}" for i in range(300)]
    lines[150], lines[151] = f"{odd},1", "9007199254740993,1"
    (tmp_path / "a.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    with pytest.raises(InputError, match="9007199254740993, an integer beyond 2"):
        karat.coreset_files(tmp_path / "a.csv", "y", on_missing="drop")


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**53 + 3])
def test_the_first_whole_number_that_doubles_lack_is_refused(value, tmp_path):
    """2^53 + 1 becomes 2^53, which is not beyond 2^53."""
    lines = [f"{i},{i % 5}" for i in range(300)] + [f"{value},1"]
    (tmp_path / "a.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    with pytest.raises(InputError, match=f"{value}, an integer beyond 2"):
        karat.coreset_files(tmp_path / "a.csv", "y")
    with pytest.raises(InputError, match=f"{value}, an integer beyond 2"):
        karat.coreset([[value, 0.5], *([i, i / 4] for i in range(9))], range(10))


def test_a_run_that_resumes_at_the_end_of_a_file_counts_the_next_from_its_first_row(tmp_path):
    for name, rows in (("a.csv", 50), ("b.csv", 70)):
        (tmp_path / name).write_text(
            "\n".join(["a,y", *(f"{i},{i % 3}" for i in range(rows))]) + "\n"
        )
    source = open_source([tmp_path / "a.csv", tmp_path / "b.csv"], block_bytes=100)
    chunks = list(source.chunks(["a", "y"], ["a", "y"], 30, ResumePoint(), strict=True))
    ends = [chunk.end for chunk in chunks if chunk.end is not None]
    border = [end for end in ends if end.file == 0][-1]
    assert border.row == 50
    for end in (border, ends[0], ends[-2]):
        rest = list(source.chunks(["a", "y"], ["a", "y"], 30, end, strict=True))
        whole = chunks[[chunk.end for chunk in chunks].index(end) + 1 :]
        assert [(c.file, c.start, c.end, c.table.to_pylist()) for c in rest] == [
            (c.file, c.start, c.end, c.table.to_pylist()) for c in whole
        ]


def written(path, names, lines):
    path.write_text("\n".join([names, *lines]) + "\n")
    return path


@pytest.mark.parametrize("block_bytes", [2**24, 800])
@pytest.mark.parametrize(
    ("label", "later"),
    [("true", "false"), ("2024-01-02", "2024-01-03"), ("10:00:00", "11:30:00"), ("7", "8")],
)
def test_labels_beside_a_number_that_is_none(label, later, block_bytes, tmp_path):
    """A piece in which a row is left out has the same labels as any other."""
    lines = [f"{label if i % 2 else later},{i},{i * i % 7}" for i in range(400)]
    lines[301] = f"{label},word,3"
    clean = [line for line in lines if "word" not in line]
    paths = [
        written(tmp_path / name, "g,a,y", rows)
        for name, rows in (("a.csv", lines), ("b.csv", clean))
    ]
    dirty, plain = (open_source(path, block_bytes=block_bytes) for path in paths)
    options = {"columns": ["a"], "groups": "g", "on_missing": "drop"}
    first, second = (karat.coreset_files(source, "y", **options) for source in (dirty, plain))
    assert sorted(map(str, set(first.groups))) == sorted(map(str, set(second.groups)))
    assert first.weights.sum() == pytest.approx(399, rel=1e-12)
    levels = [
        karat.coreset_files(s, "y", one_hot=["g"], on_missing="drop").X.column_names
        for s in (dirty, plain)
    ]
    assert levels[0] == levels[1]
    assert karat.verify_files(first, dirty).ok


def test_true_and_false_beside_a_number_that_is_none_have_a_digest(tmp_path):
    lines = [f"{'true' if i % 3 else 'false'},{i},{i * i % 7}" for i in range(400)]
    lines[301] = "true,word,3"
    source = open_source(written(tmp_path / "a.csv", "s,a,y", lines), block_bytes=800)
    assert karat.coreset_files(source, "y", on_missing="drop", digest="sha256").certificate.ok


@pytest.mark.parametrize("options", [{}, {"on_missing": "drop"}])
def test_a_label_of_another_kind_is_refused(options, tmp_path):
    lines = [f"{'7' if i < 300 else 'seven'},{i},{i * i % 7}" for i in range(400)]
    path = written(tmp_path / "a.csv", "g,a,y", lines)
    text = karat.coreset_files(open_source(path, block_bytes=800), "y", groups="g", **options)
    assert set(text.groups.tolist()) == {"7", "seven"}
    source = open_source(path, block_bytes=800).read_with(dtype={"g": int})
    with pytest.raises(
        InputError, match=r"line 302: column 'g' has the value 'seven', which is not an integer"
    ):
        karat.coreset_files(source, "y", groups="g", **options)


@pytest.mark.parametrize("options", [{}, {"on_missing": "drop"}])
@pytest.mark.parametrize("column", ["g", "a"])
def test_text_that_is_not_utf_8(column, options, tmp_path):
    lines = [f"t,{i},{i * i % 7}".encode() for i in range(400)]
    lines[350] = b"gr\xfcn,5,1" if column == "g" else b"t,gr\xfcn,1"
    (tmp_path / "a.csv").write_bytes(b"\n".join([b"g,a,y", *lines]) + b"\n")
    source = open_source(tmp_path / "a.csv", block_bytes=800)
    with pytest.raises(InputError, match=r"UTF|utf|gr"):
        karat.coreset_files(source, "y", groups="g", **options)


def test_a_source_may_be_used_again_in_another_way(tmp_path):
    lines = [f"{i % 3}{'.5' if i > 300 else ''},{i},{i * i % 7}" for i in range(400)]
    source = open_source(written(tmp_path / "a.csv", "g,a,y", lines), block_bytes=2**24)
    grouped = karat.coreset_files(source, "y", groups="g")
    assert len(set(grouped.groups)) == 6
    assert karat.coreset_files(source, "y").X.column_names == ["g", "a"]


def test_levels_of_a_file_without_a_number_have_one_type(tmp_path):
    lines = [["01", "22222222"][i % 2] for i in range(300)] + ["k"] * 100 + ["01"] * 100
    source = open_source(written(tmp_path / "a.csv", "g", lines), block_bytes=900)
    core = karat.coreset_files(
        source, problem=karat.problems.Moments(1), columns=["g"], one_hot=["g"]
    )
    assert core.X.column_names == ["g=01", "g=22222222", "g=k"]
    lines = [["18446744073709551617", "18446744073709551618"][i % 2] for i in range(300)]
    core = karat.coreset_files(
        written(tmp_path / "b.csv", "g", lines), problem=karat.problems.Moments(1), one_hot=["g"]
    )
    assert core.X.column_names == [f"g={level}" for level in lines[:2]]


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("kind", ["value", "missing", "ragged"])
def test_lines_are_those_of_an_editor(kind, resumed, tmp_path):
    """Empty lines, line breaks in values and broken lines before it count, also those before a
    resume point.
    """
    rows = [
        (
            f'{i},"two\nlines",{i % 5}'
            if i % 10 == 3
            else f"{i},x,{i % 5}{chr(10) if i % 17 == 0 else ''}"
        )
        for i in range(400)
    ]
    rows[320] = {"value": "bad,x,1", "missing": ",x,1", "ragged": "1,x"}[kind]
    path = written(tmp_path / "a.csv", "a,note,y", rows)
    number = path.read_text().split("\n").index(rows[320]) + 1
    source = open_source(path, block_bytes=1000)
    chunks, start = (
        list(
            open_source(path, block_bytes=1000).chunks(
                ["a"], ["a"], 1000, ResumePoint(), strict=False
            )
        ),
        ResumePoint(),
    )
    if resumed:
        start = [chunk.end for chunk in chunks if chunk.end is not None][1]
    if kind == "missing":
        list(source.chunks(["a"], ["a"], 1000, start, strict=False))
        assert source.where(0, 320).endswith(f"line {number}")
        return
    with pytest.raises(InputError, match=f"line {number}:"):
        list(source.chunks(["a"], ["a"], 1000, start, strict=True))


def test_the_last_of_few_lines_counts_without_a_line_end(tmp_path):
    (tmp_path / "a.csv").write_text("a,s,y\n\n2,true,4")
    assert karat.coreset_files(tmp_path / "a.csv", "y").n_rows == 1
    (tmp_path / "b.csv").write_text("a,s,y\n1,,3\n2,,3\n3,true,4")
    assert karat.coreset_files(tmp_path / "b.csv", "y", on_missing="drop").weights.sum() == 1


def test_a_file_that_is_quoted_throughout(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f'"{a!r}","{b!r}"' for a, b in rng.standard_normal((20_000, 2)).tolist()]
    quoted = written(tmp_path / "a.csv", '"a","y"', rows)
    plain = written(tmp_path / "b.csv", "a,y", [row.replace('"', "") for row in rows])
    first, second = karat.coreset_files(quoted, "y"), karat.coreset_files(plain, "y")
    np.testing.assert_array_equal(first.indices, second.indices)
    assert first.provenance["content"]["sums"] == second.provenance["content"]["sums"]


def test_progress_of_a_compressed_file_counts_its_own_bytes(tmp_path):
    rng = np.random.default_rng(0)
    text = "a,y\n" + "".join(f"{a!r},{b!r}\n" for a, b in rng.standard_normal((20_000, 2)).tolist())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    seen = []
    source = open_source(tmp_path / "a.csv.gz", block_bytes=20_000)
    karat.coreset_files(source, "y", progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen)
    assert sum(done == 1.0 for done in seen) < 0.2 * len(seen)
