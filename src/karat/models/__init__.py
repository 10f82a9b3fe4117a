"""Learners that take weights, for coresets: where scikit-learn's version refuses ``sample_weight`` or uses it in part only."""

from karat.models.from_gram import LassoLars, LassoLarsCV, OrthogonalMatchingPursuit
from karat.models.second_moments import PCA, GaussianNaiveBayes, GraphicalLasso, LinearDiscriminant, QuadraticDiscriminant

__all__ = [
    "PCA",
    "GaussianNaiveBayes",
    "GraphicalLasso",
    "LassoLars",
    "LassoLarsCV",
    "LinearDiscriminant",
    "OrthogonalMatchingPursuit",
    "QuadraticDiscriminant",
]
