"""Checks of three views: independent given the hidden value, as the steps of a chain are."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.data.transformed import dense
from karat.engine.linalg import Array, Indices
from karat.errors import several
from karat.models import chains, misfit
from karat.models.misfit import Check
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, read

WIDE = 600  # columns up to which the rank of products is tested
NOT_INDEPENDENT = (
    "the third moments are not those of views that are independent given the hidden value"
)


def view_checks(
    maps: Maps, problem: Latent, sample: Sample, basis: tuple[Array, Array]
) -> list[Check]:
    """Comparisons of three views with independence given the hidden value."""
    chain = problem.rows_per_sample > 1
    index, lifted = misfit.probe(sample, chain), problem.lifted
    views = [read(view, index) for view in sample.views]
    used = [_used_columns(view) for view in views]
    these, checks = several(problem.k, problem.part), []
    if min(len(columns) for columns in used) <= WIDE:
        centred = [dense(view[:, columns]) for view, columns in zip(views, used, strict=True)]
        if lifted:  # symbols have one unit; scaled, rare ones would bring in the most noise
            centred = [
                misfit.of_unit_size(view - maps[f"mean{a}"][used[a - 1]])
                for a, view in enumerate(centred, 1)
            ]
        rank = problem.k - lifted
        pairs = [(centred[a], centred[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
        more = max(
            (misfit.remainder(a, b, rank) for a, b in pairs if rank < min(a.shape[1], b.shape[1])),
            default=-np.inf,
        )
        says = f"the views of a sample have more in common than {these} can explain"
        checks.append(Check("rank", min(1.0, 3 * misfit.beyond(more)), says))
        if chain:
            checks += chains.steps_checks(centred, sample.rows_of(index), problem.k)
        if rank:
            fewer = misfit.beyond(misfit.remainder(*pairs[1], rank - 1))
            shown = f"the first and third views do not clearly show {these}"
            checks.append(Check("fewer", fewer, shown, shortage=True))
    if problem.k > 1:
        ell, V = basis
        z = problem.reader(maps, "tensor")(*views)
        k = problem.k
        values = misfit.view_products(
            [z[:, i * k : (i + 1) * k] for i in range(3)], misfit.orthonormal(V), ell
        )
        values = misfit.block_means(values) if chain else values
        checks.append(
            misfit.compared(
                "tensor", misfit.wald(values), NOT_INDEPENDENT, misfit.NOTHING_OFF_DIAGONAL
            )
        )
    return checks


def _used_columns(view: Any) -> Indices:
    """Columns that have an entry: few of the symbols up to a large code may occur."""
    return np.unique(view.indices) if hasattr(view, "indices") else np.arange(view.shape[1])
