"""The full data in files, for plots: one scan verifies the coreset, draws a sample and sums the
columns.

The maps of a latent-variable problem take a scan of their own first; its rows are then the views of
its samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.core.coreset import Coreset
from karat.data.batch import Batch, Table
from karat.engine.rows import Progress, Rows, column_sums
from karat.io.find import open_source
from karat.io.measure import ColumnSums, SumMoments
from karat.io.read_all import file_layout, layout_of
from karat.io.sample import SampleRows
from karat.io.scan import Consumer
from karat.io.verify import FileCheck
from karat.problems.latent import KnownMaps
from karat.problems.latent.known import tables_of
from karat.report.moments import (
    ColumnMatch,
    Data,
    MomentMatch,
    match,
    match_columns,
    measured_facts,
    shows_moments,
)


class FileData(Data):
    """Files that a coreset was made from, or others with the same columns."""

    def __init__(
        self, core: Coreset, source: Any, size: int, seed: int, progress: Progress | None
    ) -> None:
        layout_of(core)  # raises if the coreset does not know its columns
        self.core, self.size, self.seed = core, size, seed
        self.check = FileCheck(
            core, open_source(source), file_layout(core), progress=progress, beside=self._consumers
        )
        self.verification = self.check.run()

    def _consumers(self, check: FileCheck) -> list[Consumer]:
        """The consumers besides those of the verification."""
        kept = check.kept
        self.kept = viewed(kept, kept)
        everything = self.kept.take(np.arange(len(self.kept)), np.zeros(self.kept.columns))[:, 1:]
        self.shift = np.average(everything, axis=0, weights=self.core.weights)
        self.origin = kept.origin if kept.offsets else np.zeros(self.kept.columns)
        self.drawn = SampleRows(self.size, self.seed, lambda batch: viewed(kept, batch, raw=True))
        self.sums = ColumnSums(self.shift, lambda batch: viewed(kept, batch))
        if not shows_moments(self.core):
            return [self.drawn, self.sums]
        if (
            isinstance(check.sums, SumMoments)
            and kept.groups is None
            and not check.sums.apart.any()
        ):
            self.all_moments = check.sums
            return [self.drawn, self.sums]
        self.all_moments = SumMoments(kept, check.rows, together=True)
        return [self.drawn, self.sums, self.all_moments]

    def sample(self) -> np.ndarray:
        return self.drawn.rows

    def moments(self) -> MomentMatch | None:
        if not shows_moments(self.core):
            return None
        return match(self.all_moments.running[None].fitted_moments(), self.check.kept.rows())

    def columns(self) -> ColumnMatch:
        return match_columns(
            self.sums.sums, column_sums(self.kept, self.shift), self.shift + self.origin
        )

    def verify(self) -> dict[str, Any]:
        verification, changed = (
            self.verification,
            [str(block) for block in self.verification.changed],
        )
        return measured_facts(
            verification.certificate,
            verification.ok,
            verification.data,
            changed,
            len(verification.columns),
        )


def viewed(kept: Table, batch: Batch, raw: bool = False) -> Rows:
    """The rows of a batch as a report shows them, with views side by side; ``raw``: large integers
    are not shifted.
    """
    problem = kept.problem
    if not isinstance(problem, KnownMaps):
        return Rows(batch.parts, batch.weights, offsets=None if raw else kept.offsets)
    views = problem.problem.views(tables_of(batch.parts, problem.widths), problem.maps)
    return Rows([view[:] for view in views], batch.weights)
