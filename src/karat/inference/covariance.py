"""The covariance of the parameters, in coordinates that keep its digits.

Columns far from zero or nearly collinear (a cubic in the year) give covariances that cannot be
inverted in double precision, although every test is well defined.  So a covariance is kept as its
middle M in whitened coordinates (:mod:`karat.engine.least_squares`), in which the classical one is
the residual variance times the identity:

    parameters b = T W t,   covariance  (T W) M (T W)'
    rows A = R T W of a hypothesis R b = q;  A' = Q U:   Wald (Q't - U'^-1 q)' (Q'MQ)^-1 (...)
    (t and q without the part c of the intercept)
    prediction of a row x, whitened to z:                variance z'M z

A file stores M together with its W.  Whitening is unique up to a rotation only, so M is turned into
the coordinates of the solution at hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from patsy import DesignInfo  # statsmodels requires it
from scipy import linalg

from karat.core.coreset import Coreset
from karat.core.regression import (
    ADJUSTED,
    BY_CLUSTER,
    CLUSTERED,
    JACKKNIFE,
    JOINT,
    PLAIN,
    Regression,
    stage_sums,
)
from karat.engine.least_squares import COLLINEAR, LeastSquaresSolution
from karat.engine.linalg import Array
from karat.engine.products import Choice, Products
from karat.errors import NotExactError
from karat.formulas.design import INTERCEPT
from karat.inference.options import STATSMODELS, SmallSample
from karat.inference.submodels import LEAST, adjusted

WARNED = 1e-4  # standard errors by which rounding moves estimates, from which on there is a warning
EXACT = 1 / 64  # and per root of the observations those where the residuals are rounding themselves
WHITENING = "whitening"  # the coordinates of the sums, stored beside them


@dataclass(frozen=True)
class Covariance:
    """The covariance of the parameters of a solution.

    Attributes
    ----------
    solution : LeastSquaresSolution
    middle : array of shape (k, k)
        M, in the whitened coordinates of the solution.
    corrected : bool
        Whether a variance was negative, and negative eigenvalues are set to zero.
    """

    solution: LeastSquaresSolution
    middle: Array
    corrected: bool = False

    @property
    def matrix(self) -> Array:
        """The covariance of the parameters of the columns of the data."""
        return self._between(self.solution.root, self.solution.root)

    def contrasts(self, rows: Array, others: Array | None = None) -> Array:
        """Covariances of linear combinations of the parameters."""
        whitened = self.solution.whitened(rows)
        return self._between(
            whitened, whitened if others is None else self.solution.whitened(others)
        )

    def _between(self, left: Array, right: Array) -> Array:
        whole = left @ self.middle @ right.T
        return (whole + whole.T) / 2 if left is right else whole

    def variances(self, rows: Array) -> Array:
        """Of the predicted means of rows (1, x)."""
        whitened = self.solution.whitened(rows)
        return np.asarray(np.einsum("ij,ij->i", whitened @ self.middle, whitened))

    def wald(self, rows: Array, values: Array) -> tuple[float, int]:
        """The Wald statistic of the hypothesis ``rows @ params = values`` and its degrees of
        freedom; NaN if the covariance of the combinations is singular.
        """
        gap, middle = self._gap(rows, values)
        return self._quadratic_form(middle, gap), len(gap)

    def strength(self, rows: Array) -> tuple[float, float]:
        """What ``rows @ params`` explains of the response, and what it would if it were noise."""
        gap, middle = self._gap(rows, np.zeros(len(rows)))
        return float(gap @ gap), float(np.trace(middle))

    def _gap(self, rows: Array, values: Array) -> tuple[Array, Array]:
        """The difference of ``rows @ params`` from ``values`` in orthonormal combinations of the
        whitened parameters, and its covariance.
        """
        whitened = self.solution.whitened(rows)
        norms = np.linalg.norm(whitened, axis=1)
        norms[norms == 0.0] = 1.0
        q, u, order = linalg.qr((whitened / norms[:, None]).T, mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(u)) > COLLINEAR * max(rows.shape)).sum())
        if rank < len(rows):
            warnings.warn(
                f"The hypothesis has {len(rows)} rows, but only {rank}"
                f" {'is' if rank == 1 else 'are'} linearly independent; the others are left out.",
                UserWarning,
                stacklevel=6,
            )
        q, u = q[:, :rank], u[:rank, :rank]
        given = ((values - rows[:, 0] * self.solution.centre) / norms)[order[:rank]]
        gap = q.T @ self.solution.rotated - linalg.solve_triangular(u, given, trans="T")
        return gap, q.T @ self.middle @ q

    def _quadratic_form(self, middle: Array, gap: Array) -> float:
        """gap' middle^-1 gap."""
        if not len(gap) or not np.any(middle):  # an exact fit has no errors
            return np.nan
        eigenvalues, vectors = np.linalg.eigh(middle)
        if eigenvalues[0] <= len(gap) * np.finfo(float).eps * eigenvalues[-1]:
            warnings.warn(
                f"The covariance of these {len(gap)} combinations of coefficients is not positive"
                " definite, for example because there are no more clusters than coefficients, so"
                " their joint test is NaN; test fewer coefficients at a time.",
                UserWarning,
                stacklevel=6,
            )
            return np.nan
        return float(np.square(vectors.T @ gap) @ (1 / eigenvalues))


@dataclass(frozen=True)
class FullData:
    """What is known about all rows, besides the kept ones.

    Attributes
    ----------
    observations : float
    log_weights : float
        The sum of the logarithms of the weights; 0 where they are counts.
    sums : dict of arrays
        Middles of robust covariances, by HC0, HC2, HC3 and cluster, without corrections for small
        samples, and the whitening of their coordinates.
    residuals : dict of float
        Quantiles of all residuals, if they were computed.
    clusters : tuple of int
        The number of clusters of each way.
    merged : bool
        Whether coresets were merged, which have lost their sums.
    products : dict of Products
        Sums of products by HC0 and cluster, from which follow those of any choice of columns.
    places : tuple of int
        Which of the columns of the products this table is about.
    """

    observations: float
    log_weights: float = 0.0
    sums: dict[str, Array] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)
    clusters: tuple[int, ...] = ()
    merged: bool = False
    products: dict[str, Products] = field(default_factory=dict)
    places: tuple[int, ...] = ()

    def covariance(
        self, kind: str, solution: LeastSquaresSolution, ssc: SmallSample = STATSMODELS
    ) -> Covariance:
        """A robust covariance with small-sample corrections."""
        n, width = self.observations, len(solution.params)
        if kind in ("HC0", "HC1"):
            factor = ssc.heteroscedastic(n, width) if kind == "HC1" else 1.0
            return Covariance(solution, factor * self._middle("HC0", kind, solution))
        if kind == JACKKNIFE:
            middle = self._middle(kind, kind, solution)
            return Covariance(solution, ssc.leaving_out(self.clusters[0], n, width) * middle)
        if kind != CLUSTERED:
            return Covariance(solution, self._middle(kind, kind, solution))
        # the sum of several ways has the conventional factors already
        corrected = len(self.clusters) > 1 and ssc.g_adj and ssc.g_df == "conventional"
        if corrected:
            middle = self._middle(kind, kind, solution)
        else:
            stored = PLAIN if len(self.clusters) > 1 else kind
            middle = ssc.clusters(min(self.clusters), self.clusters) * self._middle(
                stored, kind, solution
            )
        return without_negative(Covariance(solution, ssc.parameters(n, width) * middle))

    def _middle(self, stored: str, kind: str, solution: LeastSquaresSolution) -> Array:
        """M of a kind in the whitened coordinates of the solution."""
        if stored in self.sums:
            return turned(self.sums, solution)[stored]
        products = self.products.get(CLUSTERED if stored in ADJUSTED else stored)
        if products is None or (stored in ADJUSTED and not products.clusters.shape[1]):
            raise NotExactError(self._not_stored(kind))
        choice = self.choice(products, solution)
        middle, error = products.middle(choice)
        if not error <= LEAST:
            raise NotExactError(
                f"The covariance {kind} of these columns has too few digits (an error of about"
                f" {error:.0e}): they, or the columns of the whole fit, are nearly collinear, or"
                " all scores of a cluster cancel. Call karat.inference.ols with the data and the"
                " formula of these columns."
            )
        return adjusted(products, choice, stored) if stored in ADJUSTED else middle

    def of_columns(self, places: Sequence[int]) -> FullData:
        """For a table of some of the columns of this one."""
        before = self.places or range(max(places) + 1)
        return FullData(
            self.observations, self.log_weights, clusters=self.clusters, products=self.products,
            merged=self.merged, places=tuple(before[place] for place in places),
        )  # fmt: skip

    def sums_by_cluster(self) -> Products:
        """Products with the sums of every cluster."""
        products = self.products.get(CLUSTERED)
        if products is None or not products.clusters.shape[1]:
            raise NotExactError(
                "The wild bootstrap needs the sums of every cluster, which were not stored: call"
                " karat.inference.ols with the data, cov_type='CR3' (or a list with it) and"
                " cluster=. Beyond 64 MiB they are not stored, and with so many clusters"
                " cov_type='cluster' is enough."
            )
        return products

    def choice(self, products: Products, solution: LeastSquaresSolution) -> Choice:
        """The columns of this table among those of the products."""
        places = self.places or range(products.width)
        return products.choice(places, solution.shift, solution.whitening)

    def _not_stored(self, kind: str) -> str:
        stored = ", ".join(self.kinds)
        if self.places:
            again = (
                "formula of the submodel"
                if kind in ("HC2", "HC3")
                else "whole formula and submodels=True"
            )
            return (
                f"The covariance {kind} of submodels does not follow from what this coreset stores;"
                f" its submodels have {stored}. Call karat.inference.ols with the data,"
                f" cov_type={kind!r}, and the {again}."
            )
        lost = " (merging dropped them: they belong to the solution of one part)" * self.merged
        return (
            f"The sums of the robust covariance {kind} were not stored with this coreset, which has"
            f" {stored}{lost}; ask for it with the data: karat.ols(formula, data,"
            f" cov_type={kind!r}), or karat regress with --cov {kind}."
        )

    @property
    def kinds(self) -> list[str]:
        """The covariances that can be shown, without the data."""
        stored = {*self.sums, *self.products} - {WHITENING, PLAIN}
        clusters = self.products.get(CLUSTERED)
        stored |= {"HC1"} if "HC0" in stored else set()
        stored |= {*ADJUSTED} if clusters is not None and clusters.clusters.shape[1] else set()
        return ["nonrobust", *sorted(stored)]


def full_data(core: Coreset) -> FullData:
    """What a coreset stores about all rows, besides the kept ones."""
    if core.regression is None:
        return FullData(float(core.weights.sum()))
    facts, cluster = core.regression.facts, stored_clusters(core.regression)
    return FullData(
        float(facts["observations"]), float(facts.get("log_weights") or 0.0),
        stage_sums(core.regression.sums, 0),
        dict(facts.get("residual_quantiles") or {}),
        tuple(cluster.get("counts") or [cluster.get("clusters", 0)]),
        bool(facts.get("merged")), core.regression.products,
    )  # fmt: skip


def stored_clusters(regression: Regression | None) -> dict[str, Any]:
    """Which clusters the stored sums are about."""
    covariances = {} if regression is None else regression.facts["covariances"]
    return next((covariances[kind] for kind in BY_CLUSTER if kind in covariances), {})


def check_stored(core: Coreset, clusters: Sequence[str]) -> None:
    """Raise if the stored sums are of the clusters of another column."""
    stored = stored_clusters(core.regression)
    cluster = JOINT.join(clusters)
    if clusters and stored and stored["column"] != cluster:
        raise NotExactError(
            f"This coreset stores the sums of the clusters {stored['column']!r}, not {cluster!r};"
            " pass the data."
        )


def without_negative(covariance: Covariance) -> Covariance:
    """The covariance; if a variance is negative, with negative eigenvalues set to zero."""
    matrix, solution = covariance.matrix, covariance.solution
    if (np.diag(matrix) >= 0).all():
        return covariance
    eigenvalues, vectors = np.linalg.eigh(matrix)
    positive = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    turn = solution.unwhitening @ solution.from_params
    return Covariance(solution, turn @ positive @ turn.T, corrected=True)


def turned(sums: dict[str, Array], solution: LeastSquaresSolution) -> dict[str, Array]:
    """Middles in the whitened coordinates of a solution, without those of older files: these hold
    covariances of the parameters.
    """
    if WHITENING in sums:
        turn = solution.unwhitening @ sums[WHITENING]
    else:
        turn = solution.unwhitening @ solution.from_params
    middles = {kind: value for kind, value in sums.items() if kind != WHITENING}
    return {kind: turn @ value @ turn.T for kind, value in middles.items()}


def warn_of_rounding(rounding: float, model: Any) -> None:
    """Warn where the response is so far from zero, or fitted so well, that doubles have too few
    digits; not where the fit is exact.
    """
    if not WARNED < rounding < EXACT * np.sqrt(model.nobs):
        return
    far = "" if model.k_constant and model.exog_names[0] == INTERCEPT else "add an intercept, or "
    warnings.warn(
        f"The residuals of {model.endog_names!r} are so small beside the fitted values that"
        f" rounding may move estimates by {rounding:.0e} standard errors; {far}subtract what is"
        " known of it.",
        UserWarning,
        stacklevel=7,
    )


def singular_values(rows: Array, solution: LeastSquaresSolution) -> Array:
    """Of weighted rows; small ones from their inverse, of which they are the large ones."""
    large = np.linalg.svd(rows, compute_uv=False)
    small = 1 / np.linalg.svd(solution.root, compute_uv=False)[::-1]
    return np.asarray(np.where(large > 1e-6 * large[0], large, small))


def constraints_of(hypothesis: Any, labels: list[str]) -> tuple[Array, Array]:
    """The matrix and the values of a hypothesis, which may be text, a matrix, or both."""
    parsed = DesignInfo(labels).linear_constraint(hypothesis)
    return np.asarray(parsed.coefs, dtype=float), np.asarray(parsed.constants, dtype=float).ravel()
