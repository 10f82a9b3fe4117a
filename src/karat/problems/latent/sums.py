"""The sums of pass one, from which the maps are made; sums of batches can be added.

Sums are named arrays, among them the number of samples n and their total weight; they are sent and
stored as they are. Most add up entry by entry.  The scatter about the mean does not, because
batches have means of their own:

    W = W1 + W2,    m = m1 + (W2 / W) d,    S = S1 + S2 + (W1 W2 / W) dd',    d = m2 - m1,

which, unlike a difference of raw moments, loses no digits when the columns have an offset (Chan,
Golub and LeVeque 1979). Likewise the scatter S_ab of two views about their means.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.kernel import NonFiniteError
from karat.problems.latent.sample import Sample

Sums = dict[str, Any]  # arrays; a CSR matrix where most entries are zero


def counted(sample: Sample, **parts: Any) -> Sums:
    """The sums of a sample, with its number and weight; an error if they overflow or the sample
    holds NaN.
    """
    for part in parts.values():
        values = part.data if sparse.issparse(part) else part
        if isinstance(values, np.ndarray | float) and not np.isfinite(values).all():
            raise NonFiniteError
    weights = sample.weights
    squares = float(len(sample)) if weights is None else float(weights @ weights)
    return {
        "n": np.array(float(len(sample))),
        "total": np.array(sample.total),
        "squares": np.array(squares),
    } | parts


def effective(sums: Sums) -> Any:
    """Kish's effective number of samples."""
    return np.array(float(sums["total"]) ** 2 / float(sums["squares"]))


SCATTERS = {"scatter": ("mean", "mean")} | {
    f"S{a}{b}": (f"centre{a}", f"centre{b}") for a, b in ((1, 2), (1, 3), (2, 3), (2, 2))
}
MEANS = {mean for pair in SCATTERS.values() for mean in pair}


def add(left_sums: Sums, right_sums: Sums) -> Sums:
    """The sums of both together."""
    both = {
        name: _plus(left_sums[name], right_sums[name])
        for name in left_sums
        if name in right_sums and name not in MEANS and name not in SCATTERS
    }
    share = right_sums["total"] / both["total"]
    apart = {name: right_sums[name] - left_sums[name] for name in left_sums if name in MEANS}
    both |= {name: left_sums[name] + share * difference for name, difference in apart.items()}
    for name in left_sums.keys() & SCATTERS.keys():
        left, right = SCATTERS[name]
        both[name] = (
            left_sums[name]
            + right_sums[name]
            + float(left_sums["total"] * share) * np.outer(apart[left], apart[right])
        )
    return both


def _plus(left: Any, right: Any) -> Any:
    """Add entry by entry; a symbol that one of the two has not seen counts as zero there."""
    if left.shape == right.shape:
        return left + right
    shape = tuple(np.maximum(left.shape, right.shape))
    return sum(_padded(a, shape) for a in (left, right))


def _padded(array: Any, shape: tuple[int, ...]) -> Any:
    if sparse.issparse(array):
        array = sparse.csr_array(array, copy=True)
        array.resize(shape)
        return array
    return np.pad(
        array, [(0, long - short) for short, long in zip(array.shape, shape, strict=True)]
    )
