"""karat: accurate (lossless) coresets.

A data set of n rows becomes a handful of its own rows with positive weights, on which a model trains to exactly the same
answer.
"""

from karat import problems
from karat._certificate import Certificate
from karat._coreset import Coreset, coreset
from karat._files import load
from karat._plan import Plan, plan
from karat._sketch import Sketch
from karat.errors import InputError, MissingExtraError, NotExactError, StorageError

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Coreset",
    "InputError",
    "MissingExtraError",
    "NotExactError",
    "Plan",
    "Sketch",
    "StorageError",
    "coreset",
    "load",
    "plan",
    "problems",
]
