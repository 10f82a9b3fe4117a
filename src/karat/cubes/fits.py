"""Models of many labels: one fitted estimator for each, and a tidy frame of their coefficients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.core.certify import Certificate
from karat.core.coreset import Coreset
from karat.core.export import distinct
from karat.core.synthetic import REAL, SYNTHETIC, as_made
from karat.core.wording import notebook_box
from karat.cubes.cells import MADE, Cells, label_keys
from karat.cubes.changes import batches_of
from karat.cubes.merge import numbered_after
from karat.cubes.select import label_key
from karat.data.containers import frame_of, native_frame
from karat.engine.linalg import Indices
from karat.engine.synthetic import ORDINARY
from karat.errors import InputError, MissingExtraError, UnknownLabelError, several

if TYPE_CHECKING:
    from karat.cubes.base import Cube

UNION = "The union of {} cells; reduce=True keeps the fewest rows."
REAL_ROWS = "{} of the kept ones are rows of the data: no exact rows could be made of their cells."
Place = tuple[Cells, int]  # a cell among others


@dataclass(frozen=True, repr=False)
class Fits(Mapping[Any, Any]):
    """Fitted models by label.

    A label is a plain value if there is one column of labels, else a tuple.  ``fits[label]`` is a
    model; dates may be text.

    Attributes
    ----------
    by : tuple of str
    labels : tuple of arrays
        For each column of labels, its value for every model.
    models : tuple
    rows : array
        Rows of the data behind each model.
    features, targets : tuple of str
    """

    by: tuple[str, ...]
    labels: tuple[np.ndarray, ...]
    models: tuple[Any, ...]
    rows: np.ndarray
    features: tuple[str, ...]
    targets: tuple[str, ...]

    @cached_property
    def _places(self) -> dict[tuple[Any, ...], int]:
        labels = zip(*map(label_keys, self.labels), strict=True) if self.by else [()]
        return {label: i for i, label in enumerate(labels)}

    def __getitem__(self, label: Any) -> Any:
        several = label if isinstance(label, tuple) else (label,)
        if len(several) != len(self.by):
            raise UnknownLabelError(
                f"A model is labelled by {', '.join(self.by) or 'nothing: ()'}, not by {label!r}."
            )
        given = zip(self.labels, self.by, several, strict=True)
        try:
            key = tuple(label_key(values, name, value) for values, name, value in given)
        except InputError as error:
            raise UnknownLabelError(str(error), argument=error.argument) from None
        if key not in self._places:
            raise UnknownLabelError(f"There is no model of {label!r}; list(fits) has the labels.")
        return self.models[self._places[key]]

    def __iter__(self) -> Iterator[Any]:
        if len(self.by) == 1:
            return iter(self.labels[0])
        return (tuple(values[i] for values in self.labels) for i in range(len(self.models)))

    def __len__(self) -> int:
        return len(self.models)

    def __repr__(self) -> str:
        return f"Fits({self._title})"

    def _repr_html_(self) -> str:
        return notebook_box(self._title, columns=self.tidy())

    @property
    def _title(self) -> str:
        return f"{several(len(self), 'model')} by {', '.join(self.by) or 'nothing'}"

    @property
    def coefficients(self) -> Any:
        """One line per label (and target) and term: ``intercept``, or the name of a feature."""
        return native_frame(self.tidy())

    def tidy(self) -> dict[str, np.ndarray]:
        """The columns of :attr:`coefficients`."""
        places: list[int] = []  # of the model of each line
        facts: dict[str, list[Any]] = {
            name: [] for name in ("rows", "target", "term", "coefficient")
        }
        for i, model in enumerate(self.models):
            terms, table = _terms(model, self.features)
            for target, row in zip(self.targets or ("",), table, strict=True):
                places += [i] * len(terms)
                for name, values in (("term", terms), ("coefficient", row.tolist())):
                    facts[name] += values
                for name, value in (("rows", self.rows[i]), ("target", target)):
                    facts[name] += [value] * len(terms)
        if len(self.targets) <= 1:
            del facts["target"]
        names = distinct(list(facts), self.by)
        labels = (values[places] for values in self.labels)
        return dict(zip((*self.by, *names), (*labels, *map(np.array, facts.values())), strict=True))

    def table(self, term: str) -> Any:
        """The coefficients of one term as an array, in the order of the labels."""
        models = [_terms(model, self.features) for model in self.models]
        if not isinstance(term, str) or term not in models[0][0]:
            raise InputError(
                f"The models have no term {term!r}; they have {', '.join(models[0][0])}."
            )
        values = np.array([table[:, terms.index(term)] for terms, table in models])
        return values[:, 0] if values.shape[1] == 1 else values


def fit_cells(cube: Cube, cells: Cells, by: tuple[str, ...], estimator: Any) -> Fits:
    """One model for every cell."""
    models = [
        fit_one(plain_coreset(cube, [(cells, i)]), estimator, cube.columns)
        for i in range(len(cells))
    ]
    return Fits(by, cells.labels, tuple(models), cells.counts, cube.columns, cube.targets)


def cells_coreset(cube: Cube, cells: Cells, places: Indices) -> Coreset:
    """The rows of some cells as a coreset, numbered one cell after the other."""
    rows, counts = cells.rows_of(places), cells.counts[places]
    numbers = numbered_after(
        cells.numbers[rows], np.repeat(np.cumsum(counts) - counts, cells.sizes[places])
    )
    certificate = Certificate.union([cells.certificates[i] for i in places])
    notes = [UNION.format(f"{len(places):,}")] if len(places) > 1 else []
    kind: dict[str, Any] = {}
    if cube.layout.makes_rows:
        kind = {"rows": SYNTHETIC, "strata": np.full(len(rows), ORDINARY)}
        certificate = as_made(certificate, cube.problem)
        real = int((numbers != MADE).sum())
        notes += [REAL_ROWS.format(several(real, "row"))] if real else []
    certificate = replace(certificate, notes=(*certificate.notes, *notes))
    columns, targets = [column[rows] for column in cells.columns], cube.targets
    features = dict(zip(cube.columns, columns[: len(cube.columns)], strict=True))
    responses = dict(zip(targets, columns[len(cube.columns) :], strict=True))
    changes = sorted({origin for i in places for origin in cells.origins[i]})
    source: dict[str, Any] = {"given": [], "files": []}
    provenance = cube.layout.provenance(cube.problem, cube.seed, source, {}, None)
    provenance |= {"cells": cells.parts_of(places), "batches": batches_of(cube.history, changes)}
    return Coreset(
        indices=None if kind else numbers,
        weights=cells.weights[rows],
        X=frame_of("pyarrow", features, False, None),
        y=frame_of("pyarrow", responses, len(targets) == 1, None) if targets else None,
        groups=None,
        n_rows=int(counts.sum()),
        problem=cube.problem,
        certificate=certificate,
        keys=None if cells.keys is None else cells.keys[rows],
        provenance=provenance | {"changes": [cube.history[i] for i in changes]},
        fourth=None if cells.fourth is None else cells.fourth.chosen(places),
        **kind,
    )


def plain_coreset(cube: Cube, places: Sequence[Place]) -> Coreset:
    """The rows of some cells as arrays, which estimators read faster than frames."""
    spans = [(cells, slice(cells.starts[g], cells.starts[g + 1])) for cells, g in places]
    table = np.concatenate(
        [np.column_stack([column[rows] for column in cells.columns]) for cells, rows in spans],
        dtype=float,
    )
    weights = np.concatenate([cells.weights[rows] for cells, rows in spans])
    certificate = Certificate.union([cells.certificates[g] for cells, g in places])
    d = len(cube.columns)
    y = None if not cube.targets else table[:, d] if len(cube.targets) == 1 else table[:, d:]
    made = cube.layout.makes_rows
    return Coreset(
        None if made else np.arange(len(weights)),
        weights,
        np.ascontiguousarray(table[:, :d]),
        y,
        None,
        certificate.n_rows,
        cube.problem,
        as_made(certificate, cube.problem) if made else certificate,
        rows=SYNTHETIC if made else REAL,
        strata=np.full(len(weights), ORDINARY) if made else None,
    )


def check_estimator(estimator: Any) -> None:
    """Raise if the argument is not an estimator, before any cells are merged."""
    if isinstance(estimator, type) or not all(
        hasattr(estimator, name) for name in ("fit", "get_params")
    ):
        given = (
            f"the class {estimator.__name__}" if isinstance(estimator, type) else repr(estimator)
        )
        raise InputError(
            f"fit takes a scikit-learn estimator, such as LinearRegression(), not {given}.",
            argument="estimator",
        )


def fit_one(core: Coreset, estimator: Any, names: Sequence[str]) -> Any:
    """A fitted clone of the estimator, with the names of the columns."""
    try:
        from sklearn.base import clone
    except ImportError:
        raise MissingExtraError("Fitting", "sklearn") from None
    model = core.fit(clone(estimator))
    first = model.steps[0][1] if hasattr(model, "steps") else model
    if hasattr(first, "n_features_in_"):
        first.feature_names_in_ = np.array(names, dtype=object)
    return model


def _terms(model: Any, features: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The names of the terms of a linear model, and a row of coefficients per target."""
    names, last = list(features), model
    if hasattr(model, "steps"):
        last = model.steps[-1][1]
        if len(model.steps) > 1:
            names = [str(name) for name in model[:-1].get_feature_names_out(names)]
    if not hasattr(last, "coef_"):
        raise InputError(
            f"{type(last).__name__} has no coefficients; fits[label] has its fitted attributes."
        )
    coef = np.atleast_2d(np.asarray(last.coef_))
    intercept = np.broadcast_to(
        np.asarray(getattr(last, "intercept_", 0.0), dtype=float).ravel(), len(coef)
    )
    return ["intercept", *names], np.column_stack([intercept, coef])
