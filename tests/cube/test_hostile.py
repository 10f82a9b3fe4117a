"""Cells that cannot be reduced with a proof keep all their rows; the cube stays exact, through
updates, files and merges.
"""

import math

import numpy as np
import pandas as pd
import pytest

import karat

FEATURES = ["a", "b", "c"]


def tails(each, seed, cells=3, power=0.2):
    """Rows of Pareto's distribution: the largest is many orders of magnitude above the others."""
    rng = np.random.default_rng(seed)
    n = each * cells
    frame = pd.DataFrame(rng.pareto(power, (n, 3)), columns=FEATURES)
    return frame.assign(
        y=frame.sum(axis=1) + rng.standard_normal(n),
        w=np.exp(rng.standard_normal(n)),
        k=np.repeat(np.arange(cells), each),
    )


def scales(each, seed):
    """Rows of sizes from 1e-8 to 1e8."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        rng.standard_normal((each * 3, 3)) * 10.0 ** rng.integers(-8, 8, (each * 3, 1)),
        columns=FEATURES,
    )
    y = frame.sum(axis=1) + rng.standard_normal(len(frame))
    return frame.assign(
        y=y, w=np.exp(2 * rng.standard_normal(len(frame))), k=np.repeat(np.arange(3), each)
    )


def same_moments(core, rows):
    """Second moments by exact sums of products: off by no more than the certificate says, which is
    little.

    A loss of relative error e has ``|E_ij| <= e sqrt(M_ii M_jj)``, with E the error of the second
    moments M.
    """
    X, y = core.arrays()
    kept = np.column_stack([np.ones(len(y)), X, y])
    full = np.column_stack([np.ones(len(rows)), rows[FEATURES], rows["y"]])
    weights = rows["w"].to_numpy()
    assert core.certificate.loss_error <= 1e-8
    allowed = core.certificate.loss_error + 2 * core.certificate.rounding
    size = [math.sqrt(math.fsum(weights * column**2)) for column in full.T]
    for i in range(5):
        for j in range(i, 5):
            mine, all_rows = (
                math.fsum(core.weights * kept[:, i] * kept[:, j]),
                math.fsum(weights * full[:, i] * full[:, j]),
            )
            assert abs(mine - all_rows) <= allowed * size[i] * size[j]


@pytest.mark.parametrize("make", [tails, scales])
def test_updates_of_hostile_cells(make, tmp_path):
    path = tmp_path / "cube.parquet"
    rows = [make(each, seed) for seed, each in enumerate((200, 3, 100))]
    cube = karat.cube(rows[0], target="y", by="k", columns=FEATURES, sample_weight="w", path=path)
    for more in rows[1:]:
        cube.update(more)
        assert all(certificate.ok for certificate in cube.cells.certificates)
    loaded = karat.Cube.load(path)
    everything = pd.concat(rows)
    for k in (0, 1, 2):
        for reduce in (False, True):
            core = loaded.select(k=k, reduce=reduce)
            assert core.certificate.ok
            same_moments(core, everything[everything.k == k])
    same_moments(loaded.select(reduce=True), everything)
    for _, core in loaded.rolling("k", 2):
        assert core.certificate.ok
    other = karat.cube(make(50, 9), target="y", by="k", columns=FEATURES, sample_weight="w")
    same_moments(loaded.merge(other).select(), pd.concat([*rows, make(50, 9)]))


def test_wild_rows_of_cells_are_kept_apart():
    rows = tails(1500, 0)
    cube = karat.cube(rows, target="y", by="k", columns=FEATURES, sample_weight="w")
    assert all(certificate.ok for certificate in cube.cells.certificates)
    assert all(
        certificate.peeled or certificate.levels == 2 for certificate in cube.cells.certificates
    )
    for k in (0, 1, 2):
        same_moments(cube.select(k=k), rows[rows.k == k])
