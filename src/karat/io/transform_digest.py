"""What a pipeline, or the function of a Kernel, does to the first rows: a checkpoint goes on only with the same.

Neither can be stored.  A run that went on with another one would sum two kinds of features.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.source import ResumePoint, Source
from karat.problems import Kernel, Problem

FIRST = 1024  # rows that are read
ROWS = 32  # of those that count, compared


def transform_digest(source: Source, layout: Layout, problem: Problem) -> str:
    """SHA-256 of the first rows after the pipeline and after the function of a Kernel."""
    chunks = source.chunks(layout.columns, layout.numeric, FIRST, ResumePoint(), strict=not layout.drop)
    for chunk in chunks:
        batch, _ = layout.batch(chunk.table.slice(0, FIRST), 0, chunk.where)
        if not len(batch):
            continue
        some = batch.take(np.arange(min(ROWS, len(batch))))
        width, targets = sum(part.shape[1] for part in some.parts), len(layout.roles.targets)
        found = [_doubles(some.block(0, width - targets))]
        found += [_doubles(some.block(width - targets, width))] if targets else []
        if isinstance(problem, Kernel):
            y = [found[1][:, 0] if targets == 1 else found[1]] if targets else []
            found = [problem.function(found[0], *y)]
        return hashlib.sha256(b"".join(_doubles(one).tobytes() for one in found)).hexdigest()
    raise InputError("The source has no row that counts, so there is nothing to resume; leave checkpoint out.")


def _doubles(table: Any) -> np.ndarray:
    return np.ascontiguousarray(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
