"""Cubes of synthetic rows: d + 2 made rows a cell, with the second moments of its rows; real rows
where made ones are not exact.  The oracle is the full data of every cell.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cube.conftest import FEATURES, labelled_rows, proves, sales, slice_of
from cube.test_hostile import FEATURES as ABC
from cube.test_hostile import scales, tails
from cube.test_verify import BY, agrees, changed, label_of, proven, refuted
from sklearn.linear_model import Lasso, LinearRegression

import karat
from karat import InputError
from karat import problems as P


@pytest.fixture(scope="module")
def rows():
    return sales(6000, 8)


@pytest.fixture
def made(rows):
    return karat.cube(rows, target="y", by=BY, columns=FEATURES, key="id")


def test_cells_of_made_rows(made, rows):
    assert (made.rows, len(made)) == ("synthetic", 24)
    assert made.to_frame().synthetic.all()
    assert (made.cells.sizes == 5).all()
    assert "120 synthetic rows for 6,000 rows" in repr(made)
    assert agrees(made, rows)
    core = made.select(region="EU")
    assert (core.rows, core.indices, core.keys) == ("synthetic", None, None)
    assert "differential privacy" in str(core.certificate)
    proves(core, slice_of(rows, rows.region == "EU"))
    proven(made, rows.sample(frac=1.0, random_state=0), len(rows))
    with pytest.raises(InputError, match="no keys"):
        core.contains([1000])
    with pytest.raises(InputError, match="in column 'id'"):
        made.update(rows.iloc[:3])


def test_spoilt_cells_are_refuted(made, rows):
    cells, place = made.cells, 7
    some = slice(cells.starts[place], cells.starts[place + 1])
    weights = cells.weights.copy()
    weights[some][2] *= 1 + 1e-6
    refuted(changed(made, weights=weights), rows, differ=[label_of(made, place)])
    moved = [column.copy() for column in cells.columns]
    moved[1][some][0] += 1e-6
    refuted(changed(made, columns=tuple(moved)), rows, differ=[label_of(made, place)])
    own = np.flatnonzero((rows.region == "EU") & (rows.day == rows.day[0]))
    label = {"region": "EU", "day": rows.day[0].to_datetime64().astype("datetime64[D]")}
    found = refuted(made, rows.drop(index=rows.index[own[0]]), differ=[label])
    assert f"made of {len(own):,} rows" in str(found)


def test_few_rows_stay_and_say_so():
    """Up to d + 2 rows nothing is gained by making others."""
    rng = np.random.default_rng(0)
    sizes = np.arange(1, 15)
    frame = pd.DataFrame({"k": np.repeat(sizes, sizes), "a": rng.standard_normal(sizes.sum())})
    frame["b"], frame["y"] = rng.standard_normal((2, len(frame)))
    cube = karat.cube(frame, target="y", by="k")
    assert cube.cells.sizes.tolist() == [min(size, 4) for size in sizes]
    assert cube.to_frame().synthetic.tolist() == [size > 4 for size in sizes]
    assert "40 synthetic rows and 10 real rows (of 4 cells) for 105 rows" in repr(cube)
    core = cube.select()
    assert any("rows of the data" in note for note in core.certificate.notes)
    for one in (core, cube.select(reduce=True), cube.select(k=[1, 2, 14])):
        mine = frame if one.n_rows == len(frame) else frame[frame.k.isin([1, 2, 14])]
        assert one.verify(mine[["a", "b"]], mine.y).ok
    proven(cube, frame, len(frame))
    assert (
        karat.cube(frame[:1], target="y", by="k").describe() == "1 real row (of 1 cell) for 1 row"
    )
    assert cube.drop(k=slice(1, 4)).describe() == "40 synthetic rows for 95 rows"


@pytest.mark.parametrize("data", [tails(300, 0), tails(40, 1, power=0.1), scales(200, 0)])
@pytest.mark.parametrize("weight", [None, "w"])
def test_cells_that_cannot_be_made_keep_real_rows(data, weight):
    cube = karat.cube(data, target="y", by="k", columns=ABC, sample_weight=weight)
    assert cube.to_frame().ok.all()
    kept = ~cube.to_frame().synthetic
    assert ("real rows" in repr(cube)) == kept.any()
    proven(cube, data.sample(frac=1.0, random_state=0), len(data))
    loaded = karat.Cube.from_bytes(cube.to_bytes())
    assert loaded.cells.certificates == cube.cells.certificates
    proven(loaded.rollup(), data, len(data))


def test_wild_rows_and_digits_that_doubles_do_not_have():
    """A sentinel in one cell, a column that differs by an ulp in another."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((900, 3)), columns=["a", "b", "y"])
    frame["k"] = np.repeat(["sane", "ulps", "wild"], 300)
    frame.loc[frame.index[310], "a"] = 0.0
    frame.loc[frame.k == "ulps", "b"] = 1.0 + rng.integers(0, 2, 300) * np.finfo(float).eps
    frame.loc[frame.index[700], "a"] = 1e12
    cube = karat.cube(frame, target="y", by="k")
    table = cube.to_frame().set_index("k")
    assert table.ok.all()
    assert table.synthetic.to_dict() == {"sane": True, "ulps": False, "wild": False}
    assert cube.certificate(k="wild").peeled
    proven(cube, frame, 900)
    for name in ("wild", "ulps"):
        mine = frame[frame.k.isin(["sane", name])].sort_values("k", kind="stable")
        core = cube.select(k=["sane", name], reduce=True)
        assert core.verify(mine[["a", "b"]], mine.y).ok


@pytest.mark.parametrize(
    ("problem", "target"),
    [
        (P.LeastSquares(fit_intercept=False), "y"),
        (P.Ridge(2.0), "y"),
        (P.Ridge(2.0), ["y", "price"]),
        (P.Moments(2), None),
        (P.Mean(), None),
        (P.LpRegression(2), "y"),
    ],
)
def test_every_problem_of_degree_two(rows, problem, target):
    """Cells of few rows keep real ones; these and made ones add up for every affine form."""
    few = pd.concat([rows[rows.region != "AP"], rows[rows.region == "AP"].iloc[:4]])
    columns = ["size", "count"]
    cube = karat.cube(few, target=target, by="region", columns=columns, problem=problem)
    assert cube.to_frame().synthetic.tolist() == [target is None, True, True]
    proven(cube, few, len(few))
    assert agrees(cube, few)
    everything = cube.select(reduce=True)
    assert everything.verify(few[columns], None if target is None else few[target]).ok
    names = [*columns, *([] if target is None else np.atleast_1d(target))]
    full = np.column_stack([np.ones(len(few)), few[names]])
    y = () if everything.y is None else (np.asarray(everything.y),)
    y = (np.column_stack([everything.y[name] for name in target]),) if len(names) == 4 else y
    kept = np.column_stack([np.ones(len(everything)), *(everything.X[n] for n in columns), *y])
    np.testing.assert_allclose(
        (kept.T * everything.weights) @ kept, full.T @ full, rtol=1e-10, atol=1e-8
    )


def test_losses_of_higher_degree_keep_real_rows(rows):
    assert karat.cube(rows, "y", "region", P.LpRegression(4), columns=["size"]).rows == "real"
    with pytest.raises(InputError, match="squared losses only"):
        karat.cube(rows, "y", "region", P.LpRegression(4), columns=["size"], rows="synthetic")
    with pytest.raises(InputError, match="'real' or 'synthetic'"):
        karat.cube(rows, "y", "region", columns=["size"], rows="fake")


def test_integers_beyond_doubles():
    """Made rows cannot hold them: by default cells keep real rows; a cube of made rows refuses."""
    rng = np.random.default_rng(0)
    frame = labelled_rows([1, 2], each=200).assign(t=2**60 + rng.permutation(400))
    cube = karat.cube(frame, target="y", by="k", columns=["a", "t"], key="t")
    assert (cube.rows, cube.select().X.schema.field("t").type) == ("real", "int64")
    assert cube.select().contains(cube.cells.keys).all()
    assert cube.verify(frame).ok
    with pytest.raises(InputError, match=r"'t' has integers beyond 2\*\*53.*rows='real'"):
        karat.cube(frame, target="y", by="k", columns=["a", "t"], rows="synthetic")
    small = frame.assign(t=frame.t - 2**60)
    made = karat.cube(small, target="y", by="k", columns=["a", "t"])
    assert made.rows == "synthetic"
    with pytest.raises(InputError, match=r"'t' has integers beyond 2\*\*53"):
        made.update(frame)
    assert made.update(small.assign(a=small.a + 1)).select().n_rows == 800


def test_constant_and_collinear_columns(rows):
    frame = rows.assign(one=1.0, twice=rows["size"] * 2, flag=(rows.region == "EU").astype(int))
    columns = ["size", "one", "twice", "flag"]
    cube = karat.cube(frame, target="y", by="region", columns=columns)
    assert cube.to_frame().ok.all()
    assert agrees(cube, frame)
    proven(cube, frame, len(frame))
    core = cube.select(reduce=True)
    assert core.verify(frame[columns], frame.y).ok


def test_a_lasso_of_a_slice_is_that_of_its_rows(rows, made, tmp_path):
    made.save(tmp_path / "cube.parquet")
    loaded = karat.Cube.load(tmp_path / "cube.parquet")
    assert (loaded.rows, loaded.layout) == ("synthetic", made.layout)
    mine = rows[rows.region == "EU"]
    for cube in (made, loaded):
        for reduce in (False, True):
            core = cube.select(region="EU", reduce=reduce)
            fit = core.fit(Lasso(0.05, tol=1e-14, max_iter=10**6))
            full = Lasso(0.05, tol=1e-14, max_iter=10**6).fit(mine[FEATURES], mine.y)
            np.testing.assert_allclose(fit.coef_, full.coef_, rtol=1e-9)
    fit, full = made.fit(LinearRegression())[()], LinearRegression().fit(rows[FEATURES], rows.y)
    np.testing.assert_allclose(fit.coef_, full.coef_, rtol=1e-10)


def test_old_cubes_keep_their_kind():
    """Files of 0.2.0 do not say what their rows are: they are real, and stay so."""
    path = Path(__file__).parents[1] / "golden" / "files_0_2_0" / "cube_least_squares.parquet"
    old = karat.Cube.from_bytes(path.read_bytes())
    assert (old.rows, old.cells.made.any()) == ("real", False)
    assert "synthetic" not in repr(old)
    rolled = old.rollup()
    assert (rolled.rows, rolled.cells.made.any()) == ("real", False)


def test_standard_errors_are_not_said_of_the_last_target_only(rows):
    two = karat.cube(rows, target=["y", "price"], by="region", columns=["size"])
    assert two.certificate(region="EU").standard_errors is None
    one = karat.cube(rows, target="y", by="region", columns=["size"])
    assert one.certificate(region="EU").standard_errors is not None
