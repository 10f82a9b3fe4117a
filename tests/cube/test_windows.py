"""Rolling windows and comparisons of slices, against all rows of them."""

import numpy as np
import pandas as pd
import pytest
from cube.conftest import FEATURES
from scipy import stats
from sklearn.linear_model import LinearRegression

import karat
from karat import InputError


@pytest.mark.parametrize("window", [1, 2, 7, 20])
def test_every_window_is_that_of_its_rows(cube, frame, window):
    fits = cube.rolling("day", window).fit(LinearRegression())
    days = np.unique(frame.day)
    assert len(fits) == len(days) - window + 1 == len(cube.rolling("day", window))
    for i in (0, len(fits) // 2, len(fits) - 1):
        rows = frame[(frame.day >= days[i]) & (frame.day <= days[i + window - 1])]
        full = LinearRegression().fit(rows[FEATURES], rows.y)
        mine = fits[pd.Timestamp(days[i + window - 1])]
        np.testing.assert_allclose(mine.coef_, full.coef_, rtol=1e-11)
        assert fits.rows[i] == len(rows)


def test_windows_are_proven_coresets(cube, frame):
    days = np.unique(frame.day)
    for i, (label, core) in enumerate(cube.rolling("day", 6)):
        rows = frame[(frame.day >= days[i]) & (frame.day <= days[i + 5])]
        assert label == days[i + 5].astype("datetime64[D]")
        assert core.certificate.ok
        assert core.n_rows == len(rows)
        X = np.column_stack([np.ones(len(rows)), rows[[*FEATURES, "y"]]])
        K = np.column_stack([np.ones(len(core)), *(core.X[name] for name in FEATURES), core.y])
        np.testing.assert_allclose((K.T * core.weights) @ K, X.T @ X, rtol=1e-11)


def test_windows_for_each_label(cube, frame):
    fits = cube.rolling("day", 5, by="region").fit(LinearRegression())
    assert len(fits) == 3 * 16
    rows = frame[(frame.region == "US") & (frame.day >= "2026-02-04")]
    np.testing.assert_allclose(
        fits["US", "2026-02-08"].coef_,
        LinearRegression().fit(rows[FEATURES], rows.y).coef_,
        rtol=1e-11,
    )
    with pytest.raises(InputError, match="fewer than a window"):
        cube.rolling("day", 21)
    with pytest.raises(InputError, match="remove it from by"):
        cube.rolling("day", 2, by="day")
    with pytest.raises(InputError, match="no label 'week'"):
        cube.rolling("week", 2)
    with pytest.raises(InputError, match="integer"):
        cube.rolling("day", 2.5)


def test_no_drift_over_many_windows():
    """The last of 1,000 windows is as exact as the first (benchmarks/cube.py: 20,000)."""
    rng = np.random.default_rng(1)
    steps = 1010
    frame = pd.DataFrame(
        {"a": rng.standard_normal(6 * steps) + 10, "step": np.repeat(np.arange(steps), 6)}
    )
    frame["y"] = 3 * frame.a + rng.standard_normal(len(frame))
    cube = karat.cube(frame, target="y", by="step")
    windows = cube.rolling("step", 11)
    found = list(windows)
    errors = [core.certificate.loss_error for _, core in found]
    assert len(errors) == 1000
    assert max(errors) < 1e-11
    assert max(errors[-300:]) < 3 * max(errors[:300])
    label, core = found[-1]
    rows = frame[frame.step > label - 11]
    shift = np.array([0.0, 10.0, 30.0])
    X = np.column_stack([np.ones(len(rows)), rows.a, rows.y]) - shift
    K = np.column_stack([np.ones(len(core)), core.X["a"], core.y]) - shift
    np.testing.assert_allclose(
        (K.T * core.weights) @ K, X.T @ X, rtol=1e-12, atol=1e-12 * len(rows)
    )


def test_chow(cube, frame):
    sm = pytest.importorskip("statsmodels.api")

    def ols(rows):
        return sm.OLS(rows.y, sm.add_constant(rows[FEATURES])).fit()

    for first, second in (("EU", "US"), ("EU", "AP")):
        a, b = frame[frame.region == first], frame[frame.region == second]
        one, two, both = ols(a), ols(b), ols(pd.concat([a, b]))
        k, free = 4, len(a) + len(b) - 8
        expected = (both.ssr - one.ssr - two.ssr) / k / ((one.ssr + two.ssr) / free)
        found = cube.compare({"region": first}, {"region": second})
        assert found.statistic == pytest.approx(expected, rel=1e-8)
        assert found.df == (k, free)
        assert found.pvalue == pytest.approx(stats.f.sf(expected, k, free), rel=1e-7)
        np.testing.assert_allclose(found.first, one.params, rtol=1e-10)
        np.testing.assert_allclose(found.second, two.params, rtol=1e-10)
        variance = (one.ssr + two.ssr) / free
        errors = np.sqrt(variance * np.diag(one.normalized_cov_params + two.normalized_cov_params))
        np.testing.assert_allclose(found.errors, errors, rtol=1e-9)
    assert "Chow test of" in str(found)
    assert list(found.coefficients.term) == ["intercept", *FEATURES]
    rows = frame.assign(price=np.where(frame.region == "EU", 1.0, frame.price))
    constant = karat.cube(rows, target="y", by="region", columns=FEATURES)
    with pytest.raises(InputError, match="constant in a slice"):
        constant.compare({"region": "EU"}, {"region": "US"})
    plain = karat.cube(frame, by="region", columns=FEATURES)
    with pytest.raises(InputError, match="needs a target"):
        plain.compare({"region": "EU"}, {"region": "US"})


@pytest.mark.parametrize("window", ["1D", "4 D", "2W", np.timedelta64(100, "h")])
@pytest.mark.parametrize("by", [(), "region"])
def test_windows_of_time_are_those_of_pandas(frame, window, by):
    """Days on which nothing happened; the oracle takes the rows of each window from the data."""
    gone = pd.to_datetime(["2026-01-22", "2026-01-23", "2026-01-24", "2026-02-03"])
    rows = frame[~frame.day.isin(gone) & ~((frame.region == "EU") & (frame.day < "2026-01-26"))]
    cube = karat.cube(rows, target="y", by=["region", "day"], columns=FEATURES)
    windows = cube.rolling("day", window, by=by)
    fits, seen = windows.fit(LinearRegression()), 0
    length = pd.Timedelta(window)
    for _, some in rows.groupby("region") if by else [((), rows)]:
        counts = some.groupby("day").size().rolling(length).sum()
        full = counts.index >= counts.index[0] + length - pd.Timedelta("1D")
        for day, count in counts[full].items():
            label = (some.region.iloc[0], day) if by else day
            inside = some[(some.day > day - length) & (some.day <= day)]
            assert fits.rows[seen] == len(inside) == count
            full_fit = LinearRegression().fit(inside[FEATURES], inside.y)
            np.testing.assert_allclose(fits[label].coef_, full_fit.coef_, rtol=1e-10)
            seen += 1
    assert seen == len(fits) == len(windows)


def test_windows_of_time_that_are_refused(cube, frame):
    for window, words in (
        ("28", "a duration in W, D, h, min or s"),
        ("1M", "a duration in W, D, h, min or s"),
        ("0D", "no length"),
        ("40D", "span less than a window of 40D"),
        ("99999999999999999999D", "a duration in W, D, h, min or s"),
        ("30500569W", "longer than times can be"),  # 16 hours, modulo 2**64 microseconds
        ("15000000W", "span less than a window"),
        (np.timedelta64(30500569, "W"), "longer than times can be"),
        (np.timedelta64(1, "M"), "no certain length"),
        (np.timedelta64(5), "no certain length"),
        (np.timedelta64("NaT", "D"), "no length"),
    ):
        with pytest.raises(InputError, match=words):
            cube.rolling("day", window)
    with pytest.raises(InputError, match="needs dates or times"):
        cube.rolling("region", "2D")
    merged = next(iter(cube.rolling("day", "3D")))[1]
    with pytest.raises(InputError, match="twice"):
        merged.merge(cube.select(day=cube.labels("day")[1]))
