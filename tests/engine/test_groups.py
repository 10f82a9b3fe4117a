"""Many groups in stacks: proven like one group, whatever the rows are."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import oracles
import pytest
from hostile_groups import HOSTILE

import karat
from karat.engine.group_weights import eliminate_groups, match_group_moments, reduce_group_points
from karat.engine.groups import in_stacks, reduce_many, rounded_up
from karat.engine.kernel import NonFiniteError
from karat.engine.powers import Powers
from karat.engine.proof import measure
from karat.engine.reduce import build
from karat.engine.rows import Rows
from karat.engine.tolerances import EPS

SIZES = (1, 2, 3, 5, 9, 20, 30, 60, 100, 200, 500)
KERNELS = {"affine": (True, True), "linear": (False, True), "linear without total": (False, False)}


@cache
def hostile(seed: int) -> tuple[Rows, np.ndarray, list[tuple[str, int]]]:
    """Groups of every kind and size, one after the other."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(2, 6))
    kinds = [(name, n) for name in HOSTILE for n in SIZES]
    made = [HOSTILE[name](rng, n, columns) for name, n in kinds]
    rows = Rows(
        [np.vstack([table for table, _ in made])], np.concatenate([weights for _, weights in made])
    )
    return rows, np.cumsum([0, *(n for _, n in kinds)]), kinds


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(2))
def test_stacks_claim_what_is_true(kernel, seed):
    """The claim holds by an oracle in extended precision, and is the one of the ordinary proof, or
    larger.
    """
    affine, total = KERNELS[kernel]
    rows, starts, kinds = hostile(seed)
    kept = dict(in_stacks(rows, starts, Powers(rows.columns, 2, affine=affine, total=total), 0))
    assert len(kept) > len(kinds) / 2
    assert {kinds[g][0] for g in kept} >= set(HOSTILE) - {"far_from_zero", "extreme"}
    for group, reduction in kept.items():
        group_rows = rows.run(starts[group], starts[group + 1])
        table, weights = group_rows.parts[0], group_rows.weights
        assert reduction.proof.ok
        assert (reduction.weights > 0).all()
        assert (np.diff(reduction.positions) > 0).all()
        assert len(reduction.positions) <= min(len(group_rows), reduction.fitted.kernel.width)
        white = oracles.whiten(table, weights, affine)
        error = oracles.square_error(white, table[reduction.positions], reduction.weights)
        # rho U^(1/2) S is at most that times f^(1/2); the oracle whitens in double precision
        change = (reduction.proof.rounding + 4 * EPS) * np.sqrt(white.rank) * white.condition
        assert error <= reduction.proof.loss_error + 2 * change + change**2, kinds[group]
        if total and not affine:
            assert (
                abs(reduction.weights.sum() / weights.sum() - 1)
                <= reduction.proof.loss_error + 8 * EPS
            )
        if reduction.method == "all rows":
            assert np.array_equal(reduction.weights, weights)
            continue
        block = group_rows.take(reduction.positions, reduction.fitted.kernel.shift)
        single = measure(group_rows, reduction.fitted, block, reduction.weights)
        assert single.ok
        # which has larger bounds on sums
        assert single.loss_error <= reduction.proof.loss_error + 8 * EPS, kinds[group]
        assert reduction.proof.condition == pytest.approx(single.condition, rel=1e-6)
        assert reduction.proof.derived == pytest.approx(single.derived, rel=0.2, abs=EPS)


@pytest.mark.parametrize("kind", HOSTILE)
def test_every_group_is_reduced_and_exact_in_rational_arithmetic(kind):
    """The claim at queries of all sizes, with both terms, in fractions; the groups that stacks
    leave are reduced by themselves.
    """
    rng = np.random.default_rng(3)
    sizes = (2, 7, 40, 90)
    made = [HOSTILE[kind](rng, n, 3) for n in sizes]
    starts = np.cumsum([0, *sizes])
    rows = Rows(
        [np.vstack([table for table, _ in made])], np.concatenate([weights for _, weights in made])
    )
    reductions = reduce_many(rows, starts, Powers(3, 2, affine=True))
    for (table, weights), reduction in zip(made, reductions, strict=True):
        assert reduction.proof.ok
        size = np.abs(table).max(axis=0)
        for _ in range(3):
            slope = rng.standard_normal(3) / np.where(size > 0, size, 1.0)
            query = [Fraction(float(z)) for z in (-slope @ table.mean(axis=0), *slope)]
            losses = [_loss(row, query) for row in table]
            u, w = ([Fraction(float(x)) for x in part] for part in (weights, reduction.weights))
            full = sum(a * b for a, b in zip(u, losses, strict=True))
            core = sum(a * losses[i] for a, i in zip(w, reduction.positions.tolist(), strict=True))
            sizes = [_size(table[:, j], u) for j in range(3)]
            change = reduction.proof.rounding * sum(
                abs(z) * s for z, s in zip(slope, sizes, strict=True)
            )
            assert abs(core - full) <= Fraction(reduction.proof.loss_error) * full + Fraction(
                2 * change * float(full) ** 0.5 + change**2
            )


def _loss(row: np.ndarray, query: list[Fraction]) -> Fraction:
    """(d.z)^2 of a row."""
    return (
        query[0] + sum(z * Fraction(float(x)) for z, x in zip(query[1:], row, strict=True))
    ) ** 2


def _size(column: np.ndarray, weights: list[Fraction]) -> float:
    """The norm of a column about its mean."""
    values = [Fraction(float(x)) for x in column]
    mean = sum(u * x for u, x in zip(weights, values, strict=True)) / sum(weights)
    return float(sum(u * (x - mean) ** 2 for u, x in zip(weights, values, strict=True))) ** 0.5


def test_sizes_are_those_of_the_ordinary_way():
    rows, starts, kinds = hostile(0)
    kernel = Powers(rows.columns, 2, affine=True)
    kept = dict(in_stacks(rows, starts, kernel, 0))
    for group in sorted(kept)[::5]:
        if kinds[group][0] != "weights_of_many_magnitudes":  # rows too light to be counted
            ordinary = build(rows.run(starts[group], starts[group + 1]), kernel, "auto", 0)
            assert len(kept[group].positions) <= len(ordinary.positions), kinds[group]


def test_larger_groups_have_a_pass_of_their_own():
    """Of well and badly conditioned columns, with a column that the pilot does not see, and a
    constant one.
    """
    rng = np.random.default_rng(0)
    tables = []
    for kind in range(6):
        table = rng.normal([0.0, 5.0, 100.0, 0.0], 1.0, (3000 + 17 * kind, 4))
        table[:, 3] = table[:, 0] + 10.0 ** -(kind / 2) * table[:, 3]
        if kind == 4:
            table[:, 1] = 7.1
        if kind == 5:
            table[:, 1] = 0.0
            table[1234, 1] = 1e-3
        tables.append(table)
    starts = np.cumsum([0, *map(len, tables)])
    order = rng.permutation(starts[-1])
    for weights in (None, rng.uniform(0.5, 2.0, starts[-1])):
        for index in (None, np.argsort(order)):
            data = np.vstack(tables)
            source, source_weights = (
                (data, weights)
                if index is None
                else (data[order], None if weights is None else weights[order])
            )
            rows = Rows([source], source_weights, index)
            for group, reduction in enumerate(reduce_many(rows, starts, Powers(4, 2, affine=True))):
                mine = slice(starts[group], starts[group + 1])
                mass = np.ones(len(tables[group])) if weights is None else weights[mine]
                white = oracles.whiten(tables[group], mass, True)
                error = oracles.square_error(
                    white, tables[group][reduction.positions], reduction.weights
                )
                assert reduction.proof.ok
                assert (
                    error
                    <= reduction.proof.loss_error
                    + 2
                    * (reduction.proof.rounding + 4 * EPS)
                    * np.sqrt(white.rank)
                    * white.condition
                )
                assert len(reduction.positions) <= 15


def test_groups_of_other_kernels_and_methods_are_reduced_by_themselves():
    rng = np.random.default_rng(0)
    rows, starts = Rows([rng.standard_normal((120, 2))]), np.array([0, 40, 80, 120])
    for kernel in (Powers(2, 4, affine=True), Powers(2, 2, affine=True)):
        for method in ("auto", "tree"):
            for reduction, start in zip(
                reduce_many(rows, starts, kernel, method), starts, strict=False
            ):
                alone = build(rows.run(int(start), int(start) + 40), kernel, method, 0)
                assert reduction.proof.ok
                assert len(reduction.positions) == len(alone.positions)
                if kernel.degree == 4 or method == "tree":
                    assert np.array_equal(reduction.weights, alone.weights)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_noticed(value):
    table = np.random.default_rng(0).standard_normal((100, 3))
    table[77, 1] = value
    with pytest.raises(NonFiniteError):
        reduce_many(Rows([table]), np.arange(0, 101, 20), Powers(3, 2, affine=True))


def test_progress_counts_all_rows():
    seen = []
    rng = np.random.default_rng(0)
    reduce_many(
        Rows([rng.standard_normal((300, 2))]),
        np.arange(0, 301, 30),
        Powers(2, 2, affine=True),
        progress=lambda a, b: seen.append((a, b)),
    )
    assert seen[-1] == (300, 300)
    assert [a for a, _ in seen] == sorted(a for a, _ in seen)


def test_sizes_of_stacks():
    counts = np.arange(1, 20_000)
    sizes = rounded_up(counts)
    assert (sizes >= counts).all()
    assert (sizes <= np.maximum(counts + 7, 1.13 * counts)).all()
    assert len(np.unique(sizes)) < 200


def test_elimination_and_matching_keep_the_sums():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((7, 50, 6))
    points[3, 20:] = 0.0  # filled up
    weights = rng.uniform(0.5, 1.5, (7, 50))
    weights[3, 20:] = 0.0
    reduced = reduce_group_points(points, weights)
    assert ((reduced > 0).sum(axis=1) <= 6).all()
    assert (reduced >= 0).all()
    assert np.allclose(
        np.einsum("gn,gnk->gk", reduced, points), np.einsum("gn,gnk->gk", weights, points)
    )
    factors = eliminate_groups(points)
    assert np.allclose(np.einsum("gn,gnk->gk", factors, points), points.sum(axis=1))
    target = np.einsum("gn,gnk->gk", rng.uniform(0, 2, (7, 50)), points)
    target[5] = 1e6  # out of reach of weights near 1
    points[5] = np.abs(points[5])
    target[5] = -1.0
    met = match_group_moments(points, np.ones((7, 50)), target, points.transpose(0, 2, 1) @ points)
    assert np.isnan(met[5]).all()
    good = np.arange(7) != 5
    assert (met[good] >= 0).all()
    assert np.allclose(np.einsum("gn,gnk->gk", met, points)[good], target[good])


def test_the_number_of_threads_does_not_matter(monkeypatch):
    rng = np.random.default_rng(3)
    X, labels = rng.standard_normal((60_000, 3)), np.repeat(np.arange(600), 100)
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(60_000)
    few = karat.coreset(X, y, groups=labels)
    monkeypatch.setattr("karat.engine.groups.threads", lambda: 7)
    many = karat.coreset(X, y, groups=labels)
    assert np.array_equal(few.indices, many.indices)
    assert np.array_equal(few.weights, many.weights)
