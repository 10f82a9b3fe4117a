"""Poorly connected panels: every level mean of what is left must vanish, which the rows say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import karat

SIZE = 400


def chain(rng):
    worker = np.repeat(np.arange(SIZE), 3)
    return worker, np.minimum(worker + np.tile([0, 1, 1], SIZE), SIZE - 1)


def ring(rng):
    worker = np.repeat(np.arange(SIZE), 3)
    return worker, (worker + np.tile([0, 1, 1], SIZE)) % SIZE


def grid(rng):
    places = np.arange(900).reshape(30, 30)
    right = np.stack([places[:, :-1].ravel(), places[:, 1:].ravel()], 1)
    down = np.stack([places[:-1].ravel(), places[1:].ravel()], 1)
    edges = np.concatenate([right, down])
    return np.repeat(np.arange(len(edges)), 2), edges.ravel()


def local_movers(rng):
    home = rng.integers(0, SIZE, 3 * SIZE)
    away = (home + rng.integers(-2, 3, 3 * SIZE)) % SIZE
    worker = np.repeat(np.arange(3 * SIZE), 4)
    return worker, np.where(np.tile([0, 0, 1, 1], 3 * SIZE), away[worker], home[worker])


def well_connected(rng):
    return rng.integers(0, 2000, 12_000), rng.integers(0, SIZE, 12_000)


def third(rng):
    worker, employer = local_movers(rng)
    return worker, employer, rng.integers(0, 9, len(worker))


@pytest.mark.filterwarnings("ignore:.*singletons:UserWarning")
@pytest.mark.parametrize("graph", [chain, ring, grid, local_movers, well_connected, third])
def test_hard_graphs(graph):
    rng = np.random.default_rng(1)
    codes = graph(rng)
    n = len(codes[0])
    drift = np.cumsum(rng.standard_normal((codes[1].max() + 1, 2)), axis=0)[codes[1]]
    x = rng.standard_normal((n, 2)) + drift
    data = pd.DataFrame({"y": x @ [1, 2] + rng.standard_normal(n), "x1": x[:, 0], "x2": x[:, 1]})
    names = ["a", "b", "c"][: len(codes)]
    data[names] = np.stack(codes, axis=1)
    fit = karat.ols(f"y ~ x1 + x2 | {' + '.join(names)}", data)
    model = fit.model
    z = data[["x1", "x2", "y"]].to_numpy() - model.shift
    kept = np.ones(n, dtype=bool)
    for name, levels, values, counts in zip(
        names, model.levels, model.absorbed.values, model.counts, strict=True
    ):
        code = levels.find([data[name].to_numpy()])
        z -= values[code]
        kept &= counts[code] > 0
    z = z[kept]
    assert len(z) == fit.nobs
    for name in names:
        means = pd.DataFrame(z).groupby(data[name].to_numpy()[kept]).mean().abs().to_numpy()
        assert (means / z.std(axis=0)).max() < 1e-9
    b = np.linalg.lstsq(z[:, :2], z[:, 2], rcond=None)[0]
    assert np.abs((fit.params - b) / fit.bse).max() < 1e-11
    assert fit.level_mean < 1e-9
