"""Rows of a panel: the columns of the design, with the labels of effects and clusters as codes of
the chunk they come in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from karat.data.labels import as_keys, missing_values
from karat.errors import InputError
from karat.formulas.layout import DesignLayout
from karat.io.layout import require_values
from karat.io.written_labels import without_bytes
from karat.panels.levels import Coded

TIMES = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_date64)


@dataclass(frozen=True)
class PanelLayout(DesignLayout):
    """How the rows of a panel are read; ``clusters`` are the columns of effects, then those of
    clusters.
    """

    def labels(self, table: Any, name: str, where: Callable[[int], str]) -> Any:
        """Numbers as they are; of other labels the distinct ones, and each row's place there, so
        that no text is made per row.  Times are objects, which are equal whatever their unit or
        zone is.
        """
        column = table.column(name)
        require_values(column, name, where)
        if pa.types.is_integer(column.type):
            return column.to_numpy(zero_copy_only=False)
        coded = _dictionary(column)
        distinct = without_bytes(pa.chunked_array([coded.dictionary]), name, where)
        times = any(is_of(distinct.type) for is_of in TIMES)
        values = _objects(distinct) if times else distinct.to_numpy(zero_copy_only=False)
        gaps = missing_values(values)
        if gaps.any():
            row = int(np.flatnonzero(gaps[np.asarray(coded.indices)])[0])
            raise InputError(
                f"{where(row)}: column {name!r} has no value; every row needs one.", column=name
            )
        return Coded(values if times else as_keys(values), np.asarray(coded.indices))


def _objects(column: Any) -> np.ndarray:
    """The values of an Arrow column as Python objects."""
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_pylist()
    return values


def _dictionary(column: Any) -> Any:
    """A column as codes and one dictionary."""
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if pa.types.is_floating(chunked.type):
        values = chunked.to_numpy(zero_copy_only=False)
        return pa.array(values + values.dtype.type(0)).dictionary_encode()  # -0.0 and 0.0 are one
    if not pa.types.is_dictionary(chunked.type):
        chunked = chunked.dictionary_encode()
    whole = chunked.unify_dictionaries().combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
