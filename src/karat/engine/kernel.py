"""What the engine asks of a kernelization, and the monomials that the features of most consist of.

"The paper" is S. Ranjan and S. Shit, *Accurate Coresets for Latent Variable Models and Regularized
Regression*.  Its Definition 1, read per row: a loss has a kernelization if

    f(row, q) = <phi(row), h(q)>        for every row and every query q.

Then any weighted rows with the same moments ``sum_i w_i phi(row_i)`` have the same loss at every
query.  (The paper asks it of the sums only, which is not enough: X = {1, 3}, f = x q, phi = {2, 2}
has equal sums and a wrong coreset.)

    paper                       here
    phi(row), m entries         ``kernel.features(block)``, ``kernel.width``
    sum_i u_i phi(row_i)        ``FittedMoments.target``

There are two classes of queries, and two ways to prove a coreset (:mod:`karat.engine.proof`):

    linear  h is any vector: every linear combination of the features is a query (moments, kernels,
            latent tensors);
    power   h is a p-th power: every linear form, raised to the power p, is a query (regression, the
            1-mean loss).

The engine reads rows only through the methods below; blocks are ``[1 | D - shift]``
(:mod:`karat.engine.rows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, pairwise
from math import factorial, prod
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from karat.engine.linalg import Array, Flags, Indices, one_blas_thread
from karat.engine.rows import (
    Progress,
    Rows,
    Statistic,
    column_sizes,
    own_weights,
    pass_over,
)
from karat.engine.sums import MOST_ROWS, RunningSum
from karat.engine.tolerances import LARGEST
from karat.errors import InputError

if TYPE_CHECKING:
    from karat.engine.frame import Frame
MOST = 20_000  # features of a row; beyond this the m x m matrices do not fit in memory


class Kernel(ABC):
    """A kernelization with m features per row, in coordinates fitted to the data."""

    width: int  # the number m of features
    power: int = 1  # the degree of the features in the columns of a row, as far as it is known
    shift: Array  # what is subtracted from the columns when a block is read
    # the shape of the matrix products that :meth:`statistic` forms, for the choice of block sizes
    product_shape: tuple[int, int]
    adapts: ClassVar[bool] = True  # whether the coordinates depend on a pilot
    in_extended: bool = False  # whether powers are summed in extended precision

    @property
    def roundings(self) -> int:
        """How often a feature times a weight is rounded, from the shift on
        (:mod:`karat.engine.sums`).
        """
        return 1

    def prepare(self, pilot: Array, weights: Array | None) -> Self:
        """Choose shift, scale and coordinates from a pilot block ``[1 | D]``, if need be.

        They must depend on the arguments alone: a checkpoint stores the pilot, not the coordinates.
        """
        return self

    @abstractmethod
    def features(self, block: Array) -> Array:
        """The kernel features of a block (b x m)."""

    def statistic(self, block: Array, weights: Array | None) -> Statistic:
        """What one pass adds up: arrays from which :meth:`fitted_moments` reads the moments."""
        features = np.ascontiguousarray(self.features(block).T)
        if weights is not None:
            features = features * weights
        # along contiguous rows, so pairwise
        return features.sum(axis=1), np.abs(features).sum(axis=1)

    def add_statistic(self, sums: RunningSum, block: Array, weights: Array | None) -> None:
        """Add the statistic of a block to a running sum, where it is large."""
        sums.add(self.statistic(block, weights))

    def sparse_statistic(self, rows: Rows) -> Statistic | None:
        """The statistic of all rows, if summing their nonzero entries only is faster; else None."""
        return None

    def device_statistic(self, rows: Rows, progress: Progress | None = None) -> Statistic | None:
        """The statistic of all rows, if it can be summed where they live
        (:mod:`karat.engine.device`); else None.
        """
        return None

    def fitted_moments(
        self, statistic: Statistic, total: float, last: bool = False
    ) -> FittedMoments:
        """Final coordinates and the target moments; or better coordinates for another pass, unless
        this is the ``last`` pass.
        """
        return FittedMoments(self, statistic[0], statistic, total, absolute=statistic[1])

    @property
    def statistic_size(self) -> int:
        """About how many numbers the statistic holds."""
        left, right = self.product_shape
        return left * right

    def resolution(self, block: Array) -> Array:
        """Per feature, the root mean square over a block below which it is only rounding."""
        return np.zeros(self.width)

    def group_moments(self, block: Array, weights: Array, groups: int) -> Array:
        """Sums of the features (groups x m) over ``groups`` contiguous groups of equal size that
        make up the block.
        """
        features = self.features(block) * weights[:, None]
        return np.asarray(features.reshape(groups, -1, self.width).sum(axis=1))

    def over(self, rows: int) -> Self:
        """The same kernel, for a pass over that many rows."""
        return self

    def sharper(self) -> Self:
        """The same kernel, for rows that represent others.  Their errors add up, so each should be
        small.
        """
        return self

    def rescaled(self, sizes: Array) -> Self:
        """The same kernel in units in which columns of these sizes do not underflow."""
        return self

    def centred(self, moments: FittedMoments) -> Self | None:
        """The same features about the means of the columns; None if there is no shift, or these
        are it.
        """
        return None

    def off_centre(self, moments: FittedMoments) -> float:
        """The factor by which the relative errors of sums may be larger about the means."""
        return 1.0

    def at(self, shift: Array) -> Self:
        """The same features about another shift, if they have one."""
        return self

    def sizes_in(self, sizes: Array, other: Kernel) -> Array:
        """Bounds on sums of features, converted to the coordinates of another kernel of the same
        kind.
        """
        return sizes

    def feature_name(self, feature: int, columns: list[str]) -> str:
        """What a feature is, for error messages; ``columns`` names the columns of the table."""
        return f"feature {feature}"


@dataclass(frozen=True)
class FittedMoments:
    """The outcome of a pass: the moments of all rows, and the coordinates in which they are."""

    kernel: Kernel  # with the coordinates to use from now on
    target: Array  # (m,): the moments to keep, ``sum_i u_i phi(row_i)`` in those coordinates
    statistic: Statistic  # the summed statistic, in those coordinates
    total: float  # total weight
    # the coordinates were too poor for an accurate sum: another pass is needed, with ``kernel``
    needs_pass: bool = False
    absolute: Array | None = None  # (m,): ``sum_i u_i |phi(row_i)|``, for the linear class
    frame: Frame | None = None  # the coordinates in which the sums were made, for the power class
    summed: int = MOST_ROWS  # rows that one pass has summed
    # (m,): what the target may be off by, where that is known better than by the number of rows
    off: Array | None = None
    # (m,): what is lost of the target in its last bits, where that is known
    low: Array | None = None
    # rows ``[1 | D]`` and weights that are kept verbatim beside those that were summed: what sums
    # are off by is beside all rows
    peeled: tuple[Array, Array] | None = None
    # (k, columns + m): that in parts, each about its own shift (:mod:`karat.engine.carried`)
    debts: Array | None = None
    # columns whose moments are zero, because all values are, or because they are so small that
    # their powers underflow
    vanished: Flags | None = None
    # the same moments in features of the linear class, where both classes of queries are served
    also_linear: FittedMoments | None = None

    @property
    def linear(self) -> FittedMoments | None:
        """The moments in features of the linear class; None if there are none."""
        return self if self.absolute is not None else self.also_linear

    def over(self, rows: int) -> FittedMoments:
        """The same moments of that many rows, on which the bounds on rounding depend."""
        also, frame = self.also_linear, self.frame
        return replace(
            self, summed=rows, also_linear=None if also is None else replace(also, summed=rows),
            frame=None if frame is None else frame.over(rows),
        )  # fmt: skip

    @property
    def sizes(self) -> Array | None:
        """The absolute moments, including those of peeled rows."""
        if self.absolute is None or self.peeled is None:
            return self.absolute
        block, weights = self.peeled
        return np.asarray(
            self.absolute
            + weights
            @ np.abs(self.kernel.features(block - np.concatenate([[0.0], self.kernel.shift])))
        )

    def beside(self, rows: Rows, peeled: Indices) -> FittedMoments:
        """The moments of all rows except the peeled ones, which are kept verbatim."""
        if not len(peeled):
            return self
        kept = rows.take(peeled, np.zeros(rows.columns)), own_weights(rows, peeled)
        also = self.also_linear
        return replace(
            self, peeled=kept, also_linear=None if also is None else replace(also, peeled=kept)
        )

    def with_sum_errors(
        self, off: Array | None, low: Array | None, debts: Array | None
    ) -> FittedMoments:
        """The same moments, with error bounds ``off``, ``low`` parts and debts of the sums of
        features.
        """
        if self.also_linear is not None:
            return replace(
                self, also_linear=replace(self.also_linear, off=off, low=low, debts=debts)
            )
        return self if self.absolute is None else replace(self, off=off, low=low, debts=debts)


PILOT = 2048  # rows on which coordinates are fitted
COMPLETE = 16384  # up to this many rows the pilot is all of them
PASSES = 6  # most passes that the coordinates may ask for


class NonFiniteError(ArithmeticError):
    """A pass met NaN or infinity; the caller knows the columns and names them."""


@one_blas_thread()
def fit_moments(
    rows: Rows, kernel: Kernel, pilot: Indices, progress: Progress | None = None,
    block: Array | None = None,
) -> tuple[FittedMoments, int]:  # fmt: skip
    """Fit the kernel's coordinates and sum its moments; also the number of passes it took.

    ``block`` is ``[1 | D]`` of the pilot, if it has been read.
    """
    block = rows.take(pilot, np.zeros(rows.columns)) if block is None else block
    weights = None if rows.weights is None else rows.weights[pilot]
    if not np.isfinite(block).all():
        raise NonFiniteError
    with np.errstate(over="ignore", invalid="ignore"):
        kernel = kernel.prepare(block, weights)
    if not np.isfinite(kernel.shift).all():
        raise NonFiniteError
    passes, looked = 0, False
    while True:
        statistic = pass_over(rows, kernel, progress)
        if not all(
            part.min(initial=0.0) >= -LARGEST and part.max(initial=0.0) <= LARGEST
            for part in statistic
        ):
            raise NonFiniteError
        passes += 1
        # After the last pass the proof says whether the coordinates were good enough.
        fitted = kernel.over(len(rows)).fitted_moments(statistic, rows.total, last=passes >= PASSES)
        # Columns whose moments vanish are zero, or so small that powers underflow: look once.
        if fitted.vanished is not None and fitted.vanished.any() and not looked:
            looked = True
            sizes = np.where(fitted.vanished, column_sizes(rows, kernel.shift), 0.0)
            if sizes.any():
                kernel = kernel.rescaled(sizes)
                continue
        kernel = fitted.kernel
        if not fitted.needs_pass:
            # the kernel may sum other rows later, whose number is not known
            return replace(fitted, kernel=kernel.over(MOST_ROWS)), passes


def pilot_size(count: int) -> int:
    """How many rows are read before the pass to fit coordinates: all, if there are not many."""
    return count if count <= COMPLETE else PILOT


def searches(fitted: FittedMoments) -> tuple[FittedMoments, ...]:
    """The features in which rows are sought, in this order."""
    return (fitted,) if fitted.also_linear is None else (fitted, fitted.also_linear)


def check_width(width: int) -> None:
    """Refuse more features than m x m matrices can have, before memory is allocated for them."""
    if width > MOST:
        raise InputError(
            f"A row has {width:,} features (columns or products of them), more than the {MOST:,}"
            " for which a coreset of real rows is supported. For squared losses, rows='synthetic'"
            " makes about one row per column. Otherwise reduce the number of columns or the degree."
        )


class Monomials:
    """All multisets of ``degree`` of ``variables``, in lexicographic order."""

    def __init__(self, variables: int, degree: int) -> None:
        self.variables, self.degree = variables, degree
        self.sets = list(combinations_with_replacement(range(variables), degree))
        self.position = {t: i for i, t in enumerate(self.sets)}
        self.indices = np.array(self.sets, dtype=np.intp).reshape(len(self.sets), degree)
        self.lower = monomials(variables, degree - 1) if degree > 1 else None
        if self.lower is not None:
            self.parent = np.array([self.lower.position[t[:-1]] for t in self.sets], dtype=np.intp)
            begins = np.searchsorted(self.indices[:, 0], np.arange(variables + 1)).tolist()
            self.runs = list(pairwise(begins))  # sets that begin with the same variable

    def __len__(self) -> int:
        return len(self.sets)

    def values(self, variables: Array) -> Array:
        """Monomials of the columns of ``variables`` (q x b), as rows (K x b)."""
        if self.degree == 0:
            return np.ones((1, variables.shape[1]), dtype=variables.dtype)
        if self.lower is None:
            return variables
        lower = self.lower.values(variables)
        result = np.empty((len(self), variables.shape[1]), dtype=variables.dtype)
        # times sets of variables from this one on
        for variable, (start, stop) in zip(variables, self.runs, strict=True):
            np.multiply(lower[len(lower) - (stop - start) :], variable, out=result[start:stop])
        return result

    @cached_property
    def multinomials(self) -> Array:
        """Number of orderings c_t of each multiset."""
        top = factorial(self.degree)
        return np.array(
            [top // prod(factorial(t.count(v)) for v in set(t)) for t in self.sets], dtype=float
        )

    @cached_property
    def powers(self) -> Indices:
        """Positions of the powers of single variables."""
        return np.array(
            [self.position[(v,) * self.degree] for v in range(self.variables)], dtype=np.intp
        )

    @cached_property
    def balanced(self) -> tuple[Indices, Indices]:
        """Positions of the two halves of each multiset that take its indices alternately, for an
        even degree.
        """
        half = monomials(self.variables, self.degree // 2)
        left, right = ([half.position[t[i::2]] for t in self.sets] for i in (0, 1))
        return np.array(left, dtype=np.intp), np.array(right, dtype=np.intp)

    @cached_property
    def times(self) -> tuple[Indices, Array]:
        """Positions of each variable times each lower monomial, and the factors of the products if
        both are isometric.

        A monomial is isometric if it is multiplied by the root of its number of orderings.
        """
        lower = monomials(self.variables, self.degree - 1)
        positions = [
            [self.position[tuple(sorted((v, *t)))] for t in lower.sets]
            for v in range(self.variables)
        ]
        places = np.array(positions, dtype=np.intp).reshape(self.variables, len(lower))
        return places, np.sqrt(lower.multinomials / self.multinomials[places])

    @cached_property
    def split(self) -> tuple[Indices, Indices]:
        """Positions of each multiset's first ceil(p/2) and last floor(p/2) indices among the lower
        monomials.
        """
        high = (self.degree + 1) // 2
        first, last = monomials(self.variables, high), monomials(self.variables, self.degree - high)
        return (
            np.array([first.position[t[:high]] for t in self.sets], dtype=np.intp),
            np.array([last.position[t[high:]] for t in self.sets], dtype=np.intp),
        )


@lru_cache(maxsize=64)
def monomials(variables: int, degree: int) -> Monomials:
    """The shared table of multisets (they are costly to list and never change)."""
    return Monomials(variables, degree)


def remaining_monomials(gone: Flags, degree: int) -> tuple[Flags, Indices]:
    """Which monomials hold no dropped variable, and their positions among those of the remaining
    variables.
    """
    table, left = monomials(len(gone), degree), monomials(int((~gone).sum()), degree)
    stays = np.asarray(~gone[table.indices].any(axis=1))
    places = (np.cumsum(~gone) - 1)[table.indices[stays]]
    return stays, np.array([left.position[tuple(t)] for t in places.tolist()], dtype=np.intp)
