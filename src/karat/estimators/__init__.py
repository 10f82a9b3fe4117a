"""The scikit-learn side: regressors fitted on coresets, exact cross-validation, and the registry of what is exact."""

from karat.estimators.folds import ExactCV, exact_cv
from karat.estimators.regressor import CoresetRegressor

__all__ = ["CoresetRegressor", "ExactCV", "exact_cv"]
