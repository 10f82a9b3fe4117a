"""karat build: every format, every option, against the same numbers computed by NumPy from the
whole table.
"""

import json
import os

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli.conftest import ROWS, command

import karat


def moments(X, weights):
    extended = np.column_stack([np.ones(len(X)), X])
    return (extended * weights[:, None]).T @ extended


def same_moments(core, full, weights=None):
    """Whether a weighted sum of products over kept rows is that over all rows, by NumPy."""
    kept = np.column_stack([*core.arrays()]) if core.y is not None else core.arrays()[0]
    expected = moments(full, np.ones(len(full)) if weights is None else weights)
    return np.allclose(
        moments(kept, core.weights), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
    )


@pytest.fixture(scope="module")
def full(numbers):
    return np.column_stack([c.to_numpy() for c in numbers.columns])


@pytest.mark.parametrize("source", ["rows.csv.gz", "rows.arrow", "parts", "parts/part-*.parquet"])
def test_formats_folders_and_globs(inside, source, data, full, tmp_path):
    result = inside("build", data / source, "-t", "y", "-o", tmp_path / "core.parquet", "--json")
    assert result.code == 0, result.err
    core = karat.load(tmp_path / "core.parquet")
    assert result.json["rows_in"] == ROWS
    assert result.json["rows_kept"] == len(core) == 15
    assert same_moments(core, full)


def test_the_file_opens_in_any_tool_and_says_where_it_came_from(core, full):
    rows = pq.read_table(core)
    found = np.column_stack([rows[c].to_numpy() for c in "abcy"])
    assert np.array_equal(found, full[rows["row"].to_numpy()])  # verbatim rows of the data
    assert np.isclose(rows["weight"].to_numpy().sum(), ROWS)
    origin = karat.load(core).provenance
    assert origin["target"] == "y"
    assert origin["columns"] == ["a", "b", "c"]
    assert origin["command"].startswith("karat build ")
    assert "--target y" in origin["command"]


def test_the_table_for_people(data, tmp_path):
    result = command(
        "build",
        data / "rows.parquet",
        "-t",
        "y",
        "-o",
        tmp_path / "c.npz",
        "--problem",
        "ridge",
        "--alpha",
        "10",
    )
    assert result.code == 0
    assert result.err == ""  # no progress bar where nobody sees it
    for words in (
        "4,000 rows became 15",
        "Ridge(alpha=10.0)",
        "rows in",
        "rows kept",
        "worst error",
        "time",
        "not kept",
        "rows/s",
    ):
        assert words in result.out
    assert "\x1b" not in result.out


def test_weights_groups_and_keys(inside, data, table, full, tmp_path):
    result = inside(
        "build", data / "all.parquet", "-t", "y", "--weight", "w", "--groups", "fold", "--key",
        "id", "--columns", "a,b", "--columns", "c", "-o", tmp_path / "core.parquet",
    )  # fmt: skip
    assert result.code == 0, result.err
    core = karat.load(tmp_path / "core.parquet")
    weights, folds = table["w"].to_numpy(), table["fold"].to_numpy().astype(str)
    kept = np.column_stack([*core.arrays()])
    for fold in np.unique(folds):
        inside = core.groups.astype(str) == fold
        expected = moments(full[folds == fold], weights[folds == fold])
        np.testing.assert_allclose(
            moments(kept[inside], core.weights[inside]), expected, rtol=1e-9, atol=1e-8
        )
    assert np.array_equal(core.keys.astype(int), core.indices + 7)


def test_missing_values_are_left_out_only_when_asked(inside, data, full, tmp_path):
    text = (data / "rows.csv").read_text().splitlines()
    text[5] = text[5].replace(text[5].split(",")[1], "", 1)
    (tmp_path / "gaps.csv").write_text("\n".join(text) + "\n")
    done = inside(
        "build",
        tmp_path / "gaps.csv",
        "-t",
        "y",
        "-o",
        tmp_path / "core.npz",
        "--on-missing",
        "drop",
        "--json",
    )
    assert done.code == 0, done.err
    assert any(
        "1 row with missing values was" in note for note in done.json["certificate"]["notes"]
    )
    assert same_moments(karat.load(tmp_path / "core.npz"), np.delete(full, 4, axis=0))
    people = inside(
        "build",
        tmp_path / "gaps.csv",
        "-t",
        "y",
        "-o",
        tmp_path / "core.npz",
        "--on-missing",
        "drop",
    )
    assert "3,999 of 4,000 rows became 15" in people.out
    assert inside("train", tmp_path / "core.npz", "--check", tmp_path / "gaps.csv").code == 0


PROBLEMS = {
    "least-squares": (
        ["--no-intercept", "--no-total-weight"],
        "LeastSquares(fit_intercept=False, total_weight=False)",
    ),
    "lp": (["--p", "4", "--alpha", "2"], "LpRegression(p=4, alpha=2.0)"),
    "ridge": (["--alpha", "1e3", "--absorb", "diagonal"], "Ridge(alpha=1000.0, absorb='diagonal')"),
    "moments": (["--degree", "3"], "Moments(degree=3)"),
    "mean": ([], "Mean()"),
    "tensor": (["--p", "3"], "TensorContraction(p=3)"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem(inside, name, data, full, tmp_path):
    options, described = PROBLEMS[name]
    target = ["-t", "y"] if name in ("least-squares", "lp", "ridge") else []
    result = inside(
        "build",
        data / "rows.parquet",
        *target,
        "--problem",
        name,
        *options,
        "-o",
        tmp_path / "core.npz",
        "--json",
    )
    assert result.code == 0, result.err
    assert result.json["problem"] == described
    core = karat.load(tmp_path / "core.npz")
    X, y = (full[:, :3], full[:, 3]) if target else (full, None)
    query = np.linspace(0.1, 1.0, X.shape[1] + (name == "moments"))
    expected = core.problem.loss(X, y, np.ones(ROWS), query)
    assert np.isclose(core.loss(query), expected, rtol=1e-9)


def test_the_seed_changes_the_rows_and_a_second_build_replaces_the_first(
    inside, data, core, tmp_path
):
    first = karat.load(core)
    (tmp_path / "core.parquet").write_bytes(core.read_bytes())
    result = inside(
        "build", data / "rows.parquet", "-t", "y", "--seed", "5", "-o", tmp_path / "core.parquet"
    )
    assert result.code == 0, result.err
    second = karat.load(tmp_path / "core.parquet")
    assert not np.array_equal(first.indices, second.indices)
    assert second.provenance["seed"] == 5


def test_merge_is_the_coreset_of_the_union(inside, data, full, tmp_path):
    for i in (0, 1):
        assert (
            inside(
                "build",
                data / "parts" / f"part-{i}.parquet",
                "-t",
                "y",
                "-o",
                tmp_path / f"{i}.parquet",
            ).code
            == 0
        )
    result = inside(
        "merge",
        tmp_path / "0.parquet",
        tmp_path / "1.parquet",
        "-o",
        tmp_path / "both.parquet",
        "--json",
    )
    assert result.code == 0, result.err
    assert result.json["rows_in"] == 2000
    assert same_moments(karat.load(tmp_path / "both.parquet"), full[:2000])
    people = inside("inspect", tmp_path / "both.parquet", "--rows", "2")
    assert "part-0.parquet (1,000 rows), part-1.parquet (1,000 rows)" in " ".join(
        people.out.split()
    )


def test_inspect_shows_the_heaviest_rows(inside, core, numbers):
    found = inside("inspect", core, "--rows", "3", "--json").json
    loaded = karat.load(core)
    heaviest = np.sort(loaded.weights)[::-1][:3]
    assert [row["weight"] for row in found["rows"]] == heaviest.tolist()
    for row in found["rows"]:
        assert row["y"] == numbers["y"][row["row"]].as_py()
    assert json.dumps(found["certificate"]["ok"]) == "true"


def test_plan_knows_files_and_sizes(inside, data):
    asked = inside("plan", "--rows", "1e9", "--columns", "12", "--problem", "ridge", "--json").json
    assert (asked["rows"], asked["rows_in"]) == (14 * 15 // 2, 10**9)
    files = inside("plan", data / "parts", "--target", "y", "--json").json
    assert (files["rows_in"], files["columns"], files["rows"]) == (ROWS, 3, 15)
    text = inside("plan", data / "all.parquet", "--target", "y", "--json").json
    assert (text["columns"], text["left_out"]) == (6, ["hue"])
    assert "hue: not numeric" in inside("plan", data / "all.parquet", "--target", "y").out
    guessed = inside("plan", data / "rows.csv.gz").out
    assert "about" in guessed
    rows = int(guessed.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert abs(rows / ROWS - 1) < 0.05


def test_inspect_on_a_narrow_terminal_shows_the_target_and_names_what_it_hides(
    inside, core, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "48")
    shown = inside("inspect", core).out
    header = next(line for line in shown.splitlines() if line.lstrip().startswith("row "))
    assert header.split() == ["row", "weight", "y", "a"]
    assert "Not shown: 2 columns, b, c" in shown


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_files_have_the_permissions_that_the_umask_asks_for(umask, core, tmp_path):
    loaded, output = karat.load(core), tmp_path / "core.parquet"
    before = os.umask(umask)
    try:
        loaded.save(output)
        assert output.stat().st_mode & 0o777 == 0o666 & ~umask
        output.chmod(0o640)
        loaded.save(output)
    finally:
        os.umask(before)
    assert output.stat().st_mode & 0o777 == 0o640  # as before, when it is replaced
