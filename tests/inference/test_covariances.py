"""Covariances of columns that are far from zero or nearly collinear, of few clusters, and what
follows from them: tests, predictions, tables of variance.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

from inference.data_sets import simulated  # noqa: E402
from statsmodels.stats.anova import anova_lm  # noqa: E402

import karat  # noqa: E402
from karat import InputError, NotExactError  # noqa: E402
from karat.inference import anova, ols  # noqa: E402

CUBIC = "y ~ year + I(year ** 2) + I(year ** 3)"


@pytest.fixture(scope="module")
def years():
    rng = np.random.default_rng(0)
    year = rng.integers(2000, 2025, 3000).astype(float)
    noise = rng.standard_normal(3000) * (1 + (year - 2000) / 10)
    frame = pd.DataFrame({"year": year, "firm": rng.integers(0, 60, 3000)})
    return frame.assign(y=0.01 * (year - 2012) ** 2 + noise)


@pytest.fixture(scope="module")
def frame():
    return simulated(0, 600)()


def solved(A, B):
    """A^-1 B in long double, by elimination."""
    A, B = A.astype(np.longdouble).copy(), B.astype(np.longdouble).copy()
    for i in range(len(A)):
        for j in range(len(A)):
            if i != j:
                B[j], A[j] = B[j] - A[j, i] / A[i, i] * B[i], A[j] - A[j, i] / A[i, i] * A[i]
    return B / np.diag(A)[:, None]


def long_double_f(frame, groups=None):
    """The robust F of all slopes in centred years, in long double: HC1, or clustered."""
    x = frame["year"].to_numpy().astype(np.longdouble) - 2012
    X = np.stack([x**0, x, x**2, x**3], axis=1)
    y = frame["y"].to_numpy().astype(np.longdouble)[:, None]
    bread = solved(X.T @ X, np.eye(4))
    b = bread @ (X.T @ y)
    scores, (n, k) = X * (y - X @ b), X.shape
    factor = np.longdouble(n) / (n - k)
    if groups is not None:
        scores = np.stack([scores[groups == g].sum(axis=0) for g in np.unique(groups)])
        factor = np.longdouble(len(scores)) / (len(scores) - 1) * (n - 1) / (n - k)
    V = (bread @ (scores.T @ scores) @ bread * factor)[1:, 1:]
    return float((b[1:].T @ solved(V, b[1:]))[0, 0] / 3)


@pytest.mark.parametrize("kind", ["nonrobust", "HC0", "HC1", "HC3", "cluster"])
def test_a_cubic_in_the_year(kind, years):
    """Joint tests and predictions do not depend on where years are counted from."""
    cluster = "firm" if kind == "cluster" else None
    fit = ols(CUBIC, years, cov_type=kind, cluster=cluster)
    near = years.assign(year=years["year"] - 2012)
    groups = {"cov_kwds": {"groups": near["firm"]}} if cluster else {}
    full = smf.ols(CUBIC, near).fit(cov_type=kind, **groups)
    assert fit.fvalue == pytest.approx(full.fvalue, rel=1e-9)
    slopes = np.eye(4)[1:]
    for use_f in (True, False):
        mine, theirs = (f.wald_test(slopes, use_f=use_f, scalar=True) for f in (fit, full))
        assert mine.statistic == pytest.approx(theirs.statistic, rel=1e-9)
        assert mine.pvalue == pytest.approx(theirs.pvalue, rel=1e-7)
    values = ["se_mean", "predicted_mean"]
    some = [years.iloc[:40], near.iloc[:40]]
    mine, theirs = (f.get_prediction(rows) for f, rows in zip((fit, full), some, strict=True))
    for name in values:  # means may be zero but for chance
        np.testing.assert_allclose(
            getattr(mine, name), getattr(theirs, name), rtol=1e-9, atol=1e-9 * theirs.se_mean.min()
        )
    # a contrast of parameters that is a prediction
    row = np.array([1.0, 2012.0, 2012.0**2, 2012.0**3])
    np.testing.assert_allclose(fit.t_test(row).sd, full.t_test(np.eye(4)[0]).sd, rtol=1e-9)
    if kind in ("HC1", "cluster"):
        by_hand = long_double_f(years, years["firm"].to_numpy() if cluster else None)
        assert fit.fvalue == pytest.approx(by_hand, rel=1e-9)


def test_stored_covariances_keep_their_digits(years, tmp_path):
    fit = ols(CUBIC, years, cov_type=["HC1", "cluster"], cluster="firm")
    fit.coreset.save(tmp_path / "fit.parquet")
    again = ols(karat.load(tmp_path / "fit.parquet"), cov_type="HC1")
    assert again.fvalue == pytest.approx(fit.fvalue, rel=1e-10)
    more = ols(karat.load(tmp_path / "fit.parquet"), years, cov_type="HC3")
    assert more.get_robustcov_results("HC1").fvalue == pytest.approx(fit.fvalue, rel=1e-10)


def test_redundant_and_impossible_hypotheses(frame):
    fit, full = ols("y ~ a + b", frame), smf.ols("y ~ a + b", frame).fit()
    twice = np.array([[0, 1, 0], [0, 0, 1], [0, 1, 1]])
    with pytest.warns(UserWarning, match="3 rows, but only 2 are"):
        mine = fit.f_test(twice)
    assert mine.fvalue == pytest.approx(full.fvalue, rel=1e-9)
    assert fit.f_test("a = 2, b = -1").fvalue == pytest.approx(
        full.f_test("a = 2, b = -1").fvalue, rel=1e-9
    )
    np.testing.assert_allclose(fit.cov_params(r_matrix=twice), full.cov_params(r_matrix=twice))


def test_condition_numbers(years, frame):
    """From singular values; from X'X digits beyond 1e8 are lost, or eigenvalues are negative."""
    for formula, data in (("y ~ a + b", frame), ("y ~ year + I(year ** 2)", years.assign(a=1.0))):
        fit, full = ols(formula, data), smf.ols(formula, data).fit()
        assert fit.condition_number == pytest.approx(np.linalg.cond(full.model.exog), rel=1e-6)
        assert "Cond. No." in str(fit.summary())
    steep = frame.assign(b=frame["a"] + 1e-8 * frame["b"])
    fit, full = ols("y ~ a + b", steep), smf.ols("y ~ a + b", steep).fit()
    assert fit.condition_number == pytest.approx(np.linalg.cond(full.model.exog), rel=1e-5)
    assert (fit.eigenvals > 0).all()


@pytest.mark.parametrize("distance", [1e-11, 1e-12, 1e-13])  # 1e-10 may be just enough
def test_nearly_collinear_columns_are_not_called_other_rows(distance, frame):
    near = frame.assign(c=frame["a"] + distance * frame["b"])
    with pytest.raises(NotExactError, match=r"nearly collinear.*condition number"):
        ols("y ~ a + c", near, cov_type="HC1")
    other = near.assign(y=near["y"] + (near.index == 3))
    with pytest.raises(InputError, match="not the rows"):
        ols(ols("y ~ a + b", near).coreset, other, cov_type="HC1")


@pytest.mark.filterwarnings("ignore:There are .* clusters:UserWarning")
def test_clustered_errors_that_are_rounding(frame):
    for formula in ("y ~ C(g)", "y ~ 0 + C(g)", "y ~ g"):
        with pytest.raises(NotExactError, match=r"zero up to rounding.*each cluster"):
            ols(formula, frame, cov_type="cluster", cluster="g")
    # clusters as a term beside a regressor are ordinary
    fit = ols("y ~ a + C(user)", frame, cov_type="cluster", cluster="user")
    full = smf.ols("y ~ a + C(user)", frame).fit(
        cov_type="cluster", cov_kwds={"groups": frame["user"]}
    )
    assert fit.bse["a"] == pytest.approx(full.bse["a"], rel=1e-9)


@pytest.mark.filterwarnings("default::UserWarning")
def test_few_clusters_are_warned_about(frame):
    with pytest.warns(UserWarning, match=r"3 clusters of 'g', no more than the 3 coefficients"):
        fit = ols("y ~ a + b", frame, cov_type="cluster", cluster="g")
    with pytest.warns(UserWarning, match="4 clusters of 'h', fewer than 10"):
        ols("y ~ a", frame, cov_type="cluster", cluster="h")
    with pytest.warns(UserWarning, match="test fewer coefficients"):
        assert np.isnan(fit.f_test(np.eye(3)).fvalue)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ols("y ~ a", frame, cov_type="cluster", cluster="user")


@pytest.mark.parametrize(
    ("kinds", "said", "unsaid"),
    [
        ("cluster", "'cluster' are too small. For few clusters there are cov_type='CR3'", "CR2"),
        ("CR3", "fewer than 10; CR3 errors allow for that", "too small"),
        ("CR2", "fewer than 10; CR2 errors allow for that", "too small"),
        (["CR2", "CR3"], "CR2 and CR3 errors allow", "too small"),
        (["CR3", "cluster"], "'cluster' are too small", "allow"),
    ],
)
def test_the_warning_is_that_of_the_covariance(frame, kinds, said, unsaid):
    """CR2 and CR3 are made for few clusters, so it is not them that are too small."""
    with pytest.warns(UserWarning, match=r"use_t=True \(t with 3 degrees of freedom\)") as warned:
        ols("y ~ a", frame, cov_type=kinds, cluster="h")
    text = str(warned[0].message)
    assert said in text
    assert unsaid not in text
    assert "wild_bootstrap()" in text


def test_several_ways_are_not_sent_to_the_jackknife(frame):
    with pytest.warns(UserWarning, match="too small; tests allow for a part") as warned:
        ols("y ~ a", frame, cov_type="cluster", cluster=["h", "user"])
    assert "CR3" not in str(warned[0].message)


@pytest.mark.parametrize(
    "formula", ["y ~ C(g):C(h) + b", "y ~ C(g):C(h)", "y ~ a:g + b", "y ~ C(g) * C(h) + a"]
)
def test_terms_are_not_split(formula, frame):
    mine, theirs = (
        fit.wald_test_terms().table for fit in (ols(formula, frame), smf.ols(formula, frame).fit())
    )
    assert list(mine.index) == list(theirs.index)
    np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=1e-8, atol=1e-12)
    mine, theirs = anova(ols(formula, frame)), anova_lm(smf.ols(formula, frame).fit())
    assert list(mine.index) == list(theirs.index)
    assert list(mine.columns) == list(theirs.columns)
    np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-12)


def test_tables_of_variance_are_karats(frame):
    fit = ols("y ~ a + b", frame)
    with pytest.raises(NotExactError, match=r"karat\.inference\.anova\(fit\)"):
        anova_lm(fit)
    with pytest.raises(InputError, match="classical"):
        anova(ols("y ~ a", frame, cov_type="HC1"))


@pytest.mark.parametrize("weights", [None, "w"])
def test_an_intercept_alone(weights, frame):
    kinds = ["nonrobust", "HC1", "HC3", "cluster"]
    fit = ols("y ~ 1", frame, cov_type=kinds, cluster="user", weights=weights)
    model = smf.wls("y ~ 1", frame, weights=1.0 if weights is None else frame["w"])
    for kind in kinds:
        groups = {"cov_kwds": {"groups": frame["user"]}} if kind == "cluster" else {}
        mine, full = fit.get_robustcov_results(kind), model.fit(cov_type=kind, **groups)
        np.testing.assert_allclose(mine.bse, full.bse, rtol=1e-9)
    assert fit.labels == ["Intercept"]
    assert fit.ssr == pytest.approx(full.ssr, rel=1e-9)
    assert abs(fit.rsquared) < 1e-12
    assert "Intercept" in str(fit.summary())
    np.testing.assert_allclose(fit.predict(frame.head(3)), full.params.iloc[0], rtol=1e-9)
    more = ols("y ~ a", frame, weights=weights)
    assert anova(more.submodel("y ~ 1"), more)["F"].iloc[1] == pytest.approx(more.fvalue, rel=1e-7)


def test_merging_says_that_robust_sums_are_lost(frame):
    halves = [ols("y ~ a + b", part, cov_type="HC1") for part in (frame[:300], frame[300:])]
    merged = halves[0].coreset.merge(halves[1].coreset)
    assert any("robust covariances (HC0)" in note for note in merged.certificate.notes)
    with pytest.raises(NotExactError, match="merging dropped them"):
        ols(merged, cov_type="HC1")
    np.testing.assert_allclose(ols(merged).bse, ols("y ~ a + b", frame).bse, rtol=1e-9)
