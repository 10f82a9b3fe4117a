"""Spark: partitions become sketches where they lie, by Arrow batches, in one job per pass; the driver merges their messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from karat.errors import MissingExtraError

try:
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.errors import PythonException
except ImportError:
    raise MissingExtraError("karat.spark", "spark") from None

from karat._cluster.latent import FirstTask
from karat._cluster.names import positions
from karat._cluster.task import Task, tree
from karat._core.coreset import Coreset
from karat._data.batch import check_taken
from karat._data.roles import column_roles
from karat.errors import InputError, NotExactError
from karat.io.build import checked_problem
from karat.io.layout import Layout
from karat.problems import Problem
from karat.problems.latent import Latent

NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean"}
NAME = "Spark"
SCHEMA = "part int, message binary"
ARROW = pa.schema([("part", pa.int32()), ("message", pa.binary())])


def coreset(
    df: Any,
    target: str | Sequence[str] | None = None,
    problem: Problem | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    key: str | None = None,
    on_missing: str = "error",
    random_state: int = 0,
    sequence: str | None = None,
) -> Coreset:
    """The coreset of a Spark data frame; only O(m) rows per partition travel.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    target : str or list of str, optional
    problem : Problem, optional
        As in :func:`karat.coreset`.  Latent-variable problems read the data twice, any other problem once.
    columns : list of str, optional
        The features; by default all columns that have no other role.  For MultiView, three lists.
    sample_weight, groups, key : str, optional
        Columns with weights, with group labels, and with keys that identify rows.  Without a key column the keys are
        ``partition:offset``, which point at rows as long as the plan of ``df`` gives the same partitions again.
    on_missing : {"error", "drop"}
        What to do with rows that lack a value.
    random_state : int
    sequence : str, optional
        For HiddenMarkov, a column that names the sequence of every row.  A sequence must lie in one partition, its rows one
        after the other: ``df.repartition("sequence").sortWithinPartitions("sequence", "time")``.

    Returns
    -------
    Coreset
    """
    if not hasattr(df, "mapInArrow"):
        raise InputError(f"df must be a Spark data frame, not {type(df).__name__}; use karat.coreset.")
    problem = checked_problem(problem, target)
    if isinstance(problem, Latent):
        check_taken(problem, y=target, groups=groups)
    roles = column_roles(problem, target, columns, sample_weight, groups, key, sequence).among(df.columns)
    layout = Layout.of(problem, roles, None, on_missing)
    if isinstance(problem, Latent):
        first = FirstTask(problem, layout, roles.widths, int(random_state))
        work = first.second(messages(df, layout, first))
    else:
        work = Task(problem, layout, random_state)
    return work.finish(messages(df, layout, work), "partitions merged by Spark")


def frame_schema(df: Any) -> pa.Schema:
    """The columns of a Spark data frame, as numbers or text."""
    kinds = ((name, kind.partition("(")[0]) for name, kind in df.dtypes)
    return pa.schema([(name, pa.float64() if kind in NUMBERS else pa.string()) for name, kind in kinds])


def messages(df: Any, layout: Layout, work: Any) -> list[bytes]:
    """What the partitions have to say, by one job (``work.part``); joined here until few are left (``work.join``).

    The number of partitions is known when the job has run: to ask for it before would compute the data another time.
    """
    chosen = positions(layout.columns, df.columns)
    kinds = [kind for _, kind in df.dtypes]
    for name, i in zip(layout.columns, chosen, strict=True):
        if name in layout.numeric and kinds[i].partition("(")[0] not in NUMBERS:
            raise InputError(f"Column {name!r} has type {kinds[i]}, which is not numeric; encode it or choose columns=.")
    plain = df.toDF(*(f"c{i}" for i in range(len(kinds)))).select(*(f"c{i}" for i in chosen))
    try:
        rows = plain.mapInArrow(_parts(work, layout.columns), SCHEMA).collect()
    except PythonException as error:  # what a worker has to say is one line of a long trace
        said = re.search(r"karat\.errors\.(InputError|NotExactError): (.*)", str(error))
        if said is None:
            raise
        raise {"InputError": InputError, "NotExactError": NotExactError}[said[1]](said[2]) from error
    return tree(work, [bytes(row["message"]) for row in sorted(rows, key=lambda row: row["part"])])


def _parts(work: Any, names: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()
        renamed = (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)
        message = work.part(number, renamed)
        yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), pa.array([message], pa.binary())], schema=ARROW)

    return run
