"""A cube against the data that it was made from: each cell is proven or refuted separately.

    fresh    new cells of the data, made in one pass (:mod:`karat.cubes.build`), each with its proof
    present  which kept rows of the cube are rows of the data, found in the same pass
    measure  the kept rows of a cell against those of the fresh cell

The fresh rows stand for those of the data; the certificate of a cell inherits their error
(:mod:`karat.engine.claim`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.core.certify import Certificate
from karat.core.coreset import Coreset
from karat.core.synthetic import REAL
from karat.core.verify import kept_like, measured
from karat.core.verify_synthetic import measured_again
from karat.core.wording import (
    PAGE,
    certificate_facts,
    notebook_box,
    of_which,
    readable,
    verdict,
)
from karat.cubes.build import gather_cells
from karat.cubes.cells import MADE, Cells, Labels, label_list
from karat.cubes.merge import joined_labels
from karat.data.batch import read_input
from karat.engine.claim import Reduction
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.rows import Progress
from karat.errors import several
from karat.problems import LeastSquares, Moments

if TYPE_CHECKING:
    from karat.cubes.base import Cube

SAID = 3  # cells that are named
NO_ROWS = "The data has no rows of this cell."
KINDS = {"extra": "of the cube without rows in the data", "missing": "of the data not in the cube"}
Label = dict[str, Any]  # by name, as Cube.select takes it


@dataclass(frozen=True)
class CubeVerification:
    """What :meth:`karat.Cube.verify` found.

    Attributes
    ----------
    cube : Cube
        The same cells with new certificates.  Those of cells that do not agree are not ``ok``, and
        their notes say why.  It has no file: ``verification.cube.save(path)`` writes one.
    differ : tuple of dict
        Labels of the cells that do not agree with their rows in the data.
    extra : tuple of dict
        Labels of cells without rows in the data.
    missing : tuple of dict
        Labels of the data without cells in the cube.
    n_rows : int
        Rows of the data.
    """

    cube: Cube
    differ: tuple[Label, ...]
    extra: tuple[Label, ...]
    missing: tuple[Label, ...]
    n_rows: int

    @property
    def ok(self) -> bool:
        """Whether every cell is exact for its rows, and the cells are those of the data."""
        return not (self.differ or self.extra or self.missing)

    @property
    def left_out(self) -> int:
        """Rows of the data that are in no cell, because a value is missing; 0 if it is not ok."""
        return self.n_rows - int(self.cube.cells.counts.sum()) if self.ok else 0

    @property
    def certificate(self) -> Certificate:
        """The certificate of all cells together."""
        return self.cube.certificate()

    def to_dict(self) -> dict[str, Any]:
        """All findings, for JSON; labels that are dates as text."""
        named = {
            name: [_as_json(label) for label in getattr(self, name)]
            for name in ("differ", "extra", "missing")
        }
        facts = {"ok": self.ok, "cells": len(self.cube), "rows": self.n_rows}
        facts |= {"left_out": self.left_out}
        return facts | named | {"certificate": self.certificate.to_dict()}

    def __str__(self) -> str:
        sentences = [
            f"{several(len(self.cube), 'cell')} against"
            f" {several(self.n_rows, 'row')}{of_which(self.left_out)}: {verdict(self.ok)}."
        ]
        if self.ok:
            sentences.append(
                f"The worst relative loss error of a cell is {self.certificate.loss_error:.1e}."
            )
        return " ".join([*sentences, *self.reasons()])

    def _repr_html_(self) -> str:
        rows = PAGE.count(self.n_rows) + of_which(self.left_out, PAGE)
        facts = {"cells": f"{len(self.cube):,}", "rows of the data": rows}
        facts |= certificate_facts(self.certificate) if self.ok else {}
        facts |= {"not as the data": " ".join(self.reasons())} if not self.ok else {}
        return notebook_box("Verification of a cube", facts, ok=self.ok)

    def reasons(self) -> list[str]:
        """What does not agree, in words; the first cells of each kind are named."""
        reasons = []
        if self.differ:
            examples = "; ".join(
                f"{_named(label)} ({self._why(label)})" for label in self.differ[:SAID]
            )
            reasons.append(
                f"{several(len(self.differ), 'cell')} of the cube not as the data:"
                f" {examples}{_more(self.differ)}."
            )
        for kind, description in KINDS.items():
            labels = getattr(self, kind)
            if labels:
                reasons.append(
                    f"{several(len(labels), 'cell')} {description}:"
                    f" {'; '.join(map(_named, labels[:SAID]))}{_more(labels)}."
                )
        return reasons

    def _why(self, label: Label) -> str:
        certificate = self.cube.certificate(label)
        off = []
        if certificate.loss_error > certificate.tolerance:
            off = [f"The loss is off by {readable(certificate.loss_error, certificate.tolerance)}."]
        elif not certificate.proven:
            off = ["Moments differ by more than their rounding."]
        return " ".join([*off, *certificate.notes]).rstrip(".")


def verify_cube(cube: Cube, data: Any, memory: int, progress: Progress | None) -> CubeVerification:
    """See :meth:`karat.Cube.verify`."""
    cells, present = cube.cells, Present(cube.cells)
    fresh, record, _ = gather_cells(
        data, cube.layout, cube.problem, cube.seed, 0, memory, False, progress, present
    )
    both, other = _shared(cells, fresh)
    certificates = [
        replace(certificate, refuted=True, notes=(NO_ROWS,)) for certificate in cells.certificates
    ]
    if len(both):
        lost = np.add.reduceat((~present.found).astype(int), cells.starts[:-1])[both]
        for place, certificate in zip(
            both, _certificates(cube, cells.chosen(both), fresh.chosen(other), lost), strict=True
        ):
            certificates[place] = certificate
    checked = copy(cube)
    checked.cells, checked.path = replace(cells, certificates=tuple(certificates)), None
    differ = [place for place in both if not certificates[place].ok]
    extra, missing = (
        np.setdiff1d(np.arange(len(side)), shared)
        for side, shared in ((cells, both), (fresh, other))
    )
    mine, theirs = (partial(_label, side, cube.by) for side in (cells, fresh))
    return CubeVerification(
        checked,
        tuple(map(mine, differ)),
        tuple(map(mine, extra)),
        tuple(map(theirs, missing)),
        record["rows"],
    )


def _shared(cells: Cells, fresh: Cells) -> tuple[Indices, Indices]:
    """The cells whose labels both have, and their places among the fresh ones."""
    for mine, theirs in zip(cells.labels, fresh.labels, strict=True):
        joined_labels([mine, theirs])  # refuses labels of other kinds
    labels, places = (
        label_list(cells),
        {label: place for place, label in enumerate(label_list(fresh))},
    )
    both = [place for place, label in enumerate(labels) if label in places]
    return np.array(both, dtype=np.intp), np.array(
        [places[labels[place]] for place in both], dtype=np.intp
    )


def _certificates(cube: Cube, cells: Cells, fresh: Cells, lost: np.ndarray) -> list[Certificate]:
    """New certificates of cells, from the fresh cells of the same labels; ``lost`` counts kept rows
    that are not in the data.
    """
    reductions, totals = _against_fresh(cube, cells, fresh)
    certificates = []
    apart = np.zeros(len(cells), dtype=bool)
    if cells.fourth is not None and fresh.fourth is not None:
        apart = cells.fourth.differ(fresh.fourth)
    for place, reduction in enumerate(reductions):
        before, now, count = (
            cells.certificates[place],
            fresh.certificates[place],
            cells.certificates[place].n_rows,
        )
        refutations = []
        if count != now.n_rows:
            refutations.append(
                f"The cell was made of {several(count, 'row')}, the data has {now.n_rows:,}."
            )
        if lost[place]:
            refutations.append(
                f"{several(int(lost[place]), 'kept row')} not among the rows of the data."
            )
        if apart[place]:
            refutations.append("The sums of HC0 and HC1 are not those of the rows.")
        certificate = cube.reducer.certificate(reduction, [now], totals[place], count, refutations)
        certificate = replace(certificate, rows=before.rows, excludes=before.excludes)
        certificates.append(
            replace(
                certificate,
                rank=before.rank,
                peeled=before.peeled,
                size=before.size,
                refuted=bool(refutations),
            )
        )
    return certificates


def _against_fresh(cube: Cube, cells: Cells, fresh: Cells) -> tuple[list[Reduction], Array]:
    """The rows of every cell measured against those of the fresh cell, and the totals of these.

    Real rows of a cube of synthetic rows keep what these do: squares of affine forms of all
    columns.
    """
    made = cells.made | fresh.made
    reductions: dict[int, Reduction] = {}
    for which in (made, ~made):
        places = np.flatnonzero(which)
        if not len(places):
            continue
        own, other = cells.chosen(places), fresh.chosen(places)
        core, data = (_as_groups(cube, side, bool(which is made)) for side in (own, other))
        table = read_input(data.X, data.y, core.problem, data.weights, data.groups)
        if which is made:
            found, _ = measured_again(core, table, kept_like(table, core), table.labels)
        else:
            core = replace(core, indices=_verbatim(own, other))
            found = measured(core, table, kept_like(table, core), table.labels)
        reductions |= dict(zip(places.tolist(), found, strict=True))
    return [reductions[place] for place in range(len(cells))], fresh.totals


def _as_groups(cube: Cube, cells: Cells, made: bool) -> Coreset:
    """Cells as the groups of a coreset."""
    core = replace(cube.coreset_of(cells, np.arange(len(cells))), groups=cells.cell_of_rows)
    if not cube.layout.makes_rows or (not made and len(cells.columns) < 2):
        return core
    *features, last = cells.columns
    if made:
        return replace(core, X=np.column_stack(cells.columns), y=None, problem=Moments(2))
    X = np.column_stack(features)
    return replace(core, X=X, y=last, problem=LeastSquares(), rows=REAL, strata=None)


def _verbatim(cells: Cells, fresh: Cells) -> Indices:
    """For each kept row of the cells, the place of the same row with the same weight among the
    fresh rows, or the number of fresh rows if there is none.
    """
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(_rows(fresh)):
        places.setdefault(row, []).append(place)
    beyond = len(fresh.weights)
    return np.array(
        [places[row].pop() if places.get(row) else beyond for row in _rows(cells)], dtype=np.int64
    )


def _rows(cells: Cells) -> Any:
    """Cell, weight and numbers of every kept row."""
    numbers = np.repeat(np.arange(len(cells)), cells.sizes)
    return zip(
        numbers.tolist(),
        cells.weights.tolist(),
        *(column.tolist() for column in cells.columns),
        strict=True,
    )


def _label(cells: Cells, by: tuple[str, ...], place: Any) -> Label:
    values = (column[place] for column in cells.labels)
    return {
        name: value if value.dtype.kind == "M" else value.item()
        for name, value in zip(by, values, strict=True)
    }


def _as_json(label: Label) -> Label:
    return {
        name: str(value) if isinstance(value, np.datetime64) else value
        for name, value in label.items()
    }


def _named(label: Label) -> str:
    return ", ".join(f"{name}={value}" for name, value in label.items()) or "all rows"


def _more(labels: tuple[Label, ...]) -> str:
    return f" and {len(labels) - SAID:,} more" if len(labels) > SAID else ""


class Present:
    """Looks for the kept rows of some cells: equal numbers (and key) under the same label.

    Attributes
    ----------
    found : array of bool
        For each kept row, whether it has come.
    """

    def __init__(self, cells: Cells) -> None:
        self.columns, self.keyed = cells.columns, cells.keys is not None
        self.made: Flags = cells.numbers == MADE  # these are nowhere, and need not be
        self.found = self.made.copy()
        self._places: dict[tuple[Any, ...], list[int]] = {}
        labels, cell_of = label_list(cells), np.repeat(np.arange(len(cells)), cells.sizes).tolist()
        for place, (cell, *row) in enumerate(
            zip(cell_of, *_value_lists(cells.columns, cells.keys), strict=True)
        ):
            self._places.setdefault((labels[cell], *row), []).append(place)

    def look(
        self, labels: Labels, codes: Indices, columns: Sequence[np.ndarray], keys: Any
    ) -> None:
        """Look among some rows; ``codes`` are the numbers of their labels."""
        left = np.flatnonzero(~self.found)
        if not len(left):
            return
        near = np.arange(len(codes))
        # Few rows share every number with a kept row, so few are looked up in Python.
        for mine, theirs in zip(self.columns, columns, strict=True):
            near = near[np.isin(theirs[near], mine[left])]
        label_of = list(labels.numbers)
        rows = _value_lists(
            [codes[near], *(column[near] for column in columns)],
            np.asarray(keys)[near] if self.keyed else None,
        )
        for code, *row in zip(*rows, strict=True):
            self.found[self._places.get((label_of[code], *row), [])] = True

    def emptied(self) -> Present:
        """The same before anything has come."""
        other = copy(self)
        other.found = self.made.copy()
        return other


def _value_lists(columns: Sequence[np.ndarray], keys: np.ndarray | None) -> list[list[Any]]:
    """Columns as lists of Python numbers, which compare exactly across types."""
    return [column.tolist() for column in (*columns, *(() if keys is None else (keys,)))]
