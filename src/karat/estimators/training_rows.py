"""The rows of one part of the data, behind fitted transformers, and the few rows that stand for
them.

A model is fitted on ``TrainingRows``: all rows, or those of a training part.  Three answers are
remembered, because many candidates of a search ask the same question:

    behind(transformers)    what do these transformers learn here, and which columns do they make?
    with_target(regressor)  what does this transformation make of the target?
    few()                   which few rows have the same squared losses?

The few rows are synthetic rows of the columns that the model sees: d + 2 of them, or as many of
every class.  If making them costs more than it saves, or if doubles cannot hold them, all rows are
used; a note of the certificate says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.utils import check_array, get_tags

from karat.core.certify import Certificate
from karat.core.coreset import Coreset, coreset
from karat.core.synthetic import SYNTHETIC
from karat.data import containers
from karat.data.batch import check_weights
from karat.engine.linalg import Array
from karat.engine.rows import consecutive
from karat.errors import InputError, NotExactError
from karat.estimators import registry
from karat.estimators.fitting import fit_weighted, key_of, setting, step_ids
from karat.estimators.transformers import fit_and_transform, resolve_columns, transform
from karat.problems import LeastSquares, Moments, Problem

Answer = TypeVar("Answer")
# Keys of the memo: the columns that transformers made, and few rows of them.
COLUMNS, FEW = "columns", "few"
# Making d + 2 rows of n takes about PASSES n d^2 + FACTORS d^3 operations, and a fit on all of them
# n d^2.
PASSES, FACTORS = 2, 20
EXPENSIVE = 8  # a decomposition of all rows takes so many times as long as X'X
LEAST = 3  # rows of the data per made row: with fewer, making rows does not pay
ALL = "The rows were not reduced."
ALL_ROWS = "all rows"  # how the rows were found


@dataclass(frozen=True)
class WeightedRows:
    """Rows with weights that stand for all rows of a part, as a model sees them."""

    X: Any
    y: Any
    weights: Array | None  # None: they are 1
    core: Coreset
    sparse: bool = False  # whether the rows that they stand for are; made ones are not

    def fit(self, model: Any) -> Any:
        """Fit a model, in place; raise where scikit-learn would, because it takes no sparse
        rows.
        """
        if self.sparse and not get_tags(model).input_tags.sparse:
            raise InputError(
                f"{type(model).__name__} takes dense rows, but these are sparse; pass X.toarray()."
            )
        # scikit-learn chooses an iterative solver by the type of the rows.  It reads rows through
        # their moments, so that it stops at the same step.
        rows = self.enough.as_sparse if self.iterates(model) else self.enough
        return fit_weighted(model, rows.X, rows.y, rows.weights)

    def with_columns(self, X: Any) -> WeightedRows:
        """The same rows with other columns, in the coreset too."""
        return replace(self, X=X, core=replace(self.core, X=X))

    def linear_score(self, name: str, model: Any) -> float | None:
        """A score of :data:`karat.estimators.registry.SCORERS`, in a tenth of the time that the
        checks of scikit-learn take.

        None where scikit-learn has to decide: several targets, a single row, another score, a model
        without coefficients.
        """
        y, weights = self.y, self.weights
        coef: Any = getattr(model, "coef_", None)
        if np.ndim(coef) != 1 or np.ndim(y) != 1 or len(y) < 2 or weights is None:
            return None
        y = np.asarray(y, dtype=float)
        residual = y - (self.numbers @ coef + model.intercept_)
        total, squares = float(weights.sum()), float(weights @ np.square(residual))
        if name == "neg_mean_squared_error":
            return -squares / total
        if name == "neg_root_mean_squared_error":
            return -float(np.sqrt(squares / total))
        if name != "r2":
            return None
        return 1.0 - squares / float(weights @ np.square(y - weights @ y / total))

    def iterates(self, model: Any) -> bool:
        """Whether a model of these rows stops at its tolerance, because they are sparse."""
        return self.sparse and key_of(model) in registry.ITERATIVE_IF_SPARSE

    def core_of(self, model: Any) -> Coreset:
        """The coreset of these rows, with a note if the model is not solved exactly."""
        if not self.iterates(model):
            return self.core
        note = (
            f"{type(model).__name__} solves sparse rows up to its own tolerance (tol), few rows as"
            " well as all of them; for more digits pass a smaller tol, or dense columns."
        )
        certificate = self.core.certificate
        return replace(
            self.core, certificate=replace(certificate, notes=(*certificate.notes, note))
        )

    @cached_property
    def enough(self) -> WeightedRows:
        """These rows and, if there are fewer made rows than columns, some without weight, up to the
        number of all rows.

        Solvers choose another path for fewer rows than columns, and that of Ridge loses digits.
        """
        count, most = len(self.y), min(int(self.X.shape[1]), self.core.n_rows)
        if self.core.rows != SYNTHETIC or self.weights is None or count >= most:
            return self
        more = most - count
        places = np.concatenate([np.arange(count), np.zeros(more, dtype=np.intp)])
        X, y = (containers.take_rows(table, places) for table in (self.X, self.y))
        return replace(self, X=X, y=y, weights=np.pad(self.weights, (0, more)))

    @cached_property
    def as_sparse(self) -> WeightedRows:
        """Made rows in a CSR matrix."""
        return (
            self
            if containers.is_sparse(self.X)
            else replace(self, X=sparse.csr_array(self.numbers))
        )

    @cached_property
    def numbers(self) -> Any:
        """X as an array or CSR matrix."""
        return containers.as_table(self.X, "X")

    @cached_property
    def target_varies(self) -> bool:
        """Whether the spread of every target is well above the rounding of its values: scores
        divide by it.
        """
        y = np.asarray(self.y, dtype=float)
        mean = np.average(y, axis=0, weights=self.weights)
        spread = np.average(np.square(y - mean), axis=0, weights=self.weights)
        return bool(np.all(spread > 1e-12 * np.average(np.square(y), axis=0, weights=self.weights)))


@dataclass(frozen=True)
class TrainingRows:
    """The rows of one part of the data.

    Parameters
    ----------
    table : array, sparse matrix or data frame
        The columns as they were given, of all rows.
    target, sample_weight
        Of the rows of this part; ``sample_weight`` may be None.
    positions : array, optional
        The rows of this part in the table; by default all.
    preprocessors : tuple of fitted transformers
        What was applied to the columns, in this order.
    classifies : bool
        Whether the target holds classes.
    random_state : int
    reduces : bool, optional
        Whether few rows are made, in any case or never; by default where that saves time.
    fits : int
        About how many fits of a model use the few rows; an expensive one counts as several.
    """

    table: Any
    target: Any
    sample_weight: Array | None = None
    positions: np.ndarray | None = None
    preprocessors: tuple[Any, ...] = ()
    classifies: bool = False
    random_state: int = 0
    reduces: bool | None = None
    fits: int = 1
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return containers.row_count(self.table) if self.positions is None else len(self.positions)

    @property
    def on_device(self) -> bool:
        """Whether the rows are on an accelerator: then few rows are made in any case."""
        return containers.is_on_device(self.table)

    @property
    def raw(self) -> Any:
        """The columns as they were given, of these rows."""
        if self.positions is None:
            return self.table
        run = consecutive(self.positions) if isinstance(self.table, np.ndarray) else None
        # a view
        return containers.take_rows(self.table, self.positions) if run is None else self.table[run]

    @property
    def X(self) -> Any:  # noqa: N802 - as everywhere in scikit-learn
        """The columns as a model sees them, in double precision."""
        if COLUMNS in self.memo:
            return self.memo[COLUMNS]
        containers.check_on_host(X=self.table)
        columns = containers.in_double(self.raw)
        for fitted in self.preprocessors:
            columns = transform(fitted, columns)
        return columns

    @property
    def y(self) -> Any:
        """The target, on the host."""
        return containers.in_double(containers.on_host(self.target))

    @property
    def problem(self) -> Problem:
        """What few rows keep."""
        return Moments(2) if self.classifies else LeastSquares()

    def part(self, positions: np.ndarray) -> TrainingRows:
        """Some of these rows as a part of their own."""
        places = np.flatnonzero(positions) if np.asarray(positions).dtype == bool else positions
        return replace(
            self,
            target=containers.take_rows(self.target, places),
            sample_weight=None if self.sample_weight is None else self.sample_weight[places],
            positions=places if self.positions is None else self.positions[places],
            memo={},
        )

    def alone(self) -> TrainingRows:
        """The same rows, without transformers: the columns that they made are the table."""
        if not self.preprocessors:
            return self
        return replace(self, table=numeric(self.X), positions=None, preprocessors=(), memo={})

    def through(self, fitted: Any) -> TrainingRows:
        """These rows behind fitted transformers, which may have been fitted on other rows."""
        if fitted is None:
            return self
        for rows in self.memo.values():
            # Fitted on these rows before: their columns may be held.
            if isinstance(rows, TrainingRows) and (
                step_ids(rows.preprocessors[-1]) == step_ids(fitted)
            ):
                return rows
        return replace(self, preprocessors=(*self.preprocessors, fitted), memo={})

    def behind(self, transformers: Any) -> TrainingRows:
        """These rows behind transformers that are fitted on all of them."""

        def fit() -> TrainingRows:
            copied = clone(transformers)
            resolve_columns(copied, lambda: self.X if self.preprocessors else self.raw)
            fitted, columns = fit_and_transform(copied, self.X, self.y, self.sample_weight)
            return replace(
                self, preprocessors=(*self.preprocessors, fitted), memo={COLUMNS: columns}
            )

        return self._once(("behind", setting(transformers)), fit)

    def with_target(self, regressor: Any) -> tuple[Any, TrainingRows]:
        """A TransformedTargetRegressor with its transformer fitted, and these rows with the target
        that it makes.
        """

        def transformed() -> tuple[Any, TrainingRows]:
            y = np.asarray(self.y)
            shell = clone(regressor).set_params(regressor=DummyRegressor())
            with config_context(enable_metadata_routing=False):
                shell.fit(np.zeros((len(y), 1)), y)
            target = np.asarray(shell.transformer_.transform(y[:, None] if y.ndim == 1 else y))
            target = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
            columns = {COLUMNS: self.memo[COLUMNS]} if COLUMNS in self.memo else {}
            return shell, replace(self, target=target, memo=columns)

        bare = clone(regressor).set_params(regressor=None)
        return self._once(("target", setting(bare)), transformed)

    def few(self) -> WeightedRows:
        """Few rows with the same squared losses, or second moments of every class; all rows where
        that is better.
        """

        def reduced() -> WeightedRows:
            X = self.raw if self.on_device else numeric(self.X)
            core, reason = None, self.reason_against(len(self), int(X.shape[1]))
            if not reason:
                try:
                    core = self.reduced(X)
                except (NotExactError, InputError) as error:
                    reason = reason_for_all(error, X, *(() if self.classifies else (self.target,)))
            # The columns may be large, and only the few rows are needed from here on.
            self.memo.pop(COLUMNS, None)
            if core is None:
                return self.as_they_are(reason, X)
            y = containers.in_double(core.groups if self.classifies else containers.on_host(core.y))
            few = containers.on_host(core.X)
            return WeightedRows(few, y, core.weights, core, containers.is_sparse(X))

        if FEW in self.memo:
            return cast(WeightedRows, self.memo[FEW])
        few = reduced()
        if self.fits > 1 or few.core.rows == SYNTHETIC:  # all rows are held for several fits only
            self.memo[FEW] = few
        return few

    def reason_against(self, rows: int, columns: int, parts: int = 1, uses: int = 1) -> str:
        """Why few rows are not made of so many, in several parts, each of which is used several
        times; empty if they are.
        """
        if self.on_device:
            return ""
        if self.reduces is not None:
            return "" if self.reduces else ALL
        few = (columns + 2) * parts * (len(np.unique(self.target)) if self.classifies else 1)
        if rows >= LEAST * few and rows * (self.fits * uses - PASSES) >= FACTORS * few:
            return ""
        fits = "one fit" if self.fits == 1 else f"{self.fits:,} fits"
        return (
            f"Reducing {rows:,} rows of {columns:,} columns for {fits} would take longer than"
            f" {fits} on all of them."
        )

    def reduced(self, X: Any, kind: str = SYNTHETIC, problem: Problem | None = None) -> Coreset:
        """The coreset of these rows; for classes with the labels as its groups."""
        options: dict[str, Any] = {
            "sample_weight": self.sample_weight,
            "random_state": self.random_state,
            "rows": kind,
        }
        problem = self.problem if problem is None else problem
        if self.classifies:
            groups = of_positive_weight(np.asarray(self.target), self.sample_weight)
            return coreset(X, problem=problem, groups=groups, **options)
        return coreset(X, self.target, problem, **options)

    def as_they_are(self, reason: str, X: Any = None) -> WeightedRows:
        """All rows, and why."""
        if self.on_device:
            raise NotExactError(f"Few rows cannot be made on the accelerator: {reason}")
        X = numeric(self.X) if X is None else X
        core = all_rows(
            X, None if self.classifies else self.target, self.problem, self.sample_weight, reason
        )
        return WeightedRows(X, self.y, self.sample_weight, core, containers.is_sparse(X))

    def _once(self, key: Any, make: Callable[[], Answer]) -> Answer:
        if key not in self.memo:
            self.memo[key] = make()
        return cast(Answer, self.memo[key])


def numeric(table: Any) -> Any:
    """Columns as scikit-learn's linear models read them: objects become numbers; frames stay as
    they are.
    """
    if containers.is_frame(table):
        return table
    return check_array(
        table, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=1, ensure_2d=True
    )


def reason_for_all(error: NotExactError | InputError, *tables: Any) -> str:
    """Why all rows are used if few cannot be made; raises the error again if scikit-learn would
    refuse the rows too.

    scikit-learn takes finite numbers so far apart that doubles cannot hold the squares of both.
    """
    if isinstance(error, InputError):
        for table in tables:
            try:
                values = containers.as_table(table, "X")
                finite = np.isfinite(
                    values.data if containers.is_sparse(values) else np.asarray(values, dtype=float)
                )
            except (ValueError, TypeError):
                raise error from None
            if not finite.all():
                raise error
    return str(error)


def of_positive_weight(groups: np.ndarray, weights: Any) -> np.ndarray:
    """Groups in which rows without weight join another group: alone they would be an empty one."""
    if weights is None:
        return groups
    positive = weights > 0
    if positive.all() or not positive.any():
        return groups
    return np.where(positive, groups, groups[positive.argmax()])


def all_rows(X: Any, y: Any, problem: Problem, sample_weight: Any, note: str) -> Coreset:
    """Every row of positive weight, with its own weight.

    Nothing is computed, so the certificate gives the number of rows as the rank, which it bounds.
    """
    count = containers.row_count(X)
    weights = check_weights(sample_weight, count)
    indices = np.arange(count) if weights is None else np.flatnonzero(weights)
    size = len(indices)
    certificate = Certificate(
        loss_error=0.0,
        spent=0.0,
        remainder=0.0,
        rounding=0.0,  # the same rows with the same weights
        moment_error=0.0,
        total_error=0.0,
        rank=size,
        size=size,
        bound=size,
        condition=1.0,
        excluded_directions=(),
        method=ALL_ROWS,
        passes=0,
        seconds=0.0,
        keeps=problem.keeps,
        excludes=problem.excludes,
        n_rows=count,
        notes=(note,),
    )
    fewer = size < count
    return Coreset(
        indices=indices.astype(np.int64),
        weights=np.ones(size) if weights is None else weights[indices],
        X=containers.take_rows(X, indices) if fewer else X,
        y=containers.take_rows(y, indices) if fewer else y,
        groups=None,
        n_rows=count,
        problem=problem,
        certificate=certificate,
    )
