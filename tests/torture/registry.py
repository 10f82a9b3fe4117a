"""Cases by name: a function that makes a case, or that does something which should end well,
becomes one that judges it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .cases import Case
from .judge import Verdict, failed, judge, quietly

REPORTED: dict[str, Callable[[Path | None], Verdict]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    """Register a case that the judge takes as it is."""
    name = function.__name__.removeprefix("item_").replace("_", "-")

    def verdict(printed: Path | None) -> Verdict:
        made = function()
        made.name = f"reported/{name}"
        return judge(made, printed)

    REPORTED[name] = verdict
    return function


def sentence(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register something that should end well or with a sentence (InputError), and never
    otherwise.
    """
    name = function.__name__.removeprefix("item_").replace("_", "-")

    def verdict(printed: Path | None) -> Verdict:
        found = Verdict(f"reported/{name}", "exact", about=(function.__doc__ or "").strip())
        try:
            quietly(function, printed)
        except Exception as error:
            return failed(
                Case(found.name, np.zeros((1, 1)), None, {"name": "Mean"}, lax=True),
                found,
                error,
                0.0,
            )
        return found

    REPORTED[name] = verdict
    return function
