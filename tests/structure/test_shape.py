"""The code stays readable: short files, few layers, and a short way from the data to a coreset, a
table or a cube.
"""

from __future__ import annotations

import re
import sys
import threading
import tomllib
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import karat

PACKAGE = Path(karat.__file__).parent
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_no_file_is_long():
    paths = [*PACKAGE.rglob("*.py"), *(ROOT / "paper").glob("*.py")]
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert not {str(path): count for path, count in lines.items() if count > 450}


def test_few_layers_and_one_exception():
    layers = [
        contract
        for contract in PROJECT["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    whole = next(contract for contract in layers if "containers" not in contract)
    assert len(whole["layers"]) <= 13
    assert sum(len(contract.get("ignore_imports", [])) for contract in layers) <= 1
    listed = {
        name.strip() for layer in whole["layers"] for name in layer.replace("|", ":").split(":")
    }
    present = {
        f"karat.{path.stem}"
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert present - listed == {"karat.__init__"}
    assert listed <= present


def modules_visited(call):
    """The modules of karat that a call visits, with the functions that it calls there, in any
    thread.
    """
    call()  # modules are imported now, so that only calls are seen below
    visited = defaultdict(set)

    def watch(code_frame, event, _):
        path = Path(code_frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            visited[path.relative_to(PACKAGE).as_posix()].add(code_frame.f_code.co_name)

    before = sys.getprofile(), threading.getprofile()
    sys.setprofile(watch)
    threading.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])
    return visited


def check_few(visited, most):
    assert len(visited) <= most, "\n".join(
        f"{path}: {', '.join(sorted(names))}" for path, names in visited.items()
    )


@pytest.fixture(scope="module")
def frame():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((5_000, 5)), columns=list("abcde"))
    frame["price"] = frame.sum(axis=1) + rng.standard_normal(5_000)
    return frame.assign(g=rng.integers(0, 20, 5_000), k=rng.choice(list("xyz"), 5_000))


def test_a_coreset_of_a_frame_takes_few_modules(frame):
    """``frame -> karat.coreset -> core.fit``."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    numbers = frame[[*"abcde", "price"]]
    check_few(modules_visited(lambda: karat.coreset(numbers, "price")), 19)
    check_few(
        modules_visited(lambda: karat.coreset(numbers, "price").fit(linear_model.Ridge())), 20
    )


def test_a_reduced_search_takes_few_modules(frame):
    """A pipeline with categories, whose folds all have few rows."""
    pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer((OneHotEncoder(), ["k"]), (StandardScaler(), list("abcde")))
    pipeline = make_pipeline(columns, Ridge(solver="cholesky"))
    search = GridSearchCV(pipeline, {"ridge__alpha": [0.1, 1.0, 10.0]}, cv=5)
    reduced = []

    def call():
        few = karat.CoresetRegressor(search, few_rows=0).fit(frame[[*"abcde", "k"]], frame["price"])
        reduced.append(few.reduced_)

    check_few(modules_visited(call), 36)
    assert reduced == [True, True]


def test_a_coreset_of_a_file_takes_few_modules(frame, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "data.csv"
    frame.drop(columns="k").to_csv(path, index=False)
    check_few(modules_visited(lambda: karat.coreset_files(path, target="price")), 34)


def test_a_regression_table_takes_few_modules(frame, tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("statsmodels")
    inference = pytest.importorskip("karat.inference")
    path = tmp_path / "data.parquet"
    frame.to_parquet(path)
    call = partial(inference.ols, "price ~ a + b + C(k)", path, cov_type="cluster", cluster="g")
    check_few(modules_visited(call), 50)


def test_a_cube_takes_few_modules(frame):
    pytest.importorskip("pyarrow")
    rows = frame[["a", "b", "price", "g"]]
    check_few(modules_visited(lambda: karat.cube(rows, by=["g"], target="price")), 37)


def test_the_oldest_versions_are_the_floors():
    """``make oldest`` installs what pyproject.toml allows: every floor, and nothing older or
    newer.
    """
    groups = [
        *PROJECT["project"]["optional-dependencies"].values(),
        PROJECT["dependency-groups"]["test"],
    ]
    texts = [text for group in [PROJECT["project"]["dependencies"], *groups] for text in group]
    requirements = [re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)$", text) for text in texts]
    floors = {(found[1], found[2]) for found in requirements if found}
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for name, floor in floors:
        assert f"{pinned[name]}.".startswith(f"{floor}."), (name, floor)
        assert set(pinned[name].removeprefix(floor)) <= {".", "0"}, (name, floor)
    assert set(pinned) == {name for name, _ in floors} | {"distributed"}  # which dask installs
