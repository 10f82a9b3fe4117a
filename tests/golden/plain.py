"""Losses of the full data by plain NumPy, in extended precision where the machine has it; nothing
here calls karat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from golden.recipes import Data

from karat import problems as P

Maps = dict[str, np.ndarray]


def loss(
    problem: P.Problem, data: Data, query: Any, maps: Maps | None = None
) -> tuple[float, float]:
    """The loss at a query, and the sum of its absolute terms, to which errors are relative."""
    q = np.asarray(query, dtype=np.longdouble)
    if maps is not None:
        return latent_loss(
            problem,
            data,
            q,
            {name: np.asarray(value, dtype=np.longdouble) for name, value in maps.items()},
        )
    mass = np.asarray(data.mass, dtype=np.longdouble)
    terms, penalty = _terms(problem, data, q)
    return float(mass @ terms + penalty), float(mass @ np.abs(terms) + penalty)


def _terms(problem: P.Problem, data: Data, q: np.ndarray) -> tuple[np.ndarray, Any]:
    """The loss of every row, and what the regulariser adds."""
    if isinstance(problem, P.Transformed):
        return _terms(problem.problem, Data(problem.transform(data.X), data.y), q)
    if isinstance(problem, P.Kernel):
        return problem.function(data.X) @ q, 0
    X = np.asarray(data.X, dtype=np.longdouble)
    if isinstance(problem, P.Mean):
        return np.square(X - q).sum(axis=1), 0
    if isinstance(problem, P.Moments):
        return (q[0] + X @ q[1:]) ** problem.degree, 0
    if isinstance(problem, P.TensorContraction):
        return (X @ q) ** problem.p if q.ndim == 1 else np.prod(X @ q.T, axis=1), 0
    coefficients, intercept = (q[:-1], q[-1]) if len(q) > X.shape[1] else (q, 0)
    power = getattr(problem, "p", 2)
    terms = (X @ coefficients + intercept - data.y) ** power
    penalty = getattr(problem, "alpha", 0.0) * (np.abs(coefficients) ** power).sum()
    return terms if terms.ndim == 1 else terms.sum(axis=1), penalty


def windows(lengths: np.ndarray) -> np.ndarray:
    """The first rows of all windows of three steps."""
    starts = np.cumsum(lengths) - lengths
    return np.concatenate(
        [
            start + np.arange(max(0, length - 2))
            for start, length in zip(starts, lengths, strict=True)
        ]
    )


def three_views(problem: P.Problem, data: Data) -> tuple[np.ndarray, ...]:
    """The views of all samples of a MultiView or HiddenMarkov problem."""
    if isinstance(problem, P.MultiView):
        return data.X
    steps = (
        data.X if problem.emissions == "gaussian" else np.eye(int(data.X.max()) + 1)[data.X[:, 0]]
    )
    return tuple(steps[windows(data.lengths) + a] for a in range(3))


def latent_loss(problem: P.Problem, data: Data, q: np.ndarray, maps: Maps) -> tuple[float, float]:
    """The whitened tensor, contracted with q in every place; the maps are those that the coreset
    stores.
    """
    # since 0.2.0, maps are about the mean and the last coordinate is the constant 1
    centred = maps["M"].shape[1] < len(q)
    q, constant = (q[:-1], q[-1]) if centred else (q, 0.0)
    v = maps["M"] @ q
    if isinstance(problem, P.MultiView | P.HiddenMarkov):
        views = three_views(problem, data)
        if centred:
            views = tuple(view - maps[f"mean{a}"] for a, view in enumerate(views, 1))
        one, two, three = views
        terms = (
            (one @ (maps["W1"] @ q) + constant)
            * (two @ v + constant)
            * (three @ (maps["W3"] @ q) + constant)
        )
        return float(terms.sum()), float(np.abs(terms).sum())
    if isinstance(problem, P.SingleTopic | P.LatentDirichlet):
        return _topics(data, v, maps["m1"], getattr(problem, "alpha0", 0.0))
    mass = np.asarray(data.mass, dtype=np.longdouble)
    if isinstance(problem, P.ICA):
        # before the pairings are taken off
        fourth = float(mass @ ((data.X - maps["mean"]) @ v) ** 4)
        return fourth, fourth
    along = (data.X - maps["mean"]) @ v + constant if centred else data.X @ v
    terms = along**3 - 3 * maps["sigma2"] * (v @ v) * along
    return float(mass @ terms), float(mass @ np.abs(terms))


def _topics(data: Data, v: np.ndarray, m1: np.ndarray, alpha0: float) -> tuple[float, float]:
    counts = data.X[data.X.sum(axis=1) >= 3]
    size = counts.sum(axis=1).astype(np.longdouble)
    once, twice, thrice = counts @ v, counts @ v**2, counts @ v**3
    pairs = (once**2 - twice) / (size * (size - 1))
    triples = (once**3 - 3 * once * twice + 2 * thrice) / (size * (size - 1) * (size - 2))
    mean = m1 @ v
    less, more = alpha0 / (alpha0 + 2), 2 * alpha0**2 / ((alpha0 + 1) * (alpha0 + 2))
    terms = triples - 3 * less * mean * pairs + more * mean**3
    return float(terms.sum()), float(np.abs(terms).sum())


def cells(
    columns: dict[str, np.ndarray], by: tuple[str, ...], names: list[str], weight: str | None = None
) -> list[dict[str, Any]]:
    """Of every cell, in the order of labels: its labels as text, its rows, and the second moments
    of ``[1 | columns]``.
    """
    labels = list(zip(*(columns[name].astype(str).tolist() for name in by), strict=True))
    table = np.column_stack([np.ones(len(labels)), *(columns[name] for name in names)]).astype(
        np.longdouble
    )
    mass = np.ones(len(labels)) if weight is None else columns[weight]
    found = []
    for label in sorted(set(labels)):
        own = np.array([one == label for one in labels])
        rows = table[own]
        moments = (rows * mass[own, None]).T @ rows
        found.append(
            {
                "label": list(label),
                "rows": int(own.sum()),
                "moments": moments.astype(float).tolist(),
            }
        )
    return found
