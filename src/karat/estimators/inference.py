"""The old place of :func:`karat.inference.ols`.

The name is looked up when it is used: :mod:`karat.inference` reads files, so it is above this
folder.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["ols"]  # noqa: F822 - by __getattr__


def __getattr__(name: str) -> Any:
    if name != "ols":
        raise AttributeError(
            f"module 'karat.estimators.inference' has no attribute {name!r}; see karat.inference"
        )
    return importlib.import_module("karat.inference").ols
