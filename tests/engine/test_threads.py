"""Threads: the same bits for any number of them, blocks that agree with LAPACK, and BLAS as it was
afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg as sla
from scipy import sparse

import karat
from karat.compat.blas import blas_threads
from karat.engine import blocked, linalg
from karat.engine.blocked import share
from karat.engine.kernel import fit_moments
from karat.engine.points import candidate_points
from karat.engine.powers import Powers
from karat.engine.rows import Rows
from karat.engine.weights import match_moments, refined_vertex

SAME = """
import hashlib, sys
import numpy as np, karat
if "without" in sys.argv: sys.modules["threadpoolctl"] = None
digest = hashlib.sha256()
for n, d in ((200, 4), (60_000, 8), (3_000, 28)):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    core = karat.coreset(X, X.sum(axis=1) + rng.standard_normal(n))
    digest.update(core.weights.tobytes() + core.indices.tobytes())
print(digest.hexdigest())
"""


def in_process(*arguments: str, **environment: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", SAME, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return process.stdout


def test_the_number_of_threads_changes_no_bit():
    single_thread = in_process(OPENBLAS_NUM_THREADS="1")
    assert in_process(OPENBLAS_NUM_THREADS="2") == single_thread
    assert in_process("without", OPENBLAS_NUM_THREADS="4") == single_thread


def test_blas_has_its_threads_again():
    before = [ask() for ask, _ in blas_threads()]
    X = np.random.default_rng(0).standard_normal((500, 3))
    with ThreadPoolExecutor(4) as pool:  # calls that overlap in any order
        list(pool.map(lambda seed: karat.coreset(X, X.sum(axis=1), random_state=seed), range(12)))
    assert [ask() for ask, _ in blas_threads()] == before


@pytest.mark.parametrize("task", ["coreset", "sketch", "verify", "merge"])
def test_the_engine_works_on_one_blas_thread_everywhere(task, monkeypatch):
    """Threads of BLAS wait for each other by spinning: on a busy machine a sketch took 40 times as
    long with two of them.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 4))
    X[:5] *= 1e4  # some rows are peeled, and the tree is needed
    y = X.sum(axis=1) + rng.standard_normal(2_000)
    halves = karat.coreset(X[:1_000], y[:1_000]), karat.coreset(X[1_000:], y[1_000:])
    tasks = {
        "coreset": lambda: karat.coreset(X, y),
        "sketch": lambda: (
            karat.Sketch().update(X[:900], y[:900]).update(X[900:], y[900:]).coreset()
        ),
        "verify": lambda: halves[0].verify(X[:1_000], y[:1_000]),
        "merge": lambda: halves[0].merge(halves[1]),
    }
    seen: set[int] = set()
    for name in ("dpotrf", "dsyevd", "dtrtri", "dgetrs"):
        routine = getattr(linalg.lapack, name)

        def spy(*arguments, routine=routine, **options):
            seen.update(ask() for ask, _ in blas_threads())
            return routine(*arguments, **options)

        monkeypatch.setattr(linalg.lapack, name, spy)
    before = [ask() for ask, _ in blas_threads()]
    try:
        for _, give in blas_threads():
            give(2)
        tasks[task]()
    finally:
        for (_, restore), count in zip(blas_threads(), before, strict=True):
            restore(count)
    assert seen == ({1} if before else set())


def test_pieces_may_share_out_work_themselves():
    """The threads that wait are never those that are needed, so nothing can block."""
    sums = share(lambda i: sum(share(lambda j: i * j, range(5), 4)), range(40), 4)
    assert sums == [10 * i for i in range(40)]


def test_an_error_in_a_piece_is_raised():
    def work(i: int) -> int:
        if i == 7:
            raise ValueError("seven")
        return i

    with pytest.raises(ValueError, match="seven"):
        share(work, range(20), 3)
    assert share(work, range(5), 3) == list(range(5))


def test_several_threads_take_part():
    """Every piece waits until the others have begun: one thread alone would never end."""
    gate = threading.Barrier(2, timeout=20)
    share(lambda _: gate.wait(), range(2), 2)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("width", "count"), [(1, 3), (192, 400), (193, 193), (401, 700)])
def test_blocks_agree_with_lapack(kind, width, count):
    eps = float(np.finfo(kind).eps)
    columns = np.random.default_rng(0).standard_normal((width, count)).astype(kind)
    gram = np.zeros((width, width), dtype=kind)
    blocked.add_gram(gram, columns, None, 2)
    exact = columns.astype(float) @ columns.T.astype(float)
    assert np.abs(np.triu(gram - exact)).max() <= 8 * eps * count
    factor = blocked.blocked_cholesky(gram + width * np.eye(width, dtype=kind), 2)
    assert np.abs(
        factor - sla.cholesky(exact + width * np.eye(width))
    ).max() <= 100 * eps * np.sqrt(count)
    assert np.allclose(
        blocked.blocked_product(columns.T, columns, 2), columns.T @ columns, atol=16 * eps * width
    )
    order, table = blocked.blocked_null_table(columns.copy(), 2)
    assert sorted(order) == list(range(count))
    rest = columns[:, order[width:]].T - table @ columns[:, order[:width]].T
    assert np.abs(rest).max(initial=0.0) <= 1e4 * eps


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    matrix = np.eye(500)
    matrix[450, 450] = -1.0
    assert blocked.blocked_cholesky(matrix, 2) is None


def resolved(single: bool):
    X = np.random.default_rng(3).standard_normal((4_000, 27))
    rows = Rows([X])
    fitted, _ = fit_moments(rows, Powers(27, 2, affine=True), np.arange(4_000))
    chosen = np.arange(0, 4_000, 4)
    return candidate_points(rows, fitted, chosen, np.full(1_000, 4.0)).resolve(single=single)


def test_single_precision_finds_weights_as_exact_as_double():
    single, double = resolved(True), resolved(False)
    assert single.single
    assert not double.single
    factors, reference = match_moments(single), match_moments(double)
    assert np.abs(factors - reference).max() <= 1e-6
    support, weights = refined_vertex(single, single.root * factors)
    assert (weights > 0).all()
    assert len(support) <= single.rank
    assert np.linalg.norm(
        weights @ single.points[support] - single.target
    ) <= 1e-14 * np.linalg.norm(single.target)


def test_single_precision_gives_way_to_double(monkeypatch):
    """If the support found in single precision has no positive weights, double precision finds
    another.
    """
    candidates = resolved(True)
    mass = candidates.root * match_moments(candidates)
    real = linalg.square_solver

    def wrong(matrix):
        solve = real(matrix)
        return (lambda rhs: -solve(rhs)) if matrix.dtype == np.float32 else solve

    monkeypatch.setattr(linalg, "square_solver", wrong)
    support, weights = refined_vertex(candidates, mass)
    assert (weights > 0).all()
    assert np.linalg.norm(
        weights @ candidates.points[support] - candidates.target
    ) <= 1e-13 * np.linalg.norm(candidates.target)


def test_nearly_dependent_features_are_not_left_to_single_precision():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((4_000, 27))
    rows = Rows([np.column_stack([np.abs(X[:, 0]), 1 + 1e-3 * X[:, 1:]])])
    fitted, _ = fit_moments(rows, Powers(27, 2, affine=False), np.arange(4_000))
    candidates = candidate_points(rows, fitted, np.arange(1_500), np.ones(1_500))
    points = candidates.points.copy()
    points[:, 5] = points[:, 4] + 1e-4 * points[:, 5]
    assert not replace(candidates, points=points).resolve(single=True).single


def test_fewer_rows_than_features_are_kept_as_they_are():
    X = np.random.default_rng(0).standard_normal((300, 30))
    core = karat.coreset(X, X.sum(axis=1) + np.arange(300.0))
    assert len(core) == 300
    assert (core.weights == 1.0).all()


def test_fewer_rows_than_features_that_repeat_each_other():
    X = np.random.default_rng(0).standard_normal((60, 12))
    core = karat.coreset(
        np.vstack([X, X[:20]]), np.concatenate([X.sum(axis=1), X[:20].sum(axis=1)])
    )
    assert core.certificate.ok
    assert len(core) == 60
    assert core.weights.sum() == pytest.approx(80.0, rel=1e-12)


def test_too_many_sparse_columns_are_refused_at_once():
    rng = np.random.default_rng(0)
    place = rng.integers(0, 20_000, (2, 400_000))
    X = sparse.csr_matrix((rng.random(400_000), (place[0], place[1])), shape=(20_000, 20_000))
    tracemalloc.start()
    with pytest.raises(karat.errors.InputError, match="features"):
        karat.coreset(X, np.ones(20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # nothing of the size of the data or of the features was made
