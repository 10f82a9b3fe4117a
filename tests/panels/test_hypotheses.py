"""Tests of hypotheses of a table with fixed effects: those of statsmodels with indicators."""

from __future__ import annotations

import numpy as np
import pytest

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

import karat  # noqa: E402
from karat import InputError, NotExactError  # noqa: E402

HYPOTHESES = ["value = 0", "value = 0.1", "value = capital", "value - 2 * capital = 0.3"]


@pytest.fixture(scope="module")
def panel():
    table = sm.datasets.grunfeld.load_pandas().data
    return table.sample(170, random_state=3)  # unbalanced


@pytest.fixture(scope="module")
def fit(panel):
    return karat.ols("invest ~ value + capital | firm + year", panel)


@pytest.fixture(scope="module")
def full(panel):
    return smf.ols("invest ~ value + capital + C(firm) + C(year)", panel).fit()


@pytest.mark.parametrize("hypothesis", HYPOTHESES)
def test_single_hypotheses_are_those_of_indicators(fit, full, hypothesis):
    ours, theirs = fit.t_test(hypothesis), full.t_test(hypothesis)
    for name in ("effect", "sd", "tvalue", "pvalue"):
        theirs_flat = np.ravel(getattr(theirs, name))
        np.testing.assert_allclose(np.ravel(getattr(ours, name)), theirs_flat, rtol=1e-9)
    np.testing.assert_allclose(ours.conf_int(), theirs.conf_int(), rtol=1e-9)
    f, wald = fit.f_test(hypothesis), fit.wald_test(hypothesis)
    np.testing.assert_allclose([f.fvalue, f.pvalue], [wald["statistic"], wald["p_value"]])
    np.testing.assert_allclose(f.fvalue, theirs.tvalue.item() ** 2, rtol=1e-9)


def test_joint_hypotheses_are_those_of_indicators(fit, full):
    ours, theirs = fit.f_test("value = 0, capital = 0"), full.f_test("value = 0, capital = 0")
    np.testing.assert_allclose(
        [ours.fvalue, ours.pvalue, ours.df_num, ours.df_denom],
        [theirs.fvalue, theirs.pvalue, theirs.df_num, theirs.df_denom],
        rtol=1e-9,
    )
    np.testing.assert_allclose(fit.f_test(np.eye(2)).fvalue, ours.fvalue)


def test_normal_tables_use_the_normal_distribution(panel):
    options = {"cov_type": "HC1", "use_t": False, "ssc": {"k_fixef": "full"}}
    fit = karat.ols("invest ~ value + capital | firm + year", panel, **options)
    test = fit.t_test("capital = 0.2")
    assert test.distribution == "norm"
    z = (fit.params["capital"] - 0.2) / fit.bse["capital"]
    np.testing.assert_allclose([test.statistic.item(), test.effect.item()],
                               [z, fit.params["capital"]])  # fmt: skip


@pytest.mark.parametrize("test", ["t_test", "f_test", "wald_test"])
@pytest.mark.parametrize("hypothesis", ["valu = 0", "value ==", np.eye(3), "firm = 0", None])
def test_what_cannot_be_tested_names_the_columns(fit, test, hypothesis):
    with pytest.raises(InputError, match="a column for each of value, capital"):
        getattr(fit, test)(hypothesis)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("resid", r"fit\.predict"), ("aic", r"fit\.llf"), ("coreset", "ols"),
        ("get_robustcov_results", r"fit\.with_covariance"), ("submodel", "ols"),
    ],
)  # fmt: skip
def test_what_a_panel_lacks_says_how_to_get_it(fit, name, advice):
    assert not hasattr(fit, name)
    with pytest.raises(NotExactError, match=advice):
        getattr(fit, name)
    with pytest.raises(AttributeError, match="no attribute 'reside'"):
        fit.reside  # noqa: B018


def test_an_event_study_without_a_reference_is_told_to_name_one(panel):
    table = panel.assign(large=panel["firm"] < "G")
    with pytest.raises(InputError, match="name a reference in i"):
        karat.ols("invest ~ i(year, large) | firm + year", table)
