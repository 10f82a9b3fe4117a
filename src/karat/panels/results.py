"""The table of a regression with fixed effects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.contrast import ContrastResults

from karat.core.regression import BY_CLUSTER, CLUSTERED, JACKKNIFE
from karat.engine.least_squares import LeastSquaresSolution
from karat.engine.linalg import Array
from karat.engine.products import Choice, Products
from karat.errors import InputError, NotExactError, several
from karat.inference import habits
from karat.inference.bootstrap import WildBootstrap, wild_bootstrap
from karat.inference.covariance import Covariance, constraints_of, without_negative
from karat.inference.hypotheses import hypothesis
from karat.inference.options import SmallSample
from karat.panels.model import PanelModel
from karat.panels.predict import level_effects, predicted

CORRECTED = "A variance was negative, so negative eigenvalues are set to zero, as in fixest."
CRITERION = "whether absorbed effects are parameters is a convention; compute it from fit.llf"
TEST = "test the coefficients that you mean: fit.f_test('x1 = 0, x2 = 0')"
NO_ROWS = "it needs every residual, and rows are not kept"
OTHER = "use fit.with_covariance(cov_type)"
NO_INSTRUMENTS = "instruments cannot be combined with fixed effects"
# what statsmodels' results have, and how to get it here
ELSEWHERE = {
    **dict.fromkeys(("aic", "bic", "AIC", "BIC"), CRITERION),
    "coreset": "sums by level are not kept in rows; call ols with the data again",
    "design": "fit.predict(frame) encodes new rows",
    "dropped": "fit.notes names the columns that were dropped",
    "fittedvalues": "rows are not kept; use fit.predict(frame)",
    "get_prediction": "errors of single effects are not computed; fit.predict(frame) has the means",
    "r2_within": "fit.rsquared_within has it",
    "resid": "rows are not kept; use frame['y'] - fit.predict(frame)",
    "submodel": "a smaller formula has other effects; call ols with it and the data",
    "summary2": "fit.summary() has the table",
    **dict.fromkeys(("fixef", "estimated_effects", "fixed_effects"), "fit.effects() has them"),
    **dict.fromkeys(("first_stage", "sargan", "wu_hausman"), NO_INSTRUMENTS),
    **dict.fromkeys(("get_influence", "outlier_test", "residual_quantiles"), NO_ROWS),
    **dict.fromkeys(("get_robustcov_results", "HC1_se", "HC3_se", "cov_HC1", "cov_HC3"), OTHER),
    **dict.fromkeys(
        (
            "anova",
            "anova_lm",
            "fvalue",
            "f_statistic",
            "fstat",
            "f_pvalue",
            "compare_f_test",
            "wald_test_terms",
        ),
        TEST,
    ),
}


class PanelResults:
    """Results of :func:`karat.inference.ols` with fixed effects.

    Attributes
    ----------
    params, bse, tvalues, pvalues : pandas.Series
    nobs : int
        Observations, without singletons.
    df_resid : int
        n - k - effects.
    rsquared, rsquared_within : float
        Of the response, and of the response less its effects.
    """

    def __init__(
        self, model: PanelModel, cov_type: str, ssc: SmallSample, use_t: bool | None
    ) -> None:
        self.model, self.cov_type, self.ssc = model, cov_type, ssc
        self.use_t = use_t is None or bool(use_t)
        self.covariance = self._covariance()

    def _covariance(self) -> Covariance:
        model, solution = self.model, self.model.solution
        n, count = model.parameters.rows, model.parameters.count(self.ssc, self.clustered)
        if self.cov_type == "nonrobust":
            return Covariance(solution, self.scale * np.eye(len(solution.params)))
        if self.cov_type == CLUSTERED:
            if not model.clusters.middles:
                raise NotExactError(self._not_summed())
            middle = self.ssc.parameters(n, count) * model.clusters.middle(self.ssc)
            return without_negative(Covariance(solution, middle))
        stored = "HC0" if self.cov_type == "HC1" else self.cov_type
        if stored not in model.middles:
            raise NotExactError(self._not_summed())
        factor = 1.0
        if self.cov_type == "HC1":
            factor = self.ssc.heteroscedastic(n, count)
        elif self.cov_type == JACKKNIFE:
            factor = self.ssc.leaving_out(model.clusters.ways[0], n, count)
        return Covariance(solution, factor * model.middles[stored])

    def _not_summed(self) -> str:
        return (
            f"The sums of the covariance {self.cov_type!r} were not computed; call ols with the"
            f" data and cov_type={self.cov_type!r}, or a list of covariances."
        )

    def with_covariance(self, cov_type: str) -> PanelResults:
        """The same fit with another covariance, whose sums were computed."""
        return PanelResults(self.model, cov_type, self.ssc, self.use_t)

    def wild_bootstrap(
        self, hypothesis: Any, *, draws: int = 9999, weights: str = "rademacher",
        random_state: Any = 0,
    ) -> WildBootstrap:  # fmt: skip
        """Test a hypothesis, such as ``"x = 0"``, by the wild cluster bootstrap, where the fixed
        effects are nested in clusters; the fit needs ``cov_type="CR3"`` or ``"CR2"``, or a list
        with one of them.

        Parameters
        ----------
        hypothesis : str or array
        draws : int, default 9999
            If there are no more combinations of signs, each is used once.
        weights : {"rademacher", "webb"}
            Signs; or six values, for fewer than about 12 clusters.
        random_state : int, optional
        """
        products = self.model.products
        if products is None:
            raise NotExactError(
                "The wild bootstrap needs the sums of every cluster: call ols with"
                " cov_type='CR3', or a list with it, and cluster=."
            )
        count, choice = products.clusters.shape[1], self._choice(products)
        parameters = self.model.parameters.count(self.ssc, clustered=True)
        factor = self.ssc.clusters(count, (count,)) * self.ssc.parameters(self.nobs, parameters)
        return wild_bootstrap(
            self, products, choice, factor, hypothesis, draws, weights, random_state
        )

    def _choice(self, products: Products) -> Choice:
        """All regressors, in the coordinates of sums by cluster."""
        solution = self.solution
        return products.choice(range(len(solution.params)), solution.shift, solution.whitening)

    @property
    def solution(self) -> LeastSquaresSolution:
        """Of the regressors less their effects."""
        return self.model.solution

    @property
    def clustered(self) -> bool:
        """Whether errors are clustered."""
        return self.cov_type in BY_CLUSTER

    @property
    def labels(self) -> list[str]:
        """The names of the coefficients."""
        return self.model.names

    @property
    def nobs(self) -> int:
        return self.model.parameters.rows

    @property
    def singletons(self) -> int:
        """Rows that were left out because each was alone in a level."""
        return self.model.singletons

    @property
    def level_mean(self) -> float:
        """The certificate: the largest mean in any level of what is left of a column, in standard
        deviations.
        """
        return self.model.absorbed.level_mean

    @property
    def df_resid(self) -> int:
        return self.model.parameters.residual_degrees(self.ssc)

    @property
    def df_inference(self) -> int:
        """The degrees of freedom of t."""
        return min(self.model.clusters.ways) - 1 if self.clustered else self.df_resid

    @property
    def df_k(self) -> int:
        """The parameters that small-sample corrections count."""
        return self.model.parameters.count(self.ssc, self.clustered)

    @property
    def ssr(self) -> float:
        return self.model.solution.rss

    @property
    def scale(self) -> float:
        """The residual variance."""
        model = self.model
        count = model.parameters.count(self.ssc, clustered=False)
        return self.ssc.classical(self.ssr, model.parameters.rows, count)

    @property
    def params(self) -> pd.Series:
        return self._named(self.model.solution.params, "params")

    @property
    def bse(self) -> pd.Series:
        return self._named(np.sqrt(np.diag(self.covariance.matrix)), "std_error")

    @property
    def tvalues(self) -> pd.Series:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.params / self.bse.to_numpy()

    @property
    def pvalues(self) -> pd.Series:
        return self._named(2 * self._distribution.sf(np.abs(self.tvalues)), "p_value")

    @property
    def _distribution(self) -> Any:
        return stats.t(self.df_inference) if self.use_t else stats.norm()

    def _named(self, values: Array, name: str) -> pd.Series:
        return pd.Series(values, index=self.labels, name=name)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Confidence intervals."""
        if not isinstance(alpha, float) or not 0 < alpha < 1:
            raise InputError(
                f"alpha must be a number between 0 and 1, such as 0.05, not {alpha!r}.",
                argument="alpha",
            )
        half = self._distribution.isf(alpha / 2) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def cov_params(self) -> pd.DataFrame:
        """The covariance of the coefficients."""
        return pd.DataFrame(self.covariance.matrix, index=self.labels, columns=self.labels)

    def wald_test(self, r_matrix: Any) -> pd.Series:
        """The Wald test of linear combinations, such as ``"x1 = x2"`` or ``"x1, x2"``: an F test if
        the table uses t, else chi squared.
        """
        statistic, rank = self._wald(r_matrix)
        if self.use_t:
            p = stats.f.sf(statistic / rank, rank, self.df_inference)
            return pd.Series({"statistic": statistic / rank, "p_value": float(p), "df": rank})
        p = stats.chi2.sf(statistic, rank)
        return pd.Series({"statistic": statistic, "p_value": float(p), "df": rank})

    def f_test(self, r_matrix: Any) -> ContrastResults:
        """The F test of linear combinations, as in statsmodels."""
        statistic, rank = self._wald(r_matrix)
        return ContrastResults(F=statistic / rank, df_denom=self.df_inference, df_num=rank)

    def t_test(self, r_matrix: Any) -> ContrastResults:
        """A t test of each linear combination, as in statsmodels; normal if the table is."""
        with hypothesis(r_matrix, self.labels):
            matrix, values = constraints_of(r_matrix, self.labels)
            effect = matrix @ self.params.to_numpy()
            errors = np.sqrt(np.diag(matrix @ self.covariance.matrix @ matrix.T))
            t = (effect - values) / errors
        if self.use_t:
            return ContrastResults(effect=effect, t=t, sd=errors, df_denom=self.df_inference)
        return ContrastResults(effect=effect, statistic=t, sd=errors, distribution="norm")

    def _wald(self, r_matrix: Any) -> tuple[float, int]:
        with hypothesis(r_matrix, self.labels):
            return self.covariance.wald(*constraints_of(r_matrix, self.labels))

    def __getattr__(self, name: str) -> Any:
        raise habits.no_attribute(self, name, ELSEWHERE)

    @property
    def rsquared(self) -> float:
        return 1 - self.ssr / self.model.total

    @property
    def rsquared_adj(self) -> float:
        return 1 - (1 - self.rsquared) * (self.nobs - 1) / self.df_resid

    @property
    def rsquared_within(self) -> float:
        return 1 - self.ssr / self.model.within

    @property
    def llf(self) -> float:
        """The Gaussian log-likelihood."""
        n = self.nobs
        with np.errstate(divide="ignore"):
            fit = np.log(2 * np.pi * self.ssr / n) + 1
        return float(-0.5 * n * fit + 0.5 * self.model.log_weights)

    @cached_property
    def notes(self) -> list[str]:
        """What the table says below the coefficients."""
        model, parameters = self.model, self.model.parameters
        notes = [f"Small-sample corrections: {self.ssc}; K = {self.df_k:,}."]
        counted = parameters.absorbed(False)
        if parameters.rank not in (None, counted):
            notes.append(
                f"The fixed effects count as {counted:,} parameters; their rank is"
                f" {parameters.rank:,} (k_fixef_exact)."
            )
        kinds = (("row", " with missing values", model.missing), ("singleton", "", self.singletons))
        left = [several(count, noun) + beside for noun, beside, count in kinds if count]
        if left:
            notes.append(f"Left out: {', '.join(left)}.")
        if model.dropped:
            names = ", ".join(map(repr, model.dropped))
            notes.append(f"Dropped, as combinations of effects and columns before them: {names}.")
        if self.covariance.corrected:
            notes.append(CORRECTED)
        method = model.absorbed.method
        notes.append(f"Largest mean left in a level: {self.level_mean:.1g} deviations ({method}).")
        return notes

    def effects(self) -> dict[str, pd.DataFrame]:
        """The fixed effects: for each a frame with the effect of every level, its rows, its
        connected component, and whether it is the reference of the component.

        The sum of the effects of a row, and of its regressors times their coefficients, is what the
        fit predicts.  In each component the effect of one level, the first, of each fixed effect
        but the first one is zero.
        """
        return level_effects(self.model)

    def predict(self, exog: Any = None, interval: Any = None, **unknown: Any) -> pd.Series:
        """The predictions for new rows; NaN, with a warning, where a level has no effect.

        Parameters
        ----------
        exog : frame, dictionary or files
            With the columns of the regressors and of the fixed effects.
        interval
            Raises an error: an interval needs the errors of the effects.
        """
        habits.check_predict(exog, unknown)
        if interval is not None:
            raise NotExactError(
                "The errors of the effects are not computed, so predictions have no intervals;"
                " predict(frame) has the means. With C(g) in place of '| g' they have."
            )
        return predicted(self.model, exog)

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """The coefficients as a frame, one row for each; that of a dropped column is missing."""
        ends = self.conf_int(alpha)
        table = pd.DataFrame(
            {
                "term": self.labels,
                "estimate": self.params.to_numpy(),
                "std_error": self.bse.to_numpy(),
                "statistic": self.tvalues.to_numpy(),
                "p_value": self.pvalues.to_numpy(),
                "conf_low": ends[0].to_numpy(),
                "conf_high": ends[1].to_numpy(),
            }
        )
        terms = [*self.labels, *self.model.dropped]
        return table.reindex(range(len(terms))).assign(term=terms)

    def glance(self) -> pd.DataFrame:
        """The statistics of the whole model as a frame of one row."""
        row: dict[str, Any] = {
            "r_squared": self.rsquared,
            "adj_r_squared": self.rsquared_adj,
            "r_squared_within": self.rsquared_within,
            "sigma": float(np.sqrt(self.scale)),
            "log_likelihood": self.llf,
            "ssr": self.ssr,
            "df_residual": self.df_resid,
            "observations": self.nobs,
            "singletons": self.singletons,
            "left_out": self.model.missing,
            "cov_type": self.cov_type,
        }
        for effect, levels in zip(
            self.model.plan.effects, self.model.parameters.levels, strict=True
        ):
            row[f"levels_{effect.name}"] = levels
        return pd.DataFrame([row])

    def summary(self, alpha: float = 0.05) -> str:
        """The table as text."""
        model = self.model
        effects = ", ".join(
            f"{effect.name} ({levels:,}{', nested' * (nested and self.clustered)})"
            for effect, levels, nested in zip(
                model.plan.effects, model.parameters.levels, model.parameters.nested, strict=True
            )
        )
        kind = self.cov_type
        if self.clustered:
            ways = zip(model.plan.clusters, model.clusters.ways, strict=True)
            kind += ": " + ", ".join(f"{name} ({count:,})" for name, count in ways)
        head = [
            f"{model.formula}",
            f"Observations: {self.nobs:,}    Fixed effects: {effects}",
            f"Covariance: {kind}",
            f"R2: {self.rsquared:.4f}    within R2: {self.rsquared_within:.4f}"
            f"    residual degrees of freedom: {self.df_resid:,}",
        ]
        body = _text_table(self.tidy(alpha), alpha)
        return "\n".join([*head, "", *body, "", *self.notes])

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{note}</p>" for note in self.notes)
        return str(self.tidy().to_html(index=False, na_rep="dropped")) + notes


def _text_table(table: pd.DataFrame, alpha: float) -> Sequence[str]:
    """The lines of the coefficients."""
    heads = ["", "estimate", "std. error", "t", "p", f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
    rows = [heads] + [
        [
            str(term),
            *(["dropped"] if np.isnan(numbers[0]) else [f"{number:.5g}" for number in numbers]),
        ]
        for term, *numbers in table.itertuples(index=False)
    ]
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(heads))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=False)),
            ]
        )
        for row in rows
    ]
