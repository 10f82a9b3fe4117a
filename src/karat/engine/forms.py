"""Matrices of one form: which of them bounds an error best.

A form of degree p = 2h is ``v'E v`` in the monomials v of degree h, but not of one matrix E alone:
the monomial ``a^2 b^2`` is the product of ``a^2`` and ``b^2`` as well as the square of ``a b``.
With

    v'N v = 0  for all queries:
    sum over (i, j) with v_i v_j = t  of  N_ij = 0  for every monomial t

(up to the multinomial factors of v), every E + N is the same form, and its norm relative to a lower
bound B = R'R of the loss bounds the error.  Norms of some are thousands of times those of others.
The one for which ``R'^-1 (E + N) R^-1`` is smallest in its squares is found by least squares.
Rounding of N is an error of the form, and is bounded with that of the sums.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from karat.engine import linalg
from karat.engine.kernel import monomials
from karat.engine.linalg import Array, Indices
from karat.engine.tolerances import EPS, TINY

MOST = 640  # pairs of monomials up to which the best matrix is sought


@lru_cache(maxsize=16)
def _pairs(variables: int, half: int) -> tuple[Indices, Indices, Indices]:
    """All pairs i <= j of monomials, and for each the position of the first pair with the same
    product.
    """
    table = monomials(variables, half)
    rows, columns = np.triu_indices(len(table))
    joint = np.sort(np.hstack([table.indices[rows], table.indices[columns]]), axis=1)
    _, first, product_of = np.unique(joint, axis=0, return_index=True, return_inverse=True)
    return rows, columns, first[product_of.reshape(-1)]


def sharper(form: Array, base: Array, variables: int, half: int) -> tuple[Array, float]:
    """Rewrite a form as a matrix that is small relative to ``base``; also returns a bound on the
    rounding.

    The bound is per roots of the diagonal of ``base``, as for the rounding of sums.
    """
    size = np.sqrt(np.maximum(np.diag(base), TINY))
    factor = (
        linalg.cholesky(np.asfortranarray(base / size / size[:, None]))
        if len(form) ** 2 <= 2 * MOST
        else None
    )
    if factor is None or not np.isfinite(form).all():
        return form, 0.0
    rows, columns, first = _pairs(variables, half)
    # v in units of the loss, up to a factor, so that its products neither overflow nor vanish
    root = np.sqrt(monomials(variables, half).multinomials) * (size / size.max(initial=TINY))
    back = linalg.upper_inverse(factor)
    each = (
        back[rows, :, None]
        * back[columns, None, :]
        / (2 * root[rows] * root[columns])[:, None, None]
    )
    each = (each + each.transpose(0, 2, 1)).reshape(len(rows), -1)
    free = np.flatnonzero(first != np.arange(len(rows)))
    moves = each[free] - each[first[free]]
    unit = np.maximum(linalg.column_norms(moves.T), TINY)
    target = back.T @ (form / size / size[:, None]) @ back
    if not (np.isfinite(moves).all() and np.isfinite(target).all()):
        return form, 0.0  # columns of too different sizes; LAPACK would not survive them
    solution = np.linalg.lstsq((moves / unit[:, None]).T, -target.reshape(-1), rcond=None)[0] / unit
    amount = np.zeros(len(rows))
    amount[free] = solution
    np.subtract.at(amount, first[free], solution)
    change = np.zeros_like(form)
    np.add.at(change, (rows, columns), amount / (2 * root[rows] * root[columns]))
    change = change + change.T
    lost = np.zeros(len(rows))  # the terms of sums that vanish
    np.add.at(lost, first, np.abs(amount))
    scaled = lost[first] / (root[rows] * root[columns])
    # An entry of N is rounded 10 times at most, and the sum of k <= len(rows) amounts of a product
    # k times, each by EPS / 2 of their absolute sum: (10 + k) EPS / 2 is less than this.
    rounding = 8 * len(rows) * scaled.max(initial=0.0) + 2 * float(
        np.abs(form / size / size[:, None]).max(initial=0.0)
    )
    rewritten = form + change * size * size[:, None]
    if not (np.isfinite(rewritten).all() and np.isfinite(rounding)):
        return form, 0.0
    return rewritten, float(EPS * rounding)


def sharper_norm(form: Array, base: Array, variables: int, half: int) -> float:
    """The norm of that matrix relative to ``base``, with its rounding:

    ``(d.|v|)^2 <= m sum_i d_i^2 v_i^2``.
    """
    matrix, lost = sharper(form, base, variables, half)
    return linalg.relative_norm(matrix, base) + linalg.relative_norm(
        lost * len(base) * np.diag(np.diag(base)), base
    )


def held(form: Array, base: Array, variables: int, half: int) -> bool:
    """Whether ``|v'E v| <= v'B v`` at every query, according to the rewritten form."""
    matrix, lost = sharper(form, base, variables, half)
    rest = base - lost * len(base) * np.diag(np.diag(base))
    return linalg.definite(rest - matrix) and linalg.definite(rest + matrix)
