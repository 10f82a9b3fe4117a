"""The wild cluster bootstrap, from the sums of every cluster.

In orthonormal columns let A_g be the products of the columns in cluster g, and s_g their scores, so
that sum A_g = 1 and sum s_g = 0 (:mod:`karat.engine.products`).  Let a hypothesis be a't = q, with
|a| = 1, and h = a't - q.  The residuals under it have the scores u_g = s_g + A_g a h.  A draw
multiplies the residuals of every cluster by a random v_g (Cameron, Gelbach and Miller 2008):

    t* - t = sum v_g u_g =: m,    statistic  a'm / sqrt(sum over g of (v_g a'u_g - a'A_g m)^2)

and p is the share of draws whose statistic is no smaller in size than that of the data,
h / sqrt(sum (a's_g)^2).  No row is needed: a draw costs G k operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from karat.engine.linalg import Array
from karat.engine.products import Choice, Products
from karat.errors import InputError, NotExactError
from karat.inference.covariance import constraints_of
from karat.inference.hypotheses import hypothesis as hypothesis_errors

ALONE = 1e-8  # 1 - a'A_g a below which a combination of parameters needs the cluster
TIE = 1e-9  # statistics that differ by so little are equal
DRAWN = 2**22  # random numbers at a time
# values of v, and the number of clusters below which no draws could reject at 5 %, or which the
# authors of the weights have not studied
WEIGHTS = {
    "rademacher": (np.array([-1.0, 1.0]), 6),
    "webb": (np.sqrt([1.5, 1.0, 0.5, 0.5, 1.0, 1.5]) * [-1, -1, -1, 1, 1, 1], 5),
}


@dataclass(frozen=True)
class WildBootstrap:
    """The test of one hypothesis by the wild cluster bootstrap, with the hypothesis imposed.

    Attributes
    ----------
    hypothesis : str
    estimate : float
        Of the combination of parameters, less its value under the hypothesis.
    statistic : float
        t, with clustered errors.
    pvalue : float
        Of |t|.  If every combination of signs was used once, the share of those with at least this
        |t|; else (1 + such draws) / (1 + draws).
    draws : int
    weights : str
    clusters : int
    complete : bool
        Whether every combination of signs was used.
    statistics : array of shape (draws,)
        t of every draw.
    """

    hypothesis: str
    estimate: float
    statistic: float
    pvalue: float
    draws: int
    weights: str
    clusters: int
    complete: bool
    statistics: Array = field(repr=False)


def wild_bootstrap(
    results: Any, products: Products, choice: Choice, factor: float, hypothesis: Any, draws: int,
    weights: str, random_state: Any,
) -> WildBootstrap:  # fmt: skip
    """Test one hypothesis about the parameters of a fit.

    Parameters
    ----------
    results
        With a ``solution``, and with ``labels`` of its parameters.
    products, choice
        The sums of every cluster, and the columns of the fit in them.
    factor : float
        Of clustered covariances.
    """
    row, gap, text = _single(results, hypothesis)
    count = products.clusters.shape[1]
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 99:
        raise InputError(
            f"draws must be an integer of at least 99, not {draws!r}.", argument="draws"
        )
    if not isinstance(weights, str) or weights not in WEIGHTS:
        raise InputError(
            f"weights must be {' or '.join(map(repr, WEIGHTS))}, not {weights!r}.",
            argument="weights",
        )
    values, least = WEIGHTS[weights]
    if count < least:
        advice = " Use weights='webb'." if count >= WEIGHTS["webb"][1] else ""
        raise NotExactError(
            f"The bootstrap with weights={weights!r} needs at least {least} clusters, not {count}:"
            f" with fewer it has no valid test at 5 %.{advice}"
        )
    squares, scores = products.scores(choice, slice(None))
    turned = choice.turn.T @ (row @ results.solution.root)
    length = float(np.linalg.norm(turned))
    a, h = turned / length, gap / length
    restricted = scores + squares @ a * h
    own, across = restricted @ a, squares @ a
    if (across @ a > 1 - ALONE).any():
        raise NotExactError(
            f"The hypothesis {text!r} is about a combination of coefficients that one cluster"
            " alone determines, so there is nothing that the bootstrap could compare it with."
        )
    given = h / float(np.linalg.norm(scores @ a))
    complete = weights == "rademacher" and 2 ** (count - 1) <= draws
    draws = 2 ** (count - 1) if complete else int(draws)
    random, found = np.random.default_rng(random_state), np.empty(draws)
    step = max(1, DRAWN // count)
    for start in range(0, draws, step):
        some = np.arange(start, min(start + step, draws))
        if complete:  # the first cluster keeps its sign, since v and -v have the same size
            v = 1.0 - 2.0 * (some[:, None] >> np.arange(count - 1) & 1)
            v = np.column_stack([np.ones(len(some)), v])
        else:
            v = random.choice(values, (len(some), count))
        moved = v @ restricted
        errors = np.linalg.norm(v * own - moved @ across.T, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found[some] = moved @ a / errors
    if not np.isfinite(given) or np.isnan(found).any():
        raise NotExactError(
            f"The residuals of every cluster are zero up to rounding under {text!r}, so there"
            " is nothing to draw from."
        )
    larger = int((np.abs(found) >= (1 - TIE) * abs(given)).sum())
    pvalue = larger / draws if complete else (1 + larger) / (1 + draws)
    return WildBootstrap(
        text, gap, float(given / np.sqrt(factor)), pvalue, draws, weights, count, complete, found
    )


def _single(results: Any, hypothesis: Any) -> tuple[Array, float, str]:
    """The row of one hypothesis, by how much the estimate exceeds its value, and its text."""
    with hypothesis_errors(hypothesis, results.labels):
        rows, values = constraints_of(hypothesis, results.labels)
    if len(rows) != 1:
        raise InputError(
            f"The wild bootstrap tests one hypothesis, not {len(rows)}; test each separately.",
            argument="hypothesis",
        )
    (gap,) = results.solution.excess(rows, values)
    text = hypothesis if isinstance(hypothesis, str) else f"{rows[0].tolist()} b = {values[0]}"
    return rows[0], float(gap), text
