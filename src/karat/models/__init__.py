"""Learners that take weights, for coresets: where scikit-learn's version refuses ``sample_weight`` or uses it in part only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from karat.errors import MissingExtraError

if TYPE_CHECKING:
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
NEED_SKLEARN = {
    "karat.models.from_gram": ("LassoLars", "LassoLarsCV", "OrthogonalMatchingPursuit"),
    "karat.models.second_moments": (
        "PCA", "GaussianNaiveBayes", "GraphicalLasso", "LinearDiscriminant", "QuadraticDiscriminant",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Names that need scikit-learn, imported when first used."""
    for module, names in NEED_SKLEARN.items():
        if name in names:
            try:
                return getattr(import_module(module), name)
            except ModuleNotFoundError as error:
                if (error.name or "").split(".")[0] != "sklearn":
                    raise
                raise MissingExtraError(f"karat.models.{name}", "sklearn") from error
    raise AttributeError(f"module 'karat.models' has no attribute {name!r}")
