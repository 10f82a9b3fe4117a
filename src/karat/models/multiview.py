"""Multi-view mixtures from moments (see :mod:`karat.problems.latent.views`)."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy.special import logsumexp, softmax

from karat.core.construct import check_equal_rows
from karat.core.coreset import Coreset
from karat.data import containers
from karat.data.transformed import dense
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError, check_integer, several
from karat.models import misfit
from karat.models.base import (
    Learner,
    as_distributions,
    check_finite,
    solve_small,
    spherical_log_density,
)
from karat.models.misfit import Check
from karat.models.views import view_checks
from karat.problems import latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, read


class MultiView(Learner):
    """A mixture in three views (X is a tuple of three tables) that are independent given the
    component, learned by moments.

    Parameters
    ----------
    n_components : int or "auto"
        "auto": as many as the products of the first and third view show.
    random_state : int
        For :meth:`sample`.

    Attributes
    ----------
    weights_ : array (k,)
        Mixing weights.
    means_ : tuple of three arrays (k, d_a)
        Means of the views in each component.
    variances_ : tuple of three arrays (d_a,)
        Variances of the columns within components, for :meth:`predict_proba`; only after ``fit``.
    mass_ : float
        Sum of the mixing weights before they were normalised; near 1 if the model fits.
    view_names_ : tuple of three lists of str or None
        Names of the columns of each view, if it was a data frame.
    recovery_ : Recovery
    """

    problem_type = latent.MultiView
    variances_: tuple[Array, ...]

    def __init__(self, n_components: int | Literal["auto"] = 2, *, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def _validated(self, X: Any, reset: bool) -> Any:
        """Three tables; the names of their columns are learned, or compared with those that
        were.
        """
        if not isinstance(X, tuple | list) or len(X) != self.problem_type.input_tables:
            raise InputError(
                "MultiView takes X as a tuple of three tables, one per view, with the same number"
                " of rows."
            )
        names = tuple(
            [repr(str(label)) for label in containers.column_labels(view)]
            if containers.is_frame(view)
            else None
            for view in X
        )
        if reset:
            self.view_names_ = names
        for number, (given, fitted) in enumerate(zip(names, self.view_names_, strict=True), 1):
            if given is not None and fitted is not None and given != fitted:
                raise InputError(
                    f"View {number} has columns {', '.join(given)}; the model was fitted with"
                    f" {', '.join(fitted)}."
                )
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # three tables
        return tags

    def _take_names(self, core: Coreset) -> None:
        self._validated(core.X, reset=True)

    def _problem(
        self, X: Any = None, sample_weight: Any = None, lengths: Any = None
    ) -> latent.MultiView:
        return latent.MultiView(self._number(X, sample_weight, latent.MultiView(1)))

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: latent.Latent) -> None:
        mixture = self._mixture(moments["tensor"], maps, problem)
        views = []
        for name, mean in (("cross1", "mean1"), ("cross3", "mean3")):
            # M'P2a about the means, with the constant
            cross = np.vstack([maps[name].T, np.zeros((1, len(maps[name])))])
            views.append(
                solve_small(mixture.small.T, cross, problem.part) / mixture.weights[:, None]
                + maps[mean]
            )
        second = mixture.points + maps["mean2"]
        self.mass_ = mixture.mass
        self.weights_ = as_distributions(
            mixture.weights[None], "the mixing weights", self._impossible
        )[0]
        self.means_ = (views[0], second, views[1])
        self.n_features_in_ = tuple(m.shape[1] for m in self.means_)

    def _checks(self, maps: Maps, problem: latent.Latent, sample: Sample | None) -> list[Check]:
        return [] if sample is None else view_checks(maps, problem, sample, self._basis)

    def _learn(
        self, moments: dict[str, Array], maps: Maps, problem: latent.Latent,
        sample: Sample | None = None,
    ) -> Self:  # fmt: skip
        super()._learn(moments, maps, problem, sample)
        if sample is not None:
            self.variances_ = self._spreads(sample)
        elif hasattr(self, "variances_"):  # of an earlier fit
            del self.variances_
        return self

    def _spreads(self, sample: Sample) -> tuple[Array, ...]:
        """Variance of every column about the nearest mean of a component: the noise that
        :meth:`predict_proba` assumes.
        """
        index = misfit.probe(sample)
        spreads = []
        for view, means in zip(sample.views, self.means_, strict=True):
            x = dense(read(view, index))
            total = np.var(x, axis=0)
            between = self.weights_ @ np.square(means - self.weights_ @ means)
            spreads.append(np.maximum(total - between, 1e-3 * np.maximum(total, 1e-300)))
        return tuple(spreads)

    def _log_joint(self, X: Any) -> Array:
        """Log-density of the three views and of each component (n x k)."""
        self._check_fitted()
        self._known_variances()
        self._validated(X, reset=False)
        tables = [np.asarray(dense(containers.as_table(view, "X")), dtype=float) for view in X]
        check_equal_rows([len(table) for table in tables])
        joint = np.log(np.maximum(self.weights_, 1e-300))
        for number, table in enumerate(tables, 1):
            means, variances = self.means_[number - 1], self.variances_[number - 1]
            if table.shape[1] != means.shape[1]:
                raise InputError(
                    f"View {number} has {several(table.shape[1], 'column')}; the model was fitted"
                    f" with {means.shape[1]}."
                )
            check_finite(table, f"view {number}")
            scale = np.sqrt(variances)
            joint = joint + spherical_log_density(table / scale, means / scale, np.ones(len(means)))
            joint = joint - np.log(scale).sum()
        return np.asarray(joint)

    def _known_variances(self) -> None:
        if not hasattr(self, "variances_"):
            raise NotExactError(
                "This needs the variances of the columns, which a coreset of MultiView does not"
                " keep; use fit."
            )

    def predict_proba(self, X: Any) -> Array:
        """Posterior probabilities of the components (n x k), if the noise is Gaussian and the same
        for all components.
        """
        return np.asarray(softmax(self._log_joint(X), axis=1))

    def score_samples(self, X: Any) -> Array:
        """Log-likelihood of each row, if the noise is Gaussian and the same for all components."""
        return np.asarray(logsumexp(self._log_joint(X), axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood; y is ignored."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[tuple[Array, ...], np.ndarray]:
        """Draw rows of the three views, with Gaussian noise, and the component of each."""
        self._check_fitted()
        check_integer("n_samples", n_samples)
        self._known_variances()
        rng = np.random.default_rng(self.random_state)
        labels = rng.choice(self.n_components_, size=n_samples, p=self.weights_)
        views = tuple(
            means[labels] + np.sqrt(variances) * rng.standard_normal((n_samples, len(variances)))
            for means, variances in zip(self.means_, self.variances_, strict=True)
        )
        return views, labels

    def predict(self, X: Any) -> np.ndarray:
        """The most likely component of each row."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Learn from data and return the component of each row."""
        return self.fit(X, sample_weight=sample_weight).predict(X)
