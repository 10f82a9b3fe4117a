"""Data sets and problems of the golden files, from fixed seeds.

The legacy generator is used because its stream is frozen for good, and values are rounded to a coarse grid (or to single
precision), so that every machine makes the same numbers.  ``Data.digest`` tells whether it did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import sparse

from karat import problems as P

ROWS = 240
NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i")


def stream(seed: int) -> np.random.RandomState:
    return np.random.RandomState(seed)


def on_grid(values: np.ndarray) -> np.ndarray:
    return np.round(values * 64) / 64


def single(values: np.ndarray) -> np.ndarray:
    """Rounded to single precision, as doubles."""
    return values.astype(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Data:
    """All rows; X is a tuple of three tables for MultiView."""

    X: Any
    y: np.ndarray | None = None
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    keys: np.ndarray | None = None
    lengths: np.ndarray | None = None

    @property
    def count(self) -> int:
        return len(self.tables[0])

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        return self.X if isinstance(self.X, tuple) else (self.X,)

    @property
    def mass(self) -> np.ndarray:
        """The weights, ones if there are none."""
        return np.ones(self.count) if self.weights is None else self.weights

    def options(self) -> dict[str, np.ndarray]:
        """What ``karat.coreset`` and ``verify`` take by name."""
        given = {"sample_weight": self.weights, "groups": self.groups, "lengths": self.lengths}
        return {name: value for name, value in given.items() if value is not None}

    def take(self, rows: slice) -> Data:
        """Some of the rows of a plain table."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return Data(**{name: None if part is None else part[rows] for name, part in parts.items()})

    def digest(self) -> str:
        """A hash of all values."""
        found = hashlib.sha256()
        for part in (*self.tables, self.y, self.weights, self.lengths):
            if part is not None:
                found.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class Case:
    """One problem on one data set.

    Attributes
    ----------
    queries
        Where losses are compared.
    container
        In which X and y are handed over: array, sparse, pandas, polars or pyarrow.
    sketch
        Whether a checkpoint of a Sketch is made.
    run
        The kind of files from which an interrupted ``coreset_files`` reads: csv, parquet or None.
    """

    problem: P.Problem
    data: Callable[[], Data]
    queries: tuple[Any, ...] = ()
    container: str = "array"
    sketch: bool = True
    run: str | None = None

    @property
    def latent(self) -> bool:
        return isinstance(
            self.problem, P.GaussianMixture | P.ICA | P.SingleTopic | P.LatentDirichlet | P.MultiView | P.HiddenMarkov
        )

    @property
    def absorbs(self) -> bool:
        return getattr(self.problem, "absorb", None) is not None

    @property
    def asked(self) -> dict[str, P.Problem]:
        """The problem for ``load``, where a file cannot hold it."""
        return {} if self.problem.storable else {"problem": self.problem}


# Data of the right coresets: tables of a few columns on a grid.


def regression() -> Data:
    rng = stream(1)
    X = rng.standard_normal((ROWS, 3)) * [1.0, 8.0, 0.5] + [0.0, 20.0, -3.0]
    return Data(on_grid(X), on_grid(X @ [1.0, -0.5, 2.0] + rng.standard_normal(ROWS)))


def two_columns() -> Data:
    rng = stream(2)
    X = on_grid(rng.standard_normal((ROWS, 2)) + np.array([1.0, -2.0]))
    return Data(X, on_grid(X @ [1.0, 2.0] + rng.standard_normal(ROWS)))


def two_targets() -> Data:
    made, rng = two_columns(), stream(3)
    return Data(made.X, np.column_stack([made.y, on_grid(made.X[:, 0] ** 2 + rng.standard_normal(ROWS))]))


def everything() -> Data:
    """Weights, some of them zero, groups of text, and keys."""
    made, rng = two_columns(), stream(4)
    weights = on_grid(rng.random_sample(ROWS) * (rng.random_sample(ROWS) > 0.1))
    groups = np.array(["north", "south", "west"])[rng.randint(0, 3, ROWS)]
    return Data(made.X, made.y, weights, groups, np.arange(ROWS) * 7 + 1000)


def weighted() -> Data:
    made = everything()
    return Data(made.X, made.y, made.weights)


def grouped() -> Data:
    made, rng = two_columns(), stream(5)
    return Data(made.X, made.y, groups=rng.randint(0, 4, ROWS))


def keyed() -> Data:
    made = everything()
    return Data(made.X, made.y, keys=made.keys)


def mostly_zero() -> Data:
    rng = stream(6)
    X = on_grid(rng.standard_normal((ROWS, 4)) * (rng.random_sample((ROWS, 4)) < 0.3))
    return Data(X, on_grid(X.sum(axis=1) + rng.standard_normal(ROWS)))


def one_hot() -> Data:
    """Collinear columns: the rank is below the bound."""
    rng = stream(7)
    X = np.column_stack([np.eye(3)[rng.randint(0, 3, ROWS)], on_grid(rng.standard_normal(ROWS))])
    return Data(X, on_grid(X @ [1.0, 2.0, 3.0, -1.0] + rng.standard_normal(ROWS)))


def cloud() -> Data:
    return Data(regression().X)


def flat_cloud() -> Data:
    return Data(two_columns().X)


def weighted_cloud() -> Data:
    made = weighted()
    return Data(made.X, weights=made.weights)


def mixture() -> Data:
    rng = stream(8)
    means = np.array([[4.0, 0.0, 1.0], [-1.0, 3.0, 0.0]])
    return Data(on_grid(means[rng.randint(0, 2, ROWS)] + rng.standard_normal((ROWS, 3))))


def weighted_mixture() -> Data:
    return Data(mixture().X, weights=everything().weights)


def sources() -> Data:
    rng = stream(9)
    hidden = np.column_stack([rng.laplace(size=ROWS), rng.uniform(-2, 2, ROWS)])
    return Data(on_grid(hidden @ [[1.0, 0.5], [-0.3, 1.0]] + 5.0))


def documents() -> Data:
    """Counts of five words in short texts, some of which have fewer than three words."""
    rng = stream(10)
    topics = np.array([[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.1, 0.15, 0.3, 0.4]])
    sizes = rng.randint(2, 12, ROWS)
    return Data(np.array([rng.multinomial(m, topics[h]) for m, h in zip(sizes, rng.randint(0, 2, ROWS), strict=True)]))


def mixed_documents() -> Data:
    rng = stream(11)
    topics = np.array([[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.1, 0.15, 0.3, 0.4]])
    shares = on_grid(rng.dirichlet([0.5, 0.7], ROWS)[:, :1])
    laws = shares * topics[0] + (1 - shares) * topics[1]
    return Data(np.array([rng.multinomial(m, p) for m, p in zip(rng.randint(6, 20, ROWS), laws, strict=True)]))


def states(rng: np.random.RandomState, lengths: np.ndarray) -> np.ndarray:
    """Two states that mostly stay as they are."""
    found = []
    for length in lengths:
        flips = rng.random_sample(length) < 0.2
        flips[0] = rng.random_sample() < 0.5
        found.append(np.cumsum(flips) % 2)
    return np.concatenate(found)


LENGTHS = np.array([50, 2, 88, 100])


def symbols() -> Data:
    rng = stream(12)
    law = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]).cumsum(axis=1)[states(rng, LENGTHS)]
    drawn = (rng.random_sample(ROWS)[:, None] >= law).sum(axis=1)
    return Data(np.minimum(drawn, 2)[:, None], lengths=LENGTHS)


def chain() -> Data:
    rng = stream(13)
    means = np.array([[3.0, 0.0, 1.0], [-1.0, 2.0, 0.0]])[states(rng, LENGTHS)]
    return Data(on_grid(means + rng.standard_normal((ROWS, 3))), lengths=LENGTHS)


def views() -> Data:
    rng = stream(14)
    hidden = rng.randint(0, 2, ROWS)
    means = [np.array(m) for m in ([[2.0, 0.0], [-1.0, 1.0]], [[0.0, 3.0, 1.0], [2.0, -1.0, 0.0]], [[1.0, 1.0], [-2.0, 0.5]])]
    return Data(tuple(on_grid(m[hidden] + 0.5 * rng.standard_normal((ROWS, m.shape[1]))) for m in means))


def waves(X: np.ndarray) -> np.ndarray:
    """Features of a user."""
    X = np.asarray(X)
    return np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0]), X[:, 1], np.exp(-np.square(X[:, 1]))])


def lifted(query: Any) -> np.ndarray:
    return np.asarray(query, dtype=float)


def columns_themselves(X: np.ndarray) -> np.ndarray:
    return np.asarray(X)


def with_squares(X: Any) -> np.ndarray:
    X = np.asarray(X)
    return np.column_stack([X, np.square(X[:, 0])])


WAVES = P.Kernel(waves, lifted)
SQUARES = P.Transformed(P.LeastSquares(), with_squares)
LINES_3 = ([1.0, -0.5, 2.0, 0.0], [0.0, 1.0, -1.0, -20.0])  # the intercept last
LINES_2 = ([1.0, 2.0, 0.5], [-3.0, 0.0, 0.0])
WHITE = ([1.0, 0.5], [-0.25, 1.0])

RIGHT: dict[str, Case] = {
    "least_squares": Case(P.LeastSquares(), regression, LINES_3, run="csv"),
    "least_squares_no_intercept": Case(P.LeastSquares(fit_intercept=False), two_columns, ([1.0, 2.0], [0.5, 0.0])),
    "least_squares_two_targets": Case(P.LeastSquares(), two_targets, ([[1.0, 0.0], [2.0, 1.0], [0.5, 0.25]],), run="csv"),
    "least_squares_weights": Case(P.LeastSquares(), weighted, LINES_2),
    "least_squares_groups": Case(P.LeastSquares(), grouped, LINES_2, run="csv"),
    "least_squares_keys": Case(P.LeastSquares(), keyed, LINES_2, container="pandas"),
    "least_squares_everything": Case(P.LeastSquares(), everything, LINES_2, container="pandas", run="parquet"),
    "least_squares_pandas": Case(P.LeastSquares(), regression, LINES_3, container="pandas"),
    "least_squares_pandas_two_targets": Case(
        P.LeastSquares(), two_targets, ([[1.0, 0.0], [2.0, 1.0], [0.5, 0.25]],), container="pandas", sketch=False
    ),
    "least_squares_polars": Case(P.LeastSquares(), regression, LINES_3, container="polars"),
    "least_squares_pyarrow": Case(P.LeastSquares(), regression, LINES_3, container="pyarrow"),
    "least_squares_sparse": Case(P.LeastSquares(), mostly_zero, ([1.0, 0.0, 2.0, -1.0, 0.5],), container="sparse"),
    "least_squares_one_hot": Case(P.LeastSquares(), one_hot, ([1.0, 2.0, 3.0, -1.0, 0.0],)),
    "ridge": Case(P.Ridge(2.0), regression, LINES_3, run="csv"),
    "ridge_diagonal": Case(P.Ridge(500.0, absorb="diagonal"), regression, LINES_3, run="csv"),
    "ridge_box": Case(P.Ridge(200.0, absorb="box"), regression, LINES_3, run="csv"),
    "ridge_box_weights": Case(P.Ridge(50.0, absorb="box"), weighted, LINES_2),
    "l4": Case(P.LpRegression(4), two_columns, LINES_2, run="csv"),
    "l4_diagonal": Case(P.LpRegression(4, 300.0, absorb="diagonal"), two_columns, LINES_2, run="csv"),
    "l4_box": Case(P.LpRegression(4, 300.0, fit_intercept=False, absorb="box"), two_columns, ([1.0, 2.0], [-1.0, 0.5])),
    "mean": Case(P.Mean(), cloud, ([0.0, 0.0, 0.0], [1.0, 20.0, -3.0]), run="csv"),
    "moments_2": Case(P.Moments(2), cloud, LINES_3, run="csv"),
    "moments_3": Case(P.Moments(3), weighted_cloud, LINES_2, run="csv"),
    "moments_4": Case(P.Moments(4), flat_cloud, LINES_2, run="csv"),
    "contraction_3": Case(P.TensorContraction(3), flat_cloud, ([1.0, -2.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), run="csv"),
    "contraction_4": Case(P.TensorContraction(4), flat_cloud, ([1.0, 2.0], [0.0, 1.0]), run="csv"),
    "kernel": Case(WAVES, flat_cloud, ([1.0, 0.0, -1.0, 2.0], [0.0, 1.0, 0.0, 0.0]), run="csv"),
    "transformed": Case(SQUARES, two_columns, ([1.0, 2.0, 0.5, 0.0],), sketch=False),
    "mixture": Case(P.GaussianMixture(2), mixture, WHITE, sketch=False, run="csv"),
    "mixture_weights": Case(P.GaussianMixture(2), weighted_mixture, WHITE, sketch=False, run="parquet"),
    "mixture_spherical": Case(P.GaussianMixture(2, "spherical"), mixture, sketch=False),
    "mixture_all": Case(P.GaussianMixture(2, keep="all"), mixture, sketch=False, run="csv"),
    "single_topic": Case(P.SingleTopic(2), documents, WHITE, sketch=False, run="csv"),
    "single_topic_sparse": Case(P.SingleTopic(2), documents, WHITE, container="sparse", sketch=False),
    "single_topic_all": Case(P.SingleTopic(2, keep="all"), documents, sketch=False),
    "latent_dirichlet": Case(P.LatentDirichlet(2, 1.25), mixed_documents, WHITE, sketch=False, run="csv"),
    "latent_dirichlet_all": Case(P.LatentDirichlet(2, 1.25, keep="all"), mixed_documents, sketch=False),
    "hidden_markov": Case(P.HiddenMarkov(2), symbols, WHITE, sketch=False, run="csv"),
    "hidden_markov_all": Case(P.HiddenMarkov(2, keep="all"), symbols, sketch=False),
    "hidden_markov_gaussian": Case(P.HiddenMarkov(2, "gaussian"), chain, WHITE, sketch=False, run="csv"),
    "multi_view": Case(P.MultiView(2), views, WHITE, sketch=False, run="csv"),
    "multi_view_all": Case(P.MultiView(2, keep="all"), views, sketch=False),
    "ica": Case(P.ICA(2), sources, WHITE, sketch=False, run="csv"),
    "ica_all": Case(P.ICA(2, keep="all"), sources, sketch=False),
}


# Data of the wrong coresets: 0.1.0 says ok, and a moment or a loss is visibly off.


def pareto(shape: float, seed: int, columns: int = 3) -> Callable[[], Data]:
    return lambda: Data(single(stream(seed).pareto(shape, (2000, columns))))


def drifting() -> Data:
    """The columns are nearly equal but for the first rows."""
    rng = stream(2)
    X = on_grid(rng.standard_normal((2000, 3)) + np.round(10.0 ** (np.arange(2000) / 2000 * 8), 3)[:, None])
    return Data(X, on_grid(X @ [1.0, -2.0, 0.5] + rng.standard_normal(2000)))


def tiny_weights() -> Data:
    rng = stream(1)
    X = on_grid(rng.standard_normal((300, 2)))
    return Data(X, on_grid(X @ [1.0, -2.0] + rng.standard_normal(300)), (1 + on_grid(rng.random_sample(300))) * 1e-120)


def rare_column() -> Data:
    """A column of about 1e-9 in twenty of 200,000 rows, and 0 elsewhere."""
    rng = stream(2)
    X = np.zeros((200_000, 2))
    X[:, 0] = on_grid(rng.standard_normal(len(X)))
    X[rng.choice(len(X), 20, replace=False), 1] = np.arange(64, 84) * 2.0**-36
    return Data(X, X @ [1.0, 2.0**32] + on_grid(rng.standard_normal(len(X))) / 8)


def hidden_feature() -> Data:
    """A column of 1e-4 in two of 200,000 rows, and 0 elsewhere."""
    rng = stream(1)
    X = np.column_stack([on_grid(rng.standard_normal((200_000, 2))), np.zeros(200_000)])
    X[rng.choice(len(X), 2, replace=False), 2] = 1e-4
    return Data(X)


def twin_columns() -> Data:
    """Two columns that differ in two of 200,000 rows."""
    rng = stream(1)
    X = np.repeat(on_grid(rng.standard_normal((200_000, 1))) + 3.0, 2, axis=1)
    X[rng.choice(len(X), 2, replace=False), 1] += 2.0**-17
    return Data(X)


def late_column() -> Data:
    """A column that is 0 at first and about 1e-11 later, so that a sketch takes it for nothing."""
    rng = stream(1)
    X = on_grid(rng.standard_normal((3000, 2)))
    X[:2000, 1] = 0.0
    X[:, 1] *= 2.0**-37
    return Data(X, X @ [1.0, 2.0**37] + on_grid(rng.standard_normal(3000)) / 8)


@dataclass(frozen=True)
class Wrong:
    """A coreset that 0.1.0 accepts although it is not exact.

    Attributes
    ----------
    query
        At which the loss is off; None where it is a moment.
    moment
        The columns whose product is off; a column counts as often as it is named.
    batch
        Rows of a batch, where the coreset comes from a Sketch.
    """

    problem: P.Problem
    data: Callable[[], Data]
    query: Any = None
    moment: tuple[int, ...] | None = None
    batch: int | None = None

    @property
    def asked(self) -> dict[str, P.Problem]:
        return {} if self.problem.storable else {"problem": self.problem}


IDENTITY = P.Kernel(columns_themselves, lifted)

WRONG: dict[str, Wrong] = {
    "pareto_moments_4": Wrong(P.Moments(4), pareto(0.5, 3), moment=(0, 0, 1, 1)),
    "pareto_moments_4_triple": Wrong(P.Moments(4), pareto(0.5, 14), moment=(0, 1, 2)),
    "pareto_moments_3": Wrong(P.Moments(3), pareto(0.3, 37), moment=(0, 1, 1)),
    "pareto_contraction_3": Wrong(P.TensorContraction(3), pareto(0.5, 27), moment=(0, 2, 2)),
    "pareto_contraction_4": Wrong(P.TensorContraction(4), pareto(0.5, 10), moment=(1, 1, 2, 2)),
    "drifting_box": Wrong(P.Ridge(1.0, absorb="box"), drifting, query=[1.0, -2.0, 0.5, 0.0]),
    "drifting_diagonal": Wrong(P.Ridge(1.0, absorb="diagonal"), drifting, query=[1.0, -2.0, 0.5, 0.0]),
    "tiny_weights_box": Wrong(P.Ridge(2e-119, absorb="box"), tiny_weights, query=[1.0, -2.0, 0.0]),
    "rare_column": Wrong(P.LeastSquares(), rare_column, query=[1.0, 2.0**32, 0.0]),
    "hidden_feature": Wrong(P.Moments(1), hidden_feature, moment=(2,)),
    "hidden_feature_kernel": Wrong(IDENTITY, hidden_feature, query=[0.0, 0.0, 1.0]),
    "twin_columns": Wrong(IDENTITY, twin_columns, query=[-1.0, 1.0]),
    "late_column": Wrong(P.LeastSquares(), late_column, query=[1.0, 2.0**37, 0.0], batch=1000),
}


# Containers.


def contained(data: Data, container: str) -> tuple[Any, Any]:
    """X and y as users hand them over; a key column is one of X."""
    if container == "array" or isinstance(data.X, tuple):
        return data.X, data.y
    if container == "sparse":
        return sparse.csr_array(data.X), data.y
    columns = dict(zip(NAMES, data.X.T, strict=False)) | ({} if data.keys is None else {"id": data.keys})
    return _frame(container, columns), _target(container, data.y)


def _frame(container: str, columns: dict[str, np.ndarray]) -> Any:
    if container == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    if container == "polars":
        import polars as pl

        return pl.DataFrame(columns)
    import pyarrow as pa

    return pa.table(columns)


def _target(container: str, y: np.ndarray) -> Any:
    if y.ndim == 2:
        return _frame(container, {f"y{i}": column for i, column in enumerate(y.T)})
    if container == "pandas":
        import pandas as pd

        return pd.Series(y, name="y")
    if container == "polars":
        import polars as pl

        return pl.Series("y", y)
    return y


# Files for coreset_files: in fsspec's memory, whose addresses are the same on every machine.

BATCH = 40


def columns_in_files(data: Data) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """The columns of the files, and the roles that ``coreset_files`` gives them."""
    names = [
        [f"{name}{i}" if len(data.tables) > 1 else name for name in NAMES[: t.shape[1]]] for i, t in enumerate(data.tables)
    ]
    columns = {n: c.tolist() for ns, t in zip(names, data.tables, strict=True) for n, c in zip(ns, t.T, strict=True)}
    roles: dict[str, Any] = {"columns": names if len(names) > 1 else names[0]}
    if data.y is not None:
        targets = {"y": data.y} if data.y.ndim == 1 else {f"y{i}": column for i, column in enumerate(data.y.T)}
        columns |= {name: column.tolist() for name, column in targets.items()}
        roles["target"] = "y" if data.y.ndim == 1 else list(targets)
    sequence = None if data.lengths is None else np.repeat(np.arange(len(data.lengths)), data.lengths)
    others = {"sample_weight": data.weights, "groups": data.groups, "key": data.keys, "sequence": sequence}
    for role, values in others.items():
        if values is not None:
            columns[role] = values.tolist()
            roles[role] = role
    return columns, roles


def csv_parts(columns: dict[str, list[Any]]) -> list[bytes]:
    """The text of files of BATCH rows each."""
    lines = [",".join(map(str, values)) for values in zip(*columns.values(), strict=True)]
    parts = [lines[start : start + BATCH] for start in range(0, len(lines), BATCH)]
    return ["\n".join([",".join(columns), *part, ""]).encode() for part in parts]


def in_memory(name: str, parts: list[bytes], suffix: str) -> str:
    """Put files where ``coreset_files`` finds them; their address."""
    import fsspec

    system = fsspec.filesystem("memory")
    for i, part in enumerate(parts):
        system.pipe_file(f"/golden/{name}/part-{i}.{suffix}", part)
    return f"memory://golden/{name}"


# A run of coreset_files and the updates of a sketch, as the interrupted ones were made.

SKETCHED = 160  # rows of a saved sketch


def stops(case: Case) -> dict[str, int]:
    """Batches after which a run is interrupted, by the suffix of its checkpoint; latent problems read all batches twice."""
    return {"run-1": 3, "run-2": ROWS // BATCH + 3} if case.latent else {"run": 3}


def run_options(case: Case, data: Data) -> dict[str, Any]:
    roles = columns_in_files(data)[1]
    return roles | {"problem": case.problem, "batch_rows": BATCH}


def batches(case: Case, data: Data, first: int, last: int) -> list[tuple[tuple[Any, Any], dict[str, Any]]]:
    """Arguments of ``Sketch.update`` for the rows from first to last, BATCH rows at a time."""
    parts = [data.take(slice(start, start + BATCH)) for start in range(first, last, BATCH)]
    return [(contained(part, case.container), part.options()) for part in parts]
