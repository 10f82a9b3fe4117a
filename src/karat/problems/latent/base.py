"""What latent-variable problems share: two passes, three modes, stored maps.

Pass one finds the *maps*: whitening M, its dual B, and what else makes a sample's statistics linear (sigma^2, m1, C1, C3).
With the maps fixed, pass two keeps sums over samples, of (``keep``)

    "tensor"   A   the whitened third-order statistic t~ only, as in the paper: binom(k+2, 3) rows;
    "moments"  B   all statistics up to that order in k-space, so that the whitening and the means can be re-checked;
    "all"      C   also what the maps themselves are made of: the coreset alone is then enough.

Modes A and B need the maps of the full data, which the coreset stores; without them its rows give other parameters.  The maps
depend on all rows, so these coresets do not merge.  But they are made of sums over samples, so pass one can be taken in parts,
and once they are known pass two is an ordinary problem (:mod:`karat.problems.latent.known`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from karat.engine.linalg import Array, Indices
from karat.engine.rows import Rows
from karat.engine.sweep import pass_over
from karat.engine.tolerances import EPS, EXACT
from karat.errors import InputError
from karat.problems.base import NEVER_KEPT, Problem
from karat.problems.latent.sample import Reader, Sample
from karat.problems.latent.sums import Sums
from karat.problems.latent.terms import Columns, Term, TermKernel, expand

Keep = Literal["tensor", "moments", "all"]
Maps = dict[str, Array]

KEEPS = ("tensor", "moments", "all")
WIDEST = 2000  # features up to which mode C is worth its name


class Latent(Problem):
    """Base class of the latent-variable problems."""

    mergeable: ClassVar[bool] = False
    needs_sums: ClassVar[bool] = True
    order: ClassVar[int] = 3
    parts: ClassVar[str]
    short: ClassVar[str] = ""  # what is wrong with inputs that are left out
    reach: ClassVar[int] = 1  # rows that make a sample
    tables: ClassVar[int] = 1  # of d columns each, that are stored of a sample
    keep: Keep
    total_weight: bool

    @property
    @abstractmethod
    def k(self) -> int:
        """Number of hidden values."""

    @abstractmethod
    def sample(self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None) -> Sample:
        """Checked tables with one row per observation, as samples; ``steps``: the place of every row in its sequence."""

    @abstractmethod
    def views(self, tables: tuple[Any, ...], maps: Maps | None) -> tuple[Any, ...]:
        """The views of samples that are stored side by side in tables, as in a coreset, read when they are asked for."""

    def kept_sample(self, tables: tuple[Any, ...], weights: Array, maps: Maps | None) -> Sample:
        """The rows of a coreset, as samples."""
        count = len(weights)
        return Sample(tuple(view[:] for view in self.views(tables, maps)), weights, None, count, count)

    def nothing(self, inputs: int, dropped: int) -> str:
        """What to say where no sample is left."""
        return "No row has a positive weight; a coreset needs at least one."

    def notes(self, inputs: int, dropped: int) -> tuple[str, ...]:
        """What the certificate says about inputs that could not be used."""
        return (f"{dropped:,} of {inputs:,} {self.short} and were left out.",) if dropped else ()

    @abstractmethod
    def sums(self, sample: Sample, whole: bool = True) -> Sums:
        """Pass one: what the maps are made of; ``whole``: there are no other samples to add it to."""

    @abstractmethod
    def sums_size(self, columns: int) -> int:
        """About how many numbers the sums are."""

    @abstractmethod
    def maps_of(self, sums: Sums) -> Maps:
        """The maps, from the sums over all samples."""

    def maps(self, sample: Sample) -> Maps:
        """Pass one over samples in memory."""
        return self.maps_of(self.sums(sample))

    def lower(self, sums: Sums, widths: tuple[int, ...] | None = None) -> Problem:
        from karat.problems.latent.known import KnownMaps

        return KnownMaps(self, self.maps_of(sums), widths)

    def columns_of(self, maps: Maps) -> tuple[int, ...]:
        """Columns of the views to which the maps belong."""
        return (len(maps["M"]),)

    def map_rounding(self, maps: Maps) -> float:
        """Relative rounding of the maps: they are made of second moments, which differ in few digits far from the origin."""
        return EPS * float(maps["magnify"]) ** 2

    def map_notes(self, maps: Maps) -> tuple[str, ...]:
        """What the certificate says where the maps themselves are rounded visibly."""
        rounding = self.map_rounding(maps)
        if rounding <= EXACT:
            return ()
        return (f"The maps of all rows are themselves rounded by about {rounding:.0e}: centre the columns.",)

    @abstractmethod
    def reader(self, maps: Maps, keep: Keep) -> Reader:
        """What computes the coordinates of a block of samples."""

    @abstractmethod
    def terms(self, columns: tuple[int, ...], maps: Maps | None, keep: Keep) -> tuple[list[Term], int]:
        """What must be kept, and the number of coordinates; without maps only to count them."""

    def check(self) -> None:
        """Check the parameters that all share."""
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < 1:
            raise InputError(f"The number of {self.parts} must be a whole number of at least 1, not {self.k!r}.")
        if self.keep not in KEEPS:
            raise InputError(f'keep must be one of "tensor", "moments" and "all", not {self.keep!r}.')

    def check_columns(self, columns: int, what: str = "columns") -> None:
        if self.k > columns:
            raise InputError(
                f"{self.k} {self.parts} cannot be told apart in {columns} {what}: the method needs k <= d. Ask for at "
                f"most {columns}."
            )

    @property
    def keeps(self) -> str:  # type: ignore[override]
        what = "fourth-order" if self.order == 4 else "third-order"
        return {
            "tensor": f"the whitened {what} tensor (mode A: together with the stored maps of the full data)",
            "moments": f"all moments up to the {what} in the whitened space (mode B: together with the stored maps of "
            "the full data)",
            "all": f"the second moments and the whitened {what} tensor (mode C: the kept rows alone are enough)",
        }[self.keep]

    @property
    def excludes(self) -> tuple[str, ...]:  # type: ignore[override]
        return "likelihoods (so EM and variational fits)", *NEVER_KEPT[1:]

    def kernel(self, columns: int, targets: int = 0) -> TermKernel:
        """The kernelization before the maps are known: its width is right, its features are not to be asked for."""
        terms, count = self._terms((columns,), None, self.keep)
        return TermKernel(terms, count, columns * self.k)

    def kernelize(self, sample: Sample, maps: Maps) -> tuple[Rows, TermKernel]:
        """The samples in the coordinates of the maps, and the kernel of what must be kept."""
        kernel = self.known_kernel(maps)
        rows = sample.rows(self.reader(maps, self.keep), kernel.columns)
        return rows, kernel

    def known_kernel(self, maps: Maps) -> TermKernel:
        """The kernelization once the maps are known."""
        columns = self.columns_of(maps)
        terms, count = self._terms(columns, maps, self.keep)
        kernel = TermKernel(terms, count, sum(columns) * self.k)
        limit = min(int(maps["n"]) // 2, WIDEST)
        if self.keep == "all" and kernel.width > limit:
            raise InputError(
                f'keep="all" needs {kernel.width:,} features for this data, more than {limit:,} (half of the samples, '
                f"or {WIDEST:,}): "
                'the coreset would hardly be smaller than the data. Use keep="tensor" or keep="moments", which store the maps.'
            )
        return kernel

    def _terms(self, columns: tuple[int, ...], maps: Maps | None, keep: Keep) -> tuple[list[Term], int]:
        terms, count = self.terms(columns, maps, keep)
        if self.total_weight or keep != "tensor":
            terms = [*terms, Columns("total", None)]
        return terms, count

    def statistics(self, sample: Sample, maps: Maps) -> dict[str, Array]:
        """The moments the learners start from: means over samples, the tensor in full (k, .., k).

        The one way from samples to moments, for full data and coresets alike.
        """
        terms, count = self.terms(sample.columns, maps, "tensor")
        kernel = TermKernel(terms, count, sum(sample.columns) * self.k)
        rows = sample.rows(self.reader(maps, "tensor"), count)
        target = kernel.settle(pass_over(rows, kernel), sample.total).target
        if not np.isfinite(target).all():
            raise InputError("The third moments overflow double precision; rescale the columns.")
        values = kernel.parts(target / float(maps["total"]))
        return values | {"tensor": expand(values["tensor"], self.k, self.order)}

    def loss(self, X: Any, y: Any, weights: Array, query: Any) -> float:
        raise InputError("The loss of a latent-variable problem needs its maps: use core.loss(query).")

    def contraction(self, sample: Sample, maps: Maps, query: Any) -> float:
        """``sum_i w_i t~_i(query, .., query)`` at a vector of k numbers."""
        vector = np.asarray(query, dtype=float)
        if vector.shape != (self.k,):
            raise InputError(f"A query is a vector of {self.k} numbers in the whitened space, not of shape {vector.shape}.")
        value = self.statistics(sample, maps)["tensor"]
        for _ in range(self.order):
            value = value @ vector
        return float(value) * float(maps["total"])
