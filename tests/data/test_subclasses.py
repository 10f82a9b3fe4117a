"""Subclasses of data frames (GeoDataFrame is one) are data frames, at every door; the oracle is the
frame itself.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import karat
from karat import problems as P
from karat.inference import ols

FEATURES = ["a", "b", "k"]


class Column(pd.Series):
    @property
    def _constructor(self):
        return Column

    @property
    def _constructor_expanddim(self):
        return Frame


class Frame(pd.DataFrame):
    """As GeoDataFrame does it: rows and columns taken out of one are of its own kinds."""

    @property
    def _constructor(self):
        return Frame

    @property
    def _constructor_sliced(self):
        return Column


class Polars(pl.DataFrame):
    pass


def rows(n=900):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.standard_normal(n), "b": rng.exponential(size=n), "k": rng.integers(0, 9, n)}
    )
    frame["g"] = np.where(frame.k % 2, "odd", "even")
    frame["w"] = rng.uniform(1, 2, n)
    frame["y"] = frame.a - 2 * frame.b + frame.k / 3 + rng.standard_normal(n)
    return frame.set_index(pd.Index(np.arange(n) + 100, name="id"))


def sketched(frame):
    sketch = karat.Sketch(P.LeastSquares())
    sketch.update(frame[FEATURES].iloc[:500], frame["y"].iloc[:500])
    sketch.update(frame[FEATURES].iloc[500:], frame["y"].iloc[500:])
    return sketch.coreset()


def keyed(frame):
    sketch = karat.Sketch(P.LeastSquares(), "k")
    sketch.update(frame[FEATURES].assign(k=np.arange(len(frame))), frame["y"])
    return sketch.coreset()


def merged(frame):
    first, second = (
        karat.coreset(part[FEATURES], part["y"]) for part in (frame.iloc[:500], frame.iloc[500:])
    )
    return first.merge(second)


CORESETS = {
    "names": lambda f: karat.coreset(f.drop(columns=["g", "w"]), "y"),
    "several targets": lambda f: karat.coreset(f.drop(columns="g"), ["y", "b"]),
    "groups and weights": lambda f: karat.coreset(f, "y", groups="g", sample_weight="w"),
    "values": lambda f: karat.coreset(f[FEATURES], f["y"], groups=f["g"], sample_weight=f["w"]),
    "series": lambda f: karat.coreset(f["a"], f["y"]),
    "large numbers": lambda f: karat.coreset(f[FEATURES].assign(k=f["k"] + 2**60), f["y"]),
    "absorbed": lambda f: karat.coreset(f[FEATURES], f["y"], P.Ridge(10.0, absorb="diagonal")),
    "moments": lambda f: karat.coreset(f[FEATURES], problem=P.Moments(3)),
    "mixture": lambda f: karat.coreset(f[FEATURES], problem=P.GaussianMixture(2)),
    "sketch": sketched,
    "sketch with keys": keyed,
    "merge": merged,
    "exact_cv": lambda f: karat.exact_cv(f[FEATURES], f["y"]).core,
    "as a file": lambda f: karat.coreset_files(f, "y", columns=FEATURES, groups="g"),
}


def same(found, expected):
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.weights, expected.weights)
    for name in ("to_pandas", "to_polars", "to_arrow"):
        mine, theirs = (getattr(core, name)() for core in (found, expected))
        if name == "to_pandas":
            pd.testing.assert_frame_equal(mine, theirs)
            assert type(mine) is pd.DataFrame
        else:
            assert mine.equals(theirs)
    assert (
        found.X == expected.X
        if isinstance(found.X, pa.Table)
        else np.array_equal(found.X, expected.X)
    )


@pytest.mark.parametrize("door", CORESETS)
def test_coresets(door, tmp_path):
    frame = rows()
    expected, found = CORESETS[door](frame), CORESETS[door](Frame(frame))
    same(found, expected)
    for ending in ("npz", "parquet"):
        found.save(tmp_path / f"found.{ending}")
        same(
            karat.load(tmp_path / f"found.{ending}"),
            karat.load(_saved(expected, tmp_path / f"expected.{ending}")),
        )


def _saved(core, path):
    core.save(path)
    return path


def test_kept_rows_are_of_the_same_class():
    frame = Frame(rows())
    core = karat.coreset(frame[FEATURES], frame["y"])
    assert type(core.X) is Frame
    assert type(core.y) is Column
    pd.testing.assert_frame_equal(core.X, frame[FEATURES].iloc[core.indices])


def test_verify_in_memory_and_in_files(tmp_path):
    frame = Frame(rows())
    core = karat.coreset(frame[FEATURES], frame["y"])
    assert core.verify(frame[FEATURES], frame["y"]).ok
    assert core.verify(frame[["k", "a", "b"]], frame["y"]).ok  # by their names
    assert not core.verify(frame[FEATURES] + 1, frame["y"]).ok
    built = karat.coreset_files(frame, "y", columns=FEATURES)
    assert karat.verify_files(built, frame).ok
    assert karat.verify_files(core, frame[[*FEATURES, "y"]], "y").ok


def test_sketches_in_files(tmp_path):
    cores = []
    for frame in (Frame(rows()), rows()):
        sketch = karat.Sketch(P.LeastSquares())
        sketch.update(frame[FEATURES].iloc[:500], frame["y"].iloc[:500])
        sketch.save(tmp_path / "sketch.npz")
        again = karat.Sketch.load(tmp_path / "sketch.npz")
        again.update(frame[FEATURES].iloc[500:], frame["y"].iloc[500:])
        cores.append(again.coreset())
    same(*cores)


def test_cubes():
    plain = rows()
    frame = Frame(plain)
    options = {"target": "y", "by": "g", "columns": FEATURES}
    cube, expected = (
        karat.cube(frame.iloc[:500], **options),
        karat.cube(plain.iloc[:500], **options),
    )
    cube.update(frame.iloc[500:])
    expected.update(plain.iloc[500:])
    np.testing.assert_array_equal(cube.select().weights, expected.select().weights)
    assert cube.verify(frame).ok


def test_tables():
    plain = rows()
    frame = Frame(plain)
    for cov in ("nonrobust", "HC1"):
        found, expected = (ols("y ~ a + C(g)", data, cov_type=cov) for data in (frame, plain))
        np.testing.assert_array_equal(found.params, expected.params)
        np.testing.assert_array_equal(found.bse, expected.bse)
        pd.testing.assert_series_equal(
            pd.Series(found.predict(frame)), pd.Series(expected.predict(plain))
        )
    core = karat.coreset(frame[FEATURES], frame["y"])
    np.testing.assert_array_equal(
        ols(core).params, ols(karat.coreset(plain[FEATURES], plain["y"])).params
    )
    with pytest.raises(karat.InputError, match="single column"):
        ols("y ~ a", frame["a"])
    with pytest.raises(karat.InputError, match="one-dimensional"):
        found.predict(frame["a"])


ESTIMATORS = {
    "ridge": Ridge,
    "pipeline": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(), ["g"]), remainder="passthrough"), Ridge()
    ),
    "search": lambda: GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("few_rows", [0, 5000])
def test_estimators(kind, few_rows):
    plain = rows()
    columns = [*FEATURES, "g"] if kind == "pipeline" else FEATURES
    frame = Frame(plain)
    found = karat.CoresetRegressor(ESTIMATORS[kind](), few_rows=few_rows).fit(
        frame[columns], frame["y"]
    )
    expected = karat.CoresetRegressor(ESTIMATORS[kind](), few_rows=few_rows).fit(
        plain[columns], plain["y"]
    )
    assert list(found.feature_names_in_) == list(expected.feature_names_in_)
    np.testing.assert_array_equal(found.predict(frame[columns]), expected.predict(plain[columns]))
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame[columns].rename(columns={"a": "z"}))


@pytest.mark.filterwarnings("ignore::karat.models.recovery.RecoveryWarning")
def test_classifiers_and_models():
    plain = rows()
    frame = Frame(plain)
    found, expected = (
        karat.CoresetClassifier(RidgeClassifier(), few_rows=0)
        .fit(data[FEATURES], data["g"])
        .predict(data[FEATURES])
        for data in (frame, plain)
    )
    np.testing.assert_array_equal(found, expected)
    model = karat.models.GaussianMixture(2, random_state=0).fit(frame[FEATURES])
    assert list(model.feature_names_in_) == FEATURES


def test_polars():
    plain = rows().reset_index(drop=True)
    frame = Polars(plain.to_dict("list"))
    found, expected = (
        karat.coreset(frame.drop("g", "w"), "y"),
        karat.coreset(plain.drop(columns=["g", "w"]), "y"),
    )
    np.testing.assert_array_equal(found.weights, expected.weights)
    cube = karat.cube(frame, target="y", by="g", columns=FEATURES)
    assert cube.verify(frame).ok
    np.testing.assert_allclose(ols("y ~ a + C(g)", frame).params, ols("y ~ a + C(g)", plain).params)
