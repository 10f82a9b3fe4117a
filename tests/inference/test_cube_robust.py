"""HC0 and HC1 of slices, roll-ups, windows and merges of a cube with ``cov=``, against all rows in
long double.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat
from karat.errors import InputError, NotExactError

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
