"""Tables from cubes and coresets, by the names of their columns, against statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat
from karat.errors import InputError, NotExactError

smf = pytest.importorskip("statsmodels.formula.api")
ols = pytest.importorskip("karat.inference").ols


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 6000
    region, year = rng.choice(["AP", "EU", "US"], n), rng.integers(2019, 2024, n)
    x, z = rng.standard_normal((2, n)) + 50
    e = x + z + rng.standard_normal(n)
    y = 2 * x - e + (region == "EU") * x + 0.1 * year + rng.standard_normal(n) * (1 + (year > 2021))
    return pd.DataFrame({"region": region, "year": year, "x": x, "z": z, "e": e, "y": y})


@pytest.fixture(scope="module")
def cube(frame):
    return karat.cube(frame, target="y", by=["region", "year"])


def same(fit, wanted):
    assert list(fit.params.index) == list(wanted.params.index)
    assert fit.nobs == wanted.nobs
    scale = np.asarray(wanted.bse)
    assert (np.abs(fit.params - wanted.params) < 1e-9 * scale).all()
    np.testing.assert_allclose(fit.bse, scale, rtol=1e-9)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + z",
        "y ~ 0 + x + e",
        "x ~ z + e",
        "y ~ x * C(region) + C(year)",
        "y ~ z + C(region):C(year):x + np.log(year - 2010)",
        "e ~ region + I(year - 2020):x",
    ],
)
def test_formulas_of_labels_and_columns(frame, cube, formula):
    fit = ols(formula, cube)
    same(fit, smf.ols(formula, frame).fit())
    assert fit.coreset.certificate.ok
    assert fit.coreset.certificate.n_rows == len(frame)


def test_clusters_that_are_labels(frame, cube):
    years = frame["year"]
    with pytest.warns(UserWarning, match="5 clusters"):
        fit = ols("y ~ x + z", cube, cov_type="cluster", cluster="year")
    wanted = smf.ols("y ~ x + z", frame).fit(cov_type="cluster", cov_kwds={"groups": years})
    same(fit, wanted)


def test_slices_and_coresets(frame, cube):
    chosen = frame[(frame["region"] == "EU") & (frame["year"] > 2020)]
    formula = "y ~ x + e"
    part = cube.select(region="EU", year=slice(2021, None))
    same(ols(formula, part), smf.ols(formula, chosen).fit())
    same(
        ols(formula, karat.coreset(frame[["x", "z", "e", "y"]], "y")), smf.ols(formula, frame).fit()
    )
    synthetic = karat.coreset(frame[["x", "z", "e", "y"]], "y", rows="synthetic")
    same(ols("e ~ x + z", synthetic), smf.ols("e ~ x + z", frame).fit())


def test_robust_errors_with_one_pass_over_the_data(frame, cube):
    fit = ols("y ~ x * C(region)", cube)
    robust = ols(fit.coreset, frame, cov_type=["HC1", "HC3"])
    same(robust, smf.ols("y ~ x * C(region)", frame).fit(cov_type="HC1"))


def test_instruments(frame, cube):
    formula = "y ~ C(region) + [e ~ z + C(region):x]"
    fit, whole = ols(formula, cube), ols(formula, frame)
    same(fit, whole)
    for test in ("sargan", "wu_hausman"):
        np.testing.assert_allclose(getattr(fit, test), getattr(whole, test), rtol=1e-8)


def test_dates_label_cells(frame):
    dated = frame.assign(day=pd.Timestamp("2024-02-28") + pd.to_timedelta(frame["year"], unit="D"))
    fit = ols("y ~ x + day", karat.cube(dated[["day", "x", "y"]], target="y", by="day"))
    wanted = ols("y ~ x + day", dated)
    same(fit, wanted)


def test_frequencies_count_rows(frame):
    times = np.random.default_rng(0).integers(1, 4, len(frame))
    cube = karat.cube(
        frame.assign(w=times), target="y", by="region", sample_weight="w", columns=["x"]
    )
    same(ols("y ~ x", cube), smf.ols("y ~ x", frame.loc[frame.index.repeat(times)]).fit())
    weighted = karat.cube(
        frame.assign(w=times / 7.3), target="y", by="region", sample_weight="w", columns=["x"]
    )
    with pytest.raises(InputError, match="do not count rows"):
        ols("y ~ x", weighted)


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("y ~ x:z", {}, r"'x:z' needs other moments"),
        ("y ~ np.log(x)", {}, r"'np.log\(x\)' needs other moments"),
        ("y ~ C(x)", {}, "needs other moments"),
        ("y ~ center(year)", {}, "depends on all rows"),
        ("np.log(y) ~ x", {}, "response .* is not a column that this cube keeps"),
        ("year ~ x", {}, "response 'year' is not a column"),
        ("y ~ x", {"cov_type": "HC1"}, "HC1 needs fourth moments"),
        ("y ~ x", {"cov_type": "cluster", "cluster": "z"}, "its labels"),
        ("y ~ x", {"weights": "z"}, "Remove weights="),
        ("y ~ x", {"frequencies": "z"}, "Remove weights="),
        ("y ~ x", {"residual_quantiles": True}, "need all rows"),
        ("y ~ nothing", {}, "nothing"),
    ],
)
def test_what_kept_rows_do_not_determine(cube, formula, options, message):
    with pytest.raises((InputError, NotExactError), match=message):
        ols(formula, cube, **options)


def test_means_that_are_not_kept(frame):
    cube = karat.cube(
        frame,
        target="y",
        by=["region", "year"],
        problem=karat.problems.LeastSquares(fit_intercept=False, total_weight=True),
    )
    with pytest.raises(NotExactError, match="without an intercept"):
        ols("y ~ x", cube)
    same(ols("y ~ 0 + C(region):x + z", cube), smf.ols("y ~ 0 + C(region):x + z", frame).fit())
    with pytest.raises(NotExactError, match="LeastSquares"):
        ols(
            "y ~ x",
            karat.cube(
                frame[["region", "x"]], by="region", problem=karat.problems.Mean(), rows="real"
            ),
        )


def test_the_jackknife_of_clusters_that_are_labels(frame, cube):
    with pytest.warns(UserWarning, match="5 clusters"):
        fit = ols("y ~ x + z", cube, cov_type="CR3", cluster="year")
    with pytest.warns(UserWarning, match="5 clusters"):
        whole = ols("y ~ x + z", frame, cov_type="CR3", cluster="year")
    same(fit, whole)
