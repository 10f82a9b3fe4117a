"""Numbers of Arrow columns as doubles, each the double that is nearest to what is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def decoded(column: Any) -> Any:
    """The values of a column that comes as codes and a dictionary; any other column as it is."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def decimals_as_doubles(column: Any) -> Any:
    """Decimals as an Arrow column of doubles; by way of their digits, because Arrow's own cast is off by an ulp."""
    return column.cast(pa.string()).cast(pa.float64())


def as_doubles(column: Any) -> np.ndarray:
    """A column of numbers, truth values or nothing; a missing value is NaN."""
    if pa.types.is_decimal(column.type):
        column = decimals_as_doubles(column)
    elif not pa.types.is_floating(column.type):
        column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        column = column.cast(pa.float64(), safe=False)
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)
