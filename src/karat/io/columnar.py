"""Parquet and Arrow files and pyarrow's datasets: columns are read as they are stored, without a
copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from karat.compat.pyarrow import RESERVED
from karat.errors import InputError
from karat.io.source import (
    Batches,
    Chunk,
    Expected,
    File,
    Files,
    ResumePoint,
    ahead,
    brief,
    check_unique_columns,
    with_folders,
)
from karat.storage.parquet import KEY

READAHEAD = 2  # batches decoded ahead of the one in work


class ColumnarFiles(Files):
    """Parquet or Arrow (Feather) files, scanned by pyarrow one after the other."""

    def __init__(
        self, filesystem: Any, files: Sequence[File], given: Sequence[str], kind: str
    ) -> None:
        super().__init__(filesystem, files, given)
        self.parquet = kind == "parquet"
        self.format = pads.ParquetFileFormat() if self.parquet else pads.IpcFileFormat()
        self.bounds: dict[int, np.ndarray] = {}  # first rows of the row groups of the files opened

    def as_codes(self, columns: Sequence[str]) -> None:
        """Read text columns as codes and a dictionary from now on, as Parquet stores them, which
        avoids a string per row.
        """
        if self.parquet:
            self.format = pads.ParquetFileFormat(dictionary_columns=set(columns))

    def read_schema(self) -> pa.Schema:
        return self._open(0)[1]

    def row_count(self) -> tuple[int, bool]:
        try:
            rows = pads.dataset(
                self.names, filesystem=self.filesystem, format=self.format
            ).count_rows()
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"The rows of {self.names[0]} and the files next to it cannot be counted ({error})."
            ) from error
        if not rows:
            raise InputError(f"{self.names[0]} has no rows.")
        return rows, True

    def _open(self, file: int) -> tuple[Any, pa.Schema]:
        opened = self.files[file]
        try:
            fragment = self.format.make_fragment(opened.path, filesystem=self.filesystem)
            schema = fragment.physical_schema
            if self.parquet:
                counts = [group.num_rows for group in fragment.row_groups]
                self.bounds[file] = np.cumsum([0, *counts])
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{opened.path} cannot be read as {'Parquet' if self.parquet else 'Arrow'}"
                f" ({brief(error)}); it may be cut off: write it again or leave it out."
            ) from error
        if self.parquet and KEY in (fragment.metadata.metadata or {}):
            raise InputError(
                f"{opened.path} holds weighted rows that karat wrote, not rows of data; open it"
                f" with karat.load({opened.path!r})."
            )
        check_unique_columns(opened.path, schema.names)
        for name, value in self.folders[file].items():
            if name not in schema.names:
                schema = schema.append(pa.field(name, pa.array([value]).type))
        return fragment, schema

    def chunks(
        self,
        columns: Sequence[str],
        numeric: Sequence[str] | None,
        rows: int,
        start: ResumePoint,
        strict: bool,
    ) -> Iterator[Chunk]:
        return ahead(self._chunks(columns, numeric, rows, start))

    def _chunks(
        self, columns: Sequence[str], numeric: Sequence[str] | None, rows: int, start: ResumePoint
    ) -> Iterator[Chunk]:
        expected = Expected(self, columns, numeric)
        if start.file:
            expected.check(self.names[0], self.schema())
        for file in range(start.file, len(self.files)):
            fragment, schema = self._open(file)
            expected.check(self.names[file], schema)
            yield from self._file(
                fragment, file, columns, rows, start if file == start.file else ResumePoint(file)
            )

    def _file(
        self, fragment: Any, file: int, columns: Sequence[str], rows: int, start: ResumePoint
    ) -> Iterator[Chunk]:
        # Columns are read as a stream: a row group of any size fits in memory.
        stream = pads.ParquetFragmentScanOptions(
            pre_buffer=False, use_buffered_stream=True, page_checksum_verification=True
        )
        options = {"fragment_scan_options": stream} if self.parquet else {}
        stored_columns = [c for c in columns if c in fragment.physical_schema.names]
        done = 0
        try:
            for groups, first in self._parts(file, rows, start):
                done = first
                if RESERVED & set(stored_columns):
                    batches = self._batches(file, groups, stored_columns, rows)
                else:
                    part = fragment.subset(row_group_ids=groups) if self.parquet else fragment
                    batches = part.to_batches(
                        columns=stored_columns,
                        batch_size=rows,
                        batch_readahead=READAHEAD,
                        **options,
                    )
                for batch in batches:
                    done += batch.num_rows
                    if done > start.row and batch.num_rows:
                        whole = with_folders(batch, self.folders[file], columns)
                        yield Chunk(
                            self, whole, file, done - batch.num_rows, ResumePoint(file, done)
                        )
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{self.where(file, done)} cannot be read ({brief(error)}); the file is damaged:"
                " write it again or leave it out."
            ) from error

    def _batches(self, file: int, groups: range, columns: list[str], rows: int) -> Iterator[Any]:
        """The batches of a part, read without the scanner, which reserves some column names."""
        with self.filesystem.open_input_file(self.names[file]) as stream:
            if self.parquet:
                yield from pq.ParquetFile(stream, page_checksum_verification=True).iter_batches(
                    rows, row_groups=groups, columns=columns
                )
            else:
                opened = pa.ipc.open_file(stream)
                for i in range(opened.num_record_batches):
                    yield opened.get_batch(i).select(columns)

    def _parts(self, file: int, rows: int, start: ResumePoint) -> Iterator[tuple[range, int]]:
        """The parts of a file, each a range of row groups and its first row.

        A part has about ``rows`` rows, because pyarrow reads a whole part ahead.
        """
        if not self.parquet:
            yield range(0), 0
            return
        bounds = self.bounds[file]
        group = int(np.searchsorted(bounds, start.row, side="right")) - 1
        while group < len(bounds) - 1:
            after = max(
                group + 1, int(np.searchsorted(bounds, bounds[group] + rows, side="right")) - 1
            )
            yield range(group, after), int(bounds[group])
            group = after

    def where(self, file: int, row: int) -> str:
        if not self.parquet:
            return super().where(file, row)
        group = int(np.searchsorted(self.bounds[file], row, side="right")) - 1
        return (
            f"{self.names[file]}, row group {min(group, len(self.bounds[file]) - 2)}, row {row:,}"
        )

    def bytes_inside(self, point: ResumePoint) -> int:
        if point.file not in self.bounds or not self.bounds[point.file][-1]:
            return 0
        return int(point.row / self.bounds[point.file][-1] * self.files[point.file].size)


class Scan(Batches):
    """A pyarrow Dataset or Scanner, with its own filter, partitioning, format and file system."""

    def __init__(self, scanned: Any) -> None:
        self.scanned, self.names = scanned, ["The dataset"]
        self.once = not isinstance(scanned, pads.Dataset)

    def read_schema(self) -> pa.Schema:
        schema = (
            self.scanned.schema
            if isinstance(self.scanned, pads.Dataset)
            else self.scanned.projected_schema
        )
        check_unique_columns(self.names[0], schema.names)
        return schema

    def row_count(self) -> tuple[int, bool]:
        return int(self.scanned.count_rows()), True

    def batches(self, columns: list[str], rows: int) -> Iterable[Any]:
        if self.whole and isinstance(self.scanned, pads.FileSystemDataset):
            of_file, expected = self.scanned.format.inspect, Expected(self, columns)
            for path in self.scanned.files:
                expected.refuse_more(path, of_file(path, self.scanned.filesystem))
        if isinstance(self.scanned, pads.Dataset):
            ahead = {"batch_readahead": READAHEAD, "fragment_readahead": 1}
            yield from self.scanned.to_batches(columns=columns, batch_size=rows, **ahead)
            return
        yield from (batch.select(columns) for batch in self.scanned.to_batches())
