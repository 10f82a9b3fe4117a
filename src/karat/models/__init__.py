"""Latent-variable models learned by moments, from data or, with the same result, from a coreset.

scikit-learn estimators that take ``sample_weight``.  Needs scikit-learn: ``pip install 'karat[models]'``.
"""

from karat.models.base import Learner
from karat.models.hmm import HiddenMarkov
from karat.models.ica import ICA
from karat.models.mixture import GaussianMixture
from karat.models.multiview import MultiView
from karat.models.tensor import Recovery, RecoveryWarning
from karat.models.topics import LatentDirichlet, SingleTopic

__all__ = [
    "ICA",
    "GaussianMixture",
    "HiddenMarkov",
    "LatentDirichlet",
    "Learner",
    "MultiView",
    "Recovery",
    "RecoveryWarning",
    "SingleTopic",
]
