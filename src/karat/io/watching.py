"""Watching data go by: the moments of a coreset's data read again, and whether the kept rows are still among them.

The moments are summed in coordinates of the kept rows, and nothing is held.  A stream, which comes once, and an absorbed
coreset, which is measured against rows, are left to an ordinary sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from karat._core.coreset import Coreset
from karat._data.batch import Piece, stack, stacked_rows
from karat._data.checks import Table
from karat._stream.fingerprint import Fingerprint
from karat._stream.sketch import Sketch, labels_of, weighed
from karat.engine.kernel import Kernel
from karat.engine.linalg import Array, Indices
from karat.engine.reduce import NonFiniteError
from karat.engine.rows import Rows
from karat.engine.stream import Running
from karat.errors import InputError


def own_coordinates(core: Coreset, own: Table, rest: Callable[[Any], Rows]) -> dict[Any, Kernel]:
    """Those of the kept rows, in which the moments of all rows are summed: if the coreset is exact, nothing fits better."""
    kernel = core.problem.kernel(own.columns, own.targets)
    return {label: Running.fit(kernel, *weighed(rest(label))) for label in own.labels}


class Watching(Sketch):
    """A sketch that also looks whether the rows of a coreset are among those it takes, under their numbers.

    With coordinates given, for each group, it holds no rows: it sums their moments and forgets them.
    """

    def __init__(
        self, core: Coreset, own: Table, key: str | None, coordinates: dict[Any, Kernel] | None, alone: np.ndarray
    ) -> None:
        super().__init__(core.problem, key)
        self.alone = alone  # numbers of rows that are kept as they are, and so left out of the moments on both sides
        self._watches_keys = False  # a key that comes twice is a change, not an error
        self.core, self.own, self.coordinates = core, own, coordinates
        self._offsets = own.offsets  # moments are compared about one origin
        self.moved = set(core.indices.tolist())
        self.strange: set[Any] = set()  # groups of the data that the coreset has not
        for label, fitted in (coordinates or {}).items():
            self._running[label] = Running.within(fitted, *weighed(own.rows(label))).emptied()

    def _expect(self, columns: int, targets: int, like: dict[str, Any], names: list[str]) -> None:
        if (columns, targets) != (self.own.columns, self.own.targets):
            raise InputError(
                f"The coreset has {self.own.columns} columns and {self.own.targets} targets, the data has {columns} and "
                f"{targets}."
            )
        super()._expect(columns, targets, like, names)

    def _fold(self) -> None:
        if self.coordinates is None:
            super()._fold()
        elif self._pending:
            waiting = self._buffer.gathered(self._pending)
            joint = stack(waiting)
            try:
                for label in labels_of(joint):
                    rows = stacked_rows(waiting, None if label is None else np.flatnonzero(joint.groups == label))
                    if label in self._running:
                        self._running[label] = self._running[label].plus(rows)
                    else:
                        self.strange.add(label)
            except NonFiniteError:
                raise self._non_finite(joint) from None
            self._folded()

    def _take(self, piece: Piece, *, owned: bool, seen: Fingerprint | None = None) -> None:
        wanted = np.arange(*np.searchsorted(self.core.indices, [piece.numbers[0], piece.numbers[-1] + 1]))
        place = np.searchsorted(piece.numbers, self.core.indices[wanted])
        there = piece.numbers[place] == self.core.indices[wanted]  # it may have been left out
        wanted, place = wanted[there], place[there]
        if len(wanted):
            found = replace(piece.take(place), offsets=self.own.offsets)
            mine = Rows(self.own.parts, offsets=self.own.offsets)
            same = (dense_rows(mine, wanted) == dense_rows(found.rows())).all(axis=1)
            for labels, theirs in ((self.core.groups, found.groups), (self.core.keys, found.keys)):
                if labels is not None and theirs is not None:
                    same &= labels[wanted] == theirs
            self.moved -= set(self.core.indices[wanted[same]].tolist())
        if len(self.alone):
            piece = piece.take(~np.isin(piece.numbers, self.alone))
        super()._take(piece, owned=owned, seen=seen)


def all_present(own: Table, pieces: Iterable[Piece]) -> bool:
    """Whether every kept row is somewhere among the rows of some pieces."""
    kept = dense_rows(own.rows())
    missing = {row.tobytes() for row in kept}
    for piece in pieces:
        rows = replace(piece, offsets=own.offsets).rows()
        near = np.flatnonzero(np.isin(_first(rows), kept[:, 0]))  # few rows share the first number of a kept one
        missing -= {row.tobytes() for row in dense_rows(rows, near)}
    return not missing


def _first(rows: Rows) -> Array:
    first = rows.parts[0][:, [0]]
    return dense(first)[:, 0].astype(float) + 0.0


def dense_rows(rows: Rows, positions: Indices | None = None) -> Array:
    """Rows ``D`` as numbers; -0 becomes 0."""
    where = np.arange(len(rows)) if positions is None else positions
    return np.ascontiguousarray(rows.take(where, np.zeros(rows.columns))[:, 1:] + 0.0)


def dense(block: Any) -> Array:
    """A block of rows without gaps."""
    return np.asarray(block.toarray() if sparse.issparse(block) else block)
