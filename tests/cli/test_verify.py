"""karat verify: proven, reordered, changed by one digit, or refuted; and the exit code says so."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.conftest import ROWS, command, refused

import karat


def with_digit(table, row, column, change):
    values = table[column].to_numpy().copy()
    values[row] += change
    return table.set_column(table.schema.names.index(column), column, pa.array(values))


def test_identical_data_is_proven(inside, core, data):
    result = command("verify", core, data / "rows.parquet")
    assert result.code == 0, result.err
    for words in ("proven", "identical in the 4 columns used", "4,000 read, 15 kept"):
        assert words in result.out
    other_format = inside("verify", core, data / "rows.csv", "--json")
    assert other_format.code == 0
    assert other_format.json["data"] == "identical"
    assert other_format.json["certificate"]["loss_error"] < 1e-10


def test_the_verdict_is_on_the_columns_that_were_used(inside, core, numbers, tmp_path):
    more = numbers.append_column("note", pa.array(["changed"] * ROWS))
    pq.write_table(more, tmp_path / "more.parquet")
    found = karat.verify_files(core, tmp_path / "more.parquet")
    assert found.columns == ("a", "b", "c", "y")
    assert "identical in the 4 columns used" in str(found)


def test_the_data_is_found_where_it_was(inside, core):
    assert inside("verify", core, "--json").json["data"] == "identical"


def test_reordered_rows_are_the_same_data(inside, core, numbers, tmp_path):
    order = np.random.default_rng(0).permutation(ROWS)
    pq.write_table(numbers.take(pa.array(order)), tmp_path / "shuffled.parquet")
    result = inside("verify", core, tmp_path / "shuffled.parquet", "--json")
    assert (result.code, result.json["data"]) == (0, "reordered")


def test_one_changed_digit_is_seen_though_no_moment_moves(inside, core, numbers, tmp_path):
    pq.write_table(with_digit(numbers, 1234, "b", 1e-14), tmp_path / "touched.parquet")
    result = command("verify", core, tmp_path / "touched.parquet", "--json")
    assert result.code == 1
    found = result.json
    assert (found["ok"], found["data"], found["certificate"]["ok"]) == (False, "changed", True)
    people = inside("verify", core, tmp_path / "touched.parquet")
    assert people.code == 1
    for words in ("REFUTED", "CHANGED", "row 1,234 (touched.parquet row 1,234)"):
        assert words in people.out
    assert "which now is" in " ".join(
        inside("verify", core, tmp_path / "touched.parquet", "--locate").out.split()
    )


def test_other_data_is_refuted_by_its_moments(inside, core, numbers, tmp_path):
    pq.write_table(with_digit(numbers, 10, "y", 5.0), tmp_path / "other.parquet")
    result = inside("verify", core, tmp_path / "other.parquet", "--json")
    assert result.code == 1
    assert not result.json["certificate"]["ok"]


def test_a_coreset_that_was_tampered_with_is_refuted(inside, core, data, tmp_path):
    loaded = karat.load(core)
    weights = loaded.weights.copy()
    weights[0] *= 1.001
    from dataclasses import replace

    replace(loaded, weights=weights).save(tmp_path / "forged.parquet")
    assert inside("verify", tmp_path / "forged.parquet", data / "rows.parquet").code == 1


def test_a_coreset_from_memory_needs_the_names_of_the_columns(inside, data, numbers, tmp_path):
    X, y = numbers.select(["a", "b", "c"]).to_pandas(), numbers["y"].to_numpy()
    karat.coreset(X, y).save(tmp_path / "memory.npz")
    found = inside("verify", tmp_path / "memory.npz", data / "rows.parquet", "-t", "y", "--json")
    assert found.code == 0, found.err
    assert found.json["data"] == "unknown"
    refused(
        inside("verify", tmp_path / "memory.npz", data / "rows.parquet"),
        "does not store the name of its target column",
        "Add --target",
    )


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_coreset_of_frames_knows_its_names(suffix, inside, data, numbers, tmp_path):
    frame = numbers.to_pandas()
    karat.coreset(frame[["a", "b", "c"]], frame["y"]).save(tmp_path / f"memory{suffix}")
    assert inside("verify", tmp_path / f"memory{suffix}", data / "rows.csv").code == 0
    result = inside("train", tmp_path / f"memory{suffix}", "--check", data / "rows.csv", "--json")
    assert result.code == 0, result.err
    assert result.json["check"]["same"]
    karat.coreset(frame[["a", "b", "c"]], frame["y"], sample_weight=np.full(ROWS, 2.0)).save(
        tmp_path / f"weighted{suffix}"
    )
    refused(
        inside("train", tmp_path / f"weighted{suffix}", "--check", data / "rows.csv"),
        "does not store the columns of files",
    )


@pytest.mark.parametrize("name", ["nowhere.parquet", "rows.arrow"])
def test_verify_refuses_what_it_cannot_read(inside, name, core, data, tmp_path):
    (tmp_path / "rows.arrow").write_bytes(b"ARROW1")
    refused(inside("verify", core, tmp_path / name), name)
