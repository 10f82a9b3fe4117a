"""Problems: what a coreset must preserve."""

from karat.problems.base import Problem
from karat.problems.custom import Kernel, Transformed
from karat.problems.grouped import GroupedLogistic
from karat.problems.latent import (
    ICA,
    GaussianMixture,
    HiddenMarkov,
    LatentDirichlet,
    MultiView,
    SingleTopic,
)
from karat.problems.moments import Mean, Moments, TensorContraction
from karat.problems.regression import LeastSquares, LpRegression, Ridge

__all__ = [
    "ICA",
    "GaussianMixture",
    "GroupedLogistic",
    "HiddenMarkov",
    "Kernel",
    "LatentDirichlet",
    "LeastSquares",
    "LpRegression",
    "Mean",
    "Moments",
    "MultiView",
    "Problem",
    "Ridge",
    "SingleTopic",
    "TensorContraction",
    "Transformed",
]
