"""Labels of CSV files are what is written there: 01234 and 1234 are two zip codes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import karat
from karat import InputError
from karat.io import csv_files

ZIPS = ["01234", "1234", "007", "7"]


def table(labels, rows=400):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)).round(6), columns=["a", "b", "y"])
    return frame.assign(g=[labels[i % len(labels)] for i in range(rows)])


def stored(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def second_moments(rows, weights):
    full = np.column_stack([np.ones(len(rows)), rows])
    return (full * weights[:, None]).T @ full


def test_every_group_has_its_own_rows(tmp_path):
    frame = table(ZIPS)
    core = karat.coreset_files(stored(frame, tmp_path / "d.csv"), "y", groups="g")
    assert set(core.groups.tolist()) == set(ZIPS)
    kept = np.column_stack([core.X["a"], core.X["b"], core.y])
    for label in ZIPS:
        mine = core.groups == label
        expected = frame[frame.g == label][["a", "b", "y"]].to_numpy()
        np.testing.assert_allclose(
            second_moments(kept[mine], core.weights[mine]),
            second_moments(expected, np.ones(len(expected))),
            rtol=1e-9, atol=1e-9,
        )  # fmt: skip
    assert karat.verify_files(core).ok


def test_keys_with_leading_zeros_are_keys_of_their_own(tmp_path):
    frame = table([""]).drop(columns="g")
    frame["k"] = [f"{i:05d}" if i % 2 else str(i - i % 2 + 1) for i in range(len(frame))]
    core = karat.coreset_files(stored(frame, tmp_path / "d.csv"), "y", key="k")
    assert core.keys.tolist() == frame.k.to_numpy()[core.indices].tolist()


def test_levels_are_as_written(tmp_path):
    path = stored(table(["1.10", "1.1", "2"]), tmp_path / "d.csv")
    core = karat.coreset_files(path, "y", one_hot=["g"])
    assert {c for c in core.X.column_names if c.startswith("g")} == {"g=1.10", "g=1.1", "g=2"}
    assert karat.verify_files(core).ok


@pytest.mark.parametrize(("labels", "count"), [(["true", "True"], 2), (["12:30", "12:30:00"], 2)])
def test_truth_values_and_times_of_day_are_text(tmp_path, labels, count):
    core = karat.coreset_files(stored(table(labels), tmp_path / "d.csv"), "y", groups="g")
    assert len(set(core.groups.tolist())) == count


def test_times_of_day_are_text_among_the_labels_of_a_cube(tmp_path):
    """They were one label, 12:30:00, and a frame with the text of the file had another."""
    path = stored(table(["12:30", "12:30:00"]), tmp_path / "d.csv")
    cube = karat.cube(path, target="y", by="g", columns=["a"])
    assert cube.labels("g").tolist() == ["12:30", "12:30:00"]
    cube.update(table(["12:30"]).assign(a=lambda frame: frame.a + 1))
    assert cube.labels("g").tolist() == ["12:30", "12:30:00"]


def test_dates_stay_dates(tmp_path):
    path = stored(table(["2026-01-02", "2026-01-03"]), tmp_path / "d.csv")
    assert karat.coreset_files(path, "y", groups="g").groups.dtype.kind == "M"


def test_a_missing_label_is_still_missing(tmp_path):
    path = stored(table(["7", "NA", ""]), tmp_path / "d.csv")
    with pytest.raises(InputError, match="line 3: column 'g' has no value"):
        karat.coreset_files(path, "y", groups="g")


def test_dtype_makes_numbers_where_nothing_is_lost(tmp_path):
    path = stored(table(["7", "12"]), tmp_path / "d.csv")
    core = karat.coreset_files(csv_files(path, dtype={"g": int}), "y", groups="g")
    assert core.groups.dtype.kind == "i"
    stored(table(["7", "12", "007"]), path)
    with pytest.raises(InputError, match=r"line 4: column 'g' has the value '007'.*dtype"):
        karat.coreset_files(csv_files(path, dtype={"g": "int"}), "y", groups="g")
    stored(table(["1.5", "1.50"]), path)
    with pytest.raises(InputError, match=r"line 3: column 'g' has the value '1\.50'"):
        karat.coreset_files(csv_files(path, dtype={"g": float}), "y", groups="g")


def test_dtype_is_checked(tmp_path):
    path = stored(table(["7"]), tmp_path / "d.csv")
    with pytest.raises(InputError, match="has no column 'zip' of dtype"):
        karat.coreset_files(csv_files(path, dtype={"zip": int}), "y")
    with pytest.raises(InputError, match="dtype of column 'g' must be"):
        csv_files(path, dtype={"g": "complex"})
    with pytest.raises(InputError, match="dtype must be a dictionary"):
        csv_files(path, dtype=int)
    with pytest.raises(InputError, match="for CSV files"):
        csv_files(stored(table(["7"]), tmp_path / "d.parquet"), dtype={"g": int})


@pytest.mark.parametrize("role", [{"groups": "g"}, {"key": "k"}, {"one_hot": ["g"]}])
@pytest.mark.parametrize(("first", "second"), [("parquet", "csv"), ("csv", "parquet")])
def test_numbers_agree_with_other_files(tmp_path, role, first, second):
    frame = table([7, 12, 400]).assign(k=range(10**6, 10**6 + 400))
    frame = frame[["a", "b", "y", "k" if "key" in role else "g"]]
    made, other = (stored(frame, tmp_path / f"d.{kind}") for kind in (first, second))
    core = karat.coreset_files(made, "y", **role)
    verification = karat.verify_files(core, other)
    assert verification.ok
    assert verification.data == "identical"
    again = karat.coreset_files(other, "y", **role)
    with pytest.raises(InputError):  # the same rows
        core.merge(again)


def test_a_number_with_zeros_in_front_is_not_the_stored_number(tmp_path):
    frame = table([7, 12])
    core = karat.coreset_files(stored(frame, tmp_path / "d.parquet"), "y", groups="g")
    changed = frame.assign(g=frame.g.astype(str).where(frame.index != 4, "007"))
    with pytest.raises(InputError, match="line 6: column 'g' has the value '007'"):
        karat.verify_files(core, stored(changed, tmp_path / "d.csv"))


@pytest.mark.parametrize("role", [{"groups": "g"}, {"one_hot": ["g"]}])
def test_files_of_0_2_0_are_verified_with_the_old_reading(tmp_path, role):
    """0.2.0 read 007 as 7; the numbers that it made of labels are in this Parquet file."""
    frame = table(["007", "12"])
    read = stored(frame.assign(g=frame.g.astype(int)), tmp_path / "d.parquet")
    core = karat.coreset_files(read, "y", **role)
    old = {k: v for k, v in core.provenance.items() if k != "text_labels"} | {"karat": "0.2.0"}
    verification = karat.verify_files(
        replace(core, provenance=old), stored(frame, tmp_path / "d.csv")
    )
    assert verification.ok
    assert verification.data == "identical"


def test_a_changed_zero_is_noticed(tmp_path):
    path = stored(table(["007", "7"]), tmp_path / "d.csv")
    core = karat.coreset_files(path, "y", one_hot=["g"])
    stored(table(["007", "7"]).assign(g=lambda f: f.g.where(f.index != 9, "07")), path)
    assert karat.verify_files(core).data == "changed"


def test_cells_never_join_labels_that_are_written_differently(tmp_path):
    path = stored(table(ZIPS), tmp_path / "d.csv")
    with pytest.raises(InputError, match=r"line 2: column 'g' has the value '01234'.*dtype"):
        karat.cube(path, by="g", target="y")
    cube = karat.cube(csv_files(path, dtype={"g": str}), by="g", target="y")
    assert sorted(cube.cells.labels[0].tolist()) == sorted(ZIPS)


def test_text_keys_and_numbers_do_not_merge(tmp_path):
    frame = table([7]).assign(k=range(400))[["a", "b", "y", "k"]]
    first = karat.coreset_files(stored(frame[:200], tmp_path / "d.csv"), "y", key="k")
    second = karat.coreset_files(stored(frame[200:], tmp_path / "d.parquet"), "y", key="k")
    with pytest.raises(InputError, match="Some keys are text and others are not"):
        first.merge(second)


def test_the_command_line_takes_types(tmp_path):
    pytest.importorskip("typer")
    from karat.cli.app import run_command

    path, out = stored(table(["7", "12"]), tmp_path / "d.csv"), tmp_path / "core.npz"
    words = ["build", str(path), "-t", "y", "--groups", "g", "-o", str(out)]
    assert run_command([*words, "--dtype", "g=int"]) == 0
    assert karat.load(out).groups.dtype.kind == "i"
    assert run_command([*words, "--dtype", "g"]) != 0
    assert run_command(["verify", str(out)]) == 0
