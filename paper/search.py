"""What was tried to find the printed figures that the paper does not say how to compute.

A match means little if many settings were tried.  So every search here counts its settings, and
:func:`chance` says how likely a match would be by chance.  All are computed in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

import karat
from karat.engine.linalg import Array
from karat.models.tensor import decompose, deflate
from paper.measure import kmeans_loss, real_data
from paper.mixtures import literal, literal_problem, unit_rows

STARTS = 30
GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1e8, 500)])  # values of lambda


class Search(NamedTuple):
    """How many settings were tried, the values they gave, and the settings of the best."""

    tried: int
    values: list[float]
    best: float
    setting: str


def chance(values: Sequence[float], printed: float, step: float) -> float:
    """How likely one of the different values would print the same digits if values were spread
    evenly, on a logarithmic scale, between half and twice the printed one.
    """
    near = {round(value / step) for value in values if printed / 2 < value < 2 * printed}
    return float(1.0 - (1.0 - step / (printed * np.log(4.0))) ** len(near))


def by_columns(scale: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Divide the columns by something of each; columns of zeros stay."""
    return lambda X: np.asarray(X / np.where(scale(X) > 0, scale(X), 1.0))


def centred(X: Array) -> Array:
    return np.asarray(X - X.mean(axis=0))


STANDARD = by_columns(lambda X: X.std(axis=0))
ROBUST = by_columns(lambda X: np.quantile(X, 0.75, axis=0) - np.quantile(X, 0.25, axis=0))


def min_max(X: Array) -> Array:
    """Columns between 0 and 1."""
    return by_columns(lambda Z: np.ptp(Z, axis=0))(X - X.min(axis=0))


PREPARATIONS: dict[str, Callable[[Array], Array]] = {
    "as they are": lambda X: X,
    "rows of length 1": unit_rows,
    "rows with sum of sizes 1": lambda X: X / np.abs(X).sum(axis=1, keepdims=True),
    "rows with largest entry 1": lambda X: X / np.abs(X).max(axis=1, keepdims=True),
    "columns between 0 and 1": min_max,
    "columns of largest entry 1": by_columns(lambda X: np.abs(X).max(axis=0)),
    "columns of length 1": by_columns(lambda X: np.linalg.norm(X, axis=0)),
    "columns of variance 1": STANDARD,
    "columns of mean 0 and variance 1": lambda X: STANDARD(centred(X)),
    "columns less their medians, by quartiles": lambda X: ROBUST(X - np.median(X, axis=0)),
    "logarithms": lambda X: np.log1p(np.maximum(X, 0.0)),
    "logarithms, rows of length 1": lambda X: unit_rows(np.log1p(np.maximum(X, 0.0)) + 1e-12),
    "columns of variance 1, rows of length 1": lambda X: unit_rows(STANDARD(X)),
    "columns between 0 and 1, rows of length 1": lambda X: unit_rows(min_max(X)),
}
VARIANCES: dict[str, Callable[[Array, int], float]] = {
    "no variance": lambda values, k: 0.0,
    "smallest eigenvalue": lambda values, k: float(values[0]),
    "mean of the d - k + 1 smallest": lambda values, k: float(values[: len(values) - k + 1].mean()),
}


def method_of_moments(X: Array, k: int) -> Iterator[tuple[str, Array]]:
    """The means of a mixture by the variants of the method: the moments' origin, the divisor of the
    second ones, the variance, and deflation only or vectors followed once more on the whole tensor.
    """
    n, d = X.shape
    for origin, less in product(("origin", "mean"), (0, 1)):
        mean = X.mean(axis=0) if origin == "mean" else np.zeros(d)
        Y = X - mean
        eigenvalues: Array = np.linalg.eigvalsh(np.cov(X.T, bias=True).astype(float))
        for variance, of in VARIANCES.items():
            sigma2 = of(eigenvalues, k)
            values, vectors = np.linalg.eigh(Y.T @ Y / (n - less) - sigma2 * np.eye(d))
            values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
            if values[-1] <= 1e-9 * values[0]:
                continue
            M, B = vectors / np.sqrt(values), vectors * np.sqrt(values)
            z, G = Y @ M, M.T @ M
            T = np.einsum("ni,nj,nl->ijl", z, z, z, optimize=True) / n
            noise = np.einsum("i,jl->ijl", sigma2 * z.mean(axis=0), G)
            T -= noise + noise.transpose(1, 0, 2) + noise.transpose(1, 2, 0)
            for name, (ell, V, _) in {
                "deflated": deflate(T, values, STARTS, 0),
                "followed on the whole tensor": decompose(T, values),
            }.items():
                divisor = "n - 1" if less else "n"
                setting = f"moments about the {origin} by 1 / ({divisor}), {variance}, {name}"
                yield setting, ell[:, None] * V @ B.T + mean


def credit_card(X: Array, k: int, printed: float) -> Search:
    """The k-means loss of Credit card after every preparation and by every variant."""
    tried = [
        (kmeans_loss(prepared, means), f"{name}; {setting}")
        for name, prepare in PREPARATIONS.items()
        for prepared in (prepare(X),)
        for setting, means in method_of_moments(prepared, k)
    ]
    best, setting = min(tried, key=lambda pair: abs(pair[0] - printed))
    return Search(len(tried), [value for value, _ in tried], best, setting)


def fixed_points(X: Array, k: int, starts: int) -> tuple[dict[str, int], int]:
    """The losses that the learner ends at from one start for each component, and how often; and how
    many starts do not end.  Learned from the coreset, which gives the means of all rows.
    """
    found: dict[str, int] = {}
    endless = 0
    with real_data():
        core = karat.coreset(X, problem=literal_problem(k))
        losses: dict[bytes, str] = {}
        for seed in range(starts):
            model = literal(k, 1, seed).fit_coreset(core)
            if not model.recovery_.converged:
                endless += 1
                continue
            means = model.means_
            key = np.round(means[np.lexsort(means.T)], 9).tobytes()
            if key not in losses:
                losses[key] = f"{kmeans_loss(X, means):.2f}"
            found[losses[key]] = found.get(losses[key], 0) + 1
    return dict(sorted(found.items())), endless


def rmse_curve(X: Array, y: Array) -> Array:
    """The RMSE of ridge regression without an intercept at every lambda of the grid."""
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    keep = s > 1e-12 * s[0]
    along, s2 = (U.T @ y)[keep], s[keep] ** 2
    left = (GRID[:, None] / (s2 + GRID[:, None])) * along
    outside = max(float(y @ y - along @ along), 0.0)
    return np.asarray(np.sqrt((outside + np.square(left).sum(axis=1)) / len(y)))


def in_order_of_appearance(y: Array) -> Array:
    """Classes numbered in the order in which they first occur."""
    _, first, codes = np.unique(y, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes].astype(float)


TABLE1: dict[str, Callable[[Array], Array]] = {
    name: PREPARATIONS[name]
    for name in (
        "as they are", "rows of length 1", "columns between 0 and 1", "columns of variance 1",
        "columns of mean 0 and variance 1",
    )
}  # fmt: skip


def ridge_settings(X: Array, y: Array) -> Iterator[tuple[str, Array]]:
    """The RMSE curves of a set for every preparation, numbering of the classes and use of a column
    of ones.
    """
    numbered = {"by name": y, "by appearance": in_order_of_appearance(y)}
    for name, (order, codes), first, ones in product(
        TABLE1, numbered.items(), (0.0, 1.0), (False, True)
    ):
        prepared = TABLE1[name](X)
        table = np.column_stack([prepared, np.ones(len(X))]) if ones else prepared
        column = ", a column of ones" if ones else ""
        setting = f"{name}, classes {order} from {first:g}{column}"
        yield setting, rmse_curve(table, codes + first)


def has_common_list(curves: Sequence[Array], printed: Sequence[str]) -> bool:
    """Whether any list of lambdas, with any repetitions, gives all averages to rounding.

    An average over a list is a convex combination of the values at each lambda; so a linear
    programme over all of the grid decides.
    """
    values = np.array([float(text) for text in printed])
    half = np.array([0.5 * 10.0 ** -len(text.partition(".")[2]) for text in printed])
    A = np.vstack([*curves, *(-curve for curve in curves)])
    b = np.concatenate([values + half, half - values])
    solved = linprog(np.zeros(len(GRID)), A, b, np.ones((1, len(GRID))), [1.0], method="highs")
    return bool(solved.status == 0)


def common_lists(
    sets: Mapping[str, tuple[Array, Array]], printed: Mapping[str, str]
) -> tuple[int, dict[tuple[str, ...], int]]:
    """The number of settings, and in how many of them one list of lambdas gives the averages of
    each set, of pairs with Glass, and of all.
    """
    curves = {name: dict(ridge_settings(*data)) for name, data in sets.items()}
    settings = list(next(iter(curves.values())))
    groups: list[tuple[str, ...]] = [(name,) for name in sets]
    groups += [("Glass", name) for name in sets if name != "Glass" and "Glass" in sets]
    groups += [tuple(sets)]
    fits = {
        group: sum(
            has_common_list(
                [curves[name][setting] for name in group], [printed[name] for name in group]
            )
            for setting in settings
        )
        for group in groups
    }
    return len(settings), fits
