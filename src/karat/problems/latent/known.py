"""Pass two: with known maps, a latent-variable problem is an ordinary problem, whose coresets
merge.

Rows are stored as they are; samples of several rows are stored side by side.  They become
coordinates when they are read.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from karat.engine.linalg import Array
from karat.engine.parts import SideBySide
from karat.engine.rows import Rows
from karat.engine.tolerances import EXACT
from karat.problems.base import CoresetLike, Problem
from karat.problems.latent.sample import Reader, coordinates
from karat.problems.latent.terms import TermKernel

if TYPE_CHECKING:
    from karat.problems.latent.base import Latent, Maps

BASIS = ("centre", "axes")  # only choose coordinates of a span, so they may differ


@final
class KnownMaps(Problem):
    """A latent-variable problem together with the maps of all rows.

    Parameters
    ----------
    problem : Latent
    maps : dict of arrays
    widths : tuple of int or None
        Columns of each stored table, if there are several.
    of_views : bool
        Whether the rows are already the views of samples, as in memory.
    """

    storable: ClassVar[bool] = False
    has_view: ClassVar[bool] = True

    def __init__(
        self,
        problem: Latent,
        maps: Maps,
        widths: tuple[int, ...] | None = None,
        of_views: bool = False,
    ) -> None:
        self.problem, self.maps, self.widths, self.of_views = problem, maps, widths, of_views
        self.total_weight = problem.total_weight
        self.stored_maps = None if problem.keep == "all" else maps
        vars(self).update(
            keeps=problem.keeps, excludes=problem.excludes, rows_per_sample=problem.rows_per_sample
        )

    def __reduce__(self) -> Any:
        return KnownMaps, (self.problem, self.maps, self.widths, self.of_views)

    def describe(self) -> str:
        return self.problem.describe()

    @cached_property
    def _kernel(self) -> TermKernel:
        return self.problem.known_kernel(self.maps)

    @cached_property
    def _reader(self) -> Reader:
        return self.problem.reader(self.maps, self.problem.keep)

    def kernel(self, columns: int, targets: int = 0) -> TermKernel:
        return self._kernel

    def view(self, rows: Rows) -> Rows:
        views = tuple(rows.parts)
        if not self.of_views:
            views = self.problem.views(tables_of(rows.parts, self.widths), self.maps)
        return rows.replaced([coordinates(views, self._reader, self._kernel.columns)])

    def kept_parts(self, core: CoresetLike) -> list[Any]:
        return list(self.problem.kept_sample(core).views if self.of_views else core.tables())

    def changed_maps(self, stored: Maps | None, fresh: Maps | None) -> list[str]:
        assert fresh is not None
        allowed = min(1e-8, max(EXACT, 100 * self.problem.map_rounding(fresh)))
        compared = {name: value for name, value in (stored or {}).items() if name not in BASIS}
        apart = [
            name
            for name, value in compared.items()
            if not _same_map(value, fresh.get(name), allowed)
        ]
        return (
            [f"The stored maps are not those of this data ({', '.join(apart)} differ)."]
            if apart
            else []
        )

    def loss(self, X: Any, y: Any, weights: Array, query: Any) -> float:
        return self.problem.loss(X, y, weights, query)


def tables_of(parts: list[Any], widths: tuple[int, ...] | None) -> tuple[Any, ...]:
    """Column blocks as one table, or as several of the given widths."""
    if widths is None:
        return (parts[0] if len(parts) == 1 else SideBySide(parts),)
    ends = np.cumsum([part.shape[1] for part in parts]).tolist()
    cuts = [ends.index(edge) + 1 for edge in np.cumsum(widths).tolist()]
    return tuple(tables_of(parts[a:b], None)[0] for a, b in zip([0, *cuts], cuts, strict=False))


def _same_map(stored: Array, fresh: Array | None, allowed: float) -> bool:
    if fresh is None or np.shape(stored) != np.shape(fresh):
        return False
    return bool(
        np.abs(stored - fresh).max(initial=0.0)
        <= allowed * max(np.abs(fresh).max(initial=0.0), 1e-300)
    )
