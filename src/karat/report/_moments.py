"""The proof as numbers: the moments that a problem keeps, summed over all rows and over the weighted few.

Kernel features have no common unit, so every moment is divided by the total weight and by the root mean square of its feature
over the kept rows.  Then a moment is a number of the order of one, and a difference of 1e-15 is rounding whatever the units
of the columns are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat._core.construct import kernel_of
from karat._core.coreset import Coreset
from karat._core.latent import kept_sample
from karat._data.checks import Table, read_input
from karat.engine.candidates import sample
from karat.engine.kernel import Settled
from karat.engine.linalg import Array
from karat.engine.polynomial import Polynomial
from karat.engine.reduce import settle
from karat.engine.rows import Rows
from karat.problems.latent import Latent
from karat.problems.latent.sample import Sample

PILOT = 16384


@dataclass(frozen=True)
class MomentMatch:
    """Moments (m,) of all rows and of the kept rows, in the unit above."""

    full: Array
    kept: Array

    @property
    def difference(self) -> Array:
        return self.kept - self.full


@dataclass(frozen=True)
class ColumnMatch:
    """Mean and deviation of every column (d,), of all rows and of the kept rows."""

    mean: Array
    deviation: Array
    kept_mean: Array
    kept_deviation: Array


def match(settled: Settled, kept: Rows) -> MomentMatch:
    """The kept rows against the settled moments of all rows."""
    kernel = settled.kernel
    features = kernel.features(kept.take(np.arange(len(kept)), kernel.shift))
    weights = np.ones(len(kept)) if kept.weights is None else kept.weights
    size = np.sqrt(weights @ np.square(features) / weights.sum())
    size[size == 0] = 1.0
    unit = size * settled.total
    return MomentMatch(settled.target / unit, weights @ features / unit)


def match_in_memory(core: Coreset, table: Table) -> MomentMatch:
    """For rows ``[X | y]`` in memory, in one pass."""
    own = read_input(core.X, core.y, core.problem, core.weights, None, table.unit, table.offsets)
    rows = table.rows()
    settled, _ = settle(rows, kernel_of(core.problem, own), sample(np.random.default_rng(1), len(rows), PILOT))
    return match(settled, own.rows())


def match_latent(core: Coreset, data: Sample) -> MomentMatch:
    """For the samples of a latent-variable model, in the coordinates that the full data's maps give."""
    problem = core.problem
    assert isinstance(problem, Latent)
    maps = problem.maps(data)
    rows, kernel = problem.kernelize(data, maps)
    settled, _ = settle(rows, kernel, sample(np.random.default_rng(1), len(rows), PILOT))
    return match(settled, kept_sample(core).rows(problem.reader(maps, problem.keep), kernel.columns))


def match_columns(full: Array, kept: Array, shift: Array) -> ColumnMatch:
    """From the sums of all rows and of the kept ones."""
    means, deviations = [], []
    for total, first, second in (full, kept):
        mean = first / total
        means.append(mean + shift)
        deviations.append(np.sqrt(np.maximum(second / total - mean**2, 0.0)))
    return ColumnMatch(means[0], deviations[0], means[1], deviations[1])


def keeps_columns(core: Coreset) -> bool:
    """Whether mean and deviation of every column are among what the problem keeps."""
    if isinstance(core.problem, Latent) or core.absorbed is not None:
        return False
    own = read_input(core.X, core.y, core.problem, core.weights, None)
    kernel = kernel_of(core.problem, own)
    return isinstance(kernel, Polynomial) and kernel.affine and kernel.degree >= 2
