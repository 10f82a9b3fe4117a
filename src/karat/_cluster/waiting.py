"""Rows that travel as they are: a group with no more rows than features is reduced once, at the end.

    partition    rows of small groups are set aside, the others are folded into a sketch
    join         rows of a group that has grown are folded into the merged sketch
    finish       all that are left are folded

A message has no more rows than with a reduction in every partition, and small groups are reduced once instead of in every
partition and at every join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from karat._data.batch import Batch, joined
from karat._storage.archive import flat, prefixed, unflat, without_prefix
from karat._stream.sketch import Sketch
from karat.engine.linalg import Flags

CARRIED = ("numbers", "weights", "groups", "keys")


def set_aside(sketch: Sketch, empty: Callable[[], Sketch]) -> tuple[Sketch, list[Batch]]:
    """A sketch of the rows of large groups, and the rows of small ones; ``empty`` makes a new sketch.

    A sketch that has folded rows already stays as it is.
    """
    summary = sketch.summary
    if summary.held is not None or not sketch.buffer.batches:
        return sketch, []
    batches = [replace(batch, offsets=None) for batch in sketch.buffer.batches]
    small, large = _divided(batches, summary.kernel.width, ())
    if not small:
        return sketch, []
    rest = empty()
    assert summary.like is not None
    rest.expect(summary.columns, summary.targets, summary.like, summary.names)
    for batch in large:
        rest.take(batch, owned=True)
    rest.summary.n_rows, rest.summary.seconds = summary.n_rows, summary.seconds
    return rest, small


def take_large(sketch: Sketch, waiting: Sequence[Batch]) -> list[Batch]:
    """Let a sketch take the rows of groups that have grown, or that it holds; the others are returned."""
    if not waiting:
        return []
    small, large = _divided(waiting, sketch.summary.kernel.width, list(sketch.summary.running))
    for batch in large:
        sketch.take(batch, owned=True)
    return small


def compact(waiting: Sequence[Batch]) -> list[Batch]:
    """The same rows in few batches: those of equal types become one."""
    if not waiting:
        return []
    ends = [i for i, (a, b) in enumerate(pairwise(waiting), start=1) if _types(a) != _types(b)]
    return [joined(waiting[a:b]) for a, b in pairwise([0, *ends, len(waiting)])]


def to_arrays(waiting: Sequence[Batch]) -> dict[str, Any]:
    """Batches as named arrays."""
    arrays: dict[str, Any] = {}
    for i, batch in enumerate(waiting):
        values = {name: getattr(batch, name) for name in CARRIED if getattr(batch, name) is not None}
        arrays |= prefixed(f"waiting{i}", flat(values | {f"part{j}": part for j, part in enumerate(batch.parts)}))
    return arrays


def from_arrays(arrays: dict[str, Any], count: int) -> list[Batch]:
    """The ``count`` batches of :func:`to_arrays`."""
    batches = []
    for i in range(count):
        values = unflat(without_prefix(f"waiting{i}", arrays))
        parts = [values[f"part{j}"] for j in range(sum(name.startswith("part") for name in values))]
        batches.append(Batch(parts, *(values.get(name) for name in CARRIED)))
    return batches


def _divided(waiting: Sequence[Batch], most: int, apart: Sequence[Any]) -> tuple[list[Batch], list[Batch]]:
    """The rows of groups with at most ``most`` rows and not ``apart``, and the others."""
    if waiting[0].groups is None:
        return (list(waiting), []) if sum(map(len, waiting)) <= most and not apart else ([], list(waiting))
    labels, inverse, counts = np.unique(
        np.concatenate([batch.groups for batch in waiting]), return_inverse=True, return_counts=True
    )
    few = (counts <= most) & ~np.isin(labels, np.array(apart, dtype=labels.dtype))
    chosen = few[inverse.ravel()]
    small, large, start = [], [], 0
    for batch in waiting:
        here: Flags = chosen[start : start + len(batch)]
        start += len(batch)
        if here.any():
            small.append(batch.take(here))
        if not here.all():
            large.append(batch.take(~here))
    return small, large


def _types(batch: Batch) -> list[Any]:
    carried = [None if value is None else value.dtype.kind for value in (batch.weights, batch.groups, batch.keys)]
    return [*((part.shape[1], part.dtype, sparse.issparse(part)) for part in batch.parts), *carried]
