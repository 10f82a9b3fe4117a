"""statsmodels' results for all rows, from the kept ones.

A weighted fit of the kept rows has the coefficients, the residual and the total sum of squares of
all rows.  Everything else that statsmodels derives from these needs the number of observations and
the sum of the logarithms of the weights, which this module supplies.  Robust covariances come from
sums that were stored with the coreset.  Methods that need sums which were not stored, or single
residuals, raise an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.regression.linear_model import WLS, RegressionResults
from statsmodels.stats.contrast import ContrastResults

from karat.core.regression import BY_CLUSTER
from karat.engine.least_squares import DependentColumnError, LeastSquaresSolution, solve
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError, several
from karat.formulas.design import INTERCEPT
from karat.inference import covariance, habits, hypotheses, show
from karat.inference.bootstrap import WildBootstrap, wild_bootstrap
from karat.inference.covariance import Covariance, FullData, constraints_of, singular_values
from karat.inference.new_rows import check_rows, checked_array, design_columns, in_blocks
from karat.inference.options import STATSMODELS, check_cov_type, check_options

NO_RESIDUALS = "They need every residual of the full data, which a coreset does not keep."
CORRECTED = "; a variance was negative, so negative eigenvalues are set to zero"  # as in fixest
SMALLEST = 1e-280  # variance of a coefficient; smaller ones lose digits to underflow


class FrequencyWLS(WLS):
    """Weighted least squares of the kept rows, with the number of rows that they represent."""

    ssc = STATSMODELS
    results_class: Any = property(lambda self: FullDataResults)

    def __init__(
        self, y: Any, X: Any, weights: Array, full: FullData, coreset: Any, design: Any = None
    ) -> None:
        super().__init__(y, X, weights=weights)
        self.data.__class__ = hypotheses.KeptRows
        self.full, self.coreset = full, coreset
        self.nobs = float(full.observations)
        self.design = design  # encodes new rows, if there was a formula
        self.dropped: tuple[str, ...] = ()  # columns that are combinations of others

    @property
    def solution(self) -> LeastSquaresSolution:
        """The least-squares solution of all rows."""
        names = [str(name) for name in self.exog_names]
        intercept = names[0] == INTERCEPT and bool((self.exog[:, 0] == 1.0).all())
        try:
            return solve(self.exog, self.endog, self.weights, intercept)
        except DependentColumnError as error:
            raise InputError(show.dependent_column(error, names, intercept)) from error

    def fit(
        self,
        method: str = "qr",
        cov_type: str = "nonrobust",
        cov_kwds: Any = None,
        use_t: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Fit; a robust covariance is that of the full data, if its sums were stored."""
        check_options({**(cov_kwds or {}), **kwargs}, self.full)
        solution = self.solution
        root = solution.root
        with np.errstate(over="ignore", invalid="ignore"):
            self.rank, self.normalized_cov_params = self.exog.shape[1], root @ root.T
        self._check_size()
        if self.nobs <= self.rank:
            raise InputError(
                f"No degrees of freedom are left: {several(round(self.nobs), 'observation')} and"
                f" {several(self.rank, 'column')}; remove terms."
            )
        return show.ShownResults(self.results_class(self, solution, cov_type, use_t))

    def _check_size(self) -> None:
        """Refuse columns whose variance is too large or too small for a double."""
        variances = np.diag(self.normalized_cov_params)
        extreme = np.flatnonzero(~((variances > SMALLEST) & (variances < 1 / SMALLEST)))
        if len(extreme):
            name, size = self.exog_names[extreme[0]], float(np.abs(self.exog[:, extreme[0]]).max())
            raise InputError(
                f"Change the units of the column {name!r}: its values have size {size:.0e}, so the"
                " variance of its coefficient overflows or underflows in double precision.",
                column=str(name),
            )

    def fit_regularized(self, *args: Any, **kwargs: Any) -> Any:
        """Raises an error: statsmodels would divide the loss by the number of kept rows."""
        raise NotExactError(
            "fit_regularized would count only the kept rows; use"
            " fit.coreset.fit(sklearn.linear_model.Lasso(...))."
        )

    def loglike(self, params: Any) -> float:
        """The Gaussian log-likelihood of all rows."""
        rss = float(np.sum((self.wendog - self.wexog @ params) ** 2))
        return self.log_likelihood(rss)

    def log_likelihood(self, rss: float) -> float:
        """The log-likelihood from the residual sum of squares."""
        with np.errstate(divide="ignore"):
            return float(
                -0.5 * self.nobs * (np.log(2 * np.pi * rss / self.nobs) + 1)
                + 0.5 * self.full.log_weights
            )


def quiet(name: str) -> Any:
    """A property of statsmodels' results without NumPy's warnings: for a perfect fit it is infinite
    or NaN.
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
        self, model: FrequencyWLS, solution: LeastSquaresSolution, cov_type: str, use_t: bool | None
    ) -> None:
        self.solution = solution
        scale = model.ssc.classical(solution.rss, model.nobs, len(solution.params))
        unscaled, t = model.normalized_cov_params, use_t is None or use_t
        super().__init__(model, solution.params, unscaled, scale, use_t=t)
        self.scale = scale
        self.covariance = Covariance(solution, scale * np.eye(len(solution.params)))
        covariance.warn_of_rounding(solution.rounding(scale), model)
        check_cov_type(cov_type)
        if cov_type != "nonrobust":
            self.cov_type, clustered = cov_type, cov_type in BY_CLUSTER
            robust = "robust to cluster correlation" if clustered else "heteroscedasticity robust"
            self.covariance = model.full.covariance(cov_type, solution, model.ssc)
            self.cov_params_default = self.covariance.matrix
            self.use_t = bool(use_t)  # by default the normal distribution, as in statsmodels
            # the wording of statsmodels
            words = f"Standard Errors are {robust} ({cov_type})"
            words += CORRECTED if self.covariance.corrected else ""
            self.cov_kwds = {"description": words, "use_t": self.use_t, "adjust_df": clustered}
            if clustered:
                counts = model.full.clusters
                self.df_resid_inference = min(counts) - 1
                self.n_groups = counts[0] if len(counts) == 1 else counts

    @property
    def nobs(self) -> float:
        return float(self.model.nobs)

    @property
    def ssr(self) -> float:
        return self.solution.rss

    @cached_property
    def rounding(self) -> float:
        """By about how many standard errors rounding of the kept rows may move estimates."""
        kept = self.coreset.certificate.loss_error * float(np.sqrt(self.nobs))
        return float(self.solution.rounding(self.scale) * self.solution.condition + kept)

    @property
    def centered_tss(self) -> np.float64:
        """The sum of squares of the response about its mean."""
        y, weights = self.model.endog, self.model.weights
        for _ in range(2):  # the mean of large numbers is rounded; what is left of it is small
            y = y - np.average(y, weights=weights)
        return np.float64(weights @ np.square(y))

    @property
    def llf(self) -> float:
        return float(self.model.log_likelihood(self.solution.rss))

    @property
    def labels(self) -> list[str]:
        """The names of the parameters."""
        return [str(name) for name in self.model.exog_names]

    def get_robustcov_results(
        self, cov_type: str = "HC1", use_t: bool | None = None, **kwargs: Any
    ) -> Any:
        """The same fit with another covariance, if its sums were stored."""
        check_options(kwargs, self.model.full)
        return self.model.fit(cov_type=cov_type, use_t=self.use_t if use_t is None else use_t)

    @property
    def coreset(self) -> Any:
        """The kept rows, with the formula and the robust sums; save it to query it again later."""
        return self.model.coreset

    @property
    def design(self) -> Any:
        """The encoder of new rows; None if the fit was not made from a formula."""
        return self.model.design

    def submodel(self, terms: Any, cov_type: str = "nonrobust", use_t: bool | None = None) -> Any:
        """The table of some of the columns, from the same coreset.

        Parameters
        ----------
        terms : list of str, or str
            Names of columns, or a formula whose terms are all in this one.
        cov_type : str
            nonrobust; or HC0, HC1 or cluster, if ``ols(..., submodels=True)`` stored their sums, or
            CR3, if that was among the covariances of the fit.
        """
        places = hypotheses.places_of(self, terms)
        labels = self.labels
        rows = pd.DataFrame(self.model.exog[:, places], columns=[labels[i] for i in places])
        response = self.model.data.orig_endog
        full = self.model.full.of_columns(places)
        smaller = FrequencyWLS(response, rows, self.model.weights, full, self.coreset, self.design)
        smaller.ssc = self.model.ssc
        return smaller.fit(cov_type=cov_type, use_t=use_t)

    def wild_bootstrap(
        self, hypothesis: Any, *, draws: int = 9999, weights: str = "rademacher",
        random_state: Any = 0,
    ) -> WildBootstrap:  # fmt: skip
        """Test a hypothesis, such as ``"x = 0"``, by the wild cluster bootstrap: for few clusters.

        It needs the sums of every cluster, which ``ols(..., cov_type="CR3", cluster=...)`` stores.

        Parameters
        ----------
        hypothesis : str or array
        draws : int, default 9999
            If there are no more combinations of signs, each is used once.
        weights : {"rademacher", "webb"}
            Signs; or six values, for fewer than about 12 clusters.
        random_state : int, optional
        """
        full, ssc = self.model.full, self.model.ssc
        products = full.sums_by_cluster()
        count, choice = products.clusters.shape[1], full.choice(products, self.solution)
        factor = ssc.clusters(count, (count,)) * ssc.parameters(self.nobs, len(self.params))
        return wild_bootstrap(
            self, products, choice, factor, hypothesis, draws, weights, random_state
        )

    def _encoded(self, exog: Any) -> tuple[Iterable[Array], Any]:
        """The design of new rows, in blocks, and their index."""
        if isinstance(exog, np.ndarray):
            return in_blocks(checked_array(exog, self.labels)), None
        check_rows(exog)
        if self.design is None:
            return in_blocks(design_columns(exog, self.labels)), getattr(exog, "index", None)
        return self.design.pieces(exog, self.labels), exog.index if hasattr(exog, "iloc") else None

    def predict(self, exog: Any = None, interval: Any = None, **kwargs: Any) -> Any:
        """Predict new rows, which are encoded in the same way as the rows of the fit.

        Parameters
        ----------
        exog : frame, or array of the columns of the design
        interval : float, optional
            A level such as 0.95: return a frame with the standard error of the mean, and intervals
            for the mean and for an observation.
        """
        habits.check_predict(exog, kwargs)
        if interval is not None:
            if not isinstance(interval, float) or not 0 < interval < 1:
                raise InputError(
                    f"interval is a level such as 0.95, not {interval!r}.", argument="interval"
                )
            return self.get_prediction(exog).summary_frame(alpha=1 - interval)
        pieces, index = self._encoded(exog)
        means = np.concatenate([np.empty(0), *map(self.solution.means, pieces)])
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
        habits.check_predict(exog, {})
        pieces, index = self._encoded(exog)
        rows = np.concatenate([np.empty((0, len(self.labels))), *pieces])
        labels = index if row_labels is None else row_labels
        prediction = super().get_prediction(
            exog=rows, transform=False, weights=weights, row_labels=labels, **kw
        )
        # whitened columns keep more digits where columns are far from zero or nearly collinear
        prediction.predicted = self.solution.means(rows)
        prediction.var_pred = self.covariance.variances(rows)
        return prediction

    def summary(self, *args: Any, **kwargs: Any) -> Any:
        """The table, without statsmodels' tests of the residuals, which need all of them."""
        return show.summary(self, *args, **kwargs)

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    def tidy(self, alpha: float = 0.05) -> Any:
        """The coefficients as a frame, one row for each."""
        return show.tidy(self, alpha)

    def glance(self) -> Any:
        """The statistics of the whole model as a frame of one row."""
        return show.glance(self)

    def _stored(self, kind: str) -> Array:
        other: Covariance = self.model.full.covariance(kind, self.solution, self.model.ssc)
        return other.matrix

    def cov_params(
        self, r_matrix: Any = None, column: Any = None, scale: Any = None, cov_p: Any = None,
        other: Any = None,
    ) -> Any:  # fmt: skip
        """As in statsmodels."""
        if r_matrix is None or any(given is not None for given in (column, scale, cov_p)):
            return super().cov_params(r_matrix, column, scale, cov_p, other)
        rows = np.asarray(r_matrix, dtype=float)
        others = rows if other is None else np.asarray(other, dtype=float)
        between = self.covariance.contrasts(
            np.atleast_2d(rows), None if other is None else np.atleast_2d(others)
        )
        return between.reshape((*rows.shape[:-1], *others.shape[:-1]))[()]

    @property
    def eigenvals(self) -> Array:
        """Of X'X, decreasing."""
        return np.square(singular_values(self.model.wexog, self.solution))

    @property
    def condition_number(self) -> float:
        """The ratio of the largest to the smallest singular value of X."""
        values = singular_values(self.model.wexog, self.solution)
        return float(values[0] / values[-1])

    cov_HC0 = property(lambda self: self._stored("HC0"))  # noqa: N815 - names of statsmodels
    cov_HC1 = property(lambda self: self._stored("HC1"))  # noqa: N815
    cov_HC2 = property(lambda self: self._stored("HC2"))  # noqa: N815
    cov_HC3 = property(lambda self: self._stored("HC3"))  # noqa: N815
    HC0_se = property(lambda self: np.sqrt(np.diag(self.cov_HC0)))
    HC1_se = property(lambda self: np.sqrt(np.diag(self.cov_HC1)))
    HC2_se = property(lambda self: np.sqrt(np.diag(self.cov_HC2)))
    HC3_se = property(lambda self: np.sqrt(np.diag(self.cov_HC3)))

    def __getattr__(self, name: str) -> Any:
        raise habits.no_attribute(self, name, {})

    def _not_available(self, *args: Any, **kwargs: Any) -> Any:
        raise NotExactError(f"Statistics of single rows are not available. {NO_RESIDUALS}")

    get_influence = outlier_test = compare_lm_test = el_test = conf_int_el = _not_available
    resid_pearson = property(_not_available)

    def _kept_only(self) -> Any:
        raise NotExactError(
            "A coreset has residuals and fitted values of its kept rows only. Use frame['y'] -"
            " fit.predict(frame) for all rows, or ols(..., residual_quantiles=True) for quantiles."
        )

    @property
    def residual_quantiles(self) -> pd.Series:
        """Minimum, quartiles, median and maximum of all residuals (times the square root of the
        weight, as in R).
        """
        if not self.model.full.residuals:
            raise NotExactError(
                "The quantiles of the residuals were not computed for this fit; call"
                " karat.inference.ols with the data and residual_quantiles=True."
            )
        return pd.Series(self.model.full.residuals, name="residuals")

    resid = wresid = fittedvalues = property(_kept_only)
    rsquared, rsquared_adj, fvalue, f_pvalue, tvalues, pvalues = map(
        quiet, ("rsquared", "rsquared_adj", "fvalue", "f_pvalue", "tvalues", "pvalues")
    )

    def t_test(self, r_matrix: Any, cov_p: Any = None, use_t: bool | None = None) -> Any:
        """As in statsmodels."""
        with hypotheses.hypothesis(r_matrix, self.labels):
            test = super().t_test(r_matrix, cov_p, use_t)
            return hypotheses.t_test(self, r_matrix, test.sd, test.distribution == "t")

    def wald_test(
        self, r_matrix: Any, cov_p: Any = None, invcov: Any = None, use_f: bool | None = None,
        df_constraints: int | None = None, scalar: bool | None = None,
    ) -> Any:  # fmt: skip
        """As in statsmodels; so is ``f_test``."""
        with hypotheses.hypothesis(r_matrix, self.labels):
            if cov_p is not None or invcov is not None:
                return super().wald_test(r_matrix, cov_p, invcov, use_f, df_constraints, scalar)
            statistic, rank = self.covariance.wald(*constraints_of(r_matrix, self.labels))
            count = rank if df_constraints is None else df_constraints
            value = statistic if scalar else np.array([[statistic]])
            if self.use_t if use_f is None else use_f:
                df_resid = getattr(self, "df_resid_inference", None) or self.df_resid
                return ContrastResults(F=value / count, df_denom=df_resid, df_num=count)
            return ContrastResults(
                chi2=value, df_denom=count, statistic=value, distribution="chi2", distargs=(count,)
            )

    def t_test_pairwise(
        self, term_name: str, method: Any = "hs", alpha: float = 0.05, factor_labels: Any = None
    ) -> Any:
        """As in statsmodels."""
        return hypotheses.compare_levels(self, term_name, method, alpha, factor_labels)

    def wald_test_terms(
        self,
        skip_single: bool = False,
        extra_constraints: Any = None,
        combine_terms: Any = None,
        scalar: bool = True,
    ) -> Any:
        """As in statsmodels: one test per term of the formula."""
        tests = [
            (name, matrix)
            for name, matrix in hypotheses.constraints(self)
            if len(matrix) > 1 or not skip_single
        ]
        tests += list(extra_constraints or [])
        # statsmodels would find terms by patsy's design, so all tests are passed as extra ones
        return super().wald_test_terms(
            skip_single=True, extra_constraints=tests, combine_terms=combine_terms, scalar=scalar
        )

    def summary2(self, *args: Any, **kwargs: Any) -> Any:
        """Raises an error: it contains tests of all residuals."""
        raise NotExactError(
            "summary2() tests the shape of all residuals, which a coreset does not keep; use"
            " summary()."
        )
