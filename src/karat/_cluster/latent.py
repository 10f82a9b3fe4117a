"""What every cluster does first for latent-variable problems: sums where the rows lie, added in a tree.

first pass     message = the sums of a partition               # a few matrices
lowered        where the last sums meet; sent to every worker
second pass    as for every other problem (:mod:`karat._cluster.task`)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from karat._cluster.arrays import local, place, views_batch
from karat._cluster.sequences import Sequences, StepHashes, joined_names
from karat._cluster.task import WHOLE, Partition, Task, views_hashes
from karat._storage.archive import flat, pack, prefixed, unflat, unpack, without_prefix
from karat.errors import InputError
from karat.io.consumers import Hashes, LatentSums
from karat.io.layout import Layout
from karat.io.row_hashes import RowHashes, joined_hashes
from karat.io.scan import scan
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

    @property
    def ordered(self) -> bool:
        """Whether the places of rows in their sequences count."""
        return isinstance(self.problem, HiddenMarkov)

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        """The sums of one partition, given as Arrow tables or batches."""
        assert self.layout is not None
        layout = replace(self.layout, roles=replace(self.layout.roles, key=None))
        first, sequences = LatentSums(self.problem, layout, self.widths), Sequences(number)
        columns = self.layout.columns
        hashes = StepHashes(columns, layout.roles.sequence) if self.ordered else Hashes(RowHashes(columns, layout.gaps))
        position = scan(Partition(number, tables), layout, [hashes, sequences, first], WHOLE)
        return self._first_message(first, sequences, {"missing": position.dropped, "content": hashes.rows.to_dict()})

    def part_of_views(self, number: int, views: Sequence[Any], weights: Any, sequence: Any) -> bytes:
        """The sums of one partition, given as arrays."""
        views = [local(view) for view in views]
        first, sequences = LatentSums(self.problem, None, self.widths), Sequences(number)
        batch = views_batch(number, self.problem, views, weights, sequence)
        if len(batch):
            sequences.add_batch(batch)
            first.add_batch(batch, len(batch), place(number))
        return self._first_message(
            first, sequences, {"missing": 0, "content": views_hashes(views, weights, sequence, self.ordered)}
        )

    def _first_message(self, first: LatentSums, sequences: Sequences, state: dict[str, Any]) -> bytes:
        names = sequences.checked() if self.ordered else np.zeros(0, dtype=str)
        return self._message(first, names, state | {"parts": 1, "travelled": 0})

    @staticmethod
    def _message(first: LatentSums, names: np.ndarray, state: dict[str, Any]) -> bytes:
        header = {name: getattr(first.samples, name) for name in SEEN}
        return pack(header | state, prefixed("sums", flat(first.sums or {})) | {"names": names})

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        return self._message(*self._added(messages))

    def _added(self, messages: Sequence[bytes]) -> tuple[LatentSums, np.ndarray, dict[str, Any]]:
        first = LatentSums(self.problem, None, self.widths)
        counts = dict.fromkeys((*SEEN, "missing", "parts"), 0)
        travelled, names, contents = sum(map(len, messages)), [], []
        for message in messages:
            header, arrays = unpack(message, "The message", "a sum")
            counts = {name: value + header[name] for name, value in counts.items()}
            travelled += header["travelled"]
            sums = unflat(without_prefix("sums", arrays))
            if sums:
                first.plus(sums)
            names.append(arrays["names"])
            contents.append(header["content"])
        for name in SEEN:
            setattr(first.samples, name, counts[name])
        content = joined_hashes(contents)
        if content is None:
            raise InputError("Some chunks are sparse and others are not, or their columns differ; give all of them one kind.")
        return first, joined_names(names), counts | {"travelled": travelled, "content": content}

    def second(self, messages: Sequence[bytes]) -> Task:
        """What a worker must know in the second pass: the problem lowered, above all."""
        first, _, state = self._added(messages)
        lowered = self.problem.lower(first.total(), self.widths)
        return Task(lowered, self.layout, self.seed, state["travelled"], state["rows"], first.notes, state["content"])
