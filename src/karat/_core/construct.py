"""Making a coreset: from checked inputs through the engine to rows, weights and a certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from karat._core.certify import certify, require_proven
from karat._core.coreset import Coreset
from karat._data import containers
from karat._data.checks import Table, explain_non_finite, group_labels, read_input
from karat.engine import linalg
from karat.engine.kernel import Kernel
from karat.engine.reduce import NonFiniteError, Reduction, build
from karat.engine.rows import Rows
from karat.errors import InputError
from karat.problems import LeastSquares, LpRegression, Moments, Problem, Ridge
from karat.problems.absorb.absorb import absorb
from karat.problems.absorb.correction import Correction
from karat.problems.latent import Latent

Method = Literal["auto", "onepass", "tree", "caratheodory"]
METHODS = ("auto", "onepass", "tree", "caratheodory")
Progress = Callable[[int, int], None]
NOTHING_ABSORBED = "Nothing could be absorbed: the rows carry the loss by themselves, and the correction is zero."


def coreset(
    X: Any,
    y: Any = None,
    problem: Problem | None = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    lengths: Any = None,
    method: Method = "auto",
    random_state: int = 0,
    progress: Progress | None = None,
) -> Coreset:
    """A few rows of the input, with positive weights, on which the problem has the same loss at every query.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    y : array or frame of shape (n,) or (n, T), optional
    problem : Problem, optional
        What must not change; :class:`~karat.problems.LeastSquares` if y is given, else ``Moments(2)``.
    sample_weight : array of shape (n,), optional
        Non-negative weights of the rows.
    groups : array of shape (n,), optional
        One exact coreset per label (cross-validation folds, classes, sites), returned as one.
    lengths : array of int, optional
        Lengths of sequences, for sequence models only.
    method : {"auto", "onepass", "tree", "caratheodory"}
        The reducer; all give the same guarantee.  :func:`karat.plan` says what "auto" would do and why.
    random_state : int
        The choice of rows depends on it, the exactness does not.
    progress : callable, optional
        Called with (rows done, rows in all) during passes.

    Returns
    -------
    Coreset

    Raises
    ------
    InputError
        A sentence that names the place and the remedy.
    NotExactError
        If exactness could not be reached; an inexact coreset is never returned.

    Examples
    --------
    >>> import numpy as np, karat
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100_000, 3)); y = X.sum(axis=1) + rng.standard_normal(100_000)
    >>> core = karat.coreset(X, y)
    >>> len(core), core.certificate.ok
    (15, True)
    """
    start = time.perf_counter()
    if isinstance(y, Problem) and problem is None:
        raise InputError("The second argument is y; pass the problem by name: karat.coreset(X, problem=...).")
    if problem is None:
        problem = Moments(2) if y is None else LeastSquares()
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be one of karat.problems, such as LeastSquares(), not {problem!r}.")
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {method!r}.")
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InputError(f"random_state must be a whole number of at least 0, not {random_state!r}.")
    X, y = containers.collected(X), containers.collected(y)
    if isinstance(problem, Latent):
        from karat._core.latent import latent_coreset

        refuse_for_latent(problem, y, groups)
        return latent_coreset(X, problem, sample_weight, lengths, method, int(random_state), progress, start)
    refuse_lengths(problem, lengths)
    table = read_input(X, y, problem, sample_weight, groups)
    absorbing = getattr(problem, "absorb", None) is not None
    if absorbing and groups is not None:
        raise InputError("absorb and groups do not go together: an absorbed coreset serves one fit of one alpha.")
    if absorbing and table.targets != 1:
        raise InputError(f"absorb needs exactly one target, y has {table.targets}.")
    try:
        reductions = [
            build(table.rows(g), kernel_of(problem, table), method, int(random_state), progress) for g in group_labels(table)
        ]
        correction = None
        if absorbing:
            assert isinstance(problem, Ridge | LpRegression)
            reductions, correction = absorb_into(
                problem, table.rows(), reductions[0], int(random_state), progress, unit=table.unit
            )
    except NonFiniteError:
        raise explain_non_finite(table, "its powers") from None
    return assemble(problem, table, X, y, reductions, correction, start)


def refuse_lengths(problem: Problem, lengths: Any) -> None:
    if lengths is not None:
        raise InputError(f"{problem.describe()} does not look at sequences; lengths is for sequence models only.")


def refuse_for_latent(problem: Problem, y: Any, groups: Any) -> None:
    if y is not None:
        raise InputError(f"{problem.describe()} has no target; leave y out.")
    if groups is not None:
        raise InputError(
            f"{problem.describe()} does not take groups, because its maps belong to one data set; build one coreset per group."
        )


def kernel_of(problem: Problem, table: Table) -> Kernel:
    """The kernelization of a problem for the shape of a table."""
    return problem.kernel(table.columns, table.targets)


def absorb_into(
    problem: Ridge | LpRegression, rows: Rows, exact: Reduction, seed: int, progress: Progress | None,
    missing: Correction | None = None, unit: float = 1.0, inherited: float = 0.0,
) -> tuple[list[Reduction], Correction]:  # fmt: skip
    """The reduction and the correction of an absorbed coreset; the exact reduction and zero if nothing can be absorbed.

    Weights of rows are in units of ``unit``; corrections are not.  ``inherited`` is what ``rows`` are off by themselves.
    """
    with linalg.few_threads(exact.fitted.kernel.width):
        found = absorb(
            rows, exact, problem.power, problem.fit_intercept, problem.penalty / float(unit), problem.absorb == "box",
            problem.keeps_total, None if missing is None else missing.over(unit), seed, progress, unit,
        )  # fmt: skip
    passes = exact.passes + found.passes
    if not found.correction:
        return [replace(exact, passes=passes)], found.correction
    reduction = replace(
        exact, positions=found.positions, weights=found.weights, inherited=inherited,
        proof=replace(exact.proof, loss_error=found.loss_error, moment_error=found.loss_error),
        method=f"{exact.method}, then {problem.absorb}", passes=passes, peeled=np.zeros(0, dtype=bool),
    )  # fmt: skip
    return [reduction], found.correction.times(unit)


def assemble(
    problem: Problem, table: Table, X: Any, y: Any, reductions: list[Reduction], correction: Correction | None, start: float
) -> Coreset:
    """One coreset from the reductions of the groups, or an error if it is not exact."""
    labels = group_labels(table)
    origins, heavy = [], []
    for reduction, label in zip(reductions, labels, strict=True):
        index = table.index(label)
        origins.append(reduction.positions if index is None else index[reduction.positions])
        heavy += (reduction.in_the_way if index is None else index[reduction.in_the_way]).tolist()
    indices = np.concatenate(origins)
    order = np.argsort(indices, kind="stable")
    weights = np.concatenate([r.weights for r in reductions])[order] * table.unit
    indices = indices[order].astype(np.int64)
    notes = []
    if correction is not None and not correction:
        notes.append(NOTHING_ABSORBED)
    if not correction and len(indices) == table.count:
        fewer = any(len(r.positions) > r.rank for r in reductions)
        why = "Nothing smaller was exact" if fewer else "There were no more rows than the rank"
        notes.append(f"{why}: all are kept, with their own weights.")
    seconds = time.perf_counter() - start
    if any(len(r.positions) > r.fitted.kernel.width + r.peeled.sum() for r in reductions) and len(indices) < table.count:
        notes.append("More rows than features are kept: a further elimination would have cost accuracy.")
    certificate = certify(problem, reductions, table.total, table.count, seconds, notes)
    require_proven(certificate, reductions, table.names, heavy)
    return Coreset(
        indices=indices,
        weights=weights,
        X=containers.take_rows(X, indices),
        y=containers.take_rows(y, indices),
        groups=None if table.groups is None else table.groups[indices],
        n_rows=table.count,
        problem=problem,
        certificate=certificate,
        absorbed=correction,
    )
