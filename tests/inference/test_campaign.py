"""The campaign: 600 tables against least squares of all rows in long double.

Random ones (dropped rows, weights, frequencies, collinear columns, discrete designs, columns far
from zero) and the data sets, each with all covariances: coefficients, errors, p-values, F of all
slopes and of random contrasts, predictions, R2, likelihoods.

Everything agrees to 1e-9, or to ``fit.rounding``, where that is larger: eps times the condition of
the columns times the length of the fitted values over the standard deviation of the residuals, and
the error of the certificate times the root of the observations.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
formulaic = pytest.importorskip("formulaic")

from inference.data_sets import CASES  # noqa: E402
from inference.long_double import Fit  # noqa: E402
from scipy import stats  # noqa: E402

from karat.inference import ols  # noqa: E402
from karat.inference.show import NOTED  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There are .* clusters:UserWarning")

KINDS = ["nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster"]
TERMS = [
    "x1", "x2", "x3", "C(f)", "g", "x1:x2", "C(f):x3", "I(x2 ** 2)", "np.log(size)", "g:x1",
    "C(f):g", "year",
]  # fmt: skip
TIGHT = 1e-9
RANDOM = 600 - len(CASES)


def random_case(seed):
    """A frame, a formula, options of ols, and the rows that count."""
    rng = np.random.default_rng(seed)
    discrete = seed % 40 == 0
    n = 40_000 if discrete else int(rng.integers(150, 1200))
    firms = int(rng.integers(40, 60))
    firm = np.concatenate([np.arange(firms), rng.integers(0, firms, n - firms)])
    offset, scale = rng.choice([0.0, 0.0, 10.0, 1e3]), rng.choice([1.0, 1.0, 1e-3, 1e3])
    common = rng.standard_normal((firms, 3))[firm] * rng.uniform(0, 1)
    X = (rng.standard_normal((n, 3)) + common + offset) * scale
    frame = pd.DataFrame(X, columns=["x1", "x2", "x3"]).assign(
        f=rng.integers(1, 5, n), g=rng.choice(["a", "b", "c"], n), firm=firm,
        size=rng.exponential(size=n) + 0.1, year=rng.integers(2000, 2010, n).astype(float),
        w=rng.uniform(0.2, 3, n), times=rng.integers(1, 4, n),
    )  # fmt: skip
    noise = rng.standard_normal(n) * (0.5 + frame["size"]) + rng.standard_normal(firms)[firm]
    frame["y"] = (X @ rng.standard_normal(3)) / scale + frame["f"] + noise
    if discrete:
        terms = [["C(f)", "g", "year"], ["C(f)", "C(year)"], ["C(f)", "g", "C(f):g"]][
            seed // 40 % 3
        ]
    else:
        terms = list(rng.choice(TERMS, int(rng.integers(1, 5)), replace=False))
    options, kind = {}, seed % 5
    if kind == 1:
        options["weights"] = "w"
    elif kind == 2 and not discrete:
        options["frequencies"] = "times"
    elif kind == 3 and not discrete:  # rows without a value of some column
        names = [name for name in ("x1", "size", "g", "y", "year") if used(name, [*terms, "y"])]
        for name in names:
            frame.loc[rng.random(n) < 0.04, name] = None
        options["on_missing"] = "drop"
    elif kind == 4 and not discrete:  # the later of two proportional columns is dropped
        terms += ["x1"] * ("x1" not in terms) + ["I(2 * x1)", "I(0 * x2 + 1)"]
        options["on_collinear"] = "drop"
    first = "0 + " if kind == 0 and not discrete and rng.random() < 0.3 else ""
    return frame, f"y ~ {first}{' + '.join(terms)}", options


def used(name, terms):
    return any(re.search(rf"\b{name}\b", term) for term in terms)


def check(frame, formula, options, cluster, rows, X, names):
    """Compare a table of karat with long double; X is the design of ``rows``."""
    kinds = KINDS if cluster else KINDS[:-1]
    fit = ols(formula, frame, cov_type=kinds, cluster=cluster, use_t=True, **options)
    dropped = list(fit.model.dropped)
    assert fit.labels == [name for name in names if name not in dropped]
    X = np.asarray(X, dtype=float)[:, [names.index(name) for name in fit.labels]]
    y = np.asarray(smf.ols(f"{formula.split('~')[0]} ~ 1", rows).endog)
    weights = rows[options["weights"]].to_numpy() if "weights" in options else None
    exact, rng = Fit(X, y, weights), np.random.default_rng(0)
    near = partial(agree, max(TIGHT, fit.rounding))
    assert ("Rounding of the kept rows" in str(fit.summary())) == (fit.rounding > NOTED)
    n, k = X.shape
    assert (fit.nobs, fit.df_resid) == (n, n - k)
    near(fit.ssr, exact.rss)
    # levels of a category may add up to a constant
    constant = Fit(X, np.ones(n), weights).rss < 1e-20 * n
    total = Fit(np.ones((n, 1)), y, weights).rss if constant else exact.total
    near(fit.rsquared, 1 - exact.rss / total, 1)
    logs = 0.0 if weights is None else np.log(weights).sum()
    likelihood = -n / 2 * (np.log(2 * np.pi * float(exact.rss) / n) + 1) + logs / 2
    near(fit.llf, likelihood, n)
    near(fit.aic, 2 * k - 2 * likelihood, n)
    near(fit.bic, np.log(n) * k - 2 * likelihood, n)
    slopes = np.eye(k)[int(exact.intercept) :]
    contrasts = rng.integers(-2, 3, (2, k)).astype(float)
    contrasts[:, : int(exact.intercept)] = 0  # an intercept far from the data hides the others
    units = np.sqrt(np.diag(exact.covariance(exact.middle("nonrobust")))).astype(float)
    contrasts /= units
    for kind in kinds:
        mine = fit.get_robustcov_results(kind)
        middle = exact.middle(kind, rows[cluster] if cluster else None)
        errors = np.sqrt(np.diag(exact.covariance(middle)))
        df = rows[cluster].nunique() - 1 if kind == "cluster" else n - k
        near(mine.bse, errors, 0)
        near(mine.params, exact.params, errors)
        t = np.asarray(exact.params / errors, dtype=float)
        expected = 2 * stats.t.sf(np.abs(t), df)
        near(mine.pvalues, expected, (1 + t**2) * expected + 1e-290)
        near(mine.conf_int()[1], exact.params + stats.t.ppf(0.975, df) * errors, errors)
        if kind == "cluster" and df + 1 <= k:
            continue  # joint tests are not defined
        if len(slopes) and exact.intercept:
            near(mine.fvalue, exact.wald(middle, slopes), 1e-3)
        if np.linalg.matrix_rank(contrasts) == 2:
            near(mine.f_test(contrasts).fvalue, exact.wald(middle, contrasts), 1e-3)
        near(mine.t_test(contrasts[0]).sd, np.sqrt(exact.covariance(middle, contrasts[:1])), 0)
        found = mine.get_prediction(rows.iloc[:5])
        spread = np.sqrt(np.diag(exact.covariance(middle, X[:5])))
        near(found.se_mean, spread, 0)
        near(found.predicted_mean, X[:5].astype(np.longdouble) @ exact.params, spread)


def agree(tolerance, found, expected, size=0.0):
    """Within a tolerance of the expected value or of a size."""
    found = np.squeeze(np.asarray(found, dtype=np.longdouble))
    expected = np.squeeze(np.asarray(expected, dtype=np.longdouble))
    scale = np.maximum(np.abs(expected), size)
    assert (np.abs(found - expected) <= tolerance * scale).all(), (found, expected)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, RANDOM, 20))
def test_random_tables(start):
    run(range(start, min(start + 20, RANDOM)))


def test_some_random_tables():
    run([1, 2, 3, 4, 5, 40, 80, 447])  # the last one has the largest condition


def run(seeds):
    for seed in seeds:
        frame, formula, options = random_case(seed)
        rows = frame
        if "on_missing" in options:
            rows = frame.dropna(subset=[c for c in frame if used(c, [formula])])
        if "frequencies" in options:
            rows = frame.loc[frame.index.repeat(frame["times"])]
        model = smf.ols(formula, rows)
        try:
            check(frame, formula, options, "firm", rows, model.exog, list(model.exog_names))
        except Exception as error:
            error.add_note(f"seed {seed}: {formula}, {options}")
            raise


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_real_tables(name):
    case = CASES[name]
    frame = case.frame()
    levels = frame.astype(dict.fromkeys(frame.select_dtypes(bool), "category"))
    matrices = formulaic.model_matrix(case.formula, levels, cluster_by="numerical_factors")
    options = {} if case.weights is None else {"weights": case.weights}
    names = ols(case.formula, frame, **options).labels
    check(frame, case.formula, options, case.cluster, frame, matrices.rhs[names], names)


def test_nearly_all_agree_to_1e_9():
    """There the tolerance is no larger."""
    larger = 0
    for seed in range(400, 460):
        frame, formula, options = random_case(seed)
        larger += ols(formula, frame, **options).rounding > TIGHT
    assert larger <= 2
