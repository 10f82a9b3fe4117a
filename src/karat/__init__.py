"""karat: accurate (lossless) coresets.

A data set of n rows becomes a handful of its own rows with positive weights, on which a model trains to exactly the same
answer.
"""

import importlib
from typing import TYPE_CHECKING, Any

from karat import problems
from karat._certificate import Certificate
from karat._construct import coreset
from karat._coreset import Coreset
from karat._files import load
from karat._plan import Plan, plan
from karat._sketch import Sketch
from karat.errors import InputError, MissingExtraError, NotExactError, StorageError

if TYPE_CHECKING:
    from karat.estimators import CoresetRegressor, exact_cv
    from karat.io import coreset_files

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Coreset",
    "CoresetRegressor",
    "InputError",
    "MissingExtraError",
    "NotExactError",
    "Plan",
    "Sketch",
    "StorageError",
    "coreset",
    "coreset_files",
    "exact_cv",
    "load",
    "plan",
    "problems",
]


def __getattr__(name: str) -> Any:
    """Names that need an optional dependency are imported when they are first used."""
    if name in ("CoresetRegressor", "exact_cv"):
        try:
            from karat import estimators
        except ImportError as error:
            if (error.name or "").split(".")[0] not in ("sklearn", "joblib"):
                raise
            raise MissingExtraError(f"karat.{name}", "sklearn") from error
        return getattr(estimators, name)
    if name == "coreset_files":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingExtraError("coreset_files", "io") from None
        from karat.io import coreset_files

        return coreset_files
    if name in ("dask", "spark", "models", "estimators"):
        return importlib.import_module(f"karat.{name}")
    raise AttributeError(f"module 'karat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "dask", "estimators", "models", "spark"])
