"""Every number of the table equals that of statsmodels on all rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("statsmodels")
formulaic = pytest.importorskip("formulaic")

import statsmodels.api as sm  # noqa: E402
from inference.data_sets import CASES  # noqa: E402

from karat.inference import ols  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There are .* clusters:UserWarning")

NUMBERS = (
    "rsquared rsquared_adj fvalue aic bic llf scale ssr ess centered_tss uncentered_tss nobs"
    " df_resid df_model mse_model"
)
ROBUST = ["HC0", "HC1", "HC2", "HC3"]


@cache
def both(name):
    """karat's fit with everything stored, and the model of all rows."""
    case = CASES[name]
    frame = case.frame()
    kinds = ["nonrobust", *ROBUST, *(["cluster"] if case.cluster else [])]
    few = ols(case.formula, frame, cov_type=kinds, cluster=case.cluster, weights=case.weights)
    levels = frame.astype(dict.fromkeys(frame.select_dtypes(bool), "category"))  # as in statsmodels
    matrices = formulaic.model_matrix(case.formula, levels, cluster_by="numerical_factors")
    weights = {} if case.weights is None else {"weights": frame[case.weights]}
    model = (sm.WLS if weights else sm.OLS)(matrices.lhs, matrices.rhs[few.labels], **weights)
    return few, model, frame


def tolerance(full):
    return max(1e-9, 100 * np.finfo(float).eps * full.condition_number**2)


def agree(few, full):
    """Compare two tables; coefficients that are zero but for chance are compared on the scale of
    their errors.
    """
    rtol = tolerance(full)
    assert list(few.params.index) == list(full.params.index)
    noise = 1e-3 * np.asarray(full.bse)
    assert (np.abs(few.params - full.params) <= rtol * np.maximum(np.abs(full.params), noise)).all()
    np.testing.assert_allclose(few.bse, full.bse, rtol=rtol)
    np.testing.assert_allclose(few.tvalues, full.tvalues, rtol=rtol, atol=1e-3 * rtol)
    steep = np.maximum(1.0, np.square(full.tvalues))  # how much a p value moves with its t
    assert (np.abs(few.pvalues - full.pvalues) <= 2 * rtol * steep * full.pvalues + 1e-300).all()
    np.testing.assert_allclose(
        few.conf_int(), full.conf_int(), rtol=rtol, atol=rtol * np.asarray(full.bse).max()
    )
    np.testing.assert_allclose(
        few.cov_params(),
        full.cov_params(),
        rtol=10 * rtol,
        atol=rtol * np.abs(full.cov_params()).values.max(),
    )
    for number in NUMBERS.split():
        mine, theirs = getattr(few, number), getattr(full, number)
        np.testing.assert_allclose(mine, theirs, rtol=rtol * 10, err_msg=number)
    np.testing.assert_allclose(
        few.f_pvalue,
        full.f_pvalue,
        rtol=rtol * max(1.0, 2 * full.fvalue * full.df_model),
        atol=1e-300,
    )


@pytest.mark.parametrize("name", CASES)
def test_classical(name):
    few, model, _ = both(name)
    agree(few, model.fit())


@pytest.mark.parametrize("kind", ROBUST)
@pytest.mark.parametrize("name", [name for name in CASES if name != "100,000 clusters"])
def test_robust(name, kind):
    few, model, _ = both(name)
    if kind == "HC0":
        agree(few.model.fit(cov_type=kind), model.fit(cov_type=kind))
    else:
        np.testing.assert_allclose(
            few.model.fit(cov_type=kind).bse,
            model.fit(cov_type=kind).bse,
            rtol=tolerance(model.fit()),
        )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.cluster])
def test_clustered(name):
    few, model, frame = both(name)
    full = model.fit(
        cov_type="cluster",
        cov_kwds={"groups": np.unique(frame[CASES[name].cluster], return_inverse=True)[1]},
    )
    agree(few.model.fit(cov_type="cluster"), full)
    with_t = model.fit(
        cov_type="cluster", cov_kwds={"groups": frame[CASES[name].cluster]}, use_t=True
    )
    mine = few.model.fit(cov_type="cluster", use_t=True)
    np.testing.assert_allclose(
        mine.conf_int(), with_t.conf_int(), rtol=10 * tolerance(with_t), atol=tolerance(with_t)
    )


def test_tests_of_hypotheses():
    few, model, _ = both("weights")
    few, full = few.model.fit(cov_type="HC1"), model.fit(cov_type="HC1")
    width = len(full.params)
    matrix = np.eye(width)[1:4]
    np.testing.assert_allclose(few.t_test(matrix).pvalue, full.t_test(matrix).pvalue, rtol=1e-8)
    np.testing.assert_allclose(few.f_test(matrix).fvalue, full.f_test(matrix).fvalue, rtol=1e-8)
    np.testing.assert_allclose(
        few.wald_test(matrix, scalar=True).statistic,
        full.wald_test(matrix, scalar=True).statistic,
        rtol=1e-8,
    )
    assert few.t_test("a = b").tvalue == pytest.approx(full.t_test("a = b").tvalue, rel=1e-8)


@pytest.mark.parametrize(
    "name", ["weights", "splines", "contrasts", "text clusters", "diabetes, centred"]
)
def test_predictions(name):
    few, model, frame = both(name)
    full = model.fit()
    some = frame.iloc[5:40]
    np.testing.assert_allclose(few.predict(some), np.asarray(full.fittedvalues)[5:40], rtol=1e-9)
    assert list(few.predict(some).index) == list(some.index)
    shown = few.predict(some, interval=0.9)
    theirs = full.get_prediction(model.exog[5:40]).summary_frame(alpha=0.1)
    np.testing.assert_allclose(shown, theirs, rtol=1e-8)


def test_predictions_far_from_zero():
    """A column of mean 1e4 and spread 1e-4: statsmodels' intervals are off, or not a number, in
    these columns.
    """
    rng = np.random.default_rng(0)
    near = rng.integers(-(2**20), 2**20, 300) * 2.0**-33  # so that 1e4 + near is exact
    frame = pd.DataFrame(
        {"x": 1e4 + near, "near": near, "y": 1e4 * near + rng.standard_normal(300)}
    )
    shown = ols("y ~ x", frame).predict(frame.head(20), interval=0.95)
    plain = (
        sm.OLS(frame["y"], sm.add_constant(frame["near"]))
        .fit()
        .get_prediction()
        .summary_frame(alpha=0.05)
        .head(20)
    )
    np.testing.assert_allclose(shown, plain, rtol=1e-7)
