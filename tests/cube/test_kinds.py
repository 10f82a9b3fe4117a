"""Labels of every type come in as they are, or are refused: by frames, files, clusters and
selections.
"""

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import pytest
from cube.conftest import labelled_rows as rows

import karat
from karat import InputError

BERLIN = dt.timezone(dt.timedelta(hours=1))


def made(labels, seed=0):
    return karat.cube(rows(labels, seed), target="y", by="k")


def test_time_zones(tmp_path):
    local = rows(pd.date_range("2026-01-01", periods=3, tz="Europe/Paris"))
    local.to_parquet(tmp_path / "local.parquet")
    cube = made(pd.date_range("2026-01-01", periods=3))
    for data in (local, tmp_path / "local.parquet"):
        for act in (lambda d: karat.cube(d, target="y", by="k"), cube.update, cube.replace):
            with pytest.raises(InputError, match="time zone Europe/Paris"):
                act(data)
    dd = pytest.importorskip("dask.dataframe")
    with pytest.raises(InputError, match="time zone Europe/Paris"):
        karat.cube(dd.from_pandas(local, npartitions=2), target="y", by="k")
    utc = made(pd.date_range("2026-01-01", periods=3, tz="UTC"))
    assert utc.select(k="2026-01-01").n_rows == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for label in (
            pd.Timestamp("2026-01-01", tz="Europe/Paris"), dt.datetime(2026, 1, 1, tzinfo=BERLIN),
            "2026-01-01T00:00+01:00",
        ):  # fmt: skip
            with pytest.raises(InputError, match="time zone"):
                cube.select(k=label)
        assert cube.select(k=pd.Timestamp("2026-01-02", tz="UTC")).n_rows == 10


def test_another_type_than_the_cubes():
    kinds = {
        "date": pd.date_range("2026-01-01", periods=3), "int": [1, 2, 3], "float": [1.0, 2.0, 3.5],
        "text": ["1", "2", "3"], "bool": [True, False],
    }  # fmt: skip
    for first, mine in kinds.items():
        for second, theirs in kinds.items():
            if first == second:
                continue
            for act in ("update", "replace", "merge"):
                cube = made(mine)
                with pytest.raises(InputError, match="Some labels are"):
                    getattr(cube, act)(made(theirs, 1) if act == "merge" else rows(theirs, 1))
                assert len(cube) == len(mine)


def test_large_and_short_numbers(tmp_path):
    big = [2**53, 2**53 + 1]
    cube = made(big).update(rows(np.array([5], dtype=np.uint64), 1))
    assert cube.labels("k").tolist() == [5, *big]
    assert cube.select(k=float(2**53)).n_rows == 10
    with pytest.raises(InputError, match="no common type"):
        made([-1]).update(rows(np.array([2**64 - 1], dtype=np.uint64), 1))
    for i, labels in enumerate((big, [1.5])):
        rows(labels).to_parquet(tmp_path / f"{i}.parquet")
    with pytest.raises(InputError, match="'k'"):
        karat.cube([tmp_path / "0.parquet", tmp_path / "1.parquet"], target="y", by="k")
    with pytest.raises(InputError, match="not the same number"):
        made([0.1]).replace(rows(np.array([0.1], dtype=np.float32), 1))
    with pytest.raises(InputError, match="not the same number"):
        made(np.array([0.1], dtype=np.float32)).update(rows([0.1], 1))
    assert len(made([0.5]).replace(rows(np.array([0.5, 0.1], dtype=np.float32), 1))) == 2
    assert made(np.array([0.1], dtype=np.float32)).select(k=0.1).n_rows == 10


@pytest.mark.parametrize(
    "labels",
    [["a", "a\0"], ["a", 1], [(1, 2), (3, 4)], pd.period_range("2026-01", periods=2, freq="M")],
    ids=["NUL", "mixed", "tuples", "periods"],
)
def test_what_cannot_label_cells(labels):
    with pytest.raises(InputError):
        made(labels)
    with pytest.raises(InputError):
        made(["b"]).update(rows(labels, 1))


def test_text_that_is_not_unicode():
    frame = rows([1, 2]).drop(columns="k")
    frame["k"] = pd.Series(["a", "\ud800"] * 10, dtype=object)
    with pytest.raises(InputError, match="not Unicode"):
        karat.cube(frame, target="y", by="k")


def test_columns_of_one_name():
    frame = rows([1, 2])
    with pytest.raises(InputError, match="several columns named 'a'"):
        karat.cube(pd.concat([frame, frame[["a"]]], axis=1), target="y", by="k")


def test_selections():
    days = pd.date_range("2026-01-01", periods=3)
    dates, numbers, text = made(days), made([1, 2, 3]), made(["a", "b"])
    for labels in (days[:2], pd.Series(days[:2]), days[:2].to_numpy(), list(days[:2].date)):
        assert dates.select(k=labels).n_rows == 20
    assert numbers.select(k=pd.Series([1, 2])).n_rows == 20
    assert numbers.select(k=pd.Index([1])).n_rows == 10
    assert text.select(k=pd.Series(["a"])).n_rows == 10
    assert text.select(k=np.array("a")).n_rows == 10
    for cube in (dates, numbers, text):
        for wrong in (
            None,
            {"a": 1},
            (i for i in (1, 2)),
            [None],
            b"a",
            object(),
            "a\0",
            slice({}, None),
            [[1]],
        ):
            with pytest.raises(InputError):
                cube.select(k=wrong)
    for wrong in (dt.date(2026, 1, 1), np.datetime64("2026-01-01"), "1"):
        with pytest.raises(InputError, match="labels are numbers"):
            numbers.select(k=wrong)
    for wrong in ("NaT", "", "today", "now", 5, 2.5, np.datetime64("NaT"), pd.NaT, "2026-13"):
        with pytest.raises(InputError, match="not a date"):
            dates.select(k=wrong)
