"""What a coreset of a formula can answer: submodels, other covariances, after saving and merging
too.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

sm = pytest.importorskip("statsmodels.api")
pytest.importorskip("formulaic")

from inference.data_sets import simulated  # noqa: E402
from statsmodels.iolib.summary2 import summary_col  # noqa: E402
from statsmodels.stats.anova import anova_lm  # noqa: E402

import karat  # noqa: E402
from karat import InputError, NotExactError  # noqa: E402
from karat.inference import anova, ols  # noqa: E402

FORMULA = "y ~ a + g + b:C(h)"


@pytest.fixture(scope="module")
def frame():
    return simulated(0, 3000)()


@pytest.fixture(scope="module")
def fit(frame):
    return ols(FORMULA, frame, cov_type=["cluster", "HC1"], cluster="user")


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_saved_and_asked_again(ending, fit, frame, tmp_path):
    fit.coreset.save(tmp_path / f"core.{ending}")
    core = karat.load(tmp_path / f"core.{ending}")
    again = ols(core, cov_type="cluster")
    pd.testing.assert_series_equal(again.bse, fit.bse)
    pd.testing.assert_series_equal(again.predict(frame.head()), fit.predict(frame.head()))
    np.testing.assert_allclose(
        ols(core, cov_type="HC1").bse, ols(FORMULA, frame, cov_type="HC1").bse, rtol=1e-9
    )
    with pytest.raises(NotExactError, match="HC3"):
        ols(core, cov_type="HC3")
    with pytest.raises(NotExactError, match="'user', not 'h'"):
        ols(core, cov_type="cluster", cluster="h")
    more = ols(core, frame, cov_type="HC3")
    np.testing.assert_allclose(more.bse, ols(FORMULA, frame, cov_type="HC3").bse, rtol=1e-9)
    assert set(more.coreset.regression.facts["covariances"]) == {"HC0", "HC3", "cluster"}


def test_other_data_is_noticed(fit, frame):
    changed = frame.assign(y=frame["y"] + (frame.index == 3))
    for other in (frame.head(2999), changed):
        with pytest.raises(InputError, match="not the rows"):
            ols(fit.coreset, other, cov_type="HC3")


def test_merged(frame):
    parts = [
        ols(FORMULA, part, cov_type="HC1").coreset for part in (frame.head(1400), frame.tail(1600))
    ]
    merged = parts[0].merge(parts[1])
    both, whole = ols(merged), ols(FORMULA, frame)
    np.testing.assert_allclose(both.bse, whole.bse, rtol=1e-9)
    np.testing.assert_allclose(both.predict(frame.head()), whole.predict(frame.head()), rtol=1e-9)
    with pytest.raises(NotExactError, match="HC1"):
        ols(merged, cov_type="HC1")
    centred = [ols("y ~ center(a)", part).coreset for part in (frame.head(1400), frame.tail(1600))]
    # the columns are not the same
    with pytest.raises(InputError, match="encode their formulas differently"):
        centred[0].merge(centred[1])


def test_submodels(fit, frame):
    smaller = fit.submodel("y ~ a + g")
    whole = ols("y ~ a + g", frame)
    np.testing.assert_allclose(smaller.bse, whole.bse, rtol=1e-9)
    np.testing.assert_allclose(ols("y ~ a + g", fit.coreset).params, whole.params, rtol=1e-9)
    np.testing.assert_allclose(
        fit.submodel(["a"]).params, ols("y ~ 0 + a", frame).params, rtol=1e-9
    )
    np.testing.assert_allclose(fit.submodel("y ~ 1").params, [frame["y"].mean()], rtol=1e-9)
    for formula, said in (
        ("y ~ b", "'b' is not in"),
        ("a ~ g", "'y', not 'a'"),
        ("y ~ a + C(h)", "not in this coreset"),
    ):
        with pytest.raises(NotExactError, match=said):
            fit.submodel(formula)
    with pytest.raises(InputError, match="no column 'q'"):
        fit.submodel(["q"])
    with pytest.raises(NotExactError, match=r"have nonrobust.*submodels=True"):
        ols("y ~ a", fit.coreset, cov_type="HC1")
    with pytest.raises(NotExactError, match="HC1"):
        smaller.get_robustcov_results("HC1")


def test_anova(fit, frame):
    fits = [
        fit.submodel("y ~ 1"),
        fit.submodel("y ~ a"),
        fit.submodel("y ~ a + g"),
        fit.submodel(fit.labels),
    ]
    found = anova(*fits)
    designs = [
        pd.DataFrame(fit.design.matrix(frame, one.labels), columns=one.labels) for one in fits
    ]
    full = [sm.OLS(frame["y"], design).fit() for design in designs]
    theirs = anova_lm(*full)
    np.testing.assert_allclose(found, theirs, rtol=1e-8)
    np.testing.assert_allclose(
        fits[2].compare_f_test(fits[1]), full[2].compare_f_test(full[1]), rtol=1e-8
    )
    np.testing.assert_allclose(
        fits[2].compare_lr_test(fits[1]), full[2].compare_lr_test(full[1]), rtol=1e-8
    )


def test_a_thousand_submodels():
    """Subsets of ten columns, with AIC and an F test against the full model."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((20_000, 10)), columns=[f"x{i}" for i in range(10)])
    frame["y"] = frame.sum(axis=1) + rng.standard_normal(len(frame)) * 3
    fit = ols("y ~ .", frame)
    subsets = [
        ["Intercept", *some]
        for size in range(10)
        for some in combinations(frame.columns[:10], size)
    ][1:1001]
    few = []
    for some in subsets:
        one = fit.submodel(some)
        few.append((one.aic, *fit.compare_f_test(one)))
    full = sm.OLS(frame["y"], sm.add_constant(frame[frame.columns[:10]])).fit()
    for i in rng.choice(len(subsets), 30, replace=False):
        theirs = sm.OLS(frame["y"], sm.add_constant(frame[subsets[i][1:]])).fit()
        np.testing.assert_allclose(few[i], [theirs.aic, *full.compare_f_test(theirs)], rtol=1e-8)


def test_shown(fit, frame):
    text = str(fit.summary())
    assert repr(fit) == text
    assert (
        text.splitlines()[0].strip()
        == f"Observations: 3,000 (from {len(fit.coreset)} synthetic rows)"
    )
    for words in ("Log-Likelihood", "AIC", "BIC", "F-statistic", "Clusters", "P>|z|", "g[T.red]"):
        assert words in text
    assert "<table" in fit._repr_html_()
    tidy, glance = fit.tidy(), fit.glance()
    assert list(tidy["term"]) == fit.labels
    np.testing.assert_allclose(tidy["std_error"], fit.bse)
    assert glance.loc[0, "observations"] == 3000
    assert glance.loc[0, "rows_kept"] == len(fit.coreset)
    joined = str(
        summary_col(
            [fit, fit.submodel("y ~ a")],
            stars=True,
            info_dict={"N": lambda one: f"{one.nobs:,.0f}"},
        )
    )
    assert "3,000" in joined


def test_nothing_looks_at_single_rows(fit):
    for name in ("get_influence", "outlier_test", "summary2", "compare_lm_test"):
        with pytest.raises(NotExactError):
            getattr(fit, name)()
    with pytest.raises(NotExactError):
        fit.resid_pearson  # noqa: B018


def test_coresets_without_a_formula(frame):
    import pyarrow as pa

    columns = frame[["a", "b"]]
    for X in (columns, pa.Table.from_pandas(columns)):
        fit = ols(karat.coreset(X, frame["y"]))
        assert fit.labels == ["Intercept", "a", "b"]
        np.testing.assert_allclose(
            fit.predict(columns.head()), ols("y ~ a + b", frame).predict(frame.head()), rtol=1e-9
        )
    with pytest.raises(InputError, match="not made from a formula"):
        fit.submodel("y ~ a")
    with pytest.raises(NotExactError, match="not made from a formula"):
        ols(fit.coreset, frame, cov_type="HC1")
    with pytest.raises(InputError, match="no column 'b'"):
        fit.predict(frame[["a"]])


@pytest.mark.parametrize("name", ["formula", "columns", "terms", "levels", "covariances"])
def test_damaged_facts_are_refused(name, fit, tmp_path):
    from dataclasses import replace

    from karat.core.regression import Regression

    facts = fit.coreset.regression.facts
    for broken in (
        None,
        {"formula": "y ~ __import__('os')", "terms": [[["a"], [["a", 3]]]]}.get(name, 7),
    ):
        core = replace(
            fit.coreset, regression=Regression(facts | {name: broken}, fit.coreset.regression.sums)
        )
        core.save(tmp_path / "core.npz")
        with pytest.raises((InputError, karat.StorageError)):
            ols(karat.load(tmp_path / "core.npz"))


def test_anova_of_other_data_is_refused(frame):
    other = frame.assign(y=frame["y"] * 2)
    small, large = ols("y ~ a", frame), ols("y ~ a + b", frame)
    assert len(anova(small, large)) == 2
    for stranger in (ols("y ~ a + b", other), ols("y ~ a + b", frame.assign(u=2.0), weights="u")):
        with pytest.raises(InputError, match="differ in rows, weights"):
            anova(small, stranger)


def test_a_dot_stands_for_the_same_columns_after_saving(frame, tmp_path):
    """The first covariance is stored, the other needs the formula and the data again."""
    table = frame[["y", "a", "g"]]
    ols("y ~ .", table).coreset.save(tmp_path / "core.npz")
    again = ols(karat.load(tmp_path / "core.npz"), table, cov_type="HC1")
    expected = ols("y ~ a + g", table, cov_type="HC1")
    for name in expected.params.index:
        assert abs(again.bse[name] / expected.bse[name] - 1) < 1e-10
