"""Exact cross-validation: one coreset per set of rows that all splits treat alike.

Every split gives a row one of four roles: in the training part, in the test part, in neither, in
both.  Rows with the same roles in all splits form an *atom*; for k-fold the atoms are the folds,
for expanding windows the segments. With one exact coreset per atom, any union of atoms is kept
exactly, so every training part, every test part and the whole are.

Repeated splits would multiply atoms (k^r of them), so splits are gathered into repeats: a split
joins the current repeat while it adds no more atoms than it would need on its own, else a new
repeat begins.  Each repeat has coresets of all rows.  The model to keep is refitted on one repeat.

Gathering is a pass over all rows per split, so it must cost little beside a coreset: the roles of a
row in the first splits are two bits each of one small number, runs of consecutive rows are marked
as slices, and repeats are gathered from the few different numbers that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, check_cv

from karat.core.certify import Certificate
from karat.core.coreset import Coreset, coreset
from karat.core.synthetic import REAL, SYNTHETIC, RowKind
from karat.data import containers
from karat.data.batch import check_weights
from karat.data.stacking import stack_rows
from karat.errors import InputError, NotExactError
from karat.estimators.fitting import check_splitter
from karat.estimators.training_rows import (
    TrainingRows,
    WeightedRows,
    of_positive_weight,
    reason_for_all,
)
from karat.problems import LeastSquares, Problem

Split = tuple[np.ndarray, np.ndarray]
WHOLE = -1  # the number of the part that is all rows
# Up to so many columns, fits on the rows of several folds take no longer than making one set of
# rows of them.
NARROW = 64
ROLES = 4
TRAIN, TEST = 1, 2
BITS = 2  # of a role
TOGETHER = 8  # roles that an integer of 16 bits holds
RUNS = 8  # up to so many runs of consecutive rows are marked as slices, which is faster


@dataclass(frozen=True)
class ExactCV:
    """Rows and splits for a cross-validation loop, in place of the full data.

    Attributes
    ----------
    core : Coreset
        Rows, weights and (as groups) atoms.  With repeats, the coreset of the data written once per
        repeat.
    cv : list of (train, test)
        Positions in ``core``; pass it to any ``cv=``.  Fit and score with
        ``sample_weight=core.weights[...]``.
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
    rows: RowKind = "real",
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
        What every training and test part must keep; :class:`~karat.problems.LeastSquares` by
        default.
    cv : int, splitter or iterable of (train, test)
        Splits of the full data, as in scikit-learn.
    rows : {"real", "synthetic"}
        Rows of the data; or made ones, d + 2 of every fold, as in :func:`karat.coreset`: for linear
        models of the columns as they stand.
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
    data = TrainingRows(
        X, y, check_weights(sample_weight, containers.row_count(X)), random_state=random_state
    )
    repeats = atoms_of(full_splits(cv, data, groups), len(data))
    return cores_of_atoms(data, repeats, rows, LeastSquares() if problem is None else problem)


def cores_of_atoms(
    rows: TrainingRows, repeats: list[Repeat], kind: str, problem: Problem
) -> ExactCV:
    """Coresets of the atoms of all repeats; if the target holds classes, of every class in them."""
    cores = [_atoms(rows, repeat.atom, kind, problem) for repeat in repeats]
    core = cores[0] if len(cores) == 1 else _stacked(cores)
    return ExactCV(core, list(_split_positions(cores, repeats)), cores[0])


def made_of_splits(rows: TrainingRows, splits: Iterable[Split]) -> tuple[ExactCV | None, str]:
    """Made rows of the atoms; or None, and why all rows are used."""
    repeats = atoms_of(splits, len(rows))
    atoms, uses = max(len(repeat.roles) for repeat in repeats), repeats[0].roles.shape[1]
    reason = rows.reason_against(len(rows), int(rows.raw.shape[1]), atoms, uses)
    if reason:
        return None, reason
    try:
        return cores_of_atoms(rows, repeats, SYNTHETIC, rows.problem), ""
    except (NotExactError, InputError) as error:
        return None, reason_for_all(error, rows.raw, *(() if rows.classifies else (rows.target,)))


def few_of_folds(
    rows: TrainingRows, folds: ExactCV, positions: np.ndarray | None = None
) -> WeightedRows:
    """The few rows of all folds, with the coreset of one repeat; or some of them."""
    core, sparse = folds.core, containers.is_sparse(rows.table)
    tables, weights, source = (core.X, core.y), core.weights, folds.refit
    if positions is not None:
        tables = tuple(containers.take_rows(table, positions) for table in tables)
        weights, source = weights[positions], core
    X, y = (containers.in_double(containers.on_host(table)) for table in tables)
    return WeightedRows(X, y, weights, source, sparse)


class FoldRows:
    """Few rows of every fold; those of training and test parts are unions of them.

    Parameters
    ----------
    rows : TrainingRows
        All rows of the columns that few rows are made of.
    folds : ExactCV
    problem : Problem, optional
        The problem that the user passed.
    """

    def __init__(self, rows: TrainingRows, folds: ExactCV, problem: Problem | None = None) -> None:
        self.rows, self.folds, self.problem = rows, folds, problem
        self.few: dict[tuple[int, bool], WeightedRows] = {}

    @classmethod
    def of(
        cls,
        rows: TrainingRows,
        splits: Sequence[Split],
        served: int,
        problem: Problem | None = None,
    ) -> FoldRows | None:
        """Few rows for so many candidates; None if there are none, or if they gain nothing."""
        if problem is not None:
            repeats = atoms_of(splits, len(rows))
            return cls(rows, cores_of_atoms(rows, repeats, REAL, problem), problem)
        folds = made_of_splits(replace(rows, fits=served), splits)[0] if served else None
        return None if folds is None else cls(rows, folds)

    def kept(self, number: int, test: bool = False) -> WeightedRows:
        """Few rows that stand for a training or test part."""
        if (number, test) not in self.few:
            self.few[number, test] = self._union(number, test)
        return self.few[number, test]

    def _union(self, number: int, test: bool) -> WeightedRows:
        """The rows of some folds; one set of rows for all of them where many fits on it follow."""
        if number == WHOLE:
            return few_of_folds(self.rows, replace(self.folds, core=self.folds.refit))
        few = few_of_folds(self.rows, self.folds, self.folds.cv[number][int(test)])
        if test or self.problem is not None or int(few.X.shape[1]) < NARROW:
            return few
        union = replace(
            self.rows, table=few.X, target=few.y, sample_weight=few.weights, positions=None,
            preprocessors=(), memo={},
        )  # fmt: skip
        return replace(union.few(), sparse=few.sparse)


def _atoms(rows: TrainingRows, atom: np.ndarray, kind: str, problem: Problem) -> Coreset:
    """One coreset per atom, or per class in every atom, as one; the target of its rows is then
    their class.
    """
    options: dict[str, Any] = {
        "sample_weight": rows.sample_weight,
        "random_state": rows.random_state,
        "rows": kind,
    }
    if not rows.classifies:
        return coreset(rows.raw, rows.target, problem, groups=atom, **options)
    labels = np.asarray(rows.target)
    classes, code = np.unique(labels, return_inverse=True)
    cells = of_positive_weight(atom.astype(np.int64) * len(classes) + code, rows.sample_weight)
    core = coreset(rows.raw, None, problem, groups=cells, **options)
    assert core.groups is not None
    atoms, codes = np.divmod(core.groups, len(classes))
    return replace(core, y=classes[codes], groups=atoms)


def full_splits(cv: Any, rows: TrainingRows, groups: Any) -> Sequence[Split]:
    """The splits of the full data, as scikit-learn makes them."""
    check_splitter(cv)
    # A target on an accelerator stays there where folds depend on the number of rows only.
    counts = rows.on_device and (cv is None or isinstance(cv, int | np.integer | KFold))
    target = None if rows.target is None or counts else np.asarray(rows.y)
    splitter, count = check_cv(cv, target, classifier=rows.classifies), len(rows)
    if type(splitter) is KFold and not splitter.shuffle and count >= splitter.n_splits:
        return ConsecutiveFolds(count, splitter.n_splits)
    # scikit-learn's splitters read the number of rows only; others may read the columns.
    counts_rows = type(splitter).__module__.startswith("sklearn.")
    splits = list(splitter.split(np.zeros((count, 1)) if counts_rows else rows.X, target, groups))
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
    labels = [core.groups for core in cores if core.groups is not None]
    starts = np.cumsum([0, *(int(np.max(label)) + 1 for label in labels)])
    united = Certificate.union([core.certificate for core in cores])
    note = (
        f"The data is here {len(cores)} times, once per repeat of the splits: refit on one repeat"
        " only."
    )
    return replace(
        first,
        indices=_joined([core.indices for core in cores], first.n_rows),
        weights=np.concatenate([core.weights for core in cores]),
        X=stack_rows(*(core.X for core in cores)),
        y=stack_rows(*(core.y for core in cores)),
        groups=np.concatenate(
            [label + start for label, start in zip(labels, starts, strict=False)]
        ),
        n_rows=united.n_rows,
        certificate=replace(
            united,
            passes=sum(core.certificate.passes for core in cores),
            notes=(*united.notes, note),
        ),
        verbatim=_joined([core.verbatim for core in cores]),
        strata=_joined([core.strata for core in cores]),
    )


def _joined(arrays: list[Any], step: int = 0) -> np.ndarray | None:
    """Arrays as one, the k-th raised by k steps; None if there are none: made rows have no
    indices.
    """
    if arrays[0] is None:
        return None
    return np.concatenate([array + k * step if step else array for k, array in enumerate(arrays)])


def atoms_of(splits: Iterable[Split], count: int) -> list[Repeat]:
    """The atoms of all repeats; refuse splits that single out nearly every row."""
    repeats = gather(splits, count)
    if max(len(repeat.roles) for repeat in repeats) * 2 > count:
        raise NotExactError(
            "The splits single out nearly every row, as leave-one-out does, and a coreset keeps no"
            " single rows; use larger folds."
        )
    return repeats


@dataclass(frozen=True)
class Repeat:
    """Atoms of a run of splits: the atom of each row, and the role of each atom (rows) in each
    split (columns).
    """

    atom: np.ndarray
    roles: np.ndarray


@dataclass(frozen=True)
class ConsecutiveFolds(Sequence[Split]):
    """The splits of ``KFold(folds)`` without shuffling: folds of consecutive rows, the first ones
    larger by one row.
    """

    rows: int
    folds: int

    @property
    def sizes(self) -> np.ndarray:
        return np.full(self.folds, self.rows // self.folds) + (
            np.arange(self.folds) < self.rows % self.folds
        )

    def __len__(self) -> int:
        return self.folds

    def __getitem__(self, fold: Any) -> Any:
        if not 0 <= fold < self.folds:
            raise IndexError(fold)
        sizes = self.sizes
        start = int(sizes[:fold].sum())
        stop = start + int(sizes[fold])
        train = np.concatenate([np.arange(start), np.arange(stop, self.rows)])
        return train, np.arange(start, stop)

    def repeat(self) -> Repeat:
        """The folds as atoms."""
        small = np.uint8 if self.folds <= 256 else np.int64
        roles = np.where(np.eye(self.folds, dtype=bool), TEST, TRAIN)
        return Repeat(np.repeat(np.arange(self.folds, dtype=small), self.sizes), roles)


def gather(splits: Iterable[Split], count: int) -> list[Repeat]:
    """Gather splits of ``count`` rows into repeats, and rows into atoms."""
    if isinstance(splits, ConsecutiveFolds):
        return [splits.repeat()]
    splits = iter(splits)
    codes, repeats = _first_repeats(islice(splits, TOGETHER), count)
    small = np.uint8 if max(len(repeat.roles) for repeat in repeats) <= 256 else np.int64
    repeats = [Repeat(repeat.atom.astype(small)[codes], repeat.roles) for repeat in repeats]
    for train, test in splits:
        role = np.zeros(count, dtype=np.uint8)
        _mark(role, train, TRAIN)
        _mark(role, test, TEST)
        sizes = np.array([np.count_nonzero(role == r) for r in range(ROLES)])
        _check_no_repeats(sizes, train, test)
        _join(repeats, role, int(np.count_nonzero(sizes)))
    return repeats


def _first_repeats(splits: Iterator[Split], count: int) -> tuple[np.ndarray, list[Repeat]]:
    """The number of each row's roles among those that occur; and the repeats, with an atom for each
    such number.
    """
    packed = np.zeros(count, dtype=np.uint16)
    parts = []
    for number, (train, test) in enumerate(splits):
        _mark(packed, train, TRAIN << BITS * number)
        _mark(packed, test, TEST << BITS * number)
        parts.append((train, test))
    if not parts:
        raise InputError("cv gives no splits.")
    rows = np.bincount(packed, minlength=1)
    used = np.flatnonzero(rows)
    roles = (used[:, None] >> BITS * np.arange(len(parts)) & (ROLES - 1)).astype(np.uint8)
    repeats: list[Repeat] = []
    for role, part in zip(roles.T, parts, strict=True):
        sizes = np.bincount(role, weights=rows[used], minlength=ROLES).astype(np.int64)
        _check_no_repeats(sizes, *part)
        _join(repeats, role, int(np.count_nonzero(sizes)))
    place = np.zeros(int(used[-1]) + 1, dtype=np.uint16)
    place[used] = np.arange(len(used))
    return place[packed], repeats


def _join(repeats: list[Repeat], role: np.ndarray, kinds: int) -> None:
    """One more split, of so many kinds of rows: joined to the last repeat, or a new one."""
    if repeats:
        joined = _refined(repeats[-1], role)
        if len(joined.roles) - len(repeats[-1].roles) <= kinds:
            repeats[-1] = joined
            return
    repeats.append(_refined(Repeat(np.zeros_like(role), np.empty((1, 0), dtype=np.int64)), role))


def _refined(repeat: Repeat, role: np.ndarray) -> Repeat:
    """The atoms after one more split."""
    parents = len(repeat.roles)
    small = np.uint8 if ROLES * parents <= 256 else np.int64
    code = ROLES * repeat.atom.astype(small) + role
    used = np.bincount(code, minlength=ROLES * parents) > 0
    codes = np.flatnonzero(used)
    number = (np.cumsum(used) - 1).astype(small)
    return Repeat(number[code], np.hstack([repeat.roles[codes // ROLES], codes[:, None] % ROLES]))


def _mark(codes: np.ndarray, chosen: Any, bit: int) -> None:
    """Set a bit of the rows that a part of a split names, by a mask or by positions."""
    chosen = np.asarray(chosen)
    if chosen.dtype != bool and len(chosen):
        ends = np.flatnonzero(chosen[1:] - chosen[:-1] != 1) + 1
        if len(ends) < RUNS and chosen.min() >= 0 and chosen.max() < len(codes):
            for start, stop in zip([0, *ends], [*ends, len(chosen)], strict=True):
                codes[chosen[start] : chosen[stop - 1] + 1] |= bit
            return
    marked = np.zeros_like(codes)
    marked[chosen] = bit
    codes |= marked


def _check_no_repeats(sizes: np.ndarray, train: Any, test: Any) -> None:
    """Raise if a part names more rows than have its role."""
    in_both = sizes[TRAIN | TEST]
    if sizes[TRAIN] + in_both != _size(train) or sizes[TEST] + in_both != _size(test):
        raise InputError("A split names a row twice; give the row a sample_weight instead.")


def _size(chosen: Any) -> int:
    chosen = np.asarray(chosen)
    return int(np.count_nonzero(chosen)) if chosen.dtype == bool else len(chosen)
