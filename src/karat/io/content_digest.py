"""A cryptographic digest (SHA-256) of the used columns, to prove that data is the same.

The row hashes (:mod:`karat.io.row_hashes`) detect accidental changes, but anybody can forge them.
This digest cannot be forged.  It costs a pass over all bytes and depends on the order of the rows.
Like the hashes, it is a digest of values, not of the bytes of files:

    digest <- SHA-256(names of the columns, sorted, as JSON)
    digest <- SHA-256(digest, block)                    for every BLOCK rows
    block  =  column by column:  "f" and doubles, little-endian (-0 is 0, and every NaN, and a
    missing number, is one NaN), or
                                 "t", the lengths of the texts (-1: missing), and their bytes in
                                 UTF-8

A block of integers that doubles cannot hold is written as text.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from karat.data.batch import Batch
from karat.data.containers import rounds
from karat.io.scan import Consumer
from karat.io.source import Chunk, decimals_as_doubles, decoded, sort_of
from karat.storage.archive import Stored

BLOCK = 4096
ALGORITHM = "sha256"
PENDING = "digest:rows"


class Digest(Consumer):
    """SHA-256 of all rows, including dropped ones; the state can be stored between any two
    batches.
    """

    background = True

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns, self.rows = sorted(columns), 0
        self.chain = hashlib.sha256(json.dumps(self.columns).encode()).digest()
        self.pending: pa.Table | None = None  # rows of the open block

    def add(self, chunk: Chunk, batch: Batch) -> None:
        table = chunk.table
        rows = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        rows = rows.select(self.columns)
        self.rows += rows.num_rows
        if self.pending is not None:
            rows = pa.concat_tables([self.pending, rows], promote_options="permissive")
        whole = rows.num_rows // BLOCK * BLOCK
        for start in range(0, whole, BLOCK):
            self.chain = self._chained(rows.slice(start, BLOCK))
        self.pending = rows.slice(whole)

    def _chained(self, block: pa.Table) -> bytes:
        digest = hashlib.sha256(self.chain)
        for name in self.columns:
            digest.update(_column_bytes(block.column(name)))
        return digest.digest()

    def to_dict(self) -> dict[str, Any]:
        """For the provenance: the digest of all rows so far."""
        digest = (
            self._chained(self.pending)
            if self.pending is not None and self.pending.num_rows
            else self.chain
        )
        return {
            "algorithm": ALGORITHM,
            "columns": self.columns,
            "rows": self.rows,
            "value": digest.hex(),
        }

    def state(self) -> Stored:
        arrays = {}
        if self.pending is not None:
            sink = io.BytesIO()
            with pa.ipc.new_stream(sink, self.pending.schema) as writer:
                writer.write_table(self.pending)
            arrays[PENDING] = np.frombuffer(sink.getvalue(), dtype=np.uint8)
        return {"digest": {"rows": self.rows, "chain": self.chain.hex()}}, arrays

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.rows, self.chain = header["digest"]["rows"], bytes.fromhex(header["digest"]["chain"])
        if PENDING in arrays:
            self.pending = pa.ipc.open_stream(pa.py_buffer(arrays[PENDING].tobytes())).read_all()


def as_doubles(column: Any) -> np.ndarray:
    """A column of numbers, booleans or nothing; a missing value is NaN."""
    if pa.types.is_decimal(column.type):
        column = decimals_as_doubles(column)
    elif not pa.types.is_floating(column.type):
        column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        column = column.cast(pa.float64(), safe=False)
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _column_bytes(column: pa.ChunkedArray) -> bytes:
    column = decoded(column)
    if pa.types.is_integer(column.type) and rounds(np.asarray(column.fill_null(0))):
        column = column.cast(pa.large_string())
    if sort_of(column.type) in ("number", "null"):
        doubles = as_doubles(column) + 0.0
        doubles[np.isnan(doubles)] = np.nan
        return b"f" + doubles.astype("<f8").tobytes()
    texts = [
        None if value is None else value if isinstance(value, bytes) else str(value).encode()
        for value in column.to_pylist()
    ]
    lengths = np.array([-1 if text is None else len(text) for text in texts], dtype="<i8")
    return b"t" + lengths.tobytes() + b"".join(text for text in texts if text is not None)
