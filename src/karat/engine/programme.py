"""The smallest changes of weights that explain a difference of moments: a linear programme
(:mod:`karat.engine.proof`).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array
from karat.engine.sums import exact_sum

PROGRAMME = 2**16  # features of rows in a linear programme


def smallest_changes(
    rho: Array, size: Array, features: Array, weights: Array, limit: float
) -> tuple[float, float]:
    """The smallest max |c| that leaves no more than the limit, by a linear programme; and what it
    leaves.

    Among all rows that is the supremum itself.
    """
    from scipy.optimize import linprog  # 0.1 s that hardly any verification needs

    some = slice(0, PROGRAMME // max(1, len(rho)))
    scaled, weights = (features / size)[some], weights[some]
    count, unit = len(weights), float(np.abs(rho).max())
    if not count:
        return np.inf, np.inf
    terms, one = sparse.csr_array((scaled * weights[:, None]).T), sparse.eye_array(count)
    bound, none = np.ones((count, 1)), np.zeros((len(rho), 1))
    found = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=sparse.block_array(
            [[terms, none], [-terms, none], [one, -bound], [-one, -bound]], format="csr"
        ),
        b_ub=np.concatenate([rho + 0.9 * limit, 0.9 * limit - rho, np.zeros(2 * count)]) / unit,
        bounds=[(None, None)] * count + [(0, None)],
        options={"time_limit": 10.0},
    )
    if found.x is None:
        return np.inf, np.inf
    c = found.x[:count] * unit
    return float(np.abs(c).max(initial=0.0)), float(
        np.abs(rho - exact_sum(scaled, weights * c)).max()
    )
