"""Four hundred panels against what ``feols`` gave for them, and against indicators in long double.

``references.json`` was written by ``make_references.py``.  ``make test`` runs one in eight.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from panels.dummies import Dummies
from panels.made import COUNT, NAMES, Panel, panel

import karat

PLACE = Path(__file__).with_name("references.json")
TOLERANCE = 1e-10  # of standard errors


@cache
def references() -> dict:
    return json.loads(PLACE.read_text(encoding="utf-8"))


def fitted(made: Panel, cluster: str | tuple[str, ...], **options):
    """The fit of a panel, with three covariances."""
    return karat.ols(
        made.formula,
        pd.DataFrame(made.columns()),
        cov_type=["nonrobust", "HC1", "cluster"],
        cluster=[cluster] if isinstance(cluster, str) else list(cluster),
        weights=None if made.weights is None else "w",
        **options,
    )


def symmetric(lower: list[float], k: int) -> np.ndarray:
    matrix = np.zeros((k, k))
    matrix[np.tril_indices(k)] = lower
    return matrix + np.tril(matrix, -1).T


def not_negative(matrix: np.ndarray) -> np.ndarray:
    """As it is, or without negative eigenvalues if a variance is negative: what fixest does and
    pyfixest leaves out.
    """
    if (np.diag(matrix) >= 0).all():
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def distance(found, expected, classical) -> float:
    """The largest difference of covariances, in units of their own errors; those of combinations
    whose variance nearly vanishes in units of a thousandth of the classical errors.
    """
    floor = 1e-6 * np.diag(classical)
    errors = np.sqrt(np.maximum(np.abs(np.diag(expected)), floor))
    return float(np.abs((np.asarray(found) - expected) / np.outer(errors, errors)).max())


@pytest.mark.filterwarnings("ignore:.*are singletons, each alone:UserWarning")
@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(COUNT))
def test_panel(seed):
    made, stored = panel(seed), references()[str(seed)]
    k = len(stored["params"])
    assert (made.kind, made.digest()) == (stored["kind"], stored["digest"])
    matrices = {name: symmetric(stored[name], k) for name in ("iid", "HC1", "one_way", "two_ways")}
    one = fitted(made, made.two_ways[0])
    two = fitted(made, made.two_ways)
    errors = np.sqrt(np.diag(matrices["iid"]))
    oracle = Dummies(made.x, made.y, made.absorbed, made.weights)
    for fit in (one, two):
        assert int(fit.nobs) == stored["rows"]
        assert list(fit.params.index) == made.names
        assert np.abs((fit.params - stored["params"]) / errors).max() < TOLERANCE
        assert np.abs((fit.params - oracle.params) / errors).max() < TOLERANCE
    found = {
        "iid": one,
        "HC1": one.with_covariance("HC1"),
        "one_way": one.with_covariance("cluster"),
        "two_ways": two.with_covariance("cluster"),
    }
    for name, fit in found.items():
        expected = not_negative(matrices[name])
        assert distance(fit.cov_params(), expected, matrices["iid"]) < TOLERANCE, name
    assert abs(one.rsquared - stored["r2"]) < TOLERANCE
    assert abs(one.rsquared_within - stored["r2_within"]) < TOLERANCE


def test_all_kinds_and_negative_variances_are_among_the_references():
    kinds = [entry["kind"] for entry in references().values()]
    assert {name: kinds.count(name) for name in NAMES} == dict.fromkeys(NAMES, COUNT // len(NAMES))
    negative = [
        seed
        for seed, entry in references().items()
        if (np.diag(symmetric(entry["two_ways"], len(entry["params"]))) < 0).any()
    ]
    assert len(negative) >= 20
