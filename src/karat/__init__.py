"""karat: accurate (lossless) coresets.

karat picks a few rows of a data set, or makes a few new ones, and weights them, so that a model
fitted to them gives the same answer as on all rows.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karat import problems
    from karat.core.certify import Certificate
    from karat.core.coreset import Coreset, coreset
    from karat.core.load import load
    from karat.core.plan import Plan, plan
    from karat.cubes import Cube, cube
    from karat.errors import InputError, MissingExtraError, NotExactError, StorageError
    from karat.estimators import CoresetClassifier, CoresetRegressor, exact_cv
    from karat.inference import ols
    from karat.io import FileVerification, coreset_files, verify_files
    from karat.stream.sketch import Sketch

__version__ = "0.3.0.dev0"

__all__ = [
    "Certificate",
    "Coreset",
    "CoresetClassifier",
    "CoresetRegressor",
    "Cube",
    "FileVerification",
    "InputError",
    "MissingExtraError",
    "NotExactError",
    "Plan",
    "Sketch",
    "StorageError",
    "coreset",
    "coreset_files",
    "cube",
    "exact_cv",
    "load",
    "ols",
    "plan",
    "problems",
    "verify_files",
]

# Names are imported when they are first used, so that the command line starts fast and missing
# extras matter only where they are needed.
_HOMES = {
    "core.certify": ["Certificate"],
    "core.coreset": ["Coreset", "coreset"],
    "core.load": ["load"],
    "core.plan": ["Plan", "plan"],
    "cubes": ["Cube", "cube"],
    "stream.sketch": ["Sketch"],
    "errors": ["InputError", "MissingExtraError", "NotExactError", "StorageError"],
    "estimators": ["CoresetClassifier", "CoresetRegressor", "exact_cv"],
    "inference": ["ols"],
    "io": ["FileVerification", "coreset_files", "verify_files"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# what other packages call a table of a regression
_TABLES = ("OLS", "WLS", "wls", "feols", "iv", "IV2SLS", "PanelOLS", "AbsorbingLS", "regress")
_TABLE = "karat.ols('y ~ x | firm', data), also with weights=, effects and instruments"
_MODULES = ["dask", "estimators", "inference", "io", "models", "problems", "report", "spark"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"karat.{name}")
    if name not in _HOME_OF:
        hint = f"; tables of regressions are {_TABLE}" if name in _TABLES else ""
        raise AttributeError(f"module 'karat' has no attribute {name!r}{hint}")
    value = globals()[name] = getattr(importlib.import_module(f"karat.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
