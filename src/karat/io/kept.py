"""The rows of a coreset, laid out as the rows of its data are when they are read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from karat._core.coreset import Coreset
from karat._data import containers
from karat._data.batch import Batch, members
from karat._data.checks import read_input
from karat.engine.kernel import Kernel
from karat.engine.linalg import Flags
from karat.engine.rows import Rows
from karat.problems import Problem
from karat.problems.latent import Latent


@dataclass(frozen=True)
class CoresetRows:
    """Kept rows, and the problem as which they are measured.

    Attributes
    ----------
    problem : Problem
        That of the coreset, lowered.
    batch : Batch
        The rows, numbered by the indices of the coreset.
    columns, targets : int
    names : list of str
        Of the columns, for error messages.
    """

    problem: Problem
    batch: Batch
    columns: int
    targets: int
    names: list[str]

    @staticmethod
    def of(core: Coreset, problem: Problem) -> CoresetRows:
        """The rows of a coreset; ``problem``: its own, lowered."""
        if isinstance(core.problem, Latent):
            views = core.X if isinstance(core.X, tuple) else (core.X,)
            parts = [containers.as_table(view, "X") for view in views]
            columns = sum(int(part.shape[1]) for part in parts)
            batch = Batch(parts, core.indices, core.weights, None, core.keys)
            return CoresetRows(problem, batch, columns, 0, [str(i) for i in range(columns)])
        own = read_input(core.X, core.y, problem, core.weights, core.groups, unit=1.0)
        batch = Batch(own.parts, core.indices, own.weights, own.groups, core.keys, own.offsets)
        return CoresetRows(problem, batch, own.columns, own.targets, own.names)

    @property
    def kernel(self) -> Kernel:
        return self.problem.kernel(self.columns, self.targets)

    def rows(self, label: Any = None, apart: Flags | None = None) -> Rows:
        """The rows of a group as the problem looks at them, without those that are ``apart``."""
        index = members(self.batch, label)
        rows = self.problem.view(self.batch.rows(index))
        return rows if apart is None else rows.subset(np.flatnonzero(~(apart if index is None else apart[index])))
