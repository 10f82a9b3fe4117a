"""exact_cv: atoms, repeats, and what comes back."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

import karat
from karat.estimators.folds import gather


def atoms_and_repeats(cv, n=240):
    repeats = gather(cv.split(np.zeros(n)), n)
    return [len(r.roles) for r in repeats]


def test_atoms():
    assert atoms_and_repeats(KFold(5)) == [5]
    assert atoms_and_repeats(TimeSeriesSplit(4)) == [5]
    assert atoms_and_repeats(RepeatedKFold(n_splits=4, n_repeats=3, random_state=0)) == [4, 4, 4]
    # as small, in one piece
    assert atoms_and_repeats(RepeatedKFold(n_splits=2, n_repeats=2, random_state=0)) == [4]
    assert sum(atoms_and_repeats(ShuffleSplit(6, random_state=0))) <= 12


@pytest.mark.parametrize(
    "cv",
    [KFold(4), TimeSeriesSplit(3), RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)],
    ids=str,
)
def test_every_part_is_kept(cv, blobs):
    X, y, w = blobs
    folds = karat.exact_cv(X, y, cv=cv, sample_weight=w)
    splits = list(cv.split(X))
    assert len(folds.cv) == len(splits)
    Z = np.column_stack([np.ones(len(y)), X, y])
    kept = np.column_stack([np.ones(len(folds.core)), folds.core.X, folds.core.y])
    for ours, theirs in zip(folds.cv, splits, strict=True):
        for mine, full in zip(ours, theirs, strict=True):
            exact = (Z[full].T * w[full]) @ Z[full]
            np.testing.assert_allclose(
                (kept[mine].T * folds.core.weights[mine]) @ kept[mine], exact, rtol=1e-10
            )
    assert folds.refit.weights.sum() == pytest.approx(w.sum(), rel=1e-12)
    assert folds.core.certificate.ok


def test_refitting_on_stacked_repeats_would_be_wrong(blobs):
    """Written R times, the data outweighs the penalty R times: that is why refit comes apart."""
    X, y, _ = blobs
    folds = karat.exact_cv(X, y, cv=RepeatedKFold(n_splits=4, n_repeats=3, random_state=0))
    full = Ridge(1e4).fit(X, y).coef_
    right = Ridge(1e4).fit(folds.refit.X, folds.refit.y, sample_weight=folds.refit.weights).coef_
    wrong = Ridge(1e4).fit(folds.core.X, folds.core.y, sample_weight=folds.core.weights).coef_
    np.testing.assert_allclose(right, full, rtol=1e-10)
    assert np.abs(wrong / full - 1).max() > 0.05
    assert folds.core.n_rows == 3 * len(y)
    assert "once per repeat" in str(folds.core.certificate)


def test_rows_of_zero_weight_and_overlapping_parts(blobs):
    X, y, w = blobs
    w = np.where(np.arange(len(y)) % 5 == 0, 0.0, w)
    half = np.arange(len(y)) < 2500
    # a mask, and 500 rows in both parts
    folds = karat.exact_cv(X, y, cv=[(half, np.arange(2000, 4000))], sample_weight=w)
    train, test = folds.cv[0]
    assert folds.core.weights[train].sum() == pytest.approx(w[half].sum(), rel=1e-12)
    assert folds.core.weights[test].sum() == pytest.approx(w[2000:].sum(), rel=1e-12)
