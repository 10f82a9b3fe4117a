"""Rows of a shop: sales by region and day."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat

FEATURES = ["size", "price", "count"]


def sales(n=24_000, days=20, seed=0, start="2026-01-20"):
    """Rows in random order; ``count`` is an integer, ``units`` a weight, ``id`` a key."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "size": rng.standard_normal(n) + 3,
        "price": np.exp(rng.standard_normal(n)),
        "count": rng.integers(0, 9, n),
        "units": rng.uniform(0.5, 2.0, n),
        "id": np.arange(n) + 1000,
        "region": rng.choice(["EU", "US", "AP"], n),
        "day": np.datetime64(start) + rng.integers(0, days, n),
    })  # fmt: skip
    slope = frame.region.map({"EU": 1.0, "US": 1.0, "AP": 4.0}) + frame.day.dt.day / 50
    frame["y"] = (
        slope * frame["size"] - 2 * frame.price + frame["count"] / 3 + rng.standard_normal(n)
    )
    return frame


def labelled_rows(labels, seed=0, each=10):
    """Some rows of every label ``k``."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"a": rng.standard_normal(each * len(labels)), "y": rng.standard_normal(each * len(labels))}
    )
    frame["k"] = pd.Series(labels).repeat(each).reset_index(drop=True)
    return frame


@pytest.fixture(scope="session")
def frame():
    return sales()


@pytest.fixture(params=["synthetic", "real"])
def cube(frame, request):
    by = ["region", "day"]
    return karat.cube(frame, target="y", by=by, columns=FEATURES, key="id", rows=request.param)


def slice_of(frame, mask):
    """The rows of a slice in the order of their cells, as a cube numbers them."""
    return frame[mask].sort_values(["region", "day"], kind="stable")


def proves(core, rows, weights=None):
    """The coreset is exact for these rows, and its rows are among them where it says."""
    proof = core.verify(rows[FEATURES], rows["y"], sample_weight=weights)
    assert proof.ok, str(proof)
    assert not proof.notes
    assert core.certificate.ok
    assert core.n_rows == len(rows)
