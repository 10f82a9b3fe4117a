"""Learners that take weights, so that they learn the same from a coreset as from all rows.

They need scikit-learn.

Latent-variable models learned by moments (``pip install 'karat[models]'``), and learners of second
moments for which scikit-learn's version rejects ``sample_weight`` or uses it only in part.
"""

from karat.errors import MissingExtraError

try:
    import sklearn  # noqa: F401
except ImportError:
    raise MissingExtraError("karat.models", "models") from None

from karat.estimators.weighted.regressors import LassoLars, LassoLarsCV, OrthogonalMatchingPursuit
from karat.estimators.weighted.second_moments import (
    PCA,
    GaussianNaiveBayes,
    GraphicalLasso,
    LinearDiscriminant,
    QuadraticDiscriminant,
)
from karat.models.dirichlet import LatentDirichlet
from karat.models.hmm import HiddenMarkov
from karat.models.ica import ICA
from karat.models.mixture import GaussianMixture
from karat.models.multiview import MultiView
from karat.models.recovery import Recovery, RecoveryWarning
from karat.models.topics import SingleTopic

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
    "LinearDiscriminant",
    "MultiView",
    "OrthogonalMatchingPursuit",
    "QuadraticDiscriminant",
    "Recovery",
    "RecoveryWarning",
    "SingleTopic",
]
