"""Files of synthetic rows: what was saved comes back, a hostile file is refused, and files of real
rows are as they were.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from factory import data
from made_rows import check
from storage import fuzz

import karat
from karat import problems as P
from karat.core.files import described, shown_columns
from karat.storage.archive import pack, plain, read_archive
from karat.storage.parquet import pack_table

GIVEN = data("skewed")
WILD = np.array(GIVEN.X)
WILD[7] *= 1e12


def made(*args, **kwargs):
    return karat.coreset(*args, rows="synthetic", **kwargs)


CORES = {
    "plain": lambda: made(GIVEN.X, GIVEN.y),
    "wild": lambda: made(WILD, GIVEN.y),
    "groups": lambda: made(GIVEN.X, GIVEN.y, groups=np.array(["a", "b"])[np.arange(900) % 2]),
    "targets": lambda: made(GIVEN.X, np.column_stack([GIVEN.y, GIVEN.y**2])),
    "moments": lambda: made(GIVEN.X, problem=P.Moments(2)),
    "pandas": lambda: made(
        pd.DataFrame(GIVEN.X, columns=["weight", "stratum", "x"]), pd.Series(GIVEN.y, name="row")
    ),
    "merged": lambda: made(GIVEN.X[:300], GIVEN.y[:300]).merge(made(GIVEN.X[300:], GIVEN.y[300:])),
}


@pytest.mark.parametrize("ending", ["npz", "parquet"])
@pytest.mark.parametrize("kind", CORES)
def test_what_was_saved_comes_back(kind, ending, tmp_path):
    core = CORES[kind]()
    core.save(tmp_path / f"core.{ending}")
    again = karat.load(tmp_path / f"core.{ending}")
    assert fuzz.picture(again) == fuzz.picture(core)
    for name in ("strata", "verbatim", "weights"):
        assert np.array_equal(getattr(again, name), getattr(core, name))
    assert (again.rows, again.indices, again.keys) == ("synthetic", None, None)
    assert repr(again) == repr(core)
    assert str(again.certificate) == str(core.certificate)
    assert type(again.X) is type(core.X)
    if kind == "merged":
        again = again.merge(made(GIVEN.X, GIVEN.y))
        check(again, np.vstack([GIVEN.X, GIVEN.X]), np.concatenate([GIVEN.y, GIVEN.y]))
    elif kind == "wild":
        assert again.verify(WILD, GIVEN.y).ok


def test_the_file_says_what_it_holds(tmp_path):
    core = CORES["wild"]()
    core.save(tmp_path / "core.npz")
    header, arrays = read_archive(tmp_path / "core.npz", "a coreset file")
    assert header["format_version"] == 4
    assert header["rows"] == "synthetic"
    assert "made, not rows of the data" in header["about"]
    assert header["certificate"]["verbatim"] == 1
    assert "indices" not in arrays
    assert arrays["strata"].dtype == np.int8
    core.save(tmp_path / "core.parquet")
    table = pq.read_table(tmp_path / "core.parquet")
    assert table.column_names == ["x0", "x1", "x2", "y", "weight", "stratum"]
    assert b"made, not rows of the data" in table.schema.metadata[b"karat"]
    assert table["stratum"].to_pylist() == core.strata.tolist()


def test_files_of_real_rows_are_as_they_were(tmp_path):
    core = karat.coreset(GIVEN.X, GIVEN.y)
    header, arrays = described(core)
    assert set(plain(arrays)) == {"indices", "weights", "X", "y"}
    assert not {"rows", "about"} & set(header)
    core.save(tmp_path / "core.npz")
    assert read_archive(tmp_path / "core.npz", "a coreset file")[0]["format_version"] == 3
    core.save(tmp_path / "core.parquet")
    schema = pq.read_schema(tmp_path / "core.parquet")
    assert json.loads(schema.metadata[b"karat"])["format_version"] == 3
    assert "stratum" not in schema.names
    sketch = karat.Sketch(P.LeastSquares()).update(GIVEN.X, GIVEN.y)
    sketch.save(tmp_path / "sketch.npz")
    header, arrays = read_archive(tmp_path / "sketch.npz", "a checkpoint")
    assert header["format_version"] == 3
    assert not {"rows", "verbatim", "streams"} & set(header)
    assert "part_0" in arrays


HEADERS = {
    "rows": ["xyz", "real", 3, None, [], {}, True],
    "n_rows": [0, -1, 2**70, 1.5, "400", None],
    "format_version": [99, 5, 2, "4", None],
    "certificate": [{}, None, [], "ok"],
    "containers": [{}, None, {"X": None, "y": None}],
    "problem": ["Kernel", "os", 7],
}


def hostile_cores():
    header, arrays = described(CORES["wild"]())
    arrays = plain(arrays)
    for name, values in HEADERS.items():
        for value in values:
            yield pack(header | {name: value}, arrays)
            yield pack_table(header | {name: value}, arrays, shown_columns(header, arrays))
    count, strata = len(arrays["weights"]), arrays["strata"]
    changes = [
        {"strata": np.full(count, 7, dtype=np.int8)},
        {"strata": np.full(count, -1, dtype=np.int8)},
        {"strata": strata[:-1]},
        {"strata": strata[None]},
        {"strata": strata.astype(np.int64)},
        {"strata": strata.astype(float)},
        {"strata": strata.astype(str)},
        {"weights": -arrays["weights"]},
        {"weights": arrays["weights"] * np.nan},
        {"weights": arrays["weights"][:-1]},
        {"weights": arrays["weights"].astype(np.float32)},
        {"X": arrays["X"][:-1]},
        {"X": arrays["X"].astype(str)},
        {"X": arrays["X"][None]},
        {"y": arrays["y"][:2]},
        {"indices": np.arange(count)},
        {"keys": np.arange(count)},
        {"unknown": np.zeros(3)},
        {"groups": np.zeros(count + 1)},
    ]
    for change in changes:
        yield pack(header, arrays | change)
    for name in ("strata", "weights", "X", "y"):
        yield pack(header, {key: value for key, value in arrays.items() if key != name})


def test_hostile_coresets_are_refused(tmp_path):
    path = tmp_path / "core.npz"
    for number, content in enumerate(hostile_cores()):
        path.write_bytes(content)
        found = fuzz.outcome(path, lambda p: fuzz.picture(karat.load(p)), None)
        assert found.startswith("refused"), (number, found)


@pytest.mark.parametrize("said", ["strata", "header"])
def test_what_the_error_says(said, tmp_path):
    header, arrays = described(CORES["plain"]())
    if said == "strata":
        content = pack(header, plain(arrays) | {"strata": np.full(5, 7, dtype=np.int8)})
    else:
        content = pack(header | {"rows": "xyz"}, plain(arrays))
    (tmp_path / "core.npz").write_bytes(content)
    expected = "a stratum that there is not" if said == "strata" else "rows of the kind 'xyz'"
    with pytest.raises(karat.StorageError, match=expected):
        karat.load(tmp_path / "core.npz")


def a_sketch():
    sketch = karat.Sketch(P.LeastSquares(), rows="synthetic", buffer_rows=100)
    labels = np.repeat(["a", "b"], [6, 894])
    for part in (slice(0, 300), slice(300, 900)):
        sketch.update(WILD[part], GIVEN.y[part], groups=labels[part])
    return sketch


def hostile_sketches():
    header, arrays = a_sketch().state()
    arrays = plain(arrays)
    streams = header["streams"]
    changes = {
        "streams": [
            [],
            None,
            3,
            [{}],
            streams[:1],
            [*streams, streams[0]],
            [{"seen": "x"}, streams[1]],
            [streams[0], streams[1] | {"sums": None}],
            [streams[0], streams[1] | {"seen": -1}],
            [streams[0], streams[1] | {"sums": {"loss_error": "0"}}],
            [streams[0] | {"few": {}}, streams[1]],
            [streams[0] | {"few": streams[0]["few"] | {"proof": {}}}, streams[1]],
            [streams[0] | {"few": streams[0]["few"] | {"rank": "x"}}, streams[1]],
        ],
        "types": [
            [],
            None,
            3,
            [["x", "float64"]],
            [[3, "object"]],
            [[2**40, "float64"]],
            [[3, "nothing"]],
            [[-3, "float64"]],
        ],
        "rows": ["xyz", "real", 3, None],
        "verbatim": ["xyz", 3, None],
        "n_rows": [-1, "9", None],
        "_columns": [7, -1, "a"],
        "format_version": [99, "4"],
        "offsets": [3, {"x": 1}],
    }
    for name, values in changes.items():
        for value in values:
            yield f"{name}={str(value)[:60]}", pack(header | {name: value}, arrays)
    for name, array in arrays.items():
        bad = [
            np.array(["x"]),
            np.zeros((2, 2, 2)),
            array.astype(complex) if array.dtype.kind == "f" else np.zeros(3),
        ]
        bad += [array[:-1]] if len(array) else []
        for i, one in enumerate(bad):
            yield f"{name} {i}", pack(header, arrays | {name: one})
        yield (
            f"without {name}",
            pack(header, {key: value for key, value in arrays.items() if key != name}),
        )
    yield "unknown", pack(header, arrays | {"stream_7_verbatim": np.zeros((0, 0))})
    yield "unknown", pack(header, arrays | {"other": np.zeros(3)})


def test_hostile_checkpoints_are_refused(tmp_path):
    path, truth = tmp_path / "sketch.npz", fuzz.sketch_picture(a_sketch())
    bad = []
    for name, content in hostile_sketches():
        path.write_bytes(content)
        found = fuzz.outcome(path, lambda p: fuzz.sketch_picture(karat.Sketch.load(p)), truth)
        if not found.startswith(("refused", "unchanged")):
            bad.append((name, found))
    assert not bad, "\n".join(map(str, bad))
