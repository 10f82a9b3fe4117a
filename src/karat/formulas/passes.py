"""The data of a formula: rows that are read in several passes.

    consumer = rows.scan(layout, consumer)      # one pass; consumers of partitions are merged
    core     = rows.coreset(layout)             # one pass; a sketch per partition

``rows`` are in memory, in files or in DuckDB (:class:`SourceRows`), or in partitions of Dask and
Spark (:class:`ClusterRows`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from karat.cluster.partitions import cluster_of, scan_partitions
from karat.cluster.sketches import finish, last_pass
from karat.core.coreset import Coreset
from karat.core.provenance import with_provenance
from karat.core.synthetic import REAL, SYNTHETIC, RowChoice
from karat.data import containers
from karat.data.labels import as_objects
from karat.engine.rows import Progress
from karat.engine.stream import FOLD
from karat.errors import InputError, NotExactError
from karat.formulas.design import restored_design
from karat.formulas.formula import parse
from karat.formulas.layout import DesignLayout, FormulaLayout, formula_columns
from karat.io.checkpoint import ResumablePasses
from karat.io.columnar import ColumnarFiles
from karat.io.find import open_source
from karat.io.row_hashes import SamePasses
from karat.io.scan import Consumer, Position, Reduce, require_rows
from karat.io.source import Source
from karat.problems import LeastSquares
from karat.stream.sketch import Sketch


class SourceRows:
    """Rows of a source of :mod:`karat.io`, read in several passes.

    Attributes
    ----------
    declared : dict
        Levels of the columns of a categorical type, in order.
    all_doubles : bool
        Whether the source reads integers as doubles.
    rows_at_once : int
        Rows between pauses.
    robust : tuple of str
        Covariances for which no pass over rows is needed.
    """

    robust: tuple[str, ...] = ()

    def __init__(
        self, source: Source, declared: dict[str, list[Any]], progress: Progress | None,
        rows_at_once: int = FOLD,
    ) -> None:  # fmt: skip
        self.rows_at_once = rows_at_once
        self.source, self.declared, self.progress = source, declared, progress
        self.passes, self.all_doubles = 0, source.all_doubles
        self.same: SamePasses = SamePasses()
        self.known_rows: int | None = None

    def resumable(
        self, checkpoint: str | Path | None, call: dict[str, Any]
    ) -> AbstractContextManager[None]:
        """From here on, passes can be resumed from a checkpoint of the same call, if there is one;
        it belongs to this run in the context.
        """
        if checkpoint is None:
            return nullcontext()
        self.same = ResumablePasses(checkpoint, call, self.source)
        return self.same.locked()

    def remembered(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` returns; a run that is resumed does not call it again."""
        return self.same.remembered(name, make)

    def schema(self) -> pa.Schema:
        """The columns."""
        return self.source.schema()

    def row_count(self) -> int | None:
        """The number of rows, or about that, if it is known before they are read."""
        if self.known_rows is not None or self.source.once:
            return self.known_rows
        try:
            return self.source.row_count()[0]
        except InputError:
            return None

    def as_codes(self, columns: Sequence[str]) -> None:
        """Read these columns as codes and levels, if the source can."""
        if isinstance(self.source, ColumnarFiles):
            self.source.as_codes(columns)

    def scan(self, layout: FormulaLayout, consumer: Any) -> Any:
        """The consumer after all rows."""
        self._scan(layout, consumer)
        return consumer

    def _scan(self, layout: FormulaLayout, consumer: Consumer) -> Position:
        if self.passes and self.source.once:
            raise InputError(
                "A stream can be read only once, and this table takes several passes; write it to"
                " files, or pass a frame."
            )
        self.passes += 1
        position = self.same.scan(self.source, layout, [consumer], self.rows_at_once, self.progress)
        require_rows(self.source, layout, position)
        return position

    def coreset(self, layout: DesignLayout) -> Coreset:
        """The coreset of all rows."""
        try:
            core, position = self._reduced(layout, SYNTHETIC)
        except NotExactError:  # sums of these rows have too few digits; rows themselves have all
            if self.source.once:
                raise
            core, position = self._reduced(layout, REAL)
        source = self.source.described(self.source.identity(), position.counts)
        dropped = {"missing": position.dropped, "broken": position.bad}
        return with_provenance(core, layout.provenance(core.problem, 0, source, dropped, None))

    def _reduced(self, layout: DesignLayout, kind: Any) -> tuple[Coreset, Position]:
        sketch = Sketch(LeastSquares(), rows=kind, random_state=0, buffer_rows=FOLD)
        position = self._scan(layout, Reduce(sketch, layout))
        return sketch.coreset(), position

    def opened(self, table: pa.Table) -> Source:
        """A source of a table in memory."""
        return open_table(table)


class ClusterRows:
    """Rows of a Dask or Spark data frame, with the methods of :class:`SourceRows`.

    Parameters
    ----------
    data : data frame
    home : module
        :mod:`karat.dask` or :mod:`karat.spark`.
    """

    robust: tuple[str, ...] = ()

    def __init__(self, data: Any, home: Any) -> None:
        self.data, self.home = data, home
        self.declared: dict[str, list[Any]] = {}
        self.all_doubles, self.same = False, SamePasses()

    def resumable(
        self, checkpoint: str | Path | None, call: dict[str, Any]
    ) -> AbstractContextManager[None]:
        """Refuses a checkpoint."""
        if checkpoint is not None:
            raise InputError(
                "Only a run over files can be resumed, not one over partitions, which"
                f" {self.home.NAME} computes again by itself; omit checkpoint=.",
                argument="checkpoint",
            )
        return nullcontext()

    def remembered(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` returns."""
        return make()

    def schema(self) -> pa.Schema:
        return self.home.frame_schema(self.data)

    def row_count(self) -> int | None:
        """None: partitions would be computed."""
        return None

    def as_codes(self, columns: Sequence[str]) -> None:
        """Nothing: partitions are read as they come."""

    def scan(self, layout: FormulaLayout, consumer: Any) -> Any:
        """The merged consumers of the partitions."""
        make, hashed = partial(replace, consumer), self.same.hashed(layout)
        merged, facts = scan_partitions(self.data, layout, make, compared=hashed)
        self.same.compare(facts.seen)
        return merged

    def coreset(self, layout: DesignLayout) -> Coreset:
        work = last_pass(LeastSquares(), layout, 0, RowChoice(SYNTHETIC))
        work = replace(work, compared=tuple(self.same.hashed(layout)))
        return finish(
            work, self.home.messages(self.data, work), self.home.NAME,
            check=lambda facts: self.same.compare(facts.seen),
        )  # fmt: skip


def open_rows(data: Any, progress: Progress | None) -> SourceRows | ClusterRows:
    """Rows of anything that :func:`karat.inference.ols` takes."""
    if containers.partition_library(data) is not None:
        return ClusterRows(data, cluster_of(data))
    source, collected = open_table(data), containers.collected(data)
    rows = SourceRows(source, _declared(collected), progress)
    if containers.is_frame(collected) and hasattr(collected, "shape"):
        rows.known_rows = containers.row_count(collected)
    return rows


def rows_again(
    facts: dict[str, Any], data: Any, on_missing: str, clusters: Sequence[str],
    progress: Progress | None,
) -> tuple[SourceRows | ClusterRows, DesignLayout]:  # fmt: skip
    """The rows of a table whose design is known, and the layout that encodes them."""
    design, weight = restored_design(facts), facts["weights"]
    rows = open_rows(needed_columns(data, design.formula.text, (weight, *clusters)), progress)
    columns = formula_columns(design.formula, rows.schema(), weight, on_missing, clusters)
    columns = replace(columns, frequencies=bool(facts.get("frequencies")))
    rows.as_codes(columns.coded())
    return rows, columns.of_design(design)


def is_kept(data: Any) -> bool:
    """Whether these are rows that stand for others: a coreset, or a cube."""
    cubes = sys.modules.get("karat.cubes.base")  # a layer above; loaded if there is a cube
    return isinstance(data, Coreset) or (cubes is not None and isinstance(data, cubes.Cube))


def needed_columns(data: Any, text: str, others: Sequence[str | None]) -> Any:
    """The columns of a pandas frame that a formula and its options name."""
    if not hasattr(data, "iloc") or not hasattr(data, "columns"):
        return data
    free = [str(name) for name in data.columns if str(name) not in others]
    return only_columns(
        data,
        [
            *parse(text, free, several=True).variables,
            *(name for name in others if name is not None),
        ],
    )


def only_columns(data: Any, wanted: Sequence[str]) -> Any:
    """The wanted columns of a pandas frame, since the others may hold anything; other data as it
    is.
    """
    if (
        not hasattr(data, "iloc")
        or not hasattr(data, "columns")
        or not set(wanted) <= set(map(str, data.columns))
    ):
        return data  # a missing column is an error later, which lists all names
    frame = data.copy(deep=False)  # no numbers are copied
    for name in dict.fromkeys(name for name in data.columns if str(name) not in wanted):
        del frame[name]
    return frame


def open_table(data: Any) -> Source:
    """The source of rows that are not in partitions; a dictionary of single values is one row."""
    data = containers.collected(data)
    if containers.frame_library(data) in ("pandas", "polars") and containers.dimensions(data) == 1:
        raise InputError(
            f"The data is a {type(data).__name__}, a single column; pass a frame.", argument="data"
        )
    if isinstance(data, dict):
        columns = {str(name): _column(values) for name, values in data.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1 or any(values.ndim != 1 for values in columns.values()):
            sizes = ", ".join(f"{name} {values.shape[0]}" for name, values in columns.items())
            raise InputError(
                "The columns of the dictionary must be one-dimensional and have the same length:"
                f" {sizes}."
            )
        try:
            data = pa.table(columns)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                f"The dictionary has a column that cannot be read: {error}."
            ) from error
    # polars before 1.3 has no Arrow stream
    if containers.frame_library(data) == "polars" and not hasattr(data, "__arrow_c_stream__"):
        data = data.to_arrow()
    return open_source(data)


def _column(values: Any) -> np.ndarray:
    """A column of a dictionary; NumPy turns numbers into text if some values are text."""
    objects = np.atleast_1d(as_objects(values))
    return objects if all(isinstance(value, str) for value in objects) else np.atleast_1d(values)


def _declared(data: Any) -> dict[str, list[Any]]:
    """The levels of the categorical columns of a frame in memory, in their order."""
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        kinds = zip(data.columns, data.dtypes, strict=True)
        return {
            str(name): list(kind.categories) for name, kind in kinds if hasattr(kind, "categories")
        }
    if containers.frame_library(data) == "polars" and hasattr(data, "schema"):
        enums = {name: kind for name, kind in data.schema.items() if type(kind).__name__ == "Enum"}
        return {str(name): list(kind.categories) for name, kind in enums.items()}
    return {}
