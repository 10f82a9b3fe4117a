"""statsmodels' results for all rows, from the kept ones.

A weighted fit of the kept rows has the coefficients, the residual and the total sum of squares of
all rows.  Everything else that statsmodels derives from these needs the number of observations, and
the sum of the logarithms of the weights, which are put in their places here.  Robust covariances
come from sums that were stored with the coreset; what was not stored, and what looks at single
residuals, is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.regression.linear_model import WLS, RegressionResults, RegressionResultsWrapper

from karat.engine.least_squares import DependentColumnError, LeastSquaresSolution, solve
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError
from karat.inference import show
from karat.inference.hypotheses import constraints, hypothesis, pairwise
from karat.inference.new_rows import check_rows, checked_array, design_columns, in_blocks

KINDS = ("nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster")  # of covariances
SHAPE = "It looks at every residual of the full data, which a coreset does not keep."
SMALLEST = 1e-280  # variances, beyond which they lose digits


def check_cov_type(cov_type: str) -> None:
    """Refuse a covariance that is not known."""
    if cov_type not in KINDS:
        raise InputError(
            f"cov_type must be one of {', '.join(KINDS)}, not {cov_type!r}.", argument="cov_type"
        )


@dataclass(frozen=True)
class FullData:
    """What is known about all rows beside the kept ones.

    Attributes
    ----------
    observations : float
    log_weights : float
        The sum of the logarithms of the weights; 0 where they are counts.
    covariances : dict of arrays
        Robust covariances of the parameters, by HC0, HC2, HC3 and cluster, without corrections for
        small samples.
    residuals : dict of float
        Quantiles of all residuals, if a pass was made for them.
    clusters : int
        How many there are.
    """

    observations: float
    log_weights: float = 0.0
    covariances: dict[str, Array] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)
    clusters: int = 0

    def covariance(self, kind: str, width: int) -> Array:
        """With the corrections of statsmodels; refused if its sums were not stored."""
        stored = "HC0" if kind == "HC1" else kind
        if stored not in self.covariances:
            known = (
                ", ".join(
                    sorted({*self.covariances, *(["HC1"] if "HC0" in self.covariances else [])})
                )
                or "none"
            )
            raise NotExactError(
                f"Robust covariance {kind}: its sums (fourth moments of rows and residuals) were"
                f" not stored with this coreset, which has {known}; call karat.inference.ols with"
                f" the data and cov_type={kind!r}."
            )
        n, groups = self.observations, self.clusters
        factor = {
            "HC1": n / (n - width),
            "cluster": groups / max(groups - 1, 1) * (n - 1) / (n - width),
        }.get(kind, 1.0)
        return factor * self.covariances[stored]


def _dependent(error: DependentColumnError, names: list[str], intercept: bool) -> str:
    """Say which column of a formula is a combination of which others."""
    name = names[error.column]
    if not error.others:
        return f"The column {name!r} is always zero; leave its term out of the formula."
    if intercept and error.others == (0,):
        return (
            f"The column {name!r} is constant, like the intercept; leave its term out of the"
            " formula."
        )
    others = ", ".join(repr(names[other]) for other in error.others[:5]) + (
        ", ..." if len(error.others) > 5 else ""
    )
    return (
        f"The column {name!r} is a linear combination of {others}, so its coefficient is not"
        " defined; leave one of these terms out of the formula."
    )


class FrequencyWLS(WLS):
    """Weighted least squares of kept rows that knows how many rows they stand for."""

    def __init__(
        self, y: Any, X: Any, weights: Array, full: FullData, coreset: Any, design: Any = None
    ) -> None:
        super().__init__(y, X, weights=weights)
        self.full, self.coreset = full, coreset
        self.nobs = float(full.observations)
        self.design = design  # encodes new rows, if there was a formula

    @property
    def solution(self) -> LeastSquaresSolution:
        """Of all rows."""
        first = self.exog_names[0] in ("Intercept", "const") and bool(
            (self.exog[:, 0] == 1.0).all()
        )
        try:
            return solve(self.exog, self.endog, self.weights, first)
        except DependentColumnError as error:
            raise InputError(
                _dependent(error, [str(name) for name in self.exog_names], first)
            ) from error

    def fit(
        self,
        method: str = "qr",
        cov_type: str = "nonrobust",
        cov_kwds: Any = None,
        use_t: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Fit; a robust covariance is that of the full data, if its sums were stored."""
        if cov_kwds is not None or kwargs:
            raise NotExactError(f"Robust covariances with options: {SHAPE}")
        found = self.solution
        with np.errstate(over="ignore", invalid="ignore"):
            self.rank, self.normalized_cov_params = self.exog.shape[1], found.root @ found.root.T
        self._check_size()
        if self.nobs <= self.rank:
            raise InputError(
                f"{self.nobs:.0f} observations leave no degrees of freedom for {self.rank} columns;"
                " leave terms out."
            )
        return RegressionResultsWrapper(FullDataResults(self, found, cov_type, use_t))

    def _check_size(self) -> None:
        """Refuse columns whose variance is too large or too small for a double."""
        variances = np.diag(self.normalized_cov_params)
        strange = np.flatnonzero(~((variances > SMALLEST) & (variances < 1 / SMALLEST)))
        if len(strange):
            name, size = self.exog_names[strange[0]], float(np.abs(self.exog[:, strange[0]]).max())
            raise InputError(
                f"The column {name!r} has values of size {size:.0e}, so that the variance of its"
                " coefficient is no number in double precision; write it in other units.",
                column=str(name),
            )

    def fit_regularized(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: statsmodels divides the loss by the number of kept rows."""
        raise NotExactError(
            "fit_regularized would count the kept rows; use"
            " fit.coreset.fit(sklearn.linear_model.Lasso(...))."
        )

    def loglike(self, params: Any) -> float:
        """The Gaussian log-likelihood of all rows."""
        rss = float(np.sum((self.wendog - self.wexog @ params) ** 2))
        return self.log_likelihood(rss)

    def log_likelihood(self, rss: float) -> float:
        """The same from the residual sum of squares."""
        with np.errstate(divide="ignore"):
            return float(
                -0.5 * self.nobs * (np.log(2 * np.pi * rss / self.nobs) + 1)
                + 0.5 * self.full.log_weights
            )


def quiet(name: str) -> Any:
    """A number of statsmodels without NumPy's warnings: of a perfect fit it is infinite or not
    defined, and says so.
    """

    def read(self: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            if not np.any(self.cov_params()):
                warnings.simplefilter("ignore")
            return getattr(super(FullDataResults, self), name)

    return property(read, doc=getattr(RegressionResults, name).__doc__)


class FullDataResults(RegressionResults):
    """Results of all rows; see :func:`karat.inference.ols`."""

    def __init__(
        self, model: FrequencyWLS, found: LeastSquaresSolution, cov_type: str, use_t: bool | None
    ) -> None:
        self.found = found
        scale = found.rss / model.df_resid
        super().__init__(
            model,
            found.params,
            model.normalized_cov_params,
            scale,
            use_t=True if use_t is None else use_t,
        )
        self.scale = scale
        check_cov_type(cov_type)
        if cov_type != "nonrobust":
            self.cov_type, clustered = cov_type, cov_type == "cluster"
            robust = "robust to cluster correlation" if clustered else "heteroscedasticity robust"
            self.cov_params_default = model.full.covariance(cov_type, len(found.params))
            self.use_t = bool(use_t)  # statsmodels has the normal distribution here, too
            # in the words of statsmodels
            description = f"Standard Errors are {robust} ({cov_type})"
            self.cov_kwds = {
                "description": description,
                "use_t": self.use_t,
                "adjust_df": clustered,
            }
            if clustered:
                self.df_resid_inference = model.full.clusters - 1
                self.n_groups = model.full.clusters

    @property
    def nobs(self) -> float:
        return float(self.model.nobs)

    @property
    def ssr(self) -> float:
        return self.found.rss

    @property
    def llf(self) -> float:
        return float(self.model.log_likelihood(self.found.rss))

    @property
    def labels(self) -> list[str]:
        """The names of the parameters."""
        return [str(name) for name in self.model.exog_names]

    def get_robustcov_results(
        self, cov_type: str = "HC1", use_t: bool | None = None, **kwargs: Any
    ) -> Any:
        """The same fit with another covariance, if its sums were stored."""
        if kwargs:
            raise NotExactError(f"Robust covariances with options: {SHAPE}")
        return self.model.fit(cov_type=cov_type, use_t=self.use_t if use_t is None else use_t)

    @property
    def coreset(self) -> Any:
        """The kept rows, with the formula and the robust sums; it can be saved, and asked again."""
        return self.model.coreset

    @property
    def design(self) -> Any:
        """Encodes new rows, if the fit was made from a formula."""
        return self.model.design

    def submodel(self, terms: Any) -> Any:
        """The classical table of some of the columns, from the same coreset.

        Parameters
        ----------
        terms : list of str, or str
            Names of columns, or a formula whose terms are all in this one.
        """
        if isinstance(terms, str):
            if self.design is None:
                raise InputError(
                    "This fit was not made from a formula; name the columns of the submodel.",
                    argument="terms",
                )
            terms = self.design.columns_of(terms, self.labels)
        if not isinstance(terms, list | tuple | pd.Index | np.ndarray) or not len(terms):
            raise InputError(
                "A submodel is a formula, or a list of columns; 'Intercept' is one.",
                argument="terms",
            )
        places = [self._place(name) for name in terms]
        if len(set(places)) < len(places):
            raise InputError("The submodel names a column twice; name each once.", argument="terms")
        rows = pd.DataFrame(self.model.exog[:, places], columns=[self.labels[i] for i in places])
        full = FullData(self.model.full.observations, self.model.full.log_weights)
        response = pd.Series(self.model.endog, name=self.model.endog_names)
        return FrequencyWLS(
            response, rows, self.model.weights, full, self.coreset, self.design
        ).fit()

    def _place(self, name: Any) -> int:
        if name not in self.labels:
            raise InputError(
                f"The coreset has no column {name!r}; it has {', '.join(self.labels)}.",
                column=str(name),
            )
        return self.labels.index(name)

    def _encoded(self, exog: Any) -> tuple[Iterable[Array], Any]:
        """New rows as columns of the design, some at a time, and their index."""
        if isinstance(exog, np.ndarray):
            return in_blocks(checked_array(exog, self.labels)), None
        check_rows(exog)
        if self.design is None:
            return in_blocks(design_columns(exog, self.labels)), getattr(exog, "index", None)
        return self.design.pieces(exog, self.labels), exog.index if hasattr(exog, "iloc") else None

    def predict(self, exog: Any = None, interval: Any = None, **kwargs: Any) -> Any:
        """Predictions for new rows, which are encoded as the rows of the fit were.

        Parameters
        ----------
        exog : frame, or array of the columns of the design
        interval : float, optional
            A level such as 0.95: also the standard error of the mean, and intervals for the mean
            and for an observation.
        """
        if kwargs:
            raise InputError(f"predict takes new rows and interval=, not {', '.join(kwargs)}.")
        if exog is None:
            raise NotExactError(f"Predictions need new rows: predict(frame). {SHAPE}")
        if interval is not None:
            if not isinstance(interval, float) or not 0 < interval < 1:
                raise InputError(
                    f"interval is a level such as 0.95, not {interval!r}.", argument="interval"
                )
            return self.get_prediction(exog).summary_frame(alpha=1 - interval)
        pieces, index = self._encoded(exog)
        means = np.concatenate([np.empty(0), *map(self.found.means, pieces)])
        return pd.Series(means, index=index, name=self.model.endog_names)

    def get_prediction(
        self,
        exog: Any = None,
        transform: bool = True,
        weights: Any = None,
        row_labels: Any = None,
        **kw: Any,
    ) -> Any:
        """As in statsmodels, for new rows."""
        if exog is None:
            raise NotExactError(f"Predictions need new rows: get_prediction(frame). {SHAPE}")
        pieces, index = self._encoded(exog)
        rows = np.concatenate([np.empty((0, len(self.labels))), *pieces])
        labels = index if row_labels is None else row_labels
        found = super().get_prediction(
            exog=rows, transform=False, weights=weights, row_labels=labels, **kw
        )
        # with more digits, where columns are far from zero
        found.predicted, variances = self.found.predicted(rows)
        if self.cov_type == "nonrobust":
            found.var_pred = self.scale * variances
        return found

    def summary(self, *args: Any, **kwargs: Any) -> Any:
        """The table; statsmodels' tests of the residuals' shape (skewness, Durbin-Watson) need
        every residual.
        """
        return show.summary(self, *args, **kwargs)

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    def tidy(self, alpha: float = 0.05) -> Any:
        """The coefficients as a frame with one row each."""
        return show.tidy(self, alpha)

    def glance(self) -> Any:
        """The numbers about the whole model as a frame of one row."""
        return show.glance(self)

    def _stored(self, kind: str) -> Array:
        return self.model.full.covariance(kind, len(self.params))  # type: ignore[no-any-return]

    cov_HC0 = property(lambda self: self._stored("HC0"))  # noqa: N815 - names of statsmodels
    cov_HC1 = property(lambda self: self._stored("HC1"))  # noqa: N815
    cov_HC2 = property(lambda self: self._stored("HC2"))  # noqa: N815
    cov_HC3 = property(lambda self: self._stored("HC3"))  # noqa: N815
    HC0_se = property(lambda self: np.sqrt(np.diag(self.cov_HC0)))
    HC1_se = property(lambda self: np.sqrt(np.diag(self.cov_HC1)))
    HC2_se = property(lambda self: np.sqrt(np.diag(self.cov_HC2)))
    HC3_se = property(lambda self: np.sqrt(np.diag(self.cov_HC3)))

    def _refused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotExactError(f"Robust statistics of single rows are not available: {SHAPE}")

    get_influence = outlier_test = compare_lm_test = el_test = conf_int_el = _refused
    resid_pearson = property(_refused)

    def _kept_only(self) -> Any:
        raise NotExactError(
            "A coreset has residuals and fitted values of its kept rows only. Those of all rows:"
            " frame['y'] - fit.predict(frame); their quantiles: ols(..., residual_quantiles=True)."
        )

    @property
    def residual_quantiles(self) -> pd.Series:
        """Smallest, quartiles, median and largest of all residuals (times the root of the weight,
        as in R).
        """
        if not self.model.full.residuals:
            raise NotExactError(
                "Quantiles of the residuals take a pass of their own, which was not made for this"
                " fit; call karat.inference.ols with the data and residual_quantiles=True."
            )
        return pd.Series(self.model.full.residuals, name="residuals")

    resid = wresid = fittedvalues = property(_kept_only)
    rsquared, rsquared_adj, fvalue, f_pvalue, tvalues, pvalues = map(
        quiet, ("rsquared", "rsquared_adj", "fvalue", "f_pvalue", "tvalues", "pvalues")
    )

    def t_test(self, r_matrix: Any, *args: Any, **kwargs: Any) -> Any:
        """As in statsmodels."""
        with hypothesis(r_matrix, self.labels):
            return super().t_test(r_matrix, *args, **kwargs)

    def wald_test(self, r_matrix: Any, *args: Any, **kwargs: Any) -> Any:
        """As in statsmodels; so is ``f_test``."""
        with hypothesis(r_matrix, self.labels):
            return super().wald_test(r_matrix, *args, **kwargs)

    def t_test_pairwise(
        self, term_name: str, method: Any = "hs", alpha: float = 0.05, factor_labels: Any = None
    ) -> Any:
        """As in statsmodels."""
        return pairwise(self, term_name, method, alpha, factor_labels)

    def wald_test_terms(
        self,
        skip_single: bool = False,
        extra_constraints: Any = None,
        combine_terms: Any = None,
        scalar: bool = True,
    ) -> Any:
        """As in statsmodels: one test per term of the formula."""
        own = [
            (name, matrix)
            for name, matrix in constraints(self)
            if len(matrix) > 1 or not skip_single
        ]
        every = own + list(extra_constraints or [])
        return super().wald_test_terms(
            skip_single=True, extra_constraints=every, combine_terms=combine_terms, scalar=scalar
        )

    def summary2(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: it holds tests of every residual's shape."""
        raise NotExactError(
            "summary2() tests the shape of all residuals, which a coreset does not keep; use"
            " summary()."
        )
