"""What the golden files of karat 0.2.0 are made of: those of :mod:`golden.recipes`, a merged
coreset, and cubes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from golden.recipes import CASES as SINGLE
from golden.recipes import LINES_3, ROWS, WAVES, Case, everything, on_grid, regression, stream

from karat import problems as P

FILES = Path(__file__).parent / "files_0_2_0"
EXPECTED = Path(__file__).parent / "expected_0_2_0.json"
MERGED = "least_squares_merged"  # two coresets, of the rows before and after SKETCHED, merged
CASES: dict[str, Case] = SINGLE | {
    MERGED: Case(P.LeastSquares(), regression, LINES_3, sketch=False)
}


@dataclass(frozen=True)
class CubeCase:
    """A cube of the rows of :func:`shop`.

    Attributes
    ----------
    problem : Problem
    by : tuple of str
    options : dict
        What else :func:`karat.cube` takes.
    later : bool
        Whether it was built of the first rows, and updated with the others.
    """

    problem: P.Problem
    by: tuple[str, ...] = ("region", "day")
    options: dict[str, Any] = field(default_factory=dict)
    later: bool = False

    @property
    def names(self) -> list[str]:
        """The features, then the targets."""
        target = self.options.get("target", [])
        return [*self.options["columns"], *([target] if isinstance(target, str) else target)]

    @property
    def asked(self) -> dict[str, P.Problem]:
        return {} if self.problem.storable else {"problem": self.problem}


def shop() -> dict[str, np.ndarray]:
    """Columns of numbers, a weight that is positive, a key, and three labels: text, days and whole
    numbers.
    """
    made, rng = everything(), stream(20)
    return {
        "a": made.X[:, 0],
        "b": made.X[:, 1],
        "count": rng.randint(0, 9, ROWS),
        "y": np.asarray(made.y),
        "z": on_grid(made.X[:, 0] ** 2 + rng.standard_normal(ROWS)),
        "units": on_grid(rng.random_sample(ROWS)) + 0.5,
        "id": np.asarray(made.keys),
        "region": np.asarray(made.groups),
        "day": np.datetime64("2026-03-01") + rng.randint(0, 2, ROWS),
        "store": rng.randint(0, 2, ROWS),
    }


NUMBERS = {"columns": ["a", "b", "count"]}
CUBES: dict[str, CubeCase] = {
    "cube_least_squares": CubeCase(
        P.LeastSquares(), options=NUMBERS | {"target": "y", "key": "id"}
    ),
    "cube_weights": CubeCase(
        P.LeastSquares(), ("region",), NUMBERS | {"target": ["y", "z"], "sample_weight": "units"}
    ),
    "cube_ridge_updated": CubeCase(
        P.Ridge(2.0), ("day", "store"), NUMBERS | {"target": "y"}, later=True
    ),
    "cube_l4": CubeCase(P.LpRegression(4), ("store",), {"columns": ["a", "b"], "target": "y"}),
    "cube_moments_3": CubeCase(P.Moments(3), ("region", "store"), {"columns": ["a", "b"]}),
    "cube_kernel": CubeCase(WAVES, ("region",), {"columns": ["a", "b"]}),
}


@cache
def known() -> dict[str, Any]:
    """Facts about the files, computed from the full data."""
    return json.loads(EXPECTED.read_text())
