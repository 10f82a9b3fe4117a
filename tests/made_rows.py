"""The claim of synthetic rows, judged in rational arithmetic over all queries, and what every
coreset of them says of itself.

The claim is about squares of affine forms of all columns, targets among them
(``tests/torture/claim.py`` has the judge).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tests.torture.claim import Claim
from tests.torture.made import places


def table_of(part) -> np.ndarray:
    """Columns as an array."""
    part = part.toarray() if sparse.issparse(part) else np.asarray(part)
    return part.reshape(len(part), -1)


def worst_ratio(core, X, y=None, weights=None, groups=None) -> float:
    """The largest ratio of error to what the certificate allows; at most 1 if it is true."""
    X, Y = table_of(X), np.zeros((len(table_of(X)), 0)) if y is None else table_of(y)
    kept, own = core.arrays()
    own = np.zeros((len(kept), 0)) if own is None else own.reshape(len(kept), -1)
    u = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    labels = [None] if groups is None else np.unique(np.asarray(groups)[u > 0])
    found, claim = [0.0], core.certificate
    for label in labels:
        rows = np.flatnonzero(u > 0 if label is None else (np.asarray(groups) == label) & (u > 0))
        some = (
            np.arange(len(kept))
            if label is None
            else np.flatnonzero(np.asarray(core.groups) == label)
        )
        alone = core.verbatim[some]
        both = [
            np.column_stack([table.astype(float), target, w])
            for table, target, w in (
                (X[rows], Y[rows], u[rows]),
                (kept[some[alone]], own[some[alone]], core.weights[some[alone]]),
            )
        ]
        apart = places(*both)
        assert apart is not None, "a row that is called verbatim is no row of the data"
        judge = Claim(X[rows], Y[rows] if Y.size else None, u[rows], 2, affine=True)
        side = judge.kept(kept[some], own[some] if Y.size else None, core.weights[some])
        found.append(judge.worst(side, claim.loss_error, claim.rounding, alone, apart).ratio)
    return max(found)


def check(core, X, y=None, weights=None, groups=None) -> None:
    """The claim holds, and the coreset says of itself what it is."""
    certificate = core.certificate
    assert certificate.ok
    assert core.rows == certificate.rows == "synthetic"
    assert core.indices is None
    assert core.keys is None
    assert len(core) == certificate.size <= certificate.bound
    assert certificate.verbatim == (core.strata == 2).sum() == core.verbatim.sum()
    assert certificate.peeled == 0
    assert (core.weights > 0).all()
    total = len(table_of(X)) if weights is None else np.sum(weights)
    assert abs(core.weights.sum() / total - 1) < 1e-13
    assert worst_ratio(core, X, y, weights, groups) <= 1
