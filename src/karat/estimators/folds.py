"""Exact cross-validation: one coreset per set of rows that all splits treat alike.

Such a set is an *atom* (:mod:`karat.estimators.atoms`); for k-fold the atoms are the folds.  With one exact coreset per atom,
any union of atoms is kept exactly, so every training part, every test part and the whole are.

Repeats of the splits have their own atoms, with coresets of all rows.  The model to keep is refitted on one repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, check_cv

from karat._core.certify import Certificate
from karat._core.coreset import Coreset, coreset
from karat._data import containers
from karat.errors import InputError, NotExactError
from karat.estimators.atoms import TEST, TRAIN, ConsecutiveFolds, Repeat, Split, gather
from karat.estimators.fitting import check_splitter
from karat.estimators.training_rows import TrainingRows, of_positive_weight
from karat.problems import LeastSquares, Problem


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
    cores = [_atoms(rows, repeat.atom, problem) for repeat in repeats]
    core = cores[0] if len(cores) == 1 else _stacked(cores)
    return ExactCV(core, list(_split_positions(cores, repeats)), cores[0])


def _atoms(rows: TrainingRows, atom: np.ndarray, problem: Problem) -> Coreset:
    """One coreset per atom, or per class in every atom, as one; the target of its rows is then their class."""
    options = {"sample_weight": rows.sample_weight, "random_state": rows.random_state}
    if not rows.classifies:
        return coreset(rows.table, rows.target, problem, groups=atom, **options)
    labels = np.asarray(rows.target)
    classes, code = np.unique(labels, return_inverse=True)
    both = of_positive_weight(atom.astype(np.int64) * len(classes) + code, rows.sample_weight)
    core = coreset(rows.table, None, problem, groups=both, **options)
    return replace(core, y=labels[core.indices], groups=atom[core.indices])


def full_splits(cv: Any, X: Any, y: Any, groups: Any, classifies: bool = False) -> Sequence[Split]:
    """The splits of the full data, as scikit-learn makes them."""
    check_splitter(cv)
    target = None if y is None else np.asarray(y)
    splitter, count = check_cv(cv, target, classifier=classifies), containers.row_count(X)
    if type(splitter) is KFold and not splitter.shuffle and count >= splitter.n_splits:
        return ConsecutiveFolds(count, splitter.n_splits)
    splits = list(splitter.split(X, target, groups))
    if not splits:
        raise InputError("cv gives no splits.")
    return splits


def _split_positions(cores: list[Coreset], repeats: list[Repeat]) -> Iterable[Split]:
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
    X, y = (containers.stack_rows(*tables) for tables in ([core.X for core in cores], [core.y for core in cores]))
    starts = np.cumsum([0, *(int(np.max(core.groups)) + 1 for core in cores if core.groups is not None)])
    united = Certificate.union([core.certificate for core in cores])
    note = f"The data is here {len(cores)} times, once per repeat of the splits: refit on one repeat only."
    return replace(
        first,
        indices=np.concatenate([np.asarray(core.indices) + r * first.n_rows for r, core in enumerate(cores)]),
        weights=np.concatenate([core.weights for core in cores]),
        X=X,
        y=y,
        groups=np.concatenate([core.groups + start for core, start in zip(cores, starts, strict=False)]),
        n_rows=united.n_rows,
        certificate=replace(united, passes=sum(core.certificate.passes for core in cores), notes=(*united.notes, note)),
        verbatim=None if first.verbatim is None else np.concatenate([core.verbatim for core in cores]),
    )
