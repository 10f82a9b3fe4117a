"""Exact cross-validation: one coreset per set of rows that all splits treat alike.

Every split gives a row one of four roles: in the training part, in the test part, in neither, in both.  Rows with the
same roles in all splits form an *atom*; for k-fold the atoms are the folds, for expanding windows the segments.  With
one exact coreset per atom, any union of atoms is kept exactly, so every training part, every test part and the whole
are.

Repeated splits would multiply atoms (k^r of them), so splits are gathered into repeats: a split joins the current
repeat while it adds no more atoms than it would need on its own, else a new repeat begins, with its own coresets of all
rows.  The model to keep is refitted on one repeat.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from karat._core.construct import coreset
from karat._core.coreset import Coreset
from karat._data import containers, frames
from karat.errors import InputError, NotExactError
from karat.estimators.fitting import check_splitter
from karat.estimators.training_rows import TrainingRows, of_positive_weight
from karat.problems import LeastSquares, Problem

Split = tuple[np.ndarray, np.ndarray]
ROLES = 4
TRAIN, TEST = 1, 2


@dataclass(frozen=True)
class Repeat:
    """Atoms of a run of splits: the atom of each row, and the role of each atom (rows) in each split (columns)."""

    atom: np.ndarray
    roles: np.ndarray


@dataclass(frozen=True)
class ExactCV:
    """Rows and splits for a cross-validation loop, in place of the full data.

    Attributes
    ----------
    core : Coreset
        Rows, weights and (as groups) atoms.  With repeats, the coreset of the data written once per repeat.
    cv : list of (train, test)
        Positions in ``core``; hand it to any ``cv=``.  Fit and score with ``sample_weight=core.weights[...]``.
    refit : Coreset
        The rows to fit the chosen model on: those of one repeat.
    """

    core: Coreset
    cv: list[Split]
    refit: Coreset

    def __repr__(self) -> str:
        return f"ExactCV({len(self.cv)} splits of {self.core!r})"


def exact_cv(
    X: Any,
    y: Any,
    problem: Problem | None = None,
    cv: Any = 5,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    random_state: int = 0,
) -> ExactCV:
    """Coresets of the folds, and the splits among them, for a cross-validation loop of your own.

    Parameters
    ----------
    X, y, sample_weight
        As in :func:`karat.coreset`.
    problem : Problem, optional
        What every training and test part must keep; :class:`~karat.problems.LeastSquares` by default.
    cv : int, splitter or iterable of (train, test)
        Splits of the full data, as in scikit-learn.
    groups : array, optional
        Passed to the splitter (such as ``GroupKFold``).
    random_state : int
        As in :func:`karat.coreset`.

    Returns
    -------
    ExactCV

    Examples
    --------
    >>> import numpy as np, karat
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 3)); y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(5000)
    >>> folds = karat.exact_cv(X, y, cv=5)
    >>> core = folds.core
    >>> train, test = folds.cv[0]
    >>> model = Ridge().fit(core.X[train], core.y[train], sample_weight=core.weights[train])
    >>> exact = model.score(core.X[test], core.y[test], sample_weight=core.weights[test])
    >>> full = Ridge().fit(X[1000:], y[1000:]).score(X[:1000], y[:1000])
    >>> abs(exact - full) < 1e-12
    True
    """
    X, y = containers.collected(X), containers.collected(y)
    rows = TrainingRows(X, y, sample_weight, random_state=random_state)
    return cores_of_splits(rows, full_splits(cv, X, y, groups), LeastSquares() if problem is None else problem)


def cores_of_splits(rows: TrainingRows, splits: Iterable[Split], problem: Problem) -> ExactCV:
    """Coresets of the parts that splits make of all rows; if the target holds classes, of every class in them."""
    rows = rows.alone()
    count = containers.row_count(rows.table)
    repeats = gather(splits, count)
    if max(len(r.roles) for r in repeats) * 2 > count:
        raise NotExactError(
            "The splits single out nearly every row (leave-one-out or the like), which no coreset keeps; use larger folds."
        )
    reduce_atoms = _atoms_by_class if rows.classifies else _atoms
    cores = [reduce_atoms(rows, repeat.atom, problem) for repeat in repeats]
    core = cores[0] if len(cores) == 1 else _stacked(cores)
    return ExactCV(core, list(_positions(cores, repeats)), cores[0])


def _atoms(rows: TrainingRows, atom: np.ndarray, problem: Problem) -> Coreset:
    """One coreset per atom, as one."""
    options = {"sample_weight": rows.sample_weight, "random_state": rows.random_state}
    return coreset(rows.table, rows.target, problem, groups=atom, **options)


def _atoms_by_class(rows: TrainingRows, atom: np.ndarray, problem: Problem) -> Coreset:
    """One coreset per class in every atom, as one; the target of its rows is their class."""
    options = {"sample_weight": rows.sample_weight, "random_state": rows.random_state}
    labels = np.asarray(rows.target)
    classes, code = np.unique(labels, return_inverse=True)
    both = of_positive_weight(atom.astype(np.int64) * len(classes) + code, rows.sample_weight)
    core = coreset(rows.table, None, problem, groups=both, **options)
    return replace(core, y=labels[core.indices], groups=atom[core.indices])


def full_splits(cv: Any, X: Any, y: Any, groups: Any, classifies: bool = False) -> list[Split]:
    """The splits of the full data, as scikit-learn makes them."""
    from sklearn.model_selection import check_cv

    check_splitter(cv)
    target = None if y is None else np.asarray(y)
    splits = list(check_cv(cv, target, classifier=classifies).split(X, target, groups))
    if not splits:
        raise InputError("cv gives no splits.")
    return splits


def gather(splits: Iterable[Split], count: int) -> list[Repeat]:
    """Gather splits into repeats, and rows into atoms."""
    repeats: list[Repeat] = []
    current: Repeat | None = None
    for train, test in splits:
        role = np.zeros(count, dtype=np.uint8)  # small numbers throughout: this is a pass over all rows, per split
        role[train] = TRAIN
        role[test] |= TEST
        sizes = np.bincount(role, minlength=ROLES)
        if sizes[TRAIN] + sizes[TRAIN | TEST] != _size(train) or sizes[TEST] + sizes[TRAIN | TEST] != _size(test):
            raise InputError("A split names a row twice; give the row a sample_weight instead.")
        joined = _refined(current, role)
        if current is not None and len(joined.roles) - len(current.roles) > np.count_nonzero(sizes):
            repeats.append(current)
            joined = _refined(None, role)
        current = joined
    if current is None:
        raise InputError("cv gives no splits.")
    return [*repeats, current]


def _size(chosen: Any) -> int:
    chosen = np.asarray(chosen)
    return int(np.count_nonzero(chosen)) if chosen.dtype == bool else len(chosen)


def _refined(repeat: Repeat | None, role: np.ndarray) -> Repeat:
    """The atoms after one more split."""
    parents = 1 if repeat is None else len(repeat.roles)
    small = np.uint8 if ROLES * parents <= 256 else np.int64
    code = role if repeat is None else ROLES * repeat.atom.astype(small) + role
    used = np.bincount(code, minlength=ROLES * parents) > 0
    codes = np.flatnonzero(used)
    number = (np.cumsum(used) - 1).astype(small)
    roles = (codes % ROLES)[:, None]
    if repeat is not None:
        roles = np.hstack([repeat.roles[codes // ROLES], roles])
    return Repeat(number[code], roles)


def _positions(cores: list[Coreset], repeats: list[Repeat]) -> Iterable[Split]:
    """Training and test positions of every split among the stacked rows of the repeats."""
    start = 0
    for core, repeat in zip(cores, repeats, strict=True):
        roles = repeat.roles[core.groups]
        for split in roles.T:
            yield start + np.flatnonzero(split & TRAIN), start + np.flatnonzero(split & TEST)
        start += len(core)


def _stacked(cores: list[Coreset]) -> Coreset:
    """One coreset of the data written once per repeat, from the coresets of the repeats."""
    first = cores[0]
    X, y = (frames.stack_rows(*tables) for tables in ([core.X for core in cores], [core.y for core in cores]))
    starts = np.cumsum([0, *(int(np.max(core.groups)) + 1 for core in cores if core.groups is not None)])
    certificates = [core.certificate for core in cores]
    note = f"The data is here {len(cores)} times, once per repeat of the splits: refit on one repeat only."
    return replace(
        first,
        indices=np.concatenate([core.indices + r * first.n_rows for r, core in enumerate(cores)]),
        weights=np.concatenate([core.weights for core in cores]),
        X=X,
        y=y,
        groups=np.concatenate([core.groups + start for core, start in zip(cores, starts, strict=False)]),
        n_rows=first.n_rows * len(cores),
        certificate=replace(
            max(certificates, key=lambda c: c.loss_error),
            moment_error=max(c.moment_error for c in certificates),
            total_error=max(c.total_error for c in certificates),
            rank=sum(c.rank for c in certificates),
            size=sum(c.size for c in certificates),
            bound=sum(c.bound for c in certificates),
            condition=max(c.condition for c in certificates),
            passes=sum(c.passes for c in certificates),
            seconds=sum(c.seconds for c in certificates),
            n_rows=first.n_rows * len(cores),
            notes=(*first.certificate.notes, note),
        ),
    )
