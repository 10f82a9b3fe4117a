"""Multi-view mixtures from moments (see :mod:`karat.problems.latent.views`)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from karat.engine.linalg import Array
from karat.models.base import Learner, as_distributions, solve_small, view_checks
from karat.models.misfit import Check
from karat.problems import latent
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample


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
        found = self._mixture(moments["tensor"], maps, problem)
        lifted = problem.lifted(maps)
        views = []
        for name, mean in (("cross1", "mean1"), ("cross3", "mean3")):
            cross = maps[name].T  # M'P2a; about the means, with the constant
            cross = np.vstack([cross, np.zeros((1, cross.shape[1]))]) if lifted else cross
            rows = solve_small(found.small.T, cross, problem.parts) / found.weights[:, None]
            views.append(rows + maps[mean] if lifted else rows)
        second = found.points + maps["mean2"] if lifted else found.points
        self.mass_ = found.mass
        self.weights_ = as_distributions(found.weights[None], "The mixing weights")[0]
        self.means_ = (views[0], second, views[1])
        self.n_features_in_ = tuple(m.shape[1] for m in self.means_)

    def _checks(self, maps: Maps, problem: Latent, sample: Sample | None) -> list[Check]:
        return [] if sample is None else view_checks(maps, problem, sample, self._basis)
