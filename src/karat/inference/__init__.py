"""Regression tables of all rows: coefficients, classical, robust and clustered errors, tests and predictions.

:func:`ols` takes a formula and data of any size, or a coreset; :func:`anova` compares nested models of one coreset.
"""

from karat.inference.nested import anova
from karat.inference.table import ols

__all__ = ["anova", "ols"]
