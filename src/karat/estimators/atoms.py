"""Atoms: sets of rows that all splits treat alike.

Every split gives a row one of four roles: in the training part, in the test part, in neither, in both.  Rows with the same
roles in all splits form an *atom*; for k-fold the atoms are the folds, for expanding windows the segments.

Repeated splits would multiply atoms (k^r of them), so splits are gathered into repeats: a split joins the current repeat while
it adds no more atoms than it would need on its own, else a new repeat begins.

This is a pass over all rows per split, so it must cost little beside a coreset: the roles of a row in the first splits are two
bits each of one small number, runs of consecutive rows are marked as slices, and repeats are gathered from the few different
numbers that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from karat.errors import InputError

Split = tuple[np.ndarray, np.ndarray]
ROLES = 4
TRAIN, TEST = 1, 2
BITS = 2  # of a role
TOGETHER = 8  # roles that one number of 16 bits holds
RUNS = 8  # runs of rows up to which they are marked one by one


@dataclass(frozen=True)
class Repeat:
    """Atoms of a run of splits: the atom of each row, and the role of each atom (rows) in each split (columns)."""

    atom: np.ndarray
    roles: np.ndarray


@dataclass(frozen=True)
class ConsecutiveFolds(Sequence[Split]):
    """The splits of ``KFold(folds)`` without shuffling: folds of consecutive rows, the first ones larger by one row."""

    rows: int
    folds: int

    @property
    def sizes(self) -> np.ndarray:
        return np.full(self.folds, self.rows // self.folds) + (np.arange(self.folds) < self.rows % self.folds)

    def __len__(self) -> int:
        return self.folds

    def __getitem__(self, fold: Any) -> Any:
        if not 0 <= fold < self.folds:
            raise IndexError(fold)
        sizes = self.sizes
        start = int(sizes[:fold].sum())
        stop = start + int(sizes[fold])
        return np.concatenate([np.arange(start), np.arange(stop, self.rows)]), np.arange(start, stop)

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
    """The number of each row's roles among those that occur; and the repeats, with an atom for each such number."""
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
    both = sizes[TRAIN | TEST]
    if sizes[TRAIN] + both != _size(train) or sizes[TEST] + both != _size(test):
        raise InputError("A split names a row twice; give the row a sample_weight instead.")


def _size(chosen: Any) -> int:
    chosen = np.asarray(chosen)
    return int(np.count_nonzero(chosen)) if chosen.dtype == bool else len(chosen)
