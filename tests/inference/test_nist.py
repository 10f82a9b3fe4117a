"""NIST's reference data sets against exact rational solutions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("statsmodels")
pytest.importorskip("formulaic")

from inference.nist import CERTIFIED, data_set, solved

from karat.inference import ols

LONGLEY = (
    -3482258.63459582,
    15.0618722713733,
    -0.358191792925910e-01,
    -2.02022980381683,
    -1.03322686717359,
    -0.511041056535807e-01,
    1829.15146461355,
)


def powers(x, degree, intercept, number=float):
    return [[number(value) ** k for k in range(0 if intercept else 1, degree + 1)] for value in x]


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_oracle_has_the_certified_values(name):
    x, y, degree, intercept = data_set(name)
    decimals = [
        [Fraction(str(value)) ** k for k in range(0 if intercept else 1, degree + 1)] for value in x
    ]
    params, _, _ = solved(decimals, [Fraction(str(value)) for value in y])
    first, last = CERTIFIED[name]
    assert float(params[0]) == pytest.approx(first, rel=1e-14)
    assert float(params[-1]) == pytest.approx(last, rel=1e-14)


@pytest.mark.parametrize("name", CERTIFIED)
def test_exact_solution(name):
    x, y, degree, intercept = data_set(name)
    design = powers(x, degree, intercept)
    params, rss, inverse = solved(design, y)
    terms = " + ".join(["x", *(f"I(x**{k})" for k in range(2, degree + 1))])
    fit = ols(f"y ~ {terms}" if intercept else f"y ~ 0 + {terms}", pd.DataFrame({"x": x, "y": y}))
    scaled = np.array(design) / np.linalg.norm(design, axis=0)
    rtol = max(1e-9, 100 * np.finfo(float).eps * np.linalg.cond(scaled) ** 2)
    free = len(y) - len(params)
    errors = [np.sqrt(float(rss / free * inverse[i][i])) for i in range(len(params))]
    for found, exact, error in zip(fit.params, params, errors, strict=True):
        assert abs(float(Fraction(float(found)) - exact)) <= rtol * abs(float(exact)) + 1e-9 * error
    if float(rss) > 1e-20 * sum(value**2 for value in y):  # else the residuals are rounding
        np.testing.assert_allclose(fit.bse, errors, rtol=min(rtol, 1e-6))
        # Powers may differ in their last digit from those of the oracle, which counts where columns
        # are almost collinear.
        assert fit.ssr == pytest.approx(
            float(rss), rel=max(1e-9, 100 * np.finfo(float).eps * np.linalg.cond(scaled))
        )


def test_longley():
    import statsmodels.api as sm

    frame = sm.datasets.longley.load_pandas().data
    fit = ols("TOTEMP ~ GNPDEFL + GNP + UNEMP + ARMED + POP + YEAR", frame)
    np.testing.assert_allclose(fit.params, LONGLEY, rtol=1e-9)
    assert np.sqrt(fit.scale) == pytest.approx(304.854073561965, rel=1e-10)
    assert fit.rsquared == pytest.approx(0.995479004577296, rel=1e-12)
    assert fit.fvalue == pytest.approx(330.285339234588, rel=1e-9)
