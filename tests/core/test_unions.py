"""Rows of several coresets put together inherit every field of their certificates, in whatever order they come."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.model_selection import RepeatedKFold

import karat
from karat import Certificate
from karat._core.certify import PROOF_VERSION
from karat._core.unions import certify_union, union_certificate
from karat.problems import LeastSquares

PROBLEM = LeastSquares()
GOOD = Certificate(
    1e-13, 1e-14, 0.1, 1e-14, 1e-15, 5, 9, 9, 2.0, (), "onepass", 1, 0.5, PROBLEM.keeps, PROBLEM.excludes, 100
)  # fmt: skip
WORSE = {
    "loss_error": 1e-12, "rounding": 1e-13, "remainder": 0.9, "moment_error": 1e-12, "total_error": 1e-13,
    "condition": 1e6, "passes": 3, "power": 4, "refuted": True, "spent": 2.0, "inflation": 7.0, "spread": 1e5,
    "proof_version": PROOF_VERSION - 1, "in_columns": True, "standard_errors": None,
    "keeps": "the loss of every query (not R2)", "levels": 0,
}  # fmt: skip
ADDED = {"rank": 7, "size": 12, "bound": 13, "seconds": 1.5, "n_rows": 900, "peeled": 3}
LISTED = {"excluded_directions": (1e-17,), "notes": ("A remark.",)}


def test_every_field_has_a_rule():
    assert {f.name for f in fields(Certificate)} == {*WORSE, *ADDED, *LISTED, "method", "excludes"}


@pytest.mark.parametrize("name", [*WORSE, *ADDED, *LISTED, "method"])
@pytest.mark.parametrize("backwards", [False, True])
def test_what_a_union_inherits(name, backwards):
    value = ({"method": "tree"} | WORSE | ADDED | LISTED)[name]
    start = replace(GOOD, standard_errors=0.1, levels=2)
    parts = [start, replace(start, **{name: value})]
    found = getattr(union_certificate(parts[::-1] if backwards else parts, PROBLEM), name)
    expected = value if name not in ADDED else value + getattr(start, name)
    assert found == ("onepass and tree" if name == "method" else expected)


@pytest.mark.parametrize("name", ["loss_error", "remainder", "refuted", "spread", "proof_version", "spent"])
def test_what_a_coreset_of_coresets_inherits(name):
    """Before, a coreset of refuted coresets was not refuted."""
    core = karat.coreset(np.random.default_rng(0).standard_normal((50, 2)), problem=karat.problems.Moments(2))
    parts = [core, replace(core, certificate=replace(core.certificate, **{name: WORSE[name]}))]
    found = getattr(certify_union(GOOD, parts, ()), name)
    added = {"loss_error": GOOD.loss_error, "spent": GOOD.spent}
    assert found == WORSE[name] + added.get(name, 0)


def test_repeats_of_splits():
    """Before, what repeats made of the data was claimed with the rounding, directions, peeled rows, ... of one of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3))
    X = np.column_stack([X, X[:, 0] + X[:, 1]])  # a direction that vanishes
    X[7] *= 1e6  # a row that is kept verbatim
    y = X @ [1.0, 2.0, 3.0, 0.0] + rng.standard_normal(900)
    folds = karat.exact_cv(X, y, cv=RepeatedKFold(n_splits=4, n_repeats=3, random_state=0))
    whole, core = folds.core.certificate, folds.core
    one = folds.refit.certificate
    assert core.n_rows == whole.n_rows == 2700
    assert whole.size == len(core)
    assert len(whole.excluded_directions) == 12
    assert whole.peeled > one.peeled >= 1
    assert whole.standard_errors is None
    assert whole.levels == 0
    assert whole.loss_error >= one.loss_error
    assert whole.rounding >= one.rounding
    assert whole.spent >= one.spent
    assert whole.remainder >= one.remainder
    assert whole.inflation >= one.inflation
    assert whole.spread >= one.spread
    assert whole.ok
    assert core.verbatim is None or len(core.verbatim) == len(core)
