"""Checks of chains: what windows of three steps do not show.

longer   the step now and the sum of the next LATER steps have products of the rank of the
         states, as two neighbours have, whatever the transitions: E[x_t x_(t+s)'] = O' D T^s O.
         What lasts longer than a step (a level that many steps share) adds up in the sum.
drift    the means of neighbouring stretches do not grow or fall with time.
tensor   without samples: the third moments, with the noise of chains drawn from the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.engine.linalg import Array, Indices
from karat.errors import several
from karat.models import misfit, simulate
from karat.models.misfit import Check

LATER = 8  # steps that are added up
STRETCHES, SHORTEST, FEWEST = 40, 50, 20  # stretches of a chain; steps of each, unless too few
ALIKE = 0.3  # correlation of neighbouring stretches beyond which they are too short
MOST = 10  # directions in which a drift is looked for


def steps_checks(views: list[Array], origin: Indices, k: int) -> list[Check]:
    """The checks "longer" and "drift".

    Parameters
    ----------
    views : list of three arrays
        The steps of windows, one row per window.
    origin : int array
        Rows of the first steps; windows of one sequence follow each other by one.
    k : int
        Number of states.
    """
    now, later = later_steps([view - view.mean(axis=0) for view in views], origin)
    says = f"steps have more in common with later ones than {several(k, 'state')} can explain"
    why = (
        f"the sequences have fewer than {LATER + 2} steps, or there are no more symbols than states"
    )
    p_value = None
    if len(now) >= FEWEST and k - 1 < min(now.shape[1], later.shape[1]):
        p_value = misfit.beyond(misfit.remainder(now, later, k - 1))
    return [
        misfit.compared("longer", p_value, says, why),
        misfit.compared(
            "drift",
            drift(views[0]),
            "the law of the steps changes with time",
            f"it needs {2 * FEWEST} windows and states that last less than a stretch of them",
        ),
    ]


def later_steps(views: list[Array], origin: Indices) -> tuple[Array, Array]:
    """The first steps of windows, and the sums of LATER steps that follow them in their
    sequence.
    """
    sums = np.vstack([np.zeros((1, views[1].shape[1])), views[1].cumsum(axis=0)])
    last = np.arange(max(len(origin) - LATER + 1, 0))
    last = last[origin[last + LATER - 1] - origin[last] == LATER - 1]
    return views[0][last], sums[last + LATER] - sums[last]


def drift(values: Array) -> float | None:
    """The p-value of "the means do not change with time", along a straight line."""
    n = len(values)
    stretches = min(STRETCHES, max(FEWEST, n // SHORTEST))
    size = n // stretches
    if size < 2:
        return None
    means = values[: size * stretches].reshape(stretches, size, -1).mean(axis=1)
    means = means - means.mean(axis=0)
    if means.shape[1] > MOST:  # the directions that vary most
        means = means @ np.linalg.svd(means, full_matrices=False)[2][:MOST].T
    time = np.linspace(-1.0, 1.0, stretches)
    time /= np.linalg.norm(time)
    slope = time @ means
    rest = means - np.outer(time, slope)
    # states that last longer than a stretch look like a drift
    if np.sum(rest[1:] * rest[:-1]) > ALIKE * np.sum(rest * rest):
        return None
    distance, m = misfit.squared_distance(slope, rest.T @ rest / (stretches - 2))
    return misfit.hotelling(distance, m, stretches - 1) if m else None


def simulated(
    transitions: Array, emissions: Any, maps: dict[str, Array], basis: tuple[Array, Array],
    tensor: Array,
) -> float | None:  # fmt: skip
    """The p-value of a diagonal tensor, with the noise of chains drawn from a model.

    ``emissions``: laws of symbols (k x d), or means (k x d) and variances (k,) of Gaussians.
    """
    ell, V = basis[0], misfit.orthonormal(basis[1])
    hidden, whitenings = simulate.states(transitions), [maps[name] for name in ("W1", "M", "W3")]
    if isinstance(emissions, tuple):
        means, variances = emissions
        white = [
            (means - maps[f"mean{a}"]) @ whitening for a, whitening in enumerate(whitenings, 1)
        ]
        views = simulate.gaussians(hidden, white, variances, whitenings)
    else:
        views = simulate.symbols(hidden, emissions, whitenings)
    values = misfit.view_products([view.reshape(-1, len(V)) for view in views], V, ell)
    windows = views[0].shape[1]
    draws = values.reshape(len(hidden), windows, -1).mean(axis=1)
    n = min(float(maps["n"]), misfit.PROBE) / windows
    return simulate.p_value(tensor, V, draws, ell, n)
