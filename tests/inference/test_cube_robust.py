"""HC0 and HC1 of slices, roll-ups, windows and merges of a cube with ``cov=``, against all rows in
long double.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import karat
from karat.core.synthetic import REAL
from karat.cubes.file import pack_cube
from karat.engine.fourth_moments import FourthSums
from karat.errors import DamagedFileError, InputError, NotExactError

smf = pytest.importorskip("statsmodels.formula.api")
ols = pytest.importorskip("karat.inference").ols

BY = ["g", "t"]
FORMULAS = [
    "y ~ a + b + c",
    "y ~ b",
    "c ~ a + y",
    "y ~ 0 + a + b",
    "y ~ a + C(g)",
    "y ~ a * C(g) + t",
    "y ~ b + C(g):c + np.log(t + 1)",
]


def rows_of(seed, n=1500):
    """Rows of unequal cells, some of a single row, some with a constant column; and their names."""
    rng = np.random.default_rng(seed)
    offset = float(rng.choice([0.0, 1.0, 1e4, 1e6]))
    kappa = float(rng.choice([1.0, 1e2, 1e4])) if offset < 1e6 else 1.0
    noise = float(rng.choice([1.0, 1.0, 1e-3]))
    g = rng.choice(4, n, p=[0.6, 0.25, 0.149, 0.001]) if n > 500 else rng.integers(0, 2, n)
    t = np.minimum(rng.geometric(0.3, n), 9) + 2000
    a, b, c = rng.standard_t(rng.choice([3, 30]), (3, n))
    b = a + b / kappa
    c = np.where(g == 1, rng.integers(0, 2), c)
    e = rng.standard_normal(n) * (0.2 + np.abs(a)) * (1 + (g == 1))
    columns = {"a": a + offset, "b": b * rng.choice([1, 1e-3]) + offset, "c": c - offset}
    y = a - 2 * columns["b"] + (g + 1) * c + (t - 2000) / 5 + noise * e
    w = rng.integers(1, 4, n) if rng.random() < 0.3 else np.ones(n, dtype=int)
    labels = {"g": np.array(["p", "q", "r", "s"])[g], "t": t}
    frame = pd.DataFrame(labels | columns | {"y": y, "w": w})
    return frame if rng.random() < 0.5 else frame.sort_values(BY, kind="stable")


def errors_of(frame, formula):
    """HC0 errors in long double, the names of the columns and the condition of these, or None
    where they are collinear.
    """
    model = smf.ols(formula, frame)
    X, y = model.exog.astype(np.longdouble), model.endog.astype(np.longdouble)
    u = frame.w.to_numpy().astype(np.longdouble)
    first = int(model.exog_names[0] == "Intercept")
    shift = np.where(np.arange(X.shape[1]) < first, 0, u @ X / u.sum()) * first
    centred = X - shift
    r = np.linalg.qr((np.sqrt(u)[:, None] * centred).astype(float), mode="r")
    sizes = np.linalg.norm(r, axis=0)
    if len(frame) < 4 * X.shape[1] or not np.abs(np.diag(r)).min() > 1e-9 * sizes.max():
        return None
    if np.linalg.cond(r / sizes) > 1e7:
        return None
    turn = np.linalg.inv(r).astype(np.longdouble)
    Z, rest, gram = centred @ turn, y - first * (u @ y) / u.sum(), None
    gram = Z.T @ (u[:, None] * Z)
    inverse = np.linalg.inv(gram.astype(float))
    for _ in range(4):
        rest = rest - Z @ (inverse @ (Z.T @ (u * rest)))
    middle = inverse @ (Z.T @ ((u * rest**2)[:, None] * Z)) @ inverse
    back = np.eye(len(r), dtype=np.longdouble)
    back[0] -= shift
    root = back @ turn
    n, k = u.sum(), len(r)
    hc0 = np.sqrt(np.einsum("ij,jk,ik->i", root, middle, root))
    return model.exog_names, hc0, hc0 * np.sqrt(n / (n - k)), float(np.linalg.cond(r / sizes))


def agrees(data, frame, formula):
    """Whether a table could be compared; raises if it differs.  A table may be refused where
    columns are so nearly collinear that all rows would not give nine digits, either.
    """
    wanted = errors_of(frame, formula)
    if wanted is None:
        return False
    names, hc0, hc1, condition = wanted
    try:
        fit = ols(formula, data, cov_type=["HC1", "nonrobust"])
    except NotExactError:
        assert condition > 3e5, (formula, condition)
        return False
    assert list(fit.params.index) == list(names)
    allowed = max(1e-9, fit.rounding)
    assert np.abs(fit.bse / hc1 - 1).max() <= allowed, (formula, fit.rounding)
    assert np.abs(fit.HC0_se / hc0 - 1).max() <= allowed
    return True


def compared(seed, tmp_path):
    """Compare the tables of a random cube; how many there were."""
    rng, frame = np.random.default_rng(seed + 10**6), rows_of(seed)
    options = {"target": "y", "by": BY, "columns": ["a", "b", "c"], "sample_weight": "w"}
    options |= {"cov": "HC1", "content": False}
    options |= {"rows": "real"} if seed % 5 == 4 else {}
    pieces = np.array_split(rng.permutation(len(frame)) if seed % 2 else np.arange(len(frame)), 3)
    first, second, third = (frame.iloc[piece] for piece in pieces)
    cube = karat.cube(first, **options)
    cube.update(second, content=False)
    cube.merge(karat.cube(third, **options))
    if seed % 3 == 0:
        cube.save(tmp_path / "cube.parquet")
        cube = karat.Cube.load(tmp_path / "cube.parquet")
    formula, plain = rng.choice(FORMULAS), str(rng.choice(FORMULAS[:4]))
    count = int(agrees(cube, frame, str(formula)))
    chosen = ["p", "r"] if seed % 2 else ["p"]
    part = frame[frame.g.isin(chosen) & (frame.t >= 2002)]
    selection = {"g": chosen, "t": slice(2002, None)}
    count += agrees(cube.select(selection, reduce=bool(seed % 3)), part, plain)
    count += agrees(cube.rollup("g"), frame, "y ~ a * C(g) + b")
    for last, core in cube.rolling("t", 3):
        count += agrees(core, frame[(frame.t > last - 3) & (frame.t <= last)], plain)
    notes = [n for each in cube.verify(frame).cube.cells.certificates for n in each.notes]
    assert not any("HC0" in note for note in notes)
    return count


@pytest.mark.parametrize("seed", range(6))
def test_random_cubes(seed, tmp_path):
    assert compared(seed, tmp_path) >= 3


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_random_cubes(seed, tmp_path):
    assert compared(seed, tmp_path) >= 3


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 3000
    region, year = rng.choice(["AP", "EU", "US"], n), rng.integers(2019, 2024, n)
    x, z = rng.standard_normal((2, n)) + 50
    e = x + z + rng.standard_normal(n)
    y = 2 * x - e + (region == "EU") * x + 0.1 * year
    y += rng.standard_normal(n) * (1 + (year > 2021) * np.abs(x - 50))
    return pd.DataFrame({"region": region, "year": year, "x": x, "z": z, "e": e, "y": y})


def made(frame, **options):
    return karat.cube(frame, target="y", by=["region", "year"], cov="HC1", **options)


@pytest.fixture(scope="module")
def cube(frame):
    return made(frame)


def same(fit, frame, formula):
    wanted = smf.ols(formula, frame).fit(cov_type=fit.cov_type)
    np.testing.assert_allclose(fit.params, wanted.params, rtol=1e-9)
    np.testing.assert_allclose(fit.bse, wanted.bse, rtol=1e-9)


def test_what_a_cube_stores_and_what_its_tables_have(frame, cube):
    assert cube.cov == "HC1"
    with pytest.warns(UserWarning, match="5 clusters"):
        fit = ols("y ~ x * C(region) + z", cube, cov_type=["HC1", "cluster"], cluster="year")
    same(fit, frame, "y ~ x * C(region) + z")
    same(fit.get_robustcov_results("HC0"), frame, "y ~ x * C(region) + z")
    with pytest.raises(NotExactError, match="which has nonrobust, HC0, HC1, cluster"):
        fit.get_robustcov_results("HC3")
    with pytest.raises(NotExactError, match="HC2 needs the leverage of every row"):
        ols("y ~ x", cube, cov_type="HC2")
    with pytest.raises(NotExactError, match="a cube that was made with cov='HC1'"):
        ols("y ~ x", karat.cube(frame, target="y", by="region"), cov_type="HC1")


def test_submodels_responses_and_instruments(frame, cube):
    whole = ols("y ~ x * region + z + e", cube, cov_type="HC1", submodels=True)
    same(whole.submodel("y ~ x + e", cov_type="HC1"), frame, "y ~ x + e")
    for name, fit in ols("y + e ~ x + region", cube, cov_type="HC1").items():
        same(fit, frame, f"{name} ~ x + region")
    formula = "y ~ C(region) + [e ~ z + C(region):x]"
    fits = [ols(formula, data, cov_type="HC1") for data in (cube, frame)]
    np.testing.assert_allclose(fits[0].bse, fits[1].bse, rtol=1e-9)
    first = [fit.first_stage[["f_statistic", "effective_f"]] for fit in fits]
    np.testing.assert_allclose(*first, rtol=1e-9)


def test_slices_are_coresets(frame, cube, tmp_path):
    parts = [cube.select(region=name) for name in ("EU", "US")]
    own = [frame[frame.region == name] for name in ("EU", "US")]
    same(ols("y ~ x + z", parts[0].merge(parts[1]), cov_type="HC1"), pd.concat(own), "y ~ x + z")
    for name in ("slice.npz", "slice.parquet"):
        parts[0].save(tmp_path / name)
        same(ols("z ~ x + y", karat.load(tmp_path / name), cov_type="HC1"), own[0], "z ~ x + y")
    plain = karat.cube(frame, target="y", by=["region", "year"]).select(region="AP")
    with pytest.raises(NotExactError, match="HC1 needs fourth moments"):
        ols("y ~ x", parts[0].merge(plain), cov_type="HC1")


def test_labels_that_are_features(frame):
    cube = karat.cube(
        frame, target="y", by=["region", "year"], columns=["year", "x", "z"], cov="HC0"
    )
    same(ols("y ~ x + year", cube, cov_type="HC0"), frame, "y ~ x + year")
    same(ols("y ~ x + year", cube.select(region="EU"), cov_type="HC0"),
         frame[frame.region == "EU"], "y ~ x + year")  # fmt: skip


def test_cells_that_are_reduced_several_times(frame):
    many = pd.concat([frame] * 80).reset_index(drop=True)
    many = many.assign(y=many.y + np.random.default_rng(1).standard_normal(len(many)))
    cube = karat.cube(many, target="y", by="region", cov="HC1", memory=10**6, content=False)
    same(ols("y ~ x + z", cube, cov_type="HC1"), many, "y ~ x + z")


def test_partitions(frame):
    dd = pytest.importorskip("dask.dataframe")
    cube = made(dd.from_pandas(frame, npartitions=3, sort=False))
    same(ols("y ~ x * C(region) + z", cube, cov_type="HC1"), frame, "y ~ x * C(region) + z")


def test_verify(frame, cube):
    assert cube.verify(frame).ok
    moments = cube.cells.fourth
    for spoilt in (
        FourthSums(moments.shift + 1e-6, moments.factor, moments.sums),
        FourthSums(moments.shift, moments.factor * (1 + 1e-8), moments.sums),
        FourthSums(moments.shift, moments.factor, moments.sums * (1 + 1e-8)),
    ):
        wrong = made(frame)
        chosen = FourthSums.joined([spoilt, moments]).chosen(np.r_[len(wrong) : 17, 2, 18:30])
        wrong.cells = replace(wrong.cells, fourth=chosen)
        found = wrong.verify(frame)
        assert [label["year"] for label in found.differ] == [2021]
        assert "HC0 and HC1 are not those of the rows" in str(found)


def test_files_with_and_without(frame, cube, tmp_path):
    plain = karat.cube(frame, target="y", by=["region", "year"])
    assert b"fourth" not in plain.to_bytes()
    assert b'"cov"' not in plain.to_bytes()
    cube.save(tmp_path / "cube.parquet", hashes="beside")
    loaded = karat.Cube.load(tmp_path / "cube.parquet")
    assert loaded.cov == "HC1"
    np.testing.assert_array_equal(loaded.cells.fourth.packed(), cube.cells.fourth.packed())
    again = karat.Cube.from_bytes(loaded.to_bytes())
    same(ols("y ~ x", again, cov_type="HC1"), frame, "y ~ x")
    lost = pack_cube(replace(cube.cells, fourth=None), cube.problem, cube.layout, cube.history)
    with pytest.raises(DamagedFileError, match="fourth moments are missing"):
        karat.Cube.from_bytes(lost)
    with pytest.raises(InputError, match="Only one of the cubes has the sums"):
        cube.merge(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cov": "HC3"}, "cov must be 'HC0' or 'HC1'"),
        ({"cov": "HC1", "problem": karat.problems.Mean(), "rows": REAL}, "gives none"),
        ({"cov": "HC1", "memory": 10**6, "columns": ["x", "z", "e"], "by": "k"}, "while they are"),
    ],
)
def test_what_is_refused(frame, options, message):
    target = None if "problem" in options else "y"
    data = frame[["region", "x", "z"]] if target is None else frame.assign(k=frame.index % 500)
    with pytest.raises(InputError, match=message):
        karat.cube(data, target=target, **{"by": "region"} | options)


def test_many_columns_and_large_numbers(frame):
    wide = pd.DataFrame(np.ones((50, 45)), columns=[f"c{i}" for i in range(45)]).assign(g="a")
    with pytest.raises(InputError, match="up to 40 columns, and there are 45"):
        karat.cube(wide, target="c0", by="g", cov="HC1")
    with pytest.raises(InputError, match="change the units"):
        made(frame.assign(x=frame.x * 1e145))
    exact = made(frame.assign(y=frame.x + 2 * frame.z))
    with pytest.raises(NotExactError, match="too few digits"):
        ols("y ~ x + z", exact, cov_type="HC1")
