"""How a regression table is shown: as text and HTML by the tables of statsmodels, and as tidy
frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params
from statsmodels.regression.linear_model import RegressionResultsWrapper

from karat.core.regression import BY_CLUSTER
from karat.core.synthetic import SYNTHETIC
from karat.engine.least_squares import DependentColumnError
from karat.errors import InputError, several
from karat.inference.options import STATSMODELS

NOTED = 1e-8  # standard errors by which rounding moves estimates, from which on the table says so


class ShownResults(RegressionResultsWrapper):
    """The results of statsmodels with their labels; a prompt shows the table."""

    def __repr__(self) -> str:
        return str(self.summary())


def summary(
    results: Any, yname: str | None = None, xname: Any = None, title: str | None = None,
    alpha: float = 0.05, slim: bool = False, model: Any = None, likelihood: bool = True,
    notes: Sequence[str] = (),
) -> Any:  # fmt: skip
    """The table of a fit; ``slim`` omits some statistics of the whole model, as in statsmodels.
    ``model`` has its name and its method, and ``notes`` come last.
    """
    weighted = "WLS" if results.model.full.log_weights else "OLS"
    groups = []
    if results.cov_type in BY_CLUSTER:
        counts = " x ".join(f"{count:,}" for count in np.atleast_1d(results.n_groups))
        groups = [("Clusters:", [counts])]
    left: list[tuple[str, Any]] = [
        ("Dep. Variable:", None),
        *(model or [("Model:", [weighted]), ("Method:", ["Least Squares"])]),
        ("No. Observations:", [f"{results.nobs:.0f}"]),
        ("Df Residuals:", [f"{results.df_resid:.0f}"]),
        ("Df Model:", [f"{results.df_model:.0f}"]),
        ("Covariance Type:", [results.cov_type]),
        *groups,
    ]
    centred = "" if results.k_constant else " (uncentered)"
    right = [
        (f"R-squared{centred}:", [f"{results.rsquared:#8.3f}"]),
        (f"Adj. R-squared{centred}:", [f"{results.rsquared_adj:#8.3f}"]),
        ("F-statistic:", [f"{results.fvalue:#8.4g}"]),
        ("Prob (F-statistic):", [f"{np.float64(results.f_pvalue):#6.3g}"]),
    ]
    if likelihood:
        right += [
            ("Log-Likelihood:", [f"{results.llf:#0.5g}"]),
            ("AIC:", [f"{results.aic:#0.4g}"]),
            ("BIC:", [f"{results.bic:#0.4g}"]),
            ("Cond. No.:", [f"{results.condition_number:#8.3g}"]),
        ]
    if slim:
        left, right = [left[i] for i in (0, 1, 3, *range(6, len(left)))], right[:4]
    kind = "synthetic row" if results.coreset.rows == SYNTHETIC else "kept row"
    rows = several(len(results.model.exog), kind)
    title = title or f"Observations: {results.nobs:,.0f} (from {rows})"
    table = Summary()
    table.add_table_2cols(results, gleft=left, gright=right, yname=yname, xname=xname, title=title)
    table.add_table_params(results, yname=yname, xname=xname, alpha=alpha, use_t=results.use_t)
    dropped = results.model.dropped
    if dropped:
        cells = [["dropped", *[""] * (len(table.tables[1][0]) - 2)] for _ in dropped]
        table.tables[1].extend(SimpleTable(cells, stubs=list(dropped), txt_fmt=fmt_params))
    texts = [results.cov_kwds["description"]]
    if results.cov_type in ("HC1", *BY_CLUSTER) or results.model.ssc != STATSMODELS:
        texts.append(f"Small-sample corrections: {results.model.ssc}.")
    if results.rounding > NOTED:
        texts.append(
            f"Rounding of the kept rows may move estimates by {results.rounding:.0e} standard"
            " errors."
        )
    left_out = results.coreset.certificate.left_out
    if left_out:
        texts.append(f"Left out: {several(left_out, 'row')} with missing values.")
    if dropped:
        left_out = ", ".join(map(repr, dropped))
        texts.append(f"Dropped, as linear combinations of columns before them: {left_out}.")
    if results.model.full.residuals:
        kind = "Weighted residuals" if results.model.full.log_weights else "Residuals"
        texts.append(
            f"{kind}: "
            + ", ".join(f"{name} {value:.5g}" for name, value in results.residual_quantiles.items())
        )
    table.add_extra_txt([*texts, *notes])
    return table


def tidy(results: Any, alpha: Any) -> pd.DataFrame:
    """A frame with one row per coefficient; that of a dropped column is missing."""
    if not isinstance(alpha, float) or not 0 < alpha < 1:
        raise InputError(
            f"alpha must be a number between 0 and 1, such as 0.05, not {alpha!r}.",
            argument="alpha",
        )
    ends = np.asarray(results.conf_int(alpha))
    table = pd.DataFrame(
        {
            "term": results.labels,
            "estimate": np.asarray(results.params),
            "std_error": np.asarray(results.bse),
            "statistic": np.asarray(results.tvalues),
            "p_value": np.asarray(results.pvalues),
            "conf_low": ends[:, 0],
            "conf_high": ends[:, 1],
        }
    )
    places = range(len(table) + len(results.model.dropped))
    return table.reindex(places).assign(term=[*results.labels, *results.model.dropped])


def glance(results: Any, likelihood: bool = True) -> pd.DataFrame:
    """A frame with one row of statistics of the model."""
    row = {
        "r_squared": results.rsquared,
        "adj_r_squared": results.rsquared_adj,
        "sigma": float(np.sqrt(results.scale)),
        "statistic": results.fvalue,
        "p_value": float(results.f_pvalue),
        "df": results.df_model,
        **(
            {"log_likelihood": results.llf, "aic": results.aic, "bic": results.bic}
            if likelihood
            else {}
        ),
        "ssr": results.ssr,
        "df_residual": results.df_resid,
        "observations": int(results.nobs),
        "left_out": results.coreset.certificate.left_out,
        "rows_kept": len(results.model.exog),
        "cov_type": results.cov_type,
    }
    return pd.DataFrame([row])


def dependent_column(error: DependentColumnError, names: list[str], intercept: bool) -> str:
    """The message that names a column and those of which it is a combination."""
    name = names[error.column]
    if not error.others:
        return f"The column {name!r} is always zero; remove its term from the formula."
    if intercept and error.others == (0,):
        return (
            f"The column {name!r} is constant, like the intercept; remove its term from the"
            " formula."
        )
    others = ", ".join(repr(names[other]) for other in error.others[:5]) + (
        ", ..." if len(error.others) > 5 else ""
    )
    return (
        f"The column {name!r} is a linear combination of {others}, so its coefficient is not"
        " defined; remove one of these terms from the formula."
    )
