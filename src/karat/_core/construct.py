"""Construction of a coreset: checked inputs, one reduction per group, and a certificate.

data        = read_rows(X, y, ...)                           # a Table; a latent-variable problem is lowered first
reductions  = build(data.rows(), data.kernel)                # karat.engine.reduce: few rows, the same moments, a proof
              (reduce_many, karat.engine.groups, where there are groups)
coreset     = assemble(reductions)                           # certified, or NotExactError
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal, Never

import numpy as np

from karat._core.certify import certify, require_proven
from karat._core.coreset import Coreset
from karat._core.latent import lowered_table
from karat._core.progress import progress_bar
from karat._data import containers
from karat._data.advice import unknown_argument
from karat._data.batch import Table, check_absorbing, check_taken, chosen_problem, read_input, stored_weights
from karat._data.named import named_columns
from karat.engine.groups import reduce_many
from karat.engine.kernel import Kernel
from karat.engine.linalg import Indices
from karat.engine.reduce import NonFiniteError, Reduction, build
from karat.engine.rows import Progress
from karat.errors import InputError, check_whole
from karat.problems import Problem
from karat.problems.absorb.correction import Correction
from karat.problems.latent import Latent
from karat.problems.latent.base import Maps

Method = Literal["auto", "onepass", "tree", "caratheodory"]
METHODS = ("auto", "onepass", "tree", "caratheodory")
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
    progress: Progress | bool | None = None,
    **unknown: Never,
) -> Coreset:
    """A few rows of the input, with positive weights, on which the problem has the same loss at every query.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    y : array or frame of shape (n,) or (n, T), or the name of a column, optional
        A name, or a list of names, takes these columns out of the frame X.
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
    progress : True or callable, optional
        True shows a bar by tqdm (extra ``progress``).  A callable is called with (rows done, rows in all).
    **unknown
        Refused; the error names the argument that was probably meant.

    Returns
    -------
    Coreset

    Raises
    ------
    InputError
        If an input cannot be used; the message names the place and the remedy.
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
    if unknown:
        raise unknown_argument(coreset, unknown)
    if progress is not None and not callable(progress):
        with progress_bar(progress, "rows") as advance:
            return coreset(
                X, y, problem, sample_weight=sample_weight, groups=groups, lengths=lengths, method=method,
                random_state=random_state, progress=advance,
            )  # fmt: skip
    target = None
    if isinstance(y, str | list) or isinstance(sample_weight, str) or isinstance(groups, str):
        X, y, sample_weight, groups, target = named_columns(X, y, sample_weight, groups)
    problem = chosen_problem(problem, y is not None)
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {method!r}.", argument="method")
    if type(random_state) is not int or random_state < 0:  # a NumPy integer will do, True will not
        check_whole("random_state", random_state, 0)
    X, y = containers.collected(X), containers.collected(y)
    data = read_rows(X, y, problem, sample_weight, groups, lengths)
    check_absorbing(problem, groups, data.targets)
    seed, correction = int(random_state), None
    try:
        reductions = reduced(data, data.kernel, method, seed, progress)
        if problem.absorb is not None:
            reductions[0], correction = problem.absorb_rows(data.rows(), reductions[0], seed, progress, unit=data.unit)
    except NonFiniteError:
        raise data.explain_non_finite() from None
    core = assemble(problem, data, X, y, reductions, correction, start)
    return core if target is None else replace(core, provenance={"target": target})


def reduced(data: Table, kernel: Kernel, method: str, seed: int, progress: Progress | None = None) -> list[Reduction]:
    """One reduction per group, in the order of ``data.labels``."""
    if len(data.labels) == 1:
        return [build(data.rows(label), kernel, method, seed, progress) for label in data.labels]
    return reduce_many(*data.grouped_rows(), kernel, method, seed, progress)


def read_rows(
    X: Any, y: Any, problem: Problem, sample_weight: Any, groups: Any, lengths: Any, maps: Maps | None = None
) -> Table:
    """Check the inputs; latent-variable problems are lowered by ``maps``, or by the maps of these rows."""
    check_taken(problem, y=y, groups=groups, lengths=lengths)
    if isinstance(problem, Latent):
        return lowered_table(X, problem, sample_weight, lengths, maps)
    return read_input(X, y, problem, sample_weight, groups)


def assemble(
    problem: Problem, table: Table, X: Any, y: Any, reductions: list[Reduction], correction: Correction | None,
    start: float,
) -> Coreset:  # fmt: skip
    """Make one coreset of the reductions of the groups; raise if it is not exact."""
    origins, heavy = [], []
    for reduction, label in zip(reductions, table.labels, strict=True):
        numbers = table.numbers_of(label)
        origins.append(reduction.positions if numbers is None else numbers[reduction.positions])
        heavy += (reduction.in_the_way if numbers is None else numbers[reduction.in_the_way]).tolist()
    indices = np.concatenate(origins)
    order = np.argsort(indices, kind="stable")
    weights = stored_weights(np.concatenate([r.weights for r in reductions])[order], table.unit)
    indices = indices[order].astype(np.int64)
    notes = list(table.notes)
    if correction is not None and not correction:
        notes.append(NOTHING_ABSORBED)
    if not correction and len(indices) == len(table):
        fewer = any(len(r.positions) > r.rank for r in reductions)
        why = "Nothing smaller was exact" if fewer else "There were no more rows than the rank"
        notes.append(f"{why}: all are kept, with their own weights.")
    seconds = time.perf_counter() - start
    if any(len(r.positions) > r.fitted.kernel.width + r.peeled.sum() for r in reductions) and len(indices) < len(table):
        notes.append("More rows than features are kept: a further elimination would have cost accuracy.")
    certificate = certify(problem, reductions, table.total, table.n_rows, seconds, notes)
    require_proven(certificate, reductions, table.names, heavy)
    return Coreset(
        indices=indices,
        weights=weights,
        X=_taken(X, indices, problem),
        y=containers.take_rows(y, indices),
        groups=None if table.groups is None else table.groups[indices],
        n_rows=table.n_rows,
        problem=problem,
        certificate=certificate,
        maps=table.problem.stored_maps,
        absorbed=correction,
        verbatim=np.concatenate([r.peeled for r in reductions])[order],
    )


def _taken(X: Any, indices: Indices, problem: Problem) -> Any:
    """Rows of the input in a container of its type; the rows of a window side by side, as numbers."""
    if problem.input_tables > 1:
        return tuple(containers.take_rows(view, indices) for view in X)
    if problem.rows_per_sample == 1:
        return containers.take_rows(X, indices)
    table = containers.as_table(X, "X")
    table = table.toarray() if containers.is_sparse(table) else table
    return np.hstack([np.asarray(table[indices + a]) for a in range(problem.rows_per_sample)])
