"""Where the golden files lie, and what is known about them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from golden.recipes import RIGHT, WRONG, Case, Wrong

import karat

FILES = Path(__file__).parent / "files"
EXPECTED = Path(__file__).parent / "expected.json"
SUFFIXES = ("npz", "parquet")
VISIBLE = 1e-6  # a relative error that is no rounding


@cache
def known() -> dict[str, Any]:
    return json.loads(EXPECTED.read_text())


def expected(name: str) -> dict[str, Any]:
    """The facts about one case."""
    return known()["cases"][name]


def case_of(name: str) -> Case | Wrong:
    return WRONG[name.removeprefix("wrong_")] if name.startswith("wrong_") else RIGHT[name]


def names() -> list[str]:
    """All cases of which there is a coreset."""
    return [*RIGHT, *(f"wrong_{name}" for name in WRONG)]


def stored(name: str, suffix: str) -> karat.Coreset:
    """The coreset in a golden file."""
    return karat.load(FILES / f"{name}.{suffix}", **case_of(name).asked)


def dense(table: Any) -> np.ndarray:
    """The numbers of a container."""
    if hasattr(table, "toarray"):
        return table.toarray()
    if hasattr(table, "itercolumns"):  # of pyarrow
        return np.column_stack([column.to_numpy() for column in table.itercolumns()])
    return np.asarray(table)
