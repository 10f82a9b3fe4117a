"""Groups of rows that are unpleasant in one way each, for the tests of stacks of groups."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Group = tuple[np.ndarray, np.ndarray]  # rows (n, c), weights (n,)


def _plain(rng: np.random.Generator, n: int, c: int) -> np.ndarray:
    return rng.standard_normal((n, c)) @ (np.eye(c) + 0.5 * rng.standard_normal((c, c)))


def _ones(table: np.ndarray) -> Group:
    return table, np.ones(len(table))


def normal(rng, n, c):
    return _ones(_plain(rng, n, c))


def far_from_zero(rng, n, c):
    return _ones(_plain(rng, n, c) + 10.0 ** rng.uniform(0, 9, c))


def scales(rng, n, c):
    return _ones(_plain(rng, n, c) * 10.0 ** rng.uniform(-12, 12, c))


def cauchy(rng, n, c):
    return _ones(rng.standard_cauchy((n, c)))


def pareto(rng, n, c):
    return _ones(rng.pareto(0.7, (n, c)) * rng.choice([-1.0, 1.0], (n, c)))


def lognormal(rng, n, c):
    return _ones(np.exp(3 * rng.standard_normal((n, c))))


def collinear(rng, n, c):
    table = _plain(rng, n, c)
    table[:, -1] = table[:, 0] - 2 * table[:, 1]
    return _ones(table)


def nearly_collinear(rng, n, c):
    table = _plain(rng, n, c)
    table[:, -1] = table[:, 0] + 10.0 ** rng.uniform(-14, -1) * rng.standard_normal(n)
    return _ones(table)


def constant(rng, n, c):
    table = _plain(rng, n, c)
    table[:, rng.integers(c)] = rng.choice([0.0, 0.1, -1e9, 3.0, 1 / 3])
    return _ones(table)


def several_constants(rng, n, c):
    table = _plain(rng, n, c)
    table[:, : c - 1] = rng.standard_normal(c - 1)
    return _ones(table)


def nearly_constant(rng, n, c):
    table = _plain(rng, n, c)
    table[:, 0] = 5.0
    table[rng.integers(n), 0] += 10.0 ** rng.uniform(-15, 0)
    return _ones(table)


def all_rows_equal(rng, n, c):
    return _ones(np.tile(rng.standard_normal(c), (n, 1)))


def duplicates(rng, n, c):
    table = _plain(rng, n, c)
    return _ones(table[rng.integers(0, max(1, n // 5), n)])


def zeros_and_ones(rng, n, c):
    table = _plain(rng, n, c)
    table[:, : c // 2] = rng.integers(0, 2, (n, c // 2))
    return _ones(table)


def one_hot(rng, n, c):
    table = np.zeros((n, c))
    table[np.arange(n), rng.integers(0, c - 1, n)] = 1.0
    table[:, -1] = rng.standard_normal(n)
    return _ones(table)


def as_integers(rng, n, c):
    return _ones(rng.integers(-3, 4, (n, c)).astype(float))


def weights_of_many_magnitudes(rng, n, c):
    return _plain(rng, n, c), 10.0 ** rng.uniform(-12, 12, n)


def one_heavy_weight(rng, n, c):
    weights = np.ones(n)
    weights[rng.integers(n)] = 10.0 ** rng.uniform(0, 16)
    return _plain(rng, n, c), weights


def one_huge_row(rng, n, c):
    table = _plain(rng, n, c)
    table[rng.integers(n)] *= 10.0 ** rng.uniform(0, 12)
    return _ones(table)


def rare_column(rng, n, c):
    table = _plain(rng, n, c)
    table[:, 0] = 0.0
    table[rng.integers(n), 0] = 10.0 ** rng.uniform(-9, 9)
    return _ones(table)


def extreme(rng, n, c):
    table = _plain(rng, n, c)
    table[:, 0] *= 10.0 ** rng.choice([-150.0, -30.0, 30.0, 100.0])
    return _ones(table)


def trend(rng, n, c):
    table = np.sort(_plain(rng, n, c), axis=0)
    table[:, 0] = 1.6e9 + np.arange(n)
    return _ones(table)


HOSTILE: dict[str, Callable[[np.random.Generator, int, int], Group]] = {
    f.__name__: f
    for f in (
        normal,
        far_from_zero,
        scales,
        cauchy,
        pareto,
        lognormal,
        collinear,
        nearly_collinear,
        constant,
        several_constants,
        nearly_constant,
        all_rows_equal,
        duplicates,
        zeros_and_ones,
        one_hot,
        as_integers,
        weights_of_many_magnitudes,
        one_heavy_weight,
        one_huge_row,
        rare_column,
        extreme,
        trend,
    )
}
