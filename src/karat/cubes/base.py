"""Cube: an exact coreset for every cell, which add up to any slice, window or refit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from karat.core.certify import Certificate
from karat.core.coreset import Coreset
from karat.core.export import distinct
from karat.core.wording import notebook_box
from karat.cubes.build import stamped
from karat.cubes.cells import MADE, CellLayout, Cells
from karat.cubes.changes import (
    Change,
    History,
    unlabelled,
    with_cells,
    with_rows,
    without_cells,
)
from karat.cubes.compare import Comparison, compare_slices
from karat.cubes.file import (
    cube_path,
    identity,
    locked,
    output_path,
    pack_cube,
    unpack_cube,
    write_cube,
)
from karat.cubes.fits import Fits, cells_coreset, check_estimator, fit_cells
from karat.cubes.hash_file import check_place
from karat.cubes.merge import merge_cells
from karat.cubes.reduce import Reducer
from karat.cubes.rolling import Rolling, Window
from karat.cubes.select import check_name, label_names, matching, merge_selections
from karat.cubes.verify import CubeVerification, verify_cube
from karat.data.containers import native_frame
from karat.engine.linalg import Indices
from karat.engine.rows import Progress
from karat.errors import InputError, StorageError, check_memory, several
from karat.io.build import MEMORY
from karat.problems import Problem
from karat.storage.archive import read_bytes

Selection = Mapping[str, Any]


class Cube:
    """One exact coreset per cell: any slice, window or refit is a union of a few rows.

    Made by :func:`karat.cube`, or read by :meth:`load`.  A cube that has a ``path`` writes every
    change to its file, in one step, before the object changes.  A process that is killed leaves the
    old file or the new one.

    Attributes
    ----------
    problem : Problem
        The problem for which every cell is exact.
    by : tuple of str
        The columns that label cells.
    columns, targets : tuple of str
        The features and the targets.
    rows : str
        "synthetic" or "real".
    cov : str or None
        "HC1" if tables of its slices have HC0 and HC1.
    path : Path or None
        The file.
    history : tuple of dict
        Every change, with its kind, time, source and number of rows.
    """

    def __init__(
        self, cells: Cells, problem: Problem, layout: CellLayout, history: Sequence[dict[str, Any]],
        hashes: str = "inside", path: Path | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self.cells, self.problem, self.layout, self.seed = cells, problem, layout, seed
        self.history, self.path, self._hashes = tuple(history), path, hashes
        self.by, self.columns, self.targets = layout.by, layout.roles.features, layout.roles.targets
        self._identity = None if path is None else identity(path)
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        cells = f"{several(len(self), 'cell')} by {', '.join(self.by)}"
        return f"Cube({cells}, {self.describe()}, {self.problem.describe()})"

    def _repr_html_(self) -> str:
        return notebook_box(repr(self), columns=self.table(), ok=bool(self.facts()["ok"].all()))

    @property
    def reducer(self) -> Reducer:
        """Merges cells."""
        return Reducer.of(self.problem, self.layout, self.seed)

    @property
    def rows(self) -> str:
        """What cells keep: "synthetic" rows, where these are exact, or "real" ones."""
        return self.layout.rows

    @property
    def cov(self) -> str | None:
        """The robust covariances of tables."""
        return self.layout.cov

    @property
    def left_out(self) -> int:
        """Rows that the changes left out, because a value was missing or the row was broken."""
        return sum(sum(change.get("dropped", {}).values()) for change in self.history)

    def describe(self) -> str:
        """How many rows of each kind are kept, for how many; how many cells keep real ones."""
        cells, rows = self.cells, int(self.cells.counts.sum())
        beside = f" ({self.left_out:,} were left out)" if self.left_out else ""
        if not self.layout.makes_rows:
            return f"{len(cells.weights):,} of {rows:,} rows{beside}"
        real = cells.numbers != MADE
        few = len(np.unique(cells.cell_of_rows[real]))
        made, kept = (int(which.sum()) for which in (~real, real))
        kinds = [several(made, "synthetic row")] if made else []
        kinds += [f"{several(kept, 'real row')} (of {several(few, 'cell')})"] if kept else []
        return f"{' and '.join(kinds)} for {several(rows, 'row')}{beside}"

    def labels(self, name: str) -> np.ndarray:
        """The distinct labels of a column, in order."""
        check_name(name, self.by, "name")
        return np.unique(self.cells.labels[self.by.index(name)])

    def certificate(self, selection: Selection | None = None, **labels: Any) -> Certificate:
        """The certificate of a cell, or of several together."""
        selected = matching(self.cells, self.by, merge_selections(selection, labels))
        return Certificate.union([self.cells.certificates[i] for i in selected])

    def to_frame(self) -> Any:
        """One line per cell: labels, rows, kept rows, whether these are synthetic, total weight,
        error, and the changes that added its rows.
        """
        return native_frame(self.table())

    def table(self) -> dict[str, np.ndarray]:
        """The columns of :meth:`to_frame`."""
        facts = self.facts()
        names = (*self.by, *distinct(list(facts), self.by))
        return dict(zip(names, (*self.cells.labels, *facts.values()), strict=True))

    def facts(self) -> dict[str, np.ndarray]:
        """The columns of :meth:`to_frame` except the labels."""
        cells = self.cells
        return {
            "rows": cells.counts,
            "kept": cells.sizes,
            "synthetic": cells.made,
            "weight": cells.totals,
            "loss_error": np.array([certificate.loss_error for certificate in cells.certificates]),
            "ok": np.array([certificate.ok for certificate in cells.certificates]),
            "changes": np.array([",".join(map(str, origin)) for origin in cells.origins]),
        }

    # Slices and fits

    def select(
        self, selection: Selection | None = None, /, *, reduce: bool = False, **labels: Any
    ) -> Coreset:
        """The coreset of a slice: the union of its cells.

        Parameters
        ----------
        selection : dict, optional
            Labels by name, where a name cannot be an argument.
        reduce : bool
            Keep the fewest rows; by default all kept rows of the cells.
        **labels
            For each name a label, a list of labels, or a slice (both ends included; dates may be
            text, and "2026-03" means every day of that month).
        """
        selected = matching(self.cells, self.by, merge_selections(selection, labels))
        if reduce:
            return self.coreset_of(self._coarser(self.cells.unhashed(), selected, ()), np.arange(1))
        return self.coreset_of(self.cells, selected)

    def coreset_of(self, cells: Cells, which: Indices) -> Coreset:
        """The rows of some cells as a coreset, numbered one cell after the other."""
        return cells_coreset(self, cells, which)

    def rollup(self, by: str | Sequence[str] = ()) -> Cube:
        """A cube of fewer labels: cells that agree in ``by`` become one."""
        names = label_names(by, self.by)
        cells = self._coarser(self.cells, np.arange(len(self.cells)), names)
        history = (
            self.history if names == self.by else [unlabelled(change) for change in self.history]
        )
        return Cube(cells, self.problem, replace(self.layout, by=names), history, seed=self.seed)

    def _coarser(self, cells: Cells, selected: Indices, by: tuple[str, ...]) -> Cells:
        """Some cells, made one where they agree in ``by``."""
        cells = cells if len(selected) == len(cells) else cells.chosen(selected)
        labels = tuple(cells.labels[self.by.index(name)] for name in by)
        return merge_cells(self.reducer, replace(cells, labels=labels))

    def fit(
        self,
        estimator: Any,
        by: str | Sequence[str] = (),
        selection: Selection | None = None,
        **labels: Any,
    ) -> Fits:
        """Fit a scikit-learn estimator for every label; each is the model of all rows of its label.

        Parameters
        ----------
        estimator : scikit-learn estimator
            It is cloned for every label.
        by : str or list of str
            One model for each label of these columns; by default one model for all rows.
        selection, **labels
            Cells to use, as in :meth:`select`.

        Returns
        -------
        Fits
            ``fits[label]`` is a fitted model, ``fits.coefficients`` a frame with one line per label
            and term.
        """
        check_estimator(estimator)
        selected = matching(self.cells, self.by, merge_selections(selection, labels))
        names = label_names(by, self.by)
        without_sums = replace(self.cells.unhashed(), fourth=None)
        cells = self._coarser(without_sums, selected, names)
        return fit_cells(self, cells, names, estimator)

    def rolling(self, name: str, window: Window, by: str | Sequence[str] = ()) -> Rolling:
        """Windows of ``window`` consecutive labels of a column, or of a duration such as ``"28D"``,
        for each label of ``by``.
        """
        return Rolling(self, name, window, label_names(by, self.by))

    def compare(self, first: Selection, second: Selection) -> Comparison:
        """Test whether two slices follow the same linear model (Chow test)."""
        return compare_slices(self, first, second)

    def verify(
        self, data: Any, *, memory: int = MEMORY, progress: Progress | None = None
    ) -> CubeVerification:
        """Measure every cell against the data that the cube was made from, which is read once.

        Parameters
        ----------
        data : frame, path, list of paths, query, stream, Dask or Spark frame
            All rows, in any order, with the columns of the cube.
        memory : int
            Bytes that may be used.
        progress : callable, optional
            Called with (bytes done, bytes in all) after every batch.

        Returns
        -------
        CubeVerification
            Not ``ok`` if the loss of a cell differs, if kept rows are not in the data, or if rows
            or cells are missing; its ``cube`` has the new certificates.
        """
        check_memory(memory)
        return verify_cube(self, data, memory, progress)

    # Changes

    def update(self, rows: Any, *, memory: int = MEMORY, content: bool = True) -> Cube:
        """Add rows to their cells; new cells appear.

        Parameters
        ----------
        rows : frame, path, list of paths, stream
            With the columns of the cube, as in :func:`karat.cube`.
        memory : int
            Bytes that may be used.
        content : bool
            Hash the rows, or the keys, and refuse those that the cube has already.
        """
        return self._with_rows("update", rows, memory, content)

    def replace(self, rows: Any, *, memory: int = MEMORY, content: bool = True) -> Cube:
        """Rebuild only the cells that occur in ``rows``, which must have all of their rows.

        For late or corrected data, and for deleted, relabelled and re-weighted rows.
        """
        return self._with_rows("replace", rows, memory, content)

    def _with_rows(self, kind: str, rows: Any, memory: int, content: bool) -> Cube:
        check_memory(memory)
        return self._change(
            partial(with_rows, kind, rows, self.layout, self.reducer, memory, content)
        )

    def drop(self, selection: Selection | None = None, /, **labels: Any) -> Cube:
        """Remove cells, chosen as in :meth:`select`."""
        wanted = merge_selections(selection, labels)
        if not wanted:
            raise InputError("Say which cells to remove: cube.drop(day='2024-01-01').")
        return self._change(partial(without_cells, self.by, wanted))

    def merge(self, other: Cube) -> Cube:
        """Add the cells of another cube."""
        if not isinstance(other, Cube):
            raise InputError(f"merge takes another Cube, not {type(other).__name__}.")
        if other.rows != self.rows and other.problem == self.problem:
            raise InputError(
                f"The rows of this cube are {self.rows}, those of the other are {other.rows}: build"
                f" it again with rows={self.rows!r}."
            )
        if other.cov != self.cov and replace(other.layout, cov=self.cov) == self.layout:
            raise InputError(
                "Only one of the cubes has the sums of robust covariances; build the other again"
                f" with cov={self.cov or other.cov!r}."
            )
        if (other.problem, other.layout) != (self.problem, self.layout):
            raise InputError(
                "The cubes have different problems or columns; build both with the same arguments."
            )
        merged = partial(with_cells, self.reducer, self.layout, other.cells, other.history)
        return self._change(merged)

    def _change(self, change: Callable[[Cells, History], tuple[Cells, Change]]) -> Cube:
        """Make a change: first in the file, in one step, then in this object."""
        with self._lock, nullcontext() if self.path is None else locked(self.path):
            if self.path is not None and identity(self.path) != self._identity:
                raise StorageError(
                    f"Another process has changed {self.path} since it was read; load it again,"
                    " then make the change."
                )
            cells, record = change(self.cells, self.history)
            history = (*self.history, stamped(record))
            if self.path is not None:
                write_cube(self.path, cells, self.problem, self.layout, history, self._hashes)
                self._identity = identity(self.path)
            self.cells, self.history = cells, history
        return self

    # Files

    def save(self, path: str | Path, *, hashes: Literal["inside", "beside"] | None = None) -> None:
        """Write to a Parquet file, atomically; later changes are written to it, too.

        Parameters
        ----------
        path : path
        hashes : {"inside", "beside"}, optional
            Whether the hashes of rows or keys are in this file, or in a file of their own beside
            it; by default as before, at first inside.
        """
        path = output_path(path)
        place = self._hashes if hashes is None else hashes
        check_place(place)
        with self._lock, locked(path):
            write_cube(path, self.cells, self.problem, self.layout, self.history, place)
            self.path, self._identity, self._hashes = path, identity(path), place

    @staticmethod
    def load(path: str | Path, problem: Problem | None = None, *, hashes: bool = True) -> Cube:
        """Read a file that :meth:`save` wrote.

        Parameters
        ----------
        path : path
        problem : Problem, optional
            Needed if the problem holds a function of the user, which is not saved.
        hashes : bool
            Without its hashes, a cube does not know the rows that it has already.
        """
        path = cube_path(path)
        file_identity = identity(path)
        read = unpack_cube(read_bytes(path), str(path), problem, path.parent, hashes)
        cube = Cube(*read, path=path)
        cube._identity = file_identity
        return cube

    def to_bytes(self) -> bytes:
        """The bytes of the file, to send a cube elsewhere."""
        return pack_cube(self.cells, self.problem, self.layout, self.history)

    @staticmethod
    def from_bytes(data: bytes, problem: Problem | None = None) -> Cube:
        """Read the result of :meth:`to_bytes`."""
        return Cube(*unpack_cube(data, "The message", problem, None, True))
