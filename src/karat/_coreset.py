"""Coreset: a few rows of the input with positive weights, on which the problem has the same loss at every query."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from karat import frames
from karat._certificate import Certificate
from karat._input import Table, explain_non_finite, features_of, group_labels, read_input
from karat.engine.absorb import absorb, measure_absorbed
from karat.engine.build import NonFiniteError, Reduction, build, measure, settle
from karat.engine.candidates import own_weights, sample
from karat.engine.correction import Correction
from karat.engine.linalg import EPS, Array
from karat.engine.programme import PRICE
from karat.engine.rows import Rows
from karat.errors import InputError, NotExactError
from karat.problems import LeastSquares, LpRegression, Moments, Problem, Ridge
from karat.problems.latent import Latent

Method = Literal["auto", "onepass", "tree", "caratheodory"]
METHODS = ("auto", "onepass", "tree", "caratheodory")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class Coreset:
    """What a reducer leaves of the rows when a problem's kernel moments must not change.

    Made by :func:`karat.coreset`; all fields are read-only.

    Attributes
    ----------
    indices : int64 array
        Rows of the input that are kept, increasing.
    weights : float64 array
        Their weights, all positive; they sum to the total weight of the input (unless the problem says otherwise).
    X, y
        Those rows, in a container of the input's type.
    groups : array or None
        The group of each kept row.
    n_rows : int
        Number of rows of the input.
    problem : Problem
    certificate : Certificate
    keys : array or None
        Values of a key column, which identify rows across sources.
    maps : dict of arrays or None
        Latent-variable problems: the maps of the full data, without which the rows do not give its parameters.
    """

    indices: np.ndarray
    weights: Array
    X: Any
    y: Any
    groups: np.ndarray | None
    n_rows: int
    problem: Problem
    certificate: Certificate
    keys: np.ndarray | None = None
    maps: dict[str, Array] | None = None
    _correction: Correction | None = None

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def correction(self) -> tuple[np.ndarray, np.ndarray] | None:
        """What an absorbing regulariser carries.

        For power 2 the pair (G, b) = (X'X - Xc'Xc, X'y - Xc'yc); for higher powers the pair (monomials, differences of
        moments), see :class:`karat.engine.correction.Correction`.  None if the rows carry everything.
        """
        if self._correction is None:
            return None
        if self._correction.sets.shape[1] == 2:
            return self._correction.matrices()
        return self._correction.sets, self._correction.delta

    def arrays(self) -> tuple[Array, Array | None]:
        """The numbers of the kept rows that the problem looks at, float64; y has one dimension if the input had."""
        X = features_of(self.X, self.problem)
        X = X[:] if isinstance(X, frames.Mapped) else X
        X = X.toarray() if hasattr(X, "toarray") else X
        if self.y is None:
            return np.asarray(X, dtype=float), None
        y = np.asarray(frames.as_table(self.y, "y"), dtype=float)
        return np.asarray(X, dtype=float), y[:, 0] if frames.dimensions(self.y) == 1 else y

    def loss(self, query: Any) -> float:
        """The preserved loss at a query, equal to that of the full data; the problem says what a query is."""
        if isinstance(self.problem, Latent):
            from karat._latent import latent_loss

            return latent_loss(self, query)
        X, y = self.arrays()
        if self._correction is not None:
            return self.problem.loss(X, y, self.weights, query, self._correction)  # type: ignore[call-arg]
        return self.problem.loss(X, y, self.weights, query)

    def fit(self, estimator: Any) -> Any:
        """Fit a scikit-learn estimator on the kept rows with their weights.

        Refuses, with a sentence, what would not give the answer of the full data.
        """
        from karat.estimators.fitting import fit_on_core

        if hasattr(estimator, "fit_coreset"):
            return estimator.fit_coreset(self)
        return fit_on_core(self, estimator)

    def scaled(self, p: int | None = None) -> tuple[Array, Array | None]:
        """The paper's form for solvers without weights: rows times ``w^(1/p)``.

        Exact for losses that are homogeneous of degree p in the row, so without an intercept (which would need its own scaled
        column of ``w^(1/p)``).

        Parameters
        ----------
        p : int, optional
            The power; by default that of the problem.
        """
        power = p if p is not None else getattr(self.problem, "power", getattr(self.problem, "p", None))
        if power is None:
            raise InputError(f"{self.problem.describe()} has no power of its own; pass p.")
        if not power > 0:
            raise InputError(f"p must be positive, not {power!r}.")
        factor = self.weights ** (1.0 / power)
        X, y = self.arrays()
        return factor[:, None] * X, None if y is None else (factor * y.T).T

    def verify(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, groups: Any = None, lengths: Any = None
    ) -> Certificate:
        """Measure the coreset afresh against full data.

        Returns
        -------
        Certificate
            Not ``ok`` if a moment differs or if the kept rows are not the rows of X at ``indices``.
        """
        if isinstance(self.problem, Latent):
            from karat._latent import verify_latent

            _refuse_for_latent(self.problem, y, groups)
            return verify_latent(self, X, sample_weight, lengths)
        _refuse_lengths(self.problem, lengths)
        start = time.perf_counter()
        table = read_input(X, y, self.problem, sample_weight, groups)
        if (self.groups is None) != (groups is None):
            raise InputError(
                "The coreset " + ("has no groups" if self.groups is None else "was built with groups") + "; verify it likewise."
            )
        labels = group_labels(table)
        own = read_input(self.X, self.y, self.problem, self.weights, self.groups, table.unit)
        if own.columns != table.columns or own.targets != table.targets:
            raise InputError(
                f"The coreset has {own.columns} columns and {own.targets} targets, the data has {table.columns} and "
                f"{table.targets}."
            )
        notes, refuted = [], False
        known = labels
        if self.groups is not None:
            known = [label for label in labels if label in set(np.unique(self.groups))]
            if len(known) < len(labels) or len(known) < len(np.unique(self.groups)):
                notes.append("The groups are not those of the coreset.")
                refuted = True
        if not known:
            raise InputError("None of the groups of this data is a group of the coreset.")
        reductions = [_measured(self, table, own, label) for label in known]
        if self._correction is None and self.n_rows == table.count and not _same_rows(self, table, own):
            notes.append("The kept rows are not the rows of this data at the stored indices.")
            refuted = True
        if self.n_rows != table.count:
            notes.append(f"The coreset stands for {self.n_rows:,} rows, the data has {table.count:,}.")
        seconds = time.perf_counter() - start
        return _certificate(self.problem, reductions, table.total, table.count, len(self), seconds, notes, refuted)

    def merge(self, other: Coreset, *, random_state: int = 0) -> Coreset:
        """The coreset of the union of both inputs, reduced again; exact.

        Indices run through the rows of ``self``, then those of ``other``.
        """
        from karat._merge import merge

        return merge(self, other, random_state)

    def save(self, path: str | Path) -> None:
        """Write to an ``.npz`` file (arrays and JSON, no pickle), atomically."""
        from karat._files import save

        save(self, Path(path))

    def _renumbered(self, indices: np.ndarray, n_rows: int, keys: np.ndarray | None) -> Coreset:
        """The same rows under other numbers, those of a larger source."""
        order = np.argsort(indices, kind="stable")
        return replace(
            self,
            indices=indices[order],
            weights=self.weights[order],
            X=frames.take_rows(self.X, order),
            y=frames.take_rows(self.y, order),
            groups=None if self.groups is None else self.groups[order],
            keys=None if keys is None else keys[order],
            n_rows=n_rows,
            certificate=replace(self.certificate, n_rows=n_rows),
        )

    def __repr__(self) -> str:
        certificate = self.certificate
        extra = f", {len(np.unique(self.groups))} groups" if self.groups is not None else ""
        if self._correction is not None:
            extra += ", with correction"
        return (
            f"Coreset({len(self):,} of {self.n_rows:,} rows{extra}, {self.problem.describe()}, "
            f"loss_error={certificate.loss_error:.1e}, {certificate.method})"
        )

    def _repr_html_(self) -> str:
        from karat._html import coreset_html

        return coreset_html(self)


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
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {method!r}.")
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InputError(f"random_state must be a whole number of at least 0, not {random_state!r}.")
    X, y = frames.collected(X), frames.collected(y)
    if isinstance(problem, Latent):
        from karat._latent import latent_coreset

        _refuse_for_latent(problem, y, groups)
        return latent_coreset(X, problem, sample_weight, lengths, method, int(random_state), progress, start)
    _refuse_lengths(problem, lengths)
    table = read_input(X, y, problem, sample_weight, groups)
    absorbing = getattr(problem, "absorb", None) is not None
    if absorbing and groups is not None:
        raise InputError("absorb and groups do not go together: an absorbed coreset serves one fit of one alpha.")
    if absorbing and table.targets != 1:
        raise InputError(f"absorb needs exactly one target, y has {table.targets}.")
    try:
        reductions = [
            build(table.rows(g), _kernel(problem, table), method, int(random_state), progress) for g in group_labels(table)
        ]
        correction = None
        if absorbing:
            assert isinstance(problem, Ridge | LpRegression)
            reductions, correction = _absorb(problem, table.rows(), reductions[0], int(random_state), progress)
    except NonFiniteError:
        raise explain_non_finite(table, "its powers") from None
    return _assemble(problem, table, X, y, reductions, correction, start)


def _refuse_lengths(problem: Problem, lengths: Any) -> None:
    if lengths is not None:
        raise InputError(f"{problem.describe()} does not look at sequences; lengths is for sequence models only.")


def _refuse_for_latent(problem: Problem, y: Any, groups: Any) -> None:
    if y is not None:
        raise InputError(f"{problem.describe()} has no target; leave y out.")
    if groups is not None:
        raise InputError(
            f"{problem.describe()} does not take groups, because its maps belong to one data set; build one coreset per group."
        )


def _kernel(problem: Problem, table: Table) -> Any:
    return problem.kernel(table.columns, table.targets)


def _absorb(
    problem: Ridge | LpRegression, rows: Rows, exact: Reduction, seed: int, progress: Progress | None,
    missing: Correction | None = None,
) -> tuple[list[Reduction], Correction]:  # fmt: skip
    found = absorb(
        rows, exact, problem.power, problem.fit_intercept, problem.penalty, problem.absorb == "box", problem.keeps_total,
        missing, seed, progress,
    )  # fmt: skip
    proof = " proven optimal by reduced costs" if found.reduced_cost > -PRICE else ""
    reduction = replace(
        exact, positions=found.positions, weights=found.weights, gap=found.gap, moment_error=found.gap,
        condition=exact.condition**problem.power,  # of the moments, in which the correction is expressed
        method=f"{exact.method}, then {problem.absorb}{proof}", passes=exact.passes + found.passes,
    )  # fmt: skip
    return [reduction], found.correction


def _assemble(
    problem: Problem, table: Table, X: Any, y: Any, reductions: list[Reduction], correction: Correction | None, start: float
) -> Coreset:
    """One coreset from the reductions of the groups, or an error if it is not exact."""
    labels = group_labels(table)
    origins = []
    for reduction, label in zip(reductions, labels, strict=True):
        index = table.index(label)
        origins.append(reduction.positions if index is None else index[reduction.positions])
    indices = np.concatenate(origins)
    order = np.argsort(indices, kind="stable")
    weights = np.concatenate([r.weights for r in reductions])[order] * table.unit
    indices = indices[order].astype(np.int64)
    notes = []
    if correction is None and len(indices) == table.count:
        notes.append("There were no more rows than the rank: all are kept, with their own weights.")
    seconds = time.perf_counter() - start
    certificate = _certificate(problem, reductions, table.total, table.count, len(indices), seconds, notes)
    _check_exact(certificate)
    return Coreset(
        indices=indices,
        weights=weights,
        X=frames.take_rows(X, indices),
        y=frames.take_rows(y, indices),
        groups=None if table.groups is None else table.groups[indices],
        n_rows=table.count,
        problem=problem,
        certificate=certificate,
        _correction=correction,
    )


def _check_exact(certificate: Certificate) -> None:
    if not certificate.ok:
        raise NotExactError(
            f"The best coreset found has a relative loss error of {certificate.loss_error:.1e}, above "
            f"{certificate.tolerance:.0e}: the features are too ill-conditioned (condition {certificate.condition:.1e}). "
            "Scale or centre the columns, drop nearly collinear ones and extreme rows, or lower the degree."
        )


def _certificate(
    problem: Problem,
    reductions: list[Reduction],
    total: float,
    n_rows: int,
    size: int,
    seconds: float,
    notes: list[str],
    refuted: bool = False,
) -> Certificate:
    condition = max(r.condition for r in reductions)
    methods = sorted({r.method for r in reductions})
    kept = sum(float(r.weights.sum()) for r in reductions)
    return Certificate(
        loss_error=float(max(r.gap + r.settled.rounding for r in reductions) + EPS * condition),
        moment_error=max(r.moment_error for r in reductions),
        total_error=abs(kept / total - 1.0),
        rank=sum(r.rank for r in reductions),
        size=size,
        bound=sum(r.settled.kernel.width for r in reductions),
        condition=condition,
        spectrum=min(r.spectrum for r in reductions),
        excluded_directions=tuple(x for r in reductions for x in r.settled.excluded),
        method=" and ".join(methods),
        passes=max(r.passes for r in reductions),
        seconds=seconds,
        keeps=problem.keeps,
        excludes=problem.excludes,
        n_rows=n_rows,
        notes=tuple(notes),
        refuted=refuted,
    )


def _measured(core: Coreset, table: Table, own: Table, label: Any) -> Reduction:
    """The reduction that the coreset claims to be, measured against the full data of one group."""
    rows, kept = table.rows(label), own.rows(label)
    try:
        pilot = sample(np.random.default_rng(1), len(rows), 16384)
        settled, passes = settle(rows, _kernel(core.problem, table), pilot)
    except NonFiniteError:
        raise explain_non_finite(table, "its powers") from None
    positions, weights = np.arange(len(kept)), own_weights(kept, np.arange(len(kept)))
    gap, moment_error, condition = measure(rows, settled, kept.take(positions, settled.kernel.shift), weights)
    if core._correction is not None:
        problem = core.problem
        assert isinstance(problem, Ridge | LpRegression)
        read = lambda shift: kept.take(positions, shift)  # noqa: E731
        gap = measure_absorbed(
            rows, problem.power, problem.fit_intercept, problem.penalty, read, weights, core._correction
        )  # fmt: skip
        moment_error, condition = gap, condition**problem.power
    return Reduction(
        positions,
        weights,
        settled,
        core.certificate.rank,
        gap,
        moment_error,
        condition,
        core.certificate.spectrum,
        "verified on the full data",
        passes,
    )


def _same_rows(core: Coreset, table: Table, own: Table) -> bool:
    if not len(core) or core.indices[-1] >= table.count:
        return False
    zeros = np.zeros(table.columns + table.targets)
    full, kept = (Rows([t.X] if t.y is None else [t.X, t.y]) for t in (table, own))
    return bool(np.array_equal(full.take(core.indices, zeros), kept.take(np.arange(len(core)), zeros)))
