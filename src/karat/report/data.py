"""The full data beside its coreset, for pictures: a uniform sample of rows, the kept moments, every column's mean and spread.

A *row* here is what the problem looks at: the features (after a pipeline, if the problem has one), then the targets; for
latent-variable models the views side by side.  :func:`open_data` gives one of two readers that answer the same questions,
for data in memory and for data in files, which is read in batches and never held.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from karat._core.coreset import Coreset
from karat._core.facts import kept_columns
from karat._core.latent import read_sample
from karat._data import containers
from karat._data.batch import column_sums
from karat._data.checks import read_input
from karat.engine.linalg import Array, Indices
from karat.engine.rows import Progress, Rows, sample
from karat.errors import InputError
from karat.problems.latent import Latent
from karat.problems.latent.sample import Sample
from karat.report.moments import ColumnMatch, MomentMatch, match_columns, match_in_memory, match_latent, measured_facts

SAMPLE = 2000  # rows of the data that a picture shows


class Data(Protocol):
    """What pictures ask of the full data."""

    def sample(self) -> Array:
        """A uniform sample of rows, or all of them if there are no more (s, d)."""

    def moments(self) -> MomentMatch | None:
        """The moments that the problem keeps, of all rows and of the kept ones; None where the rows alone do not carry them."""

    def columns(self) -> ColumnMatch:
        """Mean and deviation of every column, of all rows and of the kept ones."""

    def verify(self) -> dict[str, Any]:
        """The coreset measured afresh, see :func:`measured_facts`."""


def open_data(
    core: Coreset,
    data: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    lengths: Any = None,
    progress: Progress | None = None,
    size: int = SAMPLE,
    seed: int = 0,
) -> Data:
    """A reader for ``(X, y)``, for a table X alone, or for files and queries, of which it samples ``size`` rows."""
    if are_paths(data) or is_source(data):
        if any(value is not None for value in (sample_weight, groups, lengths)):
            raise InputError("sample_weight, groups and lengths are for data in memory; the coreset knows them of files.")
        from karat.report.files import FileData

        return FileData(core, list(data) if isinstance(data, tuple) else data, size, seed, progress)
    X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    return MemoryData(core, containers.collected(X), containers.collected(y), sample_weight, groups, lengths, size, seed)


def are_paths(data: Any) -> bool:
    """Whether data is named rather than given."""
    several = isinstance(data, list | tuple) and len(data) > 0
    return isinstance(data, str | Path) or (several and all(isinstance(one, str | Path) for one in data))


def is_source(data: Any) -> bool:
    """Whether rows come in batches: of an open source, a query, a cursor or a reader (:mod:`karat.io.database`)."""
    known = ("read_schema", "read_next_batch", "to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch")
    return any(hasattr(data, name) for name in known)


class MemoryData:
    """Data in memory; tables are read in blocks and not copied."""

    def __init__(
        self, core: Coreset, X: Any, y: Any, sample_weight: Any, groups: Any, lengths: Any, size: int, seed: int
    ) -> None:
        self.core, self.given = core, (X, y, sample_weight, groups, lengths)
        self.size, self.seed = size, seed
        self.views: Sample | None = None
        if isinstance(core.problem, Latent):
            self.views, _ = read_sample(X, core.problem, sample_weight, lengths)
            self.rows = Rows(self.views.views, self.views.weights)
            self.origin = np.zeros(self.rows.columns)
        else:
            self.table = read_input(X, y, core.problem, sample_weight, None)
            self.rows = self.table.rows()
            self.origin = self.table.origin

    def sample(self) -> Array:
        positions = sample(np.random.default_rng(self.seed), len(self.rows), self.size)
        if self.views is not None:
            return _beside(self.views, positions)
        return self.rows.take(positions, -self.origin)[:, 1:]

    def moments(self) -> MomentMatch | None:
        if self.core.absorbed is not None:
            return None
        if self.views is not None:
            return match_latent(self.core, self.views)
        return match_in_memory(self.core, self.table)

    def columns(self) -> ColumnMatch:
        kept = Rows([kept_block(self.core)], self.core.weights)
        shift = np.average(kept.parts[0], axis=0, weights=kept.weights)
        return match_columns(column_sums(self.rows, shift - self.origin), column_sums(kept, shift), shift)

    def verify(self) -> dict[str, Any]:
        X, y, sample_weight, groups, lengths = self.given
        fresh = self.core.verify(X, y, sample_weight=sample_weight, groups=groups, lengths=lengths)
        return measured_facts(fresh, fresh.ok, None, ())


def kept_block(core: Coreset) -> Array:
    """The kept rows as the problem looks at them (k, d)."""
    if isinstance(core.problem, Latent):
        views = core.problem.kept_sample(core)
        return _beside(views, np.arange(len(views)))
    X, y = core.arrays()
    return X if y is None else np.column_stack([X, y])


def row_names(core: Coreset) -> list[str]:
    """Names of the columns of :func:`kept_block`; features that a pipeline or a model made are numbered."""
    width = kept_block(core).shape[1]
    columns = kept_columns(core)
    targets = [column.name for column in columns if column.role == "target"]
    features = [column.name for column in columns if column.role == "feature"]
    if len(features) != width - len(targets):
        features = [f"feature {i}" for i in range(width - len(targets))]
    return features + targets


def _beside(views: Sample, positions: Indices) -> Array:
    blocks = [view[positions] for view in views.views]
    return np.hstack([np.asarray(b.toarray() if sparse.issparse(b) else b, dtype=float) for b in blocks])
