"""Multi-view mixtures from moments (see :mod:`karat.problems.latent.views`)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from karat.engine.linalg import Array
from karat.models.base import Learner, solve_small
from karat.problems import latent
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps


class MultiView(Learner):
    """A mixture seen in three views that are independent given the component, learned by moments.

    Parameters
    ----------
    n_components : int

    Attributes
    ----------
    weights_ : array (k,)
        Mixing weights.
    means_ : tuple of three arrays (k, d_a)
        Means of the views in each component.
    mass_ : float
        Sum of the mixing weights before they were normalised; near 1 if the model fits.
    recovery_ : Recovery
    """

    problem_type: ClassVar[type[Latent]] = latent.MultiView

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a tuple of three tables; y is there for scikit-learn's pipelines only."""
        return self._fit(X, sample_weight)

    def _problem(self, X: Any) -> latent.MultiView:
        return latent.MultiView(self.n_components)

    def _recover(self, moments: dict[str, Array], maps: Maps, problem: Latent) -> None:
        ell, rows = self._components(moments["tensor"], maps, problem)
        weights = 1.0 / ell**2
        second = ell[:, None] * rows
        small = second @ maps["M"]  # A2'M
        first, third = (solve_small(small.T, maps[name].T, problem.parts) / weights[:, None] for name in ("cross1", "cross3"))
        self.mass_ = float(weights.sum())
        self.weights_ = weights / self.mass_
        self.means_ = (first, second, third)
        self.n_features_in_ = tuple(m.shape[1] for m in self.means_)
