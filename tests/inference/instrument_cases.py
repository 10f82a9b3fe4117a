"""Random regressions with instruments, and two-stage least squares in long double."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

KINDS = ("nonrobust", "HC0", "HC1", "cluster")


class Case(NamedTuple):
    """A frame, and the names of its columns by role."""

    frame: pd.DataFrame
    exogenous: list[str]
    endogenous: list[str]
    instruments: list[str]
    weights: str | None

    @property
    def formula(self) -> str:
        outside = " + ".join(self.exogenous) or "1"
        endogenous, instruments = " + ".join(self.endogenous), " + ".join(self.instruments)
        return f"y ~ {outside} + [{endogenous} ~ {instruments}]"


def random_case(seed: int, offset: float = 0.0) -> Case:
    """Errors that are heteroskedastic, alike within clusters, and related to the regressors."""
    rng = np.random.default_rng(seed)
    n, many = int(rng.integers(300, 2000)), int(rng.integers(1, 3))
    few, more = int(rng.integers(0, 4)), many + int(rng.integers(0, 3))
    w, z = rng.standard_normal((n, few)), rng.standard_normal((n, more))
    u, g = rng.standard_normal(n), rng.integers(0, 40, n)
    e = z @ rng.standard_normal((more, many)) * 0.5 + 0.3 * w.sum(1)[:, None] + 0.5 * u[:, None]
    e += rng.standard_normal((n, many))
    noise = u * (1 + 0.5 * np.abs(z[:, 0])) + 0.5 * rng.standard_normal(40)[g]
    scales = 10.0 ** rng.integers(-2, 3, few + more + many)
    columns = np.column_stack([w, z, e]) * scales + offset * scales
    y = 1 + e.sum(1) + 0.2 * w.sum(1) + noise
    names = [f"{role}{i}" for role, k in (("w", few), ("z", more), ("e", many)) for i in range(k)]
    frame = pd.DataFrame(columns, columns=names)
    frame = frame.assign(y=y, g=g, p=rng.uniform(0.5, 2.0, n))
    exogenous, instruments = names[:few], names[few : few + more]
    return Case(frame, exogenous, names[few + more :], instruments, "p" if seed % 4 == 3 else None)


def in_long_double(case: Case) -> dict[str, Any]:
    """The numbers of a table from all rows, by orthogonal columns in long double."""
    frame = case.frame.astype(np.longdouble)
    n = len(frame)
    p = np.ones(n, np.longdouble) if case.weights is None else frame[case.weights].to_numpy()
    one = np.ones((n, 1), np.longdouble)
    w = np.column_stack([one, frame[case.exogenous].to_numpy()])
    z, e, y = (frame[names].to_numpy() for names in (case.instruments, case.endogenous, ["y"]))
    first, whole = np.column_stack([w, z]), np.column_stack([w, e])
    k, columns, count = whole.shape[1], first.shape[1], z.shape[1]
    root = np.sqrt(p)[:, None]
    labels = case.frame["g"].to_numpy()

    def meat(q: Any, errors: Any, kind: str, parameters: int) -> Any:
        """The middle in orthonormal columns q, of rows times the roots of the weights."""
        if kind == "nonrobust":
            return (errors @ errors) / (n - parameters) * np.eye(q.shape[1], dtype=np.longdouble)
        scores = q * errors[:, None]
        if kind != "cluster":
            return scores.T @ scores * (1 if kind == "HC0" else n / np.longdouble(n - parameters))
        groups = np.unique(labels)
        sums = np.array([scores[labels == label].sum(axis=0) for label in groups])
        factor = len(groups) * np.longdouble(n - 1) / ((len(groups) - 1) * (n - parameters))
        return sums.T @ sums * factor

    q, _ = orthonormal(root * first)
    projected = (q @ (q.T @ (root * whole)), (root * y)[:, 0])
    second, triangle = orthonormal(projected[0])
    params = back_substituted(triangle, second.T @ projected[1])
    errors = projected[1] - (root * whole) @ params
    inverse = np.array(
        [back_substituted(triangle, unit) for unit in np.eye(k, dtype=np.longdouble)]
    )
    result: dict[str, Any] = {"params": params}
    for kind in KINDS:
        variances = np.einsum("ji,jk,ki->i", inverse, meat(second, errors, kind, k), inverse)
        result[kind] = np.sqrt(variances)
    apart = q[:, -count:]
    left = root * e - q @ (q.T @ (root * e))
    for kind in KINDS:
        strength = []
        for column, rest in zip((root * e).T, left.T, strict=True):
            gap, middle = apart.T @ column, meat(apart, rest, kind, columns)
            triangular = np.linalg.cholesky(np.asarray(middle, dtype=float))
            solved = np.linalg.solve(triangular, np.asarray(gap, dtype=float))
            strength.append([solved @ solved / count, gap @ gap / np.trace(middle)])
        result[f"first {kind}"] = np.array(strength)
    onto = q.T @ errors
    result["sargan"] = n * (onto @ onto) / (errors @ errors)
    both, _ = orthonormal(np.column_stack([root * whole, left]))
    beside = both[:, k:].T @ projected[1]
    rest = projected[1] - both @ (both.T @ projected[1])
    freedom = n - k - len(case.endogenous)
    result["wu_hausman"] = (beside @ beside) / len(beside) / ((rest @ rest) / freedom)
    return {name: np.asarray(value, dtype=float) for name, value in result.items()}


def orthonormal(columns: Any) -> tuple[Any, Any]:
    """Q and R by Gram and Schmidt, twice."""
    q, r = np.empty_like(columns), np.zeros((columns.shape[1],) * 2, np.longdouble)
    for place, column in enumerate(columns.T):
        rest = column.copy()
        for _ in range(2):
            part = q[:, :place].T @ rest
            r[:place, place] += part
            rest -= q[:, :place] @ part
        r[place, place] = np.sqrt(rest @ rest)
        q[:, place] = rest / r[place, place]
    return q, r


def back_substituted(triangle: Any, values: Any) -> Any:
    """The solution of triangle @ x = values."""
    x = np.zeros_like(values)
    for place in reversed(range(len(x))):
        x[place] = (values[place] - triangle[place, place + 1 :] @ x[place + 1 :]) / triangle[
            place, place
        ]
    return x
