"""Data sets and problems of the golden files, from fixed seeds.

The legacy generator is used because its stream is frozen for good, and values are rounded to a
coarse grid, so that every machine makes the same numbers.  ``Data.digest`` tells whether it did.
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
        In which X and y are handed over: array, sparse or pandas.
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
            self.problem,
            P.GaussianMixture
            | P.ICA
            | P.SingleTopic
            | P.LatentDirichlet
            | P.MultiView
            | P.HiddenMarkov,
        )

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
    return Data(
        made.X, np.column_stack([made.y, on_grid(made.X[:, 0] ** 2 + rng.standard_normal(ROWS))])
    )


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


def mixed_documents() -> Data:
    rng = stream(11)
    topics = np.array([[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.1, 0.15, 0.3, 0.4]])
    shares = on_grid(rng.dirichlet([0.5, 0.7], ROWS)[:, :1])
    laws = shares * topics[0] + (1 - shares) * topics[1]
    return Data(
        np.array(
            [rng.multinomial(m, p) for m, p in zip(rng.randint(6, 20, ROWS), laws, strict=True)]
        )
    )


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


def waves(X: np.ndarray) -> np.ndarray:
    """Features of a user."""
    X = np.asarray(X)
    return np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0]), X[:, 1], np.exp(-np.square(X[:, 1]))])


def lifted(query: Any) -> np.ndarray:
    return np.asarray(query, dtype=float)


WAVES = P.Kernel(waves, lifted)
LINES_3 = ([1.0, -0.5, 2.0, 0.0], [0.0, 1.0, -1.0, -20.0])  # the intercept last
LINES_2 = ([1.0, 2.0, 0.5], [-3.0, 0.0, 0.0])
WHITE = ([1.0, 0.5], [-0.25, 1.0])

CASES: dict[str, Case] = {
    "least_squares": Case(P.LeastSquares(), regression, LINES_3, run="csv"),
    "least_squares_two_targets": Case(
        P.LeastSquares(), two_targets, ([[1.0, 0.0], [2.0, 1.0], [0.5, 0.25]],), run="csv"
    ),
    "least_squares_weights": Case(P.LeastSquares(), weighted, LINES_2),
    "least_squares_groups": Case(P.LeastSquares(), grouped, LINES_2, run="csv"),
    "least_squares_keys": Case(P.LeastSquares(), keyed, LINES_2, container="pandas"),
    "least_squares_everything": Case(
        P.LeastSquares(), everything, LINES_2, container="pandas", run="parquet"
    ),
    "least_squares_sparse": Case(
        P.LeastSquares(), mostly_zero, ([1.0, 0.0, 2.0, -1.0, 0.5],), container="sparse"
    ),
    "ridge_diagonal": Case(P.Ridge(500.0, absorb="diagonal"), regression, LINES_3, run="csv"),
    "ridge_box": Case(P.Ridge(200.0, absorb="box"), regression, LINES_3, run="csv"),
    "l4": Case(P.LpRegression(4), two_columns, LINES_2, run="csv"),
    "l4_diagonal": Case(
        P.LpRegression(4, 300.0, absorb="diagonal"), two_columns, LINES_2, run="csv"
    ),
    "mean": Case(P.Mean(), cloud, ([0.0, 0.0, 0.0], [1.0, 20.0, -3.0]), run="csv"),
    "moments_2": Case(P.Moments(2), cloud, LINES_3, run="csv"),
    "moments_3": Case(P.Moments(3), weighted_cloud, LINES_2, run="csv"),
    "contraction_3": Case(
        P.TensorContraction(3),
        flat_cloud,
        ([1.0, -2.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        run="csv",
    ),
    "contraction_4": Case(P.TensorContraction(4), flat_cloud, ([1.0, 2.0], [0.0, 1.0]), run="csv"),
    "kernel": Case(WAVES, flat_cloud, ([1.0, 0.0, -1.0, 2.0], [0.0, 1.0, 0.0, 0.0]), run="csv"),
    "mixture": Case(P.GaussianMixture(2), mixture, WHITE, sketch=False, run="csv"),
    "mixture_weights": Case(
        P.GaussianMixture(2), weighted_mixture, WHITE, sketch=False, run="parquet"
    ),
    "latent_dirichlet": Case(
        P.LatentDirichlet(2, 1.25), mixed_documents, WHITE, sketch=False, run="csv"
    ),
    "hidden_markov": Case(P.HiddenMarkov(2), symbols, WHITE, sketch=False, run="csv"),
    "ica": Case(P.ICA(2), sources, WHITE, sketch=False, run="csv"),
}


# Containers.


def contained(data: Data, container: str) -> tuple[Any, Any]:
    """X and y as users hand them over; a key column is one of X."""
    if container == "array" or isinstance(data.X, tuple):
        return data.X, data.y
    if container == "sparse":
        return sparse.csr_array(data.X), data.y
    import pandas as pd

    columns = dict(zip(NAMES, data.X.T, strict=False)) | (
        {} if data.keys is None else {"id": data.keys}
    )
    return pd.DataFrame(columns), pd.Series(data.y, name="y")


# Files for coreset_files: in fsspec's memory, whose addresses are the same on every machine.

BATCH = 40


def columns_in_files(data: Data) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """The columns of the files, and the roles that ``coreset_files`` gives them."""
    names = [
        [f"{name}{i}" if len(data.tables) > 1 else name for name in NAMES[: t.shape[1]]]
        for i, t in enumerate(data.tables)
    ]
    columns = {
        n: c.tolist()
        for ns, t in zip(names, data.tables, strict=True)
        for n, c in zip(ns, t.T, strict=True)
    }
    roles: dict[str, Any] = {"columns": names if len(names) > 1 else names[0]}
    if data.y is not None:
        targets = (
            {"y": data.y}
            if data.y.ndim == 1
            else {f"y{i}": column for i, column in enumerate(data.y.T)}
        )
        columns |= {name: column.tolist() for name, column in targets.items()}
        roles["target"] = "y" if data.y.ndim == 1 else list(targets)
    sequence = (
        None if data.lengths is None else np.repeat(np.arange(len(data.lengths)), data.lengths)
    )
    others = {
        "sample_weight": data.weights,
        "groups": data.groups,
        "key": data.keys,
        "sequence": sequence,
    }
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
    """Batches after which a run is interrupted, by the suffix of its checkpoint; latent problems
    read all batches twice.
    """
    return {"run-1": 3, "run-2": ROWS // BATCH + 3} if case.latent else {"run": 3}


def run_options(case: Case, data: Data) -> dict[str, Any]:
    roles = columns_in_files(data)[1]
    return roles | {"problem": case.problem, "batch_rows": BATCH}


def batches(
    case: Case, data: Data, first: int, last: int
) -> list[tuple[tuple[Any, Any], dict[str, Any]]]:
    """Arguments of ``Sketch.update`` for the rows from first to last, BATCH rows at a time."""
    parts = [data.take(slice(start, start + BATCH)) for start in range(first, last, BATCH)]
    return [(contained(part, case.container), part.options()) for part in parts]
