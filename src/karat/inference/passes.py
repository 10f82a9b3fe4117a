"""Passes over data wherever it lies: in memory, in files, in DuckDB, or in the partitions of Dask and Spark.

consumer = rows.scan(layout, consumer)      # one pass; what the partitions found is merged
core     = rows.coreset(layout)             # one pass; a sketch per partition
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat._cluster.task import WHOLE, Partition, Task, cluster_of
from karat._core.construct import Progress
from karat._core.coreset import Coreset
from karat._core.plan import FOLD
from karat._data import containers
from karat._data.labels import as_objects
from karat._stream.sketch import Sketch
from karat.errors import InputError
from karat.inference.formula import parse
from karat.inference.layout import Columns, DesignLayout
from karat.io.build import described_source
from karat.io.columnar import ColumnarFiles
from karat.io.consumers import Consumer, Reduce
from karat.io.scan import require_rows, scan
from karat.io.source import Source, open_source
from karat.problems import LeastSquares


class DataRows(ABC):
    """Rows that can be read several times."""

    declared: dict[str, list[Any]]  # levels of columns that have a category type of their own, in order
    all_doubles = False  # whether whole numbers come as doubles

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns."""

    @abstractmethod
    def scan(self, layout: Columns, consumer: Any) -> Any:
        """The consumer, or the merged consumers, after all rows."""

    @abstractmethod
    def coreset(self, layout: DesignLayout) -> Coreset:
        """Of all rows."""

    def as_codes(self, columns: Sequence[str]) -> None:  # noqa: B027 - not every source can
        """Read these columns as codes and levels, where the source can: they are categories."""


class SourceRows(DataRows):
    """Rows of a source of :mod:`karat.io`."""

    def __init__(self, source: Source, declared: dict[str, list[Any]], progress: Progress | None) -> None:
        self.source, self.declared, self.progress = source, declared, progress
        self.passes, self.all_doubles = 0, source.all_doubles

    def schema(self) -> pa.Schema:
        return self.source.schema()

    def scan(self, layout: Columns, consumer: Any) -> Any:
        self._scan(layout, [consumer])
        return consumer

    def as_codes(self, columns: Sequence[str]) -> None:
        if isinstance(self.source, ColumnarFiles):
            self.source.as_codes(columns)

    def _scan(self, layout: Columns, consumers: Sequence[Consumer]) -> Any:
        if self.passes and self.source.once:
            raise InputError(
                "A stream comes only once, and this table takes several passes; write it to files, or pass a frame."
            )
        self.passes += 1
        position = scan(self.source, layout, consumers, FOLD, progress=self.progress)
        require_rows(self.source, layout, position)
        return position

    def coreset(self, layout: DesignLayout) -> Coreset:
        sketch = Sketch(LeastSquares(), random_state=0, buffer_rows=FOLD)
        position = self._scan(layout, [Reduce(sketch, layout)])
        core = sketch.coreset()
        source = described_source(self.source, self.source.identity(), position.counts)
        dropped = {"missing": position.dropped, "broken": position.bad}
        return replace(core, provenance=layout.provenance(core.problem, 0, source, dropped, None))


@dataclass(frozen=True)
class PassTask:
    """A pass over partitions: what a worker does, and how messages are joined."""

    layout: Columns
    consumer: Any  # empty; every partition has one like it

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        consumer = replace(self.consumer)
        scan(Partition(number, tables), self.layout, [consumer], WHOLE)
        return pickle.dumps(consumer)

    def join(self, messages: Sequence[bytes]) -> bytes:
        return pickle.dumps(self.finish(messages))

    def finish(self, messages: Sequence[bytes]) -> Any:
        first, *others = (pickle.loads(message) for message in messages)
        for other in others:
            first.merge(other)
        return first


class ClusterRows(DataRows):
    """Rows of a Dask or Spark data frame.

    Parameters
    ----------
    data : data frame
    home : module
        :mod:`karat.dask` or :mod:`karat.spark`.
    """

    def __init__(self, data: Any, home: Any) -> None:
        self.data, self.home, self.declared = data, home, {}

    def schema(self) -> pa.Schema:
        return self.home.frame_schema(self.data)

    def scan(self, layout: Columns, consumer: Any) -> Any:
        work = PassTask(layout, consumer)
        return work.finish(self.home.messages(self.data, layout, work))

    def coreset(self, layout: DesignLayout) -> Coreset:
        work = Task(LeastSquares(), layout, 0)
        return work.finish(self.home.messages(self.data, layout, work), f"partitions merged by {self.home.NAME}")


def open_rows(data: Any, progress: Progress | None) -> DataRows:
    """Rows of anything that :func:`karat.inference.ols` takes."""
    cluster = cluster_of(data)
    if cluster is not None:
        return ClusterRows(data, cluster)
    return SourceRows(open_table(data), _declared(containers.collected(data)), progress)


def needed_columns(data: Any, text: str, others: Sequence[str | None]) -> Any:
    """The columns of a pandas frame that a formula and its options name."""
    if not hasattr(data, "iloc") or not hasattr(data, "columns"):
        return data
    free = [str(name) for name in data.columns if str(name) not in others]
    return only_columns(data, [*parse(text, free).variables, *(name for name in others if name is not None)])


def only_columns(data: Any, wanted: Sequence[str]) -> Any:
    """Some columns of a pandas frame, by their names: the rest may hold anything.  Other data as it is."""
    if not hasattr(data, "iloc") or not hasattr(data, "columns") or not set(wanted) <= set(map(str, data.columns)):
        return data  # refused later, with all names at hand
    found = data.copy(deep=False)  # no numbers are copied
    for name in dict.fromkeys(name for name in data.columns if str(name) not in wanted):
        del found[name]
    return found


def open_table(data: Any) -> Source:
    """The source of rows that are not in partitions; single values of a dictionary are one row."""
    data = containers.collected(data)
    if containers.frame_library(data) in ("pandas", "polars") and containers.dimensions(data) == 1:
        raise InputError(f"The data is a {type(data).__name__}, a single column; pass a frame.", argument="data")
    if isinstance(data, dict):
        columns = {str(name): _column(values) for name, values in data.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1 or any(values.ndim != 1 for values in columns.values()):
            told = ", ".join(f"{name} {values.shape[0]}" for name, values in columns.items())
            raise InputError(f"The columns of the dictionary have different lengths, or are no columns: {told}.")
        try:
            data = pa.table(columns)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"The dictionary has a column that cannot be read: {error}.") from error
    if containers.frame_library(data) == "polars" and not hasattr(data, "__arrow_c_stream__"):  # polars before 1.3
        data = data.to_arrow()
    return open_source(data)


def _column(values: Any) -> np.ndarray:
    """A column of a dictionary: text as it is, and numbers beside text as text."""
    found = np.atleast_1d(as_objects(values))
    return found if all(isinstance(value, str) for value in found) else np.atleast_1d(values)


def _declared(data: Any) -> dict[str, list[Any]]:
    """The levels of the category columns of a frame in memory, in their order."""
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        kinds = zip(data.columns, data.dtypes, strict=True)
        return {str(name): list(kind.categories) for name, kind in kinds if hasattr(kind, "categories")}
    if containers.frame_library(data) == "polars" and hasattr(data, "schema"):
        enums = {name: kind for name, kind in data.schema.items() if type(kind).__name__ == "Enum"}
        return {str(name): list(kind.categories) for name, kind in enums.items()}
    return {}
