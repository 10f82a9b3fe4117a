"""What plots need from the full data: moments and column statistics of all rows and of the kept
rows.

Every moment is divided by the total weight and by the root mean square of its feature over the kept
rows.  A moment is then of order one, and a difference of 1e-15 is rounding, whatever the units of
the columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from karat.core.certify import Certificate
from karat.core.coreset import Coreset
from karat.core.synthetic import SYNTHETIC
from karat.core.verify import kept_like
from karat.data.batch import Table, read_input
from karat.engine.kernel import FittedMoments, fit_moments
from karat.engine.linalg import Array
from karat.engine.powers import Polynomial
from karat.engine.rows import Rows, sample

PILOT = 16384  # rows for the first estimate of means and sizes
WIDEST = 60  # columns of synthetic rows, beyond which their moments are not drawn


@dataclass(frozen=True)
class MomentMatch:
    """Scaled moments (m,) of all rows and of the kept rows."""

    full: Array
    kept: Array

    @property
    def difference(self) -> Array:
        return self.kept - self.full


@dataclass(frozen=True)
class ColumnMatch:
    """Mean and standard deviation of every column (d,), of all rows and of the kept rows."""

    mean: Array
    deviation: Array
    kept_mean: Array
    kept_deviation: Array


class Data(ABC):
    """What plots need from the full data."""

    @abstractmethod
    def sample(self) -> Array:
        """A uniform sample of rows, or all of them if there are no more (s, d)."""

    @abstractmethod
    def moments(self) -> MomentMatch | None:
        """The moments that the problem keeps, of all rows and of the kept ones; None if the rows
        alone do not determine them.
        """

    @abstractmethod
    def columns(self) -> ColumnMatch:
        """Mean and deviation of every column, of all rows and of the kept ones."""

    @abstractmethod
    def verify(self) -> dict[str, Any]:
        """The coreset measured on this data, see :func:`measured_facts`."""


def shows_moments(core: Coreset) -> bool:
    """Whether the rows alone determine the moments of the problem, and these are few enough for a
    plot.
    """
    if core.absorbed is not None:
        return False
    if core.rows == SYNTHETIC:
        X, y = core.arrays()
        width = X.shape[1] + (0 if y is None else y.reshape(len(y), -1).shape[1])
        return bool(width <= WIDEST)
    return True


def measured_facts(
    certificate: Certificate, ok: bool, data: str | None, changed: Sequence[str], columns: int = 0
) -> dict[str, Any]:
    """A fresh certificate, and the verdict:

    ``ok``, how the ``data`` compares with the hashes stored of its ``columns``.
    """
    verdict = {"ok": ok, "data": data, "changed": list(changed), "columns": columns}
    return certificate.to_dict() | {"tolerance": certificate.tolerance} | verdict


def thinned(difference: Array, most: int) -> Array:
    """Positions of about ``most`` moments, evenly spaced, and of the worst one."""
    step = -(-len(difference) // most)
    return np.union1d(np.arange(0, len(difference), step), np.argmax(np.abs(difference)))


def match(fitted: FittedMoments, kept: Rows) -> MomentMatch:
    """Compare the kept rows with the moments of all rows."""
    kernel = fitted.kernel
    features = kernel.features(kept.take(np.arange(len(kept)), kernel.shift))
    weights = np.ones(len(kept)) if kept.weights is None else kept.weights
    size = np.sqrt(weights @ np.square(features) / weights.sum())
    size[size == 0] = 1.0
    unit = size * fitted.total
    return MomentMatch(fitted.target / unit, weights @ features / unit)


def match_in_memory(core: Coreset, table: Table) -> MomentMatch:
    """Compare the moments of rows in memory, in one pass."""
    rows = table.rows()
    fitted, _ = fit_moments(rows, table.kernel, sample(np.random.default_rng(1), len(rows), PILOT))
    return match(fitted, kept_like(table, core).rows())


def match_columns(full: Array, kept: Array, shift: Array) -> ColumnMatch:
    """Means and standard deviations from the sums of all rows and of the kept rows."""
    means, deviations = [], []
    for total, first, second in (full, kept):
        mean = first / total
        means.append(mean + shift)
        deviations.append(np.sqrt(np.maximum(second / total - mean**2, 0.0)))
    return ColumnMatch(means[0], deviations[0], means[1], deviations[1])


def keeps_columns(core: Coreset) -> bool:
    """Whether the problem keeps the mean and standard deviation of every column."""
    if core.problem.needs_sums or core.absorbed is not None:
        return False
    kept = read_input(core.X, core.y, core.problem, core.weights, None)
    kernel = kept.kernel
    return isinstance(kernel, Polynomial) and kernel.affine and kernel.degree >= 2
