"""Columns and responses whose mean is up to 6e13 times their spread, against long double.

Numbers far from zero are doubles, and so are their differences to one of them: the oracle computes
with the differences, which loses nothing, and only the intercept is another one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("statsmodels")
pytest.importorskip("formulaic")

from inference.instrument_cases import in_long_double, random_case
from inference.long_double import Fit

import karat
from karat.inference import ols

KINDS = ["nonrobust", "HC0", "HC2", "HC3", "cluster", "CR3"]
FAR = [1e9, 1e12, 6e13]


def sample(size, n=400, response=True):
    """A frame, and the same frame less ``size``."""
    rng = np.random.default_rng(int(size) % 97)
    x, z = rng.standard_normal((2, n))
    y = 2 * x + z + rng.standard_normal(n) * (1 + z**2)
    frame = pd.DataFrame({"x": x + size, "z": z, "y": y + size * response})
    near = frame.assign(x=frame["x"] - size, y=frame["y"] - size * response)
    others = {"g": rng.integers(0, 30, n), "w": rng.uniform(0.5, 2, n), "h": rng.integers(0, 3, n)}
    return frame.assign(**others), near.assign(**others)


def close(found, expected, size=0.0):
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert (np.abs(found - expected) <= 1e-9 * np.maximum(np.abs(expected), size)).all()


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("size", FAR)
def test_errors_tests_and_predictions(size, weights):
    frame, near = sample(size)
    options = {"weights": weights, "submodels": True, "residual_quantiles": True}
    fit = ols("y ~ x + z", frame, cov_type=KINDS, cluster="g", use_t=True, **options)
    X = np.column_stack([np.ones(len(near)), near[["x", "z"]]])
    exact = Fit(X, near["y"], None if weights is None else near["w"])
    slopes, rows = np.eye(3)[1:], np.column_stack([np.ones(3), frame[["x", "z"]][:3]])
    quantiles = np.quantile(exact.e.astype(float), [0, 0.25, 0.5, 0.75, 1])
    close(fit.residual_quantiles, quantiles, 1.0)
    close(fit.rsquared, 1 - exact.rss / exact.total)
    for kind in KINDS:
        table = fit.get_robustcov_results(kind)
        middle = jackknife(exact, near["g"]) if kind == "CR3" else exact.middle(kind, near["g"])
        errors = np.sqrt(np.diag(exact.covariance(middle)))[1:]
        spread = np.sqrt(np.diag(exact.covariance(middle, X[:3])))
        close(table.params[1:], exact.params[1:], errors)
        close(table.bse[1:], errors)
        close(table.fvalue, exact.wald(middle, slopes))
        close(table.f_test(slopes).fvalue, exact.wald(middle, slopes))
        close(table.get_prediction(rows).se_mean, spread)
        # a mean is a double: half a unit in its last place
        means, unit = X[:3] @ exact.params + size, np.spacing(size)
        for found in (table.predict(rows), table.t_test(rows).effect):
            assert (np.abs(found - means) <= unit + 1e-9 * spread).all()
        hypothesis = table.t_test((rows[:1] - rows[1:2], np.zeros(1)))
        close(hypothesis.effect, (X[:1] - X[1:2]) @ exact.params, spread[0])
    smaller = Fit(X[:, :2], near["y"], None if weights is None else near["w"])
    for kind in ("HC0", "cluster"):
        expected = np.sqrt(np.diag(smaller.covariance(smaller.middle(kind, near["g"]))))
        close(fit.submodel("y ~ x", cov_type=kind).bse[1:], expected[1:])


def jackknife(exact, labels):
    """The sum over clusters of the differences without each, with the factor of the jackknife."""
    differences = []
    for label in np.unique(labels):
        rest = np.asarray(labels) != label
        gram = exact.Q[rest].T @ exact.Q[rest]
        inverse = np.linalg.inv(gram.astype(float)).astype(np.longdouble)
        for _ in range(3):  # Newton's iteration restores the digits of long double
            inverse = 2 * inverse - inverse @ gram @ inverse
        differences.append(inverse @ (exact.Q[~rest].T @ exact.e[~rest]))
    total = np.stack(differences)
    return np.longdouble(len(total) - 1) / len(total) * total.T @ total


@pytest.mark.parametrize("size", FAR)
def test_wild_bootstrap(size):
    """Its statistic, and the draws, are those of the differences."""
    frame, near = sample(size)
    far, other = (
        ols("y ~ x + z", data, cov_type="CR3", cluster="g").wild_bootstrap("x = 2", draws=199)
        for data in (frame, near)
    )
    close(far.estimate, other.estimate, 1.0)
    close(far.statistics, other.statistics, 1.0)


@pytest.mark.parametrize("size", FAR)
def test_discrete_columns_are_cells(size):
    rng = np.random.default_rng(5)
    near = pd.DataFrame({"x": rng.integers(0, 5, 40_000) * 1.0, "g": rng.integers(0, 30, 40_000)})
    near["y"] = near["x"] + rng.integers(-9, 9, 40_000) * (1 + near["x"])
    frame = near.assign(x=near["x"] + size, y=near["y"] + size)
    fit = ols("y ~ x", frame, cov_type=["nonrobust", "HC1", "cluster"], cluster="g")
    exact = Fit(np.column_stack([np.ones(len(near)), near["x"]]), near["y"])
    for kind in ("nonrobust", "HC1", "cluster"):
        errors = np.sqrt(np.diag(exact.covariance(exact.middle(kind, near["g"]))))
        close(fit.get_robustcov_results(kind).bse.iloc[1], errors[1])


@pytest.mark.parametrize("seed", range(6))
def test_instruments(seed):
    """Both stages: all columns far from zero, and the response, too."""
    size = FAR[seed % 3]
    case = random_case(seed, offset=size)
    names = [*case.exogenous, *case.endogenous, *case.instruments]
    base = random_case(seed).frame[names]
    steps = (case.frame[names] - base).median().round()  # the offset times the scale of a column
    near = case._replace(frame=case.frame.assign(**(case.frame[names] - steps)))
    frame = case.frame.assign(y=case.frame["y"] + size)
    near.frame["y"] = frame["y"] - size
    fit = ols(
        case.formula, frame, weights=case.weights, cov_type=["nonrobust", "HC0", "cluster"],
        cluster="g",
    )  # fmt: skip
    right = in_long_double(near)
    close(fit.params[1:], right["params"][1:], right["nonrobust"][1:])
    close(fit.wu_hausman.statistic, right["wu_hausman"])
    if len(case.instruments) > len(case.endogenous):
        close(fit.sargan.statistic, right["sargan"])
    for kind in ("nonrobust", "HC0", "HC1", "cluster"):
        table = fit.get_robustcov_results(kind)
        close(table.bse[1:], right[kind][1:])
        close(table.first_stage.f_statistic, right[f"first {kind}"][:, 0])


@pytest.mark.parametrize("size", FAR)
def test_slices_of_a_cube(size):
    """Tables of slices, and Chow's test between two of them."""
    frame, near = sample(size)
    cube, other = (
        karat.cube(data[["x", "z", "y", "h"]], "y", by="h", rows="real") for data in (frame, near)
    )
    for found, expected in ((cube.compare({"h": 0}, {"h": 1}), other.compare({"h": 0}, {"h": 1})),):
        close(found.statistic, expected.statistic)
        close(found.errors[1:], expected.errors[1:])
    part = near[near["h"] == 2]
    exact = Fit(np.column_stack([np.ones(len(part)), part[["x", "z"]]]), part["y"])
    fit = ols("y ~ x + z", cube.select(h=2))
    close(fit.bse[1:], np.sqrt(np.diag(exact.covariance(exact.middle("nonrobust"))))[1:])
    close(fit.fvalue, exact.wald(exact.middle("nonrobust"), np.eye(3)[1:]))


def test_what_doubles_do_not_hold_is_said():
    """Without an intercept, rows far from zero are rounded to a share of their size."""
    frame, near = sample(1e9)
    exact = Fit(np.column_stack([pd.get_dummies(near["h"]), near["z"]]).astype(float), near["y"])
    errors = np.sqrt(np.diag(exact.covariance(exact.middle("nonrobust"))))
    fit = ols("y ~ 0 + C(h) + z", frame)
    off = np.abs(fit.params.iloc[3] - float(exact.params[3])) / float(errors[3])
    assert off < fit.rounding
    assert 1e-9 < fit.rounding < 1e-4
    note = "Rounding of the kept rows may move estimates by 2e-06 standard errors"
    assert note in str(fit.summary())
    whole = ols("y ~ C(h) + z", frame)
    assert whole.rounding < 1e-9
    assert "Rounding" not in str(whole.summary())
    with pytest.warns(UserWarning, match="'y' .* by 2e-03 standard errors; add an intercept"):
        ols("y ~ 0 + C(h) + z", sample(1e12)[0])
