"""Latent-variable problems on rows that come in pieces, in two passes.

    first pass     sums += what the maps are made of                  # FirstPass: a few matrices
    maps           = problem.maps_of(sums)                            # KnownMaps: the problem is an ordinary one now
    second pass    sketch takes the rows, which become coordinates    # SecondPass: the usual fold

Both passes see the same samples.  A window of three steps may begin in one piece and end in the next, so the last two rows of a
piece wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from karat._core.coreset import Coreset
from karat._data.batch import Piece, stack
from karat._data.checks import Table, explain_non_finite
from karat._stream.sketch import Sketch
from karat.engine.linalg import Indices
from karat.engine.reduce import NonFiniteError
from karat.errors import InputError
from karat.problems.latent import KnownMaps, Latent, MultiView
from karat.problems.latent.base import Maps
from karat.problems.latent.known import tables_of
from karat.problems.latent.sample import Sample
from karat.problems.latent.sums import Sums, add

CARRIED = ("numbers", "weights", "groups", "keys")


class Samples:
    """Pieces of rows, one after the other, as samples.

    Parameters
    ----------
    problem : Latent
    widths : tuple of int or None
        Columns of each table, where there are several.

    Attributes
    ----------
    rows, inputs, dropped : int
        Rows seen; documents or sequences among them; those of these that were too short.
    """

    def __init__(self, problem: Latent, widths: tuple[int, ...] | None) -> None:
        self.problem, self.widths = problem, widths
        self.rows = self.inputs = self.dropped = 0
        self.open: Piece | None = None  # rows whose windows are not complete
        self.steps = np.zeros(0, dtype=np.int64)  # their places in the sequence

    def take(self, piece: Piece, count: int) -> tuple[Sample, Piece]:
        """The samples that a piece completes, and what is stored of them; ``count``: rows of the source that it stands for.

        The groups of a piece, if it has any, name sequences: a new one begins where they change.
        """
        self.rows += count
        steps, known = None, 0
        if self.problem.reach > 1 and len(piece):
            known = len(self.steps)
            piece = piece if self.open is None else stack([self.open, piece])
            steps = self._steps(piece)
            last = np.arange(max(0, len(piece) - self.problem.reach + 1), len(piece))
            self.open, self.steps = piece.take(last), steps[last]
        found = self.problem.sample(tables_of(piece.parts, self.widths), piece.weights, steps)
        counted = 0 if steps is None else int((steps[:known] == 0).sum())  # sequences begun by an earlier piece
        self.inputs += found.inputs - counted
        self.dropped += found.dropped - counted
        if found.origin is None:
            return found, replace(piece, groups=None)
        parts = [part[found.origin + a] for a in range(self.problem.reach) for part in piece.parts]
        return found, replace(piece.take(found.origin), parts=parts, groups=None)

    def _steps(self, piece: Piece) -> Indices:
        """The place of every row in its sequence."""
        place = np.arange(len(piece))
        begins = np.zeros(len(piece), dtype=bool)
        if piece.groups is not None:
            begins[1:] = piece.groups[1:] != piece.groups[:-1]
        before = int(self.steps[0]) if len(self.steps) else 0
        return np.asarray(place - np.maximum.accumulate(np.where(begins, place, -before)))

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Numbers and arrays from which :meth:`restore` goes on."""
        arrays: dict[str, Any] = {"steps": self.steps}
        if self.open is not None:
            arrays |= {name: getattr(self.open, name) for name in CARRIED}
            arrays |= {f"part_{i}": part for i, part in enumerate(self.open.parts)}
        return {"rows": self.rows, "inputs": self.inputs, "dropped": self.dropped}, arrays

    def restore(self, numbers: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.rows, self.inputs, self.dropped = numbers["rows"], numbers["inputs"], numbers["dropped"]
        self.steps = arrays["steps"]
        if "numbers" in arrays:
            parts = [arrays[f"part_{i}"] for i in range(sum(name.startswith("part_") for name in arrays))]
            self.open = Piece(parts, *(arrays.get(name) for name in CARRIED))


class FirstPass:
    """The sums of which the maps are made."""

    def __init__(self, problem: Latent, widths: tuple[int, ...] | None) -> None:
        self.problem = problem
        self.samples = Samples(problem, widths)
        self.sums: Sums | None = None

    def take(self, piece: Piece, count: int, names: list[str] | None) -> None:
        """Add the samples of a piece; ``names`` of its columns, for sentences."""
        found, _ = self.samples.take(piece, count)
        if not len(found):
            return
        try:
            self.plus(self.problem.sums(found, whole=False))
        except NonFiniteError:
            columns = sum(part.shape[1] for part in piece.parts)
            labels = [repr(name) for name in names or range(columns)]
            raise explain_non_finite(
                Table(piece.block(0, columns), None, None, None, labels, len(piece)), "its powers"
            ) from None

    def plus(self, sums: Sums) -> None:
        self.sums = sums if self.sums is None else add(self.sums, sums)

    def maps(self) -> Maps:
        """The maps of all rows."""
        if self.sums is None:
            raise InputError(self.problem.nothing(self.samples.inputs, self.samples.dropped))
        return self.problem.maps_of(self.sums)


class SecondPass:
    """A sketch of the samples, in the coordinates of the maps."""

    def __init__(self, known: KnownMaps, sketch: Sketch) -> None:
        self.known, self.sketch = known, sketch
        self.samples = Samples(known.problem, known.widths)

    def take(self, piece: Piece, count: int, names: list[str] | None) -> None:
        """Let the sketch take the samples of a piece, whose columns have ``names`` (None: they are plain arrays)."""
        _, stored = self.samples.take(piece, count)
        if len(stored):
            columns = sum(part.shape[1] for part in stored.parts)
            container = "sparse" if sparse.issparse(stored.parts[0]) else "array"
            if names is not None and self.known.problem.reach == 1 and container == "array":
                container = "pyarrow"
            like = {"container": container, "columns": names if container == "pyarrow" else None, "target": None, "flat": False}
            self.sketch._expect(columns, 0, like, [repr(name) for name in names or range(columns)])
            self.sketch._take(stored, owned=True)
        self.sketch.n_rows = self.samples.rows


def finished(core: Coreset, known: KnownMaps, rows: int, notes: tuple[str, ...]) -> Coreset:
    """The coreset of a sketch of known maps, as that of the latent problem; ``rows``: those of the first pass."""
    if core.n_rows != rows:
        raise InputError(
            f"The first pass read {rows:,} rows and the second {core.n_rows:,}; the source must be the same both times. Write "
            "it to files first."
        )
    problem, X = known.problem, core.X
    if isinstance(problem, MultiView):
        assert known.widths is not None
        edges = np.cumsum([0, *known.widths])
        X = tuple(_columns(X, int(a), int(b)) for a, b in pairwise(edges))
    proof = core.certificate
    certificate = replace(proof, passes=proof.passes + 1, notes=(*notes, *problem.map_notes(known.maps), *proof.notes))
    return replace(core, X=X, problem=problem, maps=None if problem.keep == "all" else known.maps, certificate=certificate)


def _columns(table: Any, left: int, right: int) -> Any:
    return table[:, left:right] if isinstance(table, np.ndarray) else table.select(list(range(left, right)))
