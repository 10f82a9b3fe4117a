"""Regression tables of all rows: coefficients, classical, robust and clustered errors, tests and
predictions.

:func:`ols` takes a formula and data of any size, or a coreset; :func:`anova` compares nested models
of one coreset; :func:`verify` compares a stored table with its data.
"""

from karat.errors import MissingExtraError

try:
    import formulaic  # noqa: F401
    import pyarrow  # noqa: F401
    import statsmodels  # noqa: F401
except ImportError:
    raise MissingExtraError("karat.inference", "inference") from None

from karat.inference.hypotheses import anova
from karat.inference.table import ols
from karat.inference.verify import verify

__all__ = ["anova", "ols", "verify"]
