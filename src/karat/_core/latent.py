"""Checked samples of latent-variable problems, with the interface of a Table of rows.

sample   = what the problem looks at: rows, documents, windows of three steps, triples of views
maps     = problem.maps(sample)          # one pass: whitening and what else makes the statistics linear
rows     = coordinates of the sample     # computed when they are read; from here on the ordinary pipeline
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse

from karat._data import containers
from karat._data.checks import OTHER_ROWS, Table, check_taken, check_weights, read_input
from karat._data.non_finite import explain_non_finite
from karat.engine.kernel import Kernel
from karat.engine.linalg import Indices
from karat.engine.reduce import NonFiniteError
from karat.engine.rows import Rows
from karat.engine.tolerances import EXACT
from karat.errors import InputError
from karat.problems.base import KeptRows, Problem
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, sequence_steps

Result = TypeVar("Result")
BASIS = ("centre", "axes")  # maps that only choose coordinates of a span; others would do as well


@dataclass(frozen=True)
class Samples:
    """Checked samples in the coordinates of maps, with the interface of :class:`~karat._data.checks.Table`."""

    problem: Latent
    sample: Sample
    tables: tuple[Table, ...]
    fresh: Maps  # of these samples
    used: Maps  # those in whose coordinates the samples are read: these, or those that a coreset has stored
    labels: ClassVar[list[None]] = [None]
    groups: ClassVar[None] = None
    targets: ClassVar[int] = 0
    unit: ClassVar[float] = 1.0
    names: ClassVar[list[str]] = []

    @staticmethod
    def of(X: Any, problem: Latent, sample_weight: Any, lengths: Any, stored: Maps | None = None) -> Samples:
        """Samples in the coordinates of stored maps or of their own maps, which are found in one pass."""
        sample, tables = read_sample(X, problem, sample_weight, lengths)
        fresh = guarded(tables, lambda: problem.maps(sample))
        return Samples(problem, sample, tables, fresh, fresh if stored is None else stored)

    @property
    def count(self) -> int:
        return len(self.sample)

    @property
    def n_rows(self) -> int:
        return self.sample.n_rows

    @property
    def total(self) -> float:
        return self.sample.total

    @property
    def shape(self) -> str:
        return f"{', '.join(map(str, self.sample.columns))} columns"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the certificate says about samples that were left out and about the rounding of the maps."""
        return *self.problem.notes(self.sample.inputs, self.sample.dropped), *self.problem.map_notes(self.fresh)

    @property
    def maps(self) -> Maps | None:
        """What a coreset has to store: None if its rows alone are enough."""
        return None if self.problem.keep == "all" else self.used

    def index(self, label: Any = None) -> Indices | None:
        """The input row of each sample; None if sample i is row i."""
        return self.sample.origin

    def rows(self, label: Any = None) -> Rows:
        """The coordinates of the samples, to be read in blocks."""
        return self.sample.rows(self.problem.reader(self.used, self.problem.keep), self.problem.known_kernel(self.used).columns)

    def kernel(self, problem: Problem) -> Kernel:
        """The kernelization in these coordinates."""
        return self.problem.known_kernel(self.used)

    def take(self, X: Any, indices: Indices) -> Any:
        """Samples of the input, in a container of its type; the rows of a window side by side."""
        if self.problem.input_tables > 1:
            return tuple(containers.take_rows(view, indices) for view in X)
        if self.problem.rows_per_sample == 1:
            return containers.take_rows(X, indices)
        table = self.tables[0].X.toarray() if sparse.issparse(self.tables[0].X) else self.tables[0].X
        return np.hstack([np.asarray(table[indices + a]) for a in range(self.problem.rows_per_sample)])

    def kept(self, core: KeptRows) -> Samples:
        """The samples that a coreset keeps, in the same coordinates."""
        return replace(self, sample=self.problem.kept_sample(core))

    def differences(self, core: Any, kept: Samples) -> list[str]:
        """Differences to a coreset other than in moments: other maps, or ``kept`` samples that are not at their indices."""
        found = changed_maps(self.problem, core.maps, self.fresh)
        return found if self._has(kept, core.indices) else [*found, OTHER_ROWS]

    def _has(self, kept: Samples, indices: Indices) -> bool:
        """Whether kept samples are those of the input at ``indices``."""
        origin, full = self.sample.origin, self.sample
        positions = indices if origin is None else np.searchsorted(origin, indices)
        if not len(indices) or positions.max() >= len(full):
            return False
        if origin is not None and not np.array_equal(origin[positions], indices):
            return False
        return all(abs(view[positions] - own[:]).max() == 0 for view, own in zip(full.views, kept.sample.views, strict=True))

    def explain_non_finite(self) -> InputError:
        """The error that names the first NaN or infinity of the tables, or the column whose powers overflow."""
        return _explained(self.tables)


def read_tables(X: Any, problem: Latent) -> tuple[Table, ...]:
    """The table or the three tables of X, checked."""
    if problem.input_tables == 1:
        if isinstance(X, tuple):
            raise InputError(f"{problem.describe()} takes one table, not a tuple of {len(X)}.")
        return (read_input(X, None, problem, None, None),)
    if not isinstance(X, tuple | list) or len(X) != problem.input_tables:
        raise InputError("MultiView takes X as a tuple of three tables, one per view, with the same number of rows.")
    tables = tuple(read_input(view, None, problem, None, None) for view in X)
    if len({table.count for table in tables}) > 1:
        raise InputError(f"The three views have {', '.join(str(t.count) for t in tables)} rows; the numbers must be equal.")
    return tables


def read_sample(X: Any, problem: Latent, sample_weight: Any, lengths: Any) -> tuple[Sample, tuple[Table, ...]]:
    """X as the samples that the problem looks at, and its checked tables."""
    check_taken(problem, lengths=lengths)
    tables = read_tables(X, problem)
    count = tables[0].count
    weights = check_weights(sample_weight, count)
    steps = None if lengths is None else sequence_steps(lengths, count)
    found = problem.sample(tuple(t.X for t in tables), weights, steps)
    if not len(found):
        raise InputError(problem.empty_message(found.inputs, found.dropped))
    return found, tables


def guarded(tables: tuple[Table, ...], action: Callable[[], Result]) -> Result:
    """The result of an action; if it meets NaN or infinity, an error that says where they are."""
    try:
        return action()
    except NonFiniteError:
        raise _explained(tables) from None


def _explained(tables: tuple[Table, ...]) -> InputError:
    return explain_non_finite([part for table in tables for part in table.parts], [n for table in tables for n in table.names])


def changed_maps(problem: Latent, stored: Maps | None, fresh: Maps) -> list[str]:
    """How the stored maps of a coreset differ from those of the data; empty if they do not."""
    allowed = min(1e-8, max(EXACT, 100 * problem.map_rounding(fresh)))
    compared = {name: value for name, value in (stored or {}).items() if name not in BASIS}
    apart = [name for name, value in compared.items() if not _same_map(value, fresh.get(name), allowed)]
    return [f"The stored maps are not those of this data ({', '.join(apart)} differ)."] if apart else []


def _same_map(stored: np.ndarray, fresh: np.ndarray | None, allowed: float) -> bool:
    if fresh is None or np.shape(stored) != np.shape(fresh):
        return False
    return bool(np.abs(stored - fresh).max(initial=0.0) <= allowed * max(np.abs(fresh).max(initial=0.0), 1e-300))
