"""Atoms of splits: equal to those found by comparing rows one by one."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

from karat import InputError
from karat.estimators.folds import TEST, TRAIN, ConsecutiveFolds, gather


@pytest.mark.parametrize(("count", "folds"), [(10, 2), (11, 3), (1000, 7), (300, 300), (5, 5)])
def test_consecutive_folds_are_those_of_kfold(count, folds):
    mine, theirs = ConsecutiveFolds(count, folds), list(KFold(folds).split(np.zeros(count)))
    for (train, test), (their_train, their_test) in zip(mine, theirs, strict=True):
        assert np.array_equal(train, their_train)
        assert np.array_equal(test, their_test)
    (quick,), (slow,) = gather(mine, count), gather(theirs, count)
    assert _sets(quick, count) == _sets(slow, count)


def _sets(repeat, count):
    """Atoms as sets of rows, with their roles."""
    return {
        (frozenset(np.flatnonzero(repeat.atom == a).tolist()), tuple(repeat.roles[a]))
        for a in range(len(repeat.roles))
    }


@pytest.mark.parametrize(
    "cv",
    [
        KFold(5, shuffle=True, random_state=0),
        KFold(20),
        TimeSeriesSplit(12),
        RepeatedKFold(n_splits=4, n_repeats=5, random_state=1),
        ShuffleSplit(11, test_size=0.3, random_state=0),
    ],
    ids=str,
)
def test_roles_of_every_row(cv):
    splits = list(cv.split(np.zeros(240)))
    repeats = gather(splits, 240)
    roles = np.hstack([repeat.roles[repeat.atom] for repeat in repeats])
    expected = np.zeros((240, len(splits)), dtype=int)
    for number, (train, test) in enumerate(splits):
        expected[train, number] |= TRAIN
        expected[test, number] |= TEST
    assert np.array_equal(roles, expected)
    for repeat in repeats:
        assert len(np.unique(repeat.roles, axis=0)) == len(repeat.roles)


def test_masks_overlaps_and_errors():
    mask = np.arange(20) < 8
    (repeat,) = gather([(~mask, mask), (np.arange(20), np.arange(5))], 20)
    assert len(repeat.roles) == 3
    with pytest.raises(InputError, match="twice"):
        gather([(np.array([0, 1, 1]), np.array([2]))], 4)
    with pytest.raises(InputError, match="twice"):
        gather([(np.arange(3), np.array([3]))] * 9 + [(np.array([0, 0]), np.array([3]))], 4)
    with pytest.raises(InputError, match="no splits"):
        gather([], 4)
    with pytest.raises(IndexError):
        gather([(np.arange(3), np.array([7]))], 4)
