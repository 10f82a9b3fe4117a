"""Cubes: every slice is exact, whatever the rows came from; the oracle is the full data of the
slice.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cube.conftest import FEATURES, proves, sales, slice_of
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import karat
from karat import InputError, NotExactError
from karat import problems as P


def test_slices_are_exact(cube, frame):
    assert len(cube) == 60
    everything = slice_of(frame, np.ones(len(frame), dtype=bool))
    proves(cube.select(), everything)
    proves(cube.select(reduce=True), everything)
    some = slice_of(
        frame, (frame.region == "EU") & (frame.day >= "2026-01-25") & (frame.day <= "2026-02-03")
    )
    for reduce in (False, True):
        core = cube.select(region="EU", day=slice("2026-01-25", "2026-02-03"), reduce=reduce)
        proves(core, some)
        if cube.rows == "real":
            np.testing.assert_array_equal(core.keys, some.id.to_numpy()[core.indices])
        few = 15 if cube.rows == "real" else 5
        assert len(core) == (few if reduce else 10 * few)
    proves(
        cube.select(region=["US", "AP"], day="2026-02"),
        slice_of(frame, (frame.region != "EU") & (frame.day >= "2026-02-01")),
    )
    proves(
        cube.select({"day": slice(None, "2026-01-22")}), slice_of(frame, frame.day <= "2026-01-22")
    )
    proves(
        cube.select(region="AP", day=pd.Timestamp("2026-02-01")),
        slice_of(frame, (frame.region == "AP") & (frame.day == "2026-02-01")),
    )


def test_slices_merge_but_no_cell_twice(cube, frame, tmp_path):
    first, second = cube.select(region="AP"), cube.select(region=["EU", "US"], reduce=True)
    first.save(tmp_path / "first.parquet")
    proves(
        karat.load(tmp_path / "first.parquet").merge(second),
        slice_of(frame, np.ones(len(frame), dtype=bool)),
    )
    with pytest.raises(InputError, match="count twice"):
        second.merge(cube.select(region="EU", day="2026-01-25"))


@pytest.mark.parametrize("cube", ["real"], indirect=True)
def test_kept_rows_have_their_own_types_and_values(cube, frame):
    core = cube.select(region="US")
    assert core.X.column_names == FEATURES
    assert core.X.schema.field("count").type == pa.int64()
    by_key = frame.set_index("id").loc[core.keys]
    for name in FEATURES:
        np.testing.assert_array_equal(core.X[name].to_numpy(), by_key[name])
    assert core.contains(core.keys).all()
    assert not core.contains([-1])[0]
    with pytest.raises(InputError, match="not like 'x'"):
        core.contains("x")
    with pytest.raises(InputError, match="no keys"):
        karat.coreset(frame[FEATURES], frame.y).contains([1])


@pytest.mark.parametrize("memory", [10**9, 10**6])
@pytest.mark.parametrize("order", ["random", "sorted"])
def test_files_and_little_memory(frame, tmp_path, memory, order):
    """With little memory rows are folded many times."""
    many = sales(260_000, 30, seed=5)
    many = many.sort_values("day", kind="stable") if order == "sorted" else many
    for i in range(4):
        pq.write_table(
            pa.Table.from_pandas(many.iloc[i * 65_000 : (i + 1) * 65_000]),
            tmp_path / f"part-{i}.parquet",
        )
    cube = karat.cube(
        tmp_path, target="y", by=["region", "day"], columns=FEATURES, key="id", memory=memory
    )
    proves(cube.select(region="EU"), slice_of(many, many.region == "EU"))
    assert cube.cells.counts.sum() == len(many)
    assert cube.to_frame().ok.all()
    assert cube.to_frame().loss_error.max() < 1e-10


@pytest.mark.parametrize("rows", ["real", "synthetic"])
def test_rows_of_a_cell_in_many_folds(rows):
    """Weights of zero count in the numbers of rows; a label of rows of weight zero alone, in some
    folds, is a cell like any other.
    """
    many = sales(310_000, 2, seed=6)
    many.loc[::9, "units"] = 0.0
    many.loc[(many.region == "US") & (many.index < 220_000), "units"] = 0.0
    cube = karat.cube(
        pa.Table.from_pandas(many).to_reader(45_000),
        target="y",
        by=["region", "day"],
        columns=FEATURES,
        sample_weight="units",
        key="id",
        rows=rows,
        memory=10**6,
    )
    everything = slice_of(many, np.ones(len(many), dtype=bool))
    core = cube.select()
    proves(core, everything, everything.units)
    np.testing.assert_array_equal(cube.cells.counts, many.groupby(["region", "day"]).size())
    if rows == "real":
        np.testing.assert_array_equal(core.keys, everything.id.to_numpy()[core.indices])
        kept = everything.iloc[core.indices]
        assert (kept.units > 0).all()
        for name in FEATURES:
            np.testing.assert_array_equal(core.X[name].to_numpy(), kept[name])


def sources(frame, tmp_path):
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    yield frame
    yield pl.from_pandas(frame)
    yield pl.from_pandas(frame).lazy()
    yield pa.Table.from_pandas(frame)
    yield path
    yield pa.Table.from_pandas(frame).to_reader(1000)
    yield karat.io.query(f"SELECT * FROM '{path}'")


@pytest.mark.parametrize("i", range(7))
def test_every_source_gives_the_same_cells(frame, tmp_path, i):
    small = frame.iloc[:6000]
    data = list(sources(small, tmp_path))[i]
    cube = karat.cube(data, target="y", by=["region", "day"], columns=FEATURES)
    proves(cube.select(day="2026-02-02"), slice_of(small, small.day == "2026-02-02"))
    assert cube.cells.labels[1].dtype == np.dtype("datetime64[D]")
    assert list(cube.labels("region")) == ["AP", "EU", "US"]


def test_weights_and_missing_values(frame):
    rows = frame.assign(units=np.where(frame.id % 7 == 0, 0.0, frame.units))
    rows.loc[5, "price"] = np.nan
    cube = karat.cube(
        rows,
        target="y",
        by=["region", "day"],
        columns=FEATURES,
        sample_weight="units",
        on_missing="drop",
        key="id",
    )
    used = slice_of(rows, rows.price.notna() & (rows.region == "EU"))
    proves(cube.select(region="EU"), used, used.units)
    assert cube.history[0]["dropped"]["missing"] == 1
    with pytest.raises(InputError, match=r"column 'price' has no value"):
        karat.cube(rows, target="y", by="region", columns=FEATURES)
    nothing = frame.assign(units=np.where(frame.region == "EU", 0.0, 1.0))
    with pytest.raises(InputError, match="Cell region=EU has no row of positive weight"):
        karat.cube(nothing, target="y", by="region", columns=FEATURES, sample_weight="units")


@pytest.mark.parametrize(
    "problem",
    [
        P.LeastSquares(fit_intercept=False),
        P.Ridge(2.0),
        P.LpRegression(4),
        P.Moments(2),
        P.Moments(3),
    ],
)
def test_other_problems(frame, problem):
    small = frame.iloc[:4000]
    target = None if isinstance(problem, P.Moments) else "y"
    cube = karat.cube(small, target=target, by="region", problem=problem, columns=FEATURES)
    rows = small[small.region != "US"].sort_values("region", kind="stable")
    for reduce in (False, True):
        core = cube.select(region=["AP", "EU"], reduce=reduce)
        assert core.verify(rows[FEATURES], None if target is None else rows.y).ok
    with pytest.raises((NotExactError, InputError)):
        karat.cube(small, by="region", problem=P.ICA(2), columns=FEATURES)


def test_small_cells_and_large_numbers():
    """Cells of a row, and identifiers beyond 2^53 as a feature."""
    rng = np.random.default_rng(2)
    n = 400
    frame = pd.DataFrame(
        {
            "a": rng.standard_normal(n),
            "t": 10**18 + rng.integers(0, 10**6, n),
            "y": rng.standard_normal(n),
        }
    )
    frame["cell"] = np.minimum(np.arange(n), 50)
    cube = karat.cube(frame, target="y", by="cell", columns=["a", "t"])
    assert len(cube) == 51
    core = cube.select()
    assert core.verify(frame[["a", "t"]], frame.y).ok
    assert cube.select(reduce=True).verify(frame[["a", "t"]], frame.y).ok
    assert core.X.schema.field("t").type == pa.int64()


def test_fits_by_label(cube, frame):
    fits = cube.fit(LinearRegression(), by="region")
    assert list(fits) == ["AP", "EU", "US"]
    for region in fits:
        rows = frame[frame.region == region]
        full = LinearRegression().fit(rows[FEATURES], rows.y)
        np.testing.assert_allclose(fits[region].coef_, full.coef_, rtol=1e-11)
    tidy = fits.coefficients
    assert list(tidy.columns) == ["region", "rows", "term", "coefficient"]
    assert len(tidy) == 12
    assert tidy[tidy.term == "size"].coefficient.to_list() == [fits[r].coef_[0] for r in fits]
    np.testing.assert_array_equal(fits.table("price"), [fits[r].coef_[1] for r in fits])
    by_both = cube.fit(Ridge(1.0), by=["day", "region"], day=slice("2026-02-01", None))
    assert len(by_both) == 8 * 3
    rows = frame[(frame.region == "EU") & (frame.day == "2026-02-03")]
    np.testing.assert_allclose(
        by_both["2026-02-03", "EU"].coef_, Ridge(1.0).fit(rows[FEATURES], rows.y).coef_, rtol=1e-10
    )
    one = cube.fit(Lasso(0.01, tol=1e-14, max_iter=10**6))[()]
    full = Lasso(0.01, tol=1e-14, max_iter=10**6).fit(frame[FEATURES], frame.y)
    np.testing.assert_allclose(one.coef_, full.coef_, rtol=1e-9)
    piped = cube.fit(make_pipeline(StandardScaler(), LinearRegression()), by="region")
    assert set(piped.coefficients.term) == {"intercept", *FEATURES}
    with pytest.raises(KeyError):
        fits["XX"]
    with pytest.raises(NotExactError):
        cube.fit(RandomForestRegressor(), by="region")


def test_several_targets(frame):
    rows = frame.assign(z=frame.y * 2 + frame.price)
    cube = karat.cube(rows, target=["y", "z"], by="region", columns=FEATURES)
    fits = cube.fit(LinearRegression(), by="region")
    full = LinearRegression().fit(
        rows[rows.region == "EU"][FEATURES], rows[rows.region == "EU"][["y", "z"]]
    )
    np.testing.assert_allclose(fits["EU"].coef_, full.coef_, rtol=1e-10)
    assert list(fits.coefficients.columns) == ["region", "rows", "target", "term", "coefficient"]
    with pytest.raises(InputError, match="one target"):
        cube.compare({"region": "EU"}, {"region": "US"})


def test_labels_of_every_kind(frame):
    rows = frame.iloc[:3000]
    rows = rows.assign(
        whole=rows.id % 3, part=(rows.id % 2) / 4, flag=rows.id % 2 == 0,
        moment=rows.day + pd.to_timedelta(rows.id % 2, "h"), kind=pd.Categorical(rows.region),
    )  # fmt: skip
    for name, label in (
        ("whole", 2),
        ("part", 0.25),
        ("flag", True),
        ("kind", "EU"),
        ("moment", "2026-01-21T01"),
    ):
        cube = karat.cube(rows, target="y", by=name, columns=FEATURES)
        wanted = rows.moment == pd.Timestamp(label) if name == "moment" else rows[name] == label
        assert cube.select({name: label}).n_rows == wanted.sum()
        again = karat.Cube.from_bytes(cube.to_bytes())
        assert again.select({name: label}).n_rows == wanted.sum()
        assert again.cells.labels[0].dtype == cube.cells.labels[0].dtype


def test_what_is_refused(cube, frame):
    for selection, words in (
        ({"regoin": "EU"}, "did you mean 'region'"),
        ({"region": "EX"}, "No cell has region='EX'; there are AP, EU, US"),
        ({"region": 3}, "labels are text"),
        ({"day": "yesterday"}, "not a date"),
        ({"day": slice("2027-01-01", None)}, "There is no cell with day"),
        ({"day": slice("2026-01-01", None, 2)}, "no step"),
    ):
        with pytest.raises(InputError, match=words):
            cube.select(selection)
    for arguments, words in (
        ({"by": []}, "by must name"),
        ({"by": ["region", "region"]}, "each once"),
        ({"by": "y"}, "labels cells, so it cannot be the target"),
        ({"by": "nothing"}, "no column 'nothing'"),
        ({"by": "region", "columns": ["size", "region"]}, "not numeric"),
        ({"by": "region", "memory": 3}, "memory must be"),
        ({"by": "region", "on_missing": "guess"}, "on_missing must be"),
    ):
        with pytest.raises(InputError, match=words):
            karat.cube(frame, target="y", **({"columns": FEATURES} | arguments))
    with pytest.raises(InputError, match="label 'month'"):
        cube.fit(LinearRegression(), by="month")
    with pytest.raises(InputError, match="absorb"):
        karat.cube(
            frame, target="y", by="region", columns=FEATURES, problem=P.Ridge(1e9, absorb="box")
        )
    gaps = frame.assign(region=frame.region.where(frame.id != 1005))
    with pytest.raises(InputError, match=r"row 5.*column 'region' has no value"):
        karat.cube(gaps, target="y", by="region", columns=FEATURES)


def test_slices_that_share_cells_are_not_compared():
    cube = karat.cube(sales(900, 3), target="y", by=["region", "day"], columns=FEATURES)
    regions = sorted(set(cube.to_frame()["region"]))
    assert cube.compare({"region": regions[0]}, {"region": regions[1:]})
    for second in ({"region": regions[0]}, {"region": regions}):
        with pytest.raises(InputError, match="share"):
            cube.compare({"region": regions[0]}, second)
