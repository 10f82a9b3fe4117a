"""One pass over the partitions of a Dask or Spark frame: a consumer for each, on its worker, and
all consumers merged.

    part    a worker scans a partition as it would a file (:mod:`karat.io.scan`), and packs its
            consumer into a message
    join    FAN messages become one, in the order of their partitions
    merged  the consumer of all rows, and what is known of these rows (:class:`Facts`)

Messages are all that travels.  Rows are numbered through the partitions in order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from karat.cluster.latent import StepHashes, steps_of
from karat.core.plan import FAN
from karat.data import containers
from karat.data.labels import as_text
from karat.errors import InputError
from karat.io.layout import Layout
from karat.io.row_hashes import (
    Columns,
    Hashes,
    RowHashes,
    Seen,
    joined_hashes,
    joined_seen,
    seen_rows,
)
from karat.io.scan import Consumer, scan
from karat.io.source import Chunk, ResumePoint, Source

WHOLE = 2**62  # rows between pauses of a scan: a partition has none
MIXED = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits that look random


def cluster_of(data: Any) -> Any:
    """The module of karat for rows in partitions: of Dask or Spark."""
    if containers.partition_library(data) == "pyspark":
        from karat import spark

        return spark
    from karat import dask

    return dask


def scan_partitions(
    data: Any,
    layout: Layout,
    make: Callable[[], Consumer],
    compared: Sequence[Columns] = (),
) -> tuple[Any, Facts]:
    """Read a Dask or Spark frame once: the merged consumers of its partitions, and facts about the
    rows.

    Parameters
    ----------
    data : data frame
    layout : Layout
    make : callable
        Makes an empty consumer, on a worker or here.
    compared : list of tuples of str
        Columns whose hashes are compared with those of other passes (:attr:`Facts.seen`).
    """
    work = PartitionPass(layout, make, compared=tuple(compared))
    return work.merged(cluster_of(data).messages(data, work))


@dataclass(frozen=True)
class Facts:
    """Facts about the rows of some partitions, whatever the consumer is.

    Attributes
    ----------
    rows : int
        Rows read.
    missing : int
        Rows with missing values, which were left out.
    content, steps : dict or None
        Hashes of the rows, and of the rows with their places in their sequences; None where they
        were not hashed, or where partitions have different columns.
    partitions : int
    sent : int
        Bytes of the messages.
    seen : dict
        By columns, what another pass over the same rows must agree with.
    """

    rows: int = 0
    missing: int = 0
    content: dict[str, Any] | None = None
    steps: dict[str, Any] | None = None
    partitions: int = 1
    sent: int = 0
    seen: dict[Columns, Seen] = field(default_factory=dict)

    @staticmethod
    def joined(several: Sequence[Facts], sent: int) -> Facts:
        """The facts of several messages of ``sent`` bytes in total."""
        rows, missing, partitions, before = (
            sum(getattr(facts, name) for facts in several)
            for name in ("rows", "missing", "partitions", "sent")
        )
        content, steps = (
            joined_hashes([getattr(facts, name) for facts in several])
            for name in ("content", "steps")
        )
        seen = {
            columns: joined_seen([facts.seen[columns] for facts in several])
            for columns in (several[0].seen if several else ())
        }
        return Facts(rows, missing, content, steps, partitions, before + sent, seen)

    def same_rows(self, other: Facts) -> bool:
        """Whether both are of the same rows, each at its place in its sequence, in any
        partitions.
        """
        mine, theirs = self.steps or self.content, other.steps or other.content
        return (
            mine is not None
            and theirs is not None
            and all(mine[name] == theirs[name] for name in ("rows", "sums"))
        )


@dataclass(frozen=True)
class PartitionPass:
    """A pass over partitions, as it is sent to the workers.

    Attributes
    ----------
    layout : Layout or None
        None where rows come as arrays, all of which are hashed.
    make
        See :func:`scan_partitions`.
    hashed : tuple of str
        Columns to hash the rows by; none, if they need not be hashed.
    ordered : bool
        Also hash each row with its place in its sequence.
    compared
        See :func:`scan_partitions`.
    """

    layout: Layout | None
    make: Callable[[], Consumer]
    hashed: tuple[str, ...] = ()
    ordered: bool = False
    compared: tuple[Columns, ...] = ()

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        """The message of one partition, given as Arrow tables or batches."""
        assert self.layout is not None
        consumer = self.make()
        consumer.begin(number)
        hashes = [Hashes(RowHashes(self.hashed, self.layout.gaps))] if self.hashed else []
        steps = [StepHashes(self.hashed, self.layout.roles.sequence)] if self.ordered else []
        compared = {names: Hashes(RowHashes(names, gaps=True)) for names in self.compared}
        consumers = [*hashes, *steps, *compared.values(), consumer]
        position = scan(Partition(number, tables), self.layout, consumers, WHOLE)
        seen = {names: seen_rows(each.rows) for names, each in compared.items()}
        content, places = (
            hashing[0].rows.to_dict() if hashing else None for hashing in (hashes, steps)
        )
        facts = Facts(position.rows, position.dropped, content, places, seen=seen)
        return pickle.dumps((facts, consumer.pack()))

    def part_of_arrays(self, number: int, arrays: dict[str, Any]) -> bytes:
        """The message of one partition, given as arrays by role; None for a role without array."""
        consumer = self.make()
        consumer.begin(number)
        arrays = {name: local(array) for name, array in arrays.items()}
        consumer.add_arrays(arrays)
        count = containers.row_count(next(iter(arrays.values())))
        steps = (
            array_hashes(arrays | {"step": steps_of(arrays["sequence"], count)})
            if self.ordered
            else None
        )
        return pickle.dumps((Facts(count, 0, array_hashes(arrays), steps), consumer.pack()))

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        consumer, facts = self.merged(messages)
        return pickle.dumps((facts, consumer.pack()))

    def merged(self, messages: Sequence[bytes]) -> tuple[Any, Facts]:
        """The consumer of the rows of several messages, and facts about these rows."""
        empty = self.make()
        received = [pickle.loads(message) for message in messages] or [
            (Facts(partitions=0), empty.pack())
        ]
        first, *others = (empty.unpack(packed) for _, packed in received)
        first.merge_all(others)
        return first, Facts.joined([facts for facts, _ in received], sum(map(len, messages)))


def tree(work: Any, messages: list[Any]) -> list[Any]:
    """Join messages of partitions until few are left; work and messages may be delayed."""
    while len(messages) > FAN:
        messages = [work.join(messages[i : i + FAN]) for i in range(0, len(messages), FAN)]
    return messages


def local(array: Any) -> Any:
    """A chunk as it is; a chunk of the library ``sparse`` as a SciPy matrix."""
    return array.to_scipy_sparse() if hasattr(array, "to_scipy_sparse") else array


def array_hashes(arrays: dict[str, Any]) -> dict[str, Any]:
    """The row hashes of some arrays, with numbered columns; a sparse array counts as one column."""
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
    """An integer per row of a CSR matrix, from the places and values of its nonzero entries."""
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


class Partition(Source):
    """The rows of one partition."""

    def __init__(self, number: int, tables: Iterable[Any]) -> None:
        self.tables, self.names = tables, [f"Partition {number}"]

    def read_schema(self) -> pa.Schema:
        raise NotImplementedError  # columns are checked before partitions are sent

    def chunks(
        self,
        columns: Sequence[str],
        numeric: Sequence[str] | None,
        rows: int,
        start: ResumePoint,
        strict: bool,
    ) -> Iterator[Chunk]:
        done = 0
        for table in self.tables:
            if table.num_rows:
                yield Chunk(self, table, 0, done, None)
            done += table.num_rows


# Column names must be unique but are otherwise free.  Dask has labels that are not text (0, 1, ...
# of a frame without names), and Spark gives dots, backticks and stars in a name a meaning.  So
# columns are selected by label or by position, and workers use the text of the labels as names.


def labels_as_text(value: Any, labels: Sequence[Any]) -> Any:
    """An argument that names columns, with labels of the data converted to text."""
    if isinstance(value, list | tuple) and value not in labels:
        return [labels_as_text(item, labels) for item in value]
    if isinstance(value, str) or value is None:
        return value
    try:
        is_label = value in labels
    except (TypeError, ValueError):  # it cannot be compared
        is_label = False
    return str(value) if is_label else value


def positions(wanted: Sequence[str], labels: Sequence[Any]) -> list[int]:
    """The positions of the named columns; an error if a name is ambiguous."""
    names = [str(label) for label in labels]
    for name in wanted:
        same = [labels[i] for i, other in enumerate(names) if other == name]
        if len(same) > 1:
            verb = "are called" if len(set(map(type, same))) == 1 else "would be called"
            raise InputError(
                f"{len(same)} columns of the data {verb} {name!r}; rename them, or leave them out"
                " by columns=."
            )
    return [names.index(name) for name in wanted]
