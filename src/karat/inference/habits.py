"""What users of statsmodels, pyfixest, fixest and linearmodels try first, and how karat does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karat.data.advice import unknown_argument
from karat.errors import InputError, NotExactError
from karat.inference.hypotheses import NotAvailableError

COV_TYPE = "choose the covariance in cov_type=, such as 'HC1' or 'cluster'"
CLUSTER = "name the column of the clusters: cov_type='cluster', cluster='firm'"
EFFECTS = "write fixed effects in the formula: 'y ~ x | firm + year'"
FREQUENCIES = (
    "name the column of the weights: weights= (inverse variances) or frequencies= (counts)"
)
INTERCEPT = "a formula has an intercept unless it says otherwise: 'y ~ 0 + x'"
RESAMPLED = "it draws from all rows; for few clusters there is fit.wild_bootstrap('x = 0')"
ROWS = "rows are not kept; use fit.predict(frame)"
INSTRUMENTS = "it is for instruments: 'y ~ w + [endogenous ~ instruments]'"
PLOT = "plot fit.tidy(), which has conf_low and conf_high"
COVARIANCE = "fit.cov_params() has the matrix; another one is karat.ols(..., cov_type='HC1')"

# names of attributes and methods; each line ends a message that begins "A table has no fit:"
_ATTRIBUTES = {
    "karat.ols has fitted it; " + COV_TYPE: ["fit"],
    COVARIANCE: ["vcov", "_vcov", "cov", "cov_estimator"],
    "fit.params has the coefficients": ["coef", "coef_", "coefs", "params_", "beta_hat"],
    "fit.tidy() has a row for each coefficient": ["coeftable", "etable", "summary_frame"],
    "fit.bse has the standard errors": ["se", "std_err", "std_errors", "stderr"],
    "fit.conf_int() has the intervals": ["confint", "ci", "conf_interval"],
    "fit.pvalues has them": ["pvalue", "pval", "pvals", "p_values"],
    "fit.tvalues has them": ["tstat", "tstats", "t_stats", "t_values", "zvalues"],
    "fit.params['Intercept'] has it": ["intercept_", "intercept"],
    "fit.rsquared has it": ["r2", "_r2", "score", "r_squared"],
    "fit.rsquared_adj has it": ["adj_r2", "r2_adj", "_adj_r2"],
    "it is that of fixed effects, 'y ~ x | firm'": ["rsquared_within", "r2_within"],
    "fit.nobs has it": ["N", "_N", "n_obs", "n"],
    "fit.ssr has it": ["deviance", "rss", "resid_ss"],
    "fit.llf has it": ["loglik", "loglike", "logLik"],
    "fit.aic and fit.bic have them": ["AIC", "BIC"],
    "fit.fvalue has it": ["f_statistic", "fstat", "fstatistic"],
    "rows are not kept; use frame['y'] - fit.predict(frame)": ["residuals", "resids", "uhat"],
    ROWS: ["fitted", "fitted_values", "yhat"],
    "effects of C(g) are among fit.params; those of 'y ~ x | g' are fit.effects()": [
        "fixef", "effects", "estimated_effects", "fixed_effects",
    ],
    "there is fit.wild_bootstrap('x = 0')": ["wildboottest", "boottest"],
    RESAMPLED: ["ritest", "ccv", "bootstrap"],
    PLOT: ["plot", "coefplot", "iplot"],
    "karat.inference.anova(fit) gives the table": ["anova", "anova_lm"],
    INSTRUMENTS: ["first_stage", "sargan", "wu_hausman", "wooldridge_score", "durbin"],
    "call karat.ols with cov_type=, and the data": ["with_covariance"],
}  # fmt: skip
ATTRIBUTES = {name: text for text, names in _ATTRIBUTES.items() for name in names}
OF_INSTANCES = ("params", "model", "scale", "cov_type")  # attributes that classes do not have

_ARGUMENTS = {
    COV_TYPE: ["vcov", "se", "robust", "covariance", "covtype", "cov"],
    CLUSTER: ["groups", "cov_kwds", "clusters", "cluster_entity", "clustvar", "vcov_kwargs"],
    "the first argument is the formula: karat.ols('y ~ x', frame)": ["fml", "y", "X", "endog"],
    "leave rows with missing values out with on_missing='drop'": ["missing", "na_action", "dropna"],
    "choose the rows in the data: karat.ols('y ~ x', frame[rows])": ["subset", "sample", "where"],
    EFFECTS: ["fixef", "absorb", "fe", "entity_effects", "time_effects", "other_effects"],
    "singletons are always left out, and counted": ["fixef_rm", "drop_singletons"],
    FREQUENCIES: ["sample_weight", "freq_weights", "var_weights", "weights_type"],
    INTERCEPT: ["fit_intercept", "hasconst", "constant", "intercept"],
    "choose the level in fit.conf_int(alpha) or fit.tidy(alpha)": ["alpha", "level"],
    "collinear columns are found; leave them out with on_collinear='drop'": [
        "collin_tol", "drop_absorbed", "check_rank",
    ],
    "karat decides that itself; leave it out": [
        "copy_data", "lean", "store_data", "demeaner_backend", "fixef_tol", "low_memory",
    ],
}  # fmt: skip
ARGUMENTS = {name: text for text, names in _ARGUMENTS.items() for name in names}


def no_attribute(results: Any, name: str, others: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that results do not have; ``others`` come before ours."""
    advice = {**ATTRIBUTES, **others}.get(name)
    if advice is None:
        return AttributeError(f"{type(results).__name__!r} object has no attribute {name!r}")
    return NotAvailableError(f"A table has no {name!r}: {advice}.")


def no_attribute_of_several(tables: Any, kind: type, one: str, name: str) -> AttributeError:
    """The same for a mapping of tables of a kind; ``one`` says how to take one of them."""
    if name in ATTRIBUTES or name in OF_INSTANCES or hasattr(kind, name):
        return NotAvailableError(f"There are several tables; take one of them: {one}.{name}.")
    return AttributeError(f"{type(tables).__name__!r} object has no attribute {name!r}")


def no_argument(function: Any, unknown: Mapping[str, Any]) -> TypeError:
    """The error for an argument of :func:`karat.inference.ols` that it does not have."""
    name = next(iter(unknown))
    if name not in ARGUMENTS:
        return unknown_argument(function, unknown)
    return TypeError(f"ols() has no argument {name!r}; {ARGUMENTS[name]}.")


def check_predict(exog: Any, unknown: Mapping[str, Any]) -> None:
    """Raise unless ``predict`` has new rows, and arguments that it knows."""
    if unknown:
        raise InputError(
            f"predict takes new rows and interval=, as predict(frame, interval=0.95), not"
            f" {', '.join(unknown)}."
        )
    if exog is None:
        raise NotExactError("Pass new rows: predict(frame). The rows of the fit are not kept.")
