"""The full data of a coreset, for plots: a uniform sample of rows, the kept moments, and the mean
and spread of every column.

A *row* here is what the problem reads: the features (after a pipeline, if the problem has one),
then the targets; for latent-variable models the views side by side.  :func:`open_data` gives one of
two readers that answer the same questions, for data in memory and for data in files, which is read
in batches and never held.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from karat.core.construct import read_rows
from karat.core.coreset import Coreset
from karat.core.export import kept_columns
from karat.core.verify import target_among
from karat.data import containers
from karat.data.arguments import named_columns
from karat.engine.linalg import Array
from karat.engine.rows import Progress, Rows, column_sums, sample
from karat.errors import InputError
from karat.problems.latent import Latent
from karat.report.moments import (
    ColumnMatch,
    Data,
    MomentMatch,
    match_columns,
    match_in_memory,
    measured_facts,
    shows_moments,
)

SAMPLE = 2000  # rows of the data that a plot shows


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
    """A reader for ``(X, y)``, for a table X alone, or for files and queries, of which it samples
    ``size`` rows.
    """
    if are_paths(data) or is_source(data):
        if any(value is not None for value in (sample_weight, groups, lengths)):
            raise InputError(
                "Remove sample_weight, groups and lengths: they are for data in memory, and for"
                " files the coreset stores them."
            )
        from karat.report.files import FileData

        return FileData(core, list(data) if isinstance(data, tuple) else data, size, seed, progress)
    X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    X, y, *_ = named_columns(X, target_among(core, X) if y is None else y)
    return MemoryData(
        core,
        containers.collected(X),
        containers.collected(y),
        sample_weight,
        groups,
        lengths,
        size,
        seed,
    )


def are_paths(data: Any) -> bool:
    """Whether data are paths of files."""
    several = isinstance(data, list | tuple) and len(data) > 0
    return isinstance(data, str | Path) or (
        several and all(isinstance(path, str | Path) for path in data)
    )


def is_source(data: Any) -> bool:
    """Whether rows come in batches, from an open source, a query, a cursor or a reader
    (:mod:`karat.io.find`).
    """
    readers = (
        "read_schema",
        "read_next_batch",
        "to_arrow_reader",
        "fetch_arrow_reader",
        "fetch_record_batch",
    )
    return any(hasattr(data, name) for name in readers)


class MemoryData(Data):
    """Data in memory; tables are read in blocks and not copied."""

    def __init__(
        self,
        core: Coreset,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        lengths: Any,
        size: int,
        seed: int,
    ) -> None:
        self.core, self.given = core, (X, y, sample_weight, groups, lengths)
        self.size, self.seed = size, seed
        self.table = read_rows(X, y, core.problem, sample_weight, None, lengths)
        self.rows = self.table.stored_rows(self.table.index())

    def sample(self) -> Array:
        positions = sample(np.random.default_rng(self.seed), len(self.rows), self.size)
        return self.rows.take(positions, -self.table.origin)[:, 1:]

    def moments(self) -> MomentMatch | None:
        return match_in_memory(self.core, self.table) if shows_moments(self.core) else None

    def columns(self) -> ColumnMatch:
        kept = Rows([kept_block(self.core)], self.core.weights)
        shift = np.average(kept.parts[0], axis=0, weights=kept.weights)
        return match_columns(
            column_sums(self.rows, shift - self.table.origin), column_sums(kept, shift), shift
        )

    def verify(self) -> dict[str, Any]:
        X, y, sample_weight, groups, lengths = self.given
        fresh = self.core.verify(X, y, sample_weight=sample_weight, groups=groups, lengths=lengths)
        return measured_facts(fresh, fresh.ok, None, ())


def kept_block(core: Coreset) -> Array:
    """The kept rows as the problem reads them (k, d)."""
    if isinstance(core.problem, Latent):
        views = Rows(core.problem.kept_sample(core).views)
        return views.take(np.arange(len(core)), np.zeros(views.columns))[:, 1:]
    X, y = core.arrays()
    return X if y is None else np.column_stack([X, y])


def row_names(core: Coreset) -> list[str]:
    """Names of the columns of :func:`kept_block`; features that a pipeline or a model made are
    numbered.
    """
    width = kept_block(core).shape[1]
    columns = kept_columns(core)
    targets = [column.name for column in columns if column.role == "target"]
    features = [column.name for column in columns if column.role == "feature"]
    if len(features) != width - len(targets):
        features = [f"feature {i}" for i in range(width - len(targets))]
    return features + targets
