"""What every cluster does first for latent-variable problems: sums where the rows lie, added in a tree.

first pass     message = the sums of a partition               # a few matrices
lowered        where the last sums meet; sent to every worker
second pass    as for every other problem (:mod:`karat._cluster.task`)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from karat._cluster.task import WHOLE, Partition, Task, array_batch, place
from karat._data.batch import Batch
from karat._storage.archive import flat, pack, unflat, unpack
from karat.errors import InputError
from karat.io.consumers import Consumer, LatentSums
from karat.io.layout import Layout
from karat.io.scan import scan
from karat.io.source import Chunk
from karat.problems.latent import HiddenMarkov, Latent

SEEN = ("rows", "inputs", "dropped")


@dataclass(frozen=True)
class FirstTask:
    """What a worker must know in the first pass.

    Attributes
    ----------
    problem : Latent
    layout : Layout or None
        How rows are read; None where they come as arrays.
    widths : tuple of int or None
        Columns of each view, where there are several.
    seed : int
    """

    problem: Latent
    layout: Layout | None
    widths: tuple[int, ...] | None
    seed: int

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        """The sums of one partition, given as Arrow tables or batches."""
        assert self.layout is not None
        layout = replace(self.layout, roles=replace(self.layout.roles, key=None))
        first, ends = LatentSums(self.problem, layout, self.widths), _Ends()
        position = scan(Partition(number, tables), layout, [ends, first], WHOLE)
        return self._message(first, position.dropped, ends.names, 1, 0)

    def part_of_arrays(self, number: int, views: Sequence[Any], weights: Any, sequence: Any) -> bytes:
        """The sums of one partition, given as arrays."""
        first, ends = LatentSums(self.problem, None, self.widths), _Ends()
        batch = array_batch(number, views, weights, sequence)
        if len(batch):
            ends.see_batch(batch)
            first.add_batch(batch, len(batch), place(number))
        return self._message(first, 0, ends.names, 1, 0)

    @staticmethod
    def _message(first: LatentSums, missing: int, ends: list[str] | None, parts: int, travelled: int) -> bytes:
        header = {name: getattr(first.samples, name) for name in SEEN}
        header |= {"missing": missing, "ends": ends, "parts": parts, "travelled": travelled}
        return pack(header, flat(first.sums or {}))

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        first, header = self._added(messages)
        return self._message(first, header["missing"], header["ends"], header["parts"], header["travelled"])

    def _added(self, messages: Sequence[bytes]) -> tuple[LatentSums, dict[str, Any]]:
        first, ends = LatentSums(self.problem, None, self.widths), _Ends()
        counts = dict.fromkeys((*SEEN, "missing", "parts"), 0)
        travelled = sum(map(len, messages))
        for message in messages:
            header, arrays = unpack(message, "The message", "a sum")
            counts = {name: value + header[name] for name, value in counts.items()}
            travelled += header["travelled"]
            if arrays:
                first.plus(unflat(arrays))
            if header["ends"] is not None:
                if isinstance(self.problem, HiddenMarkov):
                    ends.refuse_split(header["ends"][0])
                ends.see(*header["ends"])
        for name in SEEN:
            setattr(first.samples, name, counts[name])
        return first, counts | {"travelled": travelled, "ends": ends.names}

    def second(self, messages: Sequence[bytes]) -> Task:
        """What a worker must know in the second pass: the problem lowered, above all."""
        first, header = self._added(messages)
        lowered = self.problem.lower(first.total(), self.widths)
        return Task(lowered, self.layout, self.seed, header["travelled"], header["rows"], first.notes)


class _Ends(Consumer):
    """The first and the last sequence of consecutive partitions."""

    def __init__(self) -> None:
        self.names: list[str] | None = None

    def add(self, chunk: Chunk, batch: Batch) -> None:
        if len(batch):
            self.see_batch(batch)

    def see_batch(self, batch: Batch) -> None:
        self.see(*("", "") if batch.groups is None else (batch.groups[0], batch.groups[-1]))

    def see(self, first: Any, last: Any) -> None:
        self.names = [str(first) if self.names is None else self.names[0], str(last)]

    def refuse_split(self, coming: str) -> None:
        if self.names is None or self.names[1] != coming:
            return
        if not coming:
            raise InputError(
                "Without sequence= all rows are one sequence, and here they lie in several partitions; name the column that "
                "tells sequences apart, or put all rows into one partition."
            )
        raise InputError(
            f"Sequence {coming!r} ends one partition and begins the next, so windows of three steps would be lost; partition "
            "the rows such that each sequence lies in one partition."
        )
