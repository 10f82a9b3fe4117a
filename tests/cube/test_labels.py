"""One label is that label or an error: models by label, names of labels, selections, arguments of
another type.
"""

import copy
import datetime as dt

import numpy as np
import pandas as pd
import pytest
from cube.conftest import labelled_rows
from sklearn.linear_model import LinearRegression

import karat
from karat import InputError

DAYS = pd.date_range("2026-02-25", periods=10)
TIMES = pd.date_range("2026-02-25", periods=10, freq="7h")


def fits_of(labels):
    return karat.cube(labelled_rows(labels), target="y", by="k").fit(LinearRegression(), by="k")


@pytest.mark.parametrize(
    ("labels", "known", "wrong"),
    [
        (
            DAYS,
            [
                "2026-03-01",
                dt.date(2026, 3, 1),
                dt.datetime(2026, 3, 1),
                pd.Timestamp("2026-03-01"),
                np.datetime64("2026-03-01"),
            ],
            [
                "2026-03",
                "2026",
                np.datetime64("2026-03"),
                dt.datetime(2026, 3, 1, 5),
                "2026-03-01T05:00",
                "2026-04-01",
                "bad",
                "",
                "now",
                pd.NaT,
                pd.Timestamp("2026-03-01", tz="Europe/Paris"),
                1,
                pd.Timestamp("2026-03-01") + pd.Timedelta(1, "ns"),
            ],
        ),
        (
            TIMES,
            ["2026-02-25T07:00", "2026-02-25 07", dt.datetime(2026, 2, 25, 7)],
            ["2026-02-25", dt.date(2026, 2, 25), "2026-02"],
        ),
        (
            [1, 2, 3],
            [1, 1.0, np.int8(1), (1,)],
            [True, "1", 1.5, np.nan, None, (1, 2), [1], 2**70, 1 + 0j, {}],
        ),
        ([0.5, 1.0], [1, 1.0, np.float32(1)], [True, "1.0", 2**53 + 1, 10**400, np.nan, np.inf]),
        (["a", "b"], ["a", np.str_("a")], [("a", "b"), "A", b"a", None, "a\0", 1]),
        ([True, False], [True, np.True_], [1, 1.0, "True"]),
    ],
    ids=["days", "times", "whole", "float", "text", "bool"],
)
def test_models_by_label(labels, known, wrong):
    """Before, the model of "2026-03" was that of 1 March, and the one of ("a", "b") that of "a"."""
    fits = fits_of(labels)
    place = next(
        i
        for i, label in enumerate(fits)
        if str(label) in ("2026-03-01", "2026-02-25T07:00:00.000000", "1", "1.0", "a", "True")
    )
    for label in known:
        assert fits[label] is fits.models[place]
        assert label in fits
    for label in wrong:
        for error in (InputError, KeyError):
            with pytest.raises(error):
                fits[label]
        assert fits.get(label) is None
        assert label not in fits
    assert [fits[label] for label in fits] == list(fits.models)


def test_models_of_several_labels():
    frame = labelled_rows(DAYS).assign(r=lambda f: np.where(np.arange(len(f)) % 2, "EU", "US"))
    cube = karat.cube(frame, target="y", by=["r", "k"])
    fits = cube.fit(LinearRegression(), by=["r", "k"])
    assert [fits[label] for label in fits] == list(fits.models)
    assert fits["EU", "2026-03-01"] is fits[("EU", dt.date(2026, 3, 1))]
    for wrong in ("EU", ("EU", "2026-03"), ("EU", "2026-03-01", 1), ("2026-03-01", "EU"), ()):
        assert wrong not in fits
    everything = cube.fit(LinearRegression())
    assert everything[()] is everything.models[0]
    windows = cube.rolling("k", 3, by="r").fit(LinearRegression())
    assert ("US", "2026-02-28") in windows
    assert ("US", "2026-02-25") not in windows
    with pytest.raises(InputError, match="name one of them"):
        windows["US", "2026-02"]


NOT_NAMES = [None, 1, np.nan, "K", ["k", "k"], np.array([1, 2]), b"k", object()]
NOT_SELECTIONS = ["k", 1, [("k", 1)], slice(None), np.array([1, 2]), {"K": 1}, {1: 1}]


def test_arguments_of_another_type(tmp_path):
    cube = karat.cube(labelled_rows([1, 2, 3]), target="y", by="k")
    model = LinearRegression()
    for wrong in NOT_NAMES:
        for act in (
            cube.labels,
            cube.rollup,
            lambda n: cube.rolling(n, 2),
            lambda n: cube.fit(model, by=n),
        ):
            with pytest.raises(InputError):
                act(wrong)
    for wrong in NOT_SELECTIONS:
        for act in (
            cube.select, cube.certificate, lambda s: copy.copy(cube).drop(s),
            lambda s: cube.compare(s, {"k": 1}), lambda s: cube.compare({"k": 1}, s),
            lambda s: cube.fit(model, selection=s),
        ):  # fmt: skip
            with pytest.raises(InputError):
                act(wrong)
    with pytest.raises(InputError, match="given twice"):
        cube.select({"k": 1}, k=2)
    for wrong in (None, "ridge", LinearRegression, 5):
        for act in (cube.fit, cube.rolling("k", 2).fit):
            with pytest.raises(InputError, match="scikit-learn estimator"):
                act(wrong)
    for wrong in (None, "1e9", 1.5, True, 10):
        with pytest.raises(InputError, match="memory"):
            cube.update(labelled_rows([1], 7), memory=wrong)
    for act in (
        cube.save,
        karat.Cube.load,
        lambda p: karat.cube(labelled_rows([1]), target="y", by="k", path=p),
    ):
        with pytest.raises(InputError, match="path"):
            act(5)
    with pytest.raises(InputError, match="progress"):
        karat.cube(labelled_rows([1]), target="y", by="k", progress=5)
    with pytest.raises(InputError, match="by must name"):
        karat.cube(labelled_rows([1]), target="y", by=5)


def test_dates_of_other_centuries():
    """NumPy compares nanoseconds with dates of three centuries only."""
    early = [dt.date(1, 1, 1), dt.date(2026, 1, 1), dt.date(9000, 1, 1)]
    cube = karat.cube(labelled_rows(early), target="y", by="k")
    assert cube.select(k=pd.Timestamp("2026-01-01").as_unit("ns")).n_rows == 10
    assert cube.select(k=slice(pd.Timestamp("2025-01-01").as_unit("ns"), None)).n_rows == 20
    assert cube.select(k="9000").n_rows == 10
    assert cube.fit(LinearRegression(), by="k")["0001-01-01"] is not None


@pytest.mark.parametrize("name", ["rows", "weight", "ok", "kept", "term", "target", "coefficient"])
def test_labels_that_are_called_like_facts(name):
    """Before, a label "weight" was overwritten in the table of cells, and a label "term" broke that
    of coefficients.
    """
    frame = labelled_rows(["a", "b"]).rename(columns={"k": name})
    cube = karat.cube(frame, target="y", by=name, columns=["a"])
    assert cube.to_frame()[name].tolist() == ["a", "b"]
    assert len(cube.to_frame().columns) == 8
    fits = cube.fit(LinearRegression(), by=name)
    tidy = fits.coefficients
    assert tidy[name].tolist() == ["a", "a", "b", "b"]
    np.testing.assert_array_equal(
        tidy.iloc[:, -1], [m for one in fits.models for m in (one.intercept_, *one.coef_)]
    )


def test_a_cube_of_one_cell_changes():
    rows = labelled_rows([1, 2])
    cube = karat.cube(rows, target="y", by="k").rollup()
    cube.update(labelled_rows([3], seed=1))
    assert len(cube) == 1
    assert cube.select().n_rows == 30
    assert cube.replace(labelled_rows([4], seed=2)).select().n_rows == 10


def test_output_is_refused_before_rows_are_read(tmp_path):
    for path, error in (
        (tmp_path / "cube.csv", InputError),
        (tmp_path / "none" / "cube.parquet", karat.StorageError),
    ):
        with pytest.raises(error, match=r"cube\."):
            karat.cube(tmp_path / "no-such-data.parquet", target="y", by="k", path=path)


def test_many_columns_of_labels_are_told_apart():
    """Before, 300 labels in each of 8 columns were numbered beyond 64 bits, and rows came under
    labels that no row has.
    """
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {f"k{i}": rng.permutation(300) for i in range(8)} | {"x": rng.standard_normal(300)}
    )
    by = [f"k{i}" for i in range(8)]
    found = karat.cube(rows, by=by).to_frame()
    pd.testing.assert_frame_equal(found[by], rows[by].sort_values(by, ignore_index=True))
