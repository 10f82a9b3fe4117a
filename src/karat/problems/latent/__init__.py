"""Latent-variable models, learned by moments."""

from karat.problems.latent.base import Latent
from karat.problems.latent.ica import ICA
from karat.problems.latent.known import KnownMaps
from karat.problems.latent.markov import HiddenMarkov
from karat.problems.latent.mixture import GaussianMixture
from karat.problems.latent.topics import LatentDirichlet, SingleTopic
from karat.problems.latent.views import MultiView

__all__ = [
    "ICA",
    "GaussianMixture",
    "HiddenMarkov",
    "KnownMaps",
    "Latent",
    "LatentDirichlet",
    "MultiView",
    "SingleTopic",
]
