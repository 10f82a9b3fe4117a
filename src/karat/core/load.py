"""karat.load: a file is opened as what it holds, a coreset or a cube."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from karat.core.coreset import Coreset
from karat.core.stored import CubeFileError
from karat.problems import Problem


def load(path: str | Path, problem: Problem | None = None) -> Any:
    """Read a coreset or a cube that was saved.

    Parameters
    ----------
    path : path
        An ``.npz`` or ``.parquet`` file of :meth:`karat.Coreset.save`, or the ``.parquet`` file of
        :meth:`karat.Cube.save`.
    problem : Problem, optional
        Needed where the problem holds a user's function, which is not saved.

    Returns
    -------
    Coreset or Cube
        Whichever the file holds.
    """
    try:
        return Coreset.load(path, problem)
    except CubeFileError:
        # imported by name, because cubes are built on this room
        return import_module("karat.cubes").Cube.load(path, problem)
