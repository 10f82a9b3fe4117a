"""Partitions that come as arrays: the same checks of their values as in memory, and hashes of their
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from karat.data import containers
from karat.data.batch import Batch, check_weights, read_input
from karat.data.labels import as_text, check_groups
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.io.row_hashes import RowHashes
from karat.problems import Problem

VIEW = "view"  # the names of the tables of latent-variable problems begin so
SHIFT = 40  # a partition and an offset in one number, while they travel
MIXED = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits that look random


def offsets(number: int, rows: np.ndarray) -> np.ndarray:
    """The keys of rows of a partition, by their numbers in it."""
    return (number << SHIFT) + rows


def place(number: int) -> Callable[[int], str]:
    """Rows of a partition, for error messages."""
    return lambda row: f"Partition {number}, row {row:,}"


def local(array: Any) -> Any:
    """A chunk as it is; a chunk of the library ``sparse`` as a SciPy matrix."""
    return array.to_scipy_sparse() if hasattr(array, "to_scipy_sparse") else array


def views_batch(number: int, problem: Problem, arrays: dict[str, Any]) -> Batch:
    """The checked rows of a partition of a latent-variable problem."""
    views = [array for name, array in arrays.items() if name.startswith(VIEW)]
    weights, sequence = arrays["weight"], arrays["sequence"]
    count = containers.row_count(views[0])
    if not count:
        return Batch([], np.zeros(0, dtype=np.int64))
    try:
        parts = [read_input(view, None, problem, None, None).parts[0] for view in views]
        others = [part.shape[0] for part in parts if part.shape[0] != count]
        if others:
            raise InputError(
                f"The views have {count} and {others[0]} rows; the numbers must be equal."
            )
        own = None if weights is None else _weights(weights, count)
        labels = None if sequence is None else check_groups(sequence, count)
    except InputError as error:
        raise InputError(
            f"Partition {number}: {str(error).replace('groups', 'sequence')}"
        ) from error
    for part in parts:
        _refuse_non_finite(part, place(number))
    return Batch(parts, np.arange(count), own, labels)


def _weights(weights: Any, count: int) -> Array | None:
    """Checked weights; those of a single partition may all be zero."""
    table = containers.as_table(weights, "sample_weight")
    return (
        np.zeros(count)
        if table.shape == (count, 1) and not table.any()
        else check_weights(weights, count)
    )


def _refuse_non_finite(part: Any, where: Callable[[int], str]) -> None:
    values = part.data if sparse.issparse(part) else part
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if sparse.issparse(part):
        entry = int(np.flatnonzero(~np.isfinite(values))[0])
        row, column = (
            int(np.searchsorted(part.indptr, entry, side="right")) - 1,
            int(part.indices[entry]),
        )
    else:
        row, column = map(int, np.argwhere(~np.isfinite(values))[0])
    raise InputError(f"{where(row)}: column {column} is not finite; drop or fix the row.")


def array_hashes(arrays: dict[str, Any]) -> dict[str, Any]:
    """The hashes of the rows of some arrays, whose columns are numbered; a sparse array counts as
    one column.
    """
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        if sparse.issparse(array):
            columns[name] = _sparse_words(sparse.csr_array(array))
        elif array is not None:
            values = np.asarray(array)
            values = values if values.dtype.kind in "biufU" else as_text(values)
            columns |= {
                f"{name}{i}": column for i, column in enumerate(values.reshape(len(values), -1).T)
            }
    hashes = RowHashes(list(columns))
    hashes.add(pa.table({name: np.ascontiguousarray(column) for name, column in columns.items()}))
    return hashes.to_dict()


def _sparse_words(table: Any) -> np.ndarray:
    """An integer per row of a CSR matrix, made of the places and values of its entries that are
    not zero.
    """
    table = table.copy()
    table.sum_duplicates()
    table.eliminate_zeros()
    entries = table.data.astype(np.float64).view(np.uint64) * MIXED + table.indices.astype(
        np.uint64
    )
    for _ in range(2):
        entries = (entries ^ (entries >> np.uint64(32))) * MIXED
    sums = np.concatenate([[np.uint64(0)], np.cumsum(entries, dtype=np.uint64)])
    return np.asarray(np.diff(sums[table.indptr])).view(np.int64)
