"""Discrete regressors, frequencies, small-sample corrections: against statsmodels on all rows."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from karat.errors import InputError
from karat.inference import ols

FORMULA = "y ~ g + C(h) * t"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    n = 40_000
    frame = pd.DataFrame(
        {
            "g": rng.choice(["a", "b", "c"], n),
            "h": rng.integers(0, 4, n),
            "t": rng.integers(0, 2, n) / 2,
            "firm": rng.integers(0, 25, n),
        }
    )
    noise = rng.standard_normal(n) * (1 + frame["h"])
    return frame.assign(y=3 + frame["t"] + (frame["g"] == "b") + frame["firm"] / 9 + noise)


def same(fit, reference):
    names = reference.params.index
    np.testing.assert_allclose(fit.params[names], reference.params, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(fit.bse[names], reference.bse, rtol=1e-9)
    assert fit.nobs == reference.nobs
    np.testing.assert_allclose(fit.ssr, reference.ssr, rtol=1e-10)
    np.testing.assert_allclose(fit.llf, reference.llf, rtol=1e-10)


def joined(fit):
    return any("joined" in note for note in fit.coreset.certificate.notes)


@pytest.mark.parametrize("kind", ["nonrobust", "HC0", "HC1", "HC2", "HC3"])
def test_cells_give_the_table_of_all_rows(rows, kind):
    fit = ols(FORMULA, rows, cov_type=kind)
    assert joined(fit)
    assert fit.coreset.certificate.ok
    same(fit, smf.ols(FORMULA, rows).fit(cov_type=kind))


def test_clusters_are_cells_too(rows):
    fit = ols(FORMULA, rows, cov_type="cluster", cluster="firm")
    assert joined(fit)
    reference = smf.ols(FORMULA, rows).fit(cov_type="cluster", cov_kwds={"groups": rows["firm"]})
    same(fit, reference)


def test_dropped_rows_are_in_no_cell(rows):
    holes = rows.assign(
        y=rows["y"].mask(rows.index % 7 == 0), g=rows["g"].mask(rows.index % 11 == 0)
    )
    fit = ols(FORMULA, holes, cov_type="HC1", on_missing="drop")
    same(fit, smf.ols(FORMULA, holes.dropna()).fit(cov_type="HC1"))


def test_a_missing_value_is_named_as_without_cells(rows):
    with pytest.raises(InputError, match="row 40: column 'y'"):
        ols(FORMULA, rows.assign(y=rows["y"].mask(rows.index == 40)))


@pytest.mark.parametrize("offset", [1e5, 1e9])
def test_a_far_response_is_not_rounded(rows, offset):
    far = rows.assign(y=rows["y"] + offset)
    fit = ols(FORMULA, far, cov_type="HC1")
    assert not joined(fit)
    reference = smf.ols(FORMULA, far.assign(y=far["y"] - offset)).fit(cov_type="HC1")
    slopes = reference.params.index[1:]
    np.testing.assert_allclose(fit.params[slopes], reference.params[slopes], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fit.bse[slopes], reference.bse[slopes], rtol=1e-9)


def test_continuous_regressors_are_no_cells(rows):
    x = np.random.default_rng(0).standard_normal(len(rows))
    assert not joined(ols("y ~ g + x", rows.assign(x=x)))


@pytest.mark.parametrize("kind", ["nonrobust", "HC1", "HC3", "cluster"])
def test_frequencies_count_rows(rows, kind):
    rng = np.random.default_rng(1)
    few = rows[:500].assign(x=rng.standard_normal(500), times=rng.integers(1, 6, 500))
    all_rows = few.loc[few.index.repeat(few["times"])]
    firm = {"cluster": "firm"} if kind == "cluster" else {}
    options = {"cov_kwds": {"groups": all_rows["firm"]}} if kind == "cluster" else {}
    fit = ols("y ~ x + g", few, frequencies="times", cov_type=kind, **firm)
    same(fit, smf.ols("y ~ x + g", all_rows).fit(cov_type=kind, **options))


def test_frequencies_must_be_integers(rows):
    with pytest.raises(InputError, match="not an integer"):
        ols("y ~ g", rows[:50].assign(times=1.5), frequencies="times")


def test_corrections_are_switched_and_printed(rows):
    few = rows[:3000]
    n, k, clusters = len(few), 3, few["firm"].nunique()
    plain = ols("y ~ g", few, cov_type="cluster", cluster="firm", ssc="none")
    for ssc, factor in [
        ({"g_adj": False}, (n - 1) / (n - k)),
        ({"k_adj": False}, clusters / (clusters - 1)),
        ("pyfixest", clusters / (clusters - 1) * (n - 1) / (n - k)),
    ]:
        fit = ols("y ~ g", few, cov_type="cluster", cluster="firm", ssc=ssc)
        np.testing.assert_allclose(fit.cov_params(), factor * plain.cov_params(), rtol=1e-12)
    assert "Small-sample corrections: pyfixest." in str(fit.summary())
    ways = {"cov_type": "cluster", "cluster": ["firm", "h"]}
    with pytest.warns(UserWarning, match="clusters"):
        both = [ols("y ~ g", few, ssc=ssc, **ways).cov_params() for ssc in ("pyfixest", "none")]
    factor = 4 / 3 * (n - 1) / (n - k)
    np.testing.assert_allclose(both[0], factor * both[1], rtol=1e-9)


@pytest.mark.parametrize("ssc", ["stata", {"adj": True}, {"g_df": "max"}, 3])
def test_unknown_corrections(rows, ssc):
    with pytest.raises(InputError, match="ssc"):
        ols("y ~ g", rows[:50], ssc=ssc)
