"""The proof in twice the precision says what rows are off by; judged in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from karat.engine.precise_proof import prove_precisely
from karat.engine.rows import Rows
from karat.engine.synthetic import synthesise


def offset(rng, rows, weights):
    rows += 1e6


def unix(rng, rows, weights):
    rows[:, 0] = 1.7e9 + 1e5 * rows[:, 0]


def near(rng, rows, weights):
    rows[:, 0] = rows[:, 1] + 1e-4 * rows[:, 0]


def heavy(rng, rows, weights):
    weights *= np.exp(6 * rng.standard_normal(len(weights)))


def tails(rng, rows, weights):
    rows[...] = np.exp(4 * rows)


def scales(rng, rows, weights):
    rows *= [1e-90, 1.0, 1e90]
    weights *= 1e60


def constant(rng, rows, weights):
    rows[:, 1] = 4.7


KINDS = [None, offset, unix, near, heavy, tails, scales, constant]


def data(kind, seed, count=40):
    rng = np.random.default_rng(seed)
    rows, weights = rng.standard_normal((count, 3)), rng.uniform(0.5, 2.0, count)
    if kind is not None:
        kind(rng, rows, weights)
    return rows, weights


def moments(rows, weights, shift):
    """Exact second moments of (1, rows - shift)."""
    exact = [
        [Fraction(1), *(Fraction(x) - s for x, s in zip(row, shift, strict=True))]
        for row in rows.tolist()
    ]
    return [
        [
            sum(Fraction(w) * z[i] * z[j] for w, z in zip(weights.tolist(), exact, strict=True))
            for j in range(len(exact[0]))
        ]
        for i in range(len(exact[0]))
    ]


def rational_error(rows, weights, kept, kept_weights):
    """The largest relative error of the loss, over every query."""
    total = sum(map(Fraction, weights.tolist()))
    shift = [
        sum(Fraction(w) * Fraction(x) for w, x in zip(weights.tolist(), column, strict=True))
        / total
        for column in rows.T.tolist()
    ]
    before, after = moments(rows, weights, shift), moments(kept, kept_weights, shift)
    alive = [i for i in range(len(before)) if after[i][i] and before[i][i]]
    size = [float(before[i][i] / total) ** 0.5 for i in alive]
    whole, change = (
        np.array(
            [
                [float(entry(i, j) / total) / a / b for j, b in zip(alive, size, strict=True)]
                for i, a in zip(alive, size, strict=True)
            ]
        )
        for entry in (lambda i, j: before[i][j], lambda i, j: after[i][j] - before[i][j])
    )
    inverse = np.linalg.inv(np.linalg.cholesky(whole))
    return np.abs(np.linalg.eigvalsh(inverse @ change @ inverse.T)).max()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_error_is_what_the_rows_are_off_by(kind, seed):
    rows, weights = data(kind, seed)
    made = synthesise(Rows([rows], weights), 0, levels=False, sharp=True)
    proof = prove_precisely(rows, weights, made.values, made.weights)
    if kind is constant:  # exactly that value, so that there is no such direction
        assert (made.values[:, 1] == 4.7).all()
    true = rational_error(rows, weights, made.values, made.weights)
    assert true * (1 - 1e-9) <= proof.loss_error <= 1.01 * true + 1e-20
    assert (proof.rounding, proof.remainder) == (0.0, 0.0)


@pytest.mark.parametrize("kind", [None, offset, heavy])
@pytest.mark.parametrize("size", [1e-15, 1e-12, 1e-9, 1e-3])
def test_spoilt_rows_are_measured(kind, size):
    rows, weights = data(kind, 7)
    made = synthesise(Rows([rows], weights), 0, levels=False, sharp=True)
    for values, masses in (
        (made.values, made.weights * np.where(np.arange(len(made.weights)) == 1, 1 + size, 1)),
        (made.values + size * np.eye(*made.values.shape), made.weights),
    ):
        proof = prove_precisely(rows, weights, values, masses)
        true = rational_error(rows, weights, values, masses)
        assert true * (1 - 1e-9) <= proof.loss_error <= 1.1 * true + 1e-20


def test_many_rows():
    """More rows than one exact product may have."""
    rows, weights = data(unix, 0, 1300)
    made = synthesise(Rows([rows], weights), 0, levels=False, sharp=True)
    true = rational_error(rows, weights, made.values, made.weights)
    proof = prove_precisely(rows, weights, made.values, made.weights)
    assert true * (1 - 1e-9) <= proof.loss_error <= 1.01 * true + 1e-20


def test_what_it_does_not_prove():
    """A direction that the rows do not have, a column that only kept rows have, and NaN."""
    rows, weights = data(None, 0)
    made = synthesise(Rows([rows], weights), 0, levels=False, sharp=True)
    copies = [np.column_stack([part, part[:, 0]]) for part in (rows, made.values)]
    copies[1][0, 3] = np.nextafter(copies[1][0, 3], np.inf)
    assert prove_precisely(copies[0], weights, copies[1], made.weights) is None
    flat = [np.column_stack([part, np.zeros(len(part))]) for part in (rows, made.values)]
    assert prove_precisely(flat[0], weights, flat[1], made.weights).ok
    flat[1][0, 3] = 1e-300
    assert prove_precisely(flat[0], weights, flat[1], made.weights) is None
    rows[3, 1] = np.nan
    assert prove_precisely(rows, weights, made.values, made.weights) is None
