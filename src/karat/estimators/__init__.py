"""The scikit-learn side: estimators fitted on coresets, exact cross-validation, and the registry of
what is exact.
"""

from karat.errors import MissingExtraError

try:
    import sklearn  # noqa: F401
except ImportError:
    raise MissingExtraError("karat.estimators", "sklearn") from None

from karat.estimators.folds import ExactCV, exact_cv
from karat.estimators.meta import CoresetClassifier, CoresetRegressor

__all__ = ["CoresetClassifier", "CoresetRegressor", "ExactCV", "exact_cv"]
