"""Columns that later files have and the first does not: an error, unless the caller named the
columns.
"""

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from pyarrow import feather

import karat
from karat.cli.app import run_command
from karat.errors import InputError
from karat.io.sample import sample_rows

WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path, index=False),
    "arrow": feather.write_feather,
}


def frames(rows=60):
    """Three parts of a table; the second and third have columns that the first lacks."""
    rng = np.random.default_rng(3)
    parts = [
        pd.DataFrame(rng.normal(size=(rows, 3)), columns=["a", "b", "y"]).assign(
            g=np.arange(rows) % 2
        )
        for _ in range(3)
    ]
    return [parts[0], parts[1].assign(late=1.0, text="u"), parts[2].assign(late=2.0)]


@pytest.fixture(params=sorted(WRITERS))
def folder(request, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for i, frame in enumerate(frames()):
        WRITERS[request.param](frame, data / f"part-{i}.{request.param}")
    return data


def second_moments(frame, weights=None):
    rows = np.column_stack([np.ones(len(frame)), frame[["a", "b", "y"]].to_numpy()])
    return rows.T @ (rows if weights is None else rows * weights[:, None])


def named(error):
    text = str(error.value)
    return all(word in text for word in ("part-1", "part-0", "'late', 'text'", "columns="))


def test_every_column_is_read_or_refused(folder):
    with pytest.raises(InputError, match="has columns that") as error:
        karat.coreset_files(folder, "y")
    assert named(error)
    assert error.value.argument == "columns"
    with pytest.raises(InputError) as error:
        karat.cube(folder, "y", by="g")
    assert named(error)
    for formula in ("y ~ .", "y ~ . - a | g", "y ~ . + [a ~ b]"):
        with pytest.raises(InputError) as error:
            karat.ols(formula, folder)
        assert named(error)
    with pytest.raises(InputError) as error:
        sample_rows(folder, None, 10)
    assert named(error)


def test_named_columns_may_have_others_beside_them(folder):
    core = karat.coreset_files(folder, "y", columns=["a", "b"])
    whole = second_moments(pd.concat(frames()))
    kept = core.X.to_pandas().assign(y=core.y)
    assert np.abs(second_moments(kept, core.weights) - whole).max() <= 1e-12 * np.abs(whole).max()
    assert karat.verify_files(core, folder).ok
    fit = karat.ols("y ~ a + b", folder)
    rows = pd.concat(frames())
    X = np.column_stack([np.ones(len(rows)), rows[["a", "b"]]])
    expected = np.linalg.lstsq(X, rows["y"], rcond=None)[0]
    np.testing.assert_allclose(fit.params, expected, rtol=0, atol=1e-12)


def test_the_command_line(folder, tmp_path, capsys):
    out = str(tmp_path / "core.npz")
    build = ["build", str(folder), "-t", "y", "-o", out]
    assert run_command(build) == 2
    said = capsys.readouterr().err
    assert "'late', 'text'" in said
    assert "--columns" in said
    # to drop some columns names no others
    assert run_command([*build, "--drop-columns", "g"]) == 2
    assert "'late', 'text'" in capsys.readouterr().err
    assert run_command([*build, "--columns", "a,b"]) == 0
    assert list(karat.load(out).X.column_names) == ["a", "b"]


def test_an_index_that_pandas_stored_is_no_column(tmp_path):
    first, later = frames()[0], frames()[0].query("a > 0")
    first.to_parquet(tmp_path / "0.parquet")
    later.to_parquet(tmp_path / "1.parquet")  # its index is a column of the file
    assert karat.coreset_files(tmp_path, "y").n_rows == len(first) + len(later)
    csv = tmp_path / "text"
    csv.mkdir()
    first.to_csv(csv / "0.csv", index=False)
    later.to_csv(csv / "1.csv")
    assert karat.coreset_files(csv, "y").n_rows == len(first) + len(later)


def test_folders_are_columns_too(tmp_path):
    for name in ("k=1", "k=2/m=3"):
        (tmp_path / name).mkdir(parents=True)
        frames()[0].to_parquet(tmp_path / name / "x.parquet")
    with pytest.raises(InputError, match="does not have: 'm'"):
        karat.coreset_files(tmp_path)


def test_a_dataset_does_not_hide_columns(tmp_path):
    for i, frame in enumerate(frames()):
        frame.to_parquet(tmp_path / f"part-{i}.parquet")
    dataset = pads.dataset(tmp_path)  # with the columns of the first file
    for source in (dataset, dataset.filter(pc.field("a") > 0)):
        with pytest.raises(InputError, match="'late', 'text'"):
            karat.coreset_files(source, "y")
    assert karat.coreset_files(dataset, "y", columns=["a"]).n_rows == 180


def test_a_resumed_run_compares_with_the_first_file(tmp_path):
    """The run stops in the second file, and the third has more columns."""
    data, checkpoint = tmp_path / "data", tmp_path / "c.npz"
    data.mkdir()
    for i, part in enumerate((frames(3000)[0], frames(3000)[0], frames(3000)[2])):
        part.to_csv(data / f"{i}.csv", index=False)
    for _ in range(2):
        with pytest.raises(InputError, match=r"2.csv has columns .*0.csv does not have: 'late'"):
            karat.coreset_files(data, "y", checkpoint=checkpoint, batch_rows=2000)
        assert checkpoint.exists()


def test_a_column_is_dropped_by_its_name_only(tmp_path, capsys):
    """What --drop-columns hides is no feature, but may have another role."""
    frame = frames()[0].assign(name=np.arange(60), text="u")
    frame.to_parquet(tmp_path / "x.parquet")
    out = str(tmp_path / "core.npz")
    line = ["build", str(tmp_path / "x.parquet"), "-t", "y", "--key", "name", "-o", out]
    assert run_command([*line, "--drop-columns", "text,name"]) == 0
    core = karat.load(out)
    assert list(core.X.column_names) == ["a", "b", "g"]
    assert core.keys is not None
