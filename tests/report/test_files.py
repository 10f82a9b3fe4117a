"""The report of data in files says what the report of the same data in memory says."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat.report import facts
from karat.report.data import open_data


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """The rows in three files of several row groups, with a weight and missing values in a text
    column.
    """
    X, y = table
    home = tmp_path_factory.mktemp("files")
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    columns = {f"x{i}": X[:, i] for i in range(4)} | {"y": y, "w": weight}
    for i, part in enumerate(np.array_split(np.arange(len(y)), 3)):
        pq.write_table(
            pa.table({k: v[part] for k, v in columns.items()}),
            home / f"{i}.parquet",
            row_group_size=700,
        )
    return home, weight


@pytest.fixture(scope="module")
def file_core(folder):
    return karat.coreset_files(folder[0], "y", columns=["x0", "x1", "x2", "x3"], sample_weight="w")


def test_the_same_as_in_memory(file_core, folder, table):
    home, weight = folder
    in_files = facts(file_core, str(home))
    in_memory = facts(file_core, table, sample_weight=weight)
    assert in_files["verified"]["ok"]
    assert in_files["verified"]["data"] == "identical"
    assert in_files["moments"]["count"] == in_memory["moments"]["count"]
    assert in_files["moments"]["worst"] < 1e-12
    for mine, theirs in zip(in_files["columns"], in_memory["columns"], strict=True):
        assert mine["name"] == theirs["name"]
        assert [mine[k] for k in mine if k != "name"] == pytest.approx(
            [theirs[k] for k in mine if k != "name"], rel=1e-12
        )
    full = np.column_stack(table)
    np.testing.assert_allclose(
        [c["mean"] for c in in_files["columns"]],
        np.average(full, axis=0, weights=weight),
        rtol=1e-12,
    )


def test_changed_data_is_noticed(file_core, folder, tmp_path):
    home, _ = folder
    for path in home.glob("*.parquet"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    changed = pq.read_table(tmp_path / "1.parquet")
    y = changed["y"].to_numpy().copy()
    y[7] += 1000.0
    pq.write_table(changed.set_column(4, "y", pa.array(y)), tmp_path / "1.parquet")
    found = facts(file_core, str(tmp_path))
    assert not found["verified"]["ok"]
    assert found["verified"]["data"] == "changed"
    assert found["moments"]["worst"] > 1e-7
    karat.report.write_report(file_core, tmp_path / "r.html", data=str(tmp_path))
    assert "CHANGED since the coreset was made" in (tmp_path / "r.html").read_text()


def test_data_so_different_that_the_coordinates_do_not_fit(file_core, folder, tmp_path):
    rows = pq.read_table(folder[0])
    shifted = {name: rows[name].to_numpy() * 1e6 + 1e9 for name in ("x0", "x1", "x2", "x3", "y")}
    pq.write_table(pa.table(shifted | {"w": rows["w"]}), tmp_path / "other.parquet")
    found = facts(file_core, str(tmp_path / "other.parquet"))
    assert not found["verified"]["ok"]
    assert found["moments"]["worst"] > 1e-2
    assert found["columns"][0]["mean"] == pytest.approx(
        np.average(shifted["x0"], weights=rows["w"].to_numpy()), rel=1e-9
    )


def test_samples_are_rows_of_the_data_and_depend_on_the_seed(file_core, folder, table):
    full = {row.tobytes() for row in np.column_stack(table)}
    drawn = [
        open_data(file_core, str(folder[0]), size=300, seed=seed).sample() for seed in (1, 1, 2)
    ]
    assert drawn[0].shape == (300, 5)
    assert all(row.tobytes() in full for row in drawn[0])
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_rows_with_missing_values_stay_out(table, tmp_path):
    X, y = table
    missing = np.where(np.arange(len(y)) % 5 == 0, np.nan, y)
    pq.write_table(
        pa.table({"a": X[:, 0], "b": X[:, 1], "y": pa.array(missing, from_pandas=True)}),
        tmp_path / "d.parquet",
    )
    core = karat.coreset_files(tmp_path / "d.parquet", "y", on_missing="drop")
    found = facts(core, str(tmp_path / "d.parquet"))
    assert found["verified"]["ok"]
    kept = np.isfinite(missing)
    assert found["columns"][2]["mean"] == pytest.approx(y[kept].mean(), rel=1e-12)
    assert len(found["projection"]["background"]) <= 2000


def _peak(path):
    """The largest memory of a report, of NumPy and of Arrow, in bytes."""
    core, seen = karat.coreset_files(path), []
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    found = facts(core, str(path), progress=lambda *_: seen.append(pa.total_allocated_bytes()))
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["verified"]["ok"]
    return traced + max(seen) - before


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_data(tmp_path):
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{i}", pa.float64()) for i in range(8)])
    peaks = []
    for chunks in (12, 36):
        with pq.ParquetWriter(tmp_path / f"{chunks}.parquet", schema) as writer:
            for _ in range(chunks):
                writer.write_table(
                    pa.table([rng.standard_normal(2**17) for _ in range(8)], schema=schema)
                )
        peaks.append(_peak(tmp_path / f"{chunks}.parquet"))
    assert peaks[1] < 1.25 * peaks[0]
    assert peaks[1] < 0.7 * 36 * 2**17 * 8 * 8  # bytes of all rows: 302 MB


def test_paths_in_lists_tuples_and_objects(file_core, folder):
    paths = sorted(folder[0].glob("*.parquet"))
    for given in (folder[0], paths, tuple(str(p) for p in paths)):
        assert facts(file_core, given)["verified"]["data"] == "identical"


def test_options_of_memory_are_refused_for_files(file_core, folder):
    with pytest.raises(karat.InputError, match="data in memory"):
        facts(file_core, str(folder[0]), sample_weight=np.ones(5000))


def test_a_coreset_of_memory_does_not_know_its_columns(core, folder):
    with pytest.raises(karat.InputError, match="columns"):
        facts(core, str(folder[0]))


def test_the_call_makes_the_same_coreset(file_core):
    found = {}
    exec(facts(file_core)["reproduce"]["python"], {"karat": karat}, found)
    assert np.array_equal(found["core"].indices, file_core.indices)
    np.testing.assert_allclose(found["core"].weights, file_core.weights, rtol=1e-9)


def test_a_merged_coreset_against_all_its_files(folder, table):
    home, _ = folder
    parts = [karat.coreset_files(home / f"{i}.parquet", "y", sample_weight="w") for i in range(3)]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    found = facts(merged, [str(home / f"{i}.parquet") for i in range(3)])
    assert found["verified"]["ok"]
    assert found["verified"]["data"] == "identical"
    assert found["moments"]["worst"] < 1e-12
    assert found["rows"] == len(table[1])


def _latent_files(home):
    rng = np.random.default_rng(2)
    hidden = rng.integers(2, size=3000)
    views = np.hstack([3 * np.eye(2, 3)[hidden] + rng.standard_normal((3000, 3)) for _ in range(3)])
    names = [f"x{i}" for i in range(9)]
    run = np.repeat(np.arange(6), 500)
    pq.write_table(
        pa.table(dict(zip(names, views.T, strict=True)) | {"run": run}),
        home / "latent.parquet",
        row_group_size=700,
    )
    threes = [names[:3], names[3:6], names[6:]]
    markov = karat.problems.HiddenMarkov(2, emissions="gaussian")
    return {
        "mixture": {"problem": karat.problems.GaussianMixture(2), "columns": names},
        "markov": {"problem": markov, "columns": names[:3], "sequence": "run"},
        "views": {"problem": karat.problems.MultiView(2), "columns": threes},
    }


@pytest.mark.parametrize("name", ["mixture", "markov", "views"])
def test_latent_models_in_files(name, tmp_path):
    core = karat.coreset_files(tmp_path / "latent.parquet", **_latent_files(tmp_path)[name])
    karat.report.write_report(core, tmp_path / "r.html", data=tmp_path / "latent.parquet")
    found = karat.report.facts(core, tmp_path / "latent.parquet")
    assert found["verified"]["ok"]
    assert found["verified"]["data"] == "identical"
    assert found["moments"]["worst"] < 1e-10
    again = {}
    exec(found["reproduce"]["python"], {"karat": karat}, again)
    assert np.array_equal(again["core"].indices, core.indices)
