"""Learners whose moments EM can continue: when it does, and what is said about it.

Moments are enough where no check speaks against the model: then ``fit`` and ``fit_coreset`` give
the same parameters, and weights count like copies.  Elsewhere a model with other covariances serves
better (docs/latent.md, twelve tables), and EM finds one, if the rows are at hand.  So
``refine="auto"`` continues with EM there, and held-out rows decide.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from karat.errors import InputError, plural
from karat.models.base import Learner
from karat.models.refine import AUTO, LARGE, Refinement, check_kind


class Refinable(Learner):
    """Base class: subclasses have ``refine_with``, and run EM in a library."""

    instead = "other models, or continue with EM where the rows are (refine_with)"
    library: ClassVar[str] = "scikit-learn"
    refine: str | None
    refinement_: Refinement | None
    covariance_type_: str

    def _can_continue(self, sample_weight: Any) -> bool:
        """Whether EM can follow the moments of rows of these weights."""
        return sample_weight is None

    def _due(self, sample_weight: Any) -> bool:
        """Whether EM follows."""
        if self.refine != AUTO:
            return self.refine is not None
        entries = self.recovery_.samples * self.n_features_in_
        return (
            bool(self.recovery_.misfits) and self._can_continue(sample_weight) and entries <= LARGE
        )

    def _fit_and_refine(self, X: Any, sample_weight: Any, lengths: Any = None) -> Self:
        """Moments, EM if it is due, and one warning if anything speaks against the model."""
        check_kind(self.refine)
        if self.refine not in (None, AUTO) and sample_weight is not None:
            raise InputError(
                f"{self.library}'s EM takes no sample_weight; remove it, or use refine=None.",
                argument="refine",
            )
        self._fit(X, sample_weight, lengths)
        if self._due(sample_weight):
            self.refine_with(X, *(() if lengths is None else (lengths,)))
            return self._warned(done=self._said())
        if not self._can_continue(sample_weight):
            return self._warned("other models")
        return self._warned('other models, or continue with EM (refine="full")')

    @abstractmethod
    def refine_with(self, X: Any) -> Self:
        """Continue with EM on rows, say after ``fit_coreset``; see ``refine``."""

    def _said(self) -> str:
        """What EM did, in one sentence."""
        done = self.refinement_
        assert done is not None
        if not done.kept:
            return (
                "EM was no better on held-out rows, so the parameters are those of the moments;"
                f" compare other numbers of {plural(self.problem_type.part)}."
            )
        return (
            f"The parameters are those of EM on all rows ({self._law()}):"
            f" log-likelihood per held-out row {done.after:.4g}, by the moments {done.before:.4g}."
        )

    def _law(self) -> str:
        return f"{self.covariance_type_} covariances"
