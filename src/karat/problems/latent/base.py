"""The base class of latent-variable problems: two passes, three modes, stored maps.

Pass one finds the *maps*: whitening M, its dual B, and what else makes a sample's statistics linear
(sigma^2, m1, C1, C3). With the maps fixed, pass two keeps sums over samples, of (``keep``)

    "tensor"   A  the whitened statistic t~ only, as in the paper: binom(k+2, 3) rows, k more for
               own variances (ICA: more);
    "moments"  B  all statistics up to that order in k-space, so that the whitening and the means
    can be re-checked;
    "all"      C  also what the maps themselves are made of: the coreset alone is then enough.

Modes A and B need the maps of the full data, which the coreset stores; without them its rows give
other parameters.  The maps depend on all rows, so these coresets do not merge.  But they are made
of sums over samples, so pass one can be taken in parts, and once they are known pass two is an
ordinary problem (:mod:`karat.problems.latent.known`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np

from karat.engine.linalg import Array, Indices
from karat.engine.rows import add_in_place, sweep
from karat.engine.tolerances import EPS, EXACT
from karat.errors import InputError, check_integer, plural, several
from karat.problems.base import NEVER_KEPT, CoresetLike, Problem
from karat.problems.latent.known import KnownMaps
from karat.problems.latent.sample import Reader, Sample
from karat.problems.latent.sums import Sums
from karat.problems.latent.terms import LinearTerm, Term, TermKernel, expand

Keep = Literal["tensor", "moments", "all"]
Maps = dict[str, Array]

KEEPS = ("tensor", "moments", "all")
# |mean| in the whitened space, its terms added without their signs, up to which the mean may be
# subtracted after the product: rows are of size 1 there, so no digits are lost
NEAR = 1.0
WIDEST = 2000  # most features for which mode C makes a small coreset


class Latent(Problem):
    """Base class of the latent-variable problems."""

    takes: ClassVar[frozenset[str]] = frozenset()
    mergeable: ClassVar[bool] = False
    needs_sums: ClassVar[bool] = True
    order: ClassVar[int] = 3
    part: ClassVar[str]  # what a model has k of
    dropped_inputs: ClassVar[tuple[str, str]] = ("row", "")  # what is left out, if it has this
    keep: Keep
    total_weight: bool

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Problem:
        """The problem in a file; karat 0.2.0 also stored whether its maps are about the mean."""
        params = dict(params)
        centred = params.pop("centred", True)
        problem = cls(**params)
        if problem.lifted and not centred:
            raise InputError("Its maps are about the origin, as in karat 0.1.0; build it again.")
        return problem

    @property
    def lifted(self) -> bool:
        """Whether the last of the k coordinates is the constant 1: maps about the mean have k - 1
        columns.
        """
        return False

    @staticmethod
    def whitening(M: Array, mean: Array | None) -> Reader:
        """The function from rows to ``(M'(x - mean), 1)``, or to ``M'x`` if there is no mean."""
        if mean is None:
            return lambda x: np.asarray(x @ M)
        M = np.ascontiguousarray(M)  # the product is then a fifth faster
        width, away = M.shape[1], (mean @ M)[:, None]
        near = bool((np.abs(mean) @ np.abs(M)).max(initial=0.0) <= NEAR)

        def whiten_rows(x: Array) -> Array:
            # columns of z one after the other, as they are multiplied later
            z = np.empty((width + 1, len(x)))
            if near:
                np.subtract(np.dot(x, M).T, away, out=z[:width])
            else:
                z[:width] = np.dot(x - mean, M).T
            z[width] = 1.0
            return z.T

        return whiten_rows

    @property
    def k(self) -> int:
        """Number of hidden values: the first parameter, whatever it is called."""
        return int(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    @abstractmethod
    def check_size(self, columns: int) -> None:
        """Raise if a table has too many columns; called before memory is taken for them."""

    @abstractmethod
    def sample(
        self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None
    ) -> Sample:
        """Checked tables with one row per observation, as samples; ``steps``: the place of every
        row in its sequence.
        """

    @abstractmethod
    def views(self, tables: tuple[Any, ...], maps: Maps | None) -> tuple[Any, ...]:
        """The views of samples that are stored side by side, as in a coreset; they are computed
        when they are read.
        """

    def kept_sample(self, core: CoresetLike) -> Sample:
        """The samples that a coreset keeps."""
        count = len(core.weights)
        views = self.views(core.tables(), core.maps)
        return Sample(tuple(view[:] for view in views), core.weights, None, count, count)

    def kept_maps(self, core: CoresetLike, kept: Sample) -> Maps:
        """The stored maps of the full data; in mode C those of the kept rows, which are the
        same.
        """
        if core.maps is not None:
            return core.maps
        maps, n = self.maps(kept), float(core.n_rows)  # sampling noise is that of all rows
        # rows of weight 1; of others the noise is not known
        if "effective" in maps and np.isclose(float(maps["total"]), n):
            maps["effective"] = np.array(n)
        return maps | {"n": np.array(n)}

    def empty_message(self, inputs: int, dropped: int) -> str:
        """The error message if no sample is left."""
        return "No row has a positive weight; a coreset needs at least one."

    def notes(self, inputs: int, dropped: int) -> tuple[str, ...]:
        """Notes for the certificate about inputs that could not be used."""
        if not dropped:
            return ()
        noun, too_few = self.dropped_inputs
        has, was = ("has", "was") if dropped == 1 else ("have", "were")
        return (f"{dropped:,} of {several(inputs, noun)} {has} {too_few} and {was} left out.",)

    @abstractmethod
    def sums(self, sample: Sample, whole: bool = True) -> Sums:
        """Pass one: the sums that the maps are made of; ``whole`` means that no other samples are
        added.
        """

    @abstractmethod
    def maps_of(self, sums: Sums) -> Maps:
        """The maps, from the sums over all samples."""

    def maps(self, sample: Sample) -> Maps:
        """Pass one over samples in memory."""
        return self.maps_of(self.sums(sample))

    def with_maps(self, sums: Sums, widths: tuple[int, ...] | None = None) -> Problem:
        return KnownMaps(self, self.maps_of(sums), widths)

    def columns_of(self, maps: Maps) -> tuple[int, ...]:
        """Columns of the views to which the maps belong."""
        return (len(maps["M"]),)

    def map_rounding(self, maps: Maps) -> float:
        """Relative rounding of the maps: they are made of second moments, which differ in few
        digits far from the origin.
        """
        return EPS * float(maps["magnify"]) ** 2

    def map_notes(self, maps: Maps) -> tuple[str, ...]:
        """A note for the certificate if rounding of the maps themselves is visible."""
        rounding = self.map_rounding(maps)
        if rounding <= EXACT:
            return ()
        return (
            (
                f"The maps of all rows are themselves rounded by about {rounding:.0e}: centre the"
                " columns."
            ),
        )

    @abstractmethod
    def reader(self, maps: Maps, keep: Keep) -> Reader:
        """The function that computes the coordinates of a block of samples."""

    @abstractmethod
    def terms(
        self, columns: tuple[int, ...], maps: Maps | None, keep: Keep
    ) -> tuple[list[Term], int]:
        """The features to keep, and the number of coordinates; without maps, only for counting."""

    def kept_terms(self, columns: tuple[int, ...], maps: Maps | None) -> tuple[list[Term], int]:
        """The features that a coreset keeps: those of :meth:`terms`, or others of the same span
        that cost less.
        """
        return self.terms(columns, maps, self.keep)

    def __post_init__(self) -> None:
        """Check the parameters that all latent-variable problems have."""
        name = fields(self)[0].name  # type: ignore[arg-type]
        if getattr(self, name) == "auto":
            raise InputError(
                f'{name}="auto" needs all rows: karat.models.{type(self).__name__}("auto").fit(X)'
                " finds n_components_.",
                argument=name,
            )
        check_integer(f"The number of {plural(self.part)}", getattr(self, name))
        vars(self)[name] = self.k  # JSON has no NumPy integers
        if self.keep not in KEEPS:
            raise InputError(
                f'keep must be one of "tensor", "moments" and "all", not {self.keep!r}.'
            )

    def check_columns(
        self, columns: int, unit: str = "column", where: str = "", more: int = 0
    ) -> None:
        """Raise if k > d + ``more``."""
        if self.k > columns + more:
            raise InputError(
                f"{several(self.k, self.part)} cannot be told apart in {several(columns, unit)}"
                f"{where} (n_features={columns}): the method needs k <= {'d + 1' if more else 'd'}."
                f" Ask for at most {columns + more}."
            )

    @property
    def keeps(self) -> str:  # type: ignore[override]
        order = "fourth-order" if self.order == 4 else "third-order"
        return {
            "tensor": (
                f"the whitened {order} tensor (mode A: together with the stored maps of the full"
                " data)"
            ),
            "moments": (
                f"all moments up to the {order} in the whitened space (mode B: together with the"
                " stored maps of the full data)"
            ),
            "all": (
                f"the second moments and the whitened {order} tensor (mode C: the kept rows alone"
                " are enough)"
            ),
        }[self.keep]

    @property
    def excludes(self) -> tuple[str, ...]:  # type: ignore[override]
        return "likelihoods (so EM and variational fits)", *NEVER_KEPT

    def kernel(self, columns: int, targets: int = 0) -> TermKernel:
        """A kernelization of the right width for planning; its features are known once the maps
        are.
        """
        return self._kernel((columns,), None)

    def fold_memory(self, columns: int, targets: int = 0) -> tuple[int, int]:
        # coordinates are computed when rows are read; at worst, for the tree, of all at once
        terms = self.kernel(columns)
        fixed = 8 * (24 * terms.width**2 + 3 * self.sums_size(columns))
        return int(fixed), 8 * (8 * self.tables * columns + terms.columns + 4)

    def known_kernel(self, maps: Maps) -> TermKernel:
        """The kernelization once the maps are known."""
        columns, limit = self.columns_of(maps), min(int(maps["n"]) // 2, WIDEST)
        least = min(columns) * (min(columns) + 1) // 2  # second moments, before they take memory
        kernel = None if self.keep == "all" and least > WIDEST else self._kernel(columns, maps)
        width = least if kernel is None else kernel.width
        if kernel is None or (self.keep == "all" and width > limit):
            raise InputError(
                f'keep="all" needs {width:,} features for this data, more than {limit:,}'
                f" (half of the samples, or {WIDEST:,}): the coreset would be about as large as the"
                ' data. Use keep="tensor" or keep="moments", which store the maps.'
            )
        return kernel

    def _kernel(self, columns: tuple[int, ...], maps: Maps | None) -> TermKernel:
        terms, count = self.kept_terms(columns, maps)
        if self.keep != "tensor" or (self.total_weight and not self.lifted):
            terms = [*terms, LinearTerm("total", None)]
        return TermKernel(terms, count, sum(columns) * self.k)

    def statistics(self, sample: Sample, maps: Maps) -> dict[str, Array]:
        """The moments the learners start from: means over samples, the tensor in full (k, .., k).

        Full data and coresets take the same way from samples to moments.
        """
        terms, count = self.terms(sample.columns, maps, "tensor")
        kernel = TermKernel(terms, count, sum(sample.columns) * self.k)
        rows = sample.rows(self.reader(maps, "tensor"), count)
        target = kernel.learned(
            sweep(
                rows,
                kernel.shift,
                lambda b, w, _: kernel.sums(b, w),
                add_in_place,
                kernel.product_shape,
            )
        )
        if not np.isfinite(target).all():
            raise InputError("The third moments overflow double precision; rescale the columns.")
        values = kernel.parts(target / float(maps["total"]))
        return values | {"tensor": expand(values["tensor"], self.k, self.order)}

    def loss(self, X: Any, y: Any, weights: Array, query: Any) -> float:
        raise InputError(
            "The loss of a latent-variable problem needs its maps: use core.loss(query)."
        )

    def loss_on(self, core: CoresetLike, query: Any) -> float:
        """The contraction of the whitened tensor, ``sum_i w_i t~_i(query, .., query)``, at a vector
        of k numbers.
        """
        vector = np.asarray(query, dtype=float)
        if vector.shape != (self.k,):
            raise InputError(
                f"A query is a vector of {self.k} numbers in the whitened space, not of shape"
                f" {vector.shape}."
            )
        kept = self.kept_sample(core)
        maps = self.kept_maps(core, kept)
        value = self.statistics(kept, maps)["tensor"]
        for _ in range(self.order):
            value = value @ vector
        return float(value) * float(maps["total"])
