"""What every cluster does for latent-variable problems: sums where the rows lie, then sketches where they lie.

first pass     message = the sums of a partition, added in a tree      # a few matrices
maps           made where the last sums meet, and sent to every worker
second pass    as for every other problem (_cluster.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from karat._cluster.task import Task, keyed, offsets, place
from karat._core.coreset import Coreset
from karat._storage.archive import flat, pack, unflat, unpack
from karat._data.batch import Piece
from karat._stream import state as sketch_state
from karat._stream.latent import FirstPass, SecondPass, finished
from karat.errors import InputError
from karat.io.latent_roles import LatentRoles, take
from karat.problems.latent import HiddenMarkov, KnownMaps, Latent


@dataclass(frozen=True)
class FirstTask:
    """What a worker must know in the first pass.

    Attributes
    ----------
    problem : Latent
    roles : LatentRoles or None
        Of the columns; None where rows come as arrays.
    widths : tuple of int or None
        Columns of each view, where there are several.
    seed : int
    """

    problem: Latent
    roles: LatentRoles | None
    widths: tuple[int, ...] | None
    seed: int

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        """The sums of one partition, given as Arrow tables or batches."""
        assert self.roles is not None
        roles = replace(self.roles, layout=replace(self.roles.layout, key=None))
        first, ends, missing = FirstPass(self.problem, self.widths), _Ends(), 0
        for table in tables:
            if roles.layout.group is not None and table.num_rows:
                ends.see(table.column(roles.layout.group)[0].as_py(), table.column(roles.layout.group)[-1].as_py())
            elif table.num_rows:
                ends.see("", "")
            missing += roles.feed(first, table, place(number, first.samples.rows))
        return self._message(first, missing, ends.names, 1, 0)

    def part_of_arrays(self, number: int, views: Sequence[Any], weights: Any, sequence: Any) -> bytes:
        """The sums of one partition, given as arrays."""
        first, ends = FirstPass(self.problem, self.widths), _Ends()
        piece = piece_of(number, views, weights, sequence)
        if len(piece):
            ends.see(*("", "") if piece.groups is None else (piece.groups[0], piece.groups[-1]))
            take(first, piece, len(piece), None, place(number, 0))
        return self._message(first, 0, ends.names, 1, 0)

    @staticmethod
    def _message(first: FirstPass, missing: int, ends: list[str] | None, parts: int, travelled: int) -> bytes:
        seen = first.samples
        header = {"rows": seen.rows, "inputs": seen.inputs, "dropped": seen.dropped, "missing": missing, "ends": ends}
        return pack(header | {"parts": parts, "travelled": travelled}, flat(first.sums or {}))

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        first, header = self._added(messages)
        return self._message(first, header["missing"], header["ends"], header["parts"], header["travelled"])

    def _added(self, messages: Sequence[bytes]) -> tuple[FirstPass, dict[str, Any]]:
        first, ends = FirstPass(self.problem, self.widths), _Ends()
        counts = dict.fromkeys(("rows", "inputs", "dropped", "missing", "parts"), 0)
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
        first.samples.rows, first.samples.inputs, first.samples.dropped = (counts[n] for n in ("rows", "inputs", "dropped"))
        return first, counts | {"travelled": travelled, "ends": ends.names}

    def second(self, messages: Sequence[bytes]) -> SecondTask:
        """What a worker must know in the second pass: the maps, above all."""
        first, header = self._added(messages)
        known = KnownMaps(self.problem, first.maps(), self.widths)
        notes = self.problem.notes(header["inputs"], header["dropped"])
        layout = None if self.roles is None else self.roles.layout
        return SecondTask(known, layout, self.seed, header["travelled"], self.roles, header["rows"], notes)


class _Ends:
    """The first and the last sequence of consecutive partitions."""

    def __init__(self) -> None:
        self.names: list[str] | None = None

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


@dataclass(frozen=True)
class SecondTask(Task):
    """What a worker must know in the second pass.

    Attributes
    ----------
    roles : LatentRoles or None
    rows : int
        Rows seen in the first pass.
    notes : tuple of str
        For the certificate.
    """

    roles: LatentRoles | None = None
    rows: int = 0
    notes: tuple[str, ...] = ()

    @property
    def known(self) -> KnownMaps:
        assert isinstance(self.problem, KnownMaps)
        return self.problem

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        assert self.roles is not None
        second, dropped = SecondPass(self.known, self.sketch()), 0
        for layout, table, where in keyed(self.roles.layout, number, tables):
            dropped += replace(self.roles, layout=layout).feed(second, table, where)
        return sketch_state.dump(second.sketch, {"dropped": dropped, "travelled": 0, "parts": 1})

    def part_of_views(self, number: int, views: Sequence[Any], weights: Any, sequence: Any) -> bytes:
        """The message of one partition, given as arrays."""
        second = SecondPass(self.known, self.sketch())
        piece = piece_of(number, views, weights, sequence)
        if len(piece):
            take(second, piece, len(piece), None, place(number, 0))
        return sketch_state.dump(second.sketch, {"dropped": 0, "travelled": 0, "parts": 1})

    def finish(self, messages: Sequence[bytes], way: str) -> Coreset:
        return finished(super().finish(messages, way), self.known, self.rows, self.notes)


def piece_of(number: int, views: Sequence[Any], weights: Any, sequence: Any) -> Piece:
    """The rows of a partition that comes as arrays."""
    parts = [np.asarray(view) if np.ndim(view) == 2 else np.asarray(view)[:, None] for view in views]
    count = len(parts[0])
    for part in parts:
        bad = np.argwhere(~np.isfinite(part)) if part.dtype.kind == "f" else np.zeros((0, 2), dtype=int)
        if len(bad):
            raise InputError(f"{place(number, 0)(bad[0, 0])}: column {bad[0, 1]} is not finite; drop or mend the row.")
    own = None if weights is None else np.asarray(weights, dtype=float)
    if own is not None and not (own >= 0).all():
        raise InputError(f"{place(number, 0)(int(np.argmin(own >= 0)))}: the weight is not a number of at least 0.")
    labels = None if sequence is None else np.asarray(sequence)
    return Piece(parts, np.arange(count), own, labels, offsets(number, 0, count))
