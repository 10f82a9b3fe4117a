"""Spark: workers make sketches of their partitions from Arrow batches, in one job per pass; the
driver merges their messages.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from karat.data.arguments import check_mergeable
from karat.errors import MissingExtraError

try:
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql.types import BooleanType, DataType, NumericType
except ImportError:
    raise MissingExtraError("karat.spark", "spark") from None

from karat.cluster.partitions import PartitionPass, positions, tree
from karat.cluster.sketches import finish, last_pass, two_passes
from karat.core.coreset import Coreset
from karat.core.synthetic import RowChoice, RowKind, Verbatim, check_rows_argument
from karat.data.arguments import check_taken, column_problem, column_roles
from karat.errors import InputError, NotExactError, check_integer
from karat.io.layout import Layout
from karat.problems import Problem
from karat.problems.latent import Latent

NAME = "Spark"
SCHEMA = "part int, message binary, error binary"
ARROW = pa.schema([("part", pa.int32()), ("message", pa.binary()), ("error", pa.binary())])


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
    rows: RowKind = "real",
    verbatim: Verbatim = "keep",
    random_state: int = 0,
    sequence: str | None = None,
) -> Coreset:
    """The coreset of a Spark data frame; only O(m) rows per partition are sent.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    target : str or list of str, optional
    problem : Problem, optional
        As in :func:`karat.coreset`.  Latent-variable problems read the data twice, any other
        problem once.
    columns : list of str, optional
        The features; by default all columns that have no other role.  For MultiView, three lists.
    sample_weight, groups, key : str, optional
        Columns with weights, with group labels, and with keys that identify rows.  Without a key
        column the keys are ``partition:offset``, which identify rows as long as the plan of ``df``
        yields the same partitions again.
    on_missing : {"error", "drop"}
        What to do with rows that have missing values.
    rows, verbatim : str
        As in :func:`karat.coreset`: "real" or "synthetic" rows, and what to do about rows that
        would be kept as they are.
    random_state : int
    sequence : str, optional
        For HiddenMarkov, a column with the sequence of every row.  The rows of a sequence must be
        in one partition, one after the other:
        ``df.repartition("sequence").sortWithinPartitions("sequence", "time")``.

    Returns
    -------
    Coreset
    """
    _check_frame(df)
    check_integer("random_state", random_state, 0)
    problem = column_problem(problem, target)
    check_rows_argument(rows, problem, "auto", verbatim)
    if isinstance(problem, Latent):
        check_taken(problem, y=target, groups=groups)
    roles = column_roles(problem, target, columns, sample_weight, groups, key, sequence).among(
        df.columns
    )
    layout = Layout.of(problem, roles, None, on_missing)
    if isinstance(problem, Latent):
        return two_passes(partial(messages, df), problem, layout, roles.widths, random_state, NAME)
    work = last_pass(check_mergeable(problem), layout, random_state, RowChoice(rows, verbatim))
    return finish(work, messages(df, work), NAME)


def _check_frame(df: Any) -> None:
    if not hasattr(df, "mapInArrow"):
        remedy = (
            "make a Spark data frame of it by to_spark()"
            if hasattr(df, "to_spark")
            else "use karat.coreset"
        )
        raise InputError(f"df must be a Spark data frame, not {type(df).__name__}; {remedy}.")


def frame_schema(df: Any) -> pa.Schema:
    """The columns of a Spark data frame, as numbers or text."""
    _check_frame(df)
    return pa.schema(
        [
            (field.name, pa.float64() if _holds_numbers(field.dataType) else pa.string())
            for field in df.schema
        ]
    )


def _holds_numbers(kind: DataType) -> bool:
    return isinstance(kind, NumericType | BooleanType)


def messages(df: Any, work: PartitionPass) -> list[bytes]:
    """The messages of the partitions, computed by one job and joined on the driver until few are
    left.

    The number of partitions is known after the job: to ask for it before would compute the data
    twice.
    """
    assert work.layout is not None
    names, kinds = work.layout.columns, [field.dataType for field in df.schema]
    chosen = positions(names, df.columns)
    for name, i in zip(names, chosen, strict=True):
        if name in work.layout.numeric and not _holds_numbers(kinds[i]):
            raise InputError(
                f"Column {name!r} has type {kinds[i].simpleString()}, which is not numeric; encode"
                " it or choose columns=."
            )
    plain = df.toDF(*(f"c{i}" for i in range(len(kinds)))).select(*(f"c{i}" for i in chosen))
    rows = sorted(
        plain.mapInArrow(_worker(work, names), SCHEMA).collect(), key=lambda row: row["part"]
    )
    for row in rows:
        if row["error"] is not None:
            raise pickle.loads(row["error"])
    return tree(work, [bytes(row["message"]) for row in rows])


def _worker(
    work: PartitionPass, names: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that workers run; errors of karat are sent as values, because Spark passes only
    their text to the driver.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()
        renamed = (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)
        message = refusal = None
        try:
            message = work.part(number, renamed)
        except (InputError, NotExactError) as error:
            refusal = pickle.dumps(error)
        values = ([number], [message], [refusal])
        yield pa.RecordBatch.from_arrays(
            [pa.array(*pair) for pair in zip(values, ARROW.types, strict=True)], schema=ARROW
        )

    return run
