"""A file format: JSON Lines, an object per line, scanned by pyarrow."""

ROW = "a file format"

NEW_FILES = {
    "io/json_lines.py": '''\
"""JSON Lines files: an object per line.

The first block of a file decides the types of its columns; a later value of another type is an
error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from karat.compat.pyarrow import RESERVED
from karat.errors import InputError
from karat.io.source import (
    Chunk,
    Expected,
    Files,
    ResumePoint,
    ahead,
    brief,
    check_unique_columns,
    with_folders,
)


class JsonLinesFiles(Files):
    """Files with a JSON object per line, scanned by pyarrow one after the other."""

    def read_schema(self) -> pa.Schema:
        return self._open(0)[1]

    def _open(self, file: int) -> tuple[Any, pa.Schema]:
        name = self.names[file]
        try:
            fragment = pads.JsonFileFormat().make_fragment(name, filesystem=self.filesystem)
            schema = fragment.physical_schema
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{name} cannot be read as JSON Lines ({brief(error)}).") from error
        check_unique_columns(name, schema.names)
        for reserved in RESERVED & set(schema.names):
            raise InputError(f"{name} has a column {reserved!r}, a name that pyarrow reserves.")
        for column, value in self.folders[file].items():
            if column not in schema.names:
                schema = schema.append(pa.field(column, pa.array([value]).type))
        return fragment, schema

    def chunks(
        self,
        columns: Sequence[str],
        numeric: Sequence[str] | None,
        rows: int,
        start: ResumePoint,
        strict: bool,
    ) -> Iterator[Chunk]:
        return ahead(self._chunks(columns, rows, start))

    def _chunks(self, columns: Sequence[str], rows: int, start: ResumePoint) -> Iterator[Chunk]:
        expected = Expected(self, columns)
        expected.check(self.names[0], self.schema())
        for file in range(start.file, len(self.files)):
            fragment, schema = self._open(file)
            expected.check(self.names[file], schema)
            stored = [name for name in columns if name in fragment.physical_schema.names]
            done, skipped = 0, start.row if file == start.file else 0
            try:
                for batch in fragment.to_batches(columns=stored, batch_size=rows):
                    done += batch.num_rows
                    if done > skipped and batch.num_rows:
                        table = with_folders(batch, self.folders[file], columns)
                        first = done - batch.num_rows
                        yield Chunk(self, table, file, first, ResumePoint(file, done))
            except (pa.ArrowException, OSError) as error:
                raise InputError(
                    f"{self.where(file, done)} or a later one cannot be read ({brief(error)})."
                ) from error

    def bytes_inside(self, point: ResumePoint) -> int:
        return 0  # bytes are counted by whole files
''',
}

CHANGES = [
    (
        "io/find.py",
        "from karat.io.source import Batches, File, Source, brief, check_unique_columns\n",
        "from karat.io.json_lines import JsonLinesFiles\n"
        "from karat.io.source import Batches, File, Source, brief, check_unique_columns\n",
    ),
    (
        "io/find.py",
        '    ".arrow": "arrow", ',
        '    ".jsonl": "json lines", ".ndjson": "json lines",\n    ".arrow": "arrow", ',
    ),
    (
        "io/find.py",
        '    if kind == "csv":\n',
        '    if kind == "json lines":\n'
        "        return JsonLinesFiles(filesystem, files, given)\n"
        '    if kind == "csv":\n',
    ),
]

SCRIPT = """
import json
from pathlib import Path

import numpy as np
import pytest
import karat

rng = np.random.default_rng(0)
n = 20_000
numbers, integers = rng.standard_normal((n, 2)), rng.integers(0, 2**40, n)
X = np.column_stack([numbers, integers, np.arange(n) >= n // 2])
y = X[:, 0] - X[:, 1] + X[:, 2] / 2**40 + rng.standard_normal(n)
names = ["a", "b", "c", "half"]
for half in (0, 1):  # the last column is in the names of the folders
    folder = Path(f"data/half={half}")
    folder.mkdir(parents=True)
    with open(folder / "rows.jsonl", "w") as file:
        for i in range(half * n // 2, (half + 1) * n // 2):
            row = {"a": X[i, 0], "b": X[i, 1], "c": int(X[i, 2]), "y": y[i]}
            file.write(json.dumps(row) + chr(10))
assert Path("data/half=0/rows.jsonl").stat().st_size > 2**19

core = karat.coreset_files("data", target="y", columns=names, problem=karat.problems.LeastSquares())
assert core.certificate.ok and len(core) <= 22, core
kept = np.asarray(core.X, dtype=float)
assert np.array_equal(kept, X[core.indices])
assert np.array_equal(np.asarray(core.y), y[core.indices])
for _ in range(20):
    query = rng.standard_normal(5) / [1, 1, 2**40, 1, 1]
    loss = np.square(y - X @ query[:4] - query[4]).sum()  # of all rows
    assert abs(core.loss(query) - loss) <= 1e-12 * loss
assert karat.verify_files(core, "data").ok

from karat.io.find import open_source
from karat.io.source import ResumePoint

source = open_source("data")
every = list(source.chunks(names, names, 3_000, ResumePoint(), True))
later = list(source.chunks(names, names, 3_000, every[1].end, True))
assert len(every) > 4 and every[-1].file == 1
for chunk in every:
    first = chunk.file * n // 2 + chunk.start
    rows = X[first : first + chunk.table.num_rows, 0]
    assert np.array_equal(chunk.table["a"], rows)
for one, other in zip(later, every[2:], strict=True):  # as if the run had not stopped
    assert (one.file, one.start, one.table) == (other.file, other.start, other.table)

Path("broken.jsonl").write_text('{"a": 1, "y": 2}' + chr(10) + '{"a": "one", "y": 2}' + chr(10))
with pytest.raises(karat.InputError, match="broken.jsonl"):
    karat.coreset_files("broken.jsonl", target="y")
"""
