"""Learners that take weights: where scikit-learn's version refuses ``sample_weight`` or uses it in part only.

Latent-variable models are learned by moments, from data or, with the same result, from a coreset.  All need scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from karat.errors import MissingExtraError

if TYPE_CHECKING:
    from karat.models.base import Learner
    from karat.models.from_gram import LassoLars, LassoLarsCV, OrthogonalMatchingPursuit
    from karat.models.hmm import HiddenMarkov
    from karat.models.ica import ICA
    from karat.models.mixture import GaussianMixture
    from karat.models.multiview import MultiView
    from karat.models.second_moments import PCA, GaussianNaiveBayes, GraphicalLasso, LinearDiscriminant, QuadraticDiscriminant
    from karat.models.tensor import Recovery, RecoveryWarning
    from karat.models.topics import LatentDirichlet, SingleTopic

__all__ = [
    "ICA",
    "PCA",
    "GaussianMixture",
    "GaussianNaiveBayes",
    "GraphicalLasso",
    "HiddenMarkov",
    "LassoLars",
    "LassoLarsCV",
    "LatentDirichlet",
    "Learner",
    "LinearDiscriminant",
    "MultiView",
    "OrthogonalMatchingPursuit",
    "QuadraticDiscriminant",
    "Recovery",
    "RecoveryWarning",
    "SingleTopic",
]
HOMES = {
    "base": ("Learner",),
    "from_gram": ("LassoLars", "LassoLarsCV", "OrthogonalMatchingPursuit"),
    "hmm": ("HiddenMarkov",),
    "ica": ("ICA",),
    "mixture": ("GaussianMixture",),
    "multiview": ("MultiView",),
    "second_moments": ("PCA", "GaussianNaiveBayes", "GraphicalLasso", "LinearDiscriminant", "QuadraticDiscriminant"),
    "tensor": ("Recovery", "RecoveryWarning"),
    "topics": ("LatentDirichlet", "SingleTopic"),
}


def __getattr__(name: str) -> Any:
    """Names that need scikit-learn, imported when first used."""
    for module, names in HOMES.items():
        if name in names:
            try:
                return getattr(import_module(f"karat.models.{module}"), name)
            except ModuleNotFoundError as error:
                if (error.name or "").split(".")[0] != "sklearn":
                    raise
                raise MissingExtraError(f"karat.models.{name}", "sklearn") from error
    raise AttributeError(f"module 'karat.models' has no attribute {name!r}")
