"""Gaussian mixtures from moments (see :mod:`karat.problems.latent.mixture`):

``g_j = 1 / ell_j^2``, ``mu_j = ell_j B v_j``.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import DensityMixin, clone

from karat.engine.linalg import Array
from karat.errors import InputError, check_integer, several
from karat.models import fourth, misfit, simulate
from karat.models import refine as refining
from karat.models.base import (
    ENOUGH,
    as_distributions,
    fit_quietly,
    positive_variances,
    solve_small,
    spherical_log_density,
)
from karat.models.misfit import Check
from karat.models.recovery import Recovery
from karat.models.refinable import Refinable
from karat.models.tensor import STARTS, deflate
from karat.problems import latent
from karat.problems.latent.base import Maps
from karat.problems.latent.mixture import within
from karat.problems.latent.sample import Sample, read

NOT_SPHERICAL = "the third moments are not those of spherical components"


class GaussianMixture(DensityMixin, Refinable):
    """Mixture of spherical Gaussians, learned by moments: no start to choose, no local optima,
    sample weights.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components; "auto" reads it off the largest gap in the spectrum of the covariance.
    variances : {"shared", "spherical"}
        One variance for all components, or one for each.
    refine : {"auto", None, "spherical", "diag", "tied", "full"}
        Go on by scikit-learn's EM with covariances of this kind, on all rows; the better one by
        held-out likelihood is kept.  "auto": if a check says that the model does not fit, with
        spherical, diagonal or full covariances, whichever held-out rows prefer; not with weights,
        ``centred=False`` or more than 5,000,000 numbers.  None: moments alone.
    centred : bool
        Moments about the mean.  With False the model is learned to the letter of the paper's
        reference (Anandkumar et al. 2014): moments about the origin, the smallest eigenvalue of the
        covariance as the variance, and the power method with deflation from random starts.  Its
        answer changes if all rows are shifted, and how well it fits is not tested.
    n_init : int, optional
        For ``centred=False``: random starts of the power method for each component, of which the
        best is followed; 30 by default.
    random_state : int
        For :meth:`sample`, ``refine`` and ``n_init``.

    Attributes
    ----------
    weights_, means_, covariances_ : arrays (k,), (k, d), (k,)
        Mixing weights, means and variances; after ``refine`` covariances in scikit-learn's shape.
    covariance_type_ : str
        "spherical", or what ``refine`` gave.
    refinement_ : Refinement or None
        Likelihoods before and after ``refine``.
    n_components_ : int
    mass_ : float
        Sum of the mixing weights before they were normalised; near 1 if the model fits.
    recovery_ : Recovery
    """

    means_: Array
    problem_type = latent.GaussianMixture

    def __init__(
        self,
        n_components: int | Literal["auto"] = 2,
        *,
        variances: Literal["shared", "spherical"] = "shared",
        refine: Literal["auto", "spherical", "diag", "tied", "full"] | None = "auto",
        centred: bool = True,
        n_init: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.variances = variances
        self.refine = refine
        self.centred = centred
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from data; y is ignored."""
        return self._fit_and_refine(X, sample_weight)

    def _can_continue(self, sample_weight: Any) -> bool:
        return self.centred and super()._can_continue(sample_weight)

    def refine_with(self, X: Any) -> Self:
        """Continue with scikit-learn's EM on rows, say after ``fit_coreset``; see ``refine``."""
        refining.check_kind(self.refine)
        self._check_fitted()
        if self.covariance_type_ != "spherical":
            raise InputError("This mixture has been refined already; fit it again.")
        centre = self.means_.mean(axis=0)  # far from the origin scikit-learn's squares would cancel
        table = self._table(X) - centre
        kinds = refining.kinds_tried(self.refine, table.shape[1])

        def starts_of(rows: Array) -> list[Any]:
            part = fit_quietly(clone(self).set_params(n_components=self.n_components_), rows)
            return [part._start(kind, 0.0) for kind in kinds]

        starts = [self._start(kind, centre) for kind in kinds]
        fits, seed = self.recovery_.fits, self.random_state
        peer, self.refinement_ = refining.refine_mixture(starts, starts_of, table, seed, fits)
        if self.refinement_.kept:
            self.weights_, self.means_, self.covariances_ = (
                peer.weights_,
                peer.means_ + centre,
                peer.covariances_,
            )
            self.covariance_type_ = peer.covariance_type
        return self

    def _start(self, kind: str, centre: Array | float) -> Any:
        """scikit-learn's mixture with the parameters of the moments, smoothed, for rows less their
        centre.
        """
        return refining.mixture_start(
            self.weights_, self.means_ - centre, self.covariances_, kind, self.random_state
        )

    def _problem(
        self, X: Any = None, sample_weight: Any = None, lengths: Any = None
    ) -> latent.GaussianMixture:
        refining.check_kind(self.refine)
        if self.centred and self.n_init is not None:
            raise InputError(
                "n_init is for centred=False; about the mean the answer does not depend on the"
                " starts. Leave it out.",
                argument="n_init",
            )
        if self.n_init is not None:
            check_integer("n_init", self.n_init)
        one = latent.GaussianMixture(1, self.variances, centred=self.centred)
        k = self._number(X, sample_weight, one)
        return latent.GaussianMixture(k, self.variances, centred=self.centred)

    def _decomposed(
        self, tensor: Array, spectrum: Array, problem: latent.Latent
    ) -> tuple[Array, Array, Recovery]:
        if self.centred:
            return super()._decomposed(tensor, spectrum, problem)
        return deflate(tensor, spectrum, self.n_init or STARTS, self.random_state)

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: latent.Latent) -> None:
        mixture = self._mixture(moments["tensor"], maps, problem)
        self.means_ = mixture.points + (maps["mean"] if self.centred else 0.0)
        self.mass_ = mixture.mass
        common, d = float(maps["sigma2"]), len(maps["mean"])
        if self.variances == "spherical":
            estimates = solve_small(
                (mixture.weights[:, None] * mixture.small).T, moments["spread"], problem.part
            )
            variances = positive_variances(
                estimates, common, "the variances of the components", self._impossible
            )
        else:
            variances = np.full(problem.k, common)
        self.weights_ = as_distributions(
            mixture.weights[None], "the mixing weights", self._impossible
        )[0]
        self.covariances_ = variances
        self.covariance_type_, self.refinement_ = "spherical", None
        noise = 5.0 * common * np.sqrt(d / float(maps["n"]))
        last = problem.k - 1 - self.centred
        if last >= 0 and maps["spectrum"][last] < noise:
            self._notes.append(
                f"the second moments do not clearly show {several(problem.k, problem.part)}:"
                f" eigenvalue {last + 1} is {maps['spectrum'][last]:.3g}, and sampling noise alone"
                f" reaches about {noise:.3g}"
            )
        if not 0.5 < self.mass_ < 2.0:
            self._impossible.append(
                f"the mixing weights add up to {self.mass_:.3g} before they were normalised"
            )

    def _checks(self, maps: Maps, problem: latent.Latent, sample: Sample | None) -> list[Check]:
        if not self.centred:  # its variance is one eigenvalue, for which no test is known
            return [misfit.compared("moments", None, "", "no test is known about the origin")]
        k, common = problem.k, float(maps["sigma2"])
        d = len(maps["mean"])
        free, size = d - k + 1, f"{several(k, 'component')} in {several(d, 'column')}"
        inflation = (
            max(1.0, float(self.weights_ @ np.square(self.covariances_ / common)))
            if common > 0
            else 1.0
        )
        n = float(maps["effective"])
        equal = misfit.sphericity(float(maps["low"]), common, free, n, inflation)
        checks = [
            misfit.compared(
                "equal variances",
                equal,
                "the directions in which the components do not differ have unequal variances",
                f"k = {size}: {several(max(free, 0), 'direction')} left",
            )
        ]
        shared = self.variances == "shared"
        if k > 1:
            ell, V = self._basis[0], misfit.orthonormal(self._basis[1])
            metric = within(maps["M"], k)

        def diagonal(p_value: float | None) -> Check:
            return misfit.compared("tensor", p_value, NOT_SPHERICAL, misfit.NOTHING_OFF_DIAGONAL)

        if sample is None:
            if k > 1 and n >= ENOUGH and common > 0:
                points = np.column_stack([(self.means_ - maps["mean"]) @ maps["M"], np.ones(k)])
                z, q = simulate.mixture(self.weights_, points, self.covariances_, metric, free)
                draws = misfit.off_diagonal(
                    *_parts(z @ V.T, q, common, V @ metric @ V.T, V[:, -1], shared), ell
                )
                checks.append(
                    diagonal(simulate.p_value(self._tensor, V, draws, ell, min(n, misfit.PROBE)))
                )
            if k > 1 and not any(check.tested for check in checks):
                self._notes.append(
                    f"a coreset of {size} leaves nothing to compare; fit(X) compares fourth moments"
                )
            return checks
        index = misfit.probe(sample)
        x = read(sample.views[0], index) - maps["mean"]
        checks += misfit.constant_columns(x, len(sample))
        top = x @ maps["top"]
        q = (np.square(x).sum(axis=1) - np.square(top).sum(axis=1)) / free
        checks.append(
            misfit.compared(
                "round noise",
                misfit.directions(x, maps["top"]),
                "the noise about the components is not the same in all directions",
                "there is one direction across the components",
            )
        )
        if shared and common > 0:
            tails = misfit.gaussian_tails(q, free)
            checks.append(
                Check("Gaussian noise", tails, "the components are not Gaussians of one variance")
            )
        if k > 1:
            z = np.column_stack([x @ maps["M"], np.ones(len(x))]) @ V.T
            values = misfit.off_diagonal(
                *_parts(z, q, common, V @ metric @ V.T, V[:, -1], shared), ell
            )
            checks.append(diagonal(misfit.wald(values)))
            checks.append(
                misfit.compared(
                    "fourth moments",
                    fourth.fourth_moments_p_value(x, maps["top"], maps["M"], V, shared),
                    "the fourth moments along the components are not those of spherical Gaussians",
                    f"it needs at most {fourth.MOST} components that stay when a fiftieth of the"
                    " samples is left out",
                )
            )
        return checks

    def _log_joint(self, X: Any) -> Array:
        X = self._table(X)
        with np.errstate(divide="ignore"):
            if self.covariance_type_ != "spherical":
                # the sum over components is theirs, the parts are its logarithm and the posterior
                centre = self.means_.mean(axis=0)
                peer, X = self._peer(centre), X - centre
                return np.asarray(np.log(peer.predict_proba(X)) + peer.score_samples(X)[:, None])
            densities = spherical_log_density(X, self.means_, np.maximum(self.covariances_, 1e-300))
            return np.asarray(densities + np.log(self.weights_))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely component of each row."""
        return np.asarray(self._log_joint(X).argmax(axis=1))

    def predict_proba(self, X: Any) -> Array:
        """Posterior probabilities of the components (n x k)."""
        joint = self._log_joint(X)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))

    def score_samples(self, X: Any) -> Array:
        """Log-likelihood of each row."""
        return np.asarray(logsumexp(self._log_joint(X), axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood; y is ignored."""
        return float(self.score_samples(X).mean())

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Learn from data and return the component of each row."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    @property
    def _parameters(self) -> int:
        """The number of free parameters."""
        k, d = self.means_.shape
        shared = (
            self.covariance_type_ == "spherical"
            and self.variances == "shared"
            and not (self.refinement_ and self.refinement_.kept)
        )
        return int(
            k * d
            + k
            - 1
            + (1 if shared else refining.free_covariances(self.covariance_type_, k, d))
        )

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of rows; lower is better."""
        likelihoods = self.score_samples(X)
        return float(-2 * likelihoods.sum() + self._parameters * np.log(len(likelihoods)))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion of rows; lower is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._parameters)

    def sample(self, n_samples: int = 1) -> tuple[Array, np.ndarray]:
        """Draw rows from the model, and the component of each."""
        self._check_fitted()
        check_integer("n_samples", n_samples)
        if self.covariance_type_ != "spherical":
            return self._peer().sample(n_samples)  # type: ignore[no-any-return]
        rng = np.random.default_rng(self.random_state)
        labels = rng.choice(self.n_components_, size=n_samples, p=self.weights_)
        noise = rng.standard_normal((n_samples, self.n_features_in_))
        return self.means_[labels] + np.sqrt(self.covariances_[labels])[:, None] * noise, labels

    def to_sklearn(self) -> Any:
        """A fitted ``sklearn.mixture.GaussianMixture`` with these parameters, smoothed by 1 % so
        that EM can leave them.

        Its ``fit`` would start EM from them: a separate step, which needs the full data, since a
        coreset does not keep the likelihood.
        """
        self._check_fitted()
        return self._peer()

    def _peer(self, centre: Array | float = 0.0) -> Any:
        """scikit-learn's mixture with these parameters, for rows less a centre."""
        kind, covariances = self.covariance_type_, self.covariances_
        if kind == "spherical":
            return self._start(kind, centre)
        precisions = np.linalg.inv(covariances) if kind in ("tied", "full") else 1.0 / covariances
        return refining.fitted_mixture(
            self.weights_, self.means_ - centre, precisions, kind, self.random_state
        )


def _parts(
    z: Array, q: Array, common: float, G: Array, mean: Array, shared: bool
) -> tuple[Any, Any]:
    """Every sample's part in the entries of the tensor and of the whitened second moments, noise
    taken off.
    """
    # with the error of sigma^2
    noise = (common * z + (q - common)[:, None] * mean) if shared else q[:, None] * z
    cube = misfit.triple(z, z, z)

    def entry(i: int, j: int, m: int) -> Array:
        return np.asarray(
            cube(i, j, m) - noise[:, i] * G[j, m] - noise[:, j] * G[i, m] - noise[:, m] * G[i, j]
        )

    return entry, lambda i, j: z[:, i] * z[:, j] - q * G[i, j]
