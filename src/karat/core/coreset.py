"""The Coreset: a few weighted rows with the same loss as all rows; and how it is made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Never, cast

import numpy as np

from karat.core import export, synthetic
from karat.core.certify import Certificate
from karat.core.construct import assembled, encoded_coreset, merge, read_rows, reduced
from karat.core.files import loaded_fields, save
from karat.core.provenance import Provenance
from karat.core.regression import Regression
from karat.core.synthetic import KEEP, REAL, SYNTHETIC, RowKind, Verbatim, check_rows_argument
from karat.core.verify import verify
from karat.data import containers
from karat.data.advice import unknown_argument
from karat.data.arguments import check_absorbing, chosen_problem, named_columns, progress_bar
from karat.data.batch import features_of, read_input
from karat.data.labels import contained
from karat.engine.fourth_moments import FourthSums
from karat.engine.kernel import NonFiniteError
from karat.engine.linalg import Array
from karat.engine.rows import Progress
from karat.errors import InputError, check_integer
from karat.problems import Problem
from karat.problems.absorb.correction import Correction

Method = Literal["auto", "onepass", "tree", "caratheodory"]
METHODS = ("auto", "onepass", "tree", "caratheodory")
# what other rooms ask of a coreset, and users need not see
INTERNAL = {"absorbed", "arrays", "fourth", "minus_offsets", "strata", "tables"}


@dataclass(frozen=True, eq=False, repr=False)
class Coreset:
    """Weighted input rows with the same loss as all rows.

    Made by :func:`karat.coreset`; all fields are read-only.

    Attributes
    ----------
    indices : int64 array or None
        The numbers of the kept rows in the input, increasing; None for synthetic rows.
    weights : float64 array
        Their weights, all positive; they sum to the total weight of the input (unless the problem
        says otherwise).
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
        Latent problems: maps of the full data, without which the rows do not give its parameters.
    provenance : dict or None
        Where the rows came from: files, columns, seed, version, content hashes.
    absorbed : Correction or None
        What an absorbing regulariser carries.
    regression : Regression or None
        The formula and the robust sums of a regression table (:func:`karat.inference.ols`).
    verbatim : bool array or None
        Which kept rows have their own weights because they are far larger than others; the
        certificate is then about the other rows.  None if that is not known (merged or loaded
        coresets): the certificate is about all rows.
    rows : str
        "real" for rows of the input, "synthetic" for rows made with the same second moments.
    strata : array of int or None
        What each synthetic row was made of: 0 ordinary rows, 1 wild ones, 2 one wild row as it is.
    fourth : FourthSums or None
        Slices of a cube with ``cov=``: what HC0 and HC1 of tables follow from.
    """

    indices: np.ndarray | None
    weights: Array
    X: Any
    y: Any
    groups: np.ndarray | None
    n_rows: int
    problem: Problem
    certificate: Certificate
    keys: np.ndarray | None = None
    maps: dict[str, Array] | None = None
    provenance: dict[str, Any] | None = None
    absorbed: Correction | None = None
    regression: Regression | None = None
    verbatim: np.ndarray | None = None
    rows: str = REAL
    strata: np.ndarray | None = None
    fourth: FourthSums | None = None

    def __post_init__(self) -> None:
        for array in (self.indices, self.weights):
            if array is not None:
                array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_represented(self) -> int:
        """Rows of the input that the kept ones represent: all but those with a missing value."""
        return self.n_rows - Provenance.read(self.provenance).left_out

    @property
    def correction(self) -> tuple[np.ndarray, np.ndarray] | None:
        """What an absorbing regulariser carries.

        For power 2 the pair (G, b) = (X'X - Xc'Xc, X'y - Xc'yc); for higher powers the pair
        (monomials, differences of moments).  None if the rows carry everything.
        """
        if self.absorbed is None:
            return None
        if self.absorbed.sets.shape[1] == 2:
            return self.absorbed.matrices()
        return self.absorbed.sets, self.absorbed.delta

    def arrays(self) -> tuple[Array, Array | None]:
        """X and y of the kept rows as the problem reads them, in double precision."""
        if isinstance(self.X, tuple):
            raise InputError("The rows are in several tables, one per view: use tables().")
        X = features_of(self.X, self.problem)
        X = X.toarray() if hasattr(X, "toarray") else X
        if self.y is None:
            return np.asarray(X, dtype=float), None
        y = np.asarray(containers.as_table(self.y, "y"), dtype=float)
        return np.asarray(X, dtype=float), y[:, 0] if containers.dimensions(self.y) == 1 else y

    def tables(self) -> tuple[Any, ...]:
        """The tables of X as arrays or CSR matrices: one, or one per view."""
        views = self.X if isinstance(self.X, tuple) else (self.X,)
        return tuple(containers.as_table(view, "X") for view in views)

    def minus_offsets(self) -> tuple[Array, Array | None, list[int]]:
        """X and y minus an offset per column, and the offsets: 0 unless integers are too large for
        doubles.
        """
        X, y = self.arrays()
        columns = X.shape[1]
        if not self.problem.shifts:
            return X, y, [0] * columns
        table = read_input(self.X, self.y, self.problem, None, None)
        offsets = [(table.offsets or {}).get(i, 0) for i in range(columns + table.targets)]
        if any(offsets):
            block = table.rows().take(np.arange(len(self)), np.zeros(len(offsets)))[:, 1:]
            X, y = block[:, :columns], None if y is None else block[:, columns:].reshape(y.shape)
        return X, y, offsets

    def loss(self, query: Any) -> float:
        """The loss at a query, equal to that of the full data; the problem says what a query is."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.problem.loss_on(self, query)
        if np.isnan(value):
            raise InputError(
                "Rescale the columns or the query: the loss has terms beyond the largest double."
            )
        return value

    def fit(self, estimator: Any) -> Any:
        """Fit a scikit-learn estimator on the kept rows with their weights.

        An estimator that would not give the fit of the full data raises an error that says why.
        """
        from karat.estimators.fitting import fit_on_core

        if hasattr(estimator, "fit_coreset"):
            return estimator.fit_coreset(self)
        return fit_on_core(self, estimator)

    def scaled(self, p: int | None = None) -> tuple[Array, Array | None]:
        """Rows times ``w^(1/p)``, for solvers without weights (the paper's form).

        Exact for losses that are homogeneous of degree p in the row, so without an intercept (which
        would need its own scaled column of ``w^(1/p)``).

        Parameters
        ----------
        p : int, optional
            The power; by default that of the problem.
        """
        power = p if p is not None else self.problem.power
        if power is None:
            raise InputError(f"{self.problem.describe()} has no power of its own; pass p.")
        if not power > 0:
            raise InputError(f"p must be positive, not {power!r}.")
        factor = self.weights ** (1.0 / power)
        X, y = self.arrays()
        return factor[:, None] * X, None if y is None else (factor * y.T).T

    def verify(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, groups: Any = None,
        lengths: Any = None, **unknown: Never,
    ) -> Certificate:  # fmt: skip
        """Measure the coreset against full data.

        Parameters
        ----------
        X, y, sample_weight, groups, lengths
            As in :func:`karat.coreset`, also names of columns.
        **unknown
            Raises an error that suggests the argument you probably meant.

        Returns
        -------
        Certificate
            Not ``ok`` if a moment differs or if the kept rows are not the rows of X at ``indices``
            (for synthetic rows: if a row kept as it is, is not a row of X).
        """
        if unknown:
            raise unknown_argument(Coreset.verify, unknown)
        if Provenance.read(self.provenance).encoding is not None and containers.is_frame(X):
            return cast("Certificate", import_module("karat.io").verify_files(self, X).certificate)
        return verify(self, X, y, sample_weight, groups, lengths)

    def merge(self, other: Coreset, *, random_state: int = 0) -> Coreset:
        """The exact coreset of the union of both inputs.

        Indices run through the rows of ``self``, then those of ``other``.  If either has synthetic
        rows, so has the union.
        """
        return merge(self, other, random_state)

    def contains(self, keys: Any) -> np.ndarray:
        """Whether each key is that of a kept row.

        A row that is not kept still contributes to the weights of the coreset (or of its cell of a
        cube): to delete it, build that again.

        Parameters
        ----------
        keys : array or a single key
            Values of the key column.

        Returns
        -------
        array of bool
        """
        if self.rows == SYNTHETIC:
            raise InputError("Synthetic rows have no keys: they are made.", argument="keys")
        if self.keys is None:
            raise InputError(
                "The coreset has no keys; build it with key=, the column that identifies rows.",
                argument="key",
            )
        return contained(keys, self.keys)

    def to_pandas(self) -> Any:
        """The kept rows as a pandas frame: features, target, ``weight`` (``group``, ``key``).

        The index is that of the rows in X, if X is a pandas frame, else the number of each row in
        the input.
        """
        return export.to_pandas(self)

    def to_polars(self) -> Any:
        """The kept rows as a polars frame: ``row``, features, target, ``weight``."""
        return export.to_polars(self)

    def to_arrow(self) -> Any:
        """The kept rows as an Arrow table: ``row``, features, target, ``weight``."""
        return export.to_arrow(self)

    def summary(self) -> export.CoresetSummary:
        """What the coreset keeps and how exactly, as text or as a table in a notebook."""
        return export.CoresetSummary(self)

    def plot(self, X: Any = None, y: Any = None, *, ax: Any = None) -> Any:
        """Plot the kept rows, sized by weight, over a sample of the data (extra ``report``).

        Parameters
        ----------
        X, y
            The full data, for the background; without it, the kept rows alone.
        ax : matplotlib axes, optional
            By default those of a new figure.

        Returns
        -------
        karat.report.ProjectionDisplay
            With ``ax_`` and ``figure_``.
        """
        X, y, *_ = named_columns(X, y)
        # imported by name, because karat.report imports this module
        report = import_module("karat.report")
        return report.ProjectionDisplay.from_coreset(self, X, y).plot(ax)

    def save(self, path: str | Path) -> None:
        """Write to a file, atomically and without pickle; :func:`karat.load` reads it.

        Parameters
        ----------
        path : path
            ``.npz`` (arrays and JSON), or ``.parquet`` (extra ``io``): a table of the kept rows
            with ``weight`` and ``row`` (and ``group``, ``key``), which any tool can open.
            Everything else is in the metadata of its schema.
        """
        save(self, Path(path))

    @staticmethod
    def load(path: str | Path, problem: Problem | None = None) -> Coreset:
        """Read a coreset that :meth:`save` wrote; :func:`karat.load` reads cubes, too."""
        return Coreset(**loaded_fields(Path(path), problem))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - INTERNAL)

    def __repr__(self) -> str:
        return export.coreset_line(self)

    def _repr_html_(self) -> str:
        return export.coreset_html(self)


def coreset(
    X: Any,
    y: Any = None,
    problem: Problem | None = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    lengths: Any = None,
    method: Method = "auto",
    rows: RowKind = "real",
    verbatim: Verbatim = "keep",
    one_hot: Sequence[str] | Literal["auto"] = (),
    on_missing: Literal["error", "drop", "mean"] = "error",
    random_state: int = 0,
    progress: Progress | bool | None = None,
    **unknown: Never,
) -> Coreset:
    """Pick a few rows and weight them, so that the loss is the same at every query.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        Also an array of PyTorch, CuPy or JAX, which is read where it lies (extra ``arrays``).
    y : array or frame of shape (n,) or (n, T), or the name of a column, optional
        A name, or a list of names, takes these columns out of the frame X.
    problem : Problem, optional
        What must not change; :class:`~karat.problems.LeastSquares` if y is given, else
        ``Moments(2)``.
    sample_weight : array of shape (n,), optional
        Non-negative weights of the rows.
    groups : array of shape (n,), optional
        One exact coreset per label (cross-validation folds, classes, sites), returned as one.
    lengths : array of int, optional
        Lengths of sequences, for sequence models only.
    method : {"auto", "onepass", "tree", "caratheodory"}
        The reducer; all give the same guarantee.  :func:`karat.plan` says what "auto" would do and
        why.
    rows : {"real", "synthetic"}
        Rows of the input, or made rows with the same second moments: rank + 1 of them (usually at
        most d + 2).  Made rows serve every squared loss, at any number of columns, if the model is
        linear in the columns.  They hold no record of the data but those of ``verbatim``.
    verbatim : {"keep", "error"}
        Synthetic rows: keep single rows that are far larger than all others as they are, or raise.
    one_hot, on_missing
        Of a frame whose target is named: its categories ("auto": all columns of text), and what to
        do about missing values, as in :func:`karat.coreset_files`.
    random_state : int
        Seed for the choice of rows; the result is exact for every seed.
    progress : True or callable, optional
        True shows a bar by tqdm (extra ``progress``).  A callable is called with (rows done, rows
        in all).
    **unknown
        Raises an error that suggests the argument you probably meant.

    Returns
    -------
    Coreset

    Raises
    ------
    InputError
        If an input cannot be used; the message says where and what to do.
    NotExactError
        If no exact coreset was found; an inexact one is never returned.

    Examples
    --------
    >>> import numpy as np, karat
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100_000, 3)); y = X.sum(axis=1) + rng.standard_normal(100_000)
    >>> core = karat.coreset(X, y)
    >>> len(core), core.certificate.ok
    (15, True)
    >>> len(karat.coreset(X, y, rows="synthetic"))
    5
    """
    start = time.perf_counter()
    if unknown:
        raise unknown_argument(coreset, unknown)
    if not isinstance(one_hot, list | tuple) or one_hot or on_missing != "error":
        return encoded_coreset(
            X, y, problem, lengths, method, one_hot=one_hot, on_missing=on_missing, rows=rows,
            sample_weight=sample_weight, groups=groups, verbatim=verbatim, progress=progress,
            random_state=random_state,
        )  # fmt: skip
    if progress is not None and not callable(progress):
        with progress_bar(progress, "rows") as advance:
            return coreset(
                X, y, problem, sample_weight=sample_weight, groups=groups, lengths=lengths,
                method=method, rows=rows, verbatim=verbatim, random_state=random_state,
                progress=advance,
            )  # fmt: skip
    target = None
    if isinstance(y, str | list) or isinstance(sample_weight, str) or isinstance(groups, str):
        X, y, sample_weight, groups, target = named_columns(X, y, sample_weight, groups)
    problem = chosen_problem(problem, y is not None)
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"method must be one of {', '.join(METHODS)}, not {method!r}.", argument="method"
        )
    if rows != REAL or verbatim != KEEP:
        check_rows_argument(rows, problem, method, verbatim)
    if type(random_state) is not int or random_state < 0:  # NumPy integers pass, True does not
        check_integer("random_state", random_state, 0)
    X, y = containers.collected(X), containers.collected(y)
    data = read_rows(X, y, problem, sample_weight, groups, lengths)
    check_absorbing(problem, groups, data.targets)
    seed, correction = int(random_state), None
    provenance = None if target is None else {"target": target}
    try:
        if rows == SYNTHETIC:
            data = synthetic.readable_by_doubles(data)
            made = synthetic.synthesised(data, seed, progress)
            return Coreset(
                **synthetic.made_fields(problem, data, X, y, made, start, verbatim),
                provenance=provenance,
            )
        reductions = reduced(data, data.kernel, method, seed, progress)
        if problem.absorb is not None:
            reductions[0], correction = problem.absorb_rows(
                data.rows(), reductions[0], seed, progress, unit=data.unit
            )
    except NonFiniteError:
        raise data.explain_non_finite() from None
    return Coreset(
        **assembled(problem, data, X, y, reductions, correction, start), provenance=provenance
    )
