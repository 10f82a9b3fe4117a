"""The sums of pass one, from which the maps are made; sums of batches can be added.

Sums are named arrays, among them the number of samples n and their total weight; they are sent and stored as they are.
Most add up entry by entry.  The scatter about the mean does not, because batches have means of their own:

    W = W1 + W2,    m = m1 + (W2 / W) d,    S = S1 + S2 + (W1 W2 / W) dd',    d = m2 - m1,

which, unlike a difference of raw moments, loses no digits when the columns have an offset (Chan, Golub and LeVeque 1979).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from karat.engine.reduce import NonFiniteError
from karat.problems.latent.sample import Sample

Sums = dict[str, Any]  # arrays; a CSR matrix where most entries are zero


def counted(sample: Sample, **parts: Any) -> Sums:
    """The sums of a sample, with its number and weight; an error if they overflow or the sample holds NaN."""
    for part in parts.values():
        values = part.data if sparse.issparse(part) else part
        if isinstance(values, np.ndarray | float) and not np.isfinite(values).all():
            raise NonFiniteError
    return {"n": np.array(float(len(sample))), "total": np.array(sample.total)} | parts


def add(one: Sums, two: Sums) -> Sums:
    """The sums of both together."""
    both = {name: _plus(one[name], two[name]) for name in one if name not in ("mean", "scatter")}
    if "scatter" in one:
        share = two["total"] / both["total"]
        apart = two["mean"] - one["mean"]
        both["mean"] = one["mean"] + share * apart
        both["scatter"] = one["scatter"] + two["scatter"] + float(one["total"] * share) * np.outer(apart, apart)
    return both


def _plus(one: Any, two: Any) -> Any:
    """Entry by entry; symbols that one of the two has not met count as zero there."""
    if sparse.issparse(one) or one.shape == two.shape:
        return one + two
    shape = tuple(np.maximum(one.shape, two.shape))
    return sum(np.pad(a, [(0, long - short) for short, long in zip(a.shape, shape, strict=True)]) for a in (one, two))
